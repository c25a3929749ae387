"""Groups of jobs: `slotq sweep`, `groups`, `show` and `--group`, and the client's calls."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from slotq.cli.exits import ExitCode
from slotq.errors import InvalidRequest, NoSuchGroup
from tests.least_request import least_request
from tests.unit.client.fake_queue import attempt, client_of, job_view, running

DOCS = Path(__file__).parents[3] / "docs"
NAMES = ("grid-1", "grid-2", "grid-3")


def members(*names, **fields):
    return [least_request(name, **fields) for name in names or NAMES]


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**changes):
        said = {"name": "grid", "max_parallel": 2, "members": members()} | changes
        said = {key: it for key, it in said.items() if it is not None}
        (tmp_path / "sweep.yaml").write_text(json.dumps(said))
        return "sweep.yaml"

    return write


def test_a_sweep_is_submitted_and_shown(slotq, queue, file):
    result = slotq("sweep", file())
    assert result.exit_code == ExitCode.OK, result.output
    assert "at most 2" in result.output
    assert {queue.jobs[name].group for name in NAMES} == {"grid"}
    queue.jobs["grid-1"] = running(name="grid-1", group="grid")
    shown = slotq("show", "grid")
    assert "3: 2 pending, 1 running" in shown.output
    assert all(name in shown.output for name in NAMES)
    listed = slotq("groups").output.splitlines()
    assert listed[1].split() == ["grid", "sweep", "running", "3", "2", "pending,", "1", "running"]


def test_the_option_replaces_the_number_of_the_file(slotq, queue, file):
    slotq("sweep", file(max_parallel=None), "--max-parallel", "7")
    assert queue.groups["grid"][1] == 7


def test_a_sweep_comes_after_jobs_and_groups(slotq, queue, file):
    own = [{"Key": "slotq:after", "Value": "grid-1"}]
    some = [*members("grid-1"), *members("grid-2", Tags=own)]
    result = slotq("sweep", file(members=some, after=["prepare"], after_any=["group:old"]))
    assert result.exit_code == ExitCode.OK, result.output
    after = {
        name: sorted(tag["Value"] for tag in queue.requests[name]["Tags"]) for name in NAMES[:2]
    }
    assert after == {"grid-1": ["group:old", "prepare"], "grid-2": ["grid-1,prepare", "group:old"]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": None}, "sweep.yaml has no template"),
        ({"same_pool": True}, "sweep.yaml has same_pool"),
        ({"members": ["a"]}, "must be a list of CreateTrainingJob requests"),
        ({"after": "prepare"}, "after of sweep.yaml must be a list of jobs and groups"),
    ],
)
def test_a_file_that_is_no_sweep_is_refused(slotq, queue, file, changes, words):
    result = slotq("sweep", file(**changes))
    assert (result.exit_code, queue.groups) == (ExitCode.USAGE, {})
    assert words in result.output


def test_verbs_take_the_jobs_of_a_group(slotq, queue, file):
    slotq("sweep", file())
    slotq("cancel", "--group", "grid", "--yes")
    states = {name: job.state for name, job in queue.jobs.items()}
    assert {states.pop(name) for name in NAMES} == {"cancelled"}
    assert "cancelled" not in states.values()
    assert slotq("groups").output.split() == ["NAME", "KIND", "STATE", "JOBS", "STATES"]
    assert "3 cancelled" in slotq("groups", "--all").output
    assert "no job of group grid" in slotq("cancel", "--group", "grid").output


def test_a_job_comes_before_a_group_of_the_same_name(slotq, queue):
    queue.groups["job1"] = ["job1"], 1
    assert "at most" not in slotq("show", "job1").output
    assert "there is no job 'nothing'" in slotq("show", "nothing").output


def test_the_clients_settings_apply_to_each_member(http, queue):
    client = client_of(http).with_settings(priority=5)
    group = client.groups.submit("grid", members(), max_parallel=1)
    assert (group.members, group.states) == (3, {"pending": 3})
    tags = [queue.requests[name]["Tags"] for name in NAMES]
    assert tags == [[{"Key": "priority", "Value": "5"}]] * 3
    assert client.groups.view("grid") == group
    with pytest.raises(NoSuchGroup):
        client.groups.view("other")


def test_a_group_of_several_pages_is_whole(http, queue):
    client = client_of(http)
    queue.members_per_page = 2
    submitted = client.groups.submit("grid", members(), max_parallel=1, sweep={"metric": "loss"})
    queue.jobs[NAMES[2]] = job_view(NAMES[2], group="grid", attempts=[attempt()])
    found = client.groups.view("grid", attempts=True)
    for group in (submitted, found):
        assert ([job.name for job in group.jobs], group.next) == ([*NAMES], None)
        assert len(group.sweep.trials) == 3
    assert len(found.jobs[2].attempts) == 1, "each page is asked for attempts"
    assert client.groups.clone("grid", "other").members == 3


def test_the_fault_of_a_member_is_found_before_anything_is_sent(http, queue):
    wrong = {**least_request("grid-9"), "RoleArn": 3}
    with pytest.raises(InvalidRequest, match=r"^members\.1: ") as refused:
        client_of(http).groups.submit("grid", [*members("grid-1"), wrong], max_parallel=1)
    assert refused.value.field == "members.1.RoleArn"
    assert queue.requests == {}


def test_the_page_of_groups_works(slotq, http, queue, tmp_path, monkeypatch):
    text = (DOCS / "groups.md").read_text()
    (sweep,) = re.findall(r"^```none\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.yaml").write_text(sweep)
    assert slotq("sweep", "sweep.yaml").exit_code == ExitCode.OK
    assert [queue.requests[name]["HyperParameters"]["lr"] for name in NAMES] == [
        "0.1",
        "0.2",
        "0.3",
    ]
    for kept in (queue.groups, queue.jobs, queue.requests):
        kept.clear()
    monkeypatch.setattr("slotq.QueueClient", lambda: client_of(http))
    exec(code, {"request": least_request("first")})
    assert queue.groups["grid"] == (["grid-0", "grid-1", "grid-2"], 2)
