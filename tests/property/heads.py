"""The part of a world that a pass of the queue loads."""

from dataclasses import replace

from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import heads_needed, line_of
from slotq_core.policy.order import position


def at_the_heads(snapshot: Snapshot, *, by_user: bool = False) -> Snapshot:
    """Keep the claimants and the first jobs of each line, as many as `heads_needed` says."""
    claimants = [job for job in snapshot.waiting if job.claim]
    line = {job.name: line_of(job, by_user=by_user) for job in snapshot.waiting}
    needed = heads_needed(
        set(line.values()),
        snapshot.pools,
        snapshot.active,
        claimants,
        projects=bool(snapshot.projects),
        groups=snapshot.groups,
        attempts=snapshot.scheduler is not None,
    )
    kept = {job.name: job for job in claimants}
    for each, count in needed.items():
        members = sorted((job for job in snapshot.waiting if line[job.name] == each), key=position)
        kept |= {job.name: job for job in members[:count]}
    return replace(snapshot, waiting=tuple(kept.values()))
