"""Unreadable lines, wakes, turns and unknown items stop nothing else."""

from __future__ import annotations

import pytest

from slotq_core.adapters.dynamodb.layout.table import (
    line_key,
    wake_key,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.policy.lines import line_of
from tests.contract import by_hand
from tests.contract.by_hand import Table, active, number, text
from tests.contract.poisoned import poisons, quarantine, waiting
from tests.contract.worlds import (
    NOW,
    a_job,
    a_queue,
    cancelling,
    commit,
    runs,
    waits,
)


def test_a_line_with_an_unreadable_time_is_still_read(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.change(line_key(line_of(job)), touched=text("now"))
    assert len(poisons(dynamo)) == 1
    assert waiting(dynamo.worlds.load(NOW)) == ["job1"]
    assert waiting(quarantine(dynamo)) == ["job1"]


def test_a_line_touched_by_a_submission_during_its_repair_keeps_its_time(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    key = line_key(line_of(waits(dynamo, "job1")))
    items.change(key, touched=text("now"))
    (poison,) = poisons(dynamo)
    waits(DynamoStore(items._client, items.name), "job2", entry_time=NOW + 9)
    dynamo.repair.quarantine(poison)
    assert items.get(key)["touched"] == number(NOW + 9)


def test_a_mended_line_stays_for_those_who_rely_on_an_earlier_touch(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    commit(dynamo, cancelling(waits(dynamo, "first")))
    items.change(line_key(line_of(a_job("first"))), touched=text("now"))
    assert waiting(quarantine(dynamo)) == []
    dynamo.worlds.load(NOW)
    waits(dynamo, "second", entry_time=NOW + 9)
    assert waiting(dynamo.worlds.load(NOW + 9)) == ["second"]


def test_a_malformed_line_does_not_stop_the_others(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    waits(dynamo, "job1")
    items.put(("LINES", '["another", "form"]'), {"touched": number(NOW)})
    assert waiting(dynamo.worlds.load(NOW)) == ["job1"]
    assert waiting(quarantine(dynamo)) == ["job1"]


def test_unknown_kinds_of_items_of_a_newer_release_are_ignored(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.put(("POOL#p5", "RESERVATION#x"), {"until": number(NOW)})
    items.change(by_hand.job("job1"), colour=text("blue"))
    items.spoil_copy(active("job1"), colour=text("blue"))
    world = dynamo.worlds.load(NOW)
    assert (world.poison, world.snapshot.active) == ((), (job,))
    assert list(dynamo.repair.inspect()) == []


def test_a_broken_wake_stops_no_pass(dynamo: DynamoStore, items: Table) -> None:
    items.put(wake_key(), {"generation": text("?"), "holder": text("x"), "until": text("late")})
    generation = dynamo.scheduler.take_lease("one", now=NOW, until=NOW + 9)
    assert generation is not None
    dynamo.scheduler.bump()
    assert not dynamo.scheduler.end_lease("one", generation=generation)
    generation = dynamo.scheduler.take_lease("one", now=NOW, until=NOW + 9)
    assert dynamo.scheduler.end_lease("one", generation=generation)
    items.change(wake_key(), generation=text("?"))
    dynamo.scheduler.bump()
    assert dynamo.scheduler.take_lease("one", now=NOW, until=NOW + 9) is not None


def test_a_lease_that_nobody_holds_is_free_whenever_it_ends(
    dynamo: DynamoStore, items: Table
) -> None:
    items.put(wake_key(), {"until": number(NOW + 5)})
    assert dynamo.scheduler.take_lease("one", now=NOW, until=NOW + 9) is not None
    assert dynamo.scheduler.take_lease("two", now=NOW, until=NOW + 9) is None


@pytest.mark.parametrize("odd", ["0", "-1", "3.5", "1e20", "9" * 38])
def test_a_broken_generation_is_handled_once(dynamo: DynamoStore, items: Table, odd: str) -> None:
    """Otherwise the pass that holds the lease would run again for ever."""
    items.put(wake_key(), {"generation": {"N": odd}})
    generation = dynamo.scheduler.take_lease("one", now=NOW, until=NOW + 9, only_news=True)
    assert generation is not None
    assert dynamo.scheduler.end_lease("one", generation=generation)
    assert dynamo.scheduler.take_lease("two", now=NOW, until=NOW + 9, only_news=True) is None
    dynamo.scheduler.bump()
    assert (
        dynamo.scheduler.take_lease("two", now=NOW, until=NOW + 9, only_news=True) == generation + 1
    )


def test_a_turn_with_a_broken_time_is_due(dynamo: DynamoStore, items: Table) -> None:
    items.put(("SCHEDULER", "RECONCILE"), {"nextAt": text("soon")})
    assert dynamo.scheduler.next_turn("RECONCILE") is None
    assert dynamo.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 9)
    assert not dynamo.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 9)
