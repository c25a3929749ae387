"""The emulator's entrance: decides who may call, and who answers.

The `guard` first refuses requests from web pages and requests under a foreign name. Then:

/_slotq/…, /moto-api…           the controls, from this machine only and with the token (`keys`)
the queue's API                 the Lambda's handler, behind API Gateway (`gateway`)

Everything else must be signed (`authenticating`):

SageMaker's training calls      our own plane (`training_service`)
DynamoDB's on the queue's table our own DynamoDB (`dynamodb`)
Lambda's Invoke, asynchronous   the invocations (`invocations`)
the other services              moto (`error_answers`)
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import queue
import re
import socket
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer

from slotq.local.entry.authenticating import MAX_CALL, authenticate, kept_body
from slotq.local.entry.guard import Guard, GuardRefusal, without_grants
from slotq.local.entry.signatures import FindCaller, SignatureRefused
from slotq.local.keys import TOKEN_HEADER
from slotq.local.services import aws, training_service
from slotq.local.services.dynamodb import InMemoryDynamo
from slotq.local.services.error_answers import Said, moto_answer, refusal, refused_member
from slotq.local.services.gateway import Environ, Gateway, GatewayAnswer, is_ours, read_body
from slotq.local.services.invocations import FUNCTION, Invocations
from slotq.local.training.plan_documents import read_plans
from slotq.local.training.plane import Plane
from slotq.local.training.request_check import NoAnswer
from slotq_core.adapters.deployment_settings import SystemClock

CONTROL = "/_slotq/"
_MOTO_CONTROL = "/moto-api"
_TOKEN = f"HTTP_{TOKEN_HEADER.upper().replace('-', '_')}"
_INVOKE = re.compile(r"/2015-03-31/functions/(?P<name>[^/]+)/invocations/?")
_JSON = ("Content-Type", "application/json")
_FORBIDDEN = "403 Forbidden"
_CLOSE = ("Connection", "close")
"""Closes the connection: the body of a refused request may still be on the way."""

StartResponse = Callable[..., Any]


class Front:
    """A WSGI application."""

    def __init__(
        self,
        *,
        guard: Guard,
        find_caller: FindCaller,
        token: str,
        plane: Plane,
        dynamo: InMemoryDynamo,
        gateway: Gateway,
        invocations: Invocations,
        others: Any,
        poke: Callable[[], None],
        health: Callable[[], dict[str, Any]],
        tick: Callable[[], None],
    ) -> None:
        """`poke` is called when the plane may have a new change due."""
        self._guard, self._find_caller, self._token = guard, find_caller, token
        self._plane, self._dynamo = plane, dynamo
        self._gateway, self._invocations = gateway, invocations
        self._others, self._poke, self._health, self._tick = others, poke, health, tick

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start = without_grants(start_response)
        try:
            said = self._answer(environ)
        except NoAnswer:
            _hang_up(environ)
            said = "500 Internal Server Error", [], b""
        except (GatewayAnswer, SignatureRefused, GuardRefusal) as no:
            status, headers, body = _no(environ, no)
            said = status, [*headers, _CLOSE], body
        if said is None:
            return moto_answer(self._others, environ, start)
        status, headers, body = said
        if not status.startswith("304"):
            headers = [*headers, ("Content-Length", str(len(body)))]
        start(status, headers)
        return [body]

    def _answer(self, environ: Environ) -> Said | None:
        """Answer a request, or return None for moto. The body of a request for moto stays
        readable."""
        self._guard.check(environ)
        path = environ.get("PATH_INFO", "")
        if path.startswith((CONTROL, _MOTO_CONTROL)):
            self._check_controller(environ)
            own = path.startswith(CONTROL)
            return self._control(environ, path.removeprefix(CONTROL)) if own else None
        if is_ours(environ):
            return self._gateway.answer(environ)
        authenticate(environ, self._find_caller, datetime.now(UTC))
        if training_service.is_sagemaker(environ):
            return self._sagemaker(environ)
        if "/dynamodb/aws4_request" in environ.get("HTTP_AUTHORIZATION", ""):
            return aws.table_answer(self._dynamo, environ, kept_body(environ, MAX_CALL))
        if invoked := _INVOKE.fullmatch(path):
            return self._invoke(environ, invoked["name"])
        if "/iam/aws4_request" in environ.get("HTTP_AUTHORIZATION", ""):
            policy = aws.simulated_policy(kept_body(environ, MAX_CALL))
            return None if policy is None else ("200 OK", [("Content-Type", "text/xml")], policy)
        return refused_member(environ)

    def _sagemaker(self, environ: Environ) -> Said | None:
        body = kept_body(environ, MAX_CALL)
        operation = training_service.operation_of(environ, body)
        if operation is None:
            return None
        try:
            return training_service.answer(self._plane, operation, body)
        finally:
            self._poke()

    def _invoke(self, environ: Environ, name: str) -> Said | None:
        body = kept_body(environ, MAX_CALL)
        if name.rpartition(":")[2] != FUNCTION:
            return None
        if environ.get("HTTP_X_AMZ_INVOCATION_TYPE") != "Event":
            raise GatewayAnswer(
                "400 Bad Request", "the emulator invokes asynchronously only (Event)"
            )
        self._invocations.send(_object(body))
        return "202 Accepted", [], b""

    def _check_controller(self, environ: Environ) -> None:
        if not _is_here(environ["REMOTE_ADDR"]):
            raise GatewayAnswer(_FORBIDDEN, "the controls answer only this machine")
        if not hmac.compare_digest(environ.get(_TOKEN, "").encode(), self._token.encode()):
            raise GatewayAnswer(
                _FORBIDDEN,
                f"the controls require the header {TOKEN_HEADER}: $SLOTQ_LOCAL_TOKEN, after "
                'eval "$(slotq local env)"',
            )

    def _control(self, environ: Environ, what: str) -> Said:
        knobs = self._plane.knobs
        match environ["REQUEST_METHOD"], what:
            case "GET", "health":
                return _json(self._health())
            case "GET", "knobs":
                return _json(knobs.view())
            case "POST", "knobs":
                try:
                    knobs.turn(_object(read_body(environ, MAX_CALL)))
                except ValueError as error:
                    raise GatewayAnswer("400 Bad Request", str(error)) from None
                self._poke()
                return _json(knobs.view())
            case "GET", "plans":
                return _json({"plans": self._plane.plans()})
            case "POST", "plans":
                return self._set_plans(_object(read_body(environ, MAX_CALL)))
            case "POST", "tick":
                self._tick()
                return _json(self._health())
        raise GatewayAnswer(
            "404 Not Found",
            "unknown control; use GET /_slotq/health, GET or POST /_slotq/knobs, GET or POST "
            "/_slotq/plans, or POST /_slotq/tick",
        )

    def _set_plans(self, document: dict[str, Any]) -> Said:
        try:
            self._plane.set_plans(read_plans(document, now=SystemClock().now()))
        except ValueError as error:
            raise GatewayAnswer("400 Bad Request", str(error)) from None
        self._poke()
        return _json({"plans": self._plane.plans()})


def _is_here(caller: str) -> bool:
    """Whether a caller's address is one of this machine's own: `::ffff:127.0.0.1` is how a socket
    that listens on `::` names 127.0.0.1."""
    address = ipaddress.ip_address(caller)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _no(environ: Environ, no: Exception) -> Said:
    """The refusal, in the caller's protocol."""
    if isinstance(no, GatewayAnswer):
        return no.status, no.headers, no.body
    kind = no.kind if isinstance(no, SignatureRefused) else "AccessDeniedException"
    return refusal(environ, _FORBIDDEN, kind, str(no))


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise GatewayAnswer("400 Bad Request", "send a JSON object")
    return value


