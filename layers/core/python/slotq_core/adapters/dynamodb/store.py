"""The Store on DynamoDB. `layout.table` describes the table; `layout.expressions` and
`layout.ledger_expressions` contain every condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slotq_core.adapters.dynamodb.accounting.counters import DynamoCounters
from slotq_core.adapters.dynamodb.accounting.nodes import DynamoNodes
from slotq_core.adapters.dynamodb.accounting.usage_records import DynamoUsage
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.decisions import DynamoDecisions
from slotq_core.adapters.dynamodb.groups import DynamoGroups
from slotq_core.adapters.dynamodb.health import DynamoHealth
from slotq_core.adapters.dynamodb.jobs import DynamoJobs
from slotq_core.adapters.dynamodb.layout.table import table_definition, time_to_live
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel, Threads
from slotq_core.adapters.dynamodb.reading.line_reading import LineReader
from slotq_core.adapters.dynamodb.reading.loading import DynamoWorlds
from slotq_core.adapters.dynamodb.reading.node_reading import NodeReader
from slotq_core.adapters.dynamodb.reading.pool_reading import PoolReader
from slotq_core.adapters.dynamodb.repair.inspection import Inspection
from slotq_core.adapters.dynamodb.repair.line_audit import LineAudit
from slotq_core.adapters.dynamodb.repair.quarantine import Quarantine
from slotq_core.adapters.dynamodb.repair.upkeep import DynamoRepair
from slotq_core.adapters.dynamodb.transactions import MAX_ACTIONS, action_count
from slotq_core.adapters.dynamodb.wake import DynamoScheduler
from slotq_core.ports.stored import Unwatched, Witness
from slotq_core.storage.ends import HISTORY

if TYPE_CHECKING:
    from slotq_core.adapters.dynamodb.outbox.callbacks import DynamoCallbacks

__all__ = ["MAX_ACTIONS", "DynamoStore", "action_count", "table_definition", "time_to_live"]


class DynamoStore:
    """The store on DynamoDB. Instances hold nothing but caches, and are interchangeable."""

    def __init__(
        self,
        client: Any,
        table_name: str,
        *,
        history: int = HISTORY,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        in_parallel: InParallel | None = None,
        most_actions: int = MAX_ACTIONS,
        witness: Witness | None = None,
    ) -> None:
        """Set up the store. `client` is boto3's low-level DynamoDB client. `history` is how long
        ended jobs stay readable (ms). `pause` waits for a number of seconds before a second
        read. `clock` gives the time (ms) at which stored jobs enter lines. `in_parallel` makes
        reads that do not depend on each other; default: in threads. `most_actions`: how many
        actions of one transaction a decision takes at most. `witness` sees each stored job and each
        committed change."""
        self._calls = calls = TableCalls(client, table_name)
        self.at_once = at_once = in_parallel or Threads()
        seen_by = witness or Unwatched()
        bounds = LineBounds(calls, clock)
        lines = LineReader(calls, at_once)
        self.scheduler = DynamoScheduler(calls)
        self.counters = DynamoCounters(calls)
        self.groups = DynamoGroups(calls, at_once, history=history)
        self.configuration = configuration = DynamoConfiguration(calls, most_actions=most_actions)
        self.health = DynamoHealth(calls, configuration)
        self.nodes = DynamoNodes(calls)
        self.usage = DynamoUsage(calls, configuration)
        pools = PoolReader(calls, configuration, pause, at_once)
        quarantine = Quarantine(calls, configuration, bounds)
        self.jobs = DynamoJobs(
            calls,
            configuration,
            quarantine,
            self.counters,
            lines=lines,
            clock=clock,
            witness=seen_by,
            most_actions=most_actions,
        )
        self.decisions = DynamoDecisions(
            calls,
            bounds,
            quarantine,
            pools,
            history=history,
            most_actions=most_actions,
            witness=seen_by,
            at_once=at_once,
        )
        self.worlds = DynamoWorlds(
            calls,
            configuration,
            bounds,
            pools,
            at_once,
            lines=lines,
            nodes=NodeReader(calls, pools, pause),
            groups=self.groups,
            usage=self.usage,
            decisions=self.decisions,
        )
        self.repair = DynamoRepair(
            calls,
            quarantine,
            LineAudit(calls, bounds, at_once),
            Inspection(calls, configuration, quarantine, bounds, history=history, clock=clock),
        )

    @cached_property
    def callbacks(self) -> DynamoCallbacks:
        """Who waits for jobs' ends. Most queues keep nobody."""
        from slotq_core.adapters.dynamodb.outbox.callbacks import DynamoCallbacks

        return DynamoCallbacks(self._calls)
