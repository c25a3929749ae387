"""The slots that a transaction takes from each pool and gives back, by one rule for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slotq_core.model.demand import Demand
from slotq_core.ports.stored import Change

_NOTHING = Demand()


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolChange:
    """One pool's part of a transaction."""

    gained: Demand = field(default_factory=Demand)
    """Net change of the slots and resources that the jobs hold; negative: less."""
    admitted: frozenset[str] = frozenset()
    """The resources of which some job newly holds any. They must fit after the transaction."""
    seen: int | None = None
    """The ledger version that the decision depends on; None if it depends on none."""
    used: bool = False
    """Whether some job's use of the pool changes, even if the sum does not."""

    @property
    def raises_version(self) -> bool:
        return self.used or self.seen is not None


def pool_changes(
    changes: Sequence[Change], seen: Mapping[str, int] | None
) -> dict[str, PoolChange]:
    """Return, by pool, the changes' effect on the pool's use, and the version at which the pool was
    seen."""
    pools = {pool: PoolChange(seen=version) for pool, version in (seen or {}).items()}
    for change in changes:
        before, after = dict(change.before.holds), dict(change.after.holds)
        for pool in {*before, *after}:
            if gained := after.get(pool, _NOTHING) - before.get(pool, _NOTHING):
                pools[pool] = _add(pools.get(pool, PoolChange()), gained)
        if change.after.waits and change.after.claim and not change.before.waits:
            pool = change.after.claim.pool  # The job moves: from now on its claim is in this pool.
            pools[pool] = replace(pools.get(pool, PoolChange()), used=True)
    return pools


def _add(pool: PoolChange, gained: Demand) -> PoolChange:
    return replace(
        pool,
        gained=pool.gained + gained,
        admitted=pool.admitted | {name for name, amount in gained.items() if amount > 0},
        used=True,
    )
