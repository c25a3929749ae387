"""Tell those who wait for a job's end, at least once, until they have accepted it or nobody waits.

A kept callback is the outbox: it is stored with its job, long before the end, so that no crash
loses an answer, and the end itself needs no further write. Each tick looks at some of them. Of a
job that has ended it sends the end; of one that lives it shows a state machine that it does (a
heartbeat), and so learns that nobody waits any more. An answer that is not accepted stays, with the
reason, and is sent again ever later. A retry, an eviction, a resume is not an end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from slotq_core.errors import (
    NotDelivered,
    NotUnderstood,
    SlotQError,
    Unavailable,
)
from slotq_core.model.attempts import Attempt, StopCause
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import CallbackKind, WhenAbandoned
from slotq_core.model.reports import MOST_FINAL
from slotq_core.notices import job_answers
from slotq_core.notices.job_answers import JobAnswer
from slotq_core.operations.effects import Effects
from slotq_core.operations.notices import pause_after
from slotq_core.policy.lifecycle.apply import cancelled
from slotq_core.ports.callbacks import TOGETHER, Answers, KeptCallback
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock, InParallel, one_by_one
from slotq_core.ports.training import TrainingService

MOST_A_TICK = 1000
"""How many callbacks one tick looks at, with one call each."""

SLOWEST = 15_000
"""Time (ms) that so many may take."""

NOBODY_WAITS = "the queue: nobody waits for its end any more"
"""Who has cancelled such a job."""


class Answering:
    """Answers callbacks."""

    def __init__(
        self,
        store: Store,
        answers: Answers,
        clock: Clock,
        training: TrainingService,
        effects: Effects,
        *,
        wake: Callable[[], None],
        at_once: InParallel = one_by_one,
    ) -> None:
        """`wake` asks for a pass. `at_once` answers several at once."""
        self._store, self._answers, self._clock = store, answers, clock
        self._training, self._effects = training, effects
        self._wake, self._at_once = wake, at_once

    def run(self, *, until: int) -> tuple[str, ...]:
        """Look at some callbacks, until a time (ms); the next tick goes on behind them. Returns why
        some were not accepted; these are sent again. Raises Unavailable."""
        troubles: list[str] = []
        if self._clock.now() + SLOWEST > until:
            return ()
        found = self._store.callbacks.some(limit=MOST_A_TICK)
        for begin in range(0, len(found), TOGETHER):
            if begin and self._clock.now() + SLOWEST > until:
                self._store.callbacks.go_on_behind(found[begin - 1])
                break
            some = found[begin : begin + TOGETHER]
            names = [*dict.fromkeys(kept.job for kept in some)]
            jobs = self._store.jobs.several(names, readable_only=True)
            told = self._at_once(partial(self._look_at, jobs), some)
            troubles += [trouble for trouble in told if trouble]
        return tuple(troubles)

    def _look_at(self, jobs: Mapping[str, Job], kept: KeptCallback) -> str:
        """Return why it was not accepted; empty: it was, or there was nothing to say."""
        try:
            return self._told(jobs, kept)
        except SlotQError as error:
            return f"{kept.job}: {type(error).__name__}"

    def _told(self, jobs: Mapping[str, Job], kept: KeptCallback) -> str:
        if kept.superseded:
            return self._send(kept, lambda: job_answers.superseded(kept.job))
        job = jobs.get(kept.job) or self._store.jobs.get(kept.job)
        if job is None or job.entry_time != kept.entered:
            return self._send(kept, lambda: job_answers.forgotten(kept.job))
        if job.terminal:
            return self._send(kept, lambda: self._of_end(job))
        if kept.kind is CallbackKind.TASK:
            return self._show_life(kept, job)
        return ""

    def _send(self, kept: KeptCallback, answer: Callable[[], JobAnswer]) -> str:
        now = self._clock.now()
        if kept.due > now:
            return ""
        try:
            self._answers.send(kept.callback, answer())
        except NotDelivered as error:
            due = now + pause_after(kept.tries)
            self._store.callbacks.put_off(kept, due=due, tries=kept.tries + 1, trouble=str(error))
            return f"{kept.job}: {error}"
        self._store.callbacks.forget(kept)
        return ""

    def _show_life(self, kept: KeptCallback, job: Job) -> str:
        try:
            waits = self._answers.still_waits(kept.callback)
        except NotDelivered as error:
            if kept.trouble != str(error):
                self._store.callbacks.put_off(kept, due=0, tries=0, trouble=str(error))
            return f"{kept.job}: {error}"
        if not waits:
            self._abandon(kept, job)
        elif kept.trouble:
            self._store.callbacks.put_off(kept, due=0, tries=0, trouble="")
        return ""

    def _abandon(self, kept: KeptCallback, job: Job) -> None:
        """Nobody waits any more: cancel the job, unless it goes on without. It is forgotten last,
        so that a handler that dies in between does not lose the cancel; and nothing happens if a
        newer token has come since the heartbeat."""
        if kept.when_abandoned is WhenAbandoned.CANCEL:
            if not self._store.callbacks.put_off(kept, due=0, tries=0, trouble=kept.trouble):
                return
            self._cancel(job)
        self._store.callbacks.forget(kept)

    def _cancel(self, job: Job) -> None:
        """Raises Conflict if the job has changed: the next tick looks again."""
        stop = job.attempt.stop if job.attempt else None
        if stop is not None and stop.cause is StopCause.CANCELLED:
            return
        after = cancelled(job, NOBODY_WAITS, self._clock.now())
        (job,) = self._store.decisions.commit([Change(before=job, after=after)])
        if job.active:
            self._effects.carry_out_all([job])
        self._wake()

    def _of_end(self, job: Job) -> JobAnswer:
        found = self._store.jobs.with_attempts(job.name)
        attempts: Sequence[Attempt] = found[1] if found else ()
        attempt = attempts[-1] if attempts else None
        metrics = dict(job.metrics) or self._metrics(job, attempt)
        return job_answers.of_end(job, attempt, metrics)

    def _metrics(self, job: Job, attempt: Attempt | None) -> dict[str, float]:
        """The metrics that SageMaker has found in the output of a job that has completed. Jobs of
        groups have theirs themselves. If SageMaker cannot say, the answer does not wait for it."""
        if job.state is not JobState.COMPLETED or attempt is None or attempt.node:
            return {}
        with suppress(NotUnderstood, Unavailable):
            described = self._training.describe(attempt.training_job)
            return dict(described.metrics[:MOST_FINAL]) if described else {}
        return {}
