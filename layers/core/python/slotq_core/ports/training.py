"""SageMaker training, in the queue's words. A processing job is a training job whose name has the
mark of its kind (`model.capacity.work`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from slotq_core.admission.instances.runtimes import BY_DEFAULT, counts_over_attempts
from slotq_core.model.attempts import Attempt, GpuBound
from slotq_core.model.capacity.plans import PlanFacts
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import CapacityKind, ServiceQuota
from slotq_core.timestamps import Duration, Moment

if TYPE_CHECKING:
    from slotq_core.ports.nodes import Launch

Request = Mapping[str, Any]
"""A CreateTrainingJob request."""

MAX_RUNTIME = BY_DEFAULT
"""How long (s) a training job may run whose request does not say so."""

NODE_MAX_RUNTIME = 28 * 86_400
"""How long (s) the training job of a node may run: the longest that SageMaker allows."""


def stopping_condition(request: Request, job: Job) -> dict[str, Any]:
    """Return the stopping condition. The maximum runtime belongs to the job: an attempt gets what
    earlier attempts left, unless the job asks for SageMaker's meaning (each attempt alone)."""
    if not job.ran or not counts_over_attempts(request):
        return {}
    asked = dict(request.get("StoppingCondition") or {})
    left = int(asked.get("MaxRuntimeInSeconds") or MAX_RUNTIME) - job.ran // 1000
    return {"StoppingCondition": {**asked, "MaxRuntimeInSeconds": max(1, left)}}


def spot_terms(request: Request, job: Job, attempt: Attempt) -> dict[str, Any]:
    """Return the stopping condition, and for an attempt in a spot pool what makes it managed spot
    training. It may wait for the pool's `spot_wait` in addition to what is left of the maximum
    runtime, at most for the maximum wait that the request itself names.

    A pool on demand leaves the request as it is: one that asks for spot instances was accepted when
    the queue had no spot pool.
    """
    condition = stopping_condition(request, job)
    if attempt.capacity_kind is not CapacityKind.SPOT:
        return condition
    asked = dict(condition.get("StoppingCondition") or request.get("StoppingCondition") or {})
    longest = int(asked.get("MaxRuntimeInSeconds") or MAX_RUNTIME)
    wait = longest + attempt.spot_wait // 1000
    if asked.get("MaxWaitTimeInSeconds"):
        wait = max(longest, min(wait, int(asked["MaxWaitTimeInSeconds"])))
    return {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {
            **asked,
            "MaxRuntimeInSeconds": longest,
            "MaxWaitTimeInSeconds": wait,
        },
    }


class Verdict(StrEnum):
    """The queue's reaction to an answer of SageMaker. The adapter's table maps every documented
    error and outcome to exactly one verdict."""

    OK = "ok"
    ALREADY_DONE = "already_done"
    """The requested state exists already: treated as OK."""
    RETRY = "retry"
    """The call may have taken effect. The intent stays, and the next pass retries."""
    BACK_OFF = "back_off"
    """No capacity now. The pool backs off, and the job tries its next acceptable pool."""
    OTHER_QUOTA = "other_quota"
    """A quota of the account other than that of the pool's instances refuses the request: spot,
    processing … The job tries its other pools, then backs off."""
    REQUEUE = "requeue"
    """SageMaker's own fault. The job waits again after a short back-off."""
    NO_RIGHTS = "no_rights"
    """The queue lacks a right that every job needs. The pool backs off, and the job waits again."""
    ROLE_LACKS_RIGHTS = "role_lacks_rights"
    """A right is missing that jobs of one execution role need. The role backs off in that pool, and
    the job waits again."""
    RELEASED = "released"
    """The script has given its slots back. The job waits again at its place."""
    FAIL = "fail"
    """SageMaker will never accept the request. The job fails with the message."""
    NAME_TAKEN = "name_taken"
    """A training job that is not the queue's has the name. The job fails with the message."""


RIGHTS = frozenset({Verdict.NO_RIGHTS, Verdict.ROLE_LACKS_RIGHTS})
"""The verdicts for a missing right. SageMaker has done nothing, and no job ends because of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallResult:
    """The result of one call to SageMaker."""

    verdict: Verdict
    message: str = ""
    quota: ServiceQuota | None = None
    """The account's quota that a capacity error or a refusal names, if any."""
    action: str = ""
    """The missing right in IAM's notation, if any."""
    kept_none: bool = False
    """Whether the account has no quota for warm instances, so that the accepted training job keeps
    none."""


class Warmth(StrEnum):
    """What has become of the instances of a training job that asked to keep them."""

    NOTHING_KEPT = "nothing_kept"
    """SageMaker says nothing of them."""
    IN_USE = "in_use"
    """The training job runs on them."""
    AVAILABLE = "available"
    REUSED = "reused"
    """Another training job runs on them, or has run."""
    GONE = "gone"


