"""Check, step by step, whether this machine can use the queue.

Each check depends on the earlier ones: after a failure, the later checks are skipped, because the
failure is the cause to repair first. The checks change nothing.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from urllib.parse import urlsplit

from botocore.utils import get_environ_proxies
from pydantic import ValidationError

from slotq.client import QueueClient
from slotq.errors import CannotReach, NotAllowed, SlotQError, UnexpectedAnswer
from slotq.installation import source
from slotq.transport import answers
from slotq.transport.network import RELAYED, Network, Sockets, name_advice
from slotq.transport.signed_http import HttpAnswer
from slotq.version import __version__
from slotq_core.wire import VERSION
from slotq_core.wire.views.about import AboutView

MOST_SKEW = timedelta(minutes=5)
"""AWS refuses signatures whose time differs by more."""

NOBODY = "slotq_doctor"
"""No job can have this name, so a request about it changes nothing."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    """For programs: one of CHECKS."""
    text: str
    advice: str = ""
    """What to do after a failure."""
    error: SlotQError | None = None
    """The error of a failed check."""
    looked: bool = True

    @property
    def ok(self) -> bool | None:
        """Whether the check passed; None if it was skipped."""
        return self.error is None if self.looked else None


@dataclass(kw_only=True)
class Look:
    """What one run has found so far."""

    client: QueueClient
    network: Network = field(default_factory=Sockets)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    answer: HttpAnswer | None = None
    """The queue's answer to `GET /version`."""
    about: AboutView | None = None

    @property
    def endpoint(self) -> str:
        return self.client.config.required_endpoint()

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.endpoint)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def proxy(self) -> str:
        """The proxy used to reach the endpoint; empty without a proxy."""
        if self.host in _LOOPBACK:
            return ""
        found: Mapping[str, str] = get_environ_proxies(self.endpoint)
        return found.get(urlsplit(self.endpoint).scheme, "")


