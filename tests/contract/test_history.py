"""Records of ended jobs stay readable for a time and then expire; nothing else expires."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import EXPIRES_AT
from slotq_core.adapters.dynamodb.store import DynamoStore, time_to_live
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import NameTaken, NoSuchJob, Unavailable
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.store import Store
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.faults import refusing
from tests.contract.test_alike import everything_of_what_has_ended_expires, is_of_an_attempt
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    a_pool,
    a_queue,
    attempts_of,
    cancelling,
    commit,
    completing,
    evicted,
    running,
    starting,
    starts,
    waits,
)

MONTH = 30 * 86_400_000


def a_life(store: Store, name: str = "job1", attempts: int = 3, **fields: Any) -> Job:
    """An ended job with this number of attempts."""
    job = waits(store, name, **fields)
    for _ in range(attempts - 1):
        job = commit(store, evicted(commit(store, running(commit(store, starting(job))))))
    return commit(store, completing(commit(store, starting(job))))


def marked(client: Any, table: str) -> dict[tuple[str, str], int]:
    return {
        (item["pk"]["S"], item["sk"]["S"]): int(item[EXPIRES_AT]["N"])
        for item in client.scan(TableName=table)["Items"]
        if EXPIRES_AT in item and not is_of_an_attempt(item)
    }


def remove_expired(client: Any, table: str, chance: random.Random, share: float = 1.0) -> None:
    """Remove expired items as DynamoDB does: in any order, at any later time."""
    for pk, sk in marked(client, table):
        if chance.random() < share:
            key = {"pk": {"S": pk}, "sk": {"S": sk}}
            client.delete_item(TableName=table, Key=key)


@pytest.mark.parametrize("client", ["dynamodb-local"], indirect=True)
def test_the_time_to_live_is_enabled_on_the_attribute(client: Any, table: str) -> None:
    client.update_time_to_live(**time_to_live(table))
    described = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert described == {"AttributeName": EXPIRES_AT, "TimeToLiveStatus": "ENABLED"}


def test_every_record_of_an_ended_job_is_marked(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    a_queue(dynamo)
    job = a_life(dynamo)
    goes = -((job.changed_at + MONTH) // -1000)
    assert marked(client, table) == {("JOB#job1", "JOB"): goes}
    assert dynamo.repair.expire(now=NOW) == 1
    second = "NAME#job1-qstamp-2-abcdef", "NAME"
    third = "NAME#job1-qstamp-3-abcdef", "NAME"
    records = ["JOB", "REQUEST", *(f"ATTEMPT#000{n}" for n in (1, 2, 3))]
    keys = [*(("JOB#job1", sk) for sk in records), ("NAME#job1", "NAME"), second, third]
    assert marked(client, table) == dict.fromkeys(keys, goes)
    everything_of_what_has_ended_expires(client, table, dynamo)
    assert dynamo.repair.expire(now=NOW) == 0


def test_the_store_sets_the_expiry_in_seconds_rounded_up(client: Any, table: str) -> None:
    store = DynamoStore(client, table, history=1500)
    a_queue(store)
    job = commit(store, cancelling(waits(store, "job1")))
    assert marked(client, table) == {("JOB#job1", "JOB"): (job.changed_at + 1500) // 1000 + 1}


def test_an_ended_job_stays_readable(store: Store) -> None:
    a_queue(store)
    job = a_life(store)
    attempts = attempts_of(store, "job1")
    store.repair.expire(now=NOW)
    assert store.jobs.get("job1") == job
    assert attempts_of(store, "job1") == attempts
    assert [attempt.number for attempt in attempts] == [1, 2, 3]
    assert store.jobs.request("job1") == REQUEST
    assert store.jobs.owner_of("job1-qstamp-2-abcdef") == "job1"
    with pytest.raises(NameTaken):
        waits(store, "job1")


def test_a_tick_marks_a_bounded_number_of_jobs_each_once(store: Store) -> None:
    a_queue(store)
    for n in range(5):
        commit(store, cancelling(waits(store, f"job{n}")))
    waits(store, "waiting")
    assert [store.repair.expire(now=NOW, limit=2) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.parametrize("after", range(9))
def test_the_next_tick_repairs_a_crash_at_any_call(
    evented_client: EventedDynamo, evented_store: tuple[DynamoStore, str], after: int
) -> None:
    """One job of three attempts: 7 updates and the removal of its note."""
    store, table = evented_store
    a_queue(store)
    a_life(store)
    with crashing(evented_client, after):
        try:
            crashed = store.repair.expire(now=NOW) == 0
        except Unavailable:
            crashed = True
    assert crashed == (after < 8)
    store.repair.expire(now=NOW)
    everything_of_what_has_ended_expires(evented_client, table, store)
    assert store.repair.expire(now=NOW) == 0


def crashing(client: Any, after: int) -> Any:
    """Drop all writes after this number."""
    return refusing(client, "*", "InternalServerError", status=500, after=after, only=WRITES)


WRITES = ("UpdateItem", "DeleteItem")


def test_the_memory_store_forgets_expired_jobs() -> None:
    store = MemoryStore(history=1000)
    a_queue(store)
    job = a_life(store)
    assert store.repair.expire(now=job.changed_at + 1000) == 1
    assert store.jobs.get("job1")
    assert store.repair.expire(now=job.changed_at + 2000) == 0
    assert store.jobs.get("job1") is None
    assert attempts_of(store, "job1") == ()
    assert store.jobs.owner_of("job1") is None
    with pytest.raises(NoSuchJob):
        store.jobs.request("job1")
    assert waits(store, "job1").version == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_new_job_of_an_old_name_is_not_marked(
    dynamo: DynamoStore, client: Any, table: str, seed: int
) -> None:
    """Whichever of the old job's records are left."""
    chance = random.Random(seed)
    a_queue(dynamo)
    old = a_life(dynamo, attempts=4)
    dynamo.repair.expire(now=NOW)
    remove_expired(client, table, chance, share=0.5)
    client.delete_item(TableName=table, Key={"pk": {"S": "JOB#job1"}, "sk": {"S": "JOB"}})
    assert dynamo.jobs.get("job1") is None
    assert attempts_of(dynamo, "job1") == ()
    later = old.changed_at + MONTH + 86_400_000
    request = {**REQUEST, "again": 1}
    new = dynamo.jobs.submit(a_job("job1", entry_time=later, changed_at=later), request)
    assert attempts_of(dynamo, "job1") == ()
    new = commit(dynamo, evicted(commit(dynamo, starting(new))))
    remove_expired(client, table, chance)
    assert dynamo.jobs.get("job1") == new
    assert [attempt.number for attempt in attempts_of(dynamo, "job1")] == [1]
    assert dynamo.jobs.request("job1") == request
    assert dynamo.jobs.owner_of("job1") == "job1"
    assert marked(client, table) == {}


