"""The first jobs of lines that are read in each load are read a hundred a call while nothing can
have come among them. What others do is seen at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.lines import GRACE
from slotq_core.adapters.dynamodb.line_bounds import KEPT_FOR
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.lines import line_of
from slotq_core.policy.plan import Need
from slotq_core.ports.stored import Change, World
from tests.contract.metered import Metered
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    cancelling,
    claiming,
    commit,
    evicted,
    evicting,
    runs,
    starting,
    waits,
)

LATER = NOW + KEPT_FOR + 2 * GRACE
"""When nothing is under way any more that began at NOW."""
MEMBERS = ("m0", "m1", "m2")
PARTS = {
    "pools": ("p5", "p4"),
    "parts": (("p5", Demand(slots=1)), ("p4", Demand(slots=1))),
    "demand": Demand(slots=2),
}


@pytest.fixture
def metered() -> Metered:
    return Metered()


@pytest.fixture
def store(metered: Metered) -> DynamoStore:
    store = metered.store(clock=lambda: LATER)
    a_queue(store, a_pool("p5", 9), a_pool("p4", 9)).worlds.load(LATER)
    return store


@pytest.fixture
def other(metered: Metered, store: DynamoStore) -> DynamoStore:
    """The store of another handler."""
    return metered.store(clock=lambda: LATER)


@pytest.fixture
def gangs(store: DynamoStore) -> list[Job]:
    """Members of a gang."""
    return a_gang(store, "gang")


def a_gang(store: DynamoStore, name: str, **fields: Any) -> list[Job]:
    names = tuple(f"{name}-{member}" for member in MEMBERS)
    store.groups.open(name, digest="d", now=NOW)
    group = Group(name=name, members=names)
    store.groups.keep(StoredGroup(group=group, submitter="ann", digest="d", at=NOW))
    return [waits(store, member, group=name, **fields) for member in names]


Look = Callable[..., World]


@pytest.fixture
def look(metered: Metered, store: DynamoStore) -> Look:
    """What the store loads; the same as one that knows nothing."""

    def seen(now: int = LATER) -> World:
        world = store.worlds.load(now)
        assert world == metered.store(clock=lambda: LATER).worlds.load(now)
        return world

    return seen


def names(world: World) -> set[str]:
    return {job.name for job in world.snapshot.waiting}


def queries(metered: Metered, store: DynamoStore, now: int = LATER) -> int:
    """The Queries of a load, without those of LINES and DUE."""
    metered.reset()
    store.worlds.load(now)
    return metered.calls["query"] - 2


def test_groups_in_which_nothing_happens_cost_no_call_each(
    store: DynamoStore, metered: Metered
) -> None:
    for number in range(60):
        a_gang(store, f"gang-{number}")
    first, second = queries(metered, store), queries(metered, store)
    assert (first, second) == (60, 0)
    assert metered.calls["batch_get_item"] == 1 + 2, "180 members"


def test_only_the_lines_that_change_are_read_again(
    store: DynamoStore, other: DynamoStore, metered: Metered
) -> None:
    members = [a_gang(store, f"gang-{number}") for number in range(20)]
    assert queries(metered, store) == 20
    commit(other, cancelling(members[3][0]))
    assert queries(metered, store) == 1
    assert queries(metered, store) == 0


def started(job: Job) -> Change:
    return starting(job)


def held(job: Job) -> Change:
    return Change(before=job, after=replace(job, state=JobState.HELD))


def amended(job: Job) -> Change:
    return Change(before=job, after=replace(job, priority=7))


def followed(job: Job) -> Change:
    return Change(before=job, after=replace(job, followed=True))


@pytest.mark.parametrize("change", [cancelling, started, held, amended, followed, claiming])
def test_each_change_of_a_waiting_member_is_seen_at_once(
    gangs: list[Job], other: DynamoStore, look: Look, change: Callable[[Job], Change]
) -> None:
    before = look()
    for member in gangs[:2]:
        commit(other, change(member))
        assert look() != before


def test_an_evicted_member_is_seen_at_once(
    store: DynamoStore, other: DynamoStore, look: Look
) -> None:
    a_gang(store, "gang")
    active = runs(store, "older", group="gang", priority=1, entry_time=NOW - 1)
    look()
    commit(other, evicted(commit(other, evicting(active, "x"))))
    assert "older" in names(look())


def test_a_return_that_is_announced_before_a_load_and_comes_after_it_is_not_missed(
    gangs: list[Job], store: DynamoStore, other: DynamoStore, look: Look
) -> None:
    """The reading between the two lacks the job."""
    away = commit(other, held(gangs[0]))
    other.decisions._bounds.returned([line_of(gangs[0])])
    assert "gang-m0" not in names(look())
    returns = Change(before=away, after=replace(away, state=JobState.PENDING))
    past_announcing(other, returns)
    assert "gang-m0" in names(look())


@pytest.mark.parametrize("announced", [LATER, LATER - 1, LATER - GRACE])
def test_a_return_ahead_of_the_first_job_is_not_missed(
    store: DynamoStore, other: DynamoStore, look: Look, announced: int
) -> None:
    away = commit(other, held(waits(other, "sooner", entry_time=NOW - 5)))
    waits(other, "first")
    look()
    other.decisions._bounds.returned([line_of(away)], now=announced)
    assert names(look()) == {"first"}
    past_announcing(other, Change(before=away, after=replace(away, state=JobState.PENDING)))
    assert names(look()) == {"first", "sooner"}


def past_announcing(store: DynamoStore, change: Change) -> None:
    """Commit a change whose announcement came before."""
    bounds = store.decisions._bounds
    right, bounds.returned = bounds.returned, lambda *_, **__: None  # type: ignore[method-assign]
    try:
        commit(store, change)
    finally:
        bounds.returned = right  # type: ignore[method-assign]


@pytest.mark.parametrize("ago", [0, 1, GRACE])
@pytest.mark.parametrize("project", ["", "vision"])
def test_a_submission_under_way_during_a_load_is_not_missed(
    store: DynamoStore, other: DynamoStore, look: Look, project: str, ago: int
) -> None:
    """It has touched the line; the reading lacks the job, which then comes behind the others."""
    waits(store, "first", project=project, **PARTS)
    look(LATER)
    new = a_job("second", project=project, entry_time=LATER - ago, **PARTS)
    other.jobs._touch([new], opens_line=True, opener="")
    assert names(look(LATER)) == {"first"}
    other.jobs._touch = lambda *_, **__: None  # type: ignore[method-assign]
    other.jobs.submit(new, REQUEST)
    assert names(look(LATER)) == {"first", "second"}


@pytest.mark.parametrize("project", ["", "vision"])
def test_a_submission_that_relies_on_an_earlier_touch_is_not_missed(
    store: DynamoStore, other: DynamoStore, look: Look, project: str
) -> None:
    waits(other, "before", entry_time=LATER, project=project, **PARTS)
    look(LATER)
    moment = LATER + KEPT_FOR - 1
    look(moment)
    waits(other, "after", entry_time=moment, project=project, **PARTS)
    assert names(look(moment)) == {"before", "after"}


def test_a_line_that_may_have_got_more_jobs_is_read_as_a_whole_and_not_twice(
    store: DynamoStore, metered: Metered
) -> None:
    waits(store, "first", **PARTS)
    coming = a_job("second", entry_time=LATER, **PARTS)
    store.jobs._touch([coming], opens_line=True, opener="")
    for _ in range(2):
        assert queries(metered, store) == 1
        assert metered.calls["batch_get_item"] == 1, "the pools alone"


def test_a_counted_line_is_known_sooner(store: DynamoStore, metered: Metered) -> None:
    """Each submission to it touches it, so none relies on an earlier touch."""
    for project in ("", "vision"):
        waits(store, f"job-of-{project}", entry_time=LATER, project=project, **PARTS)
    moments = (0, 2), (GRACE + 1, 2), (GRACE + 1, 1), (KEPT_FOR + GRACE + 1, 1 + 2)
    for ago, reads in moments:  # At last the pools are read again, too.
        assert queries(metered, store, LATER + ago) == reads
    assert queries(metered, store, LATER + ago) == 0


def test_a_gang_is_known_as_soon_as_all_of_it_is_seen(store: DynamoStore, metered: Metered) -> None:
    a_gang(store, "gang", entry_time=LATER)
    assert (queries(metered, store), queries(metered, store)) == (1, 0)


def test_a_member_that_is_submitted_after_its_group_is_seen_at_once(
    store: DynamoStore, other: DynamoStore, look: Look
) -> None:
    """As handlers of an earlier version do."""
    group = Group(name="gang", members=("first", "second", "third"))
    store.groups.open("gang", digest="d", now=NOW)
    store.groups.keep(StoredGroup(group=group, submitter="ann", digest="d", at=NOW))
    for number, member in enumerate(group.members, 1):
        waits(other, member, group="gang", entry_time=LATER)
        for _ in range(2):
            assert names(look()) == {*group.members[:number]}


def test_a_retry_that_joins_its_sweep_is_seen_at_once(
    store: DynamoStore, other: DynamoStore, look: Look
) -> None:
    group = Group(name="sweep", members=("first",), max_parallel=1)
    store.groups.open("sweep", digest="d", now=NOW)
    store.groups.keep(StoredGroup(group=group, submitter="ann", digest="d", at=NOW))
    waits(other, "first", group="sweep", entry_time=LATER)
    look()
    waits(other, "again", group="sweep", entry_time=LATER + 1)
    assert names(look()) == {"first", "again"}


def test_a_young_first_job_is_read_again(
    store: DynamoStore, other: DynamoStore, metered: Metered, look: Look
) -> None:
    """A submission by a slow clock may still come ahead of it."""
    waits(store, "first", entry_time=LATER - 10, priority=3)
    look(LATER)
    waits(other, "sooner", entry_time=LATER - 20, priority=3)
    assert names(look(LATER)) == {"first", "sooner"}


def test_what_a_plan_asks_for_each_time_costs_one_call(
    store: DynamoStore, metered: Metered
) -> None:
    jobs = [waits(store, f"job{n:02d}", priority=n) for n in range(30)]
    store.worlds.load(LATER).keep_bounds()
    for number, calls in enumerate((30, 0, 0)):
        metered.reset()
        world = store.worlds.load(LATER)
        assert metered.calls["batch_get_item"] == 1 + bool(number)
        metered.reset()
        assert {job.name for job in asked(world)} == {job.name for job in jobs}
        assert metered.calls["query"] == calls
    commit(store, cancelling(jobs[4]))
    world = store.worlds.load(LATER)
    metered.reset()
    assert len(asked(world)) == 29
    assert metered.calls["query"] == 1


def asked(world: World) -> list[Job]:
    """All first jobs, as a plan asks for them."""
    stand_ins = [job for job in world.snapshot.waiting if job.name in world.snapshot.unread]
    found = [world.more(Need(after=job, count=1)) for job in stand_ins]
    return [job for each in found for job in each.jobs[:1]]
