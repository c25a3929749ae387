"""The real handler behind HTTP, as API Gateway would have it, for a client that means no good.

Signatures are left out: who has none does not come so far. What stands behind is one account of
this process, with passes and training events in between.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from slotq.local.endpoint import Endpoint
from slotq.local.entry.signatures import Caller, CoveredRequest
from slotq.local.keys import EmulatorKeys
from slotq.local.services.gateway import Gateway, GatewayAnswer, _as_http, headers_of, read_body
from slotq_core.api.openapi import document
from slotq_core.wire.base import ErrorView
from tests.attack.worlds import renewed
from tests.functional.account import Account, add_job

SCHEMA = "/openapi.json"
MOST_JOBS = 100
"""After this many jobs the account starts anew, because long lists are not the subject here."""
SETTLES_EVERY = 25
CALLER = Caller(
    arn="arn:aws:sts::123456789012:assumed-role/DataScientist/ada",
    access_key="testing",
    secret_key="testing",
)


class ApiServer:
    """A WSGI application that counts its answers and what no client may ever see."""

    def __init__(self, account: Account, *, renews: bool) -> None:
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []
        self._account, self._renews = account, renews
        self._gateway = Gateway(
            endpoint=Endpoint(url="http://127.0.0.1", keys=EmulatorKeys.made()),
            find_caller=lambda _: CALLER,
            call=self._call,
        )
        self._furnish()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterator[bytes]:
        if environ["PATH_INFO"] == SCHEMA:
            return self._send(start, "200 OK", [("Content-Type", "application/json")], described())
        try:
            status, headers, body = _as_http(self._call(self._event(environ), 29.0))
        except GatewayAnswer as own:
            status, headers, body = own.status, own.headers, own.body
        self._judge(environ, int(status.split()[0]), body)
        return self._send(start, status, headers, body)

    def _send(
        self, start: Callable[..., Any], status: str, headers: list[tuple[str, str]], body: bytes
    ) -> Iterator[bytes]:
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return iter([body])

    def _event(self, environ: dict[str, Any]) -> dict[str, Any]:
        headers = headers_of(environ)
        request = CoveredRequest(
            method=environ["REQUEST_METHOD"],
            uri=environ.get("REQUEST_URI") or environ["PATH_INFO"],
            headers={name.lower(): ",".join(values) for name, values in headers.items()},
            body=read_body(environ, 10_000_000),
        )
        return self._gateway._event(request, headers, CALLER, "request-1", "127.0.0.1")

    def _call(self, event: dict[str, Any], _: float) -> Any:
        total = self.statuses.total()
        if self._renews and total % 100 == 0 and len(self._account.items()) > 3 * MOST_JOBS:
            renewed(self._account)
            self._furnish()
        if total % SETTLES_EVERY == 0:
            self._account.settle()
            self._account.send("tick")
        return self._account.send(event)

    def _furnish(self) -> None:
        for name in ("job1", "job2", "job3"):
            self._account.call(add_job(TrainingJobName=name))

    def _judge(self, environ: dict[str, Any], status: int, body: bytes) -> None:
        """Check what holds for every answer, whatever schemathesis checks."""
        self.statuses[status] += 1
        asked = f"{environ['REQUEST_METHOD']} {environ.get('REQUEST_URI', '')[:200]}"
        if status >= 500:
            self.wrong.append(f"{asked}: {status} {body[:300]!r}")
        if 400 <= status < 500 and not ErrorView.model_validate_json(body).message:
            self.wrong.append(f"{asked}: {status} without a message")


def described() -> bytes:
    """docs/openapi.json, which a test compares with the code, without the signature."""
    description = document()
    del description["security"], description["components"]["securitySchemes"]
    return json.dumps(description).encode()


class _Quiet(WSGIRequestHandler):
    def log_request(self, *_: Any) -> None:
        pass


@contextmanager
def open_to(api: ApiServer) -> Iterator[str]:
    """The address of the API, served during the context."""
    server = make_server("127.0.0.1", 0, api, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
