"""Lists of jobs in pages: every job once, in an order that a cut does not change, and at a cost
that grows with the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.memory.scripts import MemoryScripts
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import InvalidRequest
from slotq_core.lifecycle import move
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import MAX_AFTER, Job, JobState
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.jobs import listing
from slotq_core.operations.jobs.listing import ENDED, ORDER, ListCursor, question_of
from slotq_core.operations.jobs.lookup import JobLookup
from slotq_core.operations.status import ANY_JOB, JobFilter, Status
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, Mark
from slotq_core.wire.views.jobs import job_view, queue_view
from tests.contract.metered import Metered
from tests.contract.test_usage import StandingClock
from tests.contract.worlds import (
    NOW,
    a_job,
    a_pool,
    a_queue,
    cancelling,
    commit,
    runs,
    starts,
    waits,
)

S = JobState
ADA, BOB = "arn:aws:iam::1:user/ada", "arn:aws:iam::1:user/bob"


def lookup(store: Store) -> JobLookup:
    clock = StandingClock(NOW)
    return JobLookup(store, clock, Authorizer(store.configuration), MemoryScripts(clock))


def pages(
    store: Store,
    limit: int,
    states: Iterable[JobState] | None = None,
    wanted: JobFilter = ANY_JOB,
    **asked: Any,
) -> Iterator[tuple[list[Status], str]]:
    """The pages, each with the text of the cursor of the next."""
    after = None
    for _ in range(100):
        page = lookup(store).page(states, wanted, limit=limit, after=after, **asked)
        found, following = page.statuses, page.following
        assert page.more == (following is not None)
        assert page.examined >= len(found)
        yield found, following.text() if following else ""
        if following is None:
            return
        after = ListCursor.parse(following.text(), question=question_of(states, wanted))
    raise AssertionError("the pages come to no end")


def listed(store: Store, limit: int, *args: Any, **asked: Any) -> list[list[str]]:
    return [[it.job.name for it in page] for page, _ in pages(store, limit, *args, **asked)]


def some_jobs(store: Store) -> None:
    """Two hold slots, six wait (four of one moment, in two lines), three have ended."""
    a_queue(store, a_pool("p5", 9))
    runs(store, "run")
    starts(store, "start")
    for name in ("late", "twin-c", "twin-a", "twin-d", "twin-b", "early"):
        entered = {"late": NOW + 5, "early": NOW - 5}.get(name, NOW)
        waits(store, name, entry_time=entered, priority=7 if name == "twin-c" else 0)
    for name, entered in (("old", NOW - 9), ("new", NOW + 9), ("mid", NOW)):
        commit(store, cancelling(waits(store, name, entry_time=entered)))


IN_ORDER = ["run", "start", "early", "twin-a", "twin-b", "twin-c", "twin-d", "late"]
IN_ORDER += ["new", "mid", "old"]


@pytest.mark.parametrize("limit", range(1, 12))
def test_pages_have_each_job_once(store: Store, limit: int) -> None:
    some_jobs(store)
    found = listed(store, limit)
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    cut = [IN_ORDER[at : at + limit] for at in range(0, len(IN_ORDER), limit)]
    assert [set(page) for page in found] == [set(page) for page in cut]


def test_a_page_is_in_the_order_of_the_queue(store: Store) -> None:
    some_jobs(store)
    (first, _, last) = listed(store, 5)
    assert set(first[:2]) == {"run", "start"}
    assert first[2:] == ["early", "twin-a", "twin-b"]
    assert last == ["old"]
    assert listed(store, 8, [S.PENDING])[0][0] == "twin-c", "a whole list is in the true order"


def test_only_a_whole_list_has_places(store: Store) -> None:
    some_jobs(store)
    ((whole, _),) = pages(store, 6, [S.PENDING])
    assert [it.place for it in whole] == [1, 2, 3, 4, 5, 6]
    for page, _ in pages(store, 5, [S.PENDING]):
        assert all(it.place is None and it.reason is not None for it in page)


def test_the_jobs_of_one_state_are_read_behind_a_mark(store: Store) -> None:
    some_jobs(store)

    def read(state: JobState, *mark: Any, latest_first: bool = False) -> list[str]:
        after = Mark(entry_time=mark[0], name=mark[1]) if mark else None
        found = store.jobs.by_entry(state, after=after, latest_first=latest_first, at_once=2)
        return [job.name for job in found]

    assert read(S.PENDING) == IN_ORDER[2:8]
    assert read(S.PENDING, NOW, "twin-b") == ["twin-c", "twin-d", "late"]
    assert read(S.PENDING, NOW, "") == ["late"]
    assert read(S.PENDING, NOW, "twin-bb") == ["twin-c", "twin-d", "late"], "it may be gone"
    assert read(S.CANCELLED, latest_first=True) == ["new", "mid", "old"]
    assert read(S.CANCELLED, NOW, "mid", latest_first=True) == ["old"]
    assert read(S.CANCELLED, NOW, "", latest_first=True) == ["old"]
    assert read(S.CANCELLED, NOW, "a", latest_first=True) == ["mid", "old"]


def test_a_job_that_starts_between_two_pages_hides_no_other(store: Store) -> None:
    """The cursor's job, and one before it of the same moment, are gone when it is used."""
    some_jobs(store)
    first = lookup(store).page([S.PENDING], ANY_JOB, limit=3)
    assert [it.job.name for it in first.statuses] == ["early", "twin-a", "twin-b"]
    for name in ("twin-a", "twin-b"):
        job = store.jobs.get(name)
        assert job
        commit(store, cancelling(job))
    second = lookup(store).page([S.PENDING], ANY_JOB, limit=9, after=first.following)
    assert [it.job.name for it in second.statuses] == ["twin-c", "twin-d", "late"]


