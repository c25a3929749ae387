"""The whole queue as a caller may see it, as input for simulations.

Read like the load of a pass, strongly consistent, so that the caller's plan equals the next pass's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slotq_core.errors import NoSuchJob, NotUnderstood
from slotq_core.model.groups import Group
from slotq_core.model.jobs import ACTIVE_STATES, QUEUED_STATES, Job, JobState
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import QueueSnapshot
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.jobs.group_lookup import readable_groups
from slotq_core.operations.jobs.lookup import JobLookup
from slotq_core.operations.status import Status
from slotq_core.policy.lifecycle.warm_slots import first_to_go
from slotq_core.policy.order import Precedence, last_yields, position
from slotq_core.ports.store import Store
from slotq_core.ports.stored import World
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import MAX_RUNTIME, Request
from slotq_core.privacy.withholding import as_seen

MOST_JOBS = 4_000
"""The most jobs in one answer. Lambda answers with at most 6 MB."""

MOST_READ = 100
"""How many requests are read for the longest time that their jobs may run: of those that hold slots
first, then of the next ones."""

_QUEUED = (JobState.PENDING, JobState.PREEMPTED, JobState.BACKOFF, JobState.HELD)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeStatus:
    """A node, with its jobs."""

    node: Node
    pool: Pool
    jobs: tuple[Job, ...]
    """The jobs on the node."""
    claimants: tuple[Job, ...]
    """The waiting jobs with a claim to GPUs of the node."""
    sees: Callable[[Job], bool]
    """Whether the caller may see a job."""


class QueueSnapshots:
    """Reads the queue whole."""

    def __init__(
        self, store: Store, clock: Clock, authorizer: Authorizer, lookup: JobLookup
    ) -> None:
        self._store, self._clock = store, clock
        self._authorizer, self._lookup = authorizer, lookup

    def read(self, *, to: str | None = None) -> QueueSnapshot:
        """The queue as caller `to` may see it (None: the queue's owner)."""
        now = self._clock.now()
        queued = self._store.jobs.in_states(_QUEUED, limit=MOST_JOBS + 1)
        long = len(queued) > MOST_JOBS
        world = self._world(now, long=long)
        snapshot = world.snapshot
        loaded = (*snapshot.active, *snapshot.waiting, *snapshot.due)
        jobs = tuple({job.name: job for job in (*_unplanned(queued), *loaded)}.values())
        found = QueueSnapshot(
            at=now,
            pools=snapshot.pools,
            jobs=jobs,
            groups=self._groups(jobs, snapshot.groups),
            nodes=snapshot.nodes,
            warm=first_to_go(slot for slot in snapshot.warm if slot.holds),
            yields=snapshot.yields,
            spent=snapshot.spent,
            past_use=snapshot.past_use,
            left_out=len({job.name for job in queued} - {job.name for job in jobs}) if long else 0,
        )
        found = replace(found, etas=self._etas(jobs), limits=self._limits(found))
        return _in_order(as_seen(found, self._authorizer.sight(jobs, by=to)))

    def nodes(self, *, to: str) -> list[NodeStatus]:
        """Every node, by pool and name, with its jobs as caller `to` may see them. Reads what a
        pass loads, and no job twice."""
        snapshot = self._store.worlds.load(self._clock.now()).snapshot
        sees = self._authorizer.sight((*snapshot.active, *snapshot.waiting), by=to)
        on: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for job in snapshot.active:
            if job.attempt and job.attempt.node:
                on[job.attempt.pool, job.attempt.node].append(job)
        owed: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for job in (*snapshot.active, *snapshot.waiting):
            if job.claim and job.claim.node:
                owed[job.claim.pool, job.claim.node].append(job)
        return [
            NodeStatus(
                node=node,
                pool=pool,
                jobs=tuple(on[pool.name, node.name]),
                claimants=tuple(owed[pool.name, node.name]),
                sees=sees or (lambda _: True),
            )
            for pool in snapshot.pools
            for node in sorted(snapshot.nodes, key=_number)
            if node.pool == pool.name
        ]

    def _world(self, now: int, *, long: bool) -> World:
        """The world with all waiting jobs; if the queue is too long, with the first of each
        line."""
        if not long:
            return self._store.worlds.load_all(now)
        world = self._store.worlds.load(now)
        snapshot = world.snapshot
        waiting = tuple(job for job in snapshot.waiting if job.name not in snapshot.unread)
        return replace(world, snapshot=replace(snapshot, waiting=waiting))

    def _groups(self, jobs: Iterable[Job], known: Sequence[Group]) -> tuple[Group, ...]:
        missing = {job.group for job in jobs} - {"", *(group.name for group in known)}
        kept = readable_groups(self._store, missing)
        return (*known, *(stored.group for stored in kept))

    def _etas(self, jobs: Iterable[Job]) -> Mapping[str, int]:
        running = [Status(job=job) for job in jobs if job.state in ACTIVE_STATES]
        shown = self._lookup.with_progress(running)
        return {status.job.name: status.eta for status in shown if status.eta is not None}

    def _limits(self, queue: QueueSnapshot) -> Mapping[str, int]:
        by = _precedence(queue)
        first = sorted(queue.jobs, key=lambda job: (not job.active, position(job, by)))
        found = {}
        for job in first[:MOST_READ]:
            try:
                found[job.name] = _longest(self._store.jobs.request(job.name))
            except (NoSuchJob, NotUnderstood):
                continue
        return found


def _number(node: Node) -> tuple[int, str]:
    """The order of nodes in a pool: `node-2` before `node-10`."""
    number = node.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0, node.name


def _precedence(queue: QueueSnapshot) -> Precedence:
    return Precedence(last_yields(queue.yields), queue.past_use.users)


def _in_order(queue: QueueSnapshot) -> QueueSnapshot:
    """The queue with its jobs in the order of pages: first those that hold slots, then those that
    wait, in the policy's order."""
    by = _precedence(queue)
    order = sorted(queue.jobs, key=lambda job: (not job.active, not job.waits, position(job, by)))
    return replace(queue, jobs=tuple(order))


def _unplanned(queued: Iterable[Job]) -> Iterable[Job]:
    """The jobs that a plan does not see: they are held, wait for others or for a time."""
    return (job for job in queued if job.state in QUEUED_STATES and not job.waits)


def _longest(request: Request) -> int:
    asked = request.get("StoppingCondition")
    runtime = asked.get("MaxRuntimeInSeconds") if isinstance(asked, Mapping) else None
    return 1000 * (runtime if isinstance(runtime, int) else MAX_RUNTIME)
