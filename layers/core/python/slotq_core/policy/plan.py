"""Decisions and plans as data. The manager commits decisions and then calls SageMaker."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import WarmSlot
from slotq_core.model.reasons import Reason
from slotq_core.model.reasons.outlook import Outlook
from slotq_core.model.reasons.stalled import Stalled


@dataclass(frozen=True, kw_only=True, slots=True)
class EndBackoff:
    """End the job's back-off: it waits for slots again, at its old place."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Give the job its slots."""

    job: Job
    pool: str
    classed: Job | None = None
    """The job in the class that admits it, if the job waits as AUTO."""
    node: Node | None = None
    """The node that runs the job; None: the job takes slots of the pool."""
    gpu_ids: tuple[int, ...] = ()
    """The GPUs of that node that the job takes, by index."""
    warm: WarmSlot | None = None
    """The warm instances that the job starts on; None: SageMaker provisions others."""
    beside_warm: bool = False
    """Whether the pool has warm instances, of whatever state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartNode:
    """Start a node: it takes one slot of the pool. The job that it is started for gets a claim on
    it. Other jobs of the tenant may start there, too, once the node is ready."""

    job: Job
    pool: str
    name: str
    """The node's name, unique among the pool's nodes."""
    claim: Claim
    along: tuple[tuple[Job, Claim], ...] = ()
    """Other members of the job's gang, each with its claim: the gang starts once all have room."""


class NodeEnd(StrEnum):
    """Why a node ends."""

    KEEP_OVER = "keep_over"
    """It has had no jobs for as long as the pool keeps one."""
    NEEDED = "needed"
    """Its instance is needed in another form: whole, or as a node of another tenant."""
    LONGEST_RUNTIME = "longest_runtime"
    """SageMaker would soon stop its training job."""
    UNNEEDED = "unneeded"
    """The pool keeps no nodes any more, fewer of them, has another instance type, or is drained."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndNode:
    """Start no more jobs on a node, and end it when its last job has ended."""

    node: Node
    cause: NodeEnd
    by: str = ""
    """The job that gets the instance, if it is needed in another form."""


class ReleaseCause(StrEnum):
    """Why warm instances are released."""

    NEEDED = "needed"
    """A job needs them in another form."""
    UNNEEDED = "unneeded"
    """Jobs wait for the pool, and none of them can start on these."""
    NOT_KEPT = "not_kept"
    """The pool keeps none, or for a shorter time, is drained, or has shrunk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """Release warm instances. A job that needs them in another form gets a claim to its demand."""

    slots: tuple[tuple[WarmSlot, str], ...]
    """Each with the job that it is released for; empty: for none."""
    cause: ReleaseCause
    job: Job | None = None
    """A job that gets a claim with it."""
    claim: Claim | None = None
    along: tuple[tuple[Job, Claim], ...] = ()
    """Other members of the job's gang, each with its claim: the gang starts once all have room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartGang:
    """Give all of these members of a gang their slots, or none."""

    group: str
    starts: tuple[Start, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evict:
    """Stop all the victims and give the beneficiary a claim to its demand in one pool."""

    beneficiary: Job
    victims: tuple[Job, ...]
    claim: Claim
    cause: StopCause = StopCause.EVICTED
    """`EVICTED`, or `YIELDED` at the end of a time slice."""
    along: tuple[tuple[Job, Claim], ...] = ()
    """Other members of the beneficiary's gang, each with its claim."""
    nodes: tuple[Node, ...] = ()
    """The nodes whose jobs are all among the victims: they end with these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """Stop the moved jobs, each with a claim to its destination, a pool or a node, and give the
    beneficiary a claim to what it needs."""

    beneficiary: Job
    moved: tuple[tuple[Job, Claim], ...]
    claim: Claim
    nodes: tuple[Node, ...] = ()
    """The nodes whose jobs all move: they end with these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RollBack:
    """Stop the active members of a gang that is no longer whole; the gang waits to start again."""

    group: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Close:
    """Stop these jobs of a pool that closes, or offers fewer slots, by its schedule; they wait
    again, at their places. A gang's running members stop together."""

    pool: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaveOut:
    """Cancel a waiting member whose gang is over or can never be whole again."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class EndGroup:
    """Stop the active members of a gang that has ended. They end as cancelled."""

    group: str
    jobs: tuple[Job, ...]
    why: str
    """The cause of the gang's end, as a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DropClaim:
    """Take the job's claim away: it can no longer be met (the pool shrank, or an entitled job took
    the slots over), or the job goes on in another pool. Its plan decides nothing else."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class GiveUp:
    """Stop a start that SageMaker kept Pending beyond the pool's `pending_timeout`; the job waits
    again, for its next pool."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """Warn of an attempt that has reported nothing for its pool's `stall_after`, or stop it, as the
    pool says. An attempt that has missed its group's heartbeat is stopped."""

    job: Job
    after: Job
    why: Stalled


