"""The demo's machine: an emulator of its own on a free port, and AWS settings that point at it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slotq.errors import SlotQError
from slotq.local.endpoint import Endpoint

START_SECONDS = 60.0
STOP_SECONDS = 20.0


class NoEmulator(SlotQError):
    """The emulator did not start; the message has its last words."""


@contextmanager
def emulator(pool: str, slots: int) -> Iterator[Endpoint]:
    """Runs an emulator with one pool while the context lasts, and points the environment at it.

    Whatever ends the context, the emulator and the training processes under it are gone after it.
    Raises NoEmulator.
    """
    port = _free_port()
    command = [sys.executable, "-m", "slotq.cli", "local", "start", "--port", str(port)]
    with tempfile.TemporaryDirectory(prefix="slotq-demo-") as folder:
        log = Path(folder) / "emulator.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, "--pool", f"{pool}={slots}", "--home", str(Path(folder) / "home")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for us alone: we stop it, after we have looked.
                start_new_session=True,
            )
        try:
            _wait_until_up(process, port, log)
            endpoint = Endpoint(url=f"http://127.0.0.1:{port}")
            with _environment({**endpoint.variables(), "SLOTQ_ENDPOINT": endpoint.queue}):
                yield endpoint
        finally:
            _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    words = log.read_text(errors="replace")[-2000:].strip()
    raise NoEmulator(f"the emulator did not start on port {port}; it said:\n{words}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, on which the emulator ends its training processes; what is left is killed."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
