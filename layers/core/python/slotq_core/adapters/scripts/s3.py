"""Reads what training scripts write below their checkpoints in S3, and writes what asks them to
release their slots (the formats: `report_name` and `marker_name` of slotq_training.py).

The bucket, its key and what lies in it are the users': whatever goes wrong there, the queue only
knows less. Each call is short, and a batch ends after `LONGEST_BATCH`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slotq_core.adapters.scripts.report_document import LARGEST, report_in
from slotq_core.model.attempts import Attempt
from slotq_core.model.reports.report import Report
from slotq_core.ports.surroundings import Clock, InParallel, one_by_one
from slotq_core.timestamps import from_datetime

MARKER_VERSION = 1

LONGEST_BATCH = 3_000
"""No read of a batch begins later (ms): somebody may wait for the answer."""

_THERE_IS_NONE = frozenset({"NoSuchKey", "404", "AccessDenied", "403"})
"""What S3 answers for an object that does not exist: to a caller who may not list the bucket, as
the queue may not, that access is denied."""

_SECOND = 999
"""S3 tells the second of a write (ms)."""


class S3Scripts:
    """The training scripts, through S3 (`ports.Scripts`). `make_client` is called with the first
    read: most cold starts never need it. Its calls should end within seconds. `at_once` reads
    several reports."""

    def __init__(
        self, *, clock: Clock, make_client: Callable[[], Any], at_once: InParallel = one_by_one
    ) -> None:
        self._clock = clock
        self._make_client = make_client
        self._at_once = at_once
        self._built: Any = None

    def ask(self, attempt: Attempt) -> bool:
        place = _place(attempt, "suspend.json")
        until = attempt.stop.grace_until if attempt.stop else None
        if place is None or until is None:
            return False
        now = self._clock.now()
        marker = {"version": MARKER_VERSION, "asked_at": now, "grace": max(0, until - now) / 1000}
        try:
            self._client.put_object(**place, Body=json.dumps(marker).encode())
        except Exception:  # noqa: BLE001 - as in `report`
            return False
        return True

    def report(self, attempt: Attempt) -> Report | None:
        place = _place(attempt, "report.json")
        if place is None:
            return None
        try:
            found = self._client.get_object(**place, Range=f"bytes=0-{LARGEST}")
            with found["Body"] as body:
                content = body.read(LARGEST + 1)
            written = from_datetime(found["LastModified"]) + _SECOND
        except Exception as error:  # noqa: BLE001 - a user's bucket must stop nothing
            return Report() if _code(error) in _THERE_IS_NONE else None
        return report_in(content, attempt, latest=min(written, self._clock.now()))

    def reports(self, attempts: Sequence[Attempt]) -> Mapping[str, Report]:
        placed = [attempt for attempt in attempts if _place(attempt, "") is not None]
        until = self._clock.now() + LONGEST_BATCH
        if not placed or not self._is_ready():
            return {}

        def read(attempt: Attempt) -> Report | None:
            return self.report(attempt) if self._clock.now() < until else None

        found = self._at_once(read, placed)
        return {
            attempt.training_job: report
            for attempt, report in zip(placed, found, strict=True)
            if report is not None
        }

    def _is_ready(self) -> bool:
        """Make the client, once and before the threads. Return whether there is one."""
        try:
            return self._client is not None
        except Exception:  # noqa: BLE001 - as in `report`
            return False

    @property
    def _client(self) -> Any:
        if self._built is None:
            self._built = self._make_client()
        return self._built


def _code(error: Exception) -> str:
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _place(attempt: Attempt, name: str) -> dict[str, str] | None:
    """Where the file of that name of this attempt lies, as arguments of a call; None: nowhere."""
    scheme, _, rest = attempt.checkpoints.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme != "s3" or not bucket:
        return None
    folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    return {"Bucket": bucket, "Key": f"{folder}_slotq/{attempt.training_job}/{name}"}
