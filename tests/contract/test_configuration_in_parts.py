"""A configuration that does not fit one transaction: whole or not at all for those who read it,
whoever dies or interferes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from inspect import signature
from typing import Any
from unittest.mock import patch

import pytest

from slotq_core.adapters.dynamodb.accounting.pool_ledgers import LEASE, mark_of
from slotq_core.adapters.dynamodb.layout import expressions
from slotq_core.adapters.dynamodb.layout.table import ledger_key, revision_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import ConfigurationLost, Conflict, PoolInUse, Unavailable
from slotq_core.model.callers import NO_LIMITS
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool, PoolHealth, PoolState
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.wire.limits_definition import limits_from
from tests.contract.by_hand import Table, number
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.faults import before_the_next, on
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import (
    NOW,
    a_pool,
    commit,
    completing,
    runs,
    starting,
    starts,
    waits,
)
from tests.faults.mutants import without_condition

LATER = NOW + LEASE
LIMITS = limits_from({"waiting": 7})
SHARED = Sharing(projects=(Project(name="vision"),))


class Died(BaseException):
    """The handler's process is gone."""


def pools(count: int, slots: int = 2, **fields: Any) -> tuple[Pool, ...]:
    return tuple(a_pool(f"p{place:03d}", slots, **fields) for place in range(count))


def configure(store: DynamoStore, wanted: tuple[Pool, ...], now: int = NOW, **more: Any) -> None:
    store.configuration.change(wanted, who="ada", now=now, **more)


def small(client: Any, table: str) -> DynamoStore:
    """A handler whose transactions have few actions."""
    return DynamoStore(client, table, most_actions=4, clock=lambda: NOW)


@contextmanager
def dying(client: Any, at: int, *, after: bool) -> Iterator[list[str]]:
    """Let the handler die before its `at`-th write, or after it took effect."""
    writes: list[str] = []

    def die(model: Any, **_: Any) -> None:
        if model.name in {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}:
            writes.append(model.name)
            if len(writes) == at:
                raise Died

    with on(client, f"{'after' if after else 'before'}-call.dynamodb", die):
        yield writes


@pytest.fixture
def quick(evented_store: tuple[DynamoStore, str], evented_client: EventedDynamo) -> DynamoStore:
    return small(evented_client, evented_store[1])


@pytest.fixture
def other(evented_store: tuple[DynamoStore, str], evented_client: EventedDynamo) -> DynamoStore:
    return small(evented_client, evented_store[1])


@pytest.fixture
def rows(evented_store: tuple[DynamoStore, str], evented_client: EventedDynamo) -> Table:
    return Table(evented_client, evented_store[1])


