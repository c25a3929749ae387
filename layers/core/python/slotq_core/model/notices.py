"""Notifications as an operator configures them: jobs, events, and receivers. And callbacks: who is
told of one job's end by token."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from slotq_core.timestamps import Duration


class JobEvent(StrEnum):
    """An event of a job that can trigger a notification."""

    STARTED = "started"
    """Its script runs for the first time."""
    EVICTED = "evicted"
    """An attempt has ended so that another job runs; the job waits again."""
    RESUMED = "resumed"
    """Its script runs again."""
    FINISHED = "finished"
    """It is completed. Rules may say `completed`, too."""
    FAILED = "failed"
    """It ended otherwise, and its user did not cancel it."""
    STUCK = "stuck"
    """It reports nothing, is held by the queue, or has waited for long."""


class Digest(StrEnum):
    """How often a digest reports all events in one message."""

    DAILY = "daily"


class NotificationMode(StrEnum):
    """Whether a deployed queue sends notifications. The values are those of the template's
    parameter `Notifications`, except the emulator's."""

    OFF = "false"
    ON = "true"
    LOCAL = "local"
    """The emulator: webhooks may be on the same machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receiver:
    """The receiver of a rule's messages."""

    channel: str = ""
    """The key of a channel (`notices.channels`)."""
    place: str = ""
    """An ARN, a URL, or the place of a kept URL, as the channel takes it."""
    secret: str = ""
    """The place of the key that signs the channel's messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Notification:
    """One rule. Without project and person it applies to all jobs."""

    name: str
    project: str = ""
    person: str = ""
    """As `Job.person`."""
    events: tuple[JobEvent, ...] = tuple(JobEvent)
    """The events reported as they happen."""
    receiver: Receiver = field(default_factory=Receiver)
    stuck_after: Duration | None = None
    """A waiting job is stuck after this time; None: never."""
    digest: Digest | None = None


class CallbackKind(StrEnum):
    """Who waits for a job's end."""

    TASK = "task"
    """A task of an AWS Step Functions state machine."""
    PIPELINE = "pipeline"
    """A callback step of an Amazon SageMaker pipeline."""


class WhenAbandoned(StrEnum):
    """What becomes of a job for whose end nobody waits any more."""

    CANCEL = "cancel"
    CONTINUE = "continue"


@dataclass(frozen=True, kw_only=True, slots=True)
class Callback:
    """Who waits for a job's end, by a token that whoever started the wait has given away."""

    kind: CallbackKind
    token: str = field(repr=False)
    """A secret: whoever has the token may end the wait."""
    when_abandoned: WhenAbandoned = WhenAbandoned.CANCEL
