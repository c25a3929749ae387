"""The accounts at the beginning of a plan: requests and fair shares.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TYPE_CHECKING

from slotq_core.model.attempts import StopCause
from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import EVERYWHERE, Department, Project, weight_of
from slotq_core.model.sharing import FairShare
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import WaitingLine
from slotq_core.policy.state.groups.concurrency import wanting
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict
from slotq_core.policy.state.quotas.account import Account, Chain
from slotq_core.policy.state.quotas.fair_shares import Sharer, divide, weights_of

if TYPE_CHECKING:
    from slotq_core.policy.state.nodes.node_requests import NodeRequests
    from slotq_core.policy.state.nodes.own_amounts import SharedNodes

Holdings = Mapping[tuple[str, str, bool], Demand]
"""The amounts held, by project, scope, and whether they may be evicted."""


Asked = tuple[tuple[str, str], Demand, int]
"""Project and scope, a demand there, and how often it is asked for."""

Owners = tuple[Project | Department, ...]


def shared_resources(owners: Owners) -> tuple[str, ...]:
    """The resources that take part in shares: those named in quotas, else slots."""
    quotas = (owner.quota or {} for owner in owners)
    named = {name for by_scope in quotas for quota in by_scope.values() for name in quota}
    return tuple(sorted(named)) or ("slots",)


def opened(
    snapshot: Snapshot,
    scope: str,
    resources: tuple[str, ...],
    asked: Mapping[tuple[str, str], Demand],
    beyond_budget: AbstractSet[str] = frozenset(),
    *,
    now: int = 0,
) -> dict[str, Chain]:
    """By project, the accounts in one scope at `now` (ms), with their fair shares and nothing held
    yet. "Departments divide first; projects divide their department's part." `asked`: see
    `asked_in`. `beyond_budget`: the projects whose quota is 0 by their budget."""
    total = sum(
        (pool.offers(now) for pool in snapshot.pools if scope in {EVERYWHERE, pool.name}), NOTHING
    )

    def account(owner: Project | Department, age: int, configured_quota: Demand) -> Account:
        is_spent = isinstance(owner, Project) and owner.name in beyond_budget
        quota = NOTHING if is_spent else configured_quota
        limit = dict(owner.limit.get(scope, {}))
        if not owner.over_quota:
            limit |= {name: min(quota[name], limit.get(name, quota[name])) for name in resources}
        return Account(
            name=owner.name,
            age=age,
            owner=owner,
            resources=resources,
            quota=quota,
            limit=limit,
            configured_limit=owner.limit.get(scope, {}),
            configured_quota=configured_quota,
        )

    members: dict[str, list[Account]] = {department.name: [] for department in snapshot.departments}
    tops: list[Account] = []
    for age, project in enumerate(snapshot.projects):
        opened_account = account(project, age, project.quota.get(scope, NOTHING))
        opened_account.asked = asked.get((project.name, scope), NOTHING).smaller(total)
        members.get(project.department, tops).append(opened_account)
    departments = {}
    for age, department in enumerate(snapshot.departments):
        within = members[department.name]
        quota = sum((member.configured_quota for member in within), NOTHING)
        if department.quota is not None:
            quota = department.quota.get(scope, NOTHING)
        departments[department.name] = opened_account = account(department, age, quota)
        opened_account.asked = sum(
            (_within_limit(member, member.asked) for member in within), NOTHING
        )
    settings, past = snapshot.fair_share, snapshot.past_use.parts.get(scope)
    if settings is not None and settings.of_projects and past is not None:
        _share_out_over_time(total, departments, tops, members, past=past, settings=settings)
    else:
        _share_out(total, [*departments.values(), *tops])
        for name, above in departments.items():
            _share_out(above.share, members[name])
    chains: dict[str, Chain] = {top.name: (top,) for top in tops}
    for name, above in departments.items():
        chains |= {member.name: (member, above) for member in members[name]}
    return chains


def holdings(
    snapshot: Snapshot,
    scopes: Mapping[str, str],
    shared: SharedNodes | None = None,
    may_evict: MayEvict = BY_SETTING,
) -> Holdings:
    """The amounts held by starting and running jobs. `scopes`: the scope that each pool counts
    in. `shared`: what jobs count where projects share nodes."""
    held: dict[tuple[str, str, bool], list[Demand]] = defaultdict(list)
    for job in snapshot.active:
        if job.state is not JobState.STOPPING and job.attempt:
            scope = scopes.get(job.attempt.pool, EVERYWHERE)
            amount = job.demand if shared is None else shared.of(job, job.attempt.pool)
            held[job.project, scope, may_evict(job)].append(amount)
    return {key: Demand.total(demands) for key, demands in held.items()}


def asked_in(
    snapshot: Snapshot,
    lines: Sequence[WaitingLine],
    running: Holdings,
    scopes_of: Callable[[Sequence[str]], Sequence[str]],
    shut: AbstractSet[tuple[str, str]],
    *,
    on_nodes: NodeRequests | None = None,
    shared: SharedNodes | None = None,
) -> dict[tuple[str, str], Demand]:
    """By project and scope, the amounts held and waited for. A waiting job counts in the scope
    of each pool that it accepts and may use, unless its sweep keeps it back.

    `lines`: of all waiting jobs. `shut`: pairs of a project and a pool that it may not use.
    `on_nodes`: gathers the jobs that would run on nodes. `shared`: what jobs count where projects
    share nodes.
    """

    held = (((project, scope), amount, 1) for (project, scope, _), amount in running.items())
    asked = chain(
        held,
        _asked_again(snapshot, scopes_of, shared),
        _asked_by_waiting(snapshot, lines, scopes_of, shut, on_nodes),
        on_nodes.needed(scopes_of) if on_nodes is not None else (),
    )
    return Demand.totals(asked)


def _asked_again(
    snapshot: Snapshot,
    scopes_of: Callable[[Sequence[str]], Sequence[str]],
    shared: SharedNodes | None,
) -> Iterator[Asked]:
    for job, pool in _coming_back(snapshot):
        held = job.demand if shared is None else shared.of(job, pool)
        for scope in scopes_of([pool]):
            yield (job.project, scope), held, 1


def _asked_by_waiting(
    snapshot: Snapshot,
    lines: Sequence[WaitingLine],
    scopes_of: Callable[[Sequence[str]], Sequence[str]],
    shut: AbstractSet[tuple[str, str]],
    on_nodes: NodeRequests | None,
) -> Iterator[Asked]:
    for job, count in wanting(snapshot, lines):
        usable = job.pools
        if shut:
            usable = tuple(name for name in usable if (job.project, name) not in shut)
        for scope in scopes_of(usable) if usable else ():
            if on_nodes is None:
                yield (job.project, scope), job.demand, count
            elif not on_nodes.gather(job, count, scope, usable):
                yield (job.project, scope), on_nodes.alone(job, scope, usable), count


def _coming_back(snapshot: Snapshot) -> Iterator[tuple[Job, str]]:
    """The stopping jobs that will wait again or go on elsewhere, each with its pool: shares stay
    the same meanwhile. A claim counts in place of what its job holds now."""
    for job in snapshot.active:
        if job.state is not JobState.STOPPING or job.attempt is None:
            continue
        stop = job.attempt.stop
        if job.claim:
            yield job, job.claim.pool
        elif stop is not None and (
            stop.cause in {StopCause.EVICTED, StopCause.YIELDED, StopCause.CLOSED}
            or (stop.cause is StopCause.STALLED and job.retries)
        ):
            yield job, job.attempt.pool


def _within_limit(account: Account, amounts: Demand) -> Demand:
    """The amounts, up to the account's limit."""
    limit = account.limit
    if not limit:
        return amounts
    return Demand({name: min(most, limit.get(name, most)) for name, most in amounts.items()})


