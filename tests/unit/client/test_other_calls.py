"""What becomes of SageMaker's other calls that start something, under real boto3."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import boto3
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

import slotq
from slotq.session.answers.other_calls import INSTEAD, PASSED, PIPELINES, QUEUED, training_steps
from slotq.session.hooks import take_over
from tests.unit.client.fake_queue import FakeQueue, client_of

JUDGED = {QUEUED, *INSTEAD, *PASSED}
STARTS = re.compile(
    r"Create(?!Presigned)\w*(Job|Session|Cluster|Pipeline|Plan|Schedule|NotebookInstance)(?!.*Lifecycle)\w*"
    r"|(Start|Retry)\w+"
)
"""The names of operations that may start work."""
OF_OTHERS = {"create_schedule": "EventBridge Scheduler", "start_query_execution": "Athena"}
"""Calls of the SDK on clients of other services."""
TUNING = {
    "HyperParameterTuningJobName": "tuning",
    "HyperParameterTuningJobConfig": {
        "Strategy": "Random",
        "ResourceLimits": {"MaxParallelTrainingJobs": 2},
    },
}
AUTOML = {
    "AutoMLJobName": "auto",
    "OutputDataConfig": {"S3OutputPath": "s3://out"},
    "RoleArn": "arn:aws:iam::123456789012:role/trainer",
}
DATA = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://in"}}
PIPELINE = {"PipelineName": "weekly", "ClientRequestToken": "x" * 32}
PROBLEM = {"TextClassificationJobConfig": {"ContentColumn": "text", "TargetLabelColumn": "label"}}


class Sagemaker:
    """SageMaker behind the hooks: keeps the operations that come through, and answers with a
    pipeline's definition."""

    def __init__(self):
        self.seen = []
        self.definition = json.dumps({"Steps": []})

    def hook(self, events):
        def answer(request, **_):
            operation = request.headers["X-Amz-Target"].decode().partition(".")[2]
            self.seen.append(operation)
            status, said = 200, {"PipelineDefinition": self.definition}
            if operation.startswith("DescribePipeline") and not self.definition:
                status, said = 403, {"__type": "AccessDeniedException", "message": "no"}
            if operation == "DescribeTrainingJob":
                gone = "Requested resource not found."
                status, said = 400, {"__type": "ValidationException", "message": gone}
            raw = SimpleNamespace(stream=lambda: iter([json.dumps(said).encode()]))
            return AWSResponse(request.url, status, {}, raw)

        events.register("before-send.sagemaker.*", answer)


@pytest.fixture
def plane():
    return Sagemaker()


@pytest.fixture
def sagemaker(http, plane):
    aws = boto3.Session(region_name="eu-west-1")
    slotq.install(aws, queue=client_of(http), endpoint="https://queue.test/prod")
    plane.hook(aws.events)
    return aws.client("sagemaker")


@pytest.fixture
def queue():
    return FakeQueue()


def steps(*kinds):
    return json.dumps({"Steps": [{"Name": f"{kind}-step", "Type": kind} for kind in kinds]})


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        ("create_hyper_parameter_tuning_job", TUNING, "slotq sweep"),
        (
            "create_auto_ml_job",
            {
                **AUTOML,
                "InputDataConfig": [
                    {
                        "DataSource": {
                            "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://i"}
                        },
                        "TargetAttributeName": "label",
                    }
                ],
            },
            "slotq sweep",
        ),
        (
            "create_auto_ml_job_v2",
            {
                **AUTOML,
                "AutoMLJobInputDataConfig": [{"DataSource": DATA}],
                "AutoMLProblemTypeConfig": PROBLEM,
            },
            "slotq sweep",
        ),
        ("start_pipeline_execution", PIPELINE, "QueueStep"),
        (
            "retry_pipeline_execution",
            {
                "PipelineExecutionArn": "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/w/"
                "execution/abcdefghijkl",
                "ClientRequestToken": "x" * 32,
            },
            "QueueStep",
        ),
    ],
)
def test_a_call_past_the_queue_is_refused_unless_one_says_so(
    sagemaker, plane, call, arguments, words
):
    plane.definition = steps("Processing", "Training")
    with pytest.raises(ClientError) as raised:
        getattr(sagemaker, call)(**arguments)
    error = raised.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert "past the queue" in error["Message"]
    assert words in error["Message"]
    assert "slotq.direct()" in error["Message"]
    starting = [name for name in plane.seen if not name.startswith("Describe")]
    assert starting == []
    with slotq.direct():
        getattr(sagemaker, call)(**arguments)
    assert len([name for name in plane.seen if not name.startswith("Describe")]) == 1
    with pytest.raises(ClientError):
        getattr(sagemaker, call)(**arguments)


