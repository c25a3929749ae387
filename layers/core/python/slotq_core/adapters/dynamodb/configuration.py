"""The configuration on DynamoDB (`ports.configuration.StoredConfiguration`).

The configuration is cached until the REVISION item changes (`_Kept`), so a pass or a submission
reads one small item.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from slotq_core.adapters.dynamodb.accounting.counters import USE, queue_use_of
from slotq_core.adapters.dynamodb.accounting.month_sums import (
    is_spending,
    month_sum_of,
    spending_of,
)
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    NEW_AGE,
    counted,
    foreign_of,
    free_of,
    ledger_of,
    pool_of,
)
from slotq_core.adapters.dynamodb.layout.records import Item, Value, write
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve, definition_of
from slotq_core.adapters.dynamodb.sharing_documents import SharingDocuments, name_of
from slotq_core.adapters.dynamodb.transactions import MAX_ACTIONS, Action, delete, put, update
from slotq_core.errors import (
    ConfigurationLost,
    Conflict,
    InvalidRequest,
    Misconfigured,
    PoolInUse,
    Unavailable,
)
from slotq_core.model.caller_limits import NO_LIMITS, NOTHING_USED, Limits
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.ports.stored import Configuration, ConfigurationChange, Ledger
from slotq_core.ports.surroundings import InParallel
from slotq_core.storage.configured import configured
from slotq_core.timestamps import from_iso, iso
from slotq_core.wire.limits_definition import limit_settings, limits_from

T = TypeVar("T")
U = TypeVar("U")
Ledgers = Mapping[table.Key, Item]
"""The ledgers of pools, as far as they exist."""
_GROUP_DECISIONS, _IN_PARTS = "groupDecisions", "inParts"
"""Attributes of REVISION that passes write (`expressions.decide_about_groups`)."""
_TRIES = 5
_CHANGES_A_PAGE = 25
"""Records in the first page of the history; each further page has twice as many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """The configuration of REVISION's label, or a later one."""

    label: Item
    pools: tuple[Pool, ...]
    limits: Limits
    sharing: Sharing
    believed: bool
    """Whether this is certain to contain no change later than the label's."""


