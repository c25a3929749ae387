"""Which URLs, topics and references a notification may name.

The queue's function calls these URLs from within AWS. So URLs of a machine's own services, a
private network or an instance's metadata are refused: here by the host, and at each call by the
addresses of the host. Messages never repeat a refused value: it may be a secret."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

KEPT_UNDER = "slotq/notifications/"
"""The prefix of kept secrets. The function may read nothing else."""
SLACK_HOSTS = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})

_LONGEST = 2048
_SSM = re.compile(rf"ssm:/{KEPT_UNDER}[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_SECRETS_MANAGER = re.compile(
    r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:"
    rf"{KEPT_UNDER}[A-Za-z0-9/_+=.@-]+"
)
_TOPIC = re.compile(
    r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?", re.ASCII
)
_HOST = re.compile(
    r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+", re.ASCII
)
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.ASCII)
_INTERNAL = (".internal", ".local", ".localhost", ".localdomain", ".home.arpa")
_WITH_TOKENS = ("discord.com", "discordapp.com", "webhook.office.com", "logic.azure.com")
"""Services whose URLs contain the right to post."""

_STORE = (
    "store it in Parameter Store or Secrets Manager, and name its place: "
    f"ssm:/{KEPT_UNDER}NAME, or the ARN of a secret named {KEPT_UNDER}NAME"
)


def fault_in_reference(value: object) -> str:
    """The fault of a reference to a secret; empty if it is valid."""
    if isinstance(value, str) and (_SSM.fullmatch(value) or _SECRETS_MANAGER.fullmatch(value)):
        return ""
    return f"a reference is needed, not the secret itself: {_STORE}"


def fault_in_topic(value: object) -> str:
    """The fault of an SNS topic; empty if it is valid."""
    if isinstance(value, str) and _TOPIC.fullmatch(value):
        return ""
    return "the ARN of an SNS topic is needed: arn:aws:sns:REGION:ACCOUNT:NAME"


def fault_in_url(value: object) -> str:
    """The fault of a webhook's configured URL; empty if it is valid."""
    parts = _split(value)
    if parts is None:
        return f"a URL is needed, https://HOST/PATH, of at most {_LONGEST:,} characters"
    if parts.username is not None or parts.query or parts.fragment:
        return (
            "a URL without user, query and fragment is needed, because everyone who may look at "
            "the queue sees it; the signature identifies the sender to the receiver"
        )
    host = parts.hostname or ""
    if host in SLACK_HOSTS:
        return f"a URL of Slack is a secret: write slack instead of webhook; {_STORE}"
    if any(host == domain or host.endswith(f".{domain}") for domain in _WITH_TOKENS):
        return "this service's URLs are secrets, and it checks no signature: use an SNS topic"
    return fault_in_host(parts, loopback=True)


def fault_in_slack_url(value: str, *, loopback: bool = False) -> str:
    """The fault of a URL kept for Slack; empty if it is valid."""
    parts = _split(value)
    if parts is None:
        return "what is kept there is no URL"
    if loopback and is_loopback(value):
        return ""
    if parts.scheme != "https" or parts.hostname not in SLACK_HOSTS:
        return f"what is kept there is no URL of {' or '.join(sorted(SLACK_HOSTS))}"
    return ""


def fault_in_host(parts: SplitResult, *, loopback: bool) -> str:
    """The fault of a URL's host, as far as the URL itself shows. `loopback`: whether a
    machine may call itself, by http."""
    host = parts.hostname or ""
    if _names_loopback(host):
        return "" if loopback and parts.scheme == "http" else _not_here("this machine itself")
    if parts.scheme != "https":
        return "https is needed: over http anybody on the way reads the message"
    if (address := _address(host)) is not None:
        return "" if is_public(address) else _not_here("a private or reserved address")
    if not _HOST.fullmatch(host) or _NUMBER.fullmatch(host.rpartition(".")[2]):
        return "the host's full name is needed, as in hooks.example.com"
    if host.endswith(_INTERNAL):
        return _not_here("an internal name")
    return ""


def is_loopback(url: str) -> bool:
    """Whether the URL leads to the machine that calls it: for the emulator alone."""
    parts = _split(url)
    return parts is not None and parts.scheme == "http" and _names_loopback(parts.hostname or "")


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public Internet. An IPv4 address within an IPv6 one is
    judged itself."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if inner is not None:
            return is_public(str(inner))
        if found in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
        if found not in _UNICAST:
            return False
    return found.is_global and not found.is_multicast


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""All of the IPv6 Internet. Python marks only some of the rest as private, and the set differs
between versions: site-local addresses, and those that a translator maps to an IPv4 one."""


def _names_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and ipaddress.ip_address(address).is_loopback


def _address(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _split(value: object) -> SplitResult | None:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isascii():
        return None
    if any(
        character.isspace() or not character.isprintable() or character in '\\"<>^`{|}'
        for character in value
    ):
        return None
    try:
        parts = urlsplit(value)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if known else None


def _not_here(where: str) -> str:
    return (
        f"it leads to {where}, which the queue does not call; a receiver in your network reads an "
        "SNS topic"
    )
