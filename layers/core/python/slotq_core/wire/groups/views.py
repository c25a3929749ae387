"""Model -> JSON: a group as the queue shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import Field

from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.reasons import Reason
from slotq_core.timestamps import iso
from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel
from slotq_core.wire.groups.sweep import SweepView
from slotq_core.wire.views.jobs import JobView, ReasonView, reason_view


class GangView(BaseModel):
    """The rules of a gang, and what it lacks."""

    min_members: int | None = None
    """How many members must run at once, completed ones included; None: all that are not
    cancelled."""
    mandatory: list[str] = Field(default=[])
    """Members without which the gang does not start."""
    same_pool: bool = False
    """Whether all members run in one pool."""
    elastic: bool = False
    """Whether members beyond `min_members` are evicted one by one and join again, while the gang
    runs on."""
    ends_with: str | None = None
    """The member with which the gang ends."""
    sites: dict[str, str] = Field(default={})
    """Names by which members address each other, by job name."""
    heartbeat_seconds: int | None = None
    """How long a running member that reports may be silent."""
    needed: int = 0
    """How many members must run at once besides those that have completed."""
    ready: int = 0
    """How many members wait for slots alone."""
    missing: list[str] = Field(default=[])
    """The mandatory members that neither wait for slots, nor hold them, nor have completed."""


class GroupSummaryView(BaseModel):
    """A group without its members."""

    name: str
    state: str = ""
    """`running` while a member holds slots; else `pending` while one waits, `held` if all of them
    are held; else how the group ended: `completed`, `failed` or `cancelled`. A gang has completed
    when enough of its members have. Empty: no record of a member is left."""
    message: str = ""
    """Why a gang cannot start any more, or ended without completing, as a sentence."""
    max_parallel: int | None = None
    """For a sweep: the most members that hold slots at once."""
    gang: GangView | None = None
    """For a gang: its rules, and what it lacks."""
    submitter: str = ""
    project: str = ""
    submitted_at: str = ""
    members: int
    """How many members were submitted. The states leave out those whose records have expired, and
    those that the caller may not see."""
    states: dict[str, int]
    """How many members are in each state."""


class GroupView(GroupSummaryView):
    """A group with its members."""

    version: int = VERSION
    reason: ReasonView | None = None
    """Why a gang waits, or the members of a running gang that still wait. None in the answer to a
    submission, and for a sweep."""
    result: str | None = None
    """S3 URI of the model of the member that the gang ends with, once that has completed."""
    jobs: list[JobView]
    """The members, in the order of the submission, without place and reason. A retry takes the
    place of the member that it repeats."""
    next: str | None = None
    """Cursor of the page with the further members; null: the last page. A page has at most 1 MB."""
    sweep: SweepView | None = None
    """The trials and the goal of the sweep, if the submission declares them; only on the first
    page."""


class GroupsView(BaseModel):
    """The groups, by name."""

    version: int = VERSION
    groups: list[GroupSummaryView]
    left_out: int = 0
    """How many of the latest groups the answer has no room for: it has at most 1 MB."""
    examined: int = 0
    """How many jobs the answer was made from: the more, the more seldom it should be asked for."""


def gang_view(group: Group, *, needed: int, ready: int, missing: Sequence[str]) -> GangView:
    return GangView(
        min_members=group.min_members,
        mandatory=[*group.mandatory],
        same_pool=group.same_pool,
        elastic=group.elastic,
        ends_with=group.ends_with or None,
        sites=dict(group.sites),
        heartbeat_seconds=None if group.heartbeat is None else group.heartbeat // 1000,
        needed=needed,
        ready=ready,
        missing=[*missing],
    )


def summary_view(
    stored: StoredGroup,
    states: Iterable[str],
    *,
    gang: GangView | None = None,
    state: str = "",
    message: str = "",
) -> GroupSummaryView:
    """The group. `states`: of each of its members."""
    return GroupSummaryView(
        name=stored.group.name,
        state=state,
        message=message,
        max_parallel=stored.group.max_parallel,
        gang=gang,
        submitter=stored.submitter,
        project=stored.project,
        submitted_at=iso(stored.at),
        members=len(stored.group.members),
        states=dict(Counter(states)),
    )


def group_view(
    summary: GroupSummaryView,
    jobs: Sequence[JobView],
    reason: Reason | None = None,
    result: str = "",
    *,
    sweep: SweepView | None = None,
    following: str | None = None,
) -> GroupView:
    """The group, or a page of it. `jobs`: of the page; `following`: the cursor of the next one."""
    return GroupView(
        **dict(summary),
        reason=None if reason is None else reason_view(reason),
        result=result or None,
        jobs=[*jobs],
        next=following,
        sweep=sweep,
    )
