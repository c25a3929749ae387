"""Compare what is stored twice, and repair differences: a job's copies with the job's own item, and
a pool's ledger with the jobs that hold and claim slots there.

The job's item is the truth, and the copies are a function of that item. One transaction,
conditioned on the job's version, repairs wrong copies. If the item itself is unreadable, a readable
copy replaces it: both were written together. If no copy is readable, the broken copy is put aside
unchanged, and its slots stay held under the job's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.held_slots import (
    NOT_COMING,
    Holders,
    disagreement,
    read_holders,
)
from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    NEW_AGE,
    foreign_attribute,
    free_attribute,
    items_of,
    used_attribute,
    write_held,
)
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import Sieve, poison_of, whole_copy, whole_job
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.transactions import (
    Action,
    activity_of,
    check,
    delete,
    put,
    update,
)
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import Finding

TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """The stored items of one job at one moment."""

    name: str
    main: Item | None
    copies: Mapping[table.Key, Item | None]
    """The copies that the job requires, and the copies seen; None: the copy does not exist."""

    @property
    def job(self) -> Job | None:
        return whole_job(self.main)


class Copies:
    def __init__(self, calls: TableCalls, bounds: LineBounds) -> None:
        self._calls = calls
        self._bounds = bounds

    def check(self, name: str, seen: Iterable[table.Key], *, mend: bool) -> list[Finding]:
        """Return the faults of the copies that the job requires and of the copies seen."""
        for _ in range(TRIES):
            look = self._look(name, seen := set(seen))
            if look is None:
                continue
            try:
                if look.job is None:
                    return self._without_truth(look, mend=mend)
                return self._against(look.job, look, mend=mend)
            except Conflict:
                continue
        raise Unavailable(f"{name}: its record is changing; try again")

    def _look(self, name: str, seen: set[table.Key]) -> _Look | None:
        """Read the job and its copies. None if the job changed meanwhile: a copy changes only with
        its job."""
        main = self._calls.item(table.job_key(name))
        keys = {*_wanted(whole_job(main)), *seen}
        copies = {key: self._calls.item(key) for key in sorted(keys)}
        if self._calls.item(table.job_key(name)) != main:
            return None
        return _Look(name=name, main=main, copies=copies)

    def _against(self, job: Job, look: _Look, *, mend: bool) -> list[Finding]:
        wanted = _wanted(job)
        faults = {key: _fault(job, wanted.get(key), item) for key, item in look.copies.items()}
        wrong = {key: fault for key, fault in faults.items() if fault}
        if wrong and mend:
            name = self._calls.table
            unchanged = expressions.job_unchanged(job.version)
            mends = [
                put(name, key, wanted[key]) if key in wanted else delete(name, key) for key in wrong
            ]
            if job.waits and table.waiting_key(job) in wrong:
                self._bounds.returned([line_of(job)])
            checked = check(name, table.job_key(job.name), unchanged)
            self._calls.transact([checked, *mends, *self.noted(wrong, look.main)])
        return [
            Finding(kind="copy", subject=job.name, text=f"{'/'.join(key)} {fault}", mended=mend)
            for key, fault in wrong.items()
        ]

    def _without_truth(self, look: _Look, *, mend: bool) -> list[Finding]:
        """Handle a job whose own item is missing or unreadable."""
        lacks = "cannot be read" if look.main else "is missing"
        whole = [copy for item in look.copies.values() if (copy := whole_copy(item, look.name))]
        if whole:
            if mend:
                self._restore(max(whole, key=lambda copy: copy.version), look.main or {})
            text = f"its JOB item {lacks}; a complete copy exists"
            return [Finding(kind="unreadable", subject=look.name, text=text, mended=mend)]
        there = [(key, item) for key, item in look.copies.items() if item]
        found = [self._broken(look.name, key, item, lacks, mend=mend) for key, item in there]
        if look.main and not found:
            text = "its JOB item cannot be read, and there is no complete copy"
            found.append(Finding(kind="unreadable", subject=look.name, text=text))
        return found

    def _restore(self, job: Job, main: Item) -> None:
        key = table.job_key(job.name)
        unchanged = expressions.as_read(main, "version", "jobState")
        self._calls.put(key, items_of(job)[key], unchanged)

    def _broken(self, name: str, key: table.Key, item: Item, lacks: str, *, mend: bool) -> Finding:
        if key[1].startswith(table.HELD_PREFIX):
            text = (
                f"its JOB item {lacks}; {'/'.join(key)} keeps its slots until the JOB item is "
                "repaired"
            )
            return Finding(kind="held", subject=name, text=text)
        text = f"{'/'.join(key)} cannot be read, and its JOB item {lacks}: the item is set aside"
        if mend:
            self._calls.transact([*self._keep_slots(key, name), *self.aside(key, item, text)])
        return Finding(kind="unreadable", subject=name, text=text, mended=mend)

    def aside(self, key: table.Key, item: Item, reason: str) -> list[Action]:
        """Return the actions that put an item aside for operators, if it has not changed since it
        was read."""
        name, poison = self._calls.table, poison_of(key, reason)
        record: Item = {"item": {"M": item}, "reason": {"S": reason}}
        unchanged = expressions.unchanged(item)
        return [put(name, table.poison_key(poison.key), record), delete(name, key, unchanged)]

    def noted(self, changed: Iterable[table.Key], why: object) -> list[Action]:
        """Return the actions that note, in the ledgers of pools, that items of theirs change.
        `why`: distinguishes this repair from others."""
        keys = [key for key in changed if key[0].startswith(table.POOL_PREFIX)]
        activity = ledger_expressions.note_activity(activity_of([keys, why]))
        pools = sorted({pool for pool, _ in keys})
        return [update(self._calls.table, (pool, table.LEDGER), activity) for pool in pools]

    def _keep_slots(self, key: table.Key, job: str) -> list[Action]:
        """Return the actions that hold, under this job's name, the slots that the ledger counts and
        no other item explains."""
        if not key[1].startswith((table.ANY_ACTIVE, table.CLAIM_PREFIX)):
            return []
        partition = expressions.partition(key[0])
        items = [*self._calls.query(partition)]
        if items != [*self._calls.query(partition)]:
            raise Conflict(f"{key[0]} is changing; try again")
        read = read_holders(items)
        amount = Demand({name: max(0, more) for name, more in read.unexplained.items()})
        unchanged = expressions.as_read(ledger_in(items), "version", "holders")
        held = write_held(amount, read.marks - read.held_marks)
        name, pool = self._calls.table, key[0].removeprefix(table.POOL_PREFIX)
        noted = ledger_expressions.note_activity(activity_of([key, held, items]))
        if key[1].startswith(table.ON_NODE_PREFIX):  # Its node keeps what it holds.
            less = read.marks_on_nodes - read.on_nodes
            noted = ledger_expressions.note_activity(activity_of([key, items]), on_nodes=less)
            return [
                update(name, table.ledger_key(pool), expressions.on_condition(noted, unchanged))
            ]
        return [
            update(name, table.ledger_key(pool), expressions.on_condition(noted, unchanged)),
            put(name, table.held_key(pool, job), held),
        ]


def ledger_in(items: Iterable[Item]) -> Item:
    """Return the ledger among a pool's items; empty if it is missing."""
    return next((item for item in items if item["sk"]["S"] == table.LEDGER), Item())


