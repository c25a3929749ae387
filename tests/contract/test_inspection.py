"""`inspect` finds every disagreement between items, reports it, and repairs it on request; it
changes nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.items import copies_of
from slotq_core.adapters.dynamodb.layout.table import held_key, line_key, name_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Unavailable
from slotq_core.model.demand import Demand
from slotq_core.policy.lines import line_of
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Finding
from tests.contract import by_hand
from tests.contract.by_hand import Table, active, number, text
from tests.contract.faults import before_the_next
from tests.contract.test_races import at_once, insist
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    backing_off,
    cancelling,
    claiming,
    commit,
    completing,
    evicted,
    evicting,
    runs,
    starting,
    starts,
    waits,
)


def a_world(store: Store) -> Store:
    """A store with a job of each kind."""
    a_queue(store, a_pool("p5", 4), a_pool("p4", 2))
    commit(store, completing(runs(store, "ended")))
    store.repair.expire(now=NOW)
    commit(store, cancelling(waits(store, "cancelled")))
    victim, claimant = runs(store, "victim"), waits(store, "claimant", priority=5)
    store.decisions.commit([evicting(victim, "claimant"), claiming(claimant)])
    runs(store, "running", slots=2)
    starts(store, "starting", pool="p4", pools=("p4",))
    commit(store, backing_off(starts(store, "tired"), until=NOW + 9))
    commit(store, evicted(starts(store, "evicted")))
    waits(store, "waiting", slots=3)
    store.health.set_foreign("p4", Demand(slots=1))
    return store


def test_a_consistent_table_has_no_findings(store: Store) -> None:
    a_world(store)
    assert list(store.repair.inspect()) == []
    assert list(store.repair.inspect(mend=True)) == []


def waiting_key(table: Table, job: str) -> by_hand.Key:
    return next(k for k in table.all() if k[0].startswith("WAITING") and k[1].endswith(f"#{job}"))


def due_key(table: Table) -> by_hand.Key:
    return next(key for key in table.all() if key[0] == "DUE")


Spoil = Callable[[Table], None]

FAULTS: dict[str, tuple[str, str, Spoil]] = {
    "waiting copy missing": (
        "copy",
        "waiting",
        lambda table: table.remove(waiting_key(table, "waiting")),
    ),
    "waiting copy stale": (
        "copy",
        "waiting",
        lambda table: table.spoil_copy(waiting_key(table, "waiting"), message=text("old")),
    ),
    "waiting copy unreadable": (
        "copy",
        "waiting",
        lambda table: table.change(waiting_key(table, "waiting"), job=None),
    ),
    "waiting copy at another place": (
        "copy",
        "waiting",
        lambda table: table.put(("WAITING#x", "0000001#then#waiting"), {"job": text("")}),
    ),
    "active copy missing": ("copy", "running", lambda table: table.remove(active("running"))),
    "active copy left over": (
        "copy",
        "ended",
        lambda table: table.put(active("ended"), table.get(active("running"))),
    ),
    "claim missing": ("copy", "claimant", lambda table: table.remove(by_hand.claim("claimant"))),
    "back-off missing": ("copy", "tired", lambda table: table.remove(due_key(table))),
    "job unreadable": (
        "unreadable",
        "running",
        lambda table: table.change(by_hand.job("running"), priority=text("high")),
    ),
    "job missing": ("unreadable", "waiting", lambda table: table.remove(by_hand.job("waiting"))),
    "slots held for a job that is whole": (
        "copy",
        "running",
        lambda table: table.put(held_key("p5", "running"), {"demand": {"M": {"slots": number(1)}}}),
    ),
    "line missing": (
        "line",
        "waiting",
        lambda table: table.remove(next(k for k in table.all() if '{"slots":3}' in k[1])),
    ),
    "line unreadable": (
        "unreadable",
        "",
        lambda table: table.change(
            next(k for k in table.all() if '{"slots":3}' in k[1]), touched=None
        ),
    ),
    "name missing": ("name", "running", lambda table: table.remove(name_key("running"))),
    "ledger used": ("ledger", "p5", lambda t: t.change(by_hand.ledger(), used_slots=number(4))),
    "ledger free": ("ledger", "p5", lambda t: t.change(by_hand.ledger(), free_slots=number(3))),
    "ledger holders": ("ledger", "p5", lambda t: t.change(by_hand.ledger(), holders=number(3))),
    "ledger unreadable": (
        "ledger",
        "p5",
        lambda table: table.change(by_hand.ledger(), version=text("?")),
    ),
    "ledger missing": ("ledger", "p5", lambda table: table.remove(by_hand.ledger())),
    "definition unreadable": (
        "unreadable",
        "p4",
        lambda table: table.change(("CONFIG", "POOL#p4"), capacity=number(2)),
    ),
    "ended and not marked": (
        "history",
        "ended",
        lambda table: table.change(by_hand.job("ended"), expiresAt=None),
    ),
    "lives and marked": (
        "history",
        "running",
        lambda table: table.change(("JOB#running", "REQUEST"), expiresAt=number(1)),
    ),
    "lives and its job marked": (
        "history",
        "running",
        lambda table: table.change(by_hand.job("running"), expiresAt=number(1)),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_disagreement_is_found_and_repaired(
    dynamo: DynamoStore, items: Table, fault: str
) -> None:
    kind, subject, spoil = FAULTS[fault]
    a_world(dynamo)
    world, right = dynamo.worlds.load_all(NOW), items.all()
    spoil(items)
    spoiled = items.all()
    found = list(dynamo.repair.inspect())
    assert (kind, subject) in {(each.kind, each.subject) for each in found} or not subject
    assert kind in {each.kind for each in found}
    assert not any(each.mended for each in found)
    assert items.all() == spoiled
    mended = list(dynamo.repair.inspect(mend=True))
    assert all(each.mended and each.text for each in mended)
    assert list(dynamo.repair.inspect()) == []
    assert dynamo.worlds.load_all(NOW).snapshot == world.snapshot
    assert _essence(items.all()) == _essence(right)


def _essence(table: dict[by_hand.Key, dict[str, Any]]) -> dict[by_hand.Key, dict[str, Any]]:
    """The items without what may differ: versions, a pool's activity, a repaired line's times, an
    ended job's note."""
    aside = {"version", "activity", "touched", "returned"}
    return {
        key: {name: value for name, value in item.items() if name not in aside}
        for key, item in table.items()
        if key[0] not in {"POISON", "HISTORY"}
    }


