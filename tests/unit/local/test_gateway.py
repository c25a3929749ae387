"""The emulator's API Gateway: who may call, and the event that the function gets."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from slotq.local.endpoint import API_ID, Endpoint
from slotq.local.entry.signatures import Caller
from slotq.local.keys import EmulatorKeys
from slotq.local.services.gateway import COMPRESSED_FROM, MAX_BODY, Gateway, is_ours

ENDPOINT = Endpoint(url="http://127.0.0.1:4777", keys=EmulatorKeys.made())
ANNE = Caller(arn="arn:aws:iam::123456789012:user/anne", access_key="ANNE", secret_key="secret")
ROLE = Caller(
    arn="arn:aws:sts::123456789012:assumed-role/r/s",
    access_key="ROLE",
    secret_key="other",
    session_token="token",
)
CALLERS = {caller.access_key: caller for caller in (ANNE, ROLE)}


def signed(
    method: str = "POST",
    url: str = "http://127.0.0.1:4777/prod/add-job",
    body: bytes = b'{"a": 1}',
    *,
    key: str = "ANNE",
    secret: str = "secret",
    token: str | None = None,
    service: str = "execute-api",
    region: str = "us-east-1",
    headers: dict[str, str] | None = None,
) -> AWSRequest:
    request = AWSRequest(method=method, url=url, data=body, headers=headers or {})
    SigV4Auth(Credentials(key, secret, token), service, region).add_auth(request)
    return request


def environ_of(request: AWSRequest) -> dict[str, Any]:
    """The environ that a WSGI server makes of a request."""
    prepared = request.prepare()
    scheme_host, _, rest = prepared.url.partition("://")[2].partition("/")
    uri = f"/{rest}"
    headers = {name: str(value) for name, value in prepared.headers.items()}
    headers = {name: value.removeprefix("b'").removesuffix("'") for name, value in headers.items()}
    headers.setdefault("Host", scheme_host)
    body = prepared.body or b""
    return {
        "REQUEST_METHOD": prepared.method,
        "REQUEST_URI": uri,
        "PATH_INFO": unquote(uri.partition("?")[0]),
        "QUERY_STRING": uri.partition("?")[2],
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
    }


class World:
    def __init__(self, answer: Any = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.said = answer or {"statusCode": 202, "headers": {"X-A": "b"}, "body": "{}"}
        self.now = datetime.now(UTC)
        self.gateway = Gateway(
            endpoint=ENDPOINT, find_caller=CALLERS.get, call=self.call, now=lambda: self.now
        )

    def call(self, event: dict[str, Any], timeout: float) -> Any:
        self.events.append(event)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    def answer(self, environ: dict[str, Any]) -> tuple[str, dict[str, str], Any]:
        status, headers, body = self.gateway.answer(environ)
        return status, dict(headers), json.loads(body) if body else None


def test_the_event_is_a_rest_proxy_event_and_names_the_signer() -> None:
    world = World()
    url = "http://127.0.0.1:4777/prod/jobs/a%20b?state=running&state=pending&limit=3"
    status, headers, body = world.answer(environ_of(signed("GET", url, b"")))
    assert (status, headers["X-A"], body) == ("202 Accepted", "b", {})
    (event,) = world.events
    assert (event["httpMethod"], event["path"], event["body"]) == ("GET", "/jobs/a b", None)
    assert event["queryStringParameters"] == {"state": "pending", "limit": "3"}
    assert event["multiValueQueryStringParameters"]["state"] == ["running", "pending"]
    context = event["requestContext"]
    assert context["identity"]["userArn"] == ANNE.arn
    assert (context["stage"], context["path"], context["apiId"]) == (
        "prod",
        "/prod/jobs/a b",
        API_ID,
    )
    assert event["headers"]["Host"] == "127.0.0.1:4777"


def test_the_body_is_passed_on_unchanged() -> None:
    world = World()
    world.answer(environ_of(signed(body='{"ü": "\u2603"}'.encode())))
    assert world.events[0]["body"] == '{"ü": "\u2603"}'


def test_a_session_of_a_role_needs_its_token() -> None:
    world = World()
    status, *_ = world.answer(environ_of(signed(key="ROLE", secret="other", token="token")))
    assert status == "202 Accepted"
    assert world.events[0]["requestContext"]["identity"]["userArn"] == ROLE.arn
    status, _, body = world.answer(environ_of(signed(key="ROLE", secret="other")))
    assert status == "403 Forbidden"
    assert body == {"message": "The security token included in the request is invalid."}


REFUSED = [
    (
        "a wrong secret",
        {"secret": "wrong"},
        "InvalidSignatureException",
        "The request signature we calculated does not match",
    ),
    (
        "an unknown key",
        {"key": "NOBODY"},
        "UnrecognizedClientException",
        "The security token included in the request is invalid.",
    ),
    (
        "another service",
        {"service": "s3"},
        "InvalidSignatureException",
        "Credential should be scoped to correct service: 'execute-api'.",
    ),
    (
        "another region",
        {"region": "eu-west-1"},
        "InvalidSignatureException",
        "Credential should be scoped to a valid region",
    ),
]


@pytest.mark.parametrize(
    ("sentence", "how", "kind", "text"), REFUSED, ids=[row[0] for row in REFUSED]
)
def test_wrong_signatures_are_refused(
    sentence: str, how: dict[str, Any], kind: str, text: str
) -> None:
    world = World()
    status, headers, body = world.answer(environ_of(signed(**how)))
    assert (status, headers["x-amzn-ErrorType"]) == ("403 Forbidden", kind)
    assert body["message"].startswith(text)
    assert not world.events


def test_an_unsigned_request_is_refused() -> None:
    environ = environ_of(signed())
    del environ["HTTP_AUTHORIZATION"]
    assert World().answer(environ)[::2] == (
        "403 Forbidden",
        {"message": "Missing Authentication Token"},
    )


CHANGED = [
    ("the body", {"wsgi.input": io.BytesIO(b'{"a": 2}')}),
    ("the method", {"REQUEST_METHOD": "DELETE"}),
    ("the path", {"REQUEST_URI": "/prod/jobs"}),
    ("the query", {"REQUEST_URI": "/prod/add-job?x=1"}),
    ("the host", {"HTTP_HOST": "127.0.0.1:1"}),
    ("the date", {"HTTP_X_AMZ_DATE": datetime.now(UTC).strftime("%Y%m%dT000000Z")}),
    ("the hash of the body", {"HTTP_X_AMZ_CONTENT_SHA256": "0" * 64}),
    (
        "half of the header",
        {"HTTP_AUTHORIZATION": "AWS4-HMAC-SHA256 Credential=ANNE/1/2/execute-api/4"},
    ),
    ("the algorithm", {"HTTP_AUTHORIZATION": "Basic Zm9v"}),
]


@pytest.mark.parametrize(("what", "change"), CHANGED, ids=[row[0] for row in CHANGED])
def test_a_request_changed_after_signing_is_refused(what: str, change: dict[str, Any]) -> None:
    world = World()
    status, _, body = world.answer({**environ_of(signed()), **change})
    assert status == "403 Forbidden", body
    assert not world.events


@pytest.mark.parametrize(
    ("minutes", "text"), [(6, "Signature expired"), (-6, "Signature not yet current")]
)
def test_a_signature_is_valid_for_five_minutes(minutes: int, text: str) -> None:
    world = World()
    world.now += timedelta(minutes=minutes)
    status, _, body = world.answer(environ_of(signed()))
    assert status == "403 Forbidden"
    assert body["message"].startswith(text)


def api(host: str) -> str:
    return f"http://{host}/prod/jobs"


VPCE = "vpce-0123-abc.execute-api.us-east-1.vpce.amazonaws.com"
FORMS = [
    ("its own host name", api(f"{API_ID}.execute-api.us-east-1.amazonaws.com"), {}, True),
    (
        "with the endpoint's id",
        api(f"{API_ID}-vpce-0123abc.execute-api.us-east-1.amazonaws.com"),
        {},
        True,
    ),
    ("the header form", api(VPCE), {"x-apigw-api-id": API_ID}, True),
    (
        "the Host header form",
        api(VPCE),
        {"Host": f"{API_ID}.execute-api.us-east-1.amazonaws.com"},
        True,
    ),
    ("the header form on loopback", api("127.0.0.1:4777"), {"x-apigw-api-id": API_ID}, True),
    ("another API's host", api("abcdefghij.execute-api.us-east-1.amazonaws.com"), {}, False),
    ("another API's header", api(VPCE), {"x-apigw-api-id": "abcdefghij"}, False),
    ("a VPC endpoint without an id", api(VPCE), {}, False),
    ("another stage", f"http://{API_ID}.execute-api.us-east-1.amazonaws.com/dev/jobs", {}, False),
]


@pytest.mark.parametrize(
    ("sentence", "url", "headers", "welcome"), FORMS, ids=[row[0] for row in FORMS]
)
def test_the_api_has_several_addresses(
    sentence: str, url: str, headers: dict[str, str], welcome: bool
) -> None:
    environ = environ_of(signed("GET", url, b"", headers=headers))
    assert is_ours(environ)
    status, _, body = World().answer(environ)
    assert (status, body) == (
        ("202 Accepted", {}) if welcome else ("403 Forbidden", {"message": "Forbidden"})
    )


@pytest.mark.parametrize(
    ("path", "authorization", "ours"),
    [
        ("/prod/jobs", "", True),
        ("/prod", "", True),
        ("/production/x", "", False),
        ("/prod/key", "AWS4-HMAC-SHA256 Credential=A/1/us-east-1/s3/aws4_request", False),
        ("/prod/jobs", "AWS4-HMAC-SHA256 Credential=A/1/us-east-1/execute-api/aws4_request", True),
        ("/bucket/key", "", False),
    ],
)
def test_a_bucket_can_have_the_stages_name(path: str, authorization: str, ours: bool) -> None:
    environ = {"PATH_INFO": path, "HTTP_HOST": "127.0.0.1:4777"}
    if authorization:
        environ["HTTP_AUTHORIZATION"] = authorization
    assert is_ours(environ) is ours


def test_a_body_over_the_limit_is_refused() -> None:
    world = World()
    environ = environ_of(signed(body=b"x" * (MAX_BODY + 1)))
    assert world.answer(environ)[::2] == (
        "413 Request Entity Too Large",
        {"message": "Request Too Long"},
    )
    assert not world.events


BROKEN = [
    (RuntimeError("no"), "502 Bad Gateway", "Internal server error"),
    ({"status": 200}, "502 Bad Gateway", "Internal server error"),
    ("text", "502 Bad Gateway", "Internal server error"),
    (TimeoutError(), "504 Gateway Timeout", "Endpoint request timed out"),
]


@pytest.mark.parametrize(("said", "status", "message"), BROKEN)
def test_a_malformed_answer_of_the_function_is_a_502(said: Any, status: str, message: str) -> None:
    answered = World(said).answer(environ_of(signed()))
    assert answered[::2] == (status, {"message": message})


@pytest.mark.parametrize(
    ("accepts", "packs"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("identity", False),
        ("gzipped", False),
    ],
)
@pytest.mark.parametrize("length", [COMPRESSED_FROM - 1, COMPRESSED_FROM])
def test_long_answers_are_compressed_for_those_who_take_it(
    accepts: str | None, packs: bool, length: int
) -> None:
    """As by MinimumCompressionSize. The header is part of no signature."""
    body = json.dumps("x" * (length - 2))
    world = World({"statusCode": 200, "headers": {"ETag": '"1"'}, "body": body})
    environ = environ_of(signed("GET", "http://127.0.0.1:4777/prod/jobs", b""))
    if accepts is not None:
        environ["HTTP_ACCEPT_ENCODING"] = accepts
    status, headers, sent = world.gateway.answer(environ)
    found = dict(headers)
    assert (status, found["ETag"]) == ("200 OK", '"1"')
    is_packed = packs and length >= COMPRESSED_FROM
    assert found.get("Content-Encoding") == ("gzip" if is_packed else None)
    assert (gzip.decompress(sent) if is_packed else sent) == body.encode()


def test_the_headers_of_a_condition_reach_the_function_unsigned() -> None:
    world = World({"statusCode": 304, "multiValueHeaders": {"ETag": ['W/"1"']}, "body": ""})
    environ = environ_of(signed("GET", "http://127.0.0.1:4777/prod/jobs", b""))
    environ |= {"HTTP_IF_NONE_MATCH": 'W/"1"', "HTTP_ACCEPT_ENCODING": "gzip"}
    status, headers, body = world.gateway.answer(environ)
    assert (status, dict(headers)["ETag"], body) == ("304 Not Modified", 'W/"1"', b"")
    assert world.events[0]["multiValueHeaders"]["If-None-Match"] == ['W/"1"']
