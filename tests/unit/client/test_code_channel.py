"""The channel that carries the code follows the instance groups of a heterogeneous job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotq.federated.app_folder import app_in, with_code
from slotq.packaging.command_job import CHANNEL, with_code_channel


def channel(name: str, *groups: str) -> dict[str, Any]:
    source: dict[str, Any] = {"S3DataType": "S3Prefix", "S3Uri": f"s3://b/{name}"}
    if groups:
        source["InstanceGroupNames"] = list(groups)
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


FILES = {
    "ChannelName": "shared",
    "DataSource": {"FileSystemDataSource": {"FileSystemId": "fs-1", "DirectoryPath": "/a"}},
}
GROUPS = {
    "VolumeSizeInGB": 10,
    "InstanceGroups": [
        {"InstanceGroupName": name, "InstanceType": "ml.m5.large", "InstanceCount": 1}
        for name in ("gpu", "cpu", "data")
    ],
}
ALIKE = {"VolumeSizeInGB": 10, "InstanceType": "ml.m5.large", "InstanceCount": 1}
CASES: list[tuple[str, dict[str, Any], list[dict[str, Any]], list[str] | None]] = [
    ("one names a group", GROUPS, [channel("a", "gpu")], ["gpu", "cpu", "data"]),
    ("the last names some", GROUPS, [FILES, channel("b", "cpu", "gpu")], ["gpu", "cpu", "data"]),
    ("none names a group", GROUPS, [channel("a"), FILES], None),
    ("there is no other channel", GROUPS, [], None),
    ("the instances are alike", ALIKE, [channel("a")], None),
]


def groups_of(request: dict[str, Any]) -> list[str] | None:
    """The groups that the code goes to."""
    first = request["InputDataConfig"][0]
    assert first["ChannelName"] == CHANNEL
    named: list[str] | None = first["DataSource"]["S3DataSource"].get("InstanceGroupNames")
    return named


@pytest.mark.parametrize(
    ("sentence", "resources", "channels", "groups"), CASES, ids=[case[0] for case in CASES]
)
def test_the_code_goes_to_every_group_where_another_channel_names_one(
    sentence: str,
    resources: dict[str, Any],
    channels: list[dict[str, Any]],
    groups: list[str] | None,
    tmp_path: Path,
) -> None:
    request = {"ResourceConfig": resources, "InputDataConfig": channels}
    made = with_code_channel(request, "s3://b/code/")
    assert groups_of(made) == groups, sentence
    assert made["InputDataConfig"][1:] == channels
    (tmp_path / "app/source").mkdir(parents=True)
    (tmp_path / "app/source/train.py").write_text("")
    algorithm = {"TrainingImage": "i", "ContainerEntrypoint": ["python3", "train.py"]}
    (tmp_path / "app/job.json").write_text(
        json.dumps({"AlgorithmSpecification": algorithm, **request})
    )
    app = app_in(tmp_path / "app")
    of_app = with_code(app, dict(app.template), "s3://b/out")
    assert groups_of(of_app) == groups, sentence
    assert of_app["InputDataConfig"][1:] == channels
