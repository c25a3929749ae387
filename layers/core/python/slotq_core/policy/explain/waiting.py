"""Step 5, explain: every job examined and left waiting gets a typed reason with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from slotq_core.model import reasons
from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import PoolState
from slotq_core.model.projects import PARTS
from slotq_core.model.reasons import Reason
from slotq_core.policy.actions.action_rules import Rules
from slotq_core.policy.lifecycle.missing_rights import (
    no_eviction_until,
    takes_only_free_slots,
)
from slotq_core.policy.order import outranks, rank, same_user_and_rank
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.groups.job_parts import whole_name
from slotq_core.policy.state.groups.matching import NodeBins
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Account
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.gate import may_reclaim
from slotq_core.policy.state.user_limits import UserBooks

ClosedTo = Callable[[Job, PoolRoom], bool]
"""Whether the room drains for a job ahead."""


def _numbers(job: Job, room: PoolRoom) -> dict[str, Any]:
    """The pool, the slots that the job needs, and those that were free when the plan began."""
    free = max(0, room.free_now.slots)
    return {"pool": room.pool.name, "needed": job.demand.slots, "free": free}


def coming(job: Job, room: PoolRoom) -> Reason:
    """The reason of a job that waits for slots coming free, or for the pool of its claim. Made
    before the room sets the slots aside for the job."""
    if room.unavailable:
        return _unwell(job, room)
    if room.rights.keeps_out(job):
        return _lacking(job, room)
    return reasons.SlotsComing(
        pool=room.pool.name,
        needed=job.demand.slots,
        free=max(0, room.free.slots),
        coming=max(0, room.coming.slots),
        releasing=room.warm.released_for.get(job.name, NOTHING).slots if room.warm else 0,
    )


def reserved(job: Job, room: PoolRoom, at_latest: int | None) -> Reason:
    """The reason of a job that the room drains for. `at_latest`: by when the job has its slots."""
    held_back = room.drain.held_back if room.drain else ""
    return reasons.Reserved(**_numbers(job, room), project=held_back, at_latest=at_latest)


def too_small(job: Job, rooms: Iterable[PoolRoom], accounts: Accounts) -> Reason:
    """The reason of a job for which no pool that it may use is large enough."""
    every = list(rooms)
    shut = [name for name in job.pools if not accounts.open_to(job, name)]
    if shut and not every:
        return reasons.PoolNotOpen(pool=shut[0], project=job.project)
    drained = [room for room in every if room.pool.state is PoolState.DRAINED]
    if drained:
        return _unwell(job, drained[0])
    resource = next((short(job, room.size) for room in every), "slots")
    largest = max((room.size[resource] for room in every), default=0)
    return reasons.PoolsTooSmall(needed=job.demand[resource], largest=largest, resource=resource)


def taken_back(job: Job, room: PoolRoom) -> Reason:
    """The reason of a job whose slots go to another job that may reclaim them."""
    return reasons.HeldForOthers(**_numbers(job, room), holder="a project that deserves it")


def incomplete(gang: LiveGang) -> Reason:
    """The reason of a gang with too few waiting members."""
    here = {job.name for job in gang.waiting}
    return reasons.GangIncomplete(
        group=gang.group.name,
        needed=gang.needed,
        waiting=len(here),
        missing=tuple(sorted(gang.mandatory - here)),
    )


def not_yet_in(gang: LiveGang) -> Reason:
    """The reason of a member of an elastic gang that runs without it."""
    return reasons.NotYetIn(
        group=gang.group.name,
        running=len(gang.live),
        members=len(gang.group.members),
        ending=gang.is_ending,
    )


def gang_blocked(gang: LiveGang, state: PlanState, rules: Rules) -> reasons.GangBlocked:
    """The reason of a gang without room, with a second cause."""
    rooms = [state.rooms[name] for name in gang.representative.pools if name in state.rooms]
    lacks, no_gpus_left = _lacks(gang, state, rules.eligible.closed_to)
    return reasons.GangBlocked(
        group=gang.group.name,
        needed=gang.needed,
        free=sum(max(0, room.free_now.slots) for room in rooms),
        drains="",
        lacks=lacks,
        also=_also_of_gang(gang, state) or no_gpus_left,
    )


def _lacks(
    gang: LiveGang, state: PlanState, closed_to: ClosedTo
) -> tuple[reasons.Lacks | None, reasons.NoGpusFree | None]:
    """The first member, in the order of service, for which the others leave no room; if it takes
    GPUs of nodes, with what these have left."""
    left = {
        name: state.rooms[name].free for name in gang.representative.pools if name in state.rooms
    }
    bins = _free_on_nodes(gang, state) if state.nodes else None
    for job in gang.in_service_order:
        rooms = state.rooms_of(job)
        able = [room for room in rooms if _is_well(job, room) and not closed_to(job, room)]
        if bins and job.gpus and bins.joined(job, [room.pool.name for room in able]):
            continue
        room = next((room for room in able if job.demand.within(left[room.pool.name])), None)
        if room is not None:
            left[room.pool.name] -= job.demand
            if bins and job.gpus:
                bins.open(job, room.pool.name)
        elif rooms:
            room = rooms[0]
            free = left[room.pool.name]
            drains = room.drain if job.demand.within(free) and closed_to(job, room) else None
            holders = [state.waiting[drains.job]] if drains else _holders(room, gang, state)
            lacks = _lacks_in(room, job, free, gang, holders)
            on_nodes = bins is not None and bins.takes(job, room.pool.name)
            return lacks, _no_gpus_left(job, room, bins, free) if bins and on_nodes else None
    return None, None


def _no_gpus_left(
    job: Job, room: PoolRoom, bins: NodeBins, instances: Demand
) -> reasons.NoGpusFree:
    """What the nodes have left for the member beside the others."""
    found = bins.left(job, room.pool.name)
    pieces = [amount for left in found for amount in left if amount > 0]
    return reasons.NoGpusFree(
        pool=room.pool.name,
        needed=job.gpus,
        free=sum(pieces),
        largest=max(pieces, default=0),
        nodes=sum(sum(left) > 0 for left in found),
        instances=max(0, instances.slots),
    )


def _free_on_nodes(gang: LiveGang, state: PlanState) -> NodeBins:
    """The GPUs that are free on nodes of the members' tenants."""
    assert state.nodes is not None
    bins = NodeBins(gang.gpus_in)
    from slotq_core.policy.state.nodes.gang_members import nodes_of

    for tenant, room in nodes_of(gang, state.nodes):
        bins.add(room.pool, tenant, room.open_now)
    return bins


