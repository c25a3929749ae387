"""Crash points, exhaustively: the handler is killed before and after every call that it makes.

Each scenario is run once to the end, and every call to AWS of every invocation is counted. Then for
each call it is run again up to there, killed just before it or just after it has taken effect, and
left to events and ticks; three times:

    told     everything else happens: Lambda tries again, users ask again, events arrive
    silent   no event arrives any more, nothing is tried again: ticks and time only
    noisy    each event comes twice, seconds and minutes late, so in another order
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.faults.scenarios import Scenario, Step
from tests.faults.world import RETRIES, SOON, TICK, Call, Gate, Killed, World

MODES = ("told", "noisy")
LEFTOVER = 5 * TICK
"""Longer than this no intent may lie about, after one crash."""


@dataclass(frozen=True)
class Crash:
    """Where one handler dies: at the so-manieth call of the run."""

    call: int
    after: bool
    """The call has taken effect; its answer is lost."""
    mode: str = "told"
    again: int | None = None
    """So many calls later another handler dies."""

    def __str__(self) -> str:
        side = "after" if self.after else "before"
        more = f", and again {self.again} calls later" if self.again else ""
        return f"killed {side} call {self.call} ({self.mode}){more}"


class Counter(Gate):
    """Counts the calls of a run and writes them down."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def through(self, call: Call) -> Any:
        self.calls.append(call)
        return call.do()


class Killer(Gate):
    def __init__(self, crash: Crash) -> None:
        self.crash = crash
        self.count = 0
        self.died = False
        self._next = crash.call
        self.label = ""

    def through(self, call: Call) -> Any:
        number, self.count = self.count, self.count + 1
        if number != self._next:
            return call.do()
        self.label = self.label or call.invocation.label
        first, self.died = not self.died, True
        self._next = self.crash.call + self.crash.again if first and self.crash.again else -1
        if self.crash.after:
            try:
                call.do()
            except Exception:  # noqa: BLE001 - an answer that nobody hears
                pass
        raise Killed


def count_calls(scenario: Scenario) -> tuple[list[Call], World]:
    """The calls of a run without any fault."""
    gate = Counter()
    world = scenario.world(gate)
    world.go_until_over()
    finish(world, scenario, Crash(-1, False), unanswered=[])
    return gate.calls, world


def crash_points(calls: int) -> Iterator[Crash]:
    for mode in MODES:
        for number in range(calls):
            for after in (False, True):
                yield Crash(number, after, mode)


def double_crashes(calls: int, count: int, rng: random.Random) -> Iterator[Crash]:
    for _ in range(count):
        yield Crash(
            rng.randrange(calls),
            rng.random() < 0.5,
            rng.choice(MODES),
            again=rng.randrange(1, 60),
        )


def run(scenario: Scenario, crash: Crash) -> World:
    """One crash, its recovery, and the look at what has become of everything."""
    gate = Killer(crash)
    silent = crash.mode == "silent"

    def arrives(_: Mapping[str, Any]) -> list[int]:
        if silent and gate.died:
            return []
        return [20_000, 130_000] if crash.mode == "noisy" and gate.died else [SOON]

    world = scenario.world(gate, events=arrives, retries=RETRIES)
    while not gate.died and not world.over and not world.watch.broken:
        world.step()
    unanswered: list[Step] = []
    if silent:
        world.forget_retries()
        unanswered = [step for step in scenario.steps if step.label == gate.label]
    began = world.clock.now()
    while not world.watch.broken and not world.over and world.clock.now() < began + 3 * 3_600_000:
        world.step()
        if crash.again is None:
            world.watch.look_for_leftovers(LEFTOVER)
    finish(world, scenario, crash, unanswered=unanswered)
    return world


def finish(world: World, scenario: Scenario, crash: Crash, *, unanswered: list[Step]) -> None:
    """The end as it should be; and from there on nothing happens any more."""
    if not world.watch.broken:
        world.watch.look_at_end(scenario.allowed(world, unanswered=unanswered))
    if not world.watch.broken:
        decisions, creates = world.watch.decisions, world.plane.calls["CreateTrainingJob"]
        world.run_pass()
        world.run_pass()
        if (decisions, creates) != (world.watch.decisions, world.plane.calls["CreateTrainingJob"]):
            world.watch.note("9 stable", "a pass over a settled world has written something")


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
    calls, _ = count_calls(scenario)
    for number in range(len(calls)):
        crash = replace(like, call=number)
        world = run(scenario, crash)
        if world.watch.broken:
            return crash, world
    return None
