"""The groups that users have submitted (`ports.jobs.Groups`).

The part of a record that passes read never changes, and an ended job never leaves its state, so
both are cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import opening_of, stored_group_of
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve, whole_job
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.adapters.dynamodb.transactions import check, group_actions, update
from slotq_core.errors import NotUnderstood
from slotq_core.model.groups import Group, Opening, StoredGroup
from slotq_core.model.jobs import JobState
from slotq_core.storage.ends import end_of


class DynamoGroups:
    def __init__(self, calls: TableCalls, in_parallel: InParallel, *, history: int) -> None:
        """Set up the groups. `history`: how long ended jobs stay readable (ms)."""
        self._calls, self._in_parallel, self._history = calls, in_parallel, history
        self._known: dict[str, StoredGroup] = {}
        """The groups of the last load."""
        self._ended: dict[str, dict[str, JobState]] = {}
        """The ends of the gangs' members, as far as they have been read."""

    def get(self, name: str) -> StoredGroup | None:
        """Return the record. Raises NotUnderstood."""
        item = self._calls.item(table.group_key(name))
        try:
            return stored_group_of(item) if item else None
        except UNREADABLE:
            raise NotUnderstood(f"the record of group {name} cannot be read") from None

    def open(self, name: str, *, digest: str, now: int, members: Sequence[str] = ()) -> bool:
        begin = expressions.open_group(name, digest, now, members)
        return self._calls.replaced(table.opening_key(name), begin) is not None

    def keep(self, stored: StoredGroup) -> None:
        self._calls.transact(group_actions(self._calls.table, stored, is_open=True))

    def openings(self) -> list[Opening]:
        """Return the openings. An unreadable one is left to an operator."""
        return Sieve().read(self._calls.query(expressions.partition(table.OPENING)), opening_of)

    def withdraw(self, opening: Opening) -> None:
        key, opened = table.group_key(opening.name), table.opening_key(opening.name)
        self._calls.transact(
            [
                check(self._calls.table, key, expressions.is_new()),
                update(self._calls.table, opened, expressions.withdraw_group(opening.at)),
            ]
        )

    def meet(self, name: str, *, job: str) -> None:
        self._calls.update(table.group_key(name), expressions.meet_goal(job))

    def close(self, name: str) -> None:
        self._calls.delete(table.opening_key(name))

    def of(self, names: Iterable[str]) -> Mapping[str, Group]:
        """Return these groups by name, as far as they exist. Reads only records that the last load
        did not request: a continuing group costs nothing."""
        wanted = sorted(set(names) - {""})
        new = {table.group_key(name): name for name in wanted if name not in self._known}
        items = self._calls.items_at_once([*new], self._in_parallel)
        known = self._known | {new[key]: _of_passes(new[key], item) for key, item in items.items()}
        self._known = {name: known[name] for name in wanted if name in known}
        return {name: stored.group for name, stored in self._known.items()}

    def with_ended(
        self, groups: Iterable[Group], living: AbstractSet[str], now: int
    ) -> tuple[Group, ...]:
        """Return the groups of the last load, gangs with the ends of their members. `living`: jobs
        that the load has seen alive; `now`: its time (ms).

        Reads all other members together, and ended ones only once. So at each load a gang costs one
        read unit for each member that is held, backs off or has dependencies.
        """
        gangs = [group for group in groups if group.max_parallel is None]
        unknown = [
            (group.name, name)
            for group in gangs
            for name in group.members
            if name not in living and name not in self._ended.get(group.name, {})
        ]
        keys = [table.job_key(name) for _, name in unknown]
        items = self._calls.items_at_once(keys, self._in_parallel)
        for (group, name), key in zip(unknown, keys, strict=True):
            stored, job = self._known[group], whole_job(items.get(key))
            if (end := end_of(job, stored, now=now, history=self._history)) is not None:
                self._ended.setdefault(group, {})[name] = end
        self._ended = {name: ends for name, ends in self._ended.items() if name in self._known}
        return tuple(
            replace(group, ended=dict(self._ended.get(group.name, {}))) for group in groups
        )


def _of_passes(name: str, item: Item) -> StoredGroup:
    """Return the group without the parameters of a sweep: no pass needs them, and each waiting
    sweep would take up to 2 MB of the function's memory. If a group's rules are unreadable, nothing
    of it may start."""
    try:
        return replace(stored_group_of(item), sweep=None)
    except UNREADABLE:
        closed = Group(name=name, members=(), max_parallel=0)
        return StoredGroup(group=closed, submitter="", digest="")
