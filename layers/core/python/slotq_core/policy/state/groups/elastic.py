"""Elastic gangs: the core, and the members beyond it.

The core is as many members as must run: the mandatory ones, and of the others those that joined
first. Members beyond the core are evicted one by one, before any other job of their rank, the last
joined first. They take no work along, because the others go on, so each costs one start alone.
Evicting the core evicts the gang.

Members beyond the core may always be evicted, and so count over the quota, whatever their settings
say.

See docs/policy-decisions.md#elastic-gangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from slotq_core.model.jobs import Job
from slotq_core.policy.order import position, rank
from slotq_core.policy.state.candidates import (
    NO_STARTS,
    Candidate,
    RunningGang,
    StartTimes,
    candidate_of,
    may_be_stopped,
)
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict

_BELOW_ALL = -(1 << 62)
"""Below 0 even with the time of a start added (ms)."""

NOTHING_STARTED: Mapping[str, int] = MappingProxyType({})


def core_of(
    gang: LiveGang, members: Iterable[Job], started: Mapping[str, int] = NOTHING_STARTED
) -> frozenset[str]:
    """The names of the core among these members, which hold slots. `started`: the number of the
    start, by member that only this plan has started. Of members that joined at one moment the
    smaller ones come first, so that the core never counts more in a quota than was asked for it."""

    def joined(job: Job) -> tuple[int, int]:
        if job.name in started:
            return 1, started[job.name]
        return 0, job.attempt.admitted_at if job.attempt else 0

    ordered = sorted(
        members,
        key=lambda job: (
            job.name not in gang.mandatory, joined(job), job.demand.slots, position(job),
        ),
    )  # fmt: skip
    least = max(1, gang.needed, sum(job.name in gang.mandatory for job in ordered))
    return frozenset(job.name for job in ordered[:least])


def beyond_core(gangs: Mapping[str, LiveGang]) -> set[str]:
    """The names of the members of running gangs that are beyond the core, or would be once they
    join."""
    names: set[str] = set()
    for gang in gangs.values():
        if gang.breathes:
            live = {job.name for job in gang.live}
            names |= live - core_of(gang, gang.live)
            if gang.enough(live):
                names |= {job.name for job in gang.waiting}
    return names


def changed_cores(gangs: Mapping[str, LiveGang]) -> list[list[Job]]:
    """The cores of gangs that are not preemptible, of which a member has ended, or was stopped and
    waits. Another one may have taken its place, for which nobody has asked a quota."""
    return [
        core
        for gang in gangs.values()
        if gang.breathes and (gang.group.ended or any(job.attempts for job in gang.waiting))
        if (core := _fixed_core(gang))
    ]


def _fixed_core(gang: LiveGang) -> list[Job]:
    names = core_of(gang, gang.live)
    return [job for job in gang.live if job.name in names and not job.evictable]


class ElasticGang(RunningGang):
    """The running members of an elastic gang, all in one pool: the core is one candidate, and each
    other member another."""

    def __init__(
        self,
        gang: LiveGang,
        now: int,
        starts: StartTimes = NO_STARTS,
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        super().__init__(gang.group.name, gang.ranked, now, starts, may_evict)
        self._gang = gang
        self._core: frozenset[str] = frozenset()
        self._extras: dict[str, Candidate] = {}
        """The other members, as far as they may be stopped."""
        self._safe: AbstractSet[str] = frozenset()
        """The members that a `min_runtime` protects."""

    def with_member(self, job: Job) -> Candidate | None:
        core = self.as_one()
        return core if job.name in self._core else self._extras.get(job.name)

    def as_one(self) -> Candidate | None:
        """The core as one candidate; None unless every member may be stopped."""
        if not self.is_known:
            self.is_known = True
            self._core = core_of(self._gang, (job for job, _ in self.places), self.started)
            self._extras = {
                job.name: self._extra(job, pool)
                for job, pool in self.places
                if job.name not in self._core and job.name not in self._safe
                if may_be_stopped(job, self._may_evict)
            }
            may_stop = self.places and not self.protected and self.may_be_stopped()
            self._as_one = self._whole_core() if may_stop else None
        return self._as_one

    def protect(self, ends: Mapping[str, int | None]) -> Mapping[str, int | None]:
        """A protected member protects itself and the core."""
        self._safe = ends.keys()
        until = super().protect(ends)
        self.as_one()
        return {
            job.name: until[job.name] if job.name in self._core else ends[job.name]
            for job, _ in self.places
            if job.name in (until if job.name in self._core else ends)
        }

    def protected_with(self, job: Job) -> tuple[str, ...]:
        return (self._name, job.name)

    def _whole_core(self) -> Candidate:
        core = [place for place in self.places if place[0].name in self._core]
        numbers = [self.started.get(job.name, 0) for job, _ in core]
        found = candidate_of(
            core,
            self._name,
            self._now,
            gang=True,
            ranked=[*self._ranked, *(job for job, _ in self.places)],
            started=max(numbers) if all(numbers) else 0,
            starts=self._starts,
        )
        found.extras = tuple(self._extras.values())
        return found

    def _extra(self, job: Job, pool: str) -> Candidate:
        """A member beyond the core as a candidate."""
        number, start = self.started.get(job.name, 0), self._starts.get(pool, 0)
        cost = 0 if number else start
        joined = self._now if job.attempt is None else job.attempt.admitted_at
        return Candidate(
            name=job.name,
            gang=False,
            places=((job, pool),),
            rank=min(rank(other) for other in (*self._ranked, *(job for job, _ in self.places))),
            entry_time=job.entry_time,
            unsaved=0,
            lost=0,
            slots=job.demand.slots,
            cost=cost,
            slot_cost=cost * job.demand.slots,
            start=start,
            started=number,
            joined=_BELOW_ALL - joined,
        )
