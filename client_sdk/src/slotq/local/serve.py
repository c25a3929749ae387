"""Runs an emulator until it ends: in this process, or in a background process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slotq.local import state
from slotq.local.emulator import CannotStart, Emulator, Options
from slotq.local.training.knobs import Knobs

_START_SECONDS = 90.0


def serve(options: Options, *, ready: Callable[[state.Running], None]) -> None:
    """Run an emulator until SIGINT or SIGTERM. Raises CannotStart."""
    refuse_second()
    emulator = Emulator(options)
    ended = threading.Event()
    endpoint = emulator.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    running = state.Running(
        run=emulator.mark,
        pid=os.getpid(),
        url=endpoint.url,
        region=endpoint.region,
        pools=options.pools,
        keys=endpoint.keys,
    )
    state.save(running)
    try:
        ready(running)
        ended.wait()
    finally:
        emulator.stop()
        if (saved := state.read()) and saved.run == emulator.mark:
            state.forget()


def refuse_second() -> None:
    """Refuse to start a second emulator on one state folder. Raises CannotStart."""
    saved = state.read()
    if saved is not None and saved.health() is not None:
        raise CannotStart(
            f"an emulator already runs at {saved.url} (process {saved.pid}): stop it with "
            "`slotq local stop`, or set SLOTQ_LOCAL_DIR for a second one"
        )


def detach(options: Options) -> state.Running:
    """Start an emulator in the background. Returns when the emulator answers. Raises
    CannotStart."""
    refuse_second()
    state.forget()
    log = state.log_file()
    with log.open("wb") as output:
        process = subprocess.Popen(  # this very program # nosec B603
            [sys.executable, "-m", "slotq.local.serve", _as_text(options)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise CannotStart(_last_words(log))
        saved = state.read()
        if saved is not None and saved.pid == process.pid and saved.health() is not None:
            return saved
        time.sleep(0.1)
    process.kill()
    raise CannotStart(f"the emulator did not answer within {_START_SECONDS:.0f} seconds; see {log}")


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return (lines[-1] if lines else "the emulator ended at once") + f" (more in {log})"


def _as_text(options: Options) -> str:
    values: dict[str, Any] = asdict(options)
    return json.dumps({**values, "work": str(options.work)})


def _from_text(text: str) -> Options:
    values = json.loads(text)
    knobs, work = Knobs(**values.pop("knobs")), Path(values.pop("work"))
    return Options(**values, knobs=knobs, work=work)


def main() -> None:
    try:
        serve(_from_text(sys.argv[1]), ready=lambda running: print(f"ready at {running.url}"))
    except CannotStart as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
