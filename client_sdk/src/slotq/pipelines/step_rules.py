"""What a `QueueStep` refuses, in the service and in a local pipeline session."""

from __future__ import annotations

from collections.abc import Iterable

from slotq.errors import InvalidRequest

MODEL = "model"
"""The output with the S3 URI of the model's artifact."""
MOST_OUTPUTS = 50
"""The most outputs that Pipelines takes from a callback step."""


def metric_names(metrics: Iterable[str] | str) -> list[str]:
    """The metrics that become outputs beside the model. Raises InvalidRequest."""
    names = [metrics] if isinstance(metrics, str) else [*metrics]
    if MODEL in names or len({*names}) < len(names) or len(names) >= MOST_OUTPUTS:
        raise InvalidRequest(
            f"metrics are at most {MOST_OUTPUTS - 1} different names, none of them '{MODEL}'",
            field="metrics",
        )
    return names


def refuse_retries(retry_policies: object) -> None:
    """Raises InvalidRequest if there are any."""
    if retry_policies:
        raise InvalidRequest(
            "retries are the queue's: give retries=N in place of retry policies, and it runs a "
            "failed job again; evictions, missing capacity and SageMaker's own faults are never a "
            "failure",
            field="retry_policies",
        )
