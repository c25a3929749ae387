"""The orders of a node: everything that should run there now, written from the table.

Every handler may write them at any time. It reads the present orders first, then the node's jobs,
and replaces only what it has read. So the last orders contain every commit that was made before
their handler read them; whoever commits afterwards writes them again.

An attempt begins to be ordered by the handler that carries out its start (`starts`). Until then it
may be taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import MOST_JOBS, Node, NodeState
from slotq_core.model.pools import Pool
from slotq_core.operations.attempts.observing import Reads
from slotq_core.operations.attempts.start_requests import StartRequests
from slotq_core.policy.lifecycle.suspend import grace_ends
from slotq_core.ports.nodes import Document, NodeDocuments
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Request, stopping_condition
from slotq_core.wire.nodes import documents as wire

_TRIES = 10
"""How often orders are written while others write them, too."""

_LARGEST_REQUEST = wire.LARGEST_ORDERS // MOST_JOBS - 4096
"""Bytes of an attempt's request in the orders; the rest of its part is for what else they say."""

NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """Orders that are in the bucket."""

    orders: wire.Orders
    version: str | None
    """Of the document; None: there is none yet."""

    @property
    def attempts(self) -> Mapping[str, wire.OrderedAttempt]:
        """By the names of their training jobs."""
        return {order.attempt: order for order in self.orders.attempts}


