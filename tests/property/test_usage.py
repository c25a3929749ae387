"""What attempts used adds up, however it is cut, grouped and ordered."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.model.attempts import Beneficiary
from slotq_core.model.pools import CapacityKind
from slotq_core.usage.amounts import (
    BY,
    Amounts,
    Totals,
    UsageGroup,
    Waits,
    Window,
    add_attempt,
    by_day,
    cells,
    grouped,
    lower_bound,
    merge,
    waits_of,
    width,
)
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.calendar_days import DAY, begin_of
from slotq_core.usage.day_rows import parts_of, read_part

START = begin_of("2026-02-27")
_moments = st.integers(START, START + 5 * DAY)
_names = st.sampled_from(["a", "b", "ü"])


@st.composite
def uses(draw: st.DrawFn) -> AttemptUse:
    first, *more = sorted(draw(st.lists(_moments, min_size=4, max_size=4)))
    evicted = draw(st.booleans())
    gains = st.none() | st.builds(
        Beneficiary, project=_names, submitter=_names, workload=st.just("training")
    )
    spot = draw(st.booleans())
    return AttemptUse(
        job=draw(st.uuids()).hex,
        number=draw(st.integers(1, 3)),
        project=draw(_names),
        submitter=draw(_names),
        workload="training",
        pool=draw(_names),
        instance_type=draw(st.sampled_from(["ml.m5.large", "ml.g5.xlarge"])),
        slots=draw(st.integers(1, 8)),
        admitted_at=first,
        waiting_since=draw(st.none() | st.integers(START - DAY, first)),
        running_since=draw(st.none() | st.just(more[0])),
        ended_at=more[2],
        lost_since=more[1] if evicted else None,
        beneficiary=draw(gains) if evicted else None,
        part_of_slot=() if spot else draw(st.sampled_from([(), (1, 8), (3, 8), (8, 8), (2, 7)])),
        capacity_kind=CapacityKind.SPOT if spot else CapacityKind.ON_DEMAND,
        interrupted_for=draw(st.integers(0, more[0] - first)) if spot else 0,
        billed=draw(st.none() | st.integers(0, 2 * DAY)) if spot else None,
    )


_some = st.lists(uses(), max_size=12)


def used(attempts: list[AttemptUse], start: int, end: int) -> Totals:
    found: Totals = {}
    for use in attempts:
        add_attempt(found, use, Window(start=start, end=end), until=end)
    return found


def added(*parts: Totals) -> Totals:
    found: Totals = {}
    for part in parts:
        merge(found, part.items())
    return found


def in_all(totals: Totals) -> Amounts:
    found: Totals = {UsageGroup(): Amounts()}
    merge(found, ((UsageGroup(), amounts) for amounts in totals.values()))
    return found[UsageGroup()]


@given(_some, _moments, _moments)
def test_the_total_is_the_clipped_time_of_each_attempt(
    attempts: list[AttemptUse], one: int, other: int
) -> None:
    start, end = min(one, other), max(one, other)
    expected = sum(
        (
            Fraction(*(use.part_of_slot or (1, 1)))
            * use.slots
            * max(0, min(use.ended_at or 0, end) - max(use.used_since, start))
            for use in attempts
        ),
        start=Fraction(0),
    )
    found = in_all(used(attempts, start, end)).slot_ms
    parts = sum(bool(use.part_of_slot) for use in attempts)
    assert abs(found - expected) < parts or found == expected


@given(_some, st.lists(_moments, max_size=4))
def test_windows_side_by_side_add_up_to_the_whole(
    attempts: list[AttemptUse], cuts: list[int]
) -> None:
    edges = [START, *sorted(cuts), START + 6 * DAY]
    parts = [used(attempts, a, b) for a, b in pairwise(edges)]
    assert added(*parts) == used(attempts, edges[0], edges[-1])


@given(_some, st.integers(0, 5), st.integers(1, 6))
def test_sums_by_day_answer_for_whole_days_as_the_attempts_do(
    attempts: list[AttemptUse], first: int, number: int
) -> None:
    window = Window(start=START + first * DAY, end=START + (first + number) * DAY)
    days = by_day(attempts)
    parts = [totals for day, totals in days.items() if window.has(begin_of(day))]
    assert added(*parts) == used(attempts, window.start, window.end)


@given(_some, st.integers(0, 9), st.randoms(use_true_random=False))
def test_the_order_and_the_number_of_sums_do_not_matter(
    attempts: list[AttemptUse], cut: int, chance: random.Random
) -> None:
    mixed = [*attempts]
    chance.shuffle(mixed)
    whole = used(attempts, START, START + 6 * DAY)
    parts = [used(part, START, START + 6 * DAY) for part in (mixed[:cut], mixed[cut:])]
    assert added(*parts) == whole


@given(_some, st.permutations(BY), st.integers(0, 4))
def test_grouping_in_steps_is_grouping_at_once(
    attempts: list[AttemptUse], by: list[str], kept: int
) -> None:
    whole = used(attempts, START, START + 6 * DAY)
    assert grouped(grouped(whole, by), by[:kept]) == grouped(whole, by[:kept])
    assert in_all(grouped(whole, by[:kept])) == in_all(whole)


@given(_some)
def test_lost_time_and_instance_time_are_part_of_the_time_used(attempts: list[AttemptUse]) -> None:
    for totals in by_day(attempts).values():
        for amounts in totals.values():
            assert 0 <= amounts.lost_ms <= amounts.slot_ms
            assert 0 <= amounts.instance_ms <= amounts.slot_ms
            assert 0 <= amounts.saved_ms + amounts.unbilled_ms <= amounts.instance_ms


@given(_some)
def test_what_is_saved_is_what_sagemaker_does_not_bill(
    attempts: list[AttemptUse],
) -> None:
    found = in_all(used(attempts, START, START + 6 * DAY))
    times = [
        (use, use.slots * ((use.ended_at or 0) - (use.running_since or 0))) for use in attempts
    ]
    spot = [(use, ms) for use, ms in times if use.capacity_kind == "spot" and use.running_since]
    known = [(use, ms) for use, ms in spot if use.billed is not None]
    assert found.saved_ms == sum(max(0, ms - use.slots * (use.billed or 0)) for use, ms in known)
    assert found.unbilled_ms == sum(ms for use, ms in spot if use.billed is None)


@given(_some)
def test_evictions_given_are_those_taken_where_somebody_gained(attempts: list[AttemptUse]) -> None:
    everything = in_all(used(attempts, START, START + 6 * DAY))
    gained = [use for use in attempts if use.beneficiary is not None]
    assert everything.evictions_taken == len(gained)
    assert everything.evictions_given == sum(use.lost_since is not None for use in attempts)


@given(_some, st.integers(1, 2_000))
def test_sums_survive_being_written_in_parts(attempts: list[AttemptUse], most: int) -> None:
    written = [*cells(by_day(attempts))]
    texts = [*parts_of(written, most)]
    assert [cell for text in texts for cell in read_part(text)] == written
    longest = max((len(row) for row in parts_of(written, 1)), default=0)
    assert all(len(text) <= most + longest + 100 for text in texts)


@given(st.lists(st.integers(0, 40 * DAY), min_size=1), st.integers(1, 100))
def test_percentiles_are_exact_to_a_64th(waits: list[int], percent: int) -> None:
    found = Waits()
    for wait in waits:
        found.note(wait)
    exact = sorted(waits)[-(-len(waits) * percent // 100) - 1]
    told = found.percentile(percent)
    assert told is not None
    assert abs(told - exact) <= exact / 64
    assert found.mean == sum(waits) / len(waits)
    assert waits_of(found.count, found.total, found.buckets) == found


@given(st.integers(0, 10**13))
def test_a_wait_is_in_exactly_one_bucket(wait: int) -> None:
    bound = lower_bound(wait)
    assert bound <= wait < bound + width(bound)
    assert lower_bound(bound) == bound
    assert width(bound) <= max(1, bound / 32)
