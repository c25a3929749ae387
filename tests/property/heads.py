"""A snapshot reduced to the heads of its lines, as a load from the store returns it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import heads_needed, line_of
from slotq_core.policy.order import position


def heads_only(snapshot: Snapshot, *, by_user: bool = False, **needs: Any) -> Snapshot:
    """Keep the claimants, and as many jobs of each line as `heads_needed` says.

    `by_user`: whether lines tell users apart. `needs`: further arguments of `heads_needed`.
    """
    claimants = [job for job in snapshot.waiting if job.claim]
    lines = {job.name: line_of(job, by_user=by_user) for job in snapshot.waiting}
    needed = heads_needed(set(lines.values()), snapshot.pools, snapshot.active, claimants, **needs)
    kept = {job.name: job for job in claimants}
    for line, count in needed.items():
        members = sorted((j for j in snapshot.waiting if lines[j.name] == line), key=position)
        kept |= {job.name: job for job in members[:count]}
    return replace(snapshot, waiting=tuple(kept.values()))
