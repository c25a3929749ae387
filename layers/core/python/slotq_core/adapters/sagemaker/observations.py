"""Read what SageMaker reports of a training job, in an event or an answer, as an Observation.

No field is trusted: fields may be null, and times may be datetimes or epoch milliseconds as numbers
or strings. Unknown values raise NotUnderstood; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from slotq_core import names
from slotq_core.adapters.sagemaker.sagemaker_errors import (
    PENDED_OUT,
    OutcomeRow,
    outcome_of,
)
from slotq_core.adapters.sagemaker.sagemaker_rights import action_in, quota_in
from slotq_core.errors import NotUnderstood
from slotq_core.model.capacity.work import work_of
from slotq_core.model.pools import ServiceQuota
from slotq_core.model.reports import MOST_FINAL, final_metrics
from slotq_core.ports.training import RIGHTS, Observation, Phase, Verdict, Warmth
from slotq_core.timestamps import FAR_OFF
from slotq_core.usage.attempt_use import LONGEST

TOKEN_TAG = "slotq:token"  # noqa: S105 - a tag's name, not a secret # nosec B105
"""Tag with the attempt's token, one of the ownership tags of a training job."""

ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the readers raise for data that does not have SageMaker's form."""

_LONGEST_TEXT = 4096
"""Maximum length (characters) of a text. SageMaker's longest, a FailureReason, has 1,024; a
DynamoDB item has at most 400 KB."""

PROCESSING_NAME = "ProcessingJobName"
"""The member that only news of processing jobs have."""
_LIVE = frozenset({"InProgress", "Stopping"})


def observation_of_event(event: Mapping[str, Any], *, at: int) -> Observation:
    """Return the observation in a training-state event. Raises NotUnderstood; the reason quotes no
    text of a user."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise NotUnderstood("the event has no detail, or its detail is not an object")
    name = detail.get("TrainingJobName") or detail.get(PROCESSING_NAME)
    if not isinstance(name, str) or not names.is_legal(name):
        raise NotUnderstood("the event's detail names no training job")
    try:
        return observation_of(detail, at=at)
    except ODD as error:
        kind = type(error).__name__
        raise NotUnderstood(
            f"the event's detail does not have SageMaker's form ({kind})"
        ) from error


def observation_of(detail: Mapping[str, Any], *, at: int) -> Observation:
    """Return the observation in an event's `detail`, or in the answer of DescribeTrainingJob or
    DescribeProcessingJob.

    `at` (ms) is used if the detail has no time. Raises NotUnderstood if the status is unknown.
    """
    if PROCESSING_NAME in detail and "TrainingJobName" not in detail:
        # Most queues have no processing jobs, and no cold start should pay for them.
        from slotq_core.adapters.sagemaker.processing import in_training_words

        detail = in_training_words(detail)
    status = text_in(detail, "TrainingJobStatus")
    secondary = text_in(detail, "SecondaryStatus")
    reason = text_in(detail, "FailureReason")
    ended = outcome_in(detail)
    if ended is None and status not in _LIVE:
        raise NotUnderstood(f"unknown TrainingJobStatus '{status[:40]}'")
    phase = ended.phase if ended else _phase(status, secondary)
    return Observation(
        training_job=text_in(detail, "TrainingJobName"),
        phase=phase,
        at=_moment(detail, phase, at),
        running_since=milliseconds(detail.get("TrainingStartTime")),
        verdict=ended.verdict if ended else Verdict.OK,
        max_runtime=bool(ended and ended.max_runtime),
        trained=_duration(detail, "TrainingTimeInSeconds") if ended else None,
        billed=_duration(detail, "BillableTimeInSeconds") if ended else None,
        max_wait=bool(ended and ended.max_wait),
        interrupted=is_interrupted(detail),
        changed_at=_since(detail) or milliseconds(detail.get("LastModifiedTime")) or at,
        message=reason or (ended.message if ended else ""),
        artifact=text_in(detail.get("ModelArtifacts") or {}, "S3ModelArtifacts"),
        checkpoints=text_in(detail.get("CheckpointConfig") or {}, "S3Uri"),
        token=_token(detail),
        pending=status == "InProgress" and secondary == "Pending",
        quota=_quota(detail, reason) if ended and ended.verdict is Verdict.BACK_OFF else None,
        action=action_in(reason, code="") if ended and ended.verdict in RIGHTS else "",
        metrics=tuple(_metrics(detail)) if ended else (),
        **_warmth(detail),
        odd="; ".join(_odd(detail, secondary, at)),
    )


def _quota(detail: Mapping[str, Any], reason: str) -> ServiceQuota | None:
    return quota_in(reason, work_of(text_in(detail, "TrainingJobName")))


_WARMTH = {
    "InUse": Warmth.IN_USE,
    "Available": Warmth.AVAILABLE,
    "Reused": Warmth.REUSED,
    "Terminated": Warmth.GONE,
}


def _warmth(detail: Mapping[str, Any]) -> dict[str, Any]:
    """What has become of instances that were to be kept; nothing of a status that is unknown."""
    said = detail.get("WarmPoolStatus")
    if not isinstance(said, Mapping) or said.get("Status") not in _WARMTH:
        return {}
    billed = said.get("ResourceRetainedBillableTimeInSeconds")
    return {
        "warmth": _WARMTH[said["Status"]],
        "reused_by": text_in(said, "ReusedByJob"),
        "kept_warm": 1000 * billed if isinstance(billed, int) else None,
    }


def _metrics(detail: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the final metrics, the first `MOST_FINAL`. Malformed ones are left out."""
    metrics = detail.get("FinalMetricDataList")
    for metric in (metrics if isinstance(metrics, list) else [])[:MOST_FINAL]:
        if isinstance(metric, Mapping) and isinstance(name := metric.get("MetricName"), str):
            yield from final_metrics({name: metric.get("Value")}).items()


