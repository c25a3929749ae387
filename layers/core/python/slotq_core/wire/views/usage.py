"""Model <-> JSON: what jobs have used, and the attempts that used it. Moments are ISO 8601 in UTC,
times seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from slotq_core.model.attempts import Beneficiary
from slotq_core.model.pools import CapacityKind
from slotq_core.timestamps import iso, iso_or_none, seconds
from slotq_core.usage.amounts import BY, Amounts, Totals, UsageGroup, field_of, group_of, waits_of
from slotq_core.usage.attempt_use import AttemptUse, gpus_in_part
from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel


class WaitsView(BaseModel):
    """How long jobs waited for their slots."""

    count: int
    total_seconds: float
    histogram: list[tuple[float, int]]
    """The lower bound of each bucket in seconds, and how many waits are in the bucket. A bucket is
    at most 1/32 of its lower bound wide."""


class UsageRowView(BaseModel):
    """The use of a group on one type of instance."""

    group: dict[str, str]
    """The fields that the request groups by: `project`, `submitter`, `pool`, `class`, `kind`. An
    empty submitter means all persons whose use the caller may not see one by one."""
    instance_type: str
    kind: str = CapacityKind.ON_DEMAND.value
    """How the instances are bought, as the pool's `capacity_kind`, or `warm`: the time that they
    stayed warm after an attempt."""
    slot_seconds: float
    """Slots multiplied by the seconds from the admission to the end of each attempt, without the
    time in which SageMaker had interrupted it."""
    instance_seconds: float
    """The part of it in which the attempts had their instances."""
    saved_seconds: float = 0
    """The part of `instance_seconds` that SageMaker does not bill, because the instances are
    spot."""
    unbilled_seconds: float = 0
    """The part of `instance_seconds` on spot instances whose bill is not known, or not yet."""
    lost_seconds: float
    """The part of it whose work was lost to evictions: since the last checkpoint that the attempt
    reported, else since the attempt's start."""
    lost_at_most_seconds: float | None = None
    """The part of `lost_seconds` that is only an upper bound: of attempts that reported no
    checkpoint, but may have saved some. None: an earlier queue, without this field."""
    jobs: int
    """Jobs that started for the first time."""
    attempts: int
    """Attempts that started."""
    evictions_given: int
    """Attempts of the group that were evicted."""
    evictions_taken: int
    """Attempts that were evicted for jobs of the group."""
    waits: WaitsView
    """The waits that ended with these starts."""


class UsagePageView(BaseModel):
    """A page of the use. The rows of all pages together are the answer: rows of one group may be on
    several pages and are added."""

    version: int = VERSION
    start: str
    end: str
    """The end of the window, at most the present."""
    as_of: str
    """Until when running attempts are counted."""
    by: list[str]
    rows: list[UsageRowView]
    unreadable: int = 0
    """Records that cannot be read and are not counted."""
    next: str | None = None
    """Ask for the next page with this as `next`, and the same `from`, `to` and `by`. None: this is
    the last page."""


class EvictionView(BaseModel):
    """The beneficiary of an eviction. All fields are empty if it is no particular job, or
    unknown."""

    job: str = ""
    """Empty also where the caller may not see that job."""
    project: str = ""
    submitter: str = ""
    """The person behind the submitter."""
    workload: str = ""
    lost_since: str
    """The start of the lost work: the last checkpoint that the attempt reported, else its start."""
    lost_at_most: bool = False
    """Whether less may be lost: the attempt reported no checkpoint, but may have saved some."""


class HeldSlotsView(BaseModel):
    """An attempt, as a bar of the timeline."""

    job: str
    """Empty: the caller may not see the job."""
    number: int
    """1 is the job's first attempt."""
    project: str
    submitter: str
    """The person behind the submitter."""
    workload: str
    """The job's class: training, interactive or inference."""
    pool: str
    """The first of several, as is the next."""
    instance_type: str
    slots: int
    """Held from `admitted_at` to `ended_at`, in all pools."""
    parts: dict[str, int] = Field(default={})
    """The slots in each of several pools at once; empty: all of them in `pool`."""
    part_of_slot: list[int | float] = Field(default=[])
    """The part of the slot that an attempt on a node holds: its GPUs, and those of the node. Empty:
    whole slots."""
    admitted_at: str
    running_since: str | None
    """When the attempt got its instances; None: it never did."""
    ended_at: str | None
    """None: it goes on."""
    kind: str = CapacityKind.ON_DEMAND.value
    """How the instances are bought, as the pool's `capacity_kind`, or `warm`: the time that they
    stayed warm after the attempt."""
    outcome: str | None
    """How it ended; None: it goes on, or that is not known, or not for the caller to see."""
    evicted: EvictionView | None = None
    """None: no eviction ended it."""


class SettledView(BaseModel):
    """The first part of a page, which no later look changes."""

    attempts: int
    """How many of the page's attempts are in this part: the first ones."""
    gone: int
    unreadable: int
    next: str
    """A later look keeps this part, and asks with this as `next` for all that comes behind it."""


