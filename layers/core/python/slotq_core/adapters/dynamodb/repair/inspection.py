"""Check everything stored for consistency, for people. A scan finds suspects, and a closer look at
each decides: concurrent changes are not taken for faults.

Kinds of findings:

- `unreadable`: an item cannot be understood
- `copy`: a job's copy is missing, left over, or different from the job
- `held`: slots are kept for a job that cannot be understood
- `put_aside`: an item that quarantine moved away
- `line`: a job waits where no pass looks: in a line that is missing, or below its line's bound
- `after`: a job waits for the end of another, and this end would not reach it
- `name`: a training job leads to no job
- `unmarked_decision`: a decision about a group that no pass would find
- `history`: an ended job never expires, or a living job's record would
- `ledger`: a pool's ledger disagrees with its holders
- `node`: a node disagrees with its slot or its jobs, or is missing for a job that runs on it
- `restore`: the record of the last restore says nothing that can be
- `unfinished`: there was no time to look at everything
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration, limits_of
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.changed_items import farewell, history_of
from slotq_core.adapters.dynamodb.layout.items import copies_of, items_of, restore_of
from slotq_core.adapters.dynamodb.layout.lines import has_touch
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import (
    Sieve,
    bearer,
    is_line,
    key_in,
    key_of,
    node_at,
    poison_of,
    whole_copy,
    whole_job,
    whole_pool,
)
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.repair.awaited_jobs import AwaitedJobs
from slotq_core.adapters.dynamodb.repair.conditions import Conditions
from slotq_core.adapters.dynamodb.repair.line_audit import LineAudit
from slotq_core.adapters.dynamodb.repair.quarantine import READERS, Quarantine
from slotq_core.adapters.dynamodb.transactions import check, update
from slotq_core.errors import Conflict
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import Change, Finding, Poison
from slotq_core.storage.ends import expires_at
from slotq_core.timestamps import FAR_OFF, iso

_COPIES = (table.ANY_ACTIVE, table.CLAIM_PREFIX, table.HELD_PREFIX, table.AFTER_PREFIX)


@dataclass(slots=True)
class _Seen:
    """The items of a scan, in no particular order and from different moments."""

    jobs: dict[str, Item] = field(default_factory=dict)
    copies: dict[str, dict[table.Key, Item]] = field(default_factory=lambda: defaultdict(dict))
    lines: dict[str, Item] = field(default_factory=dict)
    records: list[Item] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    definitions: list[Item] = field(default_factory=list)
    limits: Item | None = None
    tasks: list[Item] = field(default_factory=list)
    nodes: set[tuple[str, str]] = field(default_factory=set)
    aside: list[Item] = field(default_factory=list)
    count: int = 0

    def take(self, item: Item) -> None:
        self.count += 1
        if (node := node_at(key_of(item))) is not None:
            self.nodes.add(node)
        else:
            self._take(item)

    def _take(self, item: Item) -> None:
        pk, sk = key_of(item)
        kind, _, name = pk.partition("#")
        if kind in {"WAITING", table.DUE} or sk.startswith(_COPIES):
            self.copies[bearer((pk, sk))][pk, sk] = item
        if pk in READERS:
            self.tasks.append(item)
        match kind:
            case "JOB" if sk == table.JOB:
                self.jobs[name] = item
            case "JOB" | "NAME" if not sk.startswith(table.AFTER_PREFIX):
                self.records.append(item)
                self.names.update({name} if kind == "NAME" else ())
            case "POOL":
                self.pools.add(name)
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
        self,
        calls: TableCalls,
        configuration: DynamoConfiguration,
        quarantine: Quarantine,
        bounds: LineBounds,
        *,
        history: int,
        clock: Callable[[], int],
    ) -> None:
        self._calls = calls
        self._bounds = bounds
        self._audit = LineAudit(calls, bounds)
        self._awaited = AwaitedJobs(calls, history)
        self._conditions = Conditions(calls, configuration, quarantine, clock)
        self._configuration = configuration
        self._quarantine = quarantine
        self._keeps, self._clock = history, clock

    def run(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterator[Finding]:
        """Yield the findings. Each check builds on the repairs before it: copies are judged by
        their jobs, ledgers by both.

        The scan takes at most half of the time. An item that an interrupted scan has not shown is
        no fault: every suspect is read again on its own before it counts.
        """
        seen, whole = self._scan(time_left)
        for findings in self._judge(seen, whole=whole, mend=mend):
            yield from findings
            if time_left() <= 0:
                whole = False
                break
        if not whole:
            text = f"time ran out before the whole table was read; {seen.count} items were examined"
            yield Finding(kind="unfinished", subject="the table", text=text)

    def _scan(self, time_left: Callable[[], int]) -> tuple[_Seen, bool]:
        """Return the items of the scan, and whether the scan is complete."""
        seen, enough = _Seen(), time_left() / 2
        for item in self._calls.scan(expressions.all_but_requests()):
            if time_left() < enough:
                return seen, False
            seen.take(item)
        return seen, True

    def _judge(self, seen: _Seen, *, whole: bool, mend: bool) -> Iterator[Iterable[Finding]]:
        """Yield the findings in parts that take little time each."""
        yield self._conditions.check(seen.tasks, mend=mend)
        yield self._definitions(seen, mend=mend)
        yield self._limits(seen)
        yield self._restore()
        for name in sorted({*seen.jobs, *seen.copies}):
            if _suspicious(name, seen):
                yield self._quarantine.copies.check(name, seen.copies[name], mend=mend)
        yield self._put_aside(seen, mend=mend)
        if whole:  # After part of a scan, every job would seem to lack items.
            yield self._lines(seen, mend=mend)
            yield self._names(seen, mend=mend)
            yield self._after(seen, mend=mend)
        yield self._groups(seen)
        for node in sorted(seen.nodes):
            yield self._quarantine.nodes.check(*node, mend=mend)
        yield self._without_node(seen)
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
            mended = mend and self._configuration.definition(name) is not None
            text = "its definition cannot be read; `slotq pools history` may show the last one"
            yield Finding(kind="unreadable", subject=name, text=text, mended=mended)

    def _limits(self, seen: _Seen) -> Iterator[Finding]:
        """Yield a finding if the limits are unreadable. Only an operator can set them again."""
        sieve = Sieve()
        sieve.read([seen.limits] if seen.limits else [], limits_of)
        if sieve.poison:
            text = (
                "the limits cannot be read, so none apply; set them again with `slotq limits set`"
            )
            yield Finding(kind="unreadable", subject="limits", text=text)

    def _restore(self) -> Iterator[Finding]:
        """Yield a finding if the record of the last restore is unreadable or from the future. Only
        an operator knows the right times."""
        sieve, item = Sieve(), self._calls.item(table.restored_key())
        read = sieve.read([item] if item else [], restore_of)
        late = any(copy.restored_at > self._clock() + FAR_OFF for copy in read)
        if sieve.poison or late:
            wrong = "lie in the future" if late else "cannot be read"
            text = (
                f"the moments of the last copy and restore {wrong}, so a job that was stopped in "
                f"between ends `stopped`: correct the item {'/'.join(table.restored_key())}"
            )
            yield Finding(kind="restore", subject="the table", text=text)

    def _put_aside(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        """Yield the items that were put aside. `mend` deletes the record of an item once its job is
        readable again or the item was written again. Otherwise the record is left to an
        operator."""
        for item in seen.aside:
            pk, sk = key_in(Poison(key=item["sk"]["S"], reason=""))
            job = bearer((pk, sk))
            whole = whole_job(self._calls.item(table.job_key(job))) is not None
            mended = mend and (whole or self._calls.item((pk, sk)) is not None)
            if mended:
                self._calls.delete(key_of(item))
            text = f"{pk}/{sk} was set aside: {item.get('reason', {}).get('S', '')}"
            yield Finding(kind="put_aside", subject=job, text=text, mended=mended)

    def _lines(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        first = dict(
            sorted((key for copies in seen.copies.values() for key in copies), reverse=True)
        )
        for line, item in seen.lines.items():
            if not is_line(line) or not has_touch(item):
                text = "the line, or the time of its last touch, cannot be read"
                if mend:
                    self._quarantine.take(poison_of((table.LINES, line), text))
                yield Finding(kind="unreadable", subject=line, text=text, mended=mend)
            bound, partition = item.get("bound", {}).get("S", ""), table.waiting_partition(line)
            if first.get(partition, bound) < bound:  # A suspect; a closer look decides.
                yield from self._audit.hidden(line, bound, mend=mend)
        for job in self._again(seen):
            line = line_of(job)
            if not job.waits or self._calls.item(table.line_key(line)):
                continue
            if mend:
                self._bounds.returned([line])
            text = f"it waits in line {line}, which no pass reads"
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
            text = f"no record links training job {job.attempt.training_job} to it"
            yield Finding(kind="name", subject=job.name, text=text, mended=mend)

    def _after(self, seen: _Seen, *, mend: bool) -> Iterator[Finding]:
        for name, item in seen.jobs.items():
            job = whole_job(item)
            if job is not None and job.awaited:
                yield from self._awaited.check(name, mend=mend)

    def _groups(self, seen: _Seen) -> Iterator[Finding]:
        """Yield the groups without a record, and without a submission that would store it."""
        living: dict[str, str] = {}
        for name, item in seen.jobs.items():
            job = whole_job(item)
            if job is not None and job.group and not job.terminal:
                living.setdefault(job.group, name)
        for group, name in living.items():
            if any(map(self._calls.item, (table.group_key(group), table.opening_key(group)))):
                continue
            job = whole_job(self._calls.item(table.job_key(name)))
            if job is not None and not job.terminal:
                text = f"it has no record, so that {name} does not start: cancel its jobs"
                yield Finding(kind="group", subject=group, text=text)

    def _without_node(self, seen: _Seen) -> Iterator[Finding]:
        """Yield the jobs on nodes that do not exist. People decide what became of them."""
        for item in seen.jobs.values():
            before = whole_job(item)
            if before is None or _node_of(before) in {None, *seen.nodes}:
                continue
            job = whole_job(self._calls.item(table.job_key(before.name)))
            node = _node_of(job) if job else None
            if job and node and not self._calls.item(table.node_key(*node)):
                text = (
                    f"it runs on node {node[1]} of pool {node[0]}, which does not exist: cancel it"
                )
                yield Finding(kind="node", subject=job.name, text=text)

    def _again(self, seen: _Seen) -> Iterator[Job]:
        """Yield the jobs that seemed to lack a line or a name, as they are now."""
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
                text = "it has ended, but its records have no expiry time"
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
        """Yield records of living jobs that are marked to expire. Records of the name's earlier job
        may expire."""
        for record in [*seen.records, *seen.jobs.values()]:
            if table.EXPIRES_AT not in record:
                continue
            job = self._still_lives(_owner(record), seen)
            if job is None or not _is_of(record, job):
                continue
            if mend:
                self._unmark(record, job)
            text = f"it has not ended, but its record {'/'.join(key_of(record))} would expire"
            yield Finding(kind="history", subject=job.name, text=text, mended=mend)

    def _still_lives(self, name: str, seen: _Seen) -> Job | None:
        """Return the job, if it lived during the scan and still lives."""
        before = whole_job(seen.jobs.get(name))
        if before is None or before.terminal:
            return None
        job = whole_job(self._calls.item(table.job_key(name)))
        return job if job and not job.terminal else None

    def _unmark(self, record: Item, job: Job) -> None:
        """Remove the mark, unless the job ends meanwhile: its records then stay marked."""
        name, main = self._calls.table, table.job_key(job.name)
        unmark = update(name, key_of(record), expressions.unmark(record["entryTime"]))
        unchanged = check(name, main, expressions.job_unchanged(job.version))
        with suppress(Conflict):
            if key_of(record) == main:
                self._calls.put(main, items_of(job)[main], expressions.job_unchanged(job.version))
            else:
                self._calls.transact([unchanged, unmark])


def _node_of(job: Job) -> tuple[str, str] | None:
    attempt = job.attempt
    return (attempt.pool, attempt.node) if attempt is not None and attempt.node else None


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
