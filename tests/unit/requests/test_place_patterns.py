"""Where jobs may write: whole parts of paths, and every field that makes SageMaker write."""

from __future__ import annotations

import pytest

from slotq_core.wire.training import place_patterns
from slotq_core.wire.training.place_patterns import is_pattern, lies_in, written
from slotq_core.wire.training.training_fields import STRUCTURES
from tests.least_request import least_request


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("s3://b/team-a", "s3://b/team-a"),
        ("s3://b/team-a/", "s3://b/team-a"),
        ("s3://b/team-a", "s3://b/team-a/"),
        ("s3://b/team-a", "s3://b/team-a/job/out"),
        ("s3://b", "s3://b/any/where"),
        ("s3://b-*/team-a", "s3://b-east/team-a/x"),
        ("s3://b/*/out", "s3://b/ada/out/x"),
        ("s3://b/team-a", "s3://b/team-a//x"),
        ("fs-0123/team-a", "fs-0123/team-a/x"),
        ("fs-0123", "fs-0123/team-a"),
        (
            "arn:aws:sagemaker:*:1:model-package-group/a-*",
            "arn:aws:sagemaker:x:1:model-package-group/a-1",
        ),
    ],
)
def test_allowed(pattern: str, place: str):
    assert is_pattern(pattern)
    assert lies_in(pattern, place)


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("s3://b/team-a", "s3://b/team-ab"),
        ("s3://b/team-a", "s3://b/team-a/../team-b"),
        ("s3://b/team-a", "s3://b/team-a/./../team-b"),
        ("s3://b/team-a", "s3://b/team-a/%2e%2e/team-b"),
        ("s3://b/team-a", "s3://b/team-a/%2E%2E%2Fteam-b"),
        ("s3://b/team-a", "s3://b/team-a\\..\\team-b"),
        ("s3://b/team-a", "s3://b/team-a/\x00"),
        ("s3://b/team-a", "s3://b//team-a"),
        ("s3://b/team-a", "s3://b/Team-A"),
        ("s3://b/team-a", "S3://b/team-a"),
        ("s3://b/team-a", "s3://B/team-a"),
        ("s3://b/team-a", " s3://b/team-a"),
        ("s3://b/team-a", "s3://b/team-a /x"),
        ("s3://b/team-a", "s3://b/team-\u0430"),
        ("s3://b/team-a", "s3://b/team-a\u0301"),
        ("s3://b/team-a", "s3://b@evil/team-a"),
        ("s3://b/team-a", "s3://b.evil/team-a"),
        ("s3://b/team-a", "https://b/team-a"),
        ("s3://b/team-a", "https://s3.amazonaws.com/b/team-a"),
        ("s3://b/team-a", "s3://b"),
        ("s3://b/team-a", "s3://b?/team-a"),
        ("s3://b/team-a", "b/team-a"),
        ("s3://b/team-a", "s3a://b/team-a"),
        ("s3://*/team-a", "s3://evil/x/team-a"),
        ("s3://b/*/out", "s3://b/a/b/out"),
        ("s3://b/team-a", "arn:aws:s3:::b/team-a"),
        ("fs-0123/team-a", "fs-0124/team-a"),
        ("fs-*", "s3://fs-1"),
        ("s3://b", ""),
    ],
)
def test_refused(pattern: str, place: str):
    assert not lies_in(pattern, place)


@pytest.mark.parametrize(
    "text", ["s3://", "b/team-a", "https://b", "s3://b/../c", "s3://b//c", "s3://b/c d", "*", "fs"]
)
def test_no_patterns(text: str):
    assert not is_pattern(text)


READ_ONLY = {
    "Channel.DataSource": "inputs",
    "DataSource.S3DataSource": "inputs",
    "S3DataSource.S3Uri": "an input",
    "S3DataSource.HubAccessConfig": "an input",
    "HubAccessConfig.HubContentArn": "an input",
    "DatasetSource.DatasetArn": "an input",
    "ResourceConfig.TrainingPlanArn": "capacity",
    "InstancePreference.TrainingPlanArns": "capacity",
    "ServerlessJobConfig.BaseModelArn": "an input",
    "ServerlessJobConfig.EvaluatorArn": "runs, and writes to OutputDataConfig",
    "ModelPackageConfig.SourceModelPackageArn": "an input",
    "CreateTrainingJobRequest.RoleArn": "the role",
    "TrainingRepositoryAuthConfig.TrainingRepositoryCredentialsProviderArn": "credentials",
    "FileSystemDataSource.FileSystemId": "see MOUNTED",
    "FileSystemDataSource.DirectoryPath": "see MOUNTED",
}
"""Fields that name a place or a resource and are not written to."""


def test_every_field_that_names_a_place_is_known():
    """A release of botocore with another such field fails here: somebody has to decide."""
    known = {path.replace("[]", "") for path in (*place_patterns.BY_URI, *place_patterns.BY_ARN)}
    found = {
        f"{structure}.{field}"
        for structure, fields in STRUCTURES.items()
        for field in fields
        if field.endswith(("Arn", "Arns", "Uri", "Path", "FileSystemId", "DirectoryPath"))
        and not field.endswith("LocalPath")
    }
    tops = STRUCTURES["CreateTrainingJobRequest"]
    covered = {
        f"{tops[path.split('.')[0]].removeprefix('list ')}.{path.split('.')[1]}" for path in known
    }
    assert found - covered - READ_ONLY.keys() == set()
    assert covered <= found


def test_written_fields_of_a_request():
    request = least_request(
        "j",
        CheckpointConfig={"S3Uri": "s3://b/1"},
        DebugHookConfig={"S3OutputPath": "s3://b/2"},
        DebugRuleConfigurations=[{"RuleConfigurationName": "r"}, {"S3OutputPath": "s3://b/3"}],
        TensorBoardOutputConfig={"S3OutputPath": "s3://b/4"},
        ProfilerConfig={"S3OutputPath": "s3://b/5"},
        ProfilerRuleConfigurations=[{"S3OutputPath": "s3://b/6"}],
        ModelPackageConfig={"ModelPackageGroupArn": "arn:7"},
        MlflowConfig={"MlflowResourceArn": "arn:8"},
        InputDataConfig=[
            {"DataSource": {"S3DataSource": {"S3Uri": "s3://inputs"}}},
            {
                "DataSource": {
                    "FileSystemDataSource": {
                        "FileSystemId": "fs-1",
                        "FileSystemAccessMode": "rw",
                        "DirectoryPath": "/x/",
                    }
                }
            },
            {
                "DataSource": {
                    "FileSystemDataSource": {
                        "FileSystemId": "fs-2",
                        "FileSystemAccessMode": "ro",
                        "DirectoryPath": "/x",
                    }
                }
            },
        ],
    )
    assert dict(written(request)) == {
        "OutputDataConfig.S3OutputPath": "s3://bucket/out",
        "CheckpointConfig.S3Uri": "s3://b/1",
        "DebugHookConfig.S3OutputPath": "s3://b/2",
        "DebugRuleConfigurations.1.S3OutputPath": "s3://b/3",
        "TensorBoardOutputConfig.S3OutputPath": "s3://b/4",
        "ProfilerConfig.S3OutputPath": "s3://b/5",
        "ProfilerRuleConfigurations.0.S3OutputPath": "s3://b/6",
        "ModelPackageConfig.ModelPackageGroupArn": "arn:7",
        "MlflowConfig.MlflowResourceArn": "arn:8",
        "InputDataConfig.1.DataSource.FileSystemDataSource.DirectoryPath": "fs-1/x",
    }
