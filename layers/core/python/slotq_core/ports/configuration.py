"""The configuration: pools, limits, and how projects share. Each change is on record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slotq_core.model.limits import Limits
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing
from slotq_core.ports.stored import Configuration, ConfigurationChange


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
        """Replace what is given, all at once, and record who did so, when (ms), before and after.
        With `dry_run`, raise what would be raised, and write nothing.

        `seen` is the revision that the caller decided on; raises Conflict if it is outdated.
        Removes a pool that is not listed any more. Raises PoolInUse if something runs in such a
        pool, and Misconfigured if the pools contradict each other or too many change. Capacity may
        shrink below use; then nothing is admitted until use has fallen.
        """

    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        """Return at most `limit` recorded changes, the latest first; with `who`, only that
        caller's. Without `sharing` they leave out how projects shared, which costs reads."""
