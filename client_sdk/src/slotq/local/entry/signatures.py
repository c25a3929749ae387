"""Verifies AWS Signature V4, and words refusals as the services do."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote_to_bytes, urlsplit

from botocore.utils import normalize_url_path

SERVICE = "execute-api"
ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
SKEW = {"s3": timedelta(minutes=15)}
"""The largest difference between a signature's time and now, by service; `_SKEW` for the others."""
_SKEW = timedelta(minutes=5)
_STAMP = "%Y%m%dT%H%M%SZ"
_SAFE = "-_.~"


class SignatureRefused(Exception):
    """A refused signature (403): the kind of error (x-amzn-ErrorType) and the message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The owner of an access key."""

    arn: str
    access_key: str
    secret_key: str
    user_id: str = ""
    session_token: str | None = None


FindCaller = Callable[[str], Caller | None]
"""Finds a caller by access key id. None: no such key."""


@dataclass(frozen=True, kw_only=True)
class CoveredRequest:
    """The parts of a request that a signature covers."""

    method: str
    uri: str
    """Path and query, exactly as received."""
    headers: Mapping[str, str]
    """The headers, by lower-case name."""
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class SignatureFields:
    """The fields of a signature."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str


def verify(request: CoveredRequest, *, find: FindCaller, region: str, now: datetime) -> Caller:
    """The caller who signed a request for API Gateway. Raises NotSigned."""
    claim = claim_of(request.headers.get("authorization", ""))
    if claim.service != SERVICE:
        raise invalid(f"Credential should be scoped to correct service: '{SERVICE}'. ")
    if claim.region != region:
        raise invalid(f"Credential should be scoped to a valid region, not '{claim.region}'. ")
    return signer(request, claim, find=find, now=now, payload=payload_of(request))


def payload_of(request: CoveredRequest) -> str:
    """The signed hash of the body. Raises NotSigned if the request claims another hash."""
    digest = hashlib.sha256(request.body).hexdigest()
    if request.headers.get("x-amz-content-sha256", digest) != digest:
        raise invalid("The value of x-amz-content-sha256 is not the hash of the body.")
    return digest


def signer(
    request: CoveredRequest,
    claim: SignatureFields,
    *,
    find: FindCaller,
    now: datetime,
    payload: str,
) -> Caller:
    """The caller whose key signed the Authorization header. Raises NotSigned."""
    caller = caller_of(claim, find, request.headers.get("x-amz-security-token"))
    stamp = request.headers.get("x-amz-date", "")
    _check_time(stamp, claim, now)
    if not {"host", "x-amz-date"} <= set(claim.signed_headers):
        raise invalid("'Host' and 'X-Amz-Date' must be signed headers.")
    check(claim, caller, stamp, canonical(request, claim, payload))
    return caller


def caller_of(claim: SignatureFields, find: FindCaller, token: str | None) -> Caller:
    """The caller of a claim. Raises NotSigned if the key is unknown or the session token
    differs."""
    caller = find(claim.access_key)
    if caller is None or not hmac.compare_digest(caller.session_token or "", token or ""):
        raise SignatureRefused(
            "UnrecognizedClientException", "The security token included in the request is invalid."
        )
    return caller


def check(claim: SignatureFields, caller: Caller, stamp: str, canonical_request: str) -> None:
    """Compare the signature with the caller's own. Raises NotSigned if they differ."""
    if not hmac.compare_digest(
        _signature(claim, caller, stamp, canonical_request), claim.signature
    ):
        raise invalid(
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. Consult the service documentation for "
            "details."
        )


def invalid(message: str) -> SignatureRefused:
    return SignatureRefused("InvalidSignatureException", message)


