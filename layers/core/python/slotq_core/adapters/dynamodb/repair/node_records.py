"""Compare a node with its slot, its name and its jobs, and repair differences.

Each job's own item is the truth about the room on a node: a node names an attempt only while that
attempt is live there. What a job holds whose item cannot be read stays taken until the node ends.

A node is stored twice: in its own item, and as it started beside its slot. If one of the two is
missing or unreadable, the other replaces it. A node that was restored drains: its jobs go on, none
comes, and it ends as any other. So no slot comes free under a training job that may still run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    NEW_AGE,
    PERSON,
    demand_of,
    job_attribute,
    marks_in,
    node_in_slot,
    node_mark,
    room_attributes,
    write_node_name,
    write_node_slot,
)
from slotq_core.adapters.dynamodb.layout.records import Item, read, whole, write
from slotq_core.adapters.dynamodb.layout.records import text as text_of
from slotq_core.adapters.dynamodb.layout.validation import (
    UNREADABLE,
    Sieve,
    attempts_on,
    copy_of,
    whole_job,
    whole_node,
)
from slotq_core.adapters.dynamodb.repair.copies import Copies
from slotq_core.adapters.dynamodb.transactions import activity_of, check, put, update
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.ports.stored import Finding
from slotq_core.storage.holdings import OnNode, on_node, room_of

TRIES = 5

_IDENTITY = ("name", "pool", "generation", "tenant", "trainingJob", "token")
"""The attributes of a node that never change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """What is stored of one node."""

    pool: str
    name: str
    item: Item | None
    slot: Item | None

    @property
    def started(self) -> Node | None:
        """The node as it started, if its slot says so, and is its slot."""
        with suppress(*UNREADABLE):
            node = node_in_slot(self.slot) if self.slot else None
            if node is not None and self.slot is not None:
                counted = demand_of(self.slot), marks_in(self.slot)
                return node if counted == (node.demand, node_mark(node)) else None
        return None

    @property
    def key(self) -> table.Key:
        return table.node_key(self.pool, self.name)

    def finding(self, text: str, *, mended: bool = False, kind: str = "node") -> Finding:
        return Finding(kind=kind, subject=f"{self.pool}/{self.name}", text=text, mended=mended)


