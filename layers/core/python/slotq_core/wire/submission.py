"""JSON -> model: reads a submission from a CreateTrainingJob request."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.capacity.work import WorkKind, marked
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import GROUP_END, Submission
from slotq_core.model.notices import Callback, CallbackKind, WhenAbandoned
from slotq_core.wire import traits
from slotq_core.wire.base import BaseModel
from slotq_core.wire.body import MAX_BODY, faults_in, json_object
from slotq_core.wire.pool_definition import (
    CLASS_NAME,
    MOST_OF_A_RESOURCE,
    PROPERTY,
    SPELLINGS,
    property_value,
)
from slotq_core.wire.setting_tags import PRIORITY_LIMIT, TAGS, integer, read_settings
from slotq_core.wire.training.field_paths import keeps_checkpoints, kind_asked_for
from slotq_core.wire.training.processing_request import (
    NAME,
    TRAINING_NAME,
    as_training,
    is_processing,
    path_in_processing,
)
from slotq_core.wire.training.training_request import RequestCheck, RequestFault, refusal

MAX_TAGS = names.MAX_TAGS

LONGEST_TASK_TOKEN = 2048
PIPELINE_TOKEN = 10
"""The characters of a token: at most of a state machine's task, exactly of a pipeline's step."""

MAX_INSTANCES = 10_000
"""The most instances of one job, equal to a pool's largest size."""
_MAX_TYPE = 64
_MAX_SHOWN = 64
_MAX_ROLE = 2048
_MAX_GROUPS = 5
_MAX_PREFERENCES = 5
"""SageMaker's limits."""

SETTING_TAGS = (
    names.QUEUES_PRIORITY_TAG,
    names.PROJECT_TAG,
    names.POOLS_TAG,
    names.DEMAND_TAG,
    *TAGS.values(),
    names.RUNTIME_LIMIT_TAG,
    names.AFTER_TAG,
    names.AFTER_ANY_TAG,
)
_ALLOWED_TAGS = ", ".join((names.PRIORITY_TAG, *SETTING_TAGS))
_KNOWN_TAGS = frozenset({*SETTING_TAGS, *names.AFTER_TAGS})


class InstanceGroup(BaseModel):
    model_config = ConfigDict(extra="allow")
    InstanceType: str = Field(max_length=_MAX_TYPE)
    InstanceCount: int = Field(ge=1, le=MAX_INSTANCES, strict=True)


class InstancePreference(BaseModel):
    """One of the instance types among which the queue chooses."""

    model_config = ConfigDict(extra="allow")
    InstanceType: str = Field(max_length=_MAX_TYPE)
    InstanceCount: int | None = Field(default=None, ge=1, le=MAX_INSTANCES, strict=True)