def test_a_training_job_goes_to_the_queue_also_within_direct(sagemaker, plane, queue):
    from tests.unit.client.fake_aws import REQUEST

    with slotq.direct():
        sagemaker.create_training_job(**REQUEST)
    assert "CreateTrainingJob" not in plane.seen
    assert [*queue.requests] == ["job1"]


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ((), None),
        (("Processing", "Transform", "Model", "Lambda", "Condition"), None),
        (("Training",), "(step Training-step)"),
        (("Tuning", "AutoML"), "(steps Tuning-step, AutoML-step)"),
    ],
)
def test_a_pipeline_is_started_unless_a_step_trains(sagemaker, plane, kinds, told):
    plane.definition = steps(*kinds)
    if told is None:
        sagemaker.start_pipeline_execution(**PIPELINE)
        assert plane.seen == ["DescribePipeline", "StartPipelineExecution"]
        return
    with pytest.raises(ClientError, match=re.escape(told)):
        sagemaker.start_pipeline_execution(**PIPELINE)


def test_a_pipeline_whose_steps_cannot_be_read_is_not_started(sagemaker, plane):
    for definition in ("", "[]", "no json"):
        plane.definition = definition
        with pytest.raises(ClientError, match="its steps cannot be read"):
            sagemaker.start_pipeline_execution(**PIPELINE)
    assert "StartPipelineExecution" not in plane.seen


def test_steps_in_branches_are_found():
    condition = {
        "Name": "good",
        "Type": "Condition",
        "Arguments": {
            "Conditions": [],
            "IfSteps": [{"Name": "again", "Type": "Training"}],
            "ElseSteps": [
                {
                    "Name": "deeper",
                    "Type": "Condition",
                    "Arguments": {"IfSteps": [{"Name": "tune", "Type": "Tuning"}]},
                }
            ],
        },
    }
    assert training_steps(json.dumps({"Steps": [condition]})) == ["again", "tune"]


@pytest.mark.parametrize("operation", sorted(PASSED))
def test_other_calls_are_not_touched(operation):
    class Events:
        def __init__(self):
            self.names = []

        def register(self, event, *_, **__):
            self.names.append(event)

        def unregister(self, *_, **__): ...

    from slotq.session.answers.other_calls import Refusing

    events = Events()
    take_over(events, Refusing(client=lambda _: None).calls(), owner="test")
    assert not [name for name in events.names if name.endswith(f".{operation}")]


def test_every_operation_of_botocore_that_may_start_work_is_judged():
    """A new botocore that brings another: judge it in `session/answers/other_calls.py`."""
    model = botocore.session.Session().get_service_model("sagemaker")
    there = {name for name in model.operation_names if STARTS.fullmatch(name)}
    assert there - JUDGED == set()


def test_every_call_of_the_installed_sdk_that_may_start_work_is_judged():
    """Both majors: `make test-sagemaker3` runs this with the other one."""
    model = botocore.session.Session().get_service_model("sagemaker")
    operations = {botocore.xform_name(name): name for name in model.operation_names}
    called = {name for folder in _sdk() for path in folder.rglob("*.py") for name in _calls(path)}
    assert {"create_training_job", "create_processing_job"} <= called
    unknown = {name for name in called if STARTS.fullmatch(operations.get(name) or _camel(name))}
    unknown -= {name for name in called if operations.get(name) in JUDGED}
    assert unknown - OF_OTHERS.keys() == set()


def _sdk():
    spec = find_spec("sagemaker")
    if spec is None:
        pytest.skip("no SageMaker SDK is installed")
    return [Path(place) for place in spec.submodule_search_locations or ()]


def _calls(path: Path):
    """The calls on a SageMaker client in a module."""
    text = path.read_text(encoding="utf-8", errors="ignore")
    return re.findall(r"client\.((?:create|start|retry)_[a-z0-9_]+)\(", text)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def test_the_pipelines_are_among_those_that_are_refused():
    assert INSTEAD.keys() >= PIPELINES
    assert not INSTEAD.keys() & PASSED.keys()


@pytest.mark.parametrize("operation", sorted({*INSTEAD, *PASSED}))
def test_the_page_says_what_happens(operation):
    text = (Path(__file__).parents[3] / "docs" / "client.md").read_text()
    rows = [line for line in text.splitlines() if re.search(rf"\| .*\b{operation}\b.* \|", line)]
    assert all(("refused" in row) == (operation in INSTEAD) for row in rows)
    assert rows or operation in PASSED
