"""Sends a training job's log lines to the logs service: one stream for each process."""

from __future__ import annotations

import threading
import time
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.names import LOG_GROUP

_BATCH = 500
_LONGEST_LINE = 200_000


class LogStream:
    """The stream `<job>/algo-1-<milliseconds>`. Keeps lines until `flush`."""

    def __init__(self, logs: Any, training_job: str, host: str) -> None:
        self._logs = logs
        self._name = f"{training_job}/{host}-{_now()}"
        self._lines: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._flushing = threading.Lock()

    def open(self) -> None:
        for make, more in (
            (self._logs.create_log_group, {}),
            (self._logs.create_log_stream, {"logStreamName": self._name}),
        ):
            try:
                make(logGroupName=LOG_GROUP, **more)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
                    raise

    def line(self, text: str) -> None:
        # The service refuses an empty message.
        event = {"timestamp": _now(), "message": text[:_LONGEST_LINE] or " "}
        with self._lock:
            self._lines.append(event)

    def flush(self) -> None:
        """Send the lines. A line that the service refuses is lost; the job continues."""
        with self._flushing:
            with self._lock:
                lines, self._lines = self._lines, []
            for start in range(0, len(lines), _BATCH):
                try:
                    self._logs.put_log_events(
                        logGroupName=LOG_GROUP,
                        logStreamName=self._name,
                        logEvents=lines[start : start + _BATCH],
                    )
                except (BotoCoreError, ClientError) as error:
                    print(f"log lines of {self._name} are lost: {error}", flush=True)


def _now() -> int:
    return time.time_ns() // 1_000_000