def test_three_hundred_pools_live_through_every_kind_of_change(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    other = DynamoStore(client, table, clock=lambda: NOW)
    steps = (
        pools(300),
        pools(300, 3),
        (*pools(300, 3)[150:], *pools(150, 1, state=PoolState.PAUSED)),
        pools(120, 3),
        pools(1),
    )
    for revision, wanted in enumerate(steps, 1):
        configure(dynamo, wanted)
        found = other.configuration.read()
        assert (found.pools, found.revision, found.changing) == (wanted, revision, False)
        assert dynamo.worlds.load(NOW).snapshot.pools == wanted
    assert [*dynamo.repair.inspect()] == []
    record = other.configuration.changes(limit=9)
    assert [(it.before, it.after) for it in record] == [*zip(((), *steps), steps, strict=False)][
        ::-1
    ]


def test_a_kept_configuration_of_300_pools_costs_one_read_and_a_new_one_four(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    configure(dynamo, pools(300))
    found = dynamo.configuration.read()
    with measured(client) as meter:
        assert dynamo.configuration.read() == found
    assert (meter.calls, meter.read_units) == (["GetItem"], 1)
    with measured(client) as meter:
        assert DynamoStore(client, table).configuration.read() == found
    assert sorted(meter.calls) == ["GetItem", "Query", "Query"]
    assert meter.read_units <= 6


def test_three_hundred_pools_are_made_in_few_transactions(dynamo: DynamoStore, client: Any) -> None:
    with measured(client) as meter:
        configure(dynamo, pools(300))
    assert meter.calls.count("TransactWriteItems") == 5
    with measured(client) as meter:
        configure(dynamo, pools(300, 5))
    assert meter.calls.count("TransactWriteItems") == 5
    assert len(meter.calls) <= 14


def test_few_pools_stay_in_items_of_their_own_until_they_do_not_fit(
    quick: DynamoStore, rows: Table
) -> None:
    configure(quick, pools(1))
    assert ("CONFIG", "POOL#p000") in rows.all()
    quick.configuration.change(limits=LIMITS, sharing=SHARED, who="ada", now=NOW)
    configure(quick, pools(3))
    configure(quick, pools(3, 5))
    assert not [key for key in rows.all() if key[0] == "CONFIG" and key[1].startswith("POOL#")]
    found = quick.configuration.read()
    assert (found.pools, found.sharing, found.limits) == (pools(3, 5), SHARED, LIMITS)
    quick.configuration.change(sharing=Sharing(), limits=NO_LIMITS, who="ada", now=NOW)
    found = quick.configuration.read()
    assert (found.pools, found.sharing, found.limits) == (pools(3, 5), Sharing(), NO_LIMITS)
    last, *_, first = quick.configuration.changes(limit=9)
    assert (last.before, last.after, last.sharing) == (pools(3, 5),) * 2 + ((SHARED, Sharing()),)
    assert (first.before, first.after) == ((), pools(1))


def test_use_marks_and_health_live_through_a_change(quick: DynamoStore) -> None:
    configure(quick, pools(5))
    job = runs(quick, "job1", pools=("p000",), pool="p000")
    quick.health.set("p000", PoolHealth(errors=2))
    quick.health.set_foreign("p001", Demand(slots=1))
    configure(quick, pools(5, 4))
    world = quick.worlds.load(NOW)
    assert world.ledgers["p000"].used == Demand(slots=1)
    assert world.snapshot.pools[0].health.errors == 2
    assert world.snapshot.pools[1].foreign == Demand(slots=1)
    assert world.snapshot.active == (job,)
    assert [*quick.repair.inspect()] == []
    commit(quick, completing(job))
    assert quick.worlds.load(NOW).ledgers["p000"].used == Demand()


def test_a_pool_in_use_refuses_the_whole_change(quick: DynamoStore) -> None:
    configure(quick, pools(6))
    runs(quick, "job1", pools=("p005",), pool="p005")
    before = quick.configuration.read()
    for dry_run in (True, False):
        with pytest.raises(PoolInUse, match="p005"):
            configure(quick, pools(5, 9), dry_run=dry_run)
    assert quick.configuration.read() == before
    assert [*quick.repair.inspect()] == []


def test_a_job_that_starts_between_the_parts_keeps_its_pool(
    quick: DynamoStore, other: DynamoStore, evented_client: EventedDynamo
) -> None:
    """The pool's part comes after others, which are taken back."""
    configure(quick, pools(8))
    job = waits(quick, "job1", pools=("p007",))
    start = partial(commit, other, starting(job, "p007"))
    with (
        before_the_next(evented_client, "TransactWriteItems", start),
        pytest.raises(PoolInUse, match="p007"),
    ):
        configure(quick, pools(5, 1))
    found = other.configuration.read()
    assert (found.pools, found.changing) == (pools(8), False)
    assert [*other.repair.inspect()] == []
    assert not other.worlds.load(NOW).undecidable


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((), pools(7)),
        (pools(7), pools(7, 1)),
        (pools(7), pools(7, 5)),
        (pools(7), pools(7, state=PoolState.PAUSED)),
        (pools(7), pools(2)),
        (pools(7), (*pools(4, 9)[2:], *pools(9)[4:])),
    ],
)
def test_whoever_dies_wherever_leaves_the_old_configuration_or_the_new_one(
    evented_client: EventedDynamo,
    after: bool,
    before: tuple[Pool, ...],
    wanted: tuple[Pool, ...],
) -> None:
    for at in range(1, 99):
        for table in _fresh(evented_client):
            dead, heir = small(evented_client, table), small(evented_client, table)
            configure(heir, before) if before else None
            first = heir.configuration.read()
            with dying(evented_client, at, after=after) as writes, suppress(Died):
                configure(dead, wanted)
            if len(writes) < at:
                assert at > 4
                return
            found = heir.configuration.read()
            assert (found.revision, found.pools) in {
                (first.revision, before),
                (first.revision + 1, wanted),
            }
            if found.changing:
                with pytest.raises(Unavailable):
                    configure(heir, pools(1), NOW + LEASE - 1)
                with pytest.raises(Unavailable):
                    heir.configuration.take_back(NOW + LEASE - 1)
                assert found.pools == before
                heir.configuration.take_back(LATER)
                assert heir.configuration.read() == first
            assert [*heir.repair.inspect()] == []
            world = heir.worlds.load(LATER)
            assert (world.snapshot.pools, world.undecidable) == (found.pools, "")
            assert world.poison == ()
            configure(heir, wanted, LATER)
            configure(heir, pools(3, 7), LATER)
            assert heir.configuration.read().pools == pools(3, 7)
            assert [*heir.repair.inspect()] == []
            assert not [key for key in Table(evented_client, table).all() if key[1] == "POOL#p000"]


