"""`slotq shell --forward` and `slotq submit --shell` in the emulator: real jobs that serve."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tests.functional.local.account import Account
from tests.functional.local.conftest import SLOTQ
from tests.functional.local.test_shell import slotq

SERVER = """
import http.server, os, socket, sys, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = (os.environ["TRAINING_JOB_NAME"] + self.path).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        if self.path == "/quit":
            os._exit(0)
def serve(family, host):
    class Server(http.server.ThreadingHTTPServer):
        address_family = family
    server = Server((host, 0), Page)
    threading.Thread(target=server.serve_forever).start()
    return server.server_address[1]
ports = [serve(socket.AF_INET, "127.0.0.1"), serve(socket.AF_INET, "0.0.0.0")]
if os.path.exists("/proc/net/if_inet6") and os.path.getsize("/proc/net/if_inet6"):
    ports.append(serve(socket.AF_INET6, "::1"))
print("ports", *ports, flush=True)
"""
"""A job that serves its own name at several ports, which it prints, until /quit is asked for."""
LINE = re.compile(r"127\.0\.0\.1:(\d+) -> [\w-]+:(\d+)\n")


def started(account: Account, name: str) -> list[int]:
    """Start the job; returns its ports."""
    submitted = slotq(account, "submit", "-", text=json.dumps(account.request(name, SERVER)))
    assert submitted.returncode == 0, submitted.stderr
    lines = account.until(
        lambda: [line for line in account.said(name) if line.startswith("ports")], "its ports"
    )
    return [int(word) for word in lines[0].split()[1:]]


def cancelled(account: Account, name: str) -> None:
    slotq(account, "cancel", name)
    account.ended(name)


@pytest.fixture(scope="module")
def serves() -> str:
    """The name of a job that serves. A worker may run the module in several pieces."""
    return f"serves-{uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def ports(emulator: Account, serves: str) -> Iterator[list[int]]:
    yield started(emulator, serves)
    cancelled(emulator, serves)


@contextlib.contextmanager
def running(account: Account, *words: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A `slotq` command that goes on; what it says on stderr is in `folder/err`."""
    with (folder / "err").open("w") as err:
        process = subprocess.Popen(
            [*SLOTQ, *words],
            env={**os.environ, **account.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def forwarded(process: subprocess.Popen[str]) -> tuple[int, int]:
    """The next line of a forward: the port of this machine, and the job's."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = LINE.fullmatch(line)
    assert found, line
    return int(found[1]), int(found[2])


def page(port: int, path: str = "/") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=120) as answer:
        text: str = answer.read().decode()
    return text


def interrupted(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(120)


def test_ports_of_a_job_are_served_here(
    account: Account, ports: list[int], serves: str, tmp_path: Path
) -> None:
    """Whatever loopback address the job listens at; over many connections at once."""
    words = [word for port in ports for word in ("--forward", str(port))]
    with running(account, "shell", serves, *words, folder=tmp_path) as process:
        found = [forwarded(process) for _ in ports]
        assert [theirs for _, theirs in found] == ports
        for here, theirs in found:
            assert here != theirs
            assert page(here, "/tree") == f"{serves}/tree"
        here = found[0][0]
        with ThreadPoolExecutor(20) as pool:
            pages = list(pool.map(lambda n: page(here, f"/{n}"), range(60)))
        assert pages == [f"{serves}/{n}" for n in range(60)]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", here), timeout=5)
        with socket.create_connection(("127.0.0.1", here), timeout=120) as idle:
            idle.sendall(b"GET /half")
            assert page(here) == f"{serves}/"
            assert interrupted(process) == 130
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", here), timeout=5)
    assert account.describe(serves)["TrainingJobStatus"] == "InProgress"
    assert (tmp_path / "err").read_text() == ""


def test_a_wanted_port_of_this_machine_is_used(
    account: Account, ports: list[int], serves: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        wanted = server.getsockname()[1]
        refused = slotq(account, "shell", serves, "--forward", f"{ports[0]}:{wanted}")
        said = f"port {wanted} of this machine is in use: name another, such as --forward"
        assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr
    words = ("--forward", f"{ports[0]}:{wanted}")
    with running(account, "shell", serves, *words, folder=tmp_path) as process:
        assert forwarded(process) == (wanted, ports[0])
        assert page(wanted) == f"{serves}/"


def test_only_the_jobs_own_ports_are_served(
    account: Account, ports: list[int], serves: str, tmp_path: Path
) -> None:
    """Another program of this machine is not part of the job, though it has the same loopback."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        theirs = other.getsockname()[1]
        words = ("--forward", str(theirs))
        with running(account, "shell", serves, *words, folder=tmp_path) as process:
            here, _ = forwarded(process)
            with pytest.raises((ConnectionError, urllib.error.URLError)):
                page(here)
            said = f"nothing in the job listens on port {theirs} now\n"
            account.until(lambda: (tmp_path / "err").read_text() == said, said)
            assert process.poll() is None


@pytest.mark.parametrize(("path", "code"), [("/quit", 0), (None, 1)])
def test_forwarding_ends_with_the_job(
    account: Account, tmp_path: Path, path: str | None, code: int
) -> None:
    name = f"ends-{code}"
    port = started(account, name)[0]
    words = ("shell", name, "--forward", str(port))
    with running(account, *words, folder=tmp_path) as process:
        here, _ = forwarded(process)
        if path:
            assert page(here, path) == f"{name}/quit"
        else:
            slotq(account, "cancel", name)
        assert process.wait(120) == code
    end = "completed after 1 attempt" if path else "cancelled"
    assert f"{name}: forwarding has ended; the job is {end}" in (tmp_path / "err").read_text()


def filed(account: Account, folder: Path, name: str) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(account.request(name, SERVER)))
    return str(path)


def test_a_job_is_submitted_with_its_shell(account: Account, tmp_path: Path) -> None:
    ran = slotq(
        account,
        *("submit", filed(account, tmp_path, "opens"), "--interactive", "--shell"),
        text='echo "in $TRAINING_JOB_NAME"; exit 5',
    )
    cancelled(account, "opens")
    assert (ran.returncode, ran.stdout) == (5, "in opens\n"), ran.stderr
    assert "opens: running in pool main (attempt 1: opens)" in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("opens goes on: `slotq shell opens` opens")
    described = account.describe("opens")
    assert described["RemoteDebugConfig"] == {"EnableRemoteDebug": True}


def test_one_leaves_the_wait_and_comes_back(
    account: Account, ports: list[int], serves: str, tmp_path: Path
) -> None:
    """The pool `scarce` has one slot, and another job has it."""
    kind = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    first = account.request("has-it", SERVER, ResourceConfig=kind)
    assert slotq(account, "submit", "-", text=json.dumps(first)).returncode == 0
    path = tmp_path / "late.json"
    path.write_text(json.dumps(account.request("late", SERVER, ResourceConfig=kind)))
    err = tmp_path / "err"
    with running(account, "submit", str(path), "--shell", folder=tmp_path) as process:
        account.until(lambda: "late: waiting, place 1" in err.read_text(), "its place")
        assert "pool scarce has 0 free of 1" in err.read_text()
        assert interrupted(process) == 130
    back = "late stays in the queue: `slotq shell late --wait` comes back to it"
    assert back in err.read_text()
    assert json.loads(slotq(account, "show", "late", "--json").stdout)["state"] == "pending"
    with running(account, "shell", "late", "--wait", folder=tmp_path) as process:
        account.until(lambda: "late: waiting" in err.read_text(), "the wait")
        slotq(account, "cancel", "late")
        assert process.wait(120) == 1
    assert "job late ended before a shell could open: cancelled" in err.read_text()
    cancelled(account, "has-it")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--forward", "{port}:{port}"), "is the job's own: name another"),
        (("--forward", "{port}", "--host", "2"), "no process algo-2"),
    ],
)
def test_what_cannot_be_forwarded_is_told(
    account: Account, ports: list[int], serves: str, words: tuple[str, ...], said: str
) -> None:
    ran = slotq(account, "shell", serves, *(word.format(port=ports[0]) for word in words))
    assert (ran.returncode, said in ran.stderr) == (1, True), ran.stderr