class ResourceConfig(BaseModel):
    """InstanceType and InstanceCount, InstancePreferences, or InstanceGroups. Groups of several
    instance types make a job that runs in several pools at once; preferences a job that runs in
    pools of one of these types, in this order."""

    model_config = ConfigDict(extra="allow")
    InstanceType: str | None = Field(default=None, max_length=_MAX_TYPE)
    InstanceCount: int | None = Field(default=None, ge=1, le=MAX_INSTANCES, strict=True)
    InstanceGroups: list[InstanceGroup] | None = Field(default=None, max_length=_MAX_GROUPS)
    InstancePreferences: list[InstancePreference] | None = Field(
        default=None, min_length=1, max_length=_MAX_PREFERENCES
    )
    TrainingPlanArn: str = Field(default="", max_length=_MAX_ROLE)

    @model_validator(mode="after")
    def _has_instances(self) -> Self:
        if self.InstancePreferences:
            self._check_preferences(self.InstancePreferences)
            return self
        if not self.InstanceGroups and (self.InstanceType is None or self.InstanceCount is None):
            raise ValueError("give InstanceType and InstanceCount (at least 1), or InstanceGroups")
        return self

    def _check_preferences(self, preferences: list[InstancePreference]) -> None:
        """Raises ValueError unless the preferences stand alone, with one count for all."""
        beside = [name for name in ("InstanceType", "InstanceGroups") if getattr(self, name)]
        if beside:
            raise ValueError(f"leave out {beside[0]}: InstancePreferences names the instances")
        if any(
            (preference.model_extra or {}).get("TrainingPlanArns") for preference in preferences
        ):
            raise ValueError(
                "leave out TrainingPlanArns: name the preferred pools in the tag 'slotq:pools'"
            )
        types = [preference.InstanceType for preference in preferences]
        if len({*types}) < len(types):
            raise ValueError("InstancePreferences names each instance type once")
        counts = [preference.InstanceCount or self.InstanceCount for preference in preferences]
        if None in counts:
            raise ValueError("give each of the InstancePreferences an InstanceCount (at least 1)")
        if len({*counts, self.InstanceCount or counts[0]}) > 1:
            named = ", ".join(f"{kind} {n}" for kind, n in zip(types, counts, strict=True))
            beside_all = f", and InstanceCount {self.InstanceCount}" if self.InstanceCount else ""
            raise ValueError(
                f"the InstancePreferences need one count for all, not {named}{beside_all}"
            )

    @property
    def preferred(self) -> tuple[str, ...]:
        return tuple(each.InstanceType for each in self.InstancePreferences or ())

    @property
    def instance_type(self) -> str:
        if self.InstancePreferences:
            return self.InstancePreferences[0].InstanceType
        return (
            self.InstanceGroups[0].InstanceType if self.InstanceGroups else self.InstanceType or ""
        )

    @property
    def by_type(self) -> tuple[tuple[str, Demand], ...]:
        """The instances of each type, where there are several; in the order of the groups."""
        count: dict[str, int] = {}
        for group in self.InstanceGroups or ():
            count[group.InstanceType] = count.get(group.InstanceType, 0) + group.InstanceCount
        pairs = tuple((kind, Demand(slots=number)) for kind, number in count.items())
        return pairs if len(pairs) > 1 else ()

    @property
    def instances(self) -> int:
        if self.InstanceGroups:
            return sum(group.InstanceCount for group in self.InstanceGroups)
        if self.InstancePreferences:
            return self.InstancePreferences[0].InstanceCount or self.InstanceCount or 0
        return self.InstanceCount or 0


class Tag(BaseModel):
    model_config = ConfigDict(extra="forbid")
    Key: str = Field(min_length=1, max_length=128)
    Value: str = Field(max_length=256)


class CallbackBody(BaseModel):
    """Who waits for the job's end: a task of a state machine, or a callback step of a pipeline.
    Exactly one token. A token is a secret: no answer ever contains it."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    task_token: str | None = Field(
        default=None, min_length=1, max_length=LONGEST_TASK_TOKEN, pattern=r"^[!-~]+$", strict=True
    )
    """The task token of AWS Step Functions (`$$.Task.Token`)."""
    pipeline_token: str | None = Field(
        default=None,
        min_length=PIPELINE_TOKEN,
        max_length=PIPELINE_TOKEN,
        pattern="^[a-zA-Z0-9]+$",
        strict=True,
    )
    """The token in the message of a SageMaker pipeline's callback step."""
    when_abandoned: WhenAbandoned = WhenAbandoned.CANCEL
    """What becomes of the job when nobody waits any more."""

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if (self.task_token is None) == (self.pipeline_token is None):
            raise ValueError("give one token: task_token or pipeline_token")
        return self

    @property
    def callback(self) -> Callback:
        kind = CallbackKind.PIPELINE if self.task_token is None else CallbackKind.TASK
        token = self.task_token or self.pipeline_token or ""
        return Callback(kind=kind, token=token, when_abandoned=self.when_abandoned)


