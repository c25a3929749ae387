"""The configuration in memory (`ports.configuration.StoredConfiguration`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slotq_core.adapters.memory.counters import MemoryCounters
from slotq_core.adapters.memory.state import State, one_at_a_time
from slotq_core.adapters.memory.usage_records import MemoryUsage
from slotq_core.errors import Conflict, Misconfigured, PoolInUse
from slotq_core.model.callers import NO_LIMITS, Limits
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool, PoolState
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.ports.stored import Configuration, ConfigurationChange
from slotq_core.storage.configured import configured


class MemoryConfiguration:
    """In-memory configuration, safe for threads."""

    def __init__(self, state: State, counters: MemoryCounters, usage: MemoryUsage) -> None:
        self._state, self._counters, self._usage = state, counters, usage
        self._limits = NO_LIMITS
        self.sharing = NO_SHARING
        self._changes: list[ConfigurationChange] = []

    @one_at_a_time
    def read(self) -> Configuration:
        return Configuration(
            pools=self._state.pools,
            revision=len(self._changes),
            limits=self._limits,
            sharing=self.sharing,
            use=self._counters.queue_use,
            month_sum=self._usage.month,
            spent=self._usage.spending(),
            past_use=self._usage.past_use,
            past_use_version=self._usage.past_use_version,
            group_decisions=self._state.group_decisions,
            in_parts=self._state.in_parts is not None,
        )

    @one_at_a_time
    def pools(self) -> tuple[Pool, ...]:
        return self._state.pools

    @one_at_a_time
    def change(
        self,
        pools: Sequence[Pool] | None = None,
        *,
        limits: Limits | None = None,
        sharing: Sharing | None = None,
        who: str,
        now: int,
        seen: int | None = None,
        dry_run: bool = False,
    ) -> None:
        before = self.read()
        if seen not in {None, before.revision}:
            raise Conflict("the configuration has changed since it was read")
        after = configured(before, pools=pools, limits=limits, sharing=sharing)
        self._check_pools(before.pools, after.pools)
        if before != after and not dry_run:
            self._change_pools(before.pools, after.pools)
            self._record(before, after, who, now)

    def take_back(self, now: int) -> None:
        """Nothing: a change here is never left half done."""

    @one_at_a_time
    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        found = [change for change in reversed(self._changes) if who in {None, change.who}][:limit]
        return tuple(change if sharing else replace(change, sharing=None) for change in found)

    def _check_pools(self, before: Sequence[Pool], after: Sequence[Pool]) -> None:
        """Raises PoolInUse and Misconfigured."""
        rest = {pool.name for pool in after}
        if len(rest) < len(after):
            raise Misconfigured("two pools have one name")
        for name in {pool.name for pool in before} - rest:
            if self._state.ledgers[name].used:
                raise PoolInUse(f"pool {name} cannot be removed: jobs run in it", field="name")

    def _change_pools(self, before: Sequence[Pool], after: Sequence[Pool]) -> None:
        """Raise the versions of ledgers whose room changes."""
        old, new = ({pool.name: pool for pool in pools} for pools in (before, after))
        for name in old.keys() - new.keys():
            self._state.foreign.pop(name, None)
        for name in old.keys() | new.keys():
            if _room(old.get(name)) != _room(new.get(name)):
                self._state.raise_version(name, Demand())

    def _record(self, before: Configuration, after: Configuration, who: str, now: int) -> None:
        shared = None if before.sharing == after.sharing else (before.sharing, after.sharing)
        change = ConfigurationChange(
            revision=before.revision + 1,
            who=who,
            at=now,
            before=before.pools,
            after=after.pools,
            limits_before=before.limits,
            limits_after=after.limits,
            sharing=shared,
        )
        self._changes.append(change)
        self._state.changes += 1
        self._state.pools, self._limits, self.sharing = after.pools, after.limits, after.sharing


def _room(pool: Pool | None) -> tuple[Demand, PoolState] | None:
    """Return what decides admission; None if the pool does not exist."""
    return (pool.capacity, pool.state) if pool else None
