"""Which jobs get a grace period before they are stopped, and how long it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.model.attempts import AttemptOutcome, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.policy.lifecycle.retry import Ending, after_end
from slotq_core.policy.lifecycle.suspend import grace
from tests.unit.policy.test_reasons import NOW, pool, runs

POOLS = {
    "p": pool("p", suspend_grace=30_000),
    "q": pool("q", suspend_grace=90_000),
    "r": pool("r"),
}

PARTS = (("p", Demand(slots=1)), ("q", Demand(slots=1)))


def stopping(cause: StopCause, *, at: str = "p", begun: bool = True, **fields):
    job = runs("job", at=at, **fields)
    order = StopOrder(cause=cause, by="x", at=NOW)
    since = job.attempt.running_since if begun else None
    return replace(job, attempt=replace(job.attempt, stop=order, running_since=since))


@pytest.mark.parametrize(
    ("job", "asked"),
    [
        (stopping(StopCause.EVICTED), 30_000),
        (stopping(StopCause.YIELDED), 30_000),
        (stopping(StopCause.CANCELLED), 0),
        (stopping(StopCause.NO_CAPACITY), 0),
        (stopping(StopCause.EVICTED, begun=False), 0),
        (stopping(StopCause.EVICTED, at="r"), 0),
        (stopping(StopCause.EVICTED, at="gone"), 0),
        (
            stopping(StopCause.EVICTED, parts=(("p", Demand(slots=1)), ("q", Demand(slots=1)))),
            90_000,
        ),
        (runs("job"), 0),
    ],
)
def test_a_victim_gets_the_grace_of_its_pools(job, asked):
    assert grace(job, POOLS) == asked


def test_a_job_without_checkpoints_has_no_grace():
    assert grace(stopping(StopCause.EVICTED, checkpoints=False), POOLS) == 0


def test_a_release_after_the_queue_gave_the_start_up_blames_no_pool_and_no_script():
    """The start had got its instances after all."""
    job = replace(stopping(StopCause.NO_CAPACITY), state=JobState.STOPPING, releases=(NOW,) * 9)
    ended = after_end(job, Ending.RELEASED, at=NOW, now=NOW)
    assert ended.attempt.outcome is AttemptOutcome.RELEASED
    assert ended.job.state is JobState.PREEMPTED


def test_a_cancel_wins_over_a_release():
    ended = after_end(stopping(StopCause.CANCELLED), Ending.RELEASED, at=NOW, now=NOW)
    assert ended.job.state is JobState.CANCELLED
