"""Cancel the rest of a sweep when a member reaches the goal.

Every member of a sweep with a goal is `followed`, and so is every retry. So each end stays in the
store as a task until a pass has processed it here: a later pass finishes what a dead handler has
left. A pass does this before planning, so no member starts after the goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from slotq_core.errors import Conflict, NotUnderstood, Unavailable
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.jobs.sweep_members import latest_retry
from slotq_core.policy.lifecycle.apply import no_longer_needed
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock

_TRIES = 20
"""How often a conditional change of one job is tried while others change the same job."""


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
        members = self._store.at_once(
            lambda name: self._latest(name, stored.group), stored.group.members
        )
        return self._cancel([job for job in members if job is not None], ended.name, until)

    def _latest(self, member: str, group: Group) -> Job | None:
        """The member's job or its latest retry; None: no record exists, or it is unreadable."""
        with suppress(NotUnderstood):
            job = self._store.jobs.get(member)
            if job is not None and job.group == group.name:
                return latest_retry(job, group, self._store.jobs.get)
        return None

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
