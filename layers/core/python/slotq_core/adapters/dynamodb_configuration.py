"""The configured pools: read, and changed on the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from slotq_core.adapters import dynamodb_expressions as expressions
from slotq_core.adapters import dynamodb_ledger_expressions as ledger_expressions
from slotq_core.adapters import dynamodb_table as table
from slotq_core.adapters.dynamodb_actions import MAX_ACTIONS, Action, delete, put, update
from slotq_core.adapters.dynamodb_calls import TableCalls
from slotq_core.adapters.dynamodb_items import (
    Item,
    foreign_of,
    free_of,
    ledger_of,
    pool_of,
    write,
)
from slotq_core.adapters.dynamodb_sound import UNREADABLE, Sieve, definition_of
from slotq_core.adapters.snapshots import as_configured
from slotq_core.errors import Conflict, Misconfigured, PoolInUse, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.moments import from_iso, iso
from slotq_core.ports import Configuration as Stand
from slotq_core.ports import ConfigurationChange, Ledger

_TRIES = 5
_CHANGES_A_PAGE = 25


class Configuration:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def pools(self) -> tuple[Pool, ...]:
        """Those that can be understood."""
        return self.pools_through(Sieve())

    def pools_through(self, sieve: Sieve) -> tuple[Pool, ...]:
        """The same, keeping what cannot be understood in the sieve."""
        return _in_order(
            self._calls.query(expressions.partition_from(table.CONFIG, table.POOL_PREFIX)), sieve
        )

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools() if pool.name == name), None)

    def read(self) -> Stand:
        """The pools and the revision that they stand at."""
        pools, revision = self._read()
        return Stand(pools=pools, revision=revision)

    def change(self, pools: Sequence[Pool], *, who: str, now: int, seen: int | None) -> None:
        check_names(pools)
        pools = as_configured(pools)
        for _ in range(_TRIES):
            before, revision = self._read()
            if seen not in {None, revision}:
                raise Conflict(f"the configuration is at revision {revision}, not {seen}")
            if before == pools:
                return None
            actions = [
                *self._pool_actions(before, pools),
                *self._record(before, pools, revision, who, now),
            ]
            if len(actions) > MAX_ACTIONS:
                raise Misconfigured(f"too many pools change at once: {len(actions)} actions")
            try:
                return self._calls.transact(actions)
            except Conflict:
                continue
        raise Unavailable("others change the configuration at this moment")

    def changes(self, *, limit: int, who: str | None) -> tuple[ConfigurationChange, ...]:
        """Those that can be understood, the latest first."""
        records = expressions.partition_from(table.CONFIG, table.CHANGE_PREFIX)
        page = {"ScanIndexForward": False, "Limit": min(limit, _CHANGES_A_PAGE)}
        latest_first = self._calls.query({**records, **page})
        found = (Sieve().read([record], _change_of) for record in latest_first)
        wanted = (each for read in found for each in read if who in {None, each.who})
        return tuple(islice(wanted, limit))

    def _read(self) -> tuple[tuple[Pool, ...], int]:
        first, last = table.POOL_PREFIX, table.revision_key()[1]
        items = list(self._calls.query(expressions.partition_between(table.CONFIG, first, last)))
        revision = next(iter(Sieve().read(items, lambda item: int(item["revision"]["N"]))), 0)
        pools = (item for item in items if item["sk"]["S"].startswith(first))
        return _in_order(pools, Sieve()), revision

    def _pool_actions(self, before: Sequence[Pool], after: Sequence[Pool]) -> Iterator[Action]:
        old = {pool.name: (position, pool) for position, pool in enumerate(before)}
        for position, pool in enumerate(after):
            was = old.pop(pool.name, None)
            if was == (position, pool):
                continue
            definition = {**write(pool), "position": {"N": str(position)}}
            yield put(self._calls.table, table.pool_key(pool.name), definition)
            if was is None:
                yield self._ledger(pool, self._open(pool))
            elif (pool.capacity, pool.state) != (was[1].capacity, was[1].state):
                gained = pool.capacity - was[1].capacity
                yield self._ledger(pool, ledger_expressions.resize_pool(gained))
        for _, pool in old.values():
            yield delete(self._calls.table, table.pool_key(pool.name))
            yield self._ledger(pool, self._close(pool))

    def _ledger(self, pool: Pool, expression: expressions.Expression) -> Action:
        return update(self._calls.table, table.ledger_key(pool.name), expression)

    def _open(self, pool: Pool) -> expressions.Expression:
        """Where a definition was lost, its ledger still counts what is used."""
        read, foreign, free = self._ledger_of(pool)
        if free is None:
            return ledger_expressions.open_pool(pool.capacity)
        room = pool.capacity - read.used - foreign
        return ledger_expressions.reopen_pool(room, {"slots", *pool.capacity}, read.version)

    def _close(self, pool: Pool) -> expressions.Expression:
        read, foreign, _ = self._ledger_of(pool)
        if read.used:
            raise in_use(pool, read.used)
        return ledger_expressions.close_pool(pool.capacity, read.used, foreign)

    def _ledger_of(self, pool: Pool) -> tuple[Ledger, Demand, Demand | None]:
        """With what others occupy, and what is free, if it is open."""
        item = self._calls.item(table.ledger_key(pool.name)) or {}
        try:
            return ledger_of(item), foreign_of(item), free_of(item)
        except UNREADABLE:
            raise Unavailable(f"pool {pool.name}: its ledger is to be mended first") from None

    def _record(
        self, before: Sequence[Pool], after: Sequence[Pool], revision: int, who: str, now: int
    ) -> Iterator[Action]:
        """Raises the revision, and keeps who changed what, when."""
        name = self._calls.table
        yield update(name, table.revision_key(), expressions.next_revision(revision))
        record: Item = {
            "who": {"S": who},
            "at": {"S": iso(now)},
            "before": {"L": [{"M": write(pool)} for pool in before]},
            "after": {"L": [{"M": write(pool)} for pool in after]},
        }
        yield put(name, table.change_key(now, revision + 1), record)


def check_names(pools: Sequence[Pool]) -> None:
    """Raises Misconfigured where two pools have one name."""
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        raise Misconfigured(f"two pools have one name among {', '.join(names)}")


def in_use(pool: Pool, used: Demand) -> PoolInUse:
    return PoolInUse(
        f"pool {pool.name} cannot be removed with {used.slots} of its slots in use: "
        "drain it, and remove it once it is empty",
        field="name",
    )


def _change_of(record: Item) -> ConfigurationChange:
    return ConfigurationChange(
        revision=int(record["sk"]["S"].rpartition("#")[2]),
        who=record["who"]["S"],
        at=from_iso(record["at"]["S"]),
        before=tuple(pool_of(each["M"]) for each in record["before"]["L"]),
        after=tuple(pool_of(each["M"]) for each in record["after"]["L"]),
    )


def _in_order(items: Iterable[Item], sieve: Sieve) -> tuple[Pool, ...]:
    placed = sieve.read(items, definition_of)
    return tuple(pool for _, pool in sorted(placed, key=lambda each: each[0]))
