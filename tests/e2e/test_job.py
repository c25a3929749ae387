"""A job as an object, with the deployed code: held, raised, moved, cloned, finished."""

from __future__ import annotations

import pytest

from slotq import QueueClient
from slotq.errors import NotCompleted, TooLate
from tests.e2e.test_commands import request
from tests.e2e.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("aws")


def _outcomes(job):
    """How its attempts ended: a state between two looks is gone, an outcome stays."""
    return [attempt.outcome for attempt in job.history()]


def test_a_job_object_goes_from_submission_to_result():
    queue = QueueClient()
    queue.submit(request("runs", "sleep", "100"))
    queue.submit(request("waits", "true"))
    runs, waits = queue.get("runs"), queue.get("waits")
    until(lambda: runs.refresh().state == "running", "runs does not")
    with pytest.raises(TooLate, match="runs is running"):
        runs.hold()
    assert waits.hold().state == "held"
    assert waits.set_priority(5).place is None
    assert waits.release().state in {"pending", "starting"}
    until(lambda: _outcomes(runs)[0] == "evicted", "runs was not evicted")
    assert waits.result(PATIENCE, poll=0.2, say=print).endswith("/waits/output/model.tar.gz")
    assert _outcomes(waits) == ["completed"]

    clone = waits.clone("again", priority=7)
    assert clone.wait(PATIENCE, poll=0.2, say=print).state == "completed"
    assert queue.jobs.request("again")["TrainingJobName"] == "again"
    runs.cancel()
    with pytest.raises(NotCompleted, match="cancelled"):
        runs.result(PATIENCE, poll=0.2, say=print)
    with pytest.raises(TooLate, match="ended"):
        waits.set_priority(1)
