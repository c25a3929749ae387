"""Notifications as an operator configures them: whose jobs, which events, and where to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from slotq_core.timestamps import Duration


class JobEvent(StrEnum):
    """What happens to a job that people may want to hear of."""

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
    """How often everything is told in one message."""

    DAILY = "daily"


class NotificationMode(StrEnum):
    """Whether a queue tells people anything, as deployed. The values are those of the template's
    parameter `Notifications`, but for the emulator's."""

    OFF = "false"
    ON = "true"
    LOCAL = "local"
    """The emulator: webhooks may be on the same machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receiver:
    """Where messages go."""

    channel: str = ""
    """The key of a channel (`notices.channels`)."""
    place: str = ""
    """As the channel takes it: an ARN, a URL, or where a URL is kept."""
    secret: str = ""
    """Where the key is kept with which the channel's messages are signed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Notification:
    """One rule. Without project and person it is about all jobs."""

    name: str
    project: str = ""
    person: str = ""
    """As `Job.person`."""
    events: tuple[JobEvent, ...] = tuple(JobEvent)
    """Each is told as it happens."""
    receiver: Receiver = field(default_factory=Receiver)
    stuck_after: Duration | None = None
    """After how long a waiting job is stuck; None: however long it waits, it is not."""
    digest: Digest | None = None
