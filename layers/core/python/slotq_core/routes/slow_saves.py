"""Warnings of saves that take longer than a pool waits for them (`Pool.suspend_grace`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import JobView


def with_slow_saves(
    views: Iterable[JobView], graces: Callable[[], Mapping[str, int]]
) -> Iterator[JobView]:
    """Yield the views, with a warning where the last save was too slow. `graces` gives how long
    (ms) each pool waits; it is called at most once, and only if a script has timed a save."""
    known = cache(graces)
    for view in views:
        saved = view.progress.saved if view.progress else None
        took = saved.took_seconds if saved else None
        text = slow_save(view.name, took, known().get(view.pool or "", 0)) if took else ""
        yield view.model_copy(update={"warnings": [*view.warnings, text]}) if text else view


def slow_save(job: str, took: float, grace: int) -> str:
    """What to do about a save that took so long (s); empty if it was fast enough, or if the pool
    asks nobody before it stops a job."""
    wait = grace / 1000
    if not 0 < wait < took:
        return ""
    return (
        f"the last save of {job} took {_seconds(took)}, and its pool waits only {_seconds(wait)} "
        "between asking a job to suspend and stopping it: what the script has done since its last "
        "save is then lost. Save more often, less, or asynchronously, or ask for a longer "
        "suspend_grace"
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
