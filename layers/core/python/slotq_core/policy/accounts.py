"""What each project and department holds, deserves and may not exceed, during one plan.

With numeric quotas everything counts over all pools together; with quotas by pool, pool by pool
(DESIGN 5.2). "Limits count what is stopping; fairness does not." What a job is owed by its claim
counts as held by both: it will be.

Of several resources, those take part in shares that a quota names (where none does: slots); the
others only have to be there. "Over when any is over, under when all are." A limit binds whatever
it names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeVar

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import EVERYWHERE, Department, Fairness, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.fit import PoolRoom
from slotq_core.policy.parallel import wanting
from slotq_core.policy.shares import Sharer, divide
from slotq_core.policy.stakes import Stake
from slotq_core.policy.users import Counted, Place, UserBooks

NOTHING = Demand()
INFINITE = float("inf")

K = TypeVar("K")

Deprivation = tuple[bool, bool, int, float, int, str]


@dataclass(kw_only=True, slots=True)
class Account:
    """One project or department in one scope. The amounts move as the walk decides."""

    name: str
    key: str = field(init=False)
    """A department and a project may bear one name."""
    age: int
    owner: Project | Department
    resources: tuple[str, ...]
    """Those that shares are made of."""
    quota: Demand
    limit: Mapping[str, int]
    """By resource; one that is not there has none."""
    share: Demand = field(default_factory=Demand)
    """Its fair share, fixed for the plan."""
    deserved: Demand = field(default_factory=Demand)
    """What "dominant share" is a part of: the larger of quota and share, up to the limit."""
    used: Demand = field(default_factory=Demand)
    """Held, in fairness' eyes."""
    fixed: Demand = field(default_factory=Demand)
    """The part of `used` that cannot be evicted."""
    stopping: Demand = field(default_factory=Demand)
    asked: Demand = field(default_factory=Demand)
    """What it holds and waits for in all."""
    known: dict[Demand, Deprivation] = field(default_factory=dict)
    """Its deprivation by the demand asked for, as long as `used` stands."""

    def __post_init__(self) -> None:
        self.key = f"{type(self.owner).__name__} {self.name}"

    def over_share(self, gone: Demand = NOTHING) -> bool:
        """Over when it is in any resource."""
        return any(self.used[name] - gone[name] > self.share[name] for name in self.resources)

    def over_quota(self, gone: Demand = NOTHING) -> bool:
        return any(self.used[name] - gone[name] > self.quota[name] for name in self.resources)

    def in_share(self, demand: Demand) -> bool:
        """Whether it stays within its fair share, in all resources, with the demand."""
        return self._within(self.share, demand)

    def in_quota(self, demand: Demand) -> bool:
        return self._within(self.quota, demand)

    def fixed_in_quota(self, demand: Demand) -> bool:
        """Whether what cannot be evicted stays within the quota, with the demand."""
        held = self.fixed + demand
        return all(held[name] <= self.quota[name] for name in self.resources)

    def over_limit(self, demand: Demand) -> Demand:
        """How much too much it would hold with the demand."""
        if not self.limit:
            return NOTHING
        held = self.used + self.stopping + demand
        return Demand({n: max(0, held[n] - most) for n, most in self.limit.items() if n in demand})

    def asking(self, demand: Demand) -> Deprivation:
        """`deprivation` with the demand, made once for each until the account moves."""
        known = self.known.get(demand)
        if known is None:
            known = self.known[demand] = self.deprivation(demand)
        return known

    def deprivation(self, demand: Demand = NOTHING, gone: Demand = NOTHING) -> Deprivation:
        """Who is served first between projects, and between departments: smaller is more deprived.

        "Not over its fair share; within quota after this job; project priority; lower dominant
        share with this job counted; older; name."
        """
        after = (self.used - gone if gone else self.used) + demand
        return (
            self.over_share(gone),
            any(after[name] > self.quota[name] for name in self.resources),
            -self.owner.priority,
            self._largest_part(after, self.deserved),
            self.age,
            self.name,
        )

    def stretch(self, demand: Demand = NOTHING, gone: Demand = NOTHING) -> float:
        """What it holds over its fair share, as a ratio: above 1 it has more than it deserves."""
        held = self.used - gone + demand
        return self._largest_part(held, self.share)

    def _within(self, bound: Demand, demand: Demand) -> bool:
        return all(self.used[name] + demand[name] <= bound[name] for name in self.resources)

    def _largest_part(self, held: Demand, base: Demand) -> float:
        """The largest part that is held of the base, in any resource."""
        parts = [
            held[name] / base[name] if base[name] > 0 else INFINITE
            for name in self.resources
            if held[name] > 0
        ]
        return max(parts, default=0.0)


