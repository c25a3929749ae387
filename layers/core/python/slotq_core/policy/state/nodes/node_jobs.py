"""A node as one job of its pool, for all jobs that do not run on it.

A node with jobs, or with a claim to it, is one running job that holds a slot: all of its jobs are
evicted together, or none. A node without jobs, and one that ends, is a job that stops already: its
slot comes free for everybody, and counts for nobody.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import Pool, gpus_of
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import is_settled, unsaved
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict

NodeName = tuple[str, str]
"""A pool and the name of a node there."""

NO_GANGS: Mapping[str, Job] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupied:
    """A node with the jobs that hold its GPUs, and those that have a claim to some."""

    node: Node
    gpus: int
    """How many the node has."""
    jobs: tuple[Job, ...] = ()
    claimants: tuple[Job, ...] = ()

    @property
    def running(self) -> list[Job]:
        return [job for job in self.jobs if job.state is not JobState.STOPPING]

    @property
    def person(self) -> str | None:
        """Whose jobs run here, else whose claim is the oldest; None: nobody's."""
        first = next(iter(self.running), None) or min(self.claimants, key=_claimed, default=None)
        return first.person if first else None

    @property
    def left(self) -> tuple[Gpus, ...]:
        """What of each GPU is free, now or when stopping jobs have stopped, and that no job claims:
        most first."""
        left = [WHOLE] * self.gpus
        for job in self.running:
            for index, amount in job.attempt.gpus_held.items() if job.attempt else ():
                if index < self.gpus:
                    left[index] -= amount
        for job in self.claimants:
            for index in job.claim.gpu_ids if job.claim else ():
                if index < self.gpus:
                    left[index] -= job.gpus % WHOLE or WHOLE
        return tuple(sorted(left, reverse=True))

    @property
    def ends(self) -> bool:
        """Whether nothing keeps the node any more: it stops, or will with its last job."""
        return self.node.state is NodeState.STOPPING or (
            self.node.state is NodeState.DRAINING and not self.running
        )

    @property
    def is_only_awaited(self) -> bool:
        """Whether nobody runs on the node, and a job entitled to evict all that have claims to it
        may have its instance. No other job takes the place of one that moves here."""
        moves = any(job.claim and job.claim.moved for job in self.claimants)
        kept = self.ends or self.running or moves or not self.node.created
        return bool(self.claimants) and not kept

    @property
    def empty(self) -> bool:
        """Whether no job needs the node as far as the snapshot says."""
        return not (self.ends or self.running or self.claimants)


def _name(job: Job) -> str:
    return job.name


def _claimed(job: Job) -> tuple[int, int, str]:
    """The order of claims."""
    return job.claim.since if job.claim else 0, job.entry_time, job.name


class StandIns:
    """The jobs that stand in a plan for its nodes."""

    def __init__(self, nodes: Mapping[NodeName, Occupied], jobs: Mapping[NodeName, Job]) -> None:
        self._nodes, self._jobs = nodes, jobs
        self._places = {job.name: place for place, job in jobs.items()}

    def place_of(self, job: Job) -> NodeName | None:
        """The node for which the job stands; None for any other job."""
        return self._places.get(job.name)

    def node_of(self, job: Job) -> Node | None:
        """The same, as it was before this plan."""
        place = self._places.get(job.name)
        return self._nodes[place].node if place else None

    def jobs_on(self, job: Job) -> tuple[Job, ...]:
        """The running jobs of the node for which the job stands, by name, else the job itself."""
        place = self._places.get(job.name)
        return tuple(sorted(self._nodes[place].running, key=_name)) if place else (job,)

    def names(self, job: Job) -> tuple[str, ...]:
        """The names of the jobs that hold or claim GPUs of the node for which the job stands, else
        the job's own."""
        place = self._places.get(job.name)
        if place is None:
            return (job.name,)
        found = self._nodes[place]
        return tuple(holder.name for holder in (*found.jobs, *found.claimants))

    def of(self, place: NodeName) -> Job | None:
        """The job that stands for the node; None: this plan starts the node."""
        return self._jobs.get(place)

    def holders(self, place: NodeName) -> tuple[Job, ...]:
        """The jobs that held GPUs of the node before this plan."""
        found = self._nodes.get(place)
        return found.jobs if found else ()


