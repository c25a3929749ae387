"""The items of a pool are read again if something there has changed, and only then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.reading.pool_reading import KEPT_FOR
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import PoolHealth
from slotq_core.ports.stored import Change, World
from tests.contract import by_hand
from tests.contract.by_hand import Table, text
from tests.contract.faults import before_the_next
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    backing_off,
    cancelling,
    claiming,
    commit,
    completing,
    evicting,
    running,
    starting,
    starts,
    waits,
)

LARGE = 12


@pytest.fixture
def many(dynamo: DynamoStore) -> list[Job]:
    """A pool's starting jobs, as a store has read and kept them."""
    a_queue(dynamo, a_pool("p5", 2 * LARGE))
    jobs = [starts(dynamo, f"job{n:02d}") for n in range(LARGE + 1)]
    dynamo.worlds.load(NOW)
    return jobs


@pytest.fixture
def other(client: Any, table: str) -> DynamoStore:
    """The store of another handler."""
    return DynamoStore(client, table)


Truth = Callable[[], World]
Changing = Callable[[Job], Change]


@pytest.fixture
def truth(client: Any, table: str) -> Truth:
    """What a store that has kept nothing loads."""
    return lambda: DynamoStore(client, table).worlds.load(NOW)


def seen_alike(kept: DynamoStore, truth: Truth) -> World:
    """What a store that keeps jobs loads; the same as one that reads everything."""
    world = kept.worlds.load(NOW)
    assert world == truth()
    return world


def test_an_unchanged_pool_costs_one_read_unit(
    dynamo: DynamoStore, many: list[Job], client: Any
) -> None:
    with measured(client) as meter:
        world = dynamo.worlds.load(NOW)
    assert world.snapshot.active == tuple(many)
    assert Counter(meter.calls) == {"BatchGetItem": 1, "Query": 3}
    assert meter.read_units == 5, "the revision, the ledger, the lines, the line, the back-offs"


def test_pools_cost_one_call_for_a_hundred_and_one_for_each_that_changes(
    dynamo: DynamoStore, other: DynamoStore, client: Any
) -> None:
    a_queue(dynamo, *[a_pool(f"pool-{n}") for n in range(45)])
    dynamo.worlds.load(NOW)
    for changed in range(4):
        for number in range(changed):
            other.health.set(f"pool-{number}", PoolHealth(errors=changed))
        with measured(client) as meter:
            dynamo.worlds.load(NOW)
        assert Counter(meter.calls) == {"BatchGetItem": 1, "Query": 2 + changed}


def test_pools_read_together_are_not_all_read_again_at_one_moment(
    dynamo: DynamoStore, client: Any
) -> None:
    a_queue(dynamo, *[a_pool(f"pool-{n}") for n in range(40)])
    dynamo.worlds.load(NOW)
    counts = []
    for now in range(NOW, NOW + KEPT_FOR + 1, KEPT_FOR // 20):
        with measured(client) as meter:
            dynamo.worlds.load(now)
        counts.append(Counter(meter.calls)["Query"] - 2)
    assert sum(counts) == 40
    assert max(counts) <= 5


def test_a_decision_about_groups_never_rests_on_a_ledger_older_than_its_count(
    dynamo: DynamoStore, other: DynamoStore, client: Any, many: list[Job]
) -> None:
    """The ledgers come with REVISION in one call. Where its count has changed, they may be older,
    so they are read again."""
    job = waits(other, "member")
    other.decisions.commit([starting(job)], group_decisions=0)
    with measured(client) as meter:
        dynamo.worlds.load(NOW)
    assert Counter(meter.calls)["BatchGetItem"] == 2
    with measured(client) as meter:
        dynamo.worlds.load(NOW)
    assert Counter(meter.calls)["BatchGetItem"] == 1


def accepted(job: Job) -> Change:
    assert job.attempt
    return Change(before=job, after=replace(job, attempt=replace(job.attempt, created=True)))


@pytest.mark.parametrize(
    "change",
    [accepted, running, completing, lambda job: evicting(job, "x"), lambda j: backing_off(j, NOW)],
    ids=["accepted", "running", "completing", "evicting", "backing_off"],
)
def test_each_change_of_an_active_job_is_seen_at_once(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job], truth: Truth, change: Changing
) -> None:
    before = dynamo.worlds.load(NOW)
    commit(other, change(many[3]))
    assert seen_alike(dynamo, truth) != before


