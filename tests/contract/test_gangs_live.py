"""Gangs through the whole queue, on both stores: small ones, ones of two hundred members, and what
a crash leaves of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slotq.local.training.virtual_runner import Work
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import Unavailable
from slotq_core.model.groups import LEFT_OUT
from slotq_core.model.pools import Pool
from slotq_core.operations.decisions_in_parts import LONG
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.ports.store import Store
from slotq_core.ports.stored import PartsKind
from tests.faults.fake_dynamodb import FakeDynamo
from tests.queue_world import QueueWorld, pool, request

HUNDREDS = [f"m{number:03d}" for number in range(200)]


def on_dynamodb(**settings: Any) -> DynamoStore:
    engine = FakeDynamo()
    engine.create_table(**table_definition("t"))
    return DynamoStore(engine, "t", **settings)


def in_memory_by_twos() -> MemoryStore:
    return MemoryStore(most_changes=2)


def on_dynamodb_by_twos() -> DynamoStore:
    return on_dynamodb(most_actions=15)


STORES = pytest.mark.parametrize(
    "make_store", [MemoryStore, on_dynamodb, in_memory_by_twos, on_dynamodb_by_twos]
)
IN_PARTS = pytest.mark.parametrize("make_store", [in_memory_by_twos, on_dynamodb_by_twos])
MakeStore = Callable[[], Store]


def gang_of(world: QueueWorld, *names: str, **rules: Any) -> None:
    """Each is written `<name>` or `<name>@<pool>`."""
    split = [each.partition("@") for each in names]
    members = [request(name, **({"pools": pools} if pools else {})) for name, _, pools in split]
    world.submit_group("gang", *members, **rules)


def states(world: QueueWorld, *names: str) -> str:
    """The first letters of the members' states."""
    return " ".join(world.job(name).state.value[:4] for name in names)


@STORES
def test_a_gang_starts_once_all_fit(make_store: MakeStore) -> None:
    world = QueueWorld(pool("p", 3), pool("q", 2), store=make_store())
    world.submit("x", pools="q", slots=2)
    world.deliver()
    gang_of(world, "a@p", "b@p", "c@p", "d@q", "e@q")
    world.deliver()
    assert states(world, *"abcde") == "pend pend pend pend pend"
    world.later(100)
    assert states(world, *"abcde") == "runn runn runn runn runn"
    assert {world.job(name).attempts for name in "abcde"} == {1}


@STORES
def test_evicting_one_evicts_all(make_store: MakeStore) -> None:
    world = QueueWorld(pool("p", 3), pool("q", 2), store=make_store())
    gang_of(world, "a@p", "b@p", "c@p", "d@q", "e@q")
    world.deliver()
    world.submit("high", priority=5, pools="q")
    world.manager.passes.run()
    assert states(world, *"abcde") == "stop stop stop stop stop"
    world.deliver()
    assert states(world, "high", *"abcde") == "runn pree pree pree pree pree"
    assert {world.job(name).evictions for name in "abcde"} == {1}
    world.later(100)
    assert states(world, *"abcde") == "runn runn runn runn runn"


@STORES
def test_who_was_left_out_joins_or_ends_with_its_gang(make_store: MakeStore) -> None:
    runtimes = {"x": 50_000, "y": 500_000}
    work = {name: Work(runtime=runtime) for name, runtime in runtimes.items()}
    world = QueueWorld(pool("p", 2), pool("q", 2), store=make_store(), work=work)
    world.submit("x", pools="q")
    world.submit("y", pools="q")
    world.deliver()
    gang_of(world, "a@p", "b@p", "c@q", "d@q", min_members=2)
    world.deliver()
    assert states(world, *"abcd") == "runn runn pend pend"
    world.later(60)
    assert states(world, *"abcd") == "runn runn runn pend"
    world.later(100)
    assert states(world, *"abcd") == "comp comp comp canc"
    assert world.job("d").cause == LEFT_OUT


@STORES
def test_a_member_that_fails_for_good_breaks_a_gang_that_needs_it(make_store: MakeStore) -> None:
    """What runs goes on, and what waits ends with a cause."""
    world = QueueWorld(pool("p", 1), pool("q", 1), store=make_store())
    world.plane.knobs.turn({"match": "b", "fail_provisioning": 0})
    gang_of(world, "a@p", "b@q", "c@q", min_members=2, mandatory=("a",))
    world.deliver()
    assert states(world, *"abc") == "runn runn pend"
    world.manager.changes.cancel("a", by="ann")
    world.manager.changes.cancel("b", by="ann")
    world.deliver()
    assert states(world, *"abc") == "canc canc canc"
    assert world.job("c").cause == LEFT_OUT


