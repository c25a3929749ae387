"""Attempts that report nothing for too long: for a pool's `stall_after`, or for the heartbeat of
their group.

A script's signs of life are its steps and its saves. A job that has never given one does not stall,
unless its pool says so (`stall_unreported`): the script may simply not use `report()`. Once a job
has given one, each further attempt counts from its start. A heartbeat applies to attempts that have
given a sign of life themselves: an attempt that misses its heartbeat is stopped, whatever the pool
says.

The queue reads reports between passes, so a plan knows only the latest finding:
`Attempt.silent_since` and `heartbeat_missed`. An unreadable report does not count as silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.reasons.stalled import Stalled
from slotq_core.model.reports import Report, Saved
from slotq_core.model.snapshot import Snapshot

WORTH_KEEPING = 60_000
"""A reported save is kept if it is so much later (ms) than the one kept: each costs a write."""


def stalls_at(snapshot: Snapshot) -> Iterator[tuple[int, Job]]:
    """Running jobs that were found silent and not warned of, each with the time (ms) at which that
    counts as a stall."""
    limits = {pool.name: pool.stall_after for pool in snapshot.pools if pool.stall_after}
    for job in snapshot.active if limits else ():
        attempt = job.attempt
        if job.state is not JobState.RUNNING or attempt is None or attempt.stalled_at is not None:
            continue
        if attempt.silent_since is not None and attempt.pool in limits:
            yield attempt.silent_since + limits[attempt.pool], job


def heartbeats_missed(snapshot: Snapshot) -> Iterator[Job]:
    """Running members that were found silent for longer than their group's heartbeat."""
    for job in snapshot.active:
        if job.attempt and job.attempt.heartbeat_missed and job.state is JobState.RUNNING:
            yield job


def silence(job: Job, now: int) -> Stalled:
    """The silence of a job that `stalls_at` or `heartbeats_missed` has named."""
    assert job.attempt is not None and job.attempt.silent_since is not None
    since = job.attempt.silent_since
    return Stalled(since=since, silent_for=now - since)


def warned_of(job: Job) -> Stalled | None:
    """The silence of a running job that the queue has warned of; None: no warning."""
    attempt = job.attempt
    if attempt is None or attempt.stalled_at is None or attempt.silent_since is None:
        return None
    since = attempt.silent_since
    return Stalled(since=since, silent_for=attempt.stalled_at - since)


def listens_to(job: Job, pool: Pool, heartbeat: int | None = None) -> bool:
    """Whether the job's reports decide something in its pool: whether it stalls, misses its group's
    heartbeat (ms), or, for a job that may be evicted, what an eviction costs."""
    return job.state is JobState.RUNNING and (
        heartbeat is not None
        or pool.stall_after is not None
        or (pool.read_reports and job.evictable)
    )


def heard(job: Job, pool: Pool, report: Report, now: int, heartbeat: int | None = None) -> Job:
    """The running job after its report was read at `now` (ms); without a report, an empty one. The
    same job if no change is worth a write. `heartbeat`: its group's (ms)."""
    attempt = job.attempt
    if attempt is None or attempt.running_since is None:
        return job
    reported = report.alive_at is not None
    last = _last_sign(job, pool, report)
    silent = None if last is None else now - last
    missed = reported and _passed(heartbeat, silent)
    since = last if missed or _passed(pool.stall_after, silent) else None
    after = replace(
        attempt,
        reported=attempt.reported or reported,
        silent_since=since,
        heartbeat_missed=missed,
        stalled_at=None if since is None else attempt.stalled_at,
    )
    # Where only the heartbeat is read, a save does not count: no other job's saves are known.
    if pool.listens and report.saved and _is_news(report.saved, attempt.checkpoint_at):
        after = replace(after, checkpoint_at=report.saved.at, saved_step=report.saved.step)
    if after == attempt and (job.reports or not reported):
        return job
    return replace(job, attempt=after, reports=job.reports or reported)


def _last_sign(job: Job, pool: Pool, report: Report) -> int | None:
    """The last sign of life (ms), or the start in place of one; None: no silence counts."""
    attempt = job.attempt
    assert attempt is not None and attempt.running_since is not None
    last = report.alive_at
    if last is None:
        if attempt.reported or not (job.reports or pool.stall_unreported):
            return None  # The report is gone, or the script gives none.
        last = attempt.running_since
    resumed = attempt.running_since if attempt.resumed_at is None else attempt.resumed_at
    return max(last, attempt.running_since, resumed)


def _passed(limit: int | None, silent: int | None) -> bool:
    return limit is not None and silent is not None and silent >= limit


def _is_news(saved: Saved, kept: int | None) -> bool:
    return kept is None or saved.at - kept >= WORTH_KEEPING
