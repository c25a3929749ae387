"""A submitted request as it is kept: JSON, compressed, within what one DynamoDB item can hold."""

from __future__ import annotations

import json
import zlib
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.ports import Request

MAX_PACKED = 400 * 1024 - 512
"""Bytes: DynamoDB's limit for one item, less its key and the names of its attributes."""

MAX_UNPACKED = 4_000_000
"""Bytes: several times what a submission may have. 400 KB of zeros, packed, would be 400 MB."""


def pack(request: Request) -> bytes:
    """Raises InvalidRequest where the request stays too large even when compressed."""
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
    """Raises ValueError or zlib.error where it is nothing that `pack` has made."""
    reader = zlib.decompressobj()
    text = reader.decompress(packed, MAX_UNPACKED)
    if not reader.eof:
        raise ValueError(f"what is packed is cut, or larger than {MAX_UNPACKED:,} bytes")
    request: dict[str, Any] = json.loads(text)
    return request
