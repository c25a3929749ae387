"""How many jobs one answer holds: Lambda answers with at most 6 MB.

Most jobs take about a kilobyte. One that comes after others names them several times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate

from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.operations.status import Status

MOST_ANSWER = 1_000_000
"""The most bytes of one page of any answer."""

MOST_TEXT = 2_000_000
"""About how many characters an answer has at most of what only some jobs have."""

_OF_A_REPORT = 2_000
_OF_A_METRIC = 25
_OF_AN_ATTEMPT = 1_000


def text_of(job: Job) -> int:
    """About how many characters an answer has of the job, besides what it has of every job."""
    named = sum(len(name) + 4 for name in (*job.depends_on, *job.waits_for))
    metrics = sum(len(name) + _OF_A_METRIC for name, _ in job.metrics)
    report = _OF_A_REPORT if job.active and job.reports else 0
    return 2 * named + len(json.dumps(job.message)) + metrics + report


def text_of_attempt(attempt: Attempt) -> int:
    """About how many characters an answer has of the attempt."""
    told = (attempt.message, attempt.warning, attempt.artifact, attempt.checkpoints)
    return _OF_AN_ATTEMPT + len(json.dumps(told))


def fitting(found: Sequence[Status], limit: int) -> list[Status]:
    """Return the first of these, at most `limit`, that fit into one answer."""
    texts = (text_of(it.job) + sum(map(text_of_attempt, it.attempts)) for it in found[:limit])
    before = accumulate(texts, initial=0)
    return [it for it, text in zip(found[:limit], before, strict=False) if text < MOST_TEXT]
