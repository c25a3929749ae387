"""Who gets a container's SIGTERM. Reads Linux's /proc.

A container's first process (PID 1) alone gets SIGTERM, and the kernel drops the signal unless that
process has a handler. The training toolkit, first in a framework container, has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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
