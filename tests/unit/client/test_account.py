"""`slotq pools --account`: what runs in the account beside the queue, on moto's SageMaker."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore import xform_name
from botocore.stub import Stubber
from moto import mock_aws
from moto.sagemaker.models import sagemaker_backends

from slotq import account
from slotq.account import KINDS, Account
from slotq.cli.exits import ExitCode
from slotq.output.json_views import AccountView
from slotq_core.names import JOB_TAG, QUEUE_TAG
from tests.unit.client.fake_aws import REQUEST
from tests.unit.client.fake_queue import pool_view

ROLE = REQUEST["RoleArn"]
P5, M5 = "ml.p5.48xlarge", "ml.m5.xlarge"
TUNING = "arn:aws:sagemaker:eu-west-1:123456789012:hyper-parameter-tuning-job/t1"


@pytest.fixture
def sagemaker():
    with mock_aws():
        yield boto3.client("sagemaker")


@pytest.fixture
def backend(sagemaker):
    return sagemaker_backends["123456789012"]["eu-west-1"]


@pytest.fixture
def shown(slotq, queue, sagemaker):
    """Runs the command, with SageMaker's client or another."""
    queue.pools = [pool_view("p5"), pool_view("p5-spot"), pool_view("c5", instance_type=M5)]

    def run(*args, client=sagemaker, **world):
        aws = {"aws": lambda queue, service, quick=False: client} | world
        return slotq("pools", *args, world=aws)

    return run


def train(sagemaker, backend, name, **fields):
    """A training job in progress: moto's are born Completed."""
    sagemaker.create_training_job(**REQUEST | {"TrainingJobName": name} | fields)
    backend.training_jobs[name].training_job_status = "InProgress"
    return backend.training_jobs[name]


def process(sagemaker, backend, name, *, instances=1, kind=M5, status="InProgress"):
    cluster = {"InstanceCount": instances, "InstanceType": kind, "VolumeSizeInGB": 30}
    sagemaker.create_processing_job(
        ProcessingJobName=name,
        ProcessingResources={"ClusterConfig": cluster},
        AppSpecification={"ImageUri": "process:1"},
        RoleArn=ROLE,
    )
    made = backend.processing_jobs[name]
    made.processing_job_status = status
    made.processing_resources = {"ClusterConfig": cluster}  # moto forgets them.


def transform(sagemaker, backend, name):
    s3 = {"S3DataType": "S3Prefix", "S3Uri": "s3://in"}
    sagemaker.create_transform_job(
        TransformJobName=name,
        ModelName="m",
        TransformInput={"DataSource": {"S3DataSource": s3}},
        TransformOutput={"S3OutputPath": "s3://out"},
        TransformResources={"InstanceType": P5, "InstanceCount": 2},
    )
    backend.transform_jobs[name].transform_job_status = "InProgress"


def rows(result):
    assert result.exit_code == ExitCode.OK, result.output
    return [line.split() for line in result.stdout.splitlines()[1:]]


@pytest.mark.parametrize("words", [("--account",), ("list", "--account")])
def test_each_kind_is_shown_by_instance_type(shown, sagemaker, backend, words):
    ours = [{"Key": QUEUE_TAG, "Value": "prod"}, {"Key": JOB_TAG, "Value": "ours"}]
    train(sagemaker, backend, "ours", Tags=ours)
    train(sagemaker, backend, "older", Tags=ours[1:])
    train(sagemaker, backend, "past")
    process(sagemaker, backend, "clean", instances=3)
    process(sagemaker, backend, "more", status="Stopping")
    process(sagemaker, backend, "done", status="Completed")
    transform(sagemaker, backend, "predict")
    lines = rows(shown(*words))
    assert lines[:3] == [
        ["training", P5, "1", "1", "p5,", "p5-spot", "past"],
        ["processing", M5, "4", "2", "clean,", "more"],
        ["transform", P5, "2", "1", "predict"],
    ]
    assert [" ".join(line) for line in lines[3:]] == [
        "1 training job of the queue prod: not in the table",
        "1 training job of the queue unnamed: not in the table",
    ]


