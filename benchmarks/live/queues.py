"""Queues of any size in the table: so many waiting jobs, lines, active jobs and pools.

Pools are full. The jobs are copies of one that the API has taken in, with its request, so that a
pass can start any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks.live.account import Live, live
from benchmarks.live.engine import Engine
from benchmarks.live.sharing import Shared
from slotq_core.adapters.dynamodb.layout.items import keyed
from slotq_core.adapters.dynamodb.layout.table import request_key
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from tests.contract.test_dynamodb_cost import fill
from tests.contract.worlds import cancelling, completing, running, starting
from tests.functional.account import HOUR, TABLE

TYPE = "ml.p4d.24xlarge"
URGENT = 900
"""The priority of the job that waits before all others, where one does."""
ACTIVE = 500
"""The priority of active jobs. Waiting jobs have less, so that they evict nobody."""
KINDS = 50
"""The number of priorities of waiting jobs; more lines differ in slots."""


FIRST_POOL = [{"Key": "slotq:pools", "Value": "pool-00"}]
"""Tags of a submission. A job may accept at most 16 pools; there may be more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    waiting: int = 2_000
    lines: int = 100
    active: int = 100
    """One slot each."""
    pools: int = 2
    urgent: bool = False
    """Whether a job waits that outranks all and fits nowhere: it wants a pool whole, and one of the
    jobs there may not be evicted."""
    shared: Shared | None = None
    """The projects that the jobs belong to. `lines` is then a multiple of the projects: each has
    lines of several shapes (priority and slots) for the pools."""

    def __str__(self) -> str:
        text = f"{self.waiting:,} waiting, {self.lines:,} lines, {self.active:,} active, "
        text += f"{self.pools} pool{'s' * (self.pools > 1)}" + ", urgent" * self.urgent
        return f"{text}, {self.shared}" if self.shared else text

    @property
    def slots(self) -> int:
        """The slots of each pool."""
        return self.active // self.pools


@contextmanager
def queue(size: Size) -> Iterator[Live]:
    """A queue of this size."""
    pools = ",".join(f"{_pool(n)}={size.slots}@{TYPE}" for n in range(size.pools))
    with live(pools) as its:
        its.submit("sample", Tags=FIRST_POOL)
        sample = its.other.jobs.get("sample")
        assert sample is not None
        its.other.decisions.commit([cancelling(sample)])
        its.account.lambda_.events.clear()
        if size.shared:
            _share(its, size.shared, size)
        for n in range(size.slots * size.pools):
            _run(its, _active(sample, n, size))
        fill_in(its.engine, [_waiting(sample, n, size) for n in range(size.waiting)])
        if size.urgent:
            urgent = replace(_waiting(sample, 0, size), name="urgent", priority=URGENT)
            fill_in(its.engine, [replace(urgent, demand=Demand(slots=size.slots))])
        yield its


def _share(its: Live, shared: Shared, size: Size) -> None:
    """Divide the queue between projects, and let a member of the first submit from then on."""
    configuration = shared.configuration(size.slots * size.pools)
    its.other.configuration.change(
        sharing=configuration, who="benchmark", now=its.account.clock.now()
    )
    its.caller = shared.member(0)
    its.tags = [{"Key": "slotq:project", "Value": shared.project(0)}]


def ends(its: Live, number: int) -> None:
    """An active job completes, as another container is told."""
    job = its.other.jobs.get(_active_name(number))
    assert job is not None
    its.other.decisions.commit([completing(job)])


def _pool(number: int) -> str:
    return f"pool-{number:02d}"


def _active_name(number: int) -> str:
    return f"active-{number:05d}"


def _active(sample: Job, number: int, size: Size) -> Job:
    """A job to be started. The first of each pool may not be evicted."""
    pool = _pool(number % size.pools)
    return replace(
        _owned(sample, number, size),
        name=_active_name(number),
        priority=ACTIVE,
        pools=(pool,),
        preemptible=number >= size.pools,
        version=1,
    )


def _run(its: Live, job: Job) -> None:
    (pool,) = job.pools
    kept = its.other.jobs.submit(job, {"TrainingJobName": job.name})
    (begun,) = its.other.decisions.commit([starting(kept, pool)])
    its.other.decisions.commit([running(begun)])


def _waiting(sample: Job, number: int, size: Size) -> Job:
    """The job of the next line, in turn. Every line has jobs of one slot first, so that any freed
    slot serves one of them."""
    line = number % size.lines
    shape = line // size.shared.projects // size.pools if size.shared else line
    return replace(
        _owned(sample, line, size),
        name=f"waiting-{number:06d}",
        priority=shape % KINDS,
        demand=Demand(slots=1 + shape // KINDS),
        pools=(_pool(_turn(line, size)),),
        entry_time=sample.entry_time - HOUR - size.waiting + number,
        version=1,
    )


def _turn(line: int, size: Size) -> int:
    """The number of the line's pool."""
    return (line // size.shared.projects if size.shared else line) % size.pools


def _owned(job: Job, number: int, size: Size) -> Job:
    """The job, owned by the project and the person of this number, if there are projects."""
    if size.shared is None:
        return job
    person = size.shared.member(number)
    return replace(job, project=size.shared.project(number), submitter=person, person=person)


def fill_in(engine: Engine, jobs: list[Job]) -> None:
    """Write waiting jobs with their lines and requests."""
    fill(engine, TABLE, jobs)
    table = engine.tables[TABLE]
    request = table.items[request_key("sample")]
    for job in jobs:
        key = request_key(job.name)
        table.put(key, keyed(key, {name: request[name] for name in request.keys() - {"pk", "sk"}}))
