"""The network below HTTP: host names and connections."""

from __future__ import annotations

import re
import socket
from typing import Protocol

CONNECT_SECONDS = 5.0
RELAYED = ("AWS_ENDPOINT_URL_SAGEMAKER", "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS")
"""The variables by which `slotq exec` leads AWS SDKs to its address of this machine."""

_API = re.compile(r"(?P<id>[a-z0-9]+)\.execute-api\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")
_NO_SUCH_NAME = {
    getattr(socket, name, None) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
}


def api_in(host: str) -> str:
    """The id and region of the API whose own host this is, for a message; empty for another."""
    found = _API.fullmatch(host)
    return f"the API's id '{found['id']}' and the region '{found['region']}'" if found else ""


def unresolved(failure: BaseException | None) -> socket.gaierror | None:
    """The failed look-up of a host's name behind this failure; None if that did not fail."""
    seen = failure
    while seen is not None and not isinstance(seen, socket.gaierror):
        seen = seen.__cause__ or seen.__context__
    return seen


def name_advice(host: str, failure: OSError | None = None) -> str:
    """What to check where this machine finds no address for the host."""
    if failure is not None and failure.errno is not None and failure.errno not in _NO_SUCH_NAME:
        return "The name server does not answer: is this machine online?"
    api = api_in(host)
    if not api and "execute-api" not in host:
        return "Check the spelling. If it is right, the name may be known only inside its VPC."
    return (
        f"Check {api or 'the name'}: a misspelt one has no address. If they are right, the API is "
        "private and its name is known only inside its VPC: connect to the VPC, or use the VPC "
        "endpoint's own name (vpce-….execute-api.…) and set api_id."
    )


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
