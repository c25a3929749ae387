"""The use of attempts, added up: amounts of slot time, and waits.

A window is half open: from its first moment to before its end. Time counts where it falls into the
window; a start, a wait, and an eviction count at their moment: a wait when it ends with the start,
an eviction when the attempt has ended. Therefore the windows of a partition add up to the whole.

Each power of two is divided into 32 buckets of equal width, so a bucket is at most 1/32 of its
lower bound wide, and its middle is at most 1/64 from any wait in it. Waits below 64 ms are exact.
Whole numbers only: every machine puts a wait into the same bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from slotq_core.model.attempts import PartOfSlot
from slotq_core.model.pools import CapacityKind
from slotq_core.usage.attempt_use import AttemptUse, PartUse, slot_ms
from slotq_core.usage.calendar_days import begin_of, day_of, days, end_of, is_midnight

_BITS = 5
_PARTS = 1 << _BITS


@dataclass(kw_only=True, slots=True)
class Waits:
    """How long jobs waited, in ms."""

    count: int = 0
    total: int = 0
    buckets: dict[int, int] = field(default_factory=dict)
    """The number of waits by the lower bound of their bucket."""

    def note(self, wait: int) -> None:
        self.count += 1
        self.total += wait
        bound = lower_bound(wait)
        self.buckets[bound] = self.buckets.get(bound, 0) + 1

    def add(self, other: Waits) -> None:
        self.count += other.count
        self.total += other.total
        for bound, count in other.buckets.items():
            self.buckets[bound] = self.buckets.get(bound, 0) + count

    @property
    def mean(self) -> float | None:
        """None: nothing has waited."""
        return self.total / self.count if self.count else None

    def percentile(self, percent: int) -> float | None:
        """The wait that `percent` % of the waits do not exceed; None: nothing has waited."""
        wanted, seen = -(-self.count * percent // 100), 0
        for bound, count in sorted(self.buckets.items()):
            seen += count
            if seen >= wanted > 0:
                return bound + (width(bound) - 1) / 2
        return None


def lower_bound(wait: int) -> int:
    """The lower bound of the bucket that holds the wait. Raises ValueError for negative waits."""
    if wait < 0:
        raise ValueError(f"a wait of {wait} ms")
    shift = max(0, wait.bit_length() - _BITS - 1)
    return wait >> shift << shift


def width(bound: int) -> int:
    """The width of the bucket with that lower bound."""
    return 1 << max(0, bound.bit_length() - _BITS - 1)


def waits_of(count: int, total: int, buckets: Mapping[int, int]) -> Waits:
    """The waits of a stored or received histogram. Raises ValueError for impossible values."""
    plausible = all(lower_bound(bound) == bound and n > 0 for bound, n in buckets.items())
    if not plausible or sum(buckets.values()) != count or total < 0:
        raise ValueError("these are not the buckets of a histogram of waits")
    return Waits(count=count, total=total, buckets=dict(buckets))


class UsageGroup(NamedTuple):
    """The owner and the place of use."""

    project: str = ""
    submitter: str = ""
    pool: str = ""
    workload: str = ""
    instance_type: str = ""
    kind: str = CapacityKind.ON_DEMAND.value
    """How the instances are bought, or that they were warm (`AttemptUse.kind`)."""


BY = ("project", "submitter", "pool", "class", "kind")
"""The fields that group use, as users name them. Instance types and kinds always stay apart, for
prices."""

_FIELDS = {"class": "workload"}
_PRICED_BY = {"instance_type", "kind"}


@dataclass(kw_only=True, slots=True)
class Amounts:
    """The use of a group. Times are slots multiplied by ms."""

    slot_ms: int = 0
    """From the admission to the end of the attempt."""
    instance_ms: int = 0
    """The part of it in which the attempt had its instances."""
    saved_ms: int = 0
    """The part of `instance_ms` that SageMaker does not bill, because the instances are spot."""
    unbilled_ms: int = 0
    """The part of `instance_ms` on spot instances whose bill is not known, or not yet."""
    lost_ms: int = 0
    """The part of it whose work an eviction threw away."""
    lost_at_most_ms: int = 0
    """The part of `lost_ms` that is only an upper bound: of attempts that reported no checkpoint,
    and of days summed before this part was recorded."""
    jobs: int = 0
    """Jobs that started for the first time."""
    attempts: int = 0
    """Attempts that started."""
    evictions_given: int = 0
    """The group's own attempts that were evicted."""
    evictions_taken: int = 0
    """Attempts that were evicted for the group's jobs."""
    waits: Waits = field(default_factory=Waits)
    """The waits before the starts."""

    def add(self, other: Amounts) -> None:
        self.slot_ms += other.slot_ms
        self.instance_ms += other.instance_ms
        self.saved_ms += other.saved_ms
        self.unbilled_ms += other.unbilled_ms
        self.lost_ms += other.lost_ms
        self.lost_at_most_ms += other.lost_at_most_ms
        self.jobs += other.jobs
        self.attempts += other.attempts
        self.evictions_given += other.evictions_given
        self.evictions_taken += other.evictions_taken
        self.waits.add(other.waits)


