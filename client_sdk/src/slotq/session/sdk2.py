"""QueueTrainingJobSession for SageMaker SDK v2: `estimator.fit()` unchanged, the queue in between.

    session = QueueTrainingJobSession(priority=10)
    PyTorch(..., sagemaker_session=session).fit()

`fit(wait=False)` returns when the queue has taken the job. `fit()` shows the place in the line and
why, then the logs, across evictions, and returns when the job has completed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Unpack

import boto3
from sagemaker.exceptions import UnexpectedStatusException
from sagemaker.session import Session

from slotq.client import QueueClient
from slotq.configuration.bounds import SHORTEST_POLL, seconds
from slotq.configuration.keywords import takes
from slotq.groups.gathering import Gang, check_submitted, gang
from slotq.jobs import progress
from slotq.jobs.follow import ended_by_time_box, follow, left
from slotq.jobs.foreign_names import QUICK
from slotq.jobs.job_logs import LogTail, failure_log
from slotq.jobs.notices import logged
from slotq.jobs.submission import Awaited
from slotq.session.hooks import untouched
from slotq.session.install import Installation, QueueSettings, SessionSettings, connect, parted
from slotq.session.training_calls import Interrupted, TrainingCalls
from slotq.sweeps.of_estimators import Sweeping
from slotq_core.model.capacity.work import WorkKind, bare, marked, work_of
from slotq_core.model.jobs import JobState
from slotq_core.wire.views.jobs import JobView

_log = logging.getLogger("sagemaker")
"""The SDK's own log: its users look there for this warning."""

LAST_LOGS = 2.0
"""Seconds after a job's end for its last log lines to arrive."""


