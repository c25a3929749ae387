"""What a transaction takes from each pool and each node, and gives back, by one rule for every
store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slotq_core.errors import Conflict, SlotQError
from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.ports.stored import Change, NodeChange, WarmChange

_NOTHING = Demand()

NodeName = tuple[str, str]
"""The pool and the name of a node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolChange:
    """One pool's part of a transaction."""

    gained: Demand = field(default_factory=Demand)
    """Net change of the slots and resources that jobs and nodes hold; negative: less."""
    admitted: frozenset[str] = frozenset()
    """The resources of which some job or node newly holds any. They must fit after the
    transaction."""
    seen: int | None = None
    """The ledger version that the decision depends on; None if it depends on none."""
    used: bool = False
    """Whether some use of the pool changes, even if the sum does not."""

    @property
    def raises_version(self) -> bool:
        return self.used or self.seen is not None


def slots_of(job: Job) -> tuple[tuple[str, Demand], ...]:
    """Return the amounts that the job holds in each pool. A job on a node holds none: the node
    does."""
    return () if job.attempt is not None and job.attempt.node else job.holds


def pool_changes(
    changes: Sequence[Change],
    seen: Mapping[str, int] | None,
    nodes: Sequence[NodeChange] = (),
    warm: Sequence[WarmChange] = (),
) -> dict[str, PoolChange]:
    """Return, by pool, the changes' effect on the pool's use, and the version at which the pool was
    seen. A warm slot is no use, and yet decisions depend on it. Raises SlotQError, a bug of the
    caller, if a new node's generation does not follow the version that was seen."""
    pools = {pool: PoolChange(seen=version) for pool, version in (seen or {}).items()}
    for change in changes:
        before, after = dict(slots_of(change.before)), dict(slots_of(change.after))
        for pool in {*before, *after}:
            if gained := after.get(pool, _NOTHING) - before.get(pool, _NOTHING):
                pools[pool] = _add(pools.get(pool, PoolChange()), gained)
        if change.after.waits and change.after.claim and not change.before.waits:
            pool = change.after.claim.pool  # The job moves: from now on its claim is in this pool.
            pools[pool] = replace(pools.get(pool, PoolChange()), used=True)
    for slot in warm:
        pools[slot.slot.pool] = replace(pools.get(slot.slot.pool, PoolChange()), used=True)
    for node in nodes:
        if node.starts:
            pool_change = pools.get(node.node.pool, PoolChange())
            version = node.node.generation - 1
            if pool_change.seen not in {None, version}:
                raise SlotQError(f"node {node.node.name}: its generation is not the next one")
            pools[node.node.pool] = _add(replace(pool_change, seen=version), node.node.demand)
        elif node.ends:
            freed = _NOTHING - node.node.demand
            pools[node.node.pool] = _add(pools.get(node.node.pool, PoolChange()), freed)
    return pools


def _add(pool: PoolChange, gained: Demand) -> PoolChange:
    return replace(
        pool,
        gained=pool.gained + gained,
        admitted=pool.admitted | {name for name, amount in gained.items() if amount > 0},
        used=True,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class OnNode:
    """What one attempt holds of its node."""

    job: str
    number: int
    """The attempt's number."""
    gpus: Mapping[int, Gpus]
    """Of each GPU, by the GPU's index."""
    amounts: Demand
    """Of other resources."""
    person: str = ""
    """As in the job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeUse:
    """One node's part of a transaction."""

    generation: int
    change: NodeChange | None = None
    """How the node itself changes; None: not at all."""
    tenants: frozenset[str] = frozenset()
    """The tenants of the jobs that come."""
    came: tuple[OnNode, ...] = ()
    left: tuple[OnNode, ...] = ()
    at: int = 0
    """When the last job left (ms)."""

    @property
    def persons(self) -> frozenset[str]:
        """The persons whose jobs come."""
        return frozenset(job.person for job in self.came)

    @property
    def gained(self) -> tuple[dict[int, int], Demand]:
        """The net change of what is held: by GPU, and of other resources; negative: less."""
        gpus: dict[int, int] = {}
        for sign, jobs in ((1, self.came), (-1, self.left)):
            for job in jobs:
                for index, amount in job.gpus.items():
                    gpus[index] = gpus.get(index, 0) + sign * amount
        came, left = (Demand.total(job.amounts for job in jobs) for jobs in (self.came, self.left))
        return gpus, came - left


def on_node(job: Job) -> OnNode | None:
    """Return what the job holds of a node; None: it runs on none."""
    attempt = job.attempt
    if attempt is None or not attempt.node:
        return None
    return OnNode(
        job=job.name,
        number=attempt.number,
        gpus=attempt.gpus_held,
        amounts=attempt.node_share,
        person=job.person,
    )


def node_uses(
    changes: Sequence[Change], nodes: Iterable[NodeChange] = ()
) -> dict[NodeName, NodeUse]:
    """Return, by node, what the transaction changes. Raises Conflict if it changes two generations
    of one node: each of them alone may be changed. Raises SlotQError, a bug of the caller, if it
    lets a job come to a node that starts or ends."""
    uses = {
        (change.node.pool, change.node.name): NodeUse(
            generation=change.node.generation, change=change
        )
        for change in nodes
    }
    for change in changes:
        before, after = change.before.attempt, change.after.attempt
        if _place(before) == _place(after):
            continue
        if (left := on_node(change.before)) is not None and before is not None:
            use = _use(uses, before)
            at = max(use.at, change.after.changed_at)
            uses[before.pool, before.node] = replace(use, left=(*use.left, left), at=at)
        if (came := on_node(change.after)) is not None and after is not None:
            use = _use(uses, after)
            tenants = use.tenants | {change.after.tenant}
            uses[after.pool, after.node] = replace(use, came=(*use.came, came), tenants=tenants)
    for (_, name), use in uses.items():
        if use.came and use.change is not None and (use.change.starts or use.change.ends):
            raise SlotQError(f"node {name}: a job cannot come to a node that starts or ends")
    return uses


def _place(attempt: Attempt | None) -> tuple[str, str, int, int] | None:
    """Where the attempt is, if it is on a node."""
    if attempt is None or not attempt.node:
        return None
    return attempt.pool, attempt.node, attempt.node_generation, attempt.number


def _use(uses: Mapping[NodeName, NodeUse], attempt: Attempt) -> NodeUse:
    found = uses.get((attempt.pool, attempt.node))
    if found is None:
        return NodeUse(generation=attempt.node_generation)
    if found.generation != attempt.node_generation:
        raise Conflict(f"node {attempt.node} has started again since one of its jobs came to it")
    return found


def room_of(node: Node, jobs: Iterable[OnNode]) -> tuple[dict[int, int], dict[str, int]]:
    """Return what is free on the node beside these jobs: hundredths of each GPU, and other
    resources."""
    gpus = dict.fromkeys(range(node.contents["gpus"]), WHOLE)
    others = {name: amount for name, amount in node.contents.items() if name != "gpus"}
    for job in jobs:
        for index, amount in job.gpus.items():
            gpus[index] = gpus.get(index, 0) - amount
        for name, amount in job.amounts.items():
            others[name] = others.get(name, 0) - amount
    return gpus, others
