"""Yields to time slices as version 0.2.0 kept them: by user and rank, without a project."""

from __future__ import annotations

from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Start
from slotq_core.storage.yields import KEPT_FOR
from tests.contract.conftest import a_store
from tests.contract.test_yields import USERS, sliced, yielding
from tests.contract.worlds import NOW, cancelling, commit, completing, runs, waits
from tests.faults.fake_dynamodb import FakeDynamo

ANN, BOB = USERS
KEY = {"pk": {"S": "POOL#p5"}, "sk": {"S": f"YIELD#training#1#{ANN}"}}
KEPT = {
    "user": {"S": ANN},
    "workload": {"S": "training"},
    "priority": {"N": "1"},
    "at": {"N": str(NOW + 3)},
}


def updated() -> tuple[DynamoStore, FakeDynamo]:
    client = FakeDynamo()
    client.create_table(**table_definition("t"))
    store = a_store(client, "t")
    sliced(store, slots=1)
    client.put_item(TableName="t", Item={**KEY, **KEPT})
    return store, client


def test_such_a_yield_counts_in_every_project() -> None:
    for project in ("", "x"):
        store, _ = updated()
        mine = waits(store, "mine", submitter=ANN, project=project, line_by_user=True)
        theirs = waits(
            store,
            "theirs",
            submitter=BOB,
            project=project,
            entry_time=NOW + 1,
            line_by_user=True,
        )
        world = store.worlds.load(NOW + 9)
        assert [world.ahead_of(job).jobs for job in (mine, theirs)] == [1, 0]
        (first,) = plan(world.snapshot, NOW + 9, more=world.more).decisions
        assert isinstance(first, Start)
        assert first.job.name == "theirs"


def test_a_later_yield_is_kept_for_its_project_beside_it() -> None:
    store, _ = updated()
    commit(
        store,
        completing(
            commit(store, yielding(runs(store, "a", submitter=ANN, project="x"), at=NOW + 7))
        ),
    )
    found = {(each.project, each.at) for each in store.worlds.load(NOW + 9).snapshot.yields}
    assert found == {(None, NOW + 3), ("x", NOW + 7)}


def test_it_is_forgotten_when_nobody_can_notice_it() -> None:
    store, client = updated()
    older = waits(store, "older", submitter=ANN, project="x", line_by_user=True)
    late = NOW + 3 + KEPT_FOR
    store.worlds.load(late).keep_bounds()
    assert "Item" in client.get_item(TableName="t", Key=KEY)
    commit(store, cancelling(older))
    for moment in (late, late + 1, late + 2):  # The empty line is read, and removed.
        world = store.worlds.load(moment)
        plan(world.snapshot, moment, more=world.more)
        world.keep_bounds()
    assert "Item" not in client.get_item(TableName="t", Key=KEY)
