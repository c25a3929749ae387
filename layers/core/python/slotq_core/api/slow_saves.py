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
        took = _took(view)
        slow = None if took is None else slow_save(took, known().get(view.pool or "", 0))
        yield with_slow_save(view, slow) if slow else view


def _took(view: JobView) -> int | None:
    """How long the last save of a running job took (ms), if the job may be evicted."""
    saved = view.progress.saved if view.progress else None
    took = saved.took_seconds if saved else None
    evictable = view.preemptible and view.workload == Workload.TRAINING
    return round(1000 * took) if took and isfinite(took) and evictable else None
