"""A user's job, as submitted and as the queue keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from slotq_core.gpu_amounts import Gpus
from slotq_core.model.attempts import Attempt
from slotq_core.model.capacity.work import WorkKind, work_of
from slotq_core.model.demand import Demand, Properties
from slotq_core.model.pools import CapacityKind
from slotq_core.timestamps import Duration, Moment

if TYPE_CHECKING:
    from slotq_core.model.notices import Callback


class JobState(StrEnum):
    """A job's state. `lifecycle` has the table of legal transitions."""

    PENDING = "pending"
    """Waiting; has never run."""
    PREEMPTED = "preempted"
    """Evicted after running; waits again with its original entry time."""
    BACKOFF = "backoff"
    """Waits until `Job.not_before`, then waits for slots."""
    HELD = "held"
    """Held by a user: does not start until released. The entry time stays."""
    STARTING = "starting"
    """Holds slots while SageMaker creates the training job and provisions instances."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Still holds its slots. They come free only with the attempt's terminal status."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """Someone stopped the training job outside the queue."""


WAITING_STATES = frozenset({JobState.PENDING, JobState.PREEMPTED})
WAITING_OR_BACKING_OFF = (JobState.PENDING, JobState.PREEMPTED, JobState.BACKOFF)
"""States of a job that will start without a user's action."""
QUEUED_STATES = frozenset({*WAITING_STATES, JobState.BACKOFF, JobState.HELD})
"""States of a job that is kept and holds no slots."""
ACTIVE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
TERMINAL_STATES = frozenset(
    {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.STOPPED}
)


class Workload(StrEnum):
    """The kind of work. Interactive and inference jobs come before training, are never evicted, and
    run only within quota."""

    TRAINING = "training"
    INTERACTIVE = "interactive"
    INFERENCE = "inference"


SEMI: Final = "semi"

Preemptible = bool | Literal["semi"]
"""Whether a job may be evicted: yes, no, or not while it is within its project's quota (`SEMI`)."""


_TRAINING = Workload.TRAINING
"""A module constant, because plans compare it very often and an enum member look-up is slow."""


GROUP_ENTRY = "entry:"
"""The prefix of the name that a member waits for (`Job.after_any`) until its group is stored whole.
No job has such a name."""

GROUP_END = "group:"
"""The prefix of a group's name among a job's dependencies: `group:grid`. No job has such a name."""


SHORTEST_ATTEMPT = 1_000
"""How long an attempt may run at least (ms), whatever the ones before have left."""

MAX_AFTER = 45
"""The most jobs and groups that one job may come after, of both kinds. The submission's transaction
has two actions for each, and at most 100."""


