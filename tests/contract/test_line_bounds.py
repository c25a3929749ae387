"""A line's lower bound: who removes it, who may raise it, and who finds it wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.items import keyed
from slotq_core.adapters.dynamodb.layout.lines import (
    GRACE,
    LINE_KEPT,
    WORTH,
    StoredLine,
    line_in,
)
from slotq_core.adapters.dynamodb.layout.table import LINES, line_key, waiting_key
from slotq_core.adapters.dynamodb.layout.validation import Sieve
from slotq_core.adapters.dynamodb.reading.line_reading import LineItems
from slotq_core.adapters.dynamodb.repair.line_audit import AUDITED
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.policy.lines import line_of
from slotq_core.policy.order import rank
from slotq_core.ports.stored import Change
from slotq_core.storage.order_keys import first_key, order_key
from slotq_core.timestamps import FAR_OFF
from tests.contract.by_hand import Table, number, text
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.test_after import followed
from tests.contract.worlds import (
    NOW,
    a_job,
    a_pool,
    a_queue,
    backing_off,
    cancelling,
    commit,
    evicted,
    evicting,
    freeing,
    runs,
    starts,
    waits,
)

HOUR = 3_600_000
JOB = a_job("job1")
LINE = line_of(JOB)


def key_at(moment: int, name: str = "") -> str:
    return first_key(rank(JOB), moment) + name


def a_line(**fields: Any) -> StoredLine:
    return StoredLine(**{"name": LINE, "touched": NOW, **fields})


def bound_of(items: Table, job: Job = JOB) -> str:
    return str(items.get(line_key(line_of(job))).get("bound", {}).get("S", ""))


def set_bound(items: Table, job: Job, moment: int) -> None:
    items.change(line_key(line_of(job)), bound=text(key_at(moment)))


def raised(store: DynamoStore, items: Table, first: str | None, now: int, job: Job = JOB) -> str:
    """The bound after a pass has read the line and this first key."""
    line = line_in(items.get(line_key(line_of(job))), now)
    store.decisions._bounds.raise_to(line, first, now=now)
    return bound_of(items, job)


# --- what a pass may raise


def test_the_grace_outlives_a_handler_and_an_empty_line_outlives_the_grace() -> None:
    assert 2 * HANDLER_LIFETIME < GRACE < LINE_KEPT


OLD, YOUNG = NOW - HOUR, NOW - 1

HIGHER: dict[str, tuple[StoredLine, str | None, str]] = {
    "to the first job": (a_line(), key_at(OLD, "a"), key_at(OLD, "a")),
    "not to a job of the last minutes": (a_line(), key_at(YOUNG, "a"), key_at(NOW - GRACE)),
    "of an empty line": (a_line(), None, key_at(NOW - GRACE)),
    "not of an empty line with a bound": (a_line(bound=key_at(OLD)), None, ""),
    "not for a small gain": (
        a_line(bound=key_at(OLD)),
        key_at(OLD + WORTH - 1, "a"),
        "",
    ),
    "for a gain that is worth it": (
        a_line(bound=key_at(OLD)),
        key_at(OLD + WORTH, "a"),
        key_at(OLD + WORTH, "a"),
    ),
    "not to a lower key": (a_line(bound=key_at(OLD)), key_at(OLD - HOUR, "a"), ""),
    "not soon after a return": (a_line(returned=NOW - GRACE), key_at(OLD, "a"), ""),
    "long after a return": (
        a_line(returned=NOW - GRACE - 1),
        key_at(OLD, "a"),
        key_at(OLD, "a"),
    ),
    "not after a return in the future": (a_line(returned=NOW + 9), key_at(OLD, "a"), ""),
    "not of a broken line": (a_line(broken=True), key_at(OLD, "a"), ""),
    "not to what is no order key": (a_line(), "#odd", ""),
    "not to a key without a moment": (a_line(), key_at(OLD)[:9] + "!#a", ""),
}


@pytest.mark.parametrize("name", HIGHER)
def test_a_bound_is_raised(name: str) -> None:
    line, first, bound = HIGHER[name]
    assert line.higher_bound(first, NOW) == bound


def test_a_raise_is_refused_if_somebody_has_returned_since(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1", entry_time=OLD)
    line = line_in(items.get(line_key(LINE)), NOW)
    dynamo.decisions._bounds.returned([LINE])
    assert dynamo.decisions._bounds.raise_to(line, order_key(job), now=NOW)
    assert bound_of(items) == ""
    assert raised(dynamo, items, order_key(job), NOW) == "", "the return is too young"
    assert raised(dynamo, items, order_key(job), NOW + GRACE + 1) == order_key(job)


def test_a_slow_pass_lowers_no_bound(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    waits(dynamo, "job1", entry_time=OLD)
    slow = line_in(items.get(line_key(LINE)), NOW)
    higher = raised(dynamo, items, key_at(OLD + HOUR // 2), NOW)
    dynamo.decisions._bounds.raise_to(slow, key_at(OLD), now=NOW)
    assert bound_of(items) == higher


def test_a_removed_line_does_not_come_back_by_a_raise(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    waits(dynamo, "job1", entry_time=OLD)
    line = line_in(items.get(line_key(LINE)), NOW)
    items.remove(line_key(LINE))
    dynamo.decisions._bounds.raise_to(line, key_at(OLD), now=NOW)
    assert items.get(line_key(LINE)) == {}


def test_an_empty_line_is_removed_long_after_its_last_touch(
    dynamo: DynamoStore, items: Table
) -> None:
    waits(a_queue(dynamo), "job1")
    line = line_in(items.get(line_key(LINE)), NOW)
    dynamo.decisions._bounds.remove(line, now=NOW + LINE_KEPT)
    assert items.get(line_key(LINE))
    items.change(line_key(LINE), touched=number(NOW + 1))
    dynamo.decisions._bounds.remove(line, now=NOW + LINE_KEPT + 1)
    assert items.get(line_key(LINE)), "somebody has come since"
    line = line_in(items.get(line_key(LINE)), NOW)
    dynamo.decisions._bounds.remove(line, now=NOW + LINE_KEPT + 2)
    assert items.get(line_key(LINE)) == {}


# --- what a return removes


def released(store: DynamoStore) -> Change:
    job = waits(store, "job1", entry_time=OLD)
    job = commit(store, Change(before=job, after=replace(job, state=JobState.HELD)))
    return Change(before=job, after=replace(job, state=JobState.PENDING))


def back_off_over(store: DynamoStore) -> Change:
    job = commit(store, backing_off(starts(store, "job1", entry_time=OLD), until=NOW))
    return Change(before=job, after=replace(job, state=JobState.PENDING, not_before=None))


def amended(store: DynamoStore) -> Change:
    job = waits(store, "job1", entry_time=OLD, priority=7)
    return Change(before=job, after=replace(job, priority=1))


def after_another(store: DynamoStore) -> Change:
    followed(store, "other")
    return freeing(waits(store, "job1", entry_time=OLD, after=("other",)))


RETURNS: dict[str, Callable[[DynamoStore], Change]] = {
    "an eviction": lambda s: evicted(commit(s, evicting(runs(s, "job1", entry_time=OLD), "x"))),
    "a back-off that is over": back_off_over,
    "a release": released,
    "another priority": amended,
    "the end of its dependencies": after_another,
    "another entry time": lambda s: Change(
        before=(job := waits(s, "job1", entry_time=NOW)), after=replace(job, entry_time=OLD)
    ),
}


@pytest.mark.parametrize("name", RETURNS)
def test_a_return_removes_the_bound_first(dynamo: DynamoStore, items: Table, name: str) -> None:
    a_queue(dynamo)
    waits(dynamo, "young", entry_time=NOW)
    change = RETURNS[name](dynamo)
    set_bound(items, JOB, NOW)
    items.change(line_key(LINE), returned=None, touched=number(OLD))
    commit(dynamo, change)
    assert waiting_key(change.after) in items.all()
    line = items.get(line_key(LINE))
    assert (bound_of(items), line["returned"], line["touched"]) == ("", number(NOW), number(NOW))


def test_a_submission_keeps_the_bound(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    waits(dynamo, "job1", entry_time=OLD)
    set_bound(items, JOB, OLD)
    waits(dynamo, "job2", entry_time=NOW)
    assert bound_of(items) == key_at(OLD)


def test_a_change_that_stays_in_its_place_keeps_the_bound(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1", entry_time=OLD)
    set_bound(items, JOB, OLD)
    commit(dynamo, Change(before=job, after=replace(job, message="still here")))
    assert bound_of(items) == key_at(OLD)


def test_the_repair_of_a_lost_copy_is_a_return(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1", entry_time=OLD)
    items.remove(waiting_key(job))
    set_bound(items, JOB, NOW)
    assert [found.kind for found in dynamo.repair.inspect(mend=True)] == ["copy"]
    assert (bound_of(items), waiting_key(job) in items.all()) == ("", True)


# --- broken values


@pytest.mark.parametrize(
    "broken",
    [
        {"bound": number(7)},
        {"bound": text("")},
        {"bound": text("zzz")},
        {"bound": text("1234567#no moment#a")},
        {"bound": text(key_at(NOW + 1))},
        {"returned": text("yesterday")},
        {"returned": number(NOW + FAR_OFF + 1)},
        {"returned": {"NULL": True}},
        {"returned": text("?"), "bound": number(1)},
    ],
)
def test_broken_values_count_as_a_return_and_are_mended(
    dynamo: DynamoStore, items: Table, broken: dict[str, Any]
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1", entry_time=OLD)
    items.change(line_key(LINE), **broken)
    line = line_in(items.get(line_key(LINE)), NOW)
    assert (line.broken, line.bound, line.returned) == (True, "", None)
    assert raised(dynamo, items, order_key(job), NOW) == ""
    assert items.get(line_key(LINE))["returned"] == number(NOW)
    assert raised(dynamo, items, order_key(job), NOW + GRACE + 1) == order_key(job)


# --- audits


def hide(store: DynamoStore, items: Table, name: str, **fields: Any) -> Job:
    """A job waits below its line's bound, as no code of ours would leave it."""
    job = waits(store, name, entry_time=OLD, **fields)
    bound = first_key(rank(job), NOW)
    items.change(line_key(line_of(job)), bound=text(bound))
    return job


