"""The queue's table is reached by DynamoDB's protocol, and moto keeps tables that a user makes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from slotq.cli.main import cli
from slotq.local.services.aws import TABLE, table_answer
from slotq.local.services.dynamodb import InMemoryDynamo
from slotq_core.adapters.dynamodb.layout.table import table_definition
from tests.functional.local.account import Account

KEY = {"pk": {"S": "TEST"}, "sk": {"S": "x"}}
VALUES: dict[str, Any] = {
    "bytes": {"B": b"\0\xff"},
    "number": {"N": "1.5"},
    "flag": {"BOOL": True},
    "nothing": {"NULL": True},
    "set": {"BS": [b"a", b"b"]},
    "map": {"M": {"B": {"L": [{"B": b"in"}, {"S": "\u2603"}]}}},
}


@pytest.fixture
def table(account: Account) -> Any:
    client = account.endpoint.client("dynamodb")
    client.put_item(TableName=TABLE, Item={**KEY, **VALUES})
    yield client
    client.delete_item(TableName=TABLE, Key=KEY)


def test_values_come_back_as_they_were(table: Any) -> None:
    whole = {**KEY, **VALUES}
    assert table.get_item(TableName=TABLE, Key=KEY)["Item"] == whole
    asked = {TABLE: {"Keys": [KEY]}}
    assert table.batch_get_item(RequestItems=asked)["Responses"] == {TABLE: [whole]}
    said = table.update_item(
        TableName=TABLE,
        Key=KEY,
        UpdateExpression="ADD #n :n REMOVE flag",
        ExpressionAttributeNames={"#n": "number"},
        ExpressionAttributeValues={":n": {"N": "2"}},
        ReturnValues="ALL_NEW",
    )["Attributes"]
    assert said == {**{k: v for k, v in whole.items() if k != "flag"}, "number": {"N": "3.5"}}
    pages = table.get_paginator("scan").paginate(TableName=TABLE, PaginationConfig={"PageSize": 2})
    assert said in [item for page in pages for item in page["Items"]]


def test_a_refusal_says_what_was_in_the_way(table: Any) -> None:
    new = {"ConditionExpression": "attribute_not_exists(pk)"}
    with pytest.raises(table.exceptions.ConditionalCheckFailedException):
        table.put_item(TableName=TABLE, Item=KEY, **new)
    put = {"TableName": TABLE, "Item": KEY, **new, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    with pytest.raises(table.exceptions.TransactionCanceledException) as refused:
        table.transact_write_items(TransactItems=[{"Put": put}])
    (reason,) = refused.value.response["CancellationReasons"]
    assert (reason["Code"], reason["Item"]) == ("ConditionalCheckFailed", {**KEY, **VALUES})


def test_what_the_table_lacks_is_said(table: Any) -> None:
    with pytest.raises(ClientError) as refused:
        table.update_table(TableName=TABLE, DeletionProtectionEnabled=False)
    assert refused.value.response["Error"]["Code"] == "UnknownOperationException"
    assert "UpdateTable for the queue's table" in str(refused.value)


def test_a_user_may_have_tables_of_their_own(table: Any) -> None:
    key = [{"AttributeName": "id", "KeyType": "HASH"}]
    types = [{"AttributeName": "id", "AttributeType": "N"}]
    table.create_table(
        TableName="mine", KeySchema=key, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST"
    )
    table.put_item(TableName="mine", Item={"id": {"N": "1"}})
    assert table.scan(TableName="mine")["Count"] == 1
    assert {TABLE, "mine"} <= set(table.list_tables()["TableNames"])
    table.delete_table(TableName="mine")


def test_a_backup_of_the_emulators_table(aws: Account, table: Any, tmp_path: Any) -> None:
    file = str(tmp_path / "queue.jsonl")
    done = CliRunner().invoke(cli, ["backup", "save", file, "--table", TABLE])
    assert done.exit_code == 0, done.output
    assert f"saved from {TABLE}" in done.output


WRONG: list[Any] = [
    "no JSON",
    [TABLE],
    {"TableName": [TABLE]},
    {"TransactItems": {"Put": 1}},
    {"TransactItems": [{"Put": {"TableName": TABLE}}]},
    {"TableName": TABLE, "Item": "x"},
    {"TableName": TABLE, "Item": {"pk": {"S": "a"}, "sk": {"S": 1}}},
    {"TableName": TABLE, "Item": {**KEY, "x": {"B": "no base64"}}},
    {"TableName": TABLE, "Item": {**KEY, "x": {"N": "many"}}},
    {"TableName": TABLE, "Item": {**KEY, "x": {"N": "NaN"}}},
    {"TableName": TABLE, "Item": {**KEY, "x": {"N": "1e999999999"}}},
    {"TableName": TABLE, "Item": {**KEY, "x": {"S": "a", "N": "1"}}},
    {"TableName": TABLE, "Item": {**KEY, "x": {"X": "a"}}},
    {"TableName": TABLE, "Item": {**KEY, "x": {"BOOL": 1}}},
    {"TableName": TABLE, "Key": KEY, "UpdateExpression": "(" * 100_000},
]


@pytest.mark.parametrize("number", range(len(WRONG)))
@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem", "Query", "TransactWriteItems"])
def test_a_malformed_request_is_refused_and_changes_nothing(operation: str, number: int) -> None:
    dynamo = InMemoryDynamo()
    dynamo.create_table(**table_definition(TABLE))
    wrong = WRONG[number]
    body = wrong.encode() if isinstance(wrong, str) else json.dumps(wrong).encode()
    environ = {"HTTP_X_AMZ_TARGET": f"DynamoDB_20120810.{operation}"}
    said = table_answer(dynamo, environ, body)
    assert said is None or said[0] == "400 Bad Request"
    assert dynamo.tables[TABLE].items.keys() <= {("TEST", "x")}
    assert all(item == KEY for item in dynamo.tables[TABLE].items.values())


START = """
import os, sys
from pathlib import Path
from slotq.local.emulator import Emulator, Options
Emulator(Options(pools="main=1@ml.m5.large", work=Path(sys.argv[1]), port=0)).start()
print(*sys.modules, flush=True)
os._exit(0)
"""
MOST_OF_MOTO = 90
"""Modules. With moto's DynamoDB they were 108."""


def test_a_start_imports_little_of_moto(tmp_path: Any) -> None:
    run = [sys.executable, "-c", START, str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    of_moto = [name for name in done.stdout.split() if name.partition(".")[0] == "moto"]
    assert "moto.dynamodb" not in of_moto
    assert 0 < len(of_moto) <= MOST_OF_MOTO
