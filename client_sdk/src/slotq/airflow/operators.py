"""A training job of the queue as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    BaseOperator,
    conf,
)

from slotq.airflow.hooks import SlotqHook
from slotq.airflow.task_job import (
    Cancelled,
    TaskTry,
    first_try,
    job_of,
    newest_job,
    outcome,
    request_of,
)
from slotq.airflow.triggers import SHORTEST_PAUSE, SlotqJobTrigger
from slotq.configuration.bounds import seconds
from slotq.errors import LimitReached, NoSuchJob, NotCompleted, Refused, TooLate
from slotq.jobs.follow import ended, follow
from slotq.jobs.job_logs import LATE_READS, LogTail
from slotq.jobs.submission import settings_tags, with_tags

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from slotq.client import QueueClient
    from slotq_core.wire.views.jobs import JobView

LATE_LINES = 2.0
"""Seconds between two looks at the log after the job's end: its last lines arrive late."""

_TOO_LONG = frozenset({"Trigger timeout", "Trigger/execution timeout"})
"""How Airflow 3 and Airflow 2 say that a deferred task has waited too long."""


class SlotqTrainingOperator(BaseOperator):
    """Submits a training job to the queue, waits for its end, and returns where its model is.

    An Airflow retry waits for the job of the try before if that job lives (`task_job` has the
    rules). Ending the task cancels the job, and cancelling the job fails the task without a retry.
    """

    template_fields: Sequence[str] = (
        "config",
        "settings",
        "aws_conn_id",
        "region_name",
        "endpoint",
    )
    template_fields_renderers = {"config": "json", "settings": "json"}  # noqa: RUF012 - Airflow's

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        wait_for_completion: bool = True,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        print_log: bool = True,
        poll_interval: float = 30.0,
        cancel_on_kill: bool = True,
        aws_conn_id: str | None = "aws_default",
        region_name: str | None = None,
        endpoint: str | None = None,
        **kwargs: Any,
    ) -> None:
        """`config`: a CreateTrainingJob request. Without a TrainingJobName the job has the name of
        the DAG and the task, with a hash of the run. A RoleArn may be a role's name.

        `settings`: the queue's settings of the job: `priority`, `project`, `pools` … .
        `deferrable`: wait in the triggerer, without a worker. `print_log`: the job's log lines in
        the task's log, each once; with `deferrable` after the job's end. `poll_interval`: seconds
        between two looks. `cancel_on_kill`: cancel the job when the task is ended from outside.
        `aws_conn_id`, `region_name`, `endpoint`: as `SlotqHook` takes them.
        """
        super().__init__(**kwargs)
        self.config, self.settings = config, settings
        self.wait_for_completion, self.deferrable = wait_for_completion, deferrable
        self.print_log, self.cancel_on_kill = print_log, cancel_on_kill
        self.poll_interval = seconds("poll_interval", poll_interval, least=SHORTEST_PAUSE)
        self.aws_conn_id, self.region_name, self.endpoint = aws_conn_id, region_name, endpoint
        self._job = ""

    @cached_property
    def hook(self) -> SlotqHook:
        return SlotqHook(self.aws_conn_id, region_name=self.region_name, endpoint=self.endpoint)

    @property
    def _queue(self) -> QueueClient:
        return self.hook.queue

    def execute(self, context: Context) -> dict[str, Any] | str:
        """The job's outcome (`task_job.outcome`), or its name without `wait_for_completion`."""
        job = self._submitted(context)
        if not self.wait_for_completion:
            return job.name
        if self.deferrable and not ended(job):
            self.defer(
                timeout=self.execution_timeout,
                trigger=SlotqJobTrigger(
                    job_name=job.name,
                    poll_interval=self.poll_interval,
                    aws_conn_id=self.aws_conn_id,
                    region_name=self.region_name,
                    endpoint=self.endpoint,
                    cancels=self.cancel_on_kill,
                ),
                method_name="execute_complete",
            )
        return self._followed(job.name)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on after the trigger's event."""
        self._job = event["job"]
        if "error" in event:
            raise AirflowException(event["error"])
        return self._followed(self._job)

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """As Airflow's. Cancels the job if the wait has taken longer than `execution_timeout`, as
        Airflow does where a task waits in a worker."""
        if next_method == "__fail__" and (next_kwargs or {}).get("error") in _TOO_LONG:
            request, task = self._request(context)
            found = newest_job(self._queue, request["TrainingJobName"], task)
            self._job = found[1].name if found else ""
            self.on_kill()
        return super().resume_execution(next_method, next_kwargs, context)

    def on_kill(self) -> None:
        """Cancel the job."""
        if self._job and self.cancel_on_kill:
            with suppress(NoSuchJob, TooLate):
                self._queue.jobs.cancel(self._job)
                self.log.info("%s: cancelled, because its task was ended", self._job)

    def _request(self, context: Context) -> tuple[dict[str, Any], TaskTry]:
        task = _task_try(context)
        config = dict(self.config)
        if config.get("RoleArn"):
            config["RoleArn"] = self.hook.expand_role(config["RoleArn"])
        return request_of(with_tags(config, settings_tags(**(self.settings or {}))), task), task

    def _submitted(self, context: Context) -> JobView:
        try:
            job = job_of(self._queue, *self._request(context))
        except LimitReached:
            raise  # A retry may find room.
        except Refused as refused:
            raise AirflowFailException(str(refused)) from refused
        self._job = job.name
        return job

    def _followed(self, name: str) -> dict[str, Any]:
        """Wait for the job with what it says in the task's log, and return its outcome."""
        tail = LogTail(self.hook.logs(), say=self.log.info, line=self._line)
        job = follow(
            lambda: self._queue.jobs.view(name),
            say=self.log.info,
            clock=monotonic,
            sleep=sleep,
            poll=self.poll_interval,
            on_view=tail.show if self.print_log else lambda _: None,
        )
        for _ in range(LATE_READS - 1 if self.print_log and job.attempts else 0):
            sleep(min(LATE_LINES, self.poll_interval))
            tail.show(job)
        return returned(job)

    def _line(self, _: str, line: str) -> None:
        self.log.info("%s", line)


def returned(job: JobView) -> dict[str, Any]:
    """The outcome of a job, as a task returns it. Raises AirflowException with the job's failure
    reason; AirflowFailException, after which Airflow does not retry, if someone cancelled it."""
    try:
        return outcome(job)
    except Cancelled as error:
        raise AirflowFailException(str(error)) from error
    except NotCompleted as error:
        raise AirflowException(str(error)) from error


def _task_try(context: Context) -> TaskTry:
    instance = context["ti"]
    retries = instance.task.retries
    return TaskTry(
        dag_id=instance.dag_id,
        task_id=instance.task_id,
        run_id=instance.run_id,
        map_index=instance.map_index,
        number=instance.try_number,
        first=first_try(instance.max_tries, retries),
    )
