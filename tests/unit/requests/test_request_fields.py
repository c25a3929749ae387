"""Fields in a configuration document are checked against SageMaker's structure."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.errors import InvalidRequest
from slotq_core.model.projects import Prescription
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import written

POOL = {"name": "p5", "capacity": 2, "instance_type": "ml.p5.48xlarge"}
ROLE = "arn:aws:iam::123456789012:role/trainer"


def document(requests: Any, **project: Any) -> dict[str, Any]:
    return {"pools": [POOL], "projects": [{"name": "a", "requests": requests, **project}]}


def faults(requests: Any, **project: Any) -> dict[str, str]:
    """The faults, by path within `requests`."""
    with pytest.raises(InvalidRequest) as refused:
        read(document(requests, **project))
    lead = "projects[0].requests."
    return {path.removeprefix(lead): message for path, message in refused.value.faults}


WELL = {
    "defaults": {
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://b/a"},
        "StoppingCondition.MaxRuntimeInSeconds": 3600,
        "ResourceConfig.KeepAlivePeriodInSeconds": 60,
        "Environment": {"A": "b"},
        "Tags": [{"Key": "stage", "Value": "dev"}],
    },
    "fixed": {
        "VpcConfig": {"Subnets": ["s"], "SecurityGroupIds": ["g"]},
        "EnableNetworkIsolation": True,
        "ResourceConfig.VolumeKmsKeyId": "k",
        "OutputDataConfig.KmsKeyId": "k",
        "Tags": [{"Key": "cost-center", "Value": "42"}],
    },
    "images": ["host/team-a:2.*", "arn:aws:sagemaker:*:1:algorithm/*"],
    "outputs": ["s3://b/team-*", "fs-1/a", "arn:aws:sagemaker:*:model-package-group/a"],
    "instance_types": {"interactive": ["ml.g5.*"]},
    "approval": True,
}


def test_what_a_project_may_prescribe_is_kept_as_it_stands():
    settings = read(document(WELL, admins=[ROLE]))
    kept = settings.sharing.projects[0].requests
    assert kept == Prescription(
        **{key: value for key, value in WELL.items() if key in {"defaults", "fixed", "approval"}},
        images=tuple(WELL["images"]),
        outputs=tuple(WELL["outputs"]),
        instance_types={"interactive": ("ml.g5.*",)},
    )
    assert written(settings)["projects"][0]["requests"] == WELL


@pytest.mark.parametrize(
    ("field", "value", "path", "message"),
    [
        ("RoleArm", "x", "RoleArm", "did you mean RoleArn?"),
        ("rolearn", "x", "rolearn", "did you mean RoleArn?"),
        ("VolumeKmsKeyId", "x", "VolumeKmsKeyId", "write ResourceConfig.VolumeKmsKeyId"),
        (
            "MaxRuntimeInSeconds",
            1,
            "MaxRuntimeInSeconds",
            "write StoppingCondition.MaxRuntimeInSeconds",
        ),
        (
            "OutputDataConfig.KmsKey",
            "x",
            "OutputDataConfig.KmsKey",
            "did you mean OutputDataConfig.KmsKeyId?",
        ),
        ("VpcConfig.", "x", "VpcConfig.", "no such field"),
        ("Tags.0.Key", "x", "Tags.0.Key", "no such field"),
        ("Environment.A", "x", "Environment.A", "no such field"),
        ("TrainingJobName", "x", "TrainingJobName", "a name of its own"),
        ("ResourceConfig", {}, "ResourceConfig", "ResourceConfig.VolumeKmsKeyId"),
        ("ResourceConfig.InstanceType", "x", "ResourceConfig.InstanceType", "the pools decide"),
        ("ResourceConfig.InstanceGroups", [], "ResourceConfig.InstanceGroups", "the pools decide"),
        (
            "EnableNetworkIsolation",
            "yes",
            "EnableNetworkIsolation",
            "must be true or false, not a text",
        ),
        ("EnableNetworkIsolation", 1, "EnableNetworkIsolation", "must be true or false"),
        ("RoleArn", None, "RoleArn", "must be a text, not null"),
        (
            "StoppingCondition.MaxRuntimeInSeconds",
            "60",
            "StoppingCondition.MaxRuntimeInSeconds",
            "whole number",
        ),
        ("VpcConfig", {"Subnets": ["s"]}, "VpcConfig.SecurityGroupIds", "is required"),
        (
            "VpcConfig",
            {"Subnets": "s", "SecurityGroupIds": []},
            "VpcConfig.Subnets",
            "must be a list",
        ),
        (
            "VpcConfig",
            {"Subnets": [], "SecurityGroupIds": [], "X": 1},
            "VpcConfig.X",
            "is not a field",
        ),
        ("Tags", {"a": "b"}, "Tags", "must be a list"),
        ("Tags", [{"Key": "slotq:project", "Value": "x"}], "Tags[0].Key", "cannot set the tag"),
        ("Tags", [{"Key": "SlotQ:x", "Value": "x"}], "Tags[0].Key", "cannot set the tag"),
        ("Tags", [{"Key": "priority", "Value": "9"}], "Tags[0].Key", "cannot set the tag"),
        ("Tags", [{"Key": "aws:x", "Value": "9"}], "Tags[0].Key", "cannot set the tag"),
        ("Tags", [{"Key": "a", "Value": "1,2"}], "Tags[0].Value", "letters, digits"),
        ("Tags", [{"Key": "a" * 129, "Value": "1"}], "Tags[0].Key", "1 to 128"),
        ("Tags", [{"Key": "a", "Value": "1"}] * 2, "Tags[1].Key", "occurs twice"),
        ("Tags", [{"Key": f"a{n}", "Value": "1"} for n in range(45)], "Tags", "at most 44"),
        ("Environment", {"A": "x" * 30_000}, "", "at most 20,000 characters"),
    ],
)
@pytest.mark.parametrize("name", ["defaults", "fixed"])
def test_a_field_that_sagemaker_does_not_have_or_take(
    name: str, field: str, value: Any, path: str, message: str
):
    found = faults({name: {field: value}})
    where = f"{name}.{path}" if path and not path.startswith("[") else name
    assert message in found[where], found


@pytest.mark.parametrize(
    ("requests", "path", "message"),
    [
        (
            {
                "fixed": {
                    "VpcConfig": {"Subnets": [], "SecurityGroupIds": []},
                    "VpcConfig.Subnets": [],
                }
            },
            "fixed.VpcConfig.Subnets",
            "'VpcConfig' is given too",
        ),
        (
            {"fixed": {"RoleArn": ROLE}, "defaults": {"RoleArn": ROLE}},
            "defaults.RoleArn",
            "it is fixed",
        ),
        (
            {
                "fixed": {"OutputDataConfig": {"S3OutputPath": "s3://b"}},
                "defaults": {"OutputDataConfig.KmsKeyId": "k"},
            },
            "defaults.OutputDataConfig.KmsKeyId",
            "it is fixed",
        ),
        (
            {
                "fixed": {"Tags": [{"Key": "a", "Value": "1"}]},
                "defaults": {"Tags": [{"Key": "a", "Value": "2"}]},
            },
            "defaults.Tags[0].Key",
            "the tag 'a' is fixed",
        ),
        (
            {"fixed": {"RoleArn": ROLE}, "roles": ["arn:aws:iam::1:role/other"]},
            "fixed.RoleArn",
            "do not allow",
        ),
        ({"images": ["host/x@sha256:1@2"]}, "images[0]", "a repository"),
        ({"outputs": ["bucket/x"]}, "outputs[0]", "s3://bucket/path"),
        ({"outputs": ["s3://b", "s3://b/../c"]}, "outputs[1]", "without dots"),
        ({"pools": ["p6"]}, "pools[0]", "there is no pool 'p6'"),
        ({"instance_types": {"batch": ["x"]}}, "instance_types.batch.[key]", "one of"),
        ({"approval": True}, "approval", "name admins"),
        ({"waiting": -1}, "waiting", "whole number"),
        ({"outputs": ["s3://" + "x" * 600]}, "outputs[0]", "512 characters"),
    ],
)
def test_a_prescription_that_contradicts_itself(requests: dict[str, Any], path: str, message: str):
    assert message in faults(requests)[path]
