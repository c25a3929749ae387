"""A report's bytes as a Report (the format: `report_name` of slotq_training.py).

A report is data of a stranger. What is missing, of a wrong type, not finite or far too large counts
as not told; what cannot be a report at all is none. Texts lose what does not print, so that no
terminal obeys them. Nothing raises.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from slotq_core.model.attempts import Attempt
from slotq_core.model.reports.report import (
    LONGEST_TEXT,
    MOST_METRICS,
    MOST_STEPS,
    Metric,
    Report,
    Saved,
    SuspendSeen,
)

VERSION = 1
"""Newer scripts may add keys to this version."""

LARGEST = 65_536
"""The most bytes of a report."""

_LONGEST_SAVE = 86_400
"""Seconds."""


def report_in(content: bytes, attempt: Attempt, *, latest: int) -> Report | None:
    """Return the report; None if it is none of this attempt. `latest` (ms): when it was written, at
    the latest. Later moments in the report count as this one, so that no script is ahead of its
    time; moments before the attempt count as the attempt's beginning."""
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
    """What prints of the first characters of a text."""
    return "".join(each for each in text[:LONGEST_TEXT] if each.isprintable())
