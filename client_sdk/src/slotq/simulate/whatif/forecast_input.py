"""A snapshot of the queue, from GET /scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slotq.simulate.scenario.sections import ChangeSpec
from slotq_core.admission.instances.instance_contents import counting
from slotq_core.model.capacity.plans import PlanFacts
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.model.projects import PastUse, Spending
from slotq_core.model.sharing import Settings
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.storage.snapshots import snapshot_of
from slotq_core.timestamps import from_iso
from slotq_core.wire.document.contents import read
from slotq_core.wire.scenario.pages import (
    durations_of,
    group_of,
    health_of,
    job_of,
    node_of,
    past_use_of,
    spending_of,
    warm_slots_of,
    yielded_of,
)
from slotq_core.wire.scenario.views import ScenarioView


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastInput:
    """The queue at one moment, with what is known of its jobs."""

    at: int
    """The moment, by the queue's clock (ms)."""
    revision: int
    settings: Settings
    known: tuple[Pool, ...]
    """The pools with the health that the queue has learned."""
    jobs: tuple[Job, ...]
    groups: tuple[Group, ...]
    yields: tuple[Yielded, ...]
    spent: Spending
    past_use: PastUse
    nodes: tuple[Node, ...]
    warm: tuple[WarmSlot, ...]
    etas: Mapping[str, int]
    """How long (ms) jobs say that they still run, by job."""
    estimates: Mapping[str, int]
    """How long their submissions say that jobs run in all (ms), by job."""
    limits: Mapping[str, int]
    """The longest that jobs may run in all (ms), by job."""
    withheld: frozenset[str]
    left_out: int
    changes: tuple[tuple[int, str, ChangeSpec], ...] = ()
    """Changes of pools that come later: when (ms), in which pool, and what."""

    @classmethod
    def of(cls, view: ScenarioView) -> ForecastInput:
        settings = read(view.configuration)
        facts = {pool.name: pool for pool in view.pools}
        known = tuple(
            Pool(
                name=pool.name,
                instance_type=pool.instance_type,
                capacity=pool.capacity,
                contents=tuple(facts[pool.name].contents),
                foreign=Demand(facts[pool.name].foreign),
                health=health_of(facts[pool.name].health),
            )
            for pool in settings.pools
            if pool.name in facts
        )
        return cls(
            at=from_iso(view.at),
            revision=view.revision,
            settings=settings,
            known=known,
            jobs=tuple(map(job_of, view.jobs)),
            groups=tuple(map(group_of, view.groups)),
            yields=tuple(map(yielded_of, view.yields)),
            spent=spending_of(view.spent),
            past_use=past_use_of(view.past_use),
            nodes=tuple(map(node_of, view.nodes)),
            warm=warm_slots_of(view.warm),
            etas=durations_of({job.name: job.eta_seconds for job in view.jobs}),
            estimates=durations_of({job.name: job.runtime_estimate or None for job in view.jobs}),
            limits=durations_of({job.name: job.max_runtime for job in view.jobs}),
            withheld=frozenset(job.name for job in view.jobs if job.withheld),
            left_out=view.left_out,
        )

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of the settings, with their known health."""
        known = {pool.name: pool for pool in self.known}
        counted = counting(self.settings.pools, self.settings.sharing, before=self.known)
        return tuple(
            replace(pool, foreign=known[pool.name].foreign, health=known[pool.name].health)
            if pool.name in known
            else pool
            for pool in counted
        )

    def with_plan(self, pool: str, plan: PlanFacts) -> ForecastInput:
        """The snapshot in which this is known of the pool's training plan."""
        known = tuple(
            replace(other, health=replace(other.health, plan=plan)) if other.name == pool else other
            for other in self.known
        )
        return replace(self, known=known)

    def snapshot(self) -> Snapshot:
        """What the next pass decides on."""
        return snapshot_of(
            self.pools,
            self.settings.sharing,
            (job for job in self.jobs if job.active),
            (job for job in self.jobs if job.waits),
            (job for job in self.jobs if job.state is JobState.BACKOFF),
            spent=self.spent,
            past_use=self.past_use,
            yields=self.yields,
            groups=self.groups,
            nodes=self.nodes,
            warm=self.warm,
        )

    def job(self, name: str) -> Job | None:
        return next((job for job in self.jobs if job.name == name), None)

    def with_job(self, job: Job) -> ForecastInput:
        """The snapshot with this job added or replaced by name. An ended job is removed."""
        others = tuple(other for other in self.jobs if other.name != job.name)
        return replace(self, jobs=others if job.terminal else (*others, job))

    def with_jobs(self, jobs: Iterable[Job]) -> ForecastInput:
        queue = self
        for job in jobs:
            queue = queue.with_job(job)
        return queue
