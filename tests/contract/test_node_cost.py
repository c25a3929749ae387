"""What nodes cost: nothing where there are none, and little where there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.dynamodb_units import write_units
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.model.pools import NodeRules
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.keeping_nodes import (
    becoming,
    changed,
    coming,
    ending_node,
    getting_ready,
    now,
    ready,
    runs_on,
    starting_node,
    waits_for_gpus,
)
from tests.contract.metered import Metered
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    commit,
    completing,
    evicted,
    runs,
    starting,
    waits,
)

POOLS = ("p5", "p4", "p3")


def loads(nodes: NodeRules | None) -> tuple[Metered, DynamoStore]:
    """A store with three pools, whole jobs running and waiting."""
    client = Metered()
    store = client.store()
    a_queue(store, *(a_pool(name, 3, nodes=nodes) for name in POOLS))
    runs(store, "whole")
    waits(store, "next")
    return client, store


def cost(client: Metered, store: DynamoStore) -> tuple[dict[str, int], int, int]:
    """The calls, the read units and the rounds of a load."""
    client.reset()
    store.worlds.load(NOW)
    return dict(client.calls), client.read_units, client.rounds


@pytest.mark.parametrize("rules", [None, NodeRules()], ids=["none", "configured"])
def test_a_load_without_nodes_makes_no_call_and_reads_no_unit_for_them(
    rules: NodeRules | None,
) -> None:
    """Not even where pools may keep nodes, or have kept some."""
    client, store = loads(rules)
    before = loads(None)
    assert cost(client, store) == cost(*before)
    if rules:
        node = ready(store)
        store.decisions.commit([], nodes=[ending_node(node)])
        store.worlds.load(NOW)
    assert cost(client, store) == cost(*before) == ({"batch_get_item": 1, "query": 3}, 7, 3)


def test_a_load_asks_once_for_the_nodes_of_each_pool_that_has_any() -> None:
    client, store = loads(NodeRules())
    for pool in ("p5", "p4"):
        ready(store, pool=pool)
    store.worlds.load(NOW)
    calls, _, rounds = cost(client, store)
    assert calls == {"batch_get_item": 1, "query": 3 + 2}
    assert rounds == 3 + 1
    store.nodes.note_report(now(store, ready(store, "n2")), 1, at=1, lease_until=NOW)
    store.worlds.load(NOW)
    assert cost(client, store)[0] == calls


def test_a_look_at_all_nodes_reads_nothing_of_what_waits() -> None:
    """With each tick of a deployment with a bucket, beside the load of its pass."""
    client, store = loads(NodeRules())
    for number in range(9):
        waits(store, f"next{number}", priority=number)
    node = ready(store)
    runs_on(store, "one", node, 0)
    loaded, (calls, units, _) = store.worlds.load(NOW), cost(client, store)
    client.reset()
    assert tuple(store.worlds.nodes(NOW)) == loaded.snapshot.nodes
    assert dict(client.calls) == {"batch_get_item": 1, "query": 1}
    assert client.read_units == 5
    assert (calls, units) == ({"batch_get_item": 1, "query": 13}, 17)
    store.decisions.commit([evicted(store.jobs.get("one"))], nodes=[ending_node(now(store, node))])
    store.worlds.nodes(NOW)
    client.reset()
    assert store.worlds.nodes(NOW) == ()
    assert dict(client.calls) == {"batch_get_item": 1}


def test_reports_do_not_outdate_what_is_kept_of_a_pool() -> None:
    client, store = loads(NodeRules())
    node = ready(store)
    store.worlds.load(NOW)
    before = cost(client, store)
    store.nodes.note_report(node, 1, at=1, lease_until=NOW)
    assert cost(client, store) == before


def test_the_nodes_of_a_large_pool_fit_few_units() -> None:
    """250 nodes with 8 jobs each: below a unit a node, and two calls."""
    client, store = loads(NodeRules())
    node = ready(store)
    for number in range(8):
        runs_on(store, f"trial-{number:06}", node, number)
    item = next(item for item in _items(client) if item["pk"]["S"] == "NODES#p5")
    for number in range(2, 251):
        name = {"S": f"n{number}"}
        client.put_item(TableName="t", Item={**item, "sk": name, "name": name})
    store.worlds.load(NOW)
    client.reset()
    read = store.worlds.load(NOW)
    assert len(read.snapshot.active) == 9
    assert client.read_units <= 9 + 250 // 4


def _items(client: Any) -> list[dict[str, Any]]:
    return list(client.scan(TableName="t")["Items"])


# --- transactions


def test_the_calls_and_write_units_of_each_transition(evented_client: EventedDynamo) -> None:
    """A transaction's writes count twice."""
    evented_client.create_table(**table_definition("t"))
    store, items = DynamoStore(evented_client, "t", clock=lambda: NOW), Table(evented_client, "t")
    a_queue(store, a_pool("p5", 3, nodes=NodeRules()))

    def costs(do: Callable[[], Any], *, factor: int = 2) -> tuple[Any, dict[str, int], int]:
        before = items.all()
        with measured(evented_client) as meter:
            done = do()
        after = items.all()
        units = sum(
            write_units(before.get(key), after.get(key))
            for key in {*before, *after}
            if before.get(key) != after.get(key)
        )
        return done, dict(Counter(meter.calls)), factor * units

    one = {"TransactWriteItems": 1}
    start = starting_node(store)
    assert costs(lambda: store.decisions.commit([], nodes=[start]))[1:] == (one, 8)
    node = now(store, start.node)
    getting = getting_ready(node)
    assert costs(lambda: store.decisions.commit([], nodes=[getting]))[1:] == (one, 2)
    node = now(store, node)
    job, whole = waits_for_gpus(store, "job1", 2), waits(store, "whole")
    job, *spent = costs(lambda: commit(store, coming(job, node, 0, 1)))
    assert spent == [one, 18]
    assert costs(lambda: commit(store, starting(whole)))[1:] == (one, 16)
    assert costs(lambda: store.nodes.note_report(node, 1, at=1, lease_until=NOW), factor=1)[1:] == (
        {"UpdateItem": 1},
        1,
    )
    _, *spent = costs(lambda: commit(store, completing(job)))
    assert spent == [one, 18]
    node = changed(store, becoming(now(store, node), getting.node.state))
    assert costs(lambda: store.decisions.commit([], nodes=[ending_node(node)]))[1:] == (one, 8)
