"""The page says times and progress as the terminal does: one list of examples for both.

The page's side: client_sdk/ui/test/words.test.ts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotq.jobs.progress_bar import cell, duration, in_words
from slotq.output.job_tables import moment
from slotq_core.wire.views.jobs import ProgressView

EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "client_sdk/ui/test/words.json").read_text()
)


@pytest.mark.parametrize(("seconds", "said"), EXAMPLES["durations"])
def test_a_duration(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(("text", "said"), EXAMPLES["moments"])
def test_a_moment(text: str, said: str) -> None:
    assert moment(text) == said


@pytest.mark.parametrize("example", EXAMPLES["progress"])
def test_progress(example: dict[str, Any]) -> None:
    progress = ProgressView.model_validate(example["progress"])
    said = {"cell": cell(progress), "words": in_words(progress)}
    assert said == example["said"]
