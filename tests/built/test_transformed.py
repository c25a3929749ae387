"""The template as CloudFormation gets it. `sam validate` finds none of these mistakes."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import JOB
from slotq_core.adapters.dynamodb.outbox.notices import VIEW
from slotq_core.operations.notices import LEASE
from slotq_core.ports.surroundings import LONGEST_DELAY
from tests import cloudformation

ROOT = Path(__file__).parents[2]
TRANSFORM = """
import json, sys
from samcli.yamlhelper import yaml_parse
from samtranslator.model import apigateway
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
told, now, file = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
apigateway.time.time = lambda: now
template = yaml_parse(open(file).read())
for resource in [*template["Resources"].values(), {"Properties": template["Globals"]["Function"]}]:
    for key in ("CodeUri", "ContentUri"):
        if isinstance(resource.get("Properties", {}).get(key), str):
            resource["Properties"][key] = "s3://bucket/key"
parameters = {k: v.get("Default", "") for k, v in template["Parameters"].items()}
print(json.dumps(Translator({}, Parser()).translate(template, {**parameters, **told})))
"""
PRIVATE = {"ApiAccess": "private", "VpcEndpointIds": "vpce-0a1b,vpce-2c3d"}
OWN_ENDPOINT = {
    "ApiAccess": "private",
    "VpcId": "vpc-0a",
    "SubnetIds": "subnet-0a,subnet-0b",
    "EndpointCidr": "172.31.0.0/16",
}

pytestmark = pytest.mark.built


@cache
def transformed(
    *, at: int = 0, template: str = "template.yaml", **parameters: str
) -> dict[str, Any]:
    """What CloudFormation gets in an update at that moment (s), with these parameters."""
    out = subprocess.run(
        [".venv/sam/bin/python", "-c", TRANSFORM, json.dumps(parameters), str(at), template],
        cwd=ROOT,
        env={**os.environ, "AWS_DEFAULT_REGION": "us-east-1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(out.stdout)


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return transformed()["Resources"]


def resolved(node: Any, **parameters: str) -> Any:
    return cloudformation.Resolver(cloudformation.template(), parameters)(node)


def made(resources: dict[str, Any], name: str, **parameters: str) -> Any:
    """A resource's properties as deployed with these parameters; None if it is not deployed."""
    resource = resources[name]
    if "Condition" in resource and not resolved({"Condition": resource["Condition"]}, **parameters):
        return None
    return resolved(resource["Properties"], **parameters)


