"""What a change of the configuration does to the ledgers of pools: in its own transaction, or in
parts before it.

A change in parts is marked in REVISION. The mark keeps all other changes out. Each part requires
the mark, and so does the transaction that raises the revision and removes the mark. Each changed
ledger names the revision that it awaits (`since`), and no pass decides on it before. If a handler
dies on the way, a tick or the next change takes the mark over and puts the ledgers back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.items import foreign_of, free_of, ledger_of, since_of
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.adapters.dynamodb.transactions import Action, check, update
from slotq_core.errors import Conflict, PoolInUse, SlotQError, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.ports.stored import Configuration

CHANGING = "changing"
"""The attribute of REVISION with the mark: when (ms) the change began, who makes it, and the
document that it makes, as JSON."""
LEASE = 20_000
"""How long (ms) others leave a change in parts to its handler: far longer than any takes."""
BUSY = "somebody else is changing the configuration; try again"
_TRIES = 20

LedgerChange = tuple[Pool | None, Pool | None]
"""A pool whose ledger changes, as it was and as it will be; None: it is not there."""


class PoolLedgers:
    def __init__(self, calls: TableCalls, most_actions: int) -> None:
        self._calls, self._most_actions = calls, most_actions

    def actions(self, changes: Sequence[LedgerChange], since: int) -> list[Action]:
        """Return the changes of the ledgers. `since`: the revision that they await; 0: the same
        transaction raises the revision. Raises PoolInUse, and Unavailable if a ledger cannot be
        read."""
        both = [pool for was, now in changes if was is None or now is None for pool in (was, now)]
        keys = [table.ledger_key(pool.name) for pool in both if pool]
        read = self._calls.items(keys) if keys else {}
        return [self._action(was, pool, read, since) for was, pool in changes]

    def _action(
        self, was: Pool | None, pool: Pool | None, read: Mapping[table.Key, Item], since: int
    ) -> Action:
        name = (pool or was or _NOBODY).name
        ledger = read.get(table.ledger_key(name), Item())
        if was is not None and pool is not None:
            expression = ledger_expressions.resize_pool(pool.capacity - was.capacity, since)
        elif pool is not None:
            expression = _opened(pool, ledger, since)
        else:
            expression = _closed(was or _NOBODY, ledger, since)
        return update(self._calls.table, table.ledger_key(name), expression)

    def change_in_parts(
        self, parts: Sequence[Action], last: Sequence[Action], mark: str, before: Configuration
    ) -> None:
        """Make a change: the parts under the mark, then the transaction that raises the revision.
        After an error the ledgers are put back."""
        began = expressions.begin_change(before.revision, mark)
        self._calls.update(table.revision_key(), began)
        try:
            self._in_parts(parts, mark)
            self._calls.transact(last)
        except SlotQError:
            with suppress(SlotQError):
                planned = [action["Update"]["Key"]["pk"]["S"] for action in parts]
                names = [key.removeprefix(table.POOL_PREFIX) for key in planned]
                self.put_back(before, mark, names)
            raise

    def _in_parts(self, actions: Sequence[Action], mark: str) -> None:
        """Run the actions in as few transactions as possible, each only while the mark is there."""
        goes_on = check(self._calls.table, table.revision_key(), expressions.change_goes_on(mark))
        size = self._most_actions - 1
        for at in range(0, len(actions), size):
            self._calls.transact([goes_on, *actions[at : at + size]])

    def take_over(self, before: str, now: int) -> str:
        """Take over the change with this mark, and return one's own mark. Raises Unavailable while
        its handler may live, and Conflict if another handler was faster."""
        at, document = contents_of(before)
        if abs(now - at) < LEASE:
            raise Unavailable(BUSY)
        own = mark_of(now, f"after {before}"[:200], document)
        self._calls.update(table.revision_key(), expressions.take_over_change(before, own))
        return own

    def put_back(self, configuration: Configuration, mark: str, touched: Iterable[str]) -> None:
        """Give the pools that a change may have touched the room that they have under the
        configuration, then remove the change's mark. Raises Conflict if the mark has gone."""
        room: dict[str, Demand | None] = dict.fromkeys(touched)
        room |= {pool.name: pool.capacity for pool in configuration.pools}
        keys = {table.ledger_key(name): capacity for name, capacity in room.items()}
        for _ in range(_TRIES):
            if mark_in(self._calls.item(table.revision_key())) != mark:
                raise Conflict("the change has ended, or another handler has taken it over")
            read = self._calls.items([*keys])
            actions = [
                update(self._calls.table, key, expression)
                for key, ledger in read.items()
                if (expression := _put_back(ledger, keys[key], configuration.revision))
            ]
            if not actions:
                return self._calls.update(table.revision_key(), expressions.end_change(mark))
            with suppress(Conflict):  # A ledger has changed meanwhile.
                self._in_parts(actions, mark)
        raise Unavailable("the ledgers are changing; try again")


