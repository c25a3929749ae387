"""What jobs have used, as a table for people and as CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from slotq.cost.used import UsageLineView
from slotq.output.job_tables import columns, short_names

if TYPE_CHECKING:
    from slotq.output.json_views import UsageView

_HEADS = {"submitter": "PERSON"}
_FIGURES = (
    ">SLOT-H",
    ">INSTANCE-H",
    ">GPU-H",
    ">USD",
    ">SAVED",
    ">JOBS",
    ">ATTEMPTS",
    ">WAIT MEAN",
    ">WAIT P95",
    ">GIVEN",
    ">TAKEN",
    ">LOST-H",
)
_LEAVES = (
    "GIVEN",
    "TAKEN",
    "WAIT P95",
    "ATTEMPTS",
    "INSTANCE-H",
    "LOST-H",
    "GPU-H",
    "WAIT MEAN",
    "JOBS",
    "SAVED",
    "USD",
)
"""The figures that a narrow terminal drops, in this order."""
_SAVED = ">SAVED"
"""Shown only where instances are spot."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_OTHERS = "others"
"""Persons whose use the queue does not show one by one to this caller."""
_FORMULAS = "\r\n=+-@\t"
"""What a text in a cell must not begin with, because a spreadsheet would compute it."""


def usage_page(view: UsageView) -> RenderableType:
    """The lines, their total, and what is not counted."""
    heads = (_HEADS.get(name, name.upper()) for name in view.by)
    spot = any(line.saved_usd or line.unbilled_hours for line in view.lines)
    figures = [head for head in _FIGURES if spot or head != _SAVED]
    table = columns(*heads, *figures, leaves=[name for name in _LEAVES if f">{name}" in figures])
    people = (line.group.get("submitter", "") for line in view.lines)
    short = short_names(filter(None, people))
    for line in view.lines:
        table.add_row(*_cells(line.group, view.by, short), *_figures(line, spot=spot))
    if len(view.lines) > 1 and view.by:
        table.add_row("total", *[""] * (len(view.by) - 1), *_figures(view.total, spot=spot))
    return Group(table, *(Text(note) for note in _notes(view)))


def usage_csv(view: UsageView) -> str:
    """A head and a line for each group, with full names and unrounded figures."""
    figures = [name for name in UsageLineView.model_fields if name != "group"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*view.by, *figures])
    for line in view.lines:
        values = [getattr(line, name) for name in figures]
        names = [_harmless(line.group[name]) for name in view.by]
        writer.writerow([*names, *("" if value is None else value for value in values)])
    return text.getvalue()


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(tuple(_FORMULAS)) else text


def _cells(group: Mapping[str, str], by: Sequence[str], short: Mapping[str, str]) -> list[str]:
    person = group.get("submitter", "")
    shown = {**group, "submitter": short.get(person, "") if person else _OTHERS}
    return [shown[name] or "-" for name in by]


def _figures(line: UsageLineView, *, spot: bool) -> list[str]:
    usd, saved = ("-" if usd is None else f"{usd:,.2f}" for usd in (line.usd, line.saved_usd))
    return [
        f"{line.slot_hours:,.2f}",
        f"{line.instance_hours:,.2f}",
        f"{line.gpu_hours:,.2f}",
        f"{usd}*" if line.unpriced_instance_hours else usd,
        *([saved] if spot else ()),
        f"{line.jobs:,}",
        f"{line.attempts:,}",
        _duration(line.wait_mean),
        _duration(line.wait_p95),
        f"{line.evictions_given:,}",
        f"{line.evictions_taken:,}",
        f"{'≤' if line.lost_hours_at_most else ''}{line.lost_hours:,.2f}",
    ]


def _duration(seconds: float | None) -> str:
    """`7s`, `3m20s`, `2h05m`, `1d03h`; `-` if nothing has waited."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def _notes(view: UsageView) -> list[str]:
    prices = view.prices
    window = f"from {_moment(view.start)} to {_moment(view.end)} (UTC)"
    notes = [f"{window}; prices of {prices.as_of}, {prices.region}: {prices.source}"]
    if prices.without_price:
        notes.append(f"* without {', '.join(prices.without_price)}: no price known (--prices FILE)")
    if unbilled := view.total.unbilled_hours:
        notes.append(
            f"{unbilled:,.2f} of the instance-hours are on spot instances whose bill is not known, "
            "or not yet: they count at the price of their kind, else on demand"
        )
    if at_most := view.total.lost_hours_at_most:
        notes.append(
            f"≤ at most: {at_most:,.2f} of these hours are of attempts that reported no "
            "checkpoint, and may have saved some"
        )
    if view.unreadable:
        notes.append(f"{view.unreadable:,} records cannot be read and are not counted")
    return notes


def _moment(text: str) -> str:
    return text[:19].replace("T", " ")
