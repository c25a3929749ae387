"""Read what a pass needs: pools with the jobs that hold them, then lines and back-offs, then the
first jobs of each line. Each of these steps reads in parallel.

The plan requests more jobs of a line when needed.

A commit catches whatever changes between two of these reads: it is conditioned on the ledgers,
which are read first, and on the version of each job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.held_slots import NOT_COMING, Holders
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import in_parts_of
from slotq_core.adapters.dynamodb.layout.lines import StoredLine, parsed
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import Sieve, copy_of
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.adapters.dynamodb.reading.line_reading import (
    KnownLines,
    LineItems,
    LineReader,
    Places,
)
from slotq_core.adapters.dynamodb.reading.node_reading import NodeReader, PoolNodes
from slotq_core.adapters.dynamodb.reading.pool_reading import PoolReader, Read
from slotq_core.adapters.dynamodb.reading.waiting_lines import WaitingLines
from slotq_core.adapters.dynamodb.repair.old_lines import OtherLines
from slotq_core.errors import ConfigurationLost, Conflict, InvalidRequest
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Spending
from slotq_core.model.sharing import Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.lines import users_matter
from slotq_core.policy.order import precedence
from slotq_core.policy.plan import Found, Need
from slotq_core.ports.decisions import Decisions
from slotq_core.ports.stored import Change, Configuration, InParts, Ledger, Poison, World
from slotq_core.ports.usage import UsageBook
from slotq_core.storage.scheduled import scheduled
from slotq_core.storage.snapshots import MAX_DUE, due_and_ended, due_part, snapshot_of, spending
from slotq_core.storage.yields import outlived

_CHANGING = "the configuration is being changed; nothing starts until that is done"
_ALL_LINES = table.LINES, None
_FIRST_DUE = table.DUE, MAX_DUE
_AT_ONCE = 25
"""Jobs that one transaction moves into lines of their users: four actions each at most."""
_MOST_FORGOTTEN = 100
"""Maximum number of yields that one pass forgets; the next pass goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Capacity:
    """The pools, the projects that share them, and the holders of their slots."""

    configuration: Configuration
    pools: tuple[Pool, ...]
    """With their health, and the slots of foreign training jobs."""
    holders: Mapping[str, Holders]
    lost: str
    """Why the configuration is not whole; usually empty."""
    awaiting: bool
    """Whether the ledgers of pools await a later configuration."""
    nodes: tuple[Node, ...]

    @property
    def undecidable(self) -> str:
        """Why nothing may be decided; usually empty."""
        return self.lost or (_CHANGING if self.awaiting else "")

    @property
    def sharing(self) -> Sharing:
        return self.configuration.sharing

    @property
    def active(self) -> list[Job]:
        return [job for holder in self.holders.values() for job in holder.active]

    @property
    def by_user(self) -> bool:
        """Whether plans distinguish users."""
        return users_matter(self.pools, apart=self.sharing.keeps_users_apart)

    @property
    def yields(self) -> list[Yielded]:
        return [this for holder in self.holders.values() for this in holder.yields]

    @property
    def claimants(self) -> list[Job]:
        return [job for holder in self.holders.values() for job in holder.claimants]


class GroupRecords(Protocol):
    """The part of the stored groups that a load uses."""

    def of(self, names: Iterable[str]) -> Mapping[str, Group]:
        """Return these groups by name, as far as they exist."""

    def with_ended(
        self, groups: Iterable[Group], living: AbstractSet[str], now: int
    ) -> tuple[Group, ...]:
        """Return these groups, gangs with the ends of their members. `living`: jobs that the load
        has seen alive."""


