"""The port `Scripts` on S3: reads and writes what lies below the jobs' checkpoints (the formats:
`report_name` and `marker_name` of slotq_training.py).

The bucket, its key and its objects belong to the users: after an error there, the queue only knows
less. Each call is short, and a batch ends after `LONGEST_BATCH`.

A report is untrusted input. A value that is missing, of a wrong type, not finite or far too large
is dropped; a file in no report's format is ignored. Texts lose unprintable characters, so that no
terminal obeys them. Nothing raises.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slotq_core.model.attempts import Attempt
from slotq_core.model.reports import (
    LONGEST_TEXT,
    MOST_METRICS,
    MOST_STEPS,
    Metric,
    Report,
    Saved,
    SuspendSeen,
)
from slotq_core.ports.surroundings import Clock, InParallel, one_by_one
from slotq_core.timestamps import from_datetime

VERSION = 1
"""Newer scripts may add keys to this version."""

LARGEST = 65_536
"""The most bytes of a report."""

_LONGEST_SAVE = 86_400
"""Seconds."""


def report_in(content: bytes, attempt: Attempt, *, latest: int) -> Report | None:
    """Return the report; None if it is not one of this attempt. `latest` (ms): the latest possible
    time of its writing. Later times in the report count as this one; times before the attempt count
    as the attempt's beginning."""
    document = _object(content)
    if document.get("version") != VERSION or document.get("training_job") != attempt.training_job:
        return None

    def moment(value: object) -> int | None:
        number = _number(value)
        if number is None:
            return None
        return int(max(attempt.admitted_at, min(number, latest)))

    step, at = _steps(document.get("step")), moment(document.get("reported_at"))
    if step is None or at is None:
        step = at = None
    first = _part(document, "first")
    began_step, began_at = _steps(first.get("step")), moment(first.get("at"))
    saved = _part(document, "checkpoint")
    saved_at = moment(saved.get("at"))
    suspend = _part(document, "suspend")
    return Report(
        step=step,
        of=None if step is None else _steps(document.get("of")),
        at=at,
        began_step=None if began_at is None else began_step,
        began_at=None if began_step is None else began_at,
        saved=None
        if saved_at is None
        else Saved(step=_steps(saved.get("step")), at=saved_at, took=_save(saved.get("seconds"))),
        suspend=SuspendSeen(
            marked=suspend.get("via") == "marker",
            acknowledged_at=moment(suspend.get("acknowledged_at")),
            released_at=moment(suspend.get("released_at")),
        )
        if suspend
        else None,
        metrics=_metrics(_part(document, "metrics")),
    )


def _object(content: bytes) -> Mapping[str, Any]:
    if len(content) > LARGEST:
        return {}
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int | float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def _steps(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number <= MOST_STEPS else None


def _save(value: object) -> int | None:
    number = _number(value)
    return round(1000 * number) if number is not None and 0 <= number <= _LONGEST_SAVE else None


def _metrics(found: Mapping[str, Any]) -> dict[str, Metric]:
    """The first metrics that can be shown."""
    kept: dict[str, Metric] = {}
    for name, value in found.items():
        metric = _metric(value)
        if len(kept) == MOST_METRICS:
            break
        if metric is not None and (shown := _printable(name)):
            kept[shown] = metric
    return kept


def _metric(value: object) -> Metric | None:
    if isinstance(value, str):
        return _printable(value) or None
    number = _number(value)
    return number if number is None or abs(number) <= MOST_STEPS else _rounded(number)


def _rounded(number: float) -> float | None:
    """A large number to six digits; None if it is larger than any float."""
    try:
        return float(f"{float(number):.6g}")
    except OverflowError:
        return None


def _printable(text: str) -> str:
    """The printable ones of the first characters of a text."""
    return "".join(character for character in text[:LONGEST_TEXT] if character.isprintable())


MARKER_VERSION = 1

LONGEST_BATCH = 3_000
"""Time (ms) after which a batch begins no read: somebody may wait for the answer."""

_THERE_IS_NONE = frozenset({"NoSuchKey", "404", "AccessDenied", "403"})
"""What S3 answers for an object that does not exist: to a caller who may not list the bucket, as
the queue may not, that access is denied."""

_SECOND = 999
"""S3 reports the time of a write in whole seconds (ms)."""


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
    """The location of this attempt's file of that name, as arguments of a call; None: the attempt
    has no location in S3."""
    scheme, _, rest = attempt.checkpoints.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme != "s3" or not bucket:
        return None
    folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    return {"Bucket": bucket, "Key": f"{folder}_slotq/{attempt.training_job}/{name}"}
