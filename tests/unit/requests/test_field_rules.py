"""SageMaker's rules between fields: each refuses or warns, and lets pass what is right."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from slotq.local.training.request_check import PlaneError, check
from slotq_core.errors import InvalidRequest
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.training.field_rules import MOST_WARNINGS, RULES, breaches, warnings
from slotq_core.wire.training.training_request import submission_faults

GROUPS = [
    {"InstanceType": "ml.g5.2xlarge", "InstanceCount": 1, "InstanceGroupName": "gpu"},
    {"InstanceType": "ml.m5.large", "InstanceCount": 1, "InstanceGroupName": "cpu"},
]
MIXED = {"VolumeSizeInGB": 10, "InstanceGroups": GROUPS}
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"
FILES = {
    "FileSystemId": "fs-0123456789abcdef0",
    "FileSystemAccessMode": "ro",
    "FileSystemType": "FSxLustre",
    "DirectoryPath": "/fsx/a",
}
VPC = {"Subnets": ["subnet-0a1b2c3d"], "SecurityGroupIds": ["sg-0a1b2c3d"]}


def one(**more: Any) -> dict[str, Any]:
    """A ResourceConfig of one instance."""
    return {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10, **more}


def request(**changes: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "job",
        "RoleArn": "arn:aws:iam::123456789012:role/trainer",
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": one(),
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        **changes,
    }


def s3(name: str = "a", *, kind: str = "S3Prefix", **source: Any) -> dict[str, Any]:
    place = {"S3DataType": kind, "S3Uri": "s3://bucket/data", **source}
    return {"ChannelName": name, "DataSource": {"S3DataSource": place}}


def files(name: str = "a") -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"FileSystemDataSource": FILES}}


def spot(**seconds: int) -> dict[str, Any]:
    return {"EnableManagedSpotTraining": True, "StoppingCondition": seconds}


def debugger_rule(name: str) -> dict[str, Any]:
    return {"RuleConfigurationName": name, "RuleEvaluatorImage": "image"}


def express(bucket: str) -> dict[str, Any]:
    return {"OutputDataConfig": {"S3OutputPath": f"s3://{bucket}/out", "KmsKeyId": "alias/key"}}


WAIT = "StoppingCondition.MaxWaitTimeInSeconds"
NAMES = "InputDataConfig.1.DataSource.S3DataSource.InstanceGroupNames"
INTERVAL = "ProfilerConfig.ProfilingIntervalInMilliseconds"
profiled = lambda ms: {  # noqa: E731
    "ProfilerConfig": {"S3OutputPath": "s3://b/p", "ProfilingIntervalInMilliseconds": ms}
}

PREFERENCES = {
    "VolumeSizeInGB": 10,
    "InstancePreferences": [{"InstanceType": "ml.m5.large", "InstanceCount": 1}],
}
LIMITED = {"StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60}}

REFUSED: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    # the path that the message names, a request that breaks the rule, and one like it that does not
    (
        "ResourceConfig.InstanceType",
        {"ResourceConfig": {"InstanceType": "ml.m5.large", **MIXED}},
        {"ResourceConfig": MIXED},
    ),
    (
        "ResourceConfig.InstanceCount",
        {"ResourceConfig": {"InstanceCount": 2, **MIXED}},
        {"ResourceConfig": MIXED},
    ),
    (
        "EnableManagedSpotTraining",
        {"ResourceConfig": PREFERENCES, "EnableManagedSpotTraining": True, **LIMITED},
        {"ResourceConfig": PREFERENCES},
    ),
    (
        "ResourceConfig.SelectedInstanceType",
        {"ResourceConfig": one(SelectedInstanceType="ml.m5.large")},
        {},
    ),
    (
        WAIT,
        spot(MaxRuntimeInSeconds=3600, MaxWaitTimeInSeconds=3599),
        spot(MaxRuntimeInSeconds=3600, MaxWaitTimeInSeconds=3600),
    ),
    (
        WAIT,
        {**spot(MaxRuntimeInSeconds=1, MaxWaitTimeInSeconds=2), "EnableManagedSpotTraining": False},
        {"EnableManagedSpotTraining": False},
    ),
    (
        "InputDataConfig.0.DataSource",
        {"InputDataConfig": [{"ChannelName": "a", "DataSource": {}}]},
        {"InputDataConfig": [s3()]},
    ),
    (
        "InputDataConfig.0.DataSource",
        {
            "VpcConfig": VPC,
            "InputDataConfig": [
                {**s3(), "DataSource": {**s3()["DataSource"], **files()["DataSource"]}}
            ],
        },
        {"VpcConfig": VPC, "InputDataConfig": [s3(), files("b")]},
    ),
    (
        NAMES,
        {
            "ResourceConfig": MIXED,
            "InputDataConfig": [s3(InstanceGroupNames=["gpu"]), s3("b")],
        },
        {
            "ResourceConfig": MIXED,
            "InputDataConfig": [
                s3(InstanceGroupNames=["gpu"]),
                s3("b", InstanceGroupNames=["cpu"]),
            ],
        },
    ),
    (
        NAMES.replace("1", "0", 1),
        {"ResourceConfig": MIXED, "InputDataConfig": [s3(InstanceGroupNames=["tpu"])]},
        {"ResourceConfig": MIXED, "InputDataConfig": [s3(InstanceGroupNames=["gpu", "cpu"])]},
    ),
    (
        NAMES.replace("1", "0", 1),
        {"InputDataConfig": [s3(InstanceGroupNames=["gpu"])]},
        {"InputDataConfig": [s3()]},
    ),
    (
        "InputDataConfig.0.InputMode",
        {"InputDataConfig": [s3(kind="AugmentedManifestFile")]},
        {"InputDataConfig": [{**s3(kind="AugmentedManifestFile"), "InputMode": "Pipe"}]},
    ),
    ("OutputDataConfig.KmsKeyId", express("b--use1-az4--x-s3"), express("b")),
    (
        "DebugRuleConfigurations.1.RuleConfigurationName",
        {"DebugRuleConfigurations": [debugger_rule("a"), debugger_rule("a")]},
        {"DebugRuleConfigurations": [debugger_rule("a"), debugger_rule("b")]},
    ),
    (INTERVAL, profiled(300), profiled(500)),
    (
        "Tags.1.Key",
        {"Tags": [{"Key": "team", "Value": "a"}, {"Key": "team", "Value": "b"}]},
        {"Tags": [{"Key": "team", "Value": "a"}, {"Key": "Team", "Value": "b"}]},
    ),
]
MISSING: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    (WAIT, spot(MaxRuntimeInSeconds=60), spot(MaxRuntimeInSeconds=60, MaxWaitTimeInSeconds=60)),
    (WAIT, spot(MaxWaitTimeInSeconds=86_399), spot(MaxWaitTimeInSeconds=86_400)),
    (WAIT, {"StoppingCondition": {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 2}}, {}),
    (
        "VpcConfig",
        {"InputDataConfig": [files()]},
        {"InputDataConfig": [files()], "VpcConfig": VPC},
    ),
]
WARNED: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    (
        "ResourceConfig.KeepAlivePeriodInSeconds",
        {"ResourceConfig": {**MIXED, "KeepAlivePeriodInSeconds": 60}},
        {"ResourceConfig": one(KeepAlivePeriodInSeconds=60)},
    ),
    (
        "ResourceConfig.KeepAlivePeriodInSeconds",
        {
            **spot(MaxRuntimeInSeconds=60, MaxWaitTimeInSeconds=60),
            "ResourceConfig": one(KeepAlivePeriodInSeconds=60),
        },
        spot(MaxRuntimeInSeconds=60, MaxWaitTimeInSeconds=60),
    ),
    (
        "ResourceConfig.InstanceGroups.1.InstanceGroupName",
        {"ResourceConfig": {**MIXED, "InstanceGroups": [GROUPS[0], GROUPS[0]]}},
        {"ResourceConfig": MIXED},
    ),
    (
        "EnableManagedSpotTraining",
        {
            **spot(MaxRuntimeInSeconds=60, MaxWaitTimeInSeconds=60),
            "ResourceConfig": one(TrainingPlanArn=PLAN),
        },
        {"ResourceConfig": one(TrainingPlanArn=PLAN)},
    ),
    (
        "ResourceConfig.VolumeKmsKeyId",
        {"ResourceConfig": one(InstanceType="ml.g5.xlarge", VolumeKmsKeyId="key")},
        {"ResourceConfig": one(VolumeKmsKeyId="key")},
    ),
    (
        "InputDataConfig.1.ChannelName",
        {"InputDataConfig": [s3(), s3()]},
        {"InputDataConfig": [s3(), s3("b")]},
    ),
    (
        "InputDataConfig.1.DataSource",
        {
            "VpcConfig": VPC,
            "ResourceConfig": MIXED,
            "InputDataConfig": [s3(InstanceGroupNames=["gpu"]), files("b")],
        },
        {"VpcConfig": VPC, "ResourceConfig": MIXED, "InputDataConfig": [s3(), files("b")]},
    ),
    (
        "InputDataConfig.0.CompressionType",
        {"InputDataConfig": [{**s3(), "CompressionType": "Gzip"}]},
        {"InputDataConfig": [{**s3(), "CompressionType": "Gzip", "InputMode": "Pipe"}]},
    ),
    (
        "InputDataConfig.0.DataSource.S3DataSource.AttributeNames",
        {"InputDataConfig": [s3(AttributeNames=["label"])]},
        {"InputDataConfig": [s3()]},
    ),
    (
        "VpcConfig",
        {
            "AlgorithmSpecification": {
                "TrainingImage": "image",
                "TrainingInputMode": "File",
                "TrainingImageConfig": {"TrainingRepositoryAccessMode": "Vpc"},
            }
        },
        {
            "VpcConfig": VPC,
            "AlgorithmSpecification": {
                "TrainingImage": "image",
                "TrainingInputMode": "File",
                "TrainingImageConfig": {"TrainingRepositoryAccessMode": "Vpc"},
            },
        },
    ),
    (
        "DebugHookConfig.CollectionConfigurations.1.CollectionName",
        {
            "DebugHookConfig": {
                "S3OutputPath": "s3://b/d",
                "CollectionConfigurations": [{"CollectionName": "a"}, {"CollectionName": "a"}],
            }
        },
        {"DebugHookConfig": {"S3OutputPath": "s3://b/d"}},
    ),
]


def broken(given: Mapping[str, Any]) -> list[str]:
    return [path for _, path, _ in breaches(request(**given))]


@pytest.mark.parametrize(("path", "wrong", "right"), [*REFUSED, *MISSING, *WARNED])
def test_a_rule_names_the_field_and_lets_the_right_request_pass(path, wrong, right):
    assert (broken(wrong), broken(right)) == ([path], [])


@pytest.mark.parametrize(("path", "wrong", "right"), REFUSED)
def test_a_certain_breach_is_refused_here_and_by_the_emulators_sagemaker(path, wrong, right):
    with pytest.raises(InvalidRequest) as refused:
        parse_submission(request(**wrong))
    assert path in [found for found, _ in refused.value.faults]
    with pytest.raises(PlaneError, match="1 validation error detected"):
        check("CreateTrainingJob", request(**wrong))
    parse_submission(request(**right))
    check("CreateTrainingJob", request(**right))


@pytest.mark.parametrize(("path", "wrong", "right"), MISSING)
def test_a_field_that_a_project_may_fill_in_leaves_the_request_incomplete(path, wrong, right):
    assert parse_submission(request(**wrong))[0].incomplete
    assert not parse_submission(request(**right))[0].incomplete
    (fault,) = submission_faults(request(**wrong))
    assert (fault.path, fault.lacks) == (path, True)
    with pytest.raises(PlaneError):
        check("CreateTrainingJob", request(**wrong))


@pytest.mark.parametrize(("path", "wrong", "right"), WARNED)
def test_a_doubtful_breach_is_accepted_with_a_warning(path, wrong, right):
    parse_submission(request(**wrong))
    check("CreateTrainingJob", request(**wrong))
    (warned,) = warnings(request(**wrong))
    assert warned.startswith(f"{path}: ") and "(" in warned
    assert not [*warnings(request(**right))]


def test_the_warnings_of_one_request_are_few():
    channels = [{**s3(f"c{n}"), "CompressionType": "Gzip"} for n in range(2_000)]
    assert len([*warnings(request(InputDataConfig=channels))]) == MOST_WARNINGS


def test_each_rule_has_an_example():
    seen = set()
    for _, wrong, _ in (*REFUSED, *MISSING, *WARNED):
        seen |= {rule.breaches for rule, *_ in breaches(request(**wrong))}
    assert seen == {rule.breaches for rule in RULES}


def test_rules_are_asked_only_of_values_of_the_right_types():
    odd = request(InputDataConfig="data", ResourceConfig=one(), StoppingCondition=[])
    assert {fault.path for fault in submission_faults(odd)} == {
        "InputDataConfig",
        "StoppingCondition",
    }


@pytest.mark.parametrize("width", [2, 4])
def test_the_work_is_proportional_to_the_request(width: int):
    """Counted in calls of functions: twice the channels, twice the calls."""

    def calls(channels: int) -> int:
        given = request(
            ResourceConfig=MIXED,
            InputDataConfig=[s3(f"c{n}", InstanceGroupNames=["gpu"]) for n in range(channels)],
            Tags=[{"Key": f"k{n}", "Value": ""} for n in range(channels)],
        )
        made = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal made
            made += event in {"call", "c_call"}

        sys.setprofile(count)
        try:
            assert not [*breaches(given)]
        finally:
            sys.setprofile(None)
        return made

    assert calls(100 * width) - calls(100) == pytest.approx(
        (width - 1) * (calls(200) - calls(100)), rel=0.01
    )
