"""An item that cannot be read stops nothing else, and the slots that it may hold stay held."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import (
    POISON,
    health_key,
    held_key,
    line_key,
    wake_key,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, NotUnderstood, SlotQError, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import PoolHealth
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import Poison, World
from tests.contract import by_hand
from tests.contract.by_hand import Table, active, number, text
from tests.contract.faults import before_the_next
from tests.contract.worlds import (
    NOW,
    a_job,
    a_pool,
    a_queue,
    backing_off,
    claiming,
    commit,
    completing,
    evicting,
    running,
    runs,
    starting,
    starts,
    waits,
)

FROM_A_NEWER_RELEASE = text("suspended")
"""A state that did not exist when this was written."""


@pytest.fixture
def items(client: Any, table: str) -> Table:
    return Table(client, table)


def poisons(store: DynamoStore) -> list[Poison]:
    """What a pass passes over; an explanation passes over the same."""
    found = list(store.load(NOW).poison)
    assert list(store.load_all(NOW).poison) == found
    return found


def quarantine(store: DynamoStore) -> World:
    """What a pass does about it; and the world after that."""
    for poison in poisons(store):
        store.quarantine(poison)
    assert poisons(store) == []
    return store.load(NOW)


def waiting(world: World) -> list[str]:
    return [job.name for job in world.snapshot.waiting]


def free(world: World, pool: str = "p5") -> int:
    """As a plan counts it."""
    seen = next(each for each in world.snapshot.pools if each.name == pool)
    used = sum(job.demand.slots for job in world.snapshot.active)
    return seen.size(NOW).slots - used


def test_a_broken_waiting_copy_is_passed_over_and_mended_from_its_job(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    jobs = [waits(dynamo, f"job{n}", entry_time=NOW + n) for n in range(6)]
    first = next(key for key in items.all() if key[1].endswith("#job0"))
    items.spoil_copy(first, jobState=FROM_A_NEWER_RELEASE)
    (poison,) = poisons(dynamo)
    assert "job0" in poison.key
    assert "suspended" in poison.reason
    assert waiting(dynamo.load(NOW)) == ["job1", "job2", "job3"]  # As many heads as ever.
    assert waiting(quarantine(dynamo)) == ["job0", "job1", "job2"]
    assert commit(dynamo, starting(jobs[0])).version == 2


def test_a_line_of_nothing_but_poison_is_not_taken_for_empty(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.spoil_copy(items.only("WAITING"), pools=None)
    assert len(dynamo.load(NOW + 10**9).poison) == 1
    assert items.get(line_key(line_of(job)))
    assert waiting(quarantine(dynamo)) == ["job1"]


def test_a_broken_active_copy_goes_on_holding_its_slots(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo, a_pool("p5", 3))
    job, other = runs(dynamo, "job1", slots=2), runs(dynamo, "other")
    late = waits(dynamo, "late")
    items.spoil_copy(active("job1"), attempt=None)
    world = dynamo.load(NOW)
    assert [each.key for each in world.poison] == ['["POOL#p5", "ACTIVE#job1"]']
    assert world.snapshot.active == (other,)
    assert free(world) == 0
    with pytest.raises(Conflict):
        commit(dynamo, starting(late))
    commit(dynamo, completing(other))
    assert free(dynamo.load(NOW)) == 1
    assert quarantine(dynamo).snapshot.active == (job,)
    commit(dynamo, completing(job))
    assert dynamo.load(NOW).ledgers["p5"].used == Demand()


def test_a_broken_claim_is_mended(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    victim, job = runs(dynamo, "victim", slots=2), waits(dynamo, "job1", priority=5)
    victim, job = dynamo.commit([evicting(victim, "job1"), claiming(job)])
    items.spoil_copy(by_hand.claim("job1"), entryTime=text("yesterday"))
    world = dynamo.load(NOW)
    assert len(world.poison) == 1
    assert world.snapshot.active == (victim,)
    assert quarantine(dynamo).snapshot.waiting == (job,)


def test_a_broken_back_off_is_mended(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    first = commit(dynamo, backing_off(starts(dynamo, "job1"), until=NOW - 2))
    second = commit(dynamo, backing_off(starts(dynamo, "job2"), until=NOW - 1))
    (key,) = [key for key in items.all() if key[0] == "DUE" and key[1].endswith("job1")]
    items.change(key, job=text("?"))
    world = dynamo.load(NOW)
    assert len(world.poison) == 1
    assert world.snapshot.due == (second,)
    assert quarantine(dynamo).snapshot.due == (first, second)


def test_a_copy_left_behind_is_removed(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    left = items.get(active("job1"))
    commit(dynamo, completing(job))
    items.put(active("job1"), left)
    world = dynamo.load(NOW)
    assert free(world) <= 0  # Until it is known who holds what, nothing starts there.
    assert quarantine(dynamo).snapshot.active == ()
    assert free(dynamo.load(NOW)) == 2


def test_a_copy_that_is_lost_is_written_again(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.remove(active("job1"))
    world = dynamo.load(NOW)
    assert free(world) <= 0
    assert quarantine(dynamo).snapshot.active == (job,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"used_slots": number(2)},
        {"used_slots": text("one")},
        {"free_slots": number(2)},
        {"free_slots": None},
        {"holders": number(1)},
        {"holders": None},
        {"version": text("new")},
        {"version": None, "used_slots": None, "free_slots": None, "holders": None},
    ],
    ids=str,
)
def test_a_wrong_ledger_closes_its_pool_until_it_is_mended(
    dynamo: DynamoStore, items: Table, wrong: dict[str, Any]
) -> None:
    a_queue(dynamo, a_pool("p5"), a_pool("p4"))
    job = runs(dynamo, "job1")
    right = items.get(by_hand.ledger())
    items.change(by_hand.ledger(), **wrong)
    world = dynamo.load(NOW)
    assert [each.key for each in world.poison] == ['["POOL#p5", "LEDGER"]']
    assert world.snapshot.active == (job,)
    assert free(world) < 0
    starts(dynamo, "job2", pool="p4", pools=("p4",))
    quarantine(dynamo)
    mended = items.get(by_hand.ledger())
    assert {**mended, "version": right["version"]} == right
    assert int(mended["version"]["N"]) > 0
    commit(dynamo, completing(job))
    starts(dynamo, "job3", slots=2)


def test_an_end_that_a_broken_ledger_cannot_take_in_is_tried_again(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.change(by_hand.ledger(), used_slots=text("one"))
    with pytest.raises(SlotQError):
        commit(dynamo, completing(job))
    quarantine(dynamo)
    commit(dynamo, completing(job))
    assert free(dynamo.load(NOW)) == 2


def test_broken_health_is_no_health(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.put(health_key("p5"), {"errors": text("some")})
    world = dynamo.load(NOW)
    assert len(world.poison) == 1
    assert world.snapshot.active == (job,)
    assert free(world) == 1
    assert free(quarantine(dynamo)) == 1
    assert items.only(POISON)


@pytest.mark.parametrize(
    "capacity",
    [
        text("three"),
        {"M": {"slots": {"N": "9" * 30}}},
        {"M": {"slots": {"N": "10001"}}},
        {"M": {"slots": {"N": "-5"}}},
        {"M": {"slots": {"N": "3"}, "gpus": {"N": "-1"}}},
    ],
)
def test_a_broken_definition_comes_back_from_the_record(
    dynamo: DynamoStore, items: Table, capacity: dict[str, Any]
) -> None:
    """So does one that nobody could have configured: it would start jobs on instances that there
    are not, or stop those that run."""
    pools = (a_pool("p5", 3, reserve_after=7), a_pool("p4"))
    a_queue(dynamo, *pools)
    job = starts(dynamo, "job1")
    items.change(("CONFIG", "POOL#p5"), capacity=capacity)
    world = dynamo.load(NOW)
    assert [each.name for each in world.snapshot.pools] == ["p4"]
    assert len(world.poison) == 1
    world = quarantine(dynamo)
    assert dynamo.pools() == pools
    assert world.snapshot.active == (job,)
    assert free(world) == 2


def test_a_definition_that_nobody_recorded_is_put_aside_and_may_be_given_again(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.remove(next(key for key in items.all() if key[1].startswith("CHANGE#")))
    items.change(("CONFIG", "POOL#p5"), name=None)
    quarantine(dynamo)
    assert dynamo.pools() == ()
    assert items.only(POISON)
    a_queue(dynamo, a_pool("p5", 3))
    world = dynamo.load(NOW)
    assert (world.poison, world.snapshot.active, free(world)) == ((), (job,), 2)


def test_a_job_that_ends_while_a_lost_definition_is_given_again_leaves_its_slots_free(
    dynamo: DynamoStore, client: Any, table: str, items: Table
) -> None:
    """What is free was reckoned before, from a ledger that is another by then."""
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.change(("CONFIG", "POOL#p5"), position=None)
    other = DynamoStore(client, table)
    with before_the_next(client, "TransactWriteItems", lambda: commit(other, completing(job))):
        a_queue(dynamo, a_pool("p5", 3))
    assert free(dynamo.load(NOW)) == 3
    assert list(dynamo.inspect()) == []


def test_a_definition_that_is_given_again_while_it_is_mended_stands(
    dynamo: DynamoStore, client: Any, table: str, items: Table
) -> None:
    a_queue(dynamo, a_pool("p5", 3))
    items.change(("CONFIG", "POOL#p5"), position=None)
    (poison,) = dynamo.load(NOW).poison
    other = DynamoStore(client, table)
    with before_the_next(client, "PutItem", lambda: a_queue(other, a_pool("p5", 2))):
        dynamo.quarantine(poison)
    assert dynamo.pools() == (a_pool("p5", 2),)
    assert list(dynamo.inspect()) == []


def test_an_item_that_is_mended_while_it_is_put_aside_stays(
    dynamo: DynamoStore, client: Any, items: Table
) -> None:
    """Somebody has mended it by hand since it was read."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    key = items.only("WAITING#")
    whole, main = items.get(key), items.get(("JOB#job1", "JOB"))
    items.change(("JOB#job1", "JOB"), jobState=FROM_A_NEWER_RELEASE)
    items.spoil_copy(key, jobState=FROM_A_NEWER_RELEASE)
    (poison, *_) = dynamo.load(NOW).poison

    def mended() -> None:
        items.put(key, whole)
        items.put(("JOB#job1", "JOB"), main)

    with before_the_next(client, "TransactWriteItems", mended), suppress(SlotQError):
        dynamo.quarantine(poison)
    assert dynamo.load(NOW).snapshot.waiting == (job,)
    assert list(dynamo.inspect()) == []


