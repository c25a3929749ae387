"""What a transaction takes from each pool and gives back: the rule that every store applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.ports import Change


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolChange:
    """One pool's part of a transaction."""

    gained: Demand = field(default_factory=Demand)
    """What its jobs hold more than before, in all; negative: less."""
    admitted: frozenset[str] = frozenset()
    """The resources of which some job newly holds any: these must fit when all is done."""
    seen: int | None = None
    """The ledger version that the decision rests on; None where it rests on none."""
    used: bool = False
    """Some job's hold on the pool changes, even if the sum does not."""

    @property
    def raises_version(self) -> bool:
        return self.used or self.seen is not None


def held(job: Job) -> tuple[str, Demand] | None:
    """The pool whose slots the job holds, and how much: from its admission to its attempt's end."""
    return (job.attempt.pool, job.demand) if job.active and job.attempt else None


def pool_changes(
    changes: Sequence[Change], seen: Mapping[str, int] | None
) -> dict[str, PoolChange]:
    """By pool: everything that the changes do to its use, and the version it was seen at."""
    pools = {pool: PoolChange(seen=version) for pool, version in (seen or {}).items()}
    for change in changes:
        before, after = held(change.before), held(change.after)
        for pool in {hold[0] for hold in (before, after) if hold}:
            if gained := _amount(after, pool) - _amount(before, pool):
                pools[pool] = _add(pools.get(pool, PoolChange()), gained)
        if change.after.waits and change.after.claim and not change.before.waits:
            pool = change.after.claim.pool  # It moves: its claim is there from now on.
            pools[pool] = replace(pools.get(pool, PoolChange()), used=True)
    return pools


def _amount(hold: tuple[str, Demand] | None, pool: str) -> Demand:
    return hold[1] if hold and hold[0] == pool else Demand()


def _add(pool: PoolChange, gained: Demand) -> PoolChange:
    return replace(
        pool,
        gained=pool.gained + gained,
        admitted=pool.admitted | {name for name, amount in gained.items() if amount > 0},
        used=True,
    )
