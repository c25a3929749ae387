"""A table that leaves out columns where it is too wide, before a cell would lose letters; and a
console for untrusted texts: S3 URIs, messages, metrics."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.table import Column, Row, Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

T = TypeVar("T")

PADDING = 2
"""Cells between two columns."""
_UNBOUNDED = 100_000
_LEAST_TEXT = 24
"""The fewest cells of a column whose texts wrap."""


class FittingTable(Table):
    """A table without lines, whose columns have headings."""

    def __init__(self, leaves: Sequence[str] = ()) -> None:
        """`leaves`: the headings of columns that a narrow terminal drops, in this order, if they
        are there. The other columns stay, and wrap if they do not fit."""
        super().__init__(box=None, pad_edge=False, padding=(0, PADDING, 0, 0), header_style="bold")
        self._leaves = tuple(leaves)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = [self._needed(console, options, column) for column in self.columns]
        out = self._left_out(needed, options.max_width)
        kept = [number for number in range(len(self.columns)) if number not in out]
        columns, widths = [self.columns[n] for n in kept], [needed[n] for n in kept]
        # An empty line between sections; programs get a line for each row, and nothing else.
        ends = {n for n, row in enumerate(self.rows[:-1]) if row.end_section}
        gaps = ends if console.is_terminal else set()
        if columns and _total(widths) <= options.max_width and self._is_plain(columns):
            yield from _lines(console, columns, widths, gaps)
        else:
            fold = self._least(needed, kept) > options.max_width
            yield self._only(columns, fold=fold, gaps=gaps)
        if out:
            named = ", ".join(filter(None, (str(self.columns[n].header) for n in sorted(out))))
            yield Text(f"(no room for {named}: `slotq --wide …` shows all)", style="dim")

    def _needed(self, console: Console, options: ConsoleOptions, column: Column) -> int:
        """The cells that a column needs without losing letters, and without its padding."""
        cells = [column.header, *column.cells]
        if all(map(_is_line, cells)):
            return max(map(cell_len, map(str, cells)))
        wide = options.update(max_width=_UNBOUNDED)
        return self._measure_column(console, wide, column).maximum - PADDING

    def _left_out(self, needed: Sequence[int], room: int) -> set[int]:
        """The columns that leave."""
        out: set[int] = set()
        numbers = {str(column.header): number for number, column in enumerate(self.columns)}
        for title in filter(numbers.__contains__, self._leaves):
            kept = [number for number in range(len(needed)) if number not in out]
            if self._least(needed, kept) <= room:
                break
            out.add(numbers[title])
        return out

    def _least(self, needed: Sequence[int], kept: Iterable[int]) -> int:
        """The cells that these columns need if texts wrap."""
        bounded = (
            needed[n] if self.columns[n].no_wrap else min(needed[n], _LEAST_TEXT) for n in kept
        )
        return _total([*bounded])

    def _is_plain(self, columns: Iterable[Column]) -> bool:
        """Whether each cell is one line in a style of its own at most."""
        return not any(row.style for row in self.rows) and all(
            column.style == "" and all(map(_is_line, column.cells)) for column in columns
        )

    def _only(self, columns: Sequence[Column], *, fold: bool, gaps: Container[int]) -> Table:
        """The same table with these columns. `fold`: all wrap rather than lose letters."""
        table = Table(box=None, pad_edge=False, padding=(0, PADDING, 0, 0), header_style="bold")
        for number, column in enumerate(columns):
            same = copy(column)
            same._index = number  # noqa: SLF001 - rich has no way to leave out a column
            same._cells = [*_with_gaps(column.cells, gaps, "")]  # noqa: SLF001
            if fold:
                same.no_wrap, same.overflow = False, "fold"
            table.columns.append(same)
        table.rows = [*_with_gaps(self.rows, gaps, Row())]
        return table


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + PADDING * max(0, len(widths) - 1)


def _is_line(cell: object) -> bool:
    return isinstance(cell, (str, Text)) and str(cell).isprintable()


def _lines(
    console: Console, columns: Sequence[Column], widths: Sequence[int], gaps: Container[int]
) -> Iterator[Segment]:
    """The table where no cell wraps: rich takes ten times as long to find that."""
    right = [column.justify == "right" for column in columns]
    heads = [Text(str(column.header), style="bold") for column in columns]
    rows = zip(*(column.cells for column in columns), strict=True)
    blank = [""] * len(columns)
    for row in [heads, *_with_gaps(rows, gaps, blank)]:
        last = len(row) - 1
        for number, cell in enumerate(row):
            room = " " * (widths[number] - cell_len(str(cell)))
            after = "" if number == last else " " * PADDING
            yield Segment(room if right[number] else "")
            yield from _rendered(console, cell)
            yield Segment(after if right[number] else room + after)
        yield Segment.line()


def _rendered(console: Console, cell: str | Text) -> Iterable[Segment]:
    if isinstance(cell, str):
        return [Segment(cell)]
    return Segment.apply_style(cell.render(console), console.get_style(cell.style))


def _with_gaps(items: Iterable[T], ends: Container[int], gap: T) -> Iterator[T]:
    """The items, with a gap after each of these places."""
    for place, item in enumerate(items):
        yield item
        if place in ends:
            yield gap


WIDE = 10_000
"""Columns of output that is not a terminal: a table in a file or a pipe is never cut."""


def safe_console(*, plain: bool, terminal: bool, wide: bool, stderr: bool) -> Console:
    """A console that prints no control characters. `plain`: without colours; `wide`: tables keep
    all columns on a narrow terminal."""
    return _SafeConsole(
        no_color=plain,
        color_system=None if plain else "auto",
        width=None if terminal and not wide else WIDE,
        height=None if terminal else WIDE,  # rich lets TERM=dumb override a width alone
        force_terminal=terminal,  # Ignore FORCE_COLOR and TTY_COMPATIBLE.
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
    )


class _SafeConsole(Console):
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            safe = control or text.isprintable() or text == "\n"
            yield segment if safe else Segment("".join(map(_printable, text)), style)


def _printable(character: str) -> str:
    """The character, or as much space as a table has left for it."""
    kept = character.isprintable() or character == "\n"
    return character if kept else " " * cell_len(character)
