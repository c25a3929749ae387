"""The accounts of projects and departments during one plan: holdings, shares and limits.

Numeric quotas count over all pools together; quotas by pool count in each pool (DESIGN 5.2).
"Limits count what is stopping; fairness does not." Both count a claim as held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import EVERYWHERE, Department, Fairness, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import NOTHING, Account, Chain
from slotq_core.policy.state.quotas.opening import asked_in, opened
from slotq_core.policy.state.user_limits import Counted, Place, UserBooks

Amounts = tuple[Demand, Demand, Demand, Demand]
"""The amounts of an account: used, fixed, promised and stopping."""

Mark = tuple[int, int, dict[Place, Counted]]


class Accounts:
    """The accounts of one plan, by project and scope."""

    def __init__(self, snapshot: Snapshot, lines: Sequence[Sequence[Job]]) -> None:
        """`lines`: of all waiting jobs."""
        self.users = UserBooks(snapshot)
        self._projects = {project.name: project for project in snapshot.projects}
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
        """Pairs of a project and a pool that it may not use."""
        self._scope = {name: name if by_pool else EVERYWHERE for name in pools}
        self._together = {
            scope: frozenset(name for name, its in self._scope.items() if its == scope)
            for scope in self._scope.values()
        }
        """By scope, the pools that count in it."""
        self._books: dict[tuple[str, str], Chain] = {}
        self._to_come: dict[str, tuple[Job, str]] = {}
        self._before_it: dict[int, Demand] = {}
        """During a gang's turn: `_to_come` has the members still to be served, by name, with their
        pools; `_before_it` has what each account held before, by `id`."""
        self._claimants: dict[str, dict[str, Job]] = {}
        """By project and name: claimants without a turn so far, whose claims may be taken over."""
        self._moved: dict[str, str] = {}
        self.gates_opened = 0
        """How often an account has come above its share or quota. Blocked jobs may then reclaim
        more.

        A rollback restores the count.
        """
        self._over: dict[str, set[str]] = defaultdict(set)
        """By scope, the projects over their quota or share, kept because each reclaim reads
        them."""
        self._under: dict[str, set[str]] = defaultdict(set)
        """By scope, the projects that hold less than their share."""
        self._before: list[tuple[str, str, list[tuple[Account, Amounts]]]] = []
        """The amounts before each change, for a rollback."""
        if owners:
            self._open(snapshot, lines)
        self._begin(snapshot)

    def of(self, job: Job, pool: str) -> Chain:
        return self.of_project(job.project, pool)

    def of_project(self, name: str, pool: str) -> Chain:
        return self._books.get((name, self._scope.get(pool, EVERYWHERE)), ())

    def open_to(self, job: Job, pool: str) -> bool:
        """Whether the job's project may use the pool.

        A pool with `open: false` admits only projects with a quota there.
        """
        return (job.project, pool) not in self._shut

    def take(self, job: Job, pool: str, *, promised: bool = False) -> None:
        """Count the job's demand in the pool, held or claimed.

        `promised`: the job only waits for coming slots there, and nothing was evicted for it.
        """
        self.users.take(job, pool)
        self._move(job, pool, job.demand, promised=job.demand if promised else NOTHING)

    def take_claim(self, job: Job, pool: str) -> None:
        """Remove the job's claim from the accounts, for the job's own turn."""
        self._claimants.get(job.project, {}).pop(job.name, None)
        self.give_back(job, pool)

    def give_back(self, job: Job, pool: str) -> None:
        self.users.give_back(job, pool)
        self._move(job, pool, NOTHING - job.demand)

    def may_give(self, mine: Chain, pool: str) -> AbstractSet[str]:
        """The only projects from which a job with the accounts `mine` may reclaim.

        These are the projects over their quota or share. With full fairness in the job's
        department, in-quota work may be taken too, so these are all projects.
        """
        top = mine[-1].owner
        if isinstance(top, Department) and top.fairness is Fairness.FULL:
            return self._projects.keys()
        return self._over[self._scope[pool]]

    def moved(self) -> dict[str, str]:
        """By project, the last account key of each project whose accounts have moved.

        Reading clears the list.
        """
        moved, self._moved = self._moved, {}
        return moved

    def limits_allow(self, job: Job, pool: str) -> bool:
        """Whether the limits of the job's user, project and department have room for the job."""
        return self.users.admits_in(job, pool) is not None and not self.over_limits(job, pool)

    def over_limits(self, job: Job, pool: str) -> Demand:
        """What others must give so that the limits of the job's project and department have room
        for it.

        The job may take over claims of jobs that it outranks in its project.
        """
        over = NOTHING
        for account in self.of(job, pool):
            if account.over_limit(job.demand):
                more = account.over_limit(job.demand, self._owed_below(job, pool))
                over = Demand({name: max(over[name], more[name]) for name in {*over, *more}})
        return over

    def beyond_shares(self, job: Job, pool: str) -> Demand:
        """The excess over the shares of the job's project and department, with the job admitted.

        Of an account already over its share, only the part on top counts. A gang's members count
        together (`together`). Empty while no other project holds less than its share.

        A job that evicts needs victims of its own project for the excess. Otherwise a project below
        its share would reclaim the slots, the evicted jobs might be entitled to return, and so on
        without end. Free slots may take a project beyond its share all the same.
        """
        beyond, scope = NOTHING, self._scope.get(pool, EVERYWHERE)
        if self._under[scope] <= {job.project}:
            return NOTHING
        along = self._to_come.values()
        more = [other.demand for other, its in along if self._scope.get(its, EVERYWHERE) == scope]
        demand = Demand.total([job.demand, *more]) if more else job.demand
        for account in self.of(job, pool):
            its = account.beyond_share(demand, self._before_it.get(id(account)))
            beyond = Demand({name: max(beyond[name], its[name]) for name in {*beyond, *its}})
        return beyond

    def has_its_share(self, job: Job) -> bool:
        """Whether the job's project or department has reached its share in one of the job's
        pools."""
        return any(account.has_share() for pool in job.pools for account in self.of(job, pool))

    @contextmanager
    def together(self, jobs: Iterable[Job]) -> Iterator[dict[str, tuple[Job, str]]]:
        """Begin the turn of jobs that start together, for the duration of the context.

        Yields the members still to be served, by name, with their pools. The caller keeps them up
        to date.
        """
        chains = (self.of(job, pool) for job in jobs for pool in job.pools)
        self._before_it = {id(account): account.used for chain in chains for account in chain}
        try:
            yield self._to_come
        finally:
            self._before_it.clear()
            self._to_come.clear()

    def _owed_below(self, job: Job, pool: str) -> Demand:
        """The demand of claims that the job may take over in its project.

        The claimants rank lower and have had no turn yet. Without the rule the job would wait until
        a claimant runs, only to evict it at once. Nothing where the claims do not cover the job's
        excess over its shares.
        """
        owed = Demand.total(
            other.demand
            for other in self._claimants.get(job.project, {}).values()
            if other.claim and self._scope.get(other.claim.pool) == self._scope.get(pool)
            if rank(other) < rank(job)
        )
        return owed if owed and self.beyond_shares(job, pool).within(owed) else NOTHING

    def left_by_limits(self, job: Job, pool: str, room: Demand) -> Demand:
        """The part of the room that the limits of the job's project and department leave."""
        for account in self.of(job, pool):
            if account.limit:
                held = account.used + account.stopping - self._owed_below(job, pool)
                most = {name: max(0, most - held[name]) for name, most in account.limit.items()}
                room = Demand({name: min(room[name], most.get(name, room[name])) for name in room})
        return room

    def quotas_allow(self, job: Job, pool: str) -> bool:
        """Whether the quotas at each level have room for the job.

        They bind only a job that cannot be evicted: with the job, all that cannot be evicted must
        stay within the quota.
        """
        return job.evictable or all(
            account.fixed_in_quota(job.demand) for account in self.of(job, pool)
        )

    def may_come_true(self, job: Job, pool: str) -> bool:
        """Whether limits and quotas leave room for the job's claim once stopping jobs have stopped.

        Others may have used up that room since, or a limit may be lower now. Coming slots then do
        not help the job.
        """
        owed = self._owed_below(job, pool)
        chain = self.of(job, pool)
        over = any(account.over_limit(job.demand, account.stopping + owed) for account in chain)
        allowed = not over and self.quotas_allow(job, pool)
        return allowed and self.users.will_admit(job, pool)

    def sharing_limit(self, room: PoolRoom, rooms: Iterable[PoolRoom]) -> list[PoolRoom]:
        """The other rooms that count in the same limits as `room`."""
        scope = self._scope.get(room.pool.name)
        return [
            other
            for other in rooms
            if other is not room and self._scope.get(other.pool.name) == scope == EVERYWHERE
        ]

    def counted(self, candidate: Candidate, pool: str) -> Demand:
        """What the candidate holds in all the pools of that pool's scope."""
        return candidate.frees_in(
            self._together.get(self._scope.get(pool, EVERYWHERE), frozenset())
        )

    def evict(self, victim: Job, pool: str) -> None:
        """Take the victim out of the shares at once. The limits count it until it has ended."""
        self._move(victim, pool, NOTHING - victim.demand)
        self._stop(victim, pool)

    def move(self, job: Job, pool: str) -> None:
        """Stop the job in the pool, and count its claim elsewhere."""
        assert job.claim is not None
        self._move(job, pool, NOTHING - job.demand)
        self._stop(job, pool)
        self.take(job, job.claim.pool)

    def may_move(self, job: Job, here: str, pool: str) -> bool:
        """Whether what the job holds in `here` may count in `pool`.

        Within one scope the accounts do not change. Limits of users are by pool, so they are always
        checked.
        """
        if not self.open_to(job, pool):
            return False
        if self.users.admits_in(job, pool) is None:
            return False
        if self._scope.get(pool) == self._scope.get(here):
            return True
        within = not any(account.over_limit(job.demand) for account in self.of(job, pool))
        return within and self.quotas_allow(job, pool)

    def bound_by(self, job: Job, here: str, pool: str) -> set[str]:
        """The users and accounts whose limits count the job only after a move from `here` to
        `pool`."""
        bound = {f"user {job.submitter}"} if self.users.limited(job.submitter, pool) else set()
        if self._scope.get(pool) != self._scope.get(here):
            bound |= {account.key for account in self.of(job, pool) if account.limit}
        return bound

    def _stop(self, job: Job, pool: str) -> None:
        """Count the stopping job in the limits until it has ended.

        An account that also counts the job's claim counts it once.
        """
        owed = [id(account) for account in self.of(job, job.claim.pool)] if job.claim else []
        for account in self.of(job, pool):
            if id(account) not in owed:
                account.stopping += job.demand

    def mark(self) -> Mark:
        """A checkpoint for `back_to`."""
        return len(self._before), self.gates_opened, self.users.mark()

    def back_to(self, mark: Mark) -> None:
        """Roll back to the mark."""
        length, self.gates_opened, users = mark
        self.users.back_to(users)
        while len(self._before) > length:
            project, scope, amounts = self._before.pop()
            for account, of_it in amounts:
                account.used, account.fixed, account.promised, account.stopping = of_it
            self._note(project, scope)

    def _move(self, job: Job, pool: str, amount: Demand, promised: Demand = NOTHING) -> None:
        scope = self._scope.get(pool, EVERYWHERE)
        chain = self.of(job, pool)
        before = [(each, (each.used, each.fixed, each.promised, each.stopping)) for each in chain]
        self._before.append((job.project, scope, before))
        for account in chain:
            was_over = account.gives()
            account.used += amount
            account.promised += promised
            if not job.evictable:
                account.fixed += amount
            self.gates_opened += account.gives() > was_over
        self._note(job.project, scope)

    def _note(self, project: str, scope: str) -> None:
        """Record that the project's accounts in the scope have moved."""
        chain = self._books.get((project, scope))
        if not chain:
            return
        for account in chain:
            account.has_moved()
        self._moved[project] = chain[-1].key
        self._keep(project, scope, chain[0])

    def _keep(self, project: str, scope: str, account: Account) -> None:
        """Keep the project in the sets of projects over and under their shares, or remove it."""
        for which, belongs in (
            (self._over, any(account.gives())),
            (self._under, account.under_share()),
        ):
            (which[scope].add if belongs else which[scope].discard)(project)

    def _scopes_of(self, pools: Iterable[str]) -> Iterable[str]:
        """The scopes that these pools count in."""
        return (EVERYWHERE,) if EVERYWHERE in self._together else {*pools}

    def _open(self, snapshot: Snapshot, lines: Sequence[Sequence[Job]]) -> None:
        """Create the accounts of each scope, with fair shares and nothing held."""
        asked = asked_in(snapshot, lines, self._scopes_of, self._shut)
        for scope in dict.fromkeys(self._scope.values()):
            for project, chain in opened(snapshot, scope, asked).items():
                self._books[project, scope] = chain
                self._keep(project, scope, chain[0])

    def _begin(self, snapshot: Snapshot) -> None:
        """Enter what is held and claimed when the plan begins."""
        held = []
        self.users.begin(snapshot)
        for job in snapshot.active:
            assert job.attempt is not None
            if job.state is JobState.STOPPING:
                self._stop(job, job.attempt.pool)
            else:
                held.append((job, job.attempt.pool))
        for job in snapshot.waiting:
            if job.claim and job.evictable and not job.claim.moved:
                self._claimants.setdefault(job.project, {})[job.name] = job
        everyone = (*snapshot.active, *snapshot.waiting)
        held += [(job, job.claim.pool) for job in everyone if job.claim]
        of_all = Demand.totals(
            ((job.project, self._scope.get(pool, EVERYWHERE), job.evictable), job.demand)
            for job, pool in held
        )
        for (project, scope, evictable), amount in of_all.items():
            for account in self._books.get((project, scope), ()):
                account.used += amount
                if not evictable:
                    account.fixed += amount
            self._note(project, scope)


def _has_quota(project: Project, scope: str) -> bool:
    return any(project.quota.get(scope, NOTHING).values())