Totals = dict[UsageGroup, Amounts]
DayTotals = dict[str, Totals]
"""By calendar day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """From `start` to before `end` (ms)."""

    start: int
    end: int

    def has(self, moment: int) -> bool:
        return self.start <= moment < self.end

    def part_of(self, start: int | None, end: int) -> int:
        """How much (ms) of a span falls into the window. A span without a start is empty."""
        if start is None:
            return 0
        return max(0, min(end, self.end) - max(start, self.start))

    def use_of(self, slots: int, part: PartOfSlot, start: int | None, end: int) -> int:
        """The use (slots multiplied by ms) of a span that falls into the window."""
        if start is None:
            return 0
        return slot_ms(slots, part, max(start, self.start), min(end, self.end))

    def whole_days(self, first: str, last: str) -> bool:
        """Whether each day from `first` to `last` is inside or outside as a whole."""
        return all(
            is_midnight(edge) or not begin_of(first) < edge < end_of(last)
            for edge in (self.start, self.end)
        )


def add_attempt(totals: Totals, use: AttemptUse, window: Window, *, until: int) -> None:
    """Add the use of the attempt within the window. `until`: where an attempt that goes on ends
    for now (ms)."""
    end = use.used_until(until)
    first, *others = (_times(part.slots, use, window, end) for part in use.held)
    found = _with_counts(first, use, window, end)
    if found.evictions_given and use.beneficiary is not None:
        merge(totals, [(_gaining(use), Amounts(evictions_taken=1))])
    for part, amounts in zip(use.held, (found, *others), strict=True):
        if amounts != _NOTHING:
            merge(totals, [(_own(use, part), amounts)])


def _times(slots: int, use: AttemptUse, window: Window, end: int) -> Amounts:
    lost_since = None if use.lost_since is None else max(use.lost_since, use.used_since)
    since = (use.used_since, use.running_since, lost_since)
    held, run, lost = (window.use_of(slots, use.part_of_slot, at, end) for at in since)
    found = Amounts(slot_ms=held, instance_ms=run, lost_ms=lost)
    found.lost_at_most_ms = lost if use.lost_at_most else 0
    if use.saved_part:
        found.saved_ms = window.use_of(slots, use.saved_part, use.running_since, end)
    elif use.is_unbilled:
        found.unbilled_ms = run
    return found


def _with_counts(found: Amounts, use: AttemptUse, window: Window, end: int) -> Amounts:
    """The amounts of the attempt's first pool: there it counts as a start, and as an eviction."""
    if window.has(use.admitted_at) and not use.is_warm:
        found.attempts, found.jobs = 1, int(use.number == 1)
        if use.waiting_since is not None:
            found.waits.note(max(0, use.admitted_at - use.waiting_since))
    if use.lost_since is not None and window.has(end):
        found.evictions_given = 1
    return found


_NOTHING = Amounts()


def by_day(uses: Iterable[AttemptUse]) -> DayTotals:
    """The use of ended attempts on each calendar day."""
    found: DayTotals = {}
    for use in uses:
        assert use.ended_at is not None
        for day in days(day_of(use.admitted_at), day_of(max(use.admitted_at, use.ended_at))):
            window = Window(start=begin_of(day), end=end_of(day))
            add_attempt(found.setdefault(day, {}), use, window, until=use.ended_at)
    return {day: totals for day, totals in found.items() if totals}


def merge(totals: Totals, more: Iterable[tuple[UsageGroup, Amounts]]) -> None:
    for group, amounts in more:
        there = totals.get(group)
        if there is None:
            there = totals[group] = Amounts()
        there.add(amounts)


def grouped(totals: Mapping[UsageGroup, Amounts], by: Iterable[str]) -> Totals:
    """The totals by the fields of BY that `by` names, by instance type and by kind."""
    found: Totals = {}
    kept = grouping(by)
    merge(found, ((kept(group), amounts) for group, amounts in totals.items()))
    return found


def grouping(
    by: Iterable[str], names: Callable[[UsageGroup], bool] = lambda _: True
) -> Callable[[UsageGroup], UsageGroup]:
    """A function that reduces a group to the fields that `by` names, the instance type and the
    kind; without the submitter unless `names` allows it."""
    kept = {_FIELDS.get(name, name) for name in by} | _PRICED_BY
    blank = {name: "" for name in UsageGroup._fields if name not in kept}

    def reduced(group: UsageGroup) -> UsageGroup:
        shows_submitter = "submitter" in blank or names(group)
        return group._replace(**(blank if shows_submitter else {**blank, "submitter": ""}))

    return cache(reduced)


def field_of(group: UsageGroup, name: str) -> str:
    """A group's field as users name it."""
    return str(getattr(group, _FIELDS.get(name, name)))


def group_of(fields: Mapping[str, str], instance_type: str, kind: str) -> UsageGroup:
    """The group with these fields as users name them. Raises TypeError for an unknown one."""
    named = {_FIELDS.get(name, name): text for name, text in fields.items()}
    return UsageGroup(**{**named, "instance_type": instance_type, "kind": kind})


def cells(totals: DayTotals) -> Iterator[tuple[str, UsageGroup, Amounts]]:
    for day in sorted(totals):
        for group in sorted(totals[day]):
            yield day, group, totals[day][group]


def _own(use: AttemptUse, part: PartUse) -> UsageGroup:
    return UsageGroup(
        project=use.project,
        submitter=use.submitter,
        pool=part.pool,
        workload=use.workload,
        instance_type=part.instance_type,
        kind=use.kind,
    )


def _gaining(use: AttemptUse) -> UsageGroup:
    assert use.beneficiary is not None
    who = use.beneficiary
    there = _own(use, use.held[0])
    return there._replace(project=who.project, submitter=who.submitter, workload=who.workload)
