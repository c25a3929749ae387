"""The attempts of a window as lines of text: a row for each job, and the evictions in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from slotq.output.job_tables import short_names
from slotq_core.model.pools import CapacityKind
from slotq_core.model.reasons import units
from slotq_core.timestamps import from_iso, iso
from slotq_core.usage.attempt_use import WARM

if TYPE_CHECKING:
    from slotq_core.wire.views.usage import AttemptsPageView, HeldSlotsView

ROWS = 40
"""Rows of a pool, and evictions, that are drawn; --json has them all."""
LEAST_WIDTH = 40
_MOST_LABEL = 32
_BETWEEN_TICKS = 14
"""The least columns from one moment of the axis to the next."""
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_STEPS = [
    *(_MINUTE * n for n in (1, 5, 15, 30)),
    *(_HOUR * n for n in (1, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 30, 90)),
]
_STARTS, _RUNS, _ENDS, _EVICTED = "░", "█", "▌", "✗"
_SPOT, _WARM = "▓", "▒"
_STYLES = {
    _STARTS: "dim",
    _RUNS: "blue",
    _SPOT: "blue",
    _WARM: "dim",
    _ENDS: "blue",
    _EVICTED: "bold red",
}
_FULL = {CapacityKind.SPOT.value: _SPOT, WARM: _WARM}
"""How an attempt with its instances is drawn, by kind, else as _RUNS."""
_OTHERS = "(others)"
"""Replaces the names of jobs that the caller may not see."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scale:
    start: int
    end: int
    columns: int

    def column(self, moment: int) -> int:
        """The column of a moment; of one outside the window, the nearest."""
        at = (moment - self.start) * self.columns // (self.end - self.start)
        return max(0, min(self.columns - 1, at))


