"""The meter of `make bench` counts as DynamoDB bills, and knows what is in flight together."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from benchmarks.live import classic
from benchmarks.live.engine import Engine
from benchmarks.live.queues import Size, queue
from benchmarks.live.sharing import Shared
from slotq_core.adapters.dynamodb.layout.table import table_definition
from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT
from slotq_core.policy.lines import line_of

QUERY = {
    "TableName": "t",
    "KeyConditionExpression": "pk = :pk",
    "ExpressionAttributeValues": {":pk": {"S": "p"}},
    "ConsistentRead": True,
}


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.create_table(**table_definition("t"))
    return made


def key(sk: str) -> dict[str, dict[str, str]]:
    return {"pk": {"S": "p"}, "sk": {"S": sk}}


def read(engine: Engine, sk: str) -> None:
    engine.get_item(TableName="t", Key=key(sk), ConsistentRead=True)


def test_calls_one_after_the_other_are_rounds(engine: Engine):
    with engine.meter.counting() as usage:
        for n in range(5):
            read(engine, str(n))
    assert (len(usage.calls), usage.rounds, usage.read_units) == (5, 5, 5.0)


@pytest.mark.parametrize(("reads", "rounds"), [(0, 0), (1, 1), (IN_FLIGHT, 1), (IN_FLIGHT + 1, 2)])
def test_as_many_calls_as_threads_are_one_round(engine: Engine, reads: int, rounds: int):
    with engine.meter.counting() as usage:
        engine.meter.at_once(lambda n: read(engine, str(n)), range(reads))
    assert (len(usage.calls), usage.rounds) == (reads, rounds)


def test_a_free_thread_takes_the_next(engine: Engine):
    """The longest takes three rounds; meanwhile the other threads make two calls each and more."""

    def several(times: int) -> None:
        for n in range(times):
            read(engine, str(n))

    with engine.meter.counting() as usage:
        engine.meter.at_once(several, [3] + [1] * (2 * (IN_FLIGHT - 1)))
        read(engine, "after")
    assert usage.rounds == 3 + 1


def test_calls_within_calls_at_once_are_rounds_too(engine: Engine):
    def both(_: int) -> None:
        engine.meter.at_once(lambda n: read(engine, str(n)), range(2))
        read(engine, "then")

    with engine.meter.counting() as usage:
        engine.meter.at_once(both, range(3))
    assert (len(usage.calls), usage.rounds) == (9, 2)


def test_of_calls_at_once_the_first_error_is_raised_after_all(engine: Engine):
    def refused(number: int) -> None:
        read(engine, str(number))
        raise ValueError(number)

    with engine.meter.counting() as usage, pytest.raises(ValueError, match="3"):
        engine.meter.at_once(refused, [3, 4])
    assert (len(usage.calls), usage.rounds) == (2, 1)


def test_a_query_reads_at_most_a_megabyte_a_page(engine: Engine):
    for n in range(30):
        engine.put_item(TableName="t", Item={**key(f"{n:02d}"), "x": {"S": "y" * 100_000}})
    with engine.meter.counting() as usage:
        page = engine.query(**QUERY)
        rest = engine.query(**QUERY, ExclusiveStartKey=page["LastEvaluatedKey"], Select="COUNT")
    assert (page["Count"], rest["Count"]) == (11, 11)
    assert usage.read_units == 2 * -(-11 * 100_008 // 4096)


def test_a_refused_write_costs_as_much(engine: Engine):
    with engine.meter.counting() as usage:
        with pytest.raises(ClientError):
            engine.update_item(
                TableName="t",
                Key=key("1"),
                UpdateExpression="SET a = :a",
                ConditionExpression="attribute_exists(pk)",
                ExpressionAttributeValues={":a": {"S": "x"}},
            )
        put = {"Put": {"TableName": "t", "Item": key("2")}}
        engine.transact_write_items(TransactItems=[put])
    assert usage.write_units == 1 + 2


def test_a_queue_is_as_large_as_asked():
    with queue(Size(waiting=30, lines=10, active=4, pools=2, urgent=True)) as its:
        world = its.other.worlds.load_all(its.account.clock.now())
    assert len(world.snapshot.waiting) == 31
    assert len({(job.priority, job.demand, job.pools) for job in world.snapshot.waiting}) == 11
    assert len(world.snapshot.active) == 4


def test_a_shared_queue_has_its_projects_and_people():
    shared = Shared(projects=6, departments=2, people=9)
    with queue(Size(waiting=72, lines=24, active=8, shared=shared)) as its:
        world = its.other.worlds.load_all(its.account.clock.now())
        told = its.other.configuration.read().sharing
    jobs = world.snapshot.waiting
    assert len({line_of(job) for job in jobs}) == 24
    assert {job.project for job in jobs} == {f"project-000{number}" for number in range(6)}
    assert len(told.projects) == 6
    assert len(told.departments) == 2
    people = [person for project in told.projects for person in project.access.members]
    assert len(people) == len({*people}) == 9
    assert {job.person for job in jobs} == {*people}


def test_two_handlers_of_the_classic_design_use_a_slot_twice():
    found = classic.over_capacity()
    assert 0 < found["over_capacity"] < found["moments"]
