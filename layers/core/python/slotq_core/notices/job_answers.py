"""What a job's end says to a state machine or a pipeline that waits for it, within their bounds.

No part of the job's request is in it, but where its model lies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, JobState
from slotq_core.timestamps import iso

MAX_OUTPUT = 262_144
MAX_CAUSE = 32_768
MAX_ERROR = 256
"""Step Functions' bounds on a task's output, cause and error. All of ours is ASCII, so that
characters are bytes."""

MOST_OUTPUTS = 50
_LONGEST_NAME = 256
_LONGEST_VALUE = 1024
MAX_REASON = 256
"""Bounds of a pipeline's step: outputs, their names and values, and the reason of a failure."""

SUPERSEDED = "SlotQ.Superseded"
FORGOTTEN = "SlotQ.Forgotten"
_BY_CAUSE: Mapping[str, str] = MappingProxyType(
    {
        "max_runtime": "SlotQ.MaxRuntimeExceeded",
        "rejected": "SlotQ.Rejected",
        "cannot_schedule": "SlotQ.CannotSchedule",
        "dependency": "SlotQ.DependencyFailed",
    }
)
_BY_STATE: Mapping[JobState, str] = MappingProxyType(
    {
        JobState.FAILED: "SlotQ.Failed",
        JobState.CANCELLED: "SlotQ.Cancelled",
        JobState.STOPPED: "SlotQ.Stopped",
    }
)
"""The errors by which a state machine tells failures apart: by a job's cause, else by its state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobAnswer:
    """What is said of a job's end."""

    error: str
    """Why the wait failed, for programs; empty: the job has completed."""
    reason: str
    """The same for people."""
    facts: Mapping[str, Any]
    """What is known of the job, by name: texts and whole numbers."""
    metrics: Mapping[str, float] = field(default_factory=dict)


def of_end(job: Job, attempt: Attempt | None, metrics: Mapping[str, float]) -> JobAnswer:
    """Return the answer of an ended job. `attempt`: its last one; None: it never started."""
    facts = {
        "job": job.name,
        "state": job.state.value,
        "model": attempt.artifact if attempt else "",
        "training_job": attempt.training_job if attempt else "",
        "pool": attempt.pool if attempt else "",
        "project": job.project,
        "attempts": job.attempts,
        "evictions": job.evictions,
        "ended_at": iso(job.changed_at),
    }
    if job.state is JobState.COMPLETED:
        return JobAnswer(error="", reason="", facts=facts, metrics=metrics)
    error = _BY_CAUSE.get(job.cause) or _BY_STATE[job.state]
    reason = job.message or (attempt.message if attempt else "") or f"the job is {job.state.value}"
    return JobAnswer(error=error, reason=reason, facts=facts, metrics=metrics)


def superseded(job: str) -> JobAnswer:
    """Return the answer to a token whose place another one has taken."""
    reason = f"job {job} was submitted again with another token, which hears of its end"
    return JobAnswer(error=SUPERSEDED, reason=reason, facts={"job": job})


def forgotten(job: str) -> JobAnswer:
    """Return the answer where the job's records have gone before an answer was accepted."""
    reason = f"the queue has forgotten job {job}: it ended long ago, and no answer was accepted"
    return JobAnswer(error=FORGOTTEN, reason=reason, facts={"job": job})


def task_output(answer: JobAnswer) -> str:
    """Return the output of a task that succeeds, as JSON."""
    metrics = dict(sorted(answer.metrics.items()))
    while len(text := json.dumps({**answer.facts, "metrics": metrics})) > MAX_OUTPUT and metrics:
        metrics.popitem()
    return text


def task_failure(answer: JobAnswer) -> tuple[str, str]:
    """Return the error of a task that fails, and its cause as JSON, as `.sync` tasks have it."""
    reason = answer.reason
    while len(text := json.dumps({**answer.facts, "reason": reason})) > MAX_CAUSE and reason:
        reason = reason[: len(reason) * 3 // 4]
    return answer.error[:MAX_ERROR], text


def step_outputs(answer: JobAnswer) -> Sequence[Mapping[str, str]]:
    """Return the outputs of a step that succeeds: what is known of the job, then its metrics by
    their names, unless a fact has the name."""
    values = {name: str(value) for name, value in answer.facts.items()}
    for name, value in sorted(answer.metrics.items()):
        values.setdefault(name[:_LONGEST_NAME], repr(value))
    return [
        {"Name": name, "Value": value[:_LONGEST_VALUE]}
        for name, value in [*values.items()][:MOST_OUTPUTS]
    ]


def step_failure(answer: JobAnswer) -> str:
    """Return the reason of a step that fails. Of a job that ran into its time box it names the
    model, if that leaves room."""
    model = answer.facts.get("model", "")
    told = f"{answer.error}: {answer.reason}"
    if model and len(with_model := f"{answer.error}: {model}: {answer.reason}") <= MAX_REASON:
        told = with_model
    return told[:MAX_REASON]
