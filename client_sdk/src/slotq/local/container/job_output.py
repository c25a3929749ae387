"""A training job's output: from bytes to log lines, and to the logs service.

Each process has a stream of its own. SageMaker finds the metrics of the request's definitions in
the lines.
"""

from __future__ import annotations

import codecs
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.names import LOG_GROUP

LONGEST_LINE = 256 * 1024 - 26
"""Bytes of one log event. CloudWatch allows 256 KB, and counts 26 bytes for the event itself."""
_BATCH, _CHARACTERS = 500, 1_000_000
LONGEST_OUTPUT, _EVENT = 256 * 1024 * 1024, 400
"""Characters kept of one process's output; what an event counts beside its text. The emulator has
all log lines in memory."""
NOT_KEPT = "slotq local: what this process prints from here on is not kept (more than 256 MB)"

Event = dict[str, Any]


def lines_of(stream: IO[bytes]) -> Iterator[str]:
    """The lines of an output. A line longer than an event continues in the next, so that an output
    without line breaks needs no more memory than one event."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    continues = False
    while raw := stream.readline(LONGEST_LINE):
        cut = len(raw) == LONGEST_LINE and not raw.endswith(b"\n")
        # The decoder keeps a character that the cut has split for the next event.
        text = decode(raw, final=not cut).rstrip("\r\n")
        if text or not continues:
            yield text
        continues = cut
    if rest := decode(b"", final=True):
        yield rest


class LogStream:
    """The stream `<job>/algo-1-<milliseconds>`. Keeps lines until `flush`, or until they fill a
    call."""

    def __init__(self, logs: Any, training_job: str, host: str, *, group: str = LOG_GROUP) -> None:
        self._logs, self._group = logs, group
        self._name = f"{training_job}/{host}-{_now()}"
        self._lines: list[Event] = []
        self._characters = 0
        self._room = LONGEST_OUTPUT
        self._lock = threading.Lock()
        self._flushing = threading.Lock()

    def open(self) -> None:
        for make, more in (
            (self._logs.create_log_group, {}),
            (self._logs.create_log_stream, {"logStreamName": self._name}),
        ):
            try:
                make(logGroupName=self._group, **more)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
                    raise

    def line(self, text: str) -> None:
        if self._room <= 0:
            return
        self._room -= _EVENT + len(text)
        if self._room <= 0:
            text = NOT_KEPT
        # The service refuses an empty message.
        event = {"timestamp": _now(), "message": text or " "}
        with self._lock:
            self._lines.append(event)
            self._characters += len(text)
            full = len(self._lines) >= _BATCH or self._characters >= _CHARACTERS
        if full:
            # The thread that reads the output sends it. A job that writes faster than the service
            # takes waits at its pipe, and its lines do not pile up here.
            self.flush()

    def flush(self) -> None:
        """Send the lines. A line that the service refuses is lost; the job continues."""
        with self._flushing:
            with self._lock:
                lines, self._lines, self._characters = self._lines, [], 0
            for batch in batches(lines):
                try:
                    self._logs.put_log_events(
                        logGroupName=self._group, logStreamName=self._name, logEvents=batch
                    )
                except (BotoCoreError, ClientError) as error:
                    print(f"log lines of {self._name} are lost: {error}", flush=True)


def batches(events: Sequence[Event]) -> Iterator[list[Event]]:
    """The events in calls that the emulator accepts: of up to 500 lines, and of fewer long ones."""
    batch: list[Event] = []
    size = 0
    for event in events:
        size += len(event["message"])
        if batch and (len(batch) == _BATCH or size > _CHARACTERS):
            yield batch
            batch, size = [], len(event["message"])
        batch.append(event)
    if batch:
        yield batch


def _now() -> int:
    return time.time_ns() // 1_000_000


class MetricsInOutput:
    """The last number of each metric. Lines come from several threads; the last one counts."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        algorithm = request.get("AlgorithmSpecification") or {}
        self._patterns = {
            str(metric["Name"]): _compiled(str(metric["Regex"]))
            for metric in algorithm.get("MetricDefinitions") or ()
        }
        self.found: dict[str, float] = {}

    def line(self, text: str) -> None:
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(text) if pattern else ():
                with suppress(ValueError, IndexError, TypeError):
                    if math.isfinite(value := float(match.group(1))):
                        self.found[name] = value


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern; None if it is invalid: SageMaker then finds nothing."""
    with suppress(re.error):
        return re.compile(pattern)
    return None