@dataclass(frozen=True, kw_only=True, slots=True)
class Demote:
    """Put the job into a lower class: its running time in the present class is used up."""

    job: Job
    after: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class TryLater:
    """Record a failed attempt to start a job: back off until the next attempt, or fail the job."""

    changed: tuple[tuple[Job, Job], ...]
    """The job before and after; for a gang, all waiting members, for they share the attempt."""
    why: Reason
    """The reason why the job was blocked."""


Decision = (
    EndBackoff
    | GiveUp
    | Close
    | Stall
    | Demote
    | LeaveOut
    | EndGroup
    | RollBack
    | Start
    | StartNode
    | EndNode
    | StartGang
    | Release
    | Evict
    | Move
    | DropClaim
    | TryLater
)


def jobs_in(decision: Decision) -> tuple[Job, ...]:
    """The jobs that a decision changes, as they were before it."""
    match decision:
        case StartGang(starts=starts):
            return tuple(start.job for start in starts)
        case Evict(beneficiary=job, victims=victims, along=along):
            return (job, *(member for member, _ in along), *victims)
        case StartNode(along=along) | Release(along=along):
            first = (decision.job,) if decision.job is not None else ()
            return (*first, *(member for member, _ in along))
        case Move(beneficiary=job, moved=moved):
            return (job, *(mover for mover, _ in moved))
        case RollBack(jobs=jobs) | EndGroup(jobs=jobs) | Close(jobs=jobs):
            return jobs
        case TryLater(changed=changed):
            return tuple(before for before, _ in changed)
        case EndNode():
            return ()
    return (decision.job,)


def nodes_in(decision: Decision) -> tuple[tuple[str, str], ...]:
    """The nodes that a decision starts or ends: the pool and the name of each."""
    match decision:
        case StartNode(pool=pool, name=name):
            return ((pool, name),)
        case EndNode(node=node):
            return ((node.pool, node.name),)
        case Evict(nodes=nodes) | Move(nodes=nodes):
            return tuple((node.pool, node.name) for node in nodes)
    return ()


class Unexamined:
    """The plan's knowledge of waiting jobs that it did not examine: here, nothing."""

    def kept_back(self, job: Job) -> Reason | None:
        """The limit that keeps every job of its kind back, if one does."""
        return None

    def head_of(self, job: Job) -> str:
        """The first job of its line that was examined and waits; empty: none is known."""
        return ""


NOTHING_KNOWN = Unexamined()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...] = ()
    """Decisions in the order in which they were made; each is valid on its own."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """The reason of each job examined and left waiting, by job name."""
    closed: Mapping[str, Reason] = field(default_factory=dict)
    """The reason of every waiting job of a project that may start none, by project."""
    unexamined: Unexamined = field(default=NOTHING_KNOWN, compare=False)
    """Why jobs wait that are not in `reasons`. Each answer costs the same, whatever waits."""
    outlook: Outlook | None = None
    """The outlook of the job that someone asked about, if its turn came."""
    wake_at: int | None = None
    """When (ms) another plan could first differ from this one if nothing else happens."""

    @property
    def is_last(self) -> bool:
        """Whether a plan on the state after this one decides nothing, if no time passes: this plan
        only starts jobs, so it has tried every job with these slots gone."""
        return all(isinstance(decision, Start | StartGang) for decision in self.decisions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """A request of a plan in progress: more jobs of one line."""

    after: Job
    """The last job of the line that the plan knows."""
    count: int
    """How many of the jobs behind it are wanted. The answer may have more or fewer, but has at
    least one if any are left."""
    alone: bool = False
    """Whether no other line will be wanted next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The answer: the next jobs of the line, in order, and how many wait behind them."""

    jobs: tuple[Job, ...] = ()
    behind: int = 0


Planning = Generator[Need, Found, Plan]
"""A plan in progress: it asks, and goes on with each answer. So nothing is planned twice."""

Answers = Callable[[Need], Found]
"""Answers the requests of a plan."""


def nothing_more(_: Need) -> Found:
    """The answer if the snapshot has every waiting job."""
    return Found()


def run_to_end(planning: Planning, more: Answers) -> Plan:
    """Answer a plan in progress until it is complete. Garbage collection pauses meanwhile, because
    only plans with gangs leave garbage (tests/unit/policy/test_garbage.py)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        need = next(planning)
        while True:
            need = planning.send(more(need))
    except StopIteration as end:
        found: Plan = end.value
        return found
    finally:
        if collects:
            gc.enable()
