"""SageMaker's training calls on the plane: by a client like boto3's, and by the JSON protocol."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from slotq.local.training.plane import Plane
from slotq.local.training.request_check import OPERATIONS, NoAnswer, PlaneError


class PlaneClient:
    """The operations that the queue's adapter uses. Raises botocore's own errors.

    SageMakerTraining(queue="queue", clock=clock, make_client=lambda: PlaneClient(plane))
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        return self._call("CreateTrainingJob", request)

    def describe_training_job(self, **request: Any) -> dict[str, Any]:
        return self._call("DescribeTrainingJob", request)

    def stop_training_job(self, **request: Any) -> dict[str, Any]:
        return self._call("StopTrainingJob", request)

    def update_training_job(self, **request: Any) -> dict[str, Any]:
        return self._call("UpdateTrainingJob", request)

    def describe_training_plan(self, **request: Any) -> dict[str, Any]:
        return self._call("DescribeTrainingPlan", request)

    def list_training_jobs(self, **request: Any) -> dict[str, Any]:
        return self._call("ListTrainingJobs", request)

    def delete_training_job(self, **request: Any) -> dict[str, Any]:
        return self._call("DeleteTrainingJob", request)

    def create_processing_job(self, **request: Any) -> dict[str, Any]:
        return self._call("CreateProcessingJob", request)

    def describe_processing_job(self, **request: Any) -> dict[str, Any]:
        return self._call("DescribeProcessingJob", request)

    def stop_processing_job(self, **request: Any) -> dict[str, Any]:
        return self._call("StopProcessingJob", request)

    def list_processing_jobs(self, **request: Any) -> dict[str, Any]:
        return self._call("ListProcessingJobs", request)

    def list_tags(self, **request: Any) -> dict[str, Any]:
        return self._call("ListTags", request)

    def add_tags(self, **request: Any) -> dict[str, Any]:
        return self._call("AddTags", request)

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._plane.handle(operation, request)
        except PlaneError as error:
            said = {
                "Error": {"Code": error.code, "Message": error.message},
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }
            raise ClientError(said, operation) from None
        except NoAnswer as error:
            raise ReadTimeoutError(endpoint_url="the emulator") from error


_TARGET = "SageMaker."
_SEARCHES = re.compile(rb'"Resource"\s*:\s*"TrainingJob"')
_CONTENT = ("Content-Type", "application/x-amz-json-1.1")


def operation_of(environ: dict[str, Any], body: bytes) -> str | None:
    """The plane's operation that a request calls. None for an operation of another service.

    Tag operations count only for training and processing jobs, searches for training jobs.
    """
    operation = str(environ.get("HTTP_X_AMZ_TARGET", "")).removeprefix(_TARGET)
    if operation not in OPERATIONS:
        return None
    if operation == "Search":
        return operation if _SEARCHES.search(body) else None
    own = b":training-job/" in body or b":processing-job/" in body
    return None if operation.endswith("Tags") and not own else operation


def is_sagemaker(environ: dict[str, Any]) -> bool:
    return str(environ.get("HTTP_X_AMZ_TARGET", "")).startswith(_TARGET)


def answer(plane: Plane, operation: str, body: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
    """Status, headers, body. Raises NoAnswer."""
    try:
        request = json.loads(body or b"{}")
        if not isinstance(request, dict):
            raise PlaneError("SerializationException", "the request is not a JSON object")
        said = plane.handle(operation, request)
    except ValueError:
        return _error(PlaneError("SerializationException", "the request is not JSON"))
    except PlaneError as error:
        return _error(error)
    return "200 OK", [_CONTENT], json.dumps(said, default=_timestamp).encode()


def _error(error: PlaneError) -> tuple[str, list[tuple[str, str]], bytes]:
    body = {"__type": error.code, "message": error.message}
    return "400 Bad Request", [_CONTENT], json.dumps(body).encode()


def _timestamp(value: Any) -> float:
    """A value in the protocol's form: seconds since the epoch."""
    if isinstance(value, datetime):
        return round(value.timestamp(), 3)
    raise TypeError(f"{type(value).__name__} cannot be part of an answer")
