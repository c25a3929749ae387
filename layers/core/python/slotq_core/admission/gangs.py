"""Admission rules of gangs. One that empty pools could not hold is refused.

The members' own rules come first (`admission.rules`).

See docs/policy-decisions.md#gangs-parts-sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from slotq_core.admission.rules import NO_RIGHTS, bare, check_pools, classed
from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.pools import Pool
from slotq_core.policy.state.groups.concurrency import Bounded
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.groups.matching import assign
from slotq_core.policy.state.user_limits import Rights

FIELD = "gang"
"""The field of a submission that has a gang's rules."""


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
    if not _fits(_whole(group, jobs), {pool.name: pool.capacity for pool in pools}):
        for member in chain.from_iterable(members.values()):
            check_pools(member, pools)  # A member's own refusal says more.
    check_room(group, jobs, pools, rights)


def check_room(
    group: Group, jobs: Iterable[Job], pools: Sequence[Pool], rights: Rights = NO_RIGHTS
) -> None:
    """Raises NeverFits if empty pools, or the users' totals, could not hold enough of the gang at
    once, and InvalidRequest if it needs one pool and no pool is accepted by enough members."""
    gang = _whole(group, jobs)
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


def _whole(group: Group, jobs: Iterable[Job]) -> LiveGang:
    return LiveGang(group=group, waiting=tuple(jobs), active=())


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
            if gang.enough(assign(jobs, pools, room)):
                return True
    return False
