"""One run of a job: its start, the order to stop it, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.demand import Demand
from slotq_core.model.pools import CapacityKind
from slotq_core.timestamps import Duration, Moment


class StopCause(StrEnum):
    """Why an attempt is stopped."""

    EVICTED = "evicted"
    YIELDED = "yielded"
    """An eviction at the end of a time slice, when another user's turn comes."""
    CLOSED = "closed"
    """The pool closes, or offers fewer slots, by its schedule. The job waits again."""
    REQUEUED = "requeued"
    """An eviction because the user gave the attempt up. It makes room for no particular job."""
    RESTORED = "restored"
    """The queue's table was restored from a copy older than the stop, so the cause of the stop is
    unknown: the job waits again."""
    CANCELLED = "cancelled"
    GROUP_ENDED = "group_ended"
    """The member's gang has ended: with its server, or because too few members are left."""
    GOAL_REACHED = "goal_reached"
    """Another member of the sweep has reached its goal."""
    STALLED = "stalled"
    """The script reported nothing for the pool's `stall_after`, or for its group's heartbeat."""
    NO_CAPACITY = "no_capacity"
    """SageMaker looked for instances for longer than the pool's `pending_timeout`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Beneficiary:
    """Whose job gets the slots of an evicted attempt, for the record of use."""

    project: str = ""
    submitter: str = ""
    workload: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StopOrder:
    """A durable intent to stop an attempt."""

    cause: StopCause
    by: str
    """The job that gets the slots, or the person who cancelled the job or gave the attempt up."""
    at: Moment
    sent: bool = False
    """True once SageMaker has accepted the stop."""
    grace_until: Moment | None = None
    """Until when the script may release the slots itself before SageMaker stops the attempt (ms);
    None: SageMaker stops it at once."""
    beneficiary: Beneficiary | None = None
    """None if the attempt makes room for no particular job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Restore:
    """When the table was copied, and when the copy took its place (ms). The table has no record of
    the time in between."""

    copied_at: Moment
    restored_at: Moment

    def hides(self, moment: int) -> bool:
        """Whether the table knows nothing of this moment (ms)."""
        return self.copied_at <= moment <= self.restored_at


class AttemptOutcome(StrEnum):
    """How an attempt ended, in the queue's words."""

    COMPLETED = "completed"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    RELEASED = "released"
    """The script gave its slots back without being asked; the job waits again."""
    STALLED = "stalled"
    FAILED = "failed"
    MAX_RUNTIME = "max_runtime"
    NO_CAPACITY = "no_capacity"
    OTHER_QUOTA = "other_quota"
    """A quota of the account that is not for the pool's instances refused the start."""
    FAULT = "fault"
    """SageMaker's own error; the job is not to blame."""
    NO_RIGHTS = "no_rights"
    """The queue or SageMaker lacked a right; the job is not to blame."""
    FORBIDDEN = "forbidden_by_project"
    """The project's rules forbade the start. Nothing was started, and the job is held."""


class GpuBound(StrEnum):
    """What holds an attempt to its part of a GPU."""

    MPS = "mps"
    """NVIDIA's Multi-Process Service: memory and compute of each process."""
    FRAMEWORK = "framework"
    """A cap that torch, TensorFlow or JAX sets itself: memory of each process."""
    NONE = "none"
    """It has whole GPUs, or has not begun yet."""


