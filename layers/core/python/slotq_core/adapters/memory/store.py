"""The Store in memory, for simulations and tests. The same contract holds as for the DynamoDB
store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from slotq_core.adapters.memory.configuration import MemoryConfiguration
from slotq_core.adapters.memory.counters import MemoryCounters
from slotq_core.adapters.memory.decisions import MemoryDecisions
from slotq_core.adapters.memory.health import MemoryHealth, MemoryRepair
from slotq_core.adapters.memory.jobs import MemoryCallbacks, MemoryGroups, MemoryJobs
from slotq_core.adapters.memory.nodes import MemoryNodes
from slotq_core.adapters.memory.scheduler import MemoryScheduler
from slotq_core.adapters.memory.state import State
from slotq_core.adapters.memory.usage_records import MemoryUsage
from slotq_core.adapters.memory.worlds import MemoryWorlds
from slotq_core.storage.ends import HISTORY

A = TypeVar("A")
R = TypeVar("R")


class MemoryStore:
    """In-memory store, safe for threads."""

    def __init__(self, *, history: int = HISTORY, most_changes: int = 1_000_000) -> None:
        """Set up the store. `history` is how long ended jobs stay readable (ms). `most_changes`:
        how many jobs one transaction of a decision changes at most."""
        self._state = state = State(history=history)
        self.counters = MemoryCounters(state.all_jobs, state.open_lines)
        self.usage = MemoryUsage(state.active)
        self.groups = MemoryGroups()
        self.scheduler = MemoryScheduler(lambda: state.changes)
        self.jobs = MemoryJobs(state, self.counters, self.groups)
        self.configuration = MemoryConfiguration(state, self.counters, self.usage)
        self.worlds = MemoryWorlds(state, self.configuration, self.groups, self.usage)
        self.decisions = MemoryDecisions(state, self.usage, most_changes=most_changes)
        self.nodes = MemoryNodes(state)
        self.health = MemoryHealth(state)
        self.callbacks = MemoryCallbacks(state)
        self.repair = MemoryRepair(state, self.usage)

    def at_once(self, read: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        return [read(name) for name in asked]
