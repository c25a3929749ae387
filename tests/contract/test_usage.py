"""The record of what attempts used: made with the end of each attempt, added up once a day is over,
and read in pages, each attempt exactly once."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import EXPIRES_AT
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import Conflict, InvalidRequest, Unavailable
from slotq_core.model.attempts import AttemptOutcome, Beneficiary, StopCause, StopOrder
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.usage import day_sums, report
from slotq_core.operations.usage.day_sums import SETTLED, DaySums
from slotq_core.operations.usage.report import UsageCursor, UsageReport
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.usage import DaySum
from slotq_core.usage.amounts import Amounts, Totals, UsageGroup, cells, merge
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.calendar_days import DAY, begin_of, day_of
from slotq_core.usage.day_rows import parts_of
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.faults import refusing
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    cancelling,
    commit,
    completing,
    evicted,
    running,
    starting,
    starts,
    waits,
)

TODAY = day_of(NOW)
MIDNIGHT = begin_of(TODAY)
HOUR = 3_600_000
MANY = 10_000
ADA = "arn:aws:iam::123456789012:user/ada"


class StandingClock:
    def __init__(self, now: int) -> None:
        self.moment = now
        self.ticks = 0
        """How far each look moves the clock (ms)."""

    def now(self) -> int:
        self.moment += self.ticks
        return self.moment


def lives(
    store: Store, name: str, *, admitted: int, ended: int | None, waited: int = 0, **fields: Any
) -> Job:
    """A job that got its slots and instances at `admitted`, and completed at `ended`, if ever."""
    job = waits(store, name, **fields)
    begun = starting(job)
    attempt = begun.after.attempt
    assert attempt
    attempt = replace(
        attempt, admitted_at=admitted, waiting_since=admitted - waited, running_since=admitted
    )
    job = commit(store, replace(begun, after=replace(begun.after, attempt=attempt)))
    return job if ended is None else commit(store, ends(job, ended))


def ends(job: Job, at: int, learned: int | None = None, **fields: Any) -> Change:
    change = completing(job)
    assert change.ended
    return replace(
        change,
        ended=replace(change.ended, ended_at=at, **fields),
        after=replace(change.after, changed_at=at if learned is None else learned),
    )


def records(store: Store, day: str = TODAY) -> list[AttemptUse]:
    return [*store.usage.ended(day, limit=MANY).uses]


def add_up(store: Store, now: int) -> None:
    DaySums(store.usage, store.scheduler, StandingClock(now)).run_if_due(now)


def read(
    store: Store, start: int, end: int | None = None, *, now: int = NOW + 31 * DAY, by: Any = ()
) -> Totals:
    """Every page of a window, added up."""
    totals: Totals = {}
    after, clock = None, StandingClock(now)
    while True:
        page = UsageReport(store.usage, clock).page(start=start, end=end, by=by, after=after)
        assert page.unreadable == 0
        merge(totals, page.totals.items())
        if page.next is None:
            return totals
        assert page.next != after
        after = UsageCursor.parse(page.next.text())


def in_all(totals: Totals) -> Amounts:
    found: Totals = {}
    merge(found, [(UsageGroup(), Amounts())])
    for amounts in totals.values():
        merge(found, [(UsageGroup(), amounts)])
    return found[UsageGroup()]


def slot_hours(totals: Totals) -> float:
    return in_all(totals).slot_ms / HOUR


# --- the record


def test_each_ended_attempt_has_one_record(store: Store) -> None:
    a_queue(store)
    job = commit(store, running(starts(store, "job1", slots=2, project="vision")))
    assert records(store) == []
    job = commit(store, evicted(job))
    commit(store, completing(commit(store, starting(job))))
    first, second = records(store)
    assert (first.job, first.number, second.number) == ("job1", 1, 2)
    assert first.project == "vision"
    assert first.submitter == ADA
    assert first.workload == "training"
    assert (first.pool, first.instance_type, first.slots) == ("p5", "ml.p5.48xlarge", 2)
    assert (first.admitted_at, first.running_since, first.ended_at) == (NOW, NOW + 2, NOW + 4)


def test_a_cancelled_waiting_job_has_none(store: Store) -> None:
    a_queue(store)
    commit(store, cancelling(waits(store, "job1")))
    assert records(store) == []


def test_a_refused_commit_leaves_none(store: Store) -> None:
    a_queue(store)
    job = starts(store, "job1")
    commit(store, running(job))
    with pytest.raises(Conflict):
        commit(store, completing(job))
    assert records(store) == []


def test_an_eviction_is_told_with_its_beneficiary_and_the_work_lost(store: Store) -> None:
    a_queue(store)
    job = commit(store, running(starts(store, "job1", project="vision")))
    assert job.attempt
    gains = Beneficiary(project="speech", submitter="bob", workload="interactive")
    order = StopOrder(cause=StopCause.EVICTED, by="other", at=NOW + 3, beneficiary=gains)
    attempt = replace(job.attempt, stop=order, checkpoint_at=NOW + 1)
    stopping = replace(job, state=JobState.STOPPING, attempt=attempt)
    job = commit(store, Change(before=job, after=stopping))
    change = evicted(job)
    commit(store, change)
    (use,) = records(store)
    assert use.lost_since == NOW + 1
    assert use.beneficiary == gains


@pytest.mark.parametrize("cause", [StopCause.REQUEUED, StopCause.CANCELLED, StopCause.NO_CAPACITY])
def test_other_stops_are_no_evictions(store: Store, cause: StopCause) -> None:
    a_queue(store)
    job = commit(store, running(starts(store, "job1")))
    assert job.attempt
    order = StopOrder(cause=cause, by="ada", at=NOW + 3)
    stopping = replace(job, state=JobState.STOPPING, attempt=replace(job.attempt, stop=order))
    job = commit(store, Change(before=job, after=stopping))
    change = evicted(job)
    outcome = AttemptOutcome.EVICTED if cause is StopCause.REQUEUED else AttemptOutcome.CANCELLED
    assert change.ended
    commit(store, replace(change, ended=replace(change.ended, outcome=outcome)))
    assert records(store)[0].lost_since is None


def test_an_attempt_that_completes_before_its_eviction_is_not_evicted(store: Store) -> None:
    a_queue(store)
    job = commit(store, running(starts(store, "job1")))
    assert job.attempt
    order = StopOrder(cause=StopCause.EVICTED, by="other", at=NOW + 3)
    attempt = replace(job.attempt, stop=order)
    stopping = replace(job, state=JobState.STOPPING, attempt=attempt)
    commit(store, completing(commit(store, Change(before=job, after=stopping))))
    assert records(store)[0].lost_since is None


def test_a_record_belongs_to_the_day_on_which_the_end_was_recorded(store: Store) -> None:
    a_queue(store)
    job = lives(store, "job1", admitted=NOW - DAY, ended=None)
    commit(store, ends(job, NOW - HOUR, learned=NOW + DAY))
    assert records(store) == []
    assert len(records(store, day_of(NOW + DAY))) == 1


def test_records_are_read_in_order_and_in_parts(store: Store) -> None:
    a_queue(store, a_pool(slots=9))
    for n in range(5):
        lives(store, f"job{n}", admitted=NOW, ended=NOW + 10 - n)
    first = store.usage.ended(TODAY, limit=2)
    second = store.usage.ended(TODAY, after=first.last, limit=2)
    third = store.usage.ended(TODAY, after=second.last, limit=2)
    found = [use.job for part in (first, second, third) for use in part.uses]
    assert found == ["job4", "job3", "job2", "job1", "job0"]
    assert (first.more, second.more, third.more) == (True, True, False)
    assert store.usage.ended(TODAY, after=third.last, limit=2).last == third.last


def test_records_expire_with_the_history_but_not_within_a_week(client: Any, table: str) -> None:
    for history, kept in ((30 * DAY, 30 * DAY), (DAY, 7 * DAY)):
        store = a_queue(DynamoStore(client, table, history=history))
        change = ends(lives(store, f"job{history}", admitted=NOW, ended=None), NOW)
        commit(store, change)
        items = [item for key, item in Table(client, table).all().items() if "ENDED" in key[0]]
        assert {"N": str((NOW + kept) // 1000)} in [item[EXPIRES_AT] for item in items]


def test_the_memory_store_forgets_expired_records() -> None:
    store = MemoryStore(history=DAY)
    a_queue(store)
    lives(store, "job1", admitted=NOW, ended=NOW)
    store.repair.expire(now=NOW + 7 * DAY - 1000)
    assert len(records(store)) == 1
    store.repair.expire(now=NOW + 7 * DAY + 1000)
    assert records(store) == []


def test_running_jobs_are_those_that_hold_slots(store: Store) -> None:
    a_queue(store, a_pool("p5", 9), a_pool("p4", 9))
    waits(store, "waiting")
    commit(store, running(starts(store, "running")))
    starts(store, "starting", pool="p4", pools=("p4",))
    lives(store, "ended", admitted=NOW, ended=NOW)
    assert {job.name for job in store.usage.running()} == {"running", "starting"}


# --- sums


def test_a_sum_is_extended_only_as_it_was_seen(store: Store) -> None:
    book = store.usage
    assert book.last_sum() is None
    fresh = DaySum(day=TODAY)
    (part,) = parts_of(cells({TODAY: {UsageGroup(project="a"): Amounts(slot_ms=5)}}))
    book.extend(fresh, replace(fresh, attempts=1, through="x", begins=TODAY), [part])
    with pytest.raises(Conflict):
        book.extend(fresh, replace(fresh, whole=True), [])
    stored = book.last_sum()
    assert stored
    assert [*book.cells(stored.parts[0])] == [(TODAY, UsageGroup(project="a"), Amounts(slot_ms=5))]
    book.extend(stored, replace(stored, attempts=2, through="y", whole=True), [part])
    with pytest.raises(Conflict):
        book.extend(stored, replace(stored, attempts=3, through="z"), [part])
    (whole,) = book.sums()
    assert (whole.attempts, whole.through, whole.whole, len(whole.parts)) == (2, "y", True, 2)
    assert book.last_sum() == whole


def test_sums_are_told_from_a_day_on(store: Store) -> None:
    for n in range(3):
        day = day_of(NOW + n * DAY)
        store.usage.extend(DaySum(day=day), DaySum(day=day, whole=True), [])
    assert [each.day for each in store.usage.sums(day_of(NOW + DAY))] == [
        day_of(NOW + DAY),
        day_of(NOW + 2 * DAY),
    ]
    assert len(store.usage.sums()) == 3


def test_a_day_is_added_up_once_it_is_over(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    add_up(store, MIDNIGHT + DAY + SETTLED - 1)
    assert store.usage.last_sum() is None
    add_up(store, MIDNIGHT + DAY + SETTLED + HOUR)
    whole = store.usage.last_sum()
    assert whole
    assert (whole.day, whole.attempts, whole.whole, whole.begins) == (TODAY, 1, True, TODAY)


def test_days_without_attempts_leave_no_gap(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    add_up(store, MIDNIGHT + 4 * DAY + SETTLED)
    assert [each.day for each in store.usage.sums()] == [day_of(NOW + n * DAY) for n in range(4)]


def test_an_empty_queue_writes_no_sums(store: Store) -> None:
    a_queue(store)
    add_up(store, NOW + 9 * DAY)
    assert store.usage.last_sum() is None


def test_a_large_day_is_added_up_in_several_ticks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick has time for one read of two records."""
    monkeypatch.setattr(day_sums, "RECORDS_A_READ", 2)
    a_queue(store, a_pool(slots=9))
    for n in range(5):
        lives(store, f"job{n}", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR + n)
    expected = read(store, MIDNIGHT)
    seen = []
    for n in range(4):
        now = MIDNIGHT + 2 * DAY + n * 60_000
        clock = StandingClock(now)
        clock.ticks = day_sums.BUDGET
        DaySums(store.usage, store.scheduler, clock).run_if_due(now)
        seen.append([(each.attempts, each.whole) for each in store.usage.sums()])
        assert read(store, MIDNIGHT) == expected
    assert seen[:2] == [[(2, False)], [(4, False)]]
    assert seen[2][0] == (5, True)


