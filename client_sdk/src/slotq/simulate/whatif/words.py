"""The answer in words: the terminal and the page say the same."""

from __future__ import annotations

from collections.abc import Iterator

from slotq.simulate.whatif.views import MomentView, NowView, WhatIfView
from slotq_core.model.reasons import units
from slotq_core.timestamps import from_iso

NOTHING = "–"
"""Stands for a job or a moment that is not there."""
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


def same(view: WhatIfView) -> str:
    """That the time after now does not differ."""
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
    told = [f"{hours:,} h"] if hours else []
    return " ".join([*told, *([f"{minutes} min"] if minutes or not hours else [])])
