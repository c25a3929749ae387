"""Warnings of saves that take longer than an eviction leaves them (`model.reports.slow_save`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING

from slotq_core.model.jobs import Workload
from slotq_core.model.reports.slow_save import slow_save

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import JobView


def with_slow_saves(
    views: Iterable[JobView], graces: Callable[[], Mapping[str, int]]
) -> Iterator[JobView]:
    """Yield the views, with a warning where the last save was too slow for an eviction. `graces`
    gives how long (ms) each pool waits; it is called at most once, and only if a script has timed a
    save."""
    from slotq_core.wire.views.jobs import with_slow_save

    known = cache(graces)
    for view in views:
        saved = view.progress.saved if view.progress else None
        took = saved.took_seconds if saved else None
        evictable = view.preemptible and view.workload == Workload.TRAINING
        timed = took is not None and isfinite(took) and took > 0 and evictable
        slow = slow_save(round(took * 1000), known().get(view.pool or "", 0)) if timed else None
        yield with_slow_save(view, slow) if slow else view
