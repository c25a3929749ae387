"""Read reports where they decide something: a stall, or the harm of an eviction.

Once a tick, in pools that ask for it (`stall_after`, `read_reports`), at most `MOST_READ` reports.
What a report says is kept only where it changes a decision, so that scripts cost reads, not writes.
It causes no pass: the tick's own pass finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from slotq_core.errors import Conflict
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.lifecycle.stall import heard, listens_to
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change

MOST_READ = 240
"""Reports read in one tick. With more such jobs each gets its turn, a minute later or several."""
_MINUTE = 60_000


class Listener:
    """Reads the reports of running attempts."""

    def __init__(self, store: Store, scripts: Scripts) -> None:
        self._store, self._scripts = store, scripts

    def listen(self, pools: Iterable[Pool], now: int) -> None:
        """Read the reports that decide something and keep what changes a decision. Raises
        Unavailable."""
        asking = {pool.name: pool for pool in pools if pool.listens}
        if not asking:
            return
        jobs = [job for job in self._store.load(now).snapshot.active if _decides(job, asking)]
        part = _part(sorted(jobs, key=lambda job: job.name), now)
        reports = self._scripts.reports([job.attempt for job in part if job.attempt])
        for job in part:
            report = reports.get(job.attempt.training_job) if job.attempt else None
            if job.attempt is None or report is None:
                continue
            after = heard(job, asking[job.attempt.pool], report, now)
            if after != job:
                with suppress(Conflict):  # The next tick reads again.
                    self._store.commit([Change(before=job, after=after)])


def _decides(job: Job, asking: dict[str, Pool]) -> bool:
    return (
        job.attempt is not None
        and job.attempt.pool in asking
        and listens_to(job, asking[job.attempt.pool])
    )


def _part(jobs: Sequence[Job], now: int) -> Sequence[Job]:
    """At most `MOST_READ` of the jobs, others in each minute."""
    if len(jobs) <= MOST_READ:
        return jobs
    start = now // _MINUTE * MOST_READ % len(jobs)
    return [*jobs[start:], *jobs[:start]][:MOST_READ]