def _lacks_in(
    room: PoolRoom, job: Job, left: Demand, gang: LiveGang, holders: Iterable[Job]
) -> reasons.Lacks:
    """The member's shortfall in its first pool, and the largest holder there. `holders`: the job
    that the pool drains for, if that keeps the member out, else all."""
    resource = short(job, left)
    holders = sorted(holders, key=lambda holder: (-holder.demand[resource], holder.name))
    site = gang.group.site(job.name)
    return reasons.Lacks(
        member=whole_name(job.name),
        pool=room.pool.name,
        site="" if site == job.name else site,
        member_needs=job.demand[resource],
        pool_free=max(0, left[resource]),
        resource=resource,
        holder=whole_name(holders[0].name) if holders else "",
        holder_project=holders[0].project if holders else "",
        other_holders=max(0, len(holders) - 1),
    )


def _holders(room: PoolRoom, gang: LiveGang, state: PlanState) -> list[Job]:
    """The jobs of others that hold, claim or await slots in the room, also those on nodes."""
    held: Iterable[Job] = room.jobs.everyone()
    if state.nodes:
        held = [own for shown in held for own in state.nodes.stand_ins.jobs_on(shown)]
    jobs = (*room.claims.values(), *room.awaiting, *held)
    return [*{job.name: job for job in jobs if job.group != gang.group.name}.values()]


def _also_of_gang(gang: LiveGang, state: PlanState) -> Reason | None:
    """Pools that are shut to a member, or else a limit or quota that keeps back one member or, if
    all are needed, all of them."""
    alike = {
        (job.demand, job.pools, job.priority_class, state.may_evict(job)): job
        for job in gang.in_service_order
    }
    for job in alike.values():
        rooms = state.rooms_of(job)
        if rooms and (found := shut(job, rooms)):
            return found
    whole = [gang.representative] if gang.needed == len(gang.waiting) else []
    for job in (*alike.values(), *whole):
        every = [bounds(job, room, state) for room in state.rooms_of(job)]
        if every and all(every):
            return every[0][0]
    return None


