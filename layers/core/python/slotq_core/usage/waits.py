"""Waits as a histogram that can be added up: exact count and sum, percentiles to 1.6 %.

Each power of two is divided into 32 buckets of equal width, so a bucket is at most 1/32 of its
lower bound wide, and its middle is at most 1/64 from any wait in it. Waits below 64 ms are exact.
Whole numbers only: every machine puts a wait into the same bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_BITS = 5
_PARTS = 1 << _BITS


@dataclass(kw_only=True, slots=True)
class Waits:
    """How long jobs waited, in ms."""

    count: int = 0
    total: int = 0
    buckets: dict[int, int] = field(default_factory=dict)
    """The number of waits by the lower bound of their bucket."""

    def note(self, wait: int) -> None:
        self.count += 1
        self.total += wait
        bound = lower_bound(wait)
        self.buckets[bound] = self.buckets.get(bound, 0) + 1

    def add(self, other: Waits) -> None:
        self.count += other.count
        self.total += other.total
        for bound, count in other.buckets.items():
            self.buckets[bound] = self.buckets.get(bound, 0) + count

    @property
    def mean(self) -> float | None:
        """None: nothing has waited."""
        return self.total / self.count if self.count else None

    def percentile(self, percent: int) -> float | None:
        """The wait that `percent` % of the waits do not exceed; None: nothing has waited."""
        wanted, seen = -(-self.count * percent // 100), 0
        for bound, count in sorted(self.buckets.items()):
            seen += count
            if seen >= wanted > 0:
                return bound + (width(bound) - 1) / 2
        return None


def lower_bound(wait: int) -> int:
    """The lower bound of the bucket that holds the wait. Raises ValueError for negative waits."""
    if wait < 0:
        raise ValueError(f"a wait of {wait} ms")
    shift = max(0, wait.bit_length() - _BITS - 1)
    return wait >> shift << shift


def width(bound: int) -> int:
    """The width of the bucket with that lower bound."""
    return 1 << max(0, bound.bit_length() - _BITS - 1)


def waits_of(count: int, total: int, buckets: Mapping[int, int]) -> Waits:
    """Waits as they were told. Raises ValueError if they cannot be."""
    plausible = all(lower_bound(bound) == bound and n > 0 for bound, n in buckets.items())
    if not plausible or sum(buckets.values()) != count or total < 0:
        raise ValueError("these are not the buckets of a histogram of waits")
    return Waits(count=count, total=total, buckets=dict(buckets))
