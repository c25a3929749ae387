"""The accounts of projects and departments during one plan: holdings, shares and limits.

Numeric quotas count over all pools together; quotas by pool count in each pool.
Limits count what is stopping; fairness does not. Both count a claim as held.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import EVERYWHERE, counts_by_pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import WaitingLine
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict
from slotq_core.policy.state.quotas.account import Account, Chain
from slotq_core.policy.state.quotas.givers import Givers
from slotq_core.policy.state.quotas.opening import (
    Owners,
    asked_in,
    holdings,
    opened,
    shared_resources,
)
from slotq_core.policy.state.user_limits import UserBooks

if TYPE_CHECKING:
    from slotq_core.policy.state.nodes.node_requests import NodeRequests
    from slotq_core.policy.state.nodes.nodes import Nodes
    from slotq_core.policy.state.nodes.own_amounts import SharedNodes
    from slotq_core.policy.state.nodes.own_limits import OwnLimits

Amounts = tuple[Account, Demand, Demand, Demand]
"""An account with its amounts: used, fixed and promised."""


class Scopes:
    """The scopes in which pools count: one for all of them, or one for each."""

    def __init__(self, pools: Iterable[str], *, by_pool: bool) -> None:
        self.scope_of = {name: name if by_pool else EVERYWHERE for name in pools}
        """The scope of each pool."""
        self._together = EVERYWHERE in self.scope_of.values()

    def of(self, pool: str) -> str:
        """The scope of the pool: its own, or that of all pools."""
        return self.scope_of.get(pool, EVERYWHERE)

    def same(self, pool: str, other: str) -> bool:
        return self.of(pool) == self.of(other)

    def of_pools(self, pools: Sequence[str]) -> Sequence[str]:
        """The scopes that these pools, each named once, count in."""
        return (EVERYWHERE,) if self._together else pools

    def counted(self, candidate: Candidate, pool: str) -> Demand:
        """The amounts that the candidate holds in all pools of that pool's scope."""
        if self._together or len(candidate.places) == 1:
            return candidate.holds
        return candidate.frees(pool)


class ScopesInParts(Scopes):
    """The scopes where projects share nodes: amounts are in parts."""

    def __init__(self, pools: Iterable[str], *, by_pool: bool, shared: SharedNodes) -> None:
        super().__init__(pools, by_pool=by_pool)
        self._shared = shared

    def counted(self, candidate: Candidate, pool: str) -> Demand:
        return Demand.total(
            self._shared.of(job, where) for job, where in candidate.places if self.same(where, pool)
        )


class OnNodes:
    """What jobs on nodes count in besides: their nodes count already for their projects."""

    def __init__(self, users: UserBooks) -> None:
        self._users = users
        self.limits: OwnLimits | None = None
        """Where nodes exist, the configured limits: there all jobs count by themselves."""

    def take(self, job: Job, pool: str) -> None:
        self._users.take(job, pool)
        if self.limits is not None:
            self.limits.take(job, pool)

    def give_back(self, job: Job, pool: str) -> None:
        self._users.give_back(job, pool)
        if self.limits is not None:
            self.limits.give_back(job, pool)

    def stop(self, victims: Iterable[Job], pool: str) -> None:
        """Note that these jobs stop. The limits count them until they have ended."""
        if self.limits is not None:
            for victim in victims:
                self.limits.stop(victim, pool)