_NOBODY = Pool(name="", instance_type="", capacity=Demand())


def ledger_changes(before: Sequence[Pool], after: Sequence[Pool]) -> Iterator[LedgerChange]:
    old = {pool.name: pool for pool in before}
    for pool in after:
        was = old.pop(pool.name, None)
        if was is None or (pool.capacity, pool.state) != (was.capacity, was.state):
            yield was, pool
    for gone in old.values():
        yield gone, None


def mark_of(now: int, who: str, document: str) -> str:
    return json.dumps({"at": now, "who": who, "document": document})


def mark_in(revision: Item | None) -> str:
    """Return the mark in the REVISION item; empty: there is none."""
    return str((revision or {}).get(CHANGING, {}).get("S", ""))


def contents_of(mark: str) -> tuple[int, str]:
    """Return when (ms) a change in parts began, and the document that it makes; 0 and none if the
    mark cannot be read."""
    try:
        contents = json.loads(mark)
        return int(contents["at"]), str(contents["document"])
    except UNREADABLE:
        return 0, ""


def _opened(pool: Pool, ledger: Item, since: int) -> expressions.Expression:
    """Return the update that opens the pool. If only the definition was lost, the ledger still
    counts what is used."""
    version, used, foreign, free = _amounts(pool, ledger)
    if free is None:
        return ledger_expressions.open_pool(pool.capacity, since)
    room, resources = pool.capacity - used - foreign, {"slots", *pool.capacity}
    return ledger_expressions.reopen_pool(room, resources, version, since)


def _closed(pool: Pool, ledger: Item, since: int) -> expressions.Expression:
    _, used, foreign, _ = _amounts(pool, ledger)
    if used:
        raise PoolInUse(
            f"pool {pool.name} cannot be removed while {used.slots} of its slots are in use: drain "
            "it, and remove it when it is empty",
            field="name",
        )
    return ledger_expressions.close_pool(pool.capacity, used, foreign, since)


def _amounts(pool: Pool, ledger: Item) -> tuple[int, Demand, Demand, Demand | None]:
    """Return the ledger's version, what is used, what foreign training jobs occupy, and what is
    free (None: the pool is not open). Raises Unavailable if the ledger cannot be read."""
    try:
        read = ledger_of(ledger)
        return read.version, read.used, foreign_of(ledger), free_of(ledger)
    except UNREADABLE:
        raise Unavailable(
            f"pool {pool.name}: its ledger needs repair first (slotq doctor --fix)"
        ) from None


def _put_back(
    ledger: Item, capacity: Demand | None, revision: int
) -> expressions.Expression | None:
    """Return the update that gives a pool its room again; None if the ledger is right, or cannot be
    read. `capacity` None: the pool is not configured."""
    try:
        read, foreign, free = ledger_of(ledger), foreign_of(ledger), free_of(ledger)
        awaits = since_of(ledger) > revision
    except UNREADABLE:
        return None
    room = None if capacity is None else capacity - read.used - foreign
    resources = {"slots", *(foreign if capacity is None else capacity), *(free or ())}
    if room is None or free is None:
        right = room is free
    else:
        right = all(free[resource] == room[resource] for resource in resources)
    if right and not awaits:
        return None
    return ledger_expressions.take_back_pool(room, resources, read.version)
