"""SlotQ for its users: submit SageMaker training jobs to the queue.

What is public is `__all__`, the errors of `slotq.errors` and the views of `slotq_core.wire.views`;
docs/api.md lists all of it. `QueueTrainingJobSession` needs the `sagemaker2` or the `sagemaker3`
extra; each name is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slotq.version import __version__

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.jobs.job import QueuedJob
    from slotq.output.plain_table import print_queue_state
    from slotq.session.install import install
    from slotq.session.installed_sdk import QueueTrainingJobSession

__all__ = [
    "QueueClient",
    "QueueTrainingJobSession",
    "QueuedJob",
    "__version__",
    "install",
    "print_queue_state",
]

_HOME = {
    "QueueClient": "slotq.client",
    "QueueTrainingJobSession": "slotq.session.installed_sdk",
    "QueuedJob": "slotq.jobs.job",
    "install": "slotq.session.install",
    "print_queue_state": "slotq.output.plain_table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found