Mark = tuple[int, int, dict[Place, Counted]]

Chain = tuple[Account, ...]
"""A project's account and then its department's, where it has one. Empty: no projects at all."""


class Accounts:
    """The books of one plan."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.users = UserBooks(snapshot)
        self._projects = {project.name: project for project in snapshot.projects}
        self._departments = {each.name: each for each in snapshot.departments}
        pools = [pool.name for pool in snapshot.pools]
        owners: tuple[Project | Department, ...] = (*snapshot.projects, *snapshot.departments)
        by_pool = any(
            EVERYWHERE not in amounts
            for owner in owners
            for amounts in (owner.quota, owner.limit)
            if amounts
        )
        self._shut = {
            (project.name, pool.name)
            for pool in snapshot.pools
            for project in snapshot.projects
            if not (pool.open or _has_quota(project, pool.name if by_pool else EVERYWHERE))
        }
        """Projects, and the pools that they may not use."""
        self._scope = {name: name if by_pool else EVERYWHERE for name in pools}
        self._together = {
            scope: frozenset(name for name, its in self._scope.items() if its == scope)
            for scope in self._scope.values()
        }
        """By scope, the pools that count in it."""
        self._resources = _shared_resources(owners)
        self._books: dict[tuple[str, str], Chain] = {}
        self._moved: dict[str, str] = {}
        self.gates_opened = 0
        """How often somebody has come above its share or quota: then whoever was blocked before may
        reclaim what it could not. What was only tried does not count."""
        self._over: dict[str, set[str]] = defaultdict(set)
        """By scope, the projects over their quota or share. Kept, for each reclaim asks for them
        and few ever are."""
        self._before: list[tuple[str, str, list[tuple[Account, Demand, Demand, Demand]]]] = []
        """What the accounts were before each change, to go back to."""
        asked = _asked(snapshot, self._scopes_of, self._shut) if owners else {}
        for scope in dict.fromkeys(self._scope.values() if owners else ()):
            self._open(snapshot, scope, asked)
        self._begin(snapshot)

    def of(self, job: Job, pool: str) -> Chain:
        return self._books.get((job.project, self._scope.get(pool, EVERYWHERE)), ())

    def open_to(self, job: Job, pool: str) -> bool:
        """ "A new pool is open to every project with quota 0 unless `open: false`": then only to
        those that have a quota there."""
        return (job.project, pool) not in self._shut

    def take(self, job: Job, pool: str) -> None:
        """The job holds its demand in that pool, or is owed it."""
        self.users.take(job, pool)
        self._move(job, pool, job.demand)

    def give_back(self, job: Job, pool: str) -> None:
        self.users.give_back(job, pool)
        self._move(job, pool, NOTHING - job.demand)

    def may_give(self, mine: Chain, pool: str) -> AbstractSet[str]:
        """The projects outside of which nobody has anything that the first of the chain could
        reclaim: those over their quota or share, or everyone where in-quota work may be taken."""
        top = mine[-1].owner
        if isinstance(top, Department) and top.fairness is Fairness.FULL:
            return self._projects.keys()
        return self._over[self._scope[pool]]

    def moved(self) -> dict[str, str]:
        """The projects whose accounts have moved since this was last asked, each with the key of
        the last account of its chain."""
        moved, self._moved = self._moved, {}
        return moved

    def limits_allow(self, job: Job, pool: str) -> bool:
        """Whether the limits of its user, its project and its department have room for it."""
        return self.users.admits_in(job, pool) is not None and not self.over_limits(job, pool)

    def over_limits(self, job: Job, pool: str) -> Demand:
        """What others in them would have to give for the limits of its project and department to
        have room for the job."""
        over = NOTHING
        for account in self.of(job, pool):
            if account.limit:
                more = account.over_limit(job.demand)
                over = Demand({name: max(over[name], more[name]) for name in {*over, *more}})
        return over

    def left_by_limits(self, job: Job, pool: str, room: Demand) -> Demand:
        """What of the room the limits of its project and department leave to it and its like."""
        for account in self.of(job, pool):
            if account.limit:
                held = account.used + account.stopping
                most = {name: max(0, most - held[name]) for name, most in account.limit.items()}
                room = Demand({name: min(room[name], most.get(name, room[name])) for name in room})
        return room

    def quotas_allow(self, job: Job, pool: str) -> bool:
        """ "Any non-preemptible job, whatever its class, is bound by quota": with it admitted, what
        cannot be evicted stays within the quota, at each level."""
        return job.evictable or all(
            account.fixed_in_quota(job.demand) for account in self.of(job, pool)
        )

    def sharing_limit(self, room: PoolRoom, rooms: Iterable[PoolRoom]) -> list[PoolRoom]:
        """The other rooms whose use counts in the same limits."""
        scope = self._scope.get(room.pool.name)
        return [
            other
            for other in rooms
            if other is not room and self._scope.get(other.pool.name) == scope == EVERYWHERE
        ]

    def counted(self, stake: Stake, pool: str) -> Demand:
        """What it holds in all the pools that count together with that one."""
        return stake.frees_in(self._together.get(self._scope.get(pool, EVERYWHERE), frozenset()))

    def evict(self, victim: Job, pool: str) -> None:
        """It gives back its share at once, and counts in the limits until it has ended."""
        self._move(victim, pool, NOTHING - victim.demand)
        self._stop(victim, pool)

    def move(self, job: Job, pool: str) -> None:
        """It stops there, and has its claim already."""
        assert job.claim is not None
        self._move(job, pool, NOTHING - job.demand)
        self._stop(job, pool)
        self.take(job, job.claim.pool)

    def may_move(self, job: Job, here: str, pool: str) -> bool:
        """Whether what it holds here may count there. Where everything counts together it does now,
        but for its user, whose limits are by pool."""
        if not self.open_to(job, pool):
            return False
        if self._scope.get(pool) == self._scope.get(here):
            return self.users.admits_in(job, pool) is not None
        return self.limits_allow(job, pool) and self.quotas_allow(job, pool)

    def bound_by(self, job: Job, here: str, pool: str) -> set[str]:
        """Those whose limits it comes to count in by a move from here to that pool."""
        bound = {f"user {job.submitter}"} if self.users.limited(job.submitter, pool) else set()
        if self._scope.get(pool) != self._scope.get(here):
            bound |= {account.key for account in self.of(job, pool) if account.limit}
        return bound

    def _stop(self, job: Job, pool: str) -> None:
        """It counts in the limits until it has ended; but what moves within one account, once."""
        owed = [id(account) for account in self.of(job, job.claim.pool)] if job.claim else []
        for account in self.of(job, pool):
            if id(account) not in owed:
                account.stopping += job.demand

    def mark(self) -> Mark:
        """This moment, for `back_to`."""
        return len(self._before), self.gates_opened, self.users.mark()

    def back_to(self, mark: Mark) -> None:
        """Everything as it was at that moment."""
        length, self.gates_opened, users = mark
        self.users.back_to(users)
        while len(self._before) > length:
            project, scope, amounts = self._before.pop()
            for account, used, fixed, stopping in amounts:
                account.used, account.fixed, account.stopping = used, fixed, stopping
            self._note(project, scope)

    def _move(self, job: Job, pool: str, amount: Demand) -> None:
        scope = self._scope.get(pool, EVERYWHERE)
        chain = self.of(job, pool)
        before = [(each, each.used, each.fixed, each.stopping) for each in chain]
        self._before.append((job.project, scope, before))
        for account in chain:
            was_over = account.over_share(), account.over_quota()
            account.used += amount
            if not job.evictable:
                account.fixed += amount
            now_over = account.over_share(), account.over_quota()
            self.gates_opened += now_over > was_over
        self._note(job.project, scope)

    def _note(self, project: str, scope: str) -> None:
        """The project's accounts there have moved."""
        chain = self._books.get((project, scope))
        if not chain:
            return
        for account in chain:
            account.known.clear()
        self._moved[project] = chain[-1].key
        if chain[0].over_share() or chain[0].over_quota():
            self._over[scope].add(project)
        else:
            self._over[scope].discard(project)

    def _scopes_of(self, pools: Iterable[str]) -> Iterable[str]:
        """The scopes that these pools count in."""
        return (EVERYWHERE,) if EVERYWHERE in self._together else {*pools}

    def _begin(self, snapshot: Snapshot) -> None:
        """What is held and owed when the plan begins."""
        held = []
        self.users.begin(snapshot)
        for job in snapshot.active:
            assert job.attempt is not None
            if job.state is JobState.STOPPING:
                self._stop(job, job.attempt.pool)
            else:
                held.append((job, job.attempt.pool))
        everyone = (*snapshot.active, *snapshot.waiting)
        held += [(job, job.claim.pool) for job in everyone if job.claim]
        of_all = _sums(
            ((job.project, self._scope.get(pool, EVERYWHERE), job.evictable), job.demand)
            for job, pool in held
        )
        for (project, scope, evictable), amount in of_all.items():
            for account in self._books.get((project, scope), ()):
                account.used += amount
                if not evictable:
                    account.fixed += amount
            self._note(project, scope)

    def _open(
        self, snapshot: Snapshot, scope: str, asked: Mapping[tuple[str, str], Demand]
    ) -> None:
        """The accounts of one scope, with their fair shares.

        "Departments divide first; projects divide their department's part."
        """
        total = sum(
            (pool.offers for pool in snapshot.pools if scope in {EVERYWHERE, pool.name}),
            NOTHING,
        )
        members: dict[str, list[Account]] = {name: [] for name in self._departments}
        tops: list[Account] = []
        for age, project in enumerate(self._projects.values()):
            quota = project.quota.get(scope, NOTHING)
            account = self._account(project, age, quota, scope)
            account.asked = _capped(asked.get((project.name, scope), NOTHING), total)
            members.get(project.department, tops).append(account)
        departments = {}
        for age, (name, department) in enumerate(self._departments.items()):
            quota = sum((each.quota for each in members[name]), NOTHING)
            if department.quota is not None:
                quota = department.quota.get(scope, NOTHING)
            account = self._account(department, age, quota, scope)
            account.asked = sum((_wish(each) for each in members[name]), NOTHING)
            departments[name] = account
        _share_out(total, [*departments.values(), *tops])
        for name, account in departments.items():
            _share_out(account.share, members[name])
        for account in (*tops, *(each for group in members.values() for each in group)):
            above = departments.get(getattr(account.owner, "department", ""))
            chain = (account, above) if above else (account,)
            self._books[account.name, scope] = chain

    def _account(self, owner: Project | Department, age: int, quota: Demand, scope: str) -> Account:
        limit = dict(owner.limit.get(scope, {}))
        if not owner.over_quota:
            for name in self._resources:
                limit[name] = min(quota[name], limit.get(name, quota[name]))
        return Account(
            name=owner.name,
            age=age,
            owner=owner,
            resources=self._resources,
            quota=quota,
            limit=limit,
        )


