"""The sums of a day as text, in parts of bounded size.

A part is self-contained: it names each text once, and its rows refer to the texts by index. Besides
the rows, `at_most` has one number for each row, and `bought`, if any row is not on demand, three:
its kind's text, and what of its instance time was saved and is unbilled. Earlier versions wrote
neither and ignored the keys. A part of an unknown version is refused whole. The store verifies each
part by a hash, so no number is checked here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from slotq_core.usage.amounts import Amounts, UsageGroup, Waits

Cell = tuple[str, UsageGroup, Amounts]
"""A calendar day, and the use of a group on it."""

FORMAT = 1
MOST_CHARACTERS = 250_000
"""The length at which a part ends. One more row fits into an item of the store all the same."""
_TEXTS = len(UsageGroup._fields)
"""The texts of a row: the day, and the group without its kind."""
_ON_DEMAND = UsageGroup().kind


class _Part:
    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._rows: list[list[int]] = []
        self._at_most: list[int] = []
        self._bought: list[list[int]] = []
        self._on_demand_alone = True
        self.length = 0

    def take(self, day: str, group: UsageGroup, amounts: Amounts) -> None:
        *texts, kind = group
        row = [*(self._place(text) for text in (day, *texts)), *_numbers(amounts)]
        self._rows.append(row)
        self._at_most.append(amounts.lost_at_most_ms)
        self._take_bought(kind, amounts)
        self.length += sum(len(str(number)) + 1 for number in (*row, amounts.lost_at_most_ms))

    def _take_bought(self, kind: str, amounts: Amounts) -> None:
        bought = [self._place(kind), amounts.saved_ms, amounts.unbilled_ms]
        self._bought.append(bought)
        self._on_demand_alone = self._on_demand_alone and kind == _ON_DEMAND
        self.length += sum(len(str(number)) + 1 for number in bought)

    def _place(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self.length += len(json.dumps(text)) + 1
        return self._texts[text]

    def text(self) -> str:
        found = {"format": FORMAT, "texts": [*self._texts], "rows": self._rows}
        found["at_most"] = self._at_most
        if not self._on_demand_alone:
            found["bought"] = self._bought
        return json.dumps(found, separators=(",", ":"))


def parts_of(cells: Iterable[Cell], most: int = MOST_CHARACTERS) -> Iterator[str]:
    """The cells in texts of about `most` characters."""
    part = _Part()
    for day, group, amounts in cells:
        part.take(day, group, amounts)
        if part.length >= most:
            yield part.text()
            part = _Part()
    if part.length:
        yield part.text()


def read_part(text: str) -> Iterator[Cell]:
    """The cells of a part. Raises ValueError, KeyError, TypeError or IndexError if the text is no
    part that this version can read."""
    found = json.loads(text)
    if found["format"] != FORMAT:
        raise ValueError(f"sums of format {found['format']!r}")
    texts, rows = found["texts"], found["rows"]
    every_most = found.get("at_most") or [None] * len(rows)
    every_bought = found.get("bought") or [None] * len(rows)
    for row, at_most, bought in zip(rows, every_most, every_bought, strict=True):
        day, *group = (texts[place] for place in row[:_TEXTS])
        amounts = _amounts(row[_TEXTS:], at_most)
        kind = _ON_DEMAND
        if bought is not None:
            place, amounts.saved_ms, amounts.unbilled_ms = bought
            kind = texts[place]
        yield day, UsageGroup(*group)._replace(kind=kind), amounts


def _numbers(amounts: Amounts) -> list[int]:
    waits = amounts.waits
    return [
        amounts.slot_ms,
        amounts.instance_ms,
        amounts.lost_ms,
        amounts.jobs,
        amounts.attempts,
        amounts.evictions_given,
        amounts.evictions_taken,
        waits.count,
        waits.total,
        *(number for bucket in sorted(waits.buckets.items()) for number in bucket),
    ]


def _amounts(numbers: list[Any], at_most: int | None) -> Amounts:
    """The amounts. Without `at_most`, the whole loss of a row is an upper bound."""
    (
        slot_ms,
        instance_ms,
        lost_ms,
        jobs,
        attempts,
        evictions_given,
        evictions_taken,
        count,
        total,
        *waits,
    ) = numbers
    return Amounts(
        slot_ms=slot_ms,
        instance_ms=instance_ms,
        lost_ms=lost_ms,
        lost_at_most_ms=lost_ms if at_most is None else at_most,
        jobs=jobs,
        attempts=attempts,
        evictions_given=evictions_given,
        evictions_taken=evictions_taken,
        waits=Waits(
            count=count,
            total=total,
            buckets=dict(zip(waits[::2], waits[1::2], strict=True)),
        ),
    )