def of_type(resources: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [r["Properties"] for r in resources.values() if r["Type"] == kind]


def test_by_default_only_the_accounts_principals_may_call_the_api(resources):
    """Every call is signed, and its network of origin grants nothing."""
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    assert api["Name"] == "training-job-queue"
    assert resolved(api["EndpointConfiguration"]) == {"Types": ["REGIONAL"]}
    (allow,) = resolved(api["Body"]["x-amazon-apigateway-policy"])["Statement"]
    assert allow["Effect"] == "Allow"
    assert allow["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
    assert "Condition" not in allow


@pytest.mark.parametrize(
    ("parameters", "endpoints"),
    [
        (PRIVATE, ["vpce-0a1b", "vpce-2c3d"]),
        (OWN_ENDPOINT, ["vpce-0e0e"]),
        ({**OWN_ENDPOINT, "VpcEndpointIds": "vpce-2c3d"}, ["vpce-2c3d", "vpce-0e0e"]),
    ],
)
def test_a_private_api_names_its_endpoints_in_full(parameters, endpoints):
    (api,) = of_type(transformed(**parameters)["Resources"], "AWS::ApiGateway::RestApi")
    assert resolved(api["EndpointConfiguration"], **parameters) == {"Types": ["PRIVATE"]}
    policy = resolved(api["Body"]["x-amazon-apigateway-policy"], **parameters)
    allow, deny = policy["Statement"]
    assert allow["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
    assert deny["Effect"] == "Deny"
    assert deny["Principal"] == "*"
    assert deny["Condition"] == {"StringNotEquals": {"aws:SourceVpce": endpoints}}


def test_the_stack_makes_an_endpoint_on_request(resources):
    for parameters in ({}, PRIVATE, {**OWN_ENDPOINT, "ApiAccess": "regional"}):
        assert made(resources, "Endpoint", **parameters) is None
        assert made(resources, "EndpointSecurityGroup", **parameters) is None
    endpoint = made(resources, "Endpoint", **OWN_ENDPOINT)
    assert endpoint["ServiceName"] == "com.amazonaws.us-east-1.execute-api"
    assert (endpoint["VpcId"], endpoint["SubnetIds"]) == ("vpc-0a", ["subnet-0a", "subnet-0b"])
    assert endpoint["SecurityGroupIds"] == ["sg-0e0e"]
    assert endpoint["PrivateDnsEnabled"] == "true"
    (group,) = [made(resources, "EndpointSecurityGroup", **OWN_ENDPOINT)]
    (rule,) = group["SecurityGroupIngress"]
    assert (rule["FromPort"], rule["ToPort"], rule["CidrIp"]) == (443, 443, "172.31.0.0/16")


def test_an_endpoint_can_have_given_security_groups(resources):
    parameters = {**OWN_ENDPOINT, "EndpointSecurityGroupIds": "sg-01,sg-02"}
    assert made(resources, "EndpointSecurityGroup", **parameters) is None
    assert made(resources, "Endpoint", **parameters)["SecurityGroupIds"] == ["sg-01", "sg-02"]


@pytest.mark.parametrize(("concurrency", "throttle"), [("20", ("50", "100")), ("0", (4, 4))])
def test_every_method_is_throttled_and_submissions_are_validated_by_the_gateway(
    resources, concurrency, throttle
):
    """Without reserved concurrency the queue leaves some of a new account's 10 to its events."""
    (stage,) = of_type(resources, "AWS::ApiGateway::Stage")
    setting = resolved(stage["MethodSettings"], Concurrency=concurrency)[0]
    assert (setting["ResourcePath"], setting["HttpMethod"]) == ("/*", "*")
    assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == throttle
    assert setting["MetricsEnabled"] is False, "metrics by method are billed"
    (api,) = of_type(resources, "AWS::ApiGateway::RestApi")
    submit = api["Body"]["paths"]["/add-job"]["post"]
    validator = submit["x-amazon-apigateway-request-validator"]
    validators = api["Body"]["x-amazon-apigateway-request-validators"]
    assert validators[validator]["validateRequestBody"] is True


OTHER = {
    "ApiAccess": "private",
    "VpcEndpointIds": "vpce-0f0f",
    "VpcId": "vpc-0f",
    "Concurrency": "1",
    "RequestsPerSecond": "7",
    "RequestBurst": "7",
    "AccessLogs": "true",
}


def reaching(template: dict[str, Any], resource: dict[str, Any]) -> set[str]:
    """The parameters that a resource's text depends on, through conditions too."""
    found, at = set(), [resource]
    while at:
        named = cloudformation.depends_on(at.pop()) - found
        found |= named
        at += [template["Conditions"][name] for name in named & set(template["Conditions"])]
    return found & set(template["Parameters"])


def deployment(template: dict[str, Any]) -> str:
    """The deployment that the stage serves."""
    (stage,) = of_type(template["Resources"], "AWS::ApiGateway::Stage")
    name: str = stage["DeploymentId"]["Ref"]
    assert template["Resources"][name]["Type"] == "AWS::ApiGateway::Deployment"
    return name


def test_every_change_of_the_api_is_deployed():
    """A stage serves the last deployment; otherwise callers would stay denied or admitted."""
    (api,) = [
        resource
        for resource in transformed()["Resources"].values()
        if resource["Type"] == "AWS::ApiGateway::RestApi"
    ]
    reach = reaching(transformed(), api)
    assert reach >= {"ApiAccess", "VpcEndpointIds", "VpcId"}
    for name in sorted(reach):
        changed = transformed(at=1, **{name: OTHER[name]})
        assert deployment(changed) != deployment(transformed()), name


def test_access_logs_exist_on_request(resources):
    (stage,) = of_type(resources, "AWS::ApiGateway::Stage")
    assert "AccessLogSetting" not in resolved({**stage, "RestApiId": "", "DeploymentId": ""})
    assert made(resources, "AccessLog") is None
    assert made(resources, "AccessLog", AccessLogs="true")["RetentionInDays"] == "30"
    logged = stage["AccessLogSetting"]["Fn::If"][1]
    assert logged["DestinationArn"] == {"Fn::GetAtt": ["AccessLog", "Arn"]}
    told = json.loads(logged["Format"])
    assert {"caller", "address", "method", "path", "status"} <= set(told)
    assert "\n" not in logged["Format"]


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
        ("delete", "/projects/{name}"),
        ("get", "/attempts"),
        ("get", "/changes"),
        ("get", "/configuration"),
        ("get", "/doctor"),
        ("get", "/groups"),
        ("get", "/groups/{name}"),
        ("get", "/jobs"),
        ("get", "/jobs/{name}"),
        ("get", "/jobs/{name}/request"),
        ("get", "/limits"),
        ("get", "/me"),
        ("get", "/nodes"),
        ("get", "/pools"),
        ("get", "/projects"),
        ("get", "/quota"),
        ("get", "/scenario"),
        ("get", "/usage"),
        ("get", "/version"),
        ("patch", "/jobs"),
        ("patch", "/jobs/{name}"),
        ("patch", "/limits"),
        ("patch", "/pools/{name}"),
        ("patch", "/projects/{name}"),
        ("post", "/add-job"),
        ("post", "/doctor"),
        ("post", "/groups"),
        ("post", "/jobs"),
        ("post", "/nodes/{pool}/{name}/report"),
        ("put", "/configuration"),
    ]
    for operation in routes.values():
        assert operation["security"] == [{"AWS_IAM": []}]
        integration = operation["x-amazon-apigateway-integration"]
        assert integration["type"] == "aws_proxy"
        # With credentials, callers would need lambda:InvokeFunction.
        assert "credentials" not in integration
    served = {
        route: str(it["x-amazon-apigateway-integration"]["uri"]) for route, it in routes.items()
    }
    views = {route for route, uri in served.items() if "${Views.Arn}" in uri}
    jobs = ("/jobs", "/jobs/{name}", "/jobs/{name}/request")
    settings = ("/changes", "/configuration", "/limits", "/nodes", "/pools", "/projects", "/quota")
    use = ("/attempts", "/usage")
    others = (*settings, *use, "/groups", "/groups/{name}", "/me", "/scenario", "/version")
    assert views == {("get", path) for path in (*jobs, *others)}
    assert all("${Door.Arn}" in served[route] for route in set(served) - views)
    assert len(of_type(resources, "AWS::Lambda::Permission")) == len(routes) + 3


def test_there_is_one_stage_and_it_is_prod(resources):
    stages = of_type(resources, "AWS::ApiGateway::Stage")
    assert [stage["StageName"] for stage in stages] == ["prod"]


def test_two_rules_wake_the_queue_manager(resources):
    rules = [rule for rule in of_type(resources, "AWS::Events::Rule") if to_the_function(rule)]
    pattern, schedule = sorted(rules, key=lambda rule: "ScheduleExpression" in rule)
    assert pattern["EventPattern"] == {
        "source": ["aws.sagemaker"],
        "detail-type": [
            "SageMaker Training Job State Change",
            "SageMaker Processing Job State Change",
        ],
        "account": [{"Ref": "AWS::AccountId"}],
        "region": [{"Ref": "AWS::Region"}],
    }
    assert schedule["ScheduleExpression"] == "rate(1 minute)"


def to_the_function(rule: dict[str, Any]) -> bool:
    return [target["Arn"] for target in rule["Targets"]] == [
        {"Fn::GetAtt": ["QueueManager", "Arn"]}
    ]


def test_dead_letters_are_kept_encrypted_for_two_weeks(resources):
    letters = {"Fn::GetAtt": ["DeadLetters", "Arn"]}
    queue = resources["DeadLetters"]["Properties"]
    assert queue == {"MessageRetentionPeriod": 14 * 86_400, "SqsManagedSseEnabled": True}
    for rule in of_type(resources, "AWS::Events::Rule"):
        assert [target["DeadLetterConfig"] for target in rule["Targets"]] == [{"Arn": letters}]
        assert all(target["RetryPolicy"]["MaximumRetryAttempts"] for target in rule["Targets"])
    (invoked,) = of_type(resources, "AWS::Lambda::EventInvokeConfig")
    assert invoked["DestinationConfig"]["OnFailure"]["Destination"] == letters
    variables = resources["QueueManager"]["Properties"]["Environment"]["Variables"]
    assert variables["SLOTQ_DEAD_LETTERS"] == {"Ref": "DeadLetters"}


def test_only_the_rules_may_write_dead_letters_without_a_role(resources):
    policy = resources["DeadLettersFromRules"]["Properties"]
    allow, deny = policy["PolicyDocument"]["Statement"]
    assert allow["Principal"] == {"Service": "events.amazonaws.com"}
    assert allow["Action"] == "sqs:SendMessage"
    assert deny["Effect"] == "Deny"
    rules = {name for name, it in resources.items() if it["Type"] == "AWS::Events::Rule"}
    named = json.dumps(allow["Condition"]["ArnEquals"]["aws:SourceArn"])
    assert {rule for rule in rules if f'["{rule}", "Arn"]' in named} == rules


def test_delayed_messages_wake_the_queue_manager(resources):
    wakes, letters = ({"Fn::GetAtt": [name, "Arn"]} for name in ("Wakes", "DeadLetters"))
    queue, function = (resources[name]["Properties"] for name in ("Wakes", "QueueManager"))
    assert queue["SqsManagedSseEnabled"] is True
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"], "as Lambda wants"
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": letters, "maxReceiveCount": 3}
    assert queue["MessageRetentionPeriod"] * 1000 > LONGEST_DELAY
    source = resources["QueueManagerGraceOver"]["Properties"]
    assert source["EventSourceArn"] == wakes
    assert source["FunctionName"] == {"Ref": "QueueManager"}
    assert function["Environment"]["Variables"]["SLOTQ_WAKES"] == {"Ref": "Wakes"}
    (deny,) = resources["WakesOverTls"]["Properties"]["PolicyDocument"]["Statement"]
    assert (deny["Effect"], deny["Resource"]) == ("Deny", wakes)


def test_notifications_exist_on_request_and_hear_of_jobs_alone(resources):
    parts = ("Notifier", "NotifierRole", "NotifierLog", "JobsToNotifier", "NotNotifiedAlarm")
    assert all(resources[name]["Condition"] == "Notifies" for name in parts)
    assert "StreamSpecification" not in resolved(resources["Queue"]["Properties"])
    on = resolved(resources["Queue"]["Properties"], Notifications="true")
    assert on["StreamSpecification"] == {"StreamViewType": VIEW}
    mapping = resources["JobsToNotifier"]["Properties"]
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": ["Queue", "StreamArn"]}
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    (pattern,) = (json.loads(it["Pattern"]) for it in mapping["FilterCriteria"]["Filters"])
    assert pattern == {
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"Keys": {"sk": {"S": [JOB]}}},
    }
    function = resources["Notifier"]["Properties"]
    assert function["Handler"] == "notifier.handler"
    assert function["Timeout"] * 1000 < LEASE


def test_ended_jobs_expire_by_the_table_s_time_to_live(resources):
    (table,) = of_type(resources, "AWS::DynamoDB::Table")
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}


