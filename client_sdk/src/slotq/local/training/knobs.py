"""What the training plane does out of the ordinary, and how long the ordinary takes.

A knob that counts (`int`) applies to that many next occasions and counts itself down. All may be
set at the start (`slotq local start --knob NAME=VALUE`) and while the emulator runs:

    curl -H "x-slotq-token: $SLOTQ_LOCAL_TOKEN" $AWS_ENDPOINT_URL/_slotq/knobs -d '{"throttle": 1}'

The answer is all knobs as they now stand; GET shows them.
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
    """How long a training job stays in Starting."""
    grace_seconds: float = 120.0
    """How long after SIGTERM comes SIGKILL."""
    refuse_creates: int = 0
    """CreateTrainingJob answers ResourceLimitExceeded."""
    refuse_region: int = 0
    """CreateTrainingJob answers ResourceLimitExceeded "not available in this region"."""
    fail_provisioning: int = 0
    """After Starting, the training job ends Failed with "CapacityError: Unable to provision …"."""
    fail_internally: int = 0
    """After Starting, the training job ends Failed with "InternalServerError: …"."""
    fail_assuming: int = 0
    """After Starting, the training job ends Failed with "ClientError: SageMaker was unable to
    assume the role …"."""
    stick_pending: int = 0
    """After Starting, the training job stays in Pending until it is stopped."""
    throttle: int = 0
    """Any call answers ThrottlingException."""
    lose_answers: int = 0
    """Create and stop take effect, but the caller gets no answer."""
    lose_events: int = 0
    """State-change events that are never delivered."""
    double_events: int = 0
    """State-change events that are delivered twice."""
    denied: str = ""
    """Operations that answer AccessDeniedException, as IAM calls them, with commas between:
    sagemaker:CreateTrainingJob,iam:PassRole."""
    lost_roles: str = ""
    """Execution roles whose ARN fits this pattern cannot be assumed."""
    match: str = "*"
    """The counting knobs touch only training jobs whose name fits this pattern (`*`, `?`)."""
    limits: dict[str, int] = field(default_factory=dict)
    """The account's service limit of instances by type; a type that is left out has none."""

    def take(self, knob: str, training_job: str = "") -> bool:
        """Whether this occasion is one of those that the counting knob asks for; counts it."""
        left: int = getattr(self, knob)
        if left <= 0 or (training_job and not fnmatchcase(training_job, self.match)):
            return False
        setattr(self, knob, left - 1)
        return True

    def denies(self, action: str) -> bool:
        """Whether whoever calls may not do that."""
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
        raise ValueError(f"there is no knob '{name}'; there are {', '.join(sorted(_KINDS))}")
    if kind.startswith("dict"):
        return _limits(value)
    if kind == "str":
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= LONGEST or (kind == "int" and number != int(number)):
        what = "a whole number" if kind == "int" else "a number of seconds"
        raise ValueError(f"the knob '{name}' takes {what} from 0 up, not {value!r}")
    return int(number) if kind == "int" else number


def _limits(value: Any) -> dict[str, int]:
    """`{"ml.m5.large": 2}`, or the same as text: `ml.m5.large=2,ml.g5.xlarge=1`."""
    try:
        if isinstance(value, str):
            value = dict(part.split("=", 1) for part in value.split(",") if part)
        limits = {str(kind): int(count) for kind, count in value.items()}
        if any(count < 0 for count in limits.values()):
            raise ValueError("a negative limit")
        return limits
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            "the knob 'limits' takes instance types with counts from 0 up: ml.m5.large=2"
        ) from None
