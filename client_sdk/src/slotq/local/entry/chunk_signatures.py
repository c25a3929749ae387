"""Verifies the signatures of a body that S3 clients send in signed chunks (aws-chunked).

    <size in hex>;chunk-signature=<signature>CRLF<data>CRLF
    …
    0;chunk-signature=<signature>CRLF
    <trailing headers, each ended by CRLF; only in the variant with a trailer>
    CRLF

Each signature covers the one before it, the first that of the request's header. So no chunk can be
changed, dropped, added or moved.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable

from slotq.local.entry.signatures import (
    ALGORITHM,
    Caller,
    SignatureFields,
    SignatureRefused,
    invalid,
    signature_of,
)

SIGNED = f"STREAMING-{ALGORITHM}-PAYLOAD"
SIGNED_WITH_TRAILER = f"{SIGNED}-TRAILER"
STREAMS = frozenset({SIGNED, SIGNED_WITH_TRAILER})
"""Values of x-amz-content-sha256 that announce signed chunks."""
TRAILER_SIGNATURE = b"x-amz-trailer-signature:"
MOST_LINE = 8192
"""Maximum bytes of a chunk's head or of a trailing header."""
_HEAD = re.compile(rb"([0-9a-fA-F]{1,8});chunk-signature=([0-9a-f]{64})\r\n")
_NOTHING = hashlib.sha256(b"").hexdigest()

ReadLine = Callable[[int], bytes]
"""Reads up to a line's end, and at most so many bytes."""
Read = Callable[[int], bytes]


class ChunkSignatures:
    """Checks the chunks of one body, in their order."""

    def __init__(self, caller: Caller, claim: SignatureFields, stamp: str) -> None:
        """`claim` and `stamp` are those of the request's header, which was verified."""
        self._caller, self._claim, self._stamp = caller, claim, stamp
        self._last = claim.signature

    def check(self, read: Read, read_line: ReadLine, *, trailer: bool) -> None:
        """Read and check the whole body. Raises NotSigned."""
        while size := self._chunk(read, read_line):
            if read(2) != b"\r\n":
                raise _malformed(f"a chunk of {size} bytes does not end with its size")
        if trailer:
            self._trailer(read_line)
        elif read_line(MOST_LINE) != b"\r\n":
            raise _malformed("the last chunk is not followed by an empty line")
        if read(1):
            raise _malformed("there is more after the last chunk")

    def _chunk(self, read: Read, read_line: ReadLine) -> int:
        """Check one chunk and return its size (bytes); 0 for the last."""
        head = _HEAD.fullmatch(read_line(MOST_LINE))
        if head is None:
            raise _malformed("a chunk does not begin with its size and its signature")
        size = int(head[1], 16)
        data = hashlib.sha256()
        left = size
        while left:
            block = read(min(left, 1 << 20))
            if not block:
                raise _malformed("the body ends within a chunk")
            data.update(block)
            left -= len(block)
        self._next("PAYLOAD", f"{_NOTHING}\n{data.hexdigest()}", head[2].decode())
        return size

    def _trailer(self, read_line: ReadLine) -> None:
        """Check the signature of the trailing headers."""
        headers = b""
        while (line := read_line(MOST_LINE)).lower()[: len(TRAILER_SIGNATURE)] != TRAILER_SIGNATURE:
            if line.strip() == b"":
                raise _malformed("the trailing headers have no signature")
            headers += line.rstrip(b"\r\n") + b"\n"
            if len(headers) > MOST_LINE:
                raise _malformed("the trailing headers are too long")
        said = line[len(TRAILER_SIGNATURE) :].strip().decode("latin-1")
        self._next("TRAILER", hashlib.sha256(headers).hexdigest(), said)
        if read_line(MOST_LINE).strip():
            raise _malformed("there is more after the signature of the trailing headers")

    def _next(self, kind: str, covered: str, said: str) -> None:
        own = signature_of(
            self._claim,
            self._caller,
            lambda scope: (
                f"AWS4-HMAC-SHA256-{kind}\n{self._stamp}\n{scope}\n{self._last}\n{covered}"
            ),
        )
        if not hmac.compare_digest(own, said):
            raise invalid(f"The signature of a {kind.lower()} part of the body does not match.")
        self._last = own


def _malformed(message: str) -> SignatureRefused:
    return SignatureRefused(
        "IncompleteSignatureException", f"The body is not in signed chunks: {message}"
    )
