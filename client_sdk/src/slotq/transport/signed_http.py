"""One HTTP call to the queue: signed, and retried while a retry can help.

Every call may be repeated: repeating a submission or a cancel has no further effect. So a lost
answer costs only time.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import quote, urlencode, urlsplit

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import (
    BotoCoreError,
    HTTPClientError,
    NoCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    SSLError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

from slotq.errors import CannotReach, NotConfigured
from slotq.transport import aws_session
from slotq.transport.network import name_advice, unresolved
from slotq.version import __version__

if TYPE_CHECKING:
    import boto3

    from slotq.configuration.settings import Config

TRIES = 5
FIRST_PAUSE = 0.25
"""Seconds before the second try; doubles with each further try."""
LONGEST_PAUSE = 8.0
CONNECT_TIMEOUT = 5
READ_TIMEOUT = 35
"""Seconds. API Gateway gives up after 29."""
MOST_KEPT = 8
"""How many answers a client keeps: each has at most about 1 MB."""
LONGEST_ANSWER = 20_000_000
"""The most bytes of an answer. API Gateway sends at most 10 MB."""

_NO_ANSWER = (HTTPClientError, BotoConnectionError)
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class HttpAnswer(Protocol):
    """The answer to a call; botocore's AWSResponse is one."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> bytes: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainAnswer:
    """An answer whose body is not compressed."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


class Http(Protocol):
    """Sends one prepared request; botocore's URLLib3Session is one. Raises one of _NO_ANSWER."""

    def send(self, request: Any) -> HttpAnswer: ...


