"""Carries connections from this machine to ports of a job, until the job's process ends."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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
        """The ports of which was said that nothing listens."""
        self._connections: set[asyncio.Task[None]] = set()

    async def carry(self, tunnels: Sequence[Tunnel], pid: int) -> None:
        servers = [
            await asyncio.start_server(partial(self._accept, each), sock=each.listener)
            for each in tunnels
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
