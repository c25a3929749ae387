"""The roles in template.yaml may do what the queue does, and nothing else.

Every call that a queue's life, its views and the fault campaign make is judged by the statements of
the role that makes it. SAM adds no right to them (tests/built holds that).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from slotq_core.adapters.deployment_settings import plans_from_environment, roles_from_environment
from slotq_core.adapters.nodes.documents import S3NodeDocuments
from slotq_core.api.routes import METHODS
from slotq_core.model.pools import NodeRules
from tests.cloudformation import ACCOUNT, Resolver, statements, template
from tests.contract.keeping_nodes import a_node
from tests.faults.stories import SCENARIOS, WRONG_ROLE
from tests.faults.world import TABLE as CAMPAIGN_TABLE
from tests.functional.account import TABLE, sample
from tests.functional.notified import TOPIC
from tests.iam.conftest import Recorders
from tests.iam.evaluator import Call, Verdict, applies, call, judge, many
from tests.iam.recorder import (
    FUNCTION,
    KEY,
    NOTIFIER,
    OWN,
    PIPELINE,
    PLAN,
    STEPS,
    THROUGH_DYNAMODB,
    VOLUMES,
    Client,
    Recorder,
    platform,
)

NO_PLANE: Any = None
NODES_BUCKET = "slotq-nodes"
ROLE = json.loads(sample("add-job")["body"])["RoleArn"]
CAMPAIGN_ROLE = "arn:aws:iam::123456789012:role/training"
PARAMETERS = {
    "ExecutionRoleArns": f"{ROLE},{CAMPAIGN_ROLE},{WRONG_ROLE}",
    "TableName": TABLE,
    "TableKeyArn": KEY,
    "TrainingPlanArns": PLAN,
    "Notifications": "true",
    "NotificationTopicArns": TOPIC,
    "Nodes": "true",
    "TaskCallbacks": "true",
    "CallbackPipelineArns": PIPELINE,
}
MANAGER, DOOR, VIEWS = "QueueManagerRole", "DoorRole", "ViewsRole"
TELLER, STEPPER = "NotifierRole", "PipelineStepsRole"
ROLES = (MANAGER, DOOR, VIEWS, TELLER, STEPPER)
WIDE = {
    "AnswerTasksOfStateMachines": "Step Functions' actions know no narrower resource",
    "AnswerStepsOfPipelines": "SageMaker names the executions of the pipelines",
    "FindTrainingJobs": "ListTrainingJobs knows no narrower resource",
    "WriteTraces": "X-Ray's actions know no narrower resource",
    "StartTrainingJobs": "users name their jobs; the tag tells the queue's",
    "TagThemAtTheirStart": "users name their jobs",
    "StopItsOwn": "users name their jobs; the tag tells the queue's",
    "StartProcessingJobs": "users name their jobs; the tag tells the queue's",
    "StopItsOwnProcessingJobs": "users name their jobs; the tag tells the queue's",
    "LookAtProcessingJobs": "whether a name is taken, and by whom, is asked of any processing job",
    "LookAtTrainingJobs": "whether a name is taken, and by whom, is asked of any training job",
    "AskScripts": "users name the places of their checkpoints",
    "ReadReportsOfScripts": "users choose their buckets; the file's name tells a report",
    "HearOfChanges": "DynamoDB names the streams of the table",
    "FindTheStream": "ListStreams knows no narrower resource",
    "ReadParametersForNotifications": "operators name their parameters, below one path",
    "ReadSecretsForNotifications": "operators name their secrets, below one path",
    "OrderNodes": "each generation of each node has a folder",
    "ReadReportsOfNodes": "each generation of each node has a folder",
    "ShipTheAgent": "the file's name is the hash of a release's agent",
    "WriteItsLog": "Lambda names the streams of the group",
    "TakeMessages": "operators name the queues of messages, below one name",
    "ReadWhoSubmits": "each queue of messages has a parameter, below one path",
    "LookAtExecutionsAndFailSteps": "SageMaker names the executions of the pipelines",
}
"""The statements whose resource has a wildcard, and why it needs one."""


_RECORDED: dict[str, set[Call]] = {}


@pytest.fixture
def calls(request: pytest.FixtureRequest, campaign: Recorders) -> dict[str, set[Call]]:
    """The calls by the role that makes them; those of the campaign as if its table were the
    queue's. Recorded once, because recording takes seconds."""
    if not _RECORDED:
        life, views = (request.getfixturevalue(name) for name in ("life", "views"))
        for function, called in (("QueueManager", FUNCTION), ("Door", "slotq-door")):
            theirs = life[function].calls | as_the_queue_s(campaign[function].calls)
            nodes = of_nodes(launches=function == "QueueManager")
            _RECORDED[f"{function}Role"] = theirs | platform(called) | nodes
        notifier_calls = request.getfixturevalue("notifier_calls").calls
        _RECORDED[TELLER] = notifier_calls | platform(NOTIFIER)
        _RECORDED[VIEWS] = views["Views"].calls | platform("slotq-views")
        step_calls = request.getfixturevalue("step_calls").calls
        _RECORDED[STEPPER] = step_calls | platform(STEPS)
    return _RECORDED


