"""Clients that SDK v3 keeps for the whole process, and whose job a call on one of them is about.

The SDK has one SageMaker client for all calls that name no session (before sagemaker-core 2.21 for
all calls), and one client for all logs. So such a client belongs to no session of ours: a job is
found by its name, at the session that knew it last, else at those that live, the latest first. A
job is created for the session that the SDK was given; where it was given none, for the latest that
lives. A session that is gone creates nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from slotq.session.hooks import Answer, Context, Params, TakenCall, take_over
from slotq.session.install import Installation
from slotq.session.training_calls import KIND, last_to_answer

CREATE = "sagemaker.CreateTrainingJob"
KEPT = 32
"""So many sessions' jobs are found when the sessions are gone; the SDK keeps as many clients."""
_INSTALLATION = "slotq_installation"
"""The attribute of a boto3 session that is ours."""
_TAKEN = "slotq_taken_by"

_given: ContextVar[Any] = ContextVar("slotq_given_session", default=None)


def mark(boto_session: Any, installation: Installation) -> None:
    """What is created in this boto3 session is that installation's."""
    setattr(boto_session, _INSTALLATION, installation)


@contextmanager
def given(boto_session: Any) -> Iterator[None]:
    """The SDK was given this boto3 session for the calls inside; None: none."""
    token = _given.set(boto_session)
    try:
        yield
    finally:
        _given.reset(token)


class SharedClients:
    """The sessions of this process, and the calls on clients that belong to none of them."""

    def __init__(self) -> None:
        self._living: WeakKeyDictionary[object, Installation] = WeakKeyDictionary()
        self._known: WeakSet[Installation] = WeakSet()
        self._kept: deque[Installation] = deque(maxlen=KEPT)

    def add(self, session: object, installation: Installation) -> None:
        """From now on calls may be about this session's jobs, while it lives."""
        self._living[session] = installation
        self._known.add(installation)
        self._kept.append(installation)

    def on(self, events: Any, installation: Installation) -> None:
        """Take over the calls of a client; `installation` says which operations there are."""
        take_over(events, tuple(map(self._shared, installation.calls)), owner="shared")

    def _shared(self, operation: str) -> TakenCall:
        choose = self._creator if operation == CREATE else self._readers

        def before(params: Params, context: Context) -> Callable[[], Answer] | None:
            for installation in choose(params):
                call, seen = installation.calls[operation], len(context)
                answer = call.before(params, context)
                if answer is not None or len(context) > seen:
                    context[_TAKEN] = call
                    return answer
            return None

        def after(parsed: Answer, context: Context) -> None:
            call: TakenCall | None = context.get(_TAKEN)
            if call is not None and call.after is not None:
                call.after(parsed, context)

        return TakenCall(operation=operation, before=before, after=after)

    def _creator(self, _: Params) -> list[Installation]:
        boto_session = _given.get()
        if boto_session is None:
            return self._latest_first()[:1]
        own = getattr(boto_session, _INSTALLATION, None)
        return [own] if own is not None else []

    def _readers(self, params: Params) -> list[Installation]:
        knew = last_to_answer.get(_job_of(params))
        first = [each for each in self._known if each.training is knew]
        return [*first, *(each for each in self._latest_first() if each not in first)]

    def _latest_first(self) -> list[Installation]:
        return [*self._living.values()][::-1]


def _job_of(params: Params) -> str:
    """The name of the job that a call is about; empty where it is about none."""
    arn = str(params.get("ResourceArn") or "")
    stream = params.get("logStreamName") or params.get("logStreamNamePrefix")
    return str(
        params.get("TrainingJobName") or arn.partition(KIND)[2] or str(stream or "").split("/")[0]
    )


shared = SharedClients()
