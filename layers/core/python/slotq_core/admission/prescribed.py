"""The project's prescriptions for its jobs' requests: values filled in, and rules.

`completed` does both for a new submission. A start fills in and checks again, because the rules may
have changed meanwhile. The role of a caller (`Role`) is decided elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotq_core.errors import ForbiddenByProject, InvalidRequest
from slotq_core.lifecycle import move
from slotq_core.model.callers import Role, fits
from slotq_core.model.jobs import Job, JobState, Submission, Workload
from slotq_core.model.pools import Pool
from slotq_core.model.projects import APPROVAL, Prescription, Project
from slotq_core.names import MAX_TAGS
from slotq_core.wire.training.field_paths import (
    MISSING,
    keeps_checkpoints,
    kind_asked_for,
    unknown_names,
    value_at,
    values_at,
    with_value,
)
from slotq_core.wire.training.image_patterns import algorithm_fits, image_fits
from slotq_core.wire.training.place_patterns import lies_in, written
from slotq_core.wire.training.processing_request import as_processing, as_training, is_processing

Request = Mapping[str, Any]

TAGS = "Tags"
"""The one field that is merged, by key; every other field is replaced whole."""
ROLE = "RoleArn"
PLAN = "ResourceConfig.TrainingPlanArn"
IMAGES = (
    "AlgorithmSpecification.TrainingImage",
    "DebugRuleConfigurations[].RuleEvaluatorImage",
    "ProfilerRuleConfigurations[].RuleEvaluatorImage",
)
ALGORITHM = "AlgorithmSpecification.AlgorithmName"
SERVERLESS = "ServerlessJobConfig"
"""A job of this kind names no image: SageMaker chooses."""
INSTANCE_TYPES = (
    "ResourceConfig.InstanceType",
    "ResourceConfig.InstanceGroups[].InstanceType",
    "ResourceConfig.InstancePreferences[].InstanceType",
    "DebugRuleConfigurations[].InstanceType",
    "ProfilerRuleConfigurations[].InstanceType",
)
_SHOWN = 200
"""The most characters of a value in a message."""
_LISTED = 12
"""The most patterns in a message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenRule:
    """A field with a forbidden value, and the allowed values."""

    field: str
    message: str


def prescribed(request: Request, prescription: Prescription, *, at_start: bool = False) -> Request:
    """The request with the project's values filled in: fixed values, and defaults for fields that
    it does not have. At a start only fixed values: a default is for new requests."""
    filled: Request = request
    if not at_start:
        for path, value in prescription.defaults.items():
            if path == TAGS:
                filled = {**filled, TAGS: _merged(value, _tags(filled))}
            elif value_at(filled, path) is MISSING:
                filled = with_value(filled, path, value)
    for path, value in prescription.fixed.items():
        if path == TAGS:
            filled = {**filled, TAGS: _merged(_tags(filled), value)}
        else:
            filled = with_value(filled, path, value)
    return filled


def tags_of_all(project: Project) -> Sequence[Mapping[str, str]]:
    """The tags that every job of the project has."""
    return tuple(project.requests.fixed.get(TAGS, ()))


def completed(
    submission: Submission, request: Request, project: Project | None
) -> tuple[Submission, Request]:
    """The submission and its request with the project's values filled in.

    Raises ForbiddenByProject with every broken rule, and InvalidRequest if a field is still
    missing. The digest stays that of what the caller sent: a changed default makes the same
    submission no other.
    """
    if project is not None:
        _refuse([*broken_rules(request, project, submission.workload)])
        filled = _of_its_kind(prescribed(request, project.requests))
        _check_number_of_tags(filled)
    else:
        filled = request
    if submission.incomplete or filled is not request:
        # Only admission needs it.
        from slotq_core.wire.training.training_request import check_complete, check_processing

        if is_processing(filled):
            check_processing(as_processing(filled))
        else:
            check_complete(filled)
    if filled is request:
        return submission, request
    plan = value_at(filled, PLAN)
    plan = "" if plan is MISSING else str(plan)
    return replace(
        submission,
        role=str(filled.get(ROLE, "")),
        plan=plan,
        checkpoints=keeps_checkpoints(filled),
        capacity_kind=kind_asked_for(filled),
    ), filled


def _of_its_kind(request: Request) -> Request:
    """The request without what a project prescribes for training jobs alone, if it is of a
    processing job."""
    return as_training(as_processing(request)) if is_processing(request) else request


def check_amended(
    request: Request, before: Submission, after: Submission, project: Project | None
) -> None:
    """Check a change of tags: fixed tags, and the rules of another class. Raises
    ForbiddenByProject."""
    if project is None:
        return
    if before.workload != after.workload:
        _refuse([*broken_rules(request, project, after.workload)])
    _refuse([*_other_tags(request, project.requests.fixed.get(TAGS, ()), _owner_of(project))])


