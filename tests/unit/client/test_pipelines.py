"""QueueStep in pipelines of the real SDK, of whichever major is installed: `make test` runs these
with version 2 and `make test-sagemaker3` with version 3."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from slotq.errors import InvalidRequest
from slotq.session.installed_sdk import sdk_version
from slotq_core.wire.training.step_messages import MOST_ARGUMENTS, read_message
from tests.functional.pipelines_double import message
from tests.unit.client.fake_aws import make_default_bucket

try:
    VERSION = sdk_version()
except ImportError:
    pytest.skip("no SageMaker SDK is installed", allow_module_level=True)

# Version 3 makes a client for the default region when it is imported.
with pytest.MonkeyPatch.context() as region:
    region.setenv("AWS_DEFAULT_REGION", "us-east-1")
    from slotq.pipelines import QueueStep
    from slotq.pipelines.sdk import PipelineSession, local_pipeline_session

    if VERSION == 2:
        from sagemaker.estimator import Estimator
        from sagemaker.model import Model
        from sagemaker.workflow.condition_step import ConditionStep
        from sagemaker.workflow.conditions import ConditionGreaterThan
        from sagemaker.workflow.functions import Join
        from sagemaker.workflow.model_step import ModelStep
        from sagemaker.workflow.parameters import ParameterInteger, ParameterString
        from sagemaker.workflow.pipeline import Pipeline
        from sagemaker.workflow.retry import StepExceptionTypeEnum, StepRetryPolicy
        from sagemaker.workflow.steps import CacheConfig
    else:
        from sagemaker.core.workflow.conditions import ConditionGreaterThan
        from sagemaker.core.workflow.functions import Join
        from sagemaker.core.workflow.parameters import ParameterInteger, ParameterString
        from sagemaker.mlops.workflow.condition_step import ConditionStep
        from sagemaker.mlops.workflow.model_step import ModelStep
        from sagemaker.mlops.workflow.pipeline import Pipeline
        from sagemaker.mlops.workflow.retry import StepExceptionTypeEnum, StepRetryPolicy
        from sagemaker.mlops.workflow.steps import CacheConfig
        from sagemaker.serve.model_builder import ModelBuilder
        from sagemaker.train.configs import Compute, InputData, OutputDataConfig, StoppingCondition
        from sagemaker.train.model_trainer import ModelTrainer

ROLE = "arn:aws:iam::123456789012:role/trainer"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"
URL = "https://sqs.us-east-1.amazonaws.com/123456789012/slotq-pipelines-vision"

pytestmark = [
    pytest.mark.usefixtures("no_telemetry"),
    pytest.mark.filterwarnings("ignore:Running within a PipelineSession"),
]


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setenv("SAGEMAKER_VALIDATE_ROLE", "false")  # moto does not simulate policies
    with mock_aws():
        make_default_bucket()
        iam = boto3.client("iam", region_name="us-east-1")
        iam.create_role(RoleName="trainer", AssumeRolePolicyDocument="{}")
        yield PipelineSession(boto3.Session(region_name="us-east-1"))


def trains(session, *, count: Any = 1, output: Any = "s3://out", **hyperparameters: Any) -> Any:
    """An estimator, or a trainer."""
    if VERSION == 2:
        return Estimator(
            IMAGE,
            role=ROLE,
            instance_count=count,
            instance_type="ml.p5.48xlarge",
            output_path=output,
            hyperparameters=hyperparameters or None,
            sagemaker_session=session,
        )
    return ModelTrainer(
        training_image=IMAGE,
        role=ROLE,
        base_job_name="train",
        compute=Compute(instance_count=count, instance_type="ml.p5.48xlarge"),
        output_data_config=OutputDataConfig(s3_output_path=output),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=600),
        hyperparameters=hyperparameters,
        sagemaker_session=session,
    )


def data(uri: Any = "s3://data/train") -> Any:
    if VERSION == 2:
        return {"train": uri}
    return [InputData(channel_name="train", data_source=uri)]


def registers(session, model: Any) -> Any:
    """A step that registers the model at this place."""
    if VERSION == 2:
        registered = Model(IMAGE, model_data=model, role=ROLE, sagemaker_session=session)
        arguments = registered.register(
            content_types=["text/csv"], response_types=["text/csv"], model_package_group_name="g"
        )
    else:
        builder = ModelBuilder(
            image_uri=IMAGE, s3_model_data_url=model, role_arn=ROLE, sagemaker_session=session
        )
        arguments = builder.register(
            content_types=["text/csv"], response_types=["text/csv"], model_package_group_name="g"
        )
    return ModelStep("register", step_args=arguments)


def definition(session, *steps: Any, parameters: Any = ()) -> dict[str, Any]:
    pipeline = Pipeline(
        "weekly", steps=[*steps], parameters=[*parameters], sagemaker_session=session
    )
    return json.loads(pipeline.definition())


def step_in(found: dict[str, Any], name: str = "train") -> dict[str, Any]:
    return next(step for step in found["Steps"] if step["Name"] == name)


def sent(arguments: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The body that the queue reads from the step's message, with the values of its variables."""
    given = {key: values.get(json.dumps(it), it) for key, it in arguments.items()}
    return json.loads(read_message(json.dumps(message(arguments=given))).body())


