"""A SageMaker endpoint on this machine, for the AWS CLI and for SDKs of other languages, which
botocore's hooks in a Python program cannot reach.

AWS_ENDPOINT_URL_SAGEMAKER directs such a program to the relay. The relay repeats each request with
boto3, in a session hooked by `slotq.install`: training calls go to the queue, all others to AWS.
The answer goes back in SageMaker's format. CloudWatch Logs is relayed likewise, so that logs
continue across a job's attempts.

The relay calls AWS with the credentials of this process. Therefore it listens on the loopback
interface only, and only answers requests that carry the secret in their path.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from slotq.errors import NotAllowed, SlotQError
from slotq.transport.network import RELAYED

HOST = "127.0.0.1"
SERVICES = {"SageMaker": "sagemaker", "Logs_20140328": "logs"}
"""boto3's name of a service, by the prefix of `X-Amz-Target` in the protocol."""
_REGION = re.compile(r"Credential=[^/]+/[0-9]{8}/([a-z0-9-]+)/")
_CONTENT = "application/x-amz-json-1.1"
_LARGEST = 20_000_000

Client = Callable[[str, str | None], Any]
"""Returns boto3's client for a service in a region; None: the default region."""
Said = tuple[int, bytes]
"""HTTP status and body."""


def clients(session: Any, region: str | None) -> Client:
    """The clients of a boto3 session, each created once; `region` is the default region."""
    making = threading.Lock()

    @cache
    def made(service: str, where: str | None) -> Any:
        return session.client(service, region_name=where)

    def client(service: str, where: str | None) -> Any:
        with making:
            return made(service, where or region)

    return client


class JsonRelay:
    """Answers requests of the AWS JSON protocol with boto3 calls."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def answer(self, headers: Mapping[str, str], body: bytes) -> Said:
        """Answer one request. The names in `headers` are lower-case."""
        prefix, _, operation = headers.get("x-amz-target", "").partition(".")
        if prefix not in SERVICES:
            return _error(
                "UnknownOperationException", ("only SageMaker and CloudWatch Logs are relayed here")
            )
        signed = _REGION.search(headers.get("authorization", ""))
        client = self._client(SERVICES[prefix], signed[1] if signed else None)
        name = xform_name(operation)
        if client.meta.method_to_api_mapping.get(name) != operation:
            return _error(
                "UnknownOperationException",
                (f"slotq's boto3 does not know {operation}; update boto3"),
            )
        return _called(getattr(client, name), body)


def _called(method: Callable[..., Any], body: bytes) -> Said:
    try:
        said = method(**json.loads(body or b"{}"))
    except ClientError as error:
        status = error.response["ResponseMetadata"].get("HTTPStatusCode", 400)
        return _error(error.response["Error"]["Code"], error.response["Error"]["Message"], status)
    except NotAllowed as error:
        return _error("AccessDeniedException", str(error), 403)
    except SlotQError as error:  # Already retried here: with 400, no SDK tries again.
        return _error("QueueUnavailable", str(error))
    except (ParamValidationError, ValueError, TypeError) as error:
        return _error("ValidationException", str(error))
    except BotoCoreError as error:
        return _error("ServiceUnavailable", str(error))
    del said["ResponseMetadata"]
    try:
        return 200, json.dumps(said, default=_in_protocol).encode()
    except TypeError:
        return _error("UnknownOperationException", "a stream of events is not relayed")


def _error(code: str, message: str, status: int = 400) -> Said:
    return status, json.dumps({"__type": code, "message": message}).encode()


def _in_protocol(value: Any) -> Any:
    """Encode datetimes as seconds since the epoch, bytes in base64. Raises TypeError."""
    if isinstance(value, datetime):
        return round(value.timestamp(), 3)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} cannot be part of an answer")


@contextmanager
def served(relay: JsonRelay) -> Iterator[str]:
    """Serve while the context lasts; yields the address, which contains the secret."""
    secret = secrets.token_urlsafe(24)
    with ThreadingHTTPServer((HOST, 0), _handler(relay, secret)) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}/{secret}"
        finally:
            server.shutdown()


def pointed_at(url: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment for a program that is to use the SageMaker endpoint at `url`."""
    unproxied = environment.get("NO_PROXY") or environment.get("no_proxy")
    no_proxy = ",".join(filter(None, (unproxied, HOST)))
    return {
        **environment,
        **dict.fromkeys(RELAYED, url),
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }


def _handler(relay: JsonRelay, secret: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self._body()
            known = hmac.compare_digest(self.path.strip("/").encode(), secret.encode())
            if body is None:
                self._say(*_error("SerializationException", "a body of a known length", 413))
            elif not known:
                self._say(*_error("AccessDeniedException", "the address lacks its secret", 403))
            else:
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._say(*relay.answer(headers, body))

        def _body(self) -> bytes | None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > _LARGEST:
                self.close_connection = True
                return None
            return self.rfile.read(int(length))

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", _CONTENT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing: the terminal belongs to the program."""

    return Handler
