"""Each malformed request gets a 4xx that names the field; nothing is stored or started."""

import base64
import json
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.table import LINES
from tests.functional.account import Account, add_job, sample

P4D = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 100}


def tags(**named: str) -> list[dict[str, str]]:
    return [
        {"Key": key.replace("slotq_", "slotq:").replace("_", "-"), "Value": value}
        for key, value in named.items()
    ]


def resources(**changes: Any) -> dict[str, Any]:
    merged = {**P4D, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def raw(body: str | None) -> dict[str, Any]:
    return {**sample("add-job"), "body": body}


NAME = "TrainingJobName"
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    # the fault: (the event, the field that the answer names, words of its message)
    "no body": (raw(None), "", "not JSON"),
    "empty body": (raw(""), "", "not JSON"),
    "not JSON": (raw("TrainingJobName: job1"), "", "not JSON"),
    "half of it": (raw(sample("add-job")["body"][:-1]), "", "not JSON"),
    "nested beyond reason": (raw("[" * 100_000), "", "does not accept this JSON"),
    "a list": (raw("[]"), "", "JSON object"),
    "a string": (raw('"job1"'), "", "JSON object"),
    "null": (raw("null"), "", "JSON object"),
    "an empty object": (raw("{}"), NAME, "required"),
    "not base64": ({**raw("%%%"), "isBase64Encoded": True}, "", "not JSON"),
    "base64 cut short": ({**raw("e30"), "isBase64Encoded": True}, "", "UTF-8"),
    "bytes that are no text": (
        {**raw(base64.b64encode(b"\xff\xfe").decode()), "isBase64Encoded": True},
        "",
        "UTF-8",
    ),
    "no name": (add_job(TrainingJobName=None), NAME, "required"),
    "an empty name": (add_job(TrainingJobName=""), NAME, "1 to 63"),
    "a name of another type": (add_job(TrainingJobName=7), NAME, "string"),
    "a name with a space": (add_job(TrainingJobName="job 1"), NAME, "letters, digits and hyphens"),
    "a name with a dot": (add_job(TrainingJobName="job.1"), NAME, "letters, digits and hyphens"),
    "a name that begins with a hyphen": (add_job(TrainingJobName="-job"), NAME, "either end"),
    "a name that ends with a hyphen": (add_job(TrainingJobName="job-"), NAME, "either end"),
    "a name with a newline": (add_job(TrainingJobName="job1\n"), NAME, "letters"),
    "a name of 64 characters": (add_job(TrainingJobName="j" * 64), NAME, "1 to 63"),
    "a name like the queue's own": (
        add_job(TrainingJobName="job1-qstamp-2-abcdef"),
        NAME,
        "-qstamp-",
    ),
    "an unknown class": (add_job(Tags=tags(priority="hihg")), "Tags", "names no class"),
    "a broken priority": (add_job(Tags=tags(priority="1.5")), "Tags", "-1,000,000 to 1,000,000"),
    "a priority with a fraction": (add_job(Tags=tags(priority="1.5")), "Tags", "integer"),
    "an empty priority": (add_job(Tags=tags(priority="")), "Tags", "integer"),
    "a priority beyond the range": (add_job(Tags=tags(priority="1000001")), "Tags", "1,000,000"),
    "a priority below the range": (add_job(Tags=tags(priority="-1000001")), "Tags", "-1,000,000"),
    "a priority of many digits": (add_job(Tags=tags(priority="9" * 200)), "Tags", "integer"),
    "a priority in other digits": (add_job(Tags=tags(priority="\u0661")), "Tags", "integer"),
    "two priorities": (
        add_job(Tags=tags(priority="1") + tags(priority="2")),
        "Tags",
        "more than once",
    ),
    "an unknown setting": (add_job(Tags=tags(slotq_speed="9")), "Tags", "slotq:pools"),
    "preemptible: maybe": (add_job(Tags=tags(slotq_preemptible="maybe")), "Tags", "false or semi"),
    "a negative min-runtime": (add_job(Tags=tags(slotq_min_runtime="-1")), "Tags", "0 to"),
    "too many retries": (add_job(Tags=tags(slotq_retries="101")), "Tags", "0 to 100"),
    "an empty list of pools": (add_job(Tags=tags(slotq_pools="")), "Tags", "separated by commas"),
    "one pool twice": (add_job(Tags=tags(slotq_pools="main,main")), "Tags", "separated by commas"),
    "a pool that is not there": (add_job(Tags=tags(slotq_pools="moon")), "Tags", "main"),
    "a demand without an amount": (add_job(Tags=tags(slotq_demand="gpus")), "Tags", "gpus=8"),
    "an empty demand": (add_job(Tags=tags(slotq_demand="")), "Tags", "gpus=8"),
    "a demand of nothing": (add_job(Tags=tags(slotq_demand="gpus=0")), "Tags", "from 1 to"),
    "a demand twice": (add_job(Tags=tags(slotq_demand="gpus=1,gpus=2")), "Tags", "different"),
    "a demand of slots": (add_job(Tags=tags(slotq_demand="slots=2")), "Tags", "the instances"),
    "a demand with a long name": (add_job(Tags=tags(slotq_demand=f"{'x' * 99}=1")), "Tags", "=8"),
    "a demand with two amounts": (add_job(Tags=tags(slotq_demand="a=1=2")), "Tags", "different"),
    "tags that are no list": (add_job(Tags={"priority": "1"}), "Tags", "list"),
    "a tag without a value": (add_job(Tags=[{"Key": "priority"}]), "Tags.0.Value", "required"),
    "a tag whose value is a number": (
        add_job(Tags=[{"Key": "priority", "Value": 1}]),
        "Tags.0.Value",
        "string",
    ),
    "no resources": (add_job(ResourceConfig=None), "ResourceConfig", "required"),
    "resources without a type": (
        add_job(ResourceConfig=resources(InstanceType=None)),
        "ResourceConfig",
        "InstanceType",
    ),
    "resources without a count": (
        add_job(ResourceConfig=resources(InstanceCount=None)),
        "ResourceConfig",
        "InstanceCount",
    ),
    "no instances": (
        add_job(ResourceConfig=resources(InstanceCount=0)),
        "ResourceConfig.InstanceCount",
        "greater than or equal to 1",
    ),
    "a negative count": (
        add_job(ResourceConfig=resources(InstanceCount=-1)),
        "ResourceConfig.InstanceCount",
        "greater than or equal to 1",
    ),
    "a count in a string": (
        add_job(ResourceConfig=resources(InstanceCount="1")),
        "ResourceConfig.InstanceCount",
        "integer",
    ),
    "a count with a point": (
        add_job(ResourceConfig=resources(InstanceCount=1.0)),
        "ResourceConfig.InstanceCount",
        "integer",
    ),
    "a count that is a truth value": (
        add_job(ResourceConfig=resources(InstanceCount=True)),
        "ResourceConfig.InstanceCount",
        "integer",
    ),
    "no groups": (
        add_job(ResourceConfig={"InstanceGroups": []}),
        "ResourceConfig",
        "InstanceGroups",
    ),
    "groups of two types": (
        add_job(
            ResourceConfig={
                "InstanceGroups": [
                    {
                        "InstanceGroupName": "a",
                        "InstanceType": "ml.p4d.24xlarge",
                        "InstanceCount": 1,
                    },
                    {"InstanceGroupName": "b", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
                ]
            }
        ),
        "ResourceConfig.InstanceGroups",
        "needs instances of ml.g5.xlarge, and none of its pools has that type",
    ),
    "a type that no pool offers": (
        add_job(ResourceConfig=resources(InstanceType="ml.p5.48xlarge")),
        "ResourceConfig.InstanceType",
        "ml.p4d.24xlarge",
    ),
    "more slots than the pool has": (
        add_job(ResourceConfig=resources(InstanceCount=3)),
        "ResourceConfig.InstanceCount",
        "main has 2",
    ),
    "no role": (add_job(RoleArn=None), "RoleArn", "required"),
    "an empty role": (add_job(RoleArn=""), "RoleArn", "required"),
    "nothing to run": (add_job(AlgorithmSpecification=None), "AlgorithmSpecification", "required"),
    "nowhere to write": (add_job(OutputDataConfig={}), "OutputDataConfig.S3OutputPath", "required"),
    "a misspelt field": (
        add_job(StopingCondition={"MaxRuntimeInSeconds": 1}, StoppingCondition=None),
        "StopingCondition",
        "did you mean StoppingCondition?",
    ),
    "a number as a hyperparameter": (
        add_job(HyperParameters={"lr": 0.1}),
        "HyperParameters.lr",
        "a text, not the number 0.1",
    ),
    "a body over the limit": (add_job(HyperParameters={"x": "y" * 1_000_000}), "", "1,000,000"),
    "a body over the limit in bytes": (
        add_job(HyperParameters={"x": "\u4e2d" * 400_000}),
        "",
        "1,000,000",
    ),
}


@pytest.mark.parametrize(("event", "field", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_malformed_request_is_refused(
    account: Account, event: dict[str, Any], field: str, words: str
):
    account.send("tick")
    before = account.items()
    status, error = account.call(event)
    assert status == 400
    assert error["code"] in {"invalid_request", "never_fits"}
    assert error["field"] == field
    assert words.lower() in error["message"].lower()
    assert len(error["message"]) < 500
    assert account.items() == before
    assert account.lambda_.calls == []
    account.send("pass")
    assert account.plane.calls.keys() <= {"ListTrainingJobs"}, "the tick's"


def test_all_faults_are_reported_at_once(account: Account):
    status, error = account.call(
        add_job(
            TrainingJobName="-",
            RoleArn=None,
            ResourceConfig=resources(InstanceCount="1"),
            Enviroment={},
        )
    )
    assert (status, error["field"]) == (400, NAME)
    assert error["message"].startswith("the request has 4 faults:\n")
    for path in (NAME, "RoleArn", "ResourceConfig.InstanceCount", "Enviroment"):
        assert f"\n  {path}: " in error["message"]


def test_a_field_newer_than_the_queue_is_accepted(account: Account):
    assert account.call(add_job(FieldOfTomorrow={"a": 1}))[0] == 202


def test_a_repeated_submission_gets_the_first_answer(account: Account):
    first = account.call("add-job")
    account.clock.set(account.clock.now() + 5_000)
    reordered = sample("add-job")
    reordered["body"] = json.dumps(dict(reversed(json.loads(reordered["body"]).items())))
    assert account.call("add-job") == first
    assert account.call(reordered) == first
    account.settle()
    assert account.plane.calls["CreateTrainingJob"] == 1


def test_another_body_under_the_same_name_is_refused_by_field(account: Account):
    account.call("add-job")
    before = stored(account)
    status, error = account.call(add_job(Tags=tags(priority="9")))
    assert (status, error["code"], error["field"]) == (409, "name_taken", NAME)
    assert "pending" in error["message"]
    assert stored(account) == before


def stored(account: Account) -> list[dict[str, Any]]:
    """Every item but the lines: a submission touches its line before it meets the stored job."""
    return [item for item in account.items() if item["pk"] != {"S": LINES}]


def test_the_name_of_an_ended_job_is_refused(account: Account):
    account.call("add-job")
    account.call("cancel-job")
    status, error = account.call("add-job")
    assert (status, error["code"], error["field"]) == (409, "name_taken", NAME)
    assert "ended" in error["message"]


def test_the_name_of_a_foreign_training_job_shows_at_the_start(account: Account):
    account.plane.handle("CreateTrainingJob", json.loads(sample("add-job")["body"]))
    assert account.call("add-job")[0] == 202
    account.settle()
    job = account.call("get-job")[1]
    assert (job["state"], job["cause"]) == ("failed", "name_taken")
    assert "not from this queue" in job["message"]


@pytest.mark.parametrize("event", ["get-job", "cancel-job"])
def test_an_unknown_job_is_not_found(account: Account, event: str):
    status, error = account.call(event)
    assert (status, error["code"], error["field"]) == (404, "no_such_job", "name")
    assert "job1" in error["message"]


def test_an_ended_job_cannot_be_cancelled(account: Account):
    account.call("add-job")
    account.send("pass")
    account.send("training-completed")
    status, error = account.call("cancel-job")
    assert (status, error["code"]) == (409, "too_late")


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ({"state": ["asleep"]}, "state", "pending"),
        ({"state": ["running,asleep"]}, "state", "completed"),
        ({"state": [""]}, "state", "running"),
        ({"limit": ["0"]}, "limit", "1 to 1,000"),
        ({"limit": ["1001"]}, "limit", "1 to 1,000"),
        ({"limit": ["-1"]}, "limit", "1 to 1,000"),
        ({"limit": ["ten"]}, "limit", "integer"),
        ({"limit": ["\u0661"]}, "limit", "integer"),
        ({"limit": ["9" * 5000]}, "limit", "1 to 1,000"),
        ({"states": ["running"]}, "states", "until, limit, next or places"),
        ({"next": ["9" * 5000]}, "next", "what the page before answered"),
        ({"next": ["\ud800"]}, "next", "what the page before answered"),
        ({"places": ["yes"]}, "places", "true or false"),
        ({"since": ["yesterday"]}, "since", "2026-11-20T10:30:00Z"),
        ({"until": ["2026-11-20T10:30:00"]}, "until", "2026-11-20T10:30:00Z"),
        ({"since": ["9" * 5000]}, "since", "2026-11-20T10:30:00Z"),
    ],
)
def test_a_malformed_query_is_refused(account: Account, query, field, words):
    event = {**sample("list-jobs"), "multiValueQueryStringParameters": query}
    status, error = account.call(event)
    assert (status, error["code"], error["field"]) == (400, "invalid_request", field)
    assert words in error["message"]


@pytest.mark.parametrize("identity", [{}, {"userArn": None}, {"userArn": ""}, None])
@pytest.mark.parametrize("name", ["add-job", "cancel-job"])
def test_an_unsigned_caller_changes_nothing(account: Account, name: str, identity):
    event = sample(name)
    event["requestContext"]["identity"] = identity
    event["headers"]["userArn"] = "arn:aws:iam::123456789012:user/mallory"
    status, error = account.call(event)
    assert (status, error["code"]) == (403, "not_signed")
    assert account.lambda_.calls == []


ME = "arn:aws:iam::123456789012:user/me"


@pytest.mark.parametrize("identity", [{}, {"userArn": None}, {"userArn": ""}, None])
def test_the_local_caller_makes_unsigned_requests_where_passes_run_inline(
    account: Account, identity, monkeypatch
):
    """As under `sam local`, which passes on no identity."""
    event = sample("add-job")
    event["requestContext"]["identity"] = identity
    monkeypatch.setenv("SLOTQ_LOCAL_CALLER", ME)
    assert account.call(event)[1]["code"] == "not_signed"
    monkeypatch.setenv("SLOTQ_INLINE_PASS", "1")
    status, job = account.call(event)
    assert (status, job["submitter"]) == (202, ME)


def test_a_signer_counts_before_the_local_caller(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_LOCAL_CALLER", ME)
    monkeypatch.setenv("SLOTQ_INLINE_PASS", "1")
    assert account.call("add-job")[1]["submitter"].endswith("DataScientist/ada")


def test_the_submitter_is_never_read_from_the_request(account: Account):
    _, job = account.call(add_job(submitter="mallory", userArn="mallory"))
    assert job["submitter"].endswith("DataScientist/ada")


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/", 404, None),
        ("GET", "/job", 404, None),
        ("POST", "/jobs/a/b", 404, None),
        ("GET", "/add-job", 405, "POST"),
        ("PUT", "/add-job", 405, "POST"),
        ("PUT", "/jobs", 405, "GET, PATCH, POST"),
        ("DELETE", "/jobs", 405, "GET, PATCH, POST"),
        ("POST", "/jobs/job1", 405, "DELETE, GET, PATCH"),
        ("PUT", "/jobs/job1/request", 405, "GET"),
    ],
)
def test_an_unknown_route_is_refused(account: Account, method, path, status, allow):
    event = {**sample("get-job"), "httpMethod": method, "path": path, "resource": "/{proxy+}"}
    answer = account.send(event)
    assert answer["statusCode"] == status
    assert answer["multiValueHeaders"].get("Allow") == ([allow] if allow else None)
    error = json.loads(answer["body"])
    assert error["code"] == ("no_such_route" if status == 404 else "no_such_method")
    assert error["message"]
