"""The undo log of a plan: all parts of its state record each change with its inverse.

A step takes a checkpoint, which costs nothing, and rolls back if it fails.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet
from operator import delitem, setitem
from typing import Any


class Journal:
    """The changes of one plan, in order, each with its inverse."""

    def __init__(self) -> None:
        self._undo: list[Any] = []
        """Functions and their arguments in turn. A tuple for each pair would give the garbage
        collector twice as much to look at."""

    def checkpoint(self) -> int:
        """The present state, for `rollback`: the number of changes so far."""
        return len(self._undo) // 2

    def rollback(self, checkpoint: int) -> None:
        """Take back every change since the checkpoint, the latest first."""
        undone = self._undo
        while len(undone) > 2 * checkpoint:
            arguments, undo = undone.pop(), undone.pop()
            undo(*arguments)

    def close(self) -> None:
        """Forget all changes, which are then final. The log and the state refer to each other:
        without this, only the garbage collector would free the memory of a plan."""
        self._undo.clear()

    def record(self, undo: Callable[..., object], *arguments: Any) -> None:
        """Record a change that `undo(*arguments)` takes back."""
        self._undo += (undo, arguments)

    def set(self, owner: object, attribute: str, value: object) -> None:
        self.record(setattr, owner, attribute, getattr(owner, attribute))
        setattr(owner, attribute, value)

    def put(self, mapping: MutableMapping[Any, Any], key: object, value: object) -> None:
        if key in mapping:
            self.record(setitem, mapping, key, mapping[key])
        else:
            self.record(delitem, mapping, key)
        mapping[key] = value

    def remove(self, mapping: MutableMapping[Any, Any], key: object) -> None:
        """Remove the key of a mapping whose order does not matter."""
        self.record(setitem, mapping, key, mapping.pop(key))

    def drop(self, mapping: MutableMapping[Any, Any], key: object) -> None:
        """Remove the key. A rollback restores its place in the order, too."""
        self.record(_refill, mapping, dict(mapping))
        del mapping[key]

    def append(self, items: MutableSequence[Any], item: object) -> None:
        self.record(items.pop)
        items.append(item)

    def add(self, items: MutableSet[Any], item: object) -> None:
        if item not in items:
            self.record(items.discard, item)
            items.add(item)


def _refill(mapping: MutableMapping[Any, Any], before: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(before)