def test_one_handler_adds_up_while_another_does_not(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    now = MIDNIGHT + DAY + SETTLED
    assert store.scheduler.take_turn(day_sums.TASK, now=now, next_at=now + HOUR)
    add_up(store, now)
    assert store.usage.last_sum() is None
    add_up(store, now + HOUR)
    assert store.usage.last_sum()


def test_two_handlers_at_once_add_nothing_twice(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    now = MIDNIGHT + DAY + SETTLED
    expected = read(store, MIDNIGHT)
    first, second = (DaySums(store.usage, store.scheduler, StandingClock(now)) for _ in range(2))
    unfinished = [next(iter(each._unfinished(now))) for each in (first, second)]
    first._extend(unfinished[0], now + 1)
    with pytest.raises(Conflict):
        second._extend(unfinished[1], now + 1)
    assert read(store, MIDNIGHT) == expected


@pytest.mark.parametrize("after", range(4))
def test_a_crash_at_any_write_of_a_sum_loses_nothing(
    evented_client: EventedDynamo, evented_store: tuple[DynamoStore, str], after: int
) -> None:
    """The turn, a part, the sum: each may be the last write."""
    store, _ = evented_store
    a_queue(store)
    lives(store, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    expected, now = read(store, MIDNIGHT), MIDNIGHT + DAY + SETTLED
    writes = ("PutItem", "UpdateItem")
    with refusing(evented_client, "*", "InternalServerError", status=500, after=after, only=writes):
        try:
            add_up(store, now)
        except Unavailable:
            assert after < 3
    assert read(store, MIDNIGHT) == expected
    add_up(store, now + HOUR)
    assert store.usage.last_sum() is not None
    assert read(store, MIDNIGHT) == expected


# --- the report


def test_use_is_clipped_to_the_window_to_the_millisecond(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=NOW, ended=NOW + 10_000, slots=2)
    for start, end, slot_ms in (
        (NOW, NOW + 10_000, 20_000),
        (NOW + 1, NOW + 10_000, 19_998),
        (NOW, NOW + 1, 2),
        (NOW + 10_000, NOW + 20_000, 0),
        (NOW - 5, NOW + 5, 10),
    ):
        assert in_all(read(store, start, end)).slot_ms == slot_ms


def test_sums_and_records_answer_alike(store: Store) -> None:
    """Attempts over several days, before and after their days are added up."""
    a_queue(store, a_pool(slots=99))
    for n in range(12):
        begin = MIDNIGHT + n * 5 * HOUR + n
        lives(
            store,
            f"job{n}",
            admitted=begin,
            ended=begin + (n * 7 + 1) * HOUR,
            waited=n * 60_000,
            slots=1 + n % 3,
            project=("a", "b")[n % 2],
        )
    windows = [(MIDNIGHT + a * DAY, MIDNIGHT + b * DAY) for a in range(5) for b in range(a + 1, 7)]
    windows += [(MIDNIGHT + 3 * HOUR, MIDNIGHT + 2 * DAY + 5 * HOUR), (NOW, NOW + DAY)]
    before = [read(store, *window, by=("project",)) for window in windows]
    add_up(store, MIDNIGHT + 30 * DAY + SETTLED)
    assert len(store.usage.sums()) == 30
    assert [read(store, *window, by=("project",)) for window in windows] == before


def test_a_running_attempt_counts_until_now(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=NOW, ended=None)
    assert slot_hours(read(store, NOW, now=NOW + 3 * HOUR)) == 3
    assert slot_hours(read(store, NOW, NOW + HOUR, now=NOW + 3 * HOUR)) == 1


def test_an_attempt_from_before_this_version_counts_from_its_item(
    dynamo: DynamoStore, items: Table
) -> None:
    """An earlier version recorded no beginning of its wait."""
    a_queue(dynamo)
    job = lives(dynamo, "job1", admitted=NOW, ended=None)
    assert job.attempt
    job = commit(
        dynamo,
        Change(before=job, after=replace(job, attempt=replace(job.attempt, waiting_since=None))),
    )
    used = in_all(read(dynamo, NOW, now=NOW + HOUR))
    assert (used.slot_ms, used.attempts, used.waits.count) == (HOUR, 1, 0)
    commit(dynamo, ends(job, NOW + 2 * HOUR))
    assert slot_hours(read(dynamo, NOW)) == 2


def test_an_attempt_that_ends_while_it_is_read_counts_once(store: Store) -> None:
    """Between the read of the running attempts and that of the newest records."""
    a_queue(store)
    job = lives(store, "job1", admitted=NOW, ended=None)
    running_before = store.usage.running

    def then_it_ends() -> tuple[Job, ...]:
        found = running_before()
        commit(store, ends(job, NOW + HOUR))
        return found

    store.usage.running = then_it_ends  # type: ignore[method-assign]
    assert slot_hours(read(store, NOW, now=NOW + HOUR)) == 1


def test_pages_add_up_to_the_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    a_queue(store, a_pool(slots=99))
    for n in range(9):
        begin = MIDNIGHT + n * 9 * HOUR
        lives(store, f"job{n}", admitted=begin, ended=begin + 3 * HOUR, project=f"p{n}")
    lives(store, "goes-on", admitted=MIDNIGHT + DAY, ended=None)
    now = MIDNIGHT + 3 * DAY + 20 * HOUR
    whole = read(store, MIDNIGHT, now=now, by=("project",))
    monkeypatch.setattr(report, "RECORDS_A_READ", 2)
    monkeypatch.setattr(report, "MOST_ROWS", 1)
    assert read(store, MIDNIGHT, now=now, by=("project",)) == whole
    add_up(store, MIDNIGHT + 2 * DAY + SETTLED)
    assert read(store, MIDNIGHT, now=now, by=("project",)) == whole
    page = UsageReport(store.usage, StandingClock(now)).page(start=MIDNIGHT, by=("project",))
    assert page.next is not None
    assert len(page.totals) < len(whole)


def test_long_histograms_end_a_page_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 3,000 rows may have hundreds of buckets, and Lambda answers with at most 6 MB."""
    a_queue(store, a_pool(slots=99))
    for n in range(6):
        begin = MIDNIGHT + n * DAY
        lives(store, f"job{n}", admitted=begin, ended=begin + HOUR, waited=1000 << n)
    now = MIDNIGHT + 7 * DAY
    whole = read(store, MIDNIGHT, now=now)
    monkeypatch.setattr(report, "MOST_BUCKETS", 2)
    assert read(store, MIDNIGHT, now=now) == whole
    page = UsageReport(store.usage, StandingClock(now)).page(start=MIDNIGHT)
    (amounts,) = page.totals.values()
    assert page.next is not None
    assert len(amounts.waits.buckets) == 2


@pytest.mark.parametrize("begin", [MIDNIGHT, MIDNIGHT + HOUR])
@pytest.mark.parametrize("pages_before", range(1, 5))
def test_a_day_that_is_added_up_between_two_pages_counts_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, pages_before: int, begin: int
) -> None:
    monkeypatch.setattr(report, "RECORDS_A_READ", 2)
    monkeypatch.setattr(day_sums, "RECORDS_A_READ", 3)
    a_queue(store, a_pool(slots=99))
    for n in range(8):
        lives(store, f"job{n}", admitted=MIDNIGHT, ended=MIDNIGHT + 2 * HOUR + n)
    now = MIDNIGHT + 2 * DAY
    whole = read(store, begin, now=now)
    clock, totals, after = StandingClock(now), Totals(), None
    clock.ticks = report.PAGE_BUDGET
    for number in range(60):
        if number in {pages_before, pages_before + 1}:  # A part of the day, then all of it.
            summing = StandingClock(now + number * 60_000)
            summing.ticks = day_sums.BUDGET if number == pages_before else 0
            DaySums(store.usage, store.scheduler, summing).run_if_due(summing.moment)
        clock.moment = now
        page = UsageReport(store.usage, clock).page(start=begin, end=now, after=after)
        merge(totals, page.totals.items())
        after = page.next
        if after is None:
            break
    assert after is None
    assert totals == whole


@pytest.mark.parametrize("at_a_time", [1, 2, 3])
def test_the_cursor_names_no_job(
    store: Store, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    """Whoever asks may not see every job. Five ends are recorded at one moment."""
    monkeypatch.setattr(report, "RECORDS_A_READ", at_a_time)
    a_queue(store, a_pool(slots=99))
    ends_at = [NOW + HOUR] * 5 + [NOW + HOUR + 1]
    for number, ended in enumerate(ends_at):
        lives(store, f"secret-{number}", admitted=NOW, ended=ended)
    now = NOW + 2 * DAY
    whole = read(store, NOW, now=now)
    clock, totals, after, cursors = StandingClock(now), Totals(), None, []
    clock.ticks = report.PAGE_BUDGET
    for _ in range(40):
        clock.moment = now
        page = UsageReport(store.usage, clock).page(start=NOW, end=now, after=after)
        merge(totals, page.totals.items())
        if page.next is None:
            break
        cursors.append(page.next.text())
        after = UsageCursor.parse(cursors[-1])
    assert page.next is None
    assert totals == whole
    assert not [text for text in cursors if "secret" in text]
    assert len(cursors) == len(set(cursors)) >= 6 / at_a_time


def test_a_page_ends_when_its_time_is_up(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    clock = StandingClock(MIDNIGHT + 5 * DAY)
    clock.ticks = report.PAGE_BUDGET
    seen = [UsageCursor(day=TODAY)]
    for _ in range(9):
        page = UsageReport(store.usage, clock).page(start=MIDNIGHT, after=seen[-1])
        if page.next is None:
            break
        seen.append(page.next)
    assert page.next is None
    assert 4 <= len(seen) == len({each.text() for each in seen})


def test_the_default_is_this_month_so_far(store: Store) -> None:
    a_queue(store)
    page = UsageReport(store.usage, StandingClock(NOW)).page()
    assert page.window.start == begin_of("2023-11-01")
    assert page.window.end == NOW


def test_an_empty_window_is_refused(store: Store) -> None:
    for end in (NOW, NOW - 1):
        with pytest.raises(InvalidRequest):
            UsageReport(store.usage, StandingClock(NOW)).page(start=NOW, end=end)


def test_a_window_that_begins_in_future_is_empty(store: Store) -> None:
    a_queue(store)
    lives(store, "job1", admitted=NOW, ended=None)
    page = UsageReport(store.usage, StandingClock(NOW)).page(start=NOW + DAY, end=NOW + 2 * DAY)
    assert page.totals == {}


def test_whole_days_outlive_the_history_and_parts_of_days_are_refused(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    lives(dynamo, "job1", admitted=MIDNIGHT + 20 * HOUR, ended=MIDNIGHT + 30 * HOUR)
    add_up(dynamo, MIDNIGHT + 3 * DAY)
    for key in [key for key in items.all() if key[0].startswith("ENDED")]:
        items.remove(key)
    assert slot_hours(read(dynamo, MIDNIGHT, MIDNIGHT + DAY)) == 4
    assert slot_hours(read(dynamo, MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)) == 6
    assert slot_hours(read(dynamo, MIDNIGHT + 3 * DAY)) == 0
    for start, end in ((MIDNIGHT + HOUR, None), (MIDNIGHT, MIDNIGHT + 21 * HOUR)):
        with pytest.raises(InvalidRequest, match="no longer keeps"):
            read(dynamo, start, end)


def test_unreadable_records_are_counted_and_stop_nothing(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo, a_pool(slots=9))
    for n in range(3):
        lives(dynamo, f"job{n}", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    broken = next(key for key in items.all() if key[0].startswith("ENDED"))
    for change in ({"endedAt": {"N": "9" * 30}}, {"slots": {"S": "many"}}, {"endedAt": None}):
        items.change(broken, **change)
        page = UsageReport(dynamo.usage, StandingClock(NOW)).page(start=MIDNIGHT)
        assert page.unreadable == 1
        assert slot_hours(page.totals) == 2
    add_up(dynamo, MIDNIGHT + 3 * DAY)
    later = StandingClock(MIDNIGHT + 4 * DAY)
    page = UsageReport(dynamo.usage, later).page(start=MIDNIGHT)
    assert (page.unreadable, slot_hours(page.totals)) == (1, 2)


def test_an_unreadable_sum_is_made_up_for_by_the_records(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    lives(dynamo, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    add_up(dynamo, MIDNIGHT + 2 * DAY)
    items.change(("USAGE", TODAY), attempts={"S": "many"})
    later = StandingClock(MIDNIGHT + 4 * DAY)
    page = UsageReport(dynamo.usage, later).page(start=MIDNIGHT)
    assert (page.unreadable, slot_hours(page.totals)) == (1, 1)
    add_up(dynamo, MIDNIGHT + 5 * DAY)
    assert dynamo.usage.last_sum().day == day_of(MIDNIGHT + 3 * DAY)


def test_an_unreadable_part_is_counted(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    lives(dynamo, "job1", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR)
    add_up(dynamo, MIDNIGHT + DAY + SETTLED)
    part = next(key for key in items.all() if key[0].startswith("USAGE#"))
    later = StandingClock(MIDNIGHT + 4 * DAY)
    another = zlib.compress(
        next(iter(parts_of([(TODAY, UsageGroup(), Amounts(slot_ms=1))]))).encode()
    )
    for wrong in (b"?", zlib.compress(b"{}"), another):
        items.change(part, cells={"B": wrong})
        page = UsageReport(dynamo.usage, later).page(start=MIDNIGHT)
        assert (page.unreadable, slot_hours(page.totals)) == (1, 0)
    items.remove(part)
    assert UsageReport(dynamo.usage, later).page(start=MIDNIGHT).unreadable == 1
