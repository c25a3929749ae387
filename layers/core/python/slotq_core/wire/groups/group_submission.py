"""JSON -> model: reads a new group, whose members are CreateTrainingJob requests."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.groups import SERVER, elastic_fault
from slotq_core.model.jobs import GROUP_END, MAX_AFTER, Submission
from slotq_core.wire.base import BaseModel
from slotq_core.wire.body import invalid, json_object
from slotq_core.wire.groups.member_environment import MOST_VARIABLES, VARIABLES
from slotq_core.wire.groups.members import (
    LARGEST_BODY,
    check_growth,
    expanded,
    with_after_tags,
)
from slotq_core.wire.groups.sweep import SweepBody
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.training.training_request import RequestCheck

MOST_MEMBERS = 1_000
"""The most members of a group: so many are stored within a few requests, and one record lists
them."""

MOST_OF_A_GANG = 200
"""The most members of a gang, which start and are evicted together."""

LARGEST_GROUP = LARGEST_BODY
"""The most bytes of a group's submission."""

LARGEST_RULES = 300_000
"""The most bytes of it besides the template and the members; a sweep's parameters are most of them.
Reading a fault in each of so many values takes 200 MB."""

LEAST_HEARTBEAT, MOST_HEARTBEAT = 60, 86_400
"""Bounds of a heartbeat in seconds. Scripts send a report every 15 seconds."""

Site = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]*$", max_length=63)]
"""A site's name. It is part of the names of objects in S3."""

_NAMED = 10
"""How many members a refusal names."""

_ONE_KIND = (
    "give max_parallel for a sweep, the most members that may hold slots at once; or gang for jobs "
    "that start together, with its rules ({} where all must start)"
)


class GangBody(BaseModel):
    """The rules of a gang, whose members start together or not at all."""

    model_config = ConfigDict(extra="forbid")
    min_members: int | None = Field(default=None, ge=1, le=MOST_OF_A_GANG, strict=True)
    """How many members must run at once; completed ones count, cancelled ones do not. Without it:
    all that are not cancelled."""
    mandatory: list[str] = Field(default=[], max_length=MOST_OF_A_GANG)
    """The names of members without which the gang does not start."""
    same_pool: bool = Field(default=False, strict=True)
    """Whether all members run in one pool."""
    elastic: bool = Field(default=False, strict=True)
    """Whether members beyond `min_members` are evicted one by one and join again, while the gang
    runs on. All members then run in one pool."""
    ends_with: str | None = None
    """The member with which the gang ends: its server. When it has ended, or when too few of the
    others can still complete, the rest is stopped. The gang does not start without it."""
    sites: dict[str, Site] = Field(default={}, max_length=MOST_OF_A_GANG)
    """Names by which members address each other, by job name; without an entry the job's name. The
    member that the gang ends with is always `server`."""
    heartbeat_seconds: int | None = Field(
        default=None, ge=LEAST_HEARTBEAT, le=MOST_HEARTBEAT, strict=True
    )
    """How long a running member that reports may be silent before it counts as failed. Without it,
    as its pool says."""

    @property
    def rules(self) -> dict[str, Any]:
        """The rules as the queue's model has them."""
        seconds = self.heartbeat_seconds
        return {
            "min_members": self.min_members,
            "mandatory": tuple(self.mandatory),
            "same_pool": self.same_pool or self.elastic,
            "elastic": self.elastic,
            "ends_with": self.ends_with or "",
            "sites": self.sites,
            "heartbeat": None if seconds is None else 1000 * seconds,
        }


Awaited = Annotated[
    str,
    Field(
        pattern=f"^({GROUP_END})?{names.SCHEMA['pattern'].removeprefix('^')}",
        max_length=names.LONGEST + len(GROUP_END),
    ),
]
"""The name of a job or a group."""


class GroupBody(BaseModel):
    """Jobs under one name: with `gang` they start together or not at all, with `max_parallel` they
    are independent, and a limited number holds slots at once. One of the two is required."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(pattern=names.SCHEMA["pattern"], max_length=names.LONGEST)
    """The group's name. Groups and jobs may have the same names."""
    max_parallel: int | None = Field(default=None, ge=1, strict=True)
    """For a sweep: the most members that hold slots at once."""
    gang: GangBody | None = None
    """For a gang: its rules."""
    after: list[Awaited] = Field(default=[], max_length=MAX_AFTER)
    """Jobs that must complete before any member waits for slots, and groups, as `group:NAME` or,
    if no job has that name, by name. Each member has these in addition to its own."""
    after_any: list[Awaited] = Field(default=[], max_length=MAX_AFTER)
    """The same for jobs and groups that must end in any way."""
    template: dict[str, Any] | None = None
    """The fields that members share: a CreateTrainingJob request, or a part of one."""
    members: list[dict[str, Any]] = Field(min_length=1, max_length=MOST_MEMBERS)
    """CreateTrainingJob requests with tags, as POST /add-job takes them. With a template each
    contains only its differences: objects merge key by key, null removes. The queue submits all of
    them or none."""
    sweep: SweepBody | None = None
    """The values that the members try, for people and for the table of results."""


