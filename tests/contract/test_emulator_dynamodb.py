"""The emulator's DynamoDB: no update is lost, no failed transaction leaves a trace, and a large
table costs no more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slotq.local.services.dynamodb import InMemoryDynamo
from slotq_core.adapters.dynamodb.layout.table import BY_STATE
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from tests.contract.worlds import NOW, a_pool, a_queue, commit, completing, starting, waits
from tests.work import counted_calls

TABLE = "sagemaker-queue"


@pytest.fixture
def own() -> InMemoryDynamo:
    made = InMemoryDynamo()
    made.create_table(**table_definition(TABLE))
    return made


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


def test_threads_lose_no_update(own: InMemoryDynamo) -> None:
    """Successful transactions beside failing ones, which must undo only their own changes."""

    def work(thread: int) -> None:
        for n in range(25):
            own.transact_write_items(TransactItems=[add("shared"), add(f"own-{thread}")])
            with pytest.raises(ClientError):
                own.transact_write_items(TransactItems=[add("shared", 1000), refused(f"r{n}")])
            own.update_item(**add("plain")["Update"])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert (amount(own, "shared"), amount(own, "plain")) == (200, 200)
    assert [amount(own, f"own-{thread}") for thread in range(8)] == [25] * 8


def test_a_failed_transaction_leaves_no_trace(own: InMemoryDynamo) -> None:
    own.put_item(TableName=TABLE, Item={**key("there"), "n": {"N": "7"}})
    delete = {"Delete": {"TableName": TABLE, "Key": key("gone")}}
    own.put_item(TableName=TABLE, Item=key("gone"))
    put = {"Put": {"TableName": TABLE, "Item": key("new")}}
    before = own.scan(TableName=TABLE)["Items"]
    for bad in (refused("r"), add("there")):  # A false condition; the same item twice.
        with pytest.raises(ClientError):
            own.transact_write_items(TransactItems=[add("there"), delete, put, bad])
        assert own.scan(TableName=TABLE)["Items"] == before


def test_the_last_slot_goes_to_exactly_one(own: InMemoryDynamo) -> None:
    """The emulator is a server with threads, so this must hold there as well."""
    store = a_queue(DynamoStore(own, TABLE), a_pool("p5", 1))
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


def test_a_transaction_costs_the_same_in_a_large_table(own: InMemoryDynamo) -> None:

    def transacts() -> None:
        own.transact_write_items(TransactItems=[add("one"), add("two")])

    transacts()
    small = counted_calls(transacts)
    for n in range(0, 1000, 25):
        puts = [{"PutRequest": {"Item": key(f"item-{n + i}")}} for i in range(25)]
        own.batch_write_item(RequestItems={TABLE: puts})
    assert counted_calls(transacts) < small + 1000


def test_a_transaction_says_which_action_was_wrong(own: InMemoryDynamo) -> None:
    """As AWS describes it; DynamoDB Local gives no reasons."""
    put(own, TABLE, "there", words=text("words"), n={"N": "1.5"})

    def added(sk: str, attribute: str) -> dict[str, Any]:
        update = {
            "TableName": TABLE,
            "Key": {"pk": text("p"), "sk": text(sk)},
            "UpdateExpression": f"ADD {attribute} :n",
            "ExpressionAttributeValues": {":n": {"N": "1"}},
        }
        return {"Update": update}

    with pytest.raises(ClientError) as refused:
        own.transact_write_items(TransactItems=[added("new", "n"), added("there", "words")])
    codes = [reason["Code"] for reason in refused.value.response["CancellationReasons"]]
    assert codes == ["None", "ValidationError"]
    own.transact_write_items(TransactItems=[added("there", "n")])
    item = own.get_item(TableName=TABLE, Key={"pk": text("p"), "sk": text("there")})["Item"]
    assert item["n"] == {"N": "2.5"}


# --- the same as Amazon's engine


def put(client: Any, table: str, sk: str, **attributes: Any) -> None:
    client.put_item(TableName=table, Item={"pk": {"S": "p"}, "sk": {"S": sk}, **attributes})


def found(client: Any, table: str, condition: str, **more: Any) -> tuple[list[str], bool]:
    """The sort keys of a page, and whether more may follow."""
    values = {":pk": {"S": "p"}, **more.pop("values", {})}
    page = client.query(
        TableName=table,
        KeyConditionExpression=condition,
        ExpressionAttributeValues=values,
        **more,
    )
    return [item["sk"]["S"] for item in page["Items"]], "LastEvaluatedKey" in page


def text(content: str) -> dict[str, str]:
    return {"S": content}


KEYS = ["", "a", "a#1", "a#2", "a~", "b", "Z", "é", "\U0001f600"]
RANGES: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    (" AND sk = :a", {":a": text("a#1")}),
    (" AND sk < :a", {":a": text("a#2")}),
    (" AND sk <= :a", {":a": text("a#2")}),
    (" AND sk > :a", {":a": text("a#2")}),
    (" AND sk >= :a", {":a": text("a#2")}),
    (" AND sk BETWEEN :a AND :b", {":a": text("a#1"), ":b": text("b")}),
    (" AND begins_with(sk, :a)", {":a": text("a")}),
    (" AND begins_with(sk, :a)", {":a": text("c")}),
]


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize(("condition", "values"), RANGES)
def test_a_query_reads_its_range_in_the_order_of_the_bytes(
    client: Any, table: str, condition: str, values: dict[str, Any], forward: bool
) -> None:
    for key in KEYS[1:]:
        put(client, table, key)
    whole, _ = found(client, table, f"pk = :pk{condition}", values=values, ScanIndexForward=forward)
    right = {
        "": lambda _: True,
        "=": lambda key: key == "a#1",
        "<": lambda key: key < "a#2",
        "<=": lambda key: key <= "a#2",
        ">": lambda key: key > "a#2",
        ">=": lambda key: key >= "a#2",
        "BETWEEN": lambda key: "a#1" <= key <= "b",
        "begins_with(sk,": lambda key: key.startswith(values[":a"]["S"]),
    }
    sign = next((word for word in condition.split() if word in right and word), "")
    expected = sorted(filter(right[sign], KEYS[1:]), reverse=not forward)
    assert whole == expected
    paged: list[str] = []
    start: dict[str, Any] = {}
    while True:
        page = client.query(
            TableName=table,
            KeyConditionExpression=f"pk = :pk{condition}",
            ExpressionAttributeValues={":pk": text("p"), **values},
            ScanIndexForward=forward,
            Limit=2,
            **start,
        )
        paged += [item["sk"]["S"] for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert paged == expected


def test_a_page_ends_after_a_megabyte(client: Any, table: str) -> None:
    for number in range(5):
        put(client, table, str(number), data={"B": bytes(300_000)})
    assert found(client, table, "pk = :pk") == (["0", "1", "2", "3"], True)
    page = client.scan(TableName=table)
    assert (page["Count"], "LastEvaluatedKey" in page) == (4, True)
    rest = client.scan(TableName=table, ExclusiveStartKey=page["LastEvaluatedKey"])
    assert (rest["Count"], "LastEvaluatedKey" in rest) == (1, False)


def test_an_index_follows_its_items(client: Any, table: str) -> None:
    def listed(state: str, **more: Any) -> list[str]:
        page = client.query(
            TableName=table,
            IndexName=BY_STATE,
            KeyConditionExpression="jobState = :s",
            ExpressionAttributeValues={":s": text(state)},
            **more,
        )
        rest = page.get("LastEvaluatedKey")
        names = [item["sk"]["S"] for item in page["Items"]]
        return names + (listed(state, **{**more, "ExclusiveStartKey": rest}) if rest else [])

    for number in range(5):
        put(client, table, f"j{number}", jobState=text("pending"), entryTime=text(str(9 - number)))
    assert listed("pending", Limit=2) == ["j4", "j3", "j2", "j1", "j0"]
    assert listed("pending", Limit=2, ScanIndexForward=False) == ["j0", "j1", "j2", "j3", "j4"]
    put(client, table, "j1", jobState=text("running"), entryTime=text("1"))
    put(client, table, "j2")
    client.delete_item(TableName=table, Key={"pk": text("p"), "sk": text("j3")})
    put(client, table, "j4", jobState=text("pending"), entryTime=text("99"))
    assert (listed("pending"), listed("running")) == (["j0", "j4"], ["j1"])


LONG = {"B": bytes(410_000)}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a large item": ("put_item", {"Item": {"pk": text("p"), "sk": text("x"), "long": LONG}}),
    "no sort key": ("put_item", {"Item": {"pk": text("p")}}),
    "an empty key": ("put_item", {"Item": {"pk": text("p"), "sk": text("")}}),
    "a key of another type": ("put_item", {"Item": {"pk": text("p"), "sk": {"N": "1"}}}),
    "an unused placeholder": (
        "get_item",
        {"Key": {"pk": text("p"), "sk": text("x")}, "ExpressionAttributeNames": {"#a": "a"}},
    ),
    "a text and a number": (
        "update_item",
        {
            "Key": {"pk": text("p"), "sk": text("there")},
            "UpdateExpression": "ADD words :n",
            "ExpressionAttributeValues": {":n": {"N": "1"}},
        },
    ),
    "a sum with nothing": (
        "update_item",
        {
            "Key": {"pk": text("p"), "sk": text("there")},
            "UpdateExpression": "SET n = none + :n",
            "ExpressionAttributeValues": {":n": {"N": "1"}},
        },
    ),
    "no equality": (
        "query",
        {
            "KeyConditionExpression": "pk > :a",
            "ExpressionAttributeValues": {":a": text("a")},
        },
    ),
    "an index at once": (
        "query",
        {
            "IndexName": BY_STATE,
            "ConsistentRead": True,
            "KeyConditionExpression": "jobState = :a",
            "ExpressionAttributeValues": {":a": text("a")},
        },
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_amazon_refuses_is_refused(client: Any, table: str, what: str) -> None:
    put(client, table, "there", words=text("words"))
    before = client.scan(TableName=table)["Items"]
    method, asked = REFUSED[what]
    with pytest.raises(ClientError) as refused:
        getattr(client, method)(TableName=table, **asked)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert client.scan(TableName=table)["Items"] == before


@pytest.mark.parametrize("actions", [101, "the same twice", "large"])
def test_a_transaction_has_its_limits(client: Any, table: str, actions: Any) -> None:
    sizes = [380_000] * 12 if actions == "large" else [1] * (2 if isinstance(actions, str) else 101)
    puts = [
        {
            "Put": {
                "TableName": table,
                "Item": {
                    "pk": text("p"),
                    "sk": text("x" if actions == "the same twice" else str(number)),
                    "data": {"B": bytes(size)},
                },
            }
        }
        for number, size in enumerate(sizes)
    ]
    with pytest.raises(ClientError) as refused:
        client.transact_write_items(TransactItems=puts)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert client.scan(TableName=table)["Count"] == 0


def test_filters_by_hand(client: Any, table: str) -> None:
    put(client, table, "a", state=text("starting"), tags={"SS": ["x", "y"]})
    put(client, table, "b", state=text("running"), numbers={"L": [{"N": "1"}]})
    put(client, table, "c", state=text("stopping"))

    def filtered(expression: str, **values: Any) -> list[str]:
        named = {f":{name}": value for name, value in values.items()}
        names = {"#state": "state"} if "#state" in expression else {}
        asked = {"ExpressionAttributeNames": names} if names else {}
        keys, _ = found(
            client, table, "pk = :pk", values=named, FilterExpression=expression, **asked
        )
        return keys

    assert filtered("#state IN (:a, :b)", a=text("starting"), b=text("stopping")) == ["a", "c"]
    assert filtered("contains(#state, :a)", a=text("ing")) == ["a", "b", "c"]
    assert filtered("contains(tags, :a)", a=text("x")) == ["a"]
    assert filtered("contains(numbers, :a)", a={"N": "1"}) == ["b"]
    assert filtered("NOT contains(#state, :a)", a=text("st")) == ["b"]


def test_many_items_at_once(client: Any, table: str) -> None:
    puts = [
        {"PutRequest": {"Item": {"pk": text("p"), "sk": text(str(n)), "data": {"B": b"\0"}}}}
        for n in range(25)
    ]
    client.batch_write_item(RequestItems={table: puts})
    keys = [{"pk": text("p"), "sk": text(str(n))} for n in (3, 99)]
    said = client.batch_get_item(RequestItems={table: {"Keys": keys, "ConsistentRead": True}})
    assert [item["sk"]["S"] for item in said["Responses"][table]] == ["3"]
    assert said["UnprocessedKeys"] == {}
    for wrong in (keys[:1] * 2, [{"pk": text("p"), "sk": text(str(n))} for n in range(101)]):
        with pytest.raises(ClientError, match="ValidationException"):
            client.batch_get_item(RequestItems={table: {"Keys": wrong}})