def test_the_functions_have_exactly_the_templates_rights(resources):
    """What tests/iam proves of the template's statements holds for what is deployed."""
    roles = {name for name, it in resources.items() if it["Type"] == "AWS::IAM::Role"}
    assert roles == {f"{function}Role" for function in FUNCTIONS}
    attached = {"AWS::IAM::Policy", "AWS::IAM::RolePolicy"}
    assert not attached & {it["Type"] for it in resources.values()}
    given = {"ExecutionRoleArns": "arn:aws:iam::123456789012:role/a", "TableName": "q"}
    for role in roles:
        assert resources[role]["Properties"]["ManagedPolicyArns"] == [{"Ref": "ReadTheTable"}]
        deployed = cloudformation.statements(role, given, {"Resources": resources})
        assert deployed == cloudformation.statements(role, given)
    for function in FUNCTIONS:
        role = resources[function]["Properties"]["Role"]
        assert role == {"Fn::GetAtt": [f"{function}Role", "Arn"]}


FUNCTIONS = ("QueueManager", "Door", "Views", "Notifier", "PipelineSteps")
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"


def test_every_role_has_the_given_boundary_path_and_name(resources):
    """Without those parameters nothing is set, so roles of earlier versions are not replaced."""
    told = {
        "PermissionsBoundaryArn": BOUNDARY,
        "RolePath": "/ml/queues/",
        "RoleNamePrefix": "ml-",
    }
    keys = ("PermissionsBoundary", "Path", "RoleName")
    for name in (f"{function}Role" for function in FUNCTIONS):
        properties = {key: resources[name]["Properties"][key] for key in keys}
        assert resolved(properties) == {}
        named = resolved(properties, **told)
        assert named.pop("RoleName").startswith("ml-slotq-us-east-1-")
        assert named == {"PermissionsBoundary": BOUNDARY, "Path": "/ml/queues/"}
    policy = made(resources, "ReadTheTable", **told)
    assert policy["Path"] == "/ml/queues/"
    assert policy["ManagedPolicyName"].startswith("ml-slotq-us-east-1-")


