"""A decision as data. Nothing here acts; the manager commits and then calls SageMaker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.outlook import Outlook
from slotq_core.model.reasons import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class EndBackoff:
    """The job has waited its time: it waits for slots again, at its old place."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Give the job its slots."""

    job: Job
    pool: str
    classed: Job | None = None
    """The job in the class that it is admitted in, where it waits as AUTO."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartGang:
    """Give all of them their slots, or none."""

    group: str
    starts: tuple[Start, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evict:
    """Stop these, all of them, and owe the beneficiary what it needs in that pool."""

    beneficiary: Job
    victims: tuple[Job, ...]
    claim: Claim
    cause: StopCause = StopCause.EVICTED
    """Evicted, or yielded to the beneficiary's turn."""
    along: tuple[tuple[Job, Claim], ...] = ()
    """The other members of its gang, and what each of them is owed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """Stop these, each with a claim in another pool where it starts again at once, and owe the
    beneficiary what it needs."""

    beneficiary: Job
    moved: tuple[tuple[Job, Claim], ...]
    claim: Claim


@dataclass(frozen=True, kw_only=True, slots=True)
class RollBack:
    """Stop what runs of a gang that is not whole any more: it waits, to start again as one."""

    group: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaveOut:
    """Its gang is over, or can never be whole again: the job ends without having run."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class DropClaim:
    """What it is owed cannot come any more (the pool shrank, a job entitled to it took it), or it
    goes on in another pool. Its plan decides nothing else."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class GiveUp:
    """SageMaker has looked for its instances for longer than the pool allows: stop the attempt, and
    let the job wait again, for its next pool."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Demote:
    """The job has had its running time in its class, and comes into a lower one."""

    job: Job
    after: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class TryLater:
    """An attempt to start the job has failed: it backs off until the next, or has had its last."""

    changed: tuple[tuple[Job, Job], ...]
    """The job before and after; all members of a gang that wait, for its attempt is one."""
    why: Reason
    """What blocked it."""


Decision = (
    EndBackoff
    | GiveUp
    | Demote
    | LeaveOut
    | RollBack
    | Start
    | StartGang
    | Evict
    | Move
    | DropClaim
    | TryLater
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...] = ()
    """In the order in which they were taken; each holds on its own."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """By job name: why the jobs that were looked at and go on waiting do so."""
    outlook: Outlook | None = None
    """Of the job that was asked about, where its turn came."""
    wake_at: int | None = None
    """When, with nothing else happening, another plan could first differ from this one."""