MOST_EVICTIONS = 10
"""The most evictions of a job whose moments it keeps. More than so many in a day count as so many
(`policy.state.candidates`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """Slots owed to a job until it starts or stops waiting. Others were evicted for the job, or the
    job was evicted to start in this pool."""

    pool: str
    amount: Demand
    since: Moment
    priority_class: str = ""
    """The class that counts in the user's limits while the claim lasts; set only for AUTO jobs."""
    moved: bool = False
    """True if the job moves here from another pool. No other job may take the claim over."""
    node: str = ""
    """The node of the pool where GPUs are owed, as many as the job asks for; empty: the amount is
    slots of the pool."""
    gpu_ids: tuple[int, ...] = ()
    """The GPUs of that node that are owed, by index; a job with a part has one. Empty: the claim is
    older than this field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSettings:
    """The settings that a submission sets and its job keeps. Each has one tag in the request:
    `slotq:` and the field's name. Reading, checks, admission, changes, storage and views follow
    from the declaration (`wire.setting_tags`, `wire.views.forms`), and so does the option of `slotq
    submit` (`help` in the metadata). A user may change settings during the job's life."""

    preemptible: Preemptible = field(
        default=True,
        metadata={
            "help": "Whether the job may be evicted. `semi`: not while it is within its project's "
            "quota."
        },
    )
    min_runtime: Duration = field(
        default=0,
        metadata={"help": "Protection from eviction after each start.", "most": 28 * 86_400_000},
    )
    """Requested protection from eviction after each start, at most the pool's `max_min_runtime`."""
    runtime_estimate: Duration = field(
        default=0,
        metadata={
            "help": "How long it will probably run in all, for forecasts alone; 0: its maximum "
            "runtime.",
            "most": 28 * 86_400_000,
        },
    )
    """How long the job will probably run, over all its attempts; 0: not said. It may be less than
    the request's maximum runtime. No decision and no promise rests on it."""
    retries: int = field(
        default=0,
        metadata={"help": "How often to run again after a failure of its own.", "most": 100},
    )
    """How often the job is run again after failures of its own; in a stored job: the retries
    left."""
    workload: Workload = field(
        default=Workload.TRAINING,
        metadata={
            "tag": "slotq:class",
            "help": "The kind of work. Interactive and inference jobs come first, within the "
            "project's quota.",
        },
    )
    gpus: Gpus = field(
        default=0,
        metadata={
            "help": "GPUs of one node, in pools that keep nodes: 1 to 64, or a part of one GPU "
            "from 0.05 to 0.95; 0: whole instances."
        },
    )
    """Hundredths of a GPU: a part of one GPU of a node (5 to 95), or whole GPUs of one node
    (multiples of 100); 0: whole instances. In a stored job: those that it takes in pools with
    nodes, and 0 if no node can run it (`Job.whole_because`)."""
    literal_paths: bool = field(
        default=False,
        metadata={
            "help": "Whether the job has /opt/ml itself on its node, as one job at a time can."
        },
    )


SETTINGS = tuple(setting.name for setting in fields(JobSettings))


