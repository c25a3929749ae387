"""Callers' use of their limits: counted by one conditional update each, audited, and never a
lock-out for ever."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from slotq_core.adapters.dynamodb.accounting.counters import LinesOfItems
from slotq_core.adapters.dynamodb.layout.items import items_of
from slotq_core.adapters.dynamodb.layout.table import caller_key, job_key, limits_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.admission.caller_limits import MINUTE
from slotq_core.errors import Conflict
from slotq_core.model.callers import CallerLimits, CallerUse, QueueUse, opener_mark
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.ports.counters import Counter
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, NoSuchLine
from slotq_core.wire.limits_definition import limits_from
from tests.contract.by_hand import Table
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_queue,
    cancelling,
    commit,
    evicted,
    evicting,
    jobs,
    runs,
    starts,
    waits,
)

ADA = "arn:aws:iam::123456789012:user/ada"
GRACE = "arn:aws:sts::123456789012:assumed-role/Scientist/grace"
MIN = NOW // MINUTE
TWO = CallerLimits(waiting=2)
LIMITS = limits_from({"waiting": 2, "submissions": 3, "callers": [{"callers": "*", "priority": 4}]})


def take(
    store: Store, caller: str = ADA, limits: CallerLimits = TWO, minute: int | None = MIN
) -> bool:
    return store.counters.take(caller, minute=minute, limits=limits)


def test_use_counts_for_its_caller_alone(store: Store) -> None:
    assert [take(store), take(store), take(store), take(store, GRACE)] == [True, True, False, True]
    assert store.counters.use(ADA, minute=MIN) == CallerUse(waiting=2, submissions=2)
    assert store.counters.use(GRACE, minute=MIN) == CallerUse(waiting=1, submissions=1)
    assert store.counters.use("nobody", minute=MIN) == CallerUse()


def test_a_new_minute_starts_at_zero_and_waiting_jobs_still_count(store: Store) -> None:
    one = CallerLimits(submissions=1)
    assert [take(store, limits=one), take(store, limits=one)] == [True, False]
    assert take(store, limits=one, minute=MIN + 1)
    assert take(store, limits=one, minute=MIN + 1) is False
    assert store.counters.use(ADA, minute=MIN + 1) == CallerUse(waiting=2, submissions=1)


def test_without_a_limit_everything_is_admitted(store: Store) -> None:
    assert all(take(store, limits=CallerLimits()) for _ in range(9))


def test_use_given_back_no_longer_counts_and_never_falls_below_zero(store: Store) -> None:
    take(store)
    for _ in range(3):
        store.counters.give_back(ADA, minute=MIN)
    store.counters.give_back(GRACE, minute=MIN)
    assert store.counters.use(ADA, minute=MIN) == CallerUse()
    assert store.counters.use(GRACE, minute=MIN) == CallerUse()


def test_a_submission_given_back_as_waiting_still_counts_in_its_minute(store: Store) -> None:
    take(store)
    for _ in range(2):
        store.counters.give_back(ADA, minute=None)
    store.counters.give_back(GRACE, minute=None)
    assert store.counters.use(ADA, minute=MIN) == CallerUse(submissions=1)
    assert store.counters.use(GRACE, minute=MIN) == CallerUse()


def test_a_job_that_no_submission_brings_counts_as_waiting_alone(store: Store) -> None:
    limits = CallerLimits(waiting=2, submissions=1)
    assert [take(store, limits=limits, minute=it) for it in (None, MIN, None)] == [
        True,
        True,
        False,
    ]
    assert store.counters.use(ADA, minute=MIN) == CallerUse(waiting=2, submissions=1)
    assert store.counters.all()[ADA].minutes == {MIN}
    assert take(store, GRACE, limits=CallerLimits(), minute=None)
    assert store.counters.all()[GRACE].minutes == frozenset()


def test_concurrent_callers_stay_within_the_limit(racing_store: Store) -> None:
    """Concurrency must not get around a limit."""
    limits = CallerLimits(waiting=20, submissions=1000)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: take(racing_store, limits=limits), range(60)))
    assert sum(taken) == 20
    assert racing_store.counters.use(ADA, minute=MIN).waiting == 20


def test_a_census_counts_jobs_without_slots_and_lines(store: Store) -> None:
    a_queue(store)
    starts(store, "running")
    commit(store, evicted(commit(store, evicting(runs(store, "evicted"), "x"))))
    waits(store, "job1", submitter=GRACE, slots=2)
    commit(store, cancelling(waits(store, "gone", submitter=GRACE)))
    census = store.counters.census()
    assert dict(census.waiting) == {ADA: 1, GRACE: 1}
    assert census.lines == 2


def test_a_census_names_who_opened_a_line_and_who_waits_in_it(store: Store) -> None:
    a_queue(store)
    store.jobs.submit(a_job("a", priority=1, submitter=ADA), REQUEST, opener="ada")
    store.jobs.submit(a_job("b", priority=2, submitter=GRACE, entry_time=NOW + 1), REQUEST)
    store.jobs.submit(a_job("c", priority=1, submitter=GRACE, entry_time=NOW + 2), REQUEST)
    found = {(line.opener, *line.submitters) for line in store.counters.census().open_lines}
    assert found == {(opener_mark("ada"), ADA, GRACE), ("", GRACE)}
    assert store.counters.census().lines == 2


def test_a_census_counts_a_line_that_a_job_will_come_to(store: Store) -> None:
    """Who fills lines in time pays for them: the queue puts jobs there without asking."""
    a_queue(store)
    first = store.jobs.submit(replace(a_job("first"), followed=True), REQUEST)
    store.jobs.submit(a_job("b", slots=2, submitter=GRACE, after=(first.name,)), REQUEST)
    inside = store.jobs.submit(a_job("c", slots=2, entry_time=NOW + 1), REQUEST)

    def counted() -> tuple[int, list[list[str]]]:
        census = store.counters.census()
        return census.lines, sorted([*line.submitters] for line in census.open_lines)

    assert counted() == (2, [[ADA], [ADA, GRACE]])
    commit(store, cancelling(inside))
    assert counted() == (1, [[ADA], [GRACE]])


@given(jobs())
def test_a_census_reads_what_names_a_line(job: Job) -> None:
    item = items_of(job)[job_key(job.name)]
    read = {name: item[name] for name in LinesOfItems.ATTRIBUTES if name in item}
    comes = job.comes_to_line
    assert LinesOfItems().line_of(read) == (line_of(job) if comes else "", job.waits)


def test_a_line_is_opened_within_the_callers_lines_and_submissions(store: Store) -> None:
    def opens(lines: int = 0, submissions: int = 0, minute: int | None = MIN) -> bool:
        return store.counters.open_line(ADA, minute=minute, lines=lines, submissions=submissions)

    assert [opens(lines=2), opens(lines=2), opens(lines=2)] == [True, True, False]
    assert opens(submissions=2) is False
    assert opens(submissions=3)
    assert opens(lines=4, submissions=3, minute=None)
    assert opens(minute=MIN + 1)
    assert store.counters.use(ADA, minute=MIN) == CallerUse(submissions=3, lines=5)


def test_a_line_that_a_submission_opens_is_in_its_callers_next_count(store: Store) -> None:
    a_queue(store)
    store.jobs.submit(a_job("a", priority=1), REQUEST, opener=ADA)
    store.jobs.submit(a_job("b", priority=1), REQUEST, opener=ADA)
    store.jobs.submit(a_job("c", priority=2), REQUEST, opener=ADA)
    found = store.counters.count(ADA, minute=MIN, limits=CallerLimits())
    assert found == CallerUse(waiting=1, submissions=1, lines=2)
    assert store.counters.count(ADA, minute=MIN, limits=CallerLimits(submissions=1)) is None
    store.jobs.submit(a_job("d", priority=3), REQUEST, opener=ADA)
    assert store.counters.open_line(ADA, minute=None, lines=3, submissions=0) is False
    assert store.counters.open_line(ADA, minute=None, lines=4, submissions=0)
    assert store.counters.use(ADA, minute=MIN).lines == 4


def test_an_audit_corrects_the_lines_of_a_caller(store: Store) -> None:
    for _ in range(3):
        store.counters.open_line(ADA, minute=None, lines=0, submissions=0)
    seen = store.counters.all()[ADA]
    store.counters.open_line(ADA, minute=None, lines=0, submissions=0)
    store.counters.correct(ADA, seen, waiting=0, minute=MIN, lines=1)
    assert store.counters.use(ADA, minute=MIN).lines == 2
    store.counters.correct(ADA, store.counters.all()[ADA], waiting=0, minute=MIN, lines=2)
    assert ADA in store.counters.all(), "a caller with lines keeps the counter"
    store.counters.correct(ADA, store.counters.all()[ADA], waiting=0, minute=MIN)
    if ADA in store.counters.all():
        store.counters.correct(ADA, store.counters.all()[ADA], waiting=0, minute=MIN)
    assert store.counters.all() == {}


def test_a_change_that_may_open_no_line_is_not_made(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    change = Change(before=job, after=replace(job, priority=7))
    with pytest.raises(NoSuchLine):
        store.decisions.commit([change], opens_line=False)
    assert store.jobs.get("job1") == job
    waits(store, "job2", priority=7)
    assert store.decisions.commit([change], opens_line=False)[0].priority == 7


def test_a_correction_keeps_use_counted_since_the_audit_began(store: Store) -> None:
    """The audit reads the counter, counts and corrects. Use counted in between is kept."""
    for _ in range(2):
        take(store)
    seen = store.counters.all()[ADA]
    take(store, limits=CallerLimits())
    store.counters.correct(ADA, seen, waiting=1, minute=MIN)
    assert store.counters.use(ADA, minute=MIN) == CallerUse(waiting=2, submissions=3)


def test_one_of_two_concurrent_audits_corrects(store: Store) -> None:
    for _ in range(2):
        take(store)
    seen = store.counters.all()[ADA]
    for _ in range(2):
        store.counters.correct(ADA, seen, waiting=1, minute=MIN)
    assert store.counters.use(ADA, minute=MIN).waiting == 1


def test_a_missing_counter_is_created(store: Store) -> None:
    store.counters.correct(ADA, Counter(), waiting=7, minute=MIN)
    assert store.counters.use(ADA, minute=MIN).waiting == 7
    assert take(store) is False


def test_old_minutes_are_forgotten_and_then_the_counter(store: Store) -> None:
    take(store)
    take(store, minute=MIN + 1)
    store.counters.correct(ADA, store.counters.all()[ADA], waiting=1, minute=MIN + 2)
    assert store.counters.all()[ADA].minutes == {MIN + 1}
    store.counters.correct(ADA, store.counters.all()[ADA], waiting=0, minute=MIN + 9)
    if ADA in store.counters.all():  # The first call removes the minutes, the next one the counter.
        store.counters.correct(ADA, store.counters.all()[ADA], waiting=0, minute=MIN + 9)
    assert store.counters.all() == {}


def test_the_use_of_all_callers_is_read_with_the_configuration(store: Store) -> None:
    a_queue(store)
    assert store.configuration.read().use == QueueUse()
    store.counters.set_queue_use(QueueUse(waiting=7, lines=3))
    stand = store.configuration.read()
    assert (stand.use, stand.revision) == (QueueUse(waiting=7, lines=3), 1)


def test_changes_of_limits_are_recorded(store: Store) -> None:
    a_queue(store)
    store.configuration.change(limits=LIMITS, who="ada", now=NOW, seen=1)
    assert store.configuration.read().limits == LIMITS
    with pytest.raises(Conflict):
        store.configuration.change(limits=limits_from({}), who="grace", now=NOW, seen=1)
    store.configuration.change(limits=LIMITS, who="grace", now=NOW)
    last, first = store.configuration.changes(limit=9)
    assert (last.who, last.limits_before, last.limits_after) == ("ada", limits_from({}), LIMITS)
    assert (last.before, first.limits_after) == (last.after, limits_from({}))
    assert [pool.name for pool in store.configuration.pools()] == ["p5"]


def test_a_job_that_may_open_no_line_can_join_an_existing_one(store: Store) -> None:
    a_queue(store)
    waits(store, "job1")
    store.jobs.submit(a_job("job2"), REQUEST, opens_line=False)
    with pytest.raises(Conflict):
        store.jobs.submit(a_job("job3", slots=2), REQUEST, opens_line=False)
    assert store.jobs.get("job3") is None
    assert store.counters.census().lines == 1


@pytest.mark.parametrize(
    "item",
    [
        {"waiting": {"S": "many"}},
        {"waiting": {"L": []}},
        {f"m{MIN}": {"S": "x"}, "waiting": {"N": "1"}},
        {"waiting": {"N": "99"}, "audits": {"S": "x"}},
    ],
)
def test_an_unreadable_counter_locks_nobody_out(
    dynamo: DynamoStore, client: Any, table: str, item: dict[str, Any]
) -> None:
    Table(client, table).put(caller_key(ADA), item)
    limits = CallerLimits(waiting=2, submissions=2)
    take(dynamo, limits=limits)
    for _ in range(2):
        seen = dynamo.counters.all().get(ADA, Counter())
        dynamo.counters.correct(ADA, seen, waiting=0, minute=MIN + 5)
    assert take(dynamo, limits=limits, minute=MIN + 5)


def test_nothing_is_given_back_to_an_unreadable_counter(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    Table(client, table).put(caller_key(ADA), {"waiting": {"S": "many"}})
    dynamo.counters.give_back(ADA, minute=None)
    assert dynamo.counters.all() == {ADA: Counter(readable=False)}


def test_unreadable_limits_count_as_none(dynamo: DynamoStore, client: Any, table: str) -> None:
    a_queue(dynamo)
    for settings in ({"S": "{"}, {"S": '{"waiting": -1}'}, {"N": "1"}):
        Table(client, table).put(limits_key(), {"settings": settings})
        assert dynamo.configuration.read().limits == limits_from({})
        (told,) = dynamo.repair.inspect()
        assert (told.kind, told.subject) == ("unreadable", "limits")