def occupied(snapshot: Snapshot) -> dict[NodeName, Occupied]:
    """Every node of a pool that exists, with its jobs, in the order of the snapshot."""
    pools = {pool.name: pool for pool in snapshot.pools}
    jobs: dict[NodeName, list[Job]] = {}
    claimants: dict[NodeName, list[Job]] = {}
    for job in snapshot.active:
        if job.attempt and job.attempt.node:
            jobs.setdefault((job.attempt.pool, job.attempt.node), []).append(job)
    for job in (*snapshot.active, *snapshot.waiting):
        if job.claim and job.claim.node:
            claimants.setdefault((job.claim.pool, job.claim.node), []).append(job)
    return {
        key: Occupied(
            node=node,
            gpus=node.contents["gpus"] or gpus_of(pools[node.pool]),
            jobs=tuple(jobs.get(key, ())),
            claimants=tuple(claimants.get(key, ())),
        )
        for node in snapshot.nodes
        if node.pool in pools
        for key in [(node.pool, node.name)]
    }


def for_one_person(nodes: Mapping[NodeName, Occupied]) -> frozenset[tuple[str, str]]:
    """The tenants, each with a pool, whose next node will take one person's jobs at a time, as one
    that is there does: how the image's user may act is the same on all of them."""
    return frozenset(
        (found.node.tenant, pool) for (pool, _), found in nodes.items() if found.node.one_person
    )


def with_nodes_as_jobs(
    snapshot: Snapshot,
    nodes: Mapping[NodeName, Occupied],
    now: int,
    lowest: Mapping[str, Job] = NO_GANGS,
    may_evict: MayEvict = BY_SETTING,
) -> tuple[Snapshot, dict[NodeName, Job]]:
    """The snapshot with each node as one job in place of the jobs on it, and these jobs by node.
    `lowest`: by gang with members on nodes, the member whose rank is the gang's."""
    pools = {pool.name: pool for pool in snapshot.pools}
    shown = {
        key: _as_job(found, pools[key[0]], now, lowest, may_evict) for key, found in nodes.items()
    }
    others = (job for job in snapshot.active if not (job.attempt and job.attempt.node))
    return copied(snapshot, active=(*others, *shown.values())), shown


def leaving(snapshot: Snapshot, nodes: Mapping[NodeName, Occupied]) -> frozenset[NodeName]:
    """The nodes that take no job any more and end with their last one: their pool keeps none, none
    of this instance type, or has shrunk below its use."""
    pools = {pool.name: pool for pool in snapshot.pools}
    gone = frozenset(key for key, found in nodes.items() if not _is_kept(found.node, pools[key[0]]))
    return gone | frozenset(_beyond_capacity(snapshot, nodes, gone))


def _is_kept(node: Node, pool: Pool) -> bool:
    return pool.nodes is not None and node.instance_type in {"", pool.instance_type}


def _beyond_capacity(
    snapshot: Snapshot, nodes: Mapping[NodeName, Occupied], gone: frozenset[NodeName]
) -> Iterator[NodeName]:
    """The nodes beyond what their pools have: as many as are too many besides those that end
    anyway. The emptiest first, of equal ones the latest by name; a node that someone waits for only
    after all others, so that no job is evicted in vain."""
    excess = {
        pool.name: -(pool.capacity.slots - pool.foreign.slots)
        for pool in snapshot.pools
        if pool.nodes is not None
    }
    for job in snapshot.active:
        if job.state is JobState.STOPPING or job.attempt is None or job.attempt.node:
            continue
        if job.attempt.pool in excess:
            excess[job.attempt.pool] += job.demand.slots
    able: dict[str, list[NodeName]] = {}
    for key, found in nodes.items():
        if key not in gone and found.node.state in {NodeState.STARTING, NodeState.READY}:
            able.setdefault(key[0], []).append(key)
    for pool, names in able.items():
        many = excess[pool] + len(names)
        if many > 0:
            latest_first = sorted(names, reverse=True)
            yield from sorted(latest_first, key=lambda key: _use(nodes[key]))[:many]


