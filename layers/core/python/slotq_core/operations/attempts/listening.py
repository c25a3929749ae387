"""Reports of training scripts, read on the tick for two decisions: a stall, and the harm of an
eviction.

The tick reads at most `MOST_READ` reports: of pools that ask for it (`stall_after`, `read_reports`)
and of members of groups with a heartbeat. It stores only what changes a decision, so scripts cost
reads, not writes. No report causes a pass: the tick's own pass uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from slotq_core.errors import Conflict
from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.stall import heard, listens_to
from slotq_core.ports.decisions import Decisions, Worlds
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.stored import Change, Configuration

MOST_READ = 240
"""Reports read in one tick. With more such jobs each gets its turn, a minute later or several."""
_MINUTE = 60_000


class Listener:
    """Reads the reports of running attempts."""

    def __init__(self, worlds: Worlds, decisions: Decisions, scripts: Scripts) -> None:
        self._worlds, self._decisions, self._scripts = worlds, decisions, scripts
        self._no_heartbeats = 0
        """The number of decisions about groups at which no group with a heartbeat held slots. This
        stays true until the number grows: members start by such decisions."""

    def listen(self, configuration: Configuration, now: int) -> None:
        """Read the reports that decide something and keep what changes a decision. Raises
        Unavailable."""
        listens = any(pool.listens for pool in configuration.pools)
        if not listens and configuration.group_decisions == self._no_heartbeats:
            return
        world = self._worlds.load(now)
        pools = {pool.name: pool for pool in world.snapshot.pools}
        beats = _heartbeats(world.snapshot)
        if not beats:
            self._no_heartbeats = world.group_decisions
        jobs = [
            job
            for job in world.snapshot.active
            if job.attempt is not None
            and job.attempt.pool in pools
            and listens_to(job, pools[job.attempt.pool], beats.get(job.group))
        ]
        part = _part(sorted(jobs, key=lambda job: job.name), now)
        reports = self._scripts.reports([job.attempt for job in part if job.attempt])
        for job in part:
            report = reports.get(job.attempt.training_job) if job.attempt else None
            if job.attempt is None or report is None:
                continue
            after = heard(job, pools[job.attempt.pool], report, now, beats.get(job.group))
            if after != job:
                with suppress(Conflict):  # The next tick reads again.
                    self._decisions.commit([Change(before=job, after=after)])


def _heartbeats(snapshot: Snapshot) -> dict[str, int]:
    """The heartbeats (ms) of the groups of which a member holds slots."""
    there = {job.group for job in snapshot.active}
    return {
        group.name: group.heartbeat
        for group in snapshot.groups
        if group.heartbeat is not None and group.name in there
    }


def _part(jobs: Sequence[Job], now: int) -> Sequence[Job]:
    """At most `MOST_READ` of the jobs, others in each minute."""
    if len(jobs) <= MOST_READ:
        return jobs
    start = now // _MINUTE * MOST_READ % len(jobs)
    return [*jobs[start:], *jobs[:start]][:MOST_READ]
