"""Lines of projects count their waiting jobs, so that fair shares ask for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import line_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.lifecycle import move
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.policy.explain.share_status import share_statuses
from slotq_core.policy.lines import line_of
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, StoredAlready
from tests.contract.by_hand import Table, number
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import NOW, a_job, a_pool, a_queue, cancelling, claiming, starting

LATER = NOW + 600_000
MANY = 25
"""More than a load reads of one line."""


def queue(store: Store) -> None:
    a_queue(store, a_pool("p5", 40))
    projects = (Project(name="a"), Project(name="b"))
    store.configuration.change(sharing=Sharing(projects=projects), who="ada", now=NOW)


def enter(store: Store, name: str, **fields: Any) -> Job:
    job = replace(a_job(name), project=fields.pop("project", "a"), **fields)
    return store.jobs.submit(job, {"TrainingJobName": name})


def asked(store: Store, now: int = NOW) -> float:
    (found,) = [
        each for each in share_statuses(store.worlds.load(now).snapshot, now) if each.name == "a"
    ]
    return found.waiting


def counted(client: Any, table: str, job: Job) -> int | None:
    item = Table(client, table).get(line_key(line_of(job)))
    return int(item["waiting"]["N"]) if "waiting" in item else None


def test_a_pass_knows_how_much_waits(store: Store) -> None:
    queue(store)
    for n in range(MANY):
        enter(store, f"j{n}")
    assert asked(store) == MANY


def test_a_line_that_is_not_read_counts_too(dynamo: DynamoStore) -> None:
    queue(dynamo)
    for n in range(MANY):
        enter(dynamo, f"j{n}")
    dynamo.worlds.load(LATER).keep_bounds()
    world = dynamo.worlds.load(LATER)
    assert world.snapshot.unread
    assert asked(dynamo, LATER) == MANY


def test_a_line_that_nobody_waits_in_asks_for_nothing(dynamo: DynamoStore) -> None:
    """Lines outlive their jobs, and a stand-in is no job."""
    queue(dynamo)
    first, second = enter(dynamo, "j"), enter(dynamo, "k")
    dynamo.worlds.load(LATER).keep_bounds()
    dynamo.decisions.commit([starting(first)])
    dynamo.decisions.commit([claiming(second)])
    world = dynamo.worlds.load(LATER)
    assert world.snapshot.unread
    (a,) = [each for each in share_statuses(world.snapshot, LATER) if each.name == "a"]
    assert (a.held, a.waiting) == (2, 0)


def test_who_starts_or_leaves_is_counted_out(dynamo: DynamoStore, client: Any, table: str) -> None:
    queue(dynamo)
    first, second, third = (enter(dynamo, f"j{n}") for n in range(3))
    dynamo.decisions.commit([starting(first)])
    dynamo.decisions.commit([cancelling(second)])
    assert counted(client, table, third) == 1


def test_commits_in_a_row_are_counted_at_its_end(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    queue(dynamo)
    jobs = [enter(dynamo, f"j{n}") for n in range(4)]
    other = enter(dynamo, "other", priority=9)
    with dynamo.decisions.in_a_row():
        dynamo.decisions.commit([starting(jobs[0])])
        dynamo.decisions.commit([starting(jobs[1]), starting(other)])
        assert counted(client, table, jobs[3]) == 4
    assert (counted(client, table, jobs[3]), counted(client, table, other)) == (2, 0)
    with dynamo.decisions.in_a_row():
        dynamo.decisions.commit([starting(jobs[2])])
        with pytest.raises(Conflict):
            dynamo.decisions.commit([starting(jobs[2])])
    assert counted(client, table, jobs[3]) == 1
    dynamo.decisions.commit([cancelling(jobs[3])])
    assert counted(client, table, jobs[3]) == 0


def test_who_comes_back_is_counted_in(dynamo: DynamoStore, client: Any, table: str) -> None:
    queue(dynamo)
    job = enter(dynamo, "j")
    (held,) = dynamo.decisions.commit([Change(before=job, after=move(job, JobState.HELD, at=NOW))])
    assert counted(client, table, job) == 0
    dynamo.decisions.commit([Change(before=held, after=move(held, JobState.PENDING, at=NOW))])
    assert counted(client, table, job) == 1


def test_jobs_without_a_project_are_not_counted(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    queue(dynamo)
    job = enter(dynamo, "j", project="")
    assert counted(client, table, job) is None
    with measured(client) as meter:
        dynamo.decisions.commit([starting(job)])
    assert meter.calls == ["TransactWriteItems"]


@pytest.mark.parametrize("wrong", [number(7), number(-3), {"S": "many"}, None])
def test_an_audit_corrects_a_wrong_count(
    dynamo: DynamoStore, client: Any, table: str, wrong: Any
) -> None:
    queue(dynamo)
    job = enter(dynamo, "j")
    Table(client, table).change(line_key(line_of(job)), waiting=wrong)
    assert dynamo.worlds.load(NOW).snapshot.waiting
    assert dynamo.repair.audit(now=NOW) == []
    assert counted(client, table, job) == 1


def test_a_refused_submission_is_counted_out_by_the_audit(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    queue(dynamo)
    job = enter(dynamo, "j")
    with pytest.raises(StoredAlready):
        enter(dynamo, "j")
    assert counted(client, table, job) == 2
    dynamo.repair.audit(now=NOW)
    assert counted(client, table, job) == 1


def test_a_claimant_asks_once(dynamo: DynamoStore) -> None:
    """It is among the jobs of the snapshot and in its line's count."""
    queue(dynamo)
    job = enter(dynamo, "j")
    enter(dynamo, "k")
    dynamo.decisions.commit([claiming(job)])
    snapshot = dynamo.worlds.load(NOW).snapshot
    (a,) = [each for each in share_statuses(snapshot, NOW) if each.name == "a"]
    assert a.held + a.waiting == 2
