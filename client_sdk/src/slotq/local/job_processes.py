"""The processes of a job on this machine: a shell beside one, their ports, and connections there.

A shell has the process's user, working folder, environment and /opt/ml. A job on a node of the
queue is found by its name among the node's processes. Ports are found by Linux's /proc. A tunnel
carries connections until the job's process ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from slotq.local import state
from slotq.local.container.host_process import MARK
from slotq_core.errors import SlotQError

_SHELLS = ("bash", "sh")


class NotThere(SlotQError):
    """No such process. The message says why."""


class NoProcess(NotThere):
    """The job has no such process now; it may have one soon."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A process of a training job, with what a shell needs."""

    pid: int
    environment: dict[str, str]

    @property
    def isolated(self) -> bool:
        """Whether the process has a private mount namespace."""
        return _namespace(self.pid, "mnt") != _namespace(os.getpid(), "mnt")


def open_local_shell(url: str, training_job: str, *, host: int) -> int:
    """Open a shell in instance `host` of a training job of the emulator at `url`. Returns the exit
    code. The shell ends with the job, like a session in SageMaker. Raises NotThere."""
    beside = find(run_at(url), training_job, host)
    command = [next(path for path in map(shutil.which, _SHELLS) if path)]
    environment = {**beside.environment, "TERM": os.environ.get("TERM", "dumb")}
    folder = None if beside.isolated else f"/proc/{beside.pid}/cwd"
    with _entering(beside.pid) if beside.isolated else nullcontext(Entering()) as entering:
        ended = subprocess.run(  # The user asked for this shell of this machine. # nosec B603
            [*entering.words, *command],
            check=False,
            env=environment,
            cwd=folder,
            pass_fds=entering.descriptors,
        )
    return ended.returncode


def run_at(url: str) -> str:
    """The run of the emulator at `url`, which is part of its processes' marks. Raises NotThere."""
    emulator = state.health_at(url, _token())
    if emulator is None:
        raise NotThere(
            f"the server at {url} is not your emulator on this machine: run "
            'eval "$(slotq local env)"'
        )
    return str(emulator["run"])


def _token() -> str:
    saved = state.read()
    return os.environ.get("SLOTQ_LOCAL_TOKEN") or (saved.keys.token if saved else "")


def find(run: str, training_job: str, host: int) -> Beside:
    """The first process of the job's command on that host. Raises NotThere."""
    for beside in processes(run, training_job, host):
        if _leads(beside.pid):
            return beside
    raise NoProcess(
        f"training job {training_job} has no process algo-{host} now: the job is starting, has "
        "ended, or has fewer instances"
    )


def processes(run: str, training_job: str, host: int) -> Iterator[Beside]:
    """The job's processes on that host, by number. Raises NotThere without Linux's /proc."""
    mark = f"{MARK}={run}/{training_job}/algo-{host}/".encode()
    node = re.compile(rf"{MARK}={re.escape(run)}/[^/]+/algo-{host}/".encode())
    own_name = f"TRAINING_JOB_NAME={training_job}".encode()
    if not Path("/proc/self/environ").exists():
        raise NotThere("to enter a job of the emulator takes Linux's /proc")
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            said = (folder / "environ").read_bytes()
        except OSError:
            continue  # The process is gone, or another user's.
        entries = said.split(b"\0")
        on_node = own_name in entries and any(map(node.fullmatch, entries))
        if mark in entries or on_node:
            pairs = (entry.partition(b"=") for entry in entries if b"=" in entry)
            environment = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
            yield Beside(pid=int(folder.name), environment=environment)


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


@dataclass(frozen=True, kw_only=True)
class Entering:
    """What comes before a command that shall run where a process of a job runs."""

    words: Sequence[str] = ()
    descriptors: Sequence[int] = ()
    """What the words refer to: the command inherits them."""


_OWNER_OF_NAMESPACE = 0xB701
"""ioctl's NS_GET_USERNS."""


