"""`slotq graph`: the chains of jobs, and their trees."""

from __future__ import annotations

import json

import pytest

from slotq.cli.exits import ExitCode
from tests.unit.client.fake_queue import ended, job_view, running, waiting


@pytest.fixture(autouse=True)
def chains(queue):
    """A diamond, a chain that has ended, and jobs that stand alone."""
    queue.jobs |= {
        "prepare": ended(name="prepare", state="completed"),
        "train": running(name="train", after=["prepare"]),
        "base": job_view("base", "pending", after=["prepare"]),
        "score": job_view("score", "pending", after=["train", "base"], waits_for=["train", "base"]),
        "report": job_view("report", "pending", after=["score"]),
        "old": ended(name="old", state="failed"),
        "older": ended(name="older", state="cancelled", after=["old"]),
        "alone": waiting(4, name="alone"),
    }


def shown(result) -> list[str]:
    assert result.exit_code == ExitCode.OK, result.output
    return [line.strip("│├└─ ").split("  ")[0] for line in result.output.splitlines()]


def test_each_job_stands_below_those_that_it_comes_after(slotq):
    result = slotq("graph")
    names = shown(result)
    assert names[0] == "prepare"
    assert sorted(names) == ["base", "prepare", "report", "score", "score", "train"]
    assert "score  pending  also after" in result.output


def test_the_followers_of_a_job_that_stands_twice_are_shown_once(slotq):
    lines = slotq("graph").output.splitlines()
    (again,) = [line for line in lines if "see above" in line]
    assert "score" in again


def test_a_name_selects_what_is_connected(slotq):
    assert shown(slotq("graph", "old")) == ["old", "older"]
    assert shown(slotq("graph", "alone")) == ["alone"]


def test_chains_that_have_ended_are_shown_with_all(slotq):
    assert "older" not in shown(slotq("graph"))
    assert "older" in shown(slotq("graph", "--all"))


def test_programs_get_the_jobs(slotq):
    told = json.loads(slotq("graph", "--json").output)
    after = {job["name"]: job["after"] for job in told["jobs"]}
    assert after["score"] == ["train", "base"]
    assert set(after) == {"prepare", "train", "base", "score", "report"}


def test_no_chain_says_so(slotq, queue):
    for job in [*queue.jobs.values()]:
        queue.jobs[job.name] = job.model_copy(update={"after": []})
    assert shown(slotq("graph")) == ["no job comes after another"]


def test_a_graph_of_a_part_of_the_queue_says_so(slotq, queue):
    assert slotq("graph").stderr == ""
    queue.jobs |= {f"more-{n}": waiting(1, name=f"more-{n}") for n in range(1_000)}
    result = slotq("graph")
    assert "report" in result.stdout
    assert "only the first 1,000 jobs" in result.stderr


def test_an_unknown_job_is_an_error(slotq):
    assert slotq("graph", "trian").exit_code == ExitCode.NO


@pytest.fixture
def grid(queue):
    """A group after `base`, followed by `pick`; a member that `look` comes after, and one that also
    comes after `train`."""
    for name, state in (
        ("g1", "completed"),
        ("g2", "running"),
        ("g3", "pending"),
        ("g4", "failed"),
    ):
        after = ["base", "train"] if name == "g3" else ["base"]
        queue.jobs[name] = job_view(name, state, group="grid", after=after)
    queue.jobs["pick"] = job_view(
        "pick", "pending", after=["group:grid", "gone"], waits_for=["group:grid"]
    )
    queue.jobs["look"] = job_view("look", "pending", after=["g2"])
    queue.groups["grid"] = (["g1", "g2", "g3", "g4"], 2)
    return queue


@pytest.mark.usefixtures("grid")
def test_a_group_stands_for_its_members(slotq):
    result = slotq("graph")
    assert result.exit_code == ExitCode.OK
    lines = [line.strip("│├└─ ") for line in result.output.splitlines()]
    (group,) = {line for line in lines if line.startswith("group grid")}
    assert group == "group grid  1 pending, 1 running, 1 completed, 1 failed"
    assert not [line for line in lines if line.startswith(("g1 ", "g4 "))]
    assert [line for line in lines if line.startswith("g2 ")]
    assert [line for line in lines if line.startswith("g3  pending  also after")]
    assert "pick  pending  also after gone" in lines[lines.index(group) + 1]


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize("name", ["group:grid", "g1", "pick"])
def test_a_group_and_its_members_select_what_is_connected(slotq, name):
    told = json.loads(slotq("graph", name, "--json").output)
    (group,) = told["groups"]
    assert group == {
        "name": "grid",
        "after": ["base"],
        "states": {"completed": 1, "running": 1, "pending": 1, "failed": 1},
    }
    assert {"g1", "g2", "g3", "g4", "pick", "base", "prepare"} <= {
        job["name"] for job in told["jobs"]
    }


def test_a_group_that_is_not_there_is_an_error(slotq):
    result = slotq("graph", "group:nobody")
    assert result.exit_code == ExitCode.NO
    assert "group" in result.output
