"""Jobs that come after others (DESIGN 5.4: dependencies `after`).

A job waits until all jobs that it comes after have completed, or have ended in any way if it comes
after their end (`after_any`). Until then it is `pending`, but has no line, no place in the order
and no share. Its entry time is still that of its submission. If one of the jobs that must complete
ends in another way, the job is cancelled (cause `dependency`), and so are the jobs after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from slotq_core.errors import InvalidRequest
from slotq_core.lifecycle import move
from slotq_core.model.jobs import TERMINAL_STATES, Job, JobState

DEPENDENCY = "dependency"
"""The cause of a job that is cancelled because an earlier job did not complete."""

MAX_AFTER = 45
"""The most jobs that one job may come after, of both kinds. The submission's transaction has two
actions for each, and at most 100."""


def check_dependencies(name: str, after: Sequence[str], after_any: Sequence[str]) -> None:
    """Check the dependencies of a new job by themselves. Raises InvalidRequest if there are too
    many, or if the job comes after itself."""
    named = {*after, *after_any}
    if len(named) > MAX_AFTER:
        raise _refused(f"a job may come after at most {MAX_AFTER} others, not {len(named)}")
    if name in named:
        raise _refused(f"'{name}' cannot come after itself")


def incomplete_dependencies(
    after: Sequence[str], states: Mapping[str, JobState]
) -> tuple[str, ...]:
    """The jobs in `after` that a new job has to wait for.

    `states` holds the states of known jobs. Raises InvalidRequest for an unknown job, or one that
    ended without completing. No cycle can arise: a job comes after existing jobs only.
    """
    for name in after:
        _check_known(name, states)
        if states[name] in TERMINAL_STATES and states[name] is not JobState.COMPLETED:
            raise _refused(
                f"it comes after '{name}', which has not completed: it {_ended(states[name])}"
            )
    return tuple(name for name in dict.fromkeys(after) if states[name] is not JobState.COMPLETED)


def unended_dependencies(
    after_any: Sequence[str], states: Mapping[str, JobState]
) -> tuple[str, ...]:
    """The jobs in `after_any` that a new job has to wait for. Raises InvalidRequest for an unknown
    job."""
    for name in after_any:
        _check_known(name, states)
    return tuple(name for name in dict.fromkeys(after_any) if states[name] not in TERMINAL_STATES)


def _check_known(name: str, states: Mapping[str, JobState]) -> None:
    if name not in states:
        raise _refused(f"it comes after '{name}', but there is no such job")


def consequences(
    name: str, end: JobState, followers: Callable[[str], Iterable[Job]], now: int
) -> list[tuple[Job, Job]]:
    """The changes that a job's end causes, directly and indirectly, in jobs that come after it:
    each before and after.

    `end` is the job's terminal state. `followers` returns the jobs that wait for the named job.
    """
    before: dict[str, Job] = {}
    changed: dict[str, Job] = {}
    ended = [(name, end)]
    for ended_name, outcome in ended:
        for job in followers(ended_name):
            current = changed.get(job.name, job)
            if ended_name not in current.waits_for:
                continue
            before.setdefault(job.name, job)
            changed[job.name] = after_end_of(current, ended_name, outcome, now)
            if changed[job.name].terminal:
                ended.append((job.name, JobState.CANCELLED))
    return [(before[name], after) for name, after in changed.items()]


def circle(after: Mapping[str, Iterable[str]]) -> list[str]:
    """A cycle in these dependencies, its first and last name the same; empty: none. The result does
    not depend on the mapping's order."""
    done: set[str] = set()
    for start in sorted(after):
        path: dict[str, None] = {}  # A dict keeps the order.
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


def after_end_of(job: Job, name: str, end: JobState, now: int) -> Job:
    """The job after the end of a job that it waits for."""
    if end is not JobState.COMPLETED and name in job.after:
        message = f"it came after {name}, which has not completed: it {_ended(end)}"
        return move(job, JobState.CANCELLED, at=now, cause=DEPENDENCY, message=message)
    return replace(
        job,
        after=tuple(each for each in job.after if each != name),
        after_any=tuple(each for each in job.after_any if each != name),
    )


def _ended(end: JobState) -> str:
    """The end as part of a sentence: `failed`, `was cancelled`."""
    return end if end == JobState.FAILED else f"was {end}"


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="Tags")
