"""What runs in the account beside the queue, as a table for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from slotq.output.job_tables import columns
from slotq_core.model.reasons import units

if TYPE_CHECKING:
    from slotq.output.json_views import AccountJobView, AccountKindView, AccountView

_SHOWN = 3
"""The most jobs that a row names."""


def account_page(view: AccountView) -> RenderableType:
    """A row for each kind and instance type, then what could not be read."""
    table = columns("KIND", "INSTANCE TYPE", ">INSTANCES", ">JOBS", "TAKES FROM", "WHAT")
    for kind in view.kinds:
        for instance_type, jobs in _by_type(kind):
            pools = view.training_pools.get(instance_type, []) if kind.kind == "training" else []
            table.add_row(
                kind.kind,
                instance_type,
                str(sum(job.instances.get(instance_type, 0) for job in jobs) or ""),
                str(len(jobs)),
                ", ".join(pools),
                _names(jobs),
            )
    nothing = "nothing is in progress beside the queue"
    shown: RenderableType = table if table.row_count else Text(nothing)
    return Group(shown, *map(Text, _remarks(view)))


def _by_type(kind: AccountKindView) -> list[tuple[str, list[AccountJobView]]]:
    """The jobs by instance type; those without instances of their own under an empty one."""
    rows: dict[str, list[AccountJobView]] = defaultdict(list)
    for job in kind.jobs:
        for instance_type in job.instances or {"": 0}:
            rows[instance_type].append(job)
    return sorted(rows.items())


def _names(jobs: list[AccountJobView]) -> str:
    """The first jobs, each with what started it: `a (AutoML job b), c, d and 4 more`."""
    named = [
        f"{job.name} ({starter(job.started_by)})" if job.started_by else job.name
        for job in sorted(jobs, key=lambda job: job.name)[:_SHOWN]
    ]
    more = len(jobs) - len(named)
    return f"{', '.join(named)} and {more} more" if more else ", ".join(named)


def starter(arn: str) -> str:
    """`tuning job b` of `arn:aws:sagemaker:eu-west-1:123456789012:hyper-parameter-tuning-job/b`."""
    kind, _, name = arn.rpartition(":")[2].partition("/")
    words = {"hyper-parameter-tuning-job": "tuning job", "automl-job": "AutoML job"}
    return f"{words.get(kind, kind.replace('-', ' '))} {name}"


def _remarks(view: AccountView) -> Iterator[str]:
    for kind in view.kinds:
        for queue, count in sorted(kind.of_queues.items()):
            yield f"{units(count, f'{kind.kind} jobs')} of the queue {queue}: not in the table"
        if kind.problem:
            yield f"{kind.kind}: {kind.problem}"
        if kind.left_out:
            yield f"{units(kind.left_out, f'{kind.kind} jobs')} in progress not looked at"
        if not kind.complete and not kind.problem:
            yield f"{kind.kind}: only the newest {kind.listed:,} jobs were listed"
