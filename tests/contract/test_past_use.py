"""Past use: added up from the records once an hour, and read by each pass with what it reads
anyway."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotq.simulate import load, simulate
from slotq.simulate.report import differences, unequal
from slotq.simulate.run.live import live_record
from slotq_core.adapters.dynamodb.layout.table import revision_key
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.errors import Conflict
from slotq_core.model.projects import EVERYWHERE, NO_PAST_USE, PastUse, Project, UseOf
from slotq_core.model.sharing import FairShare, Sharing
from slotq_core.operations import status
from slotq_core.operations.usage import past_use
from slotq_core.operations.usage.past_use import PastUses
from slotq_core.policy.cycle import plan
from slotq_core.policy.order import precedence
from slotq_core.policy.plan import Start
from slotq_core.ports.store import Store
from slotq_core.usage.calendar_days import DAY
from slotq_core.usage.past_use import hour_of
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.test_budgets import manager_of
from tests.contract.test_dynamodb_cost import measured
from tests.contract.test_usage import HOUR, MIDNIGHT, StandingClock, add_up, ends, lives
from tests.contract.worlds import NOW, a_pool, a_queue, commit, runs, waits

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "fair_over_time"
PROJECTS = (Project(name="a"), Project(name="b"))
AT = hour_of(NOW)
WEEK = FairShare(half_life=DAY)


def shared(store: Store, fair_share: FairShare | None = WEEK) -> Store:
    if not store.configuration.pools():
        a_queue(store, a_pool("p5", 50))
    sharing = Sharing(projects=PROJECTS, fair_share=fair_share)
    store.configuration.change(sharing=sharing, who="test", now=NOW)
    return store


def count(store: Store, now: int = NOW, *, ticks: int = 0, by: PastUses | None = None) -> None:
    clock = StandingClock(now)
    clock.ticks = ticks
    by = by or PastUses(store.usage, clock)
    by.count(store.configuration.read(), now)


def parts(store: Store, now: int = NOW) -> dict[str, int]:
    """The 64ths that a pass plans with."""
    snapshot = store.worlds.load(now).snapshot
    assert store.worlds.load_all(now).snapshot.past_use == snapshot.past_use
    return dict(snapshot.past_use.parts.get(EVERYWHERE, {}))


def test_what_has_ended_and_what_runs_counts_until_the_hour(store: Store) -> None:
    shared(store)
    lives(store, "a1", project="a", admitted=AT - 3 * HOUR, ended=AT - HOUR)
    lives(store, "b1", project="b", admitted=AT - HOUR, ended=None)
    lives(store, "b2", project="b", admitted=AT - HOUR, ended=AT + 1)
    assert parts(store) == {}
    count(store)
    assert parts(store) == {"a": 32, "b": 32}
    kept = store.configuration.read().past_use
    assert (kept.at, kept.half_life) == (AT, DAY)
    assert kept.slot_seconds == {EVERYWHERE: 4 * 3600}


def test_days_that_are_added_up_count_as_their_records_did(store: Store) -> None:
    shared(store)
    for day in range(6):
        at = MIDNIGHT - day * DAY
        name = "ab"[day % 2]
        lives(
            store, f"{name}{day}", project=name, admitted=at - 5 * HOUR, ended=at + day * HOUR // 2
        )
    count(store)
    before = store.configuration.read().past_use
    add_up(store, NOW)
    assert store.usage.sums()
    shared(store, FairShare(half_life=2 * DAY))
    count(store)
    shared(store)
    count(store)
    after = store.configuration.read().past_use
    assert after == before
    assert sum(parts(store).values()) == 64


def test_any_order_of_ends_gives_the_same(store: Store) -> None:
    """What ended is found late, and then counts as if it had been found at once."""
    shared(store)
    lives(store, "a1", project="a", admitted=AT - 5 * HOUR, ended=AT - 2 * HOUR)
    late = lives(store, "b1", project="b", admitted=AT - 5 * HOUR, ended=None)
    count(store)
    assert parts(store) == {"a": 24, "b": 40}
    commit(store, ends(late, AT - 2 * HOUR, learned=NOW))
    count(store, NOW + HOUR)
    assert parts(store, NOW + HOUR) == {"a": 32, "b": 32}


def test_an_hour_is_counted_once_and_two_counts_at_once_do_not_mix(store: Store) -> None:
    shared(store)
    lives(store, "a1", project="a", admitted=AT - HOUR, ended=AT)
    before = store.configuration.read()
    count(store)
    version = store.configuration.read().past_use_version
    count(store)
    PastUses(store.usage, StandingClock(NOW)).count(before, NOW)
    after = store.configuration.read()
    assert (after.past_use_version, after.revision) == (version, before.revision)
    with pytest.raises(Conflict):
        store.usage.keep_past_use(version - 1, PastUse(at=1))


def test_a_count_that_takes_long_goes_on_with_the_next(store: Store) -> None:
    shared(store)
    for day in range(6):
        lives(store, f"a{day}", project="a", admitted=AT - day * DAY - HOUR, ended=AT - day * DAY)
    clock = StandingClock(NOW)
    clock.ticks = past_use.BUDGET // 2
    counting, times = PastUses(store.usage, clock), 0
    while not parts(store):
        clock.moment, times = NOW, times + 1
        counting.count(store.configuration.read(), NOW)
    assert times == 9  # The days of eight half-lives, one with each tick.
    kept = store.configuration.read().past_use
    shared(store, None)
    shared(store, FairShare(half_life=2 * DAY))
    count(store)
    shared(store)
    count(store)
    assert store.configuration.read().past_use == kept


def test_the_tick_adds_up_and_a_pass_asks_for_nothing_more(evented_client: EventedDynamo) -> None:
    costs = []
    for number, fair_share in enumerate((None, WEEK)):
        evented_client.create_table(**table_definition(f"queue{number}"))
        store = DynamoStore(evented_client, f"queue{number}", clock=lambda: NOW)
        shared(store, fair_share)
        lives(store, "a1", project="a", admitted=AT - HOUR, ended=AT)
        manager = manager_of(store)
        manager.periodic.count_past_use()
        assert bool(store.configuration.read().past_use.parts) is (number == 1)
        manager.passes.run()
        with measured(evented_client) as meter:
            manager.passes.run()
        costs.append((len(meter.calls), meter.read_units))
    assert costs[0] == costs[1]


def test_without_the_setting_a_tick_makes_no_call(evented_client: EventedDynamo) -> None:
    evented_client.create_table(**table_definition("queue"))
    store = shared(DynamoStore(evented_client, "queue", clock=lambda: NOW), None)
    stand, manager = store.configuration.read(), manager_of(store)
    with measured(evented_client) as meter:
        manager.periodic.count_past_use(stand)
    assert meter.calls == []


def test_a_table_of_an_earlier_version_and_a_spoiled_sum_count_anew(
    dynamo: DynamoStore, items: Table
) -> None:
    shared(dynamo)
    lives(dynamo, "a1", project="a", admitted=AT - HOUR, ended=AT)
    assert "pastUse" not in items.get(revision_key())
    assert dynamo.configuration.read().past_use == NO_PAST_USE
    count(dynamo)
    for spoiled in (
        {"pastUse": {"B": b"nonsense"}},
        {"pastUseVersion": {"S": "x"}, "pastUse": {"B": b""}},
        {"pastUse": {"N": "1"}},
    ):
        items.change(revision_key(), **spoiled)
        assert parts(dynamo) == {}
        count(dynamo)
        assert parts(dynamo) == {"a": 64}


@pytest.mark.parametrize("by_user", [True, False], ids=["apart", "mixed"])
def test_jobs_of_users_who_have_used_less_go_first(store: Store, by_user: bool) -> None:
    """Also jobs that entered when the use of users did not count. Places follow the order, of jobs
    in lines of one user."""
    a_queue(store, a_pool("p5", 50))
    anna, ben, carl = (f"arn:aws:iam::123456789012:user/{name}" for name in ("anna", "ben", "carl"))
    lives(store, "done", submitter=anna, admitted=AT - HOUR, ended=AT)
    for number in range(30):
        waits(
            store, f"a{number:02d}", submitter=anna, entry_time=NOW + number, line_by_user=by_user
        )
    waits(store, "b", submitter=ben, entry_time=NOW + 50, line_by_user=by_user)
    waits(store, "c", submitter=carl, entry_time=NOW + 60, line_by_user=by_user)
    runs(store, "full", submitter="", entry_time=NOW - 9, slots=49)

    def first() -> str:
        world = store.worlds.load(NOW)
        planned = plan(world.snapshot, NOW, more=world.more)
        assert planned.decisions == plan(store.worlds.load_all(NOW).snapshot, NOW).decisions
        (start,) = planned.decisions
        assert isinstance(start, Start)
        return start.job.name

    def places() -> dict[str, int]:
        world, found = store.worlds.load(NOW), {}
        for name in ("a00", "a29", "b", "c"):
            found[name] = world.ahead_of(store.jobs.get(name)).jobs
        everything = store.worlds.load_all(NOW).snapshot
        listed = status.places(everything.waiting, precedence(everything))
        assert not by_user or {name: listed[name] - 1 for name in found} == found
        return {name: place - 1 for name, place in listed.items() if name in found}

    assert (first(), places()) == ("a00", {"a00": 0, "a29": 29, "b": 30, "c": 31})
    sharing = Sharing(fair_share=FairShare(half_life=DAY, of=UseOf.USERS))
    store.configuration.change(sharing=sharing, who="test", now=NOW)
    count(store)
    assert store.configuration.read().past_use.users == {"": {anna: 64}}
    assert (first(), places()) == ("b", {"a00": 2, "a29": 31, "b": 0, "c": 1})


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_scenarios_hold_on_dynamodb(path: Path, dynamo: DynamoStore) -> None:
    scenario = load(path)
    live = live_record(scenario, dynamo)
    assert unequal(simulate(scenario), live) == []
    assert differences(scenario, live) == []
