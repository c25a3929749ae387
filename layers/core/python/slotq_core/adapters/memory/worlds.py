"""The input of decisions, in memory (`ports.decisions.Worlds`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq_core.adapters.memory.configuration import MemoryConfiguration
from slotq_core.adapters.memory.jobs import MemoryGroups
from slotq_core.adapters.memory.nodes import all_nodes
from slotq_core.adapters.memory.state import State, one_at_a_time
from slotq_core.adapters.memory.usage_records import MemoryUsage
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import Line, line_of
from slotq_core.policy.order import Precedence, precedence
from slotq_core.policy.plan import Found, Need
from slotq_core.ports.stored import MOST_AHEAD, Ahead, Ledger, World
from slotq_core.storage.ends import end_of
from slotq_core.storage.order_keys import order_key
from slotq_core.storage.scheduled import scheduled
from slotq_core.storage.snapshots import (
    FIRST_JOBS,
    MAX_DUE,
    due_and_ended,
    due_part,
    read_at_first,
    snapshot_of,
    spending,
)
from slotq_core.storage.yields import outlived


class MemoryWorlds:
    """In-memory loads, safe for threads. A load costs time in proportion to the active jobs and the
    heads of the lines."""

    def __init__(
        self,
        state: State,
        configuration: MemoryConfiguration,
        groups: MemoryGroups,
        usage: MemoryUsage,
    ) -> None:
        self._state, self._configuration = state, configuration
        self._groups, self._usage = groups, usage

    @one_at_a_time
    def load(self, now: int) -> World:
        active, claimants = self._state.of(self._state.index.active), self._claimants_here()
        seen = {job.name for job in (*active, *claimants)}
        first: list[Job] = []
        behind: dict[str, int] = {}
        apart, shares = (
            self._configuration.read().by_user,
            bool(self._configuration.sharing.projects),
        )
        named = {line: Line.parse(line).group for line in self._state.index.lines()}
        groups = self._groups_of(named.values(), now)
        for line in (line for line, group in named.items() if not group or group in groups):
            needed = read_at_first(
                Line.parse(line), self._state.pools, groups, by_user=apart, shares=shares
            )
            count = None if needed is None else max(FIRST_JOBS, needed)
            found = self._read_on(line, None, count, seen)
            first += found.jobs
            if found.behind:
                behind[found.jobs[-1].name] = found.behind
        earliest, ended = due_and_ended(self._state.of(self._state.index.due(MAX_DUE)))
        world = self._world(active, [*claimants, *first], due_part(earliest, now), now)

        def more(need: Need) -> Found:
            with self._state.lock:
                return self._read_on(line_of(need.after), need.after, need.count, seen)

        snapshot = replace(world.snapshot, behind=behind)
        return replace(
            world,
            snapshot=snapshot,
            unfinished=frozenset(named.values()) - {"", *groups},
            ended=ended,
            more=more,
            keep_bounds=lambda: self._forget_yields(snapshot, now),
        )

    @one_at_a_time
    def pools(self, now: int) -> list[tuple[Pool, Ledger]]:
        warm = self._warm_here()
        return [
            (pool, replace(self._state.ledgers[pool.name], warm=_of_pool(warm, pool)))
            for pool in scheduled(self._state.pools_now(), now)
        ]

    @one_at_a_time
    def nodes(self, _: int) -> list[Node]:
        return all_nodes(self._state)

    @one_at_a_time
    def load_all(self, now: int) -> World:
        everyone = self._state.of(self._state.index.waiting())
        groups = self._groups_of((job.group for job in everyone), now)
        waiting = [job for job in everyone if not job.group or job.group in groups]
        due, _ = due_and_ended(self._state.of(self._state.index.due()))
        return self._world(self._state.of(self._state.index.active), waiting, due, now)

    @one_at_a_time
    def _forget_yields(self, snapshot: Snapshot, now: int) -> None:
        gone = outlived(self._state.yields.values(), snapshot, now)
        self._state.yields = {
            key: past for key, past in self._state.yields.items() if past not in gone
        }

    @one_at_a_time
    def _ahead_of(self, job: Job, by: Precedence) -> Ahead:
        found = self._state.index.ahead_of(job, by)
        return Ahead(jobs=min(found, MOST_AHEAD + 1), or_more=found > MOST_AHEAD)

    def _claimants_here(self) -> list[Job]:
        """Return the claimants. A claim in a pool that is no longer configured is void."""
        here = {pool.name for pool in self._state.pools}
        return [
            job
            for job in self._state.of(self._state.index.claimants)
            if job.claim and job.claim.pool in here
        ]

    def _warm_here(self) -> list[WarmSlot]:
        here = {pool.name for pool in self._state.pools}
        return [slot for slot in self._state.warm.values() if slot.pool in here]

    def _read_on(self, line: str, after: Job | None, count: int | None, seen: set[str]) -> Found:
        """Return the next jobs of a line without the `seen` ones, and how many wait behind them.
        Adds them to `seen`."""
        place = (order_key(after), after.name) if after else None
        names = [name for name in self._state.index.behind(line, place) if name not in seen]
        seen.update(names[:count])
        found = names[:count]
        return Found(jobs=tuple(self._state.of(found)), behind=len(names) - len(found))

    def _world(self, active: list[Job], waiting: list[Job], due: list[Job], now: int) -> World:
        configuration = self._configuration.read()
        snapshot = snapshot_of(
            scheduled(self._state.pools_now(), now),
            self._configuration.sharing,
            active,
            waiting,
            due,
            spent=spending(configuration, self._usage, now),
            past_use=configuration.past_use,
            yields=self._state.yields.values(),
            groups=self._groups_of((job.group for job in (*active, *waiting, *due)), now).values(),
            nodes=all_nodes(self._state),
            warm=self._warm_here(),
        )
        return World(
            snapshot=snapshot,
            ledgers={pool.name: self._state.ledgers[pool.name] for pool in self._state.pools},
            group_decisions=self._state.group_decisions,
            in_parts=self._state.in_parts,
            ahead_of=lambda job: self._ahead_of(job, precedence(snapshot)),
        )

    def _groups_of(self, names: Iterable[str], now: int) -> dict[str, Group]:
        """Return the groups of these names, gangs with the ends of their members."""
        kept = (self._groups.get(name) for name in sorted(set(names) - {""}))
        return {stored.group.name: self._with_ended(stored, now) for stored in kept if stored}

    def _with_ended(self, stored: StoredGroup, now: int) -> Group:
        if stored.group.max_parallel is not None:
            return stored.group
        ends = {
            name: end_of(self._state.jobs.get(name), stored, now=now, history=self._state.history)
            for name in stored.group.members
        }
        ended = {name: end for name, end in ends.items() if end is not None}
        return replace(stored.group, ended=ended)


def _of_pool(warm: Iterable[WarmSlot], pool: Pool) -> tuple[WarmSlot, ...]:
    return tuple(slot for slot in warm if slot.pool == pool.name)
