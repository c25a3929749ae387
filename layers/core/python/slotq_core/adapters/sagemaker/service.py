"""The TrainingService port over SageMaker's training API.

SageMaker's own words (`InProgress`, `Stopping` …) stay in this file and in its table
(`sagemaker_errors`). Only the read calls (`describe`, `live`, `look_into`) raise; every other
answer is data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from slotq_core.adapters.sagemaker.observations import (
    ODD,
    TOKEN_TAG,
    is_interrupted,
    observation_of,
    outcome_in,
)
from slotq_core.adapters.sagemaker.operations import OPERATIONS, Operations, operations_of
from slotq_core.adapters.sagemaker.sagemaker_errors import (
    CREATE_IN_PLAN,
    LOOK,
    RELEASE,
    STOP,
    ErrorRow,
    verdict_on,
)
from slotq_core.adapters.sagemaker.sagemaker_rights import WARM_QUOTA
from slotq_core.adapters.sagemaker.unknown_fields import send_unknown_fields
from slotq_core.errors import NotUnderstood, RightMissing, Unavailable
from slotq_core.model.attempts import Attempt
from slotq_core.model.capacity.plans import PlanFacts
from slotq_core.model.capacity.work import WorkKind, bare, work_of
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import CapacityKind
from slotq_core.names import (
    JOB_TAG,
    PROJECT_TAG,
    QUEUE_TAG,
    SUBMITTER_TAG,
    sagemaker_tags,
    tag_value,
    token_in_tags,
)
from slotq_core.ports.surroundings import IN_FLIGHT, Clock
from slotq_core.ports.training import (
    RIGHTS,
    CallResult,
    LiveTrainingJobs,
    Observation,
    Request,
    Sighting,
    Verdict,
    spot_terms,
)
from slotq_core.timestamps import to_datetime
from slotq_core.wire.training.field_paths import instance_count

if TYPE_CHECKING:
    from slotq_core.ports.nodes import Launch

T = TypeVar("T")

ATTEMPT_TAG = "slotq:attempt"
"""The number of an attempt, on its training job."""

LONGEST_LISTING = 10_000
"""Time (ms) after which a listing asks for no further page. The tick's pass waits for it, and a
user for the doctor."""

_WAITS_AGAIN = RIGHTS | {Verdict.BACK_OFF, Verdict.OTHER_QUOTA, Verdict.REQUEUE}

_MAX_TAGS = 50
"""SageMaker's limit."""
_PAGE = 100
_OLDEST = 90 * 86_400_000
"""Age (ms) beyond which training jobs are not listed. Nothing runs that long (at most 28 days,
after at most 28 days of pending), so older training jobs have ended."""

_CONNECT, _READ, _ATTEMPTS, _BACK_OFF = 2, 6, 3, 3
"""Seconds to connect, seconds to read, number of tries, and the most seconds that botocore waits
between the tries in total: up to one second, then up to two."""

LONGEST_CALL = 1000 * (_ATTEMPTS * (_CONNECT + _READ) + _BACK_OFF)
"""Longest time (ms) of one call: less than a pass."""


def sagemaker_client() -> Any:
    """Return a client for the few calls that the queue makes, each within LONGEST_CALL. A later
    pass repeats calls without an answer."""
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(
        connect_timeout=_CONNECT,
        read_timeout=_READ,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=IN_FLIGHT,
        user_agent_extra="slotq",
    )
    client = get_session().create_client("sagemaker", config=config)
    send_unknown_fields(client.meta.events)
    return client


