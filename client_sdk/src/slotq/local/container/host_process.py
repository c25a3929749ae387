"""One process of a training job, with its process group: start, signal, read and clean up.

A container's first process (PID 1) alone gets SIGTERM, and the kernel drops the signal unless that
process has a handler. The training toolkit, first in a framework container, has none. Linux's /proc
shows both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from slotq.local.container.job_output import lines_of

MARK = "SLOTQ_LOCAL_RUN"
"""Environment variable that marks every process of a job, in any process group."""
_PATIENCE, _PAUSE = 5.0, 0.01
"""Seconds to wait for killed processes to disappear, and between two checks."""


class HostProcess:
    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        mark: str,
        line: Callable[[str], None],
    ) -> None:
        """Start the process. Another thread calls `line` with each line of output."""
        self._mark = mark
        self._line = line
        self._lock = threading.Lock()
        self._over = False
        self.last_lines: deque[str] = deque(maxlen=8)
        self._process = subprocess.Popen(  # running the user's script is its purpose # nosec B603
            command,
            cwd=folder,
            env={**environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def signal(self, number: int) -> None:
        """Signal the whole process group. Does nothing after the group has ended."""
        with self._lock:
            if not self._over:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)

    def signal_as_first(self, number: int) -> None:
        """Signal this process as a container's first one: without a handler it gets nothing."""
        with self._lock:
            if not self._over and has_handler(self._process.pid, number):
                os.kill(self._process.pid, number)

    def signal_others(self, number: int) -> None:
        """Signal the process group without this process."""
        with self._lock:
            for pid in () if self._over else group_of(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def wait(self) -> int:
        """Wait until the process and everything it started have ended. Returns the exit code."""
        if hasattr(os, "waitid"):
            # The process is not reaped yet, so its number is not reused: the group can be swept.
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self.signal(signal.SIGKILL)
        with self._lock:
            self._over = True
            code = self._process.wait()
        until = time.monotonic() + _PATIENCE
        while sweep(self._mark) and time.monotonic() < until:
            time.sleep(_PAUSE)  # A killed process takes a moment to disappear.
        self._reader.join(timeout=_PATIENCE)
        return code

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            for text in lines_of(stream):
                self.last_lines.append(text)
                self._line(text)


def sweep(mark: str) -> int:
    """Kill every process whose mark begins with `mark`. Returns how many. Needs /proc."""
    wanted = f"{MARK}={mark}".encode()
    killed = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            if any(entry.startswith(wanted) for entry in environment):
                os.kill(int(folder.name), signal.SIGKILL)
                killed += 1
        except (OSError, ValueError):
            continue  # The process is gone, a zombie, or another user's.
    return killed


def has_handler(pid: int, number: int) -> bool:
    """Whether a process handles a signal. True where that cannot be read."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "")
    return not caught or bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def group_of(leader: int) -> Iterator[int]:
    """The processes of a leader's process group, without the leader."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # The process is gone.
        if int(words[2]) == leader and int(folder.name) != leader:
            yield int(folder.name)
