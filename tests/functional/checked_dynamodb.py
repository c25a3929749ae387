"""The fault campaign's engine as the account's DynamoDB: ten times as quick as moto, and as exact
as the contract suite holds it. What botocore would refuse to send is refused here, too."""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator

from tests.faults.fake_dynamodb import FakeDynamo

OPERATIONS = {
    "get_item": "GetItem",
    "query": "Query",
    "scan": "Scan",
    "put_item": "PutItem",
    "update_item": "UpdateItem",
    "delete_item": "DeleteItem",
    "transact_write_items": "TransactWriteItems",
}


class CheckedDynamo(FakeDynamo):
    """Checks each request against DynamoDB's description, as a client of boto3 does."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in OPERATIONS:
            return found

        def call(**request: Any) -> dict[str, Any]:
            check(OPERATIONS[name], request)
            answer: dict[str, Any] = found(**request)
            return answer

        return call


def check(operation: str, request: dict[str, Any]) -> None:
    """Raises ParamValidationError."""
    report = ParamValidator().validate(request, _shape(operation))
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


@cache
def _shape(operation: str) -> Any:
    model = botocore.session.get_session().get_service_model("dynamodb")
    return model.operation_model(operation).input_shape
