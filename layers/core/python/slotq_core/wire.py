"""JSON <-> model: what a submission may say, and what the queue answers. Version 1.

Pydantic lives here and nowhere else in the core; the event path of the Lambda never imports it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import pydantic
from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from slotq_core import names, strict_json
from slotq_core.definitions import settings_of
from slotq_core.errors import InvalidRequest
from slotq_core.model import Attempt, Demand, Job, Pool, Submission
from slotq_core.moments import iso, seconds
from slotq_core.outlook import Outlook
from slotq_core.reasons import Number, Reason


class BaseModel(pydantic.BaseModel):
    """Built with its first use, not at import: a cold start answers one request, with few of
    them."""

    model_config = ConfigDict(defer_build=True)


VERSION = 1
PRIORITY_LIMIT = 1_000_000
MAX_RETRIES = 100
MAX_TAGS = 46
"""SageMaker allows 50 tags, and the queue adds four of its own."""
MAX_BODY = 1_000_000
"""Bytes of a submission, on any way in. API Gateway itself takes up to 10 MB, an asynchronous
Lambda payload 1 MB; a CreateTrainingJob request of every field at its limit stays below this."""

MAX_INSTANCES = 10_000
"""Of one job: as many as a pool may have."""
_MAX_TYPE = 64
_MAX_ROLE = 2048
_MAX_GROUPS = 5
"""SageMaker's limits."""
_SHOWN = 100
"""Characters of a field's path that come back: it may hold a key of the body's."""

PRIORITY_TAG = "priority"
SETTING_TAGS = (
    "slotq:pools",
    "slotq:preemptible",
    "slotq:min-runtime",
    "slotq:retries",
    names.RUNTIME_LIMIT_TAG,
)
_ALLOWED_TAGS = ", ".join((PRIORITY_TAG, *SETTING_TAGS))


class InstanceGroup(BaseModel):
    model_config = ConfigDict(extra="allow")
    InstanceType: str = Field(max_length=_MAX_TYPE)
    InstanceCount: int = Field(ge=1, le=MAX_INSTANCES, strict=True)


class ResourceConfig(BaseModel):
    """Either InstanceType and InstanceCount, or InstanceGroups of one type."""

    model_config = ConfigDict(extra="allow")
    InstanceType: str | None = Field(default=None, max_length=_MAX_TYPE)
    InstanceCount: int | None = Field(default=None, ge=1, le=MAX_INSTANCES, strict=True)
    InstanceGroups: list[InstanceGroup] | None = Field(default=None, max_length=_MAX_GROUPS)
    TrainingPlanArn: str = Field(default="", max_length=_MAX_ROLE)

    @model_validator(mode="after")
    def _has_instances(self) -> Self:
        if "InstancePreferences" in (self.model_extra or {}):
            raise ValueError(
                "leave out InstancePreferences: a job prefers pools, by the tag 'slotq:pools'"
            )
        if self.InstanceGroups:
            kinds = sorted({group.InstanceType for group in self.InstanceGroups})
            if len(kinds) > 1:
                raise ValueError(
                    f"InstanceGroups must all be of one instance type, not {', '.join(kinds)}"
                )
        elif self.InstanceType is None or self.InstanceCount is None:
            raise ValueError("give InstanceType and InstanceCount (at least 1), or InstanceGroups")
        return self

    @property
    def instance_type(self) -> str:
        return (
            self.InstanceGroups[0].InstanceType if self.InstanceGroups else self.InstanceType or ""
        )

    @property
    def instances(self) -> int:
        if self.InstanceGroups:
            return sum(group.InstanceCount for group in self.InstanceGroups)
        return self.InstanceCount or 0


class Tag(BaseModel):
    model_config = ConfigDict(extra="forbid")
    Key: str = Field(min_length=1, max_length=128)
    Value: str = Field(max_length=256)


