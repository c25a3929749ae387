"""Forecasts of the queue in the next hours, by the policy itself.

A job's running time is an assumption: the job's own report, else the user's assumption, else the
request's limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum

from slotq.simulate.run.engine import go_on
from slotq.simulate.run.opening import AssumedCourse, InitialQueue
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.sections import ChangeSpec, JobSpec
from slotq.simulate.whatif.forecast_input import ForecastInput
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.reports import STOP_GRACE
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Plan
from slotq_core.policy.state.user_limits import Rights
from slotq_core.ports.training import MAX_RUNTIME


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """The queue, what the next pass decides, and what follows."""

    queue: ForecastInput
    first: Plan
    """What the next pass decides first."""
    record: Record
    reasons: Mapping[str, str]
    """Why jobs wait once everything due now has been decided, by job, as sentences."""
    runtimes: Runtimes
    until: int
    """The moment up to which the forecast goes (ms)."""


def forecast(queue: ForecastInput, *, hours: float, runtimes: Runtimes) -> Forecast:
    """Forecast the queue for so many hours."""
    snapshot, until = queue.snapshot(), queue.at + round(hours * 3_600_000)
    opening = InitialQueue(
        at=queue.at,
        soonest=queue.at + SOON,
        jobs=queue.jobs,
        courses=runtimes.courses(queue),
        left=runtimes.left(queue),
        yields=snapshot.yields,
        spent=queue.spent,
        past_use=queue.past_use,
        nodes=queue.nodes,
        warm=queue.warm,
    )
    last: list[Plan] = []
    world = _World(queue=queue, snapshot=snapshot, until=queue.at)
    go_on(world, opening, lambda _, planned, __: last.append(planned))
    return Forecast(
        queue=queue,
        first=plan(snapshot, queue.at),
        record=go_on(replace(world, until=until), opening),
        reasons={name: reason.text() for name, reason in last[-1].reasons.items()},
        runtimes=runtimes,
        until=until,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _World:
    """The queue as the inputs of a run. Nothing is submitted in the run: added jobs are part of the
    initial queue."""

    queue: ForecastInput
    snapshot: Snapshot
    until: int | None
    jobs: Sequence[JobSpec] = field(default=())

    @property
    def rights(self) -> Rights:
        shared = self.queue.settings.sharing
        return Rights(
            shared.classes, self.snapshot.users, shared.user_groups, contact=shared.contact
        )

    def configuration(self) -> Snapshot:
        return replace(self.snapshot, active=(), waiting=(), due=(), nodes=(), warm=())

    def stop_times(self) -> Mapping[str, int]:
        return {pool.name: STOP for pool in self.snapshot.pools}

    def start_times(self) -> Mapping[str, int]:
        """As the queue has learned them."""
        return {pool.name: pool.health.start_time for pool in self.snapshot.pools}

    def release_times(self) -> Mapping[str, int]:
        return {pool.name: RELEASE for pool in self.snapshot.pools}

    def node_start_times(self) -> Mapping[str, int]:
        return {pool.name: NODE_START for pool in self.snapshot.pools}

    def one_person_nodes(self) -> AbstractSet[str]:
        return frozenset(node.pool for node in self.snapshot.nodes if node.one_person)

    def changes(self) -> Iterable[tuple[int, str, ChangeSpec]]:
        return sorted(self.queue.changes, key=lambda change: change[0])

    def asks(self) -> Mapping[int | str, set[str]]:
        return {}

    def submission(self, job: JobSpec) -> Submission:
        raise LookupError(job.name)


SOON = 60_000
"""The least remaining time of a running job (ms): no assumption may end it before the next pass."""
STOP = STOP_GRACE
"""How long (ms) a stop is assumed to take: what SageMaker gives a script at most."""


RELEASE = 60_000
"""How long (ms) it is assumed to take until released warm instances are gone: the next tick finds
that."""

NODE_START = 300_000
"""How long (ms) the start of a node is assumed to take, until it runs jobs."""


class Source(StrEnum):
    """Where the assumption comes from."""

    ETA = "eta"
    """The job reports how long it still takes."""
    ESTIMATE = "estimate"
    """Its submission says how long it will probably run, and it has not run longer yet."""
    GIVEN = "given"
    """The user who asks says so."""
    MAX_RUNTIME = "max_runtime"
    """The job's request allows that much."""
    DEFAULT = "default"
    """The request was not read: SageMaker's default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtimes:
    """The user's assumptions. Durations in ms."""

    every: int | None = None
    """The running time of each job that neither reports nor estimates one."""
    of: Mapping[str, int] = field(default_factory=dict)
    """The same for single jobs; it precedes the job's own report."""

    def total(self, job: Job, queue: ForecastInput) -> tuple[int, Source]:
        """The whole running time of a job, over all its attempts, and where that comes from."""
        done = job.ran + _running_for(job, queue.at)
        if job.name in self.of:
            return self.of[job.name], Source.GIVEN
        if job.name in queue.etas:
            return done + queue.etas[job.name], Source.ETA
        if queue.estimates.get(job.name, 0) > done:
            return queue.estimates[job.name], Source.ESTIMATE
        if self.every is not None:
            return self.every, Source.GIVEN
        if job.name in queue.limits:
            return queue.limits[job.name], Source.MAX_RUNTIME
        return MAX_RUNTIME * 1000, Source.DEFAULT

    def sources(self, queue: ForecastInput) -> Counter[Source]:
        """The number of jobs by the source of their assumption."""
        return Counter(self.total(job, queue)[1] for job in queue.jobs)

    def courses(self, queue: ForecastInput) -> dict[str, AssumedCourse]:
        return {
            job.name: AssumedCourse(
                runtime=max(SOON, self.total(job, queue)[0]), checkpoint=job.checkpoints
            )
            for job in queue.jobs
        }

    def left(self, queue: ForecastInput) -> dict[str, int | None]:
        """The work that each job has left (ms), from when its live attempt got its instances."""
        return dict(self._left(queue.jobs, queue))

    def _left(self, jobs: Iterable[Job], queue: ForecastInput) -> Iterable[tuple[str, int]]:
        for job in jobs:
            total, running = self.total(job, queue)[0], _running_for(job, queue.at)
            done = job.ran if job.checkpoints else 0
            yield job.name, _holding_for(job, queue.at) + max(SOON, total - done - running)


def _running_for(job: Job, at: int) -> int:
    """How long (ms) the live attempt has run."""
    if job.attempt is None or job.attempt.running_since is None:
        return job.attempt.ran_before if job.attempt else 0
    return max(0, at - job.attempt.running_since)


def _holding_for(job: Job, at: int) -> int:
    """How long (ms) it has had the instances that it has."""
    if job.attempt is None or job.attempt.running_since is None:
        return 0
    return max(0, at - (job.attempt.resumed_at or job.attempt.running_since))
