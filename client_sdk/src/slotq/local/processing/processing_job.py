"""One processing job on the plane: a training job whose request and answers have other words."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slotq.local.training.runner import LONGEST_REASON
from slotq.local.training.training_job import TrainingJob
from slotq_core.model.capacity.work import WorkKind, marked
from slotq_core.timestamps import to_datetime
from slotq_core.wire.training.processing_request import NAME, as_processing, is_processing

ALL_PROCESSING = "Number of instances across all processing jobs"
_HIDDEN = frozenset({"Tags", NAME})
_LONGEST_MESSAGE = 1024


@dataclass(kw_only=True)
class ProcessingJob(TrainingJob):
    """`request`: in the words of CreateTrainingJob (`wire.training.processing_request`)."""

    work = WorkKind.PROCESSING
    event_type = "SageMaker Processing Job State Change"

    @property
    def name(self) -> str:
        """The name in the plane, where a training job may have the same one."""
        return marked(self.request[NAME], self.work)

    @property
    def keep_alive(self) -> int:
        return 0

    def counts_in(self, quota: str) -> int:
        if quota == ALL_PROCESSING:
            return sum(self.instances.values())
        kind, _, what = quota.partition(" for ")
        return self.instances.get(kind, 0) if what == "processing job usage" else 0

    def description(self) -> dict[str, Any]:
        """A DescribeProcessingJob answer."""
        asked = as_processing(self.request)
        shown: dict[str, Any] = {
            **{key: copy.deepcopy(value) for key, value in asked.items() if key not in _HIDDEN},
            **self.summary(),
        }
        if self.started_at is not None:
            shown["ProcessingStartTime"] = to_datetime(self.started_at)
        return shown

    def summary(self) -> dict[str, Any]:
        """One line of ListProcessingJobs."""
        shown: dict[str, Any] = {
            NAME: self.request[NAME],
            "ProcessingJobArn": self.arn,
            "ProcessingJobStatus": self.status,
            "CreationTime": to_datetime(self.created_at),
            "LastModifiedTime": to_datetime(self.modified_at),
        }
        if self.ended_at is not None:
            shown["ProcessingEndTime"] = to_datetime(self.ended_at)
        if self.failure_reason:
            shown["FailureReason"] = self.failure_reason[:LONGEST_REASON]
        if self.exit is not None and self.exit.failure:
            shown["ExitMessage"] = self.exit.failure[:_LONGEST_MESSAGE]
        return shown


def kind_of_record(request: Mapping[str, Any]) -> type[TrainingJob]:
    """The class of the record of a request."""
    return ProcessingJob if is_processing(request) else TrainingJob