def _weight(account: Account, resource: str) -> int:
    """The weight that divides the resource's surplus: by default the quota as configured."""
    weight = weight_of(account.owner.weight, resource)
    return account.configured_quota[resource] if weight is None else weight


def _share_out_over_time(
    total: Demand,
    departments: Mapping[str, Account],
    tops: Sequence[Account],
    members: Mapping[str, Sequence[Account]],
    *,
    past: Mapping[str, int],
    settings: FairShare,
) -> None:
    """Divide by weights alone, and then with past use. `members`: by department. `past`: by
    project."""
    highest = [*departments.values(), *tops]
    projects = [*tops, *chain(*members.values())]
    for account in projects:
        account.past = past.get(account.name, 0)
    for name, above in departments.items():
        above.past = sum(member.past for member in members[name])
    _note_due(highest, 10_000)
    for name, above in departments.items():
        _note_due(members[name], above.due)
    for influence in (0, settings.influence):
        _share_out(total, highest, influence)
        for name, above in departments.items():
            _share_out(above.share, members[name], influence)
        if not influence:
            for account in (*projects, *departments.values()):
                account.share_by_weights = account.share
    for account in (*projects, *departments.values()):
        account.keeps = Demand(
            {name: _kept(name, account, total[name]) for name in account.resources}
        )


def _kept(name: str, account: Account, total: int) -> int:
    """How much of a resource the account keeps: a 32nd of all (rounded) more than its fair share,
    where past use moves that, but no more than its share by weights if that is larger."""
    assert account.share_by_weights is not None
    share, by_weights = account.share[name], account.share_by_weights[name]
    if share == by_weights:
        return share
    more = share + (total + 16) // 32
    return more if by_weights < share else min(more, by_weights)


def _note_due(accounts: Sequence[Account], whole: int) -> None:
    """Divide a part of all use among siblings by their weights."""
    for resource in accounts[0].resources[:1] if accounts else ():
        weights = weights_of(_sharers(accounts, resource))
        total = sum(weights.values())
        for account in accounts:
            account.due = whole * weights[account.key] // max(1, total)


def _sharers(accounts: Iterable[Account], resource: str) -> list[Sharer]:
    return [
        Sharer(
            name=account.key,
            age=account.age,
            quota=account.quota[resource],
            limit=account.limit.get(resource),
            request=account.asked[resource],
            weight=_weight(account, resource),
            priority=account.owner.priority,
            past=account.past,
        )
        for account in accounts
    ]


def _share_out(total: Demand, accounts: Iterable[Account], influence: int = 0) -> None:
    everyone = list(accounts)
    shares: dict[str, Mapping[str, int]] = {}
    for resource in everyone[0].resources if everyone else ():
        shares[resource] = divide(total[resource], _sharers(everyone, resource), influence)
    for account in everyone:
        account.share = account.keeps = Demand(
            {name: shares[name][account.key] for name in account.resources}
        )
        account.deserved = _within_limit(account, account.quota.larger(account.share))
