"""The manager's ports as Protocols, and the data that crosses them.

The adapters implement the ports. `adapters.memory` is the fake; the same contract suite tests it
and the real store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.limits import (
    NO_LIMITS,
    NOTHING_USED,
    CallerLimits,
    CallerUse,
    Limits,
    QueueUse,
)
from slotq_core.model.pools import Pool, PoolHealth
from slotq_core.model.snapshot import Snapshot

Request = Mapping[str, Any]
"""A CreateTrainingJob request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """A pool's capacity ledger, as last committed. Its version rises with each decision."""

    version: int = 0
    used: Demand = field(default_factory=Demand)


@dataclass(frozen=True, kw_only=True, slots=True)
class Poison:
    """A stored item that cannot be read. It stops nothing else."""

    key: str
    """The item's key, in the store's own notation."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """The input of one pass: the policy's snapshot, and the versions that its commits depend on."""

    snapshot: Snapshot
    ledgers: Mapping[str, Ledger]
    """By pool name, for every pool of the snapshot."""
    poison: tuple[Poison, ...] = ()
    """Items that could not be read. Slots that they may hold count as held."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """A running training job that the queue does not expect, looked into once."""

    training_job: str
    ours: bool
    """True if the training job has this queue's tag. Otherwise it is foreign and never touched."""
    instance_type: str
    instances: int
    first_seen: int
    stopped: bool = False
    """True once the queue has asked the training job to stop. The queue asks once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One disagreement within the stored data, or with SageMaker."""

    kind: str
    """Stable and for programs: `ended_unseen`, `orphan`, `stale_intent`, `ledger`, `copy` …"""
    subject: str
    """The job, training job or pool."""
    text: str
    """What is wrong, and how it is mended."""
    mended: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One job's part of a transaction: the job as read and the job to write."""

    before: Job
    after: Job
    ended: Attempt | None = None
    """The attempt that this change ends, for the history."""
    request: Request | None = None
    """The new request; None: the request stays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """The configuration at one moment."""

    pools: tuple[Pool, ...]
    """The pools, in their configured order."""
    revision: int
    """Rises with each change; 0: never configured."""
    limits: Limits = NO_LIMITS
    use: QueueUse = NOTHING_USED
    """What all callers used at the last audit. It is read with the configuration but is not part of
    it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationChange:
    """One change of the configuration, for the record."""

    revision: int
    """The revision that the change made."""
    who: str
    """Who signed the request, or the setting that the change came from."""
    at: int
    before: tuple[Pool, ...]
    after: tuple[Pool, ...]
    limits_before: Limits = NO_LIMITS
    limits_after: Limits = NO_LIMITS


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter:
    """One caller's counter, as an audit reads it."""

    waiting: int = 0
    audits: int = 0
    """Corrections so far. Of two audits at once, only one corrects the counter."""
    minutes: frozenset[int] = frozenset()
    """The minutes for which the counter still keeps submissions."""
    readable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Census:
    """Waiting jobs counted one by one, for audits. The count may lag behind by a moment."""

    waiting: Mapping[str, int]
    """Jobs in QUEUED_STATES, by submitter."""
    lines: int


class Counters(Protocol):
    """Counters of what callers have used of their limits.

    A submission is counted before it is kept, in a separate call, so a submission that is not kept
    may be counted. Jobs that leave the queue are not subtracted. Audits correct both. Methods may
    raise Unavailable.
    """

    def take(self, caller: str, *, minute: int, limits: CallerLimits) -> bool:
        """Count one more submission if the limits allow it. Returns whether they did. A single
        conditional update."""

    def give_back(self, caller: str, *, minute: int) -> None:
        """Give back the count of a submission that was not kept."""

    def use(self, caller: str, *, minute: int) -> CallerUse: ...

    def all(self) -> Mapping[str, Counter]:
        """Every counter, by caller."""

    def census(self) -> Census: ...

    def correct(self, caller: str, seen: Counter, *, waiting: int, minute: int) -> None:
        """Correct the counter by the difference from what the audit has seen. Later counts stay.

        Forgets minutes before the last. Deletes the counter if it is empty or cannot be read. Does
        nothing if another audit was faster.
        """

    def set_queue_use(self, use: QueueUse) -> None: ...


