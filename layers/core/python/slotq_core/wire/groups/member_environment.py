"""The environment variables that a member of a gang gets at each start.

A member's site is the name that its group gives it, else the job's own. If a group ends with one
member, that member is the server and the others are clients; a gang without such a member has no
roles.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from slotq_core.gpu_amounts import gpus_number
from slotq_core.model.groups import SERVER, Group
from slotq_core.model.jobs import Job
from slotq_core.names import GROUPS_FOLDER
from slotq_core.timestamps import iso
from slotq_core.wire import traits
from slotq_core.wire.setting_tags import read_settings
from slotq_core.wire.training.field_paths import value_at

GROUP, SITE, ROLE, SITES, SIZE, RESOURCES, RENDEZVOUS = (
    "SLOTQ_GROUP",
    "SLOTQ_SITE",
    "SLOTQ_ROLE",
    "SLOTQ_SITES",
    "SLOTQ_GROUP_SIZE",
    "SLOTQ_RESOURCES",
    "SLOTQ_RENDEZVOUS",
)
VARIABLES = (GROUP, SITE, ROLE, SITES, SIZE, RESOURCES, RENDEZVOUS)
_CLIENT, _MEMBER = "client", "member"

MOST_VARIABLES = 100
"""SageMaker's limit for the variables of a training job."""
_LONGEST = 512
"""SageMaker's limit for the value of one. A longer list of sites is left out."""
_LONGEST_PLACE = 400
"""Of a prefix, so that the names below it stay within S3's 1,024 bytes."""


def rendezvous_of(request: Mapping[str, Any], group: str, at: int) -> str:
    """The S3 prefix below which the members meet: below the output of the member with this request.
    It is unique to the group: it contains the group's name and the time (ms) of its storage. Empty
    if the output is not in S3."""
    output = str(value_at(request, "OutputDataConfig.S3OutputPath") or "")
    stored = iso(at)[:19].replace("-", "").replace(":", "")
    place = f"{output.rstrip('/')}/{GROUPS_FOLDER}/{group}/{stored}"
    return place if output.startswith("s3://") and len(place) <= _LONGEST_PLACE else ""


def as_member(
    request: Mapping[str, Any], job: Job, group: Group, *, rendezvous: str, started: Collection[str]
) -> dict[str, Any]:
    """The request with the member's variables. `started`: the names of the members that hold slots,
    including this one."""
    clients = [name for name in group.members if name in started and name != group.ends_with]
    role = _CLIENT if group.ends_with else _MEMBER
    variables = {
        GROUP: group.name,
        SITE: group.site(job.name),
        ROLE: SERVER if group.ends_with == job.name else role,
        SITES: _json([group.site(name) for name in clients]),
        SIZE: str(len(started)),
        RESOURCES: _json(_resources(job, request)),
        RENDEZVOUS: rendezvous,
    }
    fits = {name: text for name, text in variables.items() if text and len(text) <= _LONGEST}
    return {**request, "Environment": {**(request.get("Environment") or {}), **fits}}


def _resources(job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
    """What the job holds or requires there."""
    return dict(sorted({**traits.decoded(job.requires), **job.demand, **_gpus(request)}.items()))


def _gpus(request: Mapping[str, Any]) -> dict[str, int | float]:
    """The GPUs of a node that the request asks for, whether it gets these or a whole instance."""
    tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
    asked = read_settings({key: value.strip() for key, value in tags.items()}).get("gpus", 0)
    return {"gpus": gpus_number(asked)} if asked else {}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
