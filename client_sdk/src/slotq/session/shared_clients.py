"""SDK v3's process-wide clients: find the session whose job a call is about.

The SDK has one SageMaker client for all calls that name no session (before sagemaker-core 2.21, for
all calls), and one client for all logs. These clients belong to no QueueTrainingJobSession. A job
is looked up by name: first in the session that last answered for the job, then in the living
sessions, latest first. A new job belongs to the session passed to the SDK, or, without one, to the
latest living session. A session that no longer exists creates no jobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from slotq.session.answers.log_calls import work_in
from slotq.session.answers.other_calls import INSTEAD, PROCESSING, QUEUED
from slotq.session.hooks import Answer, Context, Params, TakenCall, take_over
from slotq.session.install import Installation
from slotq.session.training_calls import last_to_answer, name_in_arn
from slotq_core.model.capacity.work import WorkKind, marked
from slotq_core.wire.training.processing_request import job_name

STARTING = frozenset(f"sagemaker.{operation}" for operation in (QUEUED, PROCESSING, *INSTEAD))
"""The operations of a session that starts something with them; all others are about a job."""
KEPT = 32
"""Number of latest sessions whose jobs are found after the sessions are gone; as many clients as
the SDK keeps."""
_INSTALLATION = "slotq_installation"
"""The attribute of a boto3 session that holds its installation."""
_TAKEN = "slotq_taken_by"

_passed_session: ContextVar[Any] = ContextVar("slotq_given_session", default=None)


def mark(boto_session: Any, installation: Installation) -> None:
    """Record that jobs created with this boto3 session belong to `installation`."""
    setattr(boto_session, _INSTALLATION, installation)


@contextmanager
def passed_session(boto_session: Any) -> Iterator[None]:
    """Record, for the calls inside, the boto3 session that was passed to the SDK, if any."""
    token = _passed_session.set(boto_session)
    try:
        yield
    finally:
        _passed_session.reset(token)


class SharedClients:
    """The sessions of this process, and the calls on clients that belong to none of them."""

    def __init__(self) -> None:
        self._living: WeakKeyDictionary[object, Installation] = WeakKeyDictionary()
        self._known: WeakSet[Installation] = WeakSet()
        self._kept: deque[Installation] = deque(maxlen=KEPT)

    def add(self, session: object, installation: Installation) -> None:
        """Look for jobs in this session too, as long as it lives."""
        self._living[session] = installation
        self._known.add(installation)
        self._kept.append(installation)

    def on(self, events: Any, installation: Installation) -> None:
        """Take over the calls of a client; `installation` lists the operations."""
        take_over(events, tuple(map(self._shared, installation.calls)), owner="shared")

    def _shared(self, operation: str) -> TakenCall:
        choose = self._creator if operation in STARTING else self._readers

        def before(params: Params, context: Context) -> Callable[[], Answer] | None:
            for installation in choose(params):
                call, seen = installation.calls.get(operation), len(context)
                if call is None:
                    continue  # That session leaves processing jobs to SageMaker.
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
        boto_session = _passed_session.get()
        if boto_session is None:
            return self._latest_first()[:1]
        own = getattr(boto_session, _INSTALLATION, None)
        return [own] if own is not None else []

    def _readers(self, params: Params) -> list[Installation]:
        knew = last_to_answer.get(_job_of(params))
        first = [installation for installation in self._known if installation.training is knew]
        return [
            *first,
            *(installation for installation in self._latest_first() if installation not in first),
        ]

    def _latest_first(self) -> list[Installation]:
        return [*self._living.values()][::-1]


def _job_of(params: Params) -> str:
    """The name of the job that a call is about, or an empty string."""
    arn = str(params.get("ResourceArn") or "")
    (stream, *_) = params.get("logStreamNames") or [
        params.get("logStreamName") or params.get("logStreamNamePrefix")
    ]
    group = str(params.get("logGroupName") or params.get("logGroupIdentifier") or "")
    in_logs = marked(str(stream or "").split("/")[0], work_in(group) or WorkKind.TRAINING)
    return job_name(params) or name_in_arn(arn) or in_logs


shared = SharedClients()
