"""The template as CloudFormation gets it. `sam validate` sees none of these mistakes."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TRANSFORM = """
import json, sys
from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
template = yaml_parse(open("template.yaml").read())
for resource in template["Resources"].values():
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


def of_type(resources: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [r["Properties"] for r in resources.values() if r["Type"] == kind]


def test_the_api_is_private_and_its_policy_names_the_endpoints_whole(resources):
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    assert api["Name"] == "training-job-queue"
    assert api["EndpointConfiguration"] == {"Types": ["PRIVATE"]}
    allow, deny = api["Body"]["x-amazon-apigateway-policy"]["Statement"]
    endpoints = {"Fn::Split": [",", "vpce-0a1b,vpce-2c3d"]}
    assert allow["Effect"] == "Allow"
    assert allow["Condition"] == {"StringEquals": {"aws:SourceVpce": endpoints}}
    assert deny["Effect"] == "Deny"
    assert deny["Principal"] == "*"
    assert deny["Condition"] == {"StringNotEquals": {"aws:SourceVpce": endpoints}}


def test_every_route_is_signed_and_reaches_the_function(resources):
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    routes = {
        (method, path): operation
        for path, methods in api["Body"]["paths"].items()
        for method, operation in methods.items()
    }
    assert sorted(routes) == [
        ("delete", "/jobs/{name}"),
        ("get", "/doctor"),
        ("get", "/jobs"),
        ("get", "/jobs/{name}"),
        ("get", "/jobs/{name}/request"),
        ("get", "/pools"),
        ("patch", "/jobs/{name}"),
        ("post", "/add-job"),
        ("post", "/doctor"),
    ]
    for operation in routes.values():
        assert operation["security"] == [{"AWS_IAM": []}]
        integration = operation["x-amazon-apigateway-integration"]
        assert integration["type"] == "aws_proxy"
        assert "credentials" not in integration  # else callers would need lambda:InvokeFunction
    assert len(of_type(resources, "AWS::Lambda::Permission")) == len(routes) + 2


def test_there_is_one_stage_and_it_is_prod(resources):
    stages = of_type(resources, "AWS::ApiGateway::Stage")
    assert [stage["StageName"] for stage in stages] == ["prod"]


def test_two_rules_wake_the_queue_manager(resources):
    pattern, schedule = sorted(
        of_type(resources, "AWS::Events::Rule"), key=lambda rule: "ScheduleExpression" in rule
    )
    assert pattern["EventPattern"] == {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Training Job State Change"],
    }
    assert schedule["ScheduleExpression"] == "rate(1 minute)"


def test_what_cannot_be_delivered_or_handled_is_kept_encrypted_for_two_weeks(resources):
    letters = {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    (queue,) = of_type(resources, "AWS::SQS::Queue")
    assert queue == {"MessageRetentionPeriod": 14 * 86_400, "SqsManagedSseEnabled": True}
    for rule in of_type(resources, "AWS::Events::Rule"):
        assert [target["DeadLetterConfig"] for target in rule["Targets"]] == [{"Arn": letters}]
    (invoked,) = of_type(resources, "AWS::Lambda::EventInvokeConfig")
    assert invoked["DestinationConfig"]["OnFailure"]["Destination"] == letters
    (function,) = of_type(resources, "AWS::Lambda::Function")
    variables = function["Environment"]["Variables"]
    assert variables["SLOTQ_DEAD_LETTERS"] == {"Ref": "DeadLetters"}


def test_the_rules_may_write_dead_letters_and_nobody_else_without_a_role(resources):
    (policy,) = of_type(resources, "AWS::SQS::QueuePolicy")
    allow, deny = policy["PolicyDocument"]["Statement"]
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert allow["Action"] == "sqs:SendMessage"
    assert deny["Effect"] == "Deny"
    rules = {name for name, it in resources.items() if it["Type"] == "AWS::Events::Rule"}
    named = allow["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert {one["Fn::GetAtt"][0] for one in named} == rules


def test_ended_jobs_expire_by_the_table_s_time_to_live(resources):
    (table,) = of_type(resources, "AWS::DynamoDB::Table")
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}


def test_no_statement_is_wider_than_it_must_be(resources):
    (role,) = of_type(resources, "AWS::IAM::Role")
    statements = {
        statement["Sid"]: statement
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "Sid" in statement
    }
    for sid, statement in statements.items():
        assert "*" not in str(statement["Action"])
        assert (statement["Resource"] == "*") == (sid == "FindTrainingJobs")
    to = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    assert statements["HandRolesToTrainingJobs"]["Condition"] == {"StringEquals": to}