@contextmanager
def _entering(pid: int) -> Iterator[Entering]:
    """Enter a process's mount namespace and working folder, as its user. Raises NotThere."""
    if shutil.which("nsenter") is None:
        raise NotThere("nsenter (util-linux) is needed to enter the job's own /opt/ml")
    words = ["nsenter", "--target", str(pid), "--mount", "--wd"]
    with Path(f"/proc/{pid}/ns/mnt").open("rb") as mounts:
        owner = fcntl.ioctl(mounts.fileno(), _OWNER_OF_NAMESPACE)
    try:
        there = str(Path(f"/proc/self/fd/{owner}").readlink())
        if there == _namespace(os.getpid(), "user"):
            uid, gid = _user_of(pid)
            own = uid == os.geteuid()
            yield Entering(words=words if own else [*words, f"-S{uid}", f"-G{gid}"])
            return
        words += [f"--user=/proc/self/fd/{owner}", "--preserve-credentials"]
        if _namespace(pid, "user") != there:  # A node's: it has given up the right to mount.
            words += ["unshare", "-U", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
        yield Entering(words=words, descriptors=(owner,))
    finally:
        os.close(owner)


def _user_of(pid: int) -> tuple[int, int]:
    found = Path(f"/proc/{pid}").stat()
    return found.st_uid, found.st_gid


def _namespace(pid: int, kind: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


_LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def address_of(run: str, training_job: str, host: int, port: int) -> str | None:
    """The loopback address at which a process of the job listens on the port. None: none does.

    Other programs of this machine may listen on the port; the job's own sockets alone count, as in
    a container. So does SSM: it reaches what listens on the container's loopback interface.
    """
    there = {inode: address for inode, address in _listening(port) if address}
    for process in processes(run, training_job, host) if there else ():
        for inode in _sockets(process.pid):
            if inode in there:
                return there[inode]
    return None


def _listening(port: int) -> Iterator[tuple[str, str]]:
    """The inode and the loopback address of each socket that listens on the port."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue  # A machine without IPv6.
        for words in map(str.split, lines):
            where, _, number = words[1].partition(":")
            if words[3] == _LISTENS and int(number, 16) == port:
                yield words[9], _loopback(where)


def _loopback(text: str) -> str:
    """The loopback address that reaches a socket bound to an address in the kernel's form; empty if
    no loopback address does."""
    words = [text[at : at + 8] for at in range(0, len(text), 8)]
    packed = b"".join(struct.pack("=I", int(word, 16)) for word in words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    address = ip_address(socket.inet_ntop(family, packed))
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_unspecified:
        return "::1" if address.version == 6 else "127.0.0.1"
    return str(address) if address.is_loopback else ""


def _sockets(pid: int) -> Iterator[str]:
    """The inodes of a process's sockets."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return  # The process is gone.
    for descriptor in descriptors:
        try:
            kind, _, rest = str(descriptor.readlink()).partition(":[")
        except OSError:
            continue
        if kind == "socket":
            yield rest.rstrip("]")


_CHUNK = 1 << 16
_LAST_BYTES = 2.0
"""Seconds that connections have to deliver what the job sent before its end."""
_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """One forwarded port."""

    listener: socket.socket
    port: int
    """The job's."""
    address: Callable[[], str | None]
    """The address at which the job listens on the port now. None: it does not. May block."""


def carry(tunnels: Sequence[Tunnel], *, pid: int, say: Callable[[str], None]) -> None:
    """Carry connections until process `pid` has ended. Raises KeyboardInterrupt on Ctrl-C.

    The two directions of a connection end one by one. `say` gets a line if the job does not listen.
    """
    asyncio.run(_Carrier(say).carry(tunnels, pid))


class _Carrier:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._silent: set[int] = set()
        """The ports that have been reported as silent."""
        self._connections: set[asyncio.Task[None]] = set()

    async def carry(self, tunnels: Sequence[Tunnel], pid: int) -> None:
        servers = [
            await asyncio.start_server(partial(self._accept, tunnel), sock=tunnel.listener)
            for tunnel in tunnels
        ]
        try:
            await _ended(pid)
        finally:
            for server in servers:
                server.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_LAST_BYTES)

    def _accept(
        self, tunnel: Tunnel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a connection in a task of ours: asyncio 3.11 prints a traceback for one of its own
        that is cancelled, as at Ctrl-C."""
        task = asyncio.create_task(self._serve(tunnel, (reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, tunnel: Tunnel, user: _Stream) -> None:
        job = await _connected(tunnel)
        if job is None:
            user[1].transport.abort()
            self._say_silent(tunnel.port)
        else:
            self._silent.discard(tunnel.port)
            await _joined(user, job)

    def _say_silent(self, port: int) -> None:
        if port not in self._silent:
            self._silent.add(port)
            self._say(f"nothing in the job listens on port {port} now")


async def _connected(tunnel: Tunnel) -> _Stream | None:
    address = await asyncio.to_thread(tunnel.address)
    if address is None:
        return None
    try:
        return await asyncio.open_connection(address, tunnel.port)
    except OSError:
        return None


async def _joined(user: _Stream, job: _Stream) -> None:
    """Carry both directions. An error in one ends both at once, as when a connection is reset."""
    try:
        await asyncio.gather(_copied(user[0], job[1]), _copied(job[0], user[1]))
    except OSError:
        user[1].transport.abort()
        job[1].transport.abort()
    finally:
        user[1].close()
        job[1].close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _ended(pid: int) -> None:
    """Wait for the end of a process that need not be our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
