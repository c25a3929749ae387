"""Schedule passes: the wake's generation and lease, and the turns of periodic tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import counted
from slotq_core.adapters.dynamodb.layout.records import Value
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.errors import Conflict, Malformed, SlotQError
from slotq_core.ports.surroundings import QueueVersion
from slotq_core.timestamps import FAR_OFF


class DynamoScheduler:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def bump(self) -> int | None:
        """Raise the generation, and return when the current lease ends (ms).

        The update itself returns the lease, so both belong to one moment: a holder seen here has
        not ended its lease yet, and ending it depends on the generation. If the holder has died,
        the next tick runs the pass after the end of the lease.
        """
        with self._announcing():
            try:
                wake = self._calls.updated(table.wake_key(), expressions.raise_generation())
            except Malformed:
                wake = self._calls.updated(table.wake_key(), expressions.new_generation())
        with suppress(*UNREADABLE):
            return int(wake["until"]["N"]) if "holder" in wake else None
        return None

    def _bump_and_take_lease(self, holder: str, now: int, until: int) -> int | None:
        """Raise the generation, and take the lease by the same call if it is free.

        A held lease may have run out, or be this holder's own. No update can depend on that and
        raise the generation in any case, so a second call takes such a lease.
        """
        with self._announcing():
            try:
                wake = self._calls.updated(
                    table.wake_key(), expressions.bump_and_take_lease(holder, until)
                )
            except Malformed:
                self._calls.update(table.wake_key(), expressions.new_generation())
                return self.take_lease(holder, now=now, until=until)
        taken = wake["holder"] == {"S": holder} and wake["until"] == {"N": str(until)}
        if taken and (generation := _counted(wake["generation"])) is not None:
            return generation
        return self.take_lease(holder, now=now, until=until)

    def take_lease(
        self, holder: str, *, now: int, until: int, only_news: bool = False, bump: bool = False
    ) -> int | None:
        if bump:
            return self._bump_and_take_lease(holder, now, until)
        never = until + FAR_OFF
        expression = expressions.take_lease(
            holder, now=now, until=until, never=never, only_news=only_news
        )
        try:
            wake = self._calls.updated(table.wake_key(), expression)
        except Conflict:
            return None
        if "generation" not in wake:
            return 0
        if (generation := _counted(wake["generation"])) is not None:
            return generation
        self._calls.update(table.wake_key(), expressions.new_generation())
        # A repaired generation counts as news. This handler already holds the lease.
        return self.take_lease(holder, now=now, until=until)

    def end_lease(self, holder: str, *, generation: int | None) -> bool:
        ended = expressions.end_lease(holder, generation)
        with self._announcing() as changed:
            if not changed:
                return self._holds(table.wake_key(), ended)
            try:
                held = self._holds(table.wake_key(), expressions.also_moves(ended))
            except Malformed:
                self._calls.update(table.wake_key(), expressions.new_moves())
                return self._holds(table.wake_key(), ended)
            if not held:
                self._calls.unannounced.note()
            return held

    def announce(self) -> None:
        with self._announcing() as changed:
            if changed:
                try:
                    self._calls.update(table.wake_key(), expressions.move())
                except Malformed:
                    self._calls.update(table.wake_key(), expressions.new_moves())

    def version(self) -> QueueVersion:
        wake = self._calls.item(table.wake_key()) or {}
        moved = {name: wake.get(name) for name in ("generation", "moves")}
        until = 0
        with suppress(*UNREADABLE):
            until = int(wake["until"]["N"]) if "holder" in wake else 0
        return QueueVersion(text=json.dumps(moved, sort_keys=True, default=str), busy_until=until)

    @contextmanager
    def _announcing(self) -> Iterator[bool]:
        """Yield whether there are changes to announce. They stay unannounced if the call fails."""
        changed = self._calls.unannounced.take()
        try:
            yield changed
        except SlotQError:
            if changed:
                self._calls.unannounced.note()
            raise

    def take_turn(self, task: str, *, now: int, next_at: int) -> bool:
        expression = expressions.take_turn(now=now, next_at=next_at, never=next_at + FAR_OFF)
        return self._holds(table.task_key(task), expression)

    def next_turn(self, task: str) -> int | None:
        item = self._calls.item(table.task_key(task)) or {}
        with suppress(*UNREADABLE):
            return int(item["nextAt"]["N"])
        return None

    def postpone(self, task: str, *, next_at: int) -> None:
        self._calls.update(table.task_key(task), expressions.set_turn(next_at))

    def _holds(self, key: table.Key, expression: expressions.Expression) -> bool:
        """Make the update if its condition holds. Returns whether it did."""
        try:
            self._calls.update(key, expression)
        except Conflict:
            return False
        return True


def _counted(generation: Value) -> int | None:
    """Return the generation; None if bumps cannot have produced the value. A pass could never
    finish such a generation, and passes would repeat endlessly."""
    with suppress(*UNREADABLE):
        return counted(generation)
    return None
