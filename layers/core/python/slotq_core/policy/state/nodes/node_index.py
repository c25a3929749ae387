"""The nodes of one tenant in one pool, by the GPUs that they have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slotq_core.model.jobs import Job
from slotq_core.policy.state.nodes.node_room import NodeRoom

MayUse = Callable[[NodeRoom], bool]
"""Whether the pool still has an instance for a node without jobs."""


class NodeIndex:
    """Finds the fullest node with room without a look at the others. A room that has changed, also
    by a rollback, has to be put again."""

    def __init__(self) -> None:
        self.rooms: dict[str, NodeRoom] = {}
        """By name, in the order of the snapshot; those that this plan starts come last."""
        self._now: dict[int, set[str]] = {}
        self._soon: dict[int, set[str]] = {}
        """By number of GPUs that are open now, and open soon."""
        self._kept: dict[str, tuple[int, int]] = {}
        """By room, where the sets have it."""
        self._by_first: list[NodeRoom] | None = None
        """The rooms with candidates, by the first one; None: to be made again."""

    def put(self, room: NodeRoom) -> None:
        """Enter the room as it is now."""
        self._by_first = None
        now, soon = room.open_now, room.open_soon
        had_now, had_soon = self._kept.get(room.name, (-1, -1))
        if had_now != now:
            self._now.get(had_now, set()).discard(room.name)
            self._now.setdefault(now, set()).add(room.name)
        if had_soon != soon:
            self._soon.get(had_soon, set()).discard(room.name)
            self._soon.setdefault(soon, set()).add(room.name)
        self._kept[room.name] = now, soon
        self.rooms[room.name] = room

    def remove(self, name: str) -> None:
        now, soon = self._kept.pop(name)
        self._now[now].discard(name)
        self._soon[soon].discard(name)
        del self.rooms[name]
        self._by_first = None

    def with_candidates(self) -> list[NodeRoom]:
        """The rooms with jobs that may be evicted, those with the lowest rank first."""
        if self._by_first is None:
            able = [room for room in self.rooms.values() if room.candidates and not room.closed]
            self._by_first = sorted(able, key=lambda room: room.candidates[0].order)
        return self._by_first

    @property
    def claimed(self) -> bool:
        """Whether some room has claims."""
        return any(room.claims for room in self.rooms.values())

    def may_hold(self, gpus: int) -> bool:
        """Whether some room is open soon for a job of this size."""
        return any(names and amount >= gpus for amount, names in self._soon.items())

    def fullest(self, job: Job, may_use: MayUse, *, now: bool) -> NodeRoom | None:
        """The room with the fewest GPUs left that the job may have, now or soon; None: there is
        none. Of equals the first name."""
        found = self._open(job, may_use, now=now)
        for room in self._with_claims(job, now=now):
            if found is None or (room.free, room.name) < (found.free, found.name):
                found = room
        return found

    def _open(self, job: Job, may_use: MayUse, *, now: bool) -> NodeRoom | None:
        by_amount = self._now if now else self._soon
        for amount in sorted(by_amount):
            if amount < job.gpus:
                continue
            for name in sorted(by_amount[amount]):
                room = self.rooms[name]
                if room.takes(job, now=now) and (not room.empty or may_use(room)):
                    return room
        return None

    def _with_claims(self, job: Job, *, now: bool) -> Iterator[NodeRoom]:
        """The rooms with claims that the job may take over."""
        for room in self.rooms.values():
            is_open = not now or (room.ready and job.gpus <= room.free)
            if room.claims and is_open and job.gpus <= room.left(job) and room.takes(job, now=now):
                yield room