def timeline_text(view: AttemptsPageView, width: int) -> RenderableType:
    """The drawing, in at most `width` columns (at least LEAST_WIDTH)."""
    width = max(width, LEAST_WIDTH)
    label = min(_MOST_LABEL, width // 3, max((len(_label(a)) for a in view.attempts), default=0))
    scale = _Scale(start=from_iso(view.start), end=from_iso(view.end), columns=width - label - 1)
    parts: list[Text] = [
        Text(line, style="dim", no_wrap=True) for line in _head(view, scale, label)
    ]
    pools: dict[str, list[HeldSlotsView]] = defaultdict(list)
    for attempt in view.attempts:
        for pool in attempt.parts or [attempt.pool]:
            pools[pool].append(attempt)
    for pool in sorted(pools):
        parts += _pool(pool, pools[pool], scale, label)
    if not pools:
        parts.append(Text("No attempt held slots in this window."))
    parts += [*_evictions(view.attempts), *(Text(note, style="yellow") for note in _notes(view))]
    return Group(*parts)


def _head(view: AttemptsPageView, scale: _Scale, label: int) -> Iterator[str]:
    yield f"{_clock(view.start)} to {_clock(view.end)} UTC"
    kinds = {attempt.kind for attempt in view.attempts}
    spot = f"  {_SPOT} runs on spot" if CapacityKind.SPOT.value in kinds else ""
    warm = f"  {_WARM} stays warm" if WARM in kinds else ""
    legend = f"{_STARTS} starts  {_RUNS} runs{spot}{warm}  {_EVICTED} is evicted"
    on_nodes = any(attempt.part_of_slot for attempt in view.attempts)
    yield f"{legend}  1/8 one of a node's 8 GPUs" if on_nodes else legend
    least = (scale.end - scale.start) * _BETWEEN_TICKS // scale.columns
    largest = _STEPS[-1]
    step = next((step for step in _STEPS if step >= least), -(-least // largest) * largest)
    line = [" "] * scale.columns
    for moment in range(-(-scale.start // step) * step, scale.end, step):
        stamp = iso(moment)
        text = stamp[5:10] if step >= _DAY else stamp[11:16]
        at = scale.column(moment)
        if at + len(text) < scale.columns:
            line[at : at + 1 + len(text)] = f"|{text}"
    yield " " * (label + 1) + "".join(line).rstrip()


def _pool(
    pool: str, attempts: Sequence[HeldSlotsView], scale: _Scale, label: int
) -> Iterator[Text]:
    yield Text()
    yield Text(f"{pool}  {units(len(attempts), 'attempts')}", style="bold", no_wrap=True)
    rows: dict[str, list[HeldSlotsView]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda attempt: attempt.admitted_at):
        rows[_label(attempt)].append(attempt)
    for name in [*rows][:ROWS]:
        shown = name if len(name) <= label else f"{name[: label - 1]}…"
        yield Text.assemble(f"{shown:{label}} ", *_bar(rows[name], scale), no_wrap=True)
    if len(rows) > ROWS:
        yield Text(f"and {units(len(rows) - ROWS, 'jobs')} more (--json has all)", style="dim")


def _bar(attempts: Sequence[HeldSlotsView], scale: _Scale) -> Iterator[tuple[str, str]]:
    cells = [" "] * scale.columns
    ends: list[int] = []
    for attempt in attempts:
        begin = scale.column(from_iso(attempt.admitted_at))
        end = scale.end if attempt.ended_at is None else from_iso(attempt.ended_at)
        runs = end if attempt.running_since is None else from_iso(attempt.running_since)
        last, full = scale.column(end), _FULL.get(attempt.kind, _RUNS)
        for at in range(begin, last + 1):
            if at >= scale.column(runs) and attempt.running_since is not None:
                cells[at] = full
            elif cells[at] in " " + _WARM:
                cells[at] = _STARTS
        if attempt.ended_at is not None and end < scale.end and last > begin:
            cells[last] = _ENDS if cells[last] == _RUNS else cells[last]
        if attempt.evicted is not None and end < scale.end:
            ends.append(last)
    for at in ends:  # Last: no bar covers an eviction.
        cells[at] = _EVICTED
    for cell in "".join(cells).rstrip():
        yield cell, _STYLES.get(cell, "")


def _evictions(attempts: Sequence[HeldSlotsView]) -> Iterator[Text]:
    evicted = sorted(
        (
            attempt
            for attempt in attempts
            if attempt.evicted is not None and attempt.ended_at is not None
        ),
        key=lambda attempt: attempt.ended_at or "",
    )
    if not evicted:
        return
    gains = (attempt.evicted.submitter for attempt in evicted if attempt.evicted is not None)
    people = short_names(filter(None, {*gains, *(attempt.submitter for attempt in evicted)}))
    yield Text()
    yield Text(units(len(evicted), "evictions"), style="bold")
    for attempt in evicted[-ROWS:]:
        yield Text.assemble(
            (f"{_clock(attempt.ended_at or '')} {_EVICTED} ", _STYLES[_EVICTED]),
            eviction_words(attempt, people.get),
        )
    if len(evicted) > ROWS:
        yield Text(f"and {len(evicted) - ROWS:,} before (--json has all)", style="dim")


def eviction_words(attempt: HeldSlotsView, short: Callable[[str], str | None]) -> str:
    """From whom and for whom: `job1 (ada) evicted from p5 for job2 (bob, speech)`."""
    found = attempt.evicted
    assert found is not None
    owner = _whose(attempt.submitter, attempt.project, short)
    for_whom = _whose(found.submitter, found.project, short)
    name = found.job or ("a job of others" if for_whom else "")
    gains = f" for {name}{for_whom}" if name else ", for no particular job"
    return f"{_name(attempt)}{owner} evicted from {attempt.pool}{gains}"


def _whose(submitter: str, project: str, short: Callable[[str], str | None]) -> str:
    found = ", ".join(filter(None, (short(submitter) or submitter, project)))
    return f" ({found})" if found else ""


def _name(attempt: HeldSlotsView) -> str:
    return attempt.job or _OTHERS


def _label(attempt: HeldSlotsView) -> str:
    """The name, with the GPUs that an attempt on a node has of the node's."""
    part = "/".join(map(str, attempt.part_of_slot))
    return f"{_name(attempt)} {part}" if part else _name(attempt)


def _notes(view: AttemptsPageView) -> Iterator[str]:
    if view.gone:
        yield (
            f"{units(view.gone, 'attempts')} ended then or later, and the queue no longer keeps "
            "them one by one: `slotq usage` has their sums."
        )
    if view.unreadable:
        yield f"{units(view.unreadable, 'records')} cannot be read and are not drawn."


def _clock(moment: str) -> str:
    return moment[:19].replace("T", " ")
