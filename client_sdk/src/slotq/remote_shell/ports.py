"""Ports to forward from a job to this machine, which listens on 127.0.0.1 alone."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from slotq.errors import NoShell

LOOPBACK = "127.0.0.1"
HIGHEST = 65535
_FORM = re.compile(r"([0-9]{1,5})(?::([0-9]{1,5}))?", re.ASCII)
_PRIVILEGED = 1024


@dataclass(frozen=True, kw_only=True)
class Forward:
    """A port of the job, and the port of this machine that leads to it."""

    port: int
    local: int | None = None
    """None: the same number if it is free, else any free one."""


def parsed(text: str) -> Forward:
    """The forward that PORT or PORT:LOCAL names. Raises ValueError with what would be right."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not PORT or PORT:LOCAL, such as 8888 or 8888:9999")
    port, local = (None if number is None else int(number) for number in found.groups())
    for number in (port, local):
        if number is not None and not 1 <= number <= HIGHEST:
            raise ValueError(f"'{text}': a port is a number from 1 to {HIGHEST}, not {number}")
    assert port is not None
    return Forward(port=port, local=local)


def check_distinct(forwards: Sequence[Forward]) -> None:
    """Raises ValueError if two forwards are the same, or want the same port of this machine."""
    for number, forward in enumerate(forwards):
        before = forwards[:number]
        if forward in before:
            raise ValueError(f"port {forward.port} is given twice")
        if forward.local is not None and forward.local in {other.local for other in before}:
            raise ValueError(f"two forwards want port {forward.local} of this machine")


def forward_line(name: str, port: int, local: int) -> str:
    """The line for a forwarded port of job `name`."""
    return f"{LOOPBACK}:{local} -> {name}:{port}"


@contextmanager
def listening(
    forwards: Sequence[Forward], *, shared: bool = False
) -> Iterator[list[socket.socket]]:
    """A socket for each forward that listens on 127.0.0.1; closes them in the end.

    `shared`: the job's ports are this machine's, as in the emulator, so none with the job's number
    is taken. Raises NoShell if a wanted port cannot be had.
    """
    with ExitStack() as stack:
        found = {}
        for wanted in sorted(forwards, key=lambda forward: forward.local is None):
            found[wanted] = stack.enter_context(_socket(wanted, shared=shared))
        yield [found[forward] for forward in forwards]


def _socket(forward: Forward, *, shared: bool) -> socket.socket:
    if forward.local is None:
        return _any_free(forward, shared=shared)
    if shared and forward.local == forward.port:
        raise NoShell(
            f"a job of the emulator has this machine's ports, so {forward.port} is the job's own: "
            f"name another, such as --forward {forward.port}:{_other(forward.port)}"
        )
    try:
        return _bound(forward.local)
    except OSError as error:
        raise NoShell(_refused(forward, error)) from None


def _any_free(forward: Forward, *, shared: bool) -> socket.socket:
    if not shared:
        try:
            return _bound(forward.port)
        except OSError:
            pass  # In use, or for the superuser: another will do.
    while True:
        found = _bound(0)
        if found.getsockname()[1] != forward.port:
            return found
        found.close()


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name != "nt":  # There it would let two programs have the port.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((LOOPBACK, port))
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def _refused(forward: Forward, error: OSError) -> str:
    local = forward.local
    assert local is not None
    instead = f"name another, such as --forward {forward.port}:{_other(local)}"
    if error.errno == errno.EADDRINUSE:
        return f"port {local} of this machine is in use: {instead}"
    if error.errno == errno.EACCES:
        return f"port {local} of this machine is for the superuser: {instead}"
    return f"this machine cannot listen on port {local} ({error}): {instead}"


def _other(port: int) -> int:
    """A port that reads like this one, for a message."""
    if port < _PRIVILEGED:
        return 8000 + port
    return port + 1 if port < HIGHEST else port - 1
