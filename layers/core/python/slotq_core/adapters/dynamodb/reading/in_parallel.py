"""Run independent reads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from slotq_core.ports.surroundings import IN_FLIGHT, InParallel, one_by_one

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["IN_FLIGHT", "InParallel", "Threads", "one_by_one"]

A = TypeVar("A")
R = TypeVar("R")


class Threads:
    """Reads in threads, which are started when first needed and then kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def __call__(self, read: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        if len(asked) < 2:
            return one_by_one(read, asked)
        return list(self._started().map(read, asked))

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                # A cold start that reads nothing in parallel does not pay for this import.
                from concurrent.futures import ThreadPoolExecutor

                self._executor = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="slotq-read")
            return self._executor
