"""Fakes of CloudWatch logs, S3 and SageMaker, with what the commands use of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

REQUEST: dict[str, Any] = {
    "TrainingJobName": "job1",
    "AlgorithmSpecification": {"TrainingImage": "train:1", "TrainingInputMode": "File"},
    "RoleArn": "arn:aws:iam::123456789012:role/trainer",
    "OutputDataConfig": {"S3OutputPath": "s3://out"},
    "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
}
"""The smallest request that SageMaker takes."""


def refused(operation: str, code: str = "AccessDenied") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": f"{code} in a test"}}, operation)


def make_default_bucket() -> None:
    """The bucket that SageMaker's SDK takes where none is named, in moto's account."""
    boto3.client("s3").create_bucket(
        Bucket="sagemaker-eu-west-1-123456789012",
        CreateBucketConfiguration={"LocationConstraint": "eu-west-1"},
    )


class FakeLogs:
    """One stream for each training job. Each read returns what is new, in pages of `page` lines,
    each after an empty one: as CloudWatch may. So does a read of the last lines. `reads` counts."""

    def __init__(self, lines: Mapping[str, list[str]] | None = None, *, page: int = 10_000) -> None:
        self.lines = dict(lines or {})
        self.trouble: Exception | None = None
        self.reads = 0
        self._page = page

    def get_paginator(self, _: str) -> FakeLogs:
        return self

    def paginate(self, *, logGroupName: str, logStreamNamePrefix: str) -> list[Any]:  # noqa: N803
        if self.trouble is not None:
            raise self.trouble
        if logStreamNamePrefix.rstrip("/") not in self.lines:
            raise refused("DescribeLogStreams", "ResourceNotFoundException")
        return [{"logStreams": [{"logStreamName": f"{logStreamNamePrefix}algo-1-1700"}]}]

    def get_log_events(
        self,
        *,
        logStreamName: str,  # noqa: N803
        nextToken: str = "",  # noqa: N803
        startFromHead: bool = True,  # noqa: N803
        limit: int = 10_000,
        **_: Any,
    ) -> dict[str, Any]:
        lines = self.lines[logStreamName.split("/", maxsplit=1)[0]]
        self.reads += 1
        if not startFromHead:
            return {
                "events": [{"message": line} for line in lines[-limit:]] if nextToken else [],
                "nextForwardToken": f"{len(lines)}",
                "nextBackwardToken": "back",
            }
        start, empty = int(nextToken.strip("+") or 0), not nextToken.endswith("+")
        if start == len(lines) or empty:
            return {"events": [], "nextForwardToken": f"{start}+"}
        page = lines[start : start + self._page]
        return {
            "events": [{"message": line} for line in page],
            "nextForwardToken": f"{start + len(page)}",
        }


class FakeS3:
    """Keeps uploaded objects by URI."""

    def __init__(self, *, trouble: Exception | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self.trouble = trouble

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803
        if self.trouble is not None:
            raise self.trouble
        self.objects[f"s3://{Bucket}/{Key}"] = Body


class FakeSageMaker:
    """Knows the names of training jobs, and records who asks for one."""

    def __init__(self, *names: str, trouble: Exception | None = None) -> None:
        self.names = names
        self.trouble = trouble
        self.asked: list[str] = []

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803
        self.asked.append(TrainingJobName)
        if self.trouble is not None:
            raise self.trouble
        if TrainingJobName not in self.names:
            raise refused("DescribeTrainingJob", "ValidationException")
        return {"TrainingJobName": TrainingJobName}

    def _list(self, **_: Any) -> dict[str, Any]:
        """Nothing is in progress."""
        if self.trouble is not None:
            raise self.trouble
        return {}

    list_training_jobs = list_processing_jobs = list_transform_jobs = _list
    list_hyper_parameter_tuning_jobs = list_auto_ml_jobs = _list


class FakeServices:
    """The fakes as `App.aws`, by service name."""

    def __init__(
        self,
        logs: FakeLogs | None = None,
        s3: FakeS3 | None = None,
        sagemaker: FakeSageMaker | None = None,
    ) -> None:
        self._clients = {
            "logs": logs or FakeLogs(),
            "s3": s3 or FakeS3(),
            "sagemaker": sagemaker or FakeSageMaker(),
        }
        self.made: list[tuple[str, bool]] = []
        """Each client that was made, and whether it is a quick one."""

    def __call__(self, _queue: Any, service: str, *, quick: bool = False) -> Any:
        self.made.append((service, quick))
        return self._clients[service]
