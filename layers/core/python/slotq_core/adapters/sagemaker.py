"""The TrainingService port over SageMaker's training API.

SageMaker's own words (`InProgress`, `Stopping` …) do not leave this file and its table
(`sagemaker_errors`). Only what asks (`describe`, `live`, `look_into`) raises; every other answer is
data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from slotq_core.adapters.sagemaker_errors import (
    CREATE,
    STOP,
    ErrorRow,
    verdict_on,
)
from slotq_core.adapters.sagemaker_fields import send_unknown_fields
from slotq_core.adapters.sagemaker_news import ODD, TOKEN_TAG, observation_of, outcome_in
from slotq_core.errors import NotUnderstood, Unavailable
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.names import RUNTIME_LIMIT_TAG, sagemaker_tags
from slotq_core.ports import Answer, Clock, Observation, Request, Sighting, Verdict

JOB_TAG = "slotq:job"
ATTEMPT_TAG = "slotq:attempt"
QUEUE_TAG = "slotq:queue"
"""The ownership tags: on every training job that the queue creates."""

LONGEST_LISTING = 20_000
"""How long a listing may take (ms): somebody may wait for the doctor, and API Gateway for 29 s."""

_PAGE = 100
_OLDEST = 90 * 86_400_000
"""Nothing runs for so long (at most 28 days, after at most 28 days of pending): what was created
earlier has ended, and need not be paged through (ms)."""
_MAX_RUNTIME = 86_400
"""SageMaker's default for MaxRuntimeInSeconds."""


def sagemaker_client() -> Any:
    """A client for the few calls that the queue makes.

    The timeouts fit a Lambda of a minute: one call is decided within about half of it, and what was
    not answered is tried again by the next pass.
    """
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(
        connect_timeout=3,
        read_timeout=10,
        retries={"mode": "standard", "total_max_attempts": 3},
        user_agent_extra="slotq",
    )
    client = get_session().create_client("sagemaker", config=config)
    send_unknown_fields(client.meta.events)
    return client