class KeptAnswers:
    """The latest answers that have a tag, so that the queue need not send them again. Safe for
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[str, HttpAnswer]] = {}

    def get(self, question: str) -> tuple[str, HttpAnswer | None]:
        """The tag and the answer; no tag without one."""
        with self._lock:
            return self._kept.get(question, ("", None))

    def keep(self, question: str, answer: HttpAnswer) -> None:
        tag = answer.headers.get("ETag", "")
        with self._lock:
            self._kept.pop(question, None)
            if tag and answer.status_code == HTTPStatus.OK:
                self._kept[question] = tag, answer
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]


class Transport:
    """Calls the queue's API at the configured endpoint."""

    def __init__(
        self,
        config: Config,
        *,
        aws: boto3.Session | None = None,
        http: Http | None = None,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        tries: int = TRIES,
        timeout: tuple[float, float] = (CONNECT_TIMEOUT, READ_TIMEOUT),
    ) -> None:
        """`timeout`: seconds to connect, and to wait for the answer."""
        self.endpoint = config.required_endpoint()
        self._config = config
        self.aws = aws or aws_session.signing(config)
        self._given, self._tries, self._timeout = http, tries, timeout
        self._connections = self._connected()
        self.sleep = sleep
        self._jitter = jitter
        self.kept = KeptAnswers()

    def _connected(self) -> tuple[int, Http]:
        """This process, and what sends its requests."""
        return os.getpid(), self._given or _http(self.endpoint, self.aws, self._timeout)

    def _http(self) -> Http:
        """What sends requests: a forked process must not share its parent's connections."""
        if self._connections[0] != os.getpid():
            self._connections = self._connected()
        return self._connections[1]

    def __copy__(self) -> Self:
        """Returns self: a transport is immutable, but for the answers it keeps."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings and where credentials are found; never credentials, connections or
        clocks. Raises PicklingError if the session has explicit keys."""
        identity = aws_session.identity(self.aws)
        return _again, (self._config, identity, self._tries, self._timeout)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        known: str = "",
    ) -> HttpAnswer:
        """The last answer, whatever its status. Retries, with back-off, calls without an answer,
        throttled calls and 5xx answers. `known`: tags (If-None-Match) of answers that the caller
        has; the answer to a GET may then be 304.

        Raises CannotReach if the last try got no answer.
        """
        failure: BotoCoreError | None = None
        answer: HttpAnswer | None = None
        for left in reversed(range(self._tries)):
            failure = answer = None
            try:
                answer = _plain(self._http().send(self._signed(method, path, query, body, known)))
            except _NO_ANSWER as error:
                failure = error
            if not left or not _worth_repeating(answer, failure):
                break
            self.sleep(self._pause(self._tries - left, answer))
        if answer is None:
            raise self._unreachable(failure) from failure
        return answer

    def _signed(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: bytes | None,
        known: str,
    ) -> Any:
        url = self.endpoint + path
        if query:
            # A signature covers a space as %20; half a surrogate pair is in no name.
            url += "?" + urlencode(query, doseq=True, quote_via=quote, errors="replace")
        headers = {"Accept": "application/json", "User-Agent": f"slotq/{__version__}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._config.api_id:
            headers["x-apigw-api-id"] = self._config.api_id
        request = AWSRequest(method=method, url=url, data=body or b"", headers=headers)
        credentials = self.credentials()
        if credentials is not None:
            SigV4Auth(credentials, "execute-api", self._region()).add_auth(request)
        # Not signed: proxies change these two, which must not break the signature.
        request.headers["Accept-Encoding"] = "gzip"
        if known:
            request.headers["If-None-Match"] = known
        return request.prepare()

    def credentials(self) -> Any | None:
        """The caller's current AWS credentials; None without credentials. Raises NotConfigured, and
        CannotReach if expired credentials cannot be renewed without a connection."""
        try:
            found = self.aws.get_credentials()
            return found.get_frozen_credentials() if found else None
        except NoCredentialsError:
            return None
        except BotoCoreError as error:
            kind = CannotReach if isinstance(error, _NO_ANSWER) else NotConfigured
            raise kind(f"the AWS credentials cannot be loaded: {error}") from error

    def _region(self) -> str:
        region = self._config.signing_region() or self.aws.region_name
        if region:
            return region
        if urlsplit(self.endpoint).hostname in _LOOPBACK:
            return "us-east-1"
        raise NotConfigured(
            "the region for the request's signature is not known: set SLOTQ_REGION (or AWS_REGION)"
        )

    def _pause(self, tries: int, answer: HttpAnswer | None) -> float:
        """Seconds of back-off: doubling, half of it random, at least what the answer asks for."""
        asked = answer.headers.get("Retry-After", "") if answer is not None else ""
        least = min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else 0.0
        longest = min(FIRST_PAUSE * 2.0 ** (tries - 1), LONGEST_PAUSE)
        return max(least, longest * (0.5 + self._jitter() / 2))

    def _unreachable(self, failure: BotoCoreError | None) -> CannotReach:
        host, lookup = urlsplit(self.endpoint).hostname or "", unresolved(failure)
        where = f"{self.endpoint} (from {self._config.source('endpoint')})"
        if lookup is not None:
            said = f"no address is known for {host}. {name_advice(host, lookup)}"
        else:
            said = f"{failure}. {self._what_to_check(failure)}"
        return CannotReach(f"cannot reach the queue at {where}: {said}")

    def _what_to_check(self, failure: BotoCoreError | None) -> str:
        host = urlsplit(self.endpoint).hostname or ""
        if host in _LOOPBACK:
            return "Is the emulator running? `slotq local start --detach` starts it."
        if isinstance(failure, SSLError):
            return "Check the host name, and AWS_CA_BUNDLE if a proxy re-signs TLS."
        if isinstance(failure, ProxyConnectionError):
            return "Check HTTPS_PROXY; add the host to NO_PROXY if you reach it directly."
        return (
            "If the API is private, call it from inside its VPC (or through a VPN), through an "
            "execute-api VPC endpoint whose security group admits you on port 443; check the URL."
        )


def _plain(answer: HttpAnswer) -> HttpAnswer:
    """The answer with its body decompressed; unchanged if that is not possible."""
    if answer.headers.get("Content-Encoding", "").strip().lower() != "gzip":
        return answer
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = unpacking.decompress(answer.content, LONGEST_ANSWER)
    except zlib.error:
        return answer
    if not unpacking.eof:
        return answer
    return PlainAnswer(status_code=answer.status_code, headers=answer.headers, content=content)


def _worth_repeating(answer: HttpAnswer | None, failure: BotoCoreError | None) -> bool:
    if answer is None:
        return not isinstance(failure, SSLError)
    return answer.status_code >= 500 or (answer.status_code == 429 and _is_throttled(answer))


def _is_throttled(answer: HttpAnswer) -> bool:
    """Whether API Gateway throttled the call. A limit of the queue itself is not retried here: the
    wait is longer than a back-off, and each try costs the queue something."""
    try:
        said = json.loads(answer.content)
    except ValueError:
        return True
    return not isinstance(said, dict) or said.get("code", "throttled") == "throttled"


def _http(endpoint: str, aws: Any, timeout: tuple[float, float]) -> Http:
    local = urlsplit(endpoint).hostname in _LOOPBACK
    http: Http = URLLib3Session(
        verify=_ca_bundle(aws) or True,
        proxies={} if local else get_environ_proxies(endpoint),
        timeout=timeout,
    )
    return http


def _ca_bundle(aws: Any) -> str | None:
    """The CA bundle of the environment, else of the session's profile."""
    settings = botocore.session.Session(profile=aws.profile_name)
    try:
        return settings.get_config_variable("ca_bundle")  # type: ignore[no-any-return]
    except ProfileNotFound:  # Without a profile, boto3 says "default", which need not exist.
        return os.environ.get("AWS_CA_BUNDLE")


def _again(
    config: Config, identity: aws_session.Identity, tries: int, timeout: tuple[float, float]
) -> Transport:
    """Recreate a pickled transport; it signs with the credentials found in this process."""
    return Transport(config, aws=identity.session(), tries=tries, timeout=timeout)