def test_a_step_is_a_callback_step_with_the_request(session):
    step = QueueStep("train", trains(session, epochs="3"), data(), sqs_queue_url=URL, priority=7)
    found = step_in(definition(session, step))
    assert (found["Type"], found["SqsQueueUrl"]) == ("Callback", URL)
    assert found["OutputParameters"] == [{"OutputName": "model", "OutputType": "String"}]
    assert "RetryPolicies" not in found
    assert all(isinstance(value, str) for value in found["Arguments"].values())
    body = sent(found["Arguments"])
    assert body["RoleArn"] == ROLE
    assert body["ResourceConfig"]["InstanceCount"] == 1
    assert body["HyperParameters"]["epochs"].strip('"') == "3"
    assert body["InputDataConfig"][0]["ChannelName"] == "train"
    assert {"Key": "priority", "Value": "7"} in body["Tags"]
    assert body["TrainingJobName"].startswith("weekly-")
    assert body["slotq:callback"]["when_abandoned"] == "cancel"


def test_the_model_is_registered_by_the_step_after_it(session):
    step = QueueStep("train", trains(session), data(), sqs_queue_url=URL)
    register = registers(session, step.outputs["model"])
    found = definition(session, step, register)
    (registered,) = [it for it in found["Steps"] if it["Type"] == "RegisterModel"]
    assert {"Get": "Steps.train.OutputParameters['model']"} in places(registered["Arguments"])


def places(node: Any) -> list[Any]:
    """All values in it."""
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node, *(found for value in inside for found in places(value))]


def test_a_metric_decides_about_a_later_step(session):
    step = QueueStep(
        "train", trains(session), data(), sqs_queue_url=URL, metrics=["validation:accuracy"]
    )
    good = ConditionGreaterThan(left=step.outputs["validation:accuracy"], right=0.9)
    decides = ConditionStep("good", conditions=[good], if_steps=[], else_steps=[])
    found = definition(session, step, decides)
    assert step_in(found)["OutputParameters"][1] == {
        "OutputName": "validation:accuracy",
        "OutputType": "Float",
    }
    (condition,) = step_in(found, "good")["Arguments"]["Conditions"]
    assert condition["LeftValue"] == {"Get": "Steps.train.OutputParameters['validation:accuracy']"}


def test_variables_get_their_values_when_the_pipeline_runs(session):
    count = ParameterInteger("Count", default_value=1)
    bucket = ParameterString("Bucket", default_value="b")
    place = Join(on="/", values=["s3:/", bucket, "out"])
    step = QueueStep(
        "train",
        trains(session, count=count, output=place),
        data(),
        sqs_queue_url=URL,
    )
    found = step_in(definition(session, step, parameters=[count, bucket]))
    get = json.dumps({"Get": "Parameters.Count"})
    join = next(json.dumps(it) for it in found["Arguments"].values() if "Std:Join" in str(it))
    body = sent(found["Arguments"], **{get: "2", join: 's3://b/"},{"'})
    assert body["ResourceConfig"]["InstanceCount"] == 2
    assert body["OutputDataConfig"]["S3OutputPath"] == 's3://b/"},{"'


def test_a_variable_that_is_there_twice_is_one_argument(session):
    text = ParameterString("Text", default_value="x")
    step = QueueStep("train", trains(session, output=text), data(text), sqs_queue_url=URL)
    found = step_in(definition(session, step, parameters=[text]))
    assert [*found["Arguments"].values()].count({"Get": "Parameters.Text"}) == 1


def test_the_step_waits_for_those_whose_outputs_it_uses(session):
    first = QueueStep("first", trains(session), data(), sqs_queue_url=URL)
    then = QueueStep("then", trains(session), data(first.outputs["model"]), sqs_queue_url=URL)
    pipeline = Pipeline("weekly", steps=[then, first], sagemaker_session=session)
    found = json.loads(pipeline.definition())
    assert {"Get": "Steps.first.OutputParameters['model']"} in [
        *step_in(found, "then")["Arguments"].values()
    ]


