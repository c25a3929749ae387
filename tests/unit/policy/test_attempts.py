"""Attempts to start a job, by FLARE's scheduler settings. See docs/policy-decisions.md#attempts."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest

from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, JobState
from slotq_core.model.reasons import PoolsTooSmall, TriesAgain
from slotq_core.model.sharing import SchedulerSettings
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.status import why
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import started, steps
from slotq_core.policy.lifecycle.start_attempts import failed_attempt, interval
from slotq_core.policy.plan import Plan, TryLater
from slotq_core.ports.stored import Ahead
from tests.unit.policy.test_reasons import NOW, pool, runs, stops, waits

FLARE = SchedulerSettings(max_schedule_count=10)
SMALL = PoolsTooSmall(needed=1, largest=0)


def test_the_default_series_is_flares():
    """Attempts at 0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430 s, then given up."""
    moments = accumulate((interval(FLARE, made) for made in range(1, 10)), initial=0)
    assert [at // 1000 for at in moments] == [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430]


@pytest.mark.parametrize(
    ("made", "seconds"), [(1, 7), (2, 14), (3, 28), (4, 30), (5, 30), (10_000, 30)]
)
def test_intervals_double_up_to_the_longest(made, seconds):
    settings = SchedulerSettings(
        max_schedule_count=10, min_schedule_interval=7_000, max_schedule_interval=30_000
    )
    assert interval(settings, made) == seconds * 1000


def test_a_failed_attempt_is_counted_and_dates_the_next():
    job = waits("job", schedule_attempts=2)
    ((before, after),) = failed_attempt([job], FLARE, SMALL, NOW).changed
    assert before is job
    assert (after.state, after.not_before) == (JobState.BACKOFF, NOW + 40_000)
    assert (after.schedule_attempts, after.cause) == (3, "not_scheduled")
    assert after.entry_time == job.entry_time
    reason = why(after, Plan(), Ahead(jobs=0))
    assert reason == TriesAgain(until=NOW + 40_000, attempts=3, cause=after.message)
    assert reason.sentence() == (
        "is tried again at 1970-01-01T00:17:20.000Z: attempt 3 of 10 to start it: needs 1 slot, "
        "but the largest of its pools now has 0 in all"
    )


def test_the_last_failed_attempt_ends_the_job():
    ((_, after),) = failed_attempt([waits("job", schedule_attempts=9)], FLARE, SMALL, NOW).changed
    assert (after.state, after.cause) == (JobState.FAILED, "cannot_schedule")
    assert after.message.startswith("given up after attempt 10 of 10 to start it: needs 1 slot")
    assert (after.not_before, after.claim) == (None, None)


def test_a_gang_has_one_series_of_attempts():
    """Whatever attempts each member has behind it. A member that came later has its last attempt
    with the others."""
    both = [waits("a", schedule_attempts=8), waits("b")]
    tried = failed_attempt(both, FLARE, SMALL, NOW)
    assert [(j.state, j.schedule_attempts) for _, j in tried.changed] == [(JobState.BACKOFF, 9)] * 2
    given_up = failed_attempt([both[1], replace(both[0], schedule_attempts=9)], FLARE, SMALL, NOW)
    assert {after.state for _, after in given_up.changed} == {JobState.FAILED}


def test_a_start_ends_the_series():
    assert started(waits("job", schedule_attempts=4), pool(), NOW).schedule_attempts == 0


FULL = (runs("a"), runs("b"))
COMING = (runs("a"), stops("b"))
CLAIM = Claim(pool="p", amount=Demand(slots=1), since=0)
GANG = (Group(name="g", members=("x", "job")),)

TABLE = [
    # jobs present, jobs waiting -> jobs whose attempt has failed
    ("nothing is promised to it", {"active": FULL}, [waits("job")], {"job"}),
    ("slots are coming free for it", {"active": COMING}, [waits("job")], set()),
    ("it evicts", {"active": FULL}, [waits("job", priority=1)], set()),
    ("it has a claim", {"active": COMING}, [waits("job", claim=CLAIM)], set()),
    (
        "its claim is lost: it has not failed before it is blocked without one",
        {"active": FULL},
        [waits("job", claim=CLAIM)],
        set(),
    ),
    (
        "the pool drains for it, and nothing is promised to the next of its line",
        {"active": FULL, "pools": (pool(reserve_after=5_000),)},
        [waits("job", since=6_000), waits("next", since=6_000)],
        set(),
    ),
    (
        "those behind it in its line have failed alike",
        {"active": FULL},
        [waits("job0"), waits("job1"), waits("job2")],
        {"job0", "job1", "job2"},
    ),
    (
        "those of other lines on their own",
        {"active": FULL},
        [waits("a1"), waits("a2", slots=2)],
        {"a1", "a2"},
    ),
    (
        "its gang has failed as one",
        {"active": FULL, "groups": GANG},
        [waits("x", group="g"), waits("job", group="g")],
        {"x", "job"},
    ),
    (
        "it would join its gang, which runs",
        {"active": (runs("x", group="g"), runs("b")), "groups": GANG},
        [waits("job", group="g")],
        set(),
    ),
    (
        "max_jobs keeps it back: checked first, consumes no attempt",
        {"active": FULL, "scheduler": SchedulerSettings(max_jobs=2)},
        [waits("job")],
        set(),
    ),
    (
        "without settings nothing is counted",
        {"active": FULL, "scheduler": None},
        [waits("j")],
        set(),
    ),
]


@pytest.mark.parametrize(
    ("sentence", "world", "waiting", "failed"), TABLE, ids=[row[0] for row in TABLE]
)
def test_only_blocked_jobs_have_a_failed_attempt(sentence, world, waiting, failed):
    world = {"pools": (pool(),), "scheduler": FLARE, **world}
    snapshot = Snapshot(**world, waiting=tuple(waiting))
    tried = [each for each in plan(snapshot, NOW).decisions if isinstance(each, TryLater)]
    assert {before.name for each in tried for before, _ in each.changed} == failed, sentence


def test_a_whole_line_fails_its_attempt_at_the_same_moment():
    """A plan records as many failures as a plan from heads would; the next plan records the
    rest."""
    jobs = {f"j{i}": waits(f"j{i}") for i in range(250)}
    active, plans = FULL, 0
    while waiting := tuple(job for job in jobs.values() if job.waits):
        snapshot = Snapshot(pools=(pool(),), active=active, waiting=waiting, scheduler=FLARE)
        for decision in plan(snapshot, NOW).decisions:
            jobs |= {after.name: after for _, after in steps(decision, {}, NOW)}
        plans += 1
    assert {(job.state, job.not_before) for job in jobs.values()} == {
        (JobState.BACKOFF, NOW + 10_000)
    }
    assert plans == 3
