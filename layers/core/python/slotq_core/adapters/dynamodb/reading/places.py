"""How many waiting jobs are ahead of one: counted for people, on request, and only so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.lines import StoredLine
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import Line, line_of
from slotq_core.policy.order import Yields, rank
from slotq_core.ports.stored import MOST_AHEAD, Ahead
from slotq_core.storage.order_keys import key_after, order_key

LINES_COUNTED = 50
"""Maximum number of lines that are counted, each by one call."""

AT_ONCE = 8
"""How many lines are counted at once. Each may count up to the maximum, so more would cost more
read units where much waits."""


class Places:
    def __init__(self, calls: TableCalls, in_parallel: InParallel) -> None:
        self._calls = calls
        self._in_parallel = in_parallel

    def ahead_of(self, job: Job, lines: Iterable[StoredLine], yields: Yields) -> Ahead:
        """Count the jobs ahead. `lines`: all lines."""
        found = 0
        ahead = _may_hold_jobs_ahead(job, lines, yields)
        own, others = ahead[:1], ahead[1:LINES_COUNTED]
        for some in (own, *(others[at : at + AT_ONCE] for at in range(0, len(others), AT_ONCE))):
            found += sum(self._counted(some, MOST_AHEAD + 1 - found))
            if found > MOST_AHEAD:
                return Ahead(jobs=MOST_AHEAD + 1, or_more=True)
        return Ahead(jobs=found, or_more=len(ahead) > LINES_COUNTED)

    def _counted(self, lines: Sequence[tuple[str, str]], limit: int) -> list[int]:
        """Return how many jobs each line has before its key, at most `limit`."""
        return self._in_parallel(
            lambda it: self._calls.count(
                expressions.partition_before(table.waiting_partition(it[0]), it[1]), limit=limit
            ),
            lines,
        )


def _may_hold_jobs_ahead(
    job: Job, lines: Iterable[StoredLine], yields: Yields
) -> list[tuple[str, str]]:
    """Return the lines with a pool of the job's that may hold jobs ahead of it, each with the order
    key before which these are: its own, where most are, then the others from the highest rank on.

    A line of a lower rank holds none, and neither does one whose lower bound is behind the job.
    """
    own, found = line_of(job), {}
    for line in lines:
        parsed = Line.parse(line.name)
        if parsed.rank >= rank(job) and set(job.pools) & set(parsed.pools):
            key = order_key(job) if line.name == own else key_after(job, parsed, yields)
            if line.bound < key:
                found[line.name] = parsed.rank, key
    in_order = sorted(found, key=lambda name: (name != own, *(-n for n in found[name][0]), name))
    return [(name, found[name][1]) for name in in_order]
