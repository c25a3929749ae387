"""Crash points, exhaustively: what becomes of the queue when a handler dies at any of its calls.

Each scenario is run once to the end, and every call to AWS of every invocation is counted. Then it
is run again for each call, which goes wrong in each of these ways:

    killed before   the handler is gone before the call
    killed after    the call has taken effect, and the handler is gone
    no answer       the call has taken effect, but the handler is told of a timeout, and goes on
    throttled       the call is refused, and the handler goes on

and the rest is left to the queue, three times:

    told     everything else happens: Lambda tries again, users ask again, events arrive
    silent   no event arrives any more, nothing is tried again: ticks and time only
    noisy    each event comes twice, seconds and minutes late, so in another order
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from tests.faults.clients import SOON
from tests.faults.gate import Call, Gate, Killed
from tests.faults.promises import CONVERGENT, STABLE
from tests.faults.scenarios import Scenario, Step
from tests.faults.world import TICK, World

BEFORE, AFTER = "killed before", "killed after"
NO_ANSWER, THROTTLED = "no answer", "throttled"
TOLD, SILENT, NOISY = "told", "silent", "noisy"
MODES = (TOLD, SILENT, NOISY)
LEFTOVER = 5 * TICK
"""After one crash, no intent may stay unfinished for longer than this (ms)."""
READS = frozenset(
    {
        "batch_get_item",
        "get_item",
        "get_object",
        "query",
        "scan",
        "describe_processing_job",
        "describe_training_job",
        "list_processing_jobs",
        "list_training_jobs",
        "list_tags",
        "send_task_heartbeat",
    }
)


@dataclass(frozen=True)
class Crash:
    """The kind of fault and the number of its call in the run."""

    call: int
    kind: str = BEFORE
    mode: str = TOLD
    again: int | None = None
    """The same fault happens again this many calls later."""

    def __str__(self) -> str:
        more = f", and again {self.again} calls later" if self.again else ""
        return f"{self.kind} call {self.call} ({self.mode}){more}"


class Counter(Gate):
    """Counts the calls of a run and records them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def through(self, call: Call) -> Any:
        self.calls.append(call)
        return call.do()


class Breaker(Gate):
    """Makes one call go wrong, or two."""

    def __init__(self, crash: Crash) -> None:
        self.count = 0
        self.done = False
        self.struck: set[str] = set()
        """The labels of the interrupted invocations."""
        self.strikes_at(crash)

    def strikes_at(self, crash: Crash) -> None:
        """Decide what goes wrong."""
        self.crash = crash
        self._next = crash.call

    def through(self, call: Call) -> Any:
        number, self.count = self.count, self.count + 1
        if number != self._next:
            return call.do()
        first, self.done = not self.done, True
        self.struck.add(call.invocation.label)
        self._next = self.crash.call + self.crash.again if first and self.crash.again else -1
        return strike(self.crash.kind, call)