def test_several_faults_are_repaired_together(dynamo: DynamoStore, items: Table) -> None:
    a_world(dynamo)
    world = dynamo.worlds.load_all(NOW)
    for fault in ("ledger holders", "line missing", "job unreadable"):
        FAULTS[fault][2](items)
    items.put(active("running"), {"job": text("?")})
    list(dynamo.repair.inspect(mend=True))
    left = list(dynamo.repair.inspect())
    # The job's own item and its only copy are broken: its slots stay held, and people are told.
    told = {("held", "running"), ("put_aside", "running")}
    assert {(each.kind, each.subject) for each in left} == told
    pools = {pool.name: pool for pool in dynamo.worlds.load(NOW).snapshot.pools}
    assert pools["p5"].foreign == Demand(slots=2)
    assert dynamo.worlds.load_all(NOW).snapshot.waiting == world.snapshot.waiting


def test_a_record_that_expires_during_its_repair_stays_gone(
    dynamo: DynamoStore, client: Any, items: Table
) -> None:
    """DynamoDB removes the marked record, and nothing writes it again."""
    a_queue(dynamo)
    runs(dynamo, "job1")
    record = ("JOB#job1", "REQUEST")
    items.change(record, expiresAt=number(1))
    with before_the_next(client, "TransactWriteItems", lambda: items.remove(record)):
        list(dynamo.repair.inspect(mend=True))
    assert items.get(record) == {}


def test_foreign_use_counted_during_a_ledgers_repair_stays(
    dynamo: DynamoStore, client: Any, table: str, items: Table
) -> None:
    """No job has come or gone since the read, but the ledger has changed."""
    a_queue(dynamo, a_pool("p5", 3))
    items.change(by_hand.ledger("p5"), free_slots=number(9))
    other = DynamoStore(client, table)
    with before_the_next(
        client, "PutItem", lambda: other.health.set_foreign("p5", Demand(slots=1))
    ):
        list(dynamo.repair.inspect(mend=True))
    (pool,) = dynamo.worlds.load(NOW).snapshot.pools
    assert pool.foreign == Demand(slots=1)
    assert list(dynamo.repair.inspect()) == []


