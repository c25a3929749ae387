"""The wake and its lease, the turns of periodic tasks, and their sightings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, SlotQError
from slotq_core.model.demand import Demand
from slotq_core.model.pools import PoolHealth
from slotq_core.ports.store import Store
from slotq_core.ports.training import Sighting
from tests.contract.test_races import THREADS, at_once, won
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    cancelling,
    commit,
    runs,
    waits,
)

LATER = NOW + 40_000
YEAR = 365 * 86_400_000


def take(store: Store, holder: str, now: int = NOW) -> int | None:
    return store.scheduler.take_lease(holder, now=now, until=now + 40_000)


def test_one_holder_has_the_lease_until_it_gives_it_back(store: Store) -> None:
    assert take(store, "one") == 0
    assert take(store, "two") is None
    assert take(store, "one") == 0
    assert store.scheduler.end_lease("one", generation=0)
    assert take(store, "two") == 0


def test_a_lease_expires(store: Store) -> None:
    take(store, "dead")
    assert take(store, "next", LATER - 1) is None
    assert take(store, "next", LATER) == 0
    assert not store.scheduler.end_lease("dead", generation=0)
    assert not store.scheduler.end_lease("dead", generation=None)
    assert take(store, "third", LATER) is None


def test_taking_a_lease_again_prolongs_it(store: Store) -> None:
    take(store, "one")
    take(store, "one", LATER - 1)
    assert take(store, "two", LATER) is None


def test_every_bump_raises_the_generation(store: Store) -> None:
    at_once(*[store.scheduler.bump] * 3)
    assert take(store, "one") == 3
    store.scheduler.bump()
    assert take(store, "one") == 4


def test_a_bump_during_the_lease_is_seen_at_its_end(store: Store) -> None:
    """The bumping handler was refused the lease and went away, so the holder must look again."""
    generation = take(store, "one")
    store.scheduler.bump()
    assert take(store, "two") is None
    assert not store.scheduler.end_lease("one", generation=generation)
    assert take(store, "two") is None
    assert store.scheduler.end_lease("one", generation=take(store, "one"))


def test_the_very_first_bump_is_seen(store: Store) -> None:
    assert take(store, "one") == 0
    store.scheduler.bump()
    assert not store.scheduler.end_lease("one", generation=0)


def test_a_lease_can_be_given_back_in_any_case(store: Store) -> None:
    take(store, "one")
    store.scheduler.bump()
    assert store.scheduler.end_lease("one", generation=None)
    assert take(store, "two") == 1
    assert not store.scheduler.end_lease("one", generation=None)


def test_a_bump_tells_when_the_present_lease_ends(store: Store) -> None:
    assert store.scheduler.bump() is None
    generation = take(store, "one")
    assert store.scheduler.bump() == LATER
    assert not store.scheduler.end_lease("one", generation=generation), "the holder sees it"
    take(store, "one", NOW + 1)
    assert store.scheduler.bump() == LATER + 1
    assert store.scheduler.end_lease("one", generation=None)
    assert store.scheduler.bump() is None


def bump_and_take(store: Store, holder: str, now: int = NOW) -> int | None:
    return store.scheduler.take_lease(holder, now=now, until=now + 40_000, bump=True)


def test_a_bump_takes_a_lease_that_nobody_holds(store: Store) -> None:
    assert bump_and_take(store, "one") == 1
    assert take(store, "two") is None
    assert store.scheduler.end_lease("one", generation=1)
    assert news(store, "late") is None
    assert bump_and_take(store, "two") == 2


def test_a_bump_counts_where_another_holds_the_lease(store: Store) -> None:
    generation = take(store, "one")
    assert bump_and_take(store, "two") is None
    assert not store.scheduler.end_lease("one", generation=generation)
    assert take(store, "one") == 1


def test_a_bump_takes_a_lease_that_has_run_out_and_renews_its_own(store: Store) -> None:
    take(store, "dead")
    assert bump_and_take(store, "next", LATER - 1) is None
    assert bump_and_take(store, "next", LATER) == 2
    assert bump_and_take(store, "next", LATER + 1) == 3
    assert take(store, "other", LATER + 40_000) is None, "it was renewed"
    assert take(store, "other", LATER + 40_001) == 3


def test_exactly_one_of_many_bumps_gets_the_lease(racing_store: Store) -> None:
    for turn in range(5):
        now = NOW + turn * 40_000
        takers = [partial(bump_and_take, racing_store, f"holder{n}", now) for n in range(THREADS)]
        assert len([each for each in won(at_once(*takers)) if each is not None]) == 1
    assert take(racing_store, "last", NOW + 5 * 40_000) == 5 * THREADS


def news(store: Store, holder: str, now: int = NOW) -> int | None:
    return store.scheduler.take_lease(holder, now=now, until=now + 40_000, only_news=True)


def test_a_handled_generation_is_not_news(store: Store) -> None:
    store.scheduler.bump()
    assert store.scheduler.end_lease("one", generation=news(store, "one"))
    assert news(store, "late") is None
    assert take(store, "tick") == 1, "time may call for a pass all the same"
    assert store.scheduler.end_lease("tick", generation=1)
    assert news(store, "late") is None
    store.scheduler.bump()
    assert news(store, "next") == 2


def test_the_very_first_pass_has_news(store: Store) -> None:
    assert news(store, "one") == 0
    assert store.scheduler.end_lease("one", generation=0)
    store.scheduler.bump()
    assert news(store, "one") == 1


def test_a_bump_during_a_pass_is_news_for_the_holder_and_the_next(store: Store) -> None:
    store.scheduler.bump()
    assert news(store, "one") == 1
    store.scheduler.bump()
    assert not store.scheduler.end_lease("one", generation=1)
    assert news(store, "one") == 2
    assert news(store, "two", LATER) == 2, "its holder has died"


def test_an_unfinished_pass_leaves_news(store: Store) -> None:
    """A pass that failed or used up its budget needs another, without a bump."""
    store.scheduler.bump()
    store.scheduler.end_lease("one", generation=take(store, "one"))
    assert take(store, "tick") == 1
    assert store.scheduler.end_lease("tick", generation=None)
    assert news(store, "next") == 1


def test_news_waits_for_the_lease(store: Store) -> None:
    store.scheduler.bump()
    take(store, "one")
    assert news(store, "two") is None
    assert news(store, "two", LATER) == 1


def test_exactly_one_of_many_gets_the_lease(racing_store: Store) -> None:
    for turn in range(5):
        now = NOW + turn * 40_000
        takers = [partial(take, racing_store, f"holder{n}", now) for n in range(THREADS)]
        assert len([each for each in won(at_once(*takers)) if each is not None]) == 1


def test_no_bump_is_lost_among_many(racing_store: Store) -> None:
    at_once(*[racing_store.scheduler.bump] * THREADS)
    assert take(racing_store, "one") == THREADS


def test_a_lease_from_a_wrong_clock_does_not_stop_the_queue(store: Store) -> None:
    take(store, "jumped", NOW + YEAR)
    assert take(store, "one") == 0


def test_a_turn_comes_once(store: Store) -> None:
    assert store.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 300)
    assert not store.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 300)
    assert not store.scheduler.take_turn("RECONCILE", now=NOW + 299, next_at=NOW + 600)
    assert store.scheduler.take_turn("RECONCILE", now=NOW + 300, next_at=NOW + 600)
    assert store.scheduler.take_turn("another", now=NOW, next_at=NOW + 300)


def test_the_next_turn_is_known_once_one_was_taken(store: Store) -> None:
    assert store.scheduler.next_turn("RECONCILE") is None
    store.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 300)
    assert store.scheduler.next_turn("RECONCILE") == NOW + 300
    store.scheduler.postpone("RECONCILE", next_at=NOW + 100)
    assert store.scheduler.next_turn("RECONCILE") == NOW + 100


def test_a_turn_can_be_postponed_and_brought_forward(store: Store) -> None:
    store.scheduler.postpone("RECONCILE", next_at=NOW + 100)
    assert not store.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 100)
    store.scheduler.postpone("RECONCILE", next_at=NOW)
    assert store.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 100)


def test_exactly_one_of_many_gets_a_turn(racing_store: Store) -> None:
    store = racing_store
    takers = [lambda: store.scheduler.take_turn("RECONCILE", now=NOW, next_at=LATER)] * THREADS
    assert sorted(at_once(*takers)) == [False] * (THREADS - 1) + [True]


def test_a_turn_set_by_a_wrong_clock_still_comes(store: Store) -> None:
    store.scheduler.take_turn("RECONCILE", now=NOW + YEAR, next_at=NOW + YEAR + 300)
    assert store.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW + 300)


def a_sighting(training_job: str, *, ours: bool = False, stopped: bool = False) -> Sighting:
    return Sighting(
        training_job=training_job,
        ours=ours,
        instance_type="ml.p5.48xlarge",
        instances=2,
        first_seen=NOW,
        stopped=stopped,
    )


def test_sightings_are_kept_until_forgotten(store: Store) -> None:
    store.health.remember(a_sighting("orphan", ours=True))
    store.health.remember(a_sighting("foreign"))
    store.health.remember(a_sighting("orphan", ours=True, stopped=True))
    assert store.health.sightings() == (
        a_sighting("foreign"),
        a_sighting("orphan", ours=True, stopped=True),
    )
    store.health.forget("orphan")
    store.health.forget("never-seen")
    assert store.health.sightings() == (a_sighting("foreign"),)


def moved(store: Store, change: Callable[[], object]) -> bool:
    """Whether a handler's change moves the version, by its last call at the latest."""
    before = store.scheduler.version()
    change()
    store.scheduler.announce()
    after = store.scheduler.version()
    store.scheduler.announce()
    assert store.scheduler.version() == after, "a change is announced once"
    return after != before