def of_nodes(*, launches: bool) -> set[Call]:
    """The calls for two nodes, and, where they are launched, for two releases of the agent."""
    made = Recorder()
    with mock_aws():
        s3 = boto3.client("s3", "us-east-1")
        s3.create_bucket(Bucket=NODES_BUCKET)
        client = Client(s3, lambda name, body: made.note("s3", name, body, NO_PLANE))
        documents = S3NodeDocuments(
            bucket=NODES_BUCKET, route="", lease=60, make_client=lambda: client
        )
        for generation in (1, 2):
            node = a_node(generation=generation)
            documents.report(node)
            documents.put_orders(node, b"{}", replaces=None)
            documents.orders(node)
            if launches:
                documents.launch(node, NodeRules())
    bucket = f"arn:aws:s3:::{NODES_BUCKET}"
    before = {call("s3:PutObject", f"{bucket}/nodes/agents/{'0' * 64}.py")} if launches else set()
    return made.calls | before | {call("s3:ListBucket", bucket)}


def as_the_queue_s(calls: set[Call]) -> set[Call]:
    """The campaign's table has another name, in its ARN and in the queue's tag."""
    return {
        Call(
            action=each.action,
            resource=each.resource.replace(f":table/{CAMPAIGN_TABLE}", f":table/{TABLE}"),
            context=tuple(
                (
                    key,
                    (TABLE,) if key.endswith("/slotq:queue") and own == (CAMPAIGN_TABLE,) else own,
                )
                for key, own in each.context
            ),
        )
        for each in calls
    }


def roles() -> dict[str, list[dict]]:
    return {role: statements(role, PARAMETERS) for role in ROLES}


def test_every_call_is_allowed(calls):
    """Except passing a role of the campaign's world that the queue may not pass."""
    for role, granted in roles().items():
        refused = {asked for asked in calls[role] if judge(granted, asked) is not Verdict.ALLOWED}
        wrong = {asked for asked in refused if asked.resource == WRONG_ROLE}
        assert {asked.action for asked in wrong} <= {"iam:PassRole"}
        assert [str(asked) for asked in refused - wrong] == [], role


def test_enough_calls_were_recorded(calls, campaign):
    assert len(SCENARIOS) > 10
    assert len(campaign["QueueManager"].calls) > 100
    actions = {asked.action for asked in calls[MANAGER]}
    assert {"iam:PassRole", "sagemaker:AddTags", "sagemaker:ListTags", "kms:Decrypt"} <= actions
    assert {"events:PutEvents", "sqs:SendMessage", "lambda:InvokeFunction"} <= actions
    assert {asked.action.split(":")[0] for asked in calls[VIEWS]} == {
        "dynamodb",
        "kms",
        "logs",
        "s3",
        "xray",
    }


def test_every_statement_is_needed(calls):
    for role, granted in roles().items():
        for left_out in granted:
            rest = [statement for statement in granted if statement is not left_out]
            denied = [asked for asked in calls[role] if judge(rest, asked) is Verdict.DENIED]
            assert denied, f"{role} does not need {left_out['Sid']}"


def test_no_statement_allows_an_unused_action_or_resource(calls):
    for role, granted in roles().items():
        for statement in granted:
            for action in many(statement["Action"]):
                assert "*" not in action
                for resource in many(statement["Resource"]):
                    one = {**statement, "Action": action, "Resource": resource}
                    assert any(applies(one, asked) for asked in calls[role]), (
                        f"{role} {statement['Sid']}: nobody calls {action} on {resource}"
                    )