def _fresh(client: EventedDynamo) -> Iterator[str]:
    from tests.contract.conftest import _table

    yield from _table(client)


def test_the_next_change_takes_back_what_a_dead_handler_left(
    quick: DynamoStore, other: DynamoStore, evented_client: EventedDynamo
) -> None:
    configure(quick, pools(7))
    with dying(evented_client, 4, after=True), pytest.raises(Died):
        configure(quick, pools(7, 1))
    assert other.configuration.read().changing
    configure(other, pools(9, 3), LATER)
    assert other.configuration.read().pools == pools(9, 3)
    assert [*other.repair.inspect()] == []


def test_a_handler_that_only_slept_changes_nothing_any_more(
    quick: DynamoStore, other: DynamoStore, evented_client: EventedDynamo
) -> None:
    """Each of its parts is as late as can be."""
    for place in range(1, 5):
        configure(other, pools(7), LATER)
        seen = other.configuration.read().revision
        parts = iter(range(1, 99))

        def wake_late(place: int = place, parts: Iterator[int] = parts, **_: Any) -> None:
            if next(parts) == place:
                other.configuration.take_back(LATER)
                configure(other, pools(7, 4), LATER)

        with (
            on(evented_client, "before-call.dynamodb.TransactWriteItems", wake_late),
            pytest.raises((Conflict, Unavailable)),
        ):
            configure(quick, pools(7, 9), seen=seen)
        found = other.configuration.read()
        assert (found.pools, found.changing) == (pools(7, 4), False)
        assert [*other.repair.inspect()] == []


def test_of_two_writers_one_wins_whole(
    quick: DynamoStore, other: DynamoStore, evented_client: EventedDynamo
) -> None:
    """The second one begins before each call of the first."""
    configure(quick, pools(7))
    for place in range(1, 5):
        seen = quick.configuration.read().revision
        calls, second = iter(range(1, 99)), []

        def interfere(
            place: int = place,
            calls: Iterator[int] = calls,
            second: list[Any] = second,
            seen: int = seen,
            **_: Any,
        ) -> None:
            if next(calls) == place:
                try:
                    configure(other, pools(8, 30 + place), seen=seen)
                except (Conflict, Unavailable) as error:
                    second.append(error)
                else:
                    second.append(None)

        first = None
        with on(evented_client, "before-call.dynamodb.TransactWriteItems", interfere):
            try:
                configure(quick, pools(7, 10 + place), seen=seen)
            except (Conflict, Unavailable) as error:
                first = error
        assert [first is None, second == [None]].count(True) == 1
        won = pools(7, 10 + place) if first is None else pools(8, 30 + place)
        found = other.configuration.read()
        assert (found.pools, found.revision, found.changing) == (won, seen + 1, False)
        assert [*quick.repair.inspect()] == []


