"""Steps of SageMaker Pipelines whose training jobs go through the queue (docs/pipelines.md).

    from slotq.pipelines import QueueStep

    step = QueueStep("train", estimator, {"train": "s3://data"}, sqs_queue_url=URL, priority=10)
    register = ModelStep("register", Model(..., model_data=step.outputs["model"]).register(...))

Works with versions 2 and 3 of the SDK, which is imported when `QueueStep` is first used.

    queue_step  the step, and what becomes of it in a local pipeline session
    arguments   a training request as the arguments of a callback step
    local_step  the step in a local pipeline session: a training step
    step_rules  what both refuse
    sdk         the names of the installed SDK
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotq.pipelines.queue_step import QueueStep

__all__ = ["QueueStep"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module("slotq.pipelines.queue_step"), name)
    globals()[name] = found
    return found
