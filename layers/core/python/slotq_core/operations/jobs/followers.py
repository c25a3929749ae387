"""Dependencies on jobs, and on groups (`group_watch`): looked up at submission; an end frees or
cancels the dependents.

A job that may have dependents is `followed`. Its end stays in the store as a task until the
dependents are notified, so any later pass finishes the work of a dead handler. Notifying may be
repeated: a job that no longer waits for the ended one does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from slotq_core.admission.dependencies import (
    Predecessors,
    after_end_of,
    after_end_of_group,
)
from slotq_core.errors import Conflict, SlotQError, Unavailable
from slotq_core.model.groups import end_of
from slotq_core.model.jobs import Job
from slotq_core.names import is_job
from slotq_core.operations.jobs.group_watch import GroupWatch
from slotq_core.operations.jobs.sweeps import SweepGoals
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock, InParallel, one_by_one

K = TypeVar("K", bound=Hashable)

_TRIES = 20
"""How often a conditional change of one job is tried while others change the same job."""

_MOST_ACTIONS = 90
"""Actions in one transaction, of the store's 100. A job takes three, and one more for each other
job that it waits for."""


class Followers:
    def __init__(self, store: Store, clock: Clock, at_once: InParallel = one_by_one) -> None:
        """Set up the changes. `at_once` commits several transactions at once."""
        self._store, self._clock, self._at_once = store, clock, at_once
        self._groups = GroupWatch(store, self._follow)

    def predecessors(
        self, names: Iterable[str], *, sees: Callable[[Job], bool], by: str, ours: Container[str]
    ) -> Predecessors:
        """The jobs and groups of these names, without those that do not exist, or that caller `by`
        may not see (`sees`). Not looked for as groups: `ours`, jobs that are yet to be stored."""
        wanted = [*dict.fromkeys(names)]
        found = (self._store.jobs.get(name) for name in wanted if is_job(name))
        jobs = {job.name: job for job in found if job is not None and sees(job)}
        others = [name for name in wanted if name not in jobs and name not in ours]
        return Predecessors(jobs=jobs, groups=self._groups.progress(others, sees=sees, by=by))

    def follow(self, awaited: Iterable[Job]) -> None:
        """Make sure that the ends of these jobs will notify their dependents. An ended job does not
        change: its end refuses the submission (`AwaitedEnded`). Raises Unavailable after `_TRIES`
        conflicts."""
        for job in awaited:
            self._follow(job)

    def all_followed(self, found: Mapping[K, Predecessors]) -> dict[K, Predecessors]:
        """The predecessors of several new jobs, each followed once: separate attempts would
        conflict with each other. Raises as `follow`."""
        jobs = {name: job for stored in found.values() for name, job in stored.to_follow.items()}
        self.follow(jobs.values())
        return {key: stored.once_followed() for key, stored in found.items()}

    def _follow(self, awaited: Job) -> bool:
        """Return whether the end is still to come and will notify the dependents."""
        job: Job | None = awaited
        for _ in range(_TRIES):
            if job is None or job.followed or job.terminal:
                return job is not None and not job.terminal
            try:
                self._store.decisions.commit(
                    [Change(before=job, after=replace(job, followed=True))]
                )
                return True
            except Conflict:
                job = self._store.jobs.get(job.name)
        raise Unavailable(f"job {awaited.name} keeps changing; try again")

    def notify_dependents(self, ended: Job, *, until: int) -> None:
        """Free or cancel the jobs that wait for this one, then those that wait for its group.
        Begins nothing from `until` on. Then, and after an error, the end stays a task."""
        name, end = ended.name, ended.state
        notified = self.change(
            name, lambda job: after_end_of(job, name, end, self._clock.now()), until=until
        )
        if notified and ended.group:
            notified = self._notify_dependents_of_group(ended, until=until)
        if notified:
            with suppress(Conflict):  # Another handler has notified the dependents.
                self._store.decisions.commit(
                    [Change(before=ended, after=replace(ended, followed=False))]
                )

    def _notify_dependents_of_group(self, ended: Job, *, until: int) -> bool:
        """Free or cancel the jobs that wait for the group of this job, or follow the next member so
        that its end does. Returns whether all is done."""
        name = end_of(ended.group)
        waiting = self._store.jobs.followers(name)
        if not waiting:
            return True
        progress = self._groups.watched(ended)

        def after(job: Job) -> Job:
            return after_end_of_group(job, ended.group, progress, self._clock.now())

        return self._change(waiting, name, after, until=until)

    def change(self, awaited: str, after: Callable[[Job], Job], *, until: int) -> bool:
        """Change every job that waits for `awaited`, once. Begins nothing from `until` on; returns
        whether all are changed. Raises Unavailable after `_TRIES` conflicts over one job."""
        return self._change(self._store.jobs.followers(awaited), awaited, after, until=until)

    def change_all(self, jobs: Iterable[Job], after: Callable[[Job], Job], *, until: int) -> bool:
        """Do the same with these jobs, whatever they wait for."""
        return self._change(jobs, "", after, until=until)

    def _change(
        self, jobs: Iterable[Job], awaited: str, after: Callable[[Job], Job], *, until: int
    ) -> bool:
        def changed(some: Sequence[Job]) -> bool:
            if self._clock.now() >= until:
                return False
            try:
                self._store.decisions.commit([Change(before=job, after=after(job)) for job in some])
            except Conflict:
                for job in some:
                    self._alone(job, awaited, after)
            return True

        parts = [*_together(job for job in jobs if after(job) != job)]
        return all(self._at_once(changed, parts))

    def _alone(self, job: Job | None, awaited: str, after: Callable[[Job], Job]) -> None:
        assert job is not None
        name = job.name
        for _ in range(_TRIES):
            done = job is None or (awaited and awaited not in job.waits_for)
            if done or job is None or (new := after(job)) == job:
                return
            try:
                self._store.decisions.commit([Change(before=job, after=new)])
                return
            except Conflict:
                job = self._store.jobs.get(name)
        raise Unavailable(f"job {name} keeps changing; a later pass handles {awaited}'s end")


def notify_dependents(
    ended: Sequence[Job], store: Store, clock: Clock, *, until: int
) -> tuple[list[Job], tuple[str, ...]]:
    """Process these ends: cancel the rest of a sweep whose goal is reached, and notify dependents.
    Returns the jobs to stop now, and the errors. An error at one end does not keep the others from
    being processed."""
    followers, goals = Followers(store, clock), SweepGoals(store, clock)
    stopping: list[Job] = []
    troubles: list[str] = []
    for job in ended:
        try:
            stopping += goals.take_in(job, until=until)
            followers.notify_dependents(job, until=until)
        except SlotQError as error:
            troubles.append(f"{job.name}: its dependents are not notified yet: {error}")
    return stopping, tuple(troubles)


def _together(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Split the jobs into parts that one transaction can change."""
    some: list[Job] = []
    actions = 0
    for job in jobs:
        takes = 3 + len(job.waits_for)
        if some and actions + takes > _MOST_ACTIONS:
            yield some
            some, actions = [], 0
        some.append(job)
        actions += takes
    if some:
        yield some