def test_the_same_step_has_the_same_arguments_so_that_it_is_cached(session):
    def made() -> dict[str, Any]:
        step = QueueStep(
            "train",
            trains(session, b="2", a="1"),
            data(),
            sqs_queue_url=URL,
            cache_config=CacheConfig(enable_caching=True, expire_after="P30D"),
        )
        return step_in(definition(session, step))

    one, other = made(), made()
    assert one == other
    assert one["CacheConfig"] == {"Enabled": True, "ExpireAfter": "P30D"}


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"sqs_queue_url": ""}, "sqs_queue_url", "an operator has set up"),
        ({"when_abandoned": "stop"}, "when_abandoned", "'cancel' or 'continue'"),
        ({"metrics": ["model"]}, "metrics", "none of them 'model'"),
        ({"metrics": ["a", "a"]}, "metrics", "different names"),
        ({"metrics": [f"m{n}" for n in range(50)]}, "metrics", "at most 49"),
        ({"retries": -1}, "retries", "0"),
        ({"priority": 10**9}, "priority", "priority"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(session, changes, field, says):
    with pytest.raises(InvalidRequest, match=says) as error:
        QueueStep("train", trains(session), data(), **{"sqs_queue_url": URL, **changes})
    assert error.value.field == field


@pytest.mark.parametrize("estimator", [None, "s3://a/model.tar.gz", type("E", (), {})()])
def test_what_trains_in_no_pipeline_is_refused(estimator):
    with pytest.raises(InvalidRequest, match=r"PipelineSession\(\)") as error:
        QueueStep("train", estimator, sqs_queue_url=URL)
    assert error.value.field == "estimator"


def test_a_step_can_be_copied(session):
    step = QueueStep("train", trains(session), data(), sqs_queue_url=URL)
    assert copy.copy(step).to_request() == step.to_request()


def test_retry_policies_are_refused_with_the_reason(session):
    policy = StepRetryPolicy(exception_types=[StepExceptionTypeEnum.SERVICE_FAULT], max_attempts=3)
    with pytest.raises(InvalidRequest, match="give retries=N") as error:
        QueueStep("train", trains(session), data(), sqs_queue_url=URL, retry_policies=[policy])
    assert error.value.field == "retry_policies"


def test_a_request_too_large_for_a_message_is_refused_when_it_is_built(session):
    values = {f"h{n}": "x" * 2_400 for n in range(90)}
    step = QueueStep("train", trains(session, **values), data(), sqs_queue_url=URL)
    with pytest.raises(InvalidRequest, match=f"takes {MOST_ARGUMENTS:,}"):
        definition(session, step)


def test_an_unknown_setting_is_a_type_error(session):
    misspelt: dict[str, Any] = {"prority": 1}
    with pytest.raises(TypeError, match="prority"):
        QueueStep("train", trains(session), data(), sqs_queue_url=URL, **misspelt)


def test_the_sdk_is_imported_only_when_a_step_is_used():
    seen = "import sys, slotq.pipelines; print('sagemaker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"


@pytest.fixture
def page(session, tmp_path, monkeypatch):
    """What the page's block for the installed version defines."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trains')")
    iam = boto3.client("iam", region_name="us-east-1")
    iam.create_role(RoleName="VisionPipelines", AssumeRolePolicyDocument="{}")
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(found[VERSION - 2], PAGE.name, "exec"), names)
    return names


def test_the_page_s_pipeline_is_as_it_says(page):
    found = json.loads(page["pipeline"].definition())
    step = step_in(found)
    assert (step["Type"], step["SqsQueueUrl"]) == ("Callback", URL)
    body = json.loads(step["Arguments"]["request"])
    if VERSION == 2:
        assert {"Key": "priority", "Value": "10"} in body["Tags"]
        assert {"Get": "Parameters.Instances"} in [*step["Arguments"].values()]
        assert "Steps.train.OutputParameters['model']" in json.dumps(found)
        assert "Steps.train.OutputParameters['accuracy']" in json.dumps(found)


@pytest.mark.skipif(VERSION == 3, reason="version 3 hashes no code of training steps")
def test_unchanged_code_is_the_same_request_however_often_it_is_built(page, monkeypatch):
    """So Pipelines finds the step in its cache, also tomorrow."""
    one = page["pipeline"].definition()
    monkeypatch.setattr("sagemaker.utils.sagemaker_timestamp", lambda: "2027-01-01-00-00-00-000")
    assert page["pipeline"].definition() == one
    (folder,) = re.findall(r"s3://[^\\\"]*/sourcedir.tar.gz", one)[:1]
    Path("train.py").write_text("print('trains better')")
    assert folder not in page["pipeline"].definition()


def test_a_local_session_that_runs_no_pipelines_is_refused(session):
    if VERSION == 2:
        from sagemaker.local import LocalSession
    else:
        from sagemaker.core.local import LocalSession

    local = LocalSession(session.boto_session)
    with pytest.raises(InvalidRequest, match="LocalPipelineSession") as error:
        QueueStep("train", trains(local), data())
    assert error.value.field == "estimator"


def test_a_local_step_refuses_metrics_that_the_service_would_refuse(session):
    local = local_pipeline_session()(session.boto_session)
    for metrics in (["model"], ["a", "a"]):
        with pytest.raises(InvalidRequest, match="different names, none of them 'model'"):
            QueueStep("train", trains(local), data(), metrics=metrics)


def test_a_local_step_refuses_retry_policies_too(session):
    local = local_pipeline_session()(session.boto_session)
    with pytest.raises(InvalidRequest, match="retries are the queue's"):
        QueueStep("train", trains(local), data(), retry_policies=[1])
