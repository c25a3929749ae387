"""What if: spot jobs that are interrupted now, or have been."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq.simulate.whatif import ForecastInput, forecast
from slotq.simulate.whatif.forecast import Runtimes
from slotq_core.model.attempts import Attempt
from slotq_core.model.callers import NO_LIMITS
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.model.sharing import NO_SHARING, Settings
from slotq_core.model.snapshot import QueueSnapshot
from slotq_core.wire.scenario.views import scenario_view

NOW = 1_800_000_000_000
POOL = Pool(
    name="s",
    instance_type="ml.m5.large",
    capacity=Demand(slots=1),
    capacity_kind=CapacityKind.SPOT,
)
ATTEMPT = Attempt(
    number=1,
    training_job="runs",
    token="",
    pool="s",
    instance_type="ml.m5.large",
    capacity_kind=CapacityKind.SPOT,
    admitted_at=NOW - 500_000,
    created=True,
)
INTERRUPTED = replace(ATTEMPT, interrupted_since=NOW - 100_000, ran_before=400_000)
RESUMED = replace(
    ATTEMPT, running_since=NOW - 400_000, resumed_at=NOW - 30_000, interrupted_for=100_000
)


@pytest.mark.parametrize("attempt", [INTERRUPTED, RESUMED])
def test_it_goes_on_at_once_with_the_work_that_is_left(attempt: Attempt) -> None:
    def job(name: str, **fields: object) -> Job:
        made = Job(
            name=name,
            state=JobState.PENDING,
            priority=0,
            entry_time=NOW - 500_000,
            demand=Demand(slots=1),
            pools=("s",),
        )
        return replace(made, **fields)

    runs = job("runs", state=JobState.RUNNING, attempt=attempt, attempts=1)
    snapshot = QueueSnapshot(at=NOW, pools=(POOL,), jobs=(runs, job("waits")))
    settings = Settings(pools=(POOL,), limits=NO_LIMITS, sharing=NO_SHARING)
    queue = ForecastInput.of(scenario_view(snapshot, settings, 1))
    record = forecast(queue, hours=2, runtimes=Runtimes(every=1_000_000)).record
    assert record.started("waits") == [NOW + 600_000]
