"""Jobs that come after others (DESIGN 5.4: dependencies `after`).

A job waits until all jobs that it comes after have completed; until then it is `pending`, but
stands in no line, has no place in the order and asks for no share. Its entry time is that of its
submission all the same. If one of them ends otherwise, it is cancelled (cause `dependency`), and so
in turn is what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from slotq_core.errors import InvalidRequest
from slotq_core.lifecycle import move
from slotq_core.model.jobs import TERMINAL_STATES, Job, JobState

DEPENDENCY = "dependency"
"""`Job.cause` of what was cancelled because a job before it did not complete."""

MAX_AFTER = 50
"""A job comes after at most so many others: their names are kept in its item."""


def still_to_come(after: Sequence[str], states: Mapping[str, JobState]) -> tuple[str, ...]:
    """At the door: which of these jobs the new one has to wait for. `states`: of the jobs that the
    queue knows. Raises InvalidRequest for one that it does not know, or that can never complete.

    Nothing can go round in a circle: whatever a job comes after was there before it.
    """
    if len(after) > MAX_AFTER:
        raise _refused(f"a job comes after at most {MAX_AFTER} others, not {len(after)}")
    for name in after:
        if name not in states:
            raise _refused(f"it comes after '{name}', and there is no such job")
        if states[name] in TERMINAL_STATES and states[name] is not JobState.COMPLETED:
            raise _refused(
                f"it comes after '{name}', which has not completed: it {_ended(states[name])}"
            )
    return tuple(name for name in dict.fromkeys(after) if states[name] is not JobState.COMPLETED)


def consequences(
    name: str, end: str, followers: Callable[[str], Iterable[Job]], now: int
) -> list[tuple[Job, Job]]:
    """What the end of a job means for those that come after it, each before and after, and for
    those that come after these.

    `end`: its terminal state, or `refused`. `followers`: those that wait for the job of that name.
    """
    before: dict[str, Job] = {}
    changed: dict[str, Job] = {}
    ended = [(name, end)]
    for each, how in ended:
        for job in followers(each):
            current = changed.get(job.name, job)
            if each not in current.after or current.terminal:
                continue
            before.setdefault(job.name, job)
            changed[job.name] = _without(current, each, how, now)
            if changed[job.name].terminal:
                ended.append((job.name, JobState.CANCELLED))
    return [(before[name], after) for name, after in changed.items()]


def circle(after: Mapping[str, Iterable[str]]) -> list[str]:
    """A way round through these dependencies, its first and last name the same; empty: there is
    none. The same for every order of the mapping."""
    done: set[str] = set()
    for start in sorted(after):
        path: dict[str, None] = {}  # In order.
        steps = [iter([start])]
        while steps:
            name = next(steps[-1], None)
            if name is None:
                steps.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                way = list(path)
                return [*way[way.index(name) :], name]
            elif name not in done:
                path[name] = None
                steps.append(iter(sorted(after.get(name, ()))))
    return []


def _without(job: Job, name: str, end: str, now: int) -> Job:
    if end == JobState.COMPLETED:
        return replace(job, after=tuple(each for each in job.after if each != name))
    message = f"it came after {name}, which has not completed: it {_ended(end)}"
    return move(job, JobState.CANCELLED, at=now, cause=DEPENDENCY, message=message)


def _ended(end: str) -> str:
    """As part of a sentence: `it failed`, `it was cancelled`."""
    return end if end == JobState.FAILED else f"was {end}"


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="Tags")
