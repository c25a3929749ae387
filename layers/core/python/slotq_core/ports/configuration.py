"""The configuration (pools, limits, and sharing) with a record of its changes; the health of pools,
and sightings of unexpected training jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slotq_core.model.callers import Limits
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool, PoolHealth
from slotq_core.model.sharing import Sharing
from slotq_core.ports.stored import Configuration, ConfigurationChange
from slotq_core.ports.training import Sighting


class StoredConfiguration(Protocol):
    """The configuration and its record. Strongly consistent. Methods may raise Unavailable, and
    ConfigurationLost if the departments and projects are lost."""

    def read(self) -> Configuration:
        """Return the configuration: pools, limits, sharing, use and revision."""

    def pools(self) -> tuple[Pool, ...]:
        """Return the configured pools, in their configured order."""

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
        """Replace the arguments that are not None, all at once, and record the author, the time
        (ms), and the settings before and after. With `dry_run`, raise the same errors, and write
        nothing.

        `seen` is the revision that the caller decided on; raises Conflict if it is outdated.
        Removes pools that are not listed. Raises PoolInUse if a job runs in such a pool, and
        Misconfigured if the pools contradict each other or too many change. Capacity may shrink
        below use; then nothing is admitted until use has fallen.
        """

    def take_back(self, now: int) -> None:
        """Undo what a handler that has died over a change has left of it. `now`: ms. Raises
        Unavailable while that handler may still live, and Conflict if another one was faster."""

    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        """Return at most `limit` recorded changes, the latest first; with `who`, only that
        caller's. Without `sharing` they leave out the sharing, which costs reads."""


class Health(Protocol):
    """The pools' health, and sightings of unexpected training jobs. Methods may raise
    Unavailable."""

    def pool(self, name: str) -> Pool | None:
        """Return a configured pool with its health and its foreign use; None if no such pool
        exists."""

    def get(self, pool: str) -> PoolHealth:
        """Return a pool's health alone; HEALTHY if none is stored."""

    def set(self, pool: str, health: PoolHealth) -> None:
        """Store a pool's health. Unconditional: a lost write costs one more failed start."""

    def set_foreign(self, pool: str, amount: Demand) -> None:
        """Set the amount that training jobs outside the queue occupy in a pool. A change raises the
        ledger's version."""

    def sightings(self) -> tuple[Sighting, ...]:
        """Return all sightings that are remembered and not forgotten."""

    def remember(self, sighting: Sighting) -> None: ...

    def forget(self, training_job: str) -> None: ...