def test_a_wildcard_is_used_only_where_one_name_is_not_enough(calls):
    for role, granted in roles().items():
        for statement in granted:
            wild = [each for each in many(statement["Resource"]) if "*" in each]
            assert bool(wild) == (statement["Sid"] in WIDE), f"{role} {statement['Sid']}"
            for resource in wild:
                served = {asked.resource for asked in calls[role] if applies(statement, asked)}
                assert resource == "*" or resource.endswith(":*") or len(served) > 1
                assert resource != "*" or served == {"*"}, "the call names a resource"


def test_every_condition_is_needed(calls):
    """Each call that a condition admits is denied without the key and with another value."""
    for role, granted in roles().items():
        for statement in granted:
            keys = [key for part in statement.get("Condition", {}).values() for key in part]
            passed = [asked for asked in calls[role] if applies(statement, asked)]
            for key in keys:
                for asked in passed[:3]:
                    context = dict(asked.context)
                    for other in ({}, {key: ("another",)}):
                        without = {name: it for name, it in context.items() if name != key}
                        odd = call(asked.action, asked.resource, without | other)
                        assert judge(granted, odd) is Verdict.DENIED, (
                            f"{role} {statement['Sid']} {key}"
                        )


TRAINING_JOB = f"arn:aws:sagemaker:{OWN}:training-job/job1"
PROCESSING_JOB = f"arn:aws:sagemaker:{OWN}:processing-job/job1"
ANOTHERS = {"aws:RequestTag/slotq:queue": "another"}
OURS = {"aws:RequestTag/slotq:queue": TABLE}
TO_SAGEMAKER = {"iam:PassedToService": "sagemaker.amazonaws.com"}
OWN_ACCOUNT = {"aws:ResourceAccount": ACCOUNT}
OTHER_ACCOUNT = {"aws:ResourceAccount": "210987654321"}
NEAR_MISSES = [
    call("iam:PassRole", "arn:aws:iam::123456789012:role/Admin", TO_SAGEMAKER),
    call("iam:PassRole", ROLE + "2", TO_SAGEMAKER),
    call("iam:PassRole", ROLE, {"iam:PassedToService": "ec2.amazonaws.com"}),
    call("iam:PassRole", ROLE),
    call("sagemaker:CreateTrainingJob", TRAINING_JOB),
    call("sagemaker:CreateTrainingJob", TRAINING_JOB, ANOTHERS),
    call("sagemaker:CreateProcessingJob", PROCESSING_JOB),
    call("sagemaker:CreateProcessingJob", PROCESSING_JOB, ANOTHERS),
    call("sagemaker:CreateProcessingJob", TRAINING_JOB, OURS),
    call("sagemaker:CreateTransformJob", f"arn:aws:sagemaker:{OWN}:transform-job/job1", OURS),
    call("sagemaker:StopProcessingJob", PROCESSING_JOB),
    call("sagemaker:StopProcessingJob", PROCESSING_JOB, {"aws:ResourceTag/slotq:queue": "another"}),
    call("sagemaker:AddTags", PROCESSING_JOB, OURS),
    call("sagemaker:CreateTrainingJob", PLAN),
    call("sagemaker:CreateTrainingJob", f"{PLAN}-2", OURS),
    call("sagemaker:DescribeTrainingPlan", f"{PLAN}-2"),
    call("sagemaker:DescribeTrainingPlan", PLAN.replace(ACCOUNT, "210987654321")),
    call("sagemaker:CreateTrainingPlan", PLAN),
    call("sagemaker:ExtendTrainingPlan", PLAN),
    call("sagemaker:StopTrainingJob", TRAINING_JOB),
    call("sagemaker:StopTrainingJob", TRAINING_JOB, {"aws:ResourceTag/slotq:queue": "another"}),
    call("sagemaker:AddTags", TRAINING_JOB, OURS),
    call("sagemaker:AddTags", f"arn:aws:sagemaker:{OWN}:endpoint/e", OURS),
    call("sagemaker:DeleteTrainingJob", TRAINING_JOB),
    call("sagemaker:UpdateTrainingJob", TRAINING_JOB),
    call("sagemaker:UpdateTrainingJob", TRAINING_JOB, {"aws:ResourceTag/slotq:queue": "another"}),
    call("dynamodb:GetItem", f"arn:aws:dynamodb:{OWN}:table/another"),
    call("dynamodb:Scan", f"arn:aws:dynamodb:{OWN}:table/{TABLE}/index/by-state"),
    call("dynamodb:DeleteTable", f"arn:aws:dynamodb:{OWN}:table/{TABLE}"),
    call("dynamodb:UpdateTable", f"arn:aws:dynamodb:{OWN}:table/{TABLE}"),
    call("kms:Decrypt", KEY),
    call("kms:Decrypt", KEY + "1", THROUGH_DYNAMODB),
    call("kms:ScheduleKeyDeletion", KEY, THROUGH_DYNAMODB),
    call("kms:CreateGrant", KEY, THROUGH_DYNAMODB),
    call("kms:CreateGrant", VOLUMES, {"kms:GrantIsForAWSResource": "true"}),
    call("kms:Decrypt", VOLUMES, THROUGH_DYNAMODB),
    call("lambda:InvokeFunction", f"arn:aws:lambda:{OWN}:function:another"),
    call("lambda:UpdateFunctionCode", f"arn:aws:lambda:{OWN}:function:{FUNCTION}"),
    call("s3:PutObject", "arn:aws:s3:::bucket/low/_slotq/low/report.json", OWN_ACCOUNT),
    call("s3:PutObject", "arn:aws:s3:::bucket/low/suspend.json", OWN_ACCOUNT),
    call("s3:PutObject", "arn:aws:s3:::bucket/low/_slotq/low/suspend.json", OTHER_ACCOUNT),
    call("s3:GetObject", "arn:aws:s3:::bucket/low/_slotq/low/suspend.json", OWN_ACCOUNT),
    call("sqs:PurgeQueue", f"arn:aws:sqs:{OWN}:wakes"),
    call("sqs:SendMessage", f"arn:aws:sqs:{OWN}:another"),
    call("sqs:ReceiveMessage", f"arn:aws:sqs:{OWN}:dead-letters"),
    call("sqs:ReceiveMessage", f"arn:aws:sqs:{OWN}:other-pipelines-vision"),
    call("sqs:SendMessage", f"arn:aws:sqs:{OWN}:slotq-pipelines-vision"),
    call("sagemaker:StartPipelineExecution", PIPELINE.replace("execution/*", "execution/a")),
    call("events:PutEvents", f"arn:aws:events:{OWN}:event-bus/default", {"events:source": "x"}),
    call("s3:GetObject", "arn:aws:s3:::bucket/data/_slotq/job1/report.json"),
    call("s3:GetObject", "arn:aws:s3:::bucket/_slotq/j/report.json", {"aws:ResourceAccount": "1"}),
    call("s3:GetObject", "arn:aws:s3:::bucket/data/report.json", OWN_ACCOUNT),
    call("s3:GetObject", "arn:aws:s3:::bucket/_slotq/job1/suspend.json", OWN_ACCOUNT),
    call("s3:PutObject", "arn:aws:s3:::bucket/_slotq/job1/report.json", OWN_ACCOUNT),
    call("s3:ListBucket", "arn:aws:s3:::bucket", OWN_ACCOUNT),
    call("logs:PutLogEvents", f"arn:aws:logs:{OWN}:log-group:/aws/lambda/another:log-stream:a"),
    call("sns:Publish", f"{TOPIC}-2"),
    call("ssm:GetParameter", f"arn:aws:ssm:{OWN}:parameter/slotq/slotq"),
    call("ssm:GetParameter", f"arn:aws:ssm:{OWN}:parameter/production/password"),
    call("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{OWN}:secret:production-AbCdEf"),
    call("dynamodb:GetRecords", f"arn:aws:dynamodb:{OWN}:table/another/stream/a"),
]