@pytest.mark.parametrize(("concurrency", "kept"), [("20", "20"), ("0", None)])
def test_each_function_has_reserved_concurrency_on_request(resources, concurrency, kept):
    """So API traffic cannot use what events and ticks need."""
    functions = of_type(resources, "AWS::Lambda::Function")
    assert len(functions) == len(FUNCTIONS)
    for function in functions:
        properties = {"Reserved": function["ReservedConcurrentExecutions"]}
        assert resolved(properties, Concurrency=concurrency).get("Reserved") == kept
        assert function["TracingConfig"] == {"Mode": "Active"}


def test_a_new_account_reserves_no_concurrency(resources):
    """A new account has 10 in all, and Lambda refuses to reserve any of them."""
    for function in of_type(resources, "AWS::Lambda::Function"):
        assert resolved({"Reserved": function["ReservedConcurrentExecutions"]}) == {}


def test_no_api_request_reaches_the_queue_manager(resources):
    allowed = of_type(resources, "AWS::Lambda::Permission")
    sources: dict[str, set[str]] = {}
    for permission in allowed:
        sources.setdefault(permission["FunctionName"]["Ref"], set()).add(permission["Principal"])
    api = {"apigateway.amazonaws.com"}
    rules = {"events.amazonaws.com"}
    assert sources == {"QueueManager": rules, "Door": api, "Views": api, "Notifier": rules}


