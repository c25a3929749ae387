"""Refused decisions: the pass goes on without the affected jobs or pools.

A race changes the conditions of a decision. So two refusals on the same conditions are not a race:
a stored record can never meet the conditions. The pass then decides nothing more about the jobs of
the decision, or about the pool whose ledger refuses it. All other pools and jobs go on. Each pass
tries again, and reports the refusal.

The slots that such a job holds or claims count as a foreign training job's. A group is put away
whole, so that its other members look neither incomplete nor left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slotq_core.errors import ConditionFalse, Malformed, SlotQError
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import line_of
from slotq_core.policy.plan import (
    Answers,
    Decision,
    EndNode,
    Found,
    Need,
    Plan,
    Release,
    jobs_in,
    nodes_in,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PutAway:
    """The jobs and pools that are put away."""

    jobs: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    """Nothing is decided about these pools, or about jobs that hold or claim slots of them."""
    every_group: bool = False
    nodes: frozenset[tuple[str, str]] = frozenset()
    """Nodes, by pool and name, whose end is refused. Nothing else about them changes."""
    warm: frozenset[str] = frozenset()
    """Warm slots, by training job, whose release is refused."""

    def __bool__(self) -> bool:
        return bool(self.jobs or self.groups or self.pools or self.every_group)

    def left_of(self, plan: Plan) -> Plan:
        """The plan without the ends of nodes and the releases that are put away."""
        if not (self.nodes or self.warm):
            return plan
        left = tuple(
            decision
            for decision in plan.decisions
            if not (
                (isinstance(decision, EndNode) and {*nodes_in(decision)} <= self.nodes)
                or (isinstance(decision, Release) and self.warm & {*_slots_in(decision)})
            )
        )
        return replace(plan, decisions=left)

    def has(self, job: Job) -> bool:
        if job.name in self.jobs:
            return True
        if job.group and (self.every_group or job.group in self.groups):
            return True
        return any(pool in self.pools for pool, _ in _occupied(job))


def without(snapshot: Snapshot, away: PutAway, more: Answers) -> tuple[Snapshot, Answers]:
    """Return the snapshot and the answers (`plan`) without the jobs and pools put away."""
    if not away:
        return snapshot, more
    skipping = _skipping(more, away)
    kept = [job for job in snapshot.waiting if not away.has(job)]
    behind = dict(snapshot.behind)
    for job in snapshot.waiting:
        # The jobs of a group's line are put away together.
        if away.has(job) and behind.pop(job.name, 0) > 0 and job.name in away.jobs:
            kept += _next_of(job, kept, behind, skipping)
    left = replace(
        snapshot,
        pools=_closed(snapshot, away),
        active=tuple(job for job in snapshot.active if not away.has(job)),
        waiting=tuple(kept),
        due=tuple(job for job in snapshot.due if not away.has(job)),
        behind=behind,
        groups=tuple(
            group
            for group in snapshot.groups
            if not away.every_group and group.name not in away.groups
        ),
    )
    return left, skipping


def _occupied(job: Job) -> tuple[tuple[str, Demand], ...]:
    """The amounts that the job holds or claims, by pool."""
    claimed = ((job.claim.pool, job.claim.amount),) if job.claim else ()
    return job.holds + claimed


def _closed(snapshot: Snapshot, away: PutAway) -> tuple[Pool, ...]:
    """The pools: the slots of jobs put away count as foreign, and closed pools are full."""
    occupied: dict[str, Demand] = {}
    for job in (*snapshot.active, *snapshot.waiting):
        for pool, amount in _occupied(job) if away.has(job) else ():
            occupied[pool] = occupied.get(pool, Demand()) + amount
    return tuple(
        replace(
            pool,
            foreign=pool.capacity
            if pool.name in away.pools
            else pool.foreign + occupied.get(pool.name, Demand()),
        )
        for pool in snapshot.pools
    )


def _next_of(
    job: Job, kept: Iterable[Job], behind: dict[str, int], more: Answers
) -> tuple[Job, ...]:
    """Return the next jobs of the line whose last job in the snapshot is this one, and note how
    many wait behind them."""
    found = more(Need(after=job, count=1))
    line = line_of(job)
    others = [other for other in kept if other.claim is None and line_of(other) == line]
    last = max((*others, *found.jobs), key=lambda job: (job.entry_time, job.name), default=None)
    if last is not None and found.jobs:
        behind |= _counted(last, found.behind)
    return found.jobs


def _counted(last: Job, behind: int) -> Mapping[str, int]:
    return {last.name: behind} if behind else {}


def _skipping(more: Answers, away: PutAway) -> Answers:
    """Answer without the jobs put away: with at least one job if any are left."""

    def answer(need: Need) -> Found:
        found = more(need)
        while found.jobs and found.behind and all(map(away.has, found.jobs)):
            found = more(Need(after=found.jobs[-1], count=need.count))
        return replace(found, jobs=tuple(job for job in found.jobs if not away.has(job)))

    return answer


MOST_ALIKE = 3
"""How often a pass makes one decision on the same conditions. More than once, because a query may
show some of a transaction's items before the others."""

