"""Callbacks on DynamoDB (`ports.callbacks.Callbacks`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

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
from slotq_core.storage import callback_turns, callbacks

_TRIES = 10

_TURN = table.task_key("callbacks")


class DynamoCallbacks:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def attach(self, job: Job, callback: Callback) -> bool:
        new = callbacks.kept(job, callback)
        for _ in range(_TRIES):
            current = self._current(new)
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

    def _current(self, new: KeptCallback) -> KeptCallback | None:
        item = self._calls.item(table.callback_key(new))
        if item is None:
            return None
        try:
            return callback_of(item)
        except UNREADABLE:
            raise NotUnderstood(f"the callback of job {new.job} cannot be read") from None

    def some(self, *, limit: int) -> tuple[list[KeptCallback], bool]:
        """Return them. Where one Query finds all, no more is read, except what is noted if a tick
        may have had no time for some."""
        found = self._read(expressions.partition(table.CALLBACKS), limit + 1)
        if len(found) <= min(limit, TOGETHER):
            return Sieve().read(found.values(), callback_of), False
        page = callback_turns.pages([*found])
        if len(found) > limit:

            def page(above: str, number: int) -> list[str]:
                some = self._read(expressions.partition_after(table.CALLBACKS, above), number)
                found.update(some)
                return [*some]

        turn = callback_turns.turn(page, self._noted(), limit=limit)
        items = [found[place] for place in turn.places]
        return Sieve().read(items, callback_of), turn.more

    def _read(self, expression: expressions.Expression, limit: int) -> dict[str, Item]:
        return {item["sk"]["S"]: item for item in self._calls.query(expression, limit=limit)}

    def go_on_behind(self, looked_at: Sequence[KeptCallback]) -> None:
        behind = callback_turns.noted(self._noted(), looked_at)
        self._calls.put(_TURN, {"behind": {"S": json.dumps(behind)}})

    def _noted(self) -> dict[str, str]:
        """Return what the last tick has noted. If nobody can read it, all turns begin anew."""
        noted = str((self._calls.item(_TURN) or {}).get("behind", {}).get("S", "{}"))
        with suppress(ValueError, AttributeError):
            return {ring: str(place) for ring, place in json.loads(noted).items()}
        return {}

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