def claim_of(header: str) -> SignatureFields:
    """Parse an Authorization header. Raises NotSigned."""
    if not header:
        raise SignatureRefused(
            "MissingAuthenticationTokenException", "Missing Authentication Token"
        )
    algorithm, _, rest = header.partition(" ")
    parts = dict(re.findall(r"(Credential|SignedHeaders|Signature)=([^,\s]+)", rest))
    missing = [key for key in ("Credential", "Signature", "SignedHeaders") if key not in parts]
    scope = parts.get("Credential", "").split("/")
    if algorithm != ALGORITHM or missing or len(scope) != 5:
        faults = " ".join(f"Authorization header requires '{key}' parameter." for key in missing)
        raise SignatureRefused(
            "IncompleteSignatureException",
            f"{faults or 'Credential must be KEY/DATE/REGION/SERVICE/aws4_request.'} "
            f"Authorization={header[:200]}",
        )
    return claimed(parts["Credential"], parts["SignedHeaders"], parts["Signature"])


def claimed(credential: str, signed_headers: str, signature: str) -> SignatureFields:
    """Parse a credential of the form KEY/DATE/REGION/SERVICE/aws4_request."""
    access_key, date, region, service, _ = credential.split("/")
    return SignatureFields(
        access_key=access_key,
        date=date,
        region=region,
        service=service,
        signed_headers=tuple(signed_headers.lower().split(";")),
        signature=signature,
    )


def moment(stamp: str) -> datetime:
    """Parse a time stamp. Raises NotSigned if it is missing or malformed."""
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        raise SignatureRefused(
            "IncompleteSignatureException",
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
        ) from None


def _check_time(stamp: str, claim: SignatureFields, now: datetime) -> None:
    signed_at, skew = moment(stamp), SKEW.get(claim.service, _SKEW)
    if stamp[:8] != claim.date:
        raise invalid("Date in Credential scope does not match YYYYMMDD from ISO-8601 version.")
    if signed_at < now - skew:
        limit = (now - skew).strftime(_STAMP)
        raise invalid(f"Signature expired: {stamp} is now earlier than {limit}")
    if signed_at > now + skew:
        limit = (now + skew).strftime(_STAMP)
        raise invalid(f"Signature not yet current: {stamp} is still later than {limit}")


def canonical(
    request: CoveredRequest,
    claim: SignatureFields,
    payload: str,
    *,
    without: frozenset[str] = frozenset(),
) -> str:
    """The canonical request. `without` names query parameters that are not signed."""
    parts = urlsplit(f"//host{request.uri}")
    query = "&".join(f"{name}={value}" for name, value in sorted(_pairs(parts.query, without)))
    signed = {name: request.headers.get(name, "") for name in sorted(claim.signed_headers)}
    headers = [f"{name}:{' '.join(value.split())}" for name, value in signed.items()]
    path = _canonical_path(parts.path or "/", claim.service)
    return "\n".join((request.method, path, query, *headers, "", ";".join(signed), payload))


def _canonical_path(path: str, service: str) -> str:
    """The path in canonical form. S3 encodes it once, without normalizing. Other services normalize
    the path and encode it twice."""
    if service == "s3":
        return quote(unquote_to_bytes(path), safe=f"/{_SAFE}")
    return quote(normalize_url_path(path), safe="/~")


def _pairs(query: str, without: frozenset[str]) -> Iterator[tuple[str, str]]:
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in without:
            yield _again(name), _again(value)


def _again(text: str) -> str:
    return quote(unquote_to_bytes(text), safe=_SAFE)


def _signature(claim: SignatureFields, caller: Caller, stamp: str, canonical_request: str) -> str:
    digest = hashlib.sha256(canonical_request.encode()).hexdigest()
    return signature_of(claim, caller, lambda scope: f"{ALGORITHM}\n{stamp}\n{scope}\n{digest}")


def signature_of(claim: SignatureFields, caller: Caller, text: Callable[[str], str]) -> str:
    """The caller's signature, in hex, of the text for the claim's scope."""
    scope = (claim.date, claim.region, claim.service, "aws4_request")
    key = f"AWS4{caller.secret_key}".encode()
    for part in (*scope, text("/".join(scope))):
        last = hmac.new(key, part.encode(), hashlib.sha256)
        key = last.digest()
    return last.hexdigest()
