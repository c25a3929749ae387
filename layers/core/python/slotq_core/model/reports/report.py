"""What a training script says of its own attempt.

It is a stranger's word: it decides about no other job, and no more is kept of it than stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_STEPS = 10**15
"""The largest step that counts."""
MOST_METRICS = 20
LONGEST_TEXT = 64
"""The most characters of a metric's name, and of a metric that is a text."""

LONGEST_METRIC = 255
"""The most characters of a metric's name in SageMaker."""

MOST_FINAL = 60
"""The most final metrics of a job: SageMaker's 40, and those that its script reports."""

LARGEST_VALUE = 1e100
"""The largest value of a final metric, either way. A larger one counts as not told."""

Metric = int | float | str
"""A finite number, or a printable text, such as `nan`."""

SILENT_FOR = 600_000
"""Without a step for so long (ms), and for three usual steps, nobody can say when the job ends."""

LONGEST_ETA = 10 * 365 * 86_400_000
"""A longer time to the end (ms) is not known: a step has taken far too long."""


def final_metrics(told: Mapping[str, object]) -> dict[str, float]:
    """The metrics that are numbers, of a size that can be kept."""
    return {
        name[:LONGEST_METRIC]: float(value)
        for name, value in told.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and -LARGEST_VALUE <= value <= LARGEST_VALUE
        and (value == 0 or abs(value) >= 1 / LARGEST_VALUE)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """The last checkpoint that the script says it has saved."""

    step: int | None = None
    at: int
    """When the save was complete (ms)."""
    took: int | None = None
    """How long the save took (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SuspendSeen:
    """What the script says of a request to suspend. Moments are in ms."""

    marked: bool
    """Whether the queue's marker asked. Else a signal or the training job's status did, after the
    stop: then no script releases."""
    acknowledged_at: int | None = None
    released_at: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The script's report of one attempt. Its moments lie within the attempt's time: in the future
    of neither the queue nor S3."""

    step: int | None = None
    """Steps done; None: the script has reported none."""
    of: int | None = None
    """How many there are; None: unknown."""
    at: int | None = None
    """When the script reported that step (ms); set if and only if the step is."""
    began_step: int | None = None
    """The first step that this attempt reported; None: not told."""
    began_at: int | None = None
    """When the attempt reported its first step (ms)."""
    saved: Saved | None = None
    suspend: SuspendSeen | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def alive_at(self) -> int | None:
        """The last sign of life (ms): a step or a save. None: none yet."""
        signs = [self.at, self.saved.at if self.saved else None]
        return max((at for at in signs if at is not None), default=None)

    def eta(self, now: int) -> int | None:
        """The time (ms) until the last step at the pace of this attempt, its first step excluded:
        what earlier attempts did says nothing of this one's pace. None: unknown."""
        if self.step is None or self.of is None or self.at is None:
            return None
        if self.step >= self.of:
            return 0
        if self.began_step is None or self.began_at is None:
            return None
        steps, took = self.step - self.began_step, self.at - self.began_at
        silent = max(0, now - self.at)
        if steps <= 0 or took <= 0 or silent > max(SILENT_FOR, 3 * took // steps):
            return None
        left = max(0, (self.of - self.step) * took // steps - silent)
        return left if left <= LONGEST_ETA else None
