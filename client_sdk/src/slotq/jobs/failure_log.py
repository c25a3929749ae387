"""The last log lines of a job that has failed: its message is often only an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.errors import SlotQError
from slotq.jobs.follow import ended_by_time_box
from slotq.jobs.job_logs import host_of
from slotq.jobs.notices import one_line
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import JobState
from slotq_core.names import LOG_GROUP
from slotq_core.wire.views.jobs import JobView

LINES = 10
"""The most lines of one instance."""
_INSTANCES = 4
"""The most instances whose lines are read: one request each."""


def failure_log(logs: Callable[[], Any], job: JobView) -> list[str]:
    """What the last attempt of a failed job has written last, and where the rest is; empty if no
    script of it has failed.

    `logs` returns boto3's client for `logs`. If the logs cannot be read, only the place is given:
    the job's failure matters more.
    """
    last = job.attempts[-1] if job.attempts else None
    failed = job.state == JobState.FAILED and not ended_by_time_box(job)
    if not failed or last is None or last.running_since is None:
        return []
    if last.outcome != AttemptOutcome.FAILED:
        return []
    try:
        lines = [*_last_lines(logs(), last.training_job)]
    except (ClientError, BotoCoreError, SlotQError):
        lines = []
    if not lines:
        return [f"  log: `slotq logs {job.name}`"]
    return [f"  last lines of its log (`slotq logs {job.name}` prints it whole):", *lines]


def _last_lines(client: Any, training_job: str) -> Iterator[str]:
    pages = client.get_paginator("describe_log_streams").paginate(
        logGroupName=LOG_GROUP, logStreamNamePrefix=f"{training_job}/"
    )
    first: dict[str, Any] = next(iter(pages), {})
    streams = [stream["logStreamName"] for stream in first.get("logStreams", [])]
    for stream in streams[:_INSTANCES]:
        label = f"[{host_of(stream)}] " if len(streams) > 1 else ""
        page = client.get_log_events(
            logGroupName=LOG_GROUP, logStreamName=stream, limit=LINES, startFromHead=False
        )
        for event in page["events"][-LINES:]:
            yield f"    {label}{one_line(event['message'])}"
