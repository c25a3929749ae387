"""Jobs as tables for people, with short names for their submitters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slotq.jobs.follow import place_text, status_line
from slotq.jobs.notices import one_line
from slotq.jobs.progress_bar import bar, saved
from slotq.output.fitting_table import FittingTable
from slotq_core.model.attempts import GpuBound
from slotq_core.model.jobs import SEMI, Preemptible, Workload
from slotq_core.model.pools import CapacityKind
from slotq_core.model.reasons import units
from slotq_core.model.users import AUTO
from slotq_core.wire import traits

if TYPE_CHECKING:
    from slotq_core.wire.views.about import FindingView
    from slotq_core.wire.views.jobs import AttemptView, JobView

COLORS = {
    "running": "green",
    "starting": "green",
    "stopping": "yellow",
    "preempted": "yellow",
    "backoff": "yellow",
    "completed": "blue",
    "failed": "red",
    "cancelled": "dim",
    "stopped": "dim",
}


def priority_text(job: JobView) -> str:
    """The priority, with its class if it has one, and the class that it was demoted from."""
    if not job.priority_class:
        return str(job.priority)
    admitted = job.admitted_class not in {"", job.priority_class}
    before = f", demoted from {job.admitted_class}" if admitted else ""
    number = "" if job.priority_class == AUTO else f" ({job.priority})"
    return f"{job.priority_class}{number}{before}"


def job_page(job: JobView) -> RenderableType:
    """Everything known about one job."""
    facts = Table.grid(padding=(0, 2))
    last = job.attempts[-1] if job.attempts else None
    for name, value in (
        ("job", job.name),
        ("state", state_text(job.state)),
        ("place", place_text(job)),
        ("why", why(job)),
        ("priority", priority_text(job)),
        ("needs", ", ".join(units(n, what) for what, n in job.demand.items())),
        ("progress", bar(job.progress, 60) if job.progress else ""),
        ("saved", ", ".join(saved(job.progress)).removeprefix("saved ") if job.progress else ""),
        ("requires", ", ".join(f"{key} of {traits.written(n)}" for key, n in job.requires.items())),
        ("pools", ", ".join(job.pools)),
        ("runs in", job.pool or ""),
        ("GPUs", units(job.gpus, "GPUs") if job.gpus else ""),
        ("node", node_text(job)),
        ("instances", ON_WARM if _is_on_warm(job) else ""),
        ("GPU bound", GPU_BOUNDS.get(GpuBound(job.gpu_bound), "")),
        ("whole instance", one_line(job.whole.text) if job.whole else ""),
        ("literal paths", "yes" if job.literal_paths else ""),
        ("preemptible", PREEMPTIBLE[job.preemptible]),
        ("min. runtime", f"{job.min_runtime:g} s" if job.min_runtime else ""),
        ("estimate", f"{job.runtime_estimate:g} s" if job.runtime_estimate else ""),
        ("retries", str(job.retries) if job.retries else ""),
        ("entered", moment(job.entry_time)),
        ("changed", moment(job.changed_at)),
        ("project", job.project),
        ("class", "" if job.workload == Workload.TRAINING else job.workload),
        ("submitter", job.submitter),
        ("evictions", str(job.evictions)),
        ("cause", job.cause),
        ("model", last.artifact if last else ""),
        ("checkpoints", last.checkpoints if last else ""),
        ("logs", last.logs if last else ""),
    ):
        if value:
            facts.add_row(Text(name, style="bold"), value)
    for warning in job.warnings:
        facts.add_row(Text("warning", style="bold yellow"), one_line(warning))
    return Group(facts, Text(""), attempts_table(job.attempts)) if job.attempts else facts


PREEMPTIBLE: Mapping[Preemptible, str] = {
    True: "yes",
    False: "no",
    SEMI: "not while it is within its project's quota",
}
"""Whether a job may be evicted, for people."""


def _is_on_warm(job: JobView) -> bool:
    """Whether the attempt that goes on started on warm instances."""
    return bool(job.pool and job.attempts and job.attempts[-1].warm)


GPU_BOUNDS = {
    GpuBound.MPS: "memory and compute of each process, by MPS",
    GpuBound.FRAMEWORK: "memory of each process, by a cap of its framework",
}
"""What holds a job to its part of a GPU, for people."""


def node_text(job: JobView) -> str:
    """The node that the job runs on, and its GPUs there: `node-1, GPUs 0 and 3`."""
    if not job.node:
        return ""
    ids = [str(number) for number in job.gpu_ids]
    both = " and ".join(filter(None, (", ".join(ids[:-1]), ids[-1]))) if ids else ""
    return f"{job.node}, GPU{'s' if len(ids) > 1 else ''} {both}" if ids else job.node


def attempts_table(attempts: Iterable[AttemptView]) -> RenderableType:
    """The history of a job, one line per attempt."""
    table = columns(
        ">#", "TRAINING JOB", "POOL", "RAN FROM (UTC)", "TO", "OUTCOME", "MESSAGE",
        leaves=("TRAINING JOB", "TO", "POOL", "RAN FROM (UTC)"),
    )  # fmt: skip
    for attempt in attempts:
        table.add_row(
            str(attempt.number),
            attempt.training_job,
            f"{attempt.pool}/{attempt.node}" if attempt.node else attempt.pool,
            moment(attempt.running_since),
            moment(attempt.ended_at),
            outcome(attempt),
            one_line(" — ".join(filter(None, _remarks(attempt)))),
        )
    return table


ON_WARM = "on warm instances"
"""Of an attempt that did not wait for new instances."""


def _remarks(attempt: AttemptView) -> tuple[str, ...]:
    times = "once" if attempt.interruptions == 1 else f"{attempt.interruptions} times"
    interrupted = f"SageMaker interrupted it {times}" if attempt.interruptions else ""
    warm = ON_WARM if attempt.warm else ""
    return _spot(attempt), warm, interrupted, attempt.resumption, attempt.warning, attempt.message


def _spot(attempt: AttemptView) -> str:
    """That the attempt is on spot instances, and what this saved."""
    if attempt.capacity_kind != CapacityKind.SPOT.value:
        return ""
    if not attempt.trained or attempt.billed is None:
        return "spot"
    return f"spot, {1 - attempt.billed / attempt.trained:.0%} saved"


def findings_table(findings: Iterable[FindingView]) -> RenderableType:
    """The doctor's findings, one line each."""
    table = columns("FOUND", "SUBJECT", "MENDED", "WHAT", leaves=("MENDED",))
    for finding in findings:
        table.add_row(
            finding.kind,
            finding.subject,
            "yes" if finding.mended else "no",
            one_line(finding.text),
        )
    return table if table.row_count else Text("nothing found")


