"""Changes of jobs on DynamoDB (`ports.decisions.Decisions`).

A commit whose answer is lost may have taken effect. This is harmless: the conditions are versions,
so the repeated commit is refused (Conflict), and the next load finds the committed state.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from slotq_core.adapters.dynamodb.calls import TableCalls, refused_keys, with_pools
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import copies_of, in_parts_of
from slotq_core.adapters.dynamodb.layout.validation import Sieve, attempts_on
from slotq_core.adapters.dynamodb.line_bounds import LineBounds, checked_line
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.adapters.dynamodb.reading.pool_reading import PoolReader
from slotq_core.adapters.dynamodb.repair.quarantine import Quarantine
from slotq_core.adapters.dynamodb.transactions import (
    MAX_ACTIONS,
    NOBODY,
    Action,
    commit_actions,
    fitting,
    key_in,
)
from slotq_core.errors import Conflict, NotUnderstood, SlotQError
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import (
    Change,
    InParts,
    NodeChange,
    Part,
    PartsKind,
    WarmChange,
    Witness,
)
from slotq_core.storage.holdings import NodeName, node_uses


class DynamoDecisions:
    """Transactions on the table."""

    def __init__(
        self,
        calls: TableCalls,
        bounds: LineBounds,
        quarantine: Quarantine,
        pools: PoolReader,
        *,
        history: int,
        most_actions: int,
        witness: Witness,
        at_once: InParallel,
    ) -> None:
        """Set up the transactions. `history` is how long ended jobs stay readable (ms).
        `most_actions`: how many actions of one transaction a decision takes at most. `witness` sees
        each committed change. `at_once` writes lines that have nothing to do with each other."""
        self._calls, self._bounds, self._quarantine = calls, bounds, quarantine
        self._pools, self._witness = pools, witness
        self._keeps, self._most_actions = history, most_actions
        self._at_once = at_once
        self._row = threading.local()
        """`arrivals`: those of this thread's commits that are to be counted later."""

    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        nodes: Sequence[NodeChange] = (),
        warm: Sequence[WarmChange] = (),
        group_decisions: int | None = None,
        part: Part | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> tuple[Job, ...]:
        """Commit the changes. Also raises SlotQError, a bug of the caller, beyond MAX_ACTIONS."""

        def actions_without(absent: Mapping[NodeName, frozenset[str]]) -> list[Action]:
            return commit_actions(
                self._calls.table,
                changes,
                seen,
                nodes=nodes,
                warm=warm,
                absent=absent,
                group_decisions=group_decisions,
                part=part,
                history=self._keeps,
            )

        actions = actions_without(NOBODY)
        if not actions:
            return ()
        if len(actions) > MAX_ACTIONS:
            raise SlotQError(
                f"{len(changes)} changes take {len(actions)} actions; one transaction has "
                f"{MAX_ACTIONS}"
            )
        entered = [checked_line(line_of(c.after)) for c in changes if _enters_line(c)]
        if opens_line and not opener:
            self._at_once(lambda line: self._bounds.returned([line]), sorted(set(entered)))
        else:
            later = [checked_line(line_of(c.after)) for c in changes if c.comes_to_other_line]
            self._bounds.returned_by_user([*entered, *later], opener=opener)
        self._transact(changes, actions, actions_without)
        self._count(_arrivals(changes))
        jobs = tuple(change.committed for change in changes)
        for change, after in zip(changes, jobs, strict=True):
            self._witness.committed(change, after)
        return jobs

    def _transact(
        self,
        changes: Sequence[Change],
        actions: list[Action],
        actions_without: Callable[[Mapping[NodeName, frozenset[str]]], list[Action]],
    ) -> None:
        """Run the transaction. If it is refused for a job that leaves its node and is not there any
        more, run it again without that: no end of a job waits for a node that is gone."""
        try:
            try:
                self._calls.transact(actions)
            except Conflict as conflict:
                refused = refused_keys(conflict, actions)
                if not (absent := self._absent(changes, refused)):
                    raise
                actions = actions_without(absent)
                self._calls.transact(actions)
        except Conflict as conflict:
            refused = refused_keys(conflict, actions)
            self._pools.forget(table.pools_of_ledgers(map(key_in, actions)))
            self._doubt(changes, refused)
            raise with_pools(conflict, table.pools_of_ledgers(refused)) from conflict

    def _absent(
        self, changes: Sequence[Change], refused: set[table.Key]
    ) -> dict[NodeName, frozenset[str]]:
        """Return, by node, the leaving jobs that are not there; none unless only nodes' actions
        were refused."""
        found: dict[NodeName, frozenset[str]] = {}
        if not all(pk.startswith(table.NODES_PREFIX) for pk, _ in refused):
            return found
        for (pool, node), use in node_uses(changes).items():
            if use.left and table.node_key(pool, node) in refused:
                jobs = attempts_on(self._calls.item(table.node_key(pool, node)), use.generation)
                gone = frozenset(job.job for job in use.left if jobs.get(job.job) != job.number)
                found |= {(pool, node): gone} if gone else {}
        return found

    @contextmanager
    def in_a_row(self) -> Iterator[None]:
        self._row.arrivals = Counter()
        try:
            yield
        finally:
            arrivals, self._row.arrivals = self._row.arrivals, None
            self._count(arrivals)

    def _count(self, arrivals: Mapping[str, int]) -> None:
        later: Counter[str] | None = getattr(self._row, "arrivals", None)
        if later is not None:
            later.update(arrivals)
            return
        changed = [{line: by} for line, by in arrivals.items() if by]
        self._at_once(self._bounds.count, changed)

    def fitting(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        nodes: Sequence[NodeChange] = (),
        warm: Sequence[WarmChange] = (),
        part: Part | None = None,
    ) -> int:
        return fitting(changes, seen, part, self._most_actions, nodes=nodes, warm=warm)

    def in_parts(self) -> InParts | None:
        sieve, item = Sieve(), self._calls.item(table.parts_key())
        found = sieve.read([item] if item else [], in_parts_of)
        if sieve.poison:
            raise NotUnderstood("a decision about a group cannot be read")
        return next(iter(found), None)

    def turn_back(self, decision: InParts) -> InParts:
        undo = PartsKind.UNDO
        turned = expressions.turn_back(decision.number, decision.kind, undo)
        self._calls.update(table.parts_key(), turned)
        return replace(decision, kind=undo)

    def _doubt(self, changes: Sequence[Change], refused: set[table.Key]) -> None:
        """Check the copies of each refused job, and each refused node. Either another handler was
        faster, or the copy that was read differs from the job, or the node counts what its jobs do
        not hold. Such a copy or node would be refused permanently unless it is repaired."""
        for pool, node in node_uses(changes):
            if table.node_key(pool, node) in refused:
                with suppress(SlotQError):
                    self._quarantine.nodes.check(pool, node, mend=True)
        for change in changes:
            if table.job_key(change.before.name) in refused:
                with suppress(SlotQError):
                    keys = copies_of(change.before)
                    self._quarantine.copies.check(change.before.name, keys, mend=True)


def _arrivals(changes: Sequence[Change]) -> dict[str, int]:
    """Return by how much the changes raise (below 0: lower) the counts of counted lines."""
    found: Counter[str] = Counter()
    for change in changes:
        for job, by in ((change.before, -1), (change.after, 1)):
            if job.waits and job.project:
                found[line_of(job)] += by
    return found


def _enters_line(change: Change) -> bool:
    """Whether the change puts the job into a line, or to another place there. A waiting job enters
    another line when its priority or its pools change."""
    if not change.after.waits:
        return False
    before = change.before
    return not before.waits or table.waiting_key(change.after) != table.waiting_key(before)