class SubmissionBody(BaseModel):
    """A CreateTrainingJob request; its tags carry the queue's settings.

    SageMaker decides which fields are required, and the types of the others (`training_request`).
    Unknown fields are passed on unchanged, without `slotq:callback`.
    """

    model_config = ConfigDict(extra="allow")
    TrainingJobName: str = Field(json_schema_extra=names.SCHEMA)
    RoleArn: str = Field(default="", max_length=_MAX_ROLE)
    ResourceConfig: ResourceConfig
    Tags: list[Tag] = Field(default_factory=list, max_length=MAX_TAGS)
    callback: CallbackBody | None = Field(default=None, alias="slotq:callback")
    """Who waits for the job's end. No part of what makes two submissions the same."""

    @field_validator("callback", mode="before")
    @classmethod
    def _a_callback(cls, value: object) -> object:
        if value is None:
            raise ValueError("must be an object, not null; leave the field out")
        if isinstance(value, Mapping) and not value.keys() <= CallbackBody.model_fields.keys():
            keys = ", ".join(CallbackBody.model_fields)
            raise ValueError(f"has an unknown key, which may be a token; its keys are {keys}")
        return value

    @field_validator("TrainingJobName")
    @classmethod
    def _legal_name(cls, name: str) -> str:
        if not names.is_legal(name):
            raise ValueError(f"use {names.RULE}, with a letter or digit at either end")
        if names.STAMP in name:
            raise ValueError(f"'{names.STAMP}' is reserved for the queue's own names; leave it out")
        return name

    @field_validator("Tags")
    @classmethod
    def _known_tags(cls, tags: list[Tag]) -> list[Tag]:
        keys = [tag.Key for tag in tags]
        for key in keys:
            if key.startswith("slotq:") and key not in _KNOWN_TAGS:
                raise ValueError(
                    f"the tag '{key}' is unknown; the queue's tags are {_ALLOWED_TAGS}"
                )
            if keys.count(key) > 1:
                raise ValueError(f"the tag '{key}' occurs more than once")
        priorities = {tag.Value.strip(): tag.Key for tag in tags if _is_priority(tag)}
        if len(priorities) > 1:
            says = " and ".join(f"'{key}' {value[:40]}" for value, key in priorities.items())
            raise ValueError(f"the tag {says} mean the same setting: give one of them")
        return tags

    @model_validator(mode="after")
    def _readable_settings(self) -> Self:
        _ = self.priority, self.pools, self.demand, self.settings, self.after, self.after_any
        if self._tag(names.PROJECT_TAG) == "":
            raise ValueError(f"the tag '{names.PROJECT_TAG}' takes a project's name")
        if self.settings.get("gpus") and {"gpus", *SPELLINGS} & {*self.demand}:
            raise ValueError(
                f"the tags '{TAGS['gpus']}' and '{names.DEMAND_TAG}' both ask for GPUs: give one "
                "of them"
            )
        limit = self._tag(names.RUNTIME_LIMIT_TAG)
        if limit not in {None, "job", "attempt"}:
            raise ValueError(
                f"the tag '{names.RUNTIME_LIMIT_TAG}' takes job or attempt, not '{limit}'"
            )
        return self

    def _tag(self, key: str) -> str | None:
        return next((tag.Value.strip() for tag in self.Tags if tag.Key == key), None)

    @property
    def _priority(self) -> tuple[str, str | None]:
        """The key in its spelling, and its value."""
        found = next((tag for tag in self.Tags if _is_priority(tag)), None)
        return (found.Key, found.Value.strip()) if found else (names.PRIORITY_TAG, None)

    @property
    def priority(self) -> int:
        """The number; 0 for a class, which has a number of its own."""
        key, text = self._priority
        if text is None or self.priority_class:
            return 0
        what = "the name of a class or "
        return integer(key, text, -PRIORITY_LIMIT, PRIORITY_LIMIT, or_else=what)

    @property
    def names_no_priority(self) -> bool:
        return self._priority[1] is None

    @property
    def priority_class(self) -> str:
        """The named class; empty: a number, or none."""
        text = self._priority[1] or ""
        return text if CLASS_NAME.fullmatch(text) else ""

    @property
    def project(self) -> str:
        """The named project; empty: the caller's default."""
        return self._tag(names.PROJECT_TAG) or ""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that have a tag each, by field (`JobSettings`)."""
        return read_settings({tag.Key: tag.Value.strip() for tag in self.Tags})

    @property
    def pools(self) -> tuple[str, ...]:
        """The requested pools, the preferred first; empty: any pool with the instance type."""
        text = self._tag(names.POOLS_TAG)
        if text is None:
            return ()
        wanted = tuple(part.strip() for part in text.split(","))
        if not all(wanted) or len(set(wanted)) < len(wanted):
            raise ValueError(
                "the tag 'slotq:pools' takes pool names, separated by commas, each once"
            )
        return wanted

    @property
    def after(self) -> tuple[str, ...]:
        """The jobs and groups that must complete first."""
        return self._jobs_in(names.AFTER_TAG)

    @property
    def after_any(self) -> tuple[str, ...]:
        """The jobs and groups that must end first."""
        return self._jobs_in(names.AFTER_ANY_TAG)

    def _jobs_in(self, key: str) -> tuple[str, ...]:
        """The jobs and groups in these tags, in order, each once. SageMaker takes no commas in a
        tag's value, so a request from there has spaces."""
        texts = [text for tag in names.numbered_tags(key) if (text := self._tag(tag)) is not None]
        listed = tuple(dict.fromkeys(name for text in texts for name in re.split("[, ]+", text)))
        for name in listed:
            if not names.is_job(name.removeprefix(GROUP_END)):
                raise ValueError(
                    f"the tag '{key}' takes the names of jobs and groups, comma separated, not "
                    f"'{name[:40]}'"
                )
        return listed

    @property
    def demand(self) -> Demand:
        """The instances as slots, and what the tag names: resources and properties of pools."""
        amounts = traits.encoded(_amounts(self._tag(names.DEMAND_TAG)))
        if amounts and self.ResourceConfig.by_type:
            raise ValueError(
                f"leave out the tag '{names.DEMAND_TAG}': it cannot say what a job of several "
                "instance types needs of each"
            )
        return Demand(amounts, slots=self.ResourceConfig.instances)


