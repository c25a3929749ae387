"""moto with our patches: no update is lost, no failed transaction leaves a trace, and it is
fast."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slotq.local.services import moto_dynamodb
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from tests.contract.worlds import NOW, a_pool, a_queue, commit, completing, starting, waits
from tests.work import counted_calls

TABLE = "sagemaker-queue"


@pytest.fixture
def table(moto_client: Any) -> Any:
    moto_client.create_table(**table_definition(TABLE))
    return moto_client


def key(name: str) -> dict[str, Any]:
    return {"pk": {"S": name}, "sk": {"S": "x"}}


def add(name: str, amount: int = 1) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": TABLE,
            "Key": key(name),
            "UpdateExpression": "ADD n :n",
            "ExpressionAttributeValues": {":n": {"N": str(amount)}},
        }
    }


def refused(name: str) -> dict[str, Any]:
    """An action whose condition is always false."""
    condition = {"ConditionExpression": "attribute_exists(never)"}
    return {"Delete": {"TableName": TABLE, "Key": key(name), **condition}}


def amount(client: Any, name: str) -> int:
    item = client.get_item(TableName=TABLE, Key=key(name)).get("Item")
    return int(item["n"]["N"]) if item else 0


def test_threads_lose_no_update(table: Any) -> None:
    """Successful transactions beside failing ones, which must undo only their own changes."""

    def work(thread: int) -> None:
        for n in range(25):
            table.transact_write_items(TransactItems=[add("shared"), add(f"own-{thread}")])
            with pytest.raises(ClientError):
                table.transact_write_items(TransactItems=[add("shared", 1000), refused(f"r{n}")])
            table.update_item(**add("plain")["Update"])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert (amount(table, "shared"), amount(table, "plain")) == (200, 200)
    assert [amount(table, f"own-{thread}") for thread in range(8)] == [25] * 8


def test_a_failed_transaction_leaves_no_trace(table: Any) -> None:
    table.put_item(TableName=TABLE, Item={**key("there"), "n": {"N": "7"}})
    delete = {"Delete": {"TableName": TABLE, "Key": key("gone")}}
    table.put_item(TableName=TABLE, Item=key("gone"))
    put = {"Put": {"TableName": TABLE, "Item": key("new")}}
    before = table.scan(TableName=TABLE)["Items"]
    for bad in (refused("r"), add("there")):  # A false condition; the same item twice.
        with pytest.raises(ClientError):
            table.transact_write_items(TransactItems=[add("there"), delete, put, bad])
        assert table.scan(TableName=TABLE)["Items"] == before


def test_the_last_slot_goes_to_exactly_one(table: Any) -> None:
    """The emulator is a server with threads, so this must hold there as well."""
    store = a_queue(DynamoStore(table, TABLE), a_pool("p5", 1))
    for turn in range(3):
        jobs = [waits(store, f"job{turn}-{n}") for n in range(8)]

        def starts(job: Any) -> Any:
            try:
                return commit(store, starting(job))
            except Conflict:
                return None

        with ThreadPoolExecutor(8) as threads:
            (winner,) = filter(None, threads.map(starts, jobs))
        commit(store, completing(winner))
    assert store.worlds.load(NOW).ledgers["p5"].used == Demand()


def test_a_transaction_costs_the_same_in_a_large_table(table: Any) -> None:
    """Unpatched, moto copies the whole table for each."""

    def transacts() -> None:
        table.transact_write_items(TransactItems=[add("one"), add("two")])

    transacts()
    small = counted_calls(transacts)
    for n in range(0, 1000, 25):
        puts = [{"PutRequest": {"Item": key(f"item-{n + i}")}} for i in range(25)]
        table.batch_write_item(RequestItems={TABLE: puts})
    assert counted_calls(transacts) < small + 1000


def test_a_second_installation_changes_nothing() -> None:
    from moto.dynamodb.responses import DynamoHandler

    moto_dynamodb.install()
    once = DynamoHandler.call_action
    moto_dynamodb.install()
    assert DynamoHandler.call_action is once
