"""Which of DynamoDB's limits binds first with 1,000,000 waiting jobs and 10,000 slots.

What a submission, a start and an end cost in each partition is counted on the real code. A small
simulation then lets jobs arrive and end, second by second, under the published limits: what a
partition cannot take in one second waits for the next.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from benchmarks.dynamodb_units import item_size
from benchmarks.live.account import Live
from benchmarks.live.meter import LATENCY, Usage
from benchmarks.live.passes import settled
from benchmarks.live.queues import FIRST_POOL, Size, ends, queue
from slotq_core.adapters.dynamodb.layout.table import BY_STATE
from tests.functional.account import TABLE

WRITES, READS = 1_000, 3_000
"""Units a second that one partition takes."""

JOBS, SLOTS = 1_000_000, 10_000
HOUR = 3_600
RUNTIME = HOUR
"""The mean runtime (s) of a job."""

Demand = Counter[tuple[str, str]]
"""Units by partition and kind ("read" or "write")."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What each event costs, by partition."""

    submission: Demand
    quiet: Demand
    """A pass that finds nothing to do."""
    change: Demand
    """What a decision adds to a pass, with the end of the job that makes room."""
    pass_seconds: float
    """How long a quiet pass waits for the table."""

    @property
    def passes(self) -> tuple[float, str]:
        """How many passes a second follow each other, and what bounds them."""
        partition, most = first_bound(self.quiet)
        by_time = 1 / self.pass_seconds
        return (by_time, "its calls") if by_time < most else (most, partition)


def measure() -> dict[str, dict[str, object]]:
    """The limits of a queue with all slots in 20 pools, and in one."""
    return {f"{pools} pool{'s' * (pools > 1)}": _limits(pools) for pools in (20, 1)}


def _limits(pools: int) -> dict[str, object]:
    with queue(Size(waiting=4_000, lines=2_000, active=SLOTS, pools=pools)) as its:
        costs, actions = _count(its, pools)
        table = its.engine.tables[TABLE].items
        largest = max(item_size(item) for (_, sk), item in table.items() if sk != "REQUEST")
        pool = sum(item_size(item) for (pk, _), item in table.items() if pk == "POOL#pool-00")
    rate, bound = costs.passes
    return {
        "actions of a transaction": actions,
        "bytes of an item": largest,
        "bytes of a pool's jobs": pool,
        "submissions": dict(zip(("bound", "a second"), first_bound(costs.submission), strict=True)),
        "passes": {"bound": bound, "a second": round(rate, 1)},
        "partitions": simulated(costs),
    }


def _count(its: Live, pools: int) -> tuple[Costs, int]:
    """The costs, and the most actions of a transaction."""
    quiet = settled(its)
    before = len(its.engine.meter.calls)
    with its.engine.meter.counting() as submission:
        its.submit("one-more", Tags=FIRST_POOL)
    with its.engine.meter.counting() as ended:
        ends(its, pools)
    decided = its.pass_()
    costs = Costs(
        submission=demand([submission]),
        quiet=demand([quiet]),
        change=demand([ended, decided]) - demand([quiet]),
        pass_seconds=quiet.rounds * LATENCY,
    )
    actions = [
        sum(key[0] != BY_STATE for key, _ in call.written)
        for call in its.engine.meter.calls[before:]
    ]
    return costs, max(actions)


def demand(usages: Iterable[Usage]) -> Demand:
    """Units in the busiest partition of each kind. Partitions of single jobs are left out: they are
    never shared."""
    found = Counter[tuple[str, str, str]]()
    for usage in usages:
        for call in usage.calls:
            for kind, touched in (("read", call.read), ("write", call.written)):
                for key, units in touched:
                    found[_partition(key), kind, key[0]] += ceil(units)
    busiest = Demand()
    for (partition, kind, _), units in found.items():
        if partition not in {"JOB", "NAME"}:
            busiest[partition, kind] = max(busiest[partition, kind], units)
    return busiest


def _partition(key: tuple[str, str]) -> str:
    """The kind of a partition: LINES, CALLERS, POOL …"""
    return f"{BY_STATE} {key[1]}" if key[0] == BY_STATE else key[0].partition("#")[0]


def first_bound(costs: Demand) -> tuple[str, float]:
    """The partition that binds first, and at how many events a second."""
    rates = {each: _limit_of(each) / units for each, units in costs.items() if units}
    first = min(rates, key=lambda each: rates[each])
    return " ".join(first) + "s", round(rates[first], 1)


def simulated(costs: Costs, *, seed: int = 0) -> dict[str, dict[str, float]]:
    """The busiest second of each partition as a share of its limit, and the longest that its work
    is late (s), while all jobs arrive within an hour and run an hour each. Passes follow each
    other as fast as they can, for something is always new; each takes all ends since the last."""
    rng = random.Random(seed)
    late, peak, longest = Demand(), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for second in range(HOUR):
        events = [
            (_arrivals(second), costs.submission),
            (_ends(rng), costs.change),
            (int(costs.passes[0]), costs.quiet),
        ]
        now = Demand(late)
        for number, each in events:
            for partition, units in each.items():
                now[partition] += units * number
        for partition, units in now.items():
            limit = _limit_of(partition)
            asked = units - late[partition]
            peak[partition] = max(peak[partition], asked)
            late[partition] = max(0, units - limit)
            longest[partition] = max(longest[partition], late[partition])
    return {
        f"{name} {kind}s": {
            "peak": round(peak[name, kind] / _limit_of((name, kind)), 3),
            "late_seconds": round(longest[name, kind] / _limit_of((name, kind)), 1),
        }
        for name, kind in sorted(peak, key=lambda each: -peak[each] / _limit_of(each))
    }


def _arrivals(second: int) -> int:
    """One second of ten has half of the jobs of all ten."""
    each = JOBS / HOUR
    return round(each * 5 if second % 10 == 0 else each * 5 / 9)


def _ends(rng: random.Random) -> int:
    """How many of the jobs end in this second: a Poisson number."""
    rate, ended, time = SLOTS / RUNTIME, 0, rng.expovariate(1.0)
    while time < rate:
        ended, time = ended + 1, time + rng.expovariate(1.0)
    return ended


def _limit_of(partition: tuple[str, str]) -> int:
    return WRITES if partition[1] == "write" else READS
