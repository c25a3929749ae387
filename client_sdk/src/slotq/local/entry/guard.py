"""Keeps web pages out, before any other check of a request.

A page reaches this port from its reader's browser, with a foreign origin, or with a host name that
resolves to 127.0.0.1 (DNS rebinding). So the guard accepts only names that nobody else can
register, refuses foreign origins, and never grants an origin anything.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

EVERYWHERE = {"0.0.0.0", "::"}  # asked for by name # nosec B104
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_BUCKET = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
_AWS = re.compile(
    r"(?:"
    r"[a-z0-9]+(?:-vpce-[a-z0-9]+)?\.execute-api\.[a-z0-9-]+"
    r"|vpce-[a-z0-9-]+\.execute-api\.[a-z0-9-]+\.vpce"
    rf"|(?:{_BUCKET}\.)?s3(?:[.-][a-z0-9-]+)?"
    r")\.amazonaws\.com"
)
"""Names that only AWS can assign: of an API, of a VPC endpoint, of S3 and its buckets."""
_BUCKET_HERE = re.compile(rf"{_BUCKET}\.(?:s3\.)?localhost")
"""A bucket's name below localhost: nobody can register one."""
_FOREIGN = {"cross-site", "same-site"}
_GRANTS = "access-control-"


class GuardRefusal(Exception):
    """A refused request (403). The message says why."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    host: str
    """The address that the emulator listens on."""
    port: int
    names: Sequence[str] = ()
    """Other names of the emulator: NAME, or NAME:PORT if a port is mapped."""

    def check(self, environ: dict[str, Any]) -> None:
        """Check a request's host and origin. Raises Refused."""
        host = environ.get("HTTP_HOST", "")
        if not self.knows(host):
            raise GuardRefusal(
                f"the emulator does not answer to '{host[:200]}': use the address that `slotq "
                "local env` prints, or start the emulator with --name"
            )
        origin = environ.get("HTTP_ORIGIN", f"http://{host}")
        if origin != f"http://{host}" or environ.get("HTTP_SEC_FETCH_SITE") in _FOREIGN:
            raise GuardRefusal("the emulator does not answer pages of another origin")
        if environ["REQUEST_METHOD"] == "OPTIONS":
            raise GuardRefusal("the emulator allows no other origin (CORS)")

    def knows(self, host: str) -> bool:
        """Whether a Host header names this emulator."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.netloc != host or "@" in host or not name:
            return False
        if host.lower() in self._named:
            return True
        if _AWS.fullmatch(name):
            return port in {None, self.port}
        return (80 if port is None else port) == self.port and self._answers_to(name)

    @property
    def _named(self) -> set[str]:
        return {name.lower() for name in self.names}

    def _answers_to(self, name: str) -> bool:
        if name in self._named or name == self.host.lower():
            return True
        if self.host in EVERYWHERE:
            # A web page cannot have an address as its name.
            return name in _LOOPBACK or bool(_BUCKET_HERE.fullmatch(name)) or _is_address(name)
        local = self.host in _LOOPBACK or _is_loopback(self.host)
        return local and (name in _LOOPBACK or bool(_BUCKET_HERE.fullmatch(name)))


def without_grants(start_response: Callable[..., Any]) -> Callable[..., Any]:
    """A `start_response` that removes every CORS header."""

    def start(status: str, headers: Iterable[tuple[str, str]], *more: Any) -> Any:
        kept = [pair for pair in headers if not pair[0].lower().startswith(_GRANTS)]
        return start_response(status, [*kept, ("X-Content-Type-Options", "nosniff")], *more)

    return start


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback
