"""Jobs in every state, for tests of what is told of them."""

from __future__ import annotations

from typing import Any

from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import Notification, Receiver

NOW = 1_795_000_000_000
ADA = "arn:aws:iam::123456789012:user/ada"
ACTIVE = {JobState.STARTING, JobState.RUNNING, JobState.STOPPING}


def attempt(**changes: Any) -> Attempt:
    known: dict[str, Any] = {
        "number": 1,
        "training_job": "job1",
        "token": "t",
        "pool": "p5",
        "instance_type": "ml.p5.48xlarge",
        "admitted_at": NOW,
    }
    return Attempt(**{**known, **changes})


def job(state: JobState, **changes: Any) -> Job:
    known: dict[str, Any] = {
        "name": "job1",
        "state": state,
        "priority": 0,
        "entry_time": NOW,
        "demand": Demand(slots=1),
        "pools": ("p5",),
        "project": "vision",
        "person": ADA,
        "submitter": ADA,
        "attempt": attempt() if state in ACTIVE else None,
        "not_before": NOW + 1000 if state is JobState.BACKOFF else None,
        "attempts": 1,
        "changed_at": NOW,
        "version": 3,
    }
    return Job(**{**known, **changes})


def stopping(cause: StopCause, by: str = "urgent") -> Job:
    order = StopOrder(cause=cause, by=by, at=NOW)
    return job(JobState.STOPPING, attempt=attempt(stop=order))


def rule(**changes: Any) -> Notification:
    known: dict[str, Any] = {
        "name": "all",
        "receiver": Receiver(channel="sns", place="arn:aws:sns:r:1:t"),
    }
    return Notification(**{**known, **changes})