@pytest.mark.parametrize("asked", NEAR_MISSES, ids=str)
@pytest.mark.parametrize("role", ROLES)
def test_calls_similar_to_allowed_ones_are_denied(role, asked):
    assert judge(statements(role, PARAMETERS), asked) is Verdict.DENIED


def test_the_door_admits_exactly_the_roles_that_may_be_passed():
    resolve = Resolver(template(), PARAMETERS)
    variables = template()["Resources"]["Door"]["Properties"]["Environment"]["Variables"]
    admitted = roles_from_environment(resolve(variables)).allowed
    (passes,) = [each for each in roles()[MANAGER] if each["Action"] == "iam:PassRole"]
    assert list(admitted or ()) == passes["Resource"] == [ROLE, CAMPAIGN_ROLE, WRONG_ROLE]


def test_the_door_admits_exactly_the_training_plans_that_may_be_used():
    resolve = Resolver(template(), PARAMETERS)
    variables = template()["Resources"]["Door"]["Properties"]["Environment"]["Variables"]
    (uses,) = [it for it in roles()[MANAGER] if it["Sid"] == "StartThemOnTrainingPlans"]
    assert (
        list(plans_from_environment(resolve(variables)).allowed or ()) == uses["Resource"] == [PLAN]
    )
    none = Resolver(template(), {**PARAMETERS, "TrainingPlanArns": ""})(variables)
    assert plans_from_environment(none).allowed == ()