class SubmissionBody(BaseModel):
    """A CreateTrainingJob request whose queue settings travel as tags.

    Fields that are not named here are SageMaker's business and are passed on untouched.
    """

    model_config = ConfigDict(extra="allow")
    TrainingJobName: str = Field(json_schema_extra=names.SCHEMA)
    RoleArn: str = Field(default="", max_length=_MAX_ROLE)
    ResourceConfig: ResourceConfig
    Tags: list[Tag] = Field(default_factory=list, max_length=MAX_TAGS)

    @field_validator("TrainingJobName")
    @classmethod
    def _legal_name(cls, name: str) -> str:
        if not names.is_legal(name):
            raise ValueError(
                "use 1 to 63 letters, digits and hyphens, with a letter or digit at either end"
            )
        if names.STAMP in name:
            raise ValueError(f"'{names.STAMP}' marks the queue's own names; leave it out")
        return name

    @field_validator("Tags")
    @classmethod
    def _known_tags(cls, tags: list[Tag]) -> list[Tag]:
        keys = [tag.Key for tag in tags]
        for key in keys:
            if key.startswith("slotq:") and key not in SETTING_TAGS:
                raise ValueError(f"the tag '{key}' is not known; the queue reads {_ALLOWED_TAGS}")
            if keys.count(key) > 1:
                raise ValueError(f"the tag '{key}' is there more than once")
        return tags

    @model_validator(mode="after")
    def _readable_settings(self) -> Self:
        _ = self.priority, self.pools, self.preemptible, self.min_runtime, self.retries
        limit = self._tag(names.RUNTIME_LIMIT_TAG)
        if limit not in {None, "job", "attempt"}:
            raise ValueError(
                f"the tag '{names.RUNTIME_LIMIT_TAG}' takes job or attempt, not '{limit}'"
            )
        return self

    def _tag(self, key: str) -> str | None:
        return next((tag.Value.strip() for tag in self.Tags if tag.Key == key), None)

    @property
    def priority(self) -> int:
        return _integer(PRIORITY_TAG, self._tag(PRIORITY_TAG), -PRIORITY_LIMIT, PRIORITY_LIMIT)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools asked for, the most welcome first; empty: any that offers the instance type."""
        text = self._tag("slotq:pools")
        if text is None:
            return ()
        wanted = tuple(part.strip() for part in text.split(","))
        if not all(wanted) or len(set(wanted)) < len(wanted):
            raise ValueError("the tag 'slotq:pools' takes different pool names, comma separated")
        return wanted

    @property
    def preemptible(self) -> bool:
        text = (self._tag("slotq:preemptible") or "true").lower()
        if text not in {"true", "false"}:
            raise ValueError(f"the tag 'slotq:preemptible' takes true or false, not '{text}'")
        return text == "true"

    @property
    def min_runtime(self) -> int:
        """Milliseconds; the tag counts seconds."""
        return 1000 * _integer("slotq:min-runtime", self._tag("slotq:min-runtime"), 0, 28 * 86400)

    @property
    def retries(self) -> int:
        return _integer("slotq:retries", self._tag("slotq:retries"), 0, MAX_RETRIES)


def _integer(tag: str, text: str | None, low: int, high: int) -> int:
    if text is None:
        return 0
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or not low <= int(text) <= high:
        raise ValueError(
            f"the tag '{tag}' takes an integer from {low:,} to {high:,}, not '{text[:40]}'"
        )
    return int(text)


def parse_submission(body: str | bytes | Mapping[str, Any]) -> tuple[Submission, dict[str, Any]]:
    """What a body asks for, and the body itself as the request to keep.

    Raises InvalidRequest with the path of the first field at fault and what would be right.
    """
    request = body if isinstance(body, Mapping) else json_object(body)
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"), default=str)
    if len(canonical.encode()) > MAX_BODY:
        raise InvalidRequest(f"the request is larger than {MAX_BODY:,} bytes")
    try:
        read = SubmissionBody.model_validate(request)
    except ValidationError as error:
        raise invalid(error) from None
    submission = Submission(
        name=read.TrainingJobName,
        instance_type=read.ResourceConfig.instance_type,
        demand=Demand(slots=read.ResourceConfig.instances),
        role=read.RoleArn,
        plan=read.ResourceConfig.TrainingPlanArn,
        pools=read.pools,
        priority=read.priority,
        preemptible=read.preemptible,
        min_runtime=read.min_runtime,
        retries=read.retries,
        digest=hashlib.sha256(canonical.encode()).hexdigest(),
    )
    return submission, dict(request)


class AmendmentBody(BaseModel):
    """What shall be different about a job. Queue settings change as they are given: as tags."""

    model_config = ConfigDict(extra="forbid")
    held: bool | None = Field(default=None, strict=True)
    """True: it shall not start until it is released; false: it may."""
    tags: dict[str, str] = Field(default_factory=dict, max_length=MAX_TAGS)
    """Added to the job's tags, in place of those with the same key."""
    give_up: int | None = Field(default=None, strict=True, ge=0)
    """The number of the attempt that it gives up, to wait again at its place; of one that is over
    nothing is left to give up."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.held is None and not self.tags and self.give_up is None:
            raise ValueError("say what shall change: held, tags, give_up")
        return self


def parse_amendment(body: str | bytes) -> AmendmentBody:
    """Raises InvalidRequest with the field at fault."""
    try:
        return AmendmentBody.model_validate(json_object(body, what="the job's changes"))
    except ValidationError as error:
        raise invalid(error) from None


def retagged(request: Mapping[str, Any], tags: Mapping[str, str]) -> dict[str, Any]:
    """The request with these tags, in place of those with the same key."""
    kept = [tag for tag in request.get("Tags") or () if tag["Key"] not in tags]
    added = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {**request, "Tags": [*kept, *added]}


def json_object(body: str | bytes, what: str = "a CreateTrainingJob request") -> Mapping[str, Any]:
    """The JSON object that a body is. Raises InvalidRequest: `what` it should be."""
    if len(body) > MAX_BODY:
        raise InvalidRequest(f"the body is larger than {MAX_BODY:,} bytes")
    try:
        value = strict_json.parse(body)
    except strict_json.NotStrict as error:
        raise InvalidRequest(f"the body is not JSON that the queue takes: {error}") from None
    except ValueError:
        raise InvalidRequest(f"the body is not JSON; send {what}") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body must be a JSON object: {what}")
    return value


def invalid(error: ValidationError) -> InvalidRequest:
    """The first fault that pydantic has found, as the API tells it."""
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])[:_SHOWN]
    message = first["msg"].removeprefix("Value error, ")
    if not path and "tag '" in message:
        path = "Tags"
    return InvalidRequest(f"{path}: {message}" if path else message, field=path)


class ReasonView(BaseModel):
    """Why a job waits: `code` and `numbers` for programs, `text` for people."""

    code: str
    text: str
    numbers: dict[str, Number]


class OutlookView(BaseModel):
    """What a waiting job could have, and when: each entry as a reason is."""

    rooms: list[ReasonView]
    """What each of its pools has for it."""
    evictions: list[ReasonView]
    """What holds slots there, by why it is not evicted for the job."""
    reserved: list[ReasonView]
    """What is kept there for one job, this one or another."""
    times: list[ReasonView]
    """When time alone may change something for it, the earliest first."""
    earliest: str | None = None
    """The earliest time known; None: it depends on what others do."""


class AttemptView(BaseModel):
    number: int
    training_job: str
    pool: str
    instance_type: str
    admitted_at: str
    running_since: str | None = None
    ended_at: str | None = None
    outcome: str | None = None
    message: str = ""
    stop_cause: str | None = None
    """`evicted`, `requeued`, `cancelled` …, from the moment that it is decided; None where nobody
    wanted it to end."""
    stopped_for: str | None = None
    """The job that this attempt was evicted for, or who cancelled it or gave it up."""
    artifact: str = ""
    checkpoints: str = ""
    logs: str = ""
    """The CloudWatch log group, and after the colon what its streams' names begin with."""


