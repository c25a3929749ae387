"""Counts calls to DynamoDB, their units, and rounds: how many calls come one after the other.

Calls in flight at the same moment are one round. With a latency for each call, the time that a
handler waits for the table is `rounds` times that latency.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Touched = list[tuple[tuple[str, str], float]]
"""Keys of items (or a partition, with an empty sort key), each with the units that it costs."""

LATENCY = 0.004
"""The latency (s) of one call, for figures in seconds. DynamoDB answers small reads in one to a few
milliseconds and transactions in several."""

SPREAD = 0.025
"""How long (s) a call stays in flight where several threads work: longer than it takes all threads
of a pool to begin theirs."""


_BEFORE = threading.active_count()
"""The threads that are not the handler's."""


@dataclass
class Call:
    """One call. `began` and `ended` come from a monotonic clock (s)."""

    operation: str
    began: float
    ended: float = 0.0
    read: Touched = field(default_factory=list)
    written: Touched = field(default_factory=list)
    refused: str = ""
    """The error's code, if the call was refused."""

    @property
    def read_units(self) -> float:
        return sum(units for _, units in self.read)

    @property
    def write_units(self) -> float:
        return sum(units for _, units in self.written)


class Meter:
    """The calls of one engine, in the order of their ends. Threads may call at once."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._lock = threading.Lock()
        self._counting = 0

    @contextmanager
    def call(self, operation: str) -> Iterator[Call]:
        call = Call(operation, began=time.monotonic())
        try:
            yield call
        finally:
            if self._counting and threading.active_count() > _BEFORE:
                time.sleep(SPREAD)
            call.ended = time.monotonic()
            with self._lock:
                self.calls.append(call)

    @contextmanager
    def counting(self, *, rounds: bool = True) -> Iterator[Usage]:
        """Yield what is used during the context, complete at its end. Without `rounds`, calls of
        several threads take no time, and their rounds mean nothing."""
        before, usage = len(self.calls), Usage()
        self._counting += rounds
        try:
            yield usage
        finally:
            self._counting -= rounds
        usage.calls = self.calls[before:]


@dataclass
class Usage:
    """What some calls use."""

    calls: list[Call] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """The longest chain of calls of which each began after the one before had ended."""
        rounds, end = 0, 0.0
        for call in sorted(self.calls, key=lambda each: each.ended):
            if call.began >= end:
                rounds, end = rounds + 1, call.ended
        return rounds

    @property
    def read_units(self) -> float:
        return sum(call.read_units for call in self.calls)

    @property
    def write_units(self) -> float:
        return sum(call.write_units for call in self.calls)

    @property
    def operations(self) -> Counter[str]:
        return Counter(call.operation for call in self.calls)

    def figures(self) -> dict[str, float]:
        """As kept in results.json."""
        return {
            "calls": len(self.calls),
            "rounds": self.rounds,
            "seconds": round(self.rounds * LATENCY, 3),
            "read_units": self.read_units,
            "write_units": self.write_units,
        }
