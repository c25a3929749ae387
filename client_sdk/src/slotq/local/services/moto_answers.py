"""Returns moto's answers in the caller's protocol, including errors that moto returns as HTML.

Otherwise an operation that moto lacks returns an HTML page with status 500, and SDKs retry it as a
service fault.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

from slotq.local.entry.authenticating import MAX_CALL, kept_body
from slotq.local.entry.error_answers import Said, refusal, service_of
from slotq.local.services.gateway import Environ

_LACKS, _FAILED = "400 Bad Request", "500 Internal Server Error"
_FORM = "application/x-www-form-urlencoded"
_PAGE = b"<!doctype html"


def answer(application: Any, environ: Environ, start_response: Any) -> Iterable[bytes]:
    heard: list[Any] = []
    operation = _operation(environ)
    try:
        body = application(environ, lambda *said: heard.append(said))
    except NotImplementedError:
        return _lacks(environ, operation, start_response)
    except Exception:  # noqa: BLE001 - a fault of moto's; the asker gets an answer anyway
        traceback.print_exc()
        return _said(start_response, refusal(environ, _FAILED, *_failure(operation)))
    if int(heard[-1][0].split()[0]) >= 400:
        body = [b"".join(body)]
        if body[0][: len(_PAGE)].lower() == _PAGE:
            return _lacks(environ, operation, start_response)
    start_response(*heard[-1])
    answered: Iterable[bytes] = body
    return answered


def _operation(environ: Environ) -> str:
    """The operation as the caller names it: `CreateModel`, or the method and the path."""
    if target := environ.get("HTTP_X_AMZ_TARGET"):
        return str(target).rpartition(".")[2]
    if environ.get("CONTENT_TYPE", "").startswith(_FORM) and service_of(environ) != "s3":
        asked = parse_qs(kept_body(environ, MAX_CALL).decode(errors="replace"))
        if named := asked.get("Action"):
            return named[0]
    return f"{environ['REQUEST_METHOD']} {environ.get('PATH_INFO', '')}"


def _lacks(environ: Environ, operation: str, start_response: Any) -> Iterable[bytes]:
    message = f"the emulator has no {operation} of {service_of(environ)}"
    return _said(start_response, refusal(environ, _LACKS, "UnknownOperationException", message))


def _failure(operation: str) -> tuple[str, str]:
    return "InternalFailure", f"the emulator failed in {operation}; see emulator.log"


def _said(start_response: Any, said: Said) -> Iterable[bytes]:
    status, headers, body = said
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]