class Orders:
    def __init__(
        self, store: Store, documents: NodeDocuments, clock: Clock, requests: StartRequests
    ) -> None:
        self._store, self._documents, self._clock = store, documents, clock
        self._requests = requests

    def read(self, node: Node) -> Written:
        """Return the present orders; empty ones in place of orders that are lost or cannot be read.
        Raises Unavailable."""
        document = self._documents.orders(node)
        orders = None if document is None else _orders_in(document, node)
        if orders is None:
            orders = wire.Orders(
                node=node.name,
                generation=node.generation,
                number=0,
                lease_s=self._documents.lease(),
            )
        return Written(orders=orders, version=document.version if document else None)

    def write(
        self, node: Node, *, starts: Collection[str] = NOBODY, stops: Collection[str] = NOBODY
    ) -> wire.Orders | None:
        """Write what should run on the node now; nothing if the present orders say so already.
        Returns the orders; None: this generation of the node has ended.

        `starts`: training jobs of attempts that this handler starts. `stops`: those that end now,
        also within their grace. Raises Conflict if others have written each time, Unavailable, and
        NotUnderstood for a node whose record cannot be read.
        """
        for _ in range(_TRIES):
            present = self.read(node)
            now = self._store.nodes.get(node.pool, node.name)
            if now is None or now.generation != node.generation:
                return None
            orders = self._wanted(now, present, starts, stops)
            if present.version is not None and _say_the_same(orders, present.orders):
                return present.orders
            try:
                content = wire.written_orders(orders)
                self._documents.put_orders(node, content, replaces=present.version)
            except Conflict:
                continue
            return orders
        raise Conflict(f"orders of node {node.name}: others wrote them {_TRIES} times in a row")

    def _wanted(
        self, node: Node, present: Written, starts: Collection[str], stops: Collection[str]
    ) -> wire.Orders:
        known = present.attempts
        there = jobs_on(self._store, node)
        pairs = [
            (job, attempt)
            for job, attempt in there.attempts
            if attempt.created or attempt.training_job in known or attempt.training_job in starts
        ]
        new = [job.name for job, attempt in pairs if attempt.training_job not in known]
        reads = Reads(self._store, new)
        pool = self._pool(node, reads) if pairs else None
        found = [order for order in known.values() if (order.job, order.number) in there.unread]
        for job, attempt in pairs:
            before = known.get(attempt.training_job)
            request = before.request if before else self._request(job, attempt, reads)
            if request is None:
                continue
            stopped = attempt.training_job in stops or (before is not None and before.stop)
            order = self._ordered(job, attempt, request, pool, stopped=stopped)
            found.append(_with_cpus(order, node.contents) if order.gpu_part else order)
        return wire.Orders(
            node=node.name,
            generation=node.generation,
            number=max(present.orders.number + 1, self._clock.now()),
            lease_s=self._documents.lease(),
            leave=node.state is NodeState.STOPPING,
            attempts=tuple(sorted(found, key=lambda order: order.attempt)),
        )

    def _pool(self, node: Node, reads: Reads) -> Pool | None:
        configuration = reads.configuration(self._clock.now())
        return next((pool for pool in configuration.pools if pool.name == node.pool), None)

    def _request(self, job: Job, attempt: Attempt, reads: Reads) -> Request | None:
        """Return the request as the agent reads it; None: the job's project forbids its start by
        now, or it is too large. What has started runs on."""
        request, broken = self._requests.prescribed(job, attempt, reads)
        if broken and not attempt.created:
            return None
        found = as_ordered(self._requests.as_member(request, job, attempt), job)
        return None if is_too_large(found) else found

    def _ordered(
        self, job: Job, attempt: Attempt, request: Request, pool: Pool | None, *, stopped: bool
    ) -> wire.OrderedAttempt:
        stop, until, share = attempt.stop, grace_ends(job), attempt.node_share
        in_grace = until is not None and until > self._clock.now() and not stopped
        grace_ms = pool.suspend_grace if pool else 0
        if stop is not None and stop.grace_until is not None:
            grace_ms = stop.grace_until - stop.at
        suspend = None
        if stop is not None and in_grace:
            suspend = wire.Suspend(by=stop.by, reason=stop.cause)
        return wire.OrderedAttempt(
            attempt=attempt.training_job,
            job=job.name,
            number=attempt.number,
            gpus=attempt.gpu_ids,
            gpu_part=attempt.gpu_part or None,
            cpus=share["vcpus"] or None,
            memory_mib=share["memory_gib"] * 1024 or None,
            grace_s=-(-grace_ms // 1000) or wire.GRACE,
            literal_paths=job.literal_paths,
            suspend=suspend,
            stop=stopped or (stop is not None and not in_grace),
            request=request,
        )


def _with_cpus(order: wire.OrderedAttempt, contents: Demand) -> wire.OrderedAttempt:
    """The order of a job with a part of a GPU: as large a part of the node's CPUs goes along, if
    they are known and the job has not asked for others."""
    whole = WHOLE * contents["gpus"]
    if order.cpus or order.gpu_part is None or not contents["vcpus"] or not whole:
        return order
    return replace(order, cpus=max(1, contents["vcpus"] * order.gpu_part // whole))


def as_ordered(request: Request, job: Job) -> dict[str, Any]:
    """Return the request as the agent reads it."""
    return wire.reduced({**request, **stopping_condition(request, job)})


def is_too_large(request: Request) -> bool:
    """Whether orders may have no room for as many such requests as a node runs jobs. What
    SageMaker takes of ASCII always has."""
    return len(wire.canonical(request)) > _LARGEST_REQUEST


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsOnNode:
    attempts: Sequence[tuple[Job, Attempt]]
    """The live attempts, with their jobs."""
    unread: frozenset[tuple[str, int]]
    """The jobs that cannot be read, with the numbers of their attempts."""


def jobs_on(store: Store, node: Node) -> JobsOnNode:
    """Return the jobs on this generation of the node. Strongly consistent. Raises Unavailable, and
    NotUnderstood for a node whose record cannot be read."""
    numbers = store.nodes.jobs(node)
    jobs = store.jobs.several([*numbers], readable_only=True)
    return JobsOnNode(
        attempts=[
            (job, job.attempt)
            for job in jobs.values()
            if job.attempt is not None and is_on(job.attempt, node)
        ],
        unread=frozenset((name, n) for name, n in numbers.items() if name not in jobs),
    )


def is_on(attempt: Attempt, node: Node) -> bool:
    """Whether the attempt runs on this generation of the node."""
    place = attempt.pool, attempt.node, attempt.node_generation
    return place == (node.pool, node.name, node.generation)


def _orders_in(document: Document, node: Node) -> wire.Orders | None:
    try:
        orders = wire.read_orders(document.content)
    except NotUnderstood:
        return None
    same = (orders.node, orders.generation) == (node.name, node.generation)
    return orders if same else None


def _say_the_same(orders: wire.Orders, present: wire.Orders) -> bool:
    """Whether the agent has nothing to learn from these orders."""
    as_present = replace(orders, number=present.number)
    return wire.written_orders(as_present) == wire.written_orders(present)