def test_each_change_of_a_claim_is_seen_at_once(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job], truth: Truth
) -> None:
    claimant = commit(other, claiming(waits(other, "claimant")))
    assert seen_alike(dynamo, truth).snapshot.waiting == (claimant,)
    assert claimant.claim
    larger = replace(claimant.claim, amount=Demand(slots=2))
    claimant = commit(other, Change(before=claimant, after=replace(claimant, claim=larger)))
    assert seen_alike(dynamo, truth).snapshot.waiting == (claimant,)
    commit(other, cancelling(claimant))
    assert seen_alike(dynamo, truth).snapshot.waiting == ()


def test_each_fact_about_the_pool_is_seen_at_once(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job], truth: Truth
) -> None:
    other.health.set("p5", PoolHealth(errors=1))
    assert seen_alike(dynamo, truth).snapshot.pools[0].health.errors == 1
    other.health.set_foreign("p5", Demand(slots=1))
    assert seen_alike(dynamo, truth).snapshot.pools[0].foreign == Demand(slots=1)
    a_queue(other, a_pool("p5", 3 * LARGE))
    assert seen_alike(dynamo, truth).snapshot.pools[0].capacity.slots == 3 * LARGE


def test_a_change_between_the_two_reads_is_not_missed(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job], truth: Truth, client: Any
) -> None:
    """The ledger is read first. What is read after it may be newer, never older."""
    commit(other, accepted(many[0]))
    with before_the_next(client, "Query", lambda: commit(other, accepted(many[1]))):
        dynamo.worlds.load(NOW)
    seen_alike(dynamo, truth)
    with before_the_next(client, "Query", lambda: commit(other, accepted(many[2]))):
        dynamo.worlds.load(
            NOW
        )  # Here the pool is kept, and the next Query is of another partition.
    seen_alike(dynamo, truth)


def test_a_ledger_of_an_earlier_version_is_kept_too(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job], truth: Truth, items: Table
) -> None:
    items.change(by_hand.ledger(), activity=None)
    for _ in range(2):
        seen_alike(dynamo, truth)
    commit(other, accepted(many[0]))
    seen_alike(dynamo, truth)


def test_repairs_are_seen_at_once(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job], truth: Truth, items: Table
) -> None:
    """Another handler meets a spoiled copy that this one has kept whole."""
    items.spoil_copy(by_hand.active("job03"), jobState=text("suspended"))
    for poison in other.worlds.load(NOW).poison:
        other.repair.quarantine(poison)
    seen_alike(dynamo, truth)
    items.remove(by_hand.job("job04"))
    items.spoil_copy(by_hand.active("job04"), jobState=text("suspended"))
    for poison in other.worlds.load(NOW).poison:
        other.repair.quarantine(poison)
    assert len(seen_alike(dynamo, truth).snapshot.active) == LARGE


def test_unreadable_health_is_reported_by_each_load(
    dynamo: DynamoStore, many: list[Job], items: Table
) -> None:
    items.put(("POOL#p5", "HEALTH"), {"errors": text("some")})
    items.change(by_hand.ledger(), facts={"N": "1"})
    for _ in range(2):
        assert [each.key for each in dynamo.worlds.load(NOW).poison] == ['["POOL#p5", "HEALTH"]']


def test_a_refused_decision_forgets_what_was_kept(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job], truth: Truth, items: Table
) -> None:
    """A handler of an earlier version has changed a job past the ledger's activity."""
    ledger = items.get(by_hand.ledger())
    commit(other, accepted(many[0]))
    items.put(by_hand.ledger(), ledger)
    assert dynamo.worlds.load(NOW).snapshot.active == tuple(many)
    with pytest.raises(Conflict):
        commit(dynamo, running(many[0]))
    seen_alike(dynamo, truth)


def test_nothing_is_kept_for_long(dynamo: DynamoStore, many: list[Job], client: Any) -> None:
    for now, calls in ((NOW + KEPT_FOR - 1, 3), (NOW + KEPT_FOR, 4), (NOW, 4), (NOW - 1, 4)):
        with measured(client) as meter:
            dynamo.worlds.load(now)
        assert Counter(meter.calls)["Query"] == calls, now


def test_a_start_from_what_was_kept_still_meets_the_ledgers_condition(
    dynamo: DynamoStore, other: DynamoStore, many: list[Job]
) -> None:
    job = waits(other, "next")
    seen = {"p5": dynamo.worlds.load(NOW).ledgers["p5"].version}
    commit(other, accepted(many[0]))  # An event refuses no decision.
    dynamo.decisions.commit([starting(job)], seen=seen)
    with pytest.raises(Conflict):
        dynamo.decisions.commit([starting(waits(other, "last"))], seen=seen)
