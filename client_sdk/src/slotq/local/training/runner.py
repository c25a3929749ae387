"""What the plane needs from whatever does a training job's work: processes, or virtual time."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

_KILLED = {-signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGKILL}


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a training job's work ended."""

    code: int = 0
    """As a process returns it; negative for a signal."""
    failure: str = ""
    """The text of /opt/ml/output/failure."""
    client_error: str = ""
    """The user's input kept it from being run at all (no such S3 object …)."""

    @property
    def killed(self) -> bool:
        """By SIGTERM or SIGKILL, as a stop does it."""
        return self.code in _KILLED

    @property
    def reason(self) -> str:
        """FailureReason, as SageMaker words it."""
        if self.client_error:
            return f"ClientError: {self.client_error}"
        shown = self.code if self.code >= 0 else 128 - self.code
        end = f", exit code: {shown}"
        return f"AlgorithmError: {self.failure[: 1000 - len(end)]}{end}"


class Step(Enum):
    TRAINING = auto()
    """Everything is downloaded, the work has begun."""
    EXITED = auto()
    """The work has ended (`Report.exit`)."""
    FINISHED = auto()
    """Everything is uploaded, or could not be: then `Report.exit` says so."""


@dataclass(frozen=True, kw_only=True)
class Report:
    training_job: str
    step: Step
    exit: Exit | None = None


class Runner(Protocol):
    """Does the work. The plane calls it under its own lock, so no call may wait for anything."""

    def start(self, training_job: str, request: Mapping[str, Any]) -> None:
        """Begin to download, then to work. TRAINING, EXITED and FINISHED are reported in that
        order; TRAINING may be left out."""

    def terminate(self, training_job: str) -> None:
        """SIGTERM to every process."""

    def kill(self, training_job: str) -> None:
        """SIGKILL to every process."""

    def reports(self) -> Sequence[Report]:
        """What has happened up to now and was not reported before, in an order that does not depend
        on chance."""

    def next_due(self) -> int | None:
        """When the next report comes by time alone; None where only the world knows."""
