"""The emulator's Lambda service: order, retries, one invocation at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slotq.local.services import invocations
from slotq.local.services.invocations import (
    MOST_ANSWER,
    PASS,
    AnswerTooLarge,
    Invocations,
)


class Function:
    """A handler that blocks until released, and records its events."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.begun = threading.Event()
        self.go = threading.Event()
        self.at_once = 0
        self.failing = 0

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        self.at_once += 1
        self.begun.set()
        self.go.wait(120)
        assert self.at_once == 1
        assert context.get_remaining_time_in_millis() > 0
        self.at_once -= 1
        self.came.append(event.get("n", event.get("source")))
        if self.failing:
            self.failing -= 1
            raise RuntimeError("not now")
        return event


@pytest.fixture
def function() -> Function:
    return Function()


@pytest.fixture
def made(function: Function) -> Iterator[Invocations]:
    made = Invocations(function)
    made.start()
    yield made
    function.go.set()
    made.close()


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come")


def test_an_answer_that_lambda_would_not_pass_on_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """Quotes count twice: the answer is a text in JSON."""
    size = MOST_ANSWER - len('{"body": ""}')
    made = Invocations(lambda event, context: {"body": event["said"]})
    made.start()
    assert made.call({"said": "x" * size}, 5)
    for too_long in ("x" * (size + 1), '"' * (size // 2 + 1)):
        with pytest.raises(AnswerTooLarge):
            made.call({"said": too_long}, 5)
        assert "exceeded maximum allowed payload size (6291556 bytes)" in capfd.readouterr().err
    assert made.call({"said": "next"}, 5) == {"body": "next"}
    made.close()


def test_calls_come_before_events_and_a_pass_is_queued_once(
    function: Function, made: Invocations
) -> None:
    made.send({"n": 1})
    function.begun.wait(120)
    made.send({"n": 2})
    made.send(PASS)
    made.send(PASS)
    made.send({"n": 3})
    answers: list[Any] = []
    caller = threading.Thread(target=lambda: answers.append(made.call({"n": "call"}, 5)))
    caller.start()
    wait_until(lambda: made.waiting() == 4)
    function.go.set()
    caller.join(120)
    wait_until(made.settled)
    assert function.came == [1, "call", 2, "slotq", 3]
    assert answers == [{"n": "call"}]


def test_many_readers_do_not_delay_an_event(function: Function, made: Invocations) -> None:
    """Each reader calls again as soon as it is answered."""
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            made.call({"n": "read"}, 5)

    readers = [threading.Thread(target=read) for _ in range(5)]
    for reader in readers:
        reader.start()
    function.begun.wait(120)
    for n in range(20):
        made.send({"n": n})
    function.go.set()
    wait_until(lambda: 19 in function.came)
    over.set()
    for reader in readers:
        reader.join(120)
    first, last = function.came.index(0), function.came.index(19)
    assert first <= 2
    assert last - first <= 2 * 20


def test_events_are_retried_and_calls_are_not(
    function: Function, made: Invocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invocations, "_RETRY_SECONDS", 0.01)
    function.go.set()
    function.failing = 4
    with pytest.raises(RuntimeError, match="not now"):
        made.call({"n": "call"}, 5)
    made.send({"n": 1})
    wait_until(lambda: made.settled() and len(function.came) == 4)
    assert function.came == ["call", 1, 1, 1]


def test_an_answer_can_time_out(function: Function, made: Invocations) -> None:
    with pytest.raises(TimeoutError):
        made.call({"n": 1}, 0.05)
