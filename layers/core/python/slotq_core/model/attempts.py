"""One run of a job: how it begins, who wants it to end, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StopCause(StrEnum):
    """Who wants an attempt to end."""

    EVICTED = "evicted"
    YIELDED = "yielded"
    """Evicted too: its time slice was over, and it was another user's turn."""
    REQUEUED = "requeued"
    """Evicted too: its user gave the attempt up, and nobody was waiting for its slots."""
    CANCELLED = "cancelled"
    NO_CAPACITY = "no_capacity"
    """SageMaker looked for instances for longer than the pool's `pending_timeout`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StopOrder:
    """A durable intent: this attempt is to be stopped."""

    cause: StopCause
    by: str
    """The job that it makes room for, or the person who cancelled it or gave it up."""
    at: int
    sent: bool = False
    """SageMaker has accepted the stop."""


class AttemptOutcome(StrEnum):
    """How an attempt ended, in the queue's words."""

    COMPLETED = "completed"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    FAILED = "failed"
    MAX_RUNTIME = "max_runtime"
    NO_CAPACITY = "no_capacity"
    FAULT = "fault"
    """SageMaker's own error; the job is not to blame."""
    NO_RIGHTS = "no_rights"
    """The queue or SageMaker lacked a right; the job is not to blame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One run of a job: one SageMaker training job."""

    number: int
    """From 1 up."""
    training_job: str
    """The training job's name (DESIGN section 1, "Names")."""
    token: str
    """The intent's mark on the training job, by which a repeated create is known as ours."""
    pool: str
    instance_type: str
    admitted_at: int
    """When the slots were given; the intent is durable from here on."""
    created: bool = False
    """SageMaker has accepted the create."""
    probes: bool = False
    """It tries whether a right is there again that was missing for it."""
    pending_since: int | None = None
    """Since when SageMaker has been looking for its instances; None where it is not known to."""
    running_since: int | None = None
    """When the training job had its instances; None while starting."""
    checkpoint_at: int | None = None
    """The last checkpoint it reported."""
    stop: StopOrder | None = None
    ended_at: int | None = None
    outcome: AttemptOutcome | None = None
    message: str = ""
    """What SageMaker said of the end (FailureReason), or why the create was refused."""
    artifact: str = ""
    """S3 URI of model.tar.gz."""
    checkpoints: str = ""
    """S3 URI of the checkpoints."""
