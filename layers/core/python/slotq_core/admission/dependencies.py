"""Jobs that come after others, or after groups.

A job waits until all jobs that it comes after have completed, or have ended in any way if it comes
after their end (`after_any`). Until then it is `pending`, but has no line, no place in the order
and no share. Its entry time is still that of its submission. If one of the jobs that must complete
ends in another way, the job is cancelled (cause `dependency`), and so are the jobs after it.

A group has ended when all its members have; only then is it decided whether the group has completed
(`progress_of`).

See docs/policy-decisions.md#dependencies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slotq_core.errors import InvalidRequest
from slotq_core.lifecycle import move
from slotq_core.model.groups import LEFT_OUT, Group, end_of
from slotq_core.model.jobs import GROUP_END, MAX_AFTER, TERMINAL_STATES, Job, JobState
from slotq_core.policy.state.groups.gangs import LiveGang

DEPENDENCY = "dependency"
"""The cause of a job that is cancelled because an earlier job did not complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupProgress:
    """The progress of a group that jobs come after."""

    living: Job | None = None
    """Its first member that has not ended; None: all have."""
    trouble: str = ""
    """Why an ended group has not completed, as part of a sentence; empty: it has completed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Predecessors:
    """The existing jobs and groups that a new job comes after and its submitter may see."""

    jobs: Mapping[str, Job]
    """By name."""
    groups: Mapping[str, GroupProgress]
    """By `group:NAME`."""

    def full(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names, with groups marked as `group:NAME`. A plain name means a job, or else a
        group."""
        return tuple(
            end_of(name) if name not in self.jobs and end_of(name) in self.groups else name
            for name in names
        )

    @property
    def to_follow(self) -> Mapping[str, Job]:
        """By name, the jobs whose ends a new job may wait for."""
        watches = (progress.living for progress in self.groups.values())
        return {**self.jobs, **{job.name: job for job in watches if job}}

    def once_followed(self) -> Predecessors:
        """These predecessors after `to_follow` was followed."""
        return Predecessors(
            jobs={name: replace(job, followed=True) for name, job in self.jobs.items()},
            groups={
                name: replace(
                    progress, living=progress.living and replace(progress.living, followed=True)
                )
                for name, progress in self.groups.items()
            },
        )


def progress_of(
    group: Group,
    members: Iterable[tuple[str, Job | None]],
    *,
    goal_met: Callable[[Iterable[Job]], bool] = lambda _: False,
) -> GroupProgress:
    """The progress of a group, from its members by name, in order; None: the record has expired.
    Reads no member behind the first that has not ended.

    A sweep has completed if all its members have, or if they have met its goal (`goal_met`). A gang
    has completed if enough of them have, by its own rules. Members that were left out do not count.
    """
    found: dict[str, Job | None] = {}
    for name, job in members:
        if job is not None and not job.terminal:
            return GroupProgress(living=job)
        if job is None or job.cause != LEFT_OUT:
            found[name] = job
    if group.max_parallel is not None and goal_met(job for job in found.values() if job):
        return GroupProgress()
    return progress_at_end(group, {name: job.state if job else None for name, job in found.items()})


def progress_at_end(group: Group, ended: Mapping[str, JobState | None]) -> GroupProgress:
    """The progress of a group whose members have all ended, from their states; None: the record has
    expired. Members that were left out do not count."""
    enough = _all_completed(ended) if group.max_parallel is not None else _enough(group, ended)
    return GroupProgress(trouble="" if enough else _trouble(group, ended))


NO_GROUPS: Mapping[str, GroupProgress] = {}


def _all_completed(ended: Mapping[str, JobState | None]) -> bool:
    return all(state is JobState.COMPLETED for state in ended.values())


def _enough(group: Group, ended: Mapping[str, JobState | None]) -> bool:
    """Whether enough of a gang has completed."""
    states = {name: state for name, state in ended.items() if state is not None}
    whole = dict.fromkeys(group.members, JobState.CANCELLED) | states
    gang = LiveGang(group=replace(group, ended=whole), waiting=(), active=())
    return JobState.COMPLETED in states.values() and not gang.needed and not gang.mandatory


def _trouble(group: Group, ended: Mapping[str, JobState | None]) -> str:
    first = [name for name in group.mandatory if name in ended]
    for name in (*first, *ended):
        state = ended[name]
        if state is None:
            return f"the record of its member {name} has expired"
        if state is not JobState.COMPLETED:
            return f"its member {name} {_ended(state)}"
    return "none of its members has"


def check_dependencies(name: str, after: Sequence[str], after_any: Sequence[str]) -> None:
    """Check the dependencies of a new job by themselves. Raises InvalidRequest if there are too
    many, or if the job comes after itself."""
    named = {*after, *after_any}
    if len(named) > MAX_AFTER:
        raise _refused(f"a job may come after at most {MAX_AFTER} others, not {len(named)}")
    if name in named:
        raise _refused(f"'{name}' cannot come after itself")


