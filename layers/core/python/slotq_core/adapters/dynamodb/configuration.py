"""The configuration on DynamoDB (`ports.configuration.StoredConfiguration`).

The configuration is cached until the REVISION item changes (`_Kept`), so a pass or a submission
reads one small item.

A change that fits one transaction is one, and each pool has an item of its own. Once a change of
them does not fit, the pools are in the document beside the projects, where they stay, and the
ledgers of as many pools as need it change in parts (`accounting.pool_ledgers`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from slotq_core.adapters.dynamodb.accounting import past_use
from slotq_core.adapters.dynamodb.accounting.counters import USE, queue_use_of
from slotq_core.adapters.dynamodb.accounting.month_sums import (
    is_spending,
    month_sum_of,
    spending_of,
)
from slotq_core.adapters.dynamodb.accounting.pool_ledgers import (
    BUSY,
    CHANGING,
    PoolLedgers,
    contents_of,
    ledger_changes,
    mark_in,
    mark_of,
)
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    NEW_AGE,
    counted,
    pool_of,
)
from slotq_core.adapters.dynamodb.layout.records import Item, Value, write
from slotq_core.adapters.dynamodb.layout.validation import (
    UNREADABLE,
    Sieve,
    definition_of,
    key_of,
)
from slotq_core.adapters.dynamodb.sharing_documents import (
    EMPTY,
    Document,
    SharingDocuments,
    name_of,
)
from slotq_core.adapters.dynamodb.transactions import (
    MAX_ACTIONS,
    Action,
    delete,
    put,
    update,
)
from slotq_core.errors import (
    ConfigurationLost,
    Conflict,
    InvalidRequest,
    Misconfigured,
    Unavailable,
)
from slotq_core.model.callers import NO_LIMITS, NOTHING_USED, Limits
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing
from slotq_core.ports.stored import Configuration, ConfigurationChange
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
_DOCUMENTS = {"before": "sharingBefore", "after": "sharingAfter"}
"""The attributes of a record with the pools, and with the document that has them otherwise."""
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
    in_document: bool
    """Whether the pools are in the document, and have no items of their own."""
    believed: bool
    """Whether this is certain to contain no change later than the label's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Change:
    """A change of the configuration, as actions."""

    pools: tuple[Pool, ...] | None
    """The pools, if they go into the document."""
    parts: Sequence[Action]
    """What changes in the pools' ledgers and items."""
    last: Sequence[Action]
    """What raises the revision and records the change."""
    mark: str
    """The mark under which the parts come before the last; empty: all is one transaction."""


