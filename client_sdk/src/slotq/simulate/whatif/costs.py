"""The dollars of two forecasts, by pool and by how its instances are bought."""

from __future__ import annotations

from collections.abc import Iterator

from slotq.cost.instance_prices import InstancePrices
from slotq.cost.used import UsageLineView, Used, usage_lines
from slotq.simulate.whatif.answer import CostRow, WhatIfCostView
from slotq.simulate.whatif.forecast import Forecast
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.jobs import Job
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.usage.amounts import Amounts, Totals, UsageGroup, merge
from slotq_core.usage.attempt_use import WARM

_BY = ("pool", "kind")


def costs(before: Forecast, after: Forecast, prices: InstancePrices) -> list[CostRow]:
    """A row for each pool and kind with use in one of the forecasts. A job on a node costs its part
    of the instance. The time until a job has its instances costs nothing. What SageMaker will bill
    for spot instances is not known."""
    without, with_change = _lines(before, prices), _lines(after, prices)
    return [
        CostRow(pool=pool, kind=kind, before=without.get(key), after=with_change.get(key))
        for key in sorted({*without, *with_change})
        for pool, kind in [key]
    ]


def _lines(of: Forecast, prices: InstancePrices) -> dict[tuple[str, str], WhatIfCostView]:
    used = Used(start="", end="", as_of="", by=_BY, totals=_totals(of))
    return {_key(line): _view(line) for line in usage_lines(used, prices)}


def _key(line: UsageLineView) -> tuple[str, str]:
    return line.group["pool"], line.group["kind"]


def _view(line: UsageLineView) -> WhatIfCostView:
    return WhatIfCostView(
        instance_hours=round(line.instance_hours, 6), usd=line.usd, saved_usd=line.saved_usd
    )


def _totals(of: Forecast) -> Totals:
    totals: Totals = {}
    merge(totals, _uses(of))
    return totals


def _uses(of: Forecast) -> Iterator[tuple[UsageGroup, Amounts]]:
    pools = {pool.name: pool for pool in of.queue.pools}
    begin, end = of.queue.at, of.until
    for run in of.record.runs:
        if run.running is None:
            continue
        until = end if run.until is None else min(run.until, end)
        lasted = max(0, until - max(run.running, begin))
        for name, slots in held_slots(of.queue.job(run.job), run.pool, pools):
            if name in pools:
                yield _use(pools[name], pools[name].capacity_kind.value, round(slots * lasted))
    for kept in of.record.warm.values():
        lasted = max(0, min(kept.until, end) - max(kept.since, begin))
        if kept.pool in pools and lasted:
            yield _use(pools[kept.pool], WARM, kept.slots * lasted)


def held_slots(job: Job | None, pool: str, pools: dict[str, Pool]) -> Iterator[tuple[str, float]]:
    """The slots that the job holds while it runs in the pool, by pool."""
    if job is None:
        return
    rules = pools[pool].nodes if pool in pools else None
    if job.gpus and rules is not None and rules.gpus:
        yield pool, job.gpus / (WHOLE * rules.gpus)
        return
    for name, demand in job.parts or ((pool, job.demand),):
        yield name, demand.slots


def _use(pool: Pool, kind: str, amount: int) -> tuple[UsageGroup, Amounts]:
    group = UsageGroup(pool=pool.name, instance_type=pool.instance_type, kind=kind)
    unbilled = amount if kind == CapacityKind.SPOT.value else 0
    return group, Amounts(slot_ms=amount, instance_ms=amount, unbilled_ms=unbilled)
