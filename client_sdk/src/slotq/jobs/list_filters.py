"""The filters of ListTrainingJobs, but for the status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.utils import parse_to_aware_datetime

_ALWAYS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def is_listed(name: str, times: Mapping[str, datetime], request: Mapping[str, Any]) -> bool:
    """Whether the request's filters let a training job through.

    `times`: its CreationTime and LastModifiedTime.
    """
    if str(request.get("NameContains") or "").lower() not in name.lower():
        return False
    return all(
        _limit(request, f"{key}After", _ALWAYS[0])
        <= moment
        <= _limit(request, f"{key}Before", _ALWAYS[1])
        for key, moment in times.items()
    )


def _limit(request: Mapping[str, Any], key: str, absent: datetime) -> datetime:
    given = request.get(key)
    return absent if given is None else parse_to_aware_datetime(given)