@STORES
def test_a_capacity_error_sends_the_gang_back_as_one(make_store: MakeStore) -> None:
    world = QueueWorld(pool("p", 2), pool("q", 1), store=make_store())
    world.plane.knobs.turn({"match": "c", "refuse_creates": 1})
    gang_of(world, "a@p", "b@p", "c@q")
    world.deliver()
    assert states(world, *"abc") == "pree pree pend"
    assert world.plane.knobs.refuse_creates == 0
    world.later(60)
    assert states(world, *"abc") == "runn runn runn"
    assert {world.job(name).retries for name in "abc"} == {0}


@STORES
def test_two_hundred_members_start_and_are_evicted_together(make_store: MakeStore) -> None:
    world = QueueWorld(pool("p", 150), pool("q", 60), store=make_store())
    where = ["p" if number < 140 else "q" for number in range(200)]
    gang_of(world, *(f"{name}@{to}" for name, to in zip(HUNDREDS, where, strict=True)))
    world.deliver()
    assert {world.job(name).state.value for name in HUNDREDS} == {"running"}
    world.submit("high", priority=5, pools="q", slots=30)
    world.deliver()
    assert {world.job(name).state.value for name in HUNDREDS} == {"preempted"}
    assert world.job("high").state.value == "running"


def with_many_pools() -> tuple[list[Pool], QueueWorld]:
    """A hundred and twenty pools of one slot, configured in three steps."""
    pools, store = [pool(f"p{number:03d}") for number in range(120)], on_dynamodb()
    for number in (40, 80, 120):
        store.configuration.change(pools[:number], who="test", now=0)
    return pools, QueueWorld(*pools, store=store)


def test_a_gang_may_span_more_pools_than_a_transaction_has_actions() -> None:
    pools, world = with_many_pools()
    names = HUNDREDS[:120]
    gang_of(world, *(f"{name}@{it.name}" for name, it in zip(names, pools, strict=True)))
    world.deliver()
    assert {world.job(name).state.value for name in names} == {"running"}


def test_a_sweep_starts_where_a_hundred_pools_hold_jobs() -> None:
    """The start of a member takes no more actions with more pools."""
    pools, world = with_many_pools()
    for each in pools[:-1]:
        world.submit(f"in-{each.name}", pools=each.name)
    world.deliver()
    world.submit_group(
        "grid", request("a", pools="p119"), request("b", pools="p000,p119"), max_parallel=1
    )
    world.deliver()
    assert states(world, "a", "b") == "runn pend"


class Dies(Exception):
    """The handler is gone."""


def dying(world: QueueWorld, after: int, error: type[Exception] = Dies) -> None:
    """Let the next handler die once it has made so many commits of parts."""
    commit, left = world.store.decisions.commit, [after]

    def counted(changes: Any, **more: Any) -> Any:
        if more.get("part") is not None:
            left[0] -= 1
            if left[0] < 0:
                raise error("")
        return commit(changes, **more)

    world.store.decisions.commit = counted
    with pytest.raises(error):
        world.manager.passes.run()
    world.store.decisions.commit = commit


def half_started(make_store: MakeStore, *names: str, **rules: Any) -> QueueWorld:
    """A pass has died after the first part of a gang's start."""
    world = QueueWorld(pool("p", 3), pool("q", 2), store=make_store())
    gang_of(world, *(names or ("a@p", "b@p", "c@p", "d@q", "e@q")), **rules)
    dying(world, 1)
    assert world.store.decisions.in_parts() is not None
    assert 0 < [world.job(name).state.value for name in "abcde"].count("starting") < 5
    assert world.training_jobs() == {}
    return world


@IN_PARTS
def test_the_next_pass_finishes_a_start_in_parts(make_store: MakeStore) -> None:
    world = half_started(make_store)
    world.later(HANDLER_LIFETIME / 1000)
    assert states(world, *"abcde") == "runn runn runn runn runn"
    assert world.store.decisions.in_parts() is None


@IN_PARTS
def test_a_reconciliation_creates_nothing_of_half_a_gang(make_store: MakeStore) -> None:
    world = half_started(make_store)
    world.clock.set(world.clock.now() + 2 * HANDLER_LIFETIME)
    assert world.another_reconciler().reconcile() == []
    assert world.training_jobs() == {}