class DynamoConfiguration:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls
        self._documents = SharingDocuments(calls)
        self._kept: _Kept | None = None
        """The last configuration that was read whole."""
        self._decided: Item | None = None
        """What passes have written to REVISION, as last read (`_of_passes`)."""

    def pools(self) -> tuple[Pool, ...]:
        """Return the readable pools."""
        return self.read_through(Sieve())[0].pools

    def read_through(self, sieve: Sieve, item: Item | None = None) -> tuple[Configuration, str]:
        """Return the configuration, and why nothing may be decided under it (usually empty). Lost
        departments and projects are such a reason, and are left out. Unreadable items go into the
        sieve. `item`: REVISION, if it has been read just now."""
        try:
            return self._read(sieve, item=item), ""
        except ConfigurationLost as error:
            return self._read(sieve, lost=True), str(error)

    def with_ledgers(
        self, sieve: Sieve, in_parallel: InParallel
    ) -> tuple[Configuration, str, Ledgers | None]:
        """Return the same, and the ledgers of its pools, from the calls that read REVISION. None:
        they must be read again, after REVISION.

        A decision about a group requires the count of such decisions to be one that was read
        before the ledgers of all pools. If the count is still what was read last, it is.
        """
        kept, decided = self._kept, self._decided
        keys = [table.revision_key()]
        keys += [table.ledger_key(pool.name) for pool in kept.pools] if kept else ()
        found = self._calls.items_at_once(keys, in_parallel)
        item = found.pop(table.revision_key(), Item())
        unchanged = kept is not None and kept.label == _label(item) and decided == _of_passes(item)
        return *self.read_through(sieve, item), found if unchanged else None

    def definition(self, pool: str) -> Pool | None:
        """Return a pool as configured."""
        return next((known for known in self.pools() if known.name == pool), None)

    def read(self) -> Configuration:
        """Return the whole configuration, with its revision."""
        return self._read(Sieve())

    def _read(self, sieve: Sieve, *, lost: bool = False, item: Item | None = None) -> Configuration:
        """Return the configuration, with what cannot be read in the sieve. `lost`: without
        departments and projects. `item`: REVISION, if it has been read just now. Raises
        ConfigurationLost.

        If the pools do not match the revision's digest, both are read once more: a change in
        between may have made the pools newer than the revision. If they still do not match,
        somebody has edited the table, and this reading counts.
        """
        item, kept = self._read_once(sieve, believe=lost, lost=lost, item=item)
        if not kept.believed:
            item, kept = self._read_once(sieve, believe=True, lost=lost)
        for name in _uncounted(item):
            sieve.note(table.revision_key(), f"{name} is no count of changes")
        counted = month_sum_of(item)
        return Configuration(
            pools=kept.pools,
            revision=_one(item, _revision_of, 0),
            limits=kept.limits,
            sharing=kept.sharing,
            use=_one(item, queue_use_of, NOTHING_USED),
            month_sum=counted,
            spent=spending_of(item, counted),
            group_decisions=_one(item, _group_decisions_of, 0),
            in_parts=_IN_PARTS in item,
        )

    def _read_once(
        self, sieve: Sieve, *, believe: bool, lost: bool, item: Item | None = None
    ) -> tuple[Item, _Kept]:
        """Return the REVISION item, and the configuration that was read after it."""
        if item is None:
            item = self._calls.item(table.revision_key()) or Item()
        kept, self._decided = self._kept, _of_passes(item)
        label = _label(item)
        if kept is None or kept.label != label:
            kept = self._reread(label, sieve, believe=believe, lost=lost)
        return item, kept

    def _reread(self, label: Item, sieve: Sieve, *, believe: bool, lost: bool) -> _Kept:
        """Read everything after the REVISION item with this label. Cache it if all is readable and
        has the label's digest; with `believe`, any digest.

        The result is never older than the label. A change committed in between makes it newer: then
        the next label differs, and everything is read again.
        """
        first, last = table.limits_key()[1], table.revision_key()[1]
        items = self._calls.query(expressions.partition_between(table.CONFIG, first, last))
        by_key = {item["sk"]["S"]: item for item in items}
        limits, unread = by_key.get(first), Sieve()
        pools = (item for key, item in by_key.items() if key.startswith(table.POOL_PREFIX))
        configuration = Configuration(
            pools=_in_order(pools, unread),
            revision=_one(label, _revision_of, 0),
            limits=_one(limits, limits_of, NO_LIMITS),
            sharing=NO_SHARING if lost else self._documents.read(_document(label)),
        )
        sieve.add(unread.poison)
        whole = not unread.poison and (limits is None or _one(limits, limits_of, None) is not None)
        digest = label.get("digest", {}).get("S")
        read = _Kept(
            label=label,
            pools=configuration.pools,
            limits=configuration.limits,
            sharing=configuration.sharing,
            believed=believe or not whole or digest in {None, _digest(configuration)},
        )
        keeps = whole and configuration.revision and read.believed and not lost
        self._kept = read if keeps else None
        return read

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
        """Change the parts that are not None. The transaction comes last: before it, only a
        document is written, and nothing names that document yet."""
        for _ in range(_TRIES):
            before = self.read()
            if seen not in {None, before.revision}:
                raise Conflict(f"the configuration is at revision {before.revision}, not {seen}")
            after = configured(before, pools=pools, limits=limits, sharing=sharing)
            if before == after:
                return None
            check_names(after.pools)
            actions = [*self._actions(before, after, who, now)]
            if len(actions) > MAX_ACTIONS:
                raise Misconfigured(
                    f"too many pools change at once: that takes {len(actions)} actions, and a "
                    f"transaction has {MAX_ACTIONS}; add, remove, resize or move fewer pools in "
                    "one change (each behind an added or removed pool moves)"
                )
            if dry_run:
                return None
            if after.sharing != before.sharing:
                self._documents.write(after.sharing)
            try:
                return self._calls.transact(actions)
            except Conflict:
                self._kept = None
        raise Unavailable("somebody else is changing the configuration; try again")

    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        """Return the readable changes, the latest first."""
        records = expressions.partition_from(table.CONFIG, table.CHANGE_PREFIX)
        latest_first = self._calls.query(
            {**records, "ScanIndexForward": False}, at_once=min(limit, _CHANGES_A_PAGE)
        )
        read = self._change_of if sharing else _recorded
        found = (Sieve().read([record], read) for record in latest_first)
        wanted = (change for read in found for change in read if who in {None, change.who})
        return tuple(islice(wanted, limit))

    def mend_counts(self) -> None:
        """Replace the broken counts of REVISION by numbers that no handler has seen. A handler that
        has read the item before loads again."""
        key = table.revision_key()
        item = self._calls.item(key) or Item()
        if wrong := _uncounted(item):
            mended = expressions.set_numbers({name: self._next(name) for name in wrong})
            unchanged = expressions.as_read(item, *wrong)
            with suppress(Conflict):  # Somebody else has mended them.
                self._calls.update(key, expressions.on_condition(mended, unchanged))

    def _next(self, count: str) -> int:
        """Return the number from which a lost count continues; for the revision, that of the last
        recorded change."""
        if count != "revision":
            return NEW_AGE
        last = next((record["sk"]["S"].rpartition("#")[2] for record in self._latest()), "0")
        return int(last) + 1

    def unmeetable_counts(self) -> list[str]:
        """Return the broken counts of REVISION."""
        return _uncounted(self._calls.item(table.revision_key()) or Item())

    def lost_document(self) -> str:
        """Return the name of the document of departments and projects that REVISION names, if it is
        missing or unreadable; else an empty text."""
        name = _document(self._calls.item(table.revision_key()) or Item())
        try:
            self._documents.read_again(name)
        except ConfigurationLost:
            return name
        return ""

    def put_back_document(self, lost: str, now: int) -> bool:
        """Restore the last readable document of departments and projects from the history, as a
        recorded change. Return whether one exists: without any, an operator must decide. Raises
        Conflict if the configuration has changed meanwhile."""
        item = self._calls.item(table.revision_key()) or Item()
        sharing = next((found for found in map(self._document_of, self._latest()) if found), None)
        if sharing is None or _document(item) != lost:
            return False
        before = self._read(Sieve(), lost=True)
        configuration = replace(before, sharing=sharing)
        self._calls.transact(
            [*self._record(configuration, configuration, "slotq doctor --fix", now)]
        )
        self._kept = None
        return True

    def _latest(self) -> Iterator[Item]:
        """Yield the records of changes, the latest first."""
        records = expressions.partition_from(table.CONFIG, table.CHANGE_PREFIX)
        return self._calls.query({**records, "ScanIndexForward": False}, at_once=_CHANGES_A_PAGE)

    def _document_of(self, record: Item) -> Sharing | None:
        """Return the departments and projects after a recorded change; None if there were none, or
        they cannot be read."""
        try:
            found = self._documents.read_again(record.get("sharingAfter", {}).get("S", ""))
        except (*UNREADABLE, ConfigurationLost):
            return None
        return None if found == NO_SHARING else found

    def _actions(
        self, before: Configuration, after: Configuration, who: str, now: int
    ) -> Iterator[Action]:
        yield from self._pool_actions(before.pools, after.pools)
        if after.limits != before.limits:
            item: Item = {"settings": {"S": _json(after.limits)}}
            yield put(self._calls.table, table.limits_key(), item)
        yield from self._record(before, after, who, now)

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
        """Return the update that opens the pool. If only the definition was lost, the ledger still
        counts what is used."""
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
        """Return the ledger, what foreign training jobs occupy, and what is free (None: the pool is
        not open). Raises Unavailable if the ledger cannot be read."""
        item = self._calls.item(table.ledger_key(pool.name)) or {}
        try:
            return ledger_of(item), foreign_of(item), free_of(item)
        except UNREADABLE:
            raise Unavailable(
                f"pool {pool.name}: its ledger needs repair first (slotq doctor --fix)"
            ) from None

    def _record(
        self, before: Configuration, after: Configuration, who: str, now: int
    ) -> Iterator[Action]:
        """Yield the actions that raise the revision and record the change, its author and time."""
        name, revision = self._calls.table, before.revision
        documents = name_of(before.sharing), name_of(after.sharing)
        raised = expressions.next_revision(revision, _digest(after), documents[1])
        yield update(name, table.revision_key(), raised)
        record: Item = {
            "who": {"S": who},
            "at": {"S": iso(now)},
            "before": {"L": [{"M": write(pool)} for pool in before.pools]},
            "after": {"L": [{"M": write(pool)} for pool in after.pools]},
            "limitsBefore": {"S": _json(before.limits)},
            "limitsAfter": {"S": _json(after.limits)},
            "sharingBefore": {"S": documents[0]},
            "sharingAfter": {"S": documents[1]},
        }
        yield put(name, table.change_key(now, revision + 1), record)

    def _change_of(self, record: Item) -> ConfigurationChange:
        return replace(_recorded(record), sharing=self._sharing_of(record))

    def _sharing_of(self, record: Item) -> tuple[Sharing, Sharing] | None:
        """Return the departments and projects before and after a change; None: unchanged, or the
        record is older than projects."""
        before, after = (
            record.get(key, {}).get("S", "") for key in ("sharingBefore", "sharingAfter")
        )
        if before == after:
            return None
        try:
            return self._documents.read(before), self._documents.read(after)
        except ConfigurationLost as error:
            raise ValueError(str(error)) from None