class Accounts:
    """The accounts of one plan, by project and scope."""

    def __init__(
        self,
        snapshot: Snapshot,
        lines: Sequence[WaitingLine],
        journal: Journal,
        beyond_budget: AbstractSet[str] = frozenset(),
        holders: Snapshot | None = None,
        *,
        nodes: Nodes | None = None,
        now: int = 0,
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        """`lines`: of all waiting jobs. `beyond_budget`: the projects without a quota, because they
        have spent a soft budget. `holders`: the snapshot with the jobs on nodes, whose users'
        limits count them; by default the same. `nodes`: None without any. `now`: in ms."""
        self._journal, self.may_evict = journal, may_evict
        self.shared = nodes.shared if nodes is not None and nodes.shared else None
        """Where projects share nodes, what each job counts: all amounts here are then in parts."""
        self.users = UserBooks(snapshot, journal)
        self.on_nodes = OnNodes(self.users)
        self._projects = {project.name: project for project in snapshot.projects}
        owners: Owners = (*snapshot.projects, *snapshot.departments)
        self._resources = shared_resources(owners)
        self.scopes = _scopes(snapshot, owners, self.shared)
        self._shut = {
            (project.name, pool.name)
            for pool in snapshot.pools
            if not pool.open
            for project in snapshot.projects
            if not project.quota.get(self.scopes.scope_of[pool.name], NOTHING)
        }
        """Pairs of a project and a pool that it may not use."""
        self.are_shut = bool(self._shut)
        """Whether any project may not use some pool."""
        self._books: dict[str, dict[str, Chain]] = {
            scope: {} for scope in self.scopes.scope_of.values()
        }
        """By scope and project."""
        self._of_pool = {name: self._books[scope] for name, scope in self.scopes.scope_of.items()}
        self._elsewhere = self._books.get(EVERYWHERE, {})
        """The accounts that count a pool which is gone by now."""
        self._claimants: dict[str, dict[str, Job]] = {}
        """By project and name: those without a turn so far, whose claims may be taken over."""
        for job in snapshot.waiting:
            if job.claim and may_evict(job) and not (job.claim.moved or job.claim.node):
                self._claimants.setdefault(job.project, {})[job.name] = job
        self._moved: dict[str, str] = {}
        self.opened: list[tuple[str, str]] = []
        """Projects (empty: a department) that have come above share or quota, with the scope."""
        self._under: dict[str, set[str]] = defaultdict(set)
        """By scope, the projects that hold less than their share."""
        self._givers: dict[str, Givers] = defaultdict(Givers)
        """By scope."""
        self.users.begin(holders or snapshot)
        if owners:
            self._open(snapshot, lines, beyond_budget, nodes, now)
            if nodes is not None:
                self._limit_by_own_amounts(holders or snapshot, nodes)

    def of(self, job: Job, pool: str) -> Chain:
        if not self._projects:
            return ()
        try:  # Each turn asks several times, and nearly every job has accounts in its pools.
            return self._of_pool[pool][job.project]
        except KeyError:
            return self.book(pool).get(job.project, ())

    def book(self, pool: str) -> Mapping[str, Chain]:
        """The accounts that count the pool, by project."""
        return self._of_pool.get(pool, self._elsewhere)

    def everyone(self) -> Iterator[tuple[Account, str]]:
        """Yield every account with its scope: projects by scope, then departments."""
        above: dict[int, tuple[Account, str]] = {}
        for scope, books in self._books.items():
            for own, *others in books.values():
                yield own, scope
                above |= {id(account): (account, scope) for account in others}
        yield from above.values()

    def open_to(self, job: Job, pool: str) -> bool:
        """Whether the job's project may use the pool: if not `open`, only with a quota there."""
        return (job.project, pool) not in self._shut

    def take(self, job: Job, pool: str, *, promised: bool = False) -> None:
        """Count the job's demand in the pool, held or claimed. `promised`: the job only waits for
        coming slots, and nothing was evicted for it."""
        self.on_nodes.take(job, pool)
        amount = job.demand if self.shared is None else self.shared.of(job, pool)
        self._move(job, pool, amount, promised=amount if promised else NOTHING)

    def take_claim(self, job: Job, pool: str) -> None:
        """Remove the job's claim from the accounts, for the job's own turn."""
        if job.name in self._claimants.get(job.project, ()):
            self._journal.drop(self._claimants[job.project], job.name)
        self.give_back(job, pool)

    def give_back(self, job: Job, pool: str) -> None:
        self.on_nodes.give_back(job, pool)
        amount = job.demand if self.shared is None else self.shared.of(job, pool)
        self._move(job, pool, NOTHING - amount)

    def moved(self) -> dict[str, str]:
        """By project whose accounts have moved, the last account's key. Reading clears the list."""
        moved, self._moved = self._moved, {}
        return moved

    def others_are_under(self, project: str, pool: str) -> bool:
        """Whether another project holds less than its share in the pool's scope."""
        return not self._under[self.scopes.of(pool)] <= {project}

    def givers(self, pool: str) -> Givers:
        """The projects that may give in the pool's scope."""
        return self._givers[self.scopes.of(pool)]

    def may_stay_within_share(self, pool: str) -> AbstractSet[str]:
        """The only projects that a job which needs slots may leave within their share in the pool's
        scope."""
        if "slots" in self._resources:
            return self._under[self.scopes.of(pool)]
        return self._projects.keys()

    def leaves_none_under(self, job: Job) -> bool:
        """Whether the job has just brought its project up to its share in a scope, and at most one
        other project there still holds less than its own."""
        return any(
            len(self._under[self.scopes.of(pool)]) < 2
            and not account.under_share()
            and account.under_share(
                job.demand if self.shared is None else self.shared.of(job, pool)
            )
            for pool in job.pools
            for account in self.of(job, pool)[:1]
        )

    def claimants(self, project: str) -> ValuesView[Job]:
        """The project's claimants without a turn so far, whose claims may be taken over."""
        return self._claimants.get(project, {}).values()

    def evict(self, victim: Job, pool: str, *, empties: bool = False) -> None:
        """Take the victim out of the shares at once. The limits count it until it has ended.
        `empties`: the victim stands for a node whose jobs move to others, and count on."""
        amount = victim.demand if self.shared is None else self.shared.of(victim, pool)
        self._move(victim, pool, NOTHING - amount)
        self._stop(victim, pool)
        if not empties:
            self.on_nodes.stop((victim,), pool)

    def move(self, job: Job, pool: str) -> None:
        """Stop the job in the pool, and count its claim elsewhere."""
        assert job.claim is not None
        amount = job.demand if self.shared is None else self.shared.of(job, pool)
        self._move(job, pool, NOTHING - amount)
        self._stop(job, pool)
        self.on_nodes.stop((job,), pool)
        self.take(job, job.claim.pool)

    def _limit_by_own_amounts(self, holders: Snapshot, nodes: Nodes) -> None:
        """Let jobs on nodes count by themselves in the configured limits. What follows from a quota
        still counts whole nodes, as the quota does."""
        per = 1 if self.shared is None else self.shared.per
        limits = {
            id(a): {name: most // per for name, most in a.configured_limit.items()}
            for a, _ in self.everyone()
            if a.configured_limit
        }
        if not limits:
            return
        for account, _ in self.everyone():
            names = () if account.owner.over_quota else account.resources
            account.limit = {name: account.quota[name] for name in names}
        from slotq_core.policy.state.nodes.own_limits import OwnLimits

        self.on_nodes.limits = OwnLimits(nodes.pools, nodes.found, self._journal)
        self.on_nodes.limits.begin(holders, self.of, limits)

    def _stop(self, job: Job, pool: str) -> None:
        """Count the stopping job in the limits until it has ended; where its claim counts, once."""
        owed = [id(account) for account in self.of(job, job.claim.pool)] if job.claim else []
        amount = job.demand if self.shared is None else self.shared.of(job, pool)
        for account in self.of(job, pool):
            if id(account) not in owed:
                self._journal.set(account, "stopping", account.stopping + amount)

    def _move(self, job: Job, pool: str, amount: Demand, promised: Demand = NOTHING) -> None:
        scope, chain = self.scopes.of(pool), self.of(job, pool)
        if not chain:
            return
        amounts = [(account, account.used, account.fixed, account.promised) for account in chain]
        self._journal.record(Accounts._restore, self, job.project, scope, amounts)
        gave = [account.gives() for account in chain]
        for account in chain:
            account.used += amount
            if promised:
                account.promised += promised
            if not self.may_evict(job):
                account.fixed += amount
        self._note(job.project, scope, chain)
        for account, before in zip(chain, gave, strict=True):
            if account.gives() > before:
                project = job.project if account is chain[0] else ""
                self._journal.append(self.opened, (project, scope))

    def _restore(self, project: str, scope: str, before: Iterable[Amounts]) -> None:
        for account, used, fixed, promised in before:
            account.used, account.fixed, account.promised = used, fixed, promised
        self._note(project, scope, self._books[scope][project])

    def _note(self, project: str, scope: str, chain: Chain) -> None:
        """Record that the project's accounts in the scope have moved."""
        for account in chain:
            account.has_moved()
        self._moved[project] = chain[-1].key
        self._keep(project, scope, chain)

    def _keep(self, project: str, scope: str, chain: Chain) -> None:
        own, under = chain[0], self._under[scope]
        is_under = own.share.exceeds(own.used, own.resources, NOTHING)
        (under.add if is_under else under.discard)(project)
        self._givers[scope].keep(project, chain)

    def _open(
        self,
        snapshot: Snapshot,
        lines: Sequence[WaitingLine],
        beyond_budget: AbstractSet[str],
        nodes: Nodes | None,
        now: int,
    ) -> None:
        """Create the accounts of each scope, with fair shares, held slots and claims."""
        shared = self.shared
        if shared is not None:
            snapshot = shared.seen(snapshot)
        running = holdings(snapshot, self.scopes.scope_of, shared, self.may_evict)
        asked = asked_in(
            snapshot,
            lines,
            running,
            self.scopes.of_pools,
            self._shut,
            on_nodes=_requests_on(nodes) if nodes else None,
            shared=shared,
        )
        for scope, chains in self._books.items():
            chains.update(opened(snapshot, scope, self._resources, asked, beyond_budget, now=now))
        for job in snapshot.active:
            if job.state is JobState.STOPPING and job.attempt:
                self._stop(job, job.attempt.pool)
        claims = [
            (
                (job.project, self.scopes.of(job.claim.pool), self.may_evict(job)),
                job.demand if shared is None else shared.of(job, job.claim.pool),
            )
            for job in (*snapshot.active, *snapshot.waiting)
            if job.claim
            if not job.claim.node or (shared is not None and shared.are_in(job.claim.pool))
        ]
        for (project, scope, evictable), amount in (*running.items(), *claims):
            for account in self._books.get(scope, {}).get(project, ()):
                account.used += amount
                if not evictable:
                    account.fixed += amount
        for scope, chains in self._books.items():
            for project, chain in chains.items():
                self._keep(project, scope, chain)


def _scopes(snapshot: Snapshot, owners: Owners, shared: SharedNodes | None) -> Scopes:
    by_pool, names = counts_by_pool(owners), (pool.name for pool in snapshot.pools)
    if shared is None:
        return Scopes(names, by_pool=by_pool)
    return ScopesInParts(names, by_pool=by_pool, shared=shared)


def _requests_on(nodes: Nodes) -> NodeRequests:
    """An empty gathering of what waiting jobs ask for on nodes."""
    from slotq_core.policy.state.nodes.node_requests import NodeRequests

    return NodeRequests(nodes.pools, nodes.found, nodes.shared)
