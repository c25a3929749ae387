"""Jobs that start after other jobs (DESIGN 5.4)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slotq_core.admission.dependencies import (
    check_dependencies,
    circle,
    consequences,
    incomplete_dependencies,
    unended_dependencies,
)
from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.reasons import WaitsForJobs
from slotq_core.operations.status import why
from slotq_core.policy.plan import Plan
from slotq_core.ports.stored import Ahead
from tests.unit.policy.test_reasons import NOW, waits

S = JobState
NAMES = tuple(f"j{number}" for number in range(46))


def a_world(**after: tuple[str, ...]) -> dict[str, Job]:
    return {name: waits(name, after=names) for name, names in after.items()}


def ends(jobs: Mapping[str, Job], name: str, end: JobState) -> dict[str, Job]:
    """The changes that an end makes, by job name."""

    def followers(name: str) -> list[Job]:
        return [job for job in jobs.values() if name in job.waits_for]

    steps = consequences(name, end, followers, NOW)
    assert all(before is jobs[before.name] for before, _ in steps)
    assert len({before.name for before, _ in steps}) == len(steps)
    return {after.name: after for _, after in steps}


def test_a_job_with_dependencies_does_not_wait_for_slots():
    job = waits("c", after=("a", "b"))
    assert not job.waits
    assert why(job, Plan(), Ahead(jobs=0)) == WaitsForJobs(jobs=("a", "b"))
    assert WaitsForJobs(jobs=("a", "b")).sentence() == "comes after a, b, which must complete first"
    assert WaitsForJobs(jobs=("a",)).sentence() == "comes after a, which must complete first"


def test_each_completion_removes_a_dependency_and_the_last_frees_the_job():
    jobs = a_world(c=("a", "b"))
    half = ends(jobs, "a", S.COMPLETED)
    assert half["c"].after == ("b",)
    freed = ends(half, "b", S.COMPLETED)["c"]
    assert freed.waits
    assert (freed.state, freed.entry_time) == (S.PENDING, jobs["c"].entry_time)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (S.FAILED, "it failed"),
        (S.CANCELLED, "it was cancelled"),
        (S.STOPPED, "it was stopped"),
    ],
)
def test_an_unsuccessful_end_cancels_the_dependent_job(end, told):
    job = ends(a_world(c=("a", "b")), "a", end)["c"]
    assert (job.state, job.cause) == (S.CANCELLED, "dependency")
    assert job.message == f"it came after a, which has not completed: {told}"


def test_a_cancel_goes_on_to_the_jobs_that_depend_on_it():
    """Each job once, even if two paths lead to it. Other jobs stay."""
    jobs = a_world(b=("a",), c=("a",), d=("b", "c"), e=("d", "x"), other=("x",))
    changed = ends(jobs, "a", S.FAILED)
    assert {name: job.state for name, job in changed.items()} == dict.fromkeys("bcde", S.CANCELLED)
    assert changed["e"].message == "it came after d, which has not completed: it was cancelled"


STATES = {"done": S.COMPLETED, "there": S.RUNNING, "bad": S.FAILED, "gone": S.CANCELLED}


def test_admission_keeps_only_dependencies_that_have_not_completed():
    assert incomplete_dependencies(("done", "there", "there"), STATES) == ("there",)
    assert incomplete_dependencies((), {}) == ()


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (("there", "nobody"), "it comes after 'nobody', but there is no such job"),
        (("bad",), "it comes after 'bad', which has not completed: it failed"),
        (("gone",), "it comes after 'gone', which has not completed: it was cancelled"),
    ],
)
def test_a_dependency_that_can_never_complete_is_refused(after, message):
    with pytest.raises(InvalidRequest, match=message):
        incomplete_dependencies(after, STATES)


def test_a_job_after_an_end_waits_for_any_end_of_a_known_job():
    assert unended_dependencies(("done", "there", "bad", "there"), STATES) == ("there",)
    with pytest.raises(InvalidRequest, match="it comes after 'nobody', but there is no such job"):
        unended_dependencies(("nobody",), STATES)


@pytest.mark.parametrize(
    ("after", "after_any", "message"),
    [
        (("a",), (), "'a' cannot come after itself"),
        (("b",), ("a",), "'a' cannot come after itself"),
        (NAMES[:40], NAMES[40:46], "a job may come after at most 45 others, not 46"),
    ],
)
def test_dependencies_that_no_job_can_have_are_refused(after, after_any, message):
    with pytest.raises(InvalidRequest, match=message):
        check_dependencies("a", after, after_any)


def test_as_many_dependencies_as_a_job_can_have():
    check_dependencies("a", NAMES[:45], NAMES[:45])


@pytest.mark.parametrize("end", [S.COMPLETED, S.FAILED, S.CANCELLED, S.STOPPED])
def test_any_end_frees_a_job_that_comes_after_the_end(end):
    job = waits("b", after_any=("a",))
    assert not job.waits
    freed = ends({"b": job}, "a", end)["b"]
    assert (freed.state, freed.waits, freed.waits_for) == (S.PENDING, True, ())


def test_the_reason_tells_what_must_complete_and_what_must_end():
    job = waits("d", after=("a", "b"), after_any=("c",))
    reason = why(job, Plan(), Ahead(jobs=0))
    assert reason is not None
    assert reason.sentence() == (
        "comes after a, b, which must complete first, and after c, which must end first"
    )
    ended = WaitsForJobs(ended=("c",))
    assert ended.sentence() == "comes after c, which must end first"


@pytest.mark.parametrize(
    ("after", "way"),
    [
        ({}, []),
        ({"b": ["a"], "c": ["a", "b"], "d": ["c", "a"]}, []),
        ({"a": ["a"]}, ["a", "a"]),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c", "b"]),
        ({"x": ["c"], "c": ["b"], "b": ["a"], "a": ["c"]}, ["a", "c", "b", "a"]),
        ({f"j{i}": [f"j{i + 1}"] for i in range(5_000)}, []),
    ],
)
def test_circular_dependencies_are_refused(after, way):
    assert circle(after) == way
