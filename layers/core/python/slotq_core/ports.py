"""What the manager needs from the world, as Protocols, and the data that crosses them.

The adapters implement these; `adapters.memory` is the fake, held to the same contract suite as the
real store.
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
"""A CreateTrainingJob request, as the user submitted it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """What a pool's slots are used for, as last committed. Its version rises with each decision."""

    version: int = 0
    used: Demand = field(default_factory=Demand)


@dataclass(frozen=True, kw_only=True, slots=True)
class Poison:
    """Something kept that cannot be understood. It stops nothing else."""

    key: str
    """Where it stands, in the store's own words."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """What one pass sees: the policy's input, and what its commits are conditioned on."""

    snapshot: Snapshot
    ledgers: Mapping[str, Ledger]
    """By pool name; one for every pool of the snapshot."""
    poison: tuple[Poison, ...] = ()
    """What was passed over. Slots that it may hold count as held."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """A training job that runs and that the queue does not expect, looked into once."""

    training_job: str
    ours: bool
    """It bears this queue's tag; else it is foreign and is never touched."""
    instance_type: str
    instances: int
    first_seen: int
    stopped: bool = False
    """The queue has asked it to stop: done once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One way in which what is kept disagrees with itself or with SageMaker."""

    kind: str
    """Stable and for programs: `ended_unseen`, `orphan`, `stale_intent`, `ledger`, `copy` …"""
    subject: str
    """The job, training job or pool."""
    text: str
    """What is wrong, and what mends it."""
    mended: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One job's part of a transaction: from what was read to what shall be.

    `after.version` is ignored: the store writes `before.version + 1`.
    """

    before: Job
    after: Job
    ended: Attempt | None = None
    """The attempt that ends with this change, for the history."""
    request: Request | None = None
    """The request as it is from now on; None: as it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """What is configured at one moment."""

    pools: tuple[Pool, ...]
    """In their order."""
    revision: int
    """Rises with each change; 0: nobody has ever configured anything."""
    limits: Limits = NO_LIMITS
    use: QueueUse = NOTHING_USED
    """Read with it and not configured: what all callers used at the last audit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationChange:
    """One change of the configuration, for the record."""

    revision: int
    """That it made."""
    who: str
    """Who signed the request, or the setting that it came from."""
    at: int
    before: tuple[Pool, ...]
    after: tuple[Pool, ...]
    limits_before: Limits = NO_LIMITS
    limits_after: Limits = NO_LIMITS


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter:
    """What is counted of one caller, as an audit reads it."""

    waiting: int = 0
    audits: int = 0
    """How often it was put right: of two audits at once only one does it."""
    minutes: frozenset[int] = frozenset()
    """The minutes whose submissions it still has."""
    readable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Census:
    """What waits, counted one by one. For audits: it may lag behind by a moment."""

    waiting: Mapping[str, int]
    """By submitter, the jobs in QUEUED_STATES."""
    lines: int


class Counters(Protocol):
    """What callers have used of their limits.

    A submission is counted before it is kept and in a call of its own, so it may be counted where
    nothing is kept in the end; and what leaves the queue is not taken off. Audits put that right.
    Methods may raise Unavailable.
    """

    def take(self, caller: str, *, minute: int, limits: CallerLimits) -> bool:
        """Count one more submission if the limits leave room for it. Returns whether they did. One
        conditional update."""

    def give_back(self, caller: str, *, minute: int) -> None:
        """What was taken for a submission that was not kept."""

    def use(self, caller: str, *, minute: int) -> CallerUse: ...

    def all(self) -> Mapping[str, Counter]:
        """Every counter, by caller."""

    def census(self) -> Census: ...

    def correct(self, caller: str, seen: Counter, *, waiting: int, minute: int) -> None:
        """Make good what the counter, as it was seen, has too much or too little. What was counted
        since then stays counted. Forgets minutes before the last; and the counter, where nothing
        is left of it or it cannot be read. Does nothing where another audit was faster."""

    def set_queue_use(self, use: QueueUse) -> None: ...


class Store(Protocol):
    """Where jobs are kept. Every read that a decision rests on is strongly consistent.

    All methods may raise Unavailable (throttled, no answer): the caller's trigger comes again.
    """

    @property
    def counters(self) -> Counters:
        """What callers have used of their limits."""

    def pools(self) -> tuple[Pool, ...]:
        """The configured pools, in their configured order."""

    def configuration(self) -> Configuration:
        """The same, with the revision that they stand at."""

    def configure(
        self, pools: Sequence[Pool], *, who: str, now: int, seen: int | None = None
    ) -> None:
        """Make these the pools, recording who, when, before and after.

        `seen`: the revision that this was decided on; raises Conflict if there is another by now.
        A pool that is not named any more is removed once nothing runs in it: raises PoolInUse if
        something does, Misconfigured where the pools contradict themselves. Capacity may shrink
        below use: nothing is admitted until use has fallen.
        """

    def set_limits(self, limits: Limits, *, who: str, now: int, seen: int | None = None) -> None:
        """Make these the limits, on the same record. Raises Conflict as `configure` does."""

    def changes(self, *, limit: int, who: str | None = None) -> tuple[ConfigurationChange, ...]:
        """What both have recorded, the latest first, at most so many; of one who alone, where
        it is given."""

    def pool(self, name: str) -> Pool | None:
        """One configured pool, with what was learned of its health."""

    def set_health(self, pool: str, health: PoolHealth) -> None:
        """Keep what was learned of a pool. Unconditional: lost, it costs one more failed start."""

    def bump(self) -> None:
        """There is something to decide: raise the wake's generation."""

    def take_lease(
        self, holder: str, *, now: int, until: int, only_news: bool = False
    ) -> int | None:
        """Become, or stay, the one that runs passes until then. Returns the generation at that
        moment; None while another holds the lease and its time is not over, and with `only_news`
        also where nobody has bumped since the last pass that came to its end.

        The lease saves work and decides nothing: two holders at once do no harm.
        """

    def end_lease(self, holder: str, *, generation: int | None) -> bool:
        """Give the lease back, if nobody has bumped since that generation, which is then seen to;
        or whatever has happened (None), and then nothing is. False: somebody has bumped, or the
        lease is another's by now."""

    def take_turn(self, task: str, *, now: int, next_at: int) -> bool:
        """Whether a task done now and then is due; if so its next turn is at `next_at`, and nobody
        else gets this one."""

    def postpone(self, task: str, *, next_at: int) -> None:
        """The task's next turn is then, whatever was set before."""

    def set_foreign(self, pool: str, amount: Demand) -> None:
        """What training jobs outside the queue occupy of a pool. Raises the ledger's version where
        it changes."""

    def sightings(self) -> tuple[Sighting, ...]:
        """What was remembered and not forgotten."""

    def remember(self, sighting: Sighting) -> None: ...

    def forget(self, training_job: str) -> None: ...

    def expire(self, *, now: int, limit: int = 25) -> int:
        """Finish marking the records of ended jobs for their removal, for so many jobs. Returns for
        how many it did. (When a job ends, its records get the time at which they go; nothing else
        ever expires.)"""

    def quarantine(self, poison: Poison) -> None:
        """Mend it from the job's own item where that is whole; else put it out of the way, where
        people find it, and keep counting the slots that it may hold."""

    def inspect(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterable[Finding]:
        """Everything kept that disagrees with itself: ledgers with what is active, copies with
        their jobs, lines that lack. Reads everything: for people. Where `time_left` (ms) does not
        suffice, it ends with an `unfinished` finding: what it has found stands, and there may be
        more."""

    def submit(self, job: Job, request: Request, *, opens_line: bool = True) -> Job:
        """Keep a new job and its request: all of it or nothing. Returns it with its version.

        Never touches a ledger, so that submissions cancel neither each other nor a pass.
        Raises NameTaken if a job of that name is kept already; Conflict where it may open no line
        and its own is not there.
        """

    def load(self, now: int) -> World:
        """What a pass at `now` needs: everything active, every claimant, the heads of each line (as
        many as could start or evict) and the back-offs that are due.

        Costs the same however many jobs wait.
        """

    def load_all(self, now: int) -> World:
        """The same with everything that waits: for explanations, never for a pass."""

    def commit(
        self, changes: Sequence[Change], *, seen: Mapping[str, int] | None = None
    ) -> tuple[Job, ...]:
        """One transaction: every change or none. Returns the jobs as they now stand.

        Holds only if each job still has `before.version`, each pool in `seen` still has that ledger
        version, and every pool has room for what is newly held in it. Slots are held from the
        change into an active state until the change out of it. The version of each pool in `seen`,
        and of each whose use changes, rises by one. Raises Conflict when a condition no longer
        holds.
        """

    def job(self, name: str) -> Job | None: ...

    def request(self, name: str) -> Request:
        """The request as submitted. Raises NoSuchJob."""

    def attempts(self, name: str) -> tuple[Attempt, ...]:
        """Every attempt of a job, the first first, the live one included."""

    def job_of(self, training_job: str) -> str | None:
        """The job that a training job's name belongs to; None if no attempt ever bore it."""

    def jobs(self, states: Iterable[JobState], *, limit: int = 1000) -> tuple[Job, ...]:
        """Jobs in these states, the latest entry first within each. For people: may lag behind."""

    def waiting_since(self) -> int | None:
        """The entry time of the waiting job (pending or preempted) that entered first; None where
        none waits. For people: may lag behind."""

    def ahead_of(self, job: Job) -> int:
        """How many waiting jobs that share a pool with this one stand before it in the order.

        For people: counted when asked, not strongly consistent.
        """


class Verdict(StrEnum):
    """What the queue does about an answer of SageMaker. The adapter's table maps every documented
    error and outcome to exactly one."""

    OK = "ok"
    ALREADY_DONE = "already_done"
    """What was asked for is so already: as good as OK."""
    RETRY = "retry"
    """The call may or may not have taken effect: leave the intent, the next pass tries again."""
    BACK_OFF = "back_off"
    """No capacity there now: the pool backs off, and the job's next acceptable pool is tried."""
    REQUEUE = "requeue"
    """SageMaker's own fault: the job waits again after a short back-off."""
    NO_RIGHTS = "no_rights"
    """The queue lacks a right that every job needs: the pool backs off, and the job waits again."""
    ROLE_LACKS_RIGHTS = "role_lacks_rights"
    """A right is missing that jobs of this execution role need: the role backs off in that pool,
    and the job waits again."""
    FAIL = "fail"
    """The request will never be accepted: the job fails with the message."""


RIGHTS = frozenset({Verdict.NO_RIGHTS, Verdict.ROLE_LACKS_RIGHTS})
"""A right is missing: nothing has happened in SageMaker, and no job ends for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of one call to SageMaker."""

    verdict: Verdict
    message: str = ""
    limit: int | None = None
    """The account's service limit in instances, where a capacity error names it."""
    action: str = ""
    """The right that is missing, as IAM calls it, where one is."""


class Phase(StrEnum):
    """How far a training job is, in the queue's words."""

    STARTING = "starting"
    RUNNING = "running"
    """Has its instances."""
    STOPPING = "stopping"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in {Phase.COMPLETED, Phase.STOPPED, Phase.FAILED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What an event or a look says of one training job."""

    training_job: str
    phase: Phase
    at: int
    """When SageMaker says it was so; the moment of looking where it says nothing."""
    token: str | None = None
    """The attempt's token, where the news carries the training job's tags; "" if it bears none."""
    verdict: Verdict = Verdict.OK
    """For a failed one, what follows for the job: BACK_OFF, REQUEUE, ROLE_LACKS_RIGHTS or FAIL."""
    max_runtime: bool = False
    """It reached its maximum runtime: the job's own end, whatever retries it has left."""
    pending: bool = False
    """Still starting, and SageMaker is looking for instances."""
    limit: int | None = None
    """The account's service limit in instances, where a capacity error names it."""
    action: str = ""
    """The right that is missing, as IAM calls it, where it failed for want of one."""
    message: str = ""
    artifact: str = ""
    checkpoints: str = ""
    odd: str = ""
    """What of the news is not of a known form and was passed over."""


class TrainingService(Protocol):
    """SageMaker training, as far as the queue uses it. No call raises: every answer is data."""

    def create(self, request: Request, job: Job, attempt: Attempt) -> Answer:
        """Start the attempt: the job's request under the attempt's name, on the attempt's instance
        type, with ownership tags and the attempt's token.

        A repeated create of the same attempt answers ALREADY_DONE (its token says so); any other
        training job of that name answers FAIL.
        """

    def stop(self, training_job: str) -> Answer:
        """Ask it to stop. ALREADY_DONE where it has ended or is stopping; FAIL with a message where
        there is no such training job."""

    def describe(self, training_job: str) -> Observation | None:
        """None where there is no such training job. Raises Unavailable if SageMaker cannot say."""

    def live(self) -> Iterable[str]:
        """Names of every training job of the account that has not ended. Paginated; for
        reconciliation only, never in a pass (2 calls a second for the whole account). Raises
        Unavailable."""

    def look_into(self, training_job: str, *, now: int) -> Sighting | None:
        """Whose an unknown training job is and what it occupies: one Describe, one ListTags. None
        where it is gone. Raises Unavailable."""


class DeadLetters(Protocol):
    """Where goes what cannot be understood, for people to look at."""

    def put(self, kind: str, subject: str, reason: str) -> None:
        """Never raises: there is nobody left to tell."""


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""


class Notifier(Protocol):
    """Asks for a pass, soon and at least once; returns without waiting for it."""

    def wake(self) -> None: ...
