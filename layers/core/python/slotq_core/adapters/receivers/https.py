"""One POST to a URL that somebody has configured, from within AWS's network.

The host's addresses are looked up once and judged, and the connection goes to the address that was
judged: a name cannot lead elsewhere a moment later. No redirect is followed, no proxy is asked, no
answer is read beyond its status, and everything together, the look-up too, takes DEADLINE at most.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, urlsplit

from slotq_core.errors import NotDelivered
from slotq_core.notices.places import is_loopback, is_public

TIMEOUT = 5.0
"""Seconds for a connection, and for each part of an answer."""
DEADLINE = 10.0
"""Seconds for everything, from the look-up of the name on."""

_TOO_LONG = "it takes too long"

Resolve = Callable[[str, int], list[str]]


def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    loopback: bool = False,
    resolve: Resolve = addresses_of,
    context: ssl.SSLContext | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Send the body as JSON. Raises NotDelivered unless the answer is 2xx. `loopback`: whether the
    machine may call itself by http, which only the emulator may. `context`: how certificates are
    checked; default: by the system's authorities. `clock`: seconds."""
    until = clock() + DEADLINE

    def left() -> float:
        return until - clock()

    parts = urlsplit(url)
    looked_up = _within(left, resolve)
    connection = _connection(parts, loopback=loopback, resolve=looked_up, context=context)
    connection.left = left
    timer = threading.Timer(max(0.0, left()), _cut_off, [connection])
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
        raise NotDelivered(_TOO_LONG)
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
        self.left: Callable[[], float] = lambda: DEADLINE
        """The seconds left until DEADLINE."""

    def connect(self) -> None:
        if self.left() <= 0:
            raise TimeoutError
        self.sock = socket.create_connection((self.address, self.port), min(TIMEOUT, self.left()))
        self.sock.settimeout(TIMEOUT)


class _Encrypted(_Plain):
    default_port = 443

    def __init__(self, parts: SplitResult, address: str, context: ssl.SSLContext) -> None:
        super().__init__(parts, address)
        self._checks = context

    def connect(self) -> None:
        super().connect()
        # Apart from the handshake, which would else have no socket that could be cut off.
        encrypted = self._checks.wrap_socket(
            self.sock, server_hostname=self.host, do_handshake_on_connect=False
        )
        self.sock = encrypted
        encrypted.do_handshake()


def _within(left: Callable[[], float], resolve: Resolve) -> Resolve:
    """Look a name up within the remaining time. A look-up cannot be interrupted, so a slow one is
    abandoned in its thread. Raises NotDelivered."""

    def looked_up(host: str, port: int) -> list[str]:
        found: list[list[str]] = []
        failed: list[Exception] = []

        def look() -> None:
            try:
                found.append(resolve(host, port))
            except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
                failed.append(error)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        thread.join(max(0.0, left()))
        if failed:
            raise failed[0]
        if not found or left() <= 0:
            raise NotDelivered(f"the look-up of its host: {_TOO_LONG}")
        return found[0]

    return looked_up


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