def incomplete_dependencies(
    after: Sequence[str],
    states: Mapping[str, JobState],
    groups: Mapping[str, GroupProgress] = NO_GROUPS,
) -> tuple[str, ...]:
    """The jobs and groups in `after` that a new job has to wait for.

    `states` holds the states of known jobs, `groups` the progress of known groups, by `group:NAME`.
    Raises InvalidRequest for an unknown job or group, or one that ended without completing. No
    cycle can arise: a job comes after existing jobs and groups only."""
    for name in after:
        _check_known(name, states, groups)
        if name in groups:
            _check_group(name, groups[name])
        elif states[name] in TERMINAL_STATES and states[name] is not JobState.COMPLETED:
            raise _refused(
                f"it comes after '{name}', which has not completed: it {_ended(states[name])}"
            )
    return tuple(
        name
        for name in dict.fromkeys(after)
        if (groups[name].living if name in groups else states[name] is not JobState.COMPLETED)
    )


def unended_dependencies(
    after_any: Sequence[str],
    states: Mapping[str, JobState],
    groups: Mapping[str, GroupProgress] = NO_GROUPS,
) -> tuple[str, ...]:
    """The jobs and groups in `after_any` that a new job has to wait for. Raises InvalidRequest for
    an unknown one."""
    for name in after_any:
        _check_known(name, states, groups)
    return tuple(
        name
        for name in dict.fromkeys(after_any)
        if (groups[name].living if name in groups else states[name] not in TERMINAL_STATES)
    )


def check_members(
    group: str, after: Mapping[str, Sequence[str]], *, gang: bool
) -> tuple[tuple[str, ...], ...]:
    """A new group's members in waves: each comes after members of earlier waves only.

    `after` maps the members, in the order of the submission, to all that they come after. Raises
    InvalidRequest, with the cycle, if they come after each other or after their own group, or if
    members of a `gang` come after each other: they start together.
    """
    if found := circle({**after, end_of(group): after}):
        cycle = " -> ".join(f"group {group}" if name == end_of(group) else name for name in found)
        message = f"the members come after each other in a circle: {cycle}"
        raise InvalidRequest(message, field="after")
    ahead = {
        name: {predecessor for predecessor in predecessors if predecessor in after}
        for name, predecessors in after.items()
    }
    if gang and (
        late := next((name for name, predecessors in ahead.items() if predecessors), None)
    ):
        message = f"'{late}' comes after another member of its gang, but they start together"
        raise InvalidRequest(message, field="after")
    return _waves(ahead)


def _waves(ahead: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """The names of a graph without cycles in waves: each name in a later wave than all names that
    it maps to. Visits each edge once."""
    place = {name: number for number, name in enumerate(ahead)}
    left = {name: len(predecessors) for name, predecessors in ahead.items()}
    behind = defaultdict[str, list[str]](list)
    for name, predecessors in ahead.items():
        for predecessor in predecessors:
            behind[predecessor].append(name)
    waves: list[tuple[str, ...]] = []
    wave = tuple(name for name, number in left.items() if not number)
    while wave:
        waves.append(wave)
        for name in (follower for member in wave for follower in behind[member]):
            left[name] -= 1
        freed = {name for member in wave for name in behind[member] if not left[name]}
        wave = tuple(sorted(freed, key=place.__getitem__))
    return tuple(waves)


def _check_known(
    name: str, states: Mapping[str, JobState], groups: Mapping[str, GroupProgress]
) -> None:
    if name not in states and name not in groups:
        group = name.removeprefix(GROUP_END)
        unknown = f"'{name}', but there is no such job or group"
        if group != name:
            unknown = f"group '{group}', but there is no such group"
        raise _refused(f"it comes after {unknown}")


def _check_group(name: str, progress: GroupProgress) -> None:
    if progress.trouble:
        group = name.removeprefix(GROUP_END)
        raise _refused(
            f"it comes after group '{group}', which has not completed: {progress.trouble}"
        )


def consequences(
    name: str, end: JobState, followers: Callable[[str], Iterable[Job]], now: int
) -> list[tuple[Job, Job]]:
    """The changes that a job's end causes, directly and indirectly, in its dependents: each job
    before and after.

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
    return _without(job, name, now)


def after_end_of_group(job: Job, group: str, progress: GroupProgress, now: int) -> Job:
    """The job after members of a group that it waits for have ended."""
    name = end_of(group)
    if progress.trouble and name in job.after:
        message = f"it came after group {group}, which has not completed: {progress.trouble}"
        return move(job, JobState.CANCELLED, at=now, cause=DEPENDENCY, message=message)
    return job if progress.living else _without(job, name, now)


def _without(job: Job, name: str, now: int) -> Job:
    """The job, which no longer waits for `name`. Its wait for slots begins with the last such end
    (`Job.changed_at`); the time before does not count."""
    freed = replace(
        job,
        after=tuple(other for other in job.after if other != name),
        after_any=tuple(other for other in job.after_any if other != name),
    )
    return replace(freed, changed_at=now) if freed.waits and not job.waits else freed


def _ended(end: JobState) -> str:
    """The end as part of a sentence: `failed`, `was cancelled`."""
    return end if end == JobState.FAILED else f"was {end}"


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="Tags")
