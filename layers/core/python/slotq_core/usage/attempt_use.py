"""One attempt: its owner, its slots and its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slotq_core.gpu_amounts import WHOLE, gpus_number
from slotq_core.model.attempts import (
    Attempt,
    AttemptOutcome,
    Beneficiary,
    PartOfSlot,
    StopCause,
)
from slotq_core.model.jobs import Job
from slotq_core.model.pools import CapacityKind
from slotq_core.timestamps import Duration, Moment

_EVICTIONS = frozenset({StopCause.EVICTED, StopCause.YIELDED, StopCause.CLOSED})
"""The causes of a stop that count as evictions. Giving up an attempt is not an eviction."""


LONGEST = 400 * 86_400_000
"""Longer than any attempt (ms): SageMaker ends training jobs after 28 days."""

WARM = "warm"
"""The outcome in the record of the time that instances stayed warm, and the kind of its use. No
attempt ends so."""

LATEST = 253_402_300_799_999
"""The last moment (ms) that has a text."""


class PartUse(NamedTuple):
    """The slots of an attempt in one pool."""

    pool: str
    instance_type: str
    slots: int


def gpus_in_part(part: PartOfSlot) -> tuple[int | float, ...]:
    """The GPUs that an attempt on a node has, and those of the node; empty: whole slots."""
    if not part or part[1] < WHOLE:  # No node has so many GPUs: these are hundredths.
        return part
    return tuple(map(gpus_number, part))


def slot_ms(slots: int, part: PartOfSlot, start: int, end: int) -> int:
    """Slots multiplied by the ms of a span; of attempts on nodes only their `part` of the slot.

    Fractions of a ms are rounded such that adjacent spans add up to the whole span.
    """
    if not part or end <= start:
        return slots * max(0, end - start)
    held, whole = part
    return slots * end * held // whole - slots * start * held // whole


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptUse:
    """An attempt for the record of use. Moments are ms since the epoch."""

    job: str
    number: int
    """The attempt's number. `number` 1 is the job's first start."""
    project: str = ""
    submitter: str = ""
    """The person behind the submitter."""
    workload: str
    """The job's class: training, interactive or inference."""
    pool: str
    """The first of several, as is the next."""
    instance_type: str
    slots: int
    """Held from `admitted_at` to `ended_at`, in all pools."""
    admitted_at: Moment
    waiting_since: Moment | None = None
    """When the job last began to wait before this attempt; None: not recorded."""
    running_since: Moment | None = None
    """When the attempt got its instances, later by all interruptions; None: it never did."""
    capacity_kind: CapacityKind = CapacityKind.ON_DEMAND
    interrupted_for: Duration = 0
    """How long the attempt was interrupted, in all: no use."""
    interrupted_since: Moment | None = None
    """Since when an attempt that goes on is interrupted; None: it is not."""
    billed: Duration | None = None
    """How much of the time in a spot pool SageMaker bills, at the price on demand; None: not
    known."""
    ended_at: Moment | None = None
    """None while the attempt holds its slots."""
    lost_since: Moment | None = None
    """The start of the work lost to an eviction: the last checkpoint that the attempt reported,
    else its start (`lost_at_most`). None: no eviction ended the attempt."""
    beneficiary: Beneficiary | None = None
    """The owner of the job that the attempt was evicted for."""
    evicted_for: str = ""
    """The beneficiary's name; empty: the stop makes room for no particular job, or the record is
    older than this field."""
    outcome: str = ""
    """How the attempt ended (`AttemptOutcome`); empty: it goes on, or the record is older than this
    field."""
    parts: tuple[PartUse, ...] = ()
    """The slots in each of several pools at once; empty: all of them in one pool, or the attempt is
    older than this field."""
    part_of_slot: tuple[int, ...] = ()
    """The part of its slot that the attempt holds on a node, as (GPUs, GPUs of the node); empty:
    whole slots (`PartOfSlot`)."""

    @property
    def identity(self) -> tuple[str, int, int]:
        """The identity of the attempt, unique also for two jobs that had one name in turn."""
        return self.job, self.number, self.admitted_at

    @property
    def kind(self) -> str:
        """How the instances are bought (`CapacityKind`), or WARM."""
        return WARM if self.is_warm else self.capacity_kind.value

    @property
    def is_warm(self) -> bool:
        """Whether this is the time that instances stayed warm after the attempt."""
        return self.outcome == WARM

    @property
    def used_since(self) -> Moment:
        """The start of the time that counts as use."""
        return self.admitted_at + self.interrupted_for

    def used_until(self, until: int) -> Moment:
        """The end of the time that counts as use, at most `until` for an attempt that goes on."""
        if self.ended_at is not None:
            return self.ended_at
        return until if self.interrupted_since is None else min(until, self.interrupted_since)

    @property
    def saved_part(self) -> PartOfSlot:
        """The part of its instance time that SageMaker does not bill, as two numbers; empty: no
        attempt in a spot pool, or not known."""
        if self.billed is None or self.running_since is None or self.ended_at is None:
            return ()
        ran = self.ended_at - self.running_since
        return (max(0, ran - self.billed), ran) if ran > 0 else ()

    @property
    def is_unbilled(self) -> bool:
        """Whether what SageMaker bills for spot instances is not known."""
        return self.capacity_kind is CapacityKind.SPOT and not self.saved_part

    @property
    def lost_at_most(self) -> bool:
        """Whether the loss since `lost_since` is only an upper bound: the attempt reported no
        checkpoint."""
        return self.lost_since == self.admitted_at

    @property
    def held(self) -> tuple[PartUse, ...]:
        """The slots by pool, the first pool first."""
        return self.parts or (PartUse(self.pool, self.instance_type, self.slots),)

    def checked(self) -> AttemptUse:
        """Return the ended attempt itself. Raises ValueError for impossible values: a record
        changed by hand must not spoil a sum."""
        ended = self.ended_at
        if ended is None or not 0 <= self.admitted_at <= ended <= self.admitted_at + LONGEST:
            raise ValueError(f"no attempt lasts from {self.admitted_at} to {ended}")
        if ended > LATEST or min(self.slots, *(part.slots for part in self.held)) < 0:
            raise ValueError(f"{self.slots} slots until {ended}")
        if not 0 <= self.interrupted_for <= ended - self.admitted_at:
            raise ValueError(f"no attempt is interrupted for {self.interrupted_for} ms")
        if self.billed is not None and self.billed < 0:
            raise ValueError(f"no attempt is billed for {self.billed} ms")
        if self.part_of_slot:
            held, whole = self.part_of_slot
            if not 0 <= held <= whole or not whole:
                raise ValueError(f"{held} of {whole} parts of its slots")
        return self


