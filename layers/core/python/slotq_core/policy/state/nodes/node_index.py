"""The nodes of one tenant in one pool, by the room that they have left."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge, nlargest

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.jobs import Job
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.nodes.node_room import ByGpu, NodeRoom

MayUse = Callable[[NodeRoom], bool]
"""Whether the pool still has an instance for a node without jobs."""

_Place = tuple[Gpus, str]
"""What is left on a node in all, and the node's name: the fullest first."""


class _BySize:
    """Nodes by the largest job that fits, and of each size by what is left in all."""

    def __init__(self, size_of: Callable[[ByGpu], int]) -> None:
        self._size_of = size_of
        self._places: dict[int, list[_Place]] = {}
        self._kept: dict[str, tuple[int, _Place]] = {}

    def put(self, name: str, room: ByGpu) -> None:
        now = (self._size_of(room), (sum(room), name)) if room else (0, (0, name))
        before = self._kept.get(name)
        if before == now:
            return
        if before is not None:
            self._drop(*before)
        self._kept[name] = now
        if now[0] > 0:
            insort(self._places.setdefault(now[0], []), now[1])

    def remove(self, name: str) -> None:
        self._drop(*self._kept.pop(name))

    def _drop(self, size: int, place: _Place) -> None:
        if size > 0:
            there = self._places[size]
            del there[bisect_left(there, place)]

    def may_hold(self, size: int) -> bool:
        return any(places and amount >= size for amount, places in self._places.items())

    def fullest(self, size: int) -> Iterator[str]:
        """The nodes with room for this size, the fullest first, then by name."""
        able = [places for amount, places in self._places.items() if places and amount >= size]
        found = able[0] if len(able) == 1 else merge(*able)
        return (name for _, name in found)


def _wholes(room: ByGpu) -> int:
    return room.count(WHOLE)


class _Sizes:
    """Nodes by whole GPUs and, once a plan has asked for a part, by the largest part of one."""

    def __init__(self) -> None:
        self._rooms: dict[str, ByGpu] = {}
        self._wholes = _BySize(_wholes)
        self._parts: _BySize | None = None

    def put(self, name: str, room: ByGpu) -> None:
        self._rooms[name] = room
        self._wholes.put(name, room)
        if self._parts is not None:
            self._parts.put(name, room)

    def remove(self, name: str) -> None:
        del self._rooms[name]
        self._wholes.remove(name)
        if self._parts is not None:
            self._parts.remove(name)

    def may_hold(self, gpus: Gpus) -> bool:
        return self._for(gpus).may_hold(gpus % WHOLE or gpus // WHOLE)

    def fullest(self, gpus: Gpus) -> Iterator[str]:
        return self._for(gpus).fullest(gpus % WHOLE or gpus // WHOLE)

    def _for(self, gpus: Gpus) -> _BySize:
        if gpus % WHOLE == 0:
            return self._wholes
        if self._parts is None:
            self._parts = _BySize(max)
            for name, room in self._rooms.items():
                self._parts.put(name, room)
        return self._parts


class NodeIndex:
    """Finds the fullest node with room without a look at the others. A room that has changed, also
    by a rollback, has to be put again."""

    def __init__(self) -> None:
        self.rooms: dict[str, NodeRoom] = {}
        """By name, in the order of the snapshot; those that this plan starts come last."""
        self._with_claims: dict[str, NodeRoom] = {}
        """Those with claims."""
        self._now, self._soon = _Sizes(), _Sizes()
        """By what is open now, and open soon."""
        self._by_first: list[NodeRoom] | None = None
        """The rooms with candidates, by the first one; None: to be made again."""
        self._movable: dict[str, Sequence[Candidate]] | None = None
        """What `movable` returns; None: to be made again."""

    def put(self, room: NodeRoom) -> None:
        """Enter the room as it is now."""
        self._by_first = self._movable = None
        self._now.put(room.name, room.open_now)
        self._soon.put(room.name, room.open_soon)
        self.rooms[room.name] = room
        if room.claims:
            self._with_claims[room.name] = room
        else:
            self._with_claims.pop(room.name, None)

    def remove(self, name: str) -> None:
        self._now.remove(name)
        self._soon.remove(name)
        del self.rooms[name]
        self._with_claims.pop(name, None)
        self._by_first = self._movable = None

    def with_candidates(self) -> list[NodeRoom]:
        """The rooms with jobs that may be evicted, those with the lowest rank first."""
        if self._by_first is None:
            able = [room for room in self.rooms.values() if room.candidates and not room.closed]
            self._by_first = sorted(able, key=lambda room: room.candidates[0].order)
        return self._by_first

    def movable(self) -> Mapping[str, Sequence[Candidate]]:
        """By room, the candidates that fit, each by itself, on GPUs that are free on another node
        with jobs."""
        if self._movable is None:
            busy = [room for room in self.rooms.values() if not room.empty]
            parts = nlargest(2, ((max(room.open_now, default=0), room.name) for room in busy))
            wholes = nlargest(2, ((_wholes(room.open_now), room.name) for room in busy))
            self._movable = {}
            for name, room in self.rooms.items():
                part = next((amount for amount, other in parts if other != name), 0)
                whole = WHOLE * next((count for count, other in wholes if other != name), 0)
                able = [
                    candidate
                    for candidate in room.candidates
                    if candidate.slots <= (part if candidate.slots < WHOLE else whole)
                ]
                if able:
                    self._movable[name] = able
        return self._movable

    @property
    def claimed(self) -> bool:
        """Whether some room has claims."""
        return bool(self._with_claims)

    def may_hold(self, gpus: Gpus) -> bool:
        """Whether some room is open soon for a job of this size."""
        return self._soon.may_hold(gpus)

    def fullest(self, job: Job, may_use: MayUse, *, now: bool) -> NodeRoom | None:
        """The room with least left that the job may have, now or soon; None: there is none. Of
        equals the first name."""
        found = self._open(job, may_use, now=now)
        for room in self._with_claims.values():  # The job may take them over.
            if not room.entrance.outlasts(job) or not room.fitting(job, now=now):
                continue
            if found is None or (sum(room.free), room.name) < (sum(found.free), found.name):
                found = room
        return found

    def _open(self, job: Job, may_use: MayUse, *, now: bool) -> NodeRoom | None:
        sizes = self._now if now else self._soon
        for name in sizes.fullest(job.gpus):
            room = self.rooms[name]
            if room.entrance.takes(job, now=now) and (not room.empty or may_use(room)):
                return room
        return None
