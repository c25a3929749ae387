"""The lines of one load: the first jobs of those that are read, and stand-ins for the others.

A line with a lower bound is not read until the plan requests it (`Snapshot.unread`). The bound
comes from an earlier pass that has read the line; `layout.lines` explains why it is valid.

Once users matter to the plan, a line with jobs of several users is read whole: its first job may
hide another user's. The pass then moves its jobs into lines of their users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from slotq_core.adapters.dynamodb.layout.lines import StoredLine, is_counted, parsed
from slotq_core.adapters.dynamodb.layout.validation import Sieve
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT, InParallel
from slotq_core.adapters.dynamodb.reading.line_reading import (
    KnownLine,
    KnownLines,
    LineReader,
    Reading,
)
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.lines import line_of
from slotq_core.policy.order import position
from slotq_core.policy.plan import Found, Need
from slotq_core.storage.order_keys import order_key, place_in
from slotq_core.storage.snapshots import FIRST_JOBS, mixes_users, read_at_first, stand_in

MOST_RAISED = 256
"""Maximum number of bounds that one pass raises; the next pass goes on."""

MOST_DISTINGUISHED = 500
"""Maximum number of jobs that one pass moves into lines of their users."""


class WaitingLines:
    def __init__(
        self,
        reader: LineReader,
        known: KnownLines,
        bounds: LineBounds,
        in_parallel: InParallel,
        lines: Iterable[StoredLine],
        *,
        pools: Sequence[Pool],
        claimants: Iterable[Job],
        active: Iterable[Job],
        groups: Mapping[str, Group],
        by_user: bool,
        shares: bool,
        now: int,
    ) -> None:
        """`claimants` and `active`: the jobs that are already known; `groups`: the lines' groups;
        `by_user`: whether the plan distinguishes users; `shares`: whether projects share the pools;
        `now`: when (ms) the load began, before the lines were read."""
        self._reader, self._bounds, self._in_parallel = reader, bounds, in_parallel
        self._known = known
        self._lines = {line.name: line for line in lines}
        claimants = list(claimants)
        self._pools, self._by_user, self._now = pools, by_user, now
        self._groups, self._shares = groups, shares
        self._seen = {job.name for job in (*claimants, *active)}
        self._claimants = Counter(line_of(job) for job in claimants)
        self._readings: dict[str, Reading] = {}
        self.stand_ins: Mapping[str, Job] = {
            line: job
            for number, line in enumerate(self._lines)
            if not self._mixes_users(line) and (job := _stand_in(self._lines[line], number))
        }
        """By line."""
        self.behind = {
            job.name: more
            for line, job in self.stand_ins.items()
            if is_counted(line)
            and self._lines[line].waiting is not None
            and (more := max(0, self._counted(line)) - 1)
        }
        """By stand-in, how many jobs wait in its line behind the first, where they are counted; -1:
        not even the first, so the stand-in asks for no share."""
        self._line_of = {job.name: line for line, job in self.stand_ins.items()}
        self._still: dict[str, KnownLine] = {}
        """What the last load has read, and nothing has changed since."""
        self._at_once = 1

    def read_first(self, sieve: Sieve) -> list[Found]:
        """Read the first jobs of every line without a stand-in; remove lines that have long been
        empty."""
        self._still = self._known.still(
            self._lines.values(), self.stand_ins, self._groups.values(), self._seen
        )
        readings = self._read([line for line in self._lines if line not in self.stand_ins], sieve)
        self._remove_empty(readings)
        return [self._found(reading) for reading in readings]

    def _found(self, reading: Reading) -> Found:
        """The jobs read. Where the line's jobs are counted, the count says how many are behind."""
        found, line = reading.found, reading.line
        if not found.jobs or not is_counted(line) or self._lines[line].waiting is None:
            return found
        counted = max(0, self._counted(line) - len(found.jobs))
        return replace(found, behind=counted if reading.known else max(found.behind, counted))

    def _counted(self, line: str) -> int:
        """The number of jobs that wait in the line without a claim, if they are counted; else 0."""
        if not is_counted(line):
            return 0
        return (self._lines[line].waiting or 0) - self._claimants[line]

    def more(self, need: Need, sieve: Sieve) -> Found:
        """Answer a plan in progress."""
        line = self._line_of.get(need.after.name)
        if line is None:
            line, after = line_of(need.after), order_key(need.after)
            return self._reader.read_on(line, after, need.count, self._seen, sieve)
        self._known.ask(line)
        if line not in self._readings:
            also = () if need.alone or line in self._still else self._asked_next(need.after)
            self._read([line, *also], sieve)
        return self._readings[line].found

    def keep_bounds(self) -> None:
        """Raise the bounds of the lines that were read, if a later load benefits."""
        read = [(self._lines[name], reading) for name, reading in self._readings.items()]
        worth = [
            (line, reading.first)
            for line, reading in read
            if line.broken
            or (not _is_always_read(line) and line.higher_bound(reading.first, self._now))
        ]
        self._in_parallel(
            lambda bound: self._bounds.raise_to(*bound, now=self._now), worth[:MOST_RAISED]
        )
        self._remove_empty(reading for _, reading in read if reading.line in self.stand_ins)

    def _read(self, names: Sequence[str], sieve: Sieve) -> Sequence[Reading]:
        readings = self._reader.first_jobs(
            [self._begun(name, self._needed(name)) for name in names], self._seen, sieve
        )
        for reading in readings:
            if reading.known:
                self._known.keep(reading.line)
            else:
                line = self._lines[reading.line]
                self._known.note(reading, line, self._needed(line.name), self._now)
        self._readings |= {reading.line: reading for reading in readings}
        return readings

    def _needed(self, name: str) -> int | None:
        return read_at_first(
            parsed(name), self._pools, self._groups, by_user=self._by_user, shares=self._shares
        )

    def _begun(self, name: str, needed: int | None) -> Reading:
        """A reading of the line's first jobs, with what is known of them."""
        still = self._still.get(name)
        count = None if needed is None else max(FIRST_JOBS, needed)
        if still is None or (needed is None and not still.ended):
            return Reading(line=name, count=count)
        jobs = [job for job in still.jobs if job.name not in self._seen]
        keys = [item["sk"]["S"] for item in still.items]
        return Reading(
            line=name,
            after=keys[-1] if keys else "",
            first=keys[0] if keys else None,
            count=count if still.ended else needed,
            jobs=jobs,
            ended=still.ended,
            known=True,
        )

    def to_distinguish(self) -> list[Job]:
        """Return jobs of lines that mix users, as far as they were read: some at a time."""
        mixed = (reading for name, reading in self._readings.items() if self._mixes_users(name))
        return [*islice(chain.from_iterable(reading.jobs for reading in mixed), MOST_DISTINGUISHED)]

    def _mixes_users(self, line: str) -> bool:
        return mixes_users(parsed(line), by_user=self._by_user)

    def _asked_next(self, after: Job) -> Iterator[str]:
        """Yield further lines to read in parallel with the requested one: the plan will probably
        request them next. Each time twice as many, because most plans need few."""
        also, self._at_once = self._at_once - 1, min(2 * self._at_once, IN_FLIGHT)
        for line, job in sorted(self.stand_ins.items(), key=lambda pair: position(pair[1])):
            if not also:
                return
            alike = not set(job.pools).isdisjoint(after.pools) and job.demand.within(after.demand)
            if alike and line not in self._readings and position(job) > position(after):
                also -= 1
                yield line

    def _remove_empty(self, readings: Iterable[Reading]) -> None:
        lines = [self._lines[reading.line] for reading in readings if reading.first is None]
        outlived = [line for line in lines if line.outlived(self._now)]
        self._in_parallel(lambda line: self._bounds.remove(line, now=self._now), outlived)


def _is_always_read(line: StoredLine) -> bool:
    """Whether the line's jobs are planned together, or a quota refused them at times of their
    own."""
    shared = parsed(line.name)
    return bool(shared.group or shared.parts or shared.refused_in)


def _stand_in(line: StoredLine, number: int) -> Job | None:
    """Return a stand-in for the line; None if it must be read: also a line without a bound."""
    shared = parsed(line.name)
    if not line.bound or _is_always_read(line):
        return None
    entry_time, name = place_in(line.bound)
    return stand_in(shared, number, entry_time=entry_time, name=name)