def _recorded(record: Item) -> ConfigurationChange:
    """Return a recorded change without the documents that it names."""
    return ConfigurationChange(
        revision=int(record["sk"]["S"].rpartition("#")[2]),
        who=record["who"]["S"],
        at=from_iso(record["at"]["S"]),
        before=tuple(pool_of(pool["M"]) for pool in record["before"]["L"]),
        after=tuple(pool_of(pool["M"]) for pool in record["after"]["L"]),
        limits_before=_limits(record.get("limitsBefore")),
        limits_after=_limits(record.get("limitsAfter")),
    )


def _label(revision: Item) -> Item:
    """Return what identifies the configuration: the REVISION item without the queue's use, the
    projects' spending and the passes' counters, which change by themselves."""
    aside = {*USE, _GROUP_DECISIONS, _IN_PARTS}
    return {
        name: value
        for name, value in revision.items()
        if name not in aside and not is_spending(name)
    }


def _of_passes(revision: Item) -> Item:
    """Return what passes write to the REVISION item."""
    return {name: revision[name] for name in (_GROUP_DECISIONS, _IN_PARTS) if name in revision}


def _document(revision: Item) -> str:
    """Return the name of the document of departments and projects; empty: none exists."""
    return str(revision.get("sharing", {}).get("S", ""))