def test_a_program_gets_each_job(shown, sagemaker, backend):
    train(sagemaker, backend, "past").tuning_job_arn = TUNING
    process(sagemaker, backend, "clean", instances=3)
    view = AccountView.model_validate_json(shown("--account", "--json").stdout)
    kinds = {kind.kind: kind for kind in view.kinds}
    assert [*kinds] == [kind.name for kind in KINDS]
    (trained,), (processed,) = kinds["training"].jobs, kinds["processing"].jobs
    assert (trained.name, trained.instances, trained.started_by) == ("past", {P5: 1}, TUNING)
    assert (processed.status, processed.instances) == ("InProgress", {M5: 3})
    assert all(kind.complete and not kind.problem for kind in view.kinds)
    assert view.training_pools == {P5: ["p5", "p5-spot"], M5: ["c5"]}


def test_what_started_a_job_is_named(shown, sagemaker, backend):
    train(sagemaker, backend, "past").tuning_job_arn = TUNING
    assert rows(shown("--account"))[0][-4:] == ["past", "(tuning", "job", "t1)"]


def test_tuning_jobs_have_no_instances_of_their_own(sagemaker):
    """Their training jobs are listed with their own."""
    now = datetime(2026, 11, 20, tzinfo=UTC)
    counters = {"TrainingJobStatusCounters": {"InProgress": 2}, "ObjectiveStatusCounters": {}}
    row = {
        "HyperParameterTuningJobName": "t1",
        "HyperParameterTuningJobArn": TUNING,
        "HyperParameterTuningJobStatus": "InProgress",
        "Strategy": "Bayesian",
        "CreationTime": now,
        **counters,
    }
    ended = {**row, "HyperParameterTuningJobName": "t0", "HyperParameterTuningJobStatus": "Failed"}
    with Stubber(sagemaker) as stub:
        for kind in KINDS:
            listed = [row, ended] if kind.name == "tuning" else []
            asked = {
                "CreationTimeAfter": now - timedelta(days=90),
                "SortBy": "CreationTime",
                "SortOrder": "Descending",
                "MaxResults": 100,
            }
            operation = xform_name(f"List{kind.noun}s")
            stub.add_response(operation, {f"{kind.noun}Summaries": listed}, asked)
        found = {kind.kind: kind for kind in Account(sagemaker, now=now).kinds()}
        stub.assert_no_pending_responses()
    (tuning,) = found["tuning"].jobs
    assert (tuning.name, tuning.instances) == ("t1", {})
    assert found["tuning"].listed == 2


def test_a_kind_that_may_not_be_read_is_said_and_the_others_are_shown(
    shown, sagemaker, backend, monkeypatch
):
    process(sagemaker, backend, "clean")
    denied = sagemaker.exceptions.ClientError(
        {"Error": {"Code": "AccessDeniedException", "Message": "no right"}}, "ListTrainingJobs"
    )

    def refuse(**_):
        raise denied

    monkeypatch.setattr(sagemaker, "list_training_jobs", refuse)
    result = shown("--account")
    assert rows(result)[0][:2] == ["processing", M5]
    assert result.stdout.splitlines()[-1].startswith("training: An error occurred (AccessDenied")
    view = json.loads(shown("--account", "--json").stdout)
    assert not view["kinds"][0]["complete"]


def test_listing_and_looking_are_bounded_and_say_so(shown, sagemaker, backend, monkeypatch):
    monkeypatch.setattr(account, "MOST_JOBS", 2)
    for n in range(3):
        process(sagemaker, backend, f"clean-{n}")
    looked = shown("--account")
    assert "1 processing job in progress not looked at" in looked.stdout
    monkeypatch.setattr(account, "MOST_PAGES", 1)
    paged = sagemaker.list_processing_jobs

    def first_page(**asked):
        return paged(**asked | {"MaxResults": 2})

    monkeypatch.setattr(sagemaker, "list_processing_jobs", first_page)
    assert "processing: only the newest 2 jobs were listed" in shown("--account").stdout


def test_long_looks_say_how_far_they_are(shown, sagemaker, backend, clock, monkeypatch):
    for n in range(2):
        process(sagemaker, backend, f"clean-{n}")
    describe = sagemaker.describe_processing_job

    def slowly(**asked):
        clock.sleep(5)
        return describe(**asked)

    monkeypatch.setattr(sagemaker, "describe_processing_job", slowly)
    assert "looked at 1 of 2 processing jobs in progress" in shown("--account").stderr


def test_nothing_beside_the_queue(shown):
    result = shown("--account")
    assert result.stdout == "nothing is in progress beside the queue\n"


def test_the_option_goes_with_the_list_alone(shown):
    assert shown("--account", "show", "p5").exit_code == ExitCode.USAGE
