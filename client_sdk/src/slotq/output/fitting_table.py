"""A table that leaves out columns where it is too wide, before a cell would lose letters."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from rich.table import Column, Row, Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

T = TypeVar("T")

PADDING = 2
"""Cells between two columns."""
_UNBOUNDED = 100_000
_LEAST_TEXT = 24
"""The fewest cells of a column whose texts wrap."""


class FittingTable(Table):
    """A table without lines, whose columns have headings."""

    def __init__(self, leaves: Sequence[str] = ()) -> None:
        """`leaves`: the headings of columns that a narrow terminal drops, in this order. The other
        columns stay, and wrap if they do not fit."""
        super().__init__(box=None, pad_edge=False, padding=(0, PADDING, 0, 0), header_style="bold")
        self._leaves = tuple(leaves)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left_out = self._left_out(console, options)
        kept = [column for column in self.columns if column.header not in left_out]
        fold = self._width(console, options, kept) > options.max_width
        yield self._only(kept, fold=fold, apart=console.is_terminal)
        if any(left_out):
            said = f"(no room for {', '.join(filter(None, left_out))}: `slotq --wide …` shows all)"
            yield Text(said, style="dim")

    def _left_out(self, console: Console, options: ConsoleOptions) -> list[str]:
        """The headings of the columns that leave, in the order of the table."""
        out: set[str] = set()
        there = [str(column.header) for column in self.columns]
        for title in self._leaves:
            kept = [column for column in self.columns if column.header not in out]
            if self._width(console, options, kept) <= options.max_width:
                break
            out.add(title)
        return [title for title in there if title in out]

    def _width(self, console: Console, options: ConsoleOptions, columns: Iterable[Column]) -> int:
        """The cells that these columns need without losing letters."""
        wide = options.update(max_width=_UNBOUNDED)
        widths = []
        for column in columns:
            needed = self._measure_column(console, wide, column).maximum
            widths.append(needed if column.no_wrap else min(needed, _LEAST_TEXT + PADDING))
        return sum(widths) - (PADDING if widths else 0)

    def _only(self, columns: Sequence[Column], *, fold: bool, apart: bool) -> Table:
        """The same table with these columns. `fold`: all wrap rather than lose letters. `apart`:
        with an empty line between sections; programs get a line for each row, and nothing else."""
        table = Table(box=None, pad_edge=False, padding=(0, PADDING, 0, 0), header_style="bold")
        ends = {place for place, row in enumerate(self.rows[:-1]) if apart and row.end_section}
        for number, column in enumerate(columns):
            same = copy(column)
            same._index = number  # noqa: SLF001 - rich has no way to leave out a column
            same._cells = [*_with_gaps(column._cells, ends, "")]  # noqa: SLF001
            if fold:
                same.no_wrap, same.overflow = False, "fold"
            table.columns.append(same)
        table.rows = [*_with_gaps(self.rows, ends, Row())]
        return table


def _with_gaps(items: Iterable[T], ends: Container[int], gap: T) -> Iterator[T]:
    """The items, with a gap after each of these places."""
    for place, item in enumerate(items):
        yield item
        if place in ends:
            yield gap
