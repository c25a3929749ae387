"""What was learned of pools, and the upkeep, in memory (`ports.health.Health`,
`ports.store.Repair`).

A store in memory needs next to no upkeep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slotq_core.adapters.memory.state import State, one_at_a_time
from slotq_core.adapters.memory.usage_records import MemoryUsage
from slotq_core.model.attempts import Restore
from slotq_core.model.demand import Demand
from slotq_core.model.pools import HEALTHY, Pool, PoolHealth
from slotq_core.ports.stored import Finding, Poison
from slotq_core.ports.training import Sighting
from slotq_core.storage.ends import expires_at


class MemoryHealth:
    """In-memory health of pools and sightings, safe for threads."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._sightings: dict[str, Sighting] = {}

    @one_at_a_time
    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self._state.pools_now() if pool.name == name), None)

    @one_at_a_time
    def get(self, pool: str) -> PoolHealth:
        return self._state.health.get(pool, HEALTHY)

    @one_at_a_time
    def set(self, pool: str, health: PoolHealth) -> None:
        self._state.health[pool] = health
        self._state.changes += 1

    @one_at_a_time
    def set_foreign(self, pool: str, amount: Demand) -> None:
        configured = any(known.name == pool for known in self._state.pools)
        if configured and amount != self._state.foreign.get(pool, Demand()):
            self._state.foreign[pool] = amount
            self._state.raise_version(pool, Demand())

    @one_at_a_time
    def sightings(self) -> tuple[Sighting, ...]:
        return tuple(self._sightings[name] for name in sorted(self._sightings))

    @one_at_a_time
    def remember(self, sighting: Sighting) -> None:
        self._sightings[sighting.training_job] = sighting

    @one_at_a_time
    def forget(self, training_job: str) -> None:
        self._sightings.pop(training_job, None)


class MemoryRepair:
    """In-memory upkeep, safe for threads."""

    def __init__(self, state: State, usage: MemoryUsage) -> None:
        self._state, self._usage = state, usage
        self._marked: set[str] = set()
        """Ended jobs that are marked for expiry."""
        self.restored: Restore | None = None

    def last_restore(self) -> Restore | None:
        return self.restored

    @one_at_a_time
    def expire(self, *, now: int, limit: int = 25) -> int:
        """Mark ended jobs, and remove marked jobs whose time has come."""
        self._usage.expire(now)
        marked, self._state.ended = self._state.ended[:limit], self._state.ended[limit:]
        self._marked.update(marked)
        for name in sorted(self._marked):
            if (expires_at(self._state.jobs[name], self._state.history) or 0) * 1000 <= now:
                self._state.remove(name)
                self._marked.discard(name)
        return len(marked)

    def audit(self, *, now: int) -> tuple[Finding, ...]:
        """Nothing in memory is ever hidden."""
        return ()

    def quarantine(self, poison: Poison) -> None:
        """Do nothing: objects in memory are never parsed, so none is unreadable."""

    def inspect(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterable[Finding]:
        """Find nothing: the store keeps no copies that could disagree."""
        return ()
