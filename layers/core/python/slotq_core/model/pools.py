"""Capacity that jobs can run on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from slotq_core.model.demand import Demand


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRight:
    """A right that turned out to be missing in a pool: for every job, or for those of one role.

    Nothing that needs it starts there before `not_before`; then one job at a time tries, until
    SageMaker has accepted one.
    """

    role: str = ""
    """The execution role whose jobs need it; empty: every job does."""
    action: str
    """What has to be allowed, as IAM calls it, e.g. `iam:PassRole`."""
    since: int
    """The first refusal (ms)."""
    refusals: int = 1
    """In a row."""
    not_before: int
    """Nothing tries before (ms)."""
    message: str = ""
    """SageMaker's last word on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolHealth:
    """Whether SageMaker has lately given the pool what it is configured to have.

    After a capacity error the pool backs off until `not_before`; then one job at a time probes it,
    until one of its training jobs gets its instances.
    """

    errors: int = 0
    """Capacity errors in a row; 0: healthy."""
    not_before: int | None = None
    """Nothing starts before (ms)."""
    learned: int | None = None
    """Slots that the account's service limit turned out to allow; None: nothing less than the
    pool's capacity."""
    learned_until: int | None = None
    """When the configured capacity is tried again (ms)."""
    message: str = ""
    """SageMaker's last word on it."""
    missing_rights: tuple[MissingRight, ...] = ()
    """At most one for each role, and one for all."""


HEALTHY = PoolHealth()


class PoolState(StrEnum):
    """What an operator has decided for a pool. Nothing is evicted for it: what runs goes on."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Nothing starts for now. The pool counts as it did: in shares, and for claims in it."""
    DRAINED = "drained"
    """Nothing starts, and the pool counts as gone: it adds nothing to anybody's share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Capacity that jobs can run on: one kind of instance in one region and account."""

    name: str
    instance_type: str
    """SageMaker's instance type, e.g. `ml.p5.48xlarge`."""
    capacity: Demand
    """What the pool has in all."""
    foreign: Demand = field(default_factory=Demand)
    """What training jobs outside the queue occupy, where the pool counts them."""
    reserve_after: int | None = None
    """How long a job that does not fit may be passed by others, from its entry on. 0: strict order;
    None: it may always be passed."""
    min_runtime: int = 0
    """How long an attempt in this pool is safe from eviction, from its start on."""
    max_min_runtime: int = 0
    """The most that a job's own `min_runtime` counts here."""
    pending_timeout: int | None = None
    """How long SageMaker may look for instances before the attempt is given up; None: for ever."""
    consolidate: bool = False
    """Whether what runs here may move to another pool that it accepts, for a job that starts by
    it."""
    count_foreign: bool = False
    """Whether training jobs outside the queue count against this pool."""
    open: bool = True
    """False: only projects that have a quota there may use it. Without projects it says nothing."""
    suspend_grace: int = 0
    """How long a job that others are to have the slots of is only asked to stop, before it is
    stopped (ms)."""
    time_slice: int | None = None
    """How long an attempt runs before it yields to a job of equal rank of another user who holds
    fewer slots (ms); None: for as long as it likes."""
    state: PoolState = PoolState.ACTIVE
    health: PoolHealth = field(default_factory=lambda: HEALTHY)
    """What the queue has learned of the pool; kept apart from its configuration."""

    @property
    def offers(self) -> Demand:
        """What the queue may count on in all, whatever the account allows for now."""
        return Demand() if self.state is PoolState.DRAINED else self.capacity - self.foreign

    def size(self, now: int) -> Demand:
        """What the queue may use in all: what the pool offers, and less of it while the account
        allows less."""
        learned = self.health.learned
        if learned is None or now >= (self.health.learned_until or 0):
            return self.offers
        if self.state is PoolState.DRAINED:
            return self.offers
        return self.offers - Demand(slots=max(0, self.capacity.slots - learned))
