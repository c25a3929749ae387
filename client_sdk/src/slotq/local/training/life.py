"""The life of a training job on the plane.

InProgress: Starting → (Pending) → Downloading → Training → Uploading → Completed or Failed
            managed spot training: Training → Interrupted → Downloading → Training → …
            training plan: Training → Pending between two of its windows → Downloading → …
Stopping:   SIGTERM → the grace → SIGKILL → Stopped (Completed or Failed if it ends by itself)
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from slotq.local.training.knobs import Knobs
from slotq.local.training.runner import Runner, Step, StepReport, WorkEnd
from slotq.local.training.training_job import TrainingJob, longest_pending
from slotq.local.training.training_plans import EXPIRATION, LONGEST_PENDING, TrainingPlans
from slotq.local.training.warm_pools import WarmPools
from slotq_core.model.capacity.plans import LAST_PART
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
        self.plans = TrainingPlans(clock, account=account, region=region, live=self.live.values)
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
        jobs = (job.due for job in self.live.values())
        dues = [*jobs, *self.warm.dues(), *self.plans.openings()]
        return min(
            (due for due in (*dues, self._runner.next_due()) if due is not None), default=None
        )

    def advance(self) -> None:
        """Apply everything due by now: ends of work before timers, each in order of time."""
        while (
            self._take_reports() or self._take_timers() or self.warm.expire() or self._fill_plans()
        ):
            pass

    def plans_changed(self) -> None:
        """Follow a change of the training plans: of their windows' ends, and of the room."""
        for job in self.live.values():
            if job.waits_for_plan and job.secondary == "Pending":
                job.due = self._gives_up_at(job)
            elif job.plan and _works(job):
                job.interrupted_at = self._taken_at(self.plans.ends_at(job))
                job.due = self._runs_until(job)
        self.advance()

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
        elif _loses_instances(job):
            self._runner.kill(job.name)
        elif waits_until is not None and waits_until <= now and self._wait_counts(job):
            self._begin_stop(job, as_="MaxWaitTimeExceeded")
        elif job.secondary in {"Starting", "Interrupted"}:
            self._provision(job)
        elif job.interrupted_at is not None and job.interrupted_at <= now:
            self._interrupt(job)
        elif job.secondary == "Pending" and job.plan and not _has_own_limit(job):
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
            self._pend(job)
        elif job.plan and not self.plans.room_for(job):
            self._pend(job)
            job.waits_for_plan = True
        else:
            self._run(job)

    def _pend(self, job: TrainingJob) -> None:
        job.due = self._gives_up_at(job)
        self._enter(job, "InProgress", "Pending")

    def _gives_up_at(self, job: TrainingJob) -> int | None:
        """The time at which the wait for instances has become too long."""
        now = self._clock.now()
        if job.plan:
            return self.plans.gives_up_at(job, now)
        longest = longest_pending(job)
        return None if longest is None else job.created_at + longest

    def _fill_plans(self) -> bool:
        """Give the instances of training plans to the jobs that wait for them, the first created
        first. Returns whether any job got some."""
        waiting = [job for job in self.live.values() if job.waits_for_plan]
        filled = False
        for job in sorted(waiting, key=lambda job: job.serial):
            if job.status == "InProgress" and job.runs_since is None and self.plans.room_for(job):
                self._run(job)
                filled = True
        return filled

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
        keeps = self._knobs.interruption(job.name) if job.is_spot else None
        job.interrupted_at = None if keeps is None else now + round(keeps * 1000)
        request = job.request
        if (ends := self.plans.ends_at(job)) is not None:
            job.waits_for_plan, job.interrupted_at = False, self._taken_at(ends)
            request = _with_variable(request, EXPIRATION, str(ends))
        job.due = self._runs_until(job)
        self._enter(job, "InProgress", "Downloading")
        self._runner.start(job.name, request)

    def _taken_at(self, ends: int | None) -> int | None:
        """When the instances of a plan's window that ends then are taken. None: never."""
        if ends is None:
            return None
        return ends - LAST_PART + round(self._knobs.plan_end_seconds * 1000)

    def _runs_until(self, job: TrainingJob) -> int | None:
        """The time at which a running job runs no longer, unless its work ends before."""
        ends = [job.interrupted_at]
        if self._max_runtime_counts and job.runs_since is not None:
            ends.append(job.runs_since + job.max_runtime - job.ran)
        if self._wait_counts(job):
            ends.append(job.waits_until)
        return min((end for end in ends if end is not None), default=None)

    def _interrupt(self, job: TrainingJob) -> None:
        """Take the instances back: the work ends as after a stop, and begins again later."""
        job.interrupted_at = None
        if job.plan and not self.plans.goes_on(job):
            self._begin_stop(job, as_="Stopped")
            return
        self._enter(job, "InProgress", "Pending" if job.plan else "Interrupted")
        job.due = self._clock.now() + int(self._knobs.grace_seconds * 1000)
        self._runner.terminate(job.name)

    def _lose_instances(self, job: TrainingJob) -> None:
        now = self._clock.now()
        job.ran += now - (now if job.runs_since is None else job.runs_since)
        job.runs_since = job.exit = None
        job.waits_for_plan = bool(job.plan)
        job.due = self._gives_up_at(job) if job.plan else self._instances_at(job)

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
            if job.status == "InProgress" and not _loses_instances(job):
                self._enter(job, "InProgress", "Uploading")
        elif report.step is Step.FINISHED:
            ended = report.exit or job.exit or WorkEnd(client_error="it ended without a message")
            if _loses_instances(job) and ended.code != 0:
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


def _works(job: TrainingJob) -> bool:
    """Whether a job has instances and is neither stopped nor over."""
    return (
        job.status == "InProgress"
        and job.runs_since is not None
        and job.exit is None
        and not _loses_instances(job)
    )


def _loses_instances(job: TrainingJob) -> bool:
    """Whether SageMaker is taking a job's instances back, and goes on with it later."""
    return job.secondary in {"Interrupted", "Pending"} and job.runs_since is not None


def _has_own_limit(job: TrainingJob) -> bool:
    """Whether its own request, not SageMaker's two days, ends a job's wait for its plan."""
    longest = longest_pending(job)
    return longest is not None and longest < LONGEST_PENDING


def _with_variable(request: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    return {**request, "Environment": {**(request.get("Environment") or {}), name: value}}
