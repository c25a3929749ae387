"""The template agrees with the code that runs in it."""

import ast
import inspect
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slotq.cost.bill import METRICS_EACH_PROJECT, PRICES
from slotq.local.services.gateway import COMPRESSED_FROM
from slotq.transport.discovery import parameter_of, read_where
from slotq_core.adapters.deployment_settings import (
    MOST_PROJECT_METRICS,
    history_from_environment,
    parse_limits,
    parse_pools,
)
from slotq_core.adapters.dynamodb.layout.table import table_definition, time_to_live
from slotq_core.adapters.eventbridge import DETAIL_TYPE, SOURCE, detail
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.errors import Misconfigured
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import NotificationMode
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.wire.base import ErrorView
from slotq_core.wire.limits_definition import MOST, limit_settings
from slotq_core.wire.submission import SubmissionBody
from tests import cloudformation

ROOT = Path(__file__).parents[2]
KEY = "arn:aws:kms:us-east-1:123456789012:key/0a1b"
OWN_KEY = {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return cloudformation.template()


def test_the_table_is_as_the_store_defines_it(template):
    declared = template["Resources"]["Queue"]["Properties"]
    wanted = table_definition("anything")
    assert {**{key: declared[key] for key in wanted}, "TableName": "anything"} == wanted


def test_the_time_to_live_attribute_is_the_stores(template):
    declared = template["Resources"]["Queue"]["Properties"]["TimeToLiveSpecification"]
    assert declared == time_to_live("anything")["TimeToLiveSpecification"]


def test_answers_are_compressed_as_in_the_emulator(template):
    """Without binary media types: a body stays text for the function."""
    api = template["Resources"]["Api"]["Properties"]
    assert api["MinimumCompressionSize"] == COMPRESSED_FROM
    assert "BinaryMediaTypes" not in api


def test_the_historys_bounds_are_the_queues(template):
    days = template["Parameters"]["HistoryDays"]
    for value in (days["MinValue"], days["Default"], days["MaxValue"]):
        kept = history_from_environment({"SLOTQ_HISTORY_DAYS": str(value)})
        assert kept == value * 86_400_000
    assert days["Default"] * 86_400_000 == history_from_environment({})
    for value in (days["MinValue"] - 1, days["MaxValue"] + 1):
        with pytest.raises(Misconfigured):
            history_from_environment({"SLOTQ_HISTORY_DAYS": str(value)})


def test_metrics_of_projects_are_off_and_bounded_as_in_the_queue(template):
    projects = template["Parameters"]["ProjectMetrics"]
    assert (projects["Default"], projects["MaxValue"]) == (0, MOST_PROJECT_METRICS)
    month = METRICS_EACH_PROJECT * PRICES["metrics"].usd
    assert f"{month:.2f} USD" in projects["Description"]


def test_the_default_is_one_pool_of_two_slots(template):
    (pool,) = parse_pools(template["Parameters"]["Pools"]["Default"])
    assert pool.capacity.slots == 2


def test_the_function_times_out_before_its_intents_count_as_abandoned(template):
    timeout = template["Resources"]["QueueManager"]["Properties"]["Timeout"]
    assert timeout * 1000 <= HANDLER_LIFETIME


def test_the_layer_supports_the_functions_processor(template):
    """tests/built proves that its extensions exist for each."""
    processors = template["Parameters"]["Architecture"]
    assert processors["Default"] == "arm64"
    assert template["Globals"]["Function"]["Architectures"] == [{"Ref": "Architecture"}]
    layer = template["Resources"]["CoreLayer"]
    assert layer["Properties"]["CompatibleArchitectures"] == processors["AllowedValues"]
    assert layer["Metadata"] == {"BuildMethod": "makefile"}


def test_each_function_times_out_when_nobody_waits_for_it(template):
    """API Gateway gives up after 29 s; the door and the views serve nobody else."""
    for name in ("Door", "Views"):
        assert template["Resources"][name]["Properties"]["Timeout"] <= 29


FUNCTIONS = ("QueueManager", "Door", "Views")
HANDLERS = "".join(
    (ROOT / "functions" / name).read_text()
    for name in ("queue_manager/app.py", "notifier/notifier.py")
)


LOCAL = {"SLOTQ_INLINE_PASS", "SLOTQ_LOCAL_CALLER"}
"""Variables that only the emulator and `sam local` set. The second names the caller of unsigned
requests."""


def test_no_deployed_function_takes_a_local_identity(template):
    """Neither a variable of a function nor a parameter of the stack can name one."""
    text = json.dumps(template)
    assert not [name for name in LOCAL if name in text]


def test_no_deployed_function_calls_receivers_on_its_own_machine(template):
    """SLOTQ_NOTIFICATIONS=local, which only the emulator sets, lets webhooks be on this machine."""
    parameter = template["Parameters"]["Notifications"]
    assert set(parameter["AllowedValues"]) == set(NotificationMode) - {NotificationMode.LOCAL}
    functions = [template["Globals"]["Function"]]
    functions += [
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::Serverless::Function"
    ]
    variables = [each.get("Environment", {}).get("Variables", {}) for each in functions]
    given = [each["SLOTQ_NOTIFICATIONS"] for each in variables if "SLOTQ_NOTIFICATIONS" in each]
    assert given
    assert all(each == {"Ref": "Notifications"} for each in given)


def test_the_deployed_notifier_calls_no_receiver_on_its_own_machine():
    assert inspect.signature(Sender).parameters["loopback"].default is False
    notifier = ast.parse((ROOT / "functions/notifier/notifier.py").read_text())
    made = [node for node in ast.walk(notifier) if isinstance(node, ast.Call)]
    (sender,) = [node for node in made if getattr(node.func, "id", "") == "Sender"]
    assert [keyword.arg for keyword in sender.keywords] == ["queue"]


def test_the_functions_have_exactly_the_variables_that_the_code_reads(template):
    code = HANDLERS
    for module in ("deployment_settings", "sqs", "notifiers", "eventbridge"):
        path = ROOT / "layers/core/python/slotq_core/adapters" / f"{module}.py"
        code += path.read_text()
    functions = [template["Globals"]["Function"]]
    functions += [template["Resources"][name]["Properties"] for name in FUNCTIONS]
    given = {key for each in functions for key in each["Environment"]["Variables"]}
    read = set(re.findall(r'"(SLOTQ_[A-Z_]+)"', code))
    assert read - given == LOCAL, "only these are for the emulator and SAM local"
    assert {key for key in given if key.startswith("SLOTQ_")} <= read


def metrics_in(node: Any) -> set[str]:
    """The queue's own metrics in an alarm or the dashboard."""
    if isinstance(node, dict):
        mine = {node["MetricName"]} if node.get("Namespace") == "SlotQ" else set()
        return mine.union(*map(metrics_in, node.values()))
    return set().union(*map(metrics_in, node)) if isinstance(node, list) else set()


def dimensions_in(node: Any) -> list[Any]:
    if isinstance(node, list):
        return [each for part in node for each in dimensions_in(part)]
    if not isinstance(node, dict):
        return []
    own = [node["Dimensions"]] if "Dimensions" in node else []
    return [*own, *dimensions_in(list(node.values()))]


def emitted_metrics() -> set[str]:
    """The names under which the handlers count, those of the triggers among them."""
    found = set(re.findall(r'(?:count\(|name=)"(\w+)"', HANDLERS))
    return found | {"ApiRequest", "TrainingEvent", "Pass", "Tick", "PipelineSteps", "Unknown"}


def test_the_page_of_metrics_has_each_one():
    page = (ROOT / "docs" / "metrics.md").read_text()
    cells = re.findall(r"^\| (`[A-Z][^|]*)\|", page, re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    of_projects = {f"Project{what}" for what in ("Held", "Waiting", "OverQuota", "Share")}
    assert listed == emitted_metrics() | of_projects


def test_an_alarm_on_notifications_exists_where_they_do(template):
    alarm = template["Resources"]["NotNotifiedAlarm"]
    assert alarm["Condition"] == template["Resources"]["Notifier"]["Condition"]
    properties = alarm["Properties"]
    assert (properties["MetricName"], properties["Threshold"]) == ("NotNotified", 0)
    assert properties["TreatMissingData"] == "notBreaching", "without a loss nothing is written"


@pytest.mark.parametrize("notifications", ["true", "false"])
@pytest.mark.parametrize(
    ("name", "metric"), [("FunctionErrorsAlarm", "Errors"), ("ThrottlesAlarm", "Throttles")]
)
def test_alarms_on_functions_watch_every_function_that_there_is(
    template, name, metric, notifications
):
    """Their sum has a value whichever of them was not invoked."""
    declared = {
        function: it
        for function, it in template["Resources"].items()
        if it["Type"] == "AWS::Serverless::Function"
    }
    physical = {function: function for function in declared}
    resolver = cloudformation.Resolver(template, {**physical, "Notifications": notifications})
    functions = {
        function
        for function, it in declared.items()
        if "Condition" not in it or resolver({"Condition": it["Condition"]})
    }
    assert ("Notifier" in functions) == (notifications == "true")
    total, *parts = resolver(template["Resources"][name]["Properties"]["Metrics"])
    assert total["Expression"] == " + ".join(f"FILL({each['Id']}, 0)" for each in parts)
    measured = [each["MetricStat"]["Metric"] for each in parts]
    assert {each["MetricName"] for each in measured} == {metric}
    watched = [each["Dimensions"][0]["Value"] for each in measured]
    assert sorted(watched) == sorted(functions)
    assert all(each["ReturnData"] is False for each in parts)


def test_alarms_and_dashboard_show_existing_metrics(template):
    emitted = emitted_metrics()
    shown = metrics_in(template["Resources"])
    assert shown == {
        *("Failure", "Trouble", "RightsMissing", "OldestWaiting", "Drift", "Tick", "PoolsRefused"),
        *("NotNotified", "WarmUnused"),
    }
    assert shown <= emitted
    service = template["Globals"]["Function"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    for alarm in template["Resources"].values():
        if alarm["Type"] == "AWS::CloudWatch::Alarm" and "SlotQ" in str(alarm["Properties"]):
            assert [{"Name": "service", "Value": service}] in dimensions_in(alarm["Properties"])
    body = template["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Sub"]
    widgets = json.loads(re.sub(r"\$\{[^}]+\}", "x", body))["widgets"]
    lines = [line for widget in widgets for line in widget["properties"]["metrics"]]
    own = {line[1] for line in lines if line[0] == "SlotQ" or line[-1] == "."}
    of_aws = {"4XXError", "5XXError", "ConsumedWriteCapacityUnits"}
    of_aws |= {"ReadThrottleEvents", "WriteThrottleEvents"}
    assert own - of_aws <= emitted


def test_every_alarm_has_a_section_and_a_recipient(template):
    page = (ROOT / "docs" / "operations.md").read_text()
    alarms = {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }
    assert len(alarms) >= 11
    sections = dict(re.findall(r"^### (\w+)\n\n((?:(?!^#).*\n)+)", page, re.MULTILINE))
    assert set(sections) == set(alarms)
    for name, alarm in alarms.items():
        assert "**Do:**" in sections[name]
        assert alarm["AlarmDescription"]
        assert alarm["AlarmActions"] == alarm["OKActions"]
        assert alarm["AlarmActions"] == [
            {"If": ["HasAlarmTopic", {"Ref": "AlarmTopicArn"}, {"Ref": "AWS::NoValue"}]}
        ]


def test_names_on_the_operations_page_exist(template):
    """Words of the log, kinds of findings, outputs, rules and parameters."""
    page = (ROOT / "docs" / "operations.md").read_text()
    code = HANDLERS
    core = ROOT / "layers/core/python/slotq_core"
    code += (core / "operations" / "reconcile.py").read_text() + (core / "errors.py").read_text()
    events = {
        event for name in FUNCTIONS for event in template["Resources"][name]["Properties"]["Events"]
    }
    known = {*template["Parameters"], *template["Resources"], *template["Outputs"], *events}
    known |= {"SlotQ", "MemorySize"}
    for word in re.findall(r"`([A-Z]\w+)`", page):
        assert word in known or f'"{word}"' in code or f"class {word}" in code or word in PLATFORM
    for words in (
        "failed",
        "left to the next pass",
        "drift",
        "a setting was not taken in",
        "a notification was given up",
    ):
        assert f"`{words}`" in page
        assert f'"{words}"' in code
    for kind in (
        *("ended_unseen", "running_unseen", "interruption_unseen"),
        *("vanished", "orphan", "foreign"),
    ):
        assert f"`{kind}`" in page
        assert f'"{kind}"' in code


PLATFORM = {"ThrottlingException", "POISON", "ApiRequest"}
PLATFORM |= {"UnrecognizedClientException", "OptInRequired"}
"""Words of AWS and of the table, and a metric named by its trigger."""


def test_every_parameter_is_documented(template):
    page = (ROOT / "docs" / "deploy-parameters.md").read_text()
    for name, parameter in template["Parameters"].items():
        assert parameter["Description"]
        assert f"| `{name}` |" in page


PRIVATE = {"ApiAccess": "private"}
IN_A_VPC = {**PRIVATE, "VpcId": "vpc-0a", "SubnetIds": "subnet-0a", "EndpointCidr": "10.0.0.0/16"}


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [
        ({}, []),
        (PRIVATE, ["A private API needs VpcEndpointIds"]),
        ({**PRIVATE, "VpcEndpointIds": "vpce-0a"}, []),
        (IN_A_VPC, []),
        ({**IN_A_VPC, "EndpointCidr": "", "EndpointSecurityGroupIds": "sg-0a"}, []),
        ({**IN_A_VPC, "SubnetIds": ""}, ["needs SubnetIds"]),
        ({**IN_A_VPC, "EndpointCidr": ""}, ["needs EndpointCidr"]),
    ],
)
def test_missing_parameters_of_a_private_api_are_refused_first(template, parameters, refused):
    resolve = cloudformation.Resolver(template, parameters)
    said = [
        assertion["AssertDescription"]
        for rule in template["Rules"].values()
        if resolve(rule["RuleCondition"])
        for assertion in rule["Assertions"]
        if not resolve(assertion["Assert"])
    ]
    assert len(said) == len(refused)
    assert all(part in text for part, text in zip(refused, said, strict=True))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("VpcId", "vpc-0a1b", "0a1b"),
        ("SubnetIds", "subnet-0a,subnet-0b", "subnet-0a, subnet-0b"),
        ("EndpointCidr", "172.31.0.0/16", "172.31.0.0"),
        ("EndpointSecurityGroupIds", "sg-0a", "sg-0a,"),
        ("PermissionsBoundaryArn", "arn:aws:iam::123456789012:policy/a/b", "b"),
        ("RolePath", "/a/b/", "a/b"),
        ("RoleNamePrefix", "ml-", "a team "),
    ],
)
def test_ids_and_names_are_validated_first(template, name, right, wrong):
    parameter = template["Parameters"][name]
    for value in (right, parameter["Default"]):
        assert re.fullmatch(parameter["AllowedPattern"], value)
    assert not re.fullmatch(parameter["AllowedPattern"], wrong)