@pytest.mark.parametrize("with_places", [False, True])
def test_a_job_that_moves_while_a_list_is_read_is_in_it_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, with_places: bool
) -> None:
    """It is cancelled after its state was read, and before that of the cancelled ones is."""
    some_jobs(store)
    move = store.jobs.get("early")
    assert move
    in_state, jobs = store.jobs.by_entry, store.jobs.in_states

    def states_one_by_one(state: JobState, **asked: Any) -> Iterator[Job]:
        if state is S.CANCELLED:
            commit(store, cancelling(move))
        return in_state(state, **asked)

    def all_states(states: Iterable[JobState], **asked: Any) -> tuple[Job, ...]:
        before = jobs(states, **asked)
        commit(store, cancelling(move))
        return (*before, *(job for job in jobs(states, **asked) if job.name == "early"))

    monkeypatch.setattr(store.jobs, "by_entry", states_one_by_one)
    monkeypatch.setattr(store.jobs, "in_states", all_states)
    if with_places:
        found = lookup(store).first(None, ANY_JOB, limit=99).statuses
    else:
        found = lookup(store).page(limit=99).statuses
    names = [(it.job.name, it.job.state) for it in found]
    assert sorted(name for name, _ in names) == sorted(IN_ORDER)
    assert ("early", S.CANCELLED) in names


def test_filters_go_through_pages(store: Store) -> None:
    a_queue(store, a_pool("p5", 9), a_pool("p4", 9))
    for number in range(9):
        pool = "p4" if number % 3 else "p5"
        waits(store, f"job-{number}", entry_time=NOW + number, pools=(pool,))
    names = [f"job-{number}" for number in (1, 2, 4, 5, 7, 8)]
    for limit in range(1, 7):
        cut = [names[at : at + limit] for at in range(0, 6, limit)]
        assert listed(store, limit, None, JobFilter(pool="p4")) == cut


def test_a_page_that_examines_much_ends_early(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 3)
    some_jobs(store)
    found = listed(store, 2, None, JobFilter(since=NOW + 1))
    assert [name for page in found for name in page] == ["late", "new"]
    assert [] in found
    assert listed(store, 2, [S.PENDING], JobFilter(since=NOW - 5))[0] == ["early", "twin-a"]


