"""The timeline of attempts: every attempt that held slots in a window, once, in pages of bounded
cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import InvalidRequest
from slotq_core.model.attempts import AttemptOutcome, Beneficiary, StopCause, StopOrder
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.usage import month_sums, timeline
from slotq_core.operations.usage.day_sums import SETTLED
from slotq_core.operations.usage.timeline import Cursor, Timeline, TimelinePage
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.calendar_days import DAY, begin_of, day_of
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.test_dynamodb_cost import measured
from tests.contract.test_usage import HOUR, MIDNIGHT, StandingClock, add_up, ends, lives
from tests.contract.test_usage_cost import DAYS, START, an_item, fill
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    commit,
    evicted,
    running,
    starting,
    starts,
    waits,
)

LATER = NOW + 2 * HOUR


def pages(store: Store, *, now: int = LATER, **asked: Any) -> Iterator[TimelinePage]:
    reads, after = Timeline(store.usage, StandingClock(now)), None
    while True:
        page = reads.page(after=after, **asked)
        yield page
        if page.next is None:
            return
        assert page.next != after
        after = Cursor.parse(page.next.text())


def names(store: Store, **asked: Any) -> list[str]:
    return [use.job for page in pages(store, **asked) for use in page.attempts]


def is_evicted(store: Store, name: str, *, by: str, gains: Beneficiary | None) -> Job:
    job = commit(store, running(starts(store, name)))
    assert job.attempt
    order = StopOrder(cause=StopCause.EVICTED, by=by, at=NOW + 3, beneficiary=gains)
    stopping = replace(job, state=JobState.STOPPING, attempt=replace(job.attempt, stop=order))
    return commit(store, evicted(commit(store, Change(before=job, after=stopping))))


def test_attempts_that_touch_the_window_are_told(store: Store) -> None:
    a_queue(store, a_pool("p5", 9), a_pool("p4", 9))
    lives(store, "before", admitted=NOW - 5 * HOUR, ended=NOW - 4 * HOUR)
    lives(store, "into", admitted=NOW - 5 * HOUR, ended=NOW + 1)
    lives(store, "within", admitted=NOW + 1, ended=NOW + 2)
    lives(store, "across", admitted=NOW - 5 * HOUR, ended=NOW + 2 * HOUR)
    lives(store, "at-once", admitted=NOW, ended=NOW)
    lives(store, "goes-on", admitted=NOW, ended=None)
    lives(store, "after", admitted=NOW + HOUR, ended=NOW + 2 * HOUR)
    lives(store, "starts-after", admitted=NOW + HOUR, ended=None)
    commit(store, starting(waits(store, "elsewhere", pools=("p4",)), "p4"))
    window = {"start": NOW, "end": NOW + HOUR, "now": NOW + 3 * HOUR}
    found = names(store, **window)
    assert sorted(found) == ["across", "at-once", "elsewhere", "goes-on", "into", "within"]
    assert names(store, **window, pool="p5")
    assert "elsewhere" not in names(store, **window, pool="p5")
    assert names(store, **window, pool="nowhere") == []


def test_the_last_day_is_the_default(store: Store) -> None:
    a_queue(store)
    (page,) = pages(store)
    assert (page.start, page.end, page.as_of) == (LATER - DAY, LATER, LATER)
    (page,) = pages(store, end=NOW)
    assert (page.start, page.end) == (NOW - DAY, NOW)


@pytest.mark.parametrize("window", [(NOW, NOW), (NOW, NOW - 1), (LATER, None), (LATER + DAY, None)])
def test_an_empty_window_is_refused(store: Store, window: tuple[int, int | None]) -> None:
    with pytest.raises(InvalidRequest):
        next(pages(store, start=window[0], end=window[1]))


def test_an_eviction_is_told_from_whom_and_for_whom(store: Store) -> None:
    a_queue(store)
    gains = Beneficiary(project="speech", submitter="bob", workload="interactive")
    is_evicted(store, "victim", by="urgent", gains=gains)
    (page,) = pages(store)
    (use,) = page.attempts
    assert (use.job, use.outcome, use.evicted_for) == ("victim", "evicted", "urgent")
    assert use.beneficiary == gains
    assert use.lost_since == NOW


def test_an_eviction_for_nobody_names_nobody(store: Store) -> None:
    """A gang's members are taken back when it cannot start whole."""
    a_queue(store)
    is_evicted(store, "member", by="the-gang", gains=None)
    (page,) = pages(store)
    (use,) = page.attempts
    assert (use.outcome, use.evicted_for, use.beneficiary) == ("evicted", "", None)
    assert use.lost_since is not None


