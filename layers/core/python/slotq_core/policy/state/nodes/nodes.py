"""The nodes during one plan: which job may use which, and what the plan gives on them.

A job with `gpus` takes them on a node of its tenant: the fullest one that has room. Without such a
node it takes an instance of the pool, and the plan starts a node there. So do members of gangs.

For quotas and shares a node counts as one instance of its project while a job is on it, and the
second job on it adds nothing. Where projects share nodes, each job counts what it holds itself.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from slotq_core.lifecycle import copied
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import Pool, gpu_room, gpus_of
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.pool_health import without_nodes
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import Candidate, may_be_stopped, protection
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict
from slotq_core.policy.state.nodes.gang_members import GangMembers
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_jobs import (
    NodeName,
    Occupied,
    StandIns,
    for_one_person,
    leaving,
    occupied,
    with_nodes_as_jobs,
)
from slotq_core.policy.state.nodes.node_room import NodeRoom, candidate_on, claim_to
from slotq_core.policy.state.nodes.own_amounts import SharedNodes
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.accounts import Accounts

if TYPE_CHECKING:
    from slotq_core.policy.state.groups.gangs import LiveGang


class Nodes:
    """The nodes of one plan. Only the plan's state changes them, with its journal."""

    def __init__(
        self,
        snapshot: Snapshot,
        now: int,
        journal: Journal,
        gangs: Mapping[str, LiveGang] = MappingProxyType({}),
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        self._now, self._journal, self.may_evict = now, journal, may_evict
        pools = {pool.name: pool for pool in snapshot.pools}
        self.pools = {pool.name: pool for pool in snapshot.pools if pool.nodes is not None}
        self.found = occupied(snapshot)
        self.leaving = leaving(snapshot, self.found)
        """The nodes that end with their last job."""
        self._minima = {p.name: p.min_runtime for p in snapshot.projects if p.min_runtime}
        self.members = GangMembers(
            gangs, self.found.values(), pools, self._minima, now, may_evict=may_evict
        )
        self.as_seen, self.as_jobs = with_nodes_as_jobs(
            snapshot, self.found, now, self.members.lowest, may_evict
        )
        """The snapshot for all that counts instances, and each node as a job of it."""
        self.stand_ins = StandIns(self.found, self.as_jobs)
        self._failed = {
            name: tenants
            for name, pool in self.pools.items()
            if (tenants := without_nodes(pool.health, now))
        }
        """By pool, the tenants for which no node starts for a while."""
        self.shared = SharedNodes(self.pools, self.found, self._failed)
        self._tenants: dict[tuple[str, str], NodeIndex] = {}
        """By tenant and pool."""
        self._for_one_person = for_one_person(self.found)
        self.rooms: dict[NodeName, NodeRoom] = {}
        self.protected_until: int | None = None
        """When the first `min_runtime` of a job on a node ends (ms)."""
        for key, found in self.found.items():
            self._enter(self._opened(found, pools[key[0]]))
        self._names = {pool: {name for of, name in self.found if of == pool} for pool in self.pools}
        for job in snapshot.active:  # A job that moves to a node that is gone.
            if job.claim and job.claim.node and job.claim.pool in self._names:
                self._names[job.claim.pool].add(job.claim.node)
        self.begun: dict[str, NodeRoom] = {}
        """The nodes that this plan starts, or will once they have an instance, by job."""
        self.held: dict[str, NodeRoom] = {}
        """By job, the node on which GPUs are held for it."""
        self.evicted: set[NodeName] = set()
        """The nodes that this plan evicts whole."""
        self.placed: list[tuple[Job, str]] = []
        """The jobs that this plan has given GPUs, or that wait for some, each with its pool."""
        self.gone: set[str] = set()
        """The jobs that this plan evicts from nodes which stay."""

    def takes(self, job: Job, pool: str) -> bool:
        """Whether the job runs on nodes in this pool."""
        kept = self.pools.get(pool)
        return bool(job.gpus and job.tenant and kept and job.gpus <= gpu_room(kept))

    def starts_for(self, job: Job, pool: str) -> bool:
        """Whether a node starts for the job in this pool, if it gets an instance there."""
        return self.takes(job, pool) and job.tenant not in self._failed.get(pool, ())

    def index(self, job: Job, pool: str) -> NodeIndex | None:
        """The nodes of the job's tenant in the pool."""
        return self._tenants.get((self.owner(job, pool), pool))

    def owner(self, of: Job | Node, pool: str) -> str:
        """Whose node it is, or would be: its tenant's, and where the pool's nodes are not shared,
        its project's. Tenants keep the form that they had while the pool was shared."""
        kept = self.pools.get(pool)
        return (
            of.tenant if kept and kept.nodes and kept.nodes.shared else f"{of.tenant} {of.project}"
        )

    def of_pool(self, pool: str) -> list[NodeIndex]:
        """The nodes of the pool, by tenant."""
        return [index for (_, name), index in sorted(self._tenants.items()) if name == pool]

    def protection(self, job: Job, pool: Pool) -> tuple[bool, int | None]:
        """Whether a `min_runtime` protects the job on a node, and until when (ms)."""
        return protection(job, pool, self._minima.get(job.project, 0), self._now)

    def take_claim(self, job: Job) -> None:
        """Free the GPUs of the job's claim, for the job's own turn."""
        assert job.claim is not None
        room = self.rooms.get((job.claim.pool, job.claim.node))
        if room is not None:
            index = self._changing(room)
            room.take_claim(job)
            index.put(room)

    def give(self, job: Job, room: NodeRoom) -> tuple[int, ...]:
        """Give the job GPUs of the node. Return their indexes."""
        index = self._changing(room)
        taken = room.give(job)
        index.put(room)
        return taken

    def hold(self, job: Job, room: NodeRoom) -> None:
        index = self._changing(room)
        room.hold(job)
        self._journal.put(self.held, job.name, room)
        index.put(room)

    def occupy(
        self, job: Job, room: NodeRoom, pool: PoolRoom, accounts: Accounts, *, promised: bool
    ) -> None:
        """Count the job in its user's limits, and the node for its project from the first job on;
        where projects share the node, the job's own amount. For others the node is no candidate any
        more in this plan. `promised`: the job only waits for the node."""
        self._journal.append(self.placed, (job, room.pool))
        if self.shared.are_in(room.pool) and not room.empty:
            accounts.take(job, room.pool, promised=promised)
        elif room.empty:
            self._journal.set(room, "empty", value=False)
            self._journal.set(room, "fixed", value=not self.may_evict(job))
            pool.keep_for_node(self.as_jobs[room.pool, room.name].demand)
            accounts.take(job, room.pool, promised=promised)
            return
        else:
            self._share(job, room, accounts)
        self.guard(room, pool)

    def _share(self, job: Job, room: NodeRoom, accounts: Accounts) -> None:
        """Count one more job on a node that counts whole for its project already."""
        accounts.on_nodes.take(job, room.pool)
        if not self.may_evict(job) and not room.fixed:
            amount = self.shared.of(job, room.pool) if accounts.shared else job.demand
            for account in accounts.of(job, room.pool):
                self._journal.set(account, "fixed", account.fixed + amount)
            self._journal.set(room, "fixed", value=True)

    def guard(self, room: NodeRoom, pool: PoolRoom) -> None:
        """Evict no job for the whole node any more in this plan, which counts on it."""
        shown = self.as_jobs.get((room.pool, room.name))
        if shown is not None:
            pool.protect(shown)

    def close(self, job: Job) -> None:
        """Note that the plan evicts the whole node that stands in it as this job."""
        key = self.stand_ins.place_of(job)
        if key is not None:
            room = self.rooms[key]
            index = self._changing(room)
            self._journal.set(room, "closed", value=True)
            self._journal.add(self.evicted, key)
            index.put(room)

    def begin(self, job: Job, pool: PoolRoom) -> NodeRoom:
        """Enter the node that the plan starts for this job, or will once it has an instance."""
        kept = pool.pool
        number = 1
        while f"node-{number}" in self._names[kept.name]:
            number += 1
        name = f"node-{number}"
        self._journal.add(self._names[kept.name], name)
        owner = self.owner(job, kept.name)
        room = NodeRoom(
            name,
            kept.name,
            owner,
            gpus=gpus_of(kept),
            journal=self._journal,
            may_evict=self.may_evict,
        )
        room.empty, room.fixed = False, not self.may_evict(job)
        room.entrance.one_person = (job.tenant, kept.name) in self._for_one_person
        self._journal.record(Nodes._leave, self, room)
        self._enter(room)
        self.hold(job, room)
        self._journal.append(self.placed, (job, room.pool))
        self._journal.put(self.begun, job.name, room)
        return room

    def evict(self, room: NodeRoom, victims: Iterable[Candidate], *, spared: bool = False) -> None:
        """Evict jobs on the node for another one there. `spared`: they only are no candidates any
        more in this plan."""
        index, stopped = self._changing(room), [*victims]
        room.evict(stopped, spared=spared)
        for victim in () if spared else stopped:
            self._journal.add(self.gone, victim.name)
        index.put(room)

    def move(self, job: Job, room: NodeRoom, ids: tuple[int, ...], pool: PoolRoom) -> Claim:
        """Keep GPUs of the node for a running job that moves there. Return its claim to them."""
        index = self._changing(room)
        room.keep(job, ids)
        index.put(room)
        self.guard(room, pool)
        counted = (job.admitted_class or job.priority_class) if job.auto else ""
        return copied(claim_to(room, job, counted, self._now), moved=True)

    def _opened(self, found: Occupied, pool: Pool) -> NodeRoom:
        node = found.node
        owner = self.owner(node, node.pool)
        room = NodeRoom(
            node.name,
            node.pool,
            owner,
            gpus=found.gpus,
            journal=self._journal,
            node=node,
            may_evict=self.may_evict,
        )
        if node.state is NodeState.STARTING:
            room.entrance.one_person = (node.tenant, node.pool) in self._for_one_person
        room.take_in(found, self._candidates(found, pool))
        leaves = node.leaves_at is not None and node.leaves_at <= self._now
        if node.leaves_at is not None:
            room.entrance.lasts_for = node.leaves_at - self._now
            began = node.running_since or node.started_at
            room.entrance.lasts_in_all = node.leaves_at - began
        room.closed = room.closed or leaves or (node.pool, node.name) in self.leaving
        return room

    def _candidates(self, found: Occupied, pool: Pool) -> list[Candidate]:
        """The jobs that may be evicted for others on the node, in the order of eviction."""
        able = []
        for job in found.running:
            if job.group in self.members.on_nodes or not may_be_stopped(job, self.may_evict):
                continue
            protected, until = self.protection(job, pool)
            if protected:
                self._protected(until)
                continue
            able.append(candidate_on(job, found.node.pool, found.gpus, rank(job), self._now))
        key = found.node.pool, found.node.name
        for gang in self.members.on(key):
            self._protected(self.members.spared(gang)[1])
            able += [whole] if (whole := self.members.candidate(gang, key)) else []
        return sorted(able, key=lambda candidate: candidate.order)

    def _protected(self, until: int | None) -> None:
        """Note when a `min_runtime` ends (ms); None: that is not known."""
        known = [at for at in (until, self.protected_until) if at is not None]
        self.protected_until = min(known, default=None)

    def _enter(self, room: NodeRoom) -> None:
        self.rooms[room.pool, room.name] = room
        self._tenants.setdefault((room.tenant, room.pool), NodeIndex()).put(room)

    def _leave(self, room: NodeRoom) -> None:
        del self.rooms[room.pool, room.name]
        self._tenants[room.tenant, room.pool].remove(room.name)

    def _changing(self, room: NodeRoom) -> NodeIndex:
        """The index to put the room in after a change. A rollback puts it in again as it was."""
        index = self._tenants[room.tenant, room.pool]
        self._journal.record(NodeIndex.put, index, room)
        return index
