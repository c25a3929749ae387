"""The columns of `slotq ls`: what each shows of a job, and how to sort by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from slotq.jobs.follow import place_text
from slotq.jobs.progress_bar import cell, fraction
from slotq.output import job_tables
from slotq.output.job_tables import (
    last_part,
    moment,
    node_text,
    short_names,
    state_text,
    why,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slotq_core.wire.views.jobs import JobView


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    head: str
    """The heading; a leading `>` aligns the column to the right."""
    cell: Callable[[JobView], str | Text]
    importance: int = 9
    """A narrow terminal drops the columns of the smallest number first, and never those of 9."""
    key: Callable[[JobView], Any] | None = None
    """The sort key; None: the shown text."""


def _number(number_of: Callable[[JobView], float | None], head: str, importance: int) -> Column:
    """A numeric column: sorts by number, with missing numbers last."""
    return Column(
        importance=importance,
        head=f">{head}",
        cell=lambda job: "" if number_of(job) is None else str(number_of(job)),
        key=lambda job: (number_of(job) is None, number_of(job)),
    )


def _done(job: JobView) -> tuple[bool, float]:
    """The sort key of progress: the part done; jobs without progress come last."""
    done = fraction(job.progress) if job.progress else None
    return done is None, done or 0.0


COLUMNS: dict[str, Column] = {
    "name": Column(head="JOB", cell=lambda job: job.name),
    "state": Column(
        head="STATE", cell=lambda job: state_text(job.state), key=lambda job: job.state
    ),
    "priority": _number(lambda job: job.priority, "PRIORITY", 5),
    "place": replace(_number(lambda job: job.place, "PLACE", 8), cell=place_text),
    "pool": Column(head="POOL", importance=6, cell=lambda job: job.pool or ",".join(job.pools)),
    "slots": _number(lambda job: job.demand.get("slots", 0), "SLOTS", 3),
    "entered": Column(
        head="ENTERED (UTC)",
        importance=1,
        cell=lambda job: moment(job.entry_time),
        key=lambda job: job.entry_time,
    ),
    "changed": Column(
        head="CHANGED (UTC)",
        importance=1,
        cell=lambda job: moment(job.changed_at),
        key=lambda job: job.changed_at,
    ),
    "project": Column(head="PROJECT", importance=5, cell=lambda job: job.project),
    "class": Column(head="CLASS", importance=2, cell=lambda job: job.workload),
    "priority_class": Column(
        head="PRIORITY CLASS", importance=2, cell=lambda job: job.priority_class
    ),
    "progress": Column(
        head="PROGRESS", importance=4, cell=lambda job: cell(job.progress), key=_done
    ),
    "user": Column(head="USER", importance=5, cell=lambda job: last_part(job.submitter)),
    "submitter": Column(head="SUBMITTER", cell=lambda job: job.submitter),
    "attempts": _number(lambda job: job.attempts_begun, "ATTEMPTS", 1),
    "evictions": _number(lambda job: job.evictions, "EVICTIONS", 1),
    "gpus": _number(lambda job: job.gpus or None, "GPUS", 6),
    "node": Column(head="NODE", importance=4, cell=node_text),
    "training_job": Column(head="TRAINING JOB", cell=lambda job: job.training_job or ""),
    "why": Column(head="WHY", cell=why),
}
"""The columns by their names in --columns and --sort."""
DEFAULT = ("name", "state", "priority", "place", "pool", "slots", "entered", "why")
OF_SEVERAL = ("name", "user", *DEFAULT[1:])
"""The default if the jobs have several submitters."""


def queue_table(
    jobs: Collection[JobView], columns: Sequence[str] | None = None, *, apart: bool = True
) -> RenderableType:
    """The queue, one line per job, in this order. Without `columns`, shows the users if the jobs
    have several submitters, projects and kinds of work if there are several, and priority classes,
    progress, GPUs and nodes if any job has one; with `apart`, the lines of several pools one below
    the other. A narrow terminal may drop default columns."""
    users = short_names(job.submitter for job in jobs)
    named = columns or (OF_SEVERAL if len(users) > 1 else DEFAULT)
    if columns is None:
        several = {
            "project": len({job.project for job in jobs}) > 1,
            "class": len({job.workload for job in jobs}) > 1,
            "priority_class": any(job.priority_class for job in jobs),
            "progress": any(job.progress for job in jobs),
            "gpus": any(job.gpus for job in jobs),
            "node": any(job.node for job in jobs),
        }
        named = (*named[:-1], *(name for name, shown in several.items() if shown), named[-1])
    user = replace(COLUMNS["user"], cell=lambda job: users[job.submitter])
    chosen = [user if name == "user" else COLUMNS[name] for name in named]
    leaves = () if columns else _leaves(chosen)
    shown = job_tables.columns(*(column.head for column in chosen), leaves=leaves)
    for line in [jobs] if columns or not apart else lines_apart(jobs):
        for job in line:
            shown.add_row(*(column.cell(job) for column in chosen))
        shown.add_section()
    return shown if shown.row_count else Text("no jobs")


def _leaves(chosen: Iterable[Column]) -> list[str]:
    """The headings of the columns that may be dropped, the least important first."""
    some = sorted(
        (column for column in chosen if column.importance < 9), key=lambda column: column.importance
    )
    return [column.head.removeprefix(">") for column in some]


def lines_apart(jobs: Collection[JobView]) -> list[list[JobView]]:
    """The jobs in the order given, with those that wait for the same pools together. A place counts
    the jobs ahead that may take one of the job's pools, so two lines may have the same place. One
    line alone stays among the others."""
    placed = [job for job in jobs if job.place is not None]
    lines: dict[frozenset[str], list[JobView]] = {}
    for job in placed:
        lines.setdefault(frozenset(job.pools), []).append(job)
    if len(lines) < 2:
        return [[*jobs]]
    waiting = {job.name for job in placed}
    first = next(number for number, job in enumerate(jobs) if job.name in waiting)
    others = [(number, job) for number, job in enumerate(jobs) if job.name not in waiting]
    before = [job for number, job in others if number < first]
    after = [job for number, job in others if number > first]
    return [line for line in (before, *lines.values(), after) if line]


def in_order(jobs: Sequence[JobView], by: str) -> list[JobView]:
    """The jobs sorted by a column; `-` before its name reverses the order. Ties keep the order of
    the queue."""
    column = COLUMNS[by.removeprefix("-")]
    key = column.key or (lambda job: str(column.cell(job)))
    if not by.startswith("-"):
        return sorted(jobs, key=key)

    def is_missing(job: JobView) -> bool:
        found = key(job)
        return isinstance(found, tuple) and found[0]

    present = (job for job in jobs if not is_missing(job))
    return [*sorted(present, key=key, reverse=True), *filter(is_missing, jobs)]
