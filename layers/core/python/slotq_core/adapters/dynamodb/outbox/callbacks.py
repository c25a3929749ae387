"""Callbacks on DynamoDB (`ports.callbacks.Callbacks`)."""

from __future__ import annotations

from collections.abc import Iterator

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import callback_of
from slotq_core.adapters.dynamodb.layout.records import Item, write
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve
from slotq_core.adapters.dynamodb.transactions import put
from slotq_core.errors import Conflict, NotUnderstood, Unavailable
from slotq_core.model.jobs import Job
from slotq_core.model.notices import Callback
from slotq_core.ports.callbacks import TOGETHER, KeptCallback
from slotq_core.storage import callbacks

_TRIES = 10

_TURN = table.task_key("callbacks")


class DynamoCallbacks:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def attach(self, job: Job, callback: Callback) -> bool:
        new = callbacks.kept(job, callback)
        for _ in range(_TRIES):
            current = self._current(job.name)
            stored = callbacks.attached(current, new)
            if not stored:
                return False
            held = expressions.has_token(current.token_id) if current else expressions.is_new()
            first, *others = (table.callback_key(kept) for kept in stored)
            actions = [put(self._calls.table, first, write(stored[0]), held)]
            for key, kept in zip(others, stored[1:], strict=True):
                actions.append(put(self._calls.table, key, write(kept)))
            try:
                self._calls.transact(actions)
            except Conflict:
                continue
            return True
        raise Unavailable(f"others submit job {job.name} at the same time; try again")

    def _current(self, job: str) -> KeptCallback | None:
        item = self._calls.item((table.CALLBACKS, job))
        if item is None:
            return None
        try:
            return callback_of(item)
        except UNREADABLE:
            raise NotUnderstood(f"the callback of job {job} cannot be read") from None

    def some(self, *, limit: int) -> list[KeptCallback]:
        """Return them. The place of the last one is noted only where there are more of them, and
        what is noted is read only where a tick may have had no time for some."""
        items = [*self._calls.query(expressions.partition(table.CALLBACKS), limit=limit + 1)]
        if len(items) > min(limit, TOGETHER):
            behind = str((self._calls.item(_TURN) or {}).get("behind", {}).get("S", ""))
            if len(items) > limit:
                items = self._next(behind, limit)
            else:
                items.sort(key=lambda item: item["sk"]["S"] <= behind)
        return Sieve().read(items, callback_of)

    def _next(self, behind: str, limit: int) -> list[Item]:
        some = (
            expressions.partition_after(table.CALLBACKS, behind)
            if behind
            else expressions.partition(table.CALLBACKS)
        )
        items = [*self._calls.query(some, limit=limit)]
        self._note(items[-1]["sk"]["S"] if len(items) == limit else "")
        return items

    def go_on_behind(self, kept: KeptCallback) -> None:
        self._note(table.callback_key(kept)[1])

    def _note(self, behind: str) -> None:
        self._calls.put(_TURN, {"behind": {"S": behind}} if behind else {})

    def all(self) -> Iterator[KeptCallback]:
        items = self._calls.query(expressions.partition(table.CALLBACKS))
        return (kept for item in items for kept in Sieve().read([item], callback_of))

    def put_off(self, kept: KeptCallback, *, due: int, tries: int, trouble: str) -> bool:
        later = expressions.put_off(due=due, tries=tries, trouble=trouble)
        held = expressions.on_condition(later, expressions.has_token(kept.token_id))
        try:
            self._calls.update(table.callback_key(kept), held)
        except Conflict:
            return False
        return True

    def forget(self, kept: KeptCallback) -> None:
        try:
            self._calls.delete(table.callback_key(kept), expressions.has_token(kept.token_id))
        except Conflict:
            return
