"""Broken variants of what tells those who wait for a job's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from slotq_core.adapters.dynamodb.layout import expressions
from slotq_core.errors import NotDelivered
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.callbacks.answering import Answering
from slotq_core.ports.callbacks import KeptCallback
from slotq_core.storage import callbacks
from tests.faults.crashes import BEFORE, SILENT, THROTTLED, TOLD
from tests.faults.mutants import Mutant, crash, race, undisturbed, without_condition
from tests.faults.promises import ANSWERED, CONVERGENT
from tests.faults.scenarios import all_have_heard

WAITS, STOPPED = "a_state_machine_waits_for_a_job", "an_execution_is_stopped"
LATE = "a_state_machine_waits_for_what_has_ended"
HEARD = all_have_heard("a")


def _forgotten_before_it_is_sent() -> AbstractContextManager[Any]:
    right = Answering._send

    def wrong(self: Answering, kept: KeptCallback, answer: Callable[[], Any]) -> str:
        self._store.callbacks.forget(kept)
        return right(self, kept, answer)

    return patch.object(Answering, "_send", wrong)


def _sent_once() -> AbstractContextManager[Any]:
    """An answer that was not accepted is not sent again."""
    right = Answering._send

    def wrong(self: Answering, kept: KeptCallback, answer: Callable[[], Any]) -> str:
        try:
            self._answers.send(kept.callback, answer())
        except NotDelivered:
            self._store.callbacks.forget(kept)
            return ""
        return right(self, kept, answer)

    return patch.object(Answering, "_send", wrong)


def _an_eviction_is_an_end() -> AbstractContextManager[Any]:
    right = Answering._told

    def wrong(self: Answering, jobs: Mapping[str, Job], kept: KeptCallback) -> str:
        job = jobs[kept.job]
        if job.state is JobState.PREEMPTED and not kept.superseded:
            gone = replace(job, state=JobState.CANCELLED)
            return self._send(kept, lambda: self._of_end(gone))
        return right(self, jobs, kept)

    return patch.object(Answering, "_told", wrong)


def _attaches(change: Callable[[tuple[KeptCallback, ...]], tuple[KeptCallback, ...]]) -> Any:
    right = callbacks.attached

    def wrong(current: KeptCallback | None, new: KeptCallback) -> tuple[KeptCallback, ...]:
        return change(right(current, new))

    return lambda: patch.object(callbacks, "attached", wrong)


def _forgotten_before_the_cancel() -> AbstractContextManager[Any]:
    right = Answering._abandon

    def wrong(self: Answering, kept: KeptCallback, job: Job) -> None:
        with patch.object(type(self._store.callbacks), "put_off", lambda *_, **__: True):
            self._store.callbacks.forget(kept)
            right(self, kept, job)

    return patch.object(Answering, "_abandon", wrong)


def _nothing_is_cancelled() -> AbstractContextManager[Any]:
    return patch.object(Answering, "_cancel", lambda *_: None)


def _a_stop_is_not_carried_out_again() -> AbstractContextManager[Any]:
    """A refused heartbeat is taken for one that nobody could send."""
    return patch.object(Answering, "_abandon", lambda *_: None)


def _nobody_looks() -> AbstractContextManager[Any]:
    return patch.object(Answering, "run", lambda *_, **__: ())


MUTANTS: tuple[Mutant, ...] = (
    Mutant("nobody looks at who waits", _nobody_looks, undisturbed(WAITS, HEARD), CONVERGENT),
    Mutant(
        "a callback is forgotten before it is sent",
        _forgotten_before_it_is_sent,
        crash(WAITS, TOLD, kind=BEFORE),
        CONVERGENT,
    ),
    Mutant("an answer is sent once", _sent_once, crash(WAITS, SILENT, kind=THROTTLED), CONVERGENT),
    Mutant(
        "an eviction is told as an end", _an_eviction_is_an_end, undisturbed(WAITS, HEARD), ANSWERED
    ),
    Mutant(
        "whoever is replaced is dropped",
        _attaches(lambda stored: stored[:1]),
        undisturbed(WAITS, HEARD),
        CONVERGENT,
    ),
    Mutant("the first token stays", _attaches(lambda _: ()), undisturbed(WAITS, HEARD), CONVERGENT),
    Mutant(
        "a late token is not kept", _attaches(lambda _: ()), undisturbed(LATE, HEARD), CONVERGENT
    ),
    Mutant(
        "an abandoned job is forgotten before its cancel",
        _forgotten_before_the_cancel,
        crash(STOPPED, TOLD, kind=BEFORE),
        CONVERGENT,
    ),
    Mutant("an abandoned job goes on", _nothing_is_cancelled, undisturbed(STOPPED, HEARD)),
    Mutant(
        "a refused heartbeat means nothing",
        _a_stop_is_not_carried_out_again,
        undisturbed(STOPPED, HEARD),
    ),
    Mutant(
        "a newer token is forgotten with the old one",
        without_condition(expressions, "has_token"),
        race("a_newer_token_beside_the_answer_to_the_old_one"),
        CONVERGENT,
    ),
    Mutant(
        "of two newer tokens one overwrites the other",
        without_condition(expressions, "has_token"),
        race("two_newer_tokens"),
        CONVERGENT,
    ),
)