def _use(found: Occupied) -> tuple[bool, Gpus]:
    """How much a node is in use: whether someone waits for it, and what its jobs hold."""
    is_awaited = bool(found.claimants) and found.node.state is NodeState.READY
    held = (job.attempt.gpus_held.values() for job in found.jobs if job.attempt)
    claimed = (job.gpus for job in found.claimants)
    return is_awaited, sum(map(sum, held)) + sum(claimed)


def slot_of(pool: Pool) -> Demand:
    """What one instance takes of the pool; a slot also of a pool that has none any more."""
    slots = max(1, pool.capacity.slots)
    return Demand({name: amount // slots for name, amount in pool.capacity.items()} | {"slots": 1})


def _as_job(
    found: Occupied, pool: Pool, now: int, lowest: Mapping[str, Job], may_evict: MayEvict
) -> Job:
    node, running = found.node, found.running
    shown = Job(
        name=f"{node.pool}/{node.name}",
        state=JobState.STOPPING,
        priority=0,
        entry_time=node.started_at,
        demand=slot_of(pool),
        pools=(node.pool,),
        checkpoints=False,
        attempt=Attempt(
            number=1,
            training_job=node.training_job,
            token=node.token,
            pool=node.pool,
            instance_type=pool.instance_type,
            admitted_at=node.started_at,
            created=True,
            running_since=node.running_since,
        ),
    )
    if found.empty or found.ends:
        return shown
    members: Sequence[Job] = (*running, *found.claimants)
    highest = max((lowest.get(job.group, job) for job in members), key=rank)
    is_mixed = any(job.project != highest.project for job in members)
    guarded = not found.is_only_awaited and (
        found.claimants
        or node.state is NodeState.STARTING
        or not running
        or not all(map(is_settled, running))
    )
    return copied(
        shown,
        # A job whose start nobody has confirmed is never evicted.
        state=JobState.STARTING if guarded or not running else JobState.RUNNING,
        # Its own group: who evicts it also evicts the gangs of the jobs on it.
        group=shown.name if any(job.group in lowest for job in running) else "",
        priority=highest.priority,
        priority_class=highest.priority_class,
        workload=highest.workload,
        project=node.project or highest.project,
        entry_time=max(job.entry_time for job in members),
        # Nobody may take back a node from several projects at once.
        preemptible=not is_mixed and all(map(may_evict, members)),
        min_runtime=max(job.min_runtime for job in members),
        attempt=_attempt(found, shown, running, now, guarded=bool(guarded)),
    )


def _attempt(
    found: Occupied, shown: Job, running: Sequence[Job], now: int, *, guarded: bool
) -> Attempt:
    """The attempt of the node's job. Its `min_runtime` counts from the last start on the node. What
    its eviction would lose is what the jobs on it would, each by its part of the node."""
    assert shown.attempt is not None
    since = [job.attempt.running_since if job.attempt else None for job in running]
    known = [at for at in since if at is not None]
    all_run = bool(known) and len(known) == len(since)
    return copied(
        shown.attempt,
        created=not guarded,
        running_since=max(known) if all_run else None,
        checkpoint_at=now - _lost(running, found.gpus, now),
    )


def _lost(jobs: Iterable[Job], gpus: int, now: int) -> int:
    """Work that the eviction of these jobs may cost (ms of the whole node)."""
    return sum(unsaved(job, now) * job.gpus for job in jobs) // (WHOLE * max(1, gpus))