class NodeRecords:
    def __init__(self, calls: TableCalls, copies: Copies) -> None:
        self._calls, self._copies = calls, copies

    def check(self, pool: str, name: str, *, mend: bool) -> list[Finding]:
        """Return the faults of a node's items; none if there is no such node."""
        key, slot = table.node_key(pool, name), table.node_slot_key(pool, name)
        for _ in range(TRIES):
            # The slot first: it starts and ends with the node.
            slot_item = self._calls.item(slot)
            look = _Look(pool=pool, name=name, item=self._calls.item(key), slot=slot_item)
            if slot_item != self._calls.item(slot):
                continue
            try:
                return [*self._faults(look, mend=mend)]
            except Conflict:
                continue
        raise Unavailable(f"node {name} in pool {pool}: its record is changing; try again")

    def _faults(self, look: _Look, *, mend: bool) -> Iterator[Finding]:
        node, started = whole_node(look.item), look.started
        if look.item is None and look.slot is None:
            return
        if node is None and started is None:
            yield from self._unknown(look, mend=mend)
            return
        if node is None or (started is not None and started.generation != node.generation):
            lacks = "cannot be read" if look.item else "is missing"
            if mend and started is not None:
                self._restore(look, started)
            yield look.finding(f"its record {lacks}: it is restored, and drains", mended=mend)
            return
        if started is None:
            if mend:
                self._count(look, node)
            yield look.finding("it has no slot in the ledger of its pool", mended=mend)
        yield from self._name(look, node, mend=mend)
        yield from self._room(look, node, mend=mend)

    def _unknown(self, look: _Look, *, mend: bool) -> Iterator[Finding]:
        """Neither the node nor its slot can be read: what is counted stays held."""
        if look.item is not None:
            text = "its record cannot be read: it is set aside"
            if mend:
                self._calls.transact(self._copies.aside(look.key, look.item, text))
            yield look.finding(text, mended=mend)
        if look.slot is not None:
            text = "it cannot be read; its slot stays held until its record is repaired"
            yield look.finding(text, kind="held")

    def _restore(self, look: _Look, started: Node) -> None:
        """Put the node with every field that can still be read, else as it started."""
        broken = look.item or Item()
        jobs, free, _ = self._wanted(look, started)
        as_started, readable = write(started), _readable(broken, started)
        identity = {name: as_started[name] for name in _IDENTITY if name in as_started}
        restored: Item = {**as_started, **readable, **identity}
        if restored["state"] != {"S": NodeState.STOPPING.value}:
            restored["state"] = {"S": NodeState.DRAINING.value}
        if _number(readable, "version") is None:
            restored["version"] = {"N": str(NEW_AGE)}
        named = {job_attribute(name): number for name, number in jobs.items()}
        for name, amount in {**free, **named, "jobs": len(jobs)}.items():
            restored[name] = {"N": str(amount)}
        condition = expressions.unchanged(broken) if broken else expressions.is_new()
        self._calls.put(look.key, restored, condition)

    def _count(self, look: _Look, node: Node) -> None:
        """Give a node that has no slot its slot, in place of what is kept for it. The ledger counts
        a slot that cannot be read, as far as anybody knows."""
        kept, marks = Demand(), 0
        if look.slot is not None:
            kept, marks = node.demand, node_mark(node)
            with suppress(*UNREADABLE):
                kept, marks = demand_of(look.slot), marks_in(look.slot)
        seen = expressions.unchanged(look.slot) if look.slot else expressions.is_new()
        name, slot = self._calls.table, write_node_slot(node)
        counted = ledger_expressions.count_node(
            node.demand - kept, node_mark(node) - marks, activity_of([slot, look.slot])
        )
        still = ledger_expressions.is_generation(node.generation)
        self._calls.transact(
            [
                put(name, table.node_slot_key(look.pool, look.name), slot, seen),
                check(name, look.key, still),
                update(name, table.ledger_key(look.pool), counted),
            ]
        )

    def _name(self, look: _Look, node: Node, *, mend: bool) -> Iterator[Finding]:
        key = table.name_key(node.training_job)
        if self._calls.item(key):
            return
        if mend:
            self._calls.put(key, write_node_name(node), expressions.is_new())
        text = f"no record links training job {node.training_job} to it"
        yield look.finding(text, mended=mend)

    def _room(self, look: _Look, node: Node, *, mend: bool) -> Iterator[Finding]:
        item, (wanted, free, person) = look.item or Item(), self._wanted(look, node)
        named = attempts_on(item, node.generation)
        whose = person in {"", _text(item, PERSON)} or not node.one_person
        if whose and named == wanted and all(_number(item, name) == free[name] for name in free):
            return
        if mend:
            attributes = [*free, "generation", "jobs", *(name for name in item if _is_job(name))]
            seen = expressions.as_read(item, *dict.fromkeys(attributes))
            room = ledger_expressions.set_room(free, wanted, person, item, seen)
            self._calls.update(look.key, room)
        text = f"it counts the jobs {sorted(named)}; {sorted(wanted)} are on it"
        if named == wanted:
            text = "what it counts as free is not what its jobs leave"
        if named == wanted and not whose:
            text = "it does not say whose jobs are on it"
        yield look.finding(text, mended=mend)

    def _wanted(self, look: _Look, node: Node) -> tuple[dict[str, int], dict[str, int], str]:
        """Return the jobs that the node should name, with the numbers of their attempts, what is
        free beside them, and whose they are; empty: nobody's."""
        item, jobs = look.item or Item(), self._truth(look, node)
        free = room_attributes(*room_of(node, jobs.values()))
        wanted = {name: job.number for name, job in jobs.items()}
        named = attempts_on(item, node.generation)
        if unknown := {n: number for n, number in named.items() if self._is_unknown(n)}:
            for name, amount in free.items():
                counted = _number(item, name)
                free[name] = amount if counted is None else min(amount, counted)
        person = next((job.person for job in jobs.values()), "")
        if unknown and not jobs:
            person = _text(item, PERSON)
        return wanted | unknown, free, person

    def _truth(self, look: _Look, node: Node) -> dict[str, OnNode]:
        """Return the jobs whose live attempt is on this generation of the node: of those that it
        names and those whose copy says so, each by its own item."""
        copies = expressions.partition_from(table.pool_partition(look.pool), table.ON_NODE_PREFIX)
        here = Sieve().read(self._calls.query(copies), copy_of)
        names = {job.name for job in here if _runs_on(job, node)}
        names |= attempts_on(look.item, node.generation).keys()
        mains = self._calls.items([table.job_key(name) for name in sorted(names)])
        found = {}
        for main in mains.values():
            job = whole_job(main)
            held = on_node(job) if job is not None and _runs_on(job, node) else None
            if job is not None and held is not None:
                found[job.name] = held
        return found

    def _is_unknown(self, name: str) -> bool:
        """Whether the job's own item is missing or unreadable."""
        return whole_job(self._calls.item(table.job_key(name))) is None


def _runs_on(job: Job, node: Node) -> bool:
    attempt = job.attempt
    return attempt is not None and (attempt.pool, attempt.node, attempt.node_generation) == (
        node.pool,
        node.name,
        node.generation,
    )


def _readable(broken: Item, started: Node) -> Item:
    """Return the attributes of a broken node that can be read, if it is of this generation."""
    found = Item()
    if broken.get("token") != {"S": started.token}:
        return found
    for attribute, value in broken.items():
        with suppress(*UNREADABLE):
            if read(Node, {attribute: value}):
                found[attribute] = value
    return found


def _number(item: Item, attribute: str) -> int | None:
    with suppress(*UNREADABLE):
        return whole(item[attribute])
    return None


def _text(item: Item, attribute: str) -> str:
    with suppress(*UNREADABLE):
        return text_of(item[attribute])
    return ""


def _is_job(attribute: str) -> bool:
    return attribute.startswith(job_attribute(""))