class JobView(BaseModel):
    """One job as the queue shows it. Moments are ISO 8601 in UTC, durations seconds."""

    version: int = VERSION
    name: str
    state: str
    priority: int
    place: int | None = None
    """1 is next, among the waiting jobs that share a pool with it; None if it does not wait."""
    reason: ReasonView | None = None
    outlook: OutlookView | None = None
    """More than the reason; only where one job was asked for, and waits."""
    entry_time: str
    changed_at: str
    demand: dict[str, int]
    pools: list[str]
    pool: str | None = None
    """Where it runs; None while it does not."""
    preemptible: bool
    min_runtime: float
    retries: int
    submitter: str
    project: str = ""
    attempts_begun: int
    evictions: int
    training_job: str | None = None
    """The SageMaker training job of its latest attempt."""
    cause: str = ""
    """Why it is in its state, where the state alone does not say: `max_runtime`, `rejected` …"""
    message: str = ""
    attempts: list[AttemptView] = []
    """The history; only where one job was asked for."""


class RequestView(BaseModel):
    """A job's CreateTrainingJob request as it stands: as submitted, with the tags of today."""

    version: int = VERSION
    name: str
    request: dict[str, Any]
    withheld: list[str] = []
    """The fields that only those see who have the submitter's IAM identity."""


class QueueView(BaseModel):
    version: int = VERSION
    jobs: list[JobView]


class PoolHealthView(BaseModel):
    """What the queue has learned of a pool from SageMaker's refusals."""

    errors: int = 0
    """Capacity errors in a row; 0: healthy."""
    not_before: str | None = None
    """Nothing starts before."""
    learned: int | None = None
    """Slots that the account's service limit allows, where those are fewer than the capacity."""
    learned_until: str | None = None
    """When the configured capacity is tried again."""
    message: str = ""
    """SageMaker's last word on it."""


class PoolSettingsView(BaseModel):
    """A pool's settings, as PATCH /pools/{name} takes them. Durations are seconds."""

    slots: int
    instance_type: str
    reserve_after: int | None
    """How long a job that does not fit may be passed by others; None: for ever."""
    min_runtime: int
    """How long an attempt is safe from eviction."""
    max_min_runtime: int
    """The most that a job's own min_runtime counts."""
    time_slice: int | None
    """How long a job runs before it yields to another user's; None: as long as it likes."""
    pending_timeout: int | None
    """How long SageMaker may look for instances; None: for ever."""
    count_foreign: bool
    """Whether training jobs outside the queue count against it."""
    consolidate: bool
    """Whether what runs there may move to another pool."""
    resources: dict[str, int]
    """What it has besides slots."""
    state: str
    """`active`; `paused`: nothing starts; `drained`: nor does it count in anybody's share."""


