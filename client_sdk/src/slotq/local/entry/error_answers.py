"""Error answers in the protocol that the caller's SDK reads: JSON, query XML or S3's XML."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.sax.saxutils import escape  # writes XML, reads none # nosec B406

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


def _xml(status: str, body: str) -> Said:
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return status, [("Content-Type", "application/xml")], (head + body).encode()
