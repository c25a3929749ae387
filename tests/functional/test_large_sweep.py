"""A thousand members in one submission, on DynamoDB Local: how many calls, and none in series."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.dynamodb_units import item_size
from slotq_core.adapters.dynamodb.layout.items import keyed
from slotq_core.adapters.dynamodb.layout.table import group_key
from slotq_core.wire.groups.group_submission import MOST_MEMBERS
from tests.functional.account import TABLE, Account, sample
from tests.functional.conftest import in_use
from tests.functional.test_burst import client_of

MEMBER = json.loads(sample("add-job")["body"])


class Counted:
    """A DynamoDB client that counts its calls, and how many were under way at most."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.now = self.most = 0
        self.each: Callable[[], None] = lambda: None
        """What happens with each call."""

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if name in {"create_table", "delete_table", "scan"}:
            return real

        def call(**request: Any) -> Any:
            with self._lock:
                self.calls[name] += 1
                self.now += 1
                self.most = max(self.most, self.now)
                self.each()
            try:
                return real(**request)
            finally:
                with self._lock:
                    self.now -= 1

        return call


@pytest.fixture
def account(dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    made = Account(client_of(dynamodb_local_endpoint))
    made.dynamodb = Counted(made.dynamodb)
    yield from in_use(made, monkeypatch)
    made.dynamodb.delete_table(TableName=TABLE)


def test_a_thousand_members_take_few_calls_and_several_at_once(account: Account):
    account.send("tick")
    template = {key: it for key, it in MEMBER.items() if key != "TrainingJobName"}
    members = [
        {"TrainingJobName": f"grid-{n:04d}", "HyperParameters": {"lr": str(n / 1000)}}
        for n in range(MOST_MEMBERS)
    ]
    rates = [{"lr": n / 1000} for n in range(MOST_MEMBERS)]
    body = json.dumps(
        {
            "name": "grid",
            "max_parallel": 8,
            "template": template,
            "members": members,
            "sweep": {"metric": "loss", "parameters": rates},
        }
    )
    assert len(body) < 200_000
    counted: Counted = account.dynamodb
    counted.calls.clear()
    status, told = account.call({**sample("submit-group"), "body": body})
    assert (status, told["states"]) == (202, {"pending": MOST_MEMBERS})
    assert len(json.dumps(told)) < 1_500_000, "a Lambda answers with 6 MB at most"
    assert counted.calls["transact_write_items"] < 40
    assert counted.calls.total() < 70
    assert counted.most > 1, "several parts are stored at once"
    item = account.dynamodb.get_item(TableName=TABLE, Key=keyed(group_key("grid")))["Item"]
    assert item_size(item) < 100_000, "a record of 400 KB holds the longest names, too"
    counted.calls.clear()
    status, again = account.call({**sample("get-group"), "path": "/groups/grid"})
    assert (status, again["jobs"]) == (200, told["jobs"])
    trial = again["sweep"]["trials"][7]
    assert (trial["name"], trial["job"]) == ("grid-0007", "grid-0007")
    assert trial["parameters"] == {"lr": 0.007}
    assert counted.calls.total() < 20


def test_a_submission_that_runs_out_of_time_is_finished_by_the_same_request(account: Account):
    """Each call takes 2 s of the queue's clock."""
    account.send("tick")
    counted: Counted = account.dynamodb
    names = [f"grid-{n}" for n in range(MOST_MEMBERS)]
    members = [{**MEMBER, "TrainingJobName": name} for name in names]
    body = json.dumps({"name": "grid", "max_parallel": 8, "members": members})
    request = {**sample("submit-group"), "body": body}
    counted.each = lambda: account.clock.set(account.clock.now() + 2000)
    status, told = account.call(request)
    assert (status, told["code"]) == (429, "group_unfinished")
    assert "of the 1,000 members of group grid are stored" in told["message"]
    stored = counted.calls["transact_write_items"]
    assert account.call({**sample("get-group"), "path": "/groups/grid"})[0] == 404
    counted.each = lambda: None
    counted.calls.clear()
    status, told = account.call(request)
    assert (status, told["states"]) == (202, {"pending": MOST_MEMBERS})
    parts = counted.calls["transact_write_items"]
    assert 0 < stored < stored + parts < 40, "none is stored twice"