def test_the_waiting_jobs_of_a_project_come_in_pages(store: Store) -> None:
    a_queue(store)
    for number in range(12):
        waits(store, f"job-{number:02}", entry_time=NOW + number, project="ab"[number % 2])
    own = [f"job-{number:02}" for number in range(0, 12, 2)]
    for limit in (1, 4, 6):
        cut = [own[at : at + limit] for at in range(0, 6, limit)]
        assert listed(store, limit, None, JobFilter(projects=frozenset("a"))) == cut


class TestSight:
    @pytest.fixture
    def shared(self, store: Store) -> Store:
        a_queue(store)
        projects = tuple(
            Project(name=name, access=Access(members=(who,)))
            for name, who in (("vision", ADA), ("speech", BOB))
        )
        store.configuration.change(sharing=Sharing(projects=projects), who="test", now=NOW)
        for number in range(12):
            mine = number % 4 == 3
            waits(
                store,
                f"mine-{number:02}" if mine else f"secret-{number:02}",
                entry_time=NOW + number // 4,
                project="vision" if mine else "speech",
                submitter=ADA if mine else BOB,
            )
        return store

    @pytest.mark.parametrize("limit", [1, 2, 3])
    @pytest.mark.parametrize("most", [1, 2, 5, 100])
    def test_a_cursor_names_nothing_that_the_caller_may_not_see(
        self, shared: Store, monkeypatch: pytest.MonkeyPatch, limit: int, most: int
    ) -> None:
        monkeypatch.setattr(listing, "MOST_LOOKED_AT", most)
        found = [*pages(shared, limit, to=ADA)]
        names = [it.job.name for page, _ in found for it in page]
        assert names == ["mine-03", "mine-07", "mine-11"]
        assert not any("secret" in cursor for _, cursor in found)
        assert len(found) > 1 or limit == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0" * 8,
        "{question}~pending~2026-11-20T10:30:00.000Z",
        "{question}~pending~2026-11-20T10:30:00Z~a",
        "{question}~pending~2026-11-20T10:30:00.000Z~-a",
        "{question}~pending~2026-13-20T10:30:00.000Z~a",
        "{question}~pending~0000-01-20T10:30:00.000Z~a",
        "{question}~asleep~2026-11-20T10:30:00.000Z~a",
        "{question}~pending~2026-11-20T10:30:00.000Z~a\n",
        "{question}~pending~٢٠٢٦-11-20T10:30:00.000Z~a",
        "2026-11-20~3~2026-11-20T10:30:00.000Z~1",
    ],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    question = question_of(None, ANY_JOB)
    with pytest.raises(InvalidRequest, match="what the page before answered") as refused:
        ListCursor.parse(text.format(question=question), question=question)
    assert refused.value.field == "next"


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        ([S.PENDING], ANY_JOB),
        (None, JobFilter(pool="p4")),
        (None, JobFilter(submitter="p5")),
        (None, JobFilter(projects=frozenset())),
        (None, JobFilter(since=0)),
        (None, JobFilter(until=0)),
    ],
)
def test_a_cursor_of_another_list_is_refused(
    states: list[JobState] | None, wanted: JobFilter
) -> None:
    mark = Mark(entry_time=NOW, name="a")
    asked = question_of(None, JobFilter(pool="p5"))
    cursor = ListCursor(question=asked, state=S.PENDING, mark=mark)
    assert ListCursor.parse(cursor.text(), question=asked) == cursor
    with pytest.raises(InvalidRequest, match="belongs to another list"):
        ListCursor.parse(cursor.text(), question=question_of(states, wanted))


def test_every_state_has_its_place_in_the_pages() -> None:
    assert sorted((*ORDER, *ENDED)) == sorted(JobState)


def stored(entry_time: int, name: str = "") -> Job:
    name = name or f"job-{entry_time - NOW + 10_000:05}"
    return replace(a_job(name, entry_time=entry_time), version=1)


def cost(waiting: int, use: Callable[[Store], object]) -> tuple[int, int]:
    """The read units and calls of a use, with so many jobs waiting; without those of a store that
    knows nothing yet."""
    metered = Metered()
    store = metered.store()
    a_queue(store)
    metered.fill(map(stored, range(NOW - waiting, NOW)))
    use(store)
    metered.reset()
    use(store)
    return metered.read_units, sum(metered.calls.values())