class SageMakerTraining:
    """The part of SageMaker training that the queue uses (`ports.TrainingService`).

    `make_client` is called once, on the first call that needs the client: a pass that starts and
    stops nothing never pays for the client.
    """

    def __init__(
        self, *, clock: Clock, queue: str, make_client: Callable[[], Any] = sagemaker_client
    ) -> None:
        """Set up the service. `queue` separates this queue's training jobs from others in the
        account."""
        self._clock = clock
        self._queue = queue
        self._make_client = make_client
        self._built: Any = None

    @property
    def _client(self) -> Any:
        if self._built is None:
            self._built = self._make_client()
        return self._built

    def create(self, request: Request, job: Job, attempt: Attempt) -> CallResult:
        created = self._created(
            attempt.training_job,
            attempt.token,
            lambda: attempt_request(request, job, attempt, queue=self._queue),
            CREATE_IN_PLAN if attempt.plan_arn else None,
        )
        refused = created.verdict is Verdict.OTHER_QUOTA and WARM_QUOTA in created.message
        if refused and attempt.warm_key and attempt.keep_warm:
            return self._kept_none(request, job, attempt)
        return created

    def create_node(
        self,
        request: Request,
        node: Node,
        launch: Launch,
        *,
        instance_type: str,
        tags: Sequence[Mapping[str, str]] = (),
    ) -> CallResult:
        # Most queues have no nodes, and no cold start should pay for them.
        from slotq_core.adapters.sagemaker.node_requests import node_request

        return self._created(
            node.training_job,
            token_in_tags(node.token),
            lambda: node_request(
                request, node, launch, instance_type=instance_type, queue=self._queue, tags=tags
            ),
        )

    def _kept_none(self, request: Request, job: Job, attempt: Attempt) -> CallResult:
        """Repeat a create without keeping the instances, for which the account has no quota."""
        unkept = replace(attempt, keep_warm=0)
        created = self._created(
            attempt.training_job,
            attempt.token,
            lambda: create_request(request, job, unkept, queue=self._queue),
        )
        return replace(created, kept_none=True)

    def _created(
        self,
        name: str,
        token: str,
        request: Callable[[], Mapping[str, Any]],
        rows: Sequence[ErrorRow] | None = None,
    ) -> CallResult:
        """Create a training job whose tags have this token. `rows`: what follows from errors; None:
        what follows for its kind of work."""
        began, own = self._clock.now(), operations_of(name)
        try:
            self._ask(f"create_{own.method}", request)
        except _Failure as failure:
            if failure.code == "ResourceInUse":
                if self._clock.now() - began >= LONGEST_CALL // 2:
                    message = (
                        "the name is in use, and SageMaker did not say in time by which "
                        "training job"
                    )
                    return CallResult(verdict=Verdict.RETRY, message=message)
                return self._taken_or_ours(name, token)
            refused = failure.answer(rows or own.create, own.work)
            return self._unless_there(name, token, refused)
        return CallResult(verdict=Verdict.OK)

    def _unless_there(self, name: str, token: str, refused: CallResult) -> CallResult:
        """Check a refusal after which the job would wait again: return ALREADY_DONE if the training
        job with this token exists.

        A refusal answers only the last try. An earlier try without an answer may have taken effect,
        and a job that waits again must not run.
        """
        if refused.verdict not in _WAITS_AGAIN:
            return refused
        try:
            ours = self._is_ours(name, token)
        except _Failure as failure:
            if failure.not_found or refused.verdict not in RIGHTS:
                return refused
            why = f"{refused.message}; SageMaker does not show whether it runs: {failure.text}"
            return replace(refused, verdict=Verdict.RETRY, message=why)
        return CallResult(verdict=Verdict.ALREADY_DONE) if ours else refused

    def _taken_or_ours(self, name: str, token: str) -> CallResult:
        """Decide who uses the name: the training job with this token (ALREADY_DONE), somebody
        else's (NAME_TAKEN), or unknown (RETRY)."""
        try:
            ours = self._is_ours(name, token)
        except _Failure as failure:
            said = failure.answer(LOOK)
            why = f"the name is in use, by an unknown training job: {said.message}"
            return replace(said, verdict=Verdict.RETRY, message=why)
        if ours:
            return CallResult(verdict=Verdict.ALREADY_DONE)
        return CallResult(
            verdict=Verdict.NAME_TAKEN,
            message=f"SageMaker already has a {work_of(name)} job named {bare(name)}, which is not "
            "from this queue",
        )

    def _is_ours(self, name: str, token: str) -> bool:
        """Whether the training job of that name is this queue's and has this token. Raises
        _Failure."""
        tags = dict(self._tags(self._description(name)["TrainingJobArn"]))
        queue = tags.get(QUEUE_TAG, self._queue)  # An earlier version wrote no such tag.
        return (queue, tags.get(TOKEN_TAG)) == (self._queue, token)

    def _description(self, name: str) -> Mapping[str, Any]:
        """What SageMaker says of a training job, in the words of training jobs. Raises _Failure."""
        own = operations_of(name)
        return own.read(self._ask(f"describe_{own.method}", lambda: {own.name: bare(name)}))

    def _tags(self, arn: str) -> Iterator[tuple[str, str]]:
        asked = {"ResourceArn": arn}
        while True:
            page = self._ask("list_tags", lambda: asked)
            for tag in page.get("Tags", ()):
                yield tag["Key"], tag["Value"]
            if not (token := page.get("NextToken")):
                return
            asked["NextToken"] = token

    def stop(self, training_job: str) -> CallResult:
        own = operations_of(training_job)
        try:
            self._ask(f"stop_{own.method}", lambda: {own.name: bare(training_job)})
        except _Failure as failure:
            return failure.answer(STOP)
        return CallResult(verdict=Verdict.OK)

    def release(self, training_job: str) -> CallResult:
        wanted = {
            "TrainingJobName": training_job,
            "ResourceConfig": {"KeepAlivePeriodInSeconds": 0},
        }
        try:
            self._ask("update_training_job", lambda: wanted)
        except _Failure as failure:
            return failure.answer(RELEASE)
        return CallResult(verdict=Verdict.OK)

    def describe(self, training_job: str) -> Observation | None:
        own = operations_of(training_job)
        return self._described(
            f"Describe{own.noun} {training_job}",
            lambda: self._description(training_job),
            observation_of,
        )

    def describe_plan(self, arn: str) -> PlanFacts | None:
        # Most queues have no plans, and no cold start should pay for them.
        from slotq_core.adapters.sagemaker.training_plans import plan_facts

        return self._described(
            f"DescribeTrainingPlan {arn}",
            lambda: self._ask("describe_training_plan", lambda: {"TrainingPlanName": arn}),
            partial(plan_facts, arn),
        )

    def _described(
        self, said: str, ask: Callable[[], Mapping[str, Any]], read: Callable[..., T]
    ) -> T | None:
        """What `read(answer, at=now)` makes of SageMaker's answer; None: there is none of that
        name. `said`: the call in words. Raises Unavailable without an answer that can be read."""
        try:
            found = ask()
        except _Failure as failure:
            if failure.not_found:
                return None
            raise failure.unavailable(said) from failure
        try:
            return read(found, at=self._clock.now())
        except NotUnderstood as error:
            raise Unavailable(f"{said}: {error}") from error
        except ODD as error:
            raise Unavailable(f"{said}: {type(error).__name__}") from error

    def live(self, works: Collection[WorkKind] = (WorkKind.TRAINING,)) -> LiveTrainingJobs:
        """List each kind of work without a status filter: with StatusEquals, SageMaker cuts its
        pages before it filters. A filter therefore saves nothing, and each status would cost a
        listing.

        The newest come first: where an account has more training jobs than can be listed, nearly
        all of the older ones have ended.
        """
        began = self._clock.now()
        listings = [self._listing(OPERATIONS[work], began) for work in works]
        return LiveTrainingJobs(
            names=frozenset().union(*(each.names for each in listings)),
            interrupted=frozenset().union(*(each.interrupted for each in listings)),
            complete=all(each.complete for each in listings),
        )

    def _listing(self, own: Operations, began: int) -> LiveTrainingJobs:
        asked: dict[str, Any] = {
            "CreationTimeAfter": to_datetime(began - _OLDEST),
            "SortBy": "CreationTime",
            "SortOrder": "Descending",
            "MaxResults": _PAGE,
        }
        names: set[str] = set()
        interrupted: set[str] = set()
        while self._clock.now() - began <= LONGEST_LISTING:
            try:
                page = self._ask(f"list_{own.method}s", lambda: asked)
            except _Failure as failure:
                raise failure.unavailable(f"List{own.noun}s") from failure
            for summary in map(own.read, page.get(f"{own.noun}Summaries", ())):
                if summary.get("TrainingJobStatus") in {"InProgress", "Stopping"}:
                    names.add(summary["TrainingJobName"])
                    if is_interrupted(summary):
                        interrupted.add(summary["TrainingJobName"])
            if not (token := page.get("NextToken")):
                return LiveTrainingJobs(names=frozenset(names), interrupted=frozenset(interrupted))
            asked["NextToken"] = token
        return LiveTrainingJobs(
            names=frozenset(names), interrupted=frozenset(interrupted), complete=False
        )

    def look_into(self, training_job: str, *, now: int) -> Sighting | None:
        try:
            found = self._description(training_job)
            if outcome_in(found) is not None:
                return None
            tags = dict(self._tags(found["TrainingJobArn"]))
        except _Failure as failure:
            if failure.not_found:
                return None
            raise failure.unavailable(f"looking into {training_job}") from failure
        instance_type, instances = _occupied(found.get("ResourceConfig") or {})
        return Sighting(
            training_job=training_job,
            ours=tags.get(QUEUE_TAG) == self._queue,
            instance_type=instance_type,
            instances=instances,
            capacity_kind=_kind(found),
            first_seen=now,
        )

    def _ask(self, operation: str, request: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Make one call. Raises _Failure for any error, so that one odd request does not stop the
        pass for all other jobs."""
        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(**request())
        except Exception as error:
            raise _failure(error) from error
        return answer


def attempt_request(request: Request, job: Job, attempt: Attempt, *, queue: str) -> dict[str, Any]:
    """Return the request that starts an attempt, for the job's kind of work."""
    created = create_request(request, job, attempt, queue=queue)
    if job.work is WorkKind.TRAINING:
        return created
    from slotq_core.adapters.sagemaker.processing import processing_request

    return processing_request(created)


def create_request(request: Request, job: Job, attempt: Attempt, *, queue: str) -> dict[str, Any]:
    """Return an attempt's CreateTrainingJob request: the user's request with another name, the
    pool's instance type, bought as the pool is, the queue's own tags and, after earlier attempts,
    the rest of the maximum runtime."""
    resources = dict(request["ResourceConfig"])
    if job.parts:
        pass  # Each group names the instance type of its pool.
    elif resources.get("InstanceGroups"):
        resources["InstanceGroups"] = [
            {**group, "InstanceType": attempt.instance_type}
            for group in resources["InstanceGroups"]
        ]
    else:
        resources["InstanceType"] = attempt.instance_type
        if resources.pop("InstancePreferences", None):  # SageMaker has no choice left.
            resources["InstanceCount"] = instance_count(request)
    resources |= {"TrainingPlanArn": attempt.plan_arn} if attempt.plan_arn else {}
    if attempt.warm_key or attempt.capacity_kind is not CapacityKind.ON_DEMAND:
        resources.pop("KeepAlivePeriodInSeconds", None)  # Only those on demand are kept warm.
    if attempt.warm_key and attempt.keep_warm >= 1000:
        resources["KeepAlivePeriodInSeconds"] = attempt.keep_warm // 1000
    ownership = {
        JOB_TAG: job.name,
        ATTEMPT_TAG: str(attempt.number),
        TOKEN_TAG: attempt.token,
        QUEUE_TAG: queue,
    }
    costs = _cost_tags(job)
    tags = sagemaker_tags(request.get("Tags") or ())
    kept = [tag for tag in tags if tag["Key"] not in {**ownership, **costs}]
    if len(kept) + len(costs) + len(ownership) > _MAX_TAGS:
        costs = {}  # Submitted to an earlier version, which took two more tags.
    return {
        **request,
        "TrainingJobName": attempt.training_job,
        "ResourceConfig": resources,
        **spot_terms(request, job, attempt),
        "Tags": [
            *kept,
            *({"Key": key, "Value": value} for key, value in {**costs, **ownership}.items()),
        ],
    }


def _cost_tags(job: Job) -> dict[str, str]:
    """Return the tags by which AWS's bill can be divided. The queue sets them, not the caller. A
    person has one value, whatever the sessions."""
    tags = {PROJECT_TAG: job.project, SUBMITTER_TAG: job.person or job.submitter}
    return {key: tag_value(value) for key, value in tags.items() if value}


def _kind(found: Mapping[str, Any]) -> CapacityKind:
    if (found.get("ResourceConfig") or {}).get("TrainingPlanArn"):
        return CapacityKind.PLAN
    return CapacityKind.SPOT if found.get("EnableManagedSpotTraining") else CapacityKind.ON_DEMAND


def _occupied(resources: Mapping[str, Any]) -> tuple[str, int]:
    """Return the instance type and the number of instances. If groups have several types, the type
    with the most instances counts."""
    amounts: Counter[str] = Counter()
    for part in resources.get("InstanceGroups") or (resources,):
        amounts[str(part.get("InstanceType") or "")] += int(part.get("InstanceCount") or 0)
    return amounts.most_common(1)[0]


class _Failure(Exception):
    """A failed call: code, text and HTTP status."""

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

    def unavailable(self, asked: str) -> Unavailable:
        """Return the error that a failed read call raises."""
        said = self.answer(LOOK)
        kind = RightMissing if said.action else Unavailable
        return kind(f"{asked}: {said.message if said.action else self.text}")

    def answer(self, rows: Sequence[ErrorRow], work: WorkKind = WorkKind.TRAINING) -> CallResult:
        if not self.code:
            return CallResult(verdict=Verdict.RETRY, message=self.text)
        return verdict_on(
            rows, code=self.code, text=self.text, http_status=self.http_status, work=work
        )


def _failure(error: Exception) -> _Failure:
    """Turn any exception of a call into a _Failure.

    An empty code means that the call's effect is unknown: no connection, a timeout, no credentials,
    or an unforeseen error.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

    if isinstance(error, ClientError):
        said = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(said.get("Code") or "Unknown")
        return _Failure(code=code, text=str(said.get("Message") or ""), http_status=int(status))
    if isinstance(error, ParamValidationError):
        # The request was never sent: botocore knows that SageMaker would refuse it.
        return _Failure(code="ValidationException", text=str(error))
    known = isinstance(error, BotoCoreError)
    return _Failure(code="", text=str(error) if known else f"{type(error).__name__}: {error}")
