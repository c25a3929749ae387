"""The end of an attempt decides what becomes of the job: docs/policy.md#when-something-fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.errors import IllegalTransition
from slotq_core.lifecycle import TRANSITIONS, move
from slotq_core.model.attempts import AttemptOutcome, StopCause, StopOrder
from slotq_core.model.jobs import JobState
from slotq_core.policy.lifecycle.retry import (
    LONGEST_BACKOFF,
    LONGEST_MESSAGE,
    SHARED_FAULTS_WITHIN,
    Ending,
    after_end,
    backoff,
    end_backoff,
)
from tests.unit.policy.test_reasons import NOW, runs, stops, waits

EVICTED, CANCELLED, BY_ITSELF = StopCause.EVICTED, StopCause.CANCELLED, None
GIVEN_UP, STALLED = StopCause.NO_CAPACITY, StopCause.STALLED

TABLE = [
    # the training job's end, who ordered a stop, retries left -> state, outcome
    (Ending.COMPLETED, BY_ITSELF, 0, JobState.COMPLETED, AttemptOutcome.COMPLETED),
    (Ending.COMPLETED, EVICTED, 0, JobState.COMPLETED, AttemptOutcome.COMPLETED),
    (Ending.COMPLETED, CANCELLED, 0, JobState.COMPLETED, AttemptOutcome.COMPLETED),
    (Ending.STOPPED, BY_ITSELF, 3, JobState.STOPPED, AttemptOutcome.STOPPED),
    (Ending.STOPPED, EVICTED, 0, JobState.PREEMPTED, AttemptOutcome.EVICTED),
    (Ending.STOPPED, CANCELLED, 3, JobState.CANCELLED, AttemptOutcome.CANCELLED),
    (Ending.FAILED, BY_ITSELF, 0, JobState.FAILED, AttemptOutcome.FAILED),
    (Ending.FAILED, BY_ITSELF, 1, JobState.PENDING, AttemptOutcome.FAILED),
    (Ending.FAILED, EVICTED, 0, JobState.PREEMPTED, AttemptOutcome.EVICTED),
    (Ending.FAILED, CANCELLED, 1, JobState.CANCELLED, AttemptOutcome.CANCELLED),
    (Ending.REJECTED, BY_ITSELF, 3, JobState.FAILED, AttemptOutcome.FAILED),
    (Ending.MAX_RUNTIME, BY_ITSELF, 3, JobState.FAILED, AttemptOutcome.MAX_RUNTIME),
    (Ending.STOPPED, GIVEN_UP, 0, JobState.PENDING, AttemptOutcome.NO_CAPACITY),
    (Ending.STOPPED, STALLED, 0, JobState.FAILED, AttemptOutcome.STALLED),
    (Ending.STOPPED, STALLED, 1, JobState.PENDING, AttemptOutcome.STALLED),
    (Ending.FAILED, STALLED, 1, JobState.PENDING, AttemptOutcome.STALLED),
    (Ending.COMPLETED, STALLED, 0, JobState.COMPLETED, AttemptOutcome.COMPLETED),
    (Ending.NO_CAPACITY, BY_ITSELF, 0, JobState.PENDING, AttemptOutcome.NO_CAPACITY),
    (Ending.NO_CAPACITY, EVICTED, 0, JobState.PREEMPTED, AttemptOutcome.EVICTED),
    (Ending.NO_CAPACITY, CANCELLED, 0, JobState.CANCELLED, AttemptOutcome.CANCELLED),
    (Ending.FAULT, BY_ITSELF, 0, JobState.BACKOFF, AttemptOutcome.FAULT),
    (Ending.FAULT, CANCELLED, 0, JobState.CANCELLED, AttemptOutcome.CANCELLED),
    (Ending.SHARED_FAULT, BY_ITSELF, 1, JobState.BACKOFF, AttemptOutcome.FAULT),
    (Ending.SHARED_FAULT, EVICTED, 0, JobState.PREEMPTED, AttemptOutcome.EVICTED),
    (Ending.SHARED_FAULT, CANCELLED, 1, JobState.CANCELLED, AttemptOutcome.CANCELLED),
]


@pytest.mark.parametrize(("ending", "cause", "retries", "state", "outcome"), TABLE)
def test_the_end_of_an_attempt_decides_the_jobs_state(ending, cause, retries, state, outcome):
    job = runs("job", retries=retries) if cause is None else stops("job", retries=retries)
    if cause is not None:
        order = StopOrder(cause=cause, by="ann", at=NOW)
        job = replace(job, attempt=replace(job.attempt, stop=order))
    ended = after_end(job, ending, at=NOW, now=NOW + 1, message="why")
    assert (ended.job.state, ended.attempt.outcome) == (state, outcome)
    assert ended.job.attempt is None
    assert (ended.attempt.ended_at, ended.attempt.message) == (NOW, "why")
    assert ended.job.entry_time == job.entry_time
    since = job.attempt.running_since
    assert since is not None and ended.job.ran == NOW - since
    backed_off = state is JobState.BACKOFF
    assert ended.job.not_before == (NOW + 1 + backoff(1) if backed_off else None)
    failed = outcome is AttemptOutcome.STALLED or (ending is Ending.FAILED and cause is None)
    used = failed and retries > 0
    assert ended.job.retries == retries - used


@pytest.mark.parametrize(
    ("ending", "cause", "message"),
    [
        (Ending.STOPPED, BY_ITSELF, "stopped outside the queue"),
        (Ending.FAILED, BY_ITSELF, "SageMaker gives no reason"),
        (Ending.FAULT, BY_ITSELF, "SageMaker gives no reason"),
        (Ending.STOPPED, EVICTED, ""),
        (Ending.FAILED, EVICTED, ""),
        (Ending.STOPPED, CANCELLED, ""),
        (Ending.STOPPED, GIVEN_UP, "noted at the stop"),
        (Ending.STOPPED, STALLED, "noted at the stop"),
    ],
)
def test_an_end_without_a_message_blames_nobody_wrongly(ending, cause, message):
    """What the queue itself has stopped was not stopped outside the queue."""
    job = runs("job") if cause is None else replace(stops("job"), message="noted at the stop")
    if cause is not None:
        order = StopOrder(cause=cause, by="ann", at=NOW)
        job = replace(job, attempt=replace(job.attempt, stop=order))
    assert after_end(job, ending, at=NOW, now=NOW).attempt.message == message


@pytest.mark.parametrize("ending", [Ending.REJECTED, Ending.FAILED, Ending.NO_CAPACITY])
def test_a_long_message_is_cut_after_its_head(ending):
    """SageMaker's ValidationException lists every value that it accepts."""
    reason = "ValidationException: 1 validation error detected: Value 'ml.m5.nano' is not one of: "
    ended = after_end(runs("a"), ending, at=NOW, now=NOW, message=reason + "ml.m5.large, " * 400)
    assert ended.job.message == ended.attempt.message
    assert len(ended.job.message) == LONGEST_MESSAGE == 1024
    assert ended.job.message.startswith(reason)
    assert ended.job.message.endswith(" …")


