"""One process of the soak: a warm Lambda that handles one event after the other.

Its SageMaker, Lambda and EventBridge are in the soak's process, at the other end of a pipe. Killed
at any moment, it leaves what it has written and nothing else.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

from slotq.local.training.request_check import NoAnswer, PlaneError

LIFETIME = 60_000
"""How long (ms) an invocation may take."""


class SharedClock:
    """A clock that another process sets (`ports.Clock`)."""

    def __init__(self, moment: Any) -> None:
        """`moment`: the time (ms), in memory that processes share."""
        self._moment = moment

    def now(self) -> int:
        return int(self._moment.value)

    def advance(self, by: int) -> None:
        with self._moment.get_lock():
            self._moment.value += by


class FarService:
    """The services at the other end of the pipe. Several threads may ask."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._turn = pipe, threading.Lock()

    def ask(self, service: str, operation: str, request: Any) -> Any:
        with self._turn:
            self._pipe.send((service, operation, request))
            kind, content = self._pipe.recv()
        if kind == "refused":
            raise PlaneError(*content)
        if kind == "no answer":
            raise NoAnswer(operation)
        return content

    def handle(self, operation: str, request: Any) -> dict[str, Any]:
        """As the training plane's."""
        answer: dict[str, Any] = self.ask("sagemaker", operation, dict(request))
        return answer

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.ask("lambda", "invoke", json.loads(request["Payload"]))
        return {"StatusCode": 202}

    def put_events(self, **request: Any) -> dict[str, Any]:
        self.ask("events", "put", request["Entries"])
        return {"FailedEntryCount": 0}

    def send_message(self, **request: Any) -> dict[str, Any]:
        self.ask("sqs", "send", request["MessageBody"])
        return {"MessageId": "1"}


def work(pipe: Connection, endpoint: str, environment: dict[str, str], clock: SharedClock) -> None:
    """Handle events from the pipe until it closes. The first answer says that the process is
    ready."""
    os.environ.update(environment)
    app = _app(pipe, endpoint, clock)
    pipe.send(("ready", "", None))
    while True:
        try:
            number, event = pipe.recv()
        except EOFError:
            return
        pipe.send(("answer", *_handled(app, clock, number, event)))


def _app(pipe: Connection, endpoint: str, clock: SharedClock) -> Any:
    """The function's module, with clients of this soak."""
    import app
    from slotq.local.services.training_service import PlaneClient
    from tests.functional.test_burst import client_of

    far, dynamodb = FarService(pipe), client_of(endpoint)
    module: Any = app
    module.client = lambda service: dynamodb if service == "dynamodb" else far
    module.clock = clock
    module.sagemaker_client = lambda: PlaneClient(far)  # type: ignore[arg-type]
    module.logger.registered_handler.stream = io.StringIO()
    return module


def _handled(app: Any, clock: SharedClock, number: int, event: Any) -> tuple[str, Any]:
    ends = clock.now() + LIFETIME
    context = SimpleNamespace(
        aws_request_id=f"{os.getpid()}-{number}",
        get_remaining_time_in_millis=lambda: max(0, ends - clock.now()),
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return "done", app.handler(event, context)
    except Exception as error:  # noqa: BLE001 - as in Lambda: the invocation has failed
        return "failed", repr(error)