MOST_REFUSALS = 20
"""How often a pass makes one decision at all, though others change its jobs or pools each time."""

Kind = tuple[str, tuple[str, ...]]
"""The kind of a decision, and the names of its jobs, or of the node that it ends."""


class Setbacks:
    """The refusals of one pass."""

    def __init__(self) -> None:
        self.away = PutAway()
        self._refused: Counter[Kind] = Counter()
        self._alike: Counter[tuple[Kind, str]] = Counter()

    def refused(
        self, decision: Decision, error: SlotQError, *, seen: Mapping[str, int], number: int
    ) -> tuple[str, str] | None:
        """Record a refusal. Return what it puts away, and why; None if the decision may
        be tried again. `seen` and `number`: the versions of ledgers and the number of
        decisions about groups that the commit was conditioned on."""
        jobs = jobs_in(decision)
        nodes = frozenset(nodes_in(decision)) if isinstance(decision, EndNode) else frozenset()
        slots = frozenset() if jobs else frozenset(_slots_in(decision))
        names = (
            sorted(slots)
            or ["/".join(node) for node in sorted(nodes)]
            or [job.name for job in jobs]
        )
        kind = type(decision).__name__, tuple(names)
        self._refused[kind] += 1
        alike = 0
        if isinstance(error, ConditionFalse | Malformed):
            about_group = number if any(job.group for job in jobs) else None
            node_version = decision.node.version if isinstance(decision, EndNode) else None
            versions = *(job.version for job in jobs), node_version
            conditions = versions, sorted(seen.items()), about_group
            self._alike[kind, repr(conditions)] += 1
            alike = self._alike[kind, repr(conditions)]
        if alike < MOST_ALIKE and self._refused[kind] < MOST_REFUSALS:
            return None
        pools = error.pools if isinstance(error, ConditionFalse) else frozenset()
        self._put_away(jobs, pools)
        self.away = replace(self.away, nodes=self.away.nodes | nodes, warm=self.away.warm | slots)
        what, subjects = kind
        some = ", ".join(subjects[:5]) + (" …" if len(subjects) > 5 else "")
        others = "this node" if nodes else "these instances" if slots else "these jobs"
        about = f"pool {', '.join(sorted(pools))}" if pools else others
        return f"{what} {some}", (
            f"refused {self._refused[kind]} times and put away: nothing more is decided about "
            f"{about} in this pass; `slotq doctor` looks for the cause ({error})"
        )

    def put_groups_away(self, jobs: frozenset[str] = frozenset()) -> None:
        """Decide nothing about groups, because a decision about these jobs is begun and cannot be
        finished."""
        self.away = replace(self.away, every_group=True, jobs=self.away.jobs | jobs)

    def _put_away(self, jobs: tuple[Job, ...], pools: frozenset[str]) -> None:
        if pools:  # The jobs may still start elsewhere.
            self.away = replace(self.away, pools=self.away.pools | pools)
            return
        alone = frozenset(job.name for job in jobs if not job.group)
        groups = frozenset(job.group for job in jobs if job.group)
        self.away = replace(
            self.away, jobs=self.away.jobs | alone, groups=self.away.groups | groups
        )


def _slots_in(decision: Decision) -> tuple[str, ...]:
    """The training jobs whose warm instances a decision releases."""
    if not isinstance(decision, Release):
        return ()
    return tuple(slot.training_job for slot, _ in decision.slots)
