"""Ports for a job's processes. Every host of every job is this machine, where SageMaker's hosts
have addresses of their own."""

from __future__ import annotations

import socket
from contextlib import ExitStack

_NAMES = ("MASTER_PORT", "SLOTQ_PORT")


def own_ports() -> dict[str, str]:
    """A free port for each environment variable that names one."""
    with ExitStack() as open_:
        sockets = {name: open_.enter_context(socket.socket()) for name in _NAMES}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        return {name: str(each.getsockname()[1]) for name, each in sockets.items()}
