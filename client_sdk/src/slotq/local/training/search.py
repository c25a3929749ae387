"""Search, over the training jobs of the plane.

A property is named by its path in the description (`ResourceConfig.InstanceType`, `Tags.team`).
Numbers and moments are compared as such where both sides are, else as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import eq, ge, gt, le, lt
from typing import Any

from slotq.local.training.request_check import PlaneError
from slotq.local.training.training_job import TrainingJob

_DEFAULT_PAGE = 10
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equals": eq,
    "GreaterThan": gt,
    "GreaterThanOrEqualTo": ge,
    "LessThan": lt,
    "LessThanOrEqualTo": le,
}


def found(jobs: Iterable[TrainingJob], request: Mapping[str, Any]) -> dict[str, Any]:
    """One page of the training jobs that the request's expression lets through. Raises
    PlaneError."""
    records = [_record(job) for job in jobs]
    chosen = [one for one in records if _holds(one, request.get("SearchExpression") or {})]
    by = request.get("SortBy") or "LastModifiedTime"
    chosen = [one for one in chosen if next(_values(one, by), None) is not None]
    chosen.sort(
        key=lambda record: (_comparable(next(_values(record, by))), record["TrainingJobName"]),
        reverse=request.get("SortOrder") != "Ascending",
    )
    token, size = str(request.get("NextToken") or "0"), request.get("MaxResults") or _DEFAULT_PAGE
    if not token.isdecimal():
        raise PlaneError("ValidationException", "Invalid NextToken")
    start = int(token)
    page = chosen[start : start + size]
    answer: dict[str, Any] = {
        "Results": [{"TrainingJob": record} for record in page],
        "TotalHits": {"Value": len(chosen), "Relation": "EqualTo"},
    }
    return answer | ({"NextToken": str(start + size)} if start + size < len(chosen) else {})


def _record(job: TrainingJob) -> dict[str, Any]:
    tags = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    return job.description() | {"Tags": tags}


def _holds(record: Any, expression: Mapping[str, Any]) -> bool:
    """Whether an expression holds. One without filters always does."""
    parts = [
        *(_passes(record, one) for one in expression.get("Filters") or ()),
        *(_nested(record, one) for one in expression.get("NestedFilters") or ()),
        *(_holds(record, one) for one in expression.get("SubExpressions") or ()),
    ]
    return (any if expression.get("Operator") == "Or" else all)(parts) if parts else True


def _nested(record: Any, nested: Mapping[str, Any]) -> bool:
    """Whether one element of a list passes all filters."""
    name = nested["NestedPropertyName"]
    prefix = f"{name}."
    filters = [
        {**one, "Name": one["Name"].removeprefix(prefix)} for one in nested.get("Filters") or ()
    ]
    return any(all(_passes(one, each) for each in filters) for one in _values(record, name))


def _passes(record: Any, wanted: Mapping[str, Any]) -> bool:
    values = [*_values(record, wanted["Name"])]
    operator, value = wanted.get("Operator") or "Equals", str(wanted.get("Value", ""))
    match operator:
        case "Exists" | "NotExists":
            return bool(values) == (operator == "Exists")
        case "NotEquals":
            return not any(_compare(eq, one, value) for one in values)
        case "Contains":
            return any(value.lower() in str(one).lower() for one in values)
        case "In":
            return any(_compare(eq, one, part) for one in values for part in value.split(","))
    return any(_compare(_COMPARED[operator], one, value) for one in values)


def _compare(relation: Callable[[Any, Any], bool], value: Any, wanted: str) -> bool:
    """Compare as moments or numbers where `wanted` is one, else as text."""
    if isinstance(value, datetime):
        try:
            moment = datetime.fromisoformat(wanted)
        except ValueError:
            return False
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return relation(value, zoned)
    try:
        return relation(float(value), float(wanted))
    except (TypeError, ValueError):
        return relation(_as_text(value), wanted)


def _comparable(value: Any) -> tuple[int, Any]:
    """A sort key: moments, then numbers, then texts."""
    if isinstance(value, datetime):
        return 0, value.timestamp()
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (1, value) if is_number else (2, _as_text(value))


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(record: Any, path: str) -> Iterator[Any]:
    """The values at a path, those in lists included."""
    if not path:
        yield from record if isinstance(record, list) else [record]
        return
    if isinstance(record, list):
        for element in record:
            if isinstance(element, Mapping) and element.get("Key") == path:
                yield element.get("Value")
            else:
                yield from _values(element, path)
    elif isinstance(record, Mapping):
        name, _, rest = path.partition(".")
        if name in record:
            yield from _values(record[name], rest)
