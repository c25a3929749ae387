"""The queue as a small table, for a notebook or a script."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from slotq_core.model.jobs import TERMINAL_STATES, JobState

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq_core.wire.views.jobs import JobView

LIVING = tuple(state.value for state in JobState if state not in TERMINAL_STATES)
"""The states of jobs that have not ended."""
_HEAD = ("Job Name", "State", "Priority")


def print_queue_state(
    queue: QueueClient | None = None,
    *,
    states: str | Iterable[str] | None = LIVING,
    file: TextIO | None = None,
) -> None:
    """Print name, state and priority of each job, in the order of the queue: running, then waiting
    by place.

    `queue`: the configured one where None. `states`: those of jobs that have not ended; None: all.
    Raises what `QueueClient.jobs` does.
    """
    if queue is None:
        from slotq.client import QueueClient as Configured

        queue = Configured()
    for line in lines(queue.jobs(states)):
        print(line, file=file or sys.stdout)


def lines(jobs: Iterable[JobView]) -> list[str]:
    """The table's lines, its head first; numbers to the right."""
    rows = [_HEAD, *((job.name, job.state, str(job.priority)) for job in jobs)]
    name, state, priority = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [f"{row[0]:<{name}}  {row[1]:<{state}}  {row[2]:>{priority}}" for row in rows]