PartOfSlot = tuple[int, ...]
"""A part of a slot as two numbers: one GPU of eight is (1, 8). Empty: the whole slot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One run of a job: one SageMaker training job."""

    number: int
    """Counts from 1."""
    training_job: str
    """The training job's name. See docs/protocol.md#intents-names-and-tokens."""
    token: str
    """A token in the training job's tags. It shows that a repeated create is this queue's own."""
    pool: str
    """The first of several."""
    instance_type: str
    capacity_kind: CapacityKind = CapacityKind.ON_DEMAND
    """How the pool's instances are bought, and `spot_wait` of the pool: as of the start."""
    spot_wait: Duration = 0
    plan_arn: str = ""
    """The pool's training plan, as of the start; empty: the pool has none."""
    warm_key: str = ""
    """What another training job must have in common to start on the attempt's instances after it;
    empty: the queue does not follow them."""
    keep_warm: Duration = 0
    """How long SageMaker keeps them, if there is a key."""
    warm_from: str = ""
    """The training job on whose warm instances the attempt starts; empty: on others."""
    beside_warm: bool = False
    """Whether the pool had warm instances when the attempt started. A quota's refusal then says
    nothing about the pool."""
    admitted_at: Moment
    """When the job got its slots (ms). The intent is durable from then on."""
    waiting_since: Moment | None = None
    """When the job last began to wait before that (ms); None: not recorded."""
    instance_types: tuple[str, ...] = ()
    """The instance types of the parts of a job over several pools (`Job.parts`), in their order;
    empty: the job runs in one pool, or the attempt is older than this field."""
    node: str = ""
    """The node that runs the attempt; empty: the attempt has instances of its own."""
    node_generation: int = 0
    """The generation of that node."""
    node_training_job: str = ""
    """The node's own training job. Its log has the attempt's lines where the node does not reach
    CloudWatch Logs. Empty: no node, or the attempt is older than this field."""
    gpu_ids: tuple[int, ...] = ()
    """The node's GPUs that the attempt holds, by index from 0, in order."""
    gpu_part: Gpus = 0
    """The part that it holds of its one GPU; 0: whole GPUs."""
    node_gpus: int = 0
    """The GPUs of that node in all; 0: none, or the attempt is older than this field."""
    node_share: Demand = field(default_factory=Demand)
    """What else of the node's contents the attempt holds: CPUs and memory, where the job asks for
    them."""
    gpu_bound: GpuBound = GpuBound.NONE
    """What holds the attempt to its part of a GPU, as its node says."""
    created: bool = False
    """True once SageMaker has accepted the create."""
    probes: bool = False
    """True if the attempt tests whether a missing right has been granted."""
    pending_since: Moment | None = None
    """When SageMaker began to look for instances (ms); None: not known."""
    running_since: Moment | None = None
    """When the training job got its instances (ms); None while it starts or is interrupted."""
    interruptions: int = 0
    """How often SageMaker has interrupted the attempt. `running_since` is None meanwhile, and then
    later by that time (`policy.lifecycle.interruptions`)."""
    interrupted_since: Moment | None = None
    """When SageMaker took the instances back (ms), until the attempt runs again."""
    ran_before: Duration = 0
    """While it is interrupted: how long the attempt has run."""
    resumed_at: Moment | None = None
    """When it last ran again (ms)."""
    interrupted_for: Duration = 0
    """How long it was interrupted, in all, without the interruption that goes on."""
    trained: Duration | None = None
    """How long an attempt in a spot pool has trained by SageMaker's count; set when it has ended.
    None: not known."""
    billed: Duration | None = None
    """How much of `trained` SageMaker bills, at the price on demand."""
    checkpoint_at: Moment | None = None
    """When the attempt last reported a checkpoint (ms)."""
    saved_step: int | None = None
    """The step of that checkpoint."""
    save_took: Duration | None = None
    """How long the save of that checkpoint took; set when the attempt has ended."""
    reported: bool = False
    """Whether the queue has read a step or a save in the attempt's report."""
    silent_since: Moment | None = None
    """The last sign of life (ms), once the queue has found that the pool's `stall_after`, or its
    group's heartbeat, has passed since; None: not found so."""
    heartbeat_missed: bool = False
    """Whether the queue has found that its group's heartbeat has passed since."""
    stalled_at: Moment | None = None
    """When the queue warned of that silence (ms); None: it has not."""
    step: int | None = None
    """Steps done, as last reported; set when the attempt has ended."""
    steps: int | None = None
    """Steps in all, as last reported; set when the attempt has ended."""
    warning: str = ""
    """The script's fault after a request to suspend, as a sentence; empty: none."""
    stop: StopOrder | None = None
    ended_at: Moment | None = None
    outcome: AttemptOutcome | None = None
    message: str = ""
    """SageMaker's FailureReason, or why SageMaker refused the create."""
    artifact: str = ""
    """S3 URI of model.tar.gz."""
    checkpoints: str = ""
    """S3 URI of the checkpoints, once the attempt runs."""

    @property
    def used_since(self) -> Moment:
        """The start (ms) of the time that counts as use: later than the admission by all
        interruptions."""
        return self.admitted_at + self.interrupted_for

    def used_until(self, now: int) -> Moment:
        """Until when (ms) the live attempt's time counts as use."""
        return now if self.interrupted_since is None else self.interrupted_since

    @property
    def gpus_held(self) -> dict[int, Gpus]:
        """What the attempt holds of each of its node's GPUs, by index."""
        return dict.fromkeys(self.gpu_ids, self.gpu_part or WHOLE)

    @property
    def part_of_slot(self) -> PartOfSlot:
        """The part of a slot that the attempt holds on its node: its GPUs, of those of the node. A
        part of a GPU is counted in hundredths, as are then those of the node."""
        if not (self.node and self.node_gpus):
            return ()
        if self.gpu_part:
            return (self.gpu_part, WHOLE * self.node_gpus)
        return (len(self.gpu_ids), self.node_gpus)