def _revision_of(item: Item) -> int:
    return counted(item["revision"])


def _group_decisions_of(item: Item) -> int:
    return counted(item[_GROUP_DECISIONS]) if _GROUP_DECISIONS in item else 0


_COUNTS = ("revision", _GROUP_DECISIONS, "spentVersion")
"""The attributes of REVISION that commits are conditioned on. A missing one counts as not
started."""


def _uncounted(item: Item) -> list[str]:
    """Return the broken counts: a commit that depends on one is always refused."""
    sieve = Sieve()
    return [
        name
        for name in _COUNTS
        if name in item and not sieve.read([item], lambda part, name=name: counted(part[name]))  # type: ignore[misc]
    ]


def _digest(configuration: Configuration) -> str:
    """Return a short hash of the whole configuration. After a restored backup, a revision's number
    may recur with other contents; then its digest differs."""
    contents = [
        [write(pool) for pool in configuration.pools],
        limit_settings(configuration.limits),
        name_of(configuration.sharing),
    ]
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:16]


def check_names(pools: Sequence[Pool]) -> None:
    """Raise Misconfigured if two pools have the same name."""
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        raise Misconfigured(f"two pools have the same name: {', '.join(names)}")


def in_use(pool: Pool, used: Demand) -> PoolInUse:
    return PoolInUse(
        f"pool {pool.name} cannot be removed while {used.slots} of its slots are in use: drain "
        "it, and remove it when it is empty",
        field="name",
    )


def limits_of(item: Item) -> Limits:
    """Return the limits in an item. Raises one of UNREADABLE."""
    return _limits(item["settings"])


def _limits(value: Value | None) -> Limits:
    """Return the limits in a value. None: the record is older than limits. Raises one of
    UNREADABLE."""
    if value is None:
        return NO_LIMITS
    try:
        return limits_from(json.loads(value["S"]))
    except InvalidRequest as error:
        raise ValueError(error.message) from None


def _json(limits: Limits) -> str:
    return json.dumps(limit_settings(limits))


def _one(item: Item | None, reader: Callable[[Item], T], otherwise: U) -> T | U:
    """Return the reader's result for the item, or `otherwise` if the item is missing or
    unreadable."""
    return next(iter(Sieve().read([item] if item else [], reader)), otherwise)


def _in_order(items: Iterable[Item], sieve: Sieve) -> tuple[Pool, ...]:
    placed = sieve.read(items, definition_of)
    return tuple(pool for _, pool in sorted(placed, key=lambda place: place[0]))