def _is_priority(tag: Tag) -> bool:
    return bool(names.setting_of(tag.Key) == names.PRIORITY_TAG)


def _amounts(text: str | None) -> dict[str, traits.Value]:
    """Amounts, texts and booleans by name, from `gpus=8,mem_per_gpu_in_GiB=16,gpu_type=H100`."""
    if text is None:
        return {}
    parted = (part.partition("=") for part in text.split(","))
    pairs = [(name.strip(), amount.strip()) for name, _, amount in parted]
    needs = {name: _need(name, amount) for name, amount in pairs}
    if len(needs) < len(pairs) or None in needs.values():
        raise ValueError(
            f"the tag '{names.DEMAND_TAG}' takes different names with whole numbers from 1 to "
            f"{MOST_OF_A_RESOURCE:,}, comma separated, e.g. gpus=8,mem_per_gpu_in_GiB=16 (or 16G), "
            "and no slots: these are the instances. What a pool says in words is asked for in the "
            "same words, e.g. gpu_type=H100"
        )
    return {name: value for name, value in needs.items() if value is not None}


def _need(name: str, text: str) -> traits.Value | None:
    """The value, if it is within bounds and of a name that a need may have."""
    if name == "slots" or not PROPERTY.fullmatch(name):
        return None
    return property_value(name, text)