class SageMakerTraining:
    """SageMaker training, as far as the queue uses it (`ports.TrainingService`).

    `make_client` is called once, on the first call that needs it: a pass that starts and stops
    nothing never pays for the client.
    """

    def __init__(
        self, *, clock: Clock, queue: str, make_client: Callable[[], Any] = sagemaker_client
    ) -> None:
        """`queue` tells this queue's training jobs from those of others in the account."""
        self._clock = clock
        self._queue = queue
        self._make_client = make_client
        self._built: Any = None

    @property
    def _client(self) -> Any:
        if self._built is None:
            self._built = self._make_client()
        return self._built

    def create(self, request: Request, job: Job, attempt: Attempt) -> Answer:
        try:
            self._ask(
                "create_training_job",
                lambda: create_request(request, job, attempt, queue=self._queue),
            )
        except _Failure as failure:
            if failure.code == "ResourceInUse":
                return self._taken_or_ours(attempt)
            return failure.answer(CREATE)
        return Answer(verdict=Verdict.OK)

    def _taken_or_ours(self, attempt: Attempt) -> Answer:
        """The name is in use: by an earlier create of this attempt, or by somebody else."""
        name = attempt.training_job
        try:
            found = self._ask("describe_training_job", lambda: {"TrainingJobName": name})
            tags = dict(self._tags(found["TrainingJobArn"]))
        except _Failure as failure:
            why = failure.text
            return Answer(verdict=Verdict.RETRY, message=f"the name is in use; by whom? {why}")
        queue = tags.get(QUEUE_TAG, self._queue)  # There was a version that wrote no such tag.
        if (queue, tags.get(TOKEN_TAG)) == (self._queue, attempt.token):
            return Answer(verdict=Verdict.ALREADY_DONE)
        return Answer(
            verdict=Verdict.FAIL,
            message=f"the name {name} is taken in SageMaker by a training job that is not this "
            "queue's",
        )

    def _tags(self, arn: str) -> Iterator[tuple[str, str]]:
        asked = {"ResourceArn": arn}
        while True:
            page = self._ask("list_tags", lambda: asked)
            for tag in page.get("Tags", ()):
                yield tag["Key"], tag["Value"]
            if not (token := page.get("NextToken")):
                return
            asked["NextToken"] = token

    def stop(self, training_job: str) -> Answer:
        try:
            self._ask("stop_training_job", lambda: {"TrainingJobName": training_job})
        except _Failure as failure:
            return failure.answer(STOP)
        return Answer(verdict=Verdict.OK)

    def describe(self, training_job: str) -> Observation | None:
        try:
            found = self._ask("describe_training_job", lambda: {"TrainingJobName": training_job})
        except _Failure as failure:
            if failure.not_found:
                return None
            raise Unavailable(f"DescribeTrainingJob {training_job}: {failure.text}") from failure
        try:
            return observation_of(found, at=self._clock.now())
        except NotUnderstood as error:
            raise Unavailable(f"DescribeTrainingJob {training_job}: {error}") from error
        except ODD as error:
            kind = type(error).__name__
            raise Unavailable(f"DescribeTrainingJob {training_job}: {kind}") from error

    def live(self) -> Iterator[str]:
        """One listing of everything, looked through here: with StatusEquals SageMaker cuts its
        pages before it filters, so a filter saves nothing, and each status would cost a listing.
        """
        began = self._clock.now()
        asked: dict[str, Any] = {
            "CreationTimeAfter": datetime.fromtimestamp((began - _OLDEST) / 1000, UTC),
            "MaxResults": _PAGE,
        }
        while True:
            if self._clock.now() - began > LONGEST_LISTING:
                raise Unavailable("ListTrainingJobs: too many pages for the time that there is")
            try:
                page = self._ask("list_training_jobs", lambda: asked)
            except _Failure as failure:
                raise Unavailable(f"ListTrainingJobs: {failure.text}") from failure
            for summary in page.get("TrainingJobSummaries", ()):
                if summary.get("TrainingJobStatus") in {"InProgress", "Stopping"}:
                    yield summary["TrainingJobName"]
            if not (token := page.get("NextToken")):
                return
            asked["NextToken"] = token

    def look_into(self, training_job: str, *, now: int) -> Sighting | None:
        try:
            found = self._ask("describe_training_job", lambda: {"TrainingJobName": training_job})
            if outcome_in(found) is not None:
                return None
            tags = dict(self._tags(found["TrainingJobArn"]))
        except _Failure as failure:
            if failure.not_found:
                return None
            raise Unavailable(f"looking into {training_job}: {failure.text}") from failure
        instance_type, instances = _occupied(found.get("ResourceConfig") or {})
        return Sighting(
            training_job=training_job,
            ours=tags.get(QUEUE_TAG) == self._queue,
            instance_type=instance_type,
            instances=instances,
            first_seen=now,
        )

    def _ask(self, operation: str, request: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """One call. Raises _Failure, whatever goes wrong: one odd request must not stop the pass
        for all the others."""
        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(**request())
        except Exception as error:
            raise _failure(error) from error
        return answer


def create_request(request: Request, job: Job, attempt: Attempt, *, queue: str) -> dict[str, Any]:
    """The CreateTrainingJob request of an attempt: the user's own but for the name, the instance
    type, four more tags and, after other attempts, what is left of the maximum runtime."""
    resources = dict(request["ResourceConfig"])
    if resources.get("InstanceGroups"):
        resources["InstanceGroups"] = [
            {**group, "InstanceType": attempt.instance_type}
            for group in resources["InstanceGroups"]
        ]
    else:
        resources["InstanceType"] = attempt.instance_type
    ownership = {
        JOB_TAG: job.name,
        ATTEMPT_TAG: str(attempt.number),
        TOKEN_TAG: attempt.token,
        QUEUE_TAG: queue,
    }
    given = sagemaker_tags(request.get("Tags") or ())
    kept = [tag for tag in given if tag["Key"] not in ownership]
    return {
        **request,
        "TrainingJobName": attempt.training_job,
        "ResourceConfig": resources,
        **_stopping_condition(request, job),
        "Tags": [*kept, *({"Key": key, "Value": value} for key, value in ownership.items())],
    }


def _stopping_condition(request: Request, job: Job) -> dict[str, Any]:
    """The maximum runtime is the job's: an attempt gets what the earlier ones left of it, unless
    the job asks for SageMaker's own meaning."""
    tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
    if not job.ran or tags.get(RUNTIME_LIMIT_TAG) == "attempt":
        return {}
    asked = dict(request.get("StoppingCondition") or {})
    left = int(asked.get("MaxRuntimeInSeconds") or _MAX_RUNTIME) - job.ran // 1000
    return {"StoppingCondition": {**asked, "MaxRuntimeInSeconds": max(1, left)}}


def _occupied(resources: Mapping[str, Any]) -> tuple[str, int]:
    """Instance type and how many. Of groups of several types, the type with the most."""
    amounts: Counter[str] = Counter()
    for part in resources.get("InstanceGroups") or (resources,):
        amounts[str(part.get("InstanceType") or "")] += int(part.get("InstanceCount") or 0)
    return amounts.most_common(1)[0]


class _Failure(Exception):
    """What went wrong with a call, as code, text and HTTP status."""

    def __init__(self, *, code: str, text: str, http_status: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.http_status = http_status

    @property
    def not_found(self) -> bool:
        return self.code == "ResourceNotFound" or (
            self.code == "ValidationException" and "resource not found" in self.text.lower()
        )

    def answer(self, rows: Sequence[ErrorRow]) -> Answer:
        if not self.code:
            return Answer(verdict=Verdict.RETRY, message=self.text)
        return verdict_on(rows, code=self.code, text=self.text, http_status=self.http_status)


def _failure(error: Exception) -> _Failure:
    """Read any exception of a call.

    Without a code (no connection, a timeout, no credentials, and what nobody foresaw) whether the
    call took effect is unknown.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

    if isinstance(error, ClientError):
        said = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(said.get("Code") or "Unknown")
        return _Failure(code=code, text=str(said.get("Message") or ""), http_status=int(status))
    if isinstance(error, ParamValidationError):
        # The request never left: botocore knows that SageMaker would refuse it.
        return _Failure(code="ValidationException", text=str(error))
    known = isinstance(error, BotoCoreError)
    return _Failure(code="", text=str(error) if known else f"{type(error).__name__}: {error}")