@pytest.mark.parametrize("slots", [1, 4])
def test_no_decision_mixes_the_old_configuration_with_the_new_one(
    quick: DynamoStore, other: DynamoStore, evented_client: EventedDynamo, slots: int
) -> None:
    """A pass loads before, between or after any two calls of the change, and commits after it."""
    configure(quick, pools(7))
    jobs = iter([waits(quick, f"job{place}", pools=("p003",)) for place in range(20)])
    unchanged, between = [], []

    def load(**_: Any) -> None:
        world = other.worlds.load(NOW)
        assert world.snapshot.pools in {pools(7), pools(7, slots)}
        assert world.poison == ()
        (between if world.undecidable else unchanged).append(world)

    with (
        on(evented_client, "before-call.dynamodb.TransactWriteItems", load),
        on(evented_client, "before-call.dynamodb.UpdateItem", load),
    ):
        configure(quick, pools(7, slots))
    assert len(unchanged) >= 2
    assert len(between) >= 2
    for world in unchanged:
        seen = {"p003": world.ledgers["p003"].version}
        with pytest.raises(Conflict):
            other.decisions.commit([starting(next(jobs), "p003")], seen=seen)
    world = other.worlds.load(NOW)
    assert (world.snapshot.pools, world.undecidable) == (pools(7, slots), "")
    seen = {"p003": world.ledgers["p003"].version}
    other.decisions.commit([starting(next(jobs), "p003")], seen=seen)


def test_a_load_that_read_the_revision_before_and_a_ledger_after_decides_nothing(
    quick: DynamoStore, other: DynamoStore, evented_client: EventedDynamo
) -> None:
    configure(quick, pools(7))

    def change() -> None:
        configure(quick, pools(7, 5))

    with before_the_next(evented_client, "BatchGetItem", change, after=1):
        world = other.worlds.load(NOW)
    assert world.undecidable
    assert world.snapshot.pools == pools(7)
    assert world.poison == ()


def test_a_pool_that_awaits_a_configuration_that_nobody_makes_is_mended(
    quick: DynamoStore, rows: Table
) -> None:
    configure(quick, pools(7))
    rows.change(ledger_key("p003"), since=number(99))
    (finding,) = quick.repair.inspect()
    assert (finding.kind, finding.subject) == ("ledger", "p003")
    world = quick.worlds.load(NOW)
    assert world.undecidable
    for poison in world.poison:
        quick.repair.quarantine(poison)
    world = quick.worlds.load(NOW)
    assert (world.undecidable, world.poison) == ("", ())


def test_a_mark_that_cannot_be_read_is_taken_back(quick: DynamoStore, rows: Table) -> None:
    configure(quick, pools(7))
    rows.change(revision_key(), changing={"S": "?"})
    configure(quick, pools(7, 3))
    assert quick.configuration.read().pools == pools(7, 3)


def test_a_lost_document_is_put_back_with_its_pools(
    quick: DynamoStore, other: DynamoStore, rows: Table
) -> None:
    configure(quick, pools(7))
    configure(quick, pools(7, 3))
    lost = rows.get(revision_key())["sharing"]["S"]
    rows.remove(("CONFIG", f"SHARING#{lost}#00"))
    with pytest.raises(ConfigurationLost):
        other.configuration.read()
    assert other.worlds.load(NOW).undecidable
    assert "projects" in [finding.subject for finding in other.repair.inspect(mend=True)]
    assert other.configuration.read().pools == pools(7)
    [*other.repair.inspect(mend=True)]
    assert [*other.repair.inspect()] == []
    start = starts(other, "job1", pools=("p000",), pool="p000")
    assert start.attempt


def a_mark(at: int) -> dict[str, Any]:
    return {"S": mark_of(at, "bob", "")}