def _of_processing(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a processing job. It has no checkpoints, so it is evicted only if its user
    says so. Raises InvalidRequest for a part of a node."""
    if settings.get("gpus"):
        raise InvalidRequest(
            f"the tag '{TAGS['gpus']}' is for training jobs: a processing job takes whole "
            "instances",
            field="Tags",
        )
    return {"preemptible": False, **settings}


def parse_submission(
    body: str | bytes | Mapping[str, Any],
    check: RequestCheck | None = None,
    *,
    alone: bool = True,
) -> tuple[Submission, dict[str, Any]]:
    """Read a new submission. Returns it, and its body as the request to store: without the
    callback, which is kept apart, and that of a processing job in the words of CreateTrainingJob
    (`training.processing_request`). `check`: of requests that this one may share values with.
    `alone`: whether it comes by itself; only then it may have a callback.

    Raises InvalidRequest with every fault: its path, and what would be right. Not if the only
    faults are missing fields (`Submission.incomplete`): its project may fill them in.
    """
    request = body if isinstance(body, Mapping) else json_object(body)
    check, processing = check or RequestCheck(), is_processing(request)
    asked = _without_callback(request)
    faults = check.processing_faults(asked) if processing else check.faults(asked)
    if names.CALLBACK in request and not alone:
        message = "belongs to a job that is submitted alone (POST /add-job); leave it out"
        faults = [RequestFault(path=names.CALLBACK, message=message), *faults]
    faults += _unknown_members(request)
    return _read(as_training(request) if processing else request, faults)


def read_submission(request: Mapping[str, Any]) -> tuple[Submission, dict[str, Any]]:
    """Read a stored request without the checks on its structure: it was accepted under earlier
    rules, which may have been looser."""
    return _read(request, [])


def _without_callback(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != names.CALLBACK}


def _unknown_members(request: Mapping[str, Any]) -> list[RequestFault]:
    """The faults of members that look like the queue's. SageMaker has none of such a name, so a
    misspelt callback would be one that nobody hears."""
    message = f"is unknown; the queue's own member is {names.CALLBACK}, its settings are tags"
    return [
        RequestFault(path=name[:_MAX_SHOWN], message=message)
        for name in request
        if name.lower().startswith("slotq") and name != names.CALLBACK
    ][:MAX_TAGS]


def _read(
    request: Mapping[str, Any], structural: list[RequestFault]
) -> tuple[Submission, dict[str, Any]]:
    kept = _without_callback(request)
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":"), default=str)
    if len(canonical.encode()) > MAX_BODY:
        raise InvalidRequest(f"the request is larger than {MAX_BODY:,} bytes")
    processing = is_processing(request)
    named = {TRAINING_NAME: request[NAME]} if processing else {}
    try:
        read = SubmissionBody.model_validate({**request, **named})
    except ValidationError as error:
        found = faults_in(error)
        if processing:
            found = [replace(fault, path=path_in_processing(fault.path)) for fault in found]
        reported = {fault.path for fault in found}
        more = [fault for fault in structural if fault.path not in reported]
        raise refusal([*found, *more]) from None
    if not all(fault.lacks for fault in structural):
        raise refusal(structural)
    submission = Submission(
        name=marked(read.TrainingJobName, WorkKind.PROCESSING if processing else WorkKind.TRAINING),
        instance_type=read.ResourceConfig.instance_type,
        demand=read.demand,
        by_type=read.ResourceConfig.by_type,
        preferred=read.ResourceConfig.preferred,
        role=read.RoleArn,
        plan=read.ResourceConfig.TrainingPlanArn,
        project=read.project,
        pools=read.pools,
        priority=read.priority,
        priority_class=read.priority_class,
        default_priority=read.names_no_priority,
        **(_of_processing(read.settings) if processing else read.settings),
        checkpoints=keeps_checkpoints(request),
        capacity_kind=kind_asked_for(request),
        after=read.after,
        after_any=read.after_any,
        callback=read.callback.callback if read.callback else None,
        digest=hashlib.sha256(canonical.encode()).hexdigest(),
        incomplete=bool(structural),
    )
    return submission, kept
