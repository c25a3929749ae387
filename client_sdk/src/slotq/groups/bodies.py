"""The body of a new group, and of a clone of a group."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slotq.errors import InvalidRequest
from slotq.jobs.sagemaker_model import check
from slotq.jobs.submission import jsonable, with_tags
from slotq_core import names
from slotq_core.wire.groups.group_submission import LARGEST_GROUP
from slotq_core.wire.groups.members import compacted
from slotq_core.wire.groups.sweep import SweepView


def rules_of(
    *,
    min_members: int | None = None,
    mandatory: Iterable[str] = (),
    same_pool: bool = False,
    elastic: bool = False,
    ends_with: str | None = None,
    sites: Mapping[str, str] | None = None,
    heartbeat_seconds: int | None = None,
) -> dict[str, Any]:
    """The rules of a gang, without those that are the default."""
    if isinstance(mandatory, str):
        mandatory = [mandatory]
    rules = {
        "min_members": min_members,
        "mandatory": [*(mandatory or ())] or None,
        "same_pool": same_pool or None,
        "elastic": elastic or None,
        "ends_with": ends_with,
        "sites": dict(sites or {}) or None,
        "heartbeat_seconds": heartbeat_seconds,
    }
    return {key: value for key, value in rules.items() if value is not None}


def body_of(
    name: str,
    members: Iterable[Mapping[str, Any]],
    tags: Mapping[str, str],
    **kind: int | Mapping[str, Any] | None,
) -> bytes:
    """The body of a submission, with one template for what the members share. `tags`: default
    settings of the members. `kind`: `max_parallel` and `sweep` of a sweep, or `gang` with its
    rules; None values are left out. Raises InvalidRequest; the field of a member's fault begins
    with the member's index."""
    requests = [jsonable(with_tags(member, tags)) for member in members]
    for number, request in enumerate(requests):
        try:
            check(request)
        except InvalidRequest as error:
            error.within(f"members.{number}")
            raise
    if not requests:
        raise InvalidRequest("a group has at least one member", field="members")
    template, differences = compacted(requests)
    rules = {key: value for key, value in kind.items() if value is not None}
    group = {"name": name, **rules, "template": template, "members": differences}
    body = json.dumps(group).encode()
    if len(body) > LARGEST_GROUP:
        raise InvalidRequest(
            f"the group has {len(body):,} bytes, and the limit is {LARGEST_GROUP:,}: move "
            "large values to S3, or submit several groups"
        )
    return body


NONE: Mapping[str, str] = MappingProxyType({})


def names_of_clones(
    group: str, jobs: Sequence[str], new: str, members: Mapping[str, str] = NONE
) -> dict[str, str]:
    """The new name of each job: `ring-1` of the group `ring` becomes `other-1` in `other`, and any
    other job `a` becomes `other-a`. If a name is too long or repeated, the clones are numbered.
    `members`: for a retry, the sweep's member that it replaces."""
    made = {job: _renamed(members.get(job, job), group, new) for job in jobs}
    taken = {*made.values()}
    if len(taken) < len(made) or any(len(name) > names.LONGEST for name in taken):
        digits = len(str(len(jobs)))
        stem = new[: names.LONGEST - 1 - digits].rstrip("-")
        made = {job: f"{stem}-{number}" for number, job in enumerate(jobs, 1)}
    return {**{members.get(job, job): name for job, name in made.items()}, **made}


def members_of(sweep: SweepView | None) -> dict[str, str]:
    """The sweep's members by the job that runs them."""
    return {trial.job: trial.name for trial in (sweep.trials if sweep else ()) if trial.job}


def sweep_body_of(sweep: SweepView | None) -> dict[str, Any] | None:
    """The sweep's parameters and objective, in the form of a submission."""
    if sweep is None:
        return None
    tried = [trial.parameters for trial in sweep.trials if trial.parameters is not None]
    said: dict[str, Any] = {"parameters": tried} if len(tried) == len(sweep.trials) else {}
    if sweep.metric:
        said |= {"metric": sweep.metric, "maximize": sweep.maximize}
    return said if sweep.goal is None else {**said, "goal": sweep.goal}


def _renamed(name: str, group: str, new: str) -> str:
    if name == group:
        return new
    return new + (name.removeprefix(group) if name.startswith(f"{group}-") else f"-{name}")


def cloned(request: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """The request under its new name; where it comes after other members, after their clones."""
    tags = [
        {**tag, "Value": _following(tag["Value"], renamed)}
        if tag["Key"] in names.AFTER_TAGS
        else tag
        for tag in request.get("Tags") or ()
    ]
    name = renamed[request["TrainingJobName"]]
    return {**request, "TrainingJobName": name, **({"Tags": tags} if tags else {})}


def _following(jobs: str, renamed: Mapping[str, str]) -> str:
    listed = (name for name in re.split("[, ]+", jobs) if name)
    return ",".join(renamed.get(name, name) for name in listed)