def test_a_message_that_fits_is_kept_whole():
    ended = after_end(runs("a"), Ending.FAILED, at=NOW, now=NOW, message="x" * LONGEST_MESSAGE)
    assert ended.job.message == "x" * LONGEST_MESSAGE


HOUR = SHARED_FAULTS_WITHIN
SHARED = [
    # when earlier faults of shared GPUs ended attempts -> state, cause, and what is kept of them
    ((), JobState.BACKOFF, "shared_fault", (NOW,)),
    ((NOW - 2, NOW - 1), JobState.BACKOFF, "shared_fault", (NOW - 2, NOW - 1, NOW)),
    ((NOW - 3, NOW - 2, NOW - 1), JobState.HELD, "shared_faults", ()),
    ((NOW - HOUR, NOW - 2, NOW - 1), JobState.BACKOFF, "shared_fault", (NOW - 2, NOW - 1, NOW)),
    ((NOW + 1, NOW - 2, NOW - 1), JobState.BACKOFF, "shared_fault", (NOW - 2, NOW - 1, NOW)),
]


@pytest.mark.parametrize(("earlier", "state", "cause", "kept"), SHARED)
def test_the_fourth_fault_of_a_shared_gpu_within_an_hour_holds_the_job(earlier, state, cause, kept):
    job = runs("job", retries=1, shared_faults=earlier)
    after = after_end(job, Ending.SHARED_FAULT, at=NOW, now=NOW, message="why").job
    assert (after.state, after.cause, after.shared_faults) == (state, cause, kept)
    assert after.retries == 1
    assert ("slotq release job" in after.message) == (state is JobState.HELD)


def test_the_back_off_doubles_up_to_a_limit():
    assert [backoff(n) for n in (1, 2, 3)] == [30_000, 60_000, 120_000]
    assert backoff(50) == LONGEST_BACKOFF


def test_a_job_keeps_its_place_after_a_back_off():
    job = replace(waits("job"), state=JobState.BACKOFF, not_before=NOW)
    assert end_backoff(job, NOW).state is JobState.PENDING
    again = end_backoff(replace(job, evictions=1), NOW)
    assert (again.state, again.entry_time) == (JobState.PREEMPTED, job.entry_time)
    assert again.not_before is None


@pytest.mark.parametrize("state", JobState)
def test_terminal_states_have_no_exit_and_every_state_is_reachable(state):
    ends = {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.STOPPED}
    assert (not TRANSITIONS[state]) == (state in ends)
    assert any(state in targets for targets in TRANSITIONS.values())


def test_an_illegal_transition_is_refused():
    with pytest.raises(IllegalTransition, match="pending -> running"):
        move(waits("job"), JobState.RUNNING, at=NOW)
    done = move(runs("job"), JobState.COMPLETED, at=NOW)
    with pytest.raises(IllegalTransition, match="completed -> completed"):
        move(done, JobState.COMPLETED, at=NOW)
