"""Settings of the training plane: injected faults, and the duration of normal steps.

A counting knob (`int`) applies to that many next occasions and counts down. Set knobs at the start
(`slotq local start --knob NAME=VALUE`) or while the emulator runs:

    curl -H "x-slotq-token: $SLOTQ_LOCAL_TOKEN" $AWS_ENDPOINT_URL/_slotq/knobs -d '{"throttle": 1}'

The answer lists all knobs with their current values. GET lists them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any

from slotq_core.wire.pool_definition import LONGEST


@dataclass(kw_only=True)
class Knobs:
    start_seconds: float = 0.0
    """Seconds that a training job stays in Starting."""
    grace_seconds: float = 120.0
    """Seconds between SIGTERM and SIGKILL."""
    refuse_creates: int = 0
    """CreateTrainingJob returns ResourceLimitExceeded."""
    refuse_for_quota: int = 0
    """CreateTrainingJob returns ResourceLimitExceeded for the quota that `refused_quota` names."""
    refused_quota: str = "Number of instances across all processing jobs"
    """The name of that quota, in Service Quotas' words."""
    refuse_region: int = 0
    """CreateTrainingJob returns ResourceLimitExceeded "not available in this region"."""
    fail_provisioning: int = 0
    """After Starting, the training job ends Failed with "CapacityError: Unable to provision …"."""
    fail_insufficient: int = 0
    """After Starting, the training job is Pending and ends Failed with "InsufficientCapacityError:
    …", as a job whose training plan has no room for it in time."""
    fail_internally: int = 0
    """After Starting, the training job ends Failed with "InternalServerError: …"."""
    fail_assuming: int = 0
    """After Starting, the training job ends Failed with "ClientError: SageMaker was unable to
    assume the role …"."""
    stick_pending: int = 0
    """After Starting, the training job stays in Pending until it is stopped."""
    spot_seconds: float = 0.0
    """Seconds that managed spot training waits for its instances, at the start and after an
    interruption, in addition to `start_seconds`."""
    stick_spot: int = 0
    """The instances of managed spot training do not come, at the start or after an interruption:
    the training job waits until its MaxWaitTimeInSeconds is over."""
    interrupt_spot: int = 0
    """Managed spot training loses its instances `interrupt_after` seconds after it has begun to
    run, and waits for others. Counts the training jobs that begin to run."""
    interrupt_after: float = 0.0
    """Seconds."""
    release_seconds: float = 0.0
    """Seconds until warm instances are gone that UpdateTrainingJob lets go."""
    plan_end_seconds: float = 0.0
    """Seconds until a training plan's instances are taken, from when SageMaker begins to, 30
    minutes before a window's end."""
    spot_price: float = 0.3
    """What managed spot training costs, as a part of the price on demand: BillableTimeInSeconds is
    this part of TrainingTimeInSeconds."""
    throttle: int = 0
    """Any call returns ThrottlingException."""
    lose_answers: int = 0
    """Create and stop take effect, but the caller gets no answer."""
    lose_events: int = 0
    """State-change events that are not delivered."""
    double_events: int = 0
    """State-change events that are delivered twice."""
    denied: str = ""
    """Operations that return AccessDeniedException: IAM's names, separated by commas
    (sagemaker:CreateTrainingJob,iam:PassRole)."""
    lost_roles: str = ""
    """Execution roles that cannot be assumed: a pattern for ARNs."""
    match: str = "*"
    """Counting knobs apply only to training jobs whose name matches this pattern (`*`, `?`)."""
    limits: dict[str, int] = field(default_factory=dict)
    """The account's service limit: instances by type, without managed spot training. A missing
    type has no limit."""
    quotas: dict[str, int] = field(default_factory=dict)
    """The account's other quotas, by the names of Service Quotas: `<type> for spot training job
    usage`, `<type> for training warm pool usage`, `Number of instances across all training jobs`,
    `Number of instances across all processing jobs` (one instance for each rule of the debugger and
    the profiler). A missing name has no limit."""

    def take(self, knob: str, training_job: str = "") -> bool:
        """Whether a counting knob applies to this occasion. Counts the knob down."""
        left: int = getattr(self, knob)
        if left <= 0 or (training_job and not fnmatchcase(training_job, self.match)):
            return False
        setattr(self, knob, left - 1)
        return True

    def spot_delay(self, _training_job: str) -> float:
        """How many seconds managed spot training waits for its instances now."""
        return self.spot_seconds

    def interruption(self, training_job: str) -> float | None:
        """How many seconds managed spot training keeps the instances that it has got. None: until
        its end."""
        return self.interrupt_after if self.take("interrupt_spot", training_job) else None

    def denies(self, action: str) -> bool:
        """Whether callers are denied this action."""
        return action in self.denied.split(",")

    def turn(self, values: Mapping[str, Any]) -> None:
        """Set several knobs, all or none. Raises ValueError with the allowed values."""
        read = {name: _read(name, value) for name, value in values.items()}
        for name, value in read.items():
            setattr(self, name, value)

    def view(self) -> dict[str, Any]:
        return asdict(self)


_KINDS = {knob.name: str(knob.type) for knob in fields(Knobs)}


def _read(name: str, value: Any) -> Any:
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"there is no knob '{name}'; the knobs are {', '.join(sorted(_KINDS))}")
    if kind.startswith("dict"):
        return _limits(name, value)
    if kind == "str":
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    most = 1 if name == "spot_price" else LONGEST
    if not 0 <= number <= most or (kind == "int" and number != int(number)):
        what = "a whole number" if kind == "int" else "a number of seconds"
        raise ValueError(f"the knob '{name}' takes {what}, at least 0, not {value!r}")
    return int(number) if kind == "int" else number


def _limits(name: str, value: Any) -> dict[str, int]:
    """`{"ml.m5.large": 2}`, or the same as text: `ml.m5.large=2,ml.g5.xlarge=1`."""
    try:
        if isinstance(value, str):
            value = dict(part.rsplit("=", 1) for part in value.split(",") if part)
        limits = {str(kind): int(count) for kind, count in value.items()}
        if any(count < 0 for count in limits.values()):
            raise ValueError("a negative limit")
        return limits
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"the knob '{name}' takes {_COUNTED[name]} with counts, such as {_EXAMPLES[name]}"
        ) from None


_COUNTED = {"limits": "instance types", "quotas": "names of quotas"}
_EXAMPLES = {
    "limits": "ml.m5.large=2",
    "quotas": "Number of instances across all training jobs=2",
}
