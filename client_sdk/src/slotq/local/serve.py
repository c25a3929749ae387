"""Runs an emulator until it ends: in this process, or in a background process."""

from __future__ import annotations

import contextlib
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
from slotq.local.training.training_plans import TrainingPlan, Window
from slotq_core.errors import SlotQError

_START_SECONDS = 90.0
_LOOK_SECONDS = 1.0


def serve(
    options: Options, *, ready: Callable[[state.Running], None], until_eof: bool = False
) -> None:
    """Run an emulator until SIGINT, SIGTERM or the terminal's end, with `until_eof` also until the
    end of standard input. Raises CannotStart and Taken.

    Removes from this process's environment what concerns other accounts, as `slotq local env` does
    in the user's shell.
    """
    for name in state.UNSET:
        os.environ.pop(name, None)
    with state.taken():
        state.clear()
        ended = threading.Event()
        if until_eof:
            threading.Thread(target=_await_eof, args=(ended,), daemon=True).start()
        _serve(options, ready, ended)


def _await_eof(ended: threading.Event) -> None:
    """Set the event at the end of standard input. The kernel closes a pipe when the process at its
    other end is gone, also one that SIGKILL has ended."""
    with contextlib.suppress(OSError):
        # Not through `sys.stdin`'s buffer: Python waits for its lock when it ends.
        while sys.stdin is not None and os.read(sys.stdin.fileno(), 4096):
            pass
    ended.set()


def _serve(
    options: Options, ready: Callable[[state.Running], None], ended: threading.Event
) -> None:
    emulator = Emulator(options)
    endpoint = emulator.start()
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it.
        ends.append(signal.SIGHUP)
    for number in ends:
        signal.signal(number, lambda *_: ended.set())
    running = state.Running(
        run=emulator.mark,
        pid=os.getpid(),
        url=endpoint.url,
        region=endpoint.region,
        pools=options.pools,
        keys=endpoint.keys,
    )
    try:
        state.save(running)
        ready(running)
        # Python handles signals in this thread alone, and the kernel may wake another one.
        while not ended.wait(_LOOK_SECONDS):
            pass
    finally:
        emulator.stop()
        state.forget()


def detach(options: Options) -> state.Running:
    """Start an emulator in the background. Returns when the emulator answers. Raises
    CannotStart and Taken."""
    log = state.log_file()
    with state.taken():
        output = log.open("wb")
    with output:
        process = subprocess.Popen(  # this very program # nosec B603
            [sys.executable, "-m", "slotq.local.serve", _as_text(options)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return _answering(process, log)
    except KeyboardInterrupt:
        process.terminate()
        raise


def _answering(process: subprocess.Popen[bytes], log: Path) -> state.Running:
    """Wait until the emulator answers. Raises CannotStart."""
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
    plans = [_plan(plan) for plan in values.pop("plans")]
    return Options(**values, knobs=knobs, work=work, plans=plans)


def _plan(values: dict[str, Any]) -> TrainingPlan:
    windows = tuple(Window(**window) for window in values.pop("windows"))
    return TrainingPlan(**values, windows=windows)


def main() -> None:
    try:
        serve(_from_text(sys.argv[1]), ready=lambda running: print(f"ready at {running.url}"))
    except SlotQError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