@pytest.mark.parametrize("limit", [20, 200])
def test_the_cost_of_a_page_does_not_grow_with_the_queue(limit: int) -> None:
    def second(store: Store) -> None:
        after = lookup(store).page([S.PENDING], ANY_JOB, limit=limit).following
        lookup(store).page([S.PENDING], ANY_JOB, limit=limit, after=after)

    short, long = cost(500, second), cost(4_000, second)
    print(f"pages of {limit}: {short} and {long} read units and calls")
    assert long == short


def test_the_cost_of_a_page_grows_with_the_page() -> None:
    def first(limit: int) -> Callable[[Store], object]:
        return lambda store: lookup(store).page([S.PENDING], ANY_JOB, limit=limit)

    few, some, many = (cost(2_000, first(limit))[0] for limit in (100, 200, 400))
    assert few < some < many
    assert abs((many - some) - 2 * (some - few)) <= 2, "in proportion, but for whole units"


def many_lines(store: Store) -> None:
    """Jobs of several lines that take turns in the order, active ones, and jobs in no line."""
    a_queue(store, a_pool("p5", 9), a_pool("p4", 9))
    for number in range(40):
        pools = (("p5",), ("p4",), ("p5", "p4"))[number % 3]
        demand = Demand(slots=1 + number % 2)
        fields = {"priority": number % 4, "pools": pools, "demand": demand}
        waits(store, f"job-{number:02}", entry_time=NOW + 7 * number % 13, **fields)
    runs(store, "run", priority=2)
    starts(store, "start", priority=3)
    awaited = waits(store, "awaited", followed=True, priority=1)
    waits(store, "after", after=(awaited.name,), depends_on=(awaited.name,), priority=9)
    held = waits(store, "held", priority=9)
    commit(store, Change(before=held, after=move(held, S.HELD, at=NOW)))
    cancelled = waits(store, "gone")
    commit(store, cancelling(cancelled))


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 17, 41, 44, 45, 46, 47, 99])
def test_the_first_jobs_are_those_of_the_whole_queue(store: Store, limit: int) -> None:
    """In the same order, with the same places and reasons, however few are asked for."""
    many_lines(store)
    for bounded in (False, True):
        if bounded:
            store.worlds.load(NOW).keep_bounds()
        whole = lookup(store).statuses()
        first = lookup(store).first(None, ANY_JOB, limit=limit)
        found, more = first.statuses, first.more
        assert [(it.job, it.place) for it in found] == [
            (it.job, it.place) for it in whole[: len(found)]
        ]
        assert len(found) == min(limit, len(whole))
        assert more == (limit < len(whole))
        assert [it.reason for it in found if it.place == 1] == [
            it.reason for it in whole[: len(found)] if it.place == 1
        ]


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        ([S.PENDING], ANY_JOB),
        ([S.RUNNING, S.HELD], ANY_JOB),
        ([S.HELD, S.CANCELLED], ANY_JOB),
        (None, JobFilter(pool="p4")),
        (None, JobFilter(since=NOW + 9)),
        ([S.PENDING], JobFilter(submitter="nobody")),
        ([S.PENDING], JobFilter(projects=frozenset({""}))),
    ],
)
def test_so_are_those_of_a_filter(
    store: Store, states: list[JobState] | None, wanted: JobFilter
) -> None:
    many_lines(store)
    whole = lookup(store).statuses(states, wanted)
    for limit in (1, 4, 99):
        first = lookup(store).first(states, wanted, limit=limit)
        found, more = first.statuses, first.more
        assert [it.job for it in found] == [it.job for it in whole[:limit]]
        assert more == (limit < len(whole))


def test_the_first_jobs_cost_what_is_shown() -> None:
    def first(limit: int) -> Callable[[Store], object]:
        return lambda store: lookup(store).first(None, ANY_JOB, limit=limit)

    assert cost(500, first(40)) == cost(4_000, first(40))
    few, many = cost(2_000, first(50))[0], cost(2_000, first(400))[0]
    assert few < 30 < many < 120


