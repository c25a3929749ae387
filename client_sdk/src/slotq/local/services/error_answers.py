"""Answers in the protocol that the caller's SDK reads: errors in JSON, query XML or S3's XML.

moto's answers are its own, but for errors that it returns as HTML: an operation that moto lacks
returns a page with status 500, and SDKs retry it as a service fault.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape  # writes XML, reads none # nosec B406

from slotq.aws_members import refused_by_emulator
from slotq.local.entry.authenticating import MAX_CALL, kept_body
from slotq.local.services.gateway import Environ

Said = tuple[str, list[tuple[str, str]], bytes]

_SCOPE = re.compile(r"Credential=[^/\s]+/[^/\s]+/[^/\s]+/([^/\s]+)/aws4_request")
_OF_S3 = {
    "InvalidSignatureException": "SignatureDoesNotMatch",
    "MissingAuthenticationTokenException": "AccessDenied",
    "UnrecognizedClientException": "InvalidAccessKeyId",
    "IncompleteSignatureException": "AuthorizationHeaderMalformed",
}
_OF_QUERIES = {
    "InvalidSignatureException": "SignatureDoesNotMatch",
    "MissingAuthenticationTokenException": "MissingAuthenticationToken",
    "UnrecognizedClientException": "InvalidClientTokenId",
    "IncompleteSignatureException": "IncompleteSignature",
}


def service_of(environ: dict[str, Any]) -> str:
    """The service that a request is signed for, or else the service that the request resembles."""
    if named := _SCOPE.search(environ.get("HTTP_AUTHORIZATION", "")):
        return named[1]
    if target := environ.get("HTTP_X_AMZ_TARGET"):
        return str(target).partition(".")[0].lower()
    return "s3"


def refusal(environ: dict[str, Any], status: str, code: str, message: str) -> Said:
    """Status, headers and body of an error answer. `code` is the code of the JSON protocols."""
    if "HTTP_X_AMZ_TARGET" not in environ:
        if service_of(environ) == "s3":
            said = f"<Code>{_OF_S3.get(code, code)}</Code><Message>{escape(message)}</Message>"
            return _xml(status, f"<Error>{said}</Error>")
        if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
            code = _OF_QUERIES.get(code, code)
            said = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
            return _xml(
                status,
                f"<ErrorResponse><Error><Type>Sender</Type>{said}</Error>"
                "<RequestId>local</RequestId></ErrorResponse>",
            )
    body = json.dumps({"__type": code, "message": message}).encode()
    return status, [("Content-Type", "application/json"), ("x-amzn-ErrorType", code)], body


_LOGS = "Logs_20140328."


def refused_member(environ: dict[str, Any]) -> Said | None:
    """The refusal of a call of CloudWatch Logs with a member that moto would ignore; None: the call
    has none."""
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if not target.startswith(_LOGS):
        return None
    try:
        asked = json.loads(kept_body(environ, MAX_CALL) or b"{}")
    except ValueError:
        return None  # moto says so.
    operation = f"logs.{target.removeprefix(_LOGS)}"
    why = refused_by_emulator(operation, asked) if isinstance(asked, dict) else ""
    return refusal(environ, _LACKS, "InvalidParameterException", why) if why else None


def _xml(status: str, body: str) -> Said:
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return status, [("Content-Type", "application/xml")], (head + body).encode()


_LACKS, _FAILED = "400 Bad Request", "500 Internal Server Error"
_FORM = "application/x-www-form-urlencoded"
_PAGE = b"<!doctype html"


def moto_answer(application: Any, environ: Environ, start_response: Any) -> Iterable[bytes]:
    heard: list[Any] = []
    operation = _operation(environ)
    try:
        body = application(environ, lambda *said: heard.append(said))
    except NotImplementedError:
        return _lacks(environ, operation, start_response)
    except Exception:  # noqa: BLE001 - a fault of moto's; the asker gets an answer anyway
        traceback.print_exc()
        return _send(start_response, refusal(environ, _FAILED, *_failure(operation)))
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
    return _send(start_response, refusal(environ, _LACKS, "UnknownOperationException", message))


def _failure(operation: str) -> tuple[str, str]:
    return "InternalFailure", f"the emulator failed in {operation}; see emulator.log"


def _send(start_response: Any, said: Said) -> Iterable[bytes]:
    status, headers, body = said
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]
