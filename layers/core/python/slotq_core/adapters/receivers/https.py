"""One POST to a URL that somebody has configured, from within AWS's network.

The host's addresses are looked up once and judged, and the connection goes to the address that was
judged: a name cannot lead elsewhere a moment later. No redirect is followed, no proxy is asked, no
answer is read beyond its status, and everything together takes DEADLINE at most.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, urlsplit

from slotq_core.errors import NotDelivered
from slotq_core.notices.places import is_loopback, is_public

TIMEOUT = 5.0
"""Seconds for a connection, and for each part of an answer."""
DEADLINE = 10.0
"""Seconds for everything after the look-up of the name."""

Resolve = Callable[[str, int], list[str]]


def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    loopback: bool = False,
    resolve: Resolve = addresses_of,
    context: ssl.SSLContext | None = None,
) -> None:
    """Send the body as JSON. Raises NotDelivered unless the answer is 2xx. `loopback`: whether the
    machine may call itself by http, which only the emulator may. `context`: how certificates are
    checked; default: by the system's authorities."""
    connection = _connection(urlsplit(url), loopback=loopback, resolve=resolve, context=context)
    timer = threading.Timer(DEADLINE, _cut_off, [connection])
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", urlsplit(url).path or "/", body, {**_HEADERS, **headers})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise NotDelivered(f"it cannot be reached ({type(error).__name__})") from None
    finally:
        timer.cancel()
        connection.close()
    if connection.cut_off:  # What was read of the answer may look whole.
        raise NotDelivered("it takes too long")
    if 300 <= status < 400:
        raise NotDelivered(f"it answers {status}, and redirects are not followed")
    if not 200 <= status < 300:
        raise NotDelivered(f"it answers {status}")


_HEADERS = {"Content-Type": "application/json", "User-Agent": "slotq", "Connection": "close"}


class _Plain(http.client.HTTPConnection):
    """A connection to an address that was judged; the host is only named in the request."""

    def __init__(self, parts: SplitResult, address: str) -> None:
        super().__init__(parts.hostname or "", parts.port or self.default_port, timeout=TIMEOUT)
        self.address = address
        self.cut_off = False

    def connect(self) -> None:
        self.sock = socket.create_connection((self.address, self.port), TIMEOUT)


class _Encrypted(_Plain):
    default_port = 443

    def __init__(self, parts: SplitResult, address: str, context: ssl.SSLContext) -> None:
        super().__init__(parts, address)
        self._checks = context

    def connect(self) -> None:
        super().connect()
        self.sock = self._checks.wrap_socket(self.sock, server_hostname=self.host)


def _connection(
    parts: SplitResult, *, loopback: bool, resolve: Resolve, context: ssl.SSLContext | None
) -> _Plain:
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if is_loopback(parts.geturl()):
        if not loopback:
            raise NotDelivered("it leads to this machine itself")
        return _Plain(parts, "127.0.0.1" if host == "localhost" else host)
    if parts.scheme != "https":
        raise NotDelivered("it is no https")
    try:
        found = resolve(host, port)
    except (OSError, UnicodeError):
        raise NotDelivered("its host has no address") from None
    if not found or not all(map(is_public, found)):
        raise NotDelivered("its host leads to a private or reserved address")
    return _Encrypted(parts, found[0], context or ssl.create_default_context())


def _cut_off(connection: _Plain) -> None:
    """End a connection that takes too long: an answer may come a byte at a time."""
    connection.cut_off = True
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