class PoolView(BaseModel):
    """One pool as the queue uses it. Amounts are by resource; `slots` is an instance each."""

    name: str
    instance_type: str
    capacity: dict[str, int]
    """As configured."""
    size: dict[str, int]
    """What the queue may use of it now: the capacity, less while the account allows less, and
    without what others occupy."""
    used: dict[str, int]
    """By jobs that start, run or stop."""
    foreign: dict[str, int]
    """By training jobs outside the queue, where the pool counts them."""
    settings: PoolSettingsView
    health: PoolHealthView


class PoolsView(BaseModel):
    version: int = VERSION
    revision: int = 0
    """Of the configuration: rises with each change of it."""
    pools: list[PoolView]


class FindingView(BaseModel):
    """One way in which what is kept disagrees with itself or with SageMaker."""

    kind: str
    """For programs: `ended_unseen`, `orphan`, `ledger` …"""
    subject: str
    """The job, training job or pool."""
    text: str
    mended: bool


class DoctorView(BaseModel):
    version: int = VERSION
    findings: list[FindingView]


class AboutView(BaseModel):
    """Which queue answers, and whom it takes the caller for."""

    version: int = VERSION
    """Of the JSON that it speaks."""
    slotq: str
    """The release that is deployed."""
    caller: str
    """The ARN of who signed the request."""


class ErrorView(BaseModel):
    """What every answer of 4xx and 5xx carries."""

    version: int = VERSION
    code: str
    message: str
    field: str = ""


def reason_view(reason: Reason) -> ReasonView:
    return ReasonView(code=reason.code, text=reason.sentence(), numbers=reason.numbers())


def outlook_view(outlook: Outlook) -> OutlookView:
    return OutlookView(
        rooms=[reason_view(each) for each in outlook.rooms],
        evictions=[reason_view(each) for each in outlook.spared],
        reserved=[reason_view(each) for each in outlook.reserved],
        times=[reason_view(each) for each in outlook.times],
        earliest=_iso(outlook.earliest),
    )


def attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        training_job=attempt.training_job,
        pool=attempt.pool,
        instance_type=attempt.instance_type,
        admitted_at=iso(attempt.admitted_at),
        running_since=_iso(attempt.running_since),
        ended_at=_iso(attempt.ended_at),
        outcome=attempt.outcome,
        message=attempt.message,
        stop_cause=attempt.stop.cause if attempt.stop else None,
        stopped_for=attempt.stop.by if attempt.stop else None,
        artifact=attempt.artifact,
        checkpoints=attempt.checkpoints,
        logs=f"{names.LOG_GROUP}:{attempt.training_job}/",
    )


def job_view(
    job: Job,
    *,
    place: int | None = None,
    reason: Reason | None = None,
    outlook: Outlook | None = None,
    attempts: Sequence[Attempt] = (),
) -> JobView:
    return JobView(
        name=job.name,
        state=job.state,
        priority=job.priority,
        place=place,
        reason=reason_view(reason) if reason else None,
        outlook=outlook_view(outlook) if outlook else None,
        entry_time=iso(job.entry_time),
        changed_at=iso(job.changed_at),
        demand=dict(job.demand),
        pools=list(job.pools),
        pool=job.attempt.pool if job.attempt else None,
        preemptible=job.preemptible,
        min_runtime=seconds(job.min_runtime),
        retries=job.retries,
        submitter=job.submitter,
        project=job.project,
        attempts_begun=job.attempts,
        evictions=job.evictions,
        training_job=names.training_job_name(job.name, job.attempts) if job.attempts else None,
        cause=job.cause,
        message=job.message,
        attempts=[attempt_view(attempt) for attempt in attempts],
    )


def queue_view(jobs: Iterable[JobView]) -> QueueView:
    return QueueView(jobs=list(jobs))


def pool_view(pool: Pool, *, size: Demand, used: Demand) -> PoolView:
    health = pool.health
    return PoolView(
        name=pool.name,
        instance_type=pool.instance_type,
        capacity=_amounts(pool.capacity),
        size=_amounts(size),
        used=_amounts(used),
        foreign=_amounts(pool.foreign),
        settings=PoolSettingsView(**settings_of(pool)),
        health=PoolHealthView(
            errors=health.errors,
            not_before=_iso(health.not_before),
            learned=health.learned,
            learned_until=_iso(health.learned_until),
            message=health.message,
        ),
    )


def _amounts(demand: Demand) -> dict[str, int]:
    return {"slots": demand.slots, **demand}


def _iso(moment: int | None) -> str | None:
    return None if moment is None else iso(moment)
