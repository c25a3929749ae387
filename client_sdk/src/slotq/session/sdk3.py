"""QueueTrainingJobSession for SageMaker SDK v3: `ModelTrainer.train()` unchanged.

    session = QueueTrainingJobSession(priority=10)
    ModelTrainer(..., sagemaker_session=session).train()

`train(wait=False)` returns when the queue has accepted the job. `train()` shows the place in the
line and the reason for waiting, then the logs across evictions, and returns when the job has ended.
The SDK logs these lines, at INFO. Where no handler shows them on this program's output, they are
printed, as SDK v2 prints them.

This SDK creates its own clients from the boto session. So each QueueTrainingJobSession holds a copy
of the boto session, and only clients of the copy have the hooks; the boto session passed in stays
unchanged. Clients that the SDK keeps for the whole process belong to no session
(`shared_clients`). The SDK itself does the waiting; Ctrl-C prints how to go on with the job.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from typing import Any, Unpack

from botocore.exceptions import NoRegionError
from sagemaker.core import resources
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.resources import TrainingJob
from sagemaker.core.utils.logs import CloudWatchLogsClient
from sagemaker.core.utils.utils import SageMakerClient

from slotq.client import QueueClient
from slotq.configuration.keywords import takes
from slotq.groups.gathering import Gang, check_submitted, gang
from slotq.jobs.notices import logged, print_line, print_only, shows
from slotq.jobs.submission import Awaited
from slotq.session.answers.log_calls import listener
from slotq.session.install import Installation, QueueSettings, SessionSettings, connect, parted
from slotq.session.shared_clients import mark, passed_session, shared
from slotq.session.training_calls import Interrupted, TrainingCalls, last_to_answer
from slotq.sweeps.of_estimators import Sweeping
from slotq.transport import aws_session

_OURS = "slotq_wrapped"
_SDK_LOGS = [
    logging.getLogger(name) for name in ("sagemaker", "sagemaker.core", resources.__name__)
]
"""The log that `TrainingJob.wait` writes to, and those above it that are the SDK's."""


class QueueTrainingJobSession(Session, Sweeping):  # type: ignore[misc]
    """A SageMaker session whose training jobs go through the queue. The rest is inherited.

    The settings of jobs become tags of each job; a tag set on a trainer itself wins. Other
    arguments are those of the SDK's `Session`.

    `boto_session`: None creates a new one. The attribute `boto_session` is a copy with the same
    credentials, whose SageMaker clients send their training jobs through the queue.
    """

    queue: QueueClient
    _training: TrainingCalls

    @takes(QueueSettings, open_ended=True)
    def __init__(
        self,
        boto_session: Any = None,
        *args: Any,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        **settings: Unpack[SessionSettings],
    ) -> None:
        """Without `say` the lines are printed. Raises NotConfigured if no endpoint is set, before
        anything is uploaded."""
        own, parents = parted(settings)
        say = own.get("say")
        self.queue, self._training = connect(
            boto_session,
            own,
            say=print_line if say is None else logged(say),
            clock=clock,
            sleep=sleep,
        )
        aws = boto_session or aws_session.made()
        self._training.logged_elsewhere = say
        hooks = Installation(aws, self.queue, self._training)
        super().__init__(_hooked(aws, hooks), *args, **parents)
        hooks.on(self.sagemaker_client.meta.events)  # The caller may have passed the client in.
        shared.add(self, hooks)
        for client in _of_nobody(aws):
            shared.on(client.meta.events, hooks)
        _wrap_training_job()

    def gang(
        self,
        name: str,
        *,
        min_members: int | None = None,
        mandatory: Iterable[str] = (),
        same_pool: bool = False,
        elastic: bool = False,
    ) -> AbstractContextManager[Gang]:
        """Submit the training jobs of a block together when it ends (`slotq.gang`)."""
        return gang(
            name,
            min_members=min_members,
            mandatory=mandatory,
            same_pool=same_pool,
            elastic=elastic,
        )

    def after(
        self, *awaited: Awaited, after_any: str | Iterable[Awaited] = ()
    ) -> AbstractContextManager[None]:
        """A context whose training jobs come after these jobs and groups (`QueueClient.after`):

        with session.after("prepare", "group:grid"):
            trainer.train()
        """
        return self.queue.after(*awaited, after_any=after_any)


def _hooked(boto_session: Any, hooks: Installation) -> Any:
    """A copy of the boto session whose clients for SageMaker, logs and STS are hooked."""
    own = hooks.copy_of(boto_session)
    mark(own, hooks)
    return own


def _of_nobody(boto_session: Any) -> Iterator[Any]:
    """The SDK's process-wide clients: for calls that name no session, and for logs."""
    if SageMakerClient not in getattr(type(SageMakerClient), "_instances", ()):
        # The SDK keeps the first client of the process: it must not belong to a session.
        SageMakerClient(session=copy.copy(boto_session))
    yield SageMakerClient().sagemaker_client
    with suppress(NoRegionError):  # Only the environment gives the SDK its region for logs.
        yield CloudWatchLogsClient().client


@contextmanager
def _lines_to(queue: TrainingCalls | None) -> Iterator[None]:
    """Say the lines of a wait if the SDK's own log does not show them, unless the user has raised
    its level. A session's own `say` always receives them."""
    quiet = any(log.level > logging.INFO for log in _SDK_LOGS)
    if queue is None:
        yield
        return
    hears, log = queue.logged_elsewhere, _SDK_LOGS[-1]
    if not quiet and not shows(log):
        is_logged = log.isEnabledFor(logging.INFO) and log.hasHandlers()
        hears = (hears or print_only) if is_logged else queue.say
    token = listener.set(hears)
    try:
        yield
    finally:
        listener.reset(token)


def _wrap_training_job() -> None:
    """Wrap TrainingJob.create to record its session, and TrainingJob.wait to print what the SDK
    only logs and to handle Ctrl-C.

    The process-wide clients need the session. ModelTrainer.train calls TrainingJob.wait; on Ctrl-C
    the wrapper prints how to go on with the job. Does nothing if already done.
    """
    create, wait = TrainingJob.create, TrainingJob.wait
    if hasattr(wait, _OURS):
        return

    @wraps(create)
    def create_for(_: type[TrainingJob], *args: Any, **kwargs: Any) -> Any:
        with passed_session(kwargs.get("session")):
            return create(*args, **kwargs)

    @wraps(wait)
    def wait_and_report(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_submitted(self.training_job_name)
        try:
            with _lines_to(last_to_answer.get(self.training_job_name)):
                return wait(self, *args, **kwargs)
        except KeyboardInterrupt:
            if queue := last_to_answer.get(self.training_job_name):
                queue.say_left(self.training_job_name)
                raise Interrupted from None
            raise

    setattr(wait_and_report, _OURS, True)
    TrainingJob.create = classmethod(create_for)
    TrainingJob.wait = wait_and_report
