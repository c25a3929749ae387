"""The amounts that limits and quotas leave to a job: of its user, project and department.

"`limit` always holds." A job may take over claims of jobs that it outranks in its project, so their
demand does not count against the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.projects import EVERYWHERE
from slotq_core.policy.order import rank
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.shares import Shares

if TYPE_CHECKING:
    from slotq_core.policy.state.quotas.reservation_rights import ReservationRights


class QuotaLimits:
    """Answers questions about the limits and quotas of the accounts and the users."""

    def __init__(
        self, accounts: Accounts, shares: Shares, reservations: ReservationRights | None = None
    ) -> None:
        self._accounts, self._shares, self._reservations = accounts, shares, reservations
        self._users = accounts.users

    def allow(self, job: Job, pool: str) -> bool:
        """Whether the limits of the job's user, project and department have room for the job."""
        if self._users.admits_in(job, pool) is None or self.over(job, pool):
            return False
        return self._accounts.on_nodes.limits is None or not self.over_own(job, pool)

    def over(self, job: Job, pool: str) -> Demand:
        """The amounts that others must give under the limits of the job's project and
        department."""
        over, shared = NOTHING, self._accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        for account in self._accounts.of(job, pool):
            if account.limit and account.over_limit(asked):
                more = account.over_limit(asked, self._owed_below(job, pool))
                over = Demand({name: max(over[name], more[name]) for name in {*over, *more}})
        return over

    def over_own(self, job: Job, pool: str, *, once_stopped: bool = False) -> Demand:
        """The same under limits that count what jobs on nodes hold themselves, in parts of
        `OwnLimits`. `once_stopped`: without what stops already."""
        own = self._accounts.on_nodes.limits
        if own is None:
            return NOTHING
        return own.over(job, pool, self._claims_below(job, pool), once_stopped=once_stopped)

    def left(self, job: Job, pool: str, room: Demand) -> Demand:
        """The part of the room that the limits of the job's project and department leave."""
        per = 1 if self._accounts.shared is None else self._accounts.shared.per
        for account in self._accounts.of(job, pool):
            if account.limit:
                held = account.used + account.stopping - self._owed_below(job, pool)
                most = {n: max(0, most - held[n]) // per for n, most in account.limit.items()}
                room = Demand({name: min(room[name], most.get(name, room[name])) for name in room})
        own = self._accounts.on_nodes.limits
        return room if own is None else own.left(job, pool, room, self._claims_below(job, pool))

    def quotas_allow(self, job: Job, pool: str) -> bool:
        """Whether the quotas at each level have room for a job that cannot be evicted. They bind no
        other job, and none on slots that are reserved for its project until it ends."""
        if self._accounts.may_evict(job):
            return True
        if self._reservations is not None and self._reservations.cover_whole_run(job, pool):
            return True
        shared = self._accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        return all(account.fixed_in_quota(asked) for account in self._accounts.of(job, pool))

    def may_come_true(self, job: Job, pool: str) -> bool:
        """Whether limits and quotas leave room for the job's claim once stopping jobs have stopped.
        Others may have used it up since, or a limit may be lower now."""
        owed = self._owed_below(job, pool)
        chain, shared = self._accounts.of(job, pool), self._accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        over = any(account.over_limit(asked, account.stopping + owed) for account in chain)
        if self._accounts.on_nodes.limits is not None:
            over = over or bool(self.over_own(job, pool, once_stopped=True))
        return not over and self.quotas_allow(job, pool) and self._users.will_admit(job, pool)

    def sharing(self, room: PoolRoom, rooms: Iterable[PoolRoom]) -> list[PoolRoom]:
        """The other rooms that count in the same limits as `room`."""
        if self._accounts.scopes.of(room.pool.name) != EVERYWHERE:
            return []
        return [other for other in rooms if other is not room]

    def allow_move(self, job: Job, here: str, pool: str) -> bool:
        """Whether the job's slots in `here` may count in `pool`. Within one scope the accounts
        do not change, but limits of users are by pool."""
        if not self._accounts.open_to(job, pool) or self._users.admits_in(job, pool) is None:
            return False
        if self._accounts.scopes.same(pool, here):
            return True
        chain, shared = self._accounts.of(job, pool), self._accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        within = not any(account.over_limit(asked) for account in chain)
        if self._accounts.on_nodes.limits is not None:
            within = within and not self.over_own(job, pool)
        return within and self.quotas_allow(job, pool)

    def bound_by(self, job: Job, here: str, pool: str) -> set[str]:
        """The users and accounts whose limits newly count the job after a move to `pool`."""
        bound = {f"user {job.person}"} if self._users.limited(job.person, pool) else set()
        if not self._accounts.scopes.same(pool, here):
            bound |= {
                account.key
                for account in self._accounts.of(job, pool)
                if account.limit or account.configured_limit
            }
        return bound

    def _owed_below(self, job: Job, pool: str) -> Demand:
        """The demand of claims that the job may take over in its project; nothing where these do
        not cover the job's excess over its shares. The job would else wait until a claimant runs,
        only to evict it at once."""
        shared = self._accounts.shared
        owed = Demand.total(
            other.demand if shared is None else shared.of(other, other.claim.pool)
            for other in self._accounts.claimants(job.project)
            if other.claim and self._accounts.scopes.same(other.claim.pool, pool)
            if rank(other) < rank(job)
        )
        return owed if owed and self._shares.beyond(job, pool).within(owed) else NOTHING

    def _claims_below(self, job: Job, pool: str) -> list[Job]:
        """The jobs whose claims `_owed_below` counts, where limits count own amounts."""
        if not self._owed_below(job, pool):
            return []
        return [
            other
            for other in self._accounts.claimants(job.project)
            if other.claim and self._accounts.scopes.same(other.claim.pool, pool)
            if rank(other) < rank(job)
        ]
