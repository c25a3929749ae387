"""Finds the caller of an AWS service: checks the signature of a whole request, body included.

S3 signs the hash in the request's header, so a large body is read only after the caller is known.
The other services sign the body itself, which is therefore read first, up to a limit.

S3's URLs may carry their signature, in Signature V4 and in the older V2: boto3 still presigns with
V2 in the older regions, us-east-1 among them.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import re
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from botocore.auth import HmacV1QueryAuth
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from slotq.local.entry.chunk_signatures import SIGNED_WITH_TRAILER, STREAMS, ChunkSignatures
from slotq.local.entry.signatures import (
    ALGORITHM,
    UNSIGNED,
    Caller,
    CoveredRequest,
    FindCaller,
    SignatureRefused,
    caller_of,
    canonical,
    check,
    claim_of,
    claimed,
    invalid,
    moment,
    payload_of,
    signer,
)
from slotq.local.services.gateway import Environ, length_of, read_body, read_some

MAX_CALL = 20_000_000
"""Maximum bytes of a request to any service except S3."""
_IN_MEMORY, _BLOCK = 16_000_000, 1 << 20
_UNSIGNED = frozenset({UNSIGNED, f"STREAMING-{UNSIGNED}-TRAILER"})
_ADVICE = """ (the emulator's own keys: eval "$(slotq local env)")"""


def authenticate(environ: Environ, find: FindCaller, now: datetime) -> Caller:
    """The caller of a request. The body stays readable afterwards. Raises NotSigned and Answer."""
    try:
        return _authenticate(environ, find, now)
    except SignatureRefused as refused:
        unknown = {"MissingAuthenticationTokenException", "UnrecognizedClientException"}
        advice = _ADVICE if refused.kind in unknown else ""
        raise SignatureRefused(refused.kind, refused.message + advice) from None


def _authenticate(environ: Environ, find: FindCaller, now: datetime) -> Caller:
    header = environ.get("HTTP_AUTHORIZATION", "")
    if not header and is_presigned(environ.get("QUERY_STRING", "")):
        return verify_presigned(_request(environ), find=find, now=now)
    claim = claim_of(header)
    if claim.service != "s3":
        request = _request(environ, kept_body(environ, MAX_CALL))
        return signer(request, claim, find=find, now=now, payload=payload_of(request))
    request = _request(environ)
    payload = request.headers.get("x-amz-content-sha256", "")
    if not payload or "x-amz-content-sha256" not in claim.signed_headers:
        raise SignatureRefused(
            "IncompleteSignatureException", "x-amz-content-sha256 must be there, and signed."
        )
    caller = signer(request, claim, find=find, now=now, payload=payload)
    if payload in STREAMS:
        _check_chunks(environ, ChunkSignatures(caller, claim, request.headers["x-amz-date"]))
    elif payload not in _UNSIGNED:
        _check_body(environ, payload)
    return caller


def kept_body(environ: Environ, limit: int) -> bytes:
    """The body, kept readable for the next reader. Raises Answer over the limit (bytes)."""
    body = read_body(environ, limit)
    _put_back(environ, io.BytesIO(body), len(body))
    return body


def _request(environ: Environ, body: bytes = b"") -> CoveredRequest:
    return CoveredRequest(
        method=environ["REQUEST_METHOD"],
        uri=environ.get("REQUEST_URI") or environ["PATH_INFO"],
        headers=_Headers(environ),
        body=body,
    )


class _Headers(dict[str, str]):
    """A request's headers by lower-case name. Finds names with an underscore too."""

    def __init__(self, environ: Environ) -> None:
        names = {key: key[5:] for key in environ if key.startswith("HTTP_")}
        names |= {key: key for key in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(key)}
        super().__init__(
            {name.replace("_", "-").lower(): _text(environ[key]) for key, name in names.items()}
        )

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.replace("_", "-"), default)


def _text(value: str) -> str:
    """Decode a WSGI string: WSGI carries bytes as Latin-1, and signatures cover UTF-8."""
    return value.encode("latin-1", "replace").decode("utf-8", "replace")


def _check_chunks(environ: Environ, signatures: ChunkSignatures) -> None:
    """Check the signatures of the body's chunks. Raises NotSigned."""
    body, _ = _spooled(environ)
    with_trailer = environ["HTTP_X_AMZ_CONTENT_SHA256"] == SIGNED_WITH_TRAILER
    signatures.check(body.read, body.readline, trailer=with_trailer)
    body.seek(0)


def _check_body(environ: Environ, digest: str) -> None:
    """Compare the body with its hash. Raises NotSigned if they differ."""
    _, found = _spooled(environ)
    if found != digest:
        raise SignatureRefused(
            "XAmzContentSHA256Mismatch", "x-amz-content-sha256 is not the body's hash."
        )


def _spooled(environ: Environ) -> tuple[Any, str]:
    """Read the body into a file and return the file and its hash. The body stays readable."""
    left = length_of(environ)
    if left is None and not environ.get("wsgi.input_terminated"):
        left = 0
    body: Any = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - moto reads it
    found = hashlib.sha256()
    while block := read_some(environ, _BLOCK if left is None else min(_BLOCK, left)):
        found.update(block)
        body.write(block)
        left = None if left is None else left - len(block)
    size = body.tell()
    body.seek(0)
    _put_back(environ, body, size)
    return body, found.hexdigest()


def _put_back(environ: Environ, body: Any, size: int) -> None:
    environ["wsgi.input"] = body
    environ["CONTENT_LENGTH"] = str(size)


_LONGEST = 7 * 24 * 3600
_BUCKET = re.compile(r"(?P<bucket>[a-z0-9.-]+?)\.(?:s3[.-]|localhost)")
_V2 = {"AWSAccessKeyId", "Expires", "Signature"}


def is_presigned(query: str) -> bool:
    names = parameters(query)
    return "X-Amz-Signature" in names or names.keys() >= _V2


def parameters(query: str) -> dict[str, str]:
    return dict(parse_qsl(query, keep_blank_values=True))


def verify_presigned(request: CoveredRequest, *, find: FindCaller, now: datetime) -> Caller:
    """The caller who made the URL. Raises NotSigned."""
    said = parameters(urlsplit(request.uri).query)
    verify_one = _verify_v4 if "X-Amz-Signature" in said else _verify_v2
    return verify_one(request, said, find, now)


def _verify_v4(
    request: CoveredRequest, said: Mapping[str, str], find: FindCaller, now: datetime
) -> Caller:
    credential, lasts = said.get("X-Amz-Credential", ""), said.get("X-Amz-Expires", "")
    if said.get("X-Amz-Algorithm") != ALGORITHM or credential.count("/") != 4:
        raise SignatureRefused(
            "IncompleteSignatureException", "the URL's signature is not one of V4"
        )
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
    request: CoveredRequest, said: Mapping[str, str], find: FindCaller, now: datetime
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


def _resource(request: CoveredRequest) -> str:
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