def outcome(attempt: AttemptView) -> str:
    """How an attempt ended, and for or by whom if known."""
    how = attempt.outcome or ("stopping" if attempt.stop_cause else "")
    if attempt.stop_cause == "evicted" and how in {"evicted", "stopping"}:
        return f"{how} for {attempt.stopped_for}"
    if attempt.stop_cause == "closed" and how in {"evicted", "stopping"}:
        return f"{how}, as {attempt.stopped_for} closed"
    if attempt.stop_cause == "requeued" and how in {"evicted", "stopping"}:
        return f"{how}, given up by {attempt.stopped_for}"
    if attempt.stop_cause == "cancelled" and how in {"cancelled", "stopping"}:
        return f"{how}, cancelled by {attempt.stopped_for}"
    return how


def why(job: JobView) -> str:
    """Why the job waits, or else the message about its state."""
    return one_line(job.reason.text if job.reason else job.message)


def submission(job: JobView) -> str:
    """The `explanation` of a job that has just been submitted, with all its warnings."""
    return explanation(job, submitted=True)


def explanation(job: JobView, *, submitted: bool = False) -> str:
    """The job's state and its reason, in one sentence. Further lines show progress and warnings
    and, for a waiting job, free room, possible evictions and what prevents them, reservations and
    known times. `submitted`: with the warnings that only a submission's answer has."""
    lines = [f"{job.name}: {status_line(job)}"]
    if job.progress:
        lines.append(f"  {'progress':<13}{bar(job.progress, 60)}")
    if job.node:
        lines.append(f"  {'node':<13}{node_text(job)}")
    if _is_on_warm(job):
        lines.append(f"  {'instances':<13}{ON_WARM}: no time to provision others")
    if job.whole:
        lines.append(f"  {'whole':<13}{one_line(job.whole.text)}")
    warnings = job.warnings if submitted else job.news
    lines += [f"  {'warning':<13}{one_line(warning)}" for warning in warnings]
    if job.outlook:
        for what, entries in (
            ("order", job.outlook.order),
            ("room", job.outlook.rooms),
            ("not evicted", job.outlook.evictions),
            ("reserved", job.outlook.reserved),
            ("times", job.outlook.times),
        ):
            lines += [f"  {what:<13}{entry.text}" for entry in entries]
        if not job.outlook.times:
            lines.append(f"  {'times':<13}none known: it depends on other jobs")
    return "\n".join(lines)


def columns(*titles: str, leaves: Sequence[str] = ()) -> Table:
    """An empty table with these columns; a leading `>` aligns a column to the right. `leaves`: the
    columns that a narrow terminal drops, in this order."""
    table = FittingTable(leaves)
    for column in titles:
        right = column.startswith(">")
        wraps = column in {"WHY", "MESSAGE", "HEALTH", "WHAT", "CHANGED"}
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", no_wrap=not wraps
        )
    return table


def state_text(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=COLORS.get(state, ""))


def moment(text: str | None) -> str:
    """Shorten a timestamp: `2026-11-20T10:30:00.000Z` becomes `11-20 10:30:00`."""
    return f"{text[5:10]} {text[11:19]}" if text else ""


_BETWEEN = re.compile("[/:]")


def last_part(arn: str) -> str:
    """`ada` of `arn:aws:iam::123456789012:user/ada`; the session's name of an assumed role."""
    return _parts(arn)[-1]


def short_names(arns: Iterable[str]) -> Mapping[str, str]:
    """The shortest distinct endings, by ARN; all have equally many parts."""
    parts = {arn: _parts(arn) for arn in arns}
    for number in range(1, max(map(len, parts.values()), default=1)):
        short = {arn: "/".join(pieces[-number:]) for arn, pieces in parts.items()}
        if len(set(short.values())) == len(short):
            return short
    return {arn: arn for arn in parts}


def _parts(arn: str) -> list[str]:
    return _BETWEEN.split(arn)