def test_a_record_of_an_earlier_version_still_reads(dynamo: DynamoStore, items: Table) -> None:
    """It has neither the outcome nor the name of whom it was evicted for."""
    a_queue(dynamo)
    gains = Beneficiary(project="speech", submitter="bob", workload="training")
    is_evicted(dynamo, "victim", by="urgent", gains=gains)
    items.change(items.only("ENDED#"), outcome=None, evictedFor=None)
    (page,) = pages(dynamo)
    (use,) = page.attempts
    assert (use.outcome, use.evicted_for, use.beneficiary) == ("", "", gains)
    assert page.unreadable == 0


@pytest.mark.parametrize("outcome", [AttemptOutcome.COMPLETED, AttemptOutcome.FAILED])
def test_how_an_attempt_ended_is_recorded(store: Store, outcome: AttemptOutcome) -> None:
    a_queue(store)
    job = lives(store, "job1", admitted=NOW, ended=None)
    commit(store, ends(job, NOW + 1, outcome=outcome))
    (page,) = pages(store)
    assert [use.outcome for use in page.attempts] == [outcome.value]


def test_pages_together_tell_each_attempt_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_queue(store, a_pool(slots=99))
    expected = []
    for n in range(17):
        begin = MIDNIGHT + n * 5 * HOUR
        lives(store, f"job{n}", admitted=begin, ended=begin + 3 * HOUR)
        expected.append(f"job{n}")
    lives(store, "goes-on", admitted=MIDNIGHT + HOUR, ended=None)
    now = MIDNIGHT + 3 * DAY + 20 * HOUR
    asked = {"start": MIDNIGHT, "now": now}
    whole = names(store, **asked)
    assert sorted(whole) == sorted([*expected, "goes-on"])
    for limit, value in (("MOST_ATTEMPTS", 1), ("MOST_READS", 1), ("MOST_RECORDS", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(timeline, "MOST_ATTEMPTS", 3)
            patched.setattr(timeline, limit, value)
            assert names(store, **asked) == whole
            assert len([*pages(store, **asked)]) > 1
    add_up(store, MIDNIGHT + 2 * DAY + SETTLED)
    assert names(store, **asked) == whole


def test_pages_are_short_also_where_all_happens_at_one_moment(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_queue(store, a_pool(slots=99))
    for n in range(7):
        lives(store, f"ended{n}", admitted=NOW, ended=NOW + HOUR)
        lives(store, f"runs{n}", admitted=NOW, ended=None)
    monkeypatch.setattr(timeline, "MOST_ATTEMPTS", 2)
    found = [*pages(store, now=NOW + 2 * HOUR)]
    assert [len(page.attempts) for page in found] == [2] * 7
    told = [use.job for page in found for use in page.attempts]
    assert told == [f"ended{n}" for n in range(7)] + [f"runs{n}" for n in range(7)]


def test_a_cursor_names_no_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks may not be allowed to see the job at which a page ends."""
    a_queue(store, a_pool(slots=99))
    for n in range(3):
        lives(store, f"secret{n}", admitted=NOW + n, ended=NOW + HOUR + n)
        lives(store, f"secret-too{n}", admitted=NOW + n, ended=None)
    monkeypatch.setattr(timeline, "MOST_ATTEMPTS", 1)
    cursors = [page.next.text() for page in pages(store, now=NOW + 2 * HOUR) if page.next]
    assert len(cursors) == 5
    assert not any("secret" in each for each in cursors)


def test_an_attempt_that_ends_while_it_is_read_is_told_once(store: Store) -> None:
    """Between the read of those that go on and that of the newest records."""
    a_queue(store)
    job = lives(store, "job1", admitted=NOW, ended=None)
    running_before = store.usage.running

    def then_it_ends() -> tuple[Job, ...]:
        found = running_before()
        if job.name in {each.name for each in found}:
            commit(store, ends(job, NOW + HOUR))
        return found

    store.usage.running = then_it_ends  # type: ignore[method-assign]
    (page,) = pages(store, now=NOW + HOUR)
    assert [(use.job, use.ended_at) for use in page.attempts] == [("job1", NOW + HOUR)]


def test_days_whose_attempts_began_later_are_not_read(
    evented_client: EventedDynamo, evented_store: tuple[DynamoStore, str]
) -> None:
    """An old window costs its own days, and the days that are not added up."""
    store, table = evented_store
    a_queue(store)
    fill(evented_client, table, 5)
    now = START + DAYS * DAY + HOUR
    add_up(store, now + SETTLED)
    with measured(evented_client) as few:
        assert len(names(store, start=START, end=START + DAY, now=now)) == 5
    with measured(evented_client) as many:
        assert len(names(store, start=START, now=now)) == 5 * DAYS
    assert len(few.calls) <= 8
    assert len(few.calls) + DAYS - 2 <= len(many.calls) <= len(few.calls) + DAYS


def test_a_month_without_attempts_is_one_page(store: Store) -> None:
    a_queue(store)
    lives(store, "old", admitted=NOW, ended=NOW + HOUR)
    add_up(store, NOW + 40 * DAY)
    (page,) = pages(store, start=NOW + 5 * DAY, end=NOW + 36 * DAY, now=NOW + 41 * DAY)
    assert page.attempts == ()


def test_what_has_expired_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(history=DAY)
    a_queue(store, a_pool(slots=9))
    for n in range(3):
        lives(store, f"job{n}", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR + n)
    now = MIDNIGHT + 20 * DAY
    add_up(store, now)
    store.repair.expire(now=now)
    (page,) = pages(store, start=MIDNIGHT, end=MIDNIGHT + DAY, now=now)
    assert (page.attempts, page.gone) == ((), 3)
    monkeypatch.setattr(timeline, "MOST_READS", 1)
    assert sum(each.gone for each in pages(store, start=MIDNIGHT, now=now)) == 3


def test_unreadable_records_are_counted(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    lives(dynamo, "job1", admitted=NOW, ended=NOW + 1)
    items.change(items.only("ENDED#"), slots={"S": "many"})
    (page,) = pages(dynamo)
    assert (page.attempts, page.unreadable) == ((), 1)


def test_a_page_has_no_more_than_its_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    a_queue(store, a_pool(slots=9))
    for n in range(4):
        lives(store, f"job{n}", admitted=MIDNIGHT + n * DAY, ended=MIDNIGHT + n * DAY + HOUR)
    monkeypatch.setattr(timeline, "PAGE_BUDGET", 0)
    found = [*pages(store, start=begin_of(day_of(NOW)), now=NOW + 4 * DAY)]
    assert len(found) > 3
    assert sorted(use.job for page in found for use in page.attempts) == [
        f"job{n}" for n in range(4)
    ]


class Watcher:
    """Looks again and again, as the page does: keeps what is settled and asks for the rest."""

    def __init__(self, store: Store, **asked: Any) -> None:
        self._store, self._asked = store, asked
        self._kept: list[AttemptUse] = []
        self._gone = 0
        self._next: Cursor | None = None

    def look(self, now: int) -> tuple[list[AttemptUse], int]:
        """All attempts, and the number of those that are gone."""
        found, gone, is_whole, after = [*self._kept], self._gone, True, self._next
        while True:
            page = Timeline(self._store.usage, StandingClock(now)).page(after=after, **self._asked)
            settled = page.settled
            if is_whole and settled is not None:
                self._kept = [*found, *page.attempts[: settled.attempts]]
                self._gone = gone + settled.gone
                self._next = Cursor.parse(settled.next.text())
                is_whole = settled.next == page.next
            else:
                is_whole = False
            found, gone, after = [*found, *page.attempts], gone + page.gone, page.next
            if after is None:
                return found, gone


def by_identity(uses: list[AttemptUse]) -> list[AttemptUse]:
    assert len({use.identity for use in uses}) == len(uses)
    return sorted(uses, key=lambda use: use.identity)


@pytest.mark.parametrize("most", [2, 1_000])
def test_a_later_look_tells_what_a_new_one_would(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Jobs begin and end over two days, some at one moment. Looks are hours and a minute apart."""
    monkeypatch.setattr(timeline, "MOST_ATTEMPTS", most)
    a_queue(store, a_pool(slots=99))
    watcher = Watcher(store, start=MIDNIGHT)
    running: list[Job] = []
    for hour in range(1, 49, 5):
        now = MIDNIGHT + hour * HOUR
        names_now = (f"one{hour:02}", f"two{hour:02}")
        running += [lives(store, each, admitted=now - 60_000, ended=None) for each in names_now]
        if len(running) > 3:  # Two end at one moment, and then for a while none.
            commit(store, ends(running.pop(0), now - 30_000))
            commit(store, ends(running.pop(0), now - 30_000))
        for moment in (now, now + 60_000):
            anew = pages(store, start=MIDNIGHT, now=moment)
            whole = [use for page in anew for use in page.attempts]
            assert by_identity(watcher.look(moment)[0]) == by_identity(whole)
    assert len(whole) == 20


def test_a_record_that_comes_late_is_told_by_a_later_look(store: Store) -> None:
    a_queue(store, a_pool(slots=9))
    slow = lives(store, "slow", admitted=NOW, ended=None)
    lives(store, "quick", admitted=NOW, ended=NOW + HOUR + 9)
    watcher = Watcher(store, start=NOW)
    assert len(watcher.look(NOW + HOUR + 10)[0]) == 2
    commit(store, ends(slow, NOW + HOUR))
    found, _ = watcher.look(NOW + HOUR + month_sums.SETTLED)
    assert {use.job: use.ended_at for use in found} == {
        "slow": NOW + HOUR,
        "quick": NOW + HOUR + 9,
    }


def test_what_has_expired_is_counted_once_by_later_looks() -> None:
    store = MemoryStore(history=DAY)
    a_queue(store, a_pool(slots=9))
    for n in range(3):
        lives(store, f"job{n}", admitted=MIDNIGHT, ended=MIDNIGHT + HOUR + n)
    now = MIDNIGHT + 20 * DAY
    add_up(store, now)
    store.repair.expire(now=now)
    watcher = Watcher(store, start=MIDNIGHT)
    assert [watcher.look(now + n * DAY) for n in range(3)] == [([], 3)] * 3


def test_a_later_look_reads_only_what_has_changed(
    evented_client: EventedDynamo, evented_store: tuple[DynamoStore, str]
) -> None:
    """5,000 attempts of a day, drawn a minute later again. Before, each look read them all."""
    store, table = evented_store
    a_queue(store, a_pool(slots=99))
    evented_client.fill(table, (an_item(0, number * 12_000) for number in range(5_000)))
    now = START + DAY
    watcher = Watcher(store, start=START)
    with measured(evented_client) as first:
        assert len(watcher.look(now)[0]) == 5_000
    costs = []
    for minute in (1, 2):
        with measured(evented_client) as later:
            assert len(watcher.look(now + minute * 60_000)[0]) == 5_000
        costs.append((later.read_units, len(later.calls)))
    print(f"a new look: {first.read_units} read units, {len(first.calls)} calls; later: {costs}")
    assert first.read_units > 400
    assert all(units <= 12 and calls <= 8 for units, calls in costs)
