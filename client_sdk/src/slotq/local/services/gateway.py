"""API Gateway in front of the queue: turns a WSGI request into a REST proxy event.

Requests are signed (`signatures`) and have at most 10 MB. The gateway answers within 29 seconds or
gives up. Clients reach the API by path (`/prod/…`), by host name (`<id>.execute-api.…`), or as
through a VPC endpoint: with the header `x-apigw-api-id`, or with the Host header alone.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from slotq.local.endpoint import API_ID, STAGE, Endpoint
from slotq.local.entry.signatures import (
    Caller,
    CoveredRequest,
    FindCaller,
    SignatureRefused,
    verify,
)

MAX_BODY = 10_000_000
COMPRESSED_FROM = 1024
"""From how many bytes on answers are compressed, if the client accepts that; as the template's
MinimumCompressionSize."""
TIMEOUT = 29.0
_MOST_DIGITS = 18
"""Of a length: more than any disk holds."""
Environ = dict[str, Any]
Event = dict[str, Any]

_HOST = re.compile(r"(?P<api>[a-z0-9]+)(-vpce-[a-z0-9]+)?\.execute-api\.")
_VPC_HOST = re.compile(r"vpce-[a-z0-9-]+\.execute-api\.")


class GatewayAnswer(Exception):
    """An answer from API Gateway itself."""

    def __init__(self, status: str, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = json.dumps({"message": message}).encode()
        self.headers = [("Content-Type", "application/json")]
        if kind:
            self.headers.append(("x-amzn-ErrorType", kind))


def is_ours(environ: Environ) -> bool:
    """Whether a request is for the queue's API rather than for S3 or another service."""
    host = environ.get("HTTP_HOST", "")
    if "HTTP_X_APIGW_API_ID" in environ or _HOST.match(host) or _VPC_HOST.match(host):
        return True
    path = environ.get("PATH_INFO", "")
    signed = environ.get("HTTP_AUTHORIZATION", "")
    # A bucket may have the stage's name. A request for it is signed for S3.
    scoped = "Credential=" not in signed or "/execute-api/" in signed
    return scoped and (path == f"/{STAGE}" or path.startswith(f"/{STAGE}/"))


class Gateway:
    """Answers requests. `call` runs the Lambda with an event and returns the answer, or raises
    TimeoutError."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        find_caller: FindCaller,
        call: Callable[[Event, float], Any],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._endpoint, self._find, self._call, self._now = endpoint, find_caller, call, now

    def answer(self, environ: Environ) -> tuple[str, list[tuple[str, str]], bytes]:
        """Status, headers, body."""
        request_id = str(uuid.uuid4())
        try:
            status, headers, body = self._through(environ, request_id)
        except GatewayAnswer as own:
            status, headers, body = own.status, own.headers, own.body
        if len(body) >= COMPRESSED_FROM and _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
            headers = [*headers, ("Content-Encoding", "gzip")]
            body = gzip.compress(body, compresslevel=1, mtime=0)
        return status, [*headers, ("x-amzn-RequestId", request_id)], body

    def _through(
        self, environ: Environ, request_id: str
    ) -> tuple[str, list[tuple[str, str]], bytes]:
        _check_api(environ)
        body = read_body(environ, MAX_BODY)
        headers = headers_of(environ)
        signed = CoveredRequest(
            method=environ["REQUEST_METHOD"],
            uri=environ.get("REQUEST_URI") or environ.get("RAW_URI") or environ["PATH_INFO"],
            headers={name.lower(): ",".join(values) for name, values in headers.items()},
            body=body,
        )
        region, now = self._endpoint.region, self._now()
        try:
            caller = verify(signed, find=self._find, region=region, now=now)
        except SignatureRefused as refused:
            raise GatewayAnswer("403 Forbidden", refused.message, refused.kind) from None
        event = self._event(signed, headers, caller, request_id, environ.get("REMOTE_ADDR", ""))
        try:
            answer = self._call(event, TIMEOUT)
        except TimeoutError:
            raise GatewayAnswer("504 Gateway Timeout", "Endpoint request timed out") from None
        except Exception:  # noqa: BLE001 - whatever the function raises, API Gateway says the same
            raise _broken() from None
        return _as_http(answer)

    def _event(
        self,
        request: CoveredRequest,
        headers: Mapping[str, list[str]],
        caller: Caller,
        request_id: str,
        address: str,
    ) -> Event:
        parts = urlsplit(request.uri)
        path = unquote(parts.path).removeprefix(f"/{STAGE}") or "/"
        query = parse_qs(parts.query, keep_blank_values=True)
        return {
            "resource": "/{proxy+}",
            "path": path,
            "httpMethod": request.method,
            "headers": {name: values[-1] for name, values in headers.items()},
            "multiValueHeaders": dict(headers),
            "queryStringParameters": {key: values[-1] for key, values in query.items()} or None,
            "multiValueQueryStringParameters": query or None,
            "pathParameters": {"proxy": path.strip("/")},
            "stageVariables": None,
            "requestContext": self._context(request, path, caller, request_id, address),
            "body": request.body.decode(errors="replace") if request.body else None,
            "isBase64Encoded": False,
        }

    def _context(
        self, request: CoveredRequest, path: str, caller: Caller, request_id: str, address: str
    ) -> dict[str, Any]:
        now = self._now()
        host = request.headers.get("host", "")
        return {
            "resourceId": "local",
            "resourcePath": "/{proxy+}",
            "httpMethod": request.method,
            "extendedRequestId": request_id,
            "requestTime": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "requestTimeEpoch": int(now.timestamp() * 1000),
            "path": f"/{STAGE}{path}",
            "accountId": self._endpoint.account,
            "protocol": "HTTP/1.1",
            "stage": STAGE,
            "domainPrefix": host.split(".", maxsplit=1)[0],
            "domainName": host,
            "requestId": request_id,
            "apiId": API_ID,
            "identity": {
                "cognitoIdentityPoolId": None,
                "cognitoIdentityId": None,
                "apiKey": None,
                "principalOrgId": None,
                "cognitoAuthenticationType": None,
                "cognitoAuthenticationProvider": None,
                "accountId": self._endpoint.account,
                "caller": caller.user_id,
                "user": caller.user_id,
                "userArn": caller.arn,
                "userAgent": request.headers.get("user-agent"),
                "accessKey": caller.access_key,
                "sourceIp": address,
            },
        }


def _takes_gzip(accepted: str) -> bool:
    """Whether a client accepts gzip, by Accept-Encoding."""
    for coding in accepted.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() in {"gzip", "*"}:
            return re.fullmatch(r"q=0(\.0*)?", weight.replace(" ", "")) is None
    return False


def _check_api(environ: Environ) -> None:
    """Check the API's id, if the request names one. Raises Answer."""
    host = _HOST.match(environ.get("HTTP_HOST", ""))
    named = environ.get("HTTP_X_APIGW_API_ID") or (host and host["api"])
    if named is None and _VPC_HOST.match(environ.get("HTTP_HOST", "")):
        named = ""
    path = environ.get("PATH_INFO", "")
    if named not in {None, API_ID} or not f"{path}/".startswith(f"/{STAGE}/"):
        raise GatewayAnswer("403 Forbidden", "Forbidden", "ForbiddenException")


