"""Bodies in signed chunks: the examples of AWS's own documentation, whole and changed."""

from __future__ import annotations

import io

import pytest

from slotq.local.entry.chunk_signatures import ChunkSignatures
from slotq.local.entry.signatures import Caller, SignatureRefused, claimed

CALLER = Caller(
    arn="arn:aws:iam::123456789012:user/example",
    access_key="AKIAIOSFODNN7EXAMPLE",
    secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)
FIRST = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
CHUNKS = (
    (65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
    (1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
    (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
)
FIRST_OF_TRAILER = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
CHUNKS_OF_TRAILER = (
    (65536, "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"),
    (1024, "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"),
    (0, "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"),
)
TRAILER = (
    b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
    b"x-amz-trailer-signature:"
    b"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
)


def in_chunks(chunks: tuple[tuple[int, str], ...], end: bytes = b"\r\n") -> bytes:
    parts = [
        f"{size:x};chunk-signature={signature}\r\n".encode() + b"a" * size
        for size, signature in chunks
    ]
    return b"\r\n".join(parts) + end


def check(body: bytes, *, trailer: bool = False) -> None:
    first = FIRST_OF_TRAILER if trailer else FIRST
    claim = claimed("AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request", "host", first)
    file = io.BytesIO(body)
    signatures = ChunkSignatures(CALLER, claim, "20130524T000000Z")
    signatures.check(file.read, file.readline, trailer=trailer)


def test_a_body_as_it_was_signed():
    check(in_chunks(CHUNKS))


def test_a_body_with_trailing_headers():
    check(in_chunks(CHUNKS_OF_TRAILER, TRAILER), trailer=True)


WHOLE = in_chunks(CHUNKS)


@pytest.mark.parametrize(
    "changed",
    [
        WHOLE.replace(b"aaaa\r\n0;", b"aaab\r\n0;"),
        in_chunks(CHUNKS[1:]),
        in_chunks((CHUNKS[0], CHUNKS[2])),
        in_chunks((CHUNKS[1], CHUNKS[0], CHUNKS[2])),
        in_chunks(CHUNKS[:2]),
        WHOLE + b"more",
        WHOLE[:-2],
        WHOLE[:60_000],
        WHOLE.replace(b"chunk-signature", b"chunk-signatura"),
        b"",
        b"aaaa",
    ],
)
def test_a_body_that_was_changed(changed: bytes):
    with pytest.raises(SignatureRefused):
        check(changed)


@pytest.mark.parametrize(
    "end",
    [
        b"\r\n",
        TRAILER.replace(b"sOO8", b"sOO9"),
        TRAILER.replace(b"d81f", b"d82f"),
        TRAILER + b"x: y\r\n",
        b"x: " + b"y" * 20_000,
    ],
)
def test_trailing_headers_that_were_changed(end: bytes):
    with pytest.raises(SignatureRefused):
        check(in_chunks(CHUNKS_OF_TRAILER, end), trailer=True)
