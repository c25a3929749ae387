"""Read what a pass needs: pools, then the jobs that hold them, then the first jobs of each line.

The plan asks for more of a line when it needs more.

A commit catches whatever changes between two of these reads: it is conditioned on the ledgers,
which are read first, and on the version of each job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configured_pools import Configuration
from slotq_core.adapters.dynamodb.held_slots import Holders, occupied, read_holders
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import Item
from slotq_core.adapters.dynamodb.layout.validation import Sieve, copy_of, is_line, is_own, job_in
from slotq_core.adapters.dynamodb.repair.old_lines import OtherLines
from slotq_core.adapters.snapshots import MAX_DUE, due_part, read_at_first, snapshot_of
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.lines import line_of
from slotq_core.policy.order import order_key
from slotq_core.policy.plan import Found, Need
from slotq_core.ports.stored import Poison, World

LINE_KEPT = 3_600_000
"""How long (ms) an empty line is kept after its last touch: far longer than any submission takes
from the touch to its commit."""

_PAUSES = (0.0, 0.0, 0.02, 0.05, 0.1, 0.2)
"""Pauses (s) before each read of a pool that does not add up. In total, far longer than DynamoDB
takes to show a committed transaction whole."""


class WorldLoader:
    def __init__(
        self, calls: TableCalls, configuration: Configuration, pause: Callable[[float], None]
    ) -> None:
        """Set up the loader. `pause` waits for a number of seconds."""
        self._calls = calls
        self._configuration = configuration
        self._others = OtherLines(calls)
        self._pause = pause
        self._late: tuple[Poison, ...] = ()
        """What a plan in progress could not read, for the next load."""

    def load(self, now: int) -> World:
        sieve, self._late, late = Sieve(), (), self._late
        sieve.add(late)
        pools, holders = self._pools(sieve)
        active, claimants = _active(holders), _claimants(holders)
        seen = {job.name for job in (*active, *claimants)}
        first: list[Job] = []
        behind: dict[str, int] = {}
        for line, touched in self._own_lines(sieve, now).items():
            count = read_at_first(line, pools)
            found, empty = self._read_on(line, "", count, seen, sieve)
            first += found.jobs
            if found.behind:
                behind[found.jobs[-1].name] = found.behind
            if empty:
                self._remove(line, touched, now)
        due = due_part(self._due(MAX_DUE, sieve), now)
        world = _world(pools, holders, [*claimants, *first], due, sieve)

        def more(need: Need) -> Found:
            line, after = line_of(need.after), order_key(need.after)
            reading = Sieve()
            found, _ = self._read_on(line, after, need.count, seen, reading)
            self._late += reading.poison
            return found

        return replace(world, snapshot=replace(world.snapshot, behind=behind), more=more)

    def load_all(self, now: int) -> World:
        sieve = Sieve()
        pools, holders = self._pools(sieve)
        lines = [line for line, _ in self._lines(sieve)]
        waiting = [job for line in lines for job in self._all_waiting(line, sieve)]
        due = self._due(None, sieve)
        return _world(pools, holders, [*_claimants(holders), *waiting], due, sieve)

    def lines(self) -> list[str]:
        """Return every line of this version that may have jobs."""
        return [line for line, _ in self._lines(Sieve()) if is_own(line)]

    def _own_lines(self, sieve: Sieve, now: int) -> dict[str, int | None]:
        """Return this version's lines, after moving the jobs of other versions' lines into them."""
        lines = self._lines(sieve)
        others = [each for each in lines if not is_own(each[0])]
        if others:
            self._others.put_back(now=now)
        for line, touched in others:
            if not self._others.move_to_own_lines(line, sieve, now=now):
                self._remove(line, touched, now)
        if others:
            lines = self._lines(sieve)
        return {line: touched for line, touched in lines if is_own(line)}

    def _lines(self, sieve: Sieve) -> list[tuple[str, int | None]]:
        """Return each line with the time (ms) of its last touch. None: the time cannot be read; the
        line is kept, because jobs may wait there."""
        items = self._calls.query(expressions.partition(table.LINES))
        lines = sieve.read(items, _line)
        for line, touched in lines:
            if touched is None:
                sieve.note(table.line_key(line), "the time of its last touch cannot be read")
        return lines

    def _pools(self, sieve: Sieve) -> tuple[tuple[Pool, ...], dict[str, Holders]]:
        configured, holders = self._configuration.pools_through(sieve), {}
        pools = []
        for pool in configured:
            read, foreign, poison = self._holders(pool)
            sieve.add(poison)
            holders[pool.name] = read
            pools.append(replace(pool, foreign=foreign, health=read.health))
        return tuple(pools), holders

    def _holders(self, pool: Pool) -> tuple[Holders, Demand, tuple[Poison, ...]]:
        """Read who holds a pool's slots. Items that do not add up may be a half-visible
        transaction.

        Such items are read again, a little later each time. They are believed once they have stayed
        the same. Raises Unavailable if they keep changing.
        """
        seen: list[list[Item]] = []
        partition = expressions.partition(table.pool_partition(pool.name))
        for pause in _PAUSES:
            if pause:
                self._pause(pause)
            seen.append([*self._calls.query(partition)])
            read = read_holders(seen[-1])
            if read.adds_up and read.offers(pool.capacity) and not read.poison:
                return read, read.foreign + read.kept, ()
            if read.poison and seen[-1] in seen[:-1]:
                return self._settled(read, pool)
        if all(each == seen[0] for each in seen):
            return self._settled(read, pool)
        raise Unavailable(f"pool {pool.name}: its ledger and its active jobs do not agree")

    def _settled(self, read: Holders, pool: Pool) -> tuple[Holders, Demand, tuple[Poison, ...]]:
        if read.adds_up and not read.offers(pool.capacity):
            now = self._configuration.pool(pool.name)
            if now is None or now.capacity != pool.capacity:  # Changed after the pools were read.
                return read, read.foreign + read.kept, read.poison
        return read, *occupied(read, pool)

    def _read_on(
        self, line: str, after: str, count: int | None, seen: set[str], sieve: Sieve
    ) -> tuple[Found, bool]:
        """Return the next jobs of a line behind the order key `after`, and whether it has no items
        there. `behind` of the answer is 0 or 1.

        Unreadable jobs are passed over, and so are `seen` ones: claimants and jobs that held slots
        when the pools were read. `count`: how many; None: all. Adds them to `seen`.
        """
        jobs: list[Job] = []
        empty = True
        while count is None or len(jobs) <= count:
            limit = None if count is None else count + 1 - len(jobs)
            items = [*self._waiting(line, after, limit)]
            empty = empty and not items
            jobs += [job for job in sieve.read(items, copy_of) if job.name not in seen]
            if limit is None or len(items) < limit:
                break
            after = items[-1]["sk"]["S"]
        found = jobs[:count]
        seen.update(job.name for job in found)
        return Found(jobs=tuple(found), behind=len(jobs) - len(found)), empty

    def _waiting(self, line: str, after: str = "", limit: int | None = None) -> Iterator[Item]:
        """Return the items of a line behind the order key `after`."""
        partition = table.waiting_partition(line)
        behind = expressions.partition_after(partition, after)
        return self._calls.query(behind if after else expressions.partition(partition), limit=limit)

    def _all_waiting(self, line: str, sieve: Sieve) -> list[Job]:
        """Return all readable jobs of a line, also of another version's line: a reader cannot wait
        for the pass that moves them."""
        if is_own(line):
            return sieve.read(self._waiting(line), copy_of)
        return sieve.read(self._waiting(line), job_in)

    def _due(self, limit: int | None, sieve: Sieve) -> list[Job]:
        """Return back-offs, the earliest first."""
        expression = expressions.partition(table.DUE)
        return sieve.read(self._calls.query(expression, limit=limit), copy_of)

    def _remove(self, line: str, touched: int | None, now: int) -> None:
        """Remove an empty line that nobody has touched for LINE_KEPT.

        A line whose last touch is not known, or was mended to 0, stays: a submission may rely on it
        (`touched_lines`).
        """
        if not touched or touched >= now - LINE_KEPT:
            return
        with suppress(Conflict):  # A submission has touched the line since: keep the line.
            self._calls.delete(table.line_key(line), expressions.line_untouched(touched))


def _line(item: Item) -> tuple[str, int | None]:
    line, touched = item["sk"]["S"], item.get("touched", {})
    if not is_line(line):
        raise ValueError("it names no line")
    return line, int(touched["N"]) if "N" in touched else None


def _active(holders: Mapping[str, Holders]) -> list[Job]:
    return [job for each in holders.values() for job in each.active]


def _claimants(holders: Mapping[str, Holders]) -> list[Job]:
    return [job for each in holders.values() for job in each.claimants]


def _world(
    pools: tuple[Pool, ...],
    holders: Mapping[str, Holders],
    waiting: Iterable[Job],
    due: Iterable[Job],
    sieve: Sieve,
) -> World:
    return World(
        snapshot=snapshot_of(pools, _active(holders), waiting, due),
        ledgers={name: each.ledger for name, each in holders.items()},
        poison=sieve.poison,
    )
