"""Runs training on a virtual clock: work is an amount of time, and no process runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotq.local.training.runner import Step, StepReport, WorkEnd
from slotq_core.adapters.sagemaker.sagemaker_errors import RELEASED
from slotq_core.names import JOB_TAG
from slotq_core.ports.surroundings import Clock

EXIT_RELEASED = 75
"""The exit code of a script that has released its slots."""


class VirtualClock:
    """A clock that moves only when set (`ports.Clock`)."""

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        if now < self._now:
            raise ValueError(f"time goes forward only: {now} < {self._now}")
        self._now = now


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a job, over all its attempts. Times in milliseconds."""

    runtime: int | None = None
    """The duration of the work. None: until stopped."""
    stop: int = 0
    """The duration of a stop. Work continues meanwhile, and may complete."""
    release: int | None = None
    """The time from a request to release (`VirtualRunner.ask`) to the release. None: the work goes
    on until it is stopped."""
    checkpoint: bool = True
    """Whether a stop keeps the work done so far."""
    exit_code: int = 0
    """The exit code when all work is done."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The final metrics when all work is done."""
    fails_after: int | None = None
    """The time after which this attempt fails, if the work is not done by then. None: no
    failure."""
    failure: WorkEnd = field(default_factory=lambda: WorkEnd(code=1))
    """The result of the failure."""


@dataclass(kw_only=True)
class _Run:
    job: str
    work: Work
    began: int
    ends: int | None
    stops: int | None = None
    releases: int | None = None

    @property
    def fails(self) -> int | None:
        return None if self.work.fails_after is None else self.began + self.work.fails_after

    @property
    def due(self) -> int | None:
        dues = [
            due for due in (self.ends, self.stops, self.releases, self.fails) if due is not None
        ]
        return min(dues) if dues else None


class VirtualRunner:
    """A `Runner` whose attempts end when their work is done.

    `work_of(job, request)` returns a job's work. `job` is the queue's job (from the ownership tag),
    or the training job's own name if it did not come through the queue. `done` is the work done by
    each job in milliseconds; callers may fill it beforehand.

    A stop takes `Work.stop`, whatever the plane's grace: SIGKILL changes nothing.
    """

    def __init__(self, *, clock: Clock, work_of: Callable[[str, Mapping[str, Any]], Work]) -> None:
        self.done: dict[str, int] = {}
        self._clock = clock
        self._work_of = work_of
        self._runs: dict[str, _Run] = {}
        self._begun: list[StepReport] = []

    def start(self, training_job: str, request: Mapping[str, Any]) -> None:
        tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
        job = tags.get(JOB_TAG, training_job)
        work, now = self._work_of(job, request), self._clock.now()
        left = None if work.runtime is None else max(0, work.runtime - self.done.get(job, 0))
        self._runs[training_job] = _Run(
            job=job, work=work, began=now, ends=None if left is None else now + left
        )
        self._begun.append(StepReport(training_job=training_job, step=Step.TRAINING))

    def ask(self, training_job: str) -> None:
        """Ask the work to release its slots, as the queue's marker does. Asking again changes
        nothing, and so does asking work that is being stopped."""
        run = self._runs.get(training_job)
        if run and run.work.release is not None and run.releases is None and run.stops is None:
            run.releases = self._clock.now() + run.work.release

    def terminate(self, training_job: str) -> None:
        if (run := self._runs.get(training_job)) and run.stops is None:
            run.stops = self._clock.now() + run.work.stop

    def kill(self, training_job: str) -> None:
        pass

    def finish(self, training_job: str) -> None:
        """Let the work be done now."""
        self._runs[training_job].ends = self._clock.now()

    def next_due(self) -> int | None:
        if self._begun:
            return self._clock.now()
        return min((run.due for run in self._runs.values() if run.due is not None), default=None)

    def reports(self) -> Sequence[StepReport]:
        """Starts first, then ends by time. Ties keep the order of the starts."""
        now, begun = self._clock.now(), self._begun
        self._begun = []
        over = [
            (run.due, name)
            for name, run in self._runs.items()
            if run.due is not None and run.due <= now
        ]
        ended = [report for _, name in sorted(over, key=_by_due) for report in self._end(name)]
        return [*begun, *ended]

    def _end(self, training_job: str) -> Sequence[StepReport]:
        run = self._runs.pop(training_job)
        due = run.due or 0
        # Work that ends at the moment of the stop has ended: completed or failed.
        completed = run.ends is not None and run.ends <= due
        failed = run.fails is not None and run.fails <= due
        if run.work.checkpoint:
            self.done[run.job] = self.done.get(run.job, 0) + due - run.began
        released = run.releases is not None and run.releases <= due
        ended = WorkEnd(code=-15)
        if completed:
            ended = WorkEnd(code=run.work.exit_code, metrics=run.work.metrics)
        if released and not completed:
            ended = WorkEnd(code=EXIT_RELEASED, failure=RELEASED)
        if failed and not completed and not released:
            ended = run.work.failure
        return [
            StepReport(training_job=training_job, step=Step.EXITED, exit=ended),
            StepReport(training_job=training_job, step=Step.FINISHED),
        ]


def _by_due(pair: tuple[int, str]) -> int:
    return pair[0]