def endangers(job: Job, room: PoolRoom, counts_as: str) -> Reason:
    return reasons.EndangersItsGang(**_numbers(job, room), group=job.group, counts_as=counts_as)


def shut(job: Job, rooms: Sequence[PoolRoom]) -> Reason | None:
    """The reason if each of these rooms is unavailable, or lacks a right that the job needs."""
    if any(_is_well(job, room) for room in rooms):
        return None
    room = rooms[0]
    if room.unavailable:
        return _unwell(job, room)
    return _too_late(job, room) or _lacking(job, room)


def closest(job: Job, rooms: Sequence[PoolRoom]) -> PoolRoom:
    """The available room where the fewest slots are missing. Raises ValueError if all are shut."""
    well = (room for room in rooms if _is_well(job, room))
    return min(well, key=lambda room: job.demand.slots - max(0, room.free_now.slots))


def _is_well(job: Job, room: PoolRoom) -> bool:
    return not (room.unavailable or room.rights.keeps_out(job) or _too_late(job, room))


def _too_late(job: Job, room: PoolRoom) -> Reason | None:
    """The reason of a job that would not have ended when its pool closes, or reserved slots are
    needed."""
    closing = room.closing
    if closing is None or not closing.keeps_out([job], job.demand.slots):
        return None
    return closing.why(job)


def by_hours(job: Job, rooms: Sequence[PoolRoom]) -> Reason | None:
    """The reason of a job that only pools could hold which offer too few slots at this hour."""
    found = [room for room in rooms if room.closing and job.demand.within(room.pool.capacity)]
    return shut(job, found) or _hours(job, found[0]) if found else None


def _hours(job: Job, room: PoolRoom) -> Reason:
    assert room.closing is not None
    return room.closing.why(job)


def bounds(job: Job, room: PoolRoom, state: PlanState) -> list[Reason]:
    """The limits and quotas that keep the job out of the room, whatever is free."""
    found = (
        state.budgets.reason(job.project) if _is_by_budget(bound, job, state) else bound
        for bound in _bounds(job, room, state.accounts)
        if not isinstance(bound, reasons.QuotaExceeded)
        or not state.limits.quotas_allow(job, room.pool.name)
    )
    return list(dict.fromkeys(found))


def no_room(job: Job, room: PoolRoom, state: PlanState, rules: Rules) -> Reason:
    """The reason that lies in the room."""
    if job.gpus and state.nodes and state.nodes.takes(job, room.pool.name):
        return no_gpus(job, room, state)
    accounts = state.accounts
    if room.rights.missing(job) and not job.demand.within(room.free_now):
        return _lacking(job, room)
    if not job.demand.within(room.free_now) and takes_only_free_slots(
        job, room.pool.name, state.now
    ):
        return reasons.QuotaRefused(
            **_numbers(job, room), until=no_eviction_until(job), cause=job.message
        )
    drained_for = room.drain.job if room.drain and rules.eligible.closed_to(job, room) else ""
    holder = drained_for or room.holder or next(iter(room.claims), "")
    if job.demand.within(room.free_now) and holder:
        return _held(job, room, holder, state)
    held = room.jobs.held_below(rank(job), job.project)
    enough = job.demand.within(room.left(job) + held)
    if held and enough and state.shares.beyond(job, room.pool.name).within(held):
        return reasons.LowerRankedProtected(**_numbers(job, room), until=protection_ends(job, room))
    until = min(rules.slices.yielding(job, room).values(), default=None)
    if until is not None:
        return reasons.TurnComes(**_numbers(job, room), until=until)
    own = _of_the_same_user(job, room, rules)
    if own is not None:
        return own
    full = _full(job, room, accounts, held)
    return state.budgets.reason(job.project) if _is_by_budget(full, job, state) else full


