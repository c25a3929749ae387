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
