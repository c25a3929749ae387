"""Reading what a pass needs: pools, then who holds them, then the heads of the lines.

Whatever changes between two of these reads is caught by the commit: it is conditioned on the
ledgers, which are read first, and on the version of each job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from slotq_core.adapters import dynamodb_expressions as expressions
from slotq_core.adapters import dynamodb_table as table
from slotq_core.adapters.dynamodb_calls import TableCalls
from slotq_core.adapters.dynamodb_configuration import Configuration
from slotq_core.adapters.dynamodb_items import (
    Item,
    foreign_of,
    health_of,
    job_of,
    ledger_of,
    mark,
)
from slotq_core.adapters.snapshots import MAX_DUE, due_part, snapshot_of
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model import HEALTHY, Demand, Job, Pool, PoolHealth
from slotq_core.policy.lines import heads_needed
from slotq_core.ports import Ledger, World

LINE_KEPT = 3_600_000
"""How long (ms) an empty line is kept after it was last touched: far longer than any submission
takes from touching it to its commit."""

_TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class _Holders:
    """One pool's partition."""

    ledger: Ledger
    foreign: Demand
    health: PoolHealth
    marks: int
    active: tuple[Job, ...]
    claimants: tuple[Job, ...]

    @property
    def agree(self) -> bool:
        """Whether the items were read as one transaction left them."""
        held = sum((job.demand for job in self.active), Demand())
        marks = sum(mark(job) for job in (*self.active, *self.claimants))
        return held == self.ledger.used and marks == self.marks


class WorldLoader:
    def __init__(self, calls: TableCalls, configuration: Configuration) -> None:
        self._calls = calls
        self._configuration = configuration

    def load(self, now: int) -> World:
        pools, holders = self._pools()
        active = [job for each in holders.values() for job in each.active]
        claimants = [job for each in holders.values() for job in each.claimants]
        heads: list[Job] = []
        lines = dict(self._lines())
        needed = heads_needed(lines, pools, active, claimants)
        for line, touched in lines.items():
            found = self._waiting(line, needed[line])
            heads += found
            if not found and touched < now - LINE_KEPT:
                self._remove(line, touched)
        return _world(pools, holders, [*claimants, *heads], due_part(self._due(MAX_DUE), now))

    def load_all(self, now: int) -> World:
        pools, holders = self._pools()
        claimants = [job for each in holders.values() for job in each.claimants]
        waiting = [job for line in self.lines() for job in self._waiting(line, None)]
        return _world(pools, holders, [*claimants, *waiting], self._due(None))

    def lines(self) -> list[str]:
        """Every line that may have jobs."""
        return [line for line, _ in self._lines()]

    def _lines(self) -> list[tuple[str, int]]:
        """With the moment when each was last touched."""
        items = self._calls.query(expressions.partition(table.LINES))
        return [(item["sk"]["S"], int(item["touched"]["N"])) for item in items]

    def _pools(self) -> tuple[tuple[Pool, ...], dict[str, _Holders]]:
        configured = self._configuration.pools()
        holders = {pool.name: self._holders(pool.name) for pool in configured}
        pools = tuple(
            replace(pool, foreign=holders[pool.name].foreign, health=holders[pool.name].health)
            for pool in configured
        )
        return pools, holders

    def _holders(self, pool: str) -> _Holders:
        for _ in range(_TRIES):
            read = _read_holders(
                self._calls.query(expressions.partition(table.pool_partition(pool)))
            )
            if read.agree:
                return read
        raise Unavailable(f"pool {pool}: its ledger and its active jobs do not agree")

    def _waiting(self, line: str, limit: int | None) -> list[Job]:
        expression = expressions.partition(table.waiting_partition(line))
        return [job_of(item) for item in self._calls.query(expression, limit=limit)]

    def _due(self, limit: int | None) -> list[Job]:
        """Back-offs, the earliest first."""
        expression = expressions.partition(table.DUE)
        return [job_of(item) for item in self._calls.query(expression, limit=limit)]

    def _remove(self, line: str, touched: int) -> None:
        with suppress(Conflict):  # A submission has touched it since: it stays.
            self._calls.delete(table.line_key(line), expressions.line_untouched(touched))


def _read_holders(items: Iterator[Item]) -> _Holders:
    by_kind: dict[str, list[Job]] = {table.ACTIVE_PREFIX: [], table.CLAIM_PREFIX: []}
    ledger: Item = {}
    health = HEALTHY
    for item in items:
        match item["sk"]["S"].partition("#")[0]:
            case table.LEDGER:
                ledger = item
            case table.HEALTH:
                health = health_of(item)
            case kind:
                by_kind[f"{kind}#"].append(job_of(item))
    return _Holders(
        ledger=ledger_of(ledger),
        foreign=foreign_of(ledger),
        health=health,
        marks=int(ledger.get("holders", {"N": "0"})["N"]),
        active=tuple(by_kind[table.ACTIVE_PREFIX]),
        claimants=tuple(by_kind[table.CLAIM_PREFIX]),
    )


def _world(
    pools: tuple[Pool, ...],
    holders: Mapping[str, _Holders],
    waiting: Iterable[Job],
    due: Iterable[Job],
) -> World:
    active = [job for each in holders.values() for job in each.active]
    return World(
        snapshot=snapshot_of(pools, active, waiting, due),
        ledgers={name: each.ledger for name, each in holders.items()},
    )
