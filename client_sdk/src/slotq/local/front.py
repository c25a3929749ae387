"""The one door of the emulator: who answers a request.

/_slotq/…                       the emulator's own controls, from this machine only
the queue's API                 the Lambda's handler, behind API Gateway (`gateway`)
SageMaker's training calls      our own plane (`sagemaker_http`)
Lambda's Invoke, asynchronous   the invocations (`invocations`)
everything else                 moto
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import json
import re
import socket
from collections.abc import Callable, Iterable
from typing import Any

from slotq.local import aws, sagemaker_http
from slotq.local.errors import NoAnswer
from slotq.local.gateway import Answer, Environ, Gateway, is_ours, read_body
from slotq.local.invocations import FUNCTION, Invocations
from slotq.local.plane import Plane

CONTROL = "/_slotq/"
_INVOKE = re.compile(r"/2015-03-31/functions/(?P<name>[^/]+)/invocations/?")
_MAX_CALL = 20_000_000
_JSON = ("Content-Type", "application/json")

StartResponse = Callable[..., Any]
Said = tuple[str, list[tuple[str, str]], bytes]


class Front:
    """A WSGI application."""

    def __init__(
        self,
        *,
        plane: Plane,
        gateway: Gateway,
        invocations: Invocations,
        others: Any,
        poke: Callable[[], None],
        health: Callable[[], dict[str, Any]],
        tick: Callable[[], None],
    ) -> None:
        """`poke` is called when the plane may have something new due."""
        self._plane, self._gateway, self._invocations = plane, gateway, invocations
        self._others, self._poke, self._health, self._tick = others, poke, health, tick

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            said = self._answer(environ)
        except Answer as own:
            said = own.status, [*own.headers, ("Connection", "close")], own.body
        except NoAnswer:
            _hang_up(environ)
            said = "500 Internal Server Error", [], b""
        if said is None:
            answered: Iterable[bytes] = self._others(environ, start_response)
            return answered
        status, headers, body = said
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _answer(self, environ: Environ) -> Said | None:
        """None: it is moto's. The body has then not been touched, or is put back."""
        path = environ.get("PATH_INFO", "")
        if path.startswith(CONTROL):
            return self._control(environ, path.removeprefix(CONTROL))
        if is_ours(environ):
            return self._gateway.answer(environ)
        if sagemaker_http.is_sagemaker(environ):
            return self._sagemaker(environ)
        if invoked := _INVOKE.fullmatch(path):
            return self._invoke(environ, invoked["name"])
        if "/iam/aws4_request" in environ.get("HTTP_AUTHORIZATION", ""):
            policy = aws.simulated_policy(_kept_body(environ))
            return None if policy is None else ("200 OK", [("Content-Type", "text/xml")], policy)
        return None

    def _sagemaker(self, environ: Environ) -> Said | None:
        body = _kept_body(environ)
        operation = sagemaker_http.operation_of(environ, body)
        if operation is None:
            return None
        try:
            return sagemaker_http.answer(self._plane, operation, body)
        finally:
            self._poke()

    def _invoke(self, environ: Environ, name: str) -> Said | None:
        body = _kept_body(environ)
        if name.rpartition(":")[2] != FUNCTION:
            return None
        if environ.get("HTTP_X_AMZ_INVOCATION_TYPE") != "Event":
            raise Answer("400 Bad Request", "the emulator invokes asynchronously only (Event)")
        self._invocations.send(_object(body))
        return "202 Accepted", [], b""

    def _control(self, environ: Environ, what: str) -> Said:
        caller = environ.get("REMOTE_ADDR", "0.0.0.0")  # a caller; nothing is bound # nosec B104
        if not ipaddress.ip_address(caller).is_loopback:
            raise Answer("403 Forbidden", "the controls answer this machine only")
        knobs = self._plane.knobs
        match environ["REQUEST_METHOD"], what:
            case "GET", "health":
                return _json(self._health())
            case "GET", "knobs":
                return _json(knobs.view())
            case "POST", "knobs":
                try:
                    knobs.turn(_object(read_body(environ, _MAX_CALL)))
                except ValueError as error:
                    raise Answer("400 Bad Request", str(error)) from None
                self._poke()
                return _json(knobs.view())
            case "POST", "tick":
                self._tick()
                return _json(self._health())
        raise Answer(
            "404 Not Found",
            "there is GET /_slotq/health, GET and POST /_slotq/knobs, POST /_slotq/tick",
        )


def _kept_body(environ: Environ) -> bytes:
    """The body, which whoever comes next can read again."""
    body = read_body(environ, _MAX_CALL)
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    return body


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Answer("400 Bad Request", "send a JSON object")
    return value


def _json(value: dict[str, Any]) -> Said:
    return "200 OK", [_JSON], json.dumps(value).encode() + b"\n"


def _hang_up(environ: Environ) -> None:
    """Cut the connection: the caller learns nothing."""
    with contextlib.suppress(OSError, KeyError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
