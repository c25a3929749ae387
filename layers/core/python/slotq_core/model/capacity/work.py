"""The kinds of work that a queue starts on SageMaker, and how names tell them apart.

SageMaker has training jobs and processing jobs, each with names and quotas of their own. The queue
has one name space: a processing job `clean` is the queue's job `processing:clean`, so that it may
have a training job's name. Its training jobs' names (`Attempt.training_job`) bear the same mark,
which only the SageMaker adapter takes away. A name without a mark, as all names of earlier
versions, is training.
"""

from __future__ import annotations

from enum import StrEnum


class WorkKind(StrEnum):
    """A kind of work, and of the pools that hold it."""

    TRAINING = "training"
    PROCESSING = "processing"


MARK = f"{WorkKind.PROCESSING}:"
"""No name of SageMaker has a colon."""


def work_of(name: str) -> WorkKind:
    """The kind of work of a job or a training job, by its name in the queue."""
    return WorkKind.PROCESSING if name.startswith(MARK) else WorkKind.TRAINING


def bare(name: str) -> str:
    """The name in SageMaker."""
    return name.removeprefix(MARK)


def marked(name: str, work: WorkKind) -> str:
    """The name in the queue of what SageMaker calls `name`."""
    return f"{MARK}{name}" if work is WorkKind.PROCESSING else name
