"""Find what runs in the account beside the queue, with the caller's own credentials.

SageMaker has a quota of instances for training jobs, and others for processing and transform jobs.
Tuning and AutoML jobs have no instances of their own: they start jobs of the other kinds.

The queue itself needs no right for this. A kind that the caller may not read is said so, and the
others are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError

from slotq.output.json_views import AccountJobView, AccountKindView
from slotq_core.names import JOB_TAG, QUEUE_TAG
from slotq_core.timestamps import from_datetime, iso

MOST_PAGES = 20
"""The most pages of 100 jobs that are listed of each kind, the newest first."""
MOST_JOBS = 200
"""The most jobs in progress of each kind that are looked at."""
SINCE = timedelta(days=90)
"""Older jobs are not listed."""
_IN_PROGRESS = frozenset({"InProgress", "Stopping"})
_STARTERS = (
    "TuningJobArn",
    "AutoMLJobArn",
    "LabelingJobArn",
    "MonitoringScheduleArn",
    "TrainingJobArn",
)
"""The members of a description that name what started the job. A training job's own ARN is none."""
UNNAMED = "unnamed"
"""A queue of an earlier version, which wrote no name."""

Progress = Callable[[str, int, int], object]
"""Receives the kind, and how many of how many jobs in progress were looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of job, and SageMaker's words for it."""

    name: str
    noun: str
    """`TrainingJob` in ListTrainingJobs, TrainingJobName, TrainingJobSummaries …"""
    resources: tuple[str, ...] = ()
    """Where a description has the instances. Empty: the job has none of its own."""
    queued: bool = False
    """Whether queues of SlotQ start such jobs."""


KINDS = (
    Kind(name="training", noun="TrainingJob", resources=("ResourceConfig",), queued=True),
    Kind(
        name="processing", noun="ProcessingJob", resources=("ProcessingResources", "ClusterConfig")
    ),
    Kind(name="transform", noun="TransformJob", resources=("TransformResources",)),
    Kind(name="tuning", noun="HyperParameterTuningJob"),
    Kind(name="automl", noun="AutoMLJob"),
)


class Account:
    """`client`: boto3's for `sagemaker`."""

    def __init__(
        self,
        client: Any,
        *,
        now: datetime,
        progress: Progress = lambda *_: None,
    ) -> None:
        self._client, self._now, self._progress = client, now, progress

    def kinds(self) -> list[AccountKindView]:
        """What is in progress, kind by kind."""
        return [self._kind(kind) for kind in KINDS]

    def _kind(self, kind: Kind) -> AccountKindView:
        view = AccountKindView(kind=kind.name, jobs=[])
        try:
            living = self._living(kind, view)
            view.left_out = len(living)
            for done, summary in enumerate(living[:MOST_JOBS]):
                self._progress(kind.name, done, len(living))
                self._look(kind, summary, view)
                view.left_out -= 1
        except (ClientError, BotoCoreError) as error:
            view.problem, view.complete = str(error), False
        return view

    def _living(self, kind: Kind, view: AccountKindView) -> list[Mapping[str, Any]]:
        """The jobs in progress, the newest first.

        Without a filter: with one SageMaker cuts its pages before it filters, so a filter would
        save nothing, and each status would cost a listing.
        """
        living: list[Mapping[str, Any]] = []
        asked: dict[str, Any] = {
            "CreationTimeAfter": self._now - SINCE,
            "SortBy": "CreationTime",
            "SortOrder": "Descending",
            "MaxResults": 100,
        }
        for _ in range(MOST_PAGES):
            page = self._call(f"List{kind.noun}s", asked)
            summaries = page.get(f"{kind.noun}Summaries", ())
            view.listed += len(summaries)
            living += [row for row in summaries if row[f"{kind.noun}Status"] in _IN_PROGRESS]
            if not page.get("NextToken"):
                return living
            asked["NextToken"] = page["NextToken"]
        view.complete = False
        return living

    def _look(self, kind: Kind, summary: Mapping[str, Any], view: AccountKindView) -> None:
        """Add a job to the view; one that has ended meanwhile is left out."""
        if kind.queued and (queue := self._queue_of(summary[f"{kind.noun}Arn"])):
            view.of_queues[queue] = view.of_queues.get(queue, 0) + 1
            return
        name = summary[f"{kind.noun}Name"]
        found = summary
        if kind.resources:
            found = self._call(f"Describe{kind.noun}", {f"{kind.noun}Name": name})
        if found[f"{kind.noun}Status"] not in _IN_PROGRESS:
            return
        starters = (found.get(key) for key in _STARTERS if key != f"{kind.noun}Arn")
        view.jobs.append(
            AccountJobView(
                name=name,
                status=found[f"{kind.noun}Status"],
                created_at=iso(from_datetime(summary["CreationTime"])),
                instances=_instances(found, kind.resources),
                started_by=next(filter(None, starters), ""),
            )
        )

    def _queue_of(self, arn: str) -> str:
        """The queue of SlotQ that created the training job; empty: none did."""
        tags = dict(self._tags(arn))
        return tags.get(QUEUE_TAG) or (UNNAMED if JOB_TAG in tags else "")

    def _tags(self, arn: str) -> Iterator[tuple[str, str]]:
        asked = {"ResourceArn": arn}
        while True:
            page = self._call("ListTags", asked)
            for tag in page.get("Tags", ()):
                yield tag["Key"], tag["Value"]
            if not (token := page.get("NextToken")):
                return
            asked["NextToken"] = token

    def _call(self, operation: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(self._client, xform_name(operation))(**asked)
        return found


def _instances(found: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, int]:
    """The instances of a description, by type."""
    resources: Mapping[str, Any] = found if path else {}
    for key in path:
        resources = resources.get(key) or {}
    amounts: Counter[str] = Counter()
    for part in resources.get("InstanceGroups") or (resources,):
        kind = part.get("SelectedInstanceType") or part.get("InstanceType")
        count = part.get("SelectedInstanceCount") or part.get("InstanceCount")
        if kind and count:
            amounts[kind] += count
    return dict(amounts)