def no_gpus(job: Job, room: PoolRoom, state: PlanState) -> Reason:
    """The reason of a job for which no node of its tenant has room."""
    pool = room.pool.name
    index = state.nodes.index(job, pool) if state.nodes else None
    rooms = [*index.rooms.values()] if index else []
    own = [found.open_now for found in rooms if found.entrance.may_enter(job, now=True)]
    others = [found.open_now for found in rooms if not found.entrance.may_enter(job, now=True)]
    pieces = [amount for found in own for amount in found if amount > 0]
    return reasons.NoGpusFree(
        pool=pool,
        needed=job.gpus,
        free=sum(pieces),
        largest=max(pieces, default=0),
        nodes=sum(sum(found) > 0 for found in own),
        instances=max(0, room.free_now.slots),
        others=sum(map(sum, others)),
    )


def _of_the_same_user(job: Job, room: PoolRoom, rules: Rules) -> Reason | None:
    """The reason of a job that would start by a move or a time slice if the jobs of its user and
    rank in its project were another user's; else None."""
    held = [other for other in room.jobs.running(job.project) if same_user_and_rank(job, other)]
    if not held:
        return None
    moves = rules.consolidation.find(job, [room], same_user=True)
    if moves is None and not job.demand.within(
        room.left(job) + rules.slices.of_same_user(job, room)
    ):
        return None
    return reasons.SameUser(**_numbers(job, room), held=sum(other.demand.slots for other in held))


def _is_by_budget(why: Reason, job: Job, state: PlanState) -> bool:
    """Whether the numbers of the reason come from the quota that a soft budget has set to 0."""
    if job.project not in state.budgets.soft:
        return False
    if isinstance(why, reasons.HoldingLimit):
        return why.owner == job.project and why.limit == 0
    in_quota = isinstance(why, reasons.QuotaExceeded) and why.owner == job.project
    return in_quota or isinstance(why, reasons.ShareUsed)


def _full(job: Job, room: PoolRoom, accounts: Accounts, held: Demand) -> Reason:
    """The reason if too little is free and nothing may be evicted for the job. `held`: what lower
    ranks of its project hold in the room."""
    chain = accounts.of(job, room.pool.name)
    needs, units = asked(job, room.pool.name, accounts), in_units(accounts)
    if chain and not may_reclaim(needs, chain):
        over = beyond(chain[0], needs)
        past, due = past_figures(chain[0])
        return reasons.ShareUsed(
            pool=room.pool.name,
            needed=units(needs[over]),
            project=chain[0].name,
            used=units(chain[0].used[over]),
            share=units(chain[0].share[over]),
            quota=units(chain[0].quota[over]),
            resource=over,
            past_use=past,
            due=due,
        )
    missing = short(job, room.free_now)
    return reasons.NoFreeSlots(
        pool=room.pool.name,
        needed=job.demand[missing],
        free=max(0, room.free_now[missing]),
        capacity=room.size[missing],
        lower_ranked=held[missing],
        resource=missing,
    )


def _held(job: Job, room: PoolRoom, holder: str, state: PlanState) -> Reason:
    """The reason if slots are held for another job; with project figures across projects."""
    held = reasons.HeldForOthers(**_numbers(job, room), holder=holder)
    chain = state.accounts.of(job, room.pool.name)
    owner = state.waiting[holder].project if holder in state.waiting else job.project
    if not chain or owner == job.project:
        return held
    units = in_units(state.accounts)
    return replace(
        held,
        holder_project=owner,
        project=chain[0].name,
        used=units(chain[0].used.slots),
        quota=units(chain[0].quota.slots),
    )


def _bounds(job: Job, room: PoolRoom, accounts: Accounts) -> Iterator[Reason]:
    """The user, project and department limits, and the quotas of work that cannot be evicted, that
    keep the job back."""
    if accounts.users.admits_in(job, room.pool.name) is None:
        yield _user_bound(job, room.pool.name, accounts.users)
    if accounts.on_nodes.limits is not None:
        for account, name, needed, used, most in accounts.on_nodes.limits.bounds(
            job, room.pool.name
        ):
            yield reasons.HoldingLimit(
                owner=account.name, needed=needed, used=used, limit=most, resource=name
            )
    needs, units = asked(job, room.pool.name, accounts), in_units(accounts)
    for account in accounts.of(job, room.pool.name):
        if account.over_limit(needs):
            yield _limit(needs, account, units)
        if not accounts.may_evict(job) and not account.fixed_in_quota(needs):
            held = account.fixed + needs
            over = next(name for name in account.resources if held[name] > account.quota[name])
            yield reasons.QuotaExceeded(
                owner=account.name,
                needed=units(needs[over]),
                used=units(account.fixed[over]),
                quota=units(account.quota[over]),
                resource=over,
            )


