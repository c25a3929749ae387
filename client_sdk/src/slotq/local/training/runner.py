"""The plane's interface to a training job's work: processes, or virtual time."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

LONGEST_REASON = 1024
"""Characters of a FailureReason."""
_KILLED = {-signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGKILL}


@dataclass(frozen=True, kw_only=True)
class WorkEnd:
    """How a training job's work ended."""

    code: int = 0
    """The process's exit code; negative for a signal."""
    failure: str = ""
    """The text of /opt/ml/output/failure."""
    client_error: str = ""
    """Why the user's input prevented the work from running (no such S3 object …)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last value of each metric of the request's definitions."""

    @property
    def killed(self) -> bool:
        """Whether SIGTERM or SIGKILL, as in a stop, ended the work."""
        return self.code in _KILLED

    @property
    def reason(self) -> str:
        """FailureReason in SageMaker's words."""
        if self.client_error:
            return f"ClientError: {self.client_error}"
        shown = self.code if self.code >= 0 else 128 - self.code
        begin, end = "AlgorithmError: ", f", exit code: {shown}"
        return f"{begin}{self.failure[: LONGEST_REASON - len(begin) - len(end)]}{end}"


class Step(Enum):
    TRAINING = auto()
    """All downloads are done. The work has begun."""
    EXITED = auto()
    """The work has ended (`StepReport.exit`)."""
    FINISHED = auto()
    """The upload has ended. `StepReport.exit` has the error if it failed."""


@dataclass(frozen=True, kw_only=True)
class StepReport:
    training_job: str
    step: Step
    exit: WorkEnd | None = None


class Runner(Protocol):
    """Does the work. The plane calls it under its own lock, so no method may block."""

    def start(self, training_job: str, request: Mapping[str, Any]) -> None:
        """Begin the download, then the work. Reports come in the order TRAINING, EXITED, FINISHED;
        TRAINING may be missing."""

    def terminate(self, training_job: str) -> None:
        """Send SIGTERM to every process."""

    def kill(self, training_job: str) -> None:
        """Send SIGKILL to every process."""

    def reports(self) -> Sequence[StepReport]:
        """The new reports up to now, in a deterministic order."""

    def next_due(self) -> int | None:
        """The time of the next report that needs only time. None: unknown."""
