"""By when jobs have ended, and when no moment is promised to a job that a pool drains for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import SHORTEST_ATTEMPT, Claim, Job, JobState
from slotq_core.model.pools import CapacityKind, Pool, PoolHealth
from slotq_core.model.reasons import Reserved
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.hours.runtimes import START, STOP, ends_by

NOW = 100_000_000
HOUR = 3_600_000
POOL = Pool(name="p", instance_type="t", capacity=Demand(slots=4), reserve_after=0)
WAITS = Job(
    name="waits",
    state=JobState.PENDING,
    priority=0,
    entry_time=0,
    demand=Demand(slots=1),
    pools=("p",),
    runtime_bound=HOUR,
)


def attempt(**fields: Any) -> Attempt:
    return Attempt(
        number=1,
        training_job="a",
        token="",
        pool="p",
        instance_type="t",
        admitted_at=NOW - 60_000,
        created=True,
        **fields,
    )


STARTS = replace(WAITS, state=JobState.STARTING, attempt=attempt())
RUNS = replace(WAITS, state=JobState.RUNNING, attempt=attempt(running_since=NOW - 50_000))
STOPS = replace(
    RUNS,
    state=JobState.STOPPING,
    attempt=attempt(stop=StopOrder(cause=StopCause.EVICTED, by="", at=NOW - 1_000)),
)
ASKED = replace(
    STOPS,
    attempt=attempt(
        stop=StopOrder(cause=StopCause.EVICTED, by="", at=NOW - 1_000, grace_until=NOW + 9_000)
    ),
)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (WAITS, NOW + START + HOUR + STOP),
        (replace(WAITS, runtime_bound=0), None),
        (replace(WAITS, ran=HOUR // 4), NOW + START + HOUR * 3 // 4 + STOP),
        (replace(WAITS, ran=2 * HOUR), NOW + START + SHORTEST_ATTEMPT + STOP),
        (STARTS, NOW - 60_000 + START + HOUR + STOP),
        (RUNS, NOW - 50_000 + HOUR + STOP),
        (replace(RUNS, runtime_bound=0), None),
        (STOPS, NOW - 1_000 + STOP),
        (replace(STOPS, runtime_bound=0), NOW - 1_000 + STOP),
        (ASKED, NOW + 9_000 + STOP),
    ],
)
def test_a_job_has_ended_by_its_bound(job: Job, expected: int | None) -> None:
    assert ends_by(job, POOL, NOW) == expected


@pytest.mark.parametrize(
    ("job", "over"),
    [
        (STARTS, NOW - 60_000 + START),
        (RUNS, NOW - 50_000 + HOUR + STOP),
        (STOPS, NOW - 1_000 + STOP),
    ],
)
def test_what_takes_longer_than_expected_has_no_bound(job: Job, over: int) -> None:
    assert ends_by(job, POOL, over) is not None
    assert ends_by(job, POOL, over + 1) is None


def test_a_start_takes_as_long_as_the_pools_slow_ones() -> None:
    known = replace(POOL, health=PoolHealth(starts=(60_000, 120_000)))
    assert ends_by(WAITS, known, NOW) == NOW + 120_000 + HOUR + STOP
    assert ends_by(STARTS, known, NOW) == NOW - 60_000 + 120_000 + HOUR + STOP


def test_a_job_on_spot_instances_has_no_bound() -> None:
    spot = replace(POOL, capacity_kind=CapacityKind.SPOT)
    assert ends_by(RUNS, spot, NOW) is None
    assert ends_by(STOPS, spot, NOW) is not None


def test_what_is_left_counts_over_all_attempts() -> None:
    assert replace(WAITS, ran=600_000).runtime_left == HOUR - 600_000
    assert replace(WAITS, runtime_bound=0, ran=600_000).runtime_left is None


HOLDS = replace(RUNS, name="holds", demand=Demand(slots=2))
BIG = replace(WAITS, name="big", demand=Demand(slots=4))
WORLD = Snapshot(pools=(POOL,), active=(HOLDS,), waiting=(BIG,))


def promised(world: Snapshot) -> int | None:
    why = plan(world, NOW).reasons["big"]
    assert isinstance(why, Reserved)
    return why.at_latest


def test_the_promise_is_the_last_end_and_a_stop() -> None:
    assert promised(WORLD) == NOW - 50_000 + HOUR + 2 * STOP


def test_the_promise_allows_for_the_time_in_which_victims_are_only_asked() -> None:
    asks = replace(POOL, suspend_grace=30_000)
    assert promised(replace(WORLD, pools=(asks,))) == NOW - 50_000 + HOUR + 2 * STOP + 30_000


def test_a_job_that_may_be_evicted_counts_as_gone() -> None:
    """It runs for longer than the other, and has a lower priority."""
    low = replace(RUNS, name="low", runtime_bound=9 * HOUR)
    high = replace(BIG, priority=1)
    world = replace(WORLD, active=(replace(HOLDS, priority=1), low), waiting=(high,))
    assert promised(world) == NOW - 50_000 + HOUR + 2 * STOP
    fixed = replace(low, preemptible=False)
    late = replace(world, active=(replace(HOLDS, priority=1), fixed))
    assert promised(late) == NOW - 50_000 + 9 * HOUR + 2 * STOP


def _in_a_pool(**fields: Any) -> Callable[[], Snapshot]:
    return lambda: replace(WORLD, pools=(replace(POOL, **fields),))


def _beside(job: Job) -> Callable[[], Snapshot]:
    return lambda: replace(WORLD, active=(HOLDS, job))


def _with_a_claim() -> Snapshot:
    """The claim is that of a job which `big` may not evict."""
    claim = Claim(pool="p", amount=Demand(slots=1), since=0)
    owed = replace(WAITS, name="owed", entry_time=1, claim=claim, preemptible=False)
    return replace(WORLD, active=(HOLDS, replace(STOPS, name="gone")), waiting=(BIG, owed))


@pytest.mark.parametrize(
    "world",
    [
        _in_a_pool(time_slice=HOUR),
        _in_a_pool(capacity_kind=CapacityKind.SPOT),
        _beside(replace(RUNS, name="unbound", runtime_bound=0)),
        _with_a_claim,
    ],
    ids=["time slices", "spot", "unbound", "claim"],
)
def test_nothing_is_promised(world: Callable[[], Snapshot]) -> None:
    assert promised(world()) is None


SHORT = replace(WAITS, name="short", entry_time=1, runtime_bound=600_000)


def started(*waiting: Job, pool: Pool = POOL) -> set[str]:
    planned = plan(replace(WORLD, pools=(pool,), waiting=(BIG, *waiting)), NOW)
    return {decision.job.name for decision in planned.decisions if hasattr(decision, "pool")}


def test_jobs_pass_until_the_moment() -> None:
    bound = NOW - 50_000 + HOUR + STOP - (NOW + START + STOP)
    exact, late = replace(SHORT, runtime_bound=bound), replace(SHORT, runtime_bound=bound + 1)
    assert started(exact) == {"short"}
    assert started(late) == set()


def test_only_as_many_pass_as_fit_now() -> None:
    jobs = [replace(SHORT, name=f"s{number}", entry_time=number) for number in range(1, 4)]
    assert started(*jobs) == {"s1", "s2"}


def test_a_job_goes_to_a_pool_that_does_not_drain_first() -> None:
    both = replace(SHORT, pools=("p", "q"))
    other = Pool(name="q", instance_type="t", capacity=Demand(slots=1))
    planned = plan(replace(WORLD, pools=(POOL, other), waiting=(BIG, both)), NOW)
    assert [decision.pool for decision in planned.decisions] == ["q"]  # type: ignore[union-attr]


def test_a_job_with_a_claim_elsewhere_does_not_pass() -> None:
    owed = replace(SHORT, claim=Claim(pool="q", amount=Demand(slots=1), since=0))
    assert "short" not in started(owed)
