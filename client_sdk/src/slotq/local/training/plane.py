"""Our own SageMaker training plane: the API's operations.

The plane uses no HTTP, processes or wall clock: requests come as dicts, a `Runner` does the work,
and a clock gives the time. So the emulator, the tests and `slotq simulate --live` use the same one.
The clock's owner calls `advance()` at `next_due()`.

`emit` receives each EventBridge event, in order and under the plane's lock. It must only store the
event, never call back.

ListTrainingJobs sorts, filters and pages as in SageMaker.
"""

from __future__ import annotations

import base64
import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from slotq.jobs.foreign_names import is_listed
from slotq.local.endpoint import ACCOUNT, REGION
from slotq.local.processing.processing_job import kind_of_record
from slotq.local.training import request_check
from slotq.local.training.knobs import Knobs
from slotq.local.training.life import Event, Life
from slotq.local.training.request_check import NoAnswer, PlaneError, denied
from slotq.local.training.runner import Runner
from slotq.local.training.search import found
from slotq.local.training.training_job import WARM_QUOTA, TrainingJob
from slotq.local.training.training_plans import TrainingPlan
from slotq_core.model.capacity.work import WorkKind, bare, marked, work_of
from slotq_core.ports.surroundings import Clock
from slotq_core.timestamps import to_datetime
from slotq_core.wire.training.processing_request import job_name

