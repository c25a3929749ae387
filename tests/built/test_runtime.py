"""Every file in events/ through the Lambda runtime: what was built, under the very loop that Lambda
runs, with real clients against the emulator. No container."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import table_definition
from tests import cloudformation
from tests.built import replies
from tests.built.runtime import Function
from tests.functional.account import EVENTS, TABLE, sample
from tests.functional.local.account import Account
from tests.functional.local.conftest import slotq, start
from tests.functional.pipelines_double import (
    QUEUE_NAME,
    ROLE_ARN,
    SUBMITTER,
    delivered,
    message,
)

pytestmark = pytest.mark.built


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """The emulator's own queue manager is off: everything comes from the functions under test."""
    folder = tmp_path_factory.mktemp("emulator")
    refuse = ("--knob", f"refuse_creates={replies.REFUSALS}")
    try:
        yield start(folder, "--pool", "main=2@ml.p4d.24xlarge", "--tick", "3600", *refuse)
    finally:
        slotq("local", "stop", folder=folder)


@pytest.fixture(scope="module")
def variables(emulator: Account) -> Mapping[str, str]:
    """The functions' environment as the template sets it, and the emulator's address."""
    letters = emulator.endpoint.client("sqs").create_queue(QueueName="dead-letters")["QueueUrl"]
    return {
        **emulator.endpoint.variables(),
        "SLOTQ_TABLE": TABLE,
        "SLOTQ_POOLS": "main=2@ml.p4d.24xlarge",
        "SLOTQ_DEAD_LETTERS": letters,
        "SLOTQ_ANNOUNCE": "1",
        "SLOTQ_EXECUTION_ROLES": "arn:aws:iam::123456789012:role/SageMakerTraining",
        "SLOTQ_TRAINING_PLANS": "",
        "SLOTQ_INLINE_PASS": "1",
        "POWERTOOLS_METRICS_NAMESPACE": "SlotQ",
    }


@pytest.fixture
def functions(variables: Mapping[str, str], tmp_path: Path) -> Iterator[Callable[..., Function]]:
    """Start a function; each is stopped at the end."""
    made: list[Function] = []

    def begin(name: str, **more: str) -> Function:
        template = cloudformation.template()
        properties = {
            **template["Globals"]["Function"],
            **template["Resources"][name]["Properties"],
        }
        serves = properties["Environment"]["Variables"].get("SLOTQ_SERVES")
        own = {"SLOTQ_SERVES": serves} if serves else {}
        log = tmp_path / f"{len(made)}-{name}.log"
        made.append(Function(name, properties["Handler"], {**variables, **own, **more}, log))
        return made[-1]

    yield begin
    for function in made:
        function.stop()


def test_every_sample_is_answered(emulator: Account, functions, variables: Mapping[str, str]):
    running = {name: functions(name) for name in ("QueueManager", "Door", "Views", "Notifier")}
    answers: dict[str, Any] = {}
    for name in replies.names():
        event = sample(name)
        answers[name] = running[replies.function_of(event)].invoke(event)
        replies.check(name, answers[name])
    assert len(answers) == len(list(EVENTS.glob("*.json")))
    asked = {"QueueUrl": variables["SLOTQ_DEAD_LETTERS"], "AttributeNames": ["All"]}
    read = emulator.endpoint.client("sqs").get_queue_attributes(**asked)
    replies.check_story(
        list(answers),
        running["Views"].invoke(sample("list-jobs")),
        refusals_left=emulator.knobs()["refuse_creates"],
        letters=int(read["Attributes"]["ApproximateNumberOfMessages"]),
    )


def test_a_failed_invocation_is_an_error_that_lambda_retries(functions):
    """The table is missing: the event must not count as handled."""
    manager = functions("QueueManager", SLOTQ_TABLE="another-table")
    answer = manager.invoke(sample("tick"))
    assert answer["errorType"] == "Failed"
    assert "see the log of request" in answer["errorMessage"]


def test_one_process_serves_many_invocations(emulator: Account, functions):
    """One invocation leaves nothing to the next: the second is answered like the first."""
    table = "another-queue"
    emulator.endpoint.client("dynamodb").create_table(**table_definition(table))
    manager, door = (functions(name, SLOTQ_TABLE=table) for name in ("QueueManager", "Door"))
    for _ in range(3):
        assert manager.invoke(sample("tick")) == {"decisions": 0, "busy": False}
        assert door.invoke(sample("set-limits"))["statusCode"] == 200


def test_the_notifier_keeps_what_a_receiver_does_not_take(emulator: Account, functions):
    """The secret is missing, so the message stays and nothing is called."""
    table, client = "told-queue", emulator.endpoint.client("dynamodb")
    client.create_table(**table_definition(table))
    door, notifier = (functions(name, SLOTQ_TABLE=table) for name in ("Door", "Notifier"))
    rule = {"name": "nobody", "for": "all", "to": {"slack": "ssm:/slotq/notifications/nobody"}}
    event = {**sample("apply-configuration"), "queryStringParameters": None}
    event["multiValueQueryStringParameters"] = None
    pool = {"name": "main", "capacity": 2, "instance_type": "ml.p4d.24xlarge"}
    event["body"] = json.dumps({"configuration": {"pools": [pool], "notifications": [rule]}})
    assert door.invoke(event)["statusCode"] == 200
    change = sample("stream-job-started")
    for _ in range(2):  # The stream repeats itself.
        assert notifier.invoke(change) == {"batchItemFailures": []}
    items = client.scan(TableName=table)["Items"]
    (kept,) = (item for item in items if item["pk"]["S"] == "NOTICE#PENDING")
    message = json.loads(kept["message"]["S"])
    assert (message["job"], message["event"]) == ("job1", "started")
    assert int(kept["tries"]["N"]) == 1
    assert notifier.invoke(sample("tick")) == {"delivered": 0, "left": 0}


def test_a_step_of_a_pipeline_submits_as_its_role(emulator: Account, functions):
    """With the clients of the layer, which knows few services."""
    table, path = "stepped-queue", "/slotq/stepped/pipelines/"
    emulator.endpoint.client("dynamodb").create_table(**table_definition(table))
    ssm = emulator.endpoint.client("ssm")
    ssm.put_parameter(Name=f"{path}{QUEUE_NAME}", Value=ROLE_ARN, Type="String")
    own = {"SLOTQ_SUBMITTERS": path, "SLOTQ_CALLBACKS": "pipeline", "SLOTQ_TABLE": table}
    manager, steps, views = (
        functions(name, **own) for name in ("QueueManager", "PipelineSteps", "Views")
    )
    manager.invoke(sample("tick"))
    sent = delivered(message(json.loads(sample("add-job")["body"])), "not JSON")
    for _ in range(2):  # SQS repeats itself.
        assert steps.invoke(sent) == {"batchItemFailures": []}
    (job,) = json.loads(views.invoke(sample("list-jobs"))["body"])["jobs"]
    assert job["submitter"] == SUBMITTER
    assert "errorType" in steps.invoke(sample("add-job"))
