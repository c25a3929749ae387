"""The state of the whole queue, for people: pools, shares, limits and the longest wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slotq_core.admission.caller_limits import counted_as, of_caller
from slotq_core.model.callers import CallerLimits, CallerUse
from slotq_core.model.capacity.schedule import SizeNow, size_now
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.model.projects import BudgetStatus, ShareStatus
from slotq_core.model.sharing import NO_SHARING
from slotq_core.operations.admit import Admitter
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration
from slotq_core.ports.surroundings import Clock, QueueVersion
from slotq_core.timestamps import Moment

if TYPE_CHECKING:
    from slotq_core.admission.user_quotas import UserQuota
    from slotq_core.operations.usage.project_metrics import Measured
    from slotq_core.policy.explain.share_status import HeldAmounts


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharers:
    """Shares and budgets of projects and departments."""

    held: HeldAmounts
    """What the jobs of each project hold, by pool."""
    standings: tuple[ShareStatus, ...]
    budgets: Mapping[str, BudgetStatus] = field(default_factory=dict)
    """Of the projects that have one."""


NO_SHARERS = Sharers(held={}, standings=())


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolStatus:
    """A pool, with the queue's use of the pool."""

    pool: Pool
    at: Moment
    """When all this holds (ms)."""
    size: Demand
    """What the queue may use of the pool now."""
    used: Demand
    hours: SizeNow | None = None
    """What the pool's hours say now; None: it is always open."""
    warm: tuple[WarmSlot, ...] = ()
    """Its instances that SageMaker keeps for matching jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitsStatus:
    """The limits, and one caller's use of them."""

    configuration: Configuration
    caller: str
    counted_as: str
    """Name that the caller counts under: the rule's pattern if a rule counts several callers
    together, else the person."""
    own: CallerLimits
    """The limits that apply to this caller."""
    use: CallerUse


class Overview:
    """The state of the whole queue. Times in ms."""

    def __init__(self, store: Store, clock: Clock, admitter: Admitter) -> None:
        self._store, self._clock, self._admitter = store, clock, admitter

    def version(self) -> tuple[QueueVersion, int]:
        """The version of what the queue shows, by one read, and the time (ms)."""
        return self._store.scheduler.version(), self._clock.now()

    def pools(self) -> list[PoolStatus]:
        """The pools in order, with their size, use and health."""
        now = self._clock.now()
        return [
            PoolStatus(
                pool=pool,
                at=now,
                size=pool.size(now),
                used=ledger.used,
                hours=size_now(pool.schedule, now, of=pool.capacity.slots),
                warm=ledger.warm,
            )
            for pool, ledger in self._store.worlds.pools(now)
        ]

    def sharers(self) -> Sharers:
        """Shares and budgets of projects and departments, and what the jobs of each project
        hold."""
        from slotq_core.policy.explain.share_status import held_amounts, share_statuses
        from slotq_core.policy.state.quotas.budgets import budgets_of

        now = self._clock.now()
        snapshot = self._store.worlds.load(now).snapshot
        return Sharers(
            held=held_amounts(snapshot, now),
            standings=tuple(share_statuses(snapshot, now)),
            budgets=budgets_of(snapshot, now),
        )

    def user_quotas(self, user: str | None) -> tuple[UserQuota, ...]:
        """What this user holds of the user's limits; None: all users."""
        from slotq_core.admission.user_quotas import user_quotas

        configuration = self._store.configuration.read()
        snapshot = self._store.worlds.load(self._clock.now()).snapshot
        users = None if user is None else [user]
        return tuple(user_quotas(configuration.sharing, snapshot.pools, snapshot.active, users))

    def project_metrics(self, *, most: int) -> Measured:
        """What projects hold, wait for and deserve: of `most` projects, and of all others together.
        Empty without projects, or if `most` is 0; then nothing is read."""
        sharing = self._store.configuration.read().sharing if most else NO_SHARING
        if not sharing.projects:
            return {}
        from slotq_core.operations.usage.project_metrics import measured

        names = [project.name for project in sharing.projects]
        return measured(self.sharers().standings, names, most=most)

    def limits(self, *, caller: str) -> LimitsStatus:
        """The limits, and what this caller has used."""
        configuration = self._store.configuration.read()
        return LimitsStatus(
            configuration=configuration,
            caller=caller,
            counted_as=counted_as(configuration.limits, caller, configuration.people),
            own=of_caller(configuration.limits, caller),
            use=self._admitter.use(caller, configuration),
        )

    def longest_wait(self) -> int:
        """The time since the oldest waiting job entered (ms); 0 if none waits."""
        since = self._store.jobs.waiting_since()
        return 0 if since is None else max(0, self._clock.now() - since)
