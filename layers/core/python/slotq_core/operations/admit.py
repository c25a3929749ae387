"""Count submissions against the limits before they are stored, and audit the counters.

`limiting` decides; the store counts. A submission costs one conditional update and no extra read. A
refusal may cost more: the queue counts the waiting jobs again first, so that nobody is refused for
jobs that have left the queue.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager

from slotq_core.admission import caller_limits
from slotq_core.errors import Conflict, LimitReached, NameTaken, QueueFull, Refused
from slotq_core.model.jobs import Job
from slotq_core.model.limits import NOTHING_USED, CallerUse, QueueUse
from slotq_core.ports.counters import Counter
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration, StoredAlready
from slotq_core.ports.surroundings import Clock

RECOUNT = "recount"
"""Name of the task that counts the waiting jobs again after a refusal."""
RECOUNT_EVERY = 10_000
"""Minimum time (ms) between two recounts. Without this bound, a caller who is refused again and
again would make the queue read all waiting jobs each time."""


class Admitter:
    """The submission counters, over the ports."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    @contextmanager
    def counted(self, job: Job, stand: Configuration) -> Iterator[bool]:
        """Count the new job while the caller stores it; yield whether the job may open a line. A
        refusal or a conflict inside the block takes the count back.

        A name that another job has is a refusal that the caller could have known: it stays counted
        in its minute, or guessing names would have no limit. Repeating a submission is free.
        Raises PriorityTooHigh and LimitReached.
        """
        caller_limits.check_priority(stand.limits, job.priority, caller=job.submitter)
        if not stand.limits.count_anything:
            yield True
            return
        minute = self._take(job.submitter, stand)
        try:
            yield caller_limits.opens_lines(stand.limits, stand.use)
        except (Refused, Conflict) as error:
            guessed = isinstance(error, NameTaken) and not isinstance(error, StoredAlready)
            self._give_back(job.submitter, stand, None if guessed else minute)
            if isinstance(error, Conflict):
                raise caller_limits.lines_refusal(stand.limits) from None
            raise

    def use(self, caller: str, stand: Configuration) -> CallerUse:
        """Return what is counted for this caller."""
        name, minute = self._counted(caller, stand)
        return self._store.counters.use(name, minute=minute)

    def audit(self) -> None:
        """Count the waiting jobs and correct the counters. Reads all waiting jobs, unless no
        counter is stored and the last recorded use was zero."""
        stand, counters = self._store.configuration(), self._store.counters
        if not stand.limits.count_anything:
            return
        kept = counters.all()  # Read first: later submissions stay counted.
        if not kept and stand.use == NOTHING_USED:
            return
        census = counters.census()
        waiting = Tally[str]()
        for submitter, number in census.waiting.items():
            waiting[caller_limits.counted_as(stand.limits, submitter, stand.people)] += number
        minute = caller_limits.minute_of(self._clock.now())
        for caller in sorted({*kept, *waiting}):
            seen = kept.get(caller, Counter())
            counters.correct(caller, seen, waiting=waiting[caller], minute=minute)
        use = QueueUse(waiting=waiting.total(), lines=census.lines)
        if use != stand.use:
            counters.set_queue_use(use)

    def _take(self, caller: str, stand: Configuration) -> int:
        """Count one submission and return the minute in which the submission counts. Raises
        LimitReached."""
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
            caller_limits.check_queue(stand.limits, stand.use)
        except QueueFull as full:
            return full
        own = caller_limits.of_caller(stand.limits, caller)
        name, minute = self._counted(caller, stand)
        if self._store.counters.take(name, minute=minute, limits=own):
            return None
        use = self._store.counters.use(name, minute=minute)
        return caller_limits.caller_refusal(own, use, caller=name, now=self._clock.now())

    def _may_recount(self, refused: LimitReached) -> bool:
        """Return whether a recount is due and can help. A recount does not change the number of
        submissions in this minute."""
        if not caller_limits.counts_waiting_jobs(refused):
            return False
        now = self._clock.now()
        return self._store.take_turn(RECOUNT, now=now, next_at=now + RECOUNT_EVERY)

    def _give_back(self, caller: str, stand: Configuration, minute: int | None) -> None:
        name, _ = self._counted(caller, stand)
        self._store.counters.give_back(name, minute=minute)

    def _counted(self, caller: str, stand: Configuration) -> tuple[str, int]:
        name = caller_limits.counted_as(stand.limits, caller, stand.people)
        return name, caller_limits.minute_of(self._clock.now())
