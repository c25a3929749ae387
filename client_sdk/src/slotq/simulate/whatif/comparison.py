"""Where two forecasts of one queue differ: now, and in the time after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from slotq.cost.instance_prices import InstancePrices, instance_prices
from slotq.simulate.run.record import RecordedEvent as Happened
from slotq.simulate.whatif.answer import (
    AssumedView,
    Event,
    MomentView,
    NowRow,
    NowView,
    TimelineRow,
    What,
    WhatIfView,
)
from slotq.simulate.whatif.costs import costs
from slotq.simulate.whatif.forecast import STOP, Forecast
from slotq.simulate.whatif.worlds import worlds
from slotq_core.model.jobs import QUEUED_STATES, TERMINAL_STATES, JobState
from slotq_core.timestamps import iso, seconds
from slotq_core.wire.document.differences import differences
from slotq_core.wire.document.views import entry_change_view

SAME = 60_000
"""Moments that are nearer to each other than this (ms) count as the same."""

_KINDS: dict[str, Event] = {
    "start": "start",
    "evict": "evict",
    "yield": "evict",
    "suspend": "evict",
    "complete": "complete",
    "fail": "fail",
    "cancel": "cancel",
}
_ORDER: tuple[What, ...] = (
    "evicted", "starts", "ended", "stops", "runs", "waits", "held", "absent",
)  # fmt: skip
"""The order of the jobs now, by what the change brings."""


def compared(
    before: Forecast,
    after: Forecast,
    *,
    touched: Collection[str] = (),
    prices: InstancePrices | None = None,
) -> WhatIfView:
    """Compare the queue without a change and with it. `touched`: jobs that are always in the
    answer. `prices`: of instances; None: those that come with the client."""
    queue = before.queue
    known = prices or instance_prices()
    changes = differences(queue.settings, after.queue.settings)
    return WhatIfView(
        at=iso(queue.at),
        until=iso(before.until),
        revision=queue.revision,
        withheld=len(queue.withheld),
        left_out=queue.left_out,
        assumed=AssumedView(
            stop_seconds=seconds(STOP),
            runtimes={
                source.value: number
                for source, number in sorted(after.runtimes.sources(after.queue).items())
            },
        ),
        now=sorted(_now(before, after, touched), key=_place),
        timeline=sorted(_timeline(before, after), key=_moment),
        worlds=worlds(before, after),
        configuration=[entry_change_view(change) for change in changes],
        costs=costs(before, after, known),
        prices=known.in_words,
    )


def _now(before: Forecast, after: Forecast, touched: Collection[str]) -> Iterator[NowRow]:
    for name in dict.fromkeys((*_names(before), *_names(after))):
        without, with_change = now_of(before, name), now_of(after, name)
        if with_change.what == "absent":
            with_change = NowView(what="ended", why="cancelled")
        moves = {without.what, with_change.what} & {"starts", "evicted"}
        if (
            moves
            or (without.what, without.pool) != (with_change.what, with_change.pool)
            or name in touched
        ):
            job = after.queue.job(name) or before.queue.job(name)
            yield NowRow(
                job=name, project=job.project if job else "", before=without, after=with_change
            )


def _names(of: Forecast) -> Iterable[str]:
    return (job.name for job in of.queue.jobs)


def now_of(of: Forecast, name: str) -> NowView:
    """What the passes at the first moment do with the job."""
    if name not in of.record.states:
        return NowView(what="absent")
    at = of.queue.at
    state = JobState(of.record.state_at(name, at))
    here = [event for event in of.record.events if event.t == at and event.job == name]
    for event in reversed(here):
        match _KINDS.get(event.event):
            case "start":
                return NowView(what="starts", pool=event.pool)
            case "evict":
                return NowView(what="evicted", pool=event.pool, why=event.reason)
    job = of.queue.job(name)
    pool = job.attempt.pool if job and job.attempt else None
    if state in TERMINAL_STATES:
        return NowView(what="ended")
    if state is JobState.HELD:
        return NowView(what="held")
    if state in QUEUED_STATES:
        return NowView(what="waits", why=of.reasons.get(name, ""))
    return NowView(what="stops" if state is JobState.STOPPING else "runs", pool=pool)


def _timeline(before: Forecast, after: Forecast) -> Iterator[TimelineRow]:
    without, with_change = _histories(before), _histories(after)
    for key in dict.fromkeys((*without, *with_change)):
        was, then = without.get(key), with_change.get(key)
        if was is None or then is None or _differ(was, then):
            job, kind, _ = key
            yield TimelineRow(job=job, event=kind, before=_view(was), after=_view(then))


def _histories(of: Forecast) -> dict[tuple[str, Event, int], Happened]:
    """The events by job, kind, and the number of earlier events of that kind of the job."""
    found: dict[tuple[str, Event, int], Happened] = {}
    counts: dict[tuple[str, Event], int] = {}
    for event in of.record.events:
        kind = _KINDS.get(event.event)
        if kind is not None and event.job:
            number = counts[event.job, kind] = counts.get((event.job, kind), 0) + 1
            found[event.job, kind, number] = event
    return found


def _differ(was: Happened, then: Happened) -> bool:
    return was.pool != then.pool or abs(was.t - then.t) >= SAME


def _view(event: Happened | None) -> MomentView | None:
    if event is None:
        return None
    return MomentView(at=iso(event.t), pool=event.pool, why=event.reason)


def _place(row: NowRow) -> tuple[int, int, str]:
    return _ORDER.index(row.after.what), _ORDER.index(row.before.what), row.job


def _moment(row: TimelineRow) -> tuple[str, str]:
    return min(start.at for start in (row.before, row.after) if start), row.job
