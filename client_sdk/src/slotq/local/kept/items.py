"""The items of a DynamoDB table, in the JSON of its protocol."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

Item = dict[str, Any]


def saved(dynamodb: Any, table: str) -> list[Item]:
    pages = dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
    return [_as_text(item) for page in pages for item in page["Items"]]


def restore(dynamodb: Any, table: str, items: Iterable[Item]) -> None:
    for item in items:
        dynamodb.put_item(TableName=table, Item=_as_bytes(item))


def _as_text(value: Any) -> Any:
    """Bytes as {"base64": …}. No attribute value has this form."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _as_text(member) for key, member in value.items()}
    return [_as_text(member) for member in value] if isinstance(value, list) else value


def _as_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"base64"} and isinstance(value["base64"], str):
            return base64.b64decode(value["base64"])
        return {key: _as_bytes(member) for key, member in value.items()}
    return [_as_bytes(member) for member in value] if isinstance(value, list) else value