def test_a_caller_who_sees_few_jobs_gets_their_places_and_the_number_examined() -> None:
    """Beyond the first in order, all jobs are read once, as cheaply as an index allows."""
    metered = Metered()
    store = metered.store()
    a_queue(store)
    others = [stored(NOW - 5_000_000 + number, f"job-{number:05}") for number in range(2_000)]
    own = [replace(job, submitter=ADA) for job in others[::400]]
    metered.fill([*others, *own])
    lookup(store).first(None, ANY_JOB, limit=200)
    metered.reset()
    found = lookup(store).first(None, JobFilter(submitter=ADA), limit=200)
    assert [it.place for it in found.statuses] == [1, 401, 801, 1201, 1601]
    assert not found.more
    assert found.examined == 2_000
    assert metered.read_units < 400
    assert lookup(store).first(None, ANY_JOB, limit=200).examined < 210


@pytest.mark.parametrize("entered", [NOW - 10_000_000, NOW])
def test_many_lines_that_take_turns_make_no_list_expensive(entered: int) -> None:
    """A list reads lines once for each few of its jobs; then come the next jobs by entry. Of lines
    whose jobs have just entered, it is not known which comes first."""
    metered = Metered()
    store = metered.store()
    a_queue(store)
    jobs = [
        replace(stored(entered + number, f"job-{number:05}"), demand=Demand(slots=1 + number % 500))
        for number in range(2_000)
    ]
    metered.fill(jobs)
    for _ in range(3):
        store.worlds.load(NOW).keep_bounds()
    metered.reset()
    first = lookup(store).first(None, ANY_JOB, limit=200)
    found, more = first.statuses, first.more
    assert more
    assert [it.job.name for it in found] == [job.name for job in jobs[:200]]
    placed = [it.place for it in found if it.place is not None]
    assert placed == [*range(1, len(placed) + 1)]
    assert (len(placed) > 20) == (entered < NOW)
    assert metered.calls["query"] < 80
    assert metered.read_units < 160
    again = lookup(store).first(None, ANY_JOB, limit=1000).statuses
    assert len(again) == 1000
    assert sum(it.place is not None for it in again) >= 4 * len(placed)


def long_jobs(number: int) -> Store:
    """So many jobs, each after as many others as can be, all with names as long as can be."""
    awaited = tuple(f"{'awaited-' * 7}{n:07}" for n in range(MAX_AFTER))
    fields = {"after": awaited, "depends_on": awaited, "preemptible": False}
    store = MemoryStore()
    for name in awaited:
        waits(store, name, followed=True)
    for n in range(number - MAX_AFTER):
        waits(store, f"{'waiting-' * 7}{n:07}", entry_time=NOW + n, **fields)
    return store


def test_a_page_of_jobs_that_name_many_others_fits_into_an_answer() -> None:
    """Lambda answers with 6 MB, and puts the body into JSON once more."""
    store, seen = long_jobs(1_000), set()
    for page, _ in pages(store, 1_000):
        view = queue_view(job_view(it.job, reason=it.reason) for it in page)
        assert len(json.dumps(view.model_dump_json())) < 4_000_000
        seen |= {it.job.name for it in page}
    assert len(seen) == 1_000
    first = lookup(store).first(None, ANY_JOB, limit=1_000)
    view = queue_view(job_view(it.job, reason=it.reason) for it in first.statuses)
    assert first.more
    assert 1_000_000 < len(json.dumps(view.model_dump_json())) < 4_000_000


def test_jobs_of_one_moment_are_read_whole_and_no_more() -> None:
    """A group's members enter together: a page reads those of its moment, and stays exact."""
    metered = Metered()
    store = metered.store()
    a_queue(store)
    metered.fill(stored(NOW, f"job-{number:05}") for number in range(60))
    found = listed(store, 7, [S.PENDING])
    assert [name for page in found for name in page] == [f"job-{n:05}" for n in range(60)]