def broken_at_start(
    request: Request, project: Project, workload: Workload, *, types: Mapping[str, str]
) -> str:
    """Why the project forbids a start, as a text; empty if it does not. `types`: the instance type
    in each pool where the job starts."""
    rules = [*broken_rules(request, project, workload, at_start=True)]
    places = [broken_in_pool(pool, kind, project, workload) for pool, kind in types.items()]
    return "; ".join(f"{rule.field}: {rule.message}" for rule in [*rules, *filter(None, places)])


def broken_rules(
    request: Request, project: Project, workload: Workload, *, at_start: bool = False
) -> Iterator[BrokenRule]:
    """The rules that a request breaks, as the caller sent it or, at a start, as it is stored."""
    rules = project.requests
    owner = _owner_of(project)
    types = rules.instance_types.get(workload)
    yield from _other_than_fixed(request, rules, owner)
    limited = bool(rules.roles or rules.images or rules.outputs or types is not None)
    if limited or rules.fixed:
        yield from _unreadable(request, owner, any_unknown=limited)
    filled = prescribed(request, rules, at_start=at_start)
    yield from _roles(filled, rules.roles, owner)
    yield from _images(filled, rules.images, owner)
    yield from _outputs(filled, rules.outputs, owner)
    if types is not None:
        yield from _types(filled, workload, types, owner)


def broken_in_pool(
    pool: str, instance_type: str, project: Project, workload: Workload
) -> BrokenRule | None:
    """The rule that a start in this pool would break."""
    rules, owner = project.requests, _owner_of(project)
    if rules.pools and pool not in rules.pools:
        what = f"{owner} may use {_listed(rules.pools)}, not pool '{pool}'"
        return BrokenRule(field=TAGS, message=what)
    types = rules.instance_types.get(workload)
    if types is not None and not any(fits(pattern, instance_type) for pattern in types):
        what = f"{_for_class(owner, workload, types)}, not {instance_type} of pool '{pool}'"
        return BrokenRule(field=INSTANCE_TYPES[0], message=what)
    return None


def usable_pools(
    submission: Submission, pools: Sequence[Pool], project: Project | None
) -> Sequence[Pool]:
    """The pools that the project's jobs of this class may run in. Raises ForbiddenByProject if the
    submission names another, or if none is left of the pools that it could run in."""
    if project is None:
        return pools
    broken = {
        pool.name: broken_in_pool(pool.name, pool.instance_type, project, submission.workload)
        for pool in pools
    }
    named = [pool for pool in pools if pool.name in submission.pools]
    wanted = named or [pool for pool in pools if pool.instance_type in submission.instance_types]
    wrong = [rule for pool in wanted if (rule := broken[pool.name])]
    if wrong and (named or len(wrong) == len(wanted)):
        _refuse(wrong if named else wrong[:1])
    return [pool for pool in pools if broken[pool.name] is None]


def _check_number_of_tags(request: Request) -> None:
    """Raises InvalidRequest if the filled request has too many tags for SageMaker."""
    number = len(_tags(request))
    if number > MAX_TAGS:
        raise InvalidRequest(
            f"with its project's tags the request has {number} tags; at most {MAX_TAGS} are "
            "possible",
            field=TAGS,
        )


def with_approval(job: Job, project: Project | None, role: Role, now: int) -> Job:
    """The job as it enters its project: held for approval, if the project asks for it. An admin's
    own job is not held."""
    if project is None or not project.requests.approval or role >= Role.ADMIN:
        return job
    message = f"waits for the approval of an admin of project {project.name}"
    if job.state is JobState.HELD:
        return replace(job, cause=APPROVAL, message=message)
    return move(job, JobState.HELD, at=now, cause=APPROVAL, message=message)


def check_release(job: Job, project: Project | None, role: Role) -> None:
    """Raises ForbiddenByProject if the job waits for approval and this role may not approve it."""
    waits = job.state is JobState.HELD and job.cause == APPROVAL
    if waits and project is not None and project.requests.approval and role < Role.ADMIN:
        raise ForbiddenByProject(
            f"job {job.name} waits for approval: only an admin of project {project.name} may "
            "release it",
            field="held",
        )


def _refuse(broken: Sequence[BrokenRule]) -> None:
    if not broken:
        return
    faults = tuple((rule.field, rule.message) for rule in broken)
    lines = [f"{field}: {message}" for field, message in faults]
    text = lines[0] if len(lines) == 1 else "\n  ".join(["the project forbids:", *lines])
    raise ForbiddenByProject(text, field=faults[0][0], faults=faults)


