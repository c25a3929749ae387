"""What the live path must reach, by figures of `results.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Parts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Promise:
    what: str
    figure: tuple[str, ...]
    """The names that lead to the figure, from the part on. `*`: the largest of all."""
    most: float

    def value(self, parts: Parts) -> float | None:
        """The figure of one version; None if it was not measured."""
        found = [*_found(parts, self.figure)]
        return max(found) if found else None

    def kept(self, value: float) -> bool:
        return value <= self.most

    @property
    def bound(self) -> str:
        return f"≤ {self.most:g}"


ENDS_AND_STARTS = "500 ends found by one tick, and as many starts"
_LINES = ("passes", "2,000 lines", "one decision")
_PROJECTS = ("projects", "passes", "*")
_GROUP = ("groups", "200 members")
_OPEN = ("open page", "5,000 waiting, 100 lines", "*")
_SHARED = ("projects", "submissions", "*")
_EVERYTHING = ("shapes", "50 projects with everything, 20 pools, 122 groups", "one decision")
PROMISES = (
    Promise("calls of a submission, at any queue", ("submissions", "*", "first", "calls"), 5),
    Promise(
        "read units of a submission behind 50,000",
        ("submissions", "behind 50,000 of its line", "first", "read_units"),
        5,
    ),
    Promise("rounds of calls, pass with 2,000 lines", (*_LINES, "rounds"), 20),
    Promise("its seconds at 4 ms a call", (*_LINES, "seconds"), 0.5),
    Promise("its read units, one decision", (*_LINES, "read_units"), 250),
    Promise(
        "read units beside a blocked job of high rank, 20,000 waiting",
        ("passes", "a job of high rank that waits", "one decision", "read_units"),
        150,
    ),
    Promise("calls of a submission, with projects", (*_SHARED, "first", "calls"), 5),
    Promise("its read units", (*_SHARED, "first", "read_units"), 5),
    Promise("rounds of calls, pass with projects", (*_PROJECTS, "one decision", "rounds"), 20),
    Promise("its read units, one decision", (*_PROJECTS, "one decision", "read_units"), 250),
    Promise(
        "rounds of calls, 500 ends found by one tick and as many starts",
        ("many at once", ENDS_AND_STARTS, "rounds"),
        150,
    ),
    Promise("rounds, 30 urgent jobs evict", ("many at once", "30 urgent jobs evict", "rounds"), 40),
    Promise("its calls", ("many at once", "30 urgent jobs evict", "calls"), 250),
    Promise("rounds, 50 projects with everything and 122 groups", (*_EVERYTHING, "rounds"), 16),
    Promise("its calls, one decision", (*_EVERYTHING, "calls"), 60),
    Promise("calls of a quiet pass, 200 pools", ("shapes", "200 pools", "quiet", "calls"), 15),
    Promise(
        "calls of a quiet pass, 1,505 lines over permutations of 5 pools",
        ("shapes", "1,505 lines over permutations of 5 pools", "quiet", "calls"),
        30,
    ),
    Promise("rounds, the worst of all shapes", ("shapes", "*", "one decision", "rounds"), 20),
    Promise("calls of a group of 200 members", (*_GROUP, "calls"), 40),
    Promise("its rounds", (*_GROUP, "rounds"), 20),
    Promise("write units of each member", (*_GROUP, "write_units_of_one"), 12),
    Promise("calls of 1,000 single jobs in a batch", ("batches", "*", "calls"), 200),
    Promise("write units of each", ("batches", "*", "write_units_of_one"), 10),
    Promise("calls of a job's life", ("life", "calls"), 30),
    Promise("read units of an open page in a minute, 5,000 wait", (*_OPEN, "read_units"), 300),
)


def broken(parts: Parts) -> list[str]:
    """The promises that these figures do not keep, in words."""
    values = [(promise, promise.value(parts)) for promise in PROMISES]
    return [
        f"{promise.what}: {value:g}, not {promise.bound}"
        for promise, value in values
        if value is not None and not promise.kept(value)
    ]


def _found(figures: Any, names: tuple[str, ...]) -> Iterator[float]:
    if not names:
        yield float(figures)
        return
    if not isinstance(figures, Mapping):
        return
    first, *rest = names
    for name in figures if first == "*" else {first} & figures.keys():
        yield from _found(figures[name], tuple(rest))
