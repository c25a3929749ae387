"""SageMaker's operations and members for each kind of work: the one table.

Names here are the queue's, with the mark of their kind (`model.capacity.work`); calls take and give
SageMaker's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slotq_core.adapters.sagemaker.sagemaker_errors import CREATE, CREATE_PROCESSING, ErrorRow
from slotq_core.model.capacity.work import WorkKind, work_of

Detail = Mapping[str, Any]


def _as_it_is(detail: Detail) -> Detail:
    return detail


def _processing(detail: Detail) -> Detail:
    # Most queues have no processing jobs, and no cold start should pay for them.
    from slotq_core.adapters.sagemaker.processing import in_training_words

    return in_training_words(detail)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    work: WorkKind
    noun: str
    """As in CreateTrainingJob, TrainingJobName, TrainingJobArn …"""
    method: str
    """As in the client's `create_training_job`."""
    read: Callable[[Detail], Detail]
    """A description, an event's detail or a line of a listing in the words of training jobs."""
    create: tuple[ErrorRow, ...]
    """What follows from the errors of a create."""

    @property
    def name(self) -> str:
        return f"{self.noun}Name"


OPERATIONS: Mapping[WorkKind, Operations] = {
    WorkKind.TRAINING: Operations(
        work=WorkKind.TRAINING,
        noun="TrainingJob",
        method="training_job",
        read=_as_it_is,
        create=CREATE,
    ),
    WorkKind.PROCESSING: Operations(
        work=WorkKind.PROCESSING,
        noun="ProcessingJob",
        method="processing_job",
        read=_processing,
        create=CREATE_PROCESSING,
    ),
}


def operations_of(training_job: str) -> Operations:
    """The operations for what has this name in the queue."""
    return OPERATIONS[work_of(training_job)]
