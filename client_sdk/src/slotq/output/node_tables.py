"""Nodes as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from slotq.output.job_tables import columns, moment
from slotq_core.model.attempts import GpuBound
from slotq_core.model.nodes import NodeState

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slotq_core.wire.views.nodes import NodeJobView, NodeView

STATE_STYLES = {
    NodeState.STARTING: "yellow",
    NodeState.READY: "green",
    NodeState.DRAINING: "yellow",
    NodeState.STOPPING: "yellow",
}
WITHHELD = "(another's)"
"""In place of the name of a job that the caller may not see."""


def nodes_table(nodes: Sequence[NodeView]) -> RenderableType:
    """The nodes, one line each, with the jobs on their GPUs; then the problems of their agents."""
    heads = ("POOL", "NODE", "STATE", "PROJECT", ">GPUS", ">FREE", "JOBS", "KEPT UNTIL (UTC)")
    table = columns(*heads, "TRAINING JOB", leaves=("TRAINING JOB", "PROJECT", "KEPT UNTIL (UTC)"))
    for node in nodes:
        table.add_row(
            node.pool,
            node.name,
            Text(node.state, style=STATE_STYLES.get(NodeState(node.state), "")),
            node.project,
            str(node.gpus),
            str(len(node.free)),
            jobs_text(node),
            moment(node.kept_until),
            node.training_job,
        )
    if not table.row_count:
        return Text("no nodes")
    lines = [f"{node.pool}/{node.name}: {said}" for node in nodes for said in node.problems]
    return Group(table, *(Text(line, style="yellow") for line in lines))


def jobs_text(node: NodeView) -> str:
    """Who has which GPUs, and who waits for some: `a (0, 1), b (0.25 of 2); c waits for 4`."""
    on_it = ", ".join(f"{_name(job)} ({_gpus(job)})" for job in node.jobs)
    waits = ", ".join(f"{_name(job)} waits for {job.gpus}" for job in node.owed)
    return "; ".join(filter(None, (on_it, waits)))


def _gpus(job: NodeJobView) -> str:
    part = f"{job.gpus:.2f} of " if 0 < job.gpus < 1 else ""
    bound = "" if job.gpu_bound == GpuBound.NONE else f"; {job.gpu_bound}"
    return f"{part}{', '.join(map(str, job.gpu_ids))}{bound}" if job.gpu_ids else "none"


def _name(job: NodeJobView) -> str:
    return job.name or WITHHELD
