"""What a sweep tries, as one compressed attribute: the parameters of many members are alike."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict

from slotq_core.model.groups import Sweep


def packed(sweep: Sweep) -> bytes:
    return zlib.compress(json.dumps(asdict(sweep)).encode())


def unpacked(content: bytes) -> Sweep:
    """Return the sweep. Raises ValueError or TypeError if `packed` did not make the bytes."""
    try:
        told = json.loads(zlib.decompress(content))
    except zlib.error as error:
        raise ValueError("not a compressed sweep") from error
    return Sweep(**{**told, "parameters": tuple(told["parameters"])})
