"""The wait for a job in Airflow's triggerer, where thousands of tasks wait in one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from slotq.airflow.hooks import SlotqHook
from slotq.configuration.bounds import seconds
from slotq.errors import CannotReach, NoSuchJob, SlotQError, TooLate, Unavailable
from slotq.jobs.follow import MOST_AHEAD, PATIENCE, ended, news, pause_after

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import JobView

SHORTEST_PAUSE = 1.0
"""Seconds between two looks at a job, at least. A job that waits behind many is looked at more
seldom."""


class SlotqJobTrigger(BaseTrigger):
    """Fires once, when the job has ended: `{"job": NAME}`, or with `error` where the queue refuses
    to say."""

    def __init__(
        self,
        *,
        job_name: str,
        poll_interval: float = 30.0,
        aws_conn_id: str | None = "aws_default",
        region_name: str | None = None,
        endpoint: str | None = None,
        cancels: bool = False,
        awaits_submission: bool = False,
    ) -> None:
        """`poll_interval`: seconds between two looks. `cancels`: cancel the job if a user ends the
        task (Airflow tells triggers from 3.3 on). `awaits_submission`: a job that is not in the
        queue yet is waited for, too. Raises InvalidRequest for an interval that is too short."""
        super().__init__()
        self.job_name = job_name
        self.poll_interval = seconds("poll_interval", poll_interval, least=SHORTEST_PAUSE)
        self.aws_conn_id, self.region_name, self.endpoint = aws_conn_id, region_name, endpoint
        self.cancels, self.awaits_submission = cancels, awaits_submission
        self._hook: SlotqHook | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {
            "job_name": self.job_name,
            "poll_interval": self.poll_interval,
            "aws_conn_id": self.aws_conn_id,
            "region_name": self.region_name,
            "endpoint": self.endpoint,
            "cancels": self.cancels,
            "awaits_submission": self.awaits_submission,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            await self._ended()
        except SlotQError as error:
            yield TriggerEvent({"job": self.job_name, "error": str(error)})
            return
        yield TriggerEvent({"job": self.job_name})

    async def on_kill(self) -> None:
        """Cancel the job: a user has ended the task, or cleared it."""
        if self.cancels:
            with suppress(NoSuchJob, TooLate):
                await _in_thread(self._cancel)
            self.log.info("%s: cancelled, because its task was ended", self.job_name)

    async def _ended(self) -> None:
        """Return when the job has ended. Raises what the queue refuses; CannotReach and Unavailable
        only after PATIENCE."""
        before, silent_since = None, None
        while True:
            pause = self.poll_interval
            try:
                job = await _in_thread(self._look)
            except (CannotReach, Unavailable) as error:
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since >= PATIENCE:
                    raise
                self.log.warning("the queue does not answer (the job goes on): %s", error)
            except NoSuchJob:
                if not self.awaits_submission:
                    raise
            else:
                silent_since = None
                if ended(job):
                    return
                if line := news(before, job):
                    self.log.info("%s: %s", job.name, line)
                before = job
                pause = pause_after(min(job.place or 0, MOST_AHEAD), pause)
            await asyncio.sleep(pause)

    def _look(self) -> JobView:
        """One call to the queue, in a thread. The first one makes the client."""
        return self._queue_hook().queue.jobs.view(self.job_name)

    def _cancel(self) -> None:
        self._queue_hook().queue.jobs.cancel(self.job_name)

    def _queue_hook(self) -> SlotqHook:
        if self._hook is None:
            self._hook = SlotqHook(
                self.aws_conn_id, region_name=self.region_name, endpoint=self.endpoint
            )
        return self._hook


_in_thread = sync_to_async(lambda call: call(), thread_sensitive=False)
"""Calls a function in a thread of its own, from where it may ask Airflow for connections."""
