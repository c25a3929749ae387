"""What the user of a job is warned of while it lives."""

from __future__ import annotations

from dataclasses import replace

from slotq_core.model.attempts import Attempt, AttemptOutcome
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.status import Status, warnings_of
from tests.contract.worlds import a_job
from tests.unit.policy.test_reasons import NOW, runs

HELD_ON = "its script acknowledged the request to suspend and never released"


def attempt_of(job: Job) -> Attempt:
    assert job.attempt is not None
    return job.attempt


def test_a_script_that_acknowledged_and_never_released_is_named():
    job = a_job("job1", state=JobState.PREEMPTED)
    ended = replace(attempt_of(runs("job1")), outcome=AttemptOutcome.EVICTED, warning=HELD_ON)
    assert list(warnings_of(Status(job=job, attempts=(ended,)))) == [f"attempt 1: {HELD_ON}"]
    after = replace(ended, number=2, warning="")
    assert list(warnings_of(Status(job=job, attempts=(ended, after)))) == []


def test_a_script_that_hangs_is_named():
    job = runs("job1")
    silent = replace(attempt_of(job), silent_since=NOW - 600_000, stalled_at=NOW)
    (warning,) = warnings_of(Status(job=replace(job, attempt=silent)))
    assert "reported nothing for 10 min" in warning


def test_nobody_is_warned_of_a_job_that_has_ended():
    job = a_job("job1", state=JobState.FAILED)
    ended = replace(attempt_of(runs("job1")), outcome=AttemptOutcome.EVICTED, warning=HELD_ON)
    assert list(warnings_of(Status(job=job, attempts=(ended,)))) == []