def test_a_late_tick_does_not_mark_a_new_job_of_the_same_name(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """No tick came for a month: the note is left, the job is gone."""
    a_queue(dynamo)
    old = a_life(dynamo, attempts=3)
    remove_expired(client, table, random.Random(0))
    later = old.changed_at + MONTH
    new = dynamo.jobs.submit(a_job("job1", entry_time=later, changed_at=later), REQUEST)
    new = commit(dynamo, starting(new))
    assert dynamo.repair.expire(now=later) == 1
    left = {("JOB#job1", f"ATTEMPT#000{n}") for n in (2, 3)}
    left |= {(f"NAME#job1-qstamp-{n}-abcdef", "NAME") for n in (2, 3)}
    assert set(marked(client, table)) == left
    assert attempts_of(dynamo, "job1") == (new.attempt,)


def test_records_without_an_entry_time_expire_with_their_job(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    """An earlier version wrote no entry time on them, when names could not be used again."""
    a_queue(dynamo)
    job = a_life(dynamo)
    items = Table(client, table)
    for key in [key for key in items.all() if key[0] in {"JOB#job1", "NAME#job1"}]:
        if key[1] != "JOB":
            items.change(key, entryTime=None)
    assert [each.number for each in attempts_of(dynamo, "job1")] == [1, 2, 3]
    assert dynamo.repair.expire(now=NOW) == 1
    everything = {key for key in items.all() if key[0] in {"JOB#job1", "NAME#job1"}}
    assert everything <= marked(client, table).keys()
    assert job.terminal


def test_only_records_of_ended_jobs_are_marked(
    dynamo: DynamoStore, client: Any, table: str
) -> None:
    a_queue(dynamo, a_pool("p5", 9))
    a_life(dynamo, "ended")
    starts(dynamo, "starting")
    commit(dynamo, running(starts(dynamo, "running")))
    commit(dynamo, evicted(starts(dynamo, "evicted")))
    waits(dynamo, "waiting")
    dynamo.scheduler.bump()
    dynamo.scheduler.take_turn("RECONCILE", now=NOW, next_at=NOW)
    dynamo.repair.expire(now=NOW)
    assert {job.name for job in dynamo.jobs.in_states(JobState) if job.terminal} == {"ended"}
    everything_of_what_has_ended_expires(client, table, dynamo)
