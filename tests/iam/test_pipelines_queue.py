"""The stack of a pipeline role (docs/pipelines/queue.yaml): nobody but the role can send, so the
queue's name says who submits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slotq_core.adapters.submitters import QueueSubmitters
from slotq_core.api.pipeline_steps import MOST_TRIES
from tests.cloudformation import ACCOUNT, REGION, Loader, template
from tests.functional.pipelines_double import QUEUE_ARN, QUEUE_NAME, ROLE_ARN, SUBMITTER
from tests.iam.evaluator import Verdict, call, judge

PAGE = Path(__file__).parents[2] / "docs" / "pipelines" / "queue.yaml"
ADMIN = f"arn:aws:iam::{ACCOUNT}:role/Admin"
GIVEN = {
    "Queue": "slotq",
    "Name": "vision",
    "RoleArn": ROLE_ARN,
    "Messages": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{QUEUE_NAME}",
    "Messages.Arn": QUEUE_ARN,
    "Messages.QueueName": QUEUE_NAME,
}


def worked_out(node: Any) -> Any:
    """The stack's template for one role."""
    if isinstance(node, list):
        return [worked_out(each) for each in node]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        ((name, value),) = node.items()
        if name in {"Ref", "GetAtt"}:
            return GIVEN[value]
        if name == "Sub":
            return re.sub(r"\$\{([^}]+)\}", lambda found: GIVEN[found[1]], value)
    return {key: worked_out(value) for key, value in node.items()}


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    loaded = yaml.load(PAGE.read_text(), Loader)
    return {name: worked_out(it["Properties"]) for name, it in loaded["Resources"].items()}


@pytest.mark.parametrize(
    ("principal", "secure", "verdict"),
    [
        (ROLE_ARN, "true", Verdict.ALLOWED),
        (ADMIN, "true", Verdict.FORBIDDEN),
        (f"{ROLE_ARN}2", "true", Verdict.FORBIDDEN),
        (None, "true", Verdict.FORBIDDEN),
        (ROLE_ARN, "false", Verdict.FORBIDDEN),
    ],
)
def test_only_the_role_can_send_whatever_others_may(resources, principal, secure, verdict):
    """Also an administrator, and a service that names no principal."""
    queue = [
        {key: value for key, value in statement.items() if key != "Principal"}
        for statement in resources["OnlyTheRoleSends"]["PolicyDocument"]["Statement"]
        if statement["Principal"] in ("*", {"AWS": principal})
    ]
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    context = {"aws:SecureTransport": secure}
    if principal:
        context["aws:PrincipalArn"] = principal
    asked = call("sqs:SendMessage", QUEUE_ARN, context)
    assert judge([everything, *queue], asked) is verdict


def test_the_queue_s_parameter_names_the_role_that_can_send(resources):
    parameter = resources["Submitter"]
    steps = template()["Resources"]["PipelineSteps"]["Properties"]["Environment"]["Variables"]
    path = steps["SLOTQ_SUBMITTERS"]["Sub"].replace("${AWS::StackName}", "slotq")
    assert parameter["Name"] == f"{path}{QUEUE_NAME}"

    class Ssm:
        def get_parameter(self, **request: Any) -> Any:
            assert request == {"Name": parameter["Name"]}
            return {"Parameter": parameter}

    assert QueueSubmitters(Ssm, path).of(QUEUE_ARN) == SUBMITTER
    allowed = resources["OnlyTheRoleSends"]["PolicyDocument"]["Statement"][0]
    assert allowed["Principal"] == {"AWS": parameter["Value"]}


def test_the_mapping_is_as_the_function_needs_it(resources):
    """Messages that fail come again one by one, and long enough for a step to hear why."""
    mapping, queue = resources["MessagesToSlotQ"], resources["Messages"]
    function = template()["Resources"]["PipelineSteps"]["Properties"]
    assert mapping["FunctionName"] == function["FunctionName"]["Sub"].replace(
        "${AWS::StackName}", "slotq"
    )
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"]
    assert queue["VisibilityTimeout"] * MOST_TRIES < queue["MessageRetentionPeriod"]
    loaded = yaml.load(PAGE.read_text(), Loader)["Resources"]["MessagesToSlotQ"]
    assert set(loaded["DependsOn"]) == {"OnlyTheRoleSends", "Submitter"}