class Phase(StrEnum):
    """A training job's phase, in the queue's words."""

    STARTING = "starting"
    RUNNING = "running"
    """The training job has its instances."""
    STOPPING = "stopping"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in {Phase.COMPLETED, Phase.STOPPED, Phase.FAILED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One training job's status, from an event or a Describe call."""

    training_job: str
    phase: Phase
    at: int
    """When SageMaker says the status began (ms); the time of the call if SageMaker does not say."""
    running_since: int | None = None
    """When the training job got its instances (ms); None: not yet, or SageMaker does not say."""
    token: str | None = None
    """The attempt's token, if the news includes the training job's tags; "" if the tags have none;
    None if the tags are not included."""
    verdict: Verdict = Verdict.OK
    """For a failed training job, what follows for the job: BACK_OFF, REQUEUE, ROLE_LACKS_RIGHTS,
    RELEASED or FAIL."""
    max_runtime: bool = False
    """The training job reached its maximum runtime. The job ends, whatever retries are left."""
    shared_fault: bool = False
    """A fatal fault on a GPU of which several jobs have parts ended the attempt."""
    gpu_bound: GpuBound = GpuBound.NONE
    trained: Duration | None = None
    """How long the training job that has ended has trained; None: the news do not say."""
    billed: Duration | None = None
    """How much of `trained` SageMaker bills."""
    max_wait: bool = False
    """The training job reached its maximum wait for spot instances."""
    interrupted: bool = False
    """SageMaker has taken the instances back, and goes on with the training job later."""
    changed_at: int = 0
    """Since when the training job has its instances, or is without them after an interruption
    (ms)."""
    pending: bool = False
    """The training job is starting, and SageMaker is looking for instances."""
    quota: ServiceQuota | None = None
    """The account's quota that a capacity error or a refusal names, if any."""
    action: str = ""
    """The missing right in IAM's notation, if the training job failed without it."""
    message: str = ""
    artifact: str = ""
    checkpoints: str = ""
    metrics: tuple[tuple[str, float], ...] = ()
    """The final metrics that SageMaker found in the output, by name."""
    warmth: Warmth = Warmth.NOTHING_KEPT
    reused_by: str = ""
    """The training job that took the instances over."""
    kept_warm: int | None = None
    """How long SageMaker has kept them idle (ms); None: it does not say."""
    odd: str = ""
    """The parts of the news in an unknown form, which were ignored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """A running training job that the queue does not expect, looked into once."""

    training_job: str
    ours: bool
    """True if the training job has this queue's tag. Otherwise it is foreign and never touched."""
    instance_type: str
    instances: int
    capacity_kind: CapacityKind = CapacityKind.ON_DEMAND
    first_seen: Moment
    stopped: bool = False
    """True once the queue has asked the training job to stop. The queue asks once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveTrainingJobs:
    """The names of training jobs that have not ended."""

    names: frozenset[str]
    interrupted: frozenset[str] = frozenset()
    """Those whose instances SageMaker has taken back."""
    complete: bool = True
    """False: there was no time for every page. Those that were created first are missing."""


class TrainingService(Protocol):
    """The part of SageMaker training that the queue uses. `create` and `stop` never raise: every
    answer is data."""

    def create(self, request: Request, job: Job, attempt: Attempt) -> CallResult:
        """Start the attempt: the job's request under the attempt's name and instance type, with
        ownership tags and the attempt's token.

        A repeated create of the same attempt answers ALREADY_DONE, by the token. Any other training
        job of that name answers NAME_TAKEN.
        """

    def stop(self, training_job: str) -> CallResult:
        """Ask a training job to stop. Answers ALREADY_DONE if it has ended or is stopping, and FAIL
        with a message if it does not exist."""

    def describe(self, training_job: str) -> Observation | None:
        """Describe a training job; None if it does not exist. Raises Unavailable if SageMaker
        cannot say."""

    def live(self, works: Collection[WorkKind] = (WorkKind.TRAINING,)) -> LiveTrainingJobs:
        """List the account's jobs of these kinds of work that have not ended, the newest first. For
        reconciliation only, never in a pass: the whole account has 2 calls a second. Raises
        Unavailable."""

    def look_into(self, training_job: str, *, now: int) -> Sighting | None:
        """Find the owner and the slots of an unknown training job: one Describe, one ListTags. None
        if the training job is gone. Raises Unavailable."""


class SageMakerService(TrainingService, Protocol):
    """SageMaker itself, which also runs the nodes and keeps instances warm."""

    def release(self, training_job: str) -> CallResult:
        """Give up the warm instances of an ended training job. Answers ALREADY_DONE if it has none,
        and FAIL if it does not exist. Never raises."""

    def describe_plan(self, arn: str) -> PlanFacts | None:
        """Describe a training plan; None if it does not exist. Raises Unavailable if SageMaker
        cannot say."""

    def create_node(
        self,
        request: Request,
        node: Node,
        launch: Launch,
        *,
        instance_type: str,
        tags: Sequence[Mapping[str, str]] = (),
    ) -> CallResult:
        """Start the training job of a node: what the node runs, with what all jobs of its tenant
        have in common (image, role, network, volume, keys). `request`: that of a job of the tenant.
        `tags`: those that all jobs of the node have, beside the queue's own.

        Repeated creates and taken names are answered as by `create`, by a hash of the node's token.
        """
