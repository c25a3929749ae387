"""The plane as a boto3 client, so that the adapter calls it in one process, without HTTP."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from slotq.local.training.call_errors import NoAnswer, PlaneError
from slotq.local.training.plane import Plane


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

    def list_training_jobs(self, **request: Any) -> dict[str, Any]:
        return self._call("ListTrainingJobs", request)

    def delete_training_job(self, **request: Any) -> dict[str, Any]:
        return self._call("DeleteTrainingJob", request)

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
