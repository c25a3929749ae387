"""The HTTP server of the page. Loopback only.

Its files, the queue's API below /api, and below /own what the API does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from slotq.ui.built_page import BuiltPage
from slotq.ui.gate import Gate, Kept
from slotq.ui.logs import Logs
from slotq.ui.own_calls import OwnCalls
from slotq.ui.relay import LONGEST_BODY, METHODS, PageRelay, Reply, refusal

HEADERS = {
    # No inline script or style, no foreign source: what a user has written can only be text.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_API = "/api"
_LOGS = "/own/logs/"
_STALLED = 30
"""Seconds without a byte after which a connection is closed."""


_LONGEST_SAID = 200
"""Characters of a malformed request that its answer quotes at most."""


def _length(said: Sequence[str]) -> int | None:
    """Return the length that the headers give; None: they contradict each other, or give none of a
    body that anybody would send."""
    (length, *others) = {value.strip() for value in said}
    sound = not others and length.isascii() and length.isdecimal() and len(length) < 20
    return int(length) if sound else None


class PageServer(ThreadingHTTPServer):
    """Serves one page for one queue. `serve_forever` runs it; `gate.link` is its address."""

    daemon_threads = True

    def __init__(
        self, *, port: int, page: BuiltPage, relay: PageRelay, logs: Logs, own: OwnCalls
    ) -> None:
        """Port 0: any free port. Raises OSError: the port is taken."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.gate = Gate(port=self.server_port)
        self.page = page
        self.relay = relay
        self.logs = logs
        self.own = own

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has left before its answer: people change views."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "slotq", ""
    timeout = _STALLED

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as http.server wants them

    def _answer(self) -> None:
        headers = {name.title(): value for name, value in self.headers.items()}
        try:
            self.server.gate.check_host(headers)
            if self._calls_the_queue():
                self.server.gate.check_call(headers)
                self._send_reply(self._passed_on(), lasting=False)
            elif self.command == "GET" and self.path.startswith(_LOGS):
                self.server.gate.check_call(headers)
                self._send_reply(self.server.logs.answer(self.path[len(_LOGS) :]))
            elif self.command == "POST" and (answer := self.server.own.at(self.path)):
                self.server.gate.check_call(headers)
                self._send_reply(self._with_body(answer))
            else:
                self._send_file()
        except Kept as error:
            self.close_connection = True
            self._send_reply(refusal(error.status, "refused", str(error)), lasting=False)
        except TimeoutError:
            self.send_error(HTTPStatus.REQUEST_TIMEOUT, "the rest of the request did not come")
        except ConnectionError:
            raise
        except Exception:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "`slotq ui` met a bug")
            raise

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what cannot be taken for a request in the API's form, and close the connection."""
        self.close_connection = True
        self.request_version = self.protocol_version  # Else no head is sent to what names none.
        said = message or HTTPStatus(code).phrase
        self._send_reply(refusal(int(code), "malformed", said[:_LONGEST_SAID]))

    def _calls_the_queue(self) -> bool:
        return self.path == _API or self.path.startswith(_API + "/")

    def _passed_on(self) -> Reply:
        target = self.path[len(_API) :]
        known = self.headers.get("If-None-Match", "") if self.command == "GET" else ""
        return self._with_body(
            lambda body: self.server.relay.pass_on(self.command, target, body or None, known)
        )

    def _with_body(self, answer: Callable[[bytes], Reply]) -> Reply:
        """The answer to the request's body, which is empty or JSON."""
        body = b""
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            return refusal(411, "length_required", "the request needs a Content-Length")
        length = _length(self.headers.get_all("Content-Length", ["0"]))
        if length is None or length > LONGEST_BODY:
            self.close_connection = True
            return refusal(413, "too_long", f"a request has at most {LONGEST_BODY:,} bytes")
        if length:
            if self.headers.get_content_type() != "application/json":
                self.close_connection = True
                return refusal(415, "not_json", "the request must be JSON")
            body = self.rfile.read(length)
            if len(body) < length:
                self.close_connection = True
                return refusal(400, "malformed", f"{len(body)} of {length} bytes came")
        return answer(body)

    def _send_file(self) -> None:
        if self.command != "GET":
            self.close_connection = True
            self._send_reply(refusal(405, "wrong_method", f"{self.command} has no meaning here"))
            return
        file = self.server.page.at(self.path.partition("?")[0].partition("#")[0])
        if file is None:
            self._send_reply(refusal(404, "not_found", "the page has no such file"))
            return
        self._send(200, file.content, file.kind, lasting=file.lasting)

    def _send_reply(self, reply: Reply, *, lasting: bool = False) -> None:
        kind = "application/json"
        self._send(reply.status, reply.body, kind, lasting=lasting, tag=reply.tag)

    def _send(
        self, status: int, content: bytes, kind: str, *, lasting: bool, tag: str = ""
    ) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
        if tag:
            self.send_header("ETag", tag)
        self.send_header(
            "Cache-Control", "private, max-age=31536000, immutable" if lasting else "no-store"
        )
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: addresses are of no interest, and a terminal below the page is read."""


assert set(METHODS) == {name[3:] for name in dir(_Handler) if name.startswith("do_")}
