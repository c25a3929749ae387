"""What the live path must reach, counted on the real handler (`benchmarks/promises.py`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.live import life, open_page, passes, projects, shapes, submissions
from benchmarks.live.passes import settled
from benchmarks.live.queues import Size, queue
from benchmarks.promises import broken
from tests.functional.account import sample


@pytest.mark.parametrize("name", ["2,000 lines", "a job of high rank that waits"])
def test_a_pass_costs_lines_and_decisions_never_what_waits(name: str):
    size = passes.sizes(short=False)[name]
    kept({"passes": {name: passes.world(size)}})


@pytest.mark.parametrize("name", submissions.SHORT)
def test_a_submission_costs_the_same_in_every_queue(name: str):
    kept({"submissions": {name: submissions.in_queue(submissions.QUEUES[name])}})


def test_projects_cost_a_pass_and_a_submission_nothing_more():
    kept({"projects": projects.measure(short=True)})


def test_a_pass_costs_few_calls_in_a_queue_of_every_kind():
    kept({"shapes": shapes.measure(short=True)})


def test_a_look_at_a_job_reads_its_record_and_the_lines_once():
    with queue(submissions.QUEUES["empty queue"]) as its:
        settled(its)
        its.submit("job-1")
        with its.engine.meter.counting() as usage:
            assert its.look("job-1")["place"] == 1
    read = [partition for call in usage.calls for (partition, _), _ in call.read]
    assert sorted(name for name in read if not name.startswith("WAITING")) == [
        "CONFIG",
        "DUE",
        "JOB#job-1",
        "LINES",
        "POOL#pool-00",
        "SCHEDULER",
    ]


def test_a_list_of_all_that_waits_reads_no_line():
    with queue(Size(waiting=40, lines=20, active=4, pools=2)) as its:
        settled(its)
        with its.engine.meter.counting() as usage:
            body = its.send(sample("list-jobs"))["body"]
    reasons = {job["name"]: job["reason"] for job in json.loads(body)["jobs"] if job["reason"]}
    codes = {reasons[f"waiting-{number:06d}"]["code"] for number in range(20)}
    assert codes == {"no_free_slots"}
    read = [partition for call in usage.calls for (partition, _), _ in call.read]
    assert [name for name in read if name.startswith("WAITING")] == []


def test_an_open_page_costs_what_it_shows():
    """With 5,000 waiting jobs, while another user changes something every two seconds."""
    name = "5,000 waiting, 100 lines"
    minutes = open_page.in_queue(open_page.QUEUES[name], only="page, queue")
    kept({"open page": {name: minutes}})
    quiet, busy = minutes["page, queue, quiet"], minutes["page, queue, busy"]
    assert quiet["read_units"] < 60, "nearly all answers are 304"
    assert quiet["answers"] <= 3
    assert 9 < busy["answers"] < 12


def test_a_jobs_life_costs_few_calls():
    kept({"life": life.measure()})


def kept(parts: dict[str, Any]) -> None:
    assert broken(parts) == []