def _json(value: dict[str, Any]) -> Said:
    return "200 OK", [_JSON], json.dumps(value, default=str).encode() + b"\n"


def _hang_up(environ: Environ) -> None:
    """Cut the connection without an answer."""
    with contextlib.suppress(OSError, KeyError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


class _QuietHandler(MotoRequestHandler):
    def log_request(self, *_: Any) -> None:
        pass

    def run_wsgi(self) -> None:
        """Answer also an unreadable address: moto's handler would not answer."""
        try:
            urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "the request's address cannot be read")
            return
        super().run_wsgi()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.request_version = self.protocol_version  # Else no head is sent to what names none.
        super().send_error(code, message, explain)


class Server(ThreadedWSGIServer):
    """An HTTP server whose threads serve one connection after another: to start a thread costs a
    third of a small request."""

    block_on_close = False
    _MOST_IDLE = 32

    def __init__(self, host: str, port: int, app: Front, *, fd: int) -> None:
        super().__init__(host, port, app, handler=_QuietHandler, fd=fd)
        self._connections: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self._idle = 0
        self._counting = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to an idle thread, or to a new one: a caller may wait for another."""
        with self._counting:
            is_idle = self._idle > 0
            self._idle -= is_idle
        self._connections.put((request, client_address))
        if not is_idle:
            threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            self.process_request_thread(*self._connections.get())
            with self._counting:
                if self._idle == self._MOST_IDLE:
                    return
                self._idle += 1
