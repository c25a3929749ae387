"""Handlers that write the orders of one node at once, in any order of their calls: the last orders
contain what each of them has committed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.model.jobs import JobState
from tests.unit.nodes.queue_of_nodes import QueueOfNodes

PATIENCE = 60.0


class Turns:
    """Lets one of several threads make its next call at a time, by chance."""

    def __init__(self, queue: QueueOfNodes, chance: random.Random) -> None:
        self._chance = chance
        self._moved = threading.Condition()
        self._own = threading.local()
        self._waiting: set[int] = set()
        self._alive: set[int] = set()
        self._turn: int | None = None
        self._errors: list[BaseException] = []
        for owner, words in (
            (queue.documents, ("orders", "put_orders", "report", "write_report")),
            (queue.store.nodes, ("get", "jobs", "note_report")),
            (queue.store.jobs, ("several", "get")),
            (queue.store.decisions, ("commit",)),
        ):
            for word in words:
                setattr(owner, word, self._in_turn(getattr(owner, word)))

    def run(self, *tasks: Callable[[], None]) -> None:
        """Run the tasks to their ends. Raises what they raise."""
        self._alive = {*range(len(tasks))}
        threads = [
            threading.Thread(target=self._run, args=(number, task))
            for number, task in enumerate(tasks)
        ]
        for thread in threads:
            thread.start()
        with self._moved:
            while self._alive:
                assert self._moved.wait_for(self._is_due, PATIENCE)
                if self._waiting:
                    self._turn = self._chance.choice(sorted(self._waiting))
                    self._moved.notify_all()
        for thread in threads:
            thread.join(PATIENCE)
        if self._errors:
            raise self._errors[0]

    def _is_due(self) -> bool:
        return self._turn is None and self._waiting == self._alive

    def _run(self, number: int, task: Callable[[], None]) -> None:
        self._own.number = number
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised in `run`
            self._errors.append(error)
        with self._moved:
            self._alive.discard(number)
            self._moved.notify_all()

    def _in_turn(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **more: Any) -> Any:
            number = getattr(self._own, "number", None)
            if number is None:
                return call(*arguments, **more)
            with self._moved:
                self._waiting.add(number)
                self._moved.notify_all()
                assert self._moved.wait_for(lambda: self._turn == number, PATIENCE)
                self._waiting.discard(number)
                try:
                    return call(*arguments, **more)
                finally:
                    self._turn = None

        return called


def tasks(queue: QueueOfNodes) -> Sequence[Callable[[], None]]:
    """Two starts, an eviction, and a node whose report is taken in meanwhile."""

    def evicts() -> None:
        queue.new_handler().carry_out(queue.stop("there"))

    def starts(name: str, gpu: int) -> Callable[[], None]:
        job = queue.admit(name, gpu)
        return lambda: queue.new_handler().carry_out(job)

    def works() -> None:
        for _ in range(2):
            queue.agent.read()
            queue.agent.report()
            queue.new_handler().node_services.reports.take_in(queue.now())

    return starts("one", 1), starts("two", 2), evicts, works


@given(st.integers(0, 2**32))
def test_no_handler_undoes_another_ones_orders(seed: int) -> None:
    queue = QueueOfNodes()
    queue.start("there", 0, checkpoints=True)
    queue.settle()
    todo = tasks(queue)
    Turns(queue, random.Random(seed)).run(*todo)
    words = queue.ordered()
    assert {name: words.get(name) for name in ("one", "two")} == {"one": "run", "two": "run"}
    assert words.get("there") in {None, "stop"}
    queue.settle()
    assert queue.job("there").state is JobState.PREEMPTED
    assert {queue.job(name).state for name in ("one", "two")} == {JobState.RUNNING}
    assert sorted(queue.agent.begun) == ["one", "there", "two"]
