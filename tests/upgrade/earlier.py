"""An earlier version's table in an account of this version, with SageMaker as it was then."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from slotq.local.services.training_service import PlaneClient
from tests.faults.fake_dynamodb import FakeDynamo
from tests.functional.account import TABLE, Account

TABLES = Path(__file__).with_name("tables")

_CALLS = {"create_training_job": "CreateTrainingJob", "stop_training_job": "StopTrainingJob"}


def read(path: Path) -> dict[str, Any]:
    dumped: dict[str, Any] = json.loads(path.read_text())
    dumped["items"] = [_item(each) for each in dumped["items"]]
    return dumped


def _item(item: dict[str, Any]) -> dict[str, Any]:
    if "jobDetails" in item:
        item["jobDetails"] = {"B": base64.b64decode(item["jobDetails"]["B"])}
    return item


def take_over(its: Account, dumped: dict[str, Any]) -> None:
    """SageMaker as of that moment, with undelivered events; and the table's items."""
    client = PlaneClient(its.plane)
    for told in dumped["sagemaker"]:
        its.clock.set(told["at"])
        its.plane.advance()
        if told["call"] == "ended":
            its.plane.job(told["request"]["name"]).status = told["request"]["status"]
        else:
            getattr(client, told["call"])(**told["request"])
    its.clock.set(dumped["now"])
    its.plane.advance()
    its.plane.calls.clear()
    its.emitted[:] = dumped["news"]
    _fill(its.dynamodb, dumped["items"])


def _fill(dynamodb: Any, items: list[dict[str, Any]]) -> None:
    """In as few calls as the engine knows: the fake has none for many items."""
    if isinstance(dynamodb, FakeDynamo):
        for item in items:
            dynamodb.put_item(TableName=TABLE, Item=item)
        return
    for begin in range(0, len(items), 25):
        puts = [{"PutRequest": {"Item": item}} for item in items[begin : begin + 25]]
        answer = dynamodb.batch_write_item(RequestItems={TABLE: puts})
        assert answer["UnprocessedItems"] == {}


def live(its: Account) -> list[str]:
    """Running or stopping training jobs, in order of creation."""
    running = {"InProgress", "Stopping"}
    return [each.name for each in its.plane.jobs() if each.status in running]


def completes(its: Account, name: str) -> None:
    """End the job's training job and deliver the event."""
    its.completes(its.job(name)["training_job"])
