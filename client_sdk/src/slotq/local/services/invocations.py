"""The emulator's Lambda service: one execution environment, one invocation at a time.

API requests and background events (state changes, passes, the tick) take turns when both wait. So
an answer waits for at most two invocations, and many readers cannot delay an event. A failed
background event is retried twice, as Lambda does. A pass that already waits is not queued again.
"""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

FUNCTION = "training-job-queue"
PASS: Mapping[str, Any] = {"source": "slotq", "detail-type": "pass"}

MOST_ANSWER = 6_291_556
"""The most bytes of an answer as JSON: 6 MB and a little. Lambda refuses a longer one with 413, and
API Gateway makes a 502 of that."""

_API, _EVENT = 0, 1
_TRIES = 3
_RETRY_SECONDS = 1.0
_BUDGET = 60.0

Handler = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True, kw_only=True)
class LambdaContext:
    """The part of Lambda's context that the handler reads."""

    function_name: str = FUNCTION
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 512
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    invoked_function_arn: str = f"arn:aws:lambda:us-east-1:123456789012:function:{FUNCTION}"
    log_group_name: str = f"/aws/lambda/{FUNCTION}"
    log_stream_name: str = "local"
    deadline: float = field(default_factory=lambda: time.monotonic() + _BUDGET)

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline - time.monotonic()) * 1000))


@dataclass(kw_only=True)
class _Waiting:
    event: dict[str, Any]
    key: str | None = None
    """Events with the same key are queued once."""
    answer: Future[Any] | None = None
    tries: int = 1


class AnswerTooLarge(Exception):
    """A handler's answer that Lambda would not pass on."""


def check_size(said: Any) -> None:
    """Raises AnswerTooLarge."""
    size = len(json.dumps(said, ensure_ascii=False, default=str).encode())
    if size > MOST_ANSWER:
        raise AnswerTooLarge(
            f"Response payload size ({size} bytes) exceeded maximum allowed payload size "
            f"({MOST_ANSWER} bytes): Lambda answers with 413, API Gateway with 502"
        )


class Invocations:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._waiting: dict[int, list[tuple[float, int, _Waiting]]] = {_API: [], _EVENT: []}
        self._last = _EVENT
        self._keys: set[str] = set()
        self._order = itertools.count()
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="lambda", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Accept no more invocations. The running one may finish."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def call(self, event: dict[str, Any], timeout: float) -> Any:
        """Invoke and wait for the answer. Raises TimeoutError, or what the handler raised."""
        answer: Future[Any] = Future()
        self._put(_API, _Waiting(event=event, answer=answer))
        return answer.result(timeout)

    def send(self, event: Mapping[str, Any], *, key: str | None = None) -> None:
        """Queue an event without waiting for an answer. Skipped while an event with the same key
        waits."""
        self._put(_EVENT, _Waiting(event=dict(event), key="pass" if _is_pass(event) else key))

    def invoke(self, *, Payload: bytes, **_: str) -> dict[str, Any]:  # noqa: N803 - boto3's
        """The function's own asynchronous invocation, as boto3's Lambda client makes it."""
        self.send(json.loads(Payload))
        return {"StatusCode": 202}

    def settled(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._changed:
            return not self._busy and self.waiting() == 0

    def waiting(self) -> int:
        """The number of invocations that have not begun."""
        with self._changed:
            return sum(map(len, self._waiting.values()))

    def _put(self, rank: int, waiting: _Waiting, *, delay: float = 0.0) -> None:
        with self._changed:
            if waiting.key is not None:
                if waiting.key in self._keys:
                    return
                self._keys.add(waiting.key)
            at = time.monotonic() + delay
            heapq.heappush(self._waiting[rank], (at, next(self._order), waiting))
            self._changed.notify_all()

    def _work(self) -> None:
        while (waiting := self._next()) is not None:
            self._invoke(waiting)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> _Waiting | None:
        """Wait for the next due invocation. None after `close`."""
        with self._changed:
            while not self._closed:
                if (kind := self._turn()) is not None:
                    waiting = heapq.heappop(self._waiting[kind])[2]
                    self._keys.discard(waiting.key or "")
                    self._last, self._busy = kind, True
                    return waiting
                dues = [line[0][0] for line in self._waiting.values() if line]
                self._changed.wait(min(dues) - time.monotonic() if dues else None)
            return None

    def _turn(self) -> int | None:
        """The kind of the next invocation. If both kinds are due, the kind that was not last."""
        now = time.monotonic()
        due = [kind for kind, line in self._waiting.items() if line and line[0][0] <= now]
        return next((kind for kind in due if kind != self._last), due[0] if due else None)

    def _invoke(self, waiting: _Waiting) -> None:
        try:
            said = self._handler(waiting.event, LambdaContext())
            if waiting.answer is not None:
                check_size(said)
        except Exception as error:  # noqa: BLE001 - the caller hears of it, or it is tried again
            self._failed(waiting, error)
        else:
            if waiting.answer is not None:
                waiting.answer.set_result(said)

    def _failed(self, waiting: _Waiting, error: Exception) -> None:
        if not self._closed:
            traceback.print_exception(error)
        if waiting.answer is not None:
            waiting.answer.set_exception(error)
        elif waiting.tries < _TRIES:
            again = _Waiting(event=waiting.event, key=waiting.key, tries=waiting.tries + 1)
            self._put(_EVENT, again, delay=_RETRY_SECONDS * waiting.tries)
        else:
            print(f"gave up after {_TRIES} tries: {waiting.event.get('detail-type')}", flush=True)


def _is_pass(event: Mapping[str, Any]) -> bool:
    return all(event.get(key) == value for key, value in PASS.items())
