"""Read the jobs that hold the slots of pools.

The jobs of a large pool are cached until its ledger changes: each transaction that changes an item
of a pool's partition changes the ledger too (`activity`). The ledger is read before the jobs, so
the cached jobs are never older than the ledger.

A pool with few jobs is read whole each time: its partition costs one read unit, and so would its
ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.held_slots import Holders, occupied, read_holders
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import health_of
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import Sieve
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.errors import Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import HEALTHY, Pool
from slotq_core.ports.stored import Poison

LARGE = 12
"""A pool with more jobs than this costs more than the two read units of its ledger and its
health."""

KEPT_FOR = 600_000
"""How long (ms) jobs are cached at most. A change that bypasses the ledger (by an operator, or a
handler of an earlier version) is seen after this time."""

_PAUSES = (0.0, 0.0, 0.02, 0.05, 0.1, 0.2)
"""Pauses (s) before each read of a pool that does not add up. In total, far longer than DynamoDB
takes to show a committed transaction whole."""

Read = tuple[Holders, Demand, tuple[Poison, ...]]
"""The holders of a pool's slots, the amount that the plan's jobs may not use, and unreadable
items."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """The holders of a pool's slots when its ledger was this item, or later."""

    ledger: Item
    at: int
    read: Read


class PoolReader:
    def __init__(
        self,
        calls: TableCalls,
        configuration: DynamoConfiguration,
        pause: Callable[[float], None],
        in_parallel: InParallel,
    ) -> None:
        """Set up the reader. `pause` waits for a number of seconds."""
        self._calls = calls
        self._configuration = configuration
        self._pause = pause
        self._in_parallel = in_parallel
        self.large_from = LARGE
        self._large: set[str] = set()
        """Pools that had more than `large_from` jobs when last read."""
        self._kept: dict[str, _Kept] = {}

    def forget(self) -> None:
        """Drop the cache: a decision that rested on it was refused."""
        self._kept.clear()

    def read(self, pools: Sequence[Pool], now: int) -> list[Read]:
        """Read the holders of each pool. `now`: ms. Raises Unavailable if the items of a pool keep
        changing."""
        ledgers = self._ledgers([pool.name for pool in pools if pool.name in self._large])
        known: dict[str, Read] = {}
        for pool in pools:
            if (kept := self._as_kept(pool, ledgers, now)) is not None:
                known[pool.name] = kept
        unknown = [pool for pool in pools if pool.name not in known]
        for pool, read in zip(unknown, self._in_parallel(self._reread, unknown), strict=True):
            known[pool.name] = read
            self._keep(pool.name, read, ledgers.get(table.ledger_key(pool.name)), now)
        return [known[pool.name] for pool in pools]

    def _ledgers(self, names: Sequence[str]) -> dict[table.Key, Item]:
        """Return the ledgers and the health of these pools, as far as they exist.

        Each is read alone: a Query may show a transaction's ledger before its other items, and the
        cache would then be older than its ledger.
        """
        keys = [key(name) for name in names for key in (table.ledger_key, table.health_key)]
        items = self._in_parallel(self._calls.item, keys)
        return {key: item for key, item in zip(keys, items, strict=True) if item is not None}

    def _as_kept(self, pool: Pool, ledgers: dict[table.Key, Item], now: int) -> Read | None:
        """Return the cached content of the pool; None if something has changed since, or may
        have."""
        kept, ledger = self._kept.get(pool.name), ledgers.get(table.ledger_key(pool.name))
        if kept is None or kept.ledger != ledger or not 0 <= now - kept.at < KEPT_FOR:
            return None
        holders, foreign, poison = kept.read
        sieve, health = Sieve(), ledgers.get(table.health_key(pool.name))
        known = sieve.read([health] if health else [], health_of)
        if sieve.poison or not holders.offers(pool.capacity):
            return None
        return replace(holders, health=known[0] if known else HEALTHY), foreign, poison

    def _keep(self, name: str, read: Read, ledger: Item | None, now: int) -> None:
        holders, _, poison = read
        large = len(holders.active) + len(holders.claimants) > self.large_from
        (self._large.add if large else self._large.discard)(name)
        self._kept.pop(name, None)
        if large and ledger is not None and holders.adds_up and not poison:
            self._kept[name] = _Kept(ledger=ledger, at=now, read=read)

    def _reread(self, pool: Pool) -> Read:
        """Read the holders of a pool's slots. Items that do not add up may be a half-visible
        transaction.

        Such items are read again, a little later each time, and accepted once they stay the same.
        Raises Unavailable if they keep changing.
        """
        seen: list[list[Item]] = []
        partition = expressions.partition(table.pool_partition(pool.name))
        for pause in _PAUSES:
            if pause:
                self._pause(pause)
            seen.append([*self._calls.query(partition)])
            read = read_holders(seen[-1])
            if read.adds_up and read.offers(pool.capacity) and not read.poison:
                return read, read.foreign + read.kept, ()
            if read.poison and seen[-1] in seen[:-1]:
                return self._settled(read, pool)
        if all(version == seen[0] for version in seen):
            return self._settled(read, pool)
        raise Unavailable(f"pool {pool.name}: its ledger and its active jobs do not agree")

    def _settled(self, read: Holders, pool: Pool) -> Read:
        if read.adds_up and not read.offers(pool.capacity):
            now = self._configuration.definition(pool.name)
            if now is None or now.capacity != pool.capacity:  # Changed after the pools were read.
                return read, read.foreign + read.kept, read.poison
        return read, *occupied(read, pool)