def test_a_claim_made_during_a_ledgers_repair_still_counts(
    dynamo: DynamoStore, client: Any, table: str, items: Table
) -> None:
    """A claim uses no slots, so the ledger's version does not change."""
    a_queue(dynamo, a_pool("p5", 3))
    job = waits(dynamo, "job1")
    items.change(by_hand.ledger("p5"), free_slots=number(9))
    other = DynamoStore(client, table)
    with before_the_next(client, "PutItem", lambda: commit(other, claiming(job))):
        list(dynamo.repair.inspect(mend=True))
    (claimant,) = dynamo.worlds.load(NOW).snapshot.waiting
    assert claimant.claim
    assert list(dynamo.repair.inspect()) == []


def test_a_change_during_the_inspection_is_not_a_finding(
    dynamo: DynamoStore, client: Any, table: str, items: Table
) -> None:
    """The Scan saw the job before a change, the second read after it."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.remove(next(iter(copies_of(job))))
    found = dynamo.repair.inspect()
    items.put(next(iter(copies_of(job))), {"job": {"M": items.get(by_hand.job("job1"))}})
    commit(DynamoStore(client, table), starting(job))
    assert [each for each in found if each.kind != "copy"] == []


def test_an_inspection_beside_busy_handlers_finds_and_repairs_nothing(racing_store: Store) -> None:
    store = a_queue(racing_store, a_pool("p5", 4))
    done = threading.Event()

    def live(name: str) -> None:
        for n in range(4):
            job = insist(store, evicting(insist(store, starting(waits(store, f"{name}-{n}"))), "x"))
            job = insist(store, evicted(job))
            insist(store, completing(insist(store, starting(job))))
            store.repair.expire(now=NOW)

    def lives(name: str) -> None:
        try:
            live(name)
        finally:
            done.set()

    def look() -> list[Finding]:
        found: list[Finding] = []
        while not done.is_set():
            with suppress(Unavailable):  # A table too busy to inspect is not a finding.
                found += store.repair.inspect(mend=True)
        return found

    *ended, found, also = at_once(*(partial(lives, f"job{n}") for n in range(3)), look, look)
    assert ended == [None] * 3
    assert (found, also) == ([], [])
    assert list(store.repair.inspect()) == []


def test_findings_include_pools_that_are_no_longer_configured(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    a_queue(dynamo, a_pool("p4"))
    items.change(by_hand.ledger("p5"), free_slots=number(2))
    (finding,) = dynamo.repair.inspect(mend=True)
    assert finding.kind == "ledger"
    assert list(dynamo.repair.inspect()) == []
    assert finding == Finding(kind="ledger", subject="p5", text=finding.text, mended=True)


def test_a_repair_keeps_an_existing_line(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.remove(line_key(line_of(job)))
    assert dynamo.worlds.load(NOW).snapshot.waiting == ()
    list(dynamo.repair.inspect(mend=True))
    assert dynamo.worlds.load(NOW).snapshot.waiting == (job,)
    assert items.get(line_key(line_of(job)))["touched"] == number(NOW)


def test_an_inspection_without_time_says_so_and_reports_no_fault(
    dynamo: DynamoStore, items: Table
) -> None:
    """The time is over after this number of looks at the clock."""
    a_queue(dynamo, a_pool("p5", 3))
    for n in range(6):
        runs(dynamo, f"run{n}") if n < 3 else waits(dynamo, f"wait{n}")
    for looks in (0, 4, 9, 40):
        left = iter(range(looks, -1000, -1))
        found = list(dynamo.repair.inspect(mend=True, time_left=partial(next, left)))
        assert [each.kind for each in found] == ["unfinished"], looks
        assert "items were examined" in found[0].text
    assert list(dynamo.repair.inspect(time_left=lambda: 1)) == []


def test_findings_of_an_incomplete_inspection_are_repaired(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo, a_pool("p5", 3))
    runs(dynamo, "job1")
    items.change(by_hand.ledger("p5"), free_slots=number(1))
    left = iter([100] + [60] * 200)
    found = list(dynamo.repair.inspect(mend=True, time_left=lambda: next(left)))
    assert [(each.kind, each.mended) for each in found] == [("ledger", True)]
