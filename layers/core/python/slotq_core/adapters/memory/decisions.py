"""Changes of jobs in memory (`ports.decisions.Decisions`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from slotq_core.adapters.memory.nodes import change_node, check_node
from slotq_core.adapters.memory.state import State, one_at_a_time
from slotq_core.adapters.memory.usage_records import MemoryUsage
from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.ports.stored import Change, InParts, NodeChange, Part, PartsKind, WarmChange
from slotq_core.storage import stored_request
from slotq_core.storage.ends import record_of
from slotq_core.storage.holdings import PoolChange, node_uses, pool_changes
from slotq_core.storage.warm_changes import records_of, warm_changes
from slotq_core.storage.yields import yields_in


class MemoryDecisions:
    """In-memory transactions, safe for threads."""

    def __init__(self, state: State, usage: MemoryUsage, *, most_changes: int) -> None:
        """Set up the transactions. `most_changes`: how many jobs one of them changes at most."""
        self._state, self._usage, self._most_changes = state, usage, most_changes

    @one_at_a_time
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
        self._check_jobs(changes, opens_line=opens_line, opener=opener)
        if group_decisions not in {None, self._state.group_decisions}:
            raise Conflict("somebody has decided about a group since")
        if part is not None and not self._may_be(part):
            raise Conflict("the decision is no longer to be finished in this way")
        slots = warm_changes(changes, warm)
        uses, on_nodes = pool_changes(changes, seen, nodes, slots), node_uses(changes, nodes)
        self._check_slots(slots)
        packed = {c.after.name: stored_request.pack(c.request) for c in changes if c.request}
        for name, use in uses.items():
            self._check(name, use)
        for node, node_use in on_nodes.items():
            check_node(self._state, node, node_use)
        for node, node_use in on_nodes.items():
            change_node(self._state, node, node_use)
        for name, use in uses.items():
            if use.raises_version:
                self._state.raise_version(name, use.gained)
        self._change_slots(slots)
        if part is not None:
            self._state.in_parts = None if part.closes else part.of
        self._state.group_decisions += group_decisions is not None or bool(part and part.closes)
        self._state.requests.update(packed)
        self._state.yields.update({(pool, this.of): this for pool, this in yields_in(changes)})
        return tuple(self._apply(change) for change in changes)

    def _check_jobs(self, changes: Sequence[Change], *, opens_line: bool, opener: str) -> None:
        for after in (c.after for c in changes if c.after.waits or c.comes_to_other_line):
            self._state.check_line(after, opens_line=opens_line, opener=opener)
        for change in changes:
            kept = self._state.jobs.get(change.before.name)
            if kept is None or kept.version != change.before.version:
                raise Conflict(f"{change.before.name} has changed since it was read")

    def in_a_row(self) -> AbstractContextManager[None]:
        return nullcontext()

    def fitting(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        nodes: Sequence[NodeChange] = (),
        warm: Sequence[WarmChange] = (),
        part: Part | None = None,
    ) -> int:
        return min(len(changes), self._most_changes)

    @one_at_a_time
    def in_parts(self) -> InParts | None:
        return self._state.in_parts

    @one_at_a_time
    def turn_back(self, decision: InParts) -> InParts:
        if not self._is_in_parts(decision):
            raise Conflict("the decision is no longer to be finished in this way")
        self._state.in_parts = replace(decision, kind=PartsKind.UNDO)
        return self._state.in_parts

    def _may_be(self, part: Part) -> bool:
        return self._state.in_parts is None if part.opens else self._is_in_parts(part.of)

    def _is_in_parts(self, decision: InParts) -> bool:
        now = self._state.in_parts
        return now is not None and (now.number, now.kind) == (decision.number, decision.kind)

    def _check(self, name: str, use: PoolChange) -> None:
        ledger = self._state.ledgers[name]
        if use.seen is not None and use.seen != ledger.version:
            raise Conflict(f"pool {name} has changed since it was read")
        pool = next((known for known in self._state.pools_now() if known.name == name), None)
        room = pool.capacity - pool.foreign if pool else Demand()
        free = room - ledger.used - use.gained
        if any(free[resource] < 0 for resource in use.admitted):
            raise Conflict(f"pool {name} has no room for that")

    def _check_slots(self, changes: Sequence[WarmChange]) -> None:
        for change in changes:
            kept = self._state.warm.get((change.slot.pool, change.slot.training_job))
            if (kept and kept.version) != (change.before and change.before.version):
                raise Conflict(f"the warm slot of {change.slot.training_job} has changed since")

    def _change_slots(self, changes: Sequence[WarmChange]) -> None:
        for change in changes:
            key = change.slot.pool, change.slot.training_job
            if (after := change.committed) is None:
                del self._state.warm[key]
            else:
                self._state.warm[key] = after
        for record in records_of(changes, self._state.history):
            self._usage.keep(record)

    def _apply(self, change: Change) -> Job:
        name, began = change.after.name, change.after.attempt
        if began and change.health is not None:
            self._state.health[began.pool] = change.health
        self._state.index.forget(change.before)
        if began:
            self._state.attempts[name].setdefault(began.number, began)
            self._state.job_of[began.training_job] = name
        if change.ended:
            self._state.attempts[name][change.ended.number] = change.ended
        if change.takes_back and change.before.attempt:
            del self._state.attempts[name][change.before.attempt.number]
            del self._state.job_of[change.before.attempt.training_job]
        if (record := record_of(change, self._state.history)) is not None:
            self._usage.keep(record)
        return self._state.keep(change.committed)
