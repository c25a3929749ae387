"""The demo's machine: a separate emulator on a free port, and AWS settings that lead to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slotq.demo.environment import with_variables
from slotq.errors import SlotQError
from slotq.local import keys
from slotq.local.container.host_process import sweep
from slotq.local.endpoint import Endpoint

START_SECONDS = 60.0
STOP_SECONDS = 20.0


class NoEmulator(SlotQError):
    """The emulator did not start. The message has its last output."""


@contextmanager
def emulator(pool: str) -> Iterator[Endpoint]:
    """Run an emulator with this pool during the context, and point the environment at it.

    The emulator and its training processes are gone after the context, whatever ends it. Raises
    NoEmulator.
    """
    with tempfile.TemporaryDirectory(prefix="slotq-demo-") as folder:
        home = Path(folder)
        with (home / "demo.log").open("wb") as output:
            # The default grace of two minutes is too long for a demo.
            options = ["--port=0", f"--pool={pool}", "--pass-sigterm", "--until-eof"]
            process = subprocess.Popen(  # noqa: S603 - our own program # nosec B603
                [sys.executable, "-m", "slotq.cli", "local", "start", *options],
                env={**os.environ, "SLOTQ_LOCAL_DIR": folder},
                stdin=subprocess.PIPE,  # ends with the demo, which SIGKILL may end
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the demo alone, which stops this last
            )
        try:
            endpoint = _answering(process, home)
            with with_variables(settings(endpoint, home), instead_of=("AWS_", "SLOTQ_")):
                yield endpoint
        finally:
            _stop(process, home)


def _answering(process: subprocess.Popen[bytes], home: Path) -> Endpoint:
    """Wait until the emulator answers. Returns its endpoint."""
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        if said := _saved(home):
            return Endpoint(url=said["url"], keys=keys.kept(home), region=said["region"])
        time.sleep(0.1)
    words = (home / "demo.log").read_text(errors="replace")[-2000:].strip()
    raise NoEmulator(f"the emulator did not start; it said:\n{words}")


def _saved(home: Path) -> dict[str, str] | None:
    """The values in the emulator's file, which exists from its first answer until its end."""
    try:
        said: dict[str, str] = json.loads((home / "emulator.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return said


def _stop(process: subprocess.Popen[bytes], home: Path) -> None:
    """Send SIGTERM, on which the emulator ends its training processes. Kill what is left."""
    saved = _saved(home)
    process.terminate()
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if saved is not None:
        sweep(f"{saved['run']}/")


def settings(endpoint: Endpoint, home: Path) -> dict[str, str]:
    """The environment of a user who has only the emulator's settings."""
    for name in ("slotq.toml", "sagemaker.yaml"):
        (home / name).touch()
    return {
        **endpoint.variables(),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
        "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": str(home / "sagemaker.yaml"),
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(home / "sagemaker.yaml"),
        "SLOTQ_CONFIG": str(home / "slotq.toml"),
        "SLOTQ_ENDPOINT": endpoint.queue,
    }
