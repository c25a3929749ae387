"""Check before a submission whether a training job outside the queue has the job's name.

The queue does not check this at a submission, which makes the same few calls for every job. The job
would fail at its start, as `name_taken`. So the client checks first, as far as the caller's own
rights and network allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import parse_to_aware_datetime

from slotq.errors import NameTaken, NoSuchJob, SlotQError

if TYPE_CHECKING:
    from slotq.jobs.job_calls import JobCalls

QUICK = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})
"""Settings of a client for optional calls: they give up early."""

_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnrecognizedClientException"})


class ForeignNames:
    """Names of training jobs that the queue does not know."""

    def __init__(self, jobs: JobCalls, client: Callable[[str], Any]) -> None:
        """`client` returns the boto3 client for `sagemaker` in a region; empty: the session's."""
        self._jobs, self._client = jobs, client
        self._may_look = True

    def check(self, name: object, region: str = "") -> None:
        """Raises NameTaken if SageMaker has a training job of that name and the queue has not.

        One DescribeTrainingJob; a second call, to the queue, only if there is such a training job.
        Any trouble counts as a free name. After lasting trouble (a missing right, no connection)
        this object checks no more names.
        """
        if not self._may_look or not isinstance(name, str):
            return
        try:
            self._client(region).describe_training_job(TrainingJobName=name)
        except ClientError as error:
            self._may_look = error.response["Error"]["Code"] not in _DENIED
            return
        except (Boto3Error, BotoCoreError):
            self._may_look = False
            return
        self._refuse_unknown(name)

    def _refuse_unknown(self, name: str) -> None:
        try:
            self._jobs.view(name)
        except NoSuchJob:
            raise NameTaken(
                f"SageMaker already has a training job '{name}', which is not from this queue; "
                "choose another name",
                field="TrainingJobName",
            ) from None
        except SlotQError:
            return  # The submission will meet the same trouble, and say so.


# The filters of ListTrainingJobs, but for the status.

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
    limit = request.get(key)
    return absent if limit is None else parse_to_aware_datetime(limit)
