"""Admission of groups: each member by its own rules (`admission.submission`), then the whole.

A gang that empty pools could not hold is refused.

See docs/policy-decisions.md#gangs-parts-sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain

from slotq_core.admission.dependencies import check_members
from slotq_core.admission.rules import NO_RIGHTS, bare, check_pools, classed
from slotq_core.admission.submission import Admitted, Request
from slotq_core.errors import InvalidRequest, NeverFits, Refused
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, Sweep, member_fault
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.pools import Pool, gpus_of
from slotq_core.policy.state.groups.concurrency import Bounded
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.groups.matching import NodeBins, assign
from slotq_core.policy.state.user_limits import Rights
from slotq_core.wire.training.field_paths import keeps_checkpoints

FIELD = "gang"
"""The field of a submission that has a gang's rules."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewGroup:
    """A well-formed submission of a group."""

    name: str
    members: tuple[tuple[Submission, Request], ...]
    """Each submission with the group's name."""
    digest: str
    max_parallel: int | None = None
    """For a sweep; None: a gang, with the rules below (`model.groups.Group`)."""
    sweep: Sweep | None = None
    """The parameters and the goal of a sweep."""
    min_members: int | None = None
    mandatory: tuple[str, ...] = ()
    same_pool: bool = False
    elastic: bool = False
    ends_with: str = ""
    sites: Mapping[str, str] = field(default_factory=dict)
    heartbeat: int | None = None

    @property
    def group(self) -> Group:
        return Group(
            name=self.name,
            members=tuple(submission.name for submission, _ in self.members),
            min_members=self.min_members,
            mandatory=(*self.mandatory, *({self.ends_with} - {"", *self.mandatory})),
            same_pool=self.same_pool,
            elastic=self.elastic,
            ends_with=self.ends_with,
            sites=self.sites,
            heartbeat=self.heartbeat,
            max_parallel=self.max_parallel,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedGroup:
    """A group after admission."""

    project: str
    """Of all members."""
    jobs: Sequence[Job]
    """The members in the order of the submission; a stored member as stored."""
    request: Request
    """The request of the member whose output location is the rendezvous of a gang: the one that
    ends the gang, else the first."""
    admitted: Sequence[Admitted]
    """All members, as they are to be stored."""
    missing: Sequence[Sequence[Admitted]]
    """The members that are not stored, in waves: each comes after members of earlier waves only."""


def judged_group(
    wanted: NewGroup,
    admit: Callable[[Submission, Request], Admitted],
    *,
    known: Mapping[str, Job],
    pools: Sequence[Pool],
    rights: Rights,
) -> JudgedGroup:
    """Check every member and the whole. `admit` checks one member; `known`: the members that are
    stored. Raises what `admit` raises, with the member's number, and InvalidRequest and NeverFits.
    """
    waves = _in_waves(wanted)
    awaited = {
        name
        for submission, _ in wanted.members
        for name in (*submission.after, *submission.after_any)
    }
    goal = wanted.sweep is not None and wanted.sweep.goal is not None
    admitted = []
    for number, (submission, request) in enumerate(wanted.members):
        with naming(number):
            member = admit(submission, request)
            if wanted.heartbeat is not None:
                _check_heard(member.request)
            if wanted.elastic and (fault := member_fault(member.job.gpus, member.job.workload)):
                raise InvalidRequest(fault, field="Tags")
            followed = goal or member.job.name in awaited
            admitted.append(replace(member, job=replace(member.job, followed=followed)))
    jobs = [known.get(member.job.name, member.job) for member in admitted]
    project = _common_project(jobs)
    if wanted.max_parallel is None:
        check_room(wanted.group, jobs, pools, rights)
    members = {member.job.name: member for member in admitted}
    return JudgedGroup(
        project=project,
        jobs=jobs,
        request=members[wanted.ends_with or jobs[0].name].request,
        admitted=admitted,
        missing=[[members[name] for name in wave if name not in known] for wave in waves],
    )


@contextmanager
def naming(number: int) -> Iterator[None]:
    """Add the member's number to a refusal."""
    try:
        yield
    except Refused as error:
        error.within(f"members.{number}")
        raise


def _in_waves(wanted: NewGroup) -> tuple[tuple[str, ...], ...]:
    after = {member.name: (*member.after, *member.after_any) for member, _ in wanted.members}
    return check_members(wanted.name, after, gang=wanted.max_parallel is None)


def _common_project(jobs: Iterable[Job]) -> str:
    projects = sorted({job.project for job in jobs})
    if len(projects) > 1:
        raise InvalidRequest(
            f"the members of a group belong to one project, not to {', '.join(projects)}",
            field="members",
        )
    return projects[0]


def _check_heard(request: Request) -> None:
    """Refuse a member without a checkpoint location: its reports, and so its silence, would go
    unnoticed."""
    if not keeps_checkpoints(request):
        raise InvalidRequest(
            "heartbeat_seconds needs a CheckpointConfig with an S3Uri in every member: scripts "
            "leave their reports there",
            field="CheckpointConfig",
        )


def check_gang(
    group: Group,
    members: Mapping[str, Sequence[Submission]],
    pools: Sequence[Pool],
    rights: Rights = NO_RIGHTS,
) -> None:
    """Check members without an admission of their own. Raises as `check_room`, and InvalidRequest
    if a member names no pool. `members` maps persons to their submissions."""
    jobs = [
        bare(member, user, pools) for user, submissions in members.items() for member in submissions
    ]
    if not _fits(_whole(group, jobs, pools), {pool.name: pool.capacity for pool in pools}):
        for member in chain.from_iterable(members.values()):
            check_pools(member, pools)  # A member's own refusal says more.
    check_room(group, jobs, pools, rights)


def check_room(
    group: Group, jobs: Iterable[Job], pools: Sequence[Pool], rights: Rights = NO_RIGHTS
) -> None:
    """Raises NeverFits if empty pools, or the users' totals, could not hold enough of the gang at
    once, and InvalidRequest if it needs one pool and no pool is accepted by enough members."""
    gang = _whole(group, jobs, pools)
    if group.same_pool:
        _check_common_pool(gang)
    room = {pool.name: pool.capacity for pool in pools}
    if not _fits(gang, room):
        raise NeverFits(
            f"{_must_start(gang)}, more than its pools can hold even when empty", field=FIELD
        )
    bounded = Bounded([classed(job, rights) for job in gang.waiting], rights, rights.total)
    room = {name: amount + bounded.left(name) for name, amount in room.items()}
    if not _fits(gang, room, bounded):
        users = sorted({job.person for job in gang.waiting})
        limits = "; ".join(f"{user}: {rights.limits_in_words(user, room)}" for user in users)
        raise NeverFits(
            f"{_must_start(gang)}, more than its users may ever hold: {limits}", field=FIELD
        )


def _whole(group: Group, jobs: Iterable[Job], pools: Iterable[Pool]) -> LiveGang:
    gpus_in = {pool.name: gpus_of(pool) for pool in pools if pool.nodes is not None}
    return LiveGang(group=group, waiting=tuple(jobs), active=(), gpus_in=gpus_in)


def _must_start(gang: LiveGang) -> str:
    where = " in one pool" if gang.group.same_pool else ""
    return f"gang '{gang.group.name}' must start {gang.needed} of its jobs at once{where}"


def _check_common_pool(gang: LiveGang) -> None:
    """Raises InvalidRequest unless enough members accept one and the same pool."""
    accepting = {
        pool: [job.name for job in gang.waiting if pool in job.pools]
        for pool in gang.representative.pools
    }
    if any(gang.enough(names) for names in accepting.values()):
        return
    acceptances = ", ".join(f"{pool} by {len(names)}" for pool, names in accepting.items())
    among = ", the mandatory ones among them" if gang.mandatory else ""
    raise InvalidRequest(
        f"{_must_start(gang)}{among}, and no pool is accepted by so many: {acceptances}",
        field=f"{FIELD}.same_pool",
    )


def _fits(gang: LiveGang, room: Mapping[str, Demand], bounded: Bounded | None = None) -> bool:
    """Whether enough of the gang fits at once. `bounded`: the users' limits to count."""
    for order in gang.orders():
        jobs = [bounded.counted(job) if bounded else job for job in order]
        for allowed in gang.allowed_pools():
            pools = {job.name: [name for name in job.pools if name in allowed] for job in jobs}
            bins = NodeBins(gang.gpus_in) if gang.gpus_in else None
            if gang.enough(assign(jobs, pools, room, bins)):
                return True
    return False
