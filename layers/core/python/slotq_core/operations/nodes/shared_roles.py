"""Execution roles that nodes of several projects use: the role is the boundary between jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Finding

KIND = "shared_role"


def examine(store: Store, now: int) -> list[Finding]:
    """Return a finding for each role that nodes of several projects use. Nodes that projects share
    by the operator's word (`share: pool`) do not count. Raises Unavailable."""
    snapshot = store.worlds.load(now).snapshot
    first = {node.started_for for node in snapshot.nodes if node.project and node.started_for}
    jobs = store.jobs.several(sorted(first), readable_only=True) if first else {}
    return findings(snapshot, jobs)


def findings(snapshot: Snapshot, started_for: Mapping[str, Job]) -> list[Finding]:
    """`started_for`: the jobs that nodes were started for, by name. They say which role a node
    without jobs has."""
    projects: dict[str, set[str]] = defaultdict(set)
    on_nodes = _roles(snapshot)
    for node in snapshot.nodes:
        first = started_for.get(node.started_for)
        role = on_nodes.get((node.pool, node.name)) or (first.role if first else "")
        if node.project and role:
            projects[role].add(node.project)
    return [
        Finding(kind=KIND, subject=role, text=_text(sorted(names)))
        for role, names in sorted(projects.items())
        if len(names) > 1
    ]


def _roles(snapshot: Snapshot) -> dict[tuple[str, str], str]:
    """By pool and node, the role of the jobs that are on it or wait for it: all have the same."""
    found = {}
    for job in (*snapshot.active, *snapshot.waiting):
        if job.attempt and job.attempt.node:
            found[job.attempt.pool, job.attempt.node] = job.role
        elif job.claim and job.claim.node:
            found[job.claim.pool, job.claim.node] = job.role
    return found


def _text(projects: Iterable[str]) -> str:
    return (
        f"nodes of the projects {', '.join(projects)} have this execution role, so a job of one "
        "can read and write all that the role may for another. Give each project a role of its "
        "own (RoleArn in its requests), or say share: pool for the pool's nodes if these projects "
        "trust each other."
    )
