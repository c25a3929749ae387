"""Reads the training plans that the emulator is to have, from YAML or JSON:

    plans:
      - name: june
        instance_type: ml.p5.48xlarge
        windows: [{from: 2026-06-01T00:00:00Z, to: 2026-06-08T00:00:00Z, instances: 2}]

A moment may also be a number: seconds from when the document is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from itertools import pairwise
from typing import Any

from slotq.local.training.request_check import faults_in
from slotq.local.training.training_plans import TRAINING, TrainingPlan, Window
from slotq_core.timestamps import from_datetime

_KEYS = tuple(field.name for field in fields(TrainingPlan))
_FORCED = frozenset({"", "Pending", "Failed"})
"""The statuses that do not follow from the windows; empty: those that do."""


def read_plans(document: Any, *, now: int) -> list[TrainingPlan]:
    """The plans of a document. Raises ValueError, which names the fault."""
    entries = document.get("plans") if isinstance(document, Mapping) else None
    if not isinstance(entries, list) or set(document) != {"plans"}:
        raise ValueError("training plans are a list at the key `plans`")
    plans = [_plan(entry, now) for entry in entries]
    names = [plan.name for plan in plans]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"there are two training plans named '{twice}'")
    return plans


def _plan(entry: Any, now: int) -> TrainingPlan:
    if not isinstance(entry, Mapping) or not {"name", "instance_type", "windows"} <= set(entry):
        raise ValueError("a training plan has a name, an instance_type and windows")
    name, kind = str(entry["name"]), str(entry["instance_type"])
    where = f"the training plan '{name}'"
    if unknown := sorted(set(entry) - set(_KEYS)):
        raise ValueError(f"{where} has no key '{unknown[0]}'; its keys are {', '.join(_KEYS)}")
    if faults := [*faults_in("TrainingPlanName", name), *faults_in("TrainingInstanceType", kind)]:
        raise ValueError(f"{where}: {faults[0]}")
    targets = tuple(map(str, entry.get("target_resources", (TRAINING,))))
    status = str(entry.get("status", ""))
    if status not in _FORCED:
        raise ValueError(f"{where}: its status follows from its windows, or is Pending or Failed")
    return TrainingPlan(
        name=name,
        instance_type=kind,
        windows=tuple(_windows(entry["windows"], now, where)),
        target_resources=targets,
        unhealthy=_count(entry, "unhealthy", where),
        used_elsewhere=_count(entry, "used_elsewhere", where),
        status=status,
        message=str(entry.get("message", "")),
    )


def _windows(entries: Any, now: int, where: str) -> list[Window]:
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{where} has at least one window")
    found = [_window(entry, now, where) for entry in entries]
    found.sort(key=lambda window: window.begins)
    if any(first.ends > second.begins for first, second in pairwise(found)):
        raise ValueError(f"{where}: two of its windows overlap")
    return found


def _window(entry: Any, now: int, where: str) -> Window:
    if not isinstance(entry, Mapping) or set(entry) != {"from", "to", "instances"}:
        raise ValueError(f"{where}: a window has the keys from, to and instances")
    begins, ends = (_moment(entry[key], now, where) for key in ("from", "to"))
    if begins >= ends:
        raise ValueError(f"{where}: a window ends after it begins")
    return Window(begins=begins, ends=ends, instances=_count(entry, "instances", where))


def _moment(value: Any, now: int, where: str) -> int:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return now + round(value * 1000)
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        if moment.tzinfo is None:
            raise ValueError
        return from_datetime(moment)
    except (OverflowError, ValueError):
        raise ValueError(
            f"{where}: a moment is seconds from now, or a time with its zone such as "
            f"2026-06-01T00:00:00Z, not {value!r}"
        ) from None


def _count(entry: Mapping[str, Any], key: str, where: str) -> int:
    value = entry.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{where}: {key} is a whole number, at least 0, not {value!r}")
    return value
