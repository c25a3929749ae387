"""The answer to what if: as JSON, and in words, which the terminal and the page share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel

from slotq_core.model.reasons import units
from slotq_core.timestamps import from_iso
from slotq_core.wire.document.views import EntryChangeView

What = Literal["starts", "evicted", "runs", "stops", "waits", "held", "ended", "absent"]
Event = Literal["start", "evict", "complete", "fail", "cancel"]


class NowView(BaseModel):
    """What the next passes do with a job, before any time goes by."""

    what: What
    """`absent`: there is no such job."""
    pool: str | None = None
    why: str = ""
    """Why it waits, or for whom it is evicted, as a sentence."""


class NowRow(BaseModel):
    job: str
    project: str = ""
    before: NowView
    """Without the change."""
    after: NowView


class MomentView(BaseModel):
    """When something happens to a job."""

    at: str
    pool: str | None = None
    why: str = ""


class TimelineRow(BaseModel):
    """Something that happens at another time, elsewhere, or only with or without the change."""

    job: str
    event: Event
    before: MomentView | None
    """Null: it does not happen without the change, within the time looked at."""
    after: MomentView | None
    """Null: it does not happen with the change."""


class AssumedView(BaseModel):
    """Assumptions about the unknown."""

    stop_seconds: float
    """How long a stop takes."""
    runtimes: dict[str, int]
    """The number of jobs by the source of their running time: `eta` (reported by the job),
    `estimate` (the submission's), `given` (by the caller), `max_runtime` (the request's limit),
    `default` (SageMaker's)."""


class WhatIfCostView(BaseModel):
    """What jobs use of a pool within the time looked at."""

    instance_hours: float
    usd: float | None
    """Null: no price is known."""
    saved_usd: float | None
    """How much more that costs on demand."""


class CostRow(BaseModel):
    pool: str
    kind: str
    """How the instances are bought (`capacity_kind`), or `warm`: they wait for the next job."""
    before: WhatIfCostView | None
    """Null: no use without the change."""
    after: WhatIfCostView | None


class WorldView(BaseModel):
    """What becomes of a project's jobs within the time looked at."""

    starts: int = 0
    evictions: int = 0
    completions: int = 0
    slot_hours: float = 0
    """Slots held, times hours."""
    wait_seconds: float = 0
    """How long its jobs wait from now on, in the mean over all of them."""


class WorldRow(BaseModel):
    project: str
    """Empty: the jobs of no project."""
    before: WorldView
    """Without the change."""
    after: WorldView


class WhatIfView(BaseModel):
    """The present queue, with a change and without."""

    at: str
    """The moment of the queue that the answer starts from."""
    until: str
    revision: int
    """The configuration's."""
    withheld: int
    """The number of jobs with stand-in names, because the caller may not see them. The answer is
    then partial: it ignores the limits of their users."""
    left_out: int
    """The number of ignored waiting jobs, at least."""
    assumed: AssumedView
    now: list[NowRow]
    """The jobs that start or are evicted now, with the change or without, and those changed."""
    timeline: list[TimelineRow]
    """How the time after that differs, the earliest first."""
    worlds: list[WorldRow] = []
    """What becomes of each project's jobs."""
    configuration: list[EntryChangeView]
    """The change of the configuration."""
    costs: list[CostRow] = []
    """What the instances cost until then."""
    prices: str = ""
    """The prices, in words."""


NOTHING = "–"
"""Shown in place of a missing job or moment."""
QUIET = "Now: nothing starts and nothing is evicted."
_STATES = {
    "starts": "starts",
    "evicted": "evicted",
    "runs": "runs",
    "stops": "is being stopped",
    "waits": "waits",
    "held": "held",
    "ended": "ends",
    "absent": NOTHING,
}
EVENTS = {
    "start": "starts",
    "evict": "is evicted",
    "complete": "completes",
    "fail": "fails",
    "cancel": "is cancelled",
}
_SOURCES = {
    "eta": "by what the jobs report",
    "estimate": "by --runtime-estimate",
    "given": "by --runtime",
    "max_runtime": "by MaxRuntimeInSeconds",
    "default": "by SageMaker's default of a day",
}


def head(view: WhatIfView) -> str:
    """The moment, and what is assumed."""
    runtimes = ", ".join(
        f"{units(number, 'jobs')} {_SOURCES[source]}"
        for source, number in view.assumed.runtimes.items()
    )
    moment = view.at[:16].replace("T", " ")
    return (
        f"The queue at {moment} UTC. Assumed: running times ({runtimes or 'none'}), "
        f"and {units(round(view.assumed.stop_seconds), 'seconds')} for a stop."
    )


def state(now: NowView) -> str:
    """What becomes of a job now."""
    where = f" in {now.pool}" if now.pool else ""
    if now.what == "evicted" and now.why:
        return f"{now.why}{where}"
    why = f": {now.why}" if now.why else ""
    return f"{_STATES[now.what]}{where}{why}"


def moment(of: MomentView | None, begin: int) -> str:
    """When and where something happens, seen from `begin` (ms)."""
    if of is None:
        return NOTHING
    ms = from_iso(of.at) - begin
    where = f" in {of.pool}" if of.pool else ""
    return f"{'now' if ms < 1000 else f'in {lasting(ms)}'}{where}"


def cost(of: WhatIfCostView | None) -> str:
    """`12.5 h, 1,231.20 USD, 40.10 saved`."""
    if of is None:
        return NOTHING
    usd = "" if of.usd is None else f", {of.usd:,.2f} USD"
    saved = f", {of.saved_usd:,.2f} saved" if of.saved_usd else ""
    return f"{of.instance_hours:,.1f} h{usd}{saved}"


def world(of: WorldView) -> str:
    """`12 starts, 3 evictions, 4 completed, 40.5 slot-hours, waits 25 min`."""
    waits = f"waits {lasting(round(of.wait_seconds * 1000))}" if of.wait_seconds else "no wait"
    return (
        f"{units(of.starts, 'starts')}, {units(of.evictions, 'evictions')}, "
        f"{of.completions} completed, {of.slot_hours:,.1f} slot-hours, {waits}"
    )


def costs_and_total(view: WhatIfView) -> list[CostRow]:
    """The costs, and all of them together if there are several."""
    if len(view.costs) < 2:
        return view.costs
    total = CostRow(
        pool="total",
        kind="",
        before=_sum([row.before for row in view.costs if row.before]),
        after=_sum([row.after for row in view.costs if row.after]),
    )
    return [*view.costs, total]


def _sum(views: Sequence[WhatIfCostView]) -> WhatIfCostView:
    usd = [view.usd for view in views if view.usd is not None]
    return WhatIfCostView(
        instance_hours=sum(view.instance_hours for view in views),
        usd=sum(usd) if usd else None,
        saved_usd=sum(view.saved_usd or 0 for view in views),
    )


def same(view: WhatIfView) -> str:
    """The sentence for a timeline without differences."""
    return f"The next {lasting(from_iso(view.until) - from_iso(view.at))}: no difference."


def partial(view: WhatIfView) -> Iterator[str]:
    """What the answer leaves out, as sentences."""
    if view.withheld:
        yield (
            f"Partial: {units(view.withheld, 'jobs')} of others bear stand-in names, and the "
            "limits of their users are not counted."
        )
    if view.left_out:
        rest = units(view.left_out, "jobs")
        yield f"Partial: at least {rest} far behind in the line are left out."


def lasting(ms: int) -> str:
    """`4 h 10 min`: to the minute."""
    hours, minutes = divmod(max(1, round(ms / 60_000)), 60)
    parts = [f"{hours:,} h"] if hours else []
    return " ".join([*parts, *([f"{minutes} min"] if minutes or not hours else [])])
