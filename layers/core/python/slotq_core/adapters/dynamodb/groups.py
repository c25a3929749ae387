"""The groups that users have submitted (`ports.Groups`).

A record never changes, so what was read once is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import opening_of, stored_group_of, write_group
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.adapters.dynamodb.transactions import check, put, update
from slotq_core.errors import NotUnderstood
from slotq_core.model.groups import Group, Opening, StoredGroup


class DynamoGroups:
    def __init__(self, calls: TableCalls, in_parallel: InParallel) -> None:
        self._calls, self._in_parallel = calls, in_parallel
        self._known: dict[str, Group] = {}
        """The groups of the last load."""

    def get(self, name: str) -> StoredGroup | None:
        """Return the record. Raises NotUnderstood."""
        item = self._calls.item(table.group_key(name))
        try:
            return stored_group_of(item) if item else None
        except UNREADABLE:
            raise NotUnderstood(f"the record of group {name} cannot be read") from None

    def open(self, name: str, *, digest: str, now: int) -> None:
        self._calls.update(table.opening_key(name), expressions.open_group(name, digest, now))

    def keep(self, stored: StoredGroup) -> None:
        key, opening = (of(stored.group.name) for of in (table.group_key, table.opening_key))
        self._calls.transact(
            [
                put(self._calls.table, key, write_group(stored), expressions.is_new()),
                check(self._calls.table, opening, expressions.is_open(stored.digest)),
            ]
        )

    def openings(self) -> list[Opening]:
        """Return the openings. One that cannot be read is left to people."""
        return Sieve().read(self._calls.query(expressions.partition(table.OPENING)), opening_of)

    def withdraw(self, opening: Opening) -> None:
        key, opened = table.group_key(opening.name), table.opening_key(opening.name)
        self._calls.transact(
            [
                check(self._calls.table, key, expressions.is_new()),
                update(self._calls.table, opened, expressions.withdraw_group(opening.at)),
            ]
        )

    def close(self, name: str) -> None:
        self._calls.delete(table.opening_key(name))

    def of(self, names: Iterable[str]) -> Mapping[str, Group]:
        """Return these groups by name, as far as they exist. Reads only records that the last load
        did not ask for: a group with nothing to start costs nothing."""
        wanted = sorted(set(names) - {""})
        new = [name for name in wanted if name not in self._known]
        read = [group for group in self._in_parallel(self._read, new) if group]
        known = self._known | {group.name: group for group in read}
        self._known = {name: known[name] for name in wanted if name in known}
        return self._known

    def _read(self, name: str) -> Group | None:
        """Return the group. Of one whose rules cannot be read nothing may start."""
        try:
            stored = self.get(name)
        except NotUnderstood:
            return Group(name=name, members=(), max_parallel=0)
        return stored.group if stored else None
