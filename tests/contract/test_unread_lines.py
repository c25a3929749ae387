"""A load reads no line of which it knows a lower bound; the plan asks where it matters."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from slotq_core.adapters.dynamodb.layout.lines import GRACE, LINE_KEPT
from slotq_core.adapters.dynamodb.layout.table import line_key, waiting_key
from slotq_core.adapters.dynamodb.reading import waiting_lines
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.policy.order import position
from slotq_core.policy.plan import Need
from slotq_core.ports.stored import World
from tests.contract.by_hand import Table, text
from tests.contract.metered import Metered
from tests.contract.worlds import NOW, a_queue, cancelling, claiming, commit, waits

LATER = NOW + 2 * GRACE
"""When what entered at NOW is older than any handler."""


@pytest.fixture
def metered() -> Metered:
    return Metered()


@pytest.fixture
def store(metered: Metered) -> DynamoStore:
    store = metered.store(clock=lambda: LATER)
    a_queue(store)
    return store


@pytest.fixture
def items(metered: Metered, store: DynamoStore) -> Table:
    return Table(metered, "t")


def bounded(store: DynamoStore, now: int = LATER) -> World:
    """What a load gives after a pass has raised the bounds."""
    store.worlds.load(now).keep_bounds()
    return store.worlds.load(now)


def asked(world: World, number: int = 0) -> list[Job]:
    """The jobs of an unread line, as a plan asks for them."""
    stand_ins = [job for job in world.snapshot.waiting if job.name in world.snapshot.unread]
    after = sorted(stand_ins, key=position)[number]
    return [*world.more(Need(after=after, count=1)).jobs]


def test_a_line_with_a_bound_is_not_read_until_the_plan_asks(
    store: DynamoStore, metered: Metered
) -> None:
    jobs = [waits(store, f"job{n}", priority=n) for n in range(3)]
    world = bounded(store)
    assert len(world.snapshot.unread) == len(world.snapshot.waiting) == 3
    metered.reset()
    world = store.worlds.load(LATER)
    assert metered.calls["query"] == 2, "lines, back-offs"
    assert asked(world) == [jobs[2]]
    assert metered.calls["query"] == 3


def test_a_stand_in_is_not_behind_the_first_job(store: DynamoStore) -> None:
    job = waits(store, "job1", entry_time=NOW)
    (stand_in,) = bounded(store).snapshot.waiting
    assert position(stand_in)[:-1] <= position(job)[:-1]
    assert line_of(stand_in) == line_of(job)


def test_a_stand_in_asks_for_the_same_gpus_of_the_same_nodes(store: DynamoStore) -> None:
    """A node may have room where its pool has none."""
    job = waits(store, "job1", gpus=25, tenant="team")
    (stand_in,) = bounded(store).snapshot.waiting
    assert (stand_in.gpus, stand_in.tenant) == (25, "team")
    assert line_of(stand_in) == line_of(job)


def test_a_new_line_and_one_that_a_job_has_returned_to_are_read(store: DynamoStore) -> None:
    job = waits(store, "job1")
    world = store.worlds.load(LATER)
    assert (world.snapshot.waiting, world.snapshot.unread) == ((job,), frozenset())
    claimant = commit(store, claiming(job))
    commit(store, cancelling(claimant))
    bounded(store)
    store.decisions._bounds.returned([line_of(job)], now=LATER)
    second = waits(store, "job2")
    world = bounded(store)
    assert (world.snapshot.waiting, world.snapshot.unread) == ((second,), frozenset())
    world = bounded(store, LATER + GRACE + 1)
    assert len(world.snapshot.unread) == 1


def test_claimants_are_always_read_and_stand_in_no_line(store: DynamoStore) -> None:
    claimant = commit(store, claiming(waits(store, "claimant")))
    behind = waits(store, "behind", entry_time=NOW + 1)
    world = bounded(store, LATER + GRACE)
    assert claimant in world.snapshot.waiting
    assert asked(world) == [behind]


def test_members_of_a_group_are_always_read(store: DynamoStore) -> None:
    rules = Group(name="g", members=("job1",), max_parallel=1)
    store.groups.open("g", digest="d", now=NOW)
    store.groups.keep(StoredGroup(group=rules, submitter="ann", digest="d", at=NOW))
    job = waits(store, "job1", group="g")
    world = bounded(store)
    assert (world.snapshot.waiting, world.snapshot.unread) == ((job,), frozenset())


def test_an_empty_line_gives_no_jobs_and_goes_after_an_hour(
    store: DynamoStore, items: Table
) -> None:
    job = waits(store, "job1")
    commit(store, cancelling(job))
    assert asked(bounded(store)) == []
    assert items.get(line_key(line_of(job)))
    world = store.worlds.load(LATER + LINE_KEPT)
    assert asked(world) == []
    world.keep_bounds()
    assert items.get(line_key(line_of(job))) == {}


def test_the_next_questions_are_foreseen(store: DynamoStore, metered: Metered) -> None:
    """A plan that serves line after line asks for one, then two are read, then four."""
    jobs = [waits(store, f"job{n:02d}", priority=99 - n) for n in range(40)]
    world = bounded(store)
    rounds = []
    for number in range(40):
        metered.reset()
        assert asked(world, number) == [jobs[number]]
        rounds.append(metered.rounds)
    assert sum(rounds) == 6, "1 + 2 + 4 + 8 + 16 + 9 lines, and none twice"
    assert rounds[0] == 1


def test_the_questions_about_smaller_jobs_are_not_foreseen(
    store: DynamoStore, metered: Metered
) -> None:
    """A line is read along only if it wants no more of the same pools."""
    for n in range(6):
        waits(store, f"job{n}", priority=9 - n, slots=1 + n % 2)
    world = bounded(store)
    for number in (0, 2, 4):
        asked(world, number)
    metered.reset()
    asked(world, 1)
    assert metered.rounds == 1


def test_what_cannot_be_read_is_told_by_the_next_load(store: DynamoStore, items: Table) -> None:
    job = waits(store, "job1")
    world = bounded(store)
    items.spoil_copy(waiting_key(job), jobState=text("suspended"))
    assert asked(world) == []
    assert [each.key for each in store.worlds.load(LATER).poison] == [_key(job)]


def _key(job: Job) -> str:
    return json.dumps(waiting_key(job))


def test_a_pass_raises_so_many_bounds_and_the_next_goes_on(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_lines, "MOST_RAISED", 4)
    for n in range(10):
        waits(store, f"job{n}", priority=n)
    for unread in (0, 4, 8, 10, 10):
        world = store.worlds.load(LATER)
        assert len(world.snapshot.unread) == unread
        world.keep_bounds()


def test_a_bound_is_raised_only_where_a_load_gains(store: DynamoStore, metered: Metered) -> None:
    waits(store, "job1")
    world = bounded(store)
    asked(world)
    metered.reset()
    world.keep_bounds()
    assert metered.calls == Counter()


def test_a_look_by_a_user_writes_nothing(
    store: DynamoStore, metered: Metered, items: Table
) -> None:
    waits(store, "job1")
    before = items.all()
    store.worlds.load(LATER)
    assert items.all() == before
