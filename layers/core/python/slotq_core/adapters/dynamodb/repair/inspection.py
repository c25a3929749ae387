"""Everything kept, against itself: for people. A Scan finds what may be wrong, and a closer look at
each says whether it is: what changes meanwhile is not taken for a fault.

Kinds of findings: `unreadable` (an item that cannot be understood), `copy` (of a job: missing, left
over, not as the job is), `held` (slots kept for a job that cannot be understood), `put_aside` (what
quarantine moved away), `line` (a job waits in a line that no pass looks at), `name` (a training job
that leads to no job), `history` (an ended job that never goes, or a living one's record that
would), `ledger` (what a pool's ledger says, against who is there) and `unfinished` (there was not
the time to look at everything).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configured_pools import Configuration, limits_of
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    Item,
    copies_of,
    farewell,
    history_of,
    items_of,
)
from slotq_core.adapters.dynamodb.layout.validation import (
    Sieve,
    bearer,
    is_line,
    key_in,
    key_of,
    poison_of,
    whole_copy,
    whole_job,
    whole_pool,
)
from slotq_core.adapters.dynamodb.repair.quarantine import Quarantine
from slotq_core.adapters.dynamodb.transactions import check, update
from slotq_core.adapters.expiry import expires_at
from slotq_core.errors import Conflict
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.ports import Change, Finding, Poison
from slotq_core.timestamps import iso

_COPIES = (table.ACTIVE_PREFIX, table.CLAIM_PREFIX, table.HELD_PREFIX)


@dataclass(slots=True)
class _Seen:
    """What a Scan brought, in no particular order and not of one moment."""

    jobs: dict[str, Item] = field(default_factory=dict)
    copies: dict[str, dict[table.Key, Item]] = field(default_factory=lambda: defaultdict(dict))
    lines: dict[str, Item] = field(default_factory=dict)
    records: list[Item] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    definitions: list[Item] = field(default_factory=list)
    limits: Item | None = None
    aside: list[Item] = field(default_factory=list)
    count: int = 0

    def take(self, item: Item) -> None:
        self.count += 1
        pk, sk = key_of(item)
        kind, _, name = pk.partition("#")
        match kind:
            case "JOB" if sk == table.JOB:
                self.jobs[name] = item
            case "JOB" | "NAME":
                self.records.append(item)
                self.names.update({name} if kind == "NAME" else ())
            case "POOL":
                self.pools.add(name)
                if sk.startswith(_COPIES):
                    self.copies[bearer((pk, sk))][pk, sk] = item
            case "WAITING" | table.DUE:
                self.copies[bearer((pk, sk))][pk, sk] = item
            case table.LINES:
                self.lines[sk] = item
            case table.POISON:
                self.aside.append(item)
            case table.CONFIG if sk.startswith(table.POOL_PREFIX):
                self.definitions.append(item)
            case table.CONFIG if (pk, sk) == table.limits_key():
                self.limits = item


class Inspection:
    def __init__(
        self, calls: TableCalls, configuration: Configuration, quarantine: Quarantine, history: int
    ) -> None:
        self._calls = calls
        self._configuration = configuration
        self._quarantine = quarantine
        self._keeps = history

    def run(self, *, mend: bool, time_left: Callable[[], int]) -> Iterator[Finding]:
        """Each is judged by what was mended before it: copies by their jobs, ledgers by both.

        Half of the time at most goes into the Scan. What one that was broken off has not shown is
        no fault: whatever seems to be wrong is looked at again on its own before it counts.
        """
        seen, whole = self._scan(time_left)
        for findings in self._judge(seen, whole=whole, mend=mend):
            yield from findings
            if time_left() <= 0:
                whole = False
                break
        if not whole:
            text = f"not all was looked at in the time there is: {seen.count} items were read"
            yield Finding(kind="unfinished", subject="the table", text=text)

    def _scan(self, time_left: Callable[[], int]) -> tuple[_Seen, bool]:
        """What the Scan brought, and whether that is everything."""
        seen, enough = _Seen(), time_left() / 2
        for item in self._calls.scan(expressions.all_but_requests()):
            if time_left() < enough:
                return seen, False
            seen.take(item)
        return seen, True

    def _judge(self, seen: _Seen, *, whole: bool, mend: bool) -> Iterator[Iterable[Finding]]:
        """The findings, in parts that take little time each."""
        yield self._definitions(seen, mend=mend)
        yield self._limits(seen)
        for name in sorted({*seen.jobs, *seen.copies}):
            if _suspicious(name, seen):
                yield self._quarantine.copies.check(name, seen.copies[name], mend=mend)
        yield self._put_aside(seen, mend=mend)
        if whole:  # Else every job would seem to lack what was not shown.
            yield self._lines(seen, mend=mend)
            yield self._names(seen, mend=mend)
        yield self._unmarked(seen, mend=mend)
        yield self._marked(seen, mend=mend)
        for pool in sorted(seen.pools):
            yield self._quarantine.ledgers.check(pool, mend=mend)

    def _definitions(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        for item in seen.definitions:
            if whole_pool(item):
                continue
            name = item["sk"]["S"].removeprefix(table.POOL_PREFIX)
            if mend:
                self._quarantine.take(poison_of(key_of(item), "the definition cannot be read"))
            mended = mend and self._configuration.pool(name) is not None
            text = "its definition cannot be read; the record of the last change may say it"
            yield Finding(kind="unreadable", subject=name, text=text, mended=mended)

    def _limits(self, seen: _Seen) -> Iterator[Finding]:
        """Left to people: nobody else knows what they were."""
        sieve = Sieve()
        sieve.read([seen.limits] if seen.limits else [], limits_of)
        if sieve.poison:
            text = "they cannot be read, so there are none; `slotq limits set` sets them anew"
            yield Finding(kind="unreadable", subject="limits", text=text)

    def _put_aside(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        """Done with once its job is whole again, or the item has been written anew; else it is left
        to people."""
        for item in seen.aside:
            pk, sk = key_in(Poison(key=item["sk"]["S"], reason=""))
            job = bearer((pk, sk))
            whole = whole_job(self._calls.item(table.job_key(job))) is not None
            mended = mend and (whole or self._calls.item((pk, sk)) is not None)
            if mended:
                self._calls.delete(key_of(item))
            text = f"{pk}/{sk} was put aside: {item.get('reason', {}).get('S', '')}"
            yield Finding(kind="put_aside", subject=job, text=text, mended=mended)

    def _lines(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        for line, item in seen.lines.items():
            if "N" not in item.get("touched", {}) or not is_line(line):
                text = "the line, or when it was last touched, cannot be read"
                if mend:
                    self._quarantine.take(poison_of((table.LINES, line), text))
                yield Finding(kind="unreadable", subject=line, text=text, mended=mend)
        for job in self._again(seen):
            line = line_of(job)
            if not job.waits or self._calls.item(table.line_key(line)):
                continue
            if mend:
                touched = max(job.entry_time, job.changed_at)
                self._calls.update(table.line_key(line), expressions.touch_line(touched))
            text = f"it waits in the line {line}, which no pass looks at"
            yield Finding(kind="line", subject=job.name, text=text, mended=mend)

    def _names(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        for job in self._again(seen):
            if job.attempt is None:
                continue
            key = table.name_key(job.attempt.training_job)
            if self._calls.item(key):
                continue
            if mend:
                begun = Change(before=replace(job, attempt=None), after=job)
                with suppress(Conflict):
                    self._calls.put(key, history_of(begun)[key], expressions.is_new())
            text = f"nothing says that the training job {job.attempt.training_job} is its own"
            yield Finding(kind="name", subject=job.name, text=text, mended=mend)

    def _again(self, seen: _Seen) -> Iterator[Job]:
        """Those that seemed to lack a line or a name, as they are now."""
        for name, item in seen.jobs.items():
            job = whole_job(item)
            if job and _lacks(job, seen):
                job = whole_job(self._calls.item(table.job_key(name)))
                if job:
                    yield job

    def _unmarked(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        for name, item in seen.jobs.items():
            job = whole_job(item)
            gone = expires_at(job, self._keeps) if job else None
            if job and gone is not None and table.EXPIRES_AT not in item:
                if mend:
                    self._mark(job, gone)
                text = "it has ended, and nothing says when its records go"
                yield Finding(kind="history", subject=name, text=text, mended=mend)

    def _mark(self, job: Job, gone: int) -> None:
        main = table.job_key(job.name)
        items = farewell(job, gone)
        note = items.keys() - {main}
        for key in note:
            self._calls.put(key, items[key])
        with suppress(Conflict):
            unchanged = expressions.job_unchanged(job.version)
            self._calls.put(main, {**items_of(job)[main], **items[main]}, unchanged)

    def _marked(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        """Records of jobs that live. (Those of a name's last bearer may go.)"""
        for record in [*seen.records, *seen.jobs.values()]:
            if table.EXPIRES_AT not in record:
                continue
            job = self._still_lives(_owner(record), seen)
            if job is None or not _is_of(record, job):
                continue
            if mend:
                self._unmark(record, job)
            text = f"it lives, and its record {'/'.join(key_of(record))} would go"
            yield Finding(kind="history", subject=job.name, text=text, mended=mend)

    def _still_lives(self, name: str, seen: _Seen) -> Job | None:
        """The job, if it lived when it was seen and does so now."""
        before = whole_job(seen.jobs.get(name))
        if before is None or before.terminal:
            return None
        job = whole_job(self._calls.item(table.job_key(name)))
        return job if job and not job.terminal else None

    def _unmark(self, record: Item, job: Job) -> None:
        """Unless the job ends meanwhile: then its records are marked, and stay so."""
        name, main = self._calls.table, table.job_key(job.name)
        unmark = update(name, key_of(record), expressions.unmark(record["entryTime"]))
        unchanged = check(name, main, expressions.job_unchanged(job.version))
        with suppress(Conflict):
            if key_of(record) == main:
                self._calls.put(main, items_of(job)[main], expressions.job_unchanged(job.version))
            else:
                self._calls.transact([unchanged, unmark])


def _is_of(record: Item, job: Job) -> bool:
    return record.get("entryTime") == {"S": iso(job.entry_time)}


def _suspicious(name: str, seen: _Seen) -> bool:
    job, copies = whole_job(seen.jobs.get(name)), seen.copies[name]
    if job is None:
        return True
    if set(copies_of(job)) != copies.keys():
        return True
    return any(whole_copy(item, name) != job for item in copies.values())


def _lacks(job: Job, seen: _Seen) -> bool:
    line = job.waits and line_of(job) not in seen.lines
    return line or (job.attempt is not None and job.attempt.training_job not in seen.names)


def _owner(record: Item) -> str:
    if record["pk"]["S"].startswith("NAME#"):
        return str(record.get("jobName", {}).get("S", ""))
    return str(record["pk"]["S"]).partition("#")[2]
