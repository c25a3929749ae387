"""Deliver messages until their receivers have accepted them, or for a day.

A message is put into the outbox before the send and removed afterwards. If the sender dies in
between, the next handler sends the message, perhaps a second time, with the same id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slotq_core.errors import NotDelivered
from slotq_core.model.notices import Notification
from slotq_core.notices.composing import hears
from slotq_core.ports.notices import Outbox, Pending, Receivers
from slotq_core.ports.surroundings import Clock

LEASE = 120_000
"""How long (ms) a sender has a message for itself: longer than a handler lives."""

SLOWEST = 15_000
"""Time (ms) that one message may take, including the read of its secret. If the handler has less
time left, messages stay for the next run."""

_FIRST, _LONGEST = 60_000, 1_800_000
"""The first and the longest pause (ms) before a message is sent again. Each pause is twice the one
before."""

GIVE_UP = 86_400_000
"""How long (ms) a message is tried."""

_AT_ONCE = 50


@dataclass(kw_only=True, slots=True)
class DeliveryResult:
    """The outcome of one run's messages."""

    delivered: int = 0
    left: list[str] = field(default_factory=list)
    """Why messages were not delivered now; they are sent again. Names rules, no places."""
    given_up: list[str] = field(default_factory=list)
    """Why messages will never be delivered."""


class Delivery:
    """Delivers messages in one run of a handler."""

    def __init__(
        self,
        outbox: Outbox,
        receivers: Receivers,
        clock: Clock,
        rules: Mapping[str, Notification],
    ) -> None:
        """`rules`: the notifications by name, as configured now."""
        self._outbox, self._receivers, self._clock = outbox, receivers, clock
        self._rules = rules
        self._down: set[str] = set()
        """Rules whose receiver has failed in this run: each failure may take seconds."""

    def send(self, pending: Pending, result: DeliveryResult) -> None:
        """Send a message that this sender has leased."""
        rule, message = self._rules.get(pending.message.notification), pending.message
        if rule is None or not hears(rule, message):
            self._outbox.done(pending)  # The rule has changed and no longer asks for it.
            return
        now = self._clock.now()
        try:
            if rule.name in self._down:
                raise NotDelivered("its receiver has just failed")
            self._receivers.send(message, rule.receiver, now=now)
        except NotDelivered as error:
            self._down.add(rule.name)
            self._again(pending, now, f"{rule.name}: {error}", result)
        else:
            result.delivered += 1
            self._outbox.done(pending)

    def _again(self, pending: Pending, now: int, why: str, result: DeliveryResult) -> None:
        if now - pending.since >= GIVE_UP:
            result.given_up.append(why)
            self._outbox.done(pending)
            return
        result.left.append(why)
        pause = min(_LONGEST, _FIRST << min(pending.tries, 10))
        self._outbox.move(pending, replace(pending, due=now + pause, tries=pending.tries + 1))

    def run(self, result: DeliveryResult, *, until: int) -> None:
        """Send what is due, as long as there is time (ms)."""
        while self._clock.now() + SLOWEST < until:
            found = self._outbox.due(self._clock.now(), limit=_AT_ONCE)
            for pending in found:
                if self._clock.now() + SLOWEST >= until:
                    return
                mine = replace(pending, due=self._clock.now() + LEASE)
                if self._outbox.move(pending, mine):
                    self.send(mine, result)
            if len(found) < _AT_ONCE:
                return