def _shared_resources(owners: Iterable[Project | Department]) -> tuple[str, ...]:
    """Those that somebody has a quota of; slots, where nobody has any."""
    named = {name for owner in owners for quota in (owner.quota or {}).values() for name in quota}
    return tuple(sorted(named)) or ("slots",)


def _has_quota(project: Project, scope: str) -> bool:
    return any(project.quota.get(scope, NOTHING).values())


def _asked(
    snapshot: Snapshot,
    scopes_of: Callable[[Iterable[str]], Iterable[str]],
    shut: AbstractSet[tuple[str, str]],
) -> dict[tuple[str, str], Demand]:
    """What each project holds and waits for in each scope: a job counts in each pool that it
    accepts and may use. `shut`: what projects may not use."""

    def asking() -> Iterator[tuple[tuple[str, str], Demand]]:
        for job in snapshot.active:
            assert job.attempt is not None
            pools = [job.claim.pool] if job.claim else [job.attempt.pool]
            if job.claim or job.state is not JobState.STOPPING:
                for scope in scopes_of(pools):
                    yield (job.project, scope), job.demand
        for job in wanting(snapshot):
            usable: Sequence[str] = job.pools
            if shut:
                usable = [name for name in usable if (job.project, name) not in shut]
            for scope in scopes_of(usable) if usable else ():
                yield (job.project, scope), job.demand

    return _sums(asking())