def checkup(
    client: Callable[[], QueueClient],
    *,
    network: Network | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Iterator[CheckResult]:
    """Run the checks of CHECKS in order. An error raised by `client` fails the first check."""
    try:
        look = Look(client=client(), network=network or Sockets(), now=now)
    except SlotQError as error:
        yield CheckResult(name="settings", text=str(error), error=error)
        yield from map(_not_looked_at, CHECKS[1:])
        return
    config = look.client.config
    yield CheckResult(name="settings", text=f"{look.endpoint} (from {config.source('endpoint')})")
    broken = False
    for name, examine in _EXAMINE.items():
        if broken and not (name == "clock" and look.answer is not None):
            yield _not_looked_at(name)
            continue
        found = examine(look)
        yield found
        # Missing permissions do not affect the later checks.
        broken = broken or (found.error is not None and name != "permissions")


def _not_looked_at(name: str) -> CheckResult:
    return CheckResult(name=name, text="not checked", looked=False)


def _name(look: Look) -> CheckResult:
    if look.proxy:
        return CheckResult(name="name", text=f"the proxy {look.proxy} looks up the name")
    try:
        addresses = look.network.resolve(look.host)
    except OSError as error:
        text = f"this machine finds no address for {look.host}: {error}"
        return CheckResult(
            name="name",
            text=text,
            advice=name_advice(look.host, error),
            error=CannotReach(text),
        )
    return CheckResult(
        name="name", text=f"{look.host} is {', '.join(addresses)} ({_kind(addresses)})"
    )


def _kind(addresses: list[str]) -> str:
    private = [ipaddress.ip_address(address.partition("%")[0]).is_private for address in addresses]
    return "private" if all(private) else "public: not through a VPC endpoint"


def _route(look: Look) -> CheckResult:
    if look.proxy:
        return CheckResult(name="route", text=f"goes through the proxy {look.proxy}")
    try:
        look.network.connect(look.host, look.port)
    except OSError as error:
        text = (
            f"no connection to {look.host}, port {look.port}: {str(error) or type(error).__name__}"
        )
        advice = (
            "Is the emulator running? `slotq local start --detach` starts it."
            if look.host in _LOOPBACK
            else "The name is right, but there is no way there. You need a route (VPC, "
            "peering, VPN), and the VPC endpoint's security group must admit you on port "
            f"{look.port}."
        )
        return CheckResult(name="route", text=text, advice=advice, error=CannotReach(text))
    return CheckResult(name="route", text=f"port {look.port} answers")


def _credentials(look: Look) -> CheckResult:
    try:
        found = look.client.transport.credentials()
    except SlotQError as error:
        return CheckResult(name="credentials", text=str(error), error=error)
    if found is None:
        text = "there are no AWS credentials to sign with"
        return CheckResult(
            name="credentials",
            text=text,
            advice="Log in (`aws sso login`), or set SLOTQ_AWS_PROFILE, AWS_PROFILE or "
            "AWS_ACCESS_KEY_ID.",
            error=NotAllowed(text),
        )
    profile = look.client.config.aws_profile
    source = f", AWS profile {profile}" if profile else ""
    return CheckResult(
        name="credentials", text=f"signs with the key …{found.access_key[-4:]}{source}"
    )


def _answer(look: Look) -> CheckResult:
    try:
        look.answer = answer = look.client.transport.call("GET", "/version")
    except SlotQError as error:
        return CheckResult(name="answer", text=str(error), error=error)
    if answer.status_code == 404 and b"no_such_route" in answer.content:
        return CheckResult(name="answer", text="the queue answers")
    if not 200 <= answer.status_code < 300:
        refused = answers.error_in(answer, config=look.client.config, signed=True)
        return CheckResult(name="answer", text=str(refused), error=refused)
    try:
        look.about = AboutView.model_validate_json(answer.content)
    except ValidationError:
        text = f"{look.endpoint} answers, but it is not the queue"
        advice = "The endpoint must be the queue's API and end with its stage (…/prod)."
        return CheckResult(name="answer", text=text, advice=advice, error=UnexpectedAnswer(text))
    return CheckResult(name="answer", text=f"the queue takes you for {look.about.caller}")


def _clock(look: Look) -> CheckResult:
    """Compare the clock with the Date header, which even an answer that refuses a signature has."""
    said = look.answer.headers.get("Date") if look.answer is not None else None
    try:
        there = parsedate_to_datetime(said or "")
    except ValueError:
        return CheckResult(name="clock", text="the answer has no time", looked=False)
    ahead = look.now() - there
    seconds = round(abs(ahead.total_seconds()))
    if abs(ahead) < MOST_SKEW:
        return CheckResult(name="clock", text=f"right within {seconds + 1} s")
    text = f"this machine's clock is {seconds} s {'ahead' if ahead > timedelta() else 'behind'}"
    return CheckResult(
        name="clock",
        text=text,
        advice="A signature is valid for five minutes: set the clock (`timedatectl set-ntp true`).",
        error=NotAllowed(text),
    )


_VERBS = (
    ("look", "GET", "/jobs", None),
    ("submit", "POST", "/add-job", b"{}"),
    ("change", "PATCH", f"/jobs/{NOBODY}", b'{"held":true}'),
    ("cancel", "DELETE", f"/jobs/{NOBODY}", None),
)
"""One request of each kind that changes nothing: the queue refuses an empty submission and knows no
job of that name."""


def _permissions(look: Look) -> CheckResult:
    missing = []
    try:
        for verb, method, path, body in _VERBS:
            query = {"limit": 1} if method == "GET" else None
            answer = look.client.transport.call(method, path, query=query, body=body)
            if answer.status_code in {401, 403}:
                missing.append((verb, f"{method} {path.replace(NOBODY, '*')}"))
    except SlotQError as error:
        return CheckResult(name="permissions", text=str(error), error=error)
    if not missing:
        verbs = ", ".join(verb for verb, *_ in _VERBS)
        return CheckResult(name="permissions", text=f"you may {verbs}")
    text = f"you may not {', '.join(verb for verb, _ in missing)}"
    return CheckResult(
        name="permissions",
        text=text,
        advice="Your IAM role needs execute-api:Invoke on "
        f"{', '.join(path for _, path in missing)} of the queue's API.",
        error=NotAllowed(text),
    )


def _versions(look: Look) -> CheckResult:
    here = __version__
    if look.about is None:
        text = (
            f"this client is {here}, the queue is an older release that does not report its version"
        )
    elif look.about.version != VERSION or _series(look.about.slotq) != _series(here):
        text = f"this client is {here}, the queue {look.about.slotq}"
    else:
        return CheckResult(name="versions", text=f"{here} here, {look.about.slotq} there")
    return CheckResult(
        name="versions",
        text=text,
        advice=f"Update the older of the two: this client from {source()}, the queue with "
        "sam deploy.",
        error=UnexpectedAnswer(text),
    )


def _series(version: str) -> list[str]:
    """Major and minor version: releases that share both understand each other."""
    return version.split(".")[:2]


_EXEC = (
    "Start a program as `slotq exec -- PROGRAM`: the training calls of the program, and of the "
    "processes that the program starts, then go to the queue."
)


def _caught(look: Look) -> CheckResult:
    """Which training calls of this shell go to the queue, by its variables and packages."""
    urls = {os.environ.get(name, "") for name in RELAYED}
    where = urlsplit(min(urls))
    ignored = os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    if len(urls) == 1 and where.hostname in _LOOPBACK and not ignored:
        try:
            look.network.connect(where.hostname or "", where.port or 80)
        except OSError as error:
            text = f"the `slotq exec` of this shell has ended ({where.netloc}): {error}"
            return CheckResult(
                name="caught",
                text=text,
                advice=f"Leave the shell, or unset {' and '.join(RELAYED)}.",
                error=CannotReach(text),
            )
        return CheckResult(name="caught", text="all programs of this shell (slotq exec)")
    python = "in Python: boto3 sessions given to slotq.install(), and processes forked from there"
    if (sdk := _installed_sdk()) is not None:
        python += f"; fit() and train() of QueueTrainingJobSession (sagemaker {sdk})"
    others = ["programs of this shell", "boto3 sessions of their own", "spawned processes"]
    if (cli := shutil.which("aws")) is not None:
        others.insert(0, cli)
    return CheckResult(
        name="caught",
        text=f"{python}; not caught: {', '.join(others)}, which call SageMaker",
        advice=_EXEC,
    )


def _installed_sdk() -> str | None:
    """The version of the SageMaker SDK that is installed; None: none is."""
    try:
        return version("sagemaker")
    except PackageNotFoundError:
        return None


_EXAMINE: Mapping[str, Callable[[Look], CheckResult]] = MappingProxyType(
    {
        "name": _name,
        "route": _route,
        "credentials": _credentials,
        "answer": _answer,
        "clock": _clock,
        "permissions": _permissions,
        "versions": _versions,
        "caught": _caught,
    }
)
CHECKS = ("settings", *_EXAMINE)
