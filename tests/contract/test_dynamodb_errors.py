"""How the store handles DynamoDB's errors and lost answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from slotq_core.adapters.dynamodb.store import (
    MAX_ACTIONS,
    DynamoStore,
    action_count,
    table_definition,
)
from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    Misconfigured,
    NameTaken,
    RightMissing,
    SlotQError,
    Unavailable,
)
from slotq_core.model.jobs import Job
from slotq_core.ports.stored import Change
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.faults import cancelled, losing_the_answer, refusing
from tests.contract.worlds import (
    NOW,
    a_job,
    a_pool,
    a_queue,
    backing_off,
    cancelling,
    claiming,
    commit,
    completing,
    evicted,
    evicting,
    running,
    starting,
    waits,
)

TRANSACTION = "TransactWriteItems"


def test_a_collision_with_another_transaction_is_a_conflict(
    dynamo: DynamoStore, client: Any
) -> None:
    """DynamoDB Local never answers so; AWS does."""
    a_queue(dynamo)
    job = waits(dynamo, "job1")
    collision = cancelled("None", "TransactionConflict")
    with refusing(client, TRANSACTION, **collision) as refused, pytest.raises(Conflict):
        commit(dynamo, starting(job))
    assert len(refused) == 1
    commit(dynamo, starting(job))


def test_a_colliding_submission_is_retried(dynamo: DynamoStore, client: Any) -> None:
    with refusing(client, TRANSACTION, times=2, **cancelled("TransactionConflict")) as refused:
        job = waits(dynamo, "job1")
    assert len(refused) == 2
    assert dynamo.jobs.get("job1") == job


def test_a_submission_that_keeps_colliding_is_unavailable(dynamo: DynamoStore, client: Any) -> None:
    collision = cancelled("TransactionConflict")
    with refusing(client, TRANSACTION, **collision), pytest.raises(Unavailable):
        waits(dynamo, "job1")
    assert dynamo.jobs.get("job1") is None


def test_a_false_condition_counts_before_a_collision(dynamo: DynamoStore, client: Any) -> None:
    both = cancelled("TransactionConflict", "ConditionalCheckFailed", "None")
    with refusing(client, TRANSACTION, **both) as refused, pytest.raises(NameTaken):
        waits(dynamo, "job1")
    assert len(refused) == 1


@pytest.mark.parametrize(
    "answer",
    [
        cancelled("None", "ThrottlingError"),
        cancelled("ProvisionedThroughputExceeded"),
        {"code": "ProvisionedThroughputExceededException"},
        {"code": "ThrottlingException"},
        {"code": "RequestLimitExceeded"},
        {"code": "TransactionInProgressException"},
        {"code": "InternalServerError", "status": 500},
        {"code": "SomethingNew", "status": 503},
    ],
    ids=lambda answer: str(answer["code"]),
)
def test_throttles_and_faults_are_unavailable(
    evented_client: EventedDynamo, answer: dict[str, Any], evented: DynamoStore
) -> None:
    job = waits(evented, "job1")
    with refusing(evented_client, TRANSACTION, **answer), pytest.raises(Unavailable):
        commit(evented, cancelling(job))
    assert evented.jobs.get("job1") == job


@pytest.mark.parametrize(
    ("operation", "attempt"),
    [
        ("Query", lambda store: store.worlds.load(NOW)),
        ("GetItem", lambda store: store.jobs.get("job1")),
        ("BatchGetItem", lambda store: store.jobs.several(["job1"])),
        ("UpdateItem", lambda store: waits(store, "job1")),
    ],
)
def test_throttled_reads_and_touches_are_unavailable(
    evented_client: EventedDynamo,
    evented: DynamoStore,
    operation: str,
    attempt: Callable[[Any], object],
) -> None:
    with refusing(evented_client, operation, "ThrottlingException"), pytest.raises(Unavailable):
        attempt(evented)


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnrecognizedClientException"])
def test_a_missing_right_is_retried(
    evented_client: EventedDynamo, evented: DynamoStore, code: str
) -> None:
    """It counts as unavailable, not as a wrong setting, so that no request is dropped."""
    job = waits(evented, "job1")
    with refusing(evented_client, "GetItem", code), pytest.raises(RightMissing):
        evented.jobs.get("job1")
    with refusing(evented_client, TRANSACTION, code), pytest.raises(Unavailable):
        commit(evented, cancelling(job))
    assert evented.jobs.get("job1") == job


def test_a_programming_error_is_raised_as_it_is(evented_client: Any, evented: DynamoStore) -> None:
    with refusing(evented_client, "Query", "ValidationException"), pytest.raises(ClientError):
        evented.worlds.load(NOW)


def test_a_missing_table_is_a_settings_error(client: Any) -> None:
    with pytest.raises(Misconfigured):
        DynamoStore(client, "no-such-table").jobs.get("job1")


def test_no_answer_at_all_is_unavailable() -> None:
    nowhere = boto3.client(
        "dynamodb",
        region_name="eu-central-1",
        endpoint_url="http://127.0.0.1:1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1}),
    )
    with pytest.raises(Unavailable):
        DynamoStore(nowhere, "any").worlds.load(NOW)


def test_a_commit_with_a_lost_answer_is_found_by_the_retry(
    dynamo: DynamoStore, client: Any
) -> None:
    a_queue(dynamo)
    change = starting(waits(dynamo, "job1"))
    with losing_the_answer(client), pytest.raises(Unavailable):
        dynamo.decisions.commit([change])
    with pytest.raises(Conflict):
        dynamo.decisions.commit([change])
    (found,) = dynamo.worlds.load(NOW).snapshot.active
    assert found == dynamo.jobs.get("job1")
    assert found.attempt == change.after.attempt
    assert dynamo.worlds.load(NOW).ledgers["p5"].used == change.before.demand


def test_a_submission_with_a_lost_answer_is_found_by_the_retry(
    dynamo: DynamoStore, client: Any
) -> None:
    with losing_the_answer(client), pytest.raises(Unavailable):
        waits(dynamo, "job1")
    with pytest.raises(NameTaken):
        waits(dynamo, "job1")
    kept = dynamo.jobs.get("job1")
    assert kept is not None
    assert kept.digest == a_job("job1").digest


def test_more_pools_than_a_key_can_hold_are_refused(dynamo: DynamoStore) -> None:
    pools = tuple(f"a-pool-with-a-rather-long-name-{n}" for n in range(40))
    with pytest.raises(InvalidRequest, match="pools"):
        waits(dynamo, "job1", pools=pools)
    assert dynamo.jobs.get("job1") is None


def test_a_commit_beyond_one_transaction_is_not_sent(dynamo: DynamoStore) -> None:
    a_queue(dynamo, a_pool("p5", 100))
    jobs = [waits(dynamo, f"job{n}") for n in range(20)]
    changes = [starting(job) for job in jobs]
    assert action_count(changes) > MAX_ACTIONS
    with pytest.raises(SlotQError, match="100"):
        dynamo.decisions.commit(changes)
    assert dynamo.worlds.load(NOW).snapshot.active == ()


def test_the_largest_commit_is_accepted(dynamo: DynamoStore) -> None:
    a_queue(dynamo, a_pool("p5", 100))
    changes = [starting(waits(dynamo, f"job{n}")) for n in range(19)]
    assert action_count(changes) <= MAX_ACTIONS < action_count([*changes, *changes[:2]])
    dynamo.decisions.commit(changes)
    assert len(dynamo.worlds.load(NOW).snapshot.active) == 19


def test_each_change_has_its_number_of_actions(evented: DynamoStore) -> None:
    """As in the docstring of `action_count`, which the manager's limits rely on."""
    a_queue(evented)
    job, seen = waits(evented, "job1"), {"p5": 1}
    assert action_count([starting(job)], seen) == 5 + 1
    job = commit(evented, claiming(job))
    assert action_count([starting(job)], seen) == 6 + 1
    job = commit(evented, starting(job))
    assert action_count([running(job)]) == 2 + 1
    job = commit(evented, running(job))
    assert action_count([completing(job)]) == 5 + 1
    assert action_count([evicting(job, "x")], seen) == 2 + 1
    assert action_count([backing_off(job, NOW)]) == 5 + 1
    job = commit(evented, evicting(job, "x"))
    assert action_count([evicted(job)]) == 5 + 1
    waiting: Job = waits(evented, "job2")
    assert action_count([claiming(waiting)], seen) == 3 + 1
    assert action_count([cancelling(waiting)]) == 3
    assert action_count([Change(before=waiting, after=waiting)]) == 2


def test_an_empty_commit_makes_no_call(dynamo: DynamoStore) -> None:
    assert dynamo.decisions.commit([]) == ()


@pytest.fixture
def evented(evented_client: EventedDynamo) -> DynamoStore:
    evented_client.create_table(**table_definition("sagemaker-queue"))
    return DynamoStore(evented_client, "sagemaker-queue")