@pytest.mark.parametrize("role", [DOOR, STEPPER])
def test_what_reads_users_input_may_start_nothing(calls, role):
    """An attacker in such a function gets no role and no instance."""
    starts = {"sagemaker:CreateTrainingJob", "sagemaker:AddTags", "iam:PassRole"}
    started = {asked for asked in calls[MANAGER] if asked.action in starts}
    assert {asked.action for asked in started} == starts
    granted = statements(role, PARAMETERS)
    assert [str(asked) for asked in started if judge(granted, asked) is not Verdict.DENIED] == []


def test_the_views_may_only_read(calls):
    writes = {
        asked
        for asked in calls[MANAGER]
        if not asked.action.startswith(
            ("dynamodb:BatchGet", "dynamodb:Get", "dynamodb:Query", "kms:", "s3:", "xray:")
        )
    }
    assert {asked.action for asked in writes} > {"iam:PassRole", "sagemaker:StopTrainingJob"}
    views = statements(VIEWS, PARAMETERS)
    assert [str(asked) for asked in writes if judge(views, asked) is not Verdict.DENIED] == []


@pytest.mark.parametrize(
    ("parameter", "rights"),
    [
        ("TableKeyArn", {role: {"UseTheTablesKey"} for role in ROLES}),
        (
            "TrainingPlanArns",
            {
                MANAGER: {"StartThemOnTrainingPlans", "LookAtTrainingPlans"},
                DOOR: {"LookAtTrainingPlans"},
            },
        ),
        ("NotificationTopicArns", {TELLER: {"PublishToTopics"}}),
    ],
)
def test_an_empty_parameter_gives_no_right(parameter, rights):
    for role in ROLES:
        whole = {statement["Sid"] for statement in statements(role, PARAMETERS)}
        without = {it["Sid"] for it in statements(role, {**PARAMETERS, parameter: ""})}
        assert whole - without == rights.get(role, set())


API = f"arn:aws:execute-api:{OWN}:a1b2c3d4e5/prod"
"""As on the page."""
FOR_OPERATORS = {
    "PATCH/pools/{name}",
    "DELETE/pools/{name}",
    "PATCH/limits",
    "PUT/configuration",
    "PATCH/projects/{name}",
    "DELETE/projects/{name}",
    "GET/doctor",
    "POST/doctor",
}


def routes() -> set[str]:
    """`METHOD/path` of each API event in the template."""
    events = [
        event["Properties"]
        for resource in template()["Resources"].values()
        if resource["Type"] == "AWS::Serverless::Function"
        for event in resource["Properties"]["Events"].values()
        if event["Type"] == "Api"
    ]
    return {f"{event['Method']}{event['Path']}" for event in events}


def test_the_sample_policy_leaves_the_pools_to_operators():
    users = on_the_page("UseTheQueue")["Statement"]
    operators = [each for each in users if each["Effect"] == "Allow"]
    assert routes() >= FOR_OPERATORS
    for route in routes():
        asked = call("execute-api:Invoke", f"{API}/{route.replace('{name}', 'x')}")
        mine = Verdict.FORBIDDEN if route in FOR_OPERATORS else Verdict.ALLOWED
        assert (judge(users, asked), judge(operators, asked)) == (mine, Verdict.ALLOWED), route


def test_the_template_has_exactly_the_routes_of_the_api():
    described = {f"{method}{path}" for path, methods in METHODS.items() for method in methods}
    assert routes() == {re.sub("<([a-z]+)>", r"{\1}", route) for route in described}


def on_the_page(sid: str) -> dict:
    """The policy of docs/guardrails.md with this statement."""
    found = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (text,) = [text for text in found if f'"{sid}"' in text]
    return json.loads(text)


PAGE = Path(__file__).parents[2] / "docs" / "guardrails.md"
FULL_ACCESS = {"Effect": "Allow", "Action": "*", "Resource": "*"}
"""FullAWSAccess, with which every organisation begins."""
QUEUE_ROLE = "arn:aws:iam::123456789012:role/slotq-QueueManagerRole-EXAMPLE"


