"""Pack a submitted request for one DynamoDB item: compressed JSON."""

from __future__ import annotations

import json
import zlib
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.ports.training import Request

MAX_PACKED = 400 * 1024 - 512
"""Maximum size (bytes) of a packed request: DynamoDB's limit for one item, less the key and the
attribute names."""

MAX_UNPACKED = 4_000_000
"""Maximum size (bytes) of an unpacked request, several times the largest submission. Without this
bound, 400 KB of packed zeros would unpack to 400 MB."""


def pack(request: Request) -> bytes:
    """Pack a request. Raises InvalidRequest if the request is not JSON, or is too large even when
    compressed."""
    try:
        text = json.dumps(request, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"the request is not JSON: {error}") from None
    packed = zlib.compress(text.encode())
    if len(packed) > MAX_PACKED:
        raise InvalidRequest(
            f"the request is {len(packed):,} bytes even when compressed; the queue can keep "
            f"{MAX_PACKED:,}: move large values (hyperparameters, environment) to S3"
        )
    return packed


def unpack(packed: bytes) -> dict[str, Any]:
    """Unpack a request. Raises ValueError or zlib.error if `pack` did not make the bytes."""
    reader = zlib.decompressobj()
    text = reader.decompress(packed, MAX_UNPACKED)
    if not reader.eof:
        raise ValueError(f"the packed request is cut off, or larger than {MAX_UNPACKED:,} bytes")
    request: dict[str, Any] = json.loads(text)
    return request