class QueueTrainingJobSession(Session, Sweeping):  # type: ignore[misc]
    """A SageMaker session whose training jobs go through the queue. All else is the parent's.

    The settings of jobs become tags of each job; a tag that an estimator carries itself wins. Other
    arguments are those of `sagemaker.session.Session`. `session.after(...)` is `QueueClient.after`
    for the session's training jobs.
    """

    queue: QueueClient
    _training: TrainingCalls

    @takes(QueueSettings, open_ended=True)
    def __init__(
        self,
        boto_session: Any = None,
        *args: Any,
        poll: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        **settings: Unpack[SessionSettings],
    ) -> None:
        """`poll`: seconds between two looks at the queue while waiting; without `say` the lines are
        printed. Raises at once, before anything is uploaded: NotConfigured when no endpoint is set,
        InvalidRequest for a setting out of its range.
        """
        poll = seconds("poll", poll, least=SHORTEST_POLL)
        own, parents = parted(settings)
        say = own.get("say")
        shown = progress.here() if say is None else progress.Plain(logged(say))
        self._say, self._shown = shown.say, shown
        self.queue, self._training = connect(
            boto_session, own, say=self._say, clock=clock, sleep=sleep
        )
        self._poll, self._clock, self._sleep = poll, clock, sleep
        super().__init__(boto_session, *args, **parents)

    def after(
        self, *awaited: Awaited, after_any: str | Iterable[Awaited] = ()
    ) -> AbstractContextManager[None]:
        """A context whose training jobs come after these jobs and groups (`QueueClient.after`):

        with session.after("prepare", "group:grid"):
            estimator.fit(inputs)
        """
        return self.queue.after(*awaited, after_any=after_any)

    def _initialize(self, boto_session: Any, *args: Any, **kwargs: Any) -> None:
        """The parent's, with a copy of the boto session whose clients know the queue."""
        aws = boto_session or boto3.DEFAULT_SESSION or boto3.Session()
        hooks = Installation(aws, self.queue, self._training)
        super()._initialize(hooks.copy_of(aws), *args, **kwargs)
        hooks.on(self.sagemaker_client.meta.events)  # The caller may have passed the client in.

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

    def _intercept_create_request(
        self, request: dict[str, Any], create: Any, func_name: str | None = None
    ) -> Any:
        """Submit a training job to the queue; hand everything else to the parent."""
        if func_name != self.train.__name__:
            return super()._intercept_create_request(request, create, func_name)
        self._training.submit(request)
        return None

    def wait_for_job(self, job: str, poll: float | None = None) -> Any:
        """Wait until the job has ended, across evictions; returns DescribeTrainingJob's answer.

        Raises UnexpectedStatusException unless it completed. For a job that reached its maximum
        runtime it warns, as the SDK does.
        """
        check_submitted(job)
        if self._training.known(job) is None:
            return super().wait_for_job(job, 5 if poll is None else poll)
        self._follow(job, logs=False)
        return self.describe_training_job(job)

    def logs_for_job(
        self,
        job_name: str,
        wait: bool = False,  # noqa: FBT001, FBT002 - the parent's signature
        poll: float = 10,
        log_type: str = "All",
        timeout: float | None = None,
    ) -> None:
        """Show the job's logs; with `wait` follow it to its end, as `wait_for_job` does."""
        check_submitted(job_name)
        job = self._training.known(job_name)
        if job is None:
            super().logs_for_job(job_name, wait, poll, log_type, timeout)
        elif wait:
            self._follow(job_name, logs=log_type in {"All", "Training"})
        else:
            _print(self._tail(), job)

    def wait_for_processing_job(self, job: str, poll: int = 5) -> Any:
        """The same of a processing job."""
        name = marked(job, WorkKind.PROCESSING)
        if self._training.known(name) is None:
            return super().wait_for_processing_job(job, poll)
        self._follow(name, logs=False)
        return self.describe_processing_job(job)

    def logs_for_processing_job(
        self,
        job_name: str,
        wait: bool = False,  # noqa: FBT001, FBT002 - the parent's signature
        poll: float = 10,
    ) -> None:
        """Show a processing job's logs; with `wait` follow it to its end."""
        job = self._training.known(marked(job_name, WorkKind.PROCESSING))
        if job is None:
            super().logs_for_processing_job(job_name, wait, poll)
        elif wait:
            self._follow(job.name, logs=True)
        else:
            _print(self._tail(), job)

    def _follow(self, name: str, *, logs: bool) -> None:
        tail = self._tail()

        def show(job: JobView) -> None:
            self._shown.seen(job)
            if logs:
                _print(tail, job)

        try:
            job = follow(
                lambda: self.queue.jobs.view(name),
                say=self._say,
                clock=self._clock,
                sleep=self._sleep,
                poll=self._poll,
                on_view=show,
                waiting=self._shown.waiting,
                running=self._shown.running,
                warned=self._training.warned,
                log_of=lambda job: () if logs else self._failure_log(job),
            )
        except KeyboardInterrupt:
            stop = {WorkKind.TRAINING: "estimator.latest_training_job.stop()"}
            self._say(left(name, stop.get(work_of(name), "processor.latest_job.stop()")))
            raise Interrupted from None
        if logs and job.attempts:
            self._sleep(min(LAST_LOGS, self._poll))
            _print(tail, job)
        _check(job)

    def _tail(self) -> LogTail:
        return LogTail(self.boto_session.client("logs"), say=self._say)

    def _failure_log(self, job: JobView) -> list[str]:
        with untouched():
            return failure_log(lambda: self.boto_session.client("logs", config=QUICK), job)


def _print(tail: LogTail, job: JobView) -> None:
    """Print the new lines of the job's training jobs, each with its own log streams."""
    with untouched():
        tail.show(job)


def _check(job: JobView) -> None:
    """Raise as the SDK does for a job that did not complete. A time box only warns."""
    if job.state == JobState.COMPLETED:
        return
    if ended_by_time_box(job):
        _log.warning("%s ended with status 'Stopped': %s.", _in_words(job), job.message)
        return
    raise UnexpectedStatusException(
        message=f"Error for {_in_words(job)}: {job.state}. Reason: "
        f"{job.message or '(No reason provided)'}",
        allowed_statuses=["Completed"],
        actual_status={"failed": "Failed"}.get(job.state, "Stopped"),
    )


def _in_words(job: JobView) -> str:
    """`Training job a`, as the SDK names it."""
    return f"{work_of(job.name).capitalize()} job {bare(job.name)}"
