"""A stop of which a restored table knows nothing makes the job wait again; no end is without its
reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.layout.items import restore_of, write_restore
from slotq_core.model.attempts import AttemptOutcome, Restore, StopCause
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.lifecycle.retry import Ending, after_end, stopped_before_restore
from tests.contract.worlds import NOW, a_job, an_attempt

RESTORE = Restore(copied_at=NOW, restored_at=NOW + 1000)


def running(admitted_at: int = NOW - 500) -> Job:
    job = a_job("a", state=JobState.RUNNING)
    return replace(job, attempts=1, attempt=replace(an_attempt(job), admitted_at=admitted_at))


@pytest.mark.parametrize(
    ("admitted_at", "running_since", "ended_at", "waits"),
    [
        (-500, -400, -1, False),  # before the copy
        (-500, -400, 0, True),
        (-500, -400, 1000, True),
        (-500, -400, 1001, False),  # after the restore
        (2000, 500, 1500, True),  # stopped as an orphan, then taken over
        (2000, 500, 2500, False),  # stopped after it was taken over
        (2000, -400, 1500, False),  # it ran before the copy
        (2000, None, 1500, False),
    ],
)
def test_a_stop_that_the_table_does_not_know(
    admitted_at: int, running_since: int | None, ended_at: int, waits: bool
) -> None:
    since = None if running_since is None else NOW + running_since
    job, at = running(NOW + admitted_at), NOW + ended_at
    told = stopped_before_restore(job, RESTORE, running_since=since, ended_at=at)
    ended = after_end(told, Ending.STOPPED, at=at, now=NOW + 5000)
    if not waits:
        assert (ended.job.state, ended.job.evictions) == (JobState.STOPPED, 0)
        assert ended.job.message == "stopped outside the queue"
        return
    assert (ended.job.state, ended.job.entry_time) == (JobState.PREEMPTED, job.entry_time)
    assert (ended.job.evictions, ended.attempt.outcome) == (1, AttemptOutcome.EVICTED)
    assert ended.attempt.stop is not None
    assert ended.attempt.stop.cause is StopCause.RESTORED
    assert ended.job.message == (
        "stopped before a restore of the queue's table (copied 2023-11-14T22:13:20.000Z, restored "
        "2023-11-14T22:13:21.000Z)"
    )


def test_a_stop_that_the_table_knows_stays() -> None:
    known = stopped_before_restore(running(), RESTORE, running_since=None, ended_at=NOW)
    later = Restore(copied_at=NOW - 9, restored_at=NOW + 9)
    assert stopped_before_restore(known, later, running_since=None, ended_at=NOW) is known


@pytest.mark.parametrize("ending", [Ending.STOPPED, Ending.FAILED, Ending.FAULT])
def test_an_end_that_sagemaker_does_not_explain_has_a_message(ending: Ending) -> None:
    assert after_end(running(), ending, at=NOW, now=NOW).job.message


def test_a_restore_is_kept_as_people_write_it() -> None:
    item = write_restore(RESTORE)
    assert item["copiedAt"] == {"S": "2023-11-14T22:13:20.000Z"}
    assert restore_of(item) == RESTORE
    by_hand = {"copiedAt": {"S": "2023-11-14T22:13:20+00:00"}, "restoredAt": item["restoredAt"]}
    assert restore_of(by_hand) == RESTORE
