"""`slotq graph`: the chains of jobs, and their trees."""

from __future__ import annotations

import json

import pytest

from slotq.cli.exits import Exit
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
    assert result.exit_code == Exit.OK, result.output
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


def test_an_unknown_job_is_an_error(slotq):
    assert slotq("graph", "trian").exit_code == Exit.NO
