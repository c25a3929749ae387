"""What a project prescribes holds for its processing jobs; what others see of their requests."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from tests.functional.account import Account
from tests.functional.test_prescriptions import ADMIN, VPC, event, share
from tests.functional.test_processing import M5, processing_body

JOB = "processing:clean"
DATA = Pool(name="data", instance_type=M5, capacity=Demand(slots=2), work=WorkKind.PROCESSING)
OUTPUT = {"S3Uri": "s3://bucket/team-b/x", "LocalPath": "/opt/ml/processing/o"}


def submit(account: Account, *, cluster: dict[str, Any] | None = None, **fields: Any) -> Any:
    body = processing_body(**fields, **({"cluster": cluster} if cluster else {}))
    return account.call(event("POST", "/add-job", body=body))


def outputs(**output: Any) -> dict[str, Any]:
    return {
        "Outputs": [
            {"OutputName": "o", "S3Output": {**OUTPUT, "S3UploadMode": "EndOfJob"}, **output}
        ]
    }


def test_fixed_values_reach_the_processing_job(account: Account):
    fixed = {
        "VpcConfig": VPC,
        "OutputDataConfig.KmsKeyId": "key",
        "CheckpointConfig.S3Uri": "s3://bucket/c",
        "ResourceConfig.VolumeKmsKeyId": "volumes",
        "EnableManagedSpotTraining": True,
    }
    share(
        queue_pools=[DATA], fixed=fixed, defaults={"StoppingCondition.MaxPendingTimeInSeconds": 9}
    )
    tags = [{"Key": "slotq:preemptible", "Value": "true"}]  # The project has no quota.
    status, told = submit(account, ProcessingOutputConfig=outputs(), Tags=tags)
    assert status == 202, told
    account.settle()
    assert account.call(event("GET", f"/jobs/{JOB}"))[1]["state"] == "running"
    made = account.plane.handle("DescribeProcessingJob", {"ProcessingJobName": "clean"})
    assert made["NetworkConfig"] == {"EnableNetworkIsolation": True, "VpcConfig": VPC}
    assert made["ProcessingOutputConfig"] == {**outputs(), "KmsKeyId": "key"}
    assert made["ProcessingResources"]["ClusterConfig"]["VolumeKmsKeyId"] == "volumes"
    assert made["StoppingCondition"] == {"MaxRuntimeInSeconds": 7_200}
    assert "CheckpointConfig" not in made


@pytest.mark.parametrize(
    ("rules", "fields"),
    [
        ({"images": ("train:*",)}, {}),
        ({"roles": ("arn:aws:iam::123456789012:role/Other",)}, {}),
        ({"outputs": ("s3://bucket/team-a",)}, {"ProcessingOutputConfig": outputs()}),
        (
            {"outputs": ("s3://bucket/team-b", "fs-0123")},
            {"ProcessingOutputConfig": outputs(FeatureStoreOutput={"FeatureGroupName": "fs-0123"})},
        ),
        (
            {"outputs": ("s3://bucket/team-a",)},
            {
                "ProcessingInputs": [
                    {
                        "InputName": "q",
                        "DatasetDefinition": {
                            "AthenaDatasetDefinition": {
                                "Catalog": "c",
                                "Database": "d",
                                "QueryString": "select",
                                "OutputS3Uri": "s3://bucket/team-b",
                                "OutputFormat": "PARQUET",
                            }
                        },
                    }
                ]
            },
        ),
        (
            {"fixed": {"VpcConfig": VPC}},
            {"NetworkConfig": {"VpcConfig": {**VPC, "Subnets": ["s"]}}},
        ),
        ({"images": ("clean:1",)}, {"NewOutputConfig": {"S3Uri": "s3://elsewhere"}}),
    ],
)
def test_what_the_rules_forbid_is_refused(account: Account, rules: Any, fields: dict[str, Any]):
    share(queue_pools=[DATA], **rules)
    status, told = submit(account, **fields)
    assert (status, told["code"]) == (403, "forbidden_by_project"), told


def test_what_they_allow_is_taken(account: Account):
    share(
        queue_pools=[DATA],
        images=("clean:*",),
        outputs=("s3://bucket/team-b",),
        fixed={"VpcConfig": VPC},
    )
    inputs = [
        {
            "InputName": "raw",
            "S3Input": {
                "S3Uri": "s3://in",
                "LocalPath": "/opt/ml/processing/i",
                "S3DataType": "S3Prefix",
            },
        }
    ]
    status, told = submit(account, ProcessingOutputConfig=outputs(), ProcessingInputs=inputs)
    assert status == 202, told


def test_others_do_not_see_what_may_be_secret(account: Account):
    share(queue_pools=[DATA])
    assert submit(account, Environment={"KEY": "secret"})[0] == 202
    status, told = account.call(event("GET", f"/jobs/{JOB}/request", by=ADMIN))
    assert status == 200
    assert "secret" not in str(told)
    assert "ContainerEntrypoint" not in str(told["request"])
    assert told["request"]["AppSpecification"] == {"ImageUri": "clean:1"}
    assert {"Environment", "AlgorithmSpecification.ContainerEntrypoint"} <= {*told["withheld"]}
