"""Attempts that report nothing: what the queue keeps of a report, and when it warns or stops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.model.attempts import AttemptOutcome, StopCause, StopOrder
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import OnStall
from slotq_core.model.reports import (
    Report,
    Saved,
    SuspendSeen,
    resumption,
    unreleased,
    with_report,
)
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.lifecycle.stall import heard, listens_to
from slotq_core.policy.plan import Stall
from tests.unit.policy.test_reasons import NOW, pool, runs, stops

MIN = 60_000
HALF_HOUR = pool(stall_after=30 * MIN)
NOTHING = Report()


def step(ago: int) -> Report:
    return Report(step=7, at=NOW - ago)


def save(ago: int) -> Report:
    return Report(saved=Saved(step=5, at=NOW - ago))


SILENCES = [
    # pool, job, report -> silent for so long (ms)
    (HALF_HOUR, runs("j", since=60 * MIN), step(29 * MIN), None),
    (HALF_HOUR, runs("j", since=60 * MIN), step(30 * MIN), 30 * MIN),
    (HALF_HOUR, runs("j", since=60 * MIN), save(31 * MIN), 31 * MIN),
    (HALF_HOUR, runs("j", since=60 * MIN), NOTHING, None),
    (HALF_HOUR, runs("j", since=60 * MIN, reports=True), NOTHING, 60 * MIN),
    (HALF_HOUR, runs("j", since=29 * MIN, reports=True), NOTHING, None),
    (replace(HALF_HOUR, stall_unreported=True), runs("j", since=60 * MIN), NOTHING, 60 * MIN),
    (pool(), runs("j", since=60 * MIN), step(59 * MIN), None),
    (pool(read_reports=True), runs("j", since=60 * MIN, reports=True), NOTHING, None),
]


@pytest.mark.parametrize(("where", "job", "report", "silent"), SILENCES)
def test_a_silence_is_a_pools_stall_after_without_a_sign_of_life(where, job, report, silent):
    after = heard(job, where, report, NOW).attempt
    assert after is not None
    assert after.silent_since == (None if silent is None else NOW - silent)


HOUR = 60 * MIN
HEARTBEATS = [
    # pool, report, heartbeat (ms) -> silent for so long (ms), missed
    (pool(), step(2 * MIN), 2 * MIN, 2 * MIN, True),
    (pool(), step(2 * MIN), 3 * MIN, None, False),
    (pool(), save(2 * MIN), 2 * MIN, 2 * MIN, True),
    (pool(), NOTHING, 2 * MIN, None, False),
    (HALF_HOUR, step(2 * MIN), 2 * MIN, 2 * MIN, True),
    (HALF_HOUR, step(30 * MIN), 40 * MIN, 30 * MIN, False),
    (replace(HALF_HOUR, stall_unreported=True), NOTHING, MIN, HOUR, False),
]


@pytest.mark.parametrize(("where", "report", "heartbeat", "silent", "missed"), HEARTBEATS)
def test_a_heartbeat_is_missed_by_who_has_reported(where, report, heartbeat, silent, missed):
    after = heard(runs("j", since=HOUR), where, report, NOW, heartbeat).attempt
    assert after is not None
    assert after.silent_since == (None if silent is None else NOW - silent)
    assert after.heartbeat_missed is missed


def test_a_later_attempt_has_no_heartbeat_before_it_reports():
    """Reading the data again may take longer than a heartbeat."""
    job = runs("j", since=HOUR, reports=True)
    assert heard(job, pool(), NOTHING, NOW, 2 * MIN) == job


def test_who_has_missed_a_heartbeat_is_stopped_whatever_the_pool_says():
    job = heard(runs("j", since=60 * MIN, group="g"), HALF_HOUR, step(40 * MIN), NOW, 40 * MIN)
    (stall,) = decided(job, HALF_HOUR)
    ((_, stopped),) = steps(stall, {"p": HALF_HOUR}, NOW)
    assert stopped.attempt.stop == StopOrder(cause=StopCause.STALLED, by="g", at=NOW)
    assert "nothing for 40 min" in stopped.message
    assert decided(stopped, HALF_HOUR) == []


def test_a_pools_warning_does_not_let_a_heartbeat_be_missed_later_unseen():
    """Only what a report has shown counts: the script may have reported since the warning."""
    warned = heard(runs("j", since=60 * MIN), HALF_HOUR, step(30 * MIN), NOW, 40 * MIN)
    (stall,) = decided(warned, HALF_HOUR)
    ((_, warned),) = steps(stall, {"p": HALF_HOUR}, NOW)
    later = NOW + 10 * MIN
    assert decided(warned, HALF_HOUR, later) == []
    assert heard(warned, HALF_HOUR, step(30 * MIN), later, 40 * MIN).attempt.heartbeat_missed
    alive = heard(warned, HALF_HOUR, Report(step=8, at=later), later, 40 * MIN)
    assert (alive.attempt.silent_since, alive.attempt.heartbeat_missed) == (None, False)


def test_a_save_that_only_a_heartbeat_reads_makes_no_victim_cheaper():
    job = heard(runs("j", since=60 * MIN), pool(), save(MIN), NOW, 2 * MIN)
    assert job.attempt.checkpoint_at is None


def test_a_report_that_is_gone_is_no_silence():
    """Somebody has taken the right away, or the file."""
    job = heard(runs("j", since=90 * MIN), HALF_HOUR, step(31 * MIN), NOW)
    again = heard(job, HALF_HOUR, NOTHING, NOW + MIN)
    assert again.attempt is not None and again.attempt.silent_since is None


def test_what_changes_no_decision_is_not_written():
    job = heard(runs("j", since=90 * MIN), HALF_HOUR, save(5 * MIN), NOW)
    assert job.reports and job.attempt is not None
    assert (job.attempt.checkpoint_at, job.attempt.saved_step) == (NOW - 5 * MIN, 5)
    assert heard(job, HALF_HOUR, save(5 * MIN - MIN + 1), NOW) is job
    assert heard(job, HALF_HOUR, replace(save(5 * MIN), step=9, at=NOW), NOW) is job
    later = heard(job, HALF_HOUR, save(4 * MIN), NOW)
    assert later.attempt is not None and later.attempt.checkpoint_at == NOW - 4 * MIN


def test_an_earlier_save_replaces_no_later_one():
    job = heard(runs("j", since=90 * MIN), HALF_HOUR, save(5 * MIN), NOW)
    assert heard(job, HALF_HOUR, save(50 * MIN), NOW).attempt.checkpoint_at == NOW - 5 * MIN


def silent(**fields) -> Job:
    return heard(runs("j", since=60 * MIN, **fields), HALF_HOUR, step(30 * MIN), NOW)


def decided(job: Job, where, now: int = NOW) -> list:
    return list(plan(Snapshot(pools=(where,), active=(job,)), now).decisions)


def test_a_pool_warns_once_and_again_after_a_sign_of_life():
    (stall,) = decided(silent(), HALF_HOUR)
    assert isinstance(stall, Stall)
    assert stall.why.code == "stalled"
    assert stall.why.numbers() == {"since": NOW - 30 * MIN, "silent_for": 30 * MIN}
    assert "nothing for 30 min" in stall.why.sentence()
    ((_, warned),) = steps(stall, {"p": HALF_HOUR}, NOW)
    assert (warned.state, warned.attempt.stalled_at) == (JobState.RUNNING, NOW)
    assert decided(warned, HALF_HOUR, NOW + MIN) == []
    alive = heard(warned, HALF_HOUR, Report(step=8, at=NOW + MIN), NOW + MIN)
    assert (alive.attempt.silent_since, alive.attempt.stalled_at) == (None, None)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_pool_may_stop_the_attempt(retries):
    where = replace(HALF_HOUR, on_stall=OnStall.EVICT)
    job = silent(retries=retries)
    (stall,) = decided(job, where)
    ((_, stopped),) = steps(stall, {"p": where}, NOW)
    assert stopped.state is JobState.STOPPING
    assert stopped.attempt.stop == StopOrder(cause=StopCause.STALLED, by="p", at=NOW)
    assert "nothing for 30 min" in stopped.message
    assert stopped.evictions == job.evictions, "it is a failure, no eviction"
    assert decided(stopped, where) == []


def test_a_raised_stall_after_counts_at_once():
    assert decided(silent(), replace(HALF_HOUR, stall_after=60 * MIN)) == []
    later = plan(
        Snapshot(pools=(replace(HALF_HOUR, stall_after=60 * MIN),), active=(silent(),)), NOW
    )
    assert later.wake_at == NOW + 30 * MIN
    assert decided(silent(), pool()) == []


def test_only_what_decides_something_is_read():
    assert not listens_to(runs("j"), pool())
    assert listens_to(runs("j"), HALF_HOUR)
    assert listens_to(runs("j", preemptible=False), HALF_HOUR)
    assert listens_to(runs("j"), pool(read_reports=True))
    assert not listens_to(runs("j", preemptible=False), pool(read_reports=True))
    assert not listens_to(stops("j"), HALF_HOUR)
    assert listens_to(runs("j", preemptible=False), pool(), heartbeat=MIN)
    assert not listens_to(stops("j"), pool(), heartbeat=MIN)


def ended(**fields):
    job = stops("j", since=60 * MIN)
    assert job.attempt is not None
    given = {"checkpoints": "s3://bucket/checkpoints", **fields}
    return replace(job.attempt, ended_at=NOW, outcome=AttemptOutcome.EVICTED, **given)


RESUMPTIONS = [
    (Report(step=9, at=NOW, saved=Saved(step=4200, at=NOW - 3000)),
     "resumes from step 4,200, saved 3 s before the stop"),
    (Report(saved=Saved(step=4200, at=NOW - 41 * MIN)),
     "resumes from step 4,200 and loses 41 min of work"),
    (Report(saved=Saved(at=NOW)), "resumes from its last checkpoint, saved 0 s before the stop"),
    (Report(step=9, at=NOW), "loses up to 60 min of work: it reported no checkpoint"),
    (NOTHING, "loses up to 60 min of work: it reported no checkpoint"),
]  # fmt: skip


@pytest.mark.parametrize(("report", "said"), RESUMPTIONS)
def test_the_history_tells_what_an_eviction_cost(report, said):
    assert resumption(with_report(ended(), report)) == said


def test_what_an_attempt_without_a_place_for_checkpoints_lost_is_known():
    assert resumption(ended(checkpoints="")) == "loses 60 min of work: it has no CheckpointConfig"


def test_other_ends_tell_nothing():
    assert resumption(replace(ended(), outcome=AttemptOutcome.COMPLETED)) == ""
    assert resumption(replace(ended(), running_since=None)) == ""
    job = runs("j")
    assert job.attempt is not None and resumption(job.attempt) == ""


def test_who_acknowledges_and_never_releases_is_named():
    stop = StopOrder(cause=StopCause.EVICTED, by="x", at=NOW - 9000, sent=True)
    seen = SuspendSeen(marked=True, acknowledged_at=NOW - 5000)
    said = unreleased(Report(suspend=seen), stop, NOW)
    assert "acknowledged" in said and "never released" in said and "5 s" in said
    for innocent in (
        None,
        replace(seen, released_at=NOW - 1),
        replace(seen, marked=False),
        replace(seen, acknowledged_at=None),
    ):
        assert unreleased(Report(suspend=innocent), stop, NOW) == ""
    assert unreleased(Report(suspend=seen), None, NOW) == ""


ETAS = [
    (Report(step=200, of=300, at=NOW, began_step=100, began_at=NOW - 100_000), 100_000),
    (Report(step=200, of=300, at=NOW - 30_000, began_step=100, began_at=NOW - 130_000), 70_000),
    (Report(step=300, of=300, at=NOW), 0),
    (Report(step=400, of=300, at=NOW), 0),
    (Report(step=200, of=300, at=NOW), None),
    (Report(step=200, at=NOW, began_step=100, began_at=NOW - 1), None),
    (Report(step=200, of=300, at=NOW, began_step=200, began_at=NOW), None),
    (Report(step=2, of=10**15, at=NOW, began_step=1, began_at=NOW - 1000), None),
    (Report(step=200, of=300, at=NOW - 700_000, began_step=100, began_at=0), None),
    (NOTHING, None),
]


@pytest.mark.parametrize(("report", "eta"), ETAS)
def test_the_time_left_is_by_this_attempts_own_pace(report, eta):
    assert report.eta(NOW) == eta
