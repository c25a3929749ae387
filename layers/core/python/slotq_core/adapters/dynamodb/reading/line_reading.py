"""Read the jobs that wait in lines, and count those ahead of one for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.lines import GRACE, StoredLine, is_counted, line_in, parsed
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import Sieve, copy_of, is_own, job_in, key_of
from slotq_core.adapters.dynamodb.line_bounds import KEPT_FOR as TOUCH_KEPT
from slotq_core.adapters.dynamodb.reading.in_parallel import InParallel
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import Line, line_of
from slotq_core.policy.order import Precedence, rank
from slotq_core.policy.plan import Found
from slotq_core.ports.stored import MOST_AHEAD, Ahead
from slotq_core.storage.order_keys import first_key, key_after, order_key
from slotq_core.storage.snapshots import FIRST_JOBS


@dataclass(kw_only=True, slots=True)
class Reading:
    """The jobs of one line behind some place, as far as they have been read.

    Skips unreadable jobs, and jobs that were seen elsewhere: claimants, and jobs that held slots
    when the pools were read.
    """

    line: str
    after: str = ""
    """The order key of the last item read; empty: the line is read from its beginning."""
    first: str | None = None
    """The sort key of the first item found, whatever the item is."""
    count: int | None
    """How many jobs are wanted; None: all."""
    jobs: list[Job] = field(default_factory=list)
    ended: bool = False
    """Whether the end of the line was reached."""
    known: bool = False
    """Whether an earlier load has read these jobs, and their items have not changed. Then nothing
    is known of further ones; otherwise one more is read, to know whether there is one."""
    items: list[Item] = field(default_factory=list)
    """All items read, if all are readable: one for each of `every`."""
    every: list[Job] = field(default_factory=list)
    """The jobs in these items, whether seen elsewhere or not."""

    @property
    def limit(self) -> int | None:
        """How many items to read next; 0: enough jobs are known."""
        if self.ended:
            return 0
        return (
            None if self.count is None else max(0, self.count + (not self.known) - len(self.jobs))
        )

    def take(self, items: list[Item], seen: set[str], sieve: Sieve) -> None:
        """Take in the next items, as many as `limit` allowed."""
        limit = self.limit
        if items and self.first is None:
            self.first = items[0]["sk"]["S"]
        self.ended = limit is None or len(items) < limit
        jobs = sieve.read(items, copy_of)
        self.items, self.every = [*self.items, *items], [*self.every, *jobs]
        self.jobs += [job for job in jobs if job.name not in seen]
        self.after = items[-1]["sk"]["S"] if items else self.after

    def leave_out(self, seen: set[str]) -> None:
        """Leave out what was seen in another line since; more may then have to be read."""
        self.jobs = [job for job in self.jobs if job.name not in seen]

    @property
    def found(self) -> Found:
        """The wanted jobs; `behind` is 0 or 1, and 1 where it is not known."""
        wanted = self.jobs[: self.count]
        behind = len(self.jobs) - len(wanted)
        return Found(jobs=tuple(wanted), behind=behind or int(self.known and not self.ended))


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownLine:
    """The first items of a line, as a load has read them."""

    line: StoredLine
    """As read before them."""
    at: int
    """When (ms) the load began."""
    items: Sequence[Item]
    jobs: Sequence[Job]
    ended: bool
    """Whether the line ended with them."""
    enough: bool
    """Whether a plan needs no more to begin."""

    def as_of(self, line: StoredLine, *, complete: bool) -> KnownLine | None:
        """Return this as far as no job can have come since, among these items or behind them; None:
        the line must be read. `line`: as read just now. `complete`: whether all jobs that can ever
        be submitted to the line were stored before.

        A job comes by a return, which the line's item announces (`layout.lines`), or by a
        submission, with an order key not far from the present.
        """
        lately = line.returned is not None and line.returned >= self.at - GRACE
        if line.broken or lately or line.returned != self.line.returned:
            return None
        if complete or self._none_is_coming(line):
            return self
        latest = first_key(parsed(line.name).rank, self.at - GRACE)
        if self.enough and self.items and self.items[-1]["sk"]["S"] < latest:
            return replace(self, ended=False)
        return None

    def _none_is_coming(self, line: StoredLine) -> bool:
        """Whether the last submission came long before these items were read. Each to a counted
        line touches the line; to another line, it may rely on a touch of `TOUCH_KEPT` before."""
        since = self.at - GRACE - (0 if is_counted(line.name) else TOUCH_KEPT)
        return line.touched == self.line.touched and (line.touched or since) < since


class KnownLines:
    """The first jobs of lines, as the last load has read them. The next load reads only their
    items, a hundred a call: of the lines that each load reads, and of those that the last plan has
    asked for, because the next one will probably ask for them."""

    def __init__(self, calls: TableCalls, in_parallel: InParallel) -> None:
        self._calls, self._in_parallel = calls, in_parallel
        self._last: dict[str, KnownLine] = {}
        self._next: dict[str, KnownLine] = {}
        self._asked: set[str] = set()

    def still(
        self,
        lines: Iterable[StoredLine],
        unread: Container[str],
        groups: Iterable[Group],
        seen: AbstractSet[str],
    ) -> dict[str, KnownLine]:
        """Begin a load with these lines. Return what has stayed the same of them. `unread`: the
        lines that have a stand-in; `groups`: those of the lines; `seen`: the jobs that hold or
        claim slots."""
        self._last, self._next = self._next, {}
        asked, self._asked = self._asked, set()
        lines = [line for line in lines if line.name in asked or line.name not in unread]
        complete = self._complete(groups, seen)
        known = {
            line.name: still
            for line in lines
            if (last := self._last.get(line.name))
            and (still := last.as_of(line, complete=parsed(line.name).group in complete))
        }
        keys = [key_of(item) for last in known.values() for item in last.items]
        found = self._calls.items_at_once(keys, self._in_parallel)
        return {
            name: still
            for name, still in known.items()
            if all(found.get(key_of(item)) == item for item in still.items)
        }

    def _complete(self, groups: Iterable[Group], seen: AbstractSet[str]) -> set[str]:
        """Return the gangs of which all members have been seen. No job has their names again, and
        no other job joins a gang."""
        known = defaultdict[str, set[str]](set)
        for last in self._last.values():
            for job in last.jobs:
                known[job.group].add(job.name)
        return {
            group.name
            for group in groups
            if group.max_parallel is None and (known[group.name] | seen).issuperset(group.members)
        }

    def ask(self, name: str) -> None:
        """Note that a plan has asked for this line."""
        self._asked.add(name)

    def keep(self, name: str) -> None:
        """Keep what has stayed the same for the next load."""
        self._next[name] = self._last[name]

    def note(self, reading: Reading, line: StoredLine, needed: int | None, now: int) -> None:
        """Keep the first jobs of a line for the next load: as many as a plan needs to begin. Where
        these are many, reading them one by one would cost more than reading the line."""
        if len(reading.every) != len(reading.items):
            return
        count = len(reading.items)
        if enough := needed is not None and len(reading.jobs) >= needed:
            names = {job.name for job in reading.jobs[:needed]}
            count = 1 + max(n for n, job in enumerate(reading.every) if job.name in names)
        if count <= FIRST_JOBS:
            self._next[line.name] = KnownLine(
                line=line,
                at=now,
                items=reading.items[:count],
                jobs=reading.every[:count],
                ended=reading.ended and count == len(reading.items),
                enough=enough,
            )


class LineReader:
    def __init__(self, calls: TableCalls, in_parallel: InParallel) -> None:
        self._calls = calls
        self._in_parallel = in_parallel

    def first_jobs(
        self, readings: Sequence[Reading], seen: set[str], sieve: Sieve
    ) -> Sequence[Reading]:
        """Read the first jobs of each line, many lines at once; add them to `seen`."""
        while unfinished := [reading for reading in readings if reading.limit != 0]:
            pages = self._in_parallel(self._next_items, unfinished)
            for reading, items in zip(unfinished, pages, strict=True):
                reading.take(items, seen, sieve)
        for reading in readings:
            reading.leave_out(seen)
            self._finish(reading, seen, sieve)
        return readings

    def read_on(
        self, line: str, after: str, count: int | None, seen: set[str], sieve: Sieve
    ) -> Found:
        """Return the next jobs of a line behind the order key `after`; add them to `seen`."""
        reading = Reading(line=line, after=after, count=count)
        self._finish(reading, seen, sieve)
        return reading.found

    def all_jobs(self, lines: Sequence[str], sieve: Sieve) -> list[Job]:
        """Return all readable jobs of the lines, many lines at once. Other versions' lines count
        too: a reader cannot wait for the pass that moves their jobs."""
        read = self._in_parallel(lambda line: [*self._items(line)], lines)
        return [
            job
            for line, items in zip(lines, read, strict=True)
            for job in sieve.read(items, copy_of if is_own(line) else job_in)
        ]

    def _finish(self, reading: Reading, seen: set[str], sieve: Sieve) -> None:
        while reading.limit != 0:
            reading.take(self._next_items(reading), seen, sieve)
        seen.update(job.name for job in reading.found.jobs)

    def _next_items(self, reading: Reading) -> list[Item]:
        return [*self._items(reading.line, reading.after, reading.limit)]

    def _items(self, line: str, after: str = "", limit: int | None = None) -> Iterator[Item]:
        """Return the items of a line behind the order key `after`."""
        partition = table.waiting_partition(line)
        behind = expressions.partition_after(partition, after)
        return self._calls.query(behind if after else expressions.partition(partition), limit=limit)


def lines_in(items: Iterable[Item], sieve: Sieve, now: int) -> list[StoredLine]:
    """Return the lines in their items, read at `now` (ms)."""
    return LineItems().lines_in(items, sieve, now)


class LineItems:
    """Reads the items of lines. One that has not changed since the last time is not read again."""

    def __init__(self) -> None:
        self._at = 0
        self._last: dict[str, tuple[Item, StoredLine]] = {}

    def lines_in(self, items: Iterable[Item], sieve: Sieve, now: int) -> list[StoredLine]:
        """Return the lines in their items, read at `now` (ms)."""
        last = self._last if now >= self._at else {}
        self._at, self._last = now, {}

        def line_of_item(item: Item) -> StoredLine:
            before, line = last.get(item["sk"]["S"], (None, None))
            # Whether a time lies too far ahead depends on `now`, and is only ever forgiven later.
            if line is None or line.broken or before != item:
                line = line_in(item, now)
            self._last[line.name] = item, line
            return line

        lines = sieve.read(items, line_of_item)
        for line in lines:
            if line.touched is None:
                sieve.note(table.line_key(line.name), "the time of its last touch cannot be read")
        return lines


LINES_COUNTED = 50
"""Maximum number of lines that are counted, each by one call."""

AT_ONCE = 8
"""How many lines are counted at once. Each may count up to the maximum, so more would cost more
read units where much waits."""


class Places:
    def __init__(self, calls: TableCalls, in_parallel: InParallel) -> None:
        self._calls = calls
        self._in_parallel = in_parallel

    def ahead_of(self, job: Job, lines: Iterable[StoredLine], by: Precedence) -> Ahead:
        """Count the jobs ahead. `lines`: all lines."""
        found = 0
        ahead = _may_hold_jobs_ahead(job, lines, by)
        own, others = ahead[:1], ahead[1:LINES_COUNTED]
        for some in (own, *(others[at : at + AT_ONCE] for at in range(0, len(others), AT_ONCE))):
            found += sum(self._counted(some, MOST_AHEAD + 1 - found))
            if found > MOST_AHEAD:
                return Ahead(jobs=MOST_AHEAD + 1, or_more=True)
        return Ahead(jobs=found, or_more=len(ahead) > LINES_COUNTED)

    def _counted(self, lines: Sequence[tuple[str, str]], limit: int) -> list[int]:
        """Return how many jobs each line has before its key, at most `limit`."""
        return self._in_parallel(
            lambda line: self._calls.count(
                expressions.partition_before(table.waiting_partition(line[0]), line[1]), limit=limit
            ),
            lines,
        )


def _may_hold_jobs_ahead(
    job: Job, lines: Iterable[StoredLine], by: Precedence
) -> list[tuple[str, str]]:
    """Return the lines with a pool of the job's that may hold jobs ahead of it, each with the order
    key before which these are: its own, where most are, then the others from the highest rank on.

    A line of a lower rank holds none, and neither does one whose lower bound is behind the job.
    """
    own, found = line_of(job), {}
    for line in lines:
        parsed = Line.parse(line.name)
        if parsed.rank >= rank(job) and set(job.pools) & set(parsed.pools):
            key = order_key(job) if line.name == own else key_after(job, parsed, by)
            if line.bound < key:
                found[line.name] = parsed.rank, key
    in_order = sorted(found, key=lambda name: (name != own, *(-n for n in found[name][0]), name))
    return [(name, found[name][1]) for name in in_order]
