"""A web server on this machine that keeps what it gets and answers as told."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Got:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    url: str = ""
    got: list[Got] = field(default_factory=list)
    status: int = 204
    location: str = ""
    drips: bool = False
    """Whether an answer comes a byte at a time, without end."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Web]:
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            web.got.append(Got(self.path, dict(self.headers.items()), body))
            if web.drips:
                self._drip()
                return
            self.send_response(web.status)
            if web.location:
                self.send_header("Location", web.location)
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def _drip(self) -> None:
            try:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while web.drips:
                    self.wfile.write(b"x")
                    self.wfile.flush()
                    time.sleep(0.05)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    web.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield web
    finally:
        web.drips = False
        server.shutdown()
        server.server_close()
        thread.join()