def test_a_small_change_does_not_come_between_the_parts_of_another(
    quick: DynamoStore, rows: Table, evented_client: EventedDynamo
) -> None:
    configure(quick, pools(1))
    begin = partial(rows.change, revision_key(), changing=a_mark(NOW))
    with (
        before_the_next(evented_client, "TransactWriteItems", begin),
        pytest.raises(Unavailable),
    ):
        configure(quick, pools(1, 5))
    rows.change(revision_key(), changing=None)
    assert quick.configuration.read().pools == pools(1)


def test_a_second_change_in_parts_does_not_begin_beside_another(
    quick: DynamoStore, rows: Table, evented_client: EventedDynamo
) -> None:
    configure(quick, pools(7))
    begin = partial(rows.change, revision_key(), changing=a_mark(NOW))
    with before_the_next(evented_client, "UpdateItem", begin), pytest.raises(Unavailable):
        configure(quick, pools(7, 5))
    assert rows.get(revision_key())["changing"] == a_mark(NOW)


def test_only_one_handler_takes_a_change_over(
    quick: DynamoStore, rows: Table, evented_client: EventedDynamo
) -> None:
    configure(quick, pools(7))
    rows.change(revision_key(), changing=a_mark(NOW))
    faster = partial(rows.change, revision_key(), changing=a_mark(LATER))
    with before_the_next(evented_client, "UpdateItem", faster), pytest.raises(Conflict):
        quick.configuration.take_back(LATER)
    assert rows.get(revision_key())["changing"] == a_mark(LATER)


def test_whoever_was_taken_over_removes_no_other_mark(
    quick: DynamoStore, rows: Table, evented_client: EventedDynamo
) -> None:
    configure(quick, pools(7))
    rows.change(revision_key(), changing=a_mark(NOW))
    updates = iter(range(1, 9))

    def overtake(**_: Any) -> None:
        if next(updates) == 2:
            rows.change(revision_key(), changing=a_mark(LATER + LEASE))

    with on(evented_client, "before-call.dynamodb.UpdateItem", overtake), pytest.raises(Conflict):
        quick.configuration.take_back(LATER)
    assert rows.get(revision_key())["changing"] == a_mark(LATER + LEASE)


def test_use_that_changes_while_a_ledger_is_put_back_is_not_lost(
    quick: DynamoStore, other: DynamoStore, evented_client: EventedDynamo
) -> None:
    configure(quick, pools(7))
    job = runs(other, "job1", pools=("p000",), pool="p000")
    with dying(evented_client, 4, after=True), pytest.raises(Died):
        configure(quick, pools(7, 5))
    end = partial(commit, other, completing(job))
    with before_the_next(evented_client, "TransactWriteItems", end):
        other.configuration.take_back(LATER)
    assert other.configuration.read().pools == pools(7)
    assert [*other.repair.inspect()] == []


def _parts_go_on_for_ever() -> AbstractContextManager[Any]:
    return patch.object(expressions, "change_goes_on", lambda _: expressions.is_there())


@pytest.mark.parametrize(
    ("change", "test"),
    [
        (
            without_condition(expressions, "begin_change", "attribute_not_exists"),
            test_a_second_change_in_parts_does_not_begin_beside_another,
        ),
        (_parts_go_on_for_ever, test_a_handler_that_only_slept_changes_nothing_any_more),
        (
            without_condition(expressions, "next_revision", "attribute_not_exists"),
            test_a_small_change_does_not_come_between_the_parts_of_another,
        ),
        (
            without_condition(expressions, "take_over_change"),
            test_only_one_handler_takes_a_change_over,
        ),
        (
            without_condition(expressions, "end_change"),
            test_whoever_was_taken_over_removes_no_other_mark,
        ),
    ],
)
def test_each_condition_is_needed(
    request: pytest.FixtureRequest, change: Any, test: Callable[..., None]
) -> None:
    """Without it, a test above fails."""
    needed = {name: request.getfixturevalue(name) for name in signature(test).parameters}
    with change(), pytest.raises((AssertionError, pytest.fail.Exception)):
        test(**needed)
