"""The template as CloudFormation gets it. `sam validate` sees none of these mistakes."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import cloudformation

ROOT = Path(__file__).parents[2]
TRANSFORM = """
import json, sys
from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
template = yaml_parse(open("template.yaml").read())
for resource in [*template["Resources"].values(), {"Properties": template["Globals"]["Function"]}]:
    for key in ("CodeUri", "ContentUri"):
        if key in resource.get("Properties", {}):
            resource["Properties"][key] = "s3://bucket/key"
parameters = {k: v.get("Default", "") for k, v in template["Parameters"].items()}
parameters["VpcEndpointIds"] = "vpce-0a1b,vpce-2c3d"
print(json.dumps(Translator({}, Parser()).translate(template, parameters)))
"""

pytestmark = pytest.mark.built


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    out = subprocess.run(
        [".venv/sam/bin/python", "-c", TRANSFORM],
        cwd=ROOT,
        env={**os.environ, "AWS_DEFAULT_REGION": "us-east-1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(out.stdout)["Resources"]


def resolved(node: Any, **parameters: str) -> Any:
    parameters = {"VpcEndpointIds": "vpce-0a1b,vpce-2c3d", **parameters}
    return cloudformation.Resolver(cloudformation.template(), parameters)(node)


def of_type(resources: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [r["Properties"] for r in resources.values() if r["Type"] == kind]


def test_the_api_is_private_and_its_policy_names_the_endpoints_whole(resources):
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    assert api["Name"] == "training-job-queue"
    assert resolved(api["EndpointConfiguration"]) == {"Types": ["PRIVATE"]}
    allow, deny = resolved(api["Body"]["x-amazon-apigateway-policy"])["Statement"]
    endpoints = ["vpce-0a1b", "vpce-2c3d"]
    assert allow["Effect"] == "Allow"
    assert allow["Condition"] == {"StringEquals": {"aws:SourceVpce": endpoints}}
    assert deny["Effect"] == "Deny"
    assert deny["Principal"] == "*"
    assert deny["Condition"] == {"StringNotEquals": {"aws:SourceVpce": endpoints}}


def test_a_regional_api_is_open_to_the_account_s_principals_alone(resources):
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    kind, policy = api["EndpointConfiguration"], api["Body"]["x-amazon-apigateway-policy"]
    assert resolved(kind, ApiAccess="regional") == {"Types": ["REGIONAL"]}
    (allow,) = resolved(policy, ApiAccess="regional")["Statement"]
    assert allow["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
    assert "Condition" not in allow


def test_every_method_is_throttled_and_submissions_are_looked_at_by_the_gateway(resources):
    (stage,) = of_type(resources, "AWS::ApiGateway::Stage")
    (setting,) = resolved(stage["MethodSettings"])
    assert (setting["ResourcePath"], setting["HttpMethod"]) == ("/*", "*")
    assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == ("50", "100")
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    submit = api["Body"]["paths"]["/add-job"]["post"]
    validator = submit["x-amazon-apigateway-request-validator"]
    validators = api["Body"]["x-amazon-apigateway-request-validators"]
    assert validators[validator]["validateRequestBody"] is True


def test_every_route_is_signed_and_reaches_the_function(resources):
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    routes = {
        (method, path): operation
        for path, methods in api["Body"]["paths"].items()
        for method, operation in methods.items()
    }
    assert sorted(routes) == [
        ("delete", "/jobs/{name}"),
        ("delete", "/pools/{name}"),
        ("get", "/changes"),
        ("get", "/doctor"),
        ("get", "/jobs"),
        ("get", "/jobs/{name}"),
        ("get", "/jobs/{name}/request"),
        ("get", "/limits"),
        ("get", "/pools"),
        ("get", "/version"),
        ("patch", "/jobs/{name}"),
        ("patch", "/limits"),
        ("patch", "/pools/{name}"),
        ("post", "/add-job"),
        ("post", "/doctor"),
    ]
    for operation in routes.values():
        assert operation["security"] == [{"AWS_IAM": []}]
        integration = operation["x-amazon-apigateway-integration"]
        assert integration["type"] == "aws_proxy"
        assert "credentials" not in integration  # else callers would need lambda:InvokeFunction
    served = {
        route: str(it["x-amazon-apigateway-integration"]["uri"]) for route, it in routes.items()
    }
    views = {route for route, uri in served.items() if "${Views.Arn}" in uri}
    jobs = ("/jobs", "/jobs/{name}", "/jobs/{name}/request")
    others = ("/changes", "/limits", "/pools", "/version")
    assert views == {("get", path) for path in (*jobs, *others)}
    assert all("${QueueManager.Arn}" in served[route] for route in set(served) - views)
    assert len(of_type(resources, "AWS::Lambda::Permission")) == len(routes) + 2


def test_there_is_one_stage_and_it_is_prod(resources):
    stages = of_type(resources, "AWS::ApiGateway::Stage")
    assert [stage["StageName"] for stage in stages] == ["prod"]


def test_two_rules_wake_the_queue_manager(resources):
    rules = [rule for rule in of_type(resources, "AWS::Events::Rule") if to_the_function(rule)]
    pattern, schedule = sorted(rules, key=lambda rule: "ScheduleExpression" in rule)
    assert pattern["EventPattern"] == {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Training Job State Change"],
    }
    assert schedule["ScheduleExpression"] == "rate(1 minute)"


def to_the_function(rule: dict[str, Any]) -> bool:
    return [target["Arn"] for target in rule["Targets"]] == [
        {"Fn::GetAtt": ["QueueManager", "Arn"]}
    ]


def test_what_cannot_be_delivered_or_handled_is_kept_encrypted_for_two_weeks(resources):
    letters = {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    (queue,) = of_type(resources, "AWS::SQS::Queue")
    assert queue == {"MessageRetentionPeriod": 14 * 86_400, "SqsManagedSseEnabled": True}
    for rule in of_type(resources, "AWS::Events::Rule"):
        assert [target["DeadLetterConfig"] for target in rule["Targets"]] == [{"Arn": letters}]
        assert all(target["RetryPolicy"]["MaximumRetryAttempts"] for target in rule["Targets"])
    (invoked,) = of_type(resources, "AWS::Lambda::EventInvokeConfig")
    assert invoked["DestinationConfig"]["OnFailure"]["Destination"] == letters
    variables = resources["QueueManager"]["Properties"]["Environment"]["Variables"]
    assert variables["SLOTQ_DEAD_LETTERS"] == {"Ref": "DeadLetters"}


def test_the_rules_may_write_dead_letters_and_nobody_else_without_a_role(resources):
    (policy,) = of_type(resources, "AWS::SQS::QueuePolicy")
    allow, deny = policy["PolicyDocument"]["Statement"]
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert allow["Action"] == "sqs:SendMessage"
    assert deny["Effect"] == "Deny"
    rules = {name for name, it in resources.items() if it["Type"] == "AWS::Events::Rule"}
    named = json.dumps(allow["Condition"]["ArnEquals"]["aws:SourceArn"])
    assert {rule for rule in rules if f'["{rule}", "Arn"]' in named} == rules


def test_ended_jobs_expire_by_the_table_s_time_to_live(resources):
    (table,) = of_type(resources, "AWS::DynamoDB::Table")
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}


def test_the_functions_have_the_roles_of_the_template_and_no_right_beside_them(resources):
    """What tests/iam proves of the template's statements is true of what is deployed."""
    roles = {name for name, it in resources.items() if it["Type"] == "AWS::IAM::Role"}
    assert roles == {"QueueManagerRole", "ViewsRole"}
    attached = {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"}
    assert not attached & {it["Type"] for it in resources.values()}
    given = {"ExecutionRoleArns": "arn:aws:iam::123456789012:role/a", "TableName": "q"}
    for role in roles:
        assert "ManagedPolicyArns" not in resources[role]["Properties"]
        deployed = cloudformation.statements(role, given, {"Resources": resources})
        assert deployed == cloudformation.statements(role, given)
    for function in ("QueueManager", "Views"):
        role = resources[function]["Properties"]["Role"]
        assert role == {"Fn::GetAtt": [f"{function}Role", "Arn"]}


@pytest.mark.parametrize(("concurrency", "kept"), [("20", "20"), ("0", None)])
def test_each_function_keeps_its_concurrency_where_that_is_asked(resources, concurrency, kept):
    for function in of_type(resources, "AWS::Lambda::Function"):
        its = {"Reserved": function["ReservedConcurrentExecutions"]}
        assert resolved(its, Concurrency=concurrency).get("Reserved") == kept
        assert function["TracingConfig"] == {"Mode": "Active"}