def settings_of(source: JobSettings) -> dict[str, Any]:
    """The settings in a submission or a job, by field."""
    return {name: getattr(source, name) for name in SETTINGS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Job(JobSettings):
    """A job. It outlives evictions."""

    name: str
    state: JobState
    priority: int
    """Highest first; −1,000,000 … 1,000,000."""
    entry_time: Moment
    """When the queue accepted the submission (ms). An evicted job keeps its entry time, and so its
    place."""
    demand: Demand
    """The job's need in its pool. Of a job with `gpus` it is one instance: the slot that a node for
    the job takes, or that the job takes itself where it runs without a node."""
    pools: tuple[str, ...]
    """Names of acceptable pools, the preferred first. Never empty."""
    tenant: str = ""
    """A short hash of what all jobs on one node have in common: the project (unless the pool's
    nodes are shared), role, image, network, keys. Set if and only if `gpus` is
    (`admission.instances.nodes`)."""
    whole_because: tuple[str, ...] = ()
    """Why the job takes whole instances although its tag asks for GPUs
    (`reasons.WholeInstance`)."""
    warm_key: str = ""
    """What a training job must have in common with the one before it to start on its warm
    instances, as a short hash; empty: none stay warm for the job, and it starts on none."""
    keep_alive: Duration | None = None
    """How long its own request wants them kept; None: it does not say. Set only with a key."""
    longest_attempt: Duration = 0
    """The longest that one attempt of a job with `gpus` may run (ms): `MaxRuntimeInSeconds` of its
    request, rounded up (`admission.instances.nodes`); 0: not known."""
    runtime_bound: Duration = 0
    """The longest that all attempts of the job may run together (ms): `MaxRuntimeInSeconds` of its
    request, if one of its pools drains for jobs (`admission.instances.runtimes`); 0: no bound."""
    parts: tuple[tuple[str, Demand], ...] = ()
    """The demand in each of several pools at once. `pools` then lists all of these, and `demand` is
    the sum. Empty: the whole demand in one pool."""
    requires: Properties = field(default_factory=Demand)
    """The pool properties that the job asked for, and what it asked for of instances' contents that
    its pools do not count, by instance; of a job over several pools the most of each that a part
    asked for. `pools` holds only pools that had them at the submission."""
    project: str = ""
    """The project's name; empty: the one implicit project."""
    group: str = ""
    """The name of the job's group; empty: none."""
    after: tuple[str, ...] = ()
    """Jobs, and groups as `GROUP_END` says, that must still complete before this one waits for
    slots."""
    after_any: tuple[str, ...] = ()
    """Jobs and groups that must still end, in whatever way, before this one waits for slots."""
    depends_on: tuple[str, ...] = ()
    """The jobs and groups that this one was submitted after, of either kind. They stay here when
    they have ended."""
    followed: bool = False
    """Whether jobs may come after this one, or after its group. Set to false once these dependents
    are notified of its end."""
    priority_class: str = ""
    """The name of the priority class; empty: the priority is a plain number."""
    ran_before_class: Duration = 0
    """The part of `ran` from before the job entered its present class (ms)."""
    admitted_class: str = ""
    """The class that the job had before its demotions, since it was admitted or submitted; empty:
    the present class. One of the classes from there down to the present one counts in the user's
    limits (`policy.state.class_counts`)."""
    auto: bool = False
    """Whether the job was submitted as AUTO. It has a class from admission until eviction."""
    checkpoints: bool = True
    """Whether the job resumes from a checkpoint. A job that would lose its work never yields to a
    time slice."""
    submitter: str = ""
    """The ARN of the caller who signed the submission."""
    person: str = ""
    """The person behind the submitter, as of the submission (`privacy.identity`): the user of the
    policy. Empty: none."""
    role: str = ""
    """The execution role's ARN; empty: unknown."""
    attempts: int = 0
    """Attempts begun so far."""
    evictions: int = 0
    """Evictions decided so far."""
    evicted_at: tuple[Moment, ...] = ()
    """When other jobs have lately taken the job's slots (ms), the latest last; at most
    `MOST_EVICTIONS`."""
    schedule_attempts: int = 0
    """Failed attempts to start since the job last held slots. Counted only with
    `SchedulerSettings`."""
    faults: int = 0
    """Consecutive faults of SageMaker. They set the length of the next back-off."""
    refused_in: tuple[str, ...] = ()
    """The acceptable pools where a quota other than the pool's refused the job's last start, until
    an attempt has run; no move of the running job goes there. They come after the other pools, in
    the order of their refusals; those with a quota of 0 come last."""
    denied_in: tuple[str, ...] = ()
    """The pools among `refused_in` where that quota was 0."""
    releases: tuple[Moment, ...] = ()
    """When attempts lately released their slots without being asked (ms)."""
    shared_faults: tuple[Moment, ...] = ()
    """When a fault that the jobs of one GPU share lately ended attempts (ms)."""
    ran: Duration = 0
    """Total running time of the ended attempts (ms)."""
    reports: bool = False
    """Whether a script of the job has ever reported a step or a save."""
    attempt: Attempt | None = None
    """The live attempt; set if and only if the state is active."""
    claim: Claim | None = None
    """Set only while the job waits, or while it stops to start again in another pool."""
    not_before: Moment | None = None
    """When the back-off ends (ms); set if and only if the state is `backoff`."""
    changed_at: Moment = 0
    """When the job entered its present state (ms); of a job that waited for others, or for its
    group to be stored whole, when the last of these let it into its line."""
    line_by_user: bool = False
    """Whether the job waits in a line of one user and class (`policy.lines`). Admission decides; a
    pass moves jobs that were admitted before users mattered."""
    cause: str = ""
    """Why the job is in its state, for programs, if the state alone does not say: `max_runtime`,
    `rejected`, `name_taken`, `not_scheduled`, `cannot_schedule`, `dependency` …"""
    message: str = ""
    """The cause as a sentence for people."""
    digest: str = ""
    """Hash of the submitted body. An equal hash means the same submission."""
    metrics: tuple[tuple[str, float], ...] = ()
    """The final metrics of an ended member of a group, by name: SageMaker's, and those that its
    script reported last."""
    version: int = 0
    """Rises by one with each committed change."""

    @property
    def work(self) -> WorkKind:
        """The kind of work."""
        return work_of(self.name)

    @property
    def runtime_left(self) -> int | None:
        """What earlier attempts have left of the job's maximum runtime (ms); None: no bound."""
        return max(SHORTEST_ATTEMPT, self.runtime_bound - self.ran) if self.runtime_bound else None

    @property
    def evictable(self) -> bool:
        """Whether the job may be evicted at all: it is preemptible or semi-preemptible training.
        Plans ask `PlanState.may_evict`."""
        return self.preemptible is not False and self.workload is _TRAINING

    @property
    def always_evictable(self) -> bool:
        """Whether the job may be evicted whatever its project holds. A pool's hours and
        reservations count on such jobs alone."""
        return self.preemptible is True and self.workload is _TRAINING

    @property
    def waits(self) -> bool:
        """Whether the job waits for slots. A job in back-off waits for a time, and a job with
        `after` or `after_any` waits for other jobs."""
        return self.state in WAITING_STATES and not (self.after or self.after_any)

    @property
    def comes_to_line(self) -> bool:
        """Whether the job waits for slots, or will do so without a user's action."""
        return self.state in WAITING_OR_BACKING_OFF

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The jobs and groups that this one waits for, and the entry of its own group until the
        group is stored whole; empty for an ended job."""
        return () if self.terminal else (*self.after, *self.after_any)

    @property
    def awaited(self) -> tuple[str, ...]:
        """`waits_for` without the entry of its own group."""
        return tuple(name for name in self.waits_for if not name.startswith(GROUP_ENTRY))

    @property
    def awaited_jobs(self) -> tuple[str, ...]:
        """The jobs among them."""
        return tuple(name for name in self.awaited if not name.startswith(GROUP_END))

    @property
    def awaited_groups(self) -> tuple[str, ...]:
        """The names of the groups among them."""
        names = (name for name in self.waits_for if name.startswith(GROUP_END))
        return tuple(name.removeprefix(GROUP_END) for name in names)

    @property
    def holds(self) -> tuple[tuple[str, Demand], ...]:
        """The amounts held in each pool, from the admission to the end of the attempt."""
        if self.attempt is None:
            return ()
        return self.parts or ((self.attempt.pool, self.demand),)

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL_STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission(JobSettings):
    """A well-formed submission, before the queue has matched it to pools."""

    name: str
    instance_type: str
    demand: Demand
    """The job's need of amounts and of properties of its pools (`admission.requirements`)."""
    preferred: tuple[str, ...] = ()
    """The instance types among which the request leaves the choice (InstancePreferences), the
    preferred first; empty: it names one."""
    role: str = ""
    """The ARN of the execution role that the training job runs under."""
    plan: str = ""
    """The ARN of the requested SageMaker training plan; empty: none."""
    capacity_kind: CapacityKind | None = None
    """How the request itself wants its instances bought; None: it does not say."""
    pools: tuple[str, ...] = ()
    """Pools requested by name, the preferred first; empty: every pool of that instance type."""
    parts: tuple[tuple[str, Demand], ...] = ()
    """For a job over several pools at once: the demand in each."""
    by_type: tuple[tuple[str, Demand], ...] = ()
    """For a job of several instance types: the demand of each. Admission finds the pools (`parts`).
    """
    priority: int = 0
    default_priority: bool = False
    """Whether the submission names no priority. Where classes are configured it is then AUTO."""
    digest: str = ""
    incomplete: bool = False
    """Whether the request lacks fields that SageMaker requires. Its project may fill them in."""
    project: str = ""
    priority_class: str = ""
    group: str = ""
    """The group's name; empty: none."""
    checkpoints: bool = True
    after: tuple[str, ...] = ()
    """Jobs, and groups as `GROUP_END` says, that must complete before this one waits for slots. A
    plain name is that of a job or, where there is no such job, of a group."""
    after_any: tuple[str, ...] = ()
    """Jobs and groups that must end, in whatever way, before this one waits for slots."""
    callback: Callback | None = None
    """Who waits for the job's end. No part of the digest, nor of the stored request."""

    @property
    def work(self) -> WorkKind:
        """The kind of work."""
        return work_of(self.name)

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The instance types that the request accepts, the preferred first."""
        return self.preferred or (self.instance_type,)
