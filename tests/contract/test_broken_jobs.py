"""A job whose own item is unreadable is restored from its copy, or its slots stay held."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import (
    POISON,
    held_key,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, NotUnderstood
from tests.contract import by_hand
from tests.contract.by_hand import Table, active, number, text
from tests.contract.poisoned import FROM_A_NEWER_RELEASE, free, poisons, quarantine
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    attempts_of,
    claiming,
    commit,
    completing,
    running,
    runs,
    starting,
    starts,
    waits,
)


def test_a_broken_job_is_restored_from_its_copy(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    job = runs(dynamo, "job1")
    items.change(by_hand.job("job1"), demand=None, version=None)
    assert poisons(dynamo) == []
    assert dynamo.jobs.get("job1") == job
    commit(dynamo, completing(job))


@pytest.mark.parametrize("version", [text("two"), number(0), number(-1), None])
def test_a_broken_job_does_not_stop_the_pass_that_plans_for_it(
    dynamo: DynamoStore, items: Table, version: dict[str, Any] | None
) -> None:
    """Its copy is whole, so the pass plans for it. The commit is refused once, not for ever."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    items.change(by_hand.job("job1"), version=version)
    with pytest.raises(Conflict):
        commit(dynamo, starting(job))
    commit(dynamo, starting(job))


def test_a_stale_copy_does_not_stop_the_pass_that_plans_for_it(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    stale = items.get(items.only("WAITING"))
    (job,) = dynamo.decisions.commit([claiming(job)])
    items.put(items.only("WAITING"), stale)
    items.remove(by_hand.claim("job1"))
    items.change(by_hand.ledger(), holders=number(0))
    (seen,) = dynamo.worlds.load(NOW).snapshot.waiting
    assert seen.version < job.version
    with pytest.raises(Conflict):
        commit(dynamo, starting(seen))
    quarantine(dynamo)
    assert dynamo.worlds.load(NOW).snapshot.waiting == (job,)


def test_slots_of_a_job_without_any_readable_item_stay_held(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo, a_pool("p5", 3))
    job, other = runs(dynamo, "job1", slots=2), runs(dynamo, "other")
    whole = items.get(by_hand.job("job1"))
    items.change(by_hand.job("job1"), jobState=FROM_A_NEWER_RELEASE)
    items.spoil_copy(active("job1"), jobState=FROM_A_NEWER_RELEASE)
    world = quarantine(dynamo)
    assert world.snapshot.active == (other,)
    assert free(world) == 0
    assert items.get(held_key("p5", "job1"))["demand"] == {"M": {"slots": number(2)}}
    assert items.get(items.only(POISON))["item"]["M"]["job"]
    assert items.get(by_hand.job("job1"))["jobState"] == FROM_A_NEWER_RELEASE
    with pytest.raises(NotUnderstood, match="job1"):
        dynamo.jobs.get("job1")
    commit(dynamo, completing(other))
    assert free(dynamo.worlds.load(NOW)) == 1
    found = list(dynamo.repair.inspect(mend=True))
    assert {finding.kind for finding in found if not finding.mended} >= {"held", "put_aside"}
    assert free(dynamo.worlds.load(NOW)) == 1
    items.put(by_hand.job("job1"), whole)  # For example, the newer release is deployed.
    list(dynamo.repair.inspect(mend=True))
    assert list(dynamo.repair.inspect()) == []
    world = dynamo.worlds.load(NOW)
    assert (world.poison, world.snapshot.active, free(world)) == ((), (job,), 1)


def test_a_broken_request_or_name_is_an_error_for_its_job_alone(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    starts(dynamo, "job1")
    items.change(("JOB#job1", "REQUEST"), jobDetails={"B": b"?"})
    with pytest.raises(NotUnderstood, match="job1"):
        dynamo.jobs.request("job1")
    waits(dynamo, "job2")
    assert dynamo.jobs.requests(["job1", "job2"]) == {"job2": REQUEST}
    items.change(("NAME#job1", "NAME"), jobName=None)
    with pytest.raises(NotUnderstood, match="job1"):
        dynamo.jobs.owner_of("job1")


def test_listings_skip_unreadable_items(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    waits(dynamo, "job1")
    waits(dynamo, "job2")
    items.change(by_hand.job("job1"), demand=None)
    assert [job.name for job in dynamo.jobs.in_states([a_job("x").state])] == ["job2"]
    job = commit(dynamo, running(starts(dynamo, "job3")))
    items.change(("JOB#job3", "ATTEMPT#0001"), number=None)
    assert attempts_of(dynamo, "job3") == (job.attempt,)
