"""Whose turn it is: the most deprived department's most deprived project's first job.

The order between projects is asked anew after each decision, for every admission changes who is
deprived. Within a project it stands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from slotq_core.model import Job
from slotq_core.policy.accounts import Accounts, Chain
from slotq_core.policy.lines import Line
from slotq_core.policy.order import deprivation, position


class Turns:
    """Gives each waiting job its turn once; those behind a blocked one of their line get none."""

    def __init__(self, waiting: Iterable[Job], accounts: Accounts) -> None:
        self._accounts = accounts
        self._queues: dict[str, deque[Job]] = {}
        self._blocked: set[Line] = set()
        for job in sorted(waiting, key=position):
            self._queues.setdefault(job.project, deque()).append(job)

    def next(self) -> Job | None:
        """The job whose turn it is; None when all have had theirs."""
        heads = [job for queue in self._queues.values() if (job := self._head(queue))]
        if not heads:
            return None
        job = heads[0] if len(heads) == 1 else self._most_deprived(heads)
        self._queues[job.project].popleft()
        return job

    def block(self, job: Job) -> None:
        """It is blocked, and so are those behind it in its line. A claimant stands outside."""
        if job.claim is None:
            self._blocked.add(Line.of(job))

    def _head(self, queue: deque[Job]) -> Job | None:
        while queue:
            if queue[0].claim is not None or Line.of(queue[0]) not in self._blocked:
                return queue[0]
            queue.popleft()
        return None

    def _most_deprived(self, heads: list[Job]) -> Job:
        """Each department stands for itself by its own most deprived project."""
        best: dict[str, tuple[tuple[object, ...], Job, Chain]] = {}
        for job in heads:
            chain = self._accounts.of(job, job.pools[0])
            if not chain:
                return job
            key = deprivation(chain[0], job.demand)
            top = chain[-1].key
            if top not in best or key < best[top][0]:
                best[top] = (key, job, chain)
        return min(best.values(), key=lambda each: deprivation(each[2][-1], each[1].demand))[1]
