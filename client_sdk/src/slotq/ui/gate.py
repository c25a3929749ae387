"""Who may ask the page's server.

Three kinds of strangers reach a port on loopback: web pages that the user has open (drive-by
requests), web pages whose host name resolves to 127.0.0.1 (DNS rebinding), and other users of the
machine. Host and Origin keep out the first two; the token keeps out all three. The token travels in
the fragment of the first address, which no browser sends to a server, and then in a header, which
no foreign page can set. It is never a cookie: a browser sends those to every port of the host.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

_FOREIGN = frozenset({"cross-site", "same-site"})
_SCHEME = "Bearer "
_HTTP = 80
"""The port that a browser leaves out."""


class Kept(Exception):
    """A refused request. `status` is 401 or 403; the message says what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Gate:
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """The address of the page, without the token."""
        return f"http://127.0.0.1:{self.port}"

    def link(self, path: str = "/") -> str:
        """The address that opens a view, with the token."""
        return f"{self.address}{path}#token={self.token}"

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Check that the request means this server. Raises Kept."""
        host = headers.get("Host", "")
        if host not in self._hosts:
            raise Kept(403, f"this server does not answer to that host: open {self.address}/")
        origin = headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            raise Kept(403, "this server does not answer pages of another origin")

    def check_call(self, headers: Mapping[str, str]) -> None:
        """Check a call of the API, beside `check_host`. Raises Kept."""
        if headers.get("Sec-Fetch-Site", "same-origin") in _FOREIGN:
            raise Kept(403, "this server does not answer pages of another origin")
        said = headers.get("Authorization", "")
        if not secrets.compare_digest(said.encode(), f"{_SCHEME}{self.token}".encode()):
            raise Kept(401, "this page is of an earlier `slotq ui`: run it again")

    @property
    def _hosts(self) -> set[str]:
        names = {"127.0.0.1", "localhost"}
        bare = names if self.port == _HTTP else set()
        return bare | {f"{name}:{self.port}" for name in names}