def test_the_queue_manager_may_invoke_itself_without_end(resources):
    """Lambda otherwise drops the 17th of a chain of invocations."""
    assert resources["QueueManager"]["Properties"]["RecursiveLoop"] == "Allow"


def before(resources: dict[str, Any], name: str) -> set[str]:
    """What exists before this resource is made."""
    found: set[str] = set()
    at = [name]
    while at:
        named = cloudformation.depends_on(resources[at.pop()]) & set(resources) - found
        found |= named
        at += named
    return found


def test_a_first_deployment_can_fail_only_before_the_table_exists(resources):
    """The table outlives a failed deployment and blocks the next one. Resources made only on
    request are left out: CloudFormation cannot wait for what may not exist."""
    always = {name for name, resource in resources.items() if "Condition" not in resource}
    missing = always - before(resources, "Queue") - {"Queue"}
    assert missing == set(), "the table must wait for these: add them to its DependsOn"
    assert resources["Queue"]["DeletionPolicy"] == "RetainExceptOnCreate"
    assert resources["Queue"]["UpdateReplacePolicy"] == "Retain"
    assert resources["Queue"]["Properties"]["DeletionProtectionEnabled"] is True


def test_another_table_name_is_refused_before_anything_has_changed(resources):
    """IAM replaces a policy whose description changes; CloudFormation replaces nothing whose name
    stays."""
    first, other, moved = (
        made(resources, "ReadTheTable", TableName=table, TableMoves=moves)
        for table, moves in (("queue", "0"), ("queue-2", "0"), ("queue-2", "1"))
    )
    assert first["Description"] != other["Description"]
    assert first["ManagedPolicyName"] == other["ManagedPolicyName"]
    assert moved["ManagedPolicyName"] != first["ManagedPolicyName"]
    told = {
        name
        for name, resource in resources.items()
        if "TableName" in cloudformation.depends_on(resource)
    }
    for name in told - {"ReadTheTable", "Dashboard", "JobsToTopic"}:
        assert "ReadTheTable" in before(resources, name), name


def test_a_changed_description_replaces_a_policy():
    """As AWS describes its types. So does another path with a role: none is set by default."""
    code = (
        "import json; from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER as known\n"
        "types = ('AWS::IAM::ManagedPolicy', 'AWS::IAM::Role')\n"
        "its = [known.get_resource_schema('us-east-1', t).schema for t in types]\n"
        "print(json.dumps([each['createOnlyProperties'] for each in its]))"
    )
    command = [".venv/sam/bin/python", "-c", code]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    policy, role = json.loads(out.stdout)
    assert {"/properties/Description", "/properties/ManagedPolicyName"} <= set(policy)
    assert set(role) == {"/properties/Path", "/properties/RoleName"}
