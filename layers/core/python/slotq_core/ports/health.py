"""What the queue has learned of its pools, and of training jobs that it does not expect."""

from __future__ import annotations

from typing import Protocol

from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool, PoolHealth
from slotq_core.ports.training import Sighting


class Health(Protocol):
    """The pools' health, and sightings of unexpected training jobs. Methods may raise
    Unavailable."""

    def pool(self, name: str) -> Pool | None:
        """Return a configured pool with its health, and with what others occupy of it; None if
        there is no such pool."""

    def get(self, pool: str) -> PoolHealth:
        """Return a pool's health alone; HEALTHY if nothing was learned of the pool."""

    def set(self, pool: str, health: PoolHealth) -> None:
        """Store a pool's health. Unconditional: a lost write costs one more failed start."""

    def set_foreign(self, pool: str, amount: Demand) -> None:
        """Set what training jobs outside the queue occupy of a pool. A change raises the ledger's
        version."""

    def sightings(self) -> tuple[Sighting, ...]:
        """Return all sightings that are remembered and not forgotten."""

    def remember(self, sighting: Sighting) -> None: ...

    def forget(self, training_job: str) -> None: ...
