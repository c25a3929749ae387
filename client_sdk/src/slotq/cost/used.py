"""What jobs have used, in hours and dollars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from slotq.cost.instance_prices import InstancePrices
from slotq_core.model.pools import CapacityKind
from slotq_core.usage.amounts import Amounts, Totals, UsageGroup, field_of, grouped, merge
from slotq_core.wire.pool_definition import contents_of

_HOUR = 3_600_000
_COSTLY = 95
"""The percentile of waits that is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """What was used in a window."""

    start: str
    """ISO 8601, as is the next."""
    end: str
    as_of: str
    """Until when running attempts are counted."""
    by: tuple[str, ...]
    totals: Totals
    unreadable: int = 0
    """Records that the queue could not read and that are not counted."""


class UsageLineView(BaseModel):
    """What one group has used. Waits are in seconds."""

    group: dict[str, str]
    """The fields that --by names: `project`, `submitter`, `pool`, `class`."""
    slot_hours: float
    instance_hours: float
    usd: float | None
    """The price of the instance-hours whose price is known; None: of none of them. Spot instances
    cost what SageMaker bills."""
    saved_usd: float | None
    """What the spot instances would have cost more on demand; None: no price is known."""
    unbilled_hours: float
    """The instance-hours on spot instances whose bill is not known, or not yet. They count at the
    price of spot instances where the prices have one, else on demand: at most."""
    unpriced_instance_hours: float
    jobs: int
    """Jobs that started for the first time."""
    attempts: int
    wait_mean: float | None
    wait_p95: float | None
    evictions_given: int
    evictions_taken: int
    lost_hours: float
    lost_hours_at_most: float
    """The part of `lost_hours` that is an upper bound: from attempts that reported no
    checkpoint."""
    gpu_hours: float
    """The GPUs of the instance-hours: a quarter of a GPU for four hours is 1. Types of instance
    whose GPUs are not known count nothing."""


def usage_lines(used: Used, prices: InstancePrices) -> list[UsageLineView]:
    """A line for each group, the largest use first."""
    groups: dict[UsageGroup, Totals] = {}
    for group, amounts in used.totals.items():
        kept = group if "kind" in used.by else group._replace(kind="")
        totals = groups.setdefault(kept._replace(instance_type=""), {})
        merge(totals, [(group, amounts)])
    lines = [_line(group, totals, used.by, prices) for group, totals in groups.items()]
    return sorted(lines, key=lambda line: (-line.slot_hours, *line.group.values()))


def total_line(used: Used, prices: InstancePrices) -> UsageLineView:
    """A line for everything."""
    return _line(UsageGroup(), grouped(used.totals, ()), (), prices)


def unpriced_types(used: Used, prices: InstancePrices) -> list[str]:
    """The instance types that were used and have no price."""
    return sorted(
        {
            group.instance_type
            for group, amounts in used.totals.items()
            if amounts.instance_ms and prices.of(group.instance_type, group.kind) is None
        }
    )


def _line(
    group: UsageGroup, totals: Totals, by: Sequence[str], prices: InstancePrices
) -> UsageLineView:
    paid = {group_key: _paid(group_key, amounts, prices) for group_key, amounts in totals.items()}
    usd = [cost for cost, _ in filter(None, paid.values())]
    saved = [saved for _, saved in filter(None, paid.values())]
    unpriced = sum(
        amounts.instance_ms for group_key, amounts in totals.items() if paid[group_key] is None
    )
    every = Amounts()
    for amounts in totals.values():
        every.add(amounts)
    mean, high = every.waits.mean, every.waits.percentile(_COSTLY)
    return UsageLineView(
        group={name: field_of(group, name) for name in by},
        slot_hours=every.slot_ms / _HOUR,
        instance_hours=every.instance_ms / _HOUR,
        usd=sum(usd) if usd or not unpriced else None,
        saved_usd=sum(saved) if saved or not unpriced else None,
        unbilled_hours=every.unbilled_ms / _HOUR,
        unpriced_instance_hours=unpriced / _HOUR,
        jobs=every.jobs,
        attempts=every.attempts,
        wait_mean=None if mean is None else mean / 1000,
        wait_p95=None if high is None else high / 1000,
        evictions_given=every.evictions_given,
        evictions_taken=every.evictions_taken,
        lost_hours=every.lost_ms / _HOUR,
        lost_hours_at_most=every.lost_at_most_ms / _HOUR,
        gpu_hours=sum(
            amounts.instance_ms * contents_of(group_key.instance_type).get("gpus", 0)
            for group_key, amounts in totals.items()
        )
        / _HOUR,
    )


def _paid(
    group: UsageGroup, amounts: Amounts, prices: InstancePrices
) -> tuple[float, float] | None:
    """What the instance time of a group costs, and how much more on demand (USD); None: no price
    is known.

    SageMaker bills spot instances by less time at the price on demand. So a price of spot instances
    counts only where the bill is not known.
    """
    own = prices.of(group.instance_type, group.kind)
    if own is None:
        return None
    on_demand = prices.usd_per_hour.get(group.instance_type, own)
    by_bill = amounts.instance_ms - amounts.unbilled_ms if group.kind == CapacityKind.SPOT else 0
    cost = on_demand * (by_bill - amounts.saved_ms) + own * (amounts.instance_ms - by_bill)
    return cost / _HOUR, (on_demand * amounts.instance_ms - cost) / _HOUR
