"""What if, in dollars: by pool and by how its instances are bought."""

from __future__ import annotations

from typing import Any

import pytest

from slotq.cost.instance_prices import InstancePrices
from slotq.simulate.whatif import ForecastInput, WhatIfChange, changed, compared, forecast
from slotq.simulate.whatif.answer import WhatIfCostView, cost, costs_and_total
from slotq.simulate.whatif.forecast import RELEASE, Runtimes
from slotq_core.model.jobs import Job, JobState
from tests.queue_world import INSTANCE_TYPE
from tests.unit.client.fake_scenario import HOUR, fake_scenario, job
from tests.unit.simulate.test_warm import foreseen, with_a_warm_slot
from tests.unit.test_warm_slots import MINUTE, OTHER_ROLE, submit, warm

TYPE = "ml.p5.48xlarge"
PRICES = InstancePrices(
    usd_per_hour={TYPE: 40.0, INSTANCE_TYPE: 60.0}, of_kinds={"spot": {TYPE: 10.0}}
)
POOLS: dict[str, Any] = {
    "pools": [
        {"name": "p5", "capacity": 3, "instance_type": TYPE},
        {"name": "spot", "capacity": 0, "instance_type": TYPE, "capacity_kind": "spot"},
    ]
}


def queue_of(*jobs: Job, document: Any = POOLS) -> ForecastInput:
    """bert, vit and llama run for their last half hour, and for five hours; two more wait."""
    return ForecastInput.of(fake_scenario(*jobs, document=document))


def costs(queue: ForecastInput, change: WhatIfChange, hours: float = 4) -> dict[Any, Any]:
    runtimes = Runtimes(every=2 * HOUR)
    with_it = forecast(changed(queue, change), hours=hours, runtimes=runtimes)
    view = compared(forecast(queue, hours=hours, runtimes=runtimes), with_it, prices=PRICES)
    if len(view.costs) > 1:
        whole = costs_and_total(view)[-1].after
        parts = [row.after for row in view.costs if row.after]
        assert whole is not None and whole.usd == sum(part.usd or 0 for part in parts)
    return {(row.pool, row.kind): (row.before, row.after) for row in view.costs}


def test_jobs_cost_what_their_pools_kind_costs():
    """A job of one hour waits for spot; in p5 three slots run on."""
    waits = job("cheap", pools=("spot",), project="")
    queue = queue_of(waits)
    found = costs(queue, WhatIfChange(pools={"spot": 1}))
    assert [*found] == [("p5", "on_demand"), ("spot", "spot")]
    before, after = found["p5", "on_demand"]
    assert before == after
    assert before.usd == pytest.approx(40 * before.instance_hours)
    assert before.saved_usd == 0
    assert found["spot", "spot"] == (
        None,
        WhatIfCostView(instance_hours=2, usd=20, saved_usd=60),
    )


def test_only_what_lies_in_the_time_looked_at_costs():
    queue = queue_of()
    (both,) = costs(queue, WhatIfChange(), hours=0.25).values()
    assert both[0] == both[1] == WhatIfCostView(instance_hours=0.75, usd=30, saved_usd=0)


def test_a_job_on_a_node_costs_its_part():
    nodes = {"pools": [{"name": "p5", "capacity": 4, "instance_type": TYPE, "nodes": {"gpus": 8}}]}
    small = job("small", priority=9, gpus=200, tenant="t", state=JobState.PENDING)
    alone = WhatIfChange(cancels=("resnet", "whisper"))
    hours = [
        row.instance_hours
        for jobs in ((), (small,))
        for _, row in costs(queue_of(*jobs, document=nodes), alone).values()
    ]
    assert hours[1] - hours[0] == pytest.approx(2 * 2 / 8, abs=0.01)


def test_instances_that_stay_warm_cost():
    world = with_a_warm_slot(warm())
    for name, role in (("like", {}), ("other", {"role": OTHER_ROLE})):
        submit(world, name, **role)
    found = foreseen(world, runtime=10 * MINUTE)
    view = compared(found, found, prices=PRICES)
    rows = {row.kind: row.after for row in view.costs}
    # Nothing before `like`, which starts on warm instances. Those that it leaves are released for
    # `other`, whose own stay for ten minutes.
    assert rows["warm"] is not None and rows["on_demand"] is not None
    assert rows["warm"].instance_hours == pytest.approx((RELEASE + 10 * MINUTE) / HOUR, abs=1e-3)
    assert rows["on_demand"].usd == pytest.approx(60 * 20 / 60)


def test_costs_in_words():
    assert cost(None) == "–"
    assert cost(WhatIfCostView(instance_hours=12.04, usd=None, saved_usd=None)) == "12.0 h"
    assert cost(WhatIfCostView(instance_hours=2, usd=1234.5, saved_usd=60)) == (
        "2.0 h, 1,234.50 USD, 60.00 saved"
    )
