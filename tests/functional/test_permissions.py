"""The role in template.yaml may do what the queue does: nothing else here would show it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloudformation import allowed_actions
from tests.functional.account import HOUR, Account, add_job, dynamodb_client, forget

ACTIONS_OF = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}


@pytest.fixture
def used() -> Iterator[set[str]]:
    """The actions that DynamoDB checks, from here on."""
    seen: set[str] = set()

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        if model.name == "TransactWriteItems":
            kinds = {kind for action in params["TransactItems"] for kind in action}
            seen.update(ACTIONS_OF.get(kind, f"{kind}Item") for kind in kinds)
        else:
            seen.add(model.name)

    events = dynamodb_client().meta.events
    events.register("provide-client-params.dynamodb", note)
    yield seen
    events.unregister("provide-client-params.dynamodb", note)


def test_the_role_allows_what_a_queue_s_life_needs(account: Account, used: set[str], monkeypatch):
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.settle()
    account.call(add_job(TrainingJobName="cancelled"))
    account.call("list-jobs")
    account.call("cancel-job")
    account.plane.knobs.refuse_creates = 1
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    account.clock.set(account.clock.now() + HOUR)
    account.send("tick")
    monkeypatch.setenv("SLOTQ_POOLS", "main=2@ml.p4d.24xlarge,more=1@ml.g5.xlarge")
    forget()
    account.send("tick")
    account.call("list-pools")
    account.call("mend")
    account.send("poison-no-detail")

    allowed = allowed_actions()
    dynamodb = {f"dynamodb:{action}" for action in used}
    assert {"dynamodb:PutItem", "dynamodb:Query"} <= dynamodb
    assert dynamodb <= allowed
    assert {f"sagemaker:{operation}" for operation in account.plane.calls} <= allowed
    assert {"sagemaker:AddTags", "iam:PassRole"} <= allowed, "CreateTrainingJob asks for them"
    assert "lambda:InvokeFunction" in allowed
    assert account.letters.read
    assert "sqs:SendMessage" in allowed
    assert account.plane.calls["ListTrainingJobs"]
