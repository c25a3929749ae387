"""What the turn of a gang needs for its members that take GPUs of nodes.

All or none: while a node starts for one member, each of the others has a claim to its place, on
nodes and in pools. Of the members that wait for one node that is still to start, the first has a
claim to the instance.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotq_core.model.jobs import Claim, Job
from slotq_core.policy.plan import StartNode
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.groups.matching import NodeBins
from slotq_core.policy.state.nodes.gang_members import nodes_of
from slotq_core.policy.state.nodes.node_room import NodeRoom, claim_to
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.turn.node_turn import NodeTurn
from slotq_core.policy.turn.steps import Steps


class GangOnNodes:
    """The members of one gang on nodes, during the gang's turn."""

    def __init__(self, steps: Steps, gang: LiveGang) -> None:
        assert steps.state.nodes is not None
        self._steps, self._state, self._nodes = steps, steps.state, steps.state.nodes
        self._gang = gang
        self._bins: NodeBins | None = None

    def turn_of(
        self, job: Job, rooms: Sequence[PoolRoom], claimable: Sequence[PoolRoom] | None
    ) -> NodeTurn | None:
        """The steps of a member; None if it takes whole instances."""
        if not any(self._nodes.takes(job, pool) for pool in job.pools):
            return None
        return NodeTurn(self._steps, job, rooms, self._nodes, claimable)

    def bins(self, *, only_free: bool) -> NodeBins | None:
        """The room that the nodes of the members' tenants have, now or soon. Soon a node without
        jobs is an instance that comes free."""
        found = NodeBins(self._gang.gpus_in, opens=not only_free)
        for tenant, room in nodes_of(self._gang, self._nodes):
            if only_free or not room.empty:
                found.add(room.pool, tenant, room.open_now if only_free else room.open_soon)
        self._bins = found
        return found

    def empty_bins(self) -> NodeBins:
        """No nodes, but those that may start."""
        return NodeBins(self._gang.gpus_in)

    def shares_node(self, job: Job, rooms: Iterable[PoolRoom]) -> bool:
        """Whether no node will start for the member there, as far as the assignment says."""
        on_nodes = any(self._nodes.takes(job, room.pool.name) for room in rooms)
        return on_nodes and self._bins is not None and job.name not in self._bins.openers

    def beside(self) -> list[NodeRoom]:
        """The nodes on which members have GPUs held so far."""
        held = (self._nodes.held.get(job.name) for job in self._gang.waiting)
        return [*{(room.pool, room.name): room for room in held if room}.values()]

    def held_in(self, served: Sequence[str]) -> dict[str, str]:
        """The pools in which the members have their places; empty if a node has to start first."""
        held = self._nodes.held
        if any(name in held and held[name].node is None for name in served):
            return {}
        pools = self._state.held_in
        return {name: held[name].pool if name in held else pools[name] for name in served}

    def start_nodes(self, served: Sequence[str]) -> None:
        """Start the nodes of the members served whose instances are free. All others that have a
        place get a claim to it."""
        held, begun = self._nodes.held, self._nodes.begun
        starting = [name for name in served if name in begun and begun[name].has_instance]
        if not starting:
            return
        for name in starting:
            room = begun[name]
            room.starts = True
            # Only now: after a capacity error the first member's start would keep the others out.
            self._state.rooms[room.pool].expect_start(self._state.waiting[name])
        owed = {name: self._new_claim(name) for name in served if name not in starting}
        for number, name in enumerate(starting):
            room, job = begun[name], self._state.waiting[name]
            along = [
                (self._state.waiting[other], claim)
                for other, claim in owed.items()
                if claim and (held.get(other) is room or (number == 0 and not self._starts(other)))
            ]
            claim = claim_to(room, job, self._counted(job, room.pool), self._state.now)
            start = StartNode(
                job=job, pool=room.pool, name=room.name, claim=claim, along=tuple(along)
            )
            self._state.decided.decide(name, start)

    def claim_of(self, name: str) -> Claim | None:
        """The claim to what is held for the member; None if that is GPUs of a node that another
        member's instance will become."""
        room = self._nodes.held.get(name)
        if room is not None and (room.node is not None or room.starts):
            job = self._state.waiting[name]
            return claim_to(room, job, self._counted(job, room.pool), self._state.now)
        return self._state.claim_of(name) if name in self._state.held_in else None

    def _starts(self, name: str) -> bool:
        """Whether the node of the member starts in this plan."""
        room = self._nodes.held.get(name)
        return room is not None and room.starts

    def _new_claim(self, name: str) -> Claim | None:
        return None if self._state.waiting[name].claim else self.claim_of(name)

    def _counted(self, job: Job, pool: str) -> str:
        return self._state.accounts.users.class_held(job, pool) if job.auto else ""
