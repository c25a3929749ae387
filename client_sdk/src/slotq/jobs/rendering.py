"""Jobs, attempts and pools as small tables: HTML for notebooks, plain text elsewhere.

A frontend receives both forms and picks one. Names, messages and reasons are untrusted: HTML
escapes them, and non-printable characters are replaced.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, SupportsIndex, TypeVar, overload

from slotq.jobs.follow import earliest, place_text, since
from slotq.jobs.progress_bar import bar

if TYPE_CHECKING:  # Named in strings below.
    from slotq_core.wire.views.jobs import AttemptView, JobView  # noqa: F401
    from slotq_core.wire.views.pools import PoolView  # noqa: F401

T = TypeVar("T")
Column = tuple[str, Callable[[Any], object]]
Bundle = dict[str, str]
"""The forms of one table, by MIME type."""

JOB: tuple[Column, ...] = (
    ("Job", lambda job: job.name),
    ("State", lambda job: job.state),
    ("Priority", lambda job: job.priority),
    ("Place", lambda job: place_text(job) or None),
    ("Pools", lambda job: job.pool or ", ".join(job.pools)),
    ("Since", since),
    ("Earliest", earliest),
    ("Why", lambda job: job.reason.text if job.reason else job.message),
)
PROGRESS: Column = ("Progress", lambda job: bar(job.progress, 60) if job.progress else None)
"""For jobs that report how far they are."""
_ATTEMPT: tuple[Column, ...] = (
    ("Attempt", lambda attempt: attempt.number),
    ("Pool", lambda attempt: attempt.pool),
    ("Running since", lambda attempt: attempt.running_since),
    ("Ended", lambda attempt: attempt.ended_at),
    ("Outcome", lambda attempt: attempt.outcome),
    ("Stopped for", lambda attempt: attempt.stopped_for),
)
_POOL: tuple[Column, ...] = (
    ("Pool", lambda pool: pool.name),
    ("Instance type", lambda pool: pool.instance_type),
    ("State", lambda pool: pool.settings.state),
    ("Slots", lambda pool: pool.capacity["slots"]),
    ("Used", lambda pool: pool.used["slots"]),
    ("Foreign", lambda pool: pool.foreign["slots"]),
)


def bundle(columns: tuple[Column, ...], items: Iterable[Any]) -> Bundle:
    """The table in both forms."""
    head = [name for name, _ in columns]
    rows = [[clean(value(item)) for _, value in columns] for item in items]
    return {"text/plain": text_table([head, *rows]), "text/html": _html(head, rows)}


def text_table(rows: list[list[str]]) -> str:
    """A table in plain text; the first row holds the headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _html(head: list[str], rows: list[list[str]]) -> str:
    cells = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(cells)}</table>"


def _row(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def clean(value: object) -> str:
    """The value as one line of printable characters."""
    text = "" if value is None else " ".join(str(value).split())
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


class Listed(list[T], Generic[T]):
    """A list that a notebook shows as a table."""

    columns: ClassVar[tuple[Column, ...]]

    @overload
    def __getitem__(self, place: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> T | list[T]:
        found = super().__getitem__(place)
        return type(self)(found) if isinstance(place, slice) else found  # type: ignore[arg-type]

    def _repr_mimebundle_(self, **_: object) -> Bundle:
        return bundle(self.columns, self)

    def _repr_pretty_(self, printer: Any, cycle: object) -> None:
        """Print the table: IPython has its own format for lists without this method."""
        printer.text(bundle(self.columns, self)["text/plain"])


class JobList(Listed["JobView"]):
    columns = JOB
    more = False
    """Whether the queue has further jobs of this kind than the list was asked for."""
    examined = 0
    """How many jobs the queue read for it."""


class AttemptList(Listed["AttemptView"]):
    columns = _ATTEMPT


class PoolList(Listed["PoolView"]):
    columns = _POOL