class Store(Protocol):
    """The place where jobs are kept. Every read that a decision rests on is strongly consistent.

    All methods may raise Unavailable (throttled, no answer). The caller's next trigger tries again.
    """

    @property
    def counters(self) -> Counters:
        """Counters of what callers have used of their limits."""

    def pools(self) -> tuple[Pool, ...]:
        """The configured pools, in their configured order."""

    def configuration(self) -> Configuration:
        """The configuration: pools, limits, use and revision."""

    def configure(
        self, pools: Sequence[Pool], *, who: str, now: int, seen: int | None = None
    ) -> None:
        """Replace the pools and record who did so, when, before and after.

        `seen` is the revision that the caller decided on; raises Conflict if it is outdated.
        Removes a pool that is not listed any more. Raises PoolInUse if something runs in such a
        pool, and Misconfigured if the pools contradict each other. Capacity may shrink below use;
        then nothing is admitted until use has fallen.
        """

    def set_limits(self, limits: Limits, *, who: str, now: int, seen: int | None = None) -> None:
        """Replace the limits, on the same record. Raises Conflict as `configure` does."""

    def changes(self, *, limit: int, who: str | None = None) -> tuple[ConfigurationChange, ...]:
        """At most `limit` recorded changes of pools and limits, the latest first; with `who`, only
        that caller's."""

    def pool(self, name: str) -> Pool | None:
        """One configured pool with its health; None if there is no such pool."""

    def set_health(self, pool: str, health: PoolHealth) -> None:
        """Store a pool's health. Unconditional: a lost write costs one more failed start."""

    def bump(self) -> None:
        """Raise the wake's generation: there is something to decide."""

    def take_lease(
        self, holder: str, *, now: int, until: int, only_news: bool = False
    ) -> int | None:
        """Take or renew the lease on passes until `until` (ms).

        Returns the current generation. Returns None while another holder's lease lasts, and with
        `only_news` also if nobody has bumped since the last complete pass. The lease only saves
        work: two holders at once do no harm.
        """

    def end_lease(self, holder: str, *, generation: int | None) -> bool:
        """Give the lease back, and record `generation` as handled, if nobody has bumped since.

        With None, give the lease back in any case and record nothing. Returns False if somebody has
        bumped or another holds the lease.
        """

    def take_turn(self, task: str, *, now: int, next_at: int) -> bool:
        """Take the turn of a periodic task if one is due, and set the next turn to `next_at`.
        Returns whether it was due. Only one caller gets each turn."""

    def next_turn(self, task: str) -> int | None:
        """When the task's next turn comes (ms); None if nobody has taken one."""

    def postpone(self, task: str, *, next_at: int) -> None:
        """Set the task's next turn to `next_at`, whatever was set before."""

    def set_foreign(self, pool: str, amount: Demand) -> None:
        """Set what training jobs outside the queue occupy of a pool. A change raises the ledger's
        version."""

    def sightings(self) -> tuple[Sighting, ...]:
        """All sightings that are remembered and not forgotten."""

    def remember(self, sighting: Sighting) -> None: ...

    def forget(self, training_job: str) -> None: ...

    def expire(self, *, now: int, limit: int = 25) -> int:
        """Finish marking the records of at most `limit` ended jobs for removal. Returns the number
        of jobs.

        When a job ends, its records get a time of removal. Nothing else ever expires.
        """

    def quarantine(self, poison: Poison) -> None:
        """Mend the item from the job's own item if that is whole. Otherwise move it to where people
        find it, and keep counting the slots that it may hold."""

    def inspect(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterable[Finding]:
        """Find every disagreement in the stored data: ledgers with active jobs, copies with their
        jobs, missing lines.

        Reads everything, so it is for people. If `time_left` (ms) runs out, the last finding is
        `unfinished`: earlier findings stand, and there may be more.
        """

    def submit(self, job: Job, request: Request, *, opens_line: bool = True) -> Job:
        """Store a new job and its request, both or neither. Returns the job with its version.

        Never touches a ledger, so submissions conflict neither with each other nor with a pass.
        Raises NameTaken if a job of that name exists. Raises Conflict if the job needs a new line
        and `opens_line` is false.
        """

    def load(self, now: int) -> World:
        """Load the input of a pass at `now`: active jobs, claimants, the heads of each line (as
        many as could start or evict) and due back-offs.

        The cost does not depend on the number of waiting jobs.
        """

    def load_all(self, now: int) -> World:
        """Load the same with every waiting job: for explanations, never for a pass."""

    def commit(
        self, changes: Sequence[Change], *, seen: Mapping[str, int] | None = None
    ) -> tuple[Job, ...]:
        """Commit every change or none, in one transaction. Returns the jobs as they now stand.

        The conditions: each job still has `before.version`; each pool in `seen` still has that
        ledger version; every pool has room for what is newly held in it. Raises Conflict if a
        condition fails.

        A job holds its slots from the change into an active state until the change out of it. The
        version of each pool in `seen`, and of each pool whose use changes, rises by one.
        """

    def job(self, name: str) -> Job | None: ...

    def request(self, name: str) -> Request:
        """The job's request as it now stands. Raises NoSuchJob."""

    def attempts(self, name: str) -> tuple[Attempt, ...]:
        """Every attempt of a job in order, including the live one."""

    def job_of(self, training_job: str) -> str | None:
        """The name of the job that owns a training job; None if no attempt ever had that name."""

    def jobs(self, states: Iterable[JobState], *, limit: int = 1000) -> tuple[Job, ...]:
        """Jobs in these states, the latest entry first within each. For people: the answer may lag
        behind."""

    def waiting_since(self) -> int | None:
        """The earliest entry time (ms) of a waiting job (pending or preempted); None if none waits.
        For people: the answer may lag behind."""

    def ahead_of(self, job: Job) -> int:
        """The number of waiting jobs that share a pool with this one and come before it in the
        order.

        For people: counted on request, not strongly consistent.
        """


class Verdict(StrEnum):
    """The queue's reaction to an answer of SageMaker. The adapter's table maps every documented
    error and outcome to exactly one verdict."""

    OK = "ok"
    ALREADY_DONE = "already_done"
    """The requested state exists already: treated as OK."""
    RETRY = "retry"
    """The call may have taken effect. The intent stays, and the next pass tries again."""
    BACK_OFF = "back_off"
    """No capacity now. The pool backs off, and the job tries its next acceptable pool."""
    REQUEUE = "requeue"
    """SageMaker's own fault. The job waits again after a short back-off."""
    NO_RIGHTS = "no_rights"
    """The queue lacks a right that every job needs. The pool backs off, and the job waits again."""
    ROLE_LACKS_RIGHTS = "role_lacks_rights"
    """A right is missing that jobs of one execution role need. The role backs off in that pool, and
    the job waits again."""
    FAIL = "fail"
    """SageMaker will never accept the request. The job fails with the message."""


RIGHTS = frozenset({Verdict.NO_RIGHTS, Verdict.ROLE_LACKS_RIGHTS})
"""The verdicts for a missing right. SageMaker has done nothing, and no job ends because of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The result of one call to SageMaker."""

    verdict: Verdict
    message: str = ""
    limit: int | None = None
    """The account's service limit in instances, if a capacity error names it."""
    action: str = ""
    """The missing right in IAM's notation, if any."""


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
    token: str | None = None
    """The attempt's token, if the news includes the training job's tags; "" if the tags have none;
    None if the tags are not included."""
    verdict: Verdict = Verdict.OK
    """For a failed training job, what follows for the job: BACK_OFF, REQUEUE, ROLE_LACKS_RIGHTS or
    FAIL."""
    max_runtime: bool = False
    """The training job reached its maximum runtime. The job ends, whatever retries are left."""
    pending: bool = False
    """The training job is starting, and SageMaker is looking for instances."""
    limit: int | None = None
    """The account's service limit in instances, if a capacity error names it."""
    action: str = ""
    """The missing right in IAM's notation, if the training job failed without it."""
    message: str = ""
    artifact: str = ""
    checkpoints: str = ""
    odd: str = ""
    """The parts of the news in an unknown form, which were ignored."""


class TrainingService(Protocol):
    """The part of SageMaker training that the queue uses. `create` and `stop` never raise: every
    answer is data."""

    def create(self, request: Request, job: Job, attempt: Attempt) -> Answer:
        """Start the attempt: the job's request under the attempt's name and instance type, with
        ownership tags and the attempt's token.

        A repeated create of the same attempt answers ALREADY_DONE, by the token. Any other training
        job of that name answers FAIL.
        """

    def stop(self, training_job: str) -> Answer:
        """Ask a training job to stop. Answers ALREADY_DONE if it has ended or is stopping, and FAIL
        with a message if it does not exist."""

    def describe(self, training_job: str) -> Observation | None:
        """Describe a training job; None if it does not exist. Raises Unavailable if SageMaker
        cannot say."""

    def live(self) -> Iterable[str]:
        """The names of all training jobs of the account that have not ended. Paginated. For
        reconciliation only, never in a pass: the whole account has 2 calls a second. Raises
        Unavailable."""

    def look_into(self, training_job: str, *, now: int) -> Sighting | None:
        """Find out who owns an unknown training job and what it occupies: one Describe, one
        ListTags. None if the training job is gone. Raises Unavailable."""


class DeadLetters(Protocol):
    """A place for events and items that cannot be read, for people to look at."""

    def put(self, kind: str, subject: str, reason: str) -> None:
        """Put one item there. Never raises."""


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""


class Notifier(Protocol):
    """Asks for a pass, soon and at least once. Returns without waiting for the pass."""

    def wake(self) -> None: ...