def test_an_audit_finds_a_hidden_job_and_heals(dynamo: DynamoStore, items: Table) -> None:
    job = hide(a_queue(dynamo), items, "job1")
    (found,) = dynamo.repair.audit(now=NOW)
    assert (found.kind, found.subject, found.mended) == ("line", job.name, True)
    assert bound_of(items) == ""
    assert list(dynamo.repair.audit(now=NOW)) == []


def test_an_audit_mends_broken_values(dynamo: DynamoStore, items: Table) -> None:
    waits(a_queue(dynamo), "job1")
    items.change(line_key(LINE), bound=number(7))
    items.put((LINES, "no line"), {"touched": number(NOW)})
    (found,) = dynamo.repair.audit(now=NOW)
    assert (found.kind, found.subject, found.mended) == ("unreadable", LINE, True)
    assert list(dynamo.repair.audit(now=NOW)) == []


def test_an_audit_removes_an_empty_line_that_no_pass_reads(
    dynamo: DynamoStore, items: Table
) -> None:
    commit(dynamo, cancelling(waits(a_queue(dynamo), "job1")))
    set_bound(items, JOB, NOW)
    dynamo.repair.audit(now=NOW + LINE_KEPT)
    assert items.get(line_key(LINE))
    dynamo.repair.audit(now=NOW + LINE_KEPT + 1)
    assert items.get(line_key(LINE)) == {}


