"""Who signed a request: AWS Signature V4 as API Gateway checks it, and its words for a refusal."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

SERVICE = "execute-api"
_ALGORITHM = "AWS4-HMAC-SHA256"
_SKEW = timedelta(minutes=5)
_STAMP = "%Y%m%dT%H%M%SZ"


class NotSigned(Exception):
    """403: the kind of error (x-amzn-ErrorType) and the message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whose access key it is."""

    arn: str
    access_key: str
    secret_key: str
    user_id: str = ""
    session_token: str | None = None


FindCaller = Callable[[str], Caller | None]
"""By access key id; None where there is no such key."""


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """What of a request the signature covers."""

    method: str
    uri: str
    """Path and query as they came over the wire."""
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes


@dataclass(frozen=True, kw_only=True)
class _Claim:
    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str


def verify(request: SignedRequest, *, find: FindCaller, region: str, now: datetime) -> Caller:
    """Who signed it. Raises NotSigned."""
    claim = _claim_of(request.headers.get("authorization", ""))
    if claim.service != SERVICE:
        raise _invalid(f"Credential should be scoped to correct service: '{SERVICE}'. ")
    if claim.region != region:
        raise _invalid(f"Credential should be scoped to a valid region, not '{claim.region}'. ")
    caller = find(claim.access_key)
    token = request.headers.get("x-amz-security-token")
    if caller is None or caller.session_token != token:
        raise NotSigned(
            "UnrecognizedClientException", "The security token included in the request is invalid."
        )
    _check_time(request.headers.get("x-amz-date", ""), claim, now)
    if not hmac.compare_digest(_sign(request, claim, caller), claim.signature):
        raise _invalid(
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. Consult the service documentation for "
            "details."
        )
    return caller


def _invalid(message: str) -> NotSigned:
    return NotSigned("InvalidSignatureException", message)


def _claim_of(header: str) -> _Claim:
    if not header:
        raise NotSigned("MissingAuthenticationTokenException", "Missing Authentication Token")
    algorithm, _, rest = header.partition(" ")
    parts = dict(re.findall(r"(Credential|SignedHeaders|Signature)=([^,\s]+)", rest))
    missing = [key for key in ("Credential", "Signature", "SignedHeaders") if key not in parts]
    scope = parts.get("Credential", "").split("/")
    if algorithm != _ALGORITHM or missing or len(scope) != 5:
        told = " ".join(f"Authorization header requires '{key}' parameter." for key in missing)
        raise NotSigned(
            "IncompleteSignatureException",
            f"{told or 'Credential must be KEY/DATE/REGION/SERVICE/aws4_request.'} "
            f"Authorization={header[:200]}",
        )
    return _Claim(
        access_key=scope[0],
        date=scope[1],
        region=scope[2],
        service=scope[3],
        signed_headers=tuple(parts["SignedHeaders"].lower().split(";")),
        signature=parts["Signature"],
    )


def _check_time(stamp: str, claim: _Claim, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        raise NotSigned(
            "IncompleteSignatureException",
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
        ) from None
    if stamp[:8] != claim.date:
        raise _invalid("Date in Credential scope does not match YYYYMMDD from ISO-8601 version.")
    if signed_at < now - _SKEW:
        limit = (now - _SKEW).strftime(_STAMP)
        raise _invalid(f"Signature expired: {stamp} is now earlier than {limit}")
    if signed_at > now + _SKEW:
        limit = (now + _SKEW).strftime(_STAMP)
        raise _invalid(f"Signature not yet current: {stamp} is still later than {limit}")


class _Again(SigV4Auth):
    """Signs exactly the headers that the caller has signed."""

    def headers_to_sign(self, request: Any) -> Any:
        headers = HTTPHeaders()
        for name, value in request.headers.items():
            headers[name.lower()] = value
        return headers


def _sign(request: SignedRequest, claim: _Claim, caller: Caller) -> str:
    """The signature as it should be."""
    if not {"host", "x-amz-date"} <= set(claim.signed_headers):
        raise _invalid("'Host' and 'X-Amz-Date' must be signed headers.")
    digest = hashlib.sha256(request.body).hexdigest()
    if request.headers.get("x-amz-content-sha256", digest) != digest:
        raise _invalid("The value of x-amz-content-sha256 is not the hash of the body.")
    again = AWSRequest(
        method=request.method,
        url=f"http://{request.headers.get('host', '')}{request.uri}",
        data=request.body,
        headers={name: request.headers.get(name, "") for name in claim.signed_headers},
    )
    again.context["timestamp"] = request.headers["x-amz-date"]
    signer = _Again(Credentials(caller.access_key, caller.secret_key), SERVICE, claim.region)
    canonical = signer.canonical_request(again)
    signature: str = signer.signature(signer.string_to_sign(again, canonical), again)
    return signature
