"""The soak's watch sees what must never happen."""

from __future__ import annotations

import pytest

from benchmarks.live.watch import Watch
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.names import JOB_TAG
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.worlds import a_pool, a_queue, starts, waits
from tests.functional.account import TABLE
from tests.least_request import least_request

POOL, TYPE = "pool-0", "ml.p5.48xlarge"


@pytest.fixture
def store(evented_client: EventedDynamo) -> DynamoStore:
    evented_client.create_table(**table_definition(TABLE))
    store = DynamoStore(evented_client, TABLE)
    a_queue(store, a_pool(POOL, 1))
    return store


@pytest.fixture
def watch(evented_client: EventedDynamo, store: DynamoStore) -> Watch:
    clock = VirtualClock(0)
    runner = VirtualRunner(clock=clock, work_of=lambda *_: Work(runtime=1_000))
    plane = Plane(clock=clock, runner=runner, emit=lambda _: None)
    return Watch(evented_client, plane, {TYPE: 1})


def train(watch: Watch, name: str, job: str) -> None:
    request = least_request(name, Tags=[{"Key": JOB_TAG, "Value": job}])
    watch.called("CreateTrainingJob", request)


def test_more_instances_than_there_are(watch: Watch):
    train(watch, "one", "one")
    assert watch.wrong == []
    train(watch, "two", "two")
    assert watch.wrong == [f"2 of 1 instances of {TYPE} run"]


def test_a_job_that_trains_twice(watch: Watch):
    train(watch, "one", "one")
    train(watch, "one-again", "one")
    assert "one trains twice" in watch.wrong


def test_jobs_that_hold_other_than_the_ledger_says(
    watch: Watch, store: DynamoStore, evented_client: EventedDynamo
):
    starts(store, "one", pool=POOL, pools=(POOL,))
    watch.look_at_items(POOL, 1)
    assert (watch.wrong, watch.looks) == ([], 1)
    key = {"pk": {"S": f"POOL#{POOL}"}, "sk": {"S": "ACTIVE#one"}}
    item = evented_client.get_item(TableName=TABLE, Key=key)["Item"]
    evented_client.put_item(TableName=TABLE, Item={**item, "sk": {"S": "ACTIVE#two"}})
    watch.look_at_items(POOL, 1)
    assert watch.wrong == [f"{POOL}: jobs hold 2, the ledger says 1 of 1"]


def test_what_is_left_over(watch: Watch, store: DynamoStore):
    assert watch.left_over() == []
    starts(store, "one", pool=POOL, pools=(POOL,))
    waits(store, "two")
    train(watch, "three", "three")
    assert len(watch.left_over()) == 4  # a copy of each job, the ledger, what trains