def test_audits_take_turns_over_all_lines(
    evented_store: tuple[DynamoStore, str], evented_client: EventedDynamo
) -> None:
    store, name = evented_store
    items, count = Table(evented_client, name), 2 * AUDITED + 3
    a_queue(store, a_pool("p5", 1))
    for n in range(count):
        hide(store, items, f"job{n}", priority=n)
    calls: list[str] = []
    evented_client.meta.events.register(
        "before-call.dynamodb", lambda model, **_: calls.append(model.name)
    )
    found = [len(store.repair.audit(now=NOW)) for _ in range(3)]
    assert found == [AUDITED, AUDITED, 3]
    assert len(calls) <= 3 * (3 + 2 * AUDITED)
    assert [list(store.repair.audit(now=NOW)) for _ in range(3)] == [[], [], []]


def test_an_audit_of_an_idle_queue_takes_two_reads(
    evented_store: tuple[DynamoStore, str], evented_client: EventedDynamo
) -> None:
    store, _ = evented_store
    a_queue(store)
    calls: list[str] = []
    evented_client.meta.events.register(
        "before-call.dynamodb", lambda model, **_: calls.append(model.name)
    )
    assert list(store.repair.audit(now=NOW)) == []
    assert calls == ["GetItem", "Query"]


@pytest.mark.parametrize("mend", [False, True])
def test_the_doctor_examines_all_lines(dynamo: DynamoStore, items: Table, mend: bool) -> None:
    a_queue(dynamo)
    names = {hide(dynamo, items, f"job{n}", priority=n).name for n in range(3)}
    waits(dynamo, "seen", priority=9)
    found = list(dynamo.repair.inspect(mend=mend))
    assert {each.subject for each in found} == names
    assert {(each.kind, each.mended) for each in found} == {("line", mend)}
    assert len(list(dynamo.repair.inspect())) == (0 if mend else 3)


def test_an_unchanged_item_of_a_line_is_read_once() -> None:
    """Unless it was broken by a time that lies too far ahead, or the clock has been put back."""
    line = {**keyed(line_key(LINE)), "touched": number(NOW), "waiting": number(3)}
    lines = LineItems()
    (first,) = lines.lines_in([line], Sieve(), NOW)
    assert first == line_in(line, NOW)
    (again,) = lines.lines_in([dict(line)], Sieve(), NOW + 1)
    assert again is first
    (counted,) = lines.lines_in([{**line, "waiting": number(4)}], Sieve(), NOW + 2)
    assert counted.waiting == 4
    late = {**line, "returned": number(NOW + FAR_OFF + 10)}
    (broken,) = lines.lines_in([late], Sieve(), NOW + 3)
    assert broken.broken
    (sound,) = lines.lines_in([late], Sieve(), NOW + 20)
    assert (sound.broken, sound.returned) == (False, NOW + FAR_OFF + 10)
    (broken,) = lines.lines_in([late], Sieve(), NOW + 3)
    assert broken.broken
    assert lines.lines_in([], Sieve(), NOW + 30) == []
    sieve = Sieve()
    assert lines.lines_in([keyed(line_key("nonsense"))], sieve, NOW + 40) == []
    assert sieve.poison
