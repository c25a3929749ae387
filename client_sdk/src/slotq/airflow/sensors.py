"""Waits for a job of the queue, whoever has submitted it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)

from slotq.airflow.hooks import SlotqHook
from slotq.airflow.operators import returned
from slotq.airflow.triggers import SlotqJobTrigger
from slotq.errors import NoSuchJob
from slotq.jobs.follow import ended

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from slotq_core.wire.views.jobs import JobView


class SlotqJobSensor(BaseSensorOperator):
    """Waits until a job has completed, and returns its outcome (`task_job.outcome`). Fails with the
    job's failure reason if the job ends otherwise. Ending the task leaves the job as it is."""

    template_fields: Sequence[str] = ("job_name", "aws_conn_id", "region_name", "endpoint")

    def __init__(
        self,
        *,
        job_name: str,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        aws_conn_id: str | None = "aws_default",
        region_name: str | None = None,
        endpoint: str | None = None,
        **kwargs: Any,
    ) -> None:
        """`job_name`: a job that is in the queue, or will be. `deferrable`: wait in the triggerer.
        `poke_interval`: seconds between two looks. The rest is as for `SlotqHook`."""
        super().__init__(**kwargs)
        self.job_name, self.deferrable = job_name, deferrable
        self.aws_conn_id, self.region_name, self.endpoint = aws_conn_id, region_name, endpoint

    @cached_property
    def hook(self) -> SlotqHook:
        return SlotqHook(self.aws_conn_id, region_name=self.region_name, endpoint=self.endpoint)

    def execute(self, context: Context) -> Any:
        if self.deferrable and self._ended() is None:
            self.defer(
                timeout=timedelta(seconds=self.timeout),
                trigger=SlotqJobTrigger(
                    job_name=self.job_name,
                    poll_interval=self.poke_interval,
                    aws_conn_id=self.aws_conn_id,
                    region_name=self.region_name,
                    endpoint=self.endpoint,
                    awaits_submission=True,
                ),
                method_name="execute_complete",
            )
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        job = self._ended()
        return PokeReturnValue(is_done=job is not None, xcom_value=job and returned(job))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on after the trigger's event."""
        if "error" in event:
            raise AirflowException(event["error"])
        return returned(self.hook.queue.jobs.view(self.job_name))

    def _ended(self) -> JobView | None:
        """The job if it has ended."""
        try:
            job = self.hook.queue.jobs.view(self.job_name)
        except NoSuchJob:
            return None
        return job if ended(job) else None
