"""Jobs that start after other jobs. See docs/policy-decisions.md#dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from slotq_core.admission.dependencies import (
    GroupProgress,
    after_end_of_group,
    check_dependencies,
    check_members,
    circle,
    consequences,
    incomplete_dependencies,
    progress_of,
    unended_dependencies,
)
from slotq_core.errors import InvalidRequest
from slotq_core.model.groups import LEFT_OUT, Group, StoredGroup, Sweep
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


def test_the_reason_tells_groups_from_jobs():
    reason = why(waits("d", after=("a", "group:grid")), Plan(), Ahead(jobs=0))
    assert reason is not None
    assert reason.sentence() == "comes after a, group grid, which must complete first"


ENDS = {"c": S.COMPLETED, "f": S.FAILED, "x": S.CANCELLED, "s": S.STOPPED, "w": S.PENDING}
SWEEP, GANG = {"max_parallel": 1}, {"max_parallel": None}


@pytest.mark.parametrize(
    ("members", "rules", "living", "trouble"),
    [
        ("ccc", SWEEP, None, ""),
        ("cwc", SWEEP, "m1", ""),
        ("fww", SWEEP, "m1", ""),  # Judged when it has ended.
        ("cfx", SWEEP, None, "its member m1 failed"),
        ("ccx", SWEEP, None, "its member m2 was cancelled"),
        ("scc", SWEEP, None, "its member m0 was stopped"),
        ("clc", SWEEP, None, ""),  # Left out.
        ("c-c", SWEEP, None, "the record of its member m1 has expired"),
        ("-wc", SWEEP, "m1", ""),
        ("ccc", GANG, None, ""),
        ("ccf", GANG, None, "its member m2 failed"),
        ("ccx", GANG, None, ""),  # A cancelled member does not count.
        ("ccl", GANG, None, ""),
        ("xxx", GANG, None, "its member m0 was cancelled"),
        ("ccf", GANG | {"min_members": 2}, None, ""),
        ("cff", GANG | {"min_members": 2}, None, "its member m1 failed"),
        ("ccf", GANG | {"min_members": 2, "mandatory": ("m2",)}, None, "its member m2 failed"),
        ("cfw", GANG | {"min_members": 1}, "m2", ""),
        ("cc-", GANG | {"min_members": 2}, None, ""),
        ("---", GANG, None, "the record of its member m0 has expired"),
    ],
)
def test_a_group_is_judged_when_all_members_have_ended(members, rules, living, trouble):
    """Of each member the first letter of its state: left out, -: its record has expired."""
    jobs: list[tuple[str, Job | None]] = []
    for number, letter in enumerate(members):
        job = replace(waits(f"m{number}"), state=ENDS.get(letter, S.CANCELLED))
        told = replace(job, cause=LEFT_OUT) if letter == "l" else job
        jobs.append((job.name, None if letter == "-" else told))
    group = Group(name="grid", members=tuple(name for name, _ in jobs), **rules)
    progress = progress_of(group, jobs)
    assert (progress.living and progress.living.name, progress.trouble) == (living, trouble)


@pytest.mark.parametrize(("loss", "met"), [(0.1, True), (0.2, True), (0.3, False), (None, False)])
@pytest.mark.parametrize("noted", ["", "m0"])
def test_a_sweep_has_completed_if_a_member_has_met_its_goal(loss, met, noted):
    stored = StoredGroup(
        group=Group(name="grid", members=("m0", "m1"), max_parallel=1),
        submitter="ann",
        digest="",
        sweep=Sweep(metric="loss", goal=0.2),
        met_by=noted,
    )
    metrics = () if loss is None else (("loss", loss),)
    members = [
        ("m0", replace(waits("m0"), state=S.COMPLETED, metrics=metrics)),
        ("m1", replace(waits("m1"), state=S.CANCELLED)),
    ]
    trouble = "" if met or noted else "its member m1 was cancelled"
    progress = progress_of(stored.group, members, goal_met=stored.goal_met)
    assert (progress.living, progress.trouble) == (None, trouble)
    gone = progress_of(stored.group, [("m0", None), ("m1", None)], goal_met=stored.goal_met)
    assert bool(gone.trouble) == (not noted)


def test_members_behind_a_living_one_are_not_asked_for():
    asked = iter([("m0", waits("m0"))])
    assert progress_of(Group(name="grid", members=("m0", "m1")), asked).living == waits("m0")


LIVES, DONE = GroupProgress(living=waits("m")), GroupProgress()
BAD = GroupProgress(trouble="its member m failed")
GROUPS = {"group:lives": LIVES, "group:done": DONE, "group:bad": BAD}


def test_admission_keeps_only_groups_that_have_not_ended():
    names = ("group:lives", "group:done", "there")
    assert incomplete_dependencies(names, STATES, GROUPS) == ("group:lives", "there")
    assert unended_dependencies((*names, "group:bad"), STATES, GROUPS) == ("group:lives", "there")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("group:bad", "after group 'bad', which has not completed: its member m failed"),
        ("group:nobody", "it comes after group 'nobody', but there is no such group"),
    ],
)
def test_a_group_that_can_never_complete_is_refused(name, message):
    with pytest.raises(InvalidRequest, match=message):
        incomplete_dependencies((name,), STATES, GROUPS)


@pytest.mark.parametrize(
    ("progress", "after", "after_any"),
    [
        (LIVES, "waits", "waits"),
        (DONE, "free", "free"),
        (BAD, "cancelled", "free"),
    ],
)
def test_the_end_of_a_group_frees_or_cancels(progress, after, after_any):
    for told, job in (
        (after, waits("d", after=("group:g",))),
        (after_any, waits("d", after_any=("group:g",))),
    ):
        now = after_end_of_group(job, "g", progress, NOW)
        assert told == ("waits" if now == job else "free" if now.waits else now.state)
        assert (now.cause == "dependency") == (told == "cancelled")
    if progress is BAD:
        now = after_end_of_group(waits("d", after=("group:g",)), "g", BAD, NOW)
        assert now.message == (
            "it came after group g, which has not completed: its member m failed"
        )


@pytest.mark.parametrize(
    ("after", "waves"),
    [
        ({"a": [], "b": []}, "ab"),
        ({"a": ["b"], "b": []}, "b a"),
        ({"a": ["c", "b"], "b": ["x"], "c": ["b"]}, "b c a"),
        ({"a": ["b"], "b": [], "c": [], "d": ["c", "b"]}, "bc ad"),
        ({"a": ["group:other"]}, "a"),
    ],
)
def test_members_are_stored_behind_those_that_they_come_after(after, waves):
    assert " ".join(map("".join, check_members("grid", after, gang=False))) == waves


@pytest.mark.parametrize(
    ("after", "gang", "message"),
    [
        ({"a": ["b"], "b": ["a"]}, False, "in a circle: a -> b -> a"),
        ({"a": ["group:grid"], "b": []}, False, "in a circle: a -> group grid -> a"),
        ({"a": ["a"]}, False, "in a circle: a -> a"),
        ({"a": [], "b": ["a"]}, True, "'b' comes after another member of its gang"),
    ],
)
def test_members_that_can_never_start_are_refused(after, gang, message):
    with pytest.raises(InvalidRequest, match=message):
        check_members("grid", after, gang=gang)


def test_members_of_a_gang_come_after_other_jobs():
    after = {"a": ["x"], "b": ["group:other"]}
    assert check_members("grid", after, gang=True) == (("a", "b"),)


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