class AttemptsPageView(BaseModel):
    """A page of the attempts that held slots in a window."""

    version: int = VERSION
    start: str
    end: str
    """The end of the window, at most the present."""
    as_of: str
    """When the page was read."""
    attempts: list[HeldSlotsView]
    """The last page has those that go on, after the others."""
    gone: int = 0
    """Attempts of days of the window, and of later ones, whose single records have expired."""
    unreadable: int = 0
    """Records that cannot be read and are left out."""
    next: str | None = None
    """Ask for the next page with this as `next`, and the same `from`, `to` and `pool`. None: this
    is the last page."""
    settled: SettledView | None = None
    """None: the page begins behind the settled part of the window."""


def attempts_view(
    window: tuple[int, int],
    uses: Iterable[AttemptUse],
    *,
    as_of: int,
    gone: int,
    unreadable: int,
    following: str | None,
    settled: SettledView | None = None,
) -> AttemptsPageView:
    return AttemptsPageView(
        start=iso(window[0]),
        end=iso(window[1]),
        as_of=iso(as_of),
        attempts=[held_slots_view(use) for use in uses],
        gone=gone,
        unreadable=unreadable,
        next=following,
        settled=settled,
    )


def held_slots_view(use: AttemptUse) -> HeldSlotsView:
    return HeldSlotsView(
        job=use.job,
        number=use.number,
        project=use.project,
        submitter=use.submitter,
        workload=use.workload,
        pool=use.pool,
        instance_type=use.instance_type,
        slots=use.slots,
        parts={part.pool: part.slots for part in use.parts},
        part_of_slot=[*gpus_in_part(use.part_of_slot)],
        admitted_at=iso(use.admitted_at),
        running_since=iso_or_none(use.running_since),
        ended_at=iso_or_none(use.ended_at),
        kind=use.kind,
        outcome=use.outcome or None,
        evicted=_eviction(use),
    )


def _eviction(use: AttemptUse) -> EvictionView | None:
    if use.lost_since is None:
        return None
    gains = use.beneficiary or Beneficiary()
    return EvictionView(
        job=use.evicted_for,
        project=gains.project,
        submitter=gains.submitter,
        workload=gains.workload,
        lost_since=iso(use.lost_since),
        lost_at_most=use.lost_at_most,
    )


def usage_view(
    window: tuple[int, int],
    totals: Totals,
    *,
    by: Sequence[str],
    as_of: int,
    unreadable: int,
    following: str | None,
) -> UsagePageView:
    return UsagePageView(
        start=iso(window[0]),
        end=iso(window[1]),
        as_of=iso(as_of),
        by=[*by],
        rows=[_row(group, totals[group], by) for group in sorted(totals)],
        unreadable=unreadable,
        next=following,
    )


def totals_in(rows: Iterable[UsageRowView]) -> Iterable[tuple[UsageGroup, Amounts]]:
    """The groups and amounts in the rows, to add pages up."""
    for row in rows:
        yield group_of(row.group, row.instance_type, row.kind), _amounts(row)


def _row(group: UsageGroup, amounts: Amounts, by: Sequence[str]) -> UsageRowView:
    waits = amounts.waits
    return UsageRowView(
        group={name: field_of(group, name) for name in BY if name in by},
        instance_type=group.instance_type,
        kind=group.kind,
        slot_seconds=seconds(amounts.slot_ms),
        instance_seconds=seconds(amounts.instance_ms),
        saved_seconds=seconds(amounts.saved_ms),
        unbilled_seconds=seconds(amounts.unbilled_ms),
        lost_seconds=seconds(amounts.lost_ms),
        lost_at_most_seconds=seconds(amounts.lost_at_most_ms),
        jobs=amounts.jobs,
        attempts=amounts.attempts,
        evictions_given=amounts.evictions_given,
        evictions_taken=amounts.evictions_taken,
        waits=WaitsView(
            count=waits.count,
            total_seconds=seconds(waits.total),
            histogram=[(seconds(bound), n) for bound, n in sorted(waits.buckets.items())],
        ),
    )


def _amounts(row: UsageRowView) -> Amounts:
    at_most = row.lost_at_most_seconds
    buckets = {_ms(bound): count for bound, count in row.waits.histogram}
    return Amounts(
        slot_ms=_ms(row.slot_seconds),
        instance_ms=_ms(row.instance_seconds),
        saved_ms=_ms(row.saved_seconds),
        unbilled_ms=_ms(row.unbilled_seconds),
        lost_ms=_ms(row.lost_seconds),
        lost_at_most_ms=_ms(row.lost_seconds if at_most is None else at_most),
        jobs=row.jobs,
        attempts=row.attempts,
        evictions_given=row.evictions_given,
        evictions_taken=row.evictions_taken,
        waits=waits_of(row.waits.count, _ms(row.waits.total_seconds), buckets),
    )


def _ms(duration: float) -> int:
    return round(duration * 1000)
