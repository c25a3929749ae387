"""Yields to a time slice, stored by pool, under one rule for every store.

The transaction that makes a job yield also stores the yield, so no crash separates them. One yield
is stored for each pool, project, user and rank, until it has no effect any more (`outlived`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.order import Rank, rank, rank_of, yield_in, yield_of
from slotq_core.ports.stored import Change

KEPT_FOR = 3_600_000
"""How long (ms) a yield is kept at least: longer than any back-off, because most jobs in back-off
are in no snapshot."""


def yields_in(changes: Iterable[Change]) -> Iterator[tuple[str, Yielded]]:
    """Return the yields that a commit brings, each with its pool."""
    for change in changes:
        this, attempt = yield_in(change.before, change.after), change.after.attempt
        if this and attempt:
            yield attempt.pool, this


def latest_yields(
    pools: Sequence[Pool], kept: Iterable[Yielded], active: Iterable[Job]
) -> tuple[Yielded, ...]:
    """Return the last yield of each project, user and rank; nothing where no pool has a time slice.

    A read during a transaction may show the stopping job without its yield. The yield is then
    derived from the job. Later this would be wrong: the job may be demoted while it stops.
    """
    if all(pool.time_slice is None for pool in pools):
        return ()
    found = sorted(kept, key=lambda past: past.at)
    moments = {(past.project, past.user, past.at) for past in found}
    fresh = [this for job in active if (this := yield_of(job))]
    found += [
        past
        for past in fresh
        if moments.isdisjoint((project, past.user, past.at) for project in (past.project, None))
    ]
    return tuple({past.of: past for past in found}.values())


def outlived(kept: Iterable[Yielded], snapshot: Snapshot, now: int) -> list[Yielded]:
    """Return the yields without effect: the longest slice has passed since, and no job of that
    project, user and rank waits or runs that entered before. Only such a job would be delayed by
    the yield.

    A job that is held all the while is not counted; released, it has its own place again.
    """
    longest = max((pool.time_slice or 0 for pool in snapshot.pools), default=0)
    old = [past for past in kept if past.at + max(longest, KEPT_FOR) <= now]
    if not old:
        return []
    oldest: dict[tuple[str | None, str, Rank], int] = {}
    for job in (*snapshot.active, *snapshot.waiting, *snapshot.due):
        for project in (job.project, None):
            key = (project, job.person, rank(job))
            oldest[key] = min(job.entry_time, oldest.get(key, job.entry_time))
    return [
        past
        for past in old
        if oldest.get((past.project, past.user, rank_of(past.workload, past.priority)), now)
        > past.at
    ]