def length_of(environ: Environ) -> int | None:
    """The length that a request gives its body (bytes); None: it gives none. Raises Answer for what
    is no length, or one that no body could have."""
    said = environ.get("CONTENT_LENGTH") or ""
    if not said:
        return None
    if not (said.isascii() and said.isdecimal()):
        raise GatewayAnswer(
            "400 Bad Request", "Content-Length is not a number", "BadRequestException"
        )
    if len(said) > _MOST_DIGITS:
        raise too_long()
    return int(said)


def read_body(environ: Environ, limit: int) -> bytes:
    """The body of a request. Raises Answer over the limit (bytes)."""
    length = length_of(environ)
    if length is not None and length > limit:
        raise too_long()
    if length is None and not environ.get("wsgi.input_terminated"):
        return b""
    body = read_some(environ, limit + 1 if length is None else length)
    if len(body) > limit:
        raise too_long()
    return body


def read_some(environ: Environ, most: int) -> bytes:
    """At most so many bytes of the body. Raises Answer where it is not in the form that the
    request says."""
    try:
        read: bytes = environ["wsgi.input"].read(most)
    except OSError:  # Chunks without a length, or a connection that is gone.
        raise GatewayAnswer(
            "400 Bad Request", "the body cannot be read", "BadRequestException"
        ) from None
    return read


def too_long() -> GatewayAnswer:
    return GatewayAnswer(
        "413 Request Entity Too Large", "Request Too Long", "RequestTooLargeException"
    )


def headers_of(environ: Environ) -> dict[str, list[str]]:
    """The request's headers, spelled as API Gateway spells them: `X-Amz-Date`."""
    found = {
        key[5:]: value
        for key, value in environ.items()
        if key.startswith("HTTP_") and isinstance(value, str)
    }
    for key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(key):
            found[key] = environ[key]
    return {name.replace("_", "-").title(): [value] for name, value in found.items()}


def _as_http(answer: Any) -> tuple[str, list[tuple[str, str]], bytes]:
    """The function's answer as HTTP. Raises Answer if the proxy format does not match."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("statusCode"), int):
        raise _broken()
    multiple: Mapping[str, Iterable[Any]] = answer.get("multiValueHeaders") or {}
    headers = [(name, str(value)) for name, values in multiple.items() for value in values]
    taken = {name.lower() for name, _ in headers}
    single = (answer.get("headers") or {}).items()
    headers += [(name, str(value)) for name, value in single if name.lower() not in taken]
    body = str(answer.get("body") or "")
    decoded = base64.b64decode(body) if answer.get("isBase64Encoded") else body.encode()
    return f"{answer['statusCode']} {_words(answer['statusCode'])}", headers, decoded


def _broken() -> GatewayAnswer:
    return GatewayAnswer("502 Bad Gateway", "Internal server error", "InternalServerErrorException")


def _words(status: int) -> str:
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"
