"""The life of a training job on the plane.

InProgress: Starting → (Pending) → Downloading → Training → Uploading → Completed or Failed
            managed spot training: Training → Interrupted → Downloading → Training → …
Stopping:   SIGTERM → the grace → SIGKILL → Stopped (Completed or Failed if it ends by itself)
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from slotq.local.training.knobs import Knobs
from slotq.local.training.runner import Runner, Step, StepReport, WorkEnd
from slotq.local.training.training_job import TrainingJob
from slotq.local.training.warm_pools import WarmPools
from slotq_core.ports.surroundings import Clock

Event = dict[str, Any]
CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type or after some time."
)
INSUFFICIENT = (
    "InsufficientCapacityError: The training plan had no instances for the training job in time."
)
UNASSUMED = "ClientError: SageMaker was unable to assume the role"
INTERNAL = "InternalServerError: We encountered an internal error. Please try again."
_FAULTS = ("CapacityError", "InsufficientCapacityError", "InternalServerError")
"""The failures after which no instances are kept."""
INTERRUPTED = "InternalServerError: The emulator ended while the training job ran."


class Life:
    """The training jobs that have not ended, and what happens to them. Not safe for threads."""

    def __init__(
        self,
        *,
        clock: Clock,
        runner: Runner,
        emit: Callable[[Event], None],
        knobs: Knobs,
        account: str,
        region: str,
        max_runtime_counts: bool,
    ) -> None:
        self.live: dict[str, TrainingJob] = {}
        self.warm = WarmPools(clock, knobs)
        self._clock, self._runner, self._emit, self._knobs = clock, runner, emit, knobs
        self._account, self._region = account, region
        self._max_runtime_counts = max_runtime_counts

    def begin(self, job: TrainingJob) -> None:
        self.live[job.name] = job
        job.billed_part = self._knobs.spot_price if job.is_spot else 1.0
        job.due = self._instances_at(job)
        self._enter(job, "InProgress", "Starting")

    def stop(self, job: TrainingJob) -> None:
        """Begin to stop a job, unless it stops already."""
        if job.status != "Stopping":
            self._begin_stop(job, as_="Stopped")

    def interrupt(self, job: TrainingJob) -> None:
        """End a job that ran on an earlier emulator."""
        self.live[job.name] = job
        self._end(job, "Failed", "Failed", reason=INTERRUPTED)

    def next_due(self) -> int | None:
        """The time of the next change that needs only time. None: never."""
        dues = [*(job.due for job in self.live.values()), *self.warm.dues()]
        return min(
            (due for due in (*dues, self._runner.next_due()) if due is not None), default=None
        )

    def advance(self) -> None:
        """Apply everything due by now: ends of work before timers, each in order of time."""
        while self._take_reports() or self._take_timers() or self.warm.expire():
            pass

    def _take_reports(self) -> bool:
        reports = self._runner.reports()
        for report in reports:
            if job := self.live.get(report.training_job):
                self._reported(job, report)
        return bool(reports)

    def _take_timers(self) -> bool:
        now = self._clock.now()
        over = [job for job in self.live.values() if job.due is not None and job.due <= now]
        for job in sorted(over, key=lambda job: (job.due, job.serial)):
            job.due = None
            self._timer(job)
        return bool(over)

    def _timer(self, job: TrainingJob) -> None:
        now, waits_until = self._clock.now(), job.waits_until
        if job.status == "Stopping":
            if job.runs_since is None:
                self._end(job, "Stopped", job.stopped_as)
            else:
                self._runner.kill(job.name)
        elif job.secondary == "Interrupted" and job.runs_since is not None:
            self._runner.kill(job.name)
        elif waits_until is not None and waits_until <= now and self._wait_counts(job):
            self._begin_stop(job, as_="MaxWaitTimeExceeded")
        elif job.secondary in {"Starting", "Interrupted"}:
            self._provision(job)
        elif job.interrupted_at is not None and job.interrupted_at <= now:
            self._interrupt(job)
        elif job.secondary == "Pending" and job.plan:
            self._end(job, "Failed", "Failed", reason=INSUFFICIENT)
        elif job.secondary == "Pending":
            self._begin_stop(job, as_="Stopped")
        else:
            self._begin_stop(job, as_="MaxRuntimeExceeded")

    def _provision(self, job: TrainingJob) -> None:
        if job.is_spot and self._knobs.take("stick_spot", job.name):
            job.due = job.waits_until
        elif self._knobs.take("fail_provisioning", job.name):
            self._end(job, "Failed", "Failed", reason=CAPACITY)
        elif self._knobs.take("fail_insufficient", job.name):
            self._enter(job, "InProgress", "Pending")
            self._end(job, "Failed", "Failed", reason=INSUFFICIENT)
        elif self._knobs.take("fail_internally", job.name):
            self._end(job, "Failed", "Failed", reason=INTERNAL)
        elif self._knobs.take("fail_assuming", job.name):
            self._end(job, "Failed", "Failed", reason=UNASSUMED)
        elif self._knobs.take("stick_pending", job.name):
            job.due = job.pending_until
            self._enter(job, "InProgress", "Pending")
        else:
            self._run(job)

    def _instances_at(self, job: TrainingJob) -> int:
        """The time at which a job that looks for instances gets them, or has waited too long."""
        if job.is_warm:
            return self._clock.now()
        seconds = self._knobs.start_seconds
        if job.is_spot:
            seconds += self._knobs.spot_delay(job.name)
        come = self._clock.now() + round(seconds * 1000)
        return come if job.waits_until is None else min(come, job.waits_until)

    def _wait_counts(self, job: TrainingJob) -> bool:
        """Whether the end of its maximum wait ends a job. It bounds waiting and running
        together."""
        return job.runs_since is None or self._max_runtime_counts

    def _run(self, job: TrainingJob) -> None:
        now = job.runs_since = self._clock.now()
        if job.started_at is None:
            job.started_at = now
        ends = [now + job.max_runtime - job.ran] if self._max_runtime_counts else []
        keeps = self._knobs.interruption(job.name) if job.is_spot else None
        if keeps is not None:
            job.interrupted_at = now + round(keeps * 1000)
            ends.append(job.interrupted_at)
        if job.waits_until is not None and self._wait_counts(job):
            ends.append(job.waits_until)
        job.due = min(ends, default=None)
        self._enter(job, "InProgress", "Downloading")
        self._runner.start(job.name, job.request)

    def _interrupt(self, job: TrainingJob) -> None:
        """Take the instances back: the work ends as after a stop, and begins again later."""
        job.interrupted_at = None
        self._enter(job, "InProgress", "Interrupted")
        job.due = self._clock.now() + int(self._knobs.grace_seconds * 1000)
        self._runner.terminate(job.name)

    def _lose_instances(self, job: TrainingJob) -> None:
        now = self._clock.now()
        job.ran += now - (now if job.runs_since is None else job.runs_since)
        job.runs_since = job.exit = None
        job.due = self._instances_at(job)

    def _begin_stop(self, job: TrainingJob, *, as_: str) -> None:
        now = self._clock.now()
        job.stopped_as = as_
        self._enter(job, "Stopping", "Stopping")
        if job.runs_since is None:
            job.due = now
        elif job.exit is None:
            job.due = now + int(self._knobs.grace_seconds * 1000)
            self._runner.terminate(job.name)

    def _reported(self, job: TrainingJob, report: StepReport) -> None:
        if report.step is Step.TRAINING and job.status == "InProgress":
            self._enter(job, "InProgress", "Training")
        elif report.step is Step.EXITED:
            job.exit, job.due = report.exit, None
            if job.status == "InProgress" and job.secondary != "Interrupted":
                self._enter(job, "InProgress", "Uploading")
        elif report.step is Step.FINISHED:
            ended = report.exit or job.exit or WorkEnd(client_error="it ended without a message")
            if job.secondary == "Interrupted" and ended.code != 0:
                self._lose_instances(job)
            else:
                self._finish(job, ended)

    def _finish(self, job: TrainingJob, ended: WorkEnd) -> None:
        """End a job. Completed always wins; Stopped requires that the stop killed the work."""
        if ended.code == 0 and not ended.client_error:
            self._end(job, "Completed", "Completed")
        elif job.status == "Stopping" and ended.killed:
            self._end(job, "Stopped", job.stopped_as)
        else:
            self._end(job, "Failed", "Failed", reason=ended.reason)

    def _end(self, job: TrainingJob, status: str, secondary: str, *, reason: str = "") -> None:
        del self.live[job.name]
        job.failure_reason, job.due = reason, None
        if job.keep_alive and job.runs_since is not None and not reason.startswith(_FAULTS):
            self.warm.keep(job)
        self._enter(job, status, secondary, reason)

    def _enter(self, job: TrainingJob, status: str, secondary: str, message: str = "") -> None:
        job.enter(status, secondary, self._clock.now(), message)
        if self._knobs.take("lose_events", job.name):
            return
        event = job.event(account=self._account, region=self._region)
        self._emit(event)
        if self._knobs.take("double_events", job.name):
            self._emit(copy.deepcopy(event))
