"""Where a job's processes listen: the ports of one instance, by Linux's /proc."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from slotq.local.job_shell import processes

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
    """The loopback address that reaches a socket bound to an address in the kernel's form; empty
    if there is none."""
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
    for each in descriptors:
        try:
            kind, _, rest = str(each.readlink()).partition(":[")
        except OSError:
            continue
        if kind == "socket":
            yield rest.rstrip("]")
