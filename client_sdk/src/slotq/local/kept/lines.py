"""The log lines of training jobs, by stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slotq.local.container.job_output import batches
from slotq_core.names import LOG_GROUP

Line = tuple[int, str]
"""The time (milliseconds since 1970) and the text."""


def saved(logs: Any) -> dict[str, list[Line]]:
    """The log lines by stream. Empty before any job has written one."""
    try:
        pages = logs.get_paginator("describe_log_streams").paginate(logGroupName=LOG_GROUP)
        names = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
    except logs.exceptions.ResourceNotFoundException:
        return {}
    return {name: list(_lines(logs, name)) for name in names}


def _lines(logs: Any, stream: str) -> Iterator[Line]:
    asked = {"logGroupName": LOG_GROUP, "logStreamName": stream, "startFromHead": True}
    token: str | None = None
    while True:
        page = logs.get_log_events(**asked, **({"nextToken": token} if token else {}))
        yield from ((event["timestamp"], event["message"]) for event in page["events"])
        if token == page["nextForwardToken"]:
            return
        token = page["nextForwardToken"]


def restore(logs: Any, streams: Mapping[str, list[Line]]) -> None:
    if streams:
        logs.create_log_group(logGroupName=LOG_GROUP)
    for name, lines in streams.items():
        logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=name)
        for batch in batches([{"timestamp": at, "message": text} for at, text in lines]):
            logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=name, logEvents=batch)