class DynamoConfiguration:
    def __init__(self, calls: TableCalls, *, most_actions: int = MAX_ACTIONS) -> None:
        """`most_actions`: how many actions of one transaction a change takes at most."""
        self._calls, self._most_actions = calls, most_actions
        self._ledgers = PoolLedgers(calls, most_actions)
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
        return self._read_with_label(sieve, lost=lost, item=item)[0]

    def _read_with_label(
        self, sieve: Sieve, *, lost: bool = False, item: Item | None = None
    ) -> tuple[Configuration, _Kept]:
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
        configuration = Configuration(
            pools=kept.pools,
            revision=_one(item, _revision_of, 0),
            limits=kept.limits,
            sharing=kept.sharing,
            use=_one(item, queue_use_of, NOTHING_USED),
            month_sum=counted,
            spent=spending_of(item, counted),
            past_use=past_use.past_use_of(item),
            past_use_version=past_use.version_of(item),
            group_decisions=_one(item, _group_decisions_of, 0),
            in_parts=_IN_PARTS in item,
            changing=CHANGING in item,
        )
        return configuration, kept

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
        document = EMPTY if lost else self._documents.read(_document(label))
        configuration = Configuration(
            pools=_in_order(pools, unread) if document.pools is None else document.pools,
            revision=_one(label, _revision_of, 0),
            limits=_one(limits, limits_of, NO_LIMITS),
            sharing=document.sharing,
        )
        sieve.add(unread.poison)
        whole = not unread.poison and (limits is None or _one(limits, limits_of, None) is not None)
        digest = label.get("digest", {}).get("S")
        read = _Kept(
            label=label,
            pools=configuration.pools,
            limits=configuration.limits,
            sharing=configuration.sharing,
            in_document=document.pools is not None,
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
        """Change the parts that are not None. The transaction that raises the revision comes last:
        before it, only a document is written that nothing names yet, and ledgers that no pass
        decides on yet."""
        for _ in range(_TRIES):
            before, kept = self._read_with_label(Sieve())
            if seen not in {None, before.revision}:
                raise Conflict(f"the configuration is at revision {before.revision}, not {seen}")
            after = configured(before, pools=pools, limits=limits, sharing=sharing)
            if before == after:
                return
            check_names(after.pools)
            change = self._change(before, after, who, now, in_document=kept.in_document)
            if dry_run:
                return
            try:
                if before.changing:
                    self.take_back(now)
                self._documents.write(after.sharing, change.pools)
                self._make(change, before)
            except Conflict:
                self._kept = None
                continue
            if change.pools is not None:
                self._delete_definitions()
            return
        raise Unavailable(BUSY)

    def _change(
        self, before: Configuration, after: Configuration, who: str, now: int, *, in_document: bool
    ) -> _Change:
        """Return the actions of a change. The pools have items of their own until a change of them
        does not fit one transaction. Raises PoolInUse."""
        pools_before = before.pools if in_document else None
        ledgers = [*ledger_changes(before.pools, after.pools)]
        definitions = [] if in_document else [*self._definitions(before.pools, after.pools)]
        room = self._most_actions - len(ledgers) - (2 if before.limits == after.limits else 3)
        if len(definitions) > room:
            in_document, definitions = True, []
        pools = after.pools if in_document else None
        documents = name_of(before.sharing, pools_before), name_of(after.sharing, pools)
        mark = mark_of(now, who, documents[1]) if room < 0 else ""
        parts = self._ledgers.actions(ledgers, before.revision + 1 if mark else 0)
        last = [
            *self._record(
                before,
                after,
                who,
                now,
                documents=documents,
                in_document=(pools_before is not None, in_document),
                mark=mark,
            )
        ]
        if after.limits != before.limits:
            item: Item = {"settings": {"S": _json(after.limits)}}
            last.append(put(self._calls.table, table.limits_key(), item))
        return _Change(pools=pools, parts=[*definitions, *parts], last=last, mark=mark)

    def _make(self, change: _Change, before: Configuration) -> None:
        if change.mark:
            self._ledgers.change_in_parts(change.parts, change.last, change.mark, before)
        else:
            self._calls.transact([*change.parts, *change.last])

    def take_back(self, now: int) -> None:
        """Undo what a handler that has died over a change has left of it."""
        mark = mark_in(self._calls.item(table.revision_key()))
        if mark:
            own = self._ledgers.take_over(mark, now)
            planned: Sequence[Pool] = ()
            with suppress(ConfigurationLost):
                planned = self._documents.read(contents_of(mark)[1]).pools or ()
            self._ledgers.put_back(self.read(), own, [pool.name for pool in planned])

    def _delete_definitions(self) -> None:
        """Delete the items of pools that are in the document now; nothing reads them any more."""
        items = expressions.partition_from(table.CONFIG, table.POOL_PREFIX)
        for item in [*self._calls.query(items)]:
            self._calls.delete(key_of(item))

    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        """Return the readable changes, the latest first."""
        records = expressions.partition_from(table.CONFIG, table.CHANGE_PREFIX)
        latest_first = self._calls.query(
            {**records, "ScanIndexForward": False}, at_once=min(limit, _CHANGES_A_PAGE)
        )
        read = self._change_of if sharing else self._recorded
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
        found = next((found for found in map(self._document_of, self._latest()) if found), None)
        if found is None or _document(item) != lost:
            return False
        before = self._read(Sieve(), lost=True)
        own = before.pools or None
        configuration = replace(before, sharing=found.sharing, pools=own or found.pools or ())
        document = name_of(found.sharing, None if own else configuration.pools)
        self._documents.write(found.sharing, None if own else configuration.pools)
        self._calls.transact(
            [
                *self._record(
                    configuration,
                    configuration,
                    "slotq doctor --fix",
                    now,
                    documents=(document, document),
                    in_document=(own is None, own is None),
                )
            ]
        )
        self._kept = None
        return True

    def _latest(self) -> Iterator[Item]:
        """Yield the records of changes, the latest first."""
        records = expressions.partition_from(table.CONFIG, table.CHANGE_PREFIX)
        return self._calls.query({**records, "ScanIndexForward": False}, at_once=_CHANGES_A_PAGE)

    def _document_of(self, record: Item) -> Document | None:
        """Return what a document kept after a recorded change, with the pools; None if there was
        none, or it cannot be read."""
        try:
            name = record.get("sharingAfter", {}).get("S", "")
            found = self._documents.read_again(name)
            pools = self._pools_in(record, "after", name)
        except (*UNREADABLE, ConfigurationLost):
            return None
        return replace(found, pools=pools) if name else None

    def _definitions(self, before: Sequence[Pool], after: Sequence[Pool]) -> Iterator[Action]:
        """Yield the changes of the pools' items."""
        old = {pool.name: (position, pool) for position, pool in enumerate(before)}
        for position, pool in enumerate(after):
            if old.pop(pool.name, None) != (position, pool):
                definition = {**write(pool), "position": {"N": str(position)}}
                yield put(self._calls.table, table.pool_key(pool.name), definition)
        for name in old:
            yield delete(self._calls.table, table.pool_key(name))

    def _record(
        self,
        before: Configuration,
        after: Configuration,
        who: str,
        now: int,
        *,
        documents: tuple[str, str],
        in_document: tuple[bool, bool],
        mark: str = "",
    ) -> Iterator[Action]:
        """Yield the actions that raise the revision and record the change, its author and time.
        `documents`: before and after; `in_document`: whether they have the pools."""
        name, revision = self._calls.table, before.revision
        raised = expressions.next_revision(revision, _digest(after), documents[1], mark)
        yield update(name, table.revision_key(), raised)
        record: Item = {
            "who": {"S": who},
            "at": {"S": iso(now)},
            "limitsBefore": {"S": _json(before.limits)},
            "limitsAfter": {"S": _json(after.limits)},
            "sharingBefore": {"S": documents[0]},
            "sharingAfter": {"S": documents[1]},
        }
        sides = zip(_DOCUMENTS, in_document, (before.pools, after.pools), strict=True)
        for side, inside, pools in sides:
            if not inside:
                record[side] = {"L": [{"M": write(pool)} for pool in pools]}
        yield put(name, table.change_key(now, revision + 1), record)

    def _change_of(self, record: Item) -> ConfigurationChange:
        return replace(self._recorded(record), sharing=self._sharing_of(record))

    def _sharing_of(self, record: Item) -> tuple[Sharing, Sharing] | None:
        """Return the departments and projects before and after a change; None: unchanged, or the
        record is older than projects."""
        before, after = (record.get(key, {}).get("S", "") for key in _DOCUMENTS.values())
        if before == after:
            return None
        found = self._known(before).sharing, self._known(after).sharing
        return None if found[0] == found[1] else found

    def _known(self, document: str) -> Document:
        """Return the document that a record names. Raises ValueError."""
        try:
            return self._documents.read(document)
        except ConfigurationLost as error:
            raise ValueError(str(error)) from None

    def _pools_in(self, record: Item, side: str, document: str) -> tuple[Pool, ...]:
        """Return the pools before or after a recorded change. Raises one of UNREADABLE."""
        if side in record:
            return tuple(pool_of(pool["M"]) for pool in record[side]["L"])
        return self._known(document).pools or ()

    def _recorded(self, record: Item) -> ConfigurationChange:
        """Return a recorded change without departments and projects."""
        before, after = (
            self._pools_in(record, side, record.get(key, {}).get("S", ""))
            for side, key in _DOCUMENTS.items()
        )
        return ConfigurationChange(
            revision=int(record["sk"]["S"].rpartition("#")[2]),
            who=record["who"]["S"],
            at=from_iso(record["at"]["S"]),
            before=before,
            after=after,
            limits_before=_limits(record.get("limitsBefore")),
            limits_after=_limits(record.get("limitsAfter")),
        )


def _label(revision: Item) -> Item:
    """Return what identifies the configuration: the REVISION item without the queue's use, the
    projects' spending and past use, the passes' counters and the mark of a change that is still to
    come."""
    aside = {*USE, _GROUP_DECISIONS, _IN_PARTS, CHANGING}
    return {
        name: value
        for name, value in revision.items()
        if name not in aside and name not in past_use.ATTRIBUTES and not is_spending(name)
    }


def _of_passes(revision: Item) -> Item:
    """Return what passes write to the REVISION item."""
    return {name: revision[name] for name in (_GROUP_DECISIONS, _IN_PARTS) if name in revision}


def _document(revision: Item) -> str:
    """Return the name of the document; empty: none exists."""
    return str(revision.get("sharing", {}).get("S", ""))


def _revision_of(item: Item) -> int:
    return counted(item["revision"])


def _group_decisions_of(item: Item) -> int:
    return counted(item[_GROUP_DECISIONS]) if _GROUP_DECISIONS in item else 0


_COUNTS = ("revision", _GROUP_DECISIONS, "spentVersion", "pastUseVersion")
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