_OTHERS = 100
"""Instances in use by the rest of the account when `refuse_creates` reports a full account."""
_FULL = 4
"""The quota that `refuse_for_quota` reports as used up."""
_NOT_FOUND = "Requested resource not found."


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
        self._clock, self._account, self._region = clock, account, region
        self._jobs: dict[str, TrainingJob] = {}
        self._life = Life(
            clock=clock,
            runner=runner,
            emit=emit,
            knobs=self.knobs,
            account=account,
            region=region,
            max_runtime_counts=max_runtime_counts,
        )
        self._created = 0
        self._lock = threading.RLock()
        self._operations: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "CreateTrainingJob": self._create,
            "DescribeTrainingJob": lambda request: self._find(request).description(),
            "StopTrainingJob": self._stop,
            "ListTrainingJobs": lambda request: page_of(self._of(WorkKind.TRAINING), request),
            "CreateProcessingJob": self._create_processing,
            "DescribeProcessingJob": lambda request: self._find(request).description(),
            "StopProcessingJob": self._stop,
            "ListProcessingJobs": lambda request: page_of(
                self._of(WorkKind.PROCESSING), request, "ProcessingJobSummaries"
            ),
            "DeleteTrainingJob": self._delete,
            "ListTags": lambda request: {"Tags": _as_tags(self._find_arn(request).tags)},
            "AddTags": self._add_tags,
            "UpdateTrainingJob": self._update,
            "Search": lambda request: found(self._of(WorkKind.TRAINING), request),
            "DescribeTrainingPlan": lambda request: self._life.plans.describe(
                request["TrainingPlanName"]
            ),
        }

    def handle(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one call. Raises PlaneError, and NoAnswer if a knob says so."""
        name = job_name(request)
        with self._lock:
            self.calls[operation] += 1
            if self.knobs.take("throttle", name):
                raise PlaneError("ThrottlingException", "Rate exceeded")
            if self.knobs.denies(f"sagemaker:{operation}"):
                kind = work_of(name)
                raise denied(f"sagemaker:{operation}", f"{kind}-job/{bare(name) or '*'}")
            request_check.check(operation, request)
            answer = self._operations[operation](request)
            changes = operation.startswith(("Create", "Stop", "Update"))
            if changes and self.knobs.take("lose_answers", name):
                raise NoAnswer(operation)
            return answer

    def next_due(self) -> int | None:
        """The time of the next change that needs only time. None: never."""
        with self._lock:
            return self._life.next_due()

    def advance(self) -> None:
        """Apply everything due by now: ends of work before timers, each in order of time."""
        with self._lock:
            self._life.advance()

    def job(self, name: str) -> TrainingJob | None:
        """The plane's own record of a training job. A test that changes it changes SageMaker
        without an event."""
        return self._jobs.get(name)

    def live(self) -> Mapping[str, TrainingJob]:
        """The plane's own records of the training jobs that have not ended, by name."""
        return MappingProxyType(self._life.live)

    def plans(self) -> list[dict[str, Any]]:
        """The account's training plans, as DescribeTrainingPlan answers."""
        with self._lock:
            return self._life.plans.descriptions()

    def set_plans(self, plans: Iterable[TrainingPlan]) -> None:
        """Replace the account's training plans."""
        with self._lock:
            self._life.plans.declare(plans)
            self._life.plans_changed()

    def jobs(self) -> list[TrainingJob]:
        """Copies of all training jobs, in the order of their creation."""
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
                    self._life.interrupt(job)

    def _of(self, work: WorkKind) -> list[TrainingJob]:
        return [job for job in self._jobs.values() if job.work is work]

    def _create_processing(self, request: Mapping[str, Any]) -> dict[str, Any]:
        from slotq_core.wire.training.processing_request import as_training

        return {"ProcessingJobArn": self._create(as_training(request))["TrainingJobArn"]}

    def _create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name = job_name(request)
        work = work_of(name)
        self._check_role(str(request.get("RoleArn", "")))
        arn = f"arn:aws:sagemaker:{self._region}:{self._account}:{work}-job/{bare(name)}"
        if name in self._jobs:
            raise PlaneError(
                "ResourceInUse",
                f"{work.capitalize()} job names must be unique within an AWS account and region, "
                f"and a {work} job with this name already exists ({arn})",
            )
        if not request.get("ResourceConfig"):
            raise PlaneError("ValidationException", "ResourceConfig is required")
        self._created += 1
        job = kind_of_record(request)(
            request=copy.deepcopy(dict(request)),
            arn=arn,
            serial=self._created,
            created_at=self._clock.now(),
            tags={tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()},
        )
        self._life.plans.check(job)
        kept = self._life.warm.match(job)
        self._check_limits(job, kept)
        if kept is not None:
            self._life.warm.give(kept, job)
        self._jobs[name] = job
        self._life.begin(job)
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

    def _check_limits(self, job: TrainingJob, kept: TrainingJob | None) -> None:
        """Check the account's quotas. `kept`: the job whose warm instances this one takes over."""
        for quota, most in self.knobs.quotas.items():
            self._check_quota(quota, most, job, kept)
        if self.knobs.take("refuse_for_quota", job.name):
            raise _exceeded(self.knobs.refused_quota, limit=_FULL, used=_FULL, wanted=1)
        for kind, wanted in job.instances.items():
            training = f"{kind} for {job.work} job usage"
            used = self._used(training, kept)
            unbound = job.is_spot or job.plan or job.work is WorkKind.PROCESSING
            limit = None if unbound else self.knobs.limits.get(kind)
            if self.knobs.take("refuse_region", job.name):
                raise PlaneError(
                    "ResourceLimitExceeded",
                    f"The instance type '{kind}' for {job.work} job usage is not available in this "
                    "region",
                )
            if self.knobs.take("refuse_creates", job.name):
                limit = used = used + _OTHERS
            if limit is not None and used + wanted > limit:
                raise _exceeded(training, limit=limit, used=used, wanted=wanted)

    def _check_quota(
        self, quota: str, most: int, job: TrainingJob, kept: TrainingJob | None
    ) -> None:
        used, wanted = self._used(quota, kept), job.counts_in(quota)
        if wanted and used + wanted > most:
            raise _exceeded(quota, limit=most, used=used, wanted=wanted)

    def _used(self, quota: str, kept: TrainingJob | None) -> int:
        warm = self._life.warm.used(quota, without=kept)
        if quota.endswith(WARM_QUOTA):
            return warm
        return warm + sum(other.counts_in(quota) for other in self._life.live.values())

    def _update(self, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._find(request)
        seconds = (request.get("ResourceConfig") or {}).get("KeepAlivePeriodInSeconds")
        if seconds is not None:
            self._life.warm.change(job, int(seconds))
        shown = ("ProfilerConfig", "ProfilerRuleConfigurations", "RemoteDebugConfig")
        job.request |= {key: copy.deepcopy(request[key]) for key in shown if key in request}
        return {"TrainingJobArn": job.arn}

    def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._find(request)
        if job.ended:
            raise PlaneError(
                "ValidationException",
                f"The request was rejected because the {job.work} job is in status {job.status}.",
            )
        self._life.stop(job)
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
        if job := self._jobs.get(job_name(request)):
            return job
        raise PlaneError("ValidationException", _NOT_FOUND)

    def _find_arn(self, request: Mapping[str, Any]) -> TrainingJob:
        kind, _, name = request["ResourceArn"].rpartition(":")[2].partition("/")
        work = WorkKind.PROCESSING if kind == "processing-job" else WorkKind.TRAINING
        job = self._jobs.get(marked(name, work))
        if job and job.arn == request["ResourceArn"]:
            return job
        raise PlaneError("ValidationException", _NOT_FOUND)


def _exceeded(quota: str, *, limit: int, used: int, wanted: int) -> PlaneError:
    return PlaneError(
        "ResourceLimitExceeded",
        f"The account-level service limit '{quota}' is {limit} Instances, with current utilization "
        f"of {used} Instances and a request delta of {wanted} Instances. Please use AWS Service "
        "Quotas to request an increase for this quota.",
    )


def _as_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


_DEFAULT_PAGE = 10


def page_of(
    jobs: Iterable[TrainingJob],
    request: Mapping[str, Any],
    summaries: str = "TrainingJobSummaries",
) -> dict[str, Any]:
    """One page. `StatusEquals` filters after the page is cut, so an empty page can have a next
    page."""
    order = _ORDERS[request.get("SortBy", "CreationTime")]
    chosen = sorted(
        (job for job in jobs if _is_listed(job, request)),
        key=lambda job: (*order(job), job.name),
        reverse=request.get("SortOrder") == "Descending",
    )
    if token := request.get("NextToken"):
        chosen = _after(chosen, _decode(token))
    size = request.get("MaxResults", _DEFAULT_PAGE)
    cut, rest = chosen[:size], chosen[size:]
    status = request.get("StatusEquals")
    answer: dict[str, Any] = {
        summaries: [job.summary() for job in cut if status is None or job.status == status]
    }
    if rest:
        answer["NextToken"] = base64.urlsafe_b64encode(cut[-1].name.encode()).decode()
    return answer


def _by_creation(job: TrainingJob) -> tuple[int, int]:
    return job.created_at, job.serial


def _by_name(job: TrainingJob) -> tuple[str, int]:
    return job.name, job.serial


def _by_status(job: TrainingJob) -> tuple[str, int]:
    return job.status, job.serial


_ORDERS: Mapping[str, Any] = {
    "CreationTime": _by_creation,
    "Name": _by_name,
    "Status": _by_status,
}


def _is_listed(job: TrainingJob, request: Mapping[str, Any]) -> bool:
    times = {
        "CreationTime": to_datetime(job.created_at),
        "LastModifiedTime": to_datetime(job.modified_at),
    }
    warm, plan = request.get("WarmPoolStatusEquals"), request.get("TrainingPlanArnEquals")
    return (
        is_listed(bare(job.name), times, request)
        and warm in {None, job.warm_status}
        and plan in {None, job.plan}
    )


def _decode(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except ValueError:
        raise PlaneError("ValidationException", "Invalid NextToken") from None


def _after(chosen: list[TrainingJob], name: str) -> list[TrainingJob]:
    """The jobs after the last one of the previous page."""
    names = [job.name for job in chosen]
    return chosen[names.index(name) + 1 :] if name in names else []