_SECONDARY = frozenset(
    {
        *("Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack"),
        *("Downloading", "DownloadingTrainingImage", "Training", "Interrupted", "Uploading"),
        *("Updating", "Restarting", "Stopping", "Stopped", "Completed", "Failed", "Deleting"),
        *("MaxRuntimeExceeded", "MaxWaitTimeExceeded"),
    }
)
_INTERRUPTED = frozenset({"Interrupted", "Restarting"})
_TIMES = ("CreationTime", "TrainingStartTime", "TrainingEndTime", "LastModifiedTime")


def _odd(detail: Mapping[str, Any], secondary: str, at: int) -> Iterator[str]:
    """Yield the unknown or missing parts of the detail. The observation is still valid."""
    if secondary and secondary not in _SECONDARY:
        yield f"unknown SecondaryStatus '{secondary[:40]}'"
    times = {key: milliseconds(detail[key]) for key in _TIMES if detail.get(key) is not None}
    yield from (f"{key} is not a time" for key, time in times.items() if time is None)
    if not times:
        yield "it has no time, so its arrival time counts"
    if any(time is not None and time > at + FAR_OFF for time in times.values()):
        yield "its time is far ahead of the queue's clock"


def _since(detail: Mapping[str, Any]) -> int | None:
    """Return since when (ms) the training job has its instances, or is without them after an
    interruption; None: it does not say."""
    transitions = detail.get("SecondaryStatusTransitions")
    found, was_away = None, False
    for transition in transitions if isinstance(transitions, list) else ():
        status = transition.get("Status") if isinstance(transition, Mapping) else None
        if not isinstance(status, str):
            continue
        is_away = status in _INTERRUPTED or (was_away and status in _WITHOUT_INSTANCES)
        if found is None or is_away is not was_away:
            found = milliseconds(transition.get("StartTime"))
        was_away = is_away
    return found


def is_interrupted(detail: Mapping[str, Any]) -> bool:
    """Whether SageMaker has taken the instances of a training job back and goes on later."""
    live = detail.get("TrainingJobStatus") == "InProgress"
    return live and detail.get("SecondaryStatus") in _INTERRUPTED


def outcome_in(detail: Mapping[str, Any]) -> OutcomeRow | None:
    """Return how the training job has ended; None if it has not."""
    return outcome_of(
        status=text_in(detail, "TrainingJobStatus"),
        secondary=PENDED_OUT if _pended_out(detail) else text_in(detail, "SecondaryStatus"),
        reason=text_in(detail, "FailureReason"),
    )


def _token(detail: Mapping[str, Any]) -> str | None:
    """Return the token, which only events carry: an event has the tags as a map, a description has
    none."""
    tags = detail.get("Tags")
    return text_in(tags, TOKEN_TAG) if isinstance(tags, Mapping) else None


def _pended_out(detail: Mapping[str, Any]) -> bool:
    """Whether the training job was stopped after its maximum pending time, without ever having had
    instances."""
    longest = (detail.get("StoppingCondition") or {}).get("MaxPendingTimeInSeconds")
    created = milliseconds(detail.get("CreationTime"))
    ended = _moment(detail, Phase.STOPPED, 0)
    if detail.get("TrainingStartTime") or not longest or created is None:
        return False
    return text_in(detail, "TrainingJobStatus") == "Stopped" and ended - created >= 1000 * int(
        longest
    )


_WITHOUT_INSTANCES = frozenset(
    {"", "Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack"}
)


def _phase(status: str, secondary: str) -> Phase:
    if status == "Stopping":
        return Phase.STOPPING
    return Phase.STARTING if secondary in _WITHOUT_INSTANCES else Phase.RUNNING


_TIME_OF = {Phase.RUNNING: ("TrainingStartTime",)} | dict.fromkeys(
    (Phase.COMPLETED, Phase.STOPPED, Phase.FAILED), ("TrainingEndTime",)
)


def _moment(detail: Mapping[str, Any], phase: Phase, at: int) -> int:
    """Return the time (ms) of the phase: the time that belongs to the phase, else the last change,
    else `at`."""
    for key in (*_TIME_OF.get(phase, ()), "LastModifiedTime"):
        if (moment := milliseconds(detail.get(key))) is not None:
            return moment
    return at


def milliseconds(value: Any) -> int | None:
    """Return a time of SageMaker's in ms; None if it is none."""
    if isinstance(value, datetime):
        # botocore makes datetimes from fractions of seconds: round, or 0.123 becomes 122.
        return round(value.timestamp() * 1000)
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _duration(detail: Mapping[str, Any], key: str) -> int | None:
    """Return a time in seconds as ms; None if there is none, or no possible one."""
    found = milliseconds(detail.get(key))
    return 1000 * found if found is not None and 0 <= 1000 * found <= LONGEST else None


def text_in(detail: Mapping[str, Any], key: str) -> str:
    """Return a text field, cut to the maximum length. Characters that UTF-8 cannot encode are
    replaced, because no item and no answer could hold them. Raises TypeError if the value is no
    text."""
    value = detail.get(key) or ""
    if not isinstance(value, str):
        raise TypeError(f"{key} is not a text")
    return value[:_LONGEST_TEXT].encode(errors="replace").decode()
