"""Rows that can never be what a condition asks of them. Each is found, what can be mended safely is
mended, and the rest of the queue goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import ConfigurationLost
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.sharing import Sharing
from slotq_core.ports.stored import Finding
from tests.contract import by_hand
from tests.contract.by_hand import Table, number, text
from tests.contract.poisoned import quarantine
from tests.contract.worlds import NOW, a_pool, a_queue, commit, runs, starting, starts, waits

REVISION = table.revision_key()


def sharing(*names: str) -> Sharing:
    quota = {EVERYWHERE: Demand(slots=1)}
    return Sharing(projects=tuple(Project(name=name, quota=quota) for name in names))


def documents(items: Table) -> list[by_hand.Key]:
    return [key for key in items.all() if key[1].startswith(table.SHARING_PREFIX)]


def found(store: DynamoStore, *, mend: bool = False) -> list[Finding]:
    return list(store.repair.inspect(mend=mend))


@pytest.mark.parametrize("version", [None, number(0), {"N": "1.5"}, number(1 << 62)], ids=str)
def test_a_ledger_without_a_version_closes_its_pool_until_repaired(
    dynamo: DynamoStore, items: Table, version: Any
) -> None:
    """Each decision about it was refused for ever, and nobody said why."""
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    runs(dynamo, "job1")
    items.change(by_hand.ledger(), version=version)
    assert [each.kind for each in found(dynamo)] == ["ledger"]
    assert [each.key for each in dynamo.worlds.load(NOW).poison] == ['["POOL#p5", "LEDGER"]']
    world = quarantine(dynamo)
    job = waits(dynamo, "job2")
    seen = {"p5": world.ledgers["p5"].version}
    dynamo.decisions.commit([starting(job)], seen=seen)


@pytest.mark.parametrize("broken", [number(0), number(-3), {"N": "1.5"}, text("two")], ids=str)
@pytest.mark.parametrize("count", ["revision", "groupDecisions", "spentVersion"])
def test_a_count_that_no_commit_could_rely_on_is_mended(
    dynamo: DynamoStore, items: Table, count: str, broken: Any
) -> None:
    a_queue(dynamo)
    items.change(REVISION, **{count: broken})
    assert {(each.kind, each.subject) for each in found(dynamo)} == {("unreadable", count)}
    quarantine(dynamo)
    assert found(dynamo) == []
    world = dynamo.worlds.load(NOW)
    job = waits(dynamo, "job1")
    dynamo.decisions.commit([starting(job)], group_decisions=world.group_decisions)
    spent = dynamo.configuration.read().month_sum
    dynamo.usage.keep_month(spent, replace(spent, month=NOW))
    dynamo.configuration.change([a_pool("p5", 3)], who="ann", now=NOW)
    assert dynamo.configuration.pools() == (a_pool("p5", 3),)


def test_a_lost_document_stops_decisions_alone(dynamo: DynamoStore, items: Table) -> None:
    """Departments and projects that the revision names and the table lacks: nothing is decided,
    and whoever asks hears why. What has been decided goes on."""
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    dynamo.configuration.change(sharing=sharing("a"), who="ann", now=NOW)
    for key in documents(items):
        items.remove(key)
    fresh = DynamoStore(dynamo._calls._client, items.name, clock=lambda: NOW)
    with pytest.raises(ConfigurationLost):
        fresh.configuration.read()
    world = fresh.worlds.load(NOW)
    assert world.undecidable
    assert (world.snapshot.active, world.poison) == ((job,), ())
    assert fresh.configuration.pools() == (a_pool("p5"),)
    (finding,) = found(fresh, mend=True)
    assert (finding.kind, finding.subject, finding.mended) == ("unreadable", "projects", False)


def test_a_lost_document_gives_way_to_the_last_that_can_be_read(
    dynamo: DynamoStore, items: Table
) -> None:
    """On the record, when a person asks for it."""
    a_queue(dynamo)
    dynamo.configuration.change(sharing=sharing("a"), who="ann", now=NOW)
    before = documents(items)
    dynamo.configuration.change(sharing=sharing("a", "b"), who="ann", now=NOW + 1)
    (lost,) = [key for key in documents(items) if key not in before]
    items.remove(lost)
    fresh = DynamoStore(dynamo._calls._client, items.name, clock=lambda: NOW + 2)
    assert [each.mended for each in found(fresh)] == [False]
    assert [each.mended for each in found(fresh, mend=True)] == [True]
    assert found(fresh) == []
    assert fresh.configuration.read().sharing == sharing("a")
    assert fresh.worlds.load(NOW).undecidable == ""
    assert fresh.configuration.changes(limit=1)[0].who == "slotq doctor --fix"
    fresh.configuration.change(sharing=sharing("a", "c"), who="ann", now=NOW + 3)


def test_a_decision_in_parts_without_its_mark_is_marked(dynamo: DynamoStore, items: Table) -> None:
    """No load would look at it, and no other decision in parts could ever begin."""
    from slotq_core.ports.stored import Change, InParts, Part, PartsKind

    a_queue(dynamo)
    job = runs(dynamo, "job1")
    kept = replace(job, message="x")
    decision = InParts(number=0, kind=PartsKind.FINISH, steps=((job, kept),))
    part = Part(of=decision, opens=True)
    dynamo.decisions.commit([Change(before=job, after=kept)], group_decisions=0, part=part)
    items.change(REVISION, inParts=None)
    assert dynamo.worlds.load(NOW).in_parts is None
    assert [each.kind for each in found(dynamo)] == ["unmarked_decision"]
    assert [each.mended for each in found(dynamo, mend=True)] == [True]
    assert dynamo.worlds.load(NOW).in_parts is not None


@pytest.mark.parametrize(
    ("key", "item"),
    [
        ((table.OPENING, "grid"), {"name": text("grid")}),
        ((table.HISTORY, "2023#job9"), {"jobName": number(1)}),
        ((table.PENDING, "2023#1"), {"message": text("?")}),
        ((table.PARTS, table.PARTS), {"number": text("one")}),
    ],
    ids=str,
)
def test_a_row_that_waits_for_ever_is_found_and_set_aside(
    dynamo: DynamoStore, items: Table, key: by_hand.Key, item: dict[str, Any]
) -> None:
    """An unreadable one at the head keeps all behind it waiting, or its name from being used."""
    a_queue(dynamo)
    items.put(key, item)
    (finding,) = found(dynamo)
    assert (finding.kind, finding.mended) == ("unreadable", False)
    assert [each.mended for each in found(dynamo, mend=True)] == [True]
    assert items.get(key) == {}
    assert {each.kind for each in found(dynamo)} == {"put_aside"}


def test_an_unreadable_note_keeps_no_other_from_expiring(dynamo: DynamoStore, items: Table) -> None:
    from tests.contract.worlds import completing

    a_queue(dynamo)
    commit(dynamo, completing(starts(dynamo, "job1")))
    for each in range(25):
        items.put((table.HISTORY, f"2000-{each:02d}#old"), {"jobName": number(each)})
    assert dynamo.repair.expire(now=NOW, limit=25) == 0
    assert dynamo.repair.expire(now=NOW, limit=25) == 1


def test_a_sum_is_extended_whatever_its_row_says_of_defaults(
    dynamo: DynamoStore, items: Table
) -> None:
    from slotq_core.ports.usage import DaySum

    a_queue(dynamo)
    day = DaySum(day="2023-11-14")
    dynamo.usage.extend(day, replace(day, through="a", attempts=1), ())
    items.change(table.usage_key(day.day), whole={"BOOL": False}, unreadable=number(0))
    seen = dynamo.usage.last_sum()
    assert seen is not None
    dynamo.usage.extend(seen, replace(seen, attempts=2), ())


@pytest.mark.parametrize("touched", [text("now"), {"N": "1.5"}], ids=str)
def test_a_line_with_an_unreadable_touch_is_mended(
    dynamo: DynamoStore, items: Table, touched: Any
) -> None:
    from slotq_core.policy.lines import line_of

    a_queue(dynamo)
    job = waits(dynamo, "job1")
    key = table.line_key(line_of(job))
    items.change(key, touched=touched)
    assert [each.mended for each in found(dynamo, mend=True)] == [True]
    assert found(dynamo) == []
    items.change(key, waiting={"N": "1.5"})
    dynamo.repair.audit(now=NOW)


def test_the_last_restore_is_read_from_its_row(dynamo: DynamoStore, items: Table) -> None:
    """One that cannot be read counts as none."""
    assert dynamo.repair.last_restore() is None
    moments = {"copiedAt": text("2026-11-20T10:30:00Z"), "restoredAt": text("2026-11-20T11:00:00Z")}
    items.put(table.restored_key(), moments)
    found = dynamo.repair.last_restore()
    assert found is not None
    assert found.restored_at - found.copied_at == 1_800_000
    items.change(table.restored_key(), copiedAt=number(5))
    assert dynamo.repair.last_restore() is None
