"""Sweeps: the retries that replace members, and the end when a member reaches the goal.

A retry of a member is a job under the member's next name (`resubmission`), in the same group. So it
counts in the sweep's `max_parallel`, and the member's name leads to it. The names of retries end
before the name of another member: a later name would be ambiguous, so such a job belongs to no
member.

Every member of a sweep with a goal is `followed`, and so is every retry. So each end stays in the
store as a task until a pass has processed it here: a later pass finishes what a dead handler has
left. A pass does this before planning, so no member starts after the goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile

from slotq_core.errors import Conflict, NotUnderstood, Unavailable
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.policy.lifecycle.apply import no_longer_needed
from slotq_core.ports.jobs import Groups
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock
from slotq_core.privacy.identity import People
from slotq_core.wire.resubmission import MOST_NAMES, next_names

_TRIES = 20
"""How often a conditional change of one job is tried while others change the same job."""


def latest_retry(job: Job, group: Group, read: Callable[[str], Job | None]) -> Job:
    """The latest retry of this member, or the member's own job. `read` returns a job by name. Only
    members of sweeps have retries."""
    if group.max_parallel is None:
        return job
    for name in islice(_names_of_retries(job.name, group), MOST_NAMES):
        if not ended_incomplete(job):
            break
        following = read(name)
        if following is None:
            break
        if following.group == group.name:
            job = following
    return job


def latest_jobs(group: Group, store: Store) -> dict[str, Job]:
    """The jobs of the members, each its latest retry, by the member's name. A name may by now
    belong to another group's job. An unreadable record is left out: an operator repairs it."""

    def latest(job: Job) -> Job | None:
        with suppress(NotUnderstood):
            return latest_retry(job, group, store.jobs.get)
        return None

    found = store.jobs.several(group.members, readable_only=True).values()
    own = [job for job in found if job.group == group.name]
    jobs = zip(own, store.at_once(latest, own), strict=True)
    return {member.name: job for member, job in jobs if job is not None}


def _names_of_retries(name: str, group: Group) -> Iterator[str]:
    """The names that follow this one, up to another member's, or to one that had to be cut."""
    stems = {name, name.rpartition("-r")[0]}

    def is_clear(following: str) -> bool:
        return following.rpartition("-r")[0] in stems and following not in group.members

    return takewhile(is_clear, next_names(name))


def ended_incomplete(job: Job) -> bool:
    """Whether the job has ended without completing."""
    return job.terminal and job.state is not JobState.COMPLETED


def sweep_of_retry(
    submission: Submission, job: Job, groups: Groups, *, by: str, people: People
) -> StoredGroup | None:
    """The sweep that a retry of this job joins: the job's own, if the same person submits both in
    the same project, under one of the names of retries."""
    stored = groups.get(job.group) if job.group else None
    if stored is None or stored.group.max_parallel is None:
        return None
    same_person = people.person(stored.submitter) == people.person(by)
    same = same_person and submission.project == job.project
    names = islice(_names_of_retries(job.name, stored.group), MOST_NAMES)
    return stored if same and submission.name in names else None


class SweepGoals:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def take_in(self, ended: Job, *, until: int) -> list[Job]:
        """Process the end of a job: if this member reached the sweep's goal, cancel the other
        members. Returns the jobs to stop now. May be repeated. Raises Unavailable if no time is
        left (`until`, ms), or after `_TRIES` conflicts."""
        if not ended.group or ended.state is not JobState.COMPLETED or not ended.metrics:
            return []
        stored = self._store.groups.get(ended.group)
        if stored is None or not stored.reaches_goal(ended):
            return []
        if stored.met_by not in {"", ended.name}:
            return []  # The end of that one is a task too.
        if not stored.met_by:
            self._store.groups.meet(ended.group, job=ended.name)
        members = latest_jobs(stored.group, self._store)
        return self._cancel([*members.values()], ended.name, until)

    def _cancel(self, jobs: Sequence[Job], met_by: str, until: int) -> list[Job]:
        changes = [change for job in jobs if (change := self._change(job, met_by))]
        stopping: list[Job] = []
        while changes:
            if self._clock.now() >= until:
                raise Unavailable("there is no time left to cancel the rest; a later pass goes on")
            count = self._store.decisions.fitting(changes)
            try:
                done: Sequence[Job] = self._store.decisions.commit(changes[:count])
            except Conflict:
                done = [self._alone(change.before, met_by) for change in changes[:count]]
            stopping += [job for job in done if not job.terminal]
            changes = changes[count:]
        return stopping

    def _change(self, job: Job, met_by: str) -> Change | None:
        after = no_longer_needed(job, met_by, self._clock.now())
        return None if after == job else Change(before=job, after=after)

    def _alone(self, before: Job, met_by: str) -> Job:
        job = before
        for _ in range(_TRIES):
            job = self._store.jobs.get(job.name) or job
            change = self._change(job, met_by)
            if change is None:
                return job
            try:
                return self._store.decisions.commit([change])[0]
            except Conflict:
                continue
        raise Unavailable(f"job {job.name} keeps changing; a later pass cancels it")
