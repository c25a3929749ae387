"""Lines named by another version: a pass moves their jobs into this version's lines."""

from __future__ import annotations

import json

from hypothesis import given

from slotq_core.adapters.dynamodb.layout.lines import LINE_KEPT
from slotq_core.adapters.dynamodb.layout.table import POISON, line_key, waiting_key
from slotq_core.adapters.dynamodb.repair.old_lines import _AT_ONCE
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import Line, line_of
from slotq_core.ports.stored import Ahead
from tests.contract.by_hand import Table, another, as_another_version, number, text
from tests.contract.worlds import (
    NOW,
    a_job,
    a_pool,
    a_queue,
    all_waiting,
    cancelling,
    commit,
    jobs,
    waits,
)

LATER = NOW + 10


def places(items: Table) -> set[tuple[str, str]]:
    return {key for key in items.all() if key[0].startswith("WAITING#")}


def seen(store: DynamoStore, now: int = LATER) -> list[str]:
    world = store.worlds.load(now)
    assert world.poison == ()
    return sorted(job.name for job in all_waiting(world))


def test_jobs_are_moved_before_anything_is_planned(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    found = [waits(dynamo, f"job{n}", entry_time=NOW + n, priority=5) for n in range(3)]
    as_another_version(items, *found)
    urgent = waits(dynamo, "urgent", priority=9)
    assert seen(dynamo) == ["job0", "job1", "job2", "urgent"]
    assert places(items) == {waiting_key(job) for job in (*found, urgent)}
    assert items.get(line_key(line_of(found[0])))["touched"] == number(LATER)
    assert list(dynamo.repair.inspect()) == []
    commit(dynamo, cancelling(found[1]))
    assert seen(dynamo) == ["job0", "job2", "urgent"]


def test_more_jobs_than_one_transaction_takes_are_moved(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo, a_pool("p5", 100))
    count = 2 * _AT_ONCE + 1
    found = [waits(dynamo, f"job{n}", entry_time=NOW + n) for n in range(count)]
    as_another_version(items, *found)
    assert sorted(seen(dynamo)) == sorted(job.name for job in found)


def test_a_reader_sees_the_jobs_and_moves_none(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    as_another_version(items, waits(dynamo, "job1"))
    before = items.all()
    world = dynamo.worlds.load_all(NOW)
    assert ([job.name for job in world.snapshot.waiting], world.poison) == (["job1"], ())
    assert world.ahead_of(a_job("job2")) == Ahead(jobs=0)
    assert items.all() == before


def test_a_stale_copy_in_another_versions_line_is_removed(
    dynamo: DynamoStore, items: Table
) -> None:
    """The job was cancelled or started by a version that did not know the other line."""
    a_queue(dynamo)
    gone, stays = waits(dynamo, "gone"), waits(dynamo, "stays", entry_time=NOW + 1)
    as_another_version(items, gone, stays)
    commit(dynamo, cancelling(gone))
    assert seen(dynamo) == ["stays"]
    assert places(items) == {waiting_key(stays)}


def test_an_unreadable_job_does_not_stop_the_others(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    broken, whole = waits(dynamo, "broken"), waits(dynamo, "whole", entry_time=NOW + 1)
    as_another_version(items, broken, whole)
    (key,) = [key for key in places(items) if key[1].endswith("#broken")]
    items.spoil_copy(key, jobState=text("suspended"))
    world = dynamo.worlds.load(LATER)
    assert [job.name for job in world.snapshot.waiting] == ["whole"]
    (poison,) = world.poison
    dynamo.repair.quarantine(poison)
    assert seen(dynamo) == ["broken", "whole"]


def test_an_empty_line_of_another_version_is_removed_after_a_while(
    dynamo: DynamoStore, items: Table
) -> None:
    """The other version's functions run on for a moment and may have just touched it."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    as_another_version(items, job)
    line = line_key(another(line_of(job)))
    seen(dynamo)
    assert seen(dynamo) == ["job1"]
    assert items.get(line)
    as_another_version(items, waits(dynamo, "job2", entry_time=NOW + 1))
    assert seen(dynamo) == ["job1", "job2"]
    assert seen(dynamo, LATER + LINE_KEPT) == ["job1", "job2"]
    assert items.get(line)
    assert seen(dynamo, LATER + LINE_KEPT + 1) == ["job1", "job2"]
    assert not items.get(line)


def test_a_line_quarantined_by_the_other_version_is_restored(
    dynamo: DynamoStore, items: Table
) -> None:
    """A version that cannot read this version's lines ran on, or was deployed again for a while."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    as_another_version(items, waits(dynamo, "job2", priority=7))
    own = line_key(line_of(job))
    record = {"item": {"M": items.get(own)}, "reason": text("ValueError: too many values")}
    for key in (own, ("LINES", "no line")):
        items.put((POISON, json.dumps(key)), record)
    items.remove(own)
    assert seen(dynamo) == ["job1", "job2"]
    assert items.only(POISON)[1] == json.dumps(("LINES", "no line"))


@given(jobs())
def test_this_versions_lines_are_recognised_by_name(job: Job) -> None:
    """Otherwise their jobs would be moved to where they are."""
    assert Line.parse(line_of(job)).key == line_of(job)
