"""Read the jobs that hold the slots of pools.

A pool's items are cached until its ledger changes: each write that changes an item of a pool's
partition changes the ledger too (`activity`). The ledgers are read before the other items, so these
are never older than the ledger. So a load reads the ledgers, a hundred a call, and the partitions
of the pools that have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration, Ledgers
from slotq_core.adapters.dynamodb.held_slots import Holders, occupied, read_holders
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.errors import Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.ports.stored import Poison

KEPT_FOR = 600_000
"""How long (ms) items are cached at most. A change that bypasses the ledger (by an operator, or a
handler of an earlier version) is seen after this time."""

PAUSES = (0.0, 0.0, 0.02, 0.05, 0.1, 0.2)
"""Pauses (s) before each read of a pool that does not add up. In total, far longer than DynamoDB
takes to show a committed transaction whole."""

Read = tuple[Holders, Demand, tuple[Poison, ...]]
"""The holders of a pool's slots, the amount that the plan's jobs may not use, and unreadable
items."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """The items of a pool when its ledger was this one, or later."""

    ledger: Item
    until: int
    """The time (ms) from which they are read again in any case."""
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
        self._kept: dict[str, _Kept] = {}

    def forget(self, pools: Iterable[str]) -> None:
        """Drop what is cached of these pools: a decision about them was refused."""
        for pool in pools:
            self._kept.pop(pool, None)

    def read(self, pools: Sequence[Pool], now: int, ledgers: Ledgers | None = None) -> list[Read]:
        """Read the holders of each pool. `now`: ms. `ledgers`: those of all pools, if they have
        been read just now. Raises Unavailable if the items of a pool keep changing."""
        if ledgers is None:
            ledgers = self._ledgers(pools)
        known = {
            pool.name: kept
            for pool in pools
            if (kept := self._as_kept(pool, ledgers, now)) is not None
        }
        unknown = [pool for pool in pools if pool.name not in known]
        read = self._in_parallel(self.reread, unknown)
        for number, (pool, found) in enumerate(zip(unknown, read, strict=True)):
            known[pool.name] = found
            # Pools that are read together do not all end their time in the same load.
            until = now + KEPT_FOR - number * KEPT_FOR // (2 * len(unknown))
            self._keep(pool.name, found, ledgers.get(table.ledger_key(pool.name)), now, until)
        return [known[pool.name] for pool in pools]

    def _ledgers(self, pools: Sequence[Pool]) -> Ledgers:
        """Return the ledgers of these pools, as far as they exist.

        A Query may show a transaction's ledger before its other items, and the cache would then be
        older than its ledger. These reads show each item as a GetItem does.
        """
        keys = [table.ledger_key(pool.name) for pool in pools]
        return self._calls.items_at_once(keys, self._in_parallel)

    def _as_kept(self, pool: Pool, ledgers: Ledgers, now: int) -> Read | None:
        """Return the cached content of the pool; None if something has changed since, or may
        have."""
        kept, ledger = self._kept.get(pool.name), ledgers.get(table.ledger_key(pool.name))
        if kept is None or kept.ledger != ledger or not kept.at <= now < kept.until:
            return None
        return kept.read if kept.read[0].offers(pool.capacity) else None

    def _keep(self, name: str, read: Read, ledger: Item | None, now: int, until: int) -> None:
        holders, _, poison = read
        self._kept.pop(name, None)
        if ledger is not None and holders.adds_up and not poison:
            self._kept[name] = _Kept(ledger=ledger, at=now, until=until, read=read)

    def reread(self, pool: Pool) -> Read:
        """Read the holders of a pool's slots. Items that do not add up may be a half-visible
        transaction.

        Such items are read again, a little later each time, and accepted once they stay the same.
        Raises Unavailable if they keep changing.
        """
        seen: list[list[Item]] = []
        partition = expressions.partition(table.pool_partition(pool.name))
        for pause in PAUSES:
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
