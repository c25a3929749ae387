"""What there is below HTTP: names and connections."""

from __future__ import annotations

import socket
from typing import Protocol

CONNECT_SECONDS = 5.0


class Network(Protocol):
    """Who answers for names and ports."""

    def resolve(self, host: str) -> list[str]:
        """Its addresses. Raises OSError."""

    def connect(self, host: str, port: int) -> None:
        """Opens a connection and closes it. Raises OSError."""


class Sockets:
    """This machine's own network."""

    def resolve(self, host: str) -> list[str]:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[4][0]) for address in found))

    def connect(self, host: str, port: int) -> None:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