def _wanted(job: Job | None) -> dict[table.Key, Item]:
    """Return the copies that a job requires."""
    items = items_of(job) if job else {}
    return {key: item for key, item in items.items() if key[1] != table.JOB}


def _fault(job: Job, wanted: Item | None, item: Item | None) -> str:
    """Return the fault of a copy; empty if it is right."""
    if wanted is None:
        return "is left over" if item else ""
    if item is None:
        return "is missing"
    copy = whole_copy(item, job.name)
    return "" if copy == job else "differs from its job" if copy else "cannot be read"


class Ledgers:
    def __init__(self, calls: TableCalls, configuration: DynamoConfiguration) -> None:
        self._calls = calls
        self._configuration = configuration

    def check(self, name: str, *, mend: bool) -> list[Finding]:
        """Check the pool's ledger against its copies, which must be repaired first. If a copy is
        unreadable, the used amount is unknown, and the ledger stays as it is."""
        partition = expressions.partition(table.pool_partition(name))
        for _ in range(TRIES):
            configuration = self._configuration.read_through(Sieve())[0]
            pool = next((pool for pool in configuration.pools if pool.name == name), None)
            items = [*self._calls.query(partition)]
            if items != [*self._calls.query(partition)]:
                continue
            read = read_holders(items)
            wrong = disagreement(read, pool.capacity if pool else None)
            if read.since > configuration.revision:
                now = self._configuration.read()
                if now.changing:  # Who makes the change, or takes it back, sets the ledger.
                    return []
                if now.revision > configuration.revision:
                    continue
                wrong = wrong or NOT_COMING
            mends = mend and not read.unreadable_copies
            if wrong and mends:
                try:
                    self._mend(name, ledger_in(items), read, pool)
                except Conflict:
                    continue
            finding = Finding(kind="ledger", subject=name, text=wrong, mended=mends)
            return [finding] if wrong else []
        raise Unavailable(f"pool {name}: its record is changing; try again")

    def _mend(self, name: str, ledger: Item, read: Holders, pool: Pool | None) -> None:
        version = read.ledger.version + 1 if read.whole else NEW_AGE
        after: Item = {
            "version": {"N": str(version)},
            "holders": {"N": str(read.held_marks)},
            **{used_attribute(n): {"N": str(more)} for n, more in read.held.items()},
            **{foreign_attribute(n): {"N": str(more)} for n, more in read.foreign.items()},
        }
        after |= {name: ledger[name] for name in ("activity", "facts") if name in ledger}
        if read.marks_on_nodes or "onNodes" in ledger:
            after["onNodes"] = {"N": str(read.marks_on_nodes)}
        if pool is not None:
            free = pool.capacity - read.held - read.foreign
            for resource in sorted({"slots", *pool.capacity, *free}):
                after[free_attribute(resource)] = {"N": str(free[resource])}
        unchanged = expressions.as_read(ledger, "version", "holders")
        self._calls.put(table.ledger_key(name), after, unchanged)