def strike(kind: str, call: Call) -> Any:
    """Make the call go wrong in this way. Always raises."""
    if kind in {AFTER, NO_ANSWER}:
        with suppress(Exception):  # The answer is lost.
            call.do()
    if kind in {BEFORE, AFTER}:
        raise Killed
    if kind == NO_ANSWER:
        raise ReadTimeoutError(endpoint_url=call.service)
    said = {
        "Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    raise ClientError(said, call.operation)


def count_calls(scenario: Scenario) -> tuple[list[Call], World]:
    """Run without any fault and count the calls."""
    gate = Counter()
    world = scenario.world(gate)
    world.go_until_over()
    finish(world, scenario)
    return gate.calls, world


def crash_points(calls: Sequence[Call]) -> Iterator[Crash]:
    """Every call in every way; each moment once.

    Between two calls of a handler the clock stands still, and a read changes nothing: so a handler
    that dies before a call leaves what one leaves that dies after the last write before it. Of such
    moments one is tried.
    """
    for number, call in enumerate(calls):
        before = calls[number - 1] if number else None
        after = calls[number + 1] if number + 1 < len(calls) else None
        begins = before is None or before.invocation is not call.invocation
        ends = after is None or after.invocation is not call.invocation
        writes = call.operation not in READS
        for mode in MODES:
            if begins or (before and before.operation not in READS):
                yield Crash(number, BEFORE, mode)
            if writes and ends:
                yield Crash(number, AFTER, mode)
        yield Crash(number, THROTTLED)
        if writes:
            yield Crash(number, THROTTLED, SILENT)
            yield Crash(number, NO_ANSWER)
            yield Crash(number, NO_ANSWER, SILENT)


def points_covered(calls: Sequence[Call]) -> int:
    """Before and after each call, in each mode: the points that `crash_points` stands for."""
    return len(calls) * 2 * len(MODES)


def double_crashes(calls: Sequence[Call], count: int, rng: random.Random) -> Iterator[Crash]:
    """Random pairs of faults of one kind in one run: the recovery goes wrong too."""
    kinds = (BEFORE, AFTER, NO_ANSWER, THROTTLED)
    for _ in range(count):
        number = rng.randrange(len(calls))
        yield Crash(number, rng.choice(kinds), rng.choice(MODES), again=rng.randrange(1, 60))


def run(scenario: Scenario, crash: Crash) -> World:
    """Run one crash and its recovery, and check the result."""
    return run_behind(scenario, Breaker(crash))


def run_behind(scenario: Scenario, gate: Breaker) -> World:
    """Run what this gate makes go wrong, which may be decided on the way."""

    def arrives(_: Mapping[str, Any]) -> list[int]:
        if gate.crash.mode == SILENT and gate.done:
            return []
        return [20_000, 130_000] if gate.crash.mode == NOISY and gate.done else [SOON]

    world = scenario.world(gate, events=arrives)
    while not gate.done and not world.over and not world.watch.broken:
        world.step()
    crash = gate.crash
    silent = gate.done and crash.mode == SILENT
    if silent:
        world.forget_retries()
    until = world.clock.now() + 3 * 3_600_000
    while not world.watch.broken and not world.over and world.clock.now() < until:
        world.step()
        if crash.again is None:
            world.watch.look_for_leftovers(LEFTOVER)
    unanswered = [step for step in scenario.steps if silent and step.label in gate.struck]
    finish(world, scenario, unanswered=unanswered)
    return world


def finish(world: World, scenario: Scenario, *, unanswered: Sequence[Step] = ()) -> None:
    """Finish the run as it should end; after that nothing may happen."""
    if not world.watch.broken:
        world.watch.look_at_end(scenario.allowed(world, unanswered=unanswered))
    if not world.watch.broken and (wrong := scenario.then(world)):
        world.watch.note(CONVERGENT, wrong)
    finish_quietly(world)


def finish_quietly(world: World) -> None:
    """A pass over a settled world decides nothing and makes no call."""
    if not world.watch.broken:
        decisions, creates = world.watch.decisions, _creates(world)
        for _ in range(2):
            world.bump()
            world.run_pass()
        if (decisions, creates) != (world.watch.decisions, _creates(world)):
            world.watch.note(STABLE, "a pass over a settled world has written something")


def _creates(world: World) -> int:
    return sum(calls for name, calls in world.plane.calls.items() if name.startswith("Create"))


def shortest(scenario: Scenario, crash: Crash) -> tuple[Scenario, Crash, World]:
    """Drop steps of the story while some crash of that kind still breaks it."""
    found = scenario, crash, run(scenario, crash)
    dropped = True
    while dropped:
        dropped = False
        for index in range(len(found[0].steps)):
            shorter = found[0].without(index)
            if shorter.steps and (broken := _first_broken(shorter, crash)):
                found, dropped = (shorter, *broken), True
                break
    return found


def _first_broken(scenario: Scenario, like: Crash) -> tuple[Crash, World] | None:
    calls, counted = count_calls(scenario)
    if counted.watch.broken:
        return like, counted
    for number in range(len(calls)):
        crash = replace(like, call=number)
        world = run(scenario, crash)
        if world.watch.broken:
            return crash, world
    return None
