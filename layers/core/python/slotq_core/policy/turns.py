"""Whose turn it is: the most deprived department's most deprived project's first job.

The order between projects is asked anew after each decision, for every admission changes who is
deprived. Within a project it stands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from slotq_core.model import Job
from slotq_core.policy.accounts import Accounts, Deprivation
from slotq_core.policy.lines import Line
from slotq_core.policy.order import Yields, position


@dataclass(frozen=True, slots=True)
class Key:
    """How deprived one owner is: smaller is more."""

    owner: str
    key: Deprivation


class Turns:
    """Gives each waiting job its turn once; those behind a blocked one of their line get none."""

    def __init__(
        self,
        waiting: Iterable[Job],
        accounts: Accounts,
        *,
        yields: Yields,
        by_user: bool,
    ) -> None:
        """`by_user`: whether lines tell users apart."""
        self._accounts = accounts
        self._by_user = by_user
        self._queues: dict[str, deque[Job]] = {}
        self._blocked: set[Line] = set()
        self._known: dict[str, tuple[Job, int, tuple[Key, Key]]] = {}
        for job in sorted(waiting, key=lambda job: position(job, yields)):
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
            self._blocked.add(Line.of(job, by_user=self._by_user))

    def _head(self, queue: deque[Job]) -> Job | None:
        while queue:
            line = Line.of(queue[0], by_user=self._by_user)
            if queue[0].claim is not None or line not in self._blocked:
                return queue[0]
            queue.popleft()
        return None

    def _most_deprived(self, heads: list[Job]) -> Job:
        """Each department stands for itself by its own most deprived project."""
        best: dict[str, tuple[Key, Key, Job]] = {}
        for job in heads:
            keys = self._keys(job)
            if keys is None:
                return job
            top, own = keys
            if top.owner not in best or own.key < best[top.owner][1].key:
                best[top.owner] = (top, own, job)
        return min(best.values(), key=lambda each: each[0].key)[2]

    def _keys(self, job: Job) -> tuple[Key, Key] | None:
        """How deprived its department and its project are, with this job: made anew only when
        something has moved there."""
        chain = self._accounts.of(job, job.pools[0])
        if not chain:
            return None
        known = self._known.get(job.project)
        moves = chain[-1].moves + chain[0].moves
        if known is None or known[0] is not job or known[1] != moves:
            made = tuple(
                Key(owner=each.key, key=each.deprivation(job.demand))
                for each in (chain[-1], chain[0])
            )
            known = self._known[job.project] = (job, moves, (made[0], made[1]))
        return known[2]
