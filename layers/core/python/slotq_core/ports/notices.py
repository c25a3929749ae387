"""Messages on their way to people: kept until their receivers have taken them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slotq_core.model.notices import Receiver
from slotq_core.notices.payloads import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """A message that is not delivered yet."""

    message: Message
    due: int
    """When it is to be sent (ms). A sender first moves this to a later moment."""
    since: int
    """When it was made (ms)."""
    tries: int = 0
    """How often it was not delivered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """How often each event has happened on one day (UTC), for one rule's digest."""

    day: str
    notification: str
    counts: Mapping[str, int]


class Outbox(Protocol):
    """Messages that are to be sent. Methods may raise Unavailable."""

    def add(
        self,
        message: Message,
        *,
        now: int,
        due: int | None,
        counts_on: str | None = None,
    ) -> Pending | None:
        """Make a message once: None if one of that id was made before. All or nothing.

        `due`: when other handlers may send it (ms); None: it is not sent, and only counts.
        `counts_on`: the day on which it counts for the rule's digest; None: it does not.
        """

    def due(self, now: int, *, limit: int) -> Sequence[Pending]:
        """At most `limit` messages that are due, the earliest first. Strongly consistent."""

    def move(self, pending: Pending, later: Pending) -> bool:
        """Store the message as `later`. False, without a change, if another handler has moved or
        delivered it."""

    def done(self, pending: Pending) -> None:
        """Forget the message."""

    def counted(self, *, before: str) -> Sequence[Counted]:
        """The counts of all days before this one."""

    def forget(self, counted: Counted) -> None:
        """Forget the counts of a day, after their digest was made."""


class Receivers(Protocol):
    """The receivers of messages."""

    def send(self, message: Message, receiver: Receiver, *, now: int) -> None:
        """Send a message, in a few seconds at most. Raises NotDelivered. `now`: ms."""
