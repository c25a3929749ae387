"""The state of a group, derived from its members; and what a gang lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.state.groups.gangs import LiveGang

_ENDED = {
    JobState.COMPLETED: "has completed",
    JobState.FAILED: "has failed",
    JobState.CANCELLED: "was cancelled",
    JobState.STOPPED: "was stopped",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSummary:
    """The state of a group, in the words of jobs."""

    state: JobState | None = None
    """`running` while a member holds slots, `pending` while one waits, `held` if all that have not
    ended are held; then how the group ended. None: no member's record is left."""
    needed: int = 0
    """How many members of a gang must run besides those that have completed."""
    ready: int = 0
    """Number of members that wait for nothing but slots."""
    missing: tuple[str, ...] = ()
    """Mandatory members of a gang that neither wait for slots, nor hold them, nor have
    completed."""
    message: str = ""
    """Why a gang ended without completing, or cannot start any more, as a sentence."""


def summary_of(group: Group, jobs: Sequence[Job], *, goal_met: bool = False) -> GroupSummary:
    """Summarize the group. `jobs`: its members with records, each replaced by its latest retry.
    `goal_met`: a member of a sweep has reached the goal, so the other ends do not matter."""
    ready = sum(job.waits for job in jobs)
    if group.max_parallel is not None:
        completed = goal_met or _all_completed(jobs)
        return GroupSummary(state=_state(jobs, completed=completed), ready=ready)
    gang = _gang(group, jobs)
    here = {job.name for job in jobs if job.waits or job.active}
    state = _state(jobs, completed=_has_completed(gang, jobs))
    return GroupSummary(
        state=state,
        needed=gang.needed,
        ready=ready,
        missing=tuple(sorted(gang.mandatory - here)),
        message="" if state is JobState.COMPLETED else _trouble(gang, jobs),
    )


def _gang(group: Group, jobs: Sequence[Job]) -> LiveGang:
    """The gang, from its members alone."""
    ended = {job.name: job.state for job in jobs if job.terminal}
    return LiveGang(
        group=replace(group, ended={**group.ended, **ended}),
        waiting=tuple(job for job in jobs if job.waits),
        active=tuple(job for job in jobs if job.active),
    )


def _state(jobs: Sequence[Job], *, completed: bool) -> JobState | None:
    living = [job.state for job in jobs if not job.terminal]
    if any(job.active for job in jobs):
        return JobState.RUNNING
    if living:
        return JobState.HELD if {*living} == {JobState.HELD} else JobState.PENDING
    if not jobs:
        return None
    if completed:
        return JobState.COMPLETED
    failed = any(job.state is JobState.FAILED for job in jobs)
    return JobState.FAILED if failed else JobState.CANCELLED


def _has_completed(gang: LiveGang, jobs: Sequence[Job]) -> bool:
    """Whether enough of a gang has completed: the member that it ends with, where there is one."""
    if gang.group.ends_with:
        return gang.group.ended.get(gang.group.ends_with) is JobState.COMPLETED
    some = any(job.state is JobState.COMPLETED for job in jobs)
    return some and gang.needed == 0 and not gang.mandatory


def _all_completed(jobs: Sequence[Job]) -> bool:
    return all(job.state is JobState.COMPLETED for job in jobs)


def _trouble(gang: LiveGang, jobs: Sequence[Job]) -> str:
    """What has broken the gang; empty if it is whole, or can be."""
    if not gang.broken:
        return ""
    ended = gang.group.ended
    if lost := sorted(name for name in gang.mandatory if name in ended):
        return f"{_ending(lost[0], jobs)}, and the gang does not run without it"
    left = sum(name not in ended for name in gang.group.members)
    failed = sorted(name for name, state in ended.items() if state is JobState.FAILED)
    why = f": {_ending(failed[0], jobs)}" if failed else ""
    return f"{gang.needed} of its jobs must run at once, and {left or 'none'} can still run{why}"


def _ending(name: str, jobs: Sequence[Job]) -> str:
    """How the member has ended."""
    found = next((job for job in jobs if job.name == name), None)
    if found is None:
        return f"{name} has ended"
    said = f"{name} {_ENDED.get(found.state, found.state)}"
    return f"{said} ({found.message})" if found.message else said
