"""Compose the messages about jobs, each once, and deliver them.

The table's stream delivers each change of a job at least once. A scan every minute finds what
happens by time alone: a job that waits for long, the end of a day.

A message is put into the outbox before the send and removed afterwards. If the sender dies in
between, the next handler sends the message, perhaps a second time, with the same id. A message is
tried until its receiver has accepted it, or for a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slotq_core.errors import NotDelivered
from slotq_core.model.jobs import Job
from slotq_core.model.notices import JobEvent, Notification
from slotq_core.notices import composing
from slotq_core.notices.happenings import happenings
from slotq_core.notices.payloads import Message
from slotq_core.ports.notices import Outbox, Pending, Receivers
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.timestamps import iso

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


def pause_after(tries: int) -> int:
    """How long (ms) to wait before a message is sent again that so many tries before the last one
    have not delivered."""
    return min(_LONGEST, _FIRST << min(tries, 10))


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
        if rule is None or not composing.hears(rule, message):
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
        later = replace(pending, due=now + pause_after(pending.tries), tries=pending.tries + 1)
        self._outbox.move(pending, later)

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


LOOK_EVERY = 5
"""Minutes between two looks for jobs that wait for long: each reads the oldest waiting jobs."""

DIGEST_AFTER = 300_000
"""How long after the end of a day (ms) its digest is made: later events count for the next day."""

_MOST = 1000
"""Waiting jobs of one state that a look reads."""


class Notices:
    """Composes and sends notifications."""

    def __init__(self, store: Store, outbox: Outbox, receivers: Receivers, clock: Clock) -> None:
        self._store, self._outbox, self._receivers = store, outbox, receivers
        self._clock = clock
        self._known: set[str] = set()
        """Messages about long waits that were made: asking the table each time would cost."""

    def hear(
        self, changes: Iterable[tuple[Job | None, Job]], *, until: int
    ) -> Iterator[DeliveryResult]:
        """Notify about these changes of jobs; yield the outcome of each. May raise Unavailable:
        then it is unknown whether the next change was processed, and the caller must pass it again.
        A receiver that fails is not called again for these changes. `until`: when the handler ends
        (ms)."""
        rules = self._rules()
        delivery = self._delivery(rules)
        for before, after in changes:
            result = DeliveryResult()
            for happening in happenings(before, after):
                for rule in rules:
                    if composing.hears(rule, after):
                        message = composing.composed(rule, happening)
                        self._make(rule, message, delivery, result, until=until)
            yield result

    def look(self, *, until: int) -> DeliveryResult:
        """Notify about long waits and days that are over, and send what is due."""
        rules, result = self._rules(), DeliveryResult()
        delivery = self._delivery(rules)
        self._make_digests(rules)
        if self._clock.now() // 60_000 % LOOK_EVERY == 0:
            self._look_for_long_waits(rules, delivery, result, until=until)
        delivery.run(result, until=until)
        return result

    def _rules(self) -> tuple[Notification, ...]:
        return self._store.configuration.read().sharing.notifications

    def _delivery(self, rules: Iterable[Notification]) -> Delivery:
        by_name = {rule.name: rule for rule in rules}
        return Delivery(self._outbox, self._receivers, self._clock, by_name)

    def _make(
        self,
        rule: Notification,
        message: Message,
        delivery: Delivery,
        result: DeliveryResult,
        *,
        until: int,
    ) -> None:
        """Make a message once. Send it now if there is time, else leave it to the next run."""
        now = self._clock.now()
        wanted = JobEvent(message.event) in rule.events
        counts_on = iso(now)[:10] if rule.digest else None
        if not wanted and counts_on is None:
            return
        at_once = now + SLOWEST < until
        due = None if not wanted else now + LEASE if at_once else now
        pending = self._outbox.add(message, now=now, due=due, counts_on=counts_on)
        if pending is not None and wanted and at_once:
            delivery.send(pending, result)

    def _make_digests(self, rules: Iterable[Notification]) -> None:
        """Make the digests of the days that are over. A count is forgotten after its digest is
        made, so that none is lost; the digest's id keeps it from being made twice."""
        now = self._clock.now()
        by_name = {rule.name: rule for rule in rules if rule.digest}
        for found in self._outbox.counted(before=iso(now - DIGEST_AFTER)[:10]):
            if (rule := by_name.get(found.notification)) is not None:
                message = composing.digest(rule, found.day, dict(found.counts))
                self._outbox.add(message, now=now, due=now)
            self._outbox.forget(found)

    def _look_for_long_waits(
        self,
        rules: Iterable[Notification],
        delivery: Delivery,
        result: DeliveryResult,
        *,
        until: int,
    ) -> None:
        impatient = [(rule, rule.stuck_after) for rule in rules if rule.stuck_after is not None]
        if not impatient:
            return
        now = self._clock.now()
        shortest = min(stuck_after for _, stuck_after in impatient)
        waiting = self._store.jobs.longest_waiting(before=now - shortest + 1, limit=_MOST)
        made: set[str] = set()
        for rule, _ in impatient:
            for job in waiting:
                if composing.hears(rule, job) and composing.is_stuck(rule, job, now):
                    message = composing.waits_long(rule, job, now)
                    if message.id not in self._known:
                        self._make(rule, message, delivery, result, until=until)
                    made.add(message.id)
        self._known = made
