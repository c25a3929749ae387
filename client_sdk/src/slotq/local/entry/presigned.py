"""Checks URLs that carry their signature: S3's, in Signature V4 and in the older V2.

boto3 still presigns with V2 in the older regions, us-east-1 among them.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

from botocore.auth import HmacV1QueryAuth
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from slotq.local.entry.signatures import (
    ALGORITHM,
    UNSIGNED,
    Caller,
    FindCaller,
    NotSigned,
    SignedRequest,
    caller_of,
    canonical,
    check,
    claimed,
    invalid,
    moment,
)

_LONGEST = 7 * 24 * 3600
_BUCKET = re.compile(r"(?P<bucket>[a-z0-9.-]+?)\.(?:s3[.-]|localhost)")
_V2 = {"AWSAccessKeyId", "Expires", "Signature"}


def is_presigned(query: str) -> bool:
    names = parameters(query)
    return "X-Amz-Signature" in names or names.keys() >= _V2


def parameters(query: str) -> dict[str, str]:
    return dict(parse_qsl(query, keep_blank_values=True))


def verify(request: SignedRequest, *, find: FindCaller, now: datetime) -> Caller:
    """The caller who made the URL. Raises NotSigned."""
    said = parameters(urlsplit(request.uri).query)
    verify_one = _verify_v4 if "X-Amz-Signature" in said else _verify_v2
    return verify_one(request, said, find, now)


def _verify_v4(
    request: SignedRequest, said: Mapping[str, str], find: FindCaller, now: datetime
) -> Caller:
    credential, lasts = said.get("X-Amz-Credential", ""), said.get("X-Amz-Expires", "")
    if said.get("X-Amz-Algorithm") != ALGORITHM or credential.count("/") != 4:
        raise NotSigned("IncompleteSignatureException", "the URL's signature is not one of V4")
    claim = claimed(credential, said.get("X-Amz-SignedHeaders", ""), said["X-Amz-Signature"])
    if claim.service != "s3" or "host" not in claim.signed_headers:
        raise invalid("only S3's URLs can be presigned here, and 'host' must be signed.")
    begins = moment(said.get("X-Amz-Date", ""))
    if not lasts.isdecimal() or len(lasts) > 11 or int(lasts) > _LONGEST:
        raise invalid(f"X-Amz-Expires must be from 0 to {_LONGEST} seconds.")
    _check_expiry(begins + timedelta(seconds=int(lasts)), now)
    caller = caller_of(claim, find, said.get("X-Amz-Security-Token"))
    unsigned = frozenset({"X-Amz-Signature"})
    payload = request.headers.get("x-amz-content-sha256", UNSIGNED)
    check(claim, caller, said["X-Amz-Date"], canonical(request, claim, payload, without=unsigned))
    return caller


class _Until(HmacV1QueryAuth):
    """A signer that uses a fixed expiry instead of one counted from now."""

    def _get_date(self) -> str:
        return str(self._expires)


def _verify_v2(
    request: SignedRequest, said: Mapping[str, str], find: FindCaller, now: datetime
) -> Caller:
    until = said["Expires"]
    if not until.isdecimal() or len(until) > 11:
        raise invalid("Expires must be seconds since 1970.")
    caller = caller_of(
        claimed(f"{said['AWSAccessKeyId']}////", "", said["Signature"]),
        find,
        said.get("x-amz-security-token"),
    )
    headers = HTTPHeaders()
    for name, value in {**request.headers, **said}.items():
        if name.startswith("x-amz-") or name in {"content-md5", "content-type"}:
            headers[name] = value
    maker = _Until(Credentials(caller.access_key, caller.secret_key), expires=until)
    parts = urlsplit(request.uri)
    made = maker.get_signature(request.method, parts, headers, auth_path=_resource(request))
    if not hmac.compare_digest(made, said["Signature"]):
        raise invalid("The request signature we calculated does not match the one in the URL.")
    _check_expiry(datetime.fromtimestamp(int(until), UTC), now)
    return caller


def _resource(request: SignedRequest) -> str:
    """`/bucket/key`, for a bucket in the path or in the host name. A bucket's own path ends with a
    slash."""
    path = urlsplit(request.uri).path
    if named := _BUCKET.match(request.headers.get("host", "")):
        path = f"/{named['bucket']}{path}"
    only_bucket = path.count("/") == 1 and path != "/"
    return f"{path}/" if only_bucket else path


def _check_expiry(until: datetime, now: datetime) -> None:
    if until < now:
        raise invalid("Request has expired")
