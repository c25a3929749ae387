"""Many crashes of one scenario, for the price of their recoveries.

Until its crash, every run of a scenario is the same. So all crashes share one run, which branches
at each of them: a forked process goes wrong there, recovers and reports what is broken, while the
run itself goes on without a fault.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from traceback import format_exc
from typing import Any, NoReturn

from tests.faults import crashes, world
from tests.faults.crashes import Breaker, Crash
from tests.faults.fake_dynamodb import FakeDynamo
from tests.faults.gate import Call
from tests.faults.promises import Broken
from tests.faults.scenarios import Scenario


@dataclass(frozen=True)
class Noted:
    broken: list[Broken]


@dataclass(frozen=True)
class Branch:
    """What became of one crash."""

    crash: Crash
    watch: Noted
    calls: int


def tried(scenario: Scenario, points: Iterable[Crash]) -> Iterator[Branch]:
    """Try each crash, in the order of their calls. Raises RuntimeError if a branch itself fails."""
    left = sorted(points, key=lambda crash: crash.call)
    if world.make_dynamo is not FakeDynamo or not hasattr(os, "fork"):
        # No two processes can share a connection to a real engine.
        for crash in left:
            ran = crashes.run(scenario, crash)
            yield Branch(crash, Noted(ran.watch.broken), ran.calls)
        return
    while left:
        found = _until_broken(scenario, left)
        yield from found
        left = left[len(found) :]


def _until_broken(scenario: Scenario, points: Sequence[Crash]) -> list[Branch]:
    """The first of these crashes, up to one that breaks a promise: a hunter wants no more."""
    gate = _Fork(points)
    try:
        ran = crashes.run_behind(scenario, gate)
    except _Enough:
        return gate.found
    except Exception:
        if gate.report_to is None:
            raise
        _leave(gate.report_to, format_exc())
    if gate.report_to is not None:
        _leave(gate.report_to, (ran.watch.broken, ran.calls))
    # The run has not come to the other calls: it is what becomes of their crashes.
    rest = points[len(gate.found) :]
    return [*gate.found, *(Branch(crash, Noted(ran.watch.broken), ran.calls) for crash in rest)]


class _Enough(BaseException):
    """The shared run need not go on. Nothing in the queue catches this."""


class _Fork(Breaker):
    """Branches at the call of each crash; in a branch, makes the call go wrong."""

    def __init__(self, points: Sequence[Crash]) -> None:
        super().__init__(Crash(call=-1))
        self.found: list[Branch] = []
        self.report_to: int | None = None
        """In a branch, the file descriptor for its report."""
        self._points = points

    def through(self, call: Call) -> Any:
        while self.report_to is None and self._next_point.call == self.count:
            self._branch(self._next_point)
        return super().through(call)

    @property
    def _next_point(self) -> Crash:
        return self._points[len(self.found)]

    def _branch(self, crash: Crash) -> None:
        reads, writes = os.pipe()
        process = os.fork()
        if process == 0:
            gc.disable()  # It lives shortly, and a collection would copy all memory.
            os.close(reads)
            self.strikes_at(crash)
            self.report_to = writes
            return
        os.close(writes)
        with os.fdopen(reads, "rb") as report:
            told = report.read()
        os.waitpid(process, 0)
        became = pickle.loads(told) if told else "the process is gone"
        if isinstance(became, str):
            raise RuntimeError(f"{crash}: {became}")
        broken, calls = became
        self.found.append(Branch(crash, Noted(broken), calls))
        if broken or len(self.found) == len(self._points):
            raise _Enough


def _leave(report_to: int, became: object) -> NoReturn:
    try:
        with os.fdopen(report_to, "wb") as report:
            pickle.dump(became, report)
    finally:
        os._exit(0)
