"""What the roles in the templates of docs/step-functions may do: submit to one queue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloudformation import ACCOUNT, REGION, Resolver
from tests.iam.evaluator import Verdict, call, judge
from tests.iam.test_policies import routes
from tests.unit.test_step_functions_files import template

API = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:a1b2c3d4e5/prod"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:training-Submit-0a1b"


def role(name: str, logical: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a role may do, and the statement that says who may assume it."""
    source = {**template(name), "Conditions": {}}
    resolve = Resolver(source, {"QueueApiId": "a1b2c3d4e5", "Submit.Arn": FUNCTION})
    properties = resolve(source["Resources"][logical]["Properties"])
    (policy,) = properties["Policies"]
    (trust,) = properties["AssumeRolePolicyDocument"]["Statement"]
    return policy["PolicyDocument"]["Statement"], trust


@pytest.mark.parametrize("name", ["training", "private"])
def test_the_submitter_may_submit_and_call_no_other_route(name):
    granted, _ = role(name, "Submitter")
    for route in routes():
        asked = call("execute-api:Invoke", f"{API}/{route.replace('{name}', 'x')}")
        wanted = Verdict.ALLOWED if route == "POST/add-job" else Verdict.DENIED
        assert judge(granted, asked) is wanted, route
    other = API.replace("a1b2c3d4e5", "f6g7h8i9j0")
    for asked in (
        call("execute-api:Invoke", f"{other}/POST/add-job"),
        call("lambda:InvokeFunction", FUNCTION),
        call("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/trainer"),
    ):
        assert judge(granted, asked) is Verdict.DENIED


def test_the_private_state_machine_may_invoke_its_function_alone():
    granted, trust = role("private", "Invoker")
    assert judge(granted, call("lambda:InvokeFunction", FUNCTION)) is Verdict.ALLOWED
    for asked in (
        call("lambda:InvokeFunction", FUNCTION.replace("Submit", "Door")),
        call("execute-api:Invoke", f"{API}/POST/add-job"),
    ):
        assert judge(granted, asked) is Verdict.DENIED
    assert trust["Principal"] == {"Service": "states.amazonaws.com"}


@pytest.mark.parametrize(
    ("name", "service"), [("training", "states.amazonaws.com"), ("private", "lambda.amazonaws.com")]
)
def test_only_its_service_becomes_the_submitter(name, service):
    _, trust = role(name, "Submitter")
    assert (trust["Principal"], trust["Action"]) == ({"Service": service}, "sts:AssumeRole")