@IN_PARTS
def test_the_doctor_tells_of_a_decision_that_nobody_finishes(make_store: MakeStore) -> None:
    world = half_started(make_store)
    world.clock.set(world.clock.now() + LONG - 1)
    assert [it for it in world.manager.doctor.examine() if it.kind == "unfinished_decision"] == []
    world.clock.set(world.clock.now() + 1)
    (found,) = (
        it for it in world.manager.doctor.examine(fix=True) if it.kind == "unfinished_decision"
    )
    assert (found.subject, found.mended) == ("gang", False)
    assert found.text.startswith("the start of 5 jobs, decided at 2026-")
    world.deliver()
    assert states(world, *"abcde") == "runn runn runn runn runn"
    assert world.manager.doctor.examine() == []


@IN_PARTS
def test_the_doctor_tells_of_an_eviction_that_nobody_finishes(make_store: MakeStore) -> None:
    """The beneficiary and its claim are older than the decision."""
    world = QueueWorld(pool("p", 3), pool("q", 2), store=make_store())
    gang_of(world, "a@p", "b@p", "c@p", "d@q", "e@q")
    world.deliver()
    world.submit("high", priority=5, pools="q")
    world.clock.set(world.clock.now() + LONG // 2)
    dying(world, 1)
    world.clock.set(world.clock.now() + LONG // 2)
    assert "unfinished_decision" not in {found.kind for found in world.manager.doctor.examine()}
    world.clock.set(world.clock.now() + LONG // 2)
    assert "unfinished_decision" in {found.kind for found in world.manager.doctor.examine()}


@IN_PARTS
@pytest.mark.parametrize("member", ["a", "e"])
def test_a_cancel_wins_over_a_start_in_parts(make_store: MakeStore, member: str) -> None:
    """The others start without the member, for nobody else is missing."""
    world = half_started(make_store)
    world.manager.changes.cancel(member, by="ann")
    world.later(2 * HANDLER_LIFETIME / 1000)
    others = [name for name in "abcde" if name != member]
    assert world.job(member).state.value == "cancelled"
    assert {world.job(name).state.value for name in others} == {"running"}
    assert {world.job(name).attempts for name in others} == {1}
    assert {world.job(name).evictions for name in others} == {0}


@IN_PARTS
def test_a_start_in_parts_that_has_lost_its_room_is_undone(make_store: MakeStore) -> None:
    world = half_started(make_store)
    world.store.configuration.change([pool("p", 3), pool("q", 1)], who="operator", now=0)
    before = {name: world.job(name).entry_time for name in "abcde"}
    world.later(HANDLER_LIFETIME / 1000)
    assert states(world, *"abcde") == "pend pend pend pend pend"
    assert world.store.decisions.in_parts() is None
    assert {name: world.job(name).entry_time for name in "abcde"} == before
    assert {world.job(name).attempts for name in "abcde"} == {0}
    assert world.training_jobs() == {}
    world.store.configuration.change([pool("p", 3), pool("q", 2)], who="operator", now=0)
    world.deliver()
    assert states(world, *"abcde") == "runn runn runn runn runn"
    assert world.training_jobs().keys() == {*"abcde"}


@IN_PARTS
def test_the_next_pass_finishes_an_eviction_in_parts(make_store: MakeStore) -> None:
    world = QueueWorld(pool("p", 3), pool("q", 2), store=make_store())
    gang_of(world, "a@p", "b@p", "c@p", "d@q", "e@q")
    world.deliver()
    world.submit("high", priority=5, pools="q")
    dying(world, 1)
    assert "running" in {world.job(name).state.value for name in "abcde"}
    decision = world.store.decisions.in_parts()
    assert decision is not None and decision.kind is PartsKind.FINISH
    world.submit("follower", after="e")
    world.later(HANDLER_LIFETIME / 1000)
    assert states(world, "high", *"abcde") == "runn pree pree pree pree pree"


@IN_PARTS
def test_a_decision_that_cannot_be_finished_now_stays(make_store: MakeStore) -> None:
    world = half_started(make_store)
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    dying(world, 0, Unavailable)
    assert world.store.decisions.in_parts() is not None
    world.later(HANDLER_LIFETIME / 1000)
    assert states(world, *"abcde") == "runn runn runn runn runn"