def test_a_broken_definition_may_be_given_again_at_once(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    runs(dynamo, "job1")
    items.change(("CONFIG", "POOL#p5"), position=None)
    a_queue(dynamo, a_pool("p5", 3))
    assert free(dynamo.load(NOW)) == 2


def test_a_line_whose_time_cannot_be_read_is_looked_into_all_the_same(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.change(line_key(line_of(job)), touched=text("now"))
    assert len(poisons(dynamo)) == 1
    assert waiting(dynamo.load(NOW)) == ["job1"]
    assert waiting(quarantine(dynamo)) == ["job1"]


def test_a_line_that_a_submission_touches_meanwhile_keeps_its_time(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    key = line_key(line_of(waits(dynamo, "job1")))
    items.change(key, touched=text("now"))
    (poison,) = poisons(dynamo)
    waits(dynamo, "job2", entry_time=NOW + 9)
    dynamo.quarantine(poison)
    assert items.get(key)["touched"] == number(NOW + 9)


def test_a_line_of_unknown_form_stops_no_other(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    waits(dynamo, "job1")
    items.put(("LINES", '["another", "form"]'), {"touched": number(NOW)})
    assert waiting(dynamo.load(NOW)) == ["job1"]
    assert waiting(quarantine(dynamo)) == ["job1"]


def test_kinds_of_items_that_a_newer_release_brought_disturb_nobody(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.put(("POOL#p5", "RESERVATION#x"), {"until": number(NOW)})
    items.change(by_hand.job("job1"), colour=text("blue"))
    items.spoil_copy(active("job1"), colour=text("blue"))
    world = dynamo.load(NOW)
    assert (world.poison, world.snapshot.active) == ((), (job,))
    assert list(dynamo.inspect()) == []


def test_a_job_whose_own_item_is_broken_comes_back_from_its_copy(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.change(by_hand.job("job1"), demand=None, version=None)
    assert poisons(dynamo) == []
    assert dynamo.job("job1") == job
    commit(dynamo, completing(job))


@pytest.mark.parametrize("version", [text("two"), number(0), number(-1), None])
def test_a_broken_job_does_not_stop_the_pass_that_plans_for_it(
    dynamo: DynamoStore, items: Table, version: dict[str, Any] | None
) -> None:
    """Its copy is whole, so the pass plans for it; its commit is refused once, not for ever."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.change(by_hand.job("job1"), version=version)
    with pytest.raises(Conflict):
        commit(dynamo, starting(job))
    commit(dynamo, starting(job))


def test_a_stale_copy_does_not_stop_the_pass_that_plans_by_it(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    stale = items.get(items.only("WAITING"))
    (job,) = dynamo.commit([claiming(job)])
    items.put(items.only("WAITING"), stale)
    items.remove(by_hand.claim("job1"))
    items.change(by_hand.ledger(), holders=number(0))
    (seen,) = dynamo.load(NOW).snapshot.waiting
    assert seen.version < job.version
    with pytest.raises(Conflict):
        commit(dynamo, starting(seen))
    quarantine(dynamo)
    assert dynamo.load(NOW).snapshot.waiting == (job,)


def test_where_nothing_is_whole_the_slots_stay_held_until_people_mend_it(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo, a_pool("p5", 3))
    job, other = runs(dynamo, "job1", slots=2), runs(dynamo, "other")
    whole = items.get(by_hand.job("job1"))
    items.change(by_hand.job("job1"), jobState=FROM_A_NEWER_RELEASE)
    items.spoil_copy(active("job1"), jobState=FROM_A_NEWER_RELEASE)
    world = quarantine(dynamo)
    assert world.snapshot.active == (other,)
    assert free(world) == 0
    assert items.get(held_key("p5", "job1"))["demand"] == {"M": {"slots": number(2)}}
    assert items.get(items.only(POISON))["item"]["M"]["job"]
    assert items.get(by_hand.job("job1"))["jobState"] == FROM_A_NEWER_RELEASE
    with pytest.raises(NotUnderstood, match="job1"):
        dynamo.job("job1")
    commit(dynamo, completing(other))
    assert free(dynamo.load(NOW)) == 1
    found = list(dynamo.inspect(mend=True))
    assert {finding.kind for finding in found if not finding.mended} >= {"held", "put_aside"}
    assert free(dynamo.load(NOW)) == 1
    items.put(by_hand.job("job1"), whole)  # The newer release is deployed, say.
    list(dynamo.inspect(mend=True))
    assert list(dynamo.inspect()) == []
    world = dynamo.load(NOW)
    assert (world.poison, world.snapshot.active, free(world)) == ((), (job,), 1)


def test_a_broken_wake_stops_no_pass(dynamo: DynamoStore, items: Table) -> None:
    items.put(wake_key(), {"generation": text("?"), "holder": text("x"), "until": text("late")})
    generation = dynamo.take_lease("one", now=NOW, until=NOW + 9)
    assert generation is not None
    dynamo.bump()
    assert not dynamo.end_lease("one", generation=generation)
    generation = dynamo.take_lease("one", now=NOW, until=NOW + 9)
    assert dynamo.end_lease("one", generation=generation)
    items.change(wake_key(), generation=text("?"))
    dynamo.bump()
    assert dynamo.take_lease("one", now=NOW, until=NOW + 9) is not None


def test_a_lease_that_nobody_holds_is_free_whenever_it_ends(
    dynamo: DynamoStore, items: Table
) -> None:
    items.put(wake_key(), {"until": number(NOW + 5)})
    assert dynamo.take_lease("one", now=NOW, until=NOW + 9) is not None
    assert dynamo.take_lease("two", now=NOW, until=NOW + 9) is None


@pytest.mark.parametrize("odd", ["0", "-1", "3.5", "1e20", "9" * 38])
def test_a_generation_that_nobody_counted_is_seen_to(
    dynamo: DynamoStore, items: Table, odd: str
) -> None:
    """Else the pass that holds the lease would be asked for another one for ever."""
    items.put(wake_key(), {"generation": {"N": odd}})
    generation = dynamo.take_lease("one", now=NOW, until=NOW + 9, only_news=True)
    assert generation is not None
    assert dynamo.end_lease("one", generation=generation)
    assert dynamo.take_lease("two", now=NOW, until=NOW + 9, only_news=True) is None
    dynamo.bump()
    assert dynamo.take_lease("two", now=NOW, until=NOW + 9, only_news=True) == generation + 1


def test_a_broken_turn_comes(dynamo: DynamoStore, items: Table) -> None:
    items.put(("SCHEDULER", "RECONCILE"), {"nextAt": text("soon")})
    assert dynamo.next_turn("RECONCILE") is None
    assert dynamo.take_turn("RECONCILE", now=NOW, next_at=NOW + 9)
    assert not dynamo.take_turn("RECONCILE", now=NOW, next_at=NOW + 9)


def test_what_is_learned_of_a_pool_may_be_lost_but_stops_nothing(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    items.put(health_key("p5"), {"errors": text("some")})
    items.change(by_hand.ledger(), foreign_slots=text("some"))
    items.put(("SEEN", "job1"), {"ours": text("no")})
    assert dynamo.pool("p5") == a_pool()
    dynamo.set_foreign("p5", Demand(slots=1))
    dynamo.set_health("p5", PoolHealth(errors=1))
    assert dynamo.sightings() == ()
    with pytest.raises(Unavailable):
        dynamo.configure([], who="the test", now=NOW)
    quarantine(dynamo)
    dynamo.set_foreign("p5", Demand(slots=1))
    pool = dynamo.pool("p5")
    assert pool
    assert (pool.foreign, pool.health.errors) == (Demand(slots=1), 1)
    items.change(("CONFIG", "POOL#p5"), name=None)
    assert dynamo.pool("p5") is None


def test_the_configuration_changes_even_if_its_revision_cannot_be_read(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    items.change(("CONFIG", "REVISION"), revision=text("one"))
    a_queue(dynamo, a_pool("p5", 3))
    a_queue(dynamo, a_pool("p5", 4))
    assert dynamo.pools() == (a_pool("p5", 4),)


def test_a_broken_request_or_name_is_an_error_of_its_job_alone(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    starts(dynamo, "job1")
    items.change(("JOB#job1", "REQUEST"), jobDetails={"B": b"?"})
    with pytest.raises(NotUnderstood, match="job1"):
        dynamo.request("job1")
    items.change(("NAME#job1", "NAME"), jobName=None)
    with pytest.raises(NotUnderstood, match="job1"):
        dynamo.job_of("job1")


def test_listings_pass_over_what_they_cannot_read(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    waits(dynamo, "job1")
    waits(dynamo, "job2")
    items.change(by_hand.job("job1"), demand=None)
    assert [job.name for job in dynamo.jobs([a_job("x").state])] == ["job2"]
    job = commit(dynamo, running(starts(dynamo, "job3")))
    items.change(("JOB#job3", "ATTEMPT#0001"), number=None)
    assert dynamo.attempts("job3") == (job.attempt,)
