"""Prints figures in columns, beside those of the version before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.promises import PROMISES

_WIDTH = 62
_CELL = 16


def show(figures: Any, before: Any) -> None:
    """Print a part: one line for each group of numbers, each number after what it was before."""
    names: tuple[str, ...] = ()
    for path, row in _rows(figures):
        earlier = _at(before, path)
        if (*row,) != names:
            names = (*row,)
            print(f"{'':{_WIDTH}}{''.join(f'{name[: _CELL - 2]:>{_CELL}}' for name in names)}")
        cells = (_cell(value, earlier.get(name)) for name, value in row.items())
        print(f"{', '.join(path)[:_WIDTH]:{_WIDTH}}{''.join(f'{each:>{_CELL}}' for each in cells)}")


def show_promises(parts: Mapping[str, Any], before: Mapping[str, Any], name: str) -> None:
    """Print what the live path must reach."""
    print(f"\n{'what it must reach':{_WIDTH}}{'now':>12}{name:>18}{'':>4}bound")
    for promise in PROMISES:
        now, was = promise.value(parts), promise.value(before)
        mark = "" if now is None else "ok" if promise.kept(now) else "NO"
        row = f"{promise.what:{_WIDTH}}{_text(now):>12}{_text(was):>18}"
        print(f"{row}    {promise.bound:8}{mark}")


def _rows(
    figures: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, float]]]:
    """The numbers that stand side by side, with the names that lead to them. Lists are left out:
    they are for the page."""
    row = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    if row:
        yield path, row
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _rows(value, (*path, name))


def _at(figures: Any, path: tuple[str, ...]) -> Mapping[str, Any]:
    for name in path:
        figures = figures.get(name, {}) if isinstance(figures, Mapping) else {}
    return figures if isinstance(figures, Mapping) else {}


def _cell(value: float, was: float | None) -> str:
    return _text(value) if was in {None, value} else f"{_text(was)} → {_text(value)}"


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:,g}"
