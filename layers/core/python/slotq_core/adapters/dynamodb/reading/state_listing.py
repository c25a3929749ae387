"""The jobs of one state for people's lists, from the index `by-state`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.validation import whole_job
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.stored import Mark
from slotq_core.timestamps import iso


def jobs_in_state(
    calls: TableCalls, state: JobState, *, after: Mark | None, latest_first: bool, at_once: int
) -> Iterator[Job]:
    """Yield the readable jobs of a state behind `after`, as `Store.in_state` says.

    The index sorts by entry time alone. So all jobs of one moment are read before the first of them
    is yielded.
    """
    wanted = expressions.in_state(state)
    if after is not None:
        moment = iso(after.entry_time)
        wanted = expressions.in_state_from(
            state, moment, backward=latest_first, inclusive=bool(after.name)
        )
    index = {"IndexName": table.BY_STATE, "ScanIndexForward": not latest_first}
    items = calls.query({**wanted, **index}, at_once=at_once, consistent=False)
    jobs = (job for item in items if (job := whole_job(item)))
    for moment, together in groupby(jobs, key=lambda job: job.entry_time):
        for job in sorted(together, key=lambda job: job.name):
            if after is None or moment != after.entry_time or job.name > after.name:
                yield job