Member = tuple[Submission, dict[str, Any]]
Members = tuple[Member, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupText:
    """A new group as it was sent. Its members are not read yet: each may be as large as the
    template, so a caller who has reached a limit is refused first."""

    body: GroupBody
    value: Mapping[str, Any]
    """The body as JSON."""

    def members(self) -> tuple[Members, str]:
        """The members, and the digest of the whole, which is the same with and without a template.
        Raises InvalidRequest; the fault of a member has the member's place in its path."""
        read, check = self.body, RequestCheck()
        whole = expanded(read.template, read.members)
        members = tuple(_member(read, number, member, check) for number, member in enumerate(whole))
        count = Counter(submission.name for submission, _ in members)
        if again := [name for name, times in count.items() if times > 1]:
            raise InvalidRequest(f"two members are named '{again[0]}'", field="members")
        if read.gang:
            _check_rules(read.gang, [*count])
            _check_variables(members)
        same = {key: content for key, content in self.value.items() if key != "template"}
        same["members"] = whole
        canonical = json.dumps(same, sort_keys=True, separators=(",", ":"), default=str)
        return members, hashlib.sha256(canonical.encode()).hexdigest()


def read_group(body: str | bytes) -> GroupText:
    """Read a new group but for its members, in time that is proportional to the body. Raises
    InvalidRequest."""
    value = json_object(
        body, "a group: name, members, and max_parallel or gang", most=LARGEST_GROUP
    )
    for rule in GangBody.model_fields:
        if rule in value:
            raise InvalidRequest(f"write it within gang, as gang: {{{rule}: …}}", field=rule)
    _check_size(value)
    try:
        read = GroupBody.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None
    if (read.gang is None) == (read.max_parallel is None):
        said = "a group is not both:" if read.gang else "which kind of group is it?"
        raise InvalidRequest(f"{said} {_ONE_KIND}", field="gang" if read.gang else "max_parallel")
    if read.gang and read.sweep:
        raise InvalidRequest("a gang tries nothing: sweep goes with max_parallel", field="sweep")
    shared = {"template": read.template, "after": read.after, "after_any": read.after_any}
    sent = len(body.encode() if isinstance(body, str) else body)
    check_growth(shared, members=len(read.members), sent=sent)
    return GroupText(body=read, value=value)


def parse_group(body: str | bytes) -> tuple[GroupBody, Members, str]:
    """Read a new group whole: its body, its members, and its digest. Raises InvalidRequest."""
    text = read_group(body)
    return text.body, *text.members()


def _check_size(value: Mapping[str, Any]) -> None:
    rest = {key: content for key, content in value.items() if key not in {"template", "members"}}
    if (size := len(json.dumps(rest))) > LARGEST_RULES:
        raise InvalidRequest(
            f"the group has {size:,} bytes besides its template and members, and the limit is "
            f"{LARGEST_RULES:,}: make the sweep's parameters shorter, or split the sweep"
        )


def _check_rules(gang: GangBody, members: Sequence[str]) -> None:
    """Check the gang's size, and its rules against the members' names."""
    if len(members) > MOST_OF_A_GANG:
        raise InvalidRequest(
            f"a gang has at most {MOST_OF_A_GANG} members, not {len(members):,}; a sweep has up to "
            f"{MOST_MEMBERS:,}",
            field="members",
        )
    if gang.min_members is not None and gang.min_members > len(members):
        raise InvalidRequest(
            f"the gang must start {gang.min_members} jobs at once and has {len(members)} members",
            field="gang.min_members",
        )
    if gang.elastic and (fault := elastic_fault(gang.min_members, gang.ends_with)):
        raise InvalidRequest(fault[1], field=f"gang.{fault[0]}")
    named = [(f"mandatory.{number}", name) for number, name in enumerate(gang.mandatory)]
    named += [("sites", name) for name in gang.sites]
    named += [("ends_with", gang.ends_with)] if gang.ends_with is not None else []
    for field, name in named:
        if name not in members:
            raise InvalidRequest(
                f"'{name[: names.LONGEST]}' is not a member; the members are {_some(members)}",
                field=f"gang.{field}",
            )
    ends_with = gang.ends_with
    sites = Counter(SERVER if n == ends_with else gang.sites.get(n, n) for n in members)
    if again := [site for site, times in sites.items() if times > 1]:
        raise InvalidRequest(f"two members are at site '{again[0]}'", field="gang.sites")


def _check_variables(members: Members) -> None:
    """Check that the queue's variables fit beside the members' own."""
    most = MOST_VARIABLES - len(VARIABLES)
    for number, (_, request) in enumerate(members):
        if len(request.get("Environment") or {}) > most:
            raise InvalidRequest(
                f"a member of a gang has at most {most} environment variables of its own",
                field=f"members.{number}.Environment",
            )


def _some(members: Sequence[str]) -> str:
    more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
    return ", ".join(members[:_NAMED]) + more


def _member(
    group: GroupBody, number: int, request: Mapping[str, Any], check: RequestCheck
) -> Member:
    try:
        submission, kept = parse_submission(request, check, alone=False)
        if group.after or group.after_any:
            after = dict.fromkeys((*submission.after, *group.after))
            after_any = dict.fromkeys((*submission.after_any, *group.after_any))
            submission = replace(submission, after=(*after,), after_any=(*after_any,))
            kept = with_after_tags(kept, submission)
    except InvalidRequest as error:
        error.within(f"members.{number}")
        raise
    # The same request by itself is another submission.
    digest = hashlib.sha256(f"{group.name}\n{submission.digest}".encode()).hexdigest()
    return replace(submission, group=group.name, digest=digest), kept
