"""A quick test whether a turn can serve a job. Most turns in a long queue serve none.

The test is a bound, not a rule. If a job has no prospects, no step of its turn finds anything
(tests/property/test_prospects.py). If it has prospects, the steps may still find nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.demand import NOTHING
from slotq_core.model.jobs import Job
from slotq_core.policy.order import rank
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Chain
from slotq_core.policy.state.quotas.gate import givers, may_reclaim
from slotq_core.policy.turn.steps import Steps

if TYPE_CHECKING:
    from slotq_core.policy.state.nodes.nodes import Nodes


def has_prospects(job: Job, rooms: Sequence[PoolRoom], steps: Steps) -> bool:
    """Whether a room has enough free or coming slots, allows moves, or holds a possible victim.
    Where a pool drains for a job ahead, only a time slice may serve this one."""
    closed_to, over = steps.rules.eligible.closed_to, steps.rules.slices.over
    entered = [room for room in rooms if not (room.drain and closed_to(job, room))]
    if _finds_room(job, entered, steps.state):
        return True
    for room in rooms:  # noqa: SIM110 most turns pass here
        if room.pool.time_slice is not None and over(job, room):
            return True
    return False


def might_gain(job: Job, rooms: Sequence[PoolRoom], state: PlanState) -> bool:
    """As `has_prospects`, but every running job of its project may yield to a time slice. A turn
    in such a pool may also let the pool drain for the job."""
    return _finds_room(job, rooms, state) or any(
        room.pool.time_slice is not None and job.project in room.jobs.projects() for room in rooms
    )


def _finds_room(job: Job, rooms: Sequence[PoolRoom], state: PlanState) -> bool:
    """Whether a step before the time slices may find anything."""
    own, demand, accounts = rank(job), job.demand, state.accounts
    mine: Chain = ()
    reclaims, asked = False, demand
    for room in rooms:
        both, pool = room.both, room.pool
        if demand.within(both) and room.fits_soon(job):
            return True
        if pool.consolidate:
            return True
        lower = room.jobs.below(own, job.project)
        if lower is not NOTHING and demand.within(both + lower):
            return True
        chain = accounts.of(job, pool.name)
        if chain is not mine or accounts.shared:  # Most pools count in the same accounts.
            asked = demand if accounts.shared is None else accounts.shared.of(job, pool.name)
            mine, reclaims = chain, may_reclaim(asked, chain)
        if reclaims and accounts.givers(pool.name).among(room.jobs.projects(), mine, asked):
            return True
    rights = state.reservations
    return rights is not None and any(rights.cover(job, room.pool.name) for room in rooms)


def _on_nodes(gang: LiveGang, nodes: Nodes) -> tuple[int, int]:
    """At most how many members an instance holds as a node, and how many the nodes of the members'
    tenants hold, with all that members may evict there."""
    from slotq_core.policy.state.nodes.gang_members import nodes_of

    smallest = min(job.gpus for job in gang.waiting if job.gpus)
    held = 0
    for _, room in nodes_of(gang, nodes):
        if not room.closed:
            given = sum(candidate.slots for candidate in room.candidates)
            held += max(0, sum(room.free) + sum(room.coming) + given) // smallest
    return max([1, *(WHOLE * gpus // smallest for gpus in gang.gpus_in.values())]), held


def gang_has_prospects(gang: LiveGang, state: PlanState) -> bool:
    """Whether a gang's rooms could hold enough members, with all slots that the gang may reclaim or
    with all that it may preempt."""
    representative = gang.representative
    rooms = {room.pool.name: room for job in gang.waiting for room in state.rooms_of(job)}
    rights = state.reservations
    if rights is not None and any(rights.of(representative.project, name) for name in rooms):
        return True
    giving = {
        project
        for job in {job.demand: job for job in gang.waiting}.values()
        for name, room in rooms.items()
        for project in givers(job, name, room.jobs.projects(), state.accounts)
    }
    smallest = min(job.demand.slots for job in gang.waiting)
    reclaimed = preempted = 0
    if state.nodes and any(job.gpus for job in gang.waiting):
        most, on_nodes = _on_nodes(gang, state.nodes)
        reclaimed = preempted = on_nodes
    else:
        most = 1
    for name, room in rooms.items():
        held = (job.demand.slots for project in giving for job in room.jobs.running(project))
        lower = (
            candidate.frees(name).slots
            for candidate in room.jobs.candidates(representative.project)
            if candidate.rank < rank(representative)
        )
        reclaimed += most * max(0, room.both.slots + sum(held)) // max(1, smallest)
        preempted += most * max(0, room.both.slots + sum(lower)) // max(1, smallest)
    return not smallest or max(1, gang.needed) <= max(reclaimed, preempted)