def _sums(amounts: Iterable[tuple[K, Demand]]) -> dict[K, Demand]:
    """The sum for each key."""
    sums: dict[K, dict[str, int]] = {}
    for key, demand in amounts:
        its = sums.setdefault(key, {})
        for name, amount in demand.items():
            its[name] = its.get(name, 0) + amount
    return {key: Demand(its) for key, its in sums.items()}


def _wish(account: Account) -> Demand:
    """What it asks for, up to its limit."""
    asked = account.asked
    return Demand({name: min(asked[name], account.limit.get(name, asked[name])) for name in asked})


def _capped(asked: Demand, total: Demand) -> Demand:
    """Nobody can be given more than everything: so the first jobs of a line ask like all of it."""
    return _smaller(asked, total)


def _smaller(one: Demand, other: Demand) -> Demand:
    return Demand({name: min(one[name], other[name]) for name in {*one, *other}})


def _share_out(total: Demand, accounts: Iterable[Account]) -> None:
    everyone = list(accounts)
    for resource in everyone[0].resources if everyone else ():
        sharers = [
            Sharer(
                name=each.key,
                age=each.age,
                quota=each.quota[resource],
                limit=each.limit.get(resource),
                request=each.asked[resource],
                weight=each.owner.weight,
                priority=each.owner.priority,
            )
            for each in everyone
        ]
        shares: Mapping[str, int] = divide(total[resource], sharers)
        for each in everyone:
            each.share += Demand({resource: shares[each.key]})
    for each in everyone:
        larger = {name: max(each.quota[name], each.share[name]) for name in each.resources}
        each.deserved = Demand(
            {name: min(most, each.limit.get(name, most)) for name, most in larger.items()}
        )
