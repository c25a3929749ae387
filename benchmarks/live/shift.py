"""The soak's processes: what they are to handle, who handles it, and who is killed."""

from __future__ import annotations

import heapq
import itertools
import multiprocessing
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.live.worker import SharedClock, work
from slotq.local.training.request_check import NoAnswer, PlaneError

SOON = 0.2
"""The most seconds from the begin of an event to the kill."""


@dataclass(frozen=True)
class Trigger:
    """One event for a handler."""

    kind: str
    """submission, cancel, event, pass or tick."""
    event: dict[str, Any]
    name: str = ""
    """The submitted job."""


class World(Protocol):
    """What surrounds the processes."""

    clock: SharedClock
    endpoint: str
    rng: random.Random

    @property
    def environment(self) -> dict[str, str]: ...
    def call(self, service: str, operation: str, request: Any) -> Any:
        """Answer a handler's call."""

    def answered(self, trigger: Trigger, outcome: str, answer: Any) -> None:
        """A handler is done, has failed or was killed (`outcome`)."""


@dataclass(order=True)
class _Due:
    at: float
    number: int
    trigger: Trigger = field(compare=False)


class Agenda:
    """Triggers by the time (s) from which they may be handled."""

    def __init__(self) -> None:
        self._heap: list[_Due] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    def add(self, trigger: Trigger, after: float) -> None:
        with self._changed:
            heapq.heappush(self._heap, _Due(time.time() + after, next(self._numbers), trigger))
            self._changed.notify()

    def take(self, patience: float) -> Trigger | None:
        """The next trigger that is due within so many seconds."""
        until = time.time() + patience
        with self._changed:
            while (now := time.time()) < until:
                due = self._heap[0].at if self._heap else until
                if due <= now:
                    return heapq.heappop(self._heap).trigger
                self._changed.wait(min(due, until) - now)
        return None


class Shift:
    """The processes at work. Each has a thread here, which hands it triggers and answers its
    calls."""

    def __init__(self, world: World, processes: int, kill_share: float) -> None:
        """`kill_share`: the share of triggers during which the process is killed."""
        self.kills = 0
        self._kill_share = kill_share
        self._since: dict[int, int] = {}
        """When each process at work began (ms)."""
        self._handled: dict[int, str] = {}
        """What each process handled last."""
        self._world, self._agenda = world, Agenda()
        self._closing = threading.Event()
        self._numbers = itertools.count()
        self._threads = [
            threading.Thread(target=self._run, args=(place,), daemon=True)
            for place in range(processes)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def add(self, trigger: Trigger, *, after: float = 0.0) -> None:
        self._agenda.add(trigger, after)

    def longest(self) -> int:
        """How long (ms) the slowest process has been handling its event."""
        now = self._world.clock.now()
        return max((now - since for since in [*self._since.values()]), default=0)

    def at_work(self) -> list[str]:
        """What each process is handling, and for how long of its time."""
        now = self._world.clock.now()
        return [
            f"process {place} handles a {self._handled[place]} for {now - since} ms"
            for place, since in [*self._since.items()]
        ]

    def drain(self) -> None:
        """Let each process end what it is doing, then end them all."""
        self._closing.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, place: int) -> None:
        while not self._closing.is_set():
            with suppress(EOFError, OSError):
                self._one_life(place)

    def _one_life(self, place: int) -> None:
        """From the start of a process to its death."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        world = self._world
        arguments = (there, world.endpoint, world.environment, world.clock)
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        there.close()
        try:
            here.recv()
            while not self._closing.is_set():
                if trigger := self._agenda.take(0.2):
                    if self._world.rng.random() < self._kill_share:
                        self._kill_soon(process)
                    self._handled[place] = trigger.kind
                    self._since[place] = world.clock.now()
                    self._handle(here, trigger)
                    del self._since[place]
        finally:
            self._since.pop(place, None)
            here.close()
            process.join(10)
            process.kill()

    def _kill_soon(self, process: Any) -> None:
        """Kill a process at whatever it does then."""
        self.kills += 1
        threading.Timer(self._world.rng.uniform(0, SOON), process.kill).start()

    def _handle(self, pipe: Any, trigger: Trigger) -> None:
        try:
            pipe.send((next(self._numbers), trigger.event))
            outcome, answer = self._answer_calls(pipe)
        except (EOFError, OSError):
            self._world.answered(trigger, "killed", None)
            raise
        self._world.answered(trigger, outcome, answer)

    def _answer_calls(self, pipe: Any) -> tuple[str, Any]:
        """Answer the handler's calls until it answers itself."""
        while True:
            kind, operation, content = pipe.recv()
            if kind == "answer":
                return operation, content
            pipe.send(self._answered(kind, operation, content))

    def _answered(self, service: str, operation: str, request: Any) -> tuple[str, Any]:
        try:
            return "answer", self._world.call(service, operation, request)
        except PlaneError as error:
            return "refused", (error.code, error.message)
        except NoAnswer:
            return "no answer", None
