"""Search over the training jobs of the plane."""

from __future__ import annotations

from typing import Any

import pytest

from slotq.local.services.training_service import operation_of
from slotq.local.training.request_check import PlaneError
from slotq.local.training.virtual_runner import Work
from tests.unit.local.test_plane import SECOND, World, request


@pytest.fixture(scope="module")
def world() -> World:
    """Four training jobs, a second apart: `b` has failed, `d` still runs."""
    works = {name: Work(runtime=SECOND // 2) for name in "abc"}
    world = World({**works, "b": Work(runtime=SECOND // 2, exit_code=1)}, start_seconds=0)
    for number, name in enumerate("abcd"):
        world.create(
            name,
            Tags=[{"Key": "team", "Value": "vision" if name < "c" else "speech"}],
            HyperParameters={"depth": str(10 + number)},
            InputDataConfig=[_channel("train", name), _channel("test", "x")],
        )
        world.until(number + 1)
    return world


def _channel(name: str, where: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{where}"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def search(world: World, *filters: dict[str, Any], **asked: Any) -> str:
    """The names that are found, in order."""
    expression = {"Filters": [*filters]} if filters else None
    given = {"SearchExpression": expression} if expression else {}
    answer = world.plane.handle("Search", {"Resource": "TrainingJob", **given, **asked})
    return "".join(result["TrainingJob"]["TrainingJobName"] for result in answer["Results"])


def by(name: str, operator: str = "", value: str | None = None) -> dict[str, Any]:
    given = {"Name": name} | ({"Operator": operator} if operator else {})
    return given if value is None else given | {"Value": value}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], "dcba"),
        ([by("TrainingJobStatus", value="Completed")], "ca"),
        ([by("TrainingJobStatus", "NotEquals", "Completed")], "db"),
        ([by("Tags.team", "Equals", "vision")], "ba"),
        ([by("Tags.team", "Equals", "vision"), by("FailureReason", "Exists")], "b"),
        ([by("FailureReason", "NotExists")], "dca"),
        ([by("HyperParameters.depth", "GreaterThan", "10")], "dcb"),
        ([by("HyperParameters.depth", "GreaterThanOrEqualTo", "12")], "dc"),
        ([by("HyperParameters.depth", "LessThan", "11")], "a"),
        ([by("HyperParameters.depth", "LessThanOrEqualTo", "11")], "ba"),
        ([by("TrainingJobName", "In", "a,d")], "da"),
        ([by("ResourceConfig.InstanceType", "Contains", "M5")], "dcba"),
        ([by("EnableNetworkIsolation", "Equals", "false")], "dcba"),
        ([by("CreationTime", "GreaterThanOrEqualTo", "1970-01-01T00:00:02")], "dc"),
        ([by("CreationTime", "LessThan", "not a moment")], ""),
        ([by("InputDataConfig.ChannelName", "Equals", "test")], "dcba"),
        ([by("NoSuchProperty", "Equals", "x")], ""),
    ],
)
def test_filters(world: World, filters: list[dict[str, Any]], expected: str) -> None:
    assert search(world, *filters) == expected


def test_expressions_are_nested_and_joined(world: World) -> None:
    either = {
        "Operator": "Or",
        "Filters": [by("TrainingJobName", "Equals", "a"), by("TrainingJobName", "Equals", "d")],
    }
    speech = {"SubExpressions": [either], "Filters": [by("Tags.team", "Equals", "speech")]}
    assert search(world, SearchExpression=either) == "da"
    assert search(world, SearchExpression=speech) == "d"


def test_nested_filters_are_about_one_element(world: World) -> None:
    def of_channel(name: str) -> str:
        uri = by("InputDataConfig.DataSource.S3DataSource.S3Uri", "Equals", "s3://b")
        filters = [by("InputDataConfig.ChannelName", "Equals", name), uri]
        nested = [{"NestedPropertyName": "InputDataConfig", "Filters": filters}]
        return search(world, SearchExpression={"NestedFilters": nested})

    assert of_channel("train") == "b"
    assert of_channel("test") == ""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"SortBy": "TrainingJobName", "SortOrder": "Ascending"}, "abcd"),
        ({"SortBy": "HyperParameters.depth"}, "dcba"),
        ({"SortBy": "TrainingEndTime"}, "cba"),
        ({"SortBy": "FailureReason"}, "b"),
        ({"MaxResults": 3}, "dcb"),
    ],
)
def test_order_and_size(world: World, asked: dict[str, Any], expected: str) -> None:
    assert search(world, **asked) == expected


def test_pages(world: World) -> None:
    asked = {"Resource": "TrainingJob", "MaxResults": 3}
    first = world.plane.handle("Search", asked)
    assert first["TotalHits"]["Value"] == 4
    second = world.plane.handle("Search", asked | {"NextToken": first["NextToken"]})
    assert len(second["Results"]) == 1
    assert "NextToken" not in second
    with pytest.raises(PlaneError, match="NextToken"):
        world.plane.handle("Search", asked | {"NextToken": "of another call"})


def test_only_searches_of_training_jobs_are_the_planes() -> None:
    target = {"HTTP_X_AMZ_TARGET": "SageMaker.Search"}
    assert operation_of(target, b'{"Resource": "TrainingJob"}') == "Search"
    assert operation_of(target, b'{"Resource":"ModelPackage"}') is None


def test_an_update_is_shown() -> None:
    world = World()
    server = "arn:aws:sagemaker:us-east-1:123456789012:mlflow-app/app-ABCDEFGHIJKL"
    mlflow = {"MlflowResourceArn": server, "MlflowExperimentName": "first"}
    world.plane.handle("CreateTrainingJob", request(MlflowConfig=mlflow))
    config = {"DisableProfiler": True}
    world.plane.handle("UpdateTrainingJob", {"TrainingJobName": "job1", "ProfilerConfig": config})
    shown = world.describe()
    assert shown["ProfilerConfig"] == config
    assert shown["MlflowConfig"] == mlflow