@pytest.mark.parametrize(
    ("principal", "types", "verdict"),
    [
        (QUEUE_ROLE, ["ml.p4d.24xlarge"], Verdict.ALLOWED),
        (ROLE, ["ml.p4d.24xlarge"], Verdict.FORBIDDEN),
        (ROLE, ["ml.m5.large", "ml.p4d.24xlarge"], Verdict.FORBIDDEN),
        (ROLE, ["ml.m5.large"], Verdict.ALLOWED),
    ],
)
@pytest.mark.parametrize("action", ["CreateTrainingJob", "CreateHyperParameterTuningJob"])
def test_the_sample_scp_leaves_the_pools_to_the_queue(action, principal, types, verdict):
    sample_policy = on_the_page("TrainingOnThePoolsGoesThroughTheQueue")
    context = {"aws:PrincipalArn": principal, "sagemaker:InstanceTypes": types}
    asked = call(f"sagemaker:{action}", TRAINING_JOB, context)
    assert judge([FULL_ACCESS, *sample_policy["Statement"]], asked) is verdict


@pytest.mark.parametrize("action", ["CreateAutoMLJob", "CreateAutoMLJobV2"])
def test_the_sample_scp_lets_no_automl_job_take_the_pools(action):
    """An AutoML job names no instance type when it is created."""
    sample_policy = on_the_page("TrainingOnThePoolsGoesThroughTheQueue")
    job = f"arn:aws:sagemaker:{OWN}:automl-job/a"
    asked = call(f"sagemaker:{action}", job, {"aws:PrincipalArn": ROLE})
    assert judge([FULL_ACCESS, *sample_policy["Statement"]], asked) is Verdict.FORBIDDEN


def test_the_table_of_statements_is_printed(calls):
    """`pytest -s` shows it: what each statement allows and how many different calls it served."""
    for role, granted in roles().items():
        print(f"\n{role}: {len(calls[role])} different calls")
        for statement in granted:
            served = [asked for asked in calls[role] if applies(statement, asked)]
            rest = [each for each in granted if each is not statement]
            alone = [asked for asked in served if judge(rest, asked) is Verdict.DENIED]
            keys = [key for part in statement.get("Condition", {}).values() for key in part]
            actions = ", ".join(many(statement["Action"]))
            print(f"  {statement['Sid']:28} {len(served):5} {len(alone):5}  {actions} {keys or ''}")
            assert alone


def test_the_notifier_may_write_its_own_messages_alone(calls):
    """Whoever makes it do something else, by whatever address it calls, changes no job."""
    table = f"arn:aws:dynamodb:{OWN}:table/{TABLE}"
    granted = statements(TELLER, PARAMETERS)
    for action in ("PutItem", "UpdateItem", "DeleteItem"):
        for key in ("JOB#job1", "CONFIG", "POOL#main", "SCHEDULER", "notice#x"):
            asked = call(f"dynamodb:{action}", table, {"dynamodb:LeadingKeys": key})
            assert judge(granted, asked) is Verdict.DENIED
        assert judge(granted, call(f"dynamodb:{action}", table)) is Verdict.DENIED
    actions = {asked.action.split(":")[0] for asked in calls[TELLER]}
    assert not actions & {"sagemaker", "iam", "lambda", "s3", "sqs", "events"}


MARKERS = (("s3:PutObject", "suspend.json", (MANAGER,)), ("s3:GetObject", "report.json", ROLES[:3]))


@pytest.mark.parametrize(("action", "name", "roles"), MARKERS)
@pytest.mark.parametrize(
    ("buckets", "other"),
    [
        ("", Verdict.ALLOWED),
        ("arn:aws:s3:::ours", Verdict.DENIED),
        ("arn:aws:s3:::more,arn:aws:s3:::ours", Verdict.DENIED),
    ],
)
def test_the_queue_s_part_of_s3_can_be_bounded_to_buckets(
    action: str, name: str, roles: tuple[str, ...], buckets: str, other: Verdict
):
    """A marker, or a report, in the buckets that the stack names; without names, in any bucket of
    the account. Never anything else."""
    context = {"aws:ResourceAccount": ACCOUNT}
    for role in roles:
        granted = statements(role, {**PARAMETERS, "CheckpointBucketArns": buckets})
        for bucket, verdict in (("ours", Verdict.ALLOWED), ("theirs", other)):
            for place in ("_slotq/job", "any/place/_slotq/job"):
                asked = call(action, f"arn:aws:s3:::{bucket}/{place}/{name}", context)
                assert judge(granted, asked) is verdict
            elsewhere = call(action, f"arn:aws:s3:::{bucket}/any/place/{name}", context)
            assert judge(granted, elsewhere) is Verdict.DENIED