def test_each_change_that_people_see_moves_the_version(store: Store) -> None:
    assert moved(store, lambda: a_queue(store))
    assert moved(store, store.scheduler.bump)
    assert moved(store, lambda: waits(store, "job1"))
    job = store.jobs.get("job1")
    assert job is not None
    assert moved(store, lambda: commit(store, cancelling(job)))
    assert moved(store, lambda: store.health.set("p5", PoolHealth(errors=1)))
    assert moved(store, lambda: store.health.set_foreign("p5", Demand(slots=1)))
    pools = (a_pool("p5", 3),)
    assert moved(store, lambda: store.configuration.change(pools, who="x", now=NOW))


def test_what_changes_nothing_moves_nothing(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    store.scheduler.announce()

    def refused() -> None:
        with pytest.raises(SlotQError):
            waits(store, "job1")
        with pytest.raises(Conflict):
            store.decisions.commit([replace(cancelling(job), before=replace(job, version=7))])

    def reads() -> None:
        store.jobs.get("job1")
        store.worlds.load(NOW)
        store.worlds.pools(NOW)
        store.configuration.read()

    def passes() -> None:
        generation = take(store, "one")
        assert store.scheduler.end_lease("one", generation=generation)

    for nothing in (refused, reads, passes):
        assert not moved(store, nothing), nothing.__name__


def test_the_end_of_a_lease_tells_what_its_holder_has_changed(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    store.scheduler.announce()
    before = store.scheduler.version()
    assert before.busy_until == 0
    generation = take(store, "one")
    assert store.scheduler.version() == replace(before, busy_until=LATER)
    commit(store, cancelling(job))
    assert store.scheduler.end_lease("one", generation=generation)
    after = store.scheduler.version()
    assert after.text != before.text
    assert after.busy_until == 0


def test_a_lease_that_cannot_end_leaves_the_change_to_the_next_call(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    store.scheduler.announce()
    generation = take(store, "one")
    commit(store, cancelling(job))
    before = store.scheduler.version()
    assert not store.scheduler.end_lease("other", generation=generation)
    store.scheduler.announce()
    if isinstance(store, DynamoStore):
        assert store.scheduler.version() != before


def test_the_pools_are_read_without_what_waits(store: Store) -> None:
    a_queue(store, a_pool("p5", 2), a_pool("p4", 3))
    runs(store, "job1")
    store.health.set("p4", PoolHealth(errors=2))
    world = store.worlds.load(NOW)
    found = store.worlds.pools(NOW)
    assert [pool for pool, _ in found] == [*world.snapshot.pools]
    assert {pool.name: ledger for pool, ledger in found} == dict(world.ledgers)