def _other_than_fixed(request: Request, rules: Prescription, owner: str) -> Iterator[BrokenRule]:
    for path, value in rules.fixed.items():
        if path == TAGS:
            yield from _other_tags(request, value, owner)
            continue
        requested = value_at(request, path)
        if requested is not MISSING and _canonical(requested) != _canonical(value):
            message = f"{owner} fixes this to {_said(value)}, not {_said(requested)}; leave it out"
            yield BrokenRule(field=path, message=message)


def _other_tags(request: Request, fixed: Iterable[Any], owner: str) -> Iterator[BrokenRule]:
    requested = {tag["Key"]: tag["Value"] for tag in _tags(request)}
    for tag in fixed:
        key, value = tag["Key"], tag["Value"]
        if requested.get(key, value) != value:
            message = (
                f"{owner} fixes the tag '{key}' to {_said(value)}, not {_said(requested[key])}"
            )
            yield BrokenRule(field=TAGS, message=message)


def _unreadable(request: Request, owner: str, *, any_unknown: bool) -> Iterator[BrokenRule]:
    """Misspelled fields and, with `any_unknown`, all fields unknown to this release: they might
    circumvent the rules."""
    names = unknown_names(request)
    if is_processing(request):
        from slotq_core.wire.training.training_request import processing_shape

        names = unknown_names(as_processing(request), processing_shape())
    for path, known in names:
        if known or any_unknown:
            hint = (
                f"write {known}" if known else "this release of the queue does not know the field"
            )
            message = f"{owner} has rules, and whether they allow this cannot be checked: {hint}"
            yield BrokenRule(field=path, message=message)


def _roles(request: Request, allowed: Sequence[str], owner: str) -> Iterator[BrokenRule]:
    role = request.get(ROLE, "")
    if allowed and not any(fits(pattern, str(role)) for pattern in allowed):
        message = f"{owner} allows the execution roles {_listed(allowed)}, not {_said(role)}"
        yield BrokenRule(field=ROLE, message=message)


def _images(request: Request, allowed: Sequence[str], owner: str) -> Iterator[BrokenRule]:
    if not allowed:
        return
    what = f"{owner} allows the images {_listed(allowed)}"
    for path in IMAGES:
        for here, image in values_at(request, path):
            if not any(image_fits(pattern, str(image)) for pattern in allowed):
                yield BrokenRule(field=here, message=f"{what}, not {_said(image)}")
    algorithm = value_at(request, ALGORITHM)
    if algorithm is not MISSING and not any(
        algorithm_fits(pattern, str(algorithm)) for pattern in allowed
    ):
        message = f"{what}, and algorithms by a pattern of their ARNs, not {_said(algorithm)}"
        yield BrokenRule(field=ALGORITHM, message=message)
    if SERVERLESS in request:
        yield BrokenRule(field=SERVERLESS, message=f"{what}; a serverless job names none")


def _outputs(request: Request, allowed: Sequence[str], owner: str) -> Iterator[BrokenRule]:
    if not allowed:
        return
    for here, place in written(request):
        if not any(lies_in(pattern, place) for pattern in allowed):
            message = f"{owner} may write to {_listed(allowed)}, not to {_said(place)}"
            yield BrokenRule(field=here, message=message)


def _types(
    request: Request, workload: Workload, allowed: Sequence[str], owner: str
) -> Iterator[BrokenRule]:
    for path in INSTANCE_TYPES:
        for here, kind in values_at(request, path):
            if not any(fits(pattern, str(kind)) for pattern in allowed):
                message = f"{_for_class(owner, workload, allowed)}, not {_said(kind)}"
                yield BrokenRule(field=here, message=message)


def _owner_of(project: Project) -> str:
    return f"project '{project.name}'"


def _for_class(owner: str, workload: Workload, types: Sequence[str]) -> str:
    return f"{owner} may use the instance types {_listed(types)} for {workload} jobs"


def _tags(request: Request) -> list[Any]:
    return list(request.get(TAGS) or ())


def _merged(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """The tags of both lists. For a key in both, the second's tag."""
    own = list(second)
    keys = {tag["Key"] for tag in own}
    return [*(tag for tag in first if tag["Key"] not in keys), *own]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _said(value: Any) -> str:
    text = f"'{value}'" if isinstance(value, str) else _canonical(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _listed(patterns: Sequence[str]) -> str:
    more = f" and {len(patterns) - _LISTED} more" if len(patterns) > _LISTED else ""
    return (", ".join(patterns[:_LISTED]) or "none") + more
