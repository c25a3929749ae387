"""A console for tables with untrusted texts in them: S3 URIs, messages, metrics."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

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
