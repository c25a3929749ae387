"""One training job on the plane: the record that SageMaker keeps, and the answers that show it."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from slotq.local.training.runner import LONGEST_REASON, WorkEnd
from slotq_core.model.capacity.work import WorkKind
from slotq_core.timestamps import from_datetime, to_datetime

ENDED = frozenset({"Completed", "Failed", "Stopped"})
_DAY = 86400
WARM_QUOTA = "for training warm pool usage"
"""The name of the quota of warm instances, behind their type."""
_MESSAGES = {
    "Starting": "Preparing the instances for training",
    "Pending": "Waiting for instances",
    "Downloading": "Downloading the training image and the input data",
    "Training": "Training image download completed. Training in progress.",
    "Uploading": "Uploading generated training model",
    "Stopping": "Stopping the training job",
    "Stopped": "Training job stopped",
    "Interrupted": "The managed spot training instances were interrupted",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job exceeded the maximum allowed wait time",
    "Completed": "Training job completed",
}
_ECHOED = (
    "AlgorithmSpecification",
    "CheckpointConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "Environment",
    "ExperimentConfig",
    "InfraCheckConfig",
    "InputDataConfig",
    "MlflowConfig",
    "ModelPackageConfig",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "RemoteDebugConfig",
    "ResourceConfig",
    "RetryStrategy",
    "RoleArn",
    "TensorBoardOutputConfig",
    "VpcConfig",
)

_NOT_IN_EVENTS = frozenset({"BillableTimeInSeconds"})


@dataclass(kw_only=True)
class Transition:
    status: str
    start: int
    end: int | None = None
    message: str = ""


@dataclass(kw_only=True)
class TrainingJob:
    """A record that the plane changes. Times in milliseconds."""

    work: ClassVar[WorkKind] = WorkKind.TRAINING
    event_type: ClassVar[str] = "SageMaker Training Job State Change"
    request: dict[str, Any]
    arn: str
    serial: int
    created_at: int
    tags: dict[str, str]
    status: str = "InProgress"
    secondary: str = ""
    transitions: list[Transition] = field(default_factory=list)
    modified_at: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    failure_reason: str = ""
    due: int | None = None
    """The time of the next change that needs only time: the end of provisioning, of the maximum
    runtime or of the grace."""
    stopped_as: str = "Stopped"
    """The secondary status after a stop: Stopped, MaxRuntimeExceeded or MaxWaitTimeExceeded."""
    runs_since: int | None = None
    """When the instances came that the job has. None: it has none."""
    ran: int = 0
    """How long it ran before, on instances that were taken back (ms)."""
    billed_part: float = 1.0
    """The part of its training time that is billed."""
    interrupted_at: int | None = None
    """When the instances will be taken back. None: they are not."""
    waits_for_plan: bool = False
    """Whether it waits for room in its training plan."""
    warm: str = ""
    """The status of the instances that stay after the end, in SageMaker's words; empty: none do."""
    warm_since: int = 0
    warm_until: int = 0
    """When they go, or went."""
    lets_go: bool = False
    """Whether the queue has let them go: no other job starts on them."""
    reused_by: str = ""
    is_warm: bool = False
    """Whether it starts on the instances of another training job."""
    exit: WorkEnd | None = None
    """The result of the work. None until the work ends."""

    @property
    def name(self) -> str:
        return str(self.request["TrainingJobName"])

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def instances(self) -> dict[str, int]:
        """The number of instances by type."""
        resources = self.request["ResourceConfig"]
        groups = resources.get("InstanceGroups") or [resources]
        count: dict[str, int] = {}
        for group in groups:
            kind = group.get("InstanceType", "")
            count[kind] = count.get(kind, 0) + int(group.get("InstanceCount", 1))
        return count

    @property
    def plan(self) -> str:
        """The ARN of the training plan whose instances it uses. Empty: none."""
        return str(self.request["ResourceConfig"].get("TrainingPlanArn") or "")

    @property
    def is_spot(self) -> bool:
        return bool(self.request.get("EnableManagedSpotTraining"))

    @property
    def keep_alive(self) -> int:
        """For how many seconds its instances are to stay. Those of a training plan do not."""
        if self.plan:
            return 0
        return int(self.request["ResourceConfig"].get("KeepAlivePeriodInSeconds") or 0)

    def counts_in(self, quota: str) -> int:
        """How many instances the job counts in a quota of the account, by its name."""
        if quota == "Number of instances across all training jobs":
            return sum(self.instances.values())
        if quota == "Number of instances across all processing jobs":
            rules = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
            return sum(len(self.request.get(key) or ()) for key in rules)
        if self.plan:
            return 0  # Bought apart from the account's quotas of types.
        usage = "spot training job usage" if self.is_spot else "training job usage"
        kind, _, what = quota.partition(" for ")
        if quota.endswith(WARM_QUOTA):
            return self.instances.get(kind, 0) if self.keep_alive and not self.is_warm else 0
        return self.instances.get(kind, 0) if what == usage else 0

    @property
    def max_runtime(self) -> int:
        """The maximum runtime in milliseconds."""
        condition = self.request.get("StoppingCondition") or {}
        return 1000 * int(condition.get("MaxRuntimeInSeconds", _DAY))

    @property
    def waits_until(self) -> int | None:
        """The end of the maximum wait of managed spot training. None: it has none."""
        longest = (self.request.get("StoppingCondition") or {}).get("MaxWaitTimeInSeconds")
        return self.created_at + 1000 * int(longest) if self.is_spot and longest else None

    @property
    def artifact(self) -> str:
        base = self.request["OutputDataConfig"]["S3OutputPath"].rstrip("/")
        packed = self.request["OutputDataConfig"].get("CompressionType") != "NONE"
        return f"{base}/{self.name}/output/model{'.tar.gz' if packed else '/'}"

    def enter(self, status: str, secondary: str, now: int, message: str = "") -> None:
        if self.transitions:
            self.transitions[-1].end = now
        self.status, self.secondary, self.modified_at = status, secondary, now
        said = message or _MESSAGES.get(secondary, "")
        last = Transition(status=secondary, start=now, message=said)
        if status in ENDED:
            last.end = self.ended_at = now
        self.transitions.append(last)

    def description(self) -> dict[str, Any]:
        """A DescribeTrainingJob answer, with every field that the two SDKs read."""
        request = self.request
        shown: dict[str, Any] = {
            "TrainingJobName": self.name,
            "TrainingJobArn": self.arn,
            "ModelArtifacts": {"S3ModelArtifacts": self.artifact},
            "TrainingJobStatus": self.status,
            "SecondaryStatus": self.secondary,
            "HyperParameters": dict(request.get("HyperParameters") or {}),
            "OutputDataConfig": {"KmsKeyId": "", **request["OutputDataConfig"]},
            "StoppingCondition": {
                "MaxRuntimeInSeconds": _DAY,
                **(request.get("StoppingCondition") or {}),
            },
            "CreationTime": to_datetime(self.created_at),
            "LastModifiedTime": to_datetime(self.modified_at),
            "SecondaryStatusTransitions": [
                _transition(transition) for transition in self.transitions
            ],
            "EnableNetworkIsolation": bool(request.get("EnableNetworkIsolation")),
            "EnableInterContainerTrafficEncryption": bool(
                request.get("EnableInterContainerTrafficEncryption")
            ),
            "EnableManagedSpotTraining": bool(request.get("EnableManagedSpotTraining")),
            "ProfilingStatus": "Disabled",
            **{key: copy.deepcopy(request[key]) for key in _ECHOED if request.get(key)},
        }
        return shown | self._times() | self._failure() | self._metrics() | self._warm_pool()

    @property
    def warm_status(self) -> str:
        """The status of its warm pool, in SageMaker's words; empty: it has none."""
        return "InUse" if self.keep_alive and not self.ended else self.warm

    def _warm_pool(self) -> dict[str, Any]:
        status = self.warm_status
        if not status:
            return {}
        shown: dict[str, Any] = {"Status": status}
        if status in {"Reused", "Terminated"}:
            kept = self.warm_until - self.warm_since
            shown["ResourceRetainedBillableTimeInSeconds"] = kept // 1000
        if self.reused_by:
            shown["ReusedByJob"] = self.reused_by
        return {"WarmPoolStatus": shown}

    def _metrics(self) -> dict[str, Any]:
        if not self.ended or self.exit is None or not self.exit.metrics:
            return {}
        moment = to_datetime(self.ended_at or 0)
        metrics = sorted(self.exit.metrics.items())
        return {
            "FinalMetricDataList": [
                {"MetricName": name, "Value": value, "Timestamp": moment} for name, value in metrics
            ]
        }

    def _times(self) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        if self.started_at is not None:
            shown["TrainingStartTime"] = to_datetime(self.started_at)
        if self.ended_at is not None:
            shown["TrainingEndTime"] = to_datetime(self.ended_at)
            since = self.ended_at if self.runs_since is None else self.runs_since
            ran = self.ran + self.ended_at - since
            shown["TrainingTimeInSeconds"] = max(1, ran // 1000)
            shown["BillableTimeInSeconds"] = max(1, int(ran * self.billed_part) // 1000)
        return shown

    def _failure(self) -> dict[str, str]:
        return (
            {"FailureReason": self.failure_reason[:LONGEST_REASON]} if self.failure_reason else {}
        )

    def summary(self) -> dict[str, Any]:
        """One line of ListTrainingJobs, without tags and instances."""
        shown = {
            "TrainingJobName": self.name,
            "TrainingJobArn": self.arn,
            "CreationTime": to_datetime(self.created_at),
            "LastModifiedTime": to_datetime(self.modified_at),
            "TrainingJobStatus": self.status,
            "SecondaryStatus": self.secondary,
        }
        if self.ended_at is not None:
            shown["TrainingEndTime"] = to_datetime(self.ended_at)
        if self.plan:
            shown["TrainingPlanArn"] = self.plan
        return shown | self._warm_pool()

    def event(self, *, account: str, region: str) -> dict[str, Any]:
        """The EventBridge event for the current state."""
        serial = len(self.transitions)
        return {
            "version": "0",
            "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.arn}/{self.created_at}/{serial}")),
            "detail-type": self.event_type,
            "source": "aws.sagemaker",
            "account": account,
            "time": to_datetime(self.modified_at).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": region,
            "resources": [self.arn],
            "detail": _as_event(self._detail())
            | {"FinalMetricDataList": None, "Tags": dict(self.tags)},
        }

    def _detail(self) -> dict[str, Any]:
        """The description as in an event, which does not say what is billed."""
        return {
            key: value for key, value in self.description().items() if key not in _NOT_IN_EVENTS
        }


def _transition(transition: Transition) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "Status": transition.status,
        "StartTime": to_datetime(transition.start),
        "StatusMessage": transition.message,
    }
    if transition.end is not None:
        shown["EndTime"] = to_datetime(transition.end)
    return shown


def _as_event(value: Any) -> Any:
    """Datetimes in an event's form: epoch milliseconds."""
    if isinstance(value, str):  # Most values are: for them a look at Mapping would cost the most.
        return value
    if isinstance(value, datetime):
        return from_datetime(value)
    if isinstance(value, Mapping):
        return {key: _as_event(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_as_event(member) for member in value]
    return value


def longest_pending(job: TrainingJob) -> int | None:
    """How long (ms) the training job may wait for instances, if its request says so."""
    longest = (job.request.get("StoppingCondition") or {}).get("MaxPendingTimeInSeconds")
    return None if longest is None else 1000 * int(longest)
