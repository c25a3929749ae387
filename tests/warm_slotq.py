"""Processes of `slotq` that are forked from one in which everything is imported: its imports take
seconds each time, and hundreds of tests start one.

What a test shows of starting a process (signals, a terminal, what is missing) wants a real one.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

from tests import aws_descriptions

ROOT = Path(__file__).parents[1]


class Forked:
    """A process, as far as it is like `subprocess.Popen`'s."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        with contextlib.suppress(BlockingIOError):
            return self._ended(socket.MSG_DONTWAIT)
        return None

    def wait(self, timeout: float) -> int:
        """Raises TimeoutError."""
        self._connection.settimeout(timeout)
        return self._ended()

    def _ended(self, flags: int = 0) -> int:
        if self.returncode is None:
            said = self._connection.recv(16, flags)
            self.returncode = int(said) if said else -signal.SIGKILL
            self._connection.close()
        return self.returncode


def start(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes],
    stderr: IO[bytes],
) -> Forked:
    """Start `slotq` with these words in this folder, in a session of its own."""
    asked = {"words": list(words), "env": dict(env), "folder": str(Path.cwd())}
    ours, its = socket.socketpair()
    with its, Path(os.devnull).open("rb") as nothing, _lock:
        files = [file.fileno() for file in (stdin or nothing, stdout, stderr)]
        socket.send_fds(_source(), [b"."], [its.fileno(), *files])
    ours.sendall(json.dumps(asked).encode() + b"\n")
    return Forked(ours)


def run(*words: str, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `slotq` to its end, without input. Raises TimeoutError."""
    with TemporaryFile() as out, TemporaryFile() as err:
        process = start(words, env=env, stdout=out, stderr=err)
        code = process.wait(timeout)
        said = [os.pread(file.fileno(), 10_000_000, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(["slotq", *words], code, *said)


_lock = threading.Lock()


@cache
def _source() -> socket.socket:
    """The process that the others are forked from. It ends with this one."""
    ours, its = socket.socketpair()
    with its:
        subprocess.Popen(
            [sys.executable, "-m", "tests.warm_slotq", str(its.fileno())],
            cwd=ROOT,
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    return ours


def main() -> None:
    _import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for the keepers.
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        _, files, _, _ = socket.recv_fds(requests, 1, 4)
        if not files:
            return
        if os.fork() == 0:
            requests.close()
            _keep(*files)
        for each in files:
            os.close(each)


def _import_everything() -> None:
    """Import what a command needs, and what an emulator imports with its first calls."""

    import slotq_core.api.routes
    import slotq_core.manager  # noqa: F401
    from slotq.local.endpoint import session_of

    aws_descriptions.share()
    session = session_of(region_name="us-east-1", aws_access_key_id="-", aws_secret_access_key="-")
    for service in ("s3", "iam", "logs", "sts"):
        import_module(f"moto.{service}.urls")
        session.client(service)
    gc.collect()
    gc.freeze()  # It is no garbage, and a look at it would copy its pages.


def _keep(connection: int, *files: int) -> NoReturn:
    """Fork the process, and say how it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=connection) as said:
        asked = json.loads(said.makefile().readline())
        process = os.fork()
        if process == 0:
            said.close()
            _become(asked, files)
        for each in files:
            os.close(each)
        _, status = os.waitpid(process, 0)
        with contextlib.suppress(OSError):  # Nobody may be there any more.
            said.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(asked: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.argv, sys.path[0] = ["slotq", *asked["words"]], ""
    from slotq.cli.main import main as slotq

    code = 1
    try:
        slotq()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        print(ended.code if isinstance(ended.code, str) else "", end="", file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as at Python's own end
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
