"""CPU time of reading the worst input of each kind: for people to read, without a bound.

The tests (tests/attack/test_load.py) count the same work in Python. What C does within one call, as
a regular expression or the decoder of JSON, shows only here: where it is linear, all of an input
takes about four times as long as a quarter of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import process_time
from typing import Any

from slotq_core.errors import SlotQError
from tests.attack.test_load import READS, Shape

Figures = Mapping[str, Mapping[str, float]]
NOISE = 0.002
"""Seconds; a faster read says nothing about growth."""


def measure() -> Figures:
    """By input: CPU time of all of it (`cpu_ms`), and how many times a quarter's that is."""
    return {
        f"{what}: {name}": _figures(read, shape, largest)
        for what, (read, shapes, largest) in READS.items()
        for name, shape in shapes.items()
    }


def _figures(read: Callable[[Any], object], shape: Shape, largest: int) -> Mapping[str, float]:
    quarter, whole = (_seconds(read, shape(size)) for size in (largest // 4, largest))
    growth = {"growth": round(whole / quarter, 1)} if quarter > NOISE else {}
    return {"cpu_ms": round(whole * 1000, 1), **growth}


def _seconds(read: Callable[[Any], object], what: Any) -> float:
    began = process_time()
    with suppress(SlotQError):
        read(what)
    return process_time() - began
