"""The class that counts a demoted job: compared with trying every way (state/class_counts.py)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq_core.policy.state import class_counts
from slotq_core.policy.state.class_counts import ClassCounts, CountedJob, first_with_room, place

CHAIN = ("LOW", "MID", "TOP")
"""The lowest first: TOP demotes to MID, MID to LOW."""

limits = st.dictionaries(st.sampled_from(CHAIN), st.integers(0, 4))


@st.composite
def jobs(draw: st.DrawFn, most: int = 6) -> list[CountedJob]:
    found = []
    for number in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 2))
        classes = CHAIN[first : draw(st.integers(first, 2)) + 1]
        entry, slots = draw(st.integers(0, 3)), draw(st.sampled_from([1, 1, 2, 3]))
        found.append(CountedJob(entry, f"j{number}", slots, classes))
    return found


def ways(held: Sequence[CountedJob], most: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Every way to count the jobs within the limits, those first that count early jobs low."""
    for way in product(*(job.classes for job in held)):
        used: Counter[str] = Counter()
        for job, name in zip(held, way, strict=True):
            used[name] += job.slots
        if all(used[name] <= most.get(name, 0) for name in used):
            yield way


def counts(held: Sequence[CountedJob], most: Mapping[str, int]) -> ClassCounts:
    found = ClassCounts(most)
    for job in held:
        found.enter(job)
    return found


@given(jobs(), limits)
def test_each_job_counts_in_the_lowest_class_that_leaves_room_for_the_rest(
    held: list[CountedJob], most: Mapping[str, int]
) -> None:
    ordered, found = sorted(held), counts(held, most)
    best = next(ways(ordered, most), None)
    if best is not None:
        assert tuple(found.class_of(job.name) for job in ordered) == best
    for name in CHAIN:
        counted = [job for job in held if found.class_of(job.name) == name]
        assert found.used(name) == sum(job.slots for job in counted)
        assert all(name in job.classes for job in counted)


@given(jobs(), limits, st.sampled_from(CHAIN), st.integers(1, 3))
def test_a_class_has_room_if_and_only_if_all_can_be_counted(
    held: list[CountedJob], most: Mapping[str, int], name: str, slots: int
) -> None:
    """Where the held jobs are within the limits."""
    if next(ways(held, most), None) is None:
        return
    new = CountedJob(9, "new", slots, (name,))
    found, expected = counts(held, most), next(ways([*held, new], most), None) is not None
    assert found.has_room(name, slots) == expected
    assert (slots <= (found.left(name) or 0)) == expected
    if expected:
        found.enter(new)
        assert all(found.used(each) <= most.get(each, 0) for each in CHAIN)


@given(jobs(), limits, st.randoms(use_true_random=False))
def test_the_counts_follow_from_the_jobs_alone(
    held: list[CountedJob], most: Mapping[str, int], rng: random.Random
) -> None:
    """Whatever was entered and removed before, in whatever order."""
    found, others = ClassCounts(most), [job._replace(name=f"x{job.name}") for job in held]
    steps = [(job, True) for job in (*held, *others)]
    rng.shuffle(steps)
    for job, _ in steps:
        found.enter(job)
        found.has_room("MID", 1)
    for job in others:
        found.remove(job.name)
    expected = counts(held, most)
    for name in CHAIN:
        assert found.used(name) == expected.used(name)
        assert found.left(name) == expected.left(name)
    assert [found.class_of(job.name) for job in held] == [
        expected.class_of(job.name) for job in held
    ]
    names = {job.name for job in held[::2]}
    rest = counts([job for job in held if job.name not in names], most)
    assert [found.without(names).left(name) for name in CHAIN] == [
        rest.left(name) for name in CHAIN
    ]


@given(jobs(), st.sampled_from(CHAIN))
def test_without_a_limit_a_job_counts_in_its_present_class(
    held: list[CountedJob], name: str
) -> None:
    found = ClassCounts(None)
    for job in held:
        found.enter(job)
    assert all(found.class_of(job.name) == job.classes[0] for job in held)
    assert found.has_room(name, 1_000_000)
    assert found.left(name) is None
    assert found.over(name, 5) == 0


@given(jobs(), limits)
def test_a_job_that_no_class_has_room_for_counts_in_its_lowest(
    held: list[CountedJob], most: Mapping[str, int]
) -> None:
    """A limit was lowered: no job disappears from the counts, and a class is never counted full
    because of a job that has room elsewhere."""
    ordered = sorted(held)
    left = {name: most.get(name, 0) for name in CHAIN}
    for job, name in zip(ordered, first_with_room(ordered, left), strict=True):
        assert name == job.classes[0] or left[name] >= job.slots
        left[name] -= job.slots


def test_a_search_gives_up_after_so_many_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the class counts as full: never over a limit."""
    sizes = [5, 5, 9, 9]
    held = [
        CountedJob(number, f"j{number}", size, ("LOW", "TOP")) for number, size in enumerate(sizes)
    ]
    left = {"LOW": 18, "TOP": 10}
    assert place(held, left) is not None
    monkeypatch.setattr(class_counts, "MOST_TRIES", 1)
    assert place(held, left) is None
    assert left == {"LOW": 18, "TOP": 10}


def test_equal_jobs_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand demoted jobs of one slot are placed, or refused, without a try taken back."""
    monkeypatch.setattr(class_counts, "MOST_TRIES", 0)
    held = [CountedJob(number, f"j{number}", 1, ("LOW", "TOP")) for number in range(1_000)]
    found = counts(held, {"LOW": 600, "TOP": 500})
    assert (found.used("LOW"), found.used("TOP")) == (600, 400)
    assert (found.left("LOW"), found.left("TOP")) == (100, 100)
