"""Connections to a job's port: both directions, many at once, and their end."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from slotq.local import job_processes
from slotq.local.job_processes import Tunnel, carry

PATIENCE = 120.0


class Job:
    """A process that ends when told to, and a server in this process that answers for it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "600"])
        self.server = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.server.settimeout(PATIENCE)
        self.port: int = self.server.getsockname()[1]
        self.said: list[str] = []
        self.listens = True

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def accepted(self) -> socket.socket:
        taken, _ = self.server.accept()
        taken.settimeout(PATIENCE)
        return taken


@pytest.fixture
def job() -> Iterator[Job]:
    job = Job()
    yield job
    job.end()
    job.server.close()


@pytest.fixture
def forwarded(job: Job) -> Iterator[int]:
    """The port of this machine that leads to the job's."""
    with carried(job) as (port, _):
        yield port


@contextlib.contextmanager
def carried(job: Job) -> Iterator[tuple[int, threading.Thread]]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    made = Tunnel(
        listener=listener, port=job.port, address=lambda: "127.0.0.1" if job.listens else None
    )
    thread = threading.Thread(
        target=carry, args=([made],), kwargs={"pid": job.process.pid, "say": job.said.append}
    )
    port = listener.getsockname()[1]  # The thread may close it at once.
    thread.start()
    yield port, thread
    job.end()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def whole(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_direction_that_has_ended_leaves_the_other_open(job: Job, forwarded: int) -> None:
    """The user sends a whole request and closes that side; only then comes the answer."""
    with connected(forwarded) as user:
        user.sendall(b"question")
        user.shutdown(socket.SHUT_WR)
        with job.accepted() as there:
            assert whole(there) == b"question"
            there.sendall(b"answer")
            there.shutdown(socket.SHUT_WR)
            assert whole(user) == b"answer"


def test_the_job_may_close_its_side_first(job: Job, forwarded: int) -> None:
    with connected(forwarded) as user, job.accepted() as there:
        there.sendall(b"banner")
        there.shutdown(socket.SHUT_WR)
        assert whole(user) == b"banner"
        user.sendall(b"and more")
        user.shutdown(socket.SHUT_WR)
        assert whole(there) == b"and more"


def test_megabytes_arrive_whole_while_others_are_open(job: Job, forwarded: int) -> None:
    """A reader that waits must not hold up the other connections, nor lose a byte."""
    sent = bytes(range(256)) * 32_768
    with contextlib.ExitStack() as stack:
        users = [stack.enter_context(connected(forwarded)) for _ in range(50)]
        theirs = [stack.enter_context(job.accepted()) for _ in users]
        writers = [threading.Thread(target=there.sendall, args=(sent,)) for there in theirs[:3]]
        for writer in writers:
            writer.start()
        for number, user in enumerate(users[3:]):
            user.sendall(b"%d" % number)
        heard = sorted(int(there.recv(10)) for there in theirs[3:])
        assert heard == list(range(47))
        for user in users[:3]:
            received = b""
            while len(received) < len(sent):
                received += user.recv(1 << 20)
            assert received == sent
        for writer in writers:
            writer.join(PATIENCE)


def test_a_reset_connection_ends_on_both_sides(job: Job, forwarded: int) -> None:
    with connected(forwarded) as user:
        there = job.accepted()
        there.sendall(b"x")
        assert user.recv(1) == b"x"
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        there.close()
        with contextlib.suppress(ConnectionResetError):
            assert user.recv(1) == b""


def test_a_port_without_listener_closes_the_connection_and_is_said_once(
    job: Job, forwarded: int
) -> None:
    def refused() -> None:
        with connected(forwarded) as user, contextlib.suppress(ConnectionResetError):
            assert user.recv(1) == b""

    job.listens = False
    refused()
    refused()
    assert job.said == [f"nothing in the job listens on port {job.port} now"]
    job.listens = True
    with connected(forwarded) as user, job.accepted() as there:
        user.sendall(b"hello")
        assert there.recv(5) == b"hello"


def test_forwarding_ends_with_the_process_and_delivers_its_last_bytes(job: Job) -> None:
    with carried(job) as (port, thread), connected(port) as user, job.accepted() as there:
        there.sendall(b"last words")
        job.end()
        there.close()
        assert whole(user) == b"last words"
        user.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        with pytest.raises(ConnectionRefusedError):
            connected(port)


def test_an_idle_connection_does_not_outlive_the_job(
    job: Job, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody closes it: it is cut, and nothing is said about it."""
    monkeypatch.setattr(job_processes, "_LAST_BYTES", 0.1)
    with carried(job) as (port, thread), connected(port) as user, job.accepted() as there:
        user.sendall(b"x")
        assert there.recv(1) == b"x"
        job.end()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert user.recv(1) == b""
    assert caplog.text == ""


def test_a_process_that_has_ended_already_is_forwarded_nothing(job: Job) -> None:
    job.end()
    with carried(job) as (_, thread):
        thread.join(PATIENCE)
        assert not thread.is_alive()
