"""Our own SageMaker training plane: the API's operations and the life of a training job.

    InProgress: Starting → (Pending) → Downloading → Training → Uploading → Completed or Failed
    Stopping:   SIGTERM → the grace → SIGKILL → Stopped (Completed or Failed if it ends by itself)

The plane uses no HTTP, processes or wall clock: requests come as dicts, a `Runner` does the work,
and a clock gives the time. So the emulator, the tests and `slotq simulate --live` use the same one.
The clock's owner calls `advance()` at `next_due()`.

`emit` receives each EventBridge event, in order and under the plane's lock. It must only store the
event, never call back.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from slotq.local.endpoint import ACCOUNT, REGION
from slotq.local.training import listing
from slotq.local.training import request_check as requests
from slotq.local.training.call_errors import NoAnswer, PlaneError, denied
from slotq.local.training.knobs import Knobs
from slotq.local.training.runner import Exit, Report, Runner, Step
from slotq.local.training.training_job import TrainingJob
from slotq_core.ports import Clock

Event = dict[str, Any]
_OTHERS = 100
"""Instances in use by the rest of the account when `refuse_creates` reports a full account."""
_NOT_FOUND = "Requested resource not found."
CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type or after some time."
)
UNASSUMED = "ClientError: SageMaker was unable to assume the role"
INTERNAL = "InternalServerError: We encountered an internal error. Please try again."
INTERRUPTED = "InternalServerError: The emulator ended while the training job ran."


class Plane:
    def __init__(
        self,
        *,
        clock: Clock,
        runner: Runner,
        emit: Callable[[Event], None],
        knobs: Knobs | None = None,
        account: str = ACCOUNT,
        region: str = REGION,
        max_runtime_counts: bool = True,
    ) -> None:
        """`max_runtime_counts=False` lets jobs run past their MaxRuntimeInSeconds (simulations)."""
        self.knobs = knobs or Knobs()
        self.calls: Counter[str] = Counter()
        """Number of calls, by operation."""
        self._clock, self._runner, self._emit = clock, runner, emit
        self._account, self._region = account, region
        self._max_runtime_counts = max_runtime_counts
        self._jobs: dict[str, TrainingJob] = {}
        self._live: dict[str, TrainingJob] = {}
        self._created = 0
        self._lock = threading.RLock()
        self._operations: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": lambda request: self._find(request).description(),
            "StopTrainingJob": self._stop,
            "ListTrainingJobs": lambda request: listing.page_of(self._jobs.values(), request),
            "DeleteTrainingJob": self._delete,
            "ListTags": lambda request: {"Tags": _as_tags(self._find_arn(request).tags)},
            "AddTags": self._add_tags,
        }

    def handle(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one call. Raises PlaneError, and NoAnswer if a knob says so."""
        name = str(request.get("TrainingJobName") or "")
        with self._lock:
            self.calls[operation] += 1
            if self.knobs.take("throttle", name):
                raise PlaneError("ThrottlingException", "Rate exceeded")
            if self.knobs.denies(f"sagemaker:{operation}"):
                raise denied(f"sagemaker:{operation}", f"training-job/{name or '*'}")
            requests.check(operation, request)
            answer = self._operations[operation](request)
            changes = operation in {"CreateTrainingJob", "StopTrainingJob"}
            if changes and self.knobs.take("lose_answers", name):
                raise NoAnswer(operation)
            return answer

    def next_due(self) -> int | None:
        """The time of the next change that needs only time. None: never."""
        with self._lock:
            dues = [job.due for job in self._live.values()]
            return min(
                (due for due in (*dues, self._runner.next_due()) if due is not None), default=None
            )

    def advance(self) -> None:
        """Apply everything due by now: ends of work before timers, each in order of time."""
        with self._lock:
            while self._take_reports() or self._take_timers():
                pass

    def live(self) -> int:
        """The number of training jobs that have not ended."""
        with self._lock:
            return len(self._live)

    def jobs(self) -> list[TrainingJob]:
        """All training jobs in their current state."""
        with self._lock:
            return copy.deepcopy(list(self._jobs.values()))

    def take_over(self, jobs: Sequence[TrainingJob]) -> None:
        """Add the training jobs of an earlier emulator. Jobs that were running end Failed with a
        service fault, and the queue gets their events now."""
        with self._lock:
            self._jobs |= {job.name: job for job in jobs}
            self._created = max([self._created, *(job.serial for job in jobs)])
            for job in jobs:
                if not job.ended:
                    self._live[job.name] = job
                    self._end(job, "Failed", "Failed", reason=INTERRUPTED)

    # --- operations

    def _create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name = request["TrainingJobName"]
        self._check_role(str(request.get("RoleArn", "")))
        arn = f"arn:aws:sagemaker:{self._region}:{self._account}:training-job/{name}"
        if name in self._jobs:
            raise PlaneError(
                "ResourceInUse",
                "Training job names must be unique within an AWS account and region, and a "
                f"training job with this name already exists ({arn})",
            )
        if not request.get("ResourceConfig"):
            raise PlaneError("ValidationException", "ResourceConfig is required")
        self._created += 1
        job = TrainingJob(
            request=copy.deepcopy(dict(request)),
            arn=arn,
            serial=self._created,
            created_at=self._clock.now(),
            tags={tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()},
        )
        self._check_limits(job)
        self._jobs[name] = self._live[name] = job
        job.due = job.created_at + int(self.knobs.start_seconds * 1000)
        self._enter(job, "InProgress", "Starting")
        return {"TrainingJobArn": arn}

    def _check_role(self, role: str) -> None:
        if self.knobs.denies("iam:PassRole"):
            raise denied("iam:PassRole", role)
        if fnmatchcase(role, self.knobs.lost_roles):
            raise PlaneError(
                "ValidationException",
                f"Could not assume role {role}. Please ensure that the role exists and allows "
                "principal 'sagemaker.amazonaws.com' to assume the role.",
            )

    def _check_limits(self, job: TrainingJob) -> None:
        for kind, wanted in job.instances.items():
            used = sum(other.instances.get(kind, 0) for other in self._live.values())
            limit = self.knobs.limits.get(kind)
            if self.knobs.take("refuse_region", job.name):
                raise PlaneError(
                    "ResourceLimitExceeded",
                    f"The instance type '{kind}' for training job usage is not available in this "
                    "region",
                )
            if self.knobs.take("refuse_creates", job.name):
                limit = used = used + _OTHERS
            if limit is not None and used + wanted > limit:
                raise PlaneError(
                    "ResourceLimitExceeded",
                    f"The account-level service limit '{kind} for training job usage' is {limit} "
                    f"Instances, with current utilization of {used} Instances and a request delta "
                    f"of {wanted} Instances. Please use AWS Service Quotas to request an increase "
                    "for this quota.",
                )

    def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._find(request)
        if job.ended:
            raise PlaneError(
                "ValidationException",
                f"The request was rejected because the training job is in status {job.status}.",
            )
        if job.status != "Stopping":
            self._begin_stop(job, as_="Stopped")
        return {}

    def _delete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._find(request)
        if not job.ended:
            raise PlaneError(
                "ResourceInUse", f"The training job is in status {job.status}; stop it first."
            )
        del self._jobs[job.name]
        return {}

    def _add_tags(self, request: Mapping[str, Any]) -> dict[str, Any]:
        tags = self._find_arn(request).tags
        tags |= {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        return {"Tags": _as_tags(tags)}

    def _find(self, request: Mapping[str, Any]) -> TrainingJob:
        if job := self._jobs.get(request["TrainingJobName"]):
            return job
        raise PlaneError("ValidationException", _NOT_FOUND)

    def _find_arn(self, request: Mapping[str, Any]) -> TrainingJob:
        job = self._jobs.get(request["ResourceArn"].rpartition("/")[2])
        if job and job.arn == request["ResourceArn"]:
            return job
        raise PlaneError("ValidationException", _NOT_FOUND)

    # --- the life of a training job

    def _take_reports(self) -> bool:
        reports = self._runner.reports()
        for report in reports:
            if job := self._live.get(report.training_job):
                self._reported(job, report)
        return bool(reports)

    def _take_timers(self) -> bool:
        now = self._clock.now()
        over = [job for job in self._live.values() if job.due is not None and job.due <= now]
        for job in sorted(over, key=lambda job: (job.due, job.serial)):
            job.due = None
            self._timer(job)
        return bool(over)

    def _timer(self, job: TrainingJob) -> None:
        if job.status == "Stopping":
            if job.started_at is None:
                self._end(job, "Stopped", job.stopped_as)
            else:
                self._runner.kill(job.name)
        elif job.secondary == "Starting":
            self._provision(job)
        elif job.secondary == "Pending":
            self._begin_stop(job, as_="Stopped")
        else:
            self._begin_stop(job, as_="MaxRuntimeExceeded")

    def _provision(self, job: TrainingJob) -> None:
        if self.knobs.take("fail_provisioning", job.name):
            self._end(job, "Failed", "Failed", reason=CAPACITY)
        elif self.knobs.take("fail_internally", job.name):
            self._end(job, "Failed", "Failed", reason=INTERNAL)
        elif self.knobs.take("fail_assuming", job.name):
            self._end(job, "Failed", "Failed", reason=UNASSUMED)
        elif self.knobs.take("stick_pending", job.name):
            job.due = job.pending_until
            self._enter(job, "InProgress", "Pending")
        else:
            job.started_at = self._clock.now()
            if self._max_runtime_counts:
                job.due = job.started_at + job.max_runtime
            self._enter(job, "InProgress", "Downloading")
            self._runner.start(job.name, job.request)

    def _begin_stop(self, job: TrainingJob, *, as_: str) -> None:
        now = self._clock.now()
        job.stopped_as = as_
        self._enter(job, "Stopping", "Stopping")
        if job.started_at is None:
            job.due = now
        elif job.exit is None:
            job.due = now + int(self.knobs.grace_seconds * 1000)
            self._runner.terminate(job.name)

    def _reported(self, job: TrainingJob, report: Report) -> None:
        if report.step is Step.TRAINING and job.status == "InProgress":
            self._enter(job, "InProgress", "Training")
        elif report.step is Step.EXITED:
            job.exit, job.due = report.exit, None
            if job.status == "InProgress":
                self._enter(job, "InProgress", "Uploading")
        elif report.step is Step.FINISHED:
            ended = report.exit or job.exit or Exit(client_error="it ended without a message")
            self._finish(job, ended)

    def _finish(self, job: TrainingJob, ended: Exit) -> None:
        """End a job. Completed always wins; Stopped requires that the stop killed the work."""
        if ended.code == 0 and not ended.client_error:
            self._end(job, "Completed", "Completed")
        elif job.status == "Stopping" and ended.killed:
            self._end(job, "Stopped", job.stopped_as)
        else:
            self._end(job, "Failed", "Failed", reason=ended.reason)

    def _end(self, job: TrainingJob, status: str, secondary: str, *, reason: str = "") -> None:
        del self._live[job.name]
        job.failure_reason, job.due = reason, None
        self._enter(job, status, secondary, reason)

    def _enter(self, job: TrainingJob, status: str, secondary: str, message: str = "") -> None:
        job.enter(status, secondary, self._clock.now(), message)
        if self.knobs.take("lose_events", job.name):
            return
        event = job.event(account=self._account, region=self._region)
        self._emit(event)
        if self.knobs.take("double_events", job.name):
            self._emit(copy.deepcopy(event))


def _as_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
