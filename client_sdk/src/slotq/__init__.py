"""SlotQ for its users: submit SageMaker training jobs to the queue.

`QueueTrainingJobSession` needs the `sagemaker2` extra and is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.session import QueueTrainingJobSession

__version__ = "0.1.0"
__all__ = ["QueueClient", "QueueTrainingJobSession", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "QueueTrainingJobSession":
        from slotq.session import QueueTrainingJobSession

        return QueueTrainingJobSession
    if name == "QueueClient":
        from slotq.client import QueueClient

        return QueueClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
