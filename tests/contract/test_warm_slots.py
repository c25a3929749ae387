"""Warm slots in every store: what ends leave them, who changes them, and what is recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout import table as keys
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import WarmSlot
from slotq_core.policy.lifecycle.warm_slots import released, taken
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, Finding, WarmChange
from slotq_core.usage.calendar_days import day_of
from tests.contract.by_hand import Table
from tests.contract.worlds import NOW, a_queue, commit, ending, running, starting, starts, waits


@pytest.fixture(autouse=True)
def _queue(store: Store) -> None:
    a_queue(store)


def warm_job(store: Store, name: str = "a", **fields: Any) -> Change:
    """The end of an attempt whose instances stay."""
    change = starting(waits(store, name, **fields))
    assert change.after.attempt is not None
    attempt = replace(change.after.attempt, warm_key="key", keep_warm=600_000)
    job = commit(store, replace(change, after=replace(change.after, attempt=attempt)))
    return ending(commit(store, running(job)), JobState.COMPLETED, AttemptOutcome.COMPLETED)


def slots(store: Store) -> tuple[WarmSlot, ...]:
    world = store.worlds.load(NOW + 10)
    assert world.poison == ()
    return world.snapshot.warm


def version(store: Store) -> int:
    return store.worlds.load(NOW + 10).ledgers["p5"].version


def test_the_end_of_an_attempt_leaves_a_slot(store: Store):
    commit(store, warm_job(store, slots=2, project=""))
    (slot,) = slots(store)
    assert (slot.pool, slot.training_job, slot.job, slot.key) == ("p5", "a", "a", "key")
    assert (slot.demand.slots, slot.since, slot.until) == (2, NOW + 4, NOW + 600_004)
    assert slot.idle and slot.version == 1
    ((_, ledger),) = store.worlds.pools(NOW)
    assert (ledger.used.slots, ledger.warm) == (0, (slot,))


@pytest.mark.parametrize("fields", [{"warm_key": ""}, {"keep_warm": 0}, {"node": "n"}])
def test_an_attempt_that_keeps_nothing_leaves_none(store: Store, fields: dict[str, Any]):
    change = warm_job(store)
    assert change.ended is not None
    commit(store, replace(change, ended=replace(change.ended, **fields)))
    assert slots(store) == ()


def test_a_change_needs_the_slot_as_it_was_read(store: Store):
    commit(store, warm_job(store))
    (slot,) = slots(store)
    before = version(store)
    release = WarmChange(before=slot, after=released(slot, "b", NOW + 20))
    store.decisions.commit([], warm=[release])
    assert version(store) == before + 1
    (after,) = slots(store)
    assert (after.releasing, after.released_for, after.version) == (True, "b", 2)
    for late in (release, WarmChange(before=slot, after=None)):
        with pytest.raises(Conflict):
            store.decisions.commit([], warm=[late])
    assert slots(store) == (after,)
    store.decisions.commit([], warm=[WarmChange(before=after, after=None)])
    assert slots(store) == ()


def test_a_decision_that_knows_another_pool_is_refused_with_its_slot(store: Store):
    commit(store, warm_job(store))
    (slot,) = slots(store)
    change = starting(waits(store, "b"))
    take = WarmChange(before=slot, after=taken(slot, "b", NOW + 20))
    with pytest.raises(Conflict):
        store.decisions.commit([change], warm=[take], seen={"p5": version(store) - 1})
    assert slots(store) == (slot,)
    store.decisions.commit([change], warm=[take], seen={"p5": version(store)})
    assert [it.taken_by for it in slots(store)] == ["b"]


def test_a_slot_and_the_end_that_leaves_it_are_one_transaction(store: Store):
    change = warm_job(store)
    commit(store, change)
    with pytest.raises(Conflict):
        commit(store, change)
    assert len(slots(store)) == 1


def test_warm_time_is_recorded_for_who_ran_before(store: Store):
    commit(store, warm_job(store, project="nlp", slots=2))
    (slot,) = slots(store)
    gone = WarmChange(before=slot, after=None, ended_at=NOW + 60_004, recorded_at=NOW + 70_000)
    store.decisions.commit([], warm=[gone])
    uses = store.usage.ended(day_of(NOW), after="", limit=10).uses
    (use,) = (it for it in uses if it.outcome == "warm")
    assert (use.job, use.project, use.slots) == ("a", "nlp", 2)
    assert (use.admitted_at, use.ended_at) == (NOW + 4, NOW + 60_004)
    assert len(uses) == 2


def test_a_warm_slot_does_not_keep_its_pool(store: Store):
    commit(store, warm_job(store))
    starts(store, "b", slots=2)
    assert len(slots(store)) == 1


def test_an_inspection_finds_no_fault(store: Store):
    commit(store, warm_job(store))
    found: list[Finding] = [*store.repair.inspect(mend=True)]
    assert found == []
    assert len(slots(store)) == 1


def test_a_broken_slot_is_put_aside(dynamo: DynamoStore, items: Table):
    a_queue(dynamo)
    commit(dynamo, warm_job(dynamo))
    key = keys.warm_key("p5", "a")
    items.change(key, demand={"S": "x"})
    for _ in range(3):
        for poison in dynamo.worlds.load(NOW + 700_000).poison:
            dynamo.repair.quarantine(poison)
    world = dynamo.worlds.load(NOW + 1_400_000)
    assert (world.poison, world.snapshot.warm) == ((), ())
    starts(dynamo, "b", slots=2)
