"""The decisions of a plan in terms of warm instances, which the plan itself counts as free.

A start takes instances that match it, or others that nobody holds. Where neither are left, its job
gets a claim, and as many warm instances as it lacks are released: it starts once they are gone. So
do the members of a gang, all of them. Instances are released, too, for jobs that wait for slots
coming free, and where the pool keeps them no longer or no waiting job can start on them.

See docs/warm.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from slotq_core.lifecycle import copied
from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.warm_slots import first_to_go, fits, is_kept
from slotq_core.policy.plan import Decision, Release, ReleaseCause, Start, StartGang
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.warm_room import WarmRoom

Released = tuple[tuple[WarmSlot, str], ...]
"""Warm slots, each with the job that it is released for."""


class _Instances:
    """The instances of one pool that nobody holds: warm ones, and how many others."""

    def __init__(self, pool: Pool, warm: Iterable[WarmSlot], free: Demand, now: int) -> None:
        """`free`: what the plan had to give, with the warm slots that jobs may start on."""
        every = first_to_go(warm)
        self.idle = [slot for slot in every if slot.idle and is_kept(slot, pool, now)]
        """Those that a job may start on, the first to go first."""
        self.unkept = [slot for slot in every if slot.idle and not is_kept(slot, pool, now)]
        self.others = free - Demand.total([slot.demand for slot in self.idle])
        """Free capacity without them; negative if the pool shrank."""
        self._coming = Demand.total([slot.demand for slot in every if slot.releasing])

    def take_warm(self, job: Job) -> WarmSlot | None:
        """Take instances that match the job."""
        found = next((slot for slot in self.idle if fits(job, slot)), None)
        if found is not None:
            self.idle.remove(found)
        return found

    def take(self, job: Job, demand: Demand) -> Released:
        """Take instances that match nothing, and return the warm slots to release for that."""
        gone = []
        while self.idle and not demand.within(self.others):
            gone.append((self._release(), job.name))
        self.others = self.others - demand
        return tuple(gone)

    def take_in_part(self, job: Job, released: Demand) -> Released:
        """The same for a job that waits for the rest of its slots to come free. `released`: what is
        being released for it."""
        room = self.others + Demand.total([slot.demand for slot in self.idle])
        lacks = job.demand - released
        part = {name: max(0, min(amount, room[name])) for name, amount in lacks.items()}
        return self.take(job, Demand(part))

    def unneeded(self) -> Released:
        """Take what the pool keeps no longer, and what is beyond its size."""
        gone = self.unkept
        while self.idle and any(amount < 0 for amount in (self.others + self._coming).values()):
            gone = [*gone, self._release()]
        return tuple((slot, "") for slot in gone)

    def _release(self) -> WarmSlot:
        slot = self.idle.pop(0)
        self.others = self.others + slot.demand
        return slot


def with_warm_slots(
    decided: Sequence[Decision],
    rooms: Mapping[str, PoolRoom],
    waiting: Iterable[Job],
    now: int,
) -> list[Decision]:
    """The decisions in terms of warm instances, and the releases. `waiting`: the jobs that the plan
    leaves waiting without slots, of each line at least one."""
    there = {
        name: _Instances(room.pool, room.warm.slots, room.free_now, now)
        for name, room in rooms.items()
        if room.warm is not None
    }
    # Whoever matches takes first: nobody else releases these.
    warm = {
        start.job.name: there[start.pool].take_warm(start.job)
        for start in _starts(decided)
        if start.pool in there and start.node is None
    }
    for name, found in there.items():
        for job in rooms[name].awaiting:
            warm[job.name] = found.take_warm(job)
    said = [_said(decision, there, warm, now) for decision in decided]
    for name, found in sorted(there.items()):
        said += _needed(rooms[name], found, warm)
        said += _not_kept(found)
    asking = [*waiting]
    for name, found in sorted(there.items()):
        said += _unneeded(found, [job for job in asking if name in job.pools])
    return said


def releases_alone(snapshot: Snapshot, now: int) -> tuple[Release, ...]:
    """The releases where no job waits."""
    used: dict[str, Demand] = {}
    for name, demand in (
        *(held for job in snapshot.active if not _is_on_node(job) for held in job.holds),
        *((node.pool, node.demand) for node in snapshot.nodes),
    ):
        used[name] = used.get(name, NOTHING) + demand
    said: list[Release] = []
    for pool in snapshot.pools:
        warm = [slot for slot in snapshot.warm if slot.pool == pool.name]
        if warm:
            held = used.get(pool.name, NOTHING) + WarmRoom(pool, warm, now, Journal()).held
            said += _not_kept(_Instances(pool, warm, pool.size(now) - held, now))
    return tuple(said)


def _is_on_node(job: Job) -> bool:
    return job.attempt is not None and bool(job.attempt.node)


def _starts(decided: Iterable[Decision]) -> Iterator[Start]:
    for decision in decided:
        if isinstance(decision, Start):
            yield decision
        elif isinstance(decision, StartGang):
            yield from decision.starts


def _said(
    decision: Decision,
    there: Mapping[str, _Instances],
    warm: Mapping[str, WarmSlot | None],
    now: int,
) -> Decision:
    if not isinstance(decision, Start | StartGang):
        return decision
    starts = decision.starts if isinstance(decision, StartGang) else (decision,)
    gone: list[tuple[WarmSlot, str]] = []
    for start in starts:
        if _is_among(start, there) and warm[start.job.name] is None:
            gone += there[start.pool].take(start.job, start.job.demand)
    if gone:
        first, *others = starts
        return Release(
            slots=tuple(gone),
            cause=ReleaseCause.NEEDED,
            job=first.job,
            claim=_claim(first, now),
            along=tuple((start.job, _claim(start, now)) for start in others),
        )
    on = tuple(
        copied(start, warm=warm[start.job.name], beside_warm=True)
        if _is_among(start, there)
        else start
        for start in starts
    )
    return copied(decision, starts=on) if isinstance(decision, StartGang) else on[0]


def _is_among(start: Start, there: Mapping[str, _Instances]) -> bool:
    return start.pool in there and start.node is None


def _claim(start: Start, now: int) -> Claim:
    """The claim of a job that could start, but for the form of the instances."""
    if start.job.claim is not None and start.job.claim.pool == start.pool:
        return start.job.claim
    counted = start.classed.priority_class if start.classed else ""
    return Claim(pool=start.pool, amount=start.job.demand, since=now, priority_class=counted)


def _needed(
    room: PoolRoom, found: _Instances, warm: Mapping[str, WarmSlot | None]
) -> Iterator[Release]:
    """The releases for jobs that wait in the pool for slots coming free."""
    for job in room.awaiting:
        if warm[job.name] is None:
            released = room.warm.released_for.get(job.name, NOTHING) if room.warm else NOTHING
            if gone := found.take_in_part(job, released):
                yield Release(slots=gone, cause=ReleaseCause.NEEDED)


def _not_kept(found: _Instances) -> Iterator[Release]:
    if gone := found.unneeded():
        yield Release(slots=gone, cause=ReleaseCause.NOT_KEPT)


def _unneeded(found: _Instances, asking: Sequence[Job]) -> Iterator[Release]:
    """The release of what no job can start on, if some wait for the pool."""
    gone = [slot for slot in found.idle if not any(fits(job, slot) for job in asking)]
    if asking and gone:
        yield Release(slots=tuple((slot, "") for slot in gone), cause=ReleaseCause.UNNEEDED)
