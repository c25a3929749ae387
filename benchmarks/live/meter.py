"""Counts calls to DynamoDB, their units, and rounds: how many calls come one after the other.

Calls in flight at the same moment are one round. With a latency for each call, the time that a
handler waits for the table is `rounds` times that latency. Rounds are worked out, not timed: reads
that the store makes at once go through `Meter.at_once`, which makes them one after the other and
counts them as threads would make them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heapreplace
from typing import TypeVar

from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT

A = TypeVar("A")
R = TypeVar("R")

Touched = list[tuple[tuple[str, str], float]]
"""Keys of items (or a partition, with an empty sort key), each with the units that it costs."""

LATENCY = 0.004
"""The latency (s) of one call, for figures in seconds. DynamoDB answers small reads in one to a few
milliseconds and transactions in several."""


@dataclass
class Call:
    """One call."""

    operation: str
    read: Touched = field(default_factory=list)
    written: Touched = field(default_factory=list)
    refused: str = ""
    """The error's code, if the call was refused."""
    round: int = 0
    """How many calls, one after the other, lie before it."""

    @property
    def read_units(self) -> float:
        return sum(units for _, units in self.read)

    @property
    def write_units(self) -> float:
        return sum(units for _, units in self.written)


class Meter:
    """The calls of one engine, in the order of their ends. Threads may call at once; then rounds
    mean nothing."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._rounds = 0
        """How many calls, one after the other, lie before what is done now."""
        self._lock = threading.Lock()

    @contextmanager
    def call(self, operation: str) -> Iterator[Call]:
        call = Call(operation, round=self._rounds)
        try:
            yield call
        finally:
            with self._lock:
                self._rounds += 1
                self.calls.append(call)

    def at_once(self, read: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        """Do as the store's threads: each takes the next when it is free. All are done, then the
        first error in the order of the arguments is raised."""
        free_at = [self._rounds] * min(IN_FLIGHT, max(1, len(asked)))
        results: list[R] = []
        errors: list[Exception] = []
        for each in asked:
            self._rounds = free_at[0]
            try:
                results.append(read(each))
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
            heapreplace(free_at, self._rounds)
        self._rounds = max(free_at)
        if errors:
            raise errors[0]
        return results

    @contextmanager
    def counting(self) -> Iterator[Usage]:
        """Yield what is used during the context, complete at its end."""
        before, rounds, usage = len(self.calls), self._rounds, Usage()
        try:
            yield usage
        finally:
            usage.calls, usage.rounds = self.calls[before:], self._rounds - rounds


@dataclass
class Usage:
    """What some calls use."""

    calls: list[Call] = field(default_factory=list)
    rounds: int = 0
    """The longest chain of calls of which each began after the one before had ended."""

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
