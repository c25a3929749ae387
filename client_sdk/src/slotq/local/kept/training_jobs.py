"""Training jobs as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from slotq.local.training.runner import Exit
from slotq.local.training.training_job import TrainingJob, Transition


def saved(jobs: Iterable[TrainingJob]) -> list[dict[str, Any]]:
    return [asdict(job) for job in jobs]


def read(values: Iterable[dict[str, Any]]) -> list[TrainingJob]:
    return [_job(value) for value in values]


def _job(value: dict[str, Any]) -> TrainingJob:
    parts = {
        "transitions": [Transition(**each) for each in value["transitions"]],
        "exit": None if value["exit"] is None else Exit(**value["exit"]),
    }
    return TrainingJob(**{**value, **parts})