def charged_to(job: Job) -> str:
    """The person whom the job's use is charged to."""
    return job.person or job.submitter


def use_of(job: Job, attempt: Attempt) -> AttemptUse:
    """The use of a job's attempt, which has ended or not."""
    stop = attempt.stop if attempt.outcome is AttemptOutcome.EVICTED else None
    evicted = stop is not None and stop.cause in _EVICTIONS
    beneficiary = stop.beneficiary if stop is not None and evicted else None
    running_since = attempt.running_since
    if attempt.interrupted_since is not None:
        running_since = attempt.interrupted_since - attempt.ran_before
    lost_since = attempt.admitted_at
    if attempt.checkpoint_at is not None:
        lost_since = attempt.checkpoint_at
        if attempt.resumed_at is not None:
            lost_since = max(lost_since, attempt.resumed_at)
    return AttemptUse(
        job=job.name,
        number=attempt.number,
        project=job.project,
        submitter=charged_to(job),
        workload=job.workload.value,
        pool=attempt.pool,
        instance_type=attempt.instance_type,
        slots=job.demand.slots,
        admitted_at=attempt.admitted_at,
        waiting_since=attempt.waiting_since,
        running_since=running_since,
        capacity_kind=attempt.capacity_kind,
        interrupted_for=attempt.interrupted_for,
        interrupted_since=attempt.interrupted_since,
        billed=attempt.billed,
        ended_at=attempt.ended_at,
        lost_since=lost_since if evicted else None,
        beneficiary=beneficiary,
        evicted_for=stop.by if stop is not None and beneficiary is not None else "",
        outcome=attempt.outcome.value if attempt.outcome else "",
        parts=_parts_of(job, attempt),
        part_of_slot=attempt.part_of_slot,
    )


def _parts_of(job: Job, attempt: Attempt) -> tuple[PartUse, ...]:
    if len(attempt.instance_types) != len(job.parts):
        return ()
    return tuple(
        PartUse(pool, instance_type, demand.slots)
        for (pool, demand), instance_type in zip(job.parts, attempt.instance_types, strict=True)
    )
