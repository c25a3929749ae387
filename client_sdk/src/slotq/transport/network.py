"""The network below HTTP: host names and connections."""

from __future__ import annotations

import socket
from typing import Protocol

CONNECT_SECONDS = 5.0


class Network(Protocol):
    """Resolves host names and opens connections."""

    def resolve(self, host: str) -> list[str]:
        """The host's addresses. Raises OSError."""

    def connect(self, host: str, port: int) -> None:
        """Open a connection and close it. Raises OSError."""


class Sockets:
    """The network of this machine."""

    def resolve(self, host: str) -> list[str]:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[4][0]) for address in found))

    def connect(self, host: str, port: int) -> None:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
