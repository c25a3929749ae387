"""Loads the Lambda's handler from the file that is deployed, and keeps its output apart.

`find` tries, in this order: the file that SLOTQ_FUNCTION names; `functions/queue_manager/app.py` of
the checkout that contains this package; the same path from the current folder upwards; the copy in
an installed package (`slotq/local/queue_manager/app.py`).

Log lines and metrics go to a file instead of the emulator's terminal.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from slotq.local.endpoint import Endpoint
from slotq.local.services.aws import TABLE
from slotq.local.services.invocations import FUNCTION, Handler
from slotq_core.errors import Misconfigured
from slotq_core.ports.surroundings import one_by_one

_FILE = Path("functions/queue_manager/app.py")


def find() -> Path:
    """The path of the handler's file. Raises Misconfigured with the places tried."""
    tried = list(_places())
    found = next((place for place in tried if place.is_file()), None)
    if found is None:
        raise Misconfigured(
            f"the queue's Lambda ({_FILE}) is not in or above the current folder: go to the "
            "checkout, or name the file in SLOTQ_FUNCTION"
        )
    return found


def _places() -> Iterator[Path]:
    if named := os.environ.get("SLOTQ_FUNCTION"):
        yield Path(named).expanduser()
        return
    here, current = Path(__file__).resolve().parent, Path.cwd()
    yield from (folder / _FILE for folder in (*here.parents, current, *current.parents))
    yield here.parent / "queue_manager/app.py"


def environment(endpoint: Endpoint, pools: str) -> Mapping[str, str]:
    """The function's environment: the template's variables, and the emulator's address."""
    return {
        **endpoint.variables(),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_LAMBDA_FUNCTION_NAME": FUNCTION,
        "NO_PROXY": "127.0.0.1,localhost",
        "POWERTOOLS_LOG_LEVEL": os.environ.get("POWERTOOLS_LOG_LEVEL", "INFO"),
        "POWERTOOLS_TRACE_DISABLED": "true",
        "SLOTQ_NODES": endpoint.nodes_bucket,
        "SLOTQ_NOTIFICATIONS": "local",
        "SLOTQ_ROUTE": endpoint.queue,
        "SLOTQ_TABLE": TABLE,
        "SLOTQ_POOLS": pools,
    }


def load(endpoint: Endpoint, pools: str, log_file: Path, here: Mapping[str, Any]) -> Handler:
    """The handler, connected to the emulator. The log file receives the handler's output.

    `here`: the function's clients of services that this process is, by service. Their reads gain
    nothing from threads. Changes this process's environment permanently: the function reads the
    environment, and none of its calls may reach the real AWS.
    """
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "SLOTQ_INLINE_PASS", "SLOTQ_LOCAL_CALLER"):
        os.environ.pop(name, None)
    for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL_")]:
        os.environ.pop(name)
    os.environ.update(environment(endpoint, pools))
    log = LambdaLog.install(log_file)
    spec = importlib.util.spec_from_file_location("slotq_local_function", find())
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    with log.inside():
        spec.loader.exec_module(module)
    client = module.client
    module.client = lambda service: here[service] if service in here else client(service)
    module.in_parallel = lambda: one_by_one

    def handler(event: dict[str, Any], context: Any) -> Any:
        with log.inside():
            return module.handler(event, context)

    return handler


class LambdaLog(io.TextIOBase):
    """Replaces sys.stdout. Text printed `inside` goes to the file, other text to the terminal as
    before."""

    def __init__(self, file: Path, before: TextIO) -> None:
        super().__init__()
        self._log = file.open("w", encoding="utf-8", buffering=1)
        self._before = before
        self._inside = threading.local()

    @classmethod
    def install(cls, file: Path) -> LambdaLog:
        """Replace sys.stdout permanently."""
        log = cls(file, sys.stdout)
        sys.stdout = log
        return log

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark this thread as running the Lambda's code."""
        self._inside.here = True
        try:
            yield
        finally:
            self._inside.here = False

    def write(self, text: str) -> int:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def isatty(self) -> bool:
        return self._stream().isatty()

    def fileno(self) -> int:
        return self._stream().fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override] # io declares a plain attribute
        return self._stream().encoding

    def _stream(self) -> TextIO:
        return self._log if getattr(self._inside, "here", False) else self._before