def test_the_defaults_work_in_any_new_account(template):
    """No endpoint, no reservation, no quota beyond a new account's; only the role is required."""
    parameters = template["Parameters"]
    assert parameters["ApiAccess"]["Default"] == "regional"
    assert parameters["Concurrency"]["Default"] == 0
    (pool,) = parse_pools(parameters["Pools"]["Default"])
    assert pool.instance_type == "ml.m5.large"
    asked = {name for name, each in parameters.items() if "Default" not in each}
    assert asked == {"ExecutionRoleArns"}


def test_no_role_can_be_named_by_a_wildcard(template):
    parameter = template["Parameters"]["ExecutionRoleArns"]
    assert re.fullmatch(
        parameter["AllowedPattern"], "arn:aws:iam::123456789012:role/service-role/a_b"
    )
    for wide in ("*", "arn:aws:iam::123456789012:role/*", "arn:aws:iam::123456789012:role/a?"):
        assert not re.fullmatch(parameter["AllowedPattern"], wide)


def test_the_table_is_retained_protected_and_restorable(template):
    table = template["Resources"]["Queue"]
    assert table["DeletionPolicy"] == "RetainExceptOnCreate"
    assert table["UpdateReplacePolicy"] == "Retain"
    properties = table["Properties"]
    assert properties["DeletionProtectionEnabled"] is True
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


