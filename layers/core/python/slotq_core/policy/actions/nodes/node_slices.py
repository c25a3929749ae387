"""Step 3f on one node: past its pool's time slice a running job yields GPUs there.

The rules are those of a pool (time_slice.py), in GPUs: a job past its slice yields to an equal-rank
job of another user of its project who holds fewer GPUs of that rank on the pool's nodes. The GPUs
come from one node.

See docs/policy-decisions.md#time-slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slotq_core.gpu_amounts import Gpus
from slotq_core.model.jobs import Job
from slotq_core.policy.actions.nodes.node_victims import Victims, Way, ways
from slotq_core.policy.actions.time_slice import TimeSlices, turn_order
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, spared
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom
from slotq_core.policy.state.nodes.nodes import Nodes
from slotq_core.policy.state.pool_room import PoolRoom


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSlices:
    """The search for jobs that yield GPUs of one node to the job."""

    slices: TimeSlices
    nodes: Nodes
    job: Job
    now: int

    def find(
        self, pool: PoolRoom, index: NodeIndex, at_least: Gpus, besides: Sequence[Shortfall]
    ) -> Victims | None:
        """The node, and its jobs that yield, with the least harm; None if no node gives enough.
        `at_least`, `besides`: as in `least_harmful` (node_victims.py)."""
        if pool.pool.time_slice is None:
            return None
        able = [
            (room, way)
            for room in index.with_candidates()
            if (over := self._over(room, pool))
            for way in ways(room, self.job, over, at_least, besides)
        ]
        if not able:  # Counting the GPUs held costs more.
            return None
        mine, past = self._held(pool)[self.job.person], self._past_their_slice(pool)
        found = [
            (room, way.single(chosen))
            for room, way in able
            if (chosen := _yielding(way, past, mine))
        ]
        own = rank(self.job)
        return min(
            found, key=lambda one: Eviction(room=pool, victims=one[1]).harm(own), default=None
        )

    def ends_to_come(self, pool: PoolRoom, index: NodeIndex) -> list[int]:
        """When (ms) slices end of jobs on these nodes, of users who hold more."""
        if pool.pool.time_slice is None:
            return []
        ends = [
            (other, end)
            for room in index.with_candidates()
            for other in (candidate.jobs[0] for candidate in room.candidates)
            if self.slices.yields(other, self.job)
            if (end := self.slices.slice_ends(self.job, other, pool) or 0) > self.now
        ]
        held = self._held(pool) if ends else Counter[str]()
        mine = held[self.job.person]
        return [end for other, end in ends if held[other.person] > mine]

    def _over(self, room: NodeRoom, pool: PoolRoom) -> list[Candidate]:
        """The candidates on this node whose slice is over and that may yield to the job now."""
        return [
            candidate
            for candidate in room.candidates
            if self.slices.yields(candidate.jobs[0], self.job)
            if self._is_past(candidate.jobs[0], pool)
        ]

    def _is_past(self, other: Job, pool: PoolRoom) -> bool:
        end = self.slices.slice_ends(self.job, other, pool)
        return end is not None and end <= self.now

    def _held(self, pool: PoolRoom) -> Counter[str]:
        """The GPUs held, claimed or awaited on the pool's nodes, by user, for the job's project and
        rank. A job that moves counts where it goes."""
        rooms = (room for room in self.nodes.rooms.values() if room.pool == pool.pool.name)
        moving = (other for room in rooms for other in room.kept.values())
        held: Counter[str] = Counter()
        for other in (*self._alike(pool), *filter(self._is_alike, moving)):
            held[other.person] += other.gpus
        return held

    def _past_their_slice(self, pool: PoolRoom) -> Counter[str]:
        """Those of them that jobs past their slice hold."""
        held: Counter[str] = Counter()
        for other in self._alike(pool):
            if self._is_past(other, pool):
                held[other.person] += other.gpus
        return held

    def _alike(self, pool: PoolRoom) -> Iterator[Job]:
        """The jobs of the job's project and rank that hold, claim or await GPUs there."""
        name = pool.pool.name
        for room in self.nodes.rooms.values():
            if room.pool != name:
                continue
            running = self.nodes.found[name, room.name].running if room.node else ()
            for other in (*running, *room.claims.values()):
                if other.name not in self.nodes.gone and self._is_alike(other):
                    yield other
        for other, where in self.nodes.placed:
            if where == name and self._is_alike(other):
                yield other

    def _is_alike(self, other: Job) -> bool:
        return other.project == self.job.project and rank(other) == rank(self.job)


def _yielding(way: Way, past: Counter[str], mine: Gpus) -> tuple[Candidate, ...]:
    """Those of the candidates that yield; empty: they are not enough. `past`: what users have past
    their slice. `mine`: what the job's user has."""
    shortfalls, held = Shortfalls(*way.missing), past.copy()
    chosen = list[Candidate]()
    options = [one for one in way.candidates if len({job.person for job in one.jobs}) == 1]
    while not shortfalls.met_by(chosen):
        options = [option for option in options if held[option.jobs[0].person] > mine]
        if not options:
            return ()
        first = min(options, key=lambda candidate: turn_order(held, candidate))
        options.remove(first)
        chosen.append(first)
        held[first.jobs[0].person] -= first.slots
    return spared(chosen, shortfalls)
