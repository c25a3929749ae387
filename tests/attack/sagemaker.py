"""SageMaker's refusals, which quote the request."""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ClientError, ParamValidationError
from botocore.validate import ParamValidator

from slotq.local.services.training_service import PlaneClient


@cache
def _shape(operation: str) -> Any:
    model = botocore.session.get_session().get_service_model("sagemaker")
    return model.operation_model(operation).input_shape


class StrictClient(PlaneClient):
    """The plane behind botocore's own validation, as with a real client."""

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        report = ParamValidator().validate(request, _shape(operation))
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())
        return super()._call(operation, request)


class QuotingClient(StrictClient):
    """Refuses each create with certain values, in SageMaker's validation message, which quotes the
    value."""

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        told = [
            f"Value '{{{', '.join(f'{key}={value}' for key, value in request[field].items())}}}' "
            f"at '{field[0].lower()}{field[1:]}' failed to satisfy constraint: Map value must "
            "satisfy constraint: [Member must have length less than or equal to 512]"
            for field in ("Environment", "HyperParameters")
            if request.get(field)
        ]
        if not told:
            return super().create_training_job(**request)
        text = f"{len(told)} validation errors detected: {'; '.join(told)}"
        error = {"Code": "ValidationException", "Message": text}
        raise ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Create")
