"""Submissions held to the limits: counted before they are kept, and the counters audited.

`limiting` decides; the store counts. A submission costs one conditional update, and nothing is read
for it that was not read anyway. A refusal may cost more: what waits is counted anew first, so that
nobody is refused for jobs that have left the queue.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager

from slotq_core.admission import caller_limits as limiting
from slotq_core.errors import Conflict, LimitReached, QueueFull, Refused
from slotq_core.model.jobs import Job
from slotq_core.model.limits import NOTHING_USED, CallerUse, QueueUse
from slotq_core.ports import Clock, Configuration, Counter, Store

RECOUNT = "recount"
"""The task of counting anew because somebody is refused."""
RECOUNT_EVERY = 10_000
"""The least time (ms) between two of them: a caller who is refused again and again must not make
the queue read all that waits each time."""


class Admitter:
    """The door's counters, over the ports."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    @contextmanager
    def counted(self, job: Job, stand: Configuration) -> Iterator[bool]:
        """Counts the new job while it is being kept; yields whether it may open a line. Where it is
        refused inside, it is not counted after all.

        Raises PriorityTooHigh and LimitReached.
        """
        limiting.check_priority(stand.limits, job.priority, caller=job.submitter)
        if not stand.limits.count_anything:
            yield True
            return
        minute = self._take(job.submitter, stand)
        try:
            yield limiting.opens_lines(stand.limits, stand.use)
        except (Refused, Conflict) as error:
            self._give_back(job.submitter, stand, minute)
            if isinstance(error, Conflict):
                raise limiting.lines_refusal(stand.limits) from None
            raise

    def use(self, caller: str, stand: Configuration) -> CallerUse:
        """What is counted of this caller."""
        name, minute = self._counted(caller, stand)
        return self._store.counters.use(name, minute=minute)

    def audit(self) -> None:
        """Count what waits, and put the counters right. Costs what the waiting jobs cost to read,
        and nothing where nobody has submitted anything since the last time that all was zero."""
        stand, counters = self._store.configuration(), self._store.counters
        if not stand.limits.count_anything:
            return
        kept = counters.all()  # First: what is counted from now on stays counted.
        if not kept and stand.use == NOTHING_USED:
            return
        census = counters.census()
        waiting = Tally[str]()
        for submitter, number in census.waiting.items():
            waiting[limiting.counted_as(stand.limits, submitter)] += number
        minute = limiting.minute_of(self._clock.now())
        for caller in sorted({*kept, *waiting}):
            seen = kept.get(caller, Counter())
            counters.correct(caller, seen, waiting=waiting[caller], minute=minute)
        use = QueueUse(waiting=waiting.total(), lines=census.lines)
        if use != stand.use:
            counters.set_queue_use(use)

    def _take(self, caller: str, stand: Configuration) -> int:
        """Returns the minute that it counts in."""
        refused = self._try(caller, stand)
        if refused is not None and self._may_recount(refused):
            self.audit()
            stand = self._store.configuration()
            refused = self._try(caller, stand)
        if refused is not None:
            raise refused
        return self._counted(caller, stand)[1]

    def _try(self, caller: str, stand: Configuration) -> LimitReached | None:
        try:
            limiting.check_queue(stand.limits, stand.use)
        except QueueFull as full:
            return full
        own, (name, minute) = limiting.of_caller(stand.limits, caller), self._counted(caller, stand)
        if self._store.counters.take(name, minute=minute, limits=own):
            return None
        use = self._store.counters.use(name, minute=minute)
        return limiting.caller_refusal(own, use, caller=name, now=self._clock.now())

    def _may_recount(self, refused: LimitReached) -> bool:
        """Counting anew changes nothing about what was submitted in this minute."""
        if not limiting.is_of_what_waits(refused):
            return False
        now = self._clock.now()
        return self._store.take_turn(RECOUNT, now=now, next_at=now + RECOUNT_EVERY)

    def _give_back(self, caller: str, stand: Configuration, minute: int) -> None:
        name, _ = self._counted(caller, stand)
        self._store.counters.give_back(name, minute=minute)

    def _counted(self, caller: str, stand: Configuration) -> tuple[str, int]:
        name = limiting.counted_as(stand.limits, caller)
        return name, limiting.minute_of(self._clock.now())
