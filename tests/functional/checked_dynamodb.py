"""The emulator's DynamoDB as the account's. What botocore would refuse to send is refused here,
too."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import botocore.session
from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator

from slotq.local.services.dynamodb import InMemoryDynamo

VALUES = ("Item", "Key", "ExpressionAttributeValues", "ExclusiveStartKey")
"""The parameters that hold attributes' values."""
PLAIN = {"S": str, "N": str, "B": bytes, "BOOL": bool, "NULL": bool}
OPERATIONS = {
    "batch_get_item": "BatchGetItem",
    "get_item": "GetItem",
    "query": "Query",
    "scan": "Scan",
    "put_item": "PutItem",
    "update_item": "UpdateItem",
    "delete_item": "DeleteItem",
    "transact_write_items": "TransactWriteItems",
    "batch_write_item": "BatchWriteItem",
    "describe_table": "DescribeTable",
}


class CheckedDynamo(InMemoryDynamo):
    """Checks each request against DynamoDB's description, as a client of boto3 does."""

    def get_paginator(self, method: str) -> Any:
        def pages(**request: Any) -> Iterator[dict[str, Any]]:
            while True:
                page = getattr(self, method)(**request)
                yield page
                if "LastEvaluatedKey" not in page:
                    return
                request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

        return SimpleNamespace(paginate=pages)

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
    report = ParamValidator().validate(_without_values(request), _shape(operation))
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


@cache
def _shape(operation: str) -> Any:
    model = botocore.session.get_session().get_service_model("dynamodb")
    return model.operation_model(operation).input_shape


def _without_values(request: Any) -> Any:
    """The request with empty maps where values are right beyond doubt. botocore takes ten times as
    long to find that; whatever is in doubt is left for it to judge."""
    if type(request) is not dict:
        return request
    if type(actions := request.get("TransactItems")) is list:
        return {**request, "TransactItems": [_without_values_of(action) for action in actions]}
    right = [name for name in VALUES if name in request and _are_values(request[name])]
    return {**request, **{name: {} for name in right}}


def _without_values_of(action: Any) -> Any:
    """The same of an action of a transaction."""
    if type(action) is not dict:
        return action
    return {kind: _without_values(parameters) for kind, parameters in action.items()}


def _are_values(found: object) -> bool:
    return type(found) is dict and all(
        type(name) is str and _is_value(value) for name, value in found.items()
    )


def _is_value(found: object) -> bool:
    if type(found) is not dict or len(found) != 1:
        return False
    ((kind, value),) = found.items()
    if kind in PLAIN:
        return type(value) is PLAIN[kind]
    if kind == "M":
        return _are_values(value)
    return kind == "L" and type(value) is list and all(map(_is_value, value))