@pytest.mark.parametrize(("key", "encryption"), [("", {"SSEEnabled": True}), (KEY, OWN_KEY)])
def test_the_table_is_encrypted_with_the_given_key(template, key, encryption):
    resolve = cloudformation.Resolver(template, {"TableKeyArn": key})
    assert resolve(template["Resources"]["Queue"]["Properties"]["SSESpecification"]) == encryption


@pytest.mark.parametrize("access", ["private", "regional"])
def test_only_allowed_principals_may_call_the_api(template, access):
    """tests/built checks the same on what CloudFormation gets."""
    parameters = {"ApiAccess": access, "VpcEndpointIds": "vpce-0a1b,vpce-2c3d"}
    resolve = cloudformation.Resolver(template, parameters)
    api = resolve(template["Resources"]["Api"]["Properties"])
    assert api["EndpointConfiguration"] == {"Type": access.upper()}
    assert api["Auth"]["DefaultAuthorizer"] == "AWS_IAM"
    allow, *denies = api["Auth"]["ResourcePolicy"]["CustomStatements"]
    assert allow["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
    if access == "regional":
        assert denies == []
    else:
        (deny,) = denies
        assert (deny["Effect"], deny["Principal"]) == ("Deny", "*")
        endpoints = {"aws:SourceVpce": ["vpce-0a1b", "vpce-2c3d"]}
        assert deny["Condition"] == {"StringNotEquals": endpoints}


def test_the_gateways_refusals_look_like_the_queues(template):
    for response in template["Resources"]["Api"]["Properties"]["GatewayResponses"].values():
        ErrorView.model_validate_json(
            response["ResponseTemplates"]["application/json"], strict=True
        )


def test_the_gateway_accepts_every_submission_that_the_queue_accepts(template):
    """The gateway's model is no stricter: it requires only what the queue requires."""
    model = template["Resources"]["Api"]["Properties"]["Models"]["Submission"]
    ours = SubmissionBody.model_json_schema()
    assert set(model["required"]) <= set(ours["required"])
    assert model["properties"]["Tags"]["maxItems"] == ours["properties"]["Tags"]["maxItems"]
    assert set(model["properties"]) <= set(ours["properties"])


def test_clients_find_the_queue_by_the_templates_parameter(template):
    properties = template["Resources"]["Discovery"]["Properties"]
    found = cloudformation.Resolver(template, {})(properties)
    assert found["Name"] == parameter_of("slotq")
    assert read_where(found["Value"]) == {
        "endpoint": "https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/prod",
        "api_id": "a1b2c3d4e5",
    }


def test_only_training_events_of_the_queues_account_and_region_reach_it(template):
    """Another's training job may have the same name, and its event no tags that tell it apart."""
    events = template["Resources"]["QueueManager"]["Properties"]["Events"]
    event = json.loads((ROOT / "events" / "training-completed.json").read_text())
    resolve = cloudformation.Resolver(template, {})
    pattern = resolve(events["TrainingJobChanged"]["Properties"]["Pattern"])
    kinds = [event["detail-type"], "SageMaker Processing Job State Change"]
    own = {key: [event[key]] for key in ("source", "account", "region")}
    assert pattern == {**own, "detail-type": kinds}


def test_the_topics_filter_has_exactly_the_job_states(template):
    pattern = template["Parameters"]["TopicStates"]["AllowedPattern"]
    for states in ("", ",".join(JobState), *JobState):
        assert re.fullmatch(pattern, states)
    for wrong in ("done", "completed failed", "completedfailed", ",failed", "Failed"):
        assert not re.fullmatch(pattern, wrong)


def test_the_topics_rule_matches_the_queues_announcements(template):
    resolve = cloudformation.Resolver(
        template, {"TopicStates": "completed,failed", "TableName": "q"}
    )
    pattern = resolve(template["Resources"]["JobsToTopic"]["Properties"]["EventPattern"])
    assert pattern["source"] == [SOURCE]
    assert pattern["detail-type"] == [DETAIL_TYPE]
    job = Job(
        name="j",
        state=JobState.FAILED,
        priority=0,
        entry_time=0,
        demand=Demand(slots=1),
        pools=("p",),
    )
    told = detail("q", None, job)
    assert all(told[key] in wanted for key, wanted in pattern["detail"].items())


def test_the_layers_versions_are_the_tests():
    pins = set(_pins("constraints/main.txt"))
    layer = _pins("layers/core/python/requirements.txt")
    assert layer
    assert [pin for pin in layer if pin not in pins] == []


def test_samconfig_sets_only_existing_parameters(template):
    for deployment in deployments().values():
        for override in deployment.get("parameter_overrides", []):
            name, _, value = override.partition("=")
            assert name in template["Parameters"]
            allowed = template["Parameters"][name].get("AllowedValues")
            assert allowed is None or value in map(str, allowed)


def deployments() -> dict[str, Any]:
    """The parameters of `sam deploy` in samconfig.toml, by environment."""
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    return {
        name: section["deploy"]["parameters"]
        for name, section in config.items()
        if name != "version"
    }


def test_sam_deploy_may_name_roles_and_can_be_repeated(template):
    """Named roles and policies need a separate capability. A failed first deployment leaves a stack
    that cannot be updated, so it is removed."""
    assert set(deployments()) == {"default", "dev", "prod"}
    for deployment in deployments().values():
        assert deployment["capabilities"] == "CAPABILITY_NAMED_IAM"
        assert deployment["on_failure"] == "DELETE"
        assert deployment["resolve_s3"] is True


def _pins(path: str) -> list[str]:
    return re.findall(r"^[a-z0-9-]+==[^ ;\n]+", (ROOT / path).read_text(), re.MULTILINE)


def test_an_update_from_an_earlier_version_keeps_the_queue(template):
    """CloudFormation identifies a resource by its logical id and replaces a table whose keys
    change."""
    resources = template["Resources"]
    kept = {
        "Api": "AWS::Serverless::Api",
        "DeadLetters": "AWS::SQS::Queue",
        "Queue": "AWS::DynamoDB::Table",
        "QueueManager": "AWS::Serverless::Function",
        "QueueManagerRole": "AWS::IAM::Role",  # as SAM named the role that it made
    }
    assert {name: resources[name]["Type"] for name in kept} == kept
    table = resources["Queue"]["Properties"]
    assert table["TableName"] == {"Ref": "TableName"}
    assert [key["AttributeName"] for key in table["KeySchema"]] == ["pk", "sk"]
    first = {"Pools", "VpcEndpointIds", "ExecutionRoleArns", "TableName", "HistoryDays"}
    first |= {"Architecture", "LogLevel", "LogRetentionDays"}
    assert first <= set(template["Parameters"])
    added = set(template["Parameters"]) - first
    assert all("Default" in template["Parameters"][name] for name in added), "asks for nothing new"


def test_every_number_has_bounds(template):
    numbers = {k: it for k, it in template["Parameters"].items() if it["Type"] == "Number"}
    assert numbers
    for name, it in numbers.items():
        assert "AllowedValues" in it or it["MinValue"] >= 0, name
        assert "AllowedValues" in it or it["MaxValue"] > it["MinValue"], name


def test_the_doctor_is_throttled_more_than_the_rest(template):
    """It reads the whole table."""
    settings = template["Resources"]["Api"]["Properties"]["MethodSettings"]
    by_path = {each["ResourcePath"]: each for each in settings}
    assert by_path["/~1doctor"]["ThrottlingRateLimit"] == 1


def test_a_new_queue_has_limits(template):
    limits = parse_limits(template["Parameters"]["Limits"]["Default"])
    settings = limit_settings(limits)
    assert all(settings[key] for key in MOST)
    pattern = re.compile(template["Parameters"]["Limits"]["AllowedPattern"])
    for text in ("", "waiting=5", "waiting=5,lines=0", '{"callers": []}'):
        assert pattern.fullmatch(text)
    for text in ("waiting", "speed=3", "waiting=many"):
        assert not pattern.fullmatch(text)
