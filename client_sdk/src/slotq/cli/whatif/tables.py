"""The answer of `slotq whatif`, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from slotq.output.job_tables import columns
from slotq.simulate.whatif import answer
from slotq_core.timestamps import from_iso

if TYPE_CHECKING:
    from rich.table import Table

    from slotq.simulate.whatif.answer import NowView, WhatIfView

SHOWN = 40
"""Rows of each table; --json has them all."""
_COLORS = {"starts": "green", "evicted": "red", "waits": "yellow"}


def answer_tables(view: WhatIfView, *, changes: bool) -> RenderableType:
    """Now, and the time after. `changes`: whether anything is changed."""
    parts: list[RenderableType] = [Text(answer.head(view), style="dim")]
    if view.now:
        parts += [Text(), _now(view, changes=changes)]
    else:
        parts += [Text(), Text(answer.QUIET)]
    if view.timeline:
        parts += [Text(), _timeline(view)]
    elif changes:
        parts += [Text(), Text(answer.same(view))]
    if changes:
        parts += [Text(), _worlds(view)]
    if view.costs:
        parts += [Text(), _costs(view, changes=changes), Text(view.prices, style="dim")]
    parts += [Text(sentence, style="yellow") for sentence in answer.partial(view)]
    return Group(*parts)


def _now(view: WhatIfView, *, changes: bool) -> Table:
    heads = ("WITHOUT THE CHANGE", "WITH IT") if changes else ("NOW",)
    shared = any(row.project for row in view.now)
    table = columns("JOB", *(["PROJECT"] if shared else []), *heads)
    for row in view.now[:SHOWN]:
        cells = (_state(row.before), _state(row.after)) if changes else (_state(row.after),)
        table.add_row(row.job, *([row.project] if shared else []), *cells)
    _note_rest(table, len(view.now))
    return table


def _state(now: NowView) -> Text:
    return Text(answer.state(now), style=_COLORS.get(now.what, ""))


def _timeline(view: WhatIfView) -> Table:
    table = columns("JOB", "", "WITHOUT THE CHANGE", "WITH IT")
    begin = from_iso(view.at)
    for row in view.timeline[:SHOWN]:
        sides = (answer.moment(side, begin) for side in (row.before, row.after))
        table.add_row(row.job, answer.EVENTS[row.event], *sides)
    _note_rest(table, len(view.timeline))
    return table


def _worlds(view: WhatIfView) -> Table:
    """What becomes of each project's jobs."""
    table = columns("PROJECT", "WITHOUT THE CHANGE", "WITH IT")
    for row in view.worlds[:SHOWN]:
        table.add_row(row.project or "–", answer.world(row.before), answer.world(row.after))
    _note_rest(table, len(view.worlds))
    return table


def _costs(view: WhatIfView, *, changes: bool) -> Table:
    """What the instances cost."""
    lasting = answer.lasting(from_iso(view.until) - from_iso(view.at))
    heads = ("WITHOUT THE CHANGE", "WITH IT") if changes else (f"THE NEXT {lasting.upper()}",)
    table = columns("POOL", "KIND", *heads)
    for row in answer.costs_and_total(view):
        cells = (answer.cost(side) for side in ((row.before,) if changes else ()) + (row.after,))
        table.add_row(row.pool, row.kind, *cells)
    return table


def _note_rest(table: Table, number: int) -> None:
    if number > SHOWN:
        table.add_row(Text(f"and {number - SHOWN:,} more (--json has all)", style="dim"))