class DynamoWorlds:
    def __init__(
        self,
        calls: TableCalls,
        configuration: DynamoConfiguration,
        bounds: LineBounds,
        pools: PoolReader,
        in_parallel: InParallel,
        *,
        lines: LineReader,
        nodes: NodeReader,
        groups: GroupRecords,
        usage: UsageBook,
        decisions: Decisions,
    ) -> None:
        self._calls = calls
        self._configuration = configuration
        self._groups, self._usage = groups, usage
        self._decisions = decisions
        self._bounds = bounds
        self._others = OtherLines(calls, bounds)
        self._waiting, self._held, self._nodes = lines, pools, nodes
        self._line_items = LineItems()
        self._known = KnownLines(calls, in_parallel)
        self._places = Places(calls, in_parallel)
        self._in_parallel = in_parallel
        self._late: tuple[Poison, ...] = ()
        """Items that a plan in progress could not read, for the next load."""

    def load(self, now: int) -> World:
        sieve, self._late, late = Sieve(), (), self._late
        sieve.add(late)
        capacity = self._capacity(sieve, now)
        lines, due_read, spent = self._lines_and_due(capacity.configuration, now, sieve)
        later, ended = due_and_ended(sieve.read(due_read, copy_of))
        due = due_part(later, now)
        held = [*capacity.active, *capacity.claimants]
        named = [parsed(line.name).group for line in lines]
        groups = self._groups.of([*named, *(job.group for job in (*held, *due))])
        # A group exists once it has a record. Until then nothing of it is in the queue.
        whole = {"", *groups}
        unfinished = frozenset(named) - whole
        lines = [line for line, group in zip(lines, named, strict=True) if group in whole]
        waiting = WaitingLines(
            self._waiting,
            self._known,
            self._bounds,
            self._in_parallel,
            lines,
            pools=capacity.pools,
            claimants=capacity.claimants,
            active=capacity.active,
            groups=groups,
            by_user=capacity.by_user,
            shares=bool(capacity.sharing.projects),
            now=now,
        )
        found = waiting.read_first(sieve)
        first = [job for line in found for job in line.jobs]
        stand_ins = [*waiting.stand_ins.values()]
        here = {job.group for job in (*held, *first, *due)}
        living = {job.name for job in (*held, *first, *later)}
        with_ended = self._groups.with_ended(
            [group for group in groups.values() if group.name in here], living, now
        )
        world = _world(capacity, [*first, *stand_ins], due, sieve, with_ended, spent=spent)

        def more(need: Need) -> Found:
            reading = Sieve()
            answer = waiting.more(need, reading)
            self._late += reading.poison
            return answer

        snapshot = replace(
            world.snapshot,
            behind={
                **waiting.behind,
                **{line.jobs[-1].name: line.behind for line in found if line.behind},
            },
            unread=frozenset(job.name for job in stand_ins),
        )
        return replace(
            world,
            snapshot=snapshot,
            unfinished=unfinished,
            ended=ended,
            in_parts=self._in_parts(sieve) if capacity.configuration.in_parts else None,
            poison=sieve.poison,
            more=more,
            ahead_of=lambda job: self._places.ahead_of(job, lines, precedence(snapshot)),
            keep_bounds=lambda: self._keep(waiting, capacity, snapshot, now),
        )

    def _keep(
        self, waiting: WaitingLines, capacity: _Capacity, snapshot: Snapshot, now: int
    ) -> None:
        """Make later loads cheaper: raise the bounds of lines, move jobs into lines of their users,
        and delete yields without effect."""
        waiting.keep_bounds()
        jobs = waiting.to_distinguish()
        for some in (jobs[at : at + _AT_ONCE] for at in range(0, len(jobs), _AT_ONCE)):
            self._distinguish(some)
        gone = [
            (table.yield_key(pool, past), past.at)
            for pool, held in capacity.holders.items()
            for past in outlived(held.yields, snapshot, now)
        ]
        if gone:
            self._in_parallel(self._forget_yield, gone[:_MOST_FORGOTTEN])
            self._held.forget(capacity.holders)

    def _forget_yield(self, this: tuple[table.Key, int]) -> None:
        key, at = this
        with suppress(Conflict):  # The user has yielded again.
            self._calls.delete(key, expressions.yielded_at(at))

    def _distinguish(self, jobs: Sequence[Job]) -> None:
        """Move jobs into lines of their users. A job that has changed since is left to the next
        load."""
        changes = [Change(before=job, after=replace(job, line_by_user=True)) for job in jobs]
        try:
            self._decisions.commit(changes)
        except (Conflict, InvalidRequest):  # The line's name may be too long for the table.
            for change in changes if len(changes) > 1 else ():
                self._distinguish([change.before])

    def _in_parts(self, sieve: Sieve) -> InParts | None:
        item = self._calls.item(table.parts_key())
        return next(iter(sieve.read([item] if item else [], in_parts_of)), None)

    def pools(self, now: int) -> list[tuple[Pool, Ledger]]:
        capacity = self._capacity(Sieve(), now)
        holders = capacity.holders
        return [
            (pool, replace(holders[pool.name].ledger, warm=holders[pool.name].warm))
            for pool in capacity.pools
        ]

    def nodes(self, now: int) -> tuple[Node, ...]:
        return self._capacity(Sieve(), now).nodes

    def load_all(self, now: int) -> World:
        sieve = Sieve()
        capacity = self._capacity(sieve, now)
        if capacity.lost:  # No caller may see the queue without its projects.
            raise ConfigurationLost(capacity.lost)
        lines = self._line_items.lines_in(self._partition(_ALL_LINES), sieve, now)
        read = self._waiting.all_jobs([line.name for line in lines], sieve)
        due, _ = due_and_ended(sieve.read(self._partition((table.DUE, None)), copy_of))
        living = [*capacity.active, *capacity.claimants, *read, *due]
        groups = self._groups.of(job.group for job in living)
        waiting = [job for job in read if not job.group or job.group in groups]
        names = {job.name for job in living}
        with_ended = self._groups.with_ended(groups.values(), names, now)
        spent = spending(capacity.configuration, self._usage, now)
        world = _world(capacity, waiting, due, sieve, with_ended, spent=spent)
        own = [line for line in lines if line.own]
        by = precedence(world.snapshot)
        return replace(world, ahead_of=lambda job: self._places.ahead_of(job, own, by))

    def _lines_and_due(
        self, configured: Configuration, now: int, sieve: Sieve
    ) -> tuple[list[StoredLine], list[Item], Spending]:
        """Return this version's lines, after moving the jobs of other versions' lines into them,
        the items of the earliest back-offs, and what the projects have spent."""
        reads: list[Callable[[], Any]] = [
            lambda: self._partition(_ALL_LINES),
            lambda: self._partition(_FIRST_DUE),
            lambda: spending(configured, self._usage, now),
        ]
        lines_read, due, spent = self._in_parallel(lambda read: read(), reads)
        lines = self._line_items.lines_in(lines_read, sieve, now)
        others = [line for line in lines if not line.own]
        if others:
            self._others.put_back(now=now)
        for line in others:
            if not self._others.move_to_own_lines(line.name, sieve, now=now):
                self._bounds.remove(line, now=now)
        if others:
            lines = self._line_items.lines_in(self._partition(_ALL_LINES), sieve, now)
        return [line for line in lines if line.own], due, spent

    def _capacity(self, sieve: Sieve, now: int) -> _Capacity:
        configured, undecidable, ledgers = self._configuration.with_ledgers(
            sieve, self._in_parallel
        )
        pools, holders = [], {}
        all_read = self._held.read(configured.pools, now, ledgers)
        with_nodes = self._with_nodes(configured.pools, all_read)
        awaiting = []
        for pool, read in zip(configured.pools, all_read, strict=True):
            there = with_nodes.get(pool.name)
            held, occupied, poison = there.read if there else read
            awaits = held.since > configured.revision
            sieve.add(() if awaits else poison)
            awaiting += [pool.name] if awaits else []
            holders[pool.name] = held
            foreign = held.foreign + held.kept if awaits else occupied
            if there:
                sieve.add(there.sieve.poison)
                foreign += there.lost
            pools.append(replace(pool, foreign=foreign, health=held.health))
        if awaiting:
            self._note_unmade(awaiting, configured, sieve)
        return _Capacity(
            configuration=configured,
            pools=tuple(scheduled(pools, now)),
            holders=holders,
            lost=undecidable,
            awaiting=bool(awaiting),
            nodes=tuple(node for there in with_nodes.values() for node in there.nodes),
        )

    def _with_nodes(self, pools: Sequence[Pool], all_read: Sequence[Read]) -> dict[str, PoolNodes]:
        """Return the nodes of the pools whose ledgers count any, by pool."""
        some = [both for both in zip(pools, all_read, strict=True) if both[1][0].nodes]
        found = self._in_parallel(lambda both: self._nodes.read(*both), some) if some else []
        return {pool.name: there for (pool, _), there in zip(some, found, strict=True)}

    def _note_unmade(self, pools: Sequence[str], seen: Configuration, sieve: Sieve) -> None:
        """Note the ledgers of these pools, which await a later revision, as wrong if nobody is
        making that revision, and it has not been made since."""
        now = self._configuration.read()
        if not now.changing and now.revision <= seen.revision:
            for name in pools:
                sieve.note(table.ledger_key(name), NOT_COMING)

    def _partition(self, asked: tuple[str, int | None]) -> list[Item]:
        """Return the first items of a partition. `asked`: its key, and how many; None: all."""
        pk, limit = asked
        return [*self._calls.query(expressions.partition(pk), limit=limit)]


def _world(
    capacity: _Capacity,
    waiting: Iterable[Job],
    due: Iterable[Job],
    sieve: Sieve,
    groups: Sequence[Group],
    *,
    spent: Spending,
) -> World:
    """Return the input of a pass. `waiting`: the jobs in lines; claimants come first."""
    everyone = [*capacity.claimants, *waiting]
    return World(
        snapshot=snapshot_of(
            capacity.pools,
            capacity.sharing,
            capacity.active,
            everyone,
            due,
            spent=spent,
            past_use=capacity.configuration.past_use,
            yields=capacity.yields,
            groups=groups,
            nodes=capacity.nodes,
            warm=(slot for holder in capacity.holders.values() for slot in holder.warm),
        ),
        group_decisions=capacity.configuration.group_decisions,
        ledgers={name: holder.ledger for name, holder in capacity.holders.items()},
        undecidable=capacity.undecidable,
        poison=sieve.poison,
    )
