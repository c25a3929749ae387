"""Reservations in force: what a project may have in a pool, whatever shares and quotas say.

A project has a right to the slots of its reservation as far as it holds no more with them. What it
holds of them already counts first, wherever its shares are. Who has spent a soft budget has no such
right.

See docs/policy-decisions.md#reservations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from slotq_core.model.capacity.reservations import reserved_at, reserved_until
from slotq_core.model.jobs import Job
from slotq_core.model.pools import LONGEST
from slotq_core.policy.state.pool_room import PoolRoom


class ReservationRights:
    """The reservations in force during one plan."""

    def __init__(
        self, rooms: Mapping[str, PoolRoom], now: int, without_right: AbstractSet[str]
    ) -> None:
        """`without_right`: the projects whose reservations give them nothing."""
        self._rooms, self._now, self._without_right = rooms, now, without_right
        found = {
            name: reserved_at(room.pool.reservations, now)
            for name, room in rooms.items()
            if room.pool.reservations
        }
        self._slots = {
            pool: {project: n for project, n in slots.items() if project not in without_right}
            for pool, slots in found.items()
        }
        """By pool and project."""

    def of(self, project: str, pool: str) -> int:
        """The slots that are reserved for the project in the pool now."""
        return self._slots.get(pool, {}).get(project, 0)

    def cover(self, job: Job, pool: str) -> bool:
        """Whether the job stays within what is reserved for its project in the pool now."""
        reserved = self.of(job.project, pool)
        return bool(reserved) and self.held(job.project, pool) + job.demand.slots <= reserved

    def cover_any(self, job: Job, rooms: Iterable[PoolRoom]) -> bool:
        return any(self.cover(job, room.pool.name) for room in rooms)

    def cover_whole_run(self, job: Job, pool: str) -> bool:
        """Whether the job stays within what is reserved for as long as it may run."""
        if not self.cover(job, pool):
            return False
        ends = self._now + (job.longest_attempt or LONGEST)
        reserved = reserved_until(self._rooms[pool].pool.reservations, job.project, self._now, ends)
        return self.held(job.project, pool) + job.demand.slots <= reserved

    def held(self, project: str, pool: str) -> int:
        """The slots of the pool that the project's jobs have, or that are held for them."""
        room = self._rooms[pool]
        jobs = (*room.jobs.running(project), *room.claims.values(), *room.awaiting)
        return sum(job.demand.slots for job in jobs if job.project == project)

    def may_give(self, project: str, pool: str, gone: int = 0) -> bool:
        """Whether the project has more slots of the pool than are reserved for it, without so many
        (`gone`)."""
        reserved = self.of(project, pool)
        return not reserved or self.held(project, pool) - gone > reserved
