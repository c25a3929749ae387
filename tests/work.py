"""How much work a call does, counted: the same number in each run and on every machine.

Counted are functions called, Python's own included; lines run; and characters: what a text from
outside hands out or is searched for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, SupportsIndex

from benchmarks.measure import counted_calls

__all__ = ["Watched", "counted_calls", "counted_lines", "watched"]


def counted_lines(run: Callable[[], object]) -> int:
    """How many lines of Python this runs."""
    lines = 0

    def trace(_frame: object, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines


class Watched(str):
    """A text that counts the characters that it hands out or is searched for. What it hands out is
    watched as well."""

    __slots__ = ()
    characters = 0
    """Of all such texts, since somebody set it to 0."""

    def __getitem__(self, place: SupportsIndex | slice) -> Watched:
        found = Watched(super().__getitem__(place))
        Watched.characters += len(found)
        return found

    def __contains__(self, part: object) -> bool:
        return self._whole(str.__contains__, part)

    def find(self, *asked: Any) -> int:
        found = super().find(*asked)
        start = asked[1] if len(asked) > 1 else 0
        Watched.characters += (found if found >= 0 else len(self)) - start
        return found

    def replace(self, *asked: Any) -> Watched:
        return Watched(self._whole(str.replace, *asked))

    def strip(self, *asked: Any) -> Watched:
        return Watched(self._whole(str.strip, *asked))

    def lower(self) -> Watched:
        return Watched(self._whole(str.lower))

    def encode(self, *asked: Any) -> bytes:
        return self._whole(str.encode, *asked)

    def count(self, *asked: Any) -> int:
        return self._whole(str.count, *asked)

    def split(self, *asked: Any, **named: Any) -> list[str]:
        return [Watched(part) for part in self._whole(str.split, *asked, **named)]

    def partition(self, separator: str) -> tuple[str, str, str]:
        head, between, tail = self._whole(str.partition, separator)
        return Watched(head), between, Watched(tail)

    def isalnum(self) -> bool:
        return self._whole(str.isalnum)

    def _whole(self, method: Callable[..., Any], *asked: Any, **named: Any) -> Any:
        Watched.characters += len(self)
        return method(self, *asked, **named)


def watched(value: Any) -> Any:
    """The value with its texts watched."""
    match value:
        case str():
            return Watched(value)
        case dict():
            return {key: watched(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(watched(each) for each in value)
    return value