def _user_bound(job: Job, pool: str, users: UserBooks) -> Reason:
    """The reason if none of the job's classes has room within the user's limits."""
    user = job.person
    totals = {name: users.total(user, name, pool) or 0 for name in users.choices(job)}
    left = {name: total - users.held(user, name, pool) for name, total in totals.items() if total}
    if not left:
        asked = job.priority_class or next(iter(totals))
        return reasons.ClassForbidden(pool=pool, user=user, priority_class=asked)
    name = max(left, key=lambda resource: left[resource])
    return reasons.UserLimitReached(
        pool=pool,
        needed=job.demand.slots,
        user=user,
        priority_class=name,
        used=users.held(user, name, pool),
        limit=totals[name],
    )


def _limit(needs: Demand, account: Account, units: Callable[[int], float]) -> Reason:
    held = account.used + account.stopping
    over = next(
        name
        for name, most in account.limit.items()
        if name in needs and held[name] + needs[name] > most
    )
    return reasons.HoldingLimit(
        owner=account.name,
        needed=units(needs[over]),
        used=units(held[over]),
        limit=units(account.limit[over]),
        resource=over,
    )


def short(job: Job, room: Demand) -> str:
    """The first resource that is missing; `slots` if slots or nothing is missing."""
    missing = [name for name, amount in job.demand.items() if amount > room[name]]
    return "slots" if "slots" in missing or not missing else missing[0]


def beyond(account: Account, needs: Demand) -> str:
    """The first resource of which the account would exceed its share with so much more; else
    `slots`."""
    held = account.used + needs
    return next((name for name in account.resources if held[name] > account.share[name]), "slots")


def asked(job: Job, pool: str, accounts: Accounts) -> Demand:
    """What the job counts in the accounts of the pool."""
    return job.demand if accounts.shared is None else accounts.shared.of(job, pool)


def past_figures(account: Account) -> tuple[float | None, float | None]:
    """The account's part of past use and the part that its weight deserves, as percentages; None:
    past use does not count."""
    if account.share_by_weights is None:
        return None, None
    return round(account.past * 100 / PARTS, 1), round(account.due / 100, 1)


def in_units(accounts: Accounts) -> Callable[[int], float]:
    """Turns an amount of the accounts into units of the resource."""
    return int if accounts.shared is None else accounts.shared.in_units


def _unwell(job: Job, room: PoolRoom) -> Reason:
    if room.pool.state is not PoolState.ACTIVE:
        return reasons.PoolClosed(pool=room.pool.name, state=room.pool.state)
    if room.closing is not None and room.closing.is_shut:
        return room.closing.why(job)
    health = room.pool.health
    if room.rests:
        return reasons.PoolBacksOff(
            pool=room.pool.name, until=health.not_before or 0, cause=health.message
        )
    return reasons.PoolIsProbed(pool=room.pool.name, needed=job.demand.slots, probe=room.probe)


def _lacking(job: Job, room: PoolRoom) -> Reason:
    missing = room.rights.missing(job)
    assert missing is not None
    return reasons.RightsMissing(
        pool=room.pool.name,
        role=missing.role,
        action=missing.action,
        until=room.rights.tried_again(job),
        probe=room.rights.tries(job),
        cause=missing.message,
    )


def protection_ends(job: Job, room: PoolRoom) -> int | None:
    """When (ms) the first protection ends of a job that may then be evicted or moved for this one;
    None if no such protection exists."""
    for until, other in room.jobs.protections.values():
        lower = other.project != job.project or outranks(job, other)
        if room.jobs.may_evict(other) and (lower or room.pool.consolidate):
            return until
    return None
