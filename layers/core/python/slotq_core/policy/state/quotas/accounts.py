"""What each project and department holds, deserves and may not exceed, during one plan.

With numeric quotas everything counts over all pools together; with quotas by pool, pool by pool
(DESIGN 5.2). "Limits count what is stopping; fairness does not." What a job is owed by its claim
counts as held by both: it will be.
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
"""What an account has used, fixed, promised and stopping."""

Mark = tuple[int, int, dict[Place, Counted]]


class Accounts:
    """The books of one plan."""

    def __init__(self, snapshot: Snapshot, lines: Sequence[Sequence[Job]]) -> None:
        """`lines`: of all that waits."""
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
        """Projects, and the pools that they may not use."""
        self._scope = {name: name if by_pool else EVERYWHERE for name in pools}
        self._together = {
            scope: frozenset(name for name, its in self._scope.items() if its == scope)
            for scope in self._scope.values()
        }
        """By scope, the pools that count in it."""
        self._books: dict[tuple[str, str], Chain] = {}
        self._to_come: dict[str, tuple[Job, str]] = {}
        self._before_it: dict[int, Demand] = {}
        """While a gang has its turn: who of it is still to be served, and what its accounts held
        before, by `id`."""
        self._claimants: dict[str, dict[str, Job]] = {}
        """By project and name: who is owed slots that may be taken over, and had no turn yet."""
        self._moved: dict[str, str] = {}
        self.gates_opened = 0
        """How often somebody has come above its share or quota: then whoever was blocked before may
        reclaim what it could not. What was only tried does not count."""
        self._over: dict[str, set[str]] = defaultdict(set)
        """By scope, the projects over their quota or share. Kept, for each reclaim asks for them
        and few ever are."""
        self._under: dict[str, set[str]] = defaultdict(set)
        """By scope, those that deserve more than they hold."""
        self._before: list[tuple[str, str, list[tuple[Account, Amounts]]]] = []
        """What the accounts were before each change, to go back to."""
        if owners:
            self._open(snapshot, lines)
        self._begin(snapshot)

    def of(self, job: Job, pool: str) -> Chain:
        return self.of_project(job.project, pool)

    def of_project(self, name: str, pool: str) -> Chain:
        return self._books.get((name, self._scope.get(pool, EVERYWHERE)), ())

    def open_to(self, job: Job, pool: str) -> bool:
        """ "A new pool is open to every project with quota 0 unless `open: false`": then only to
        those that have a quota there."""
        return (job.project, pool) not in self._shut

    def take(self, job: Job, pool: str, *, promised: bool = False) -> None:
        """The job holds its demand in that pool, or is owed it. `promised`: it only waits for slots
        that come free there, and nobody was stopped for it."""
        self.users.take(job, pool)
        self._move(job, pool, job.demand, promised=job.demand if promised else NOTHING)

    def take_claim(self, job: Job, pool: str) -> None:
        """It is its turn: what it is owed there is its own to use."""
        self._claimants.get(job.project, {}).pop(job.name, None)
        self.give_back(job, pool)

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
        have room for the job, which may take over the claims of those it outranks."""
        over = NOTHING
        for account in self.of(job, pool):
            if account.over_limit(job.demand):
                more = account.over_limit(job.demand, self._owed_below(job, pool))
                over = Demand({name: max(over[name], more[name]) for name in {*over, *more}})
        return over

    def beyond_shares(self, job: Job, pool: str) -> Demand:
        """What its own project would have to give for the job not to bring it, nor its department,
        beyond their shares, or further beyond than they are.

        As long as another project deserves more than it holds, what is evicted for a job that goes
        beyond is not its own for long: it is reclaimed, and who was evicted may be entitled to come
        back, and so for ever. Free slots it may have all the same. A gang is looked at as a whole
        (`together`).
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
        """Whether its project, or the department of that, has all of its share where the job may
        run, or more."""
        return any(account.has_share() for pool in job.pools for account in self.of(job, pool))

    @contextmanager
    def together(self, jobs: Iterable[Job]) -> Iterator[dict[str, tuple[Job, str]]]:
        """The turn of these jobs, which start together. Yields who of them is still to be served,
        by name and with the pool: for the caller to keep up to date."""
        chains = (self.of(job, pool) for job in jobs for pool in job.pools)
        self._before_it = {id(account): account.used for chain in chains for account in chain}
        try:
            yield self._to_come
        finally:
            self._before_it.clear()
            self._to_come.clear()

    def _owed_below(self, job: Job, pool: str) -> Demand:
        """What it may take over of what is owed in its project: to those that it outranks, and that
        had no turn yet. "A job entitled to evict the claimant may take its claim over": else it
        would have to wait until that runs, to evict it at once."""
        owed = Demand.total(
            other.demand
            for other in self._claimants.get(job.project, {}).values()
            if other.claim and self._scope.get(other.claim.pool) == self._scope.get(pool)
            if rank(other) < rank(job)
        )
        return owed if owed and self.beyond_shares(job, pool).within(owed) else NOTHING

    def left_by_limits(self, job: Job, pool: str, room: Demand) -> Demand:
        """What of the room the limits of its project and department leave to it and its like."""
        for account in self.of(job, pool):
            if account.limit:
                held = account.used + account.stopping - self._owed_below(job, pool)
                most = {name: max(0, most - held[name]) for name, most in account.limit.items()}
                room = Demand({name: min(room[name], most.get(name, room[name])) for name in room})
        return room

    def quotas_allow(self, job: Job, pool: str) -> bool:
        """ "Any non-preemptible job, whatever its class, is bound by quota": with it admitted, what
        cannot be evicted stays within the quota, at each level."""
        return job.evictable or all(
            account.fixed_in_quota(job.demand) for account in self.of(job, pool)
        )

    def may_come_true(self, job: Job, pool: str) -> bool:
        """Whether the limits of its user, its project and its department, and their quotas, have
        room for what it is owed there, once what is stopping has stopped. Where others have used
        that up since, or it is less by now, nothing that is coming will help it."""
        owed = self._owed_below(job, pool)
        chain = self.of(job, pool)
        over = any(account.over_limit(job.demand, account.stopping + owed) for account in chain)
        allowed = not over and self.quotas_allow(job, pool)
        return allowed and self.users.will_admit(job, pool)

    def sharing_limit(self, room: PoolRoom, rooms: Iterable[PoolRoom]) -> list[PoolRoom]:
        """The other rooms whose use counts in the same limits."""
        scope = self._scope.get(room.pool.name)
        return [
            other
            for other in rooms
            if other is not room and self._scope.get(other.pool.name) == scope == EVERYWHERE
        ]

    def counted(self, candidate: Candidate, pool: str) -> Demand:
        """What it holds in all the pools that count together with that one."""
        return candidate.frees_in(
            self._together.get(self._scope.get(pool, EVERYWHERE), frozenset())
        )

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
        if self.users.admits_in(job, pool) is None:
            return False
        if self._scope.get(pool) == self._scope.get(here):
            return True
        within = not any(account.over_limit(job.demand) for account in self.of(job, pool))
        return within and self.quotas_allow(job, pool)

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
        """The project's accounts there have moved."""
        chain = self._books.get((project, scope))
        if not chain:
            return
        for account in chain:
            account.has_moved()
        self._moved[project] = chain[-1].key
        self._keep(project, scope, chain[0])

    def _keep(self, project: str, scope: str, account: Account) -> None:
        """Among those over or under what they deserve."""
        for which, belongs in (
            (self._over, any(account.gives())),
            (self._under, account.under_share()),
        ):
            (which[scope].add if belongs else which[scope].discard)(project)

    def _scopes_of(self, pools: Iterable[str]) -> Iterable[str]:
        """The scopes that these pools count in."""
        return (EVERYWHERE,) if EVERYWHERE in self._together else {*pools}

    def _open(self, snapshot: Snapshot, lines: Sequence[Sequence[Job]]) -> None:
        """The accounts of each scope, with their fair shares and nothing held yet."""
        asked = asked_in(snapshot, lines, self._scopes_of, self._shut)
        for scope in dict.fromkeys(self._scope.values()):
            for project, chain in opened(snapshot, scope, asked).items():
                self._books[project, scope] = chain
                self._keep(project, scope, chain[0])

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
