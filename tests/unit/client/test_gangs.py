"""Gangs in the user's hands: `slotq gang`, the verbs for a group as a whole, and `slotq.gang` for
boto3, with a fake queue."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

import slotq
from slotq.cli.exits import ExitCode
from slotq.errors import InvalidRequest, NameTaken
from slotq.groups.bodies import cloned, names_of_clones
from slotq_core.errors import NoSuchGroup
from slotq_core.wire.groups.views import GroupsView, GroupView
from slotq_core.wire.views.jobs import ReasonView
from tests.least_request import least_request
from tests.unit.client.fake_queue import attempt, client_of, running

DOCS = Path(__file__).parents[3] / "docs"
NAMES = ("ring-1", "ring-2", "ring-3")


def members(*names, **fields):
    return [least_request(name, **fields) for name in names or NAMES]


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**changes):
        said = {"name": "ring", "members": members()} | changes
        said = {key: it for key, it in said.items() if it is not None}
        (tmp_path / "gang.yaml").write_text(json.dumps(said))
        return "gang.yaml"

    return write


def test_a_gang_is_submitted_and_shown_with_its_rules(slotq, queue, file):
    rules = {"min_members": 2, "mandatory": ["ring-1"], "same_pool": True}
    result = slotq("gang", file(gang=rules))
    assert result.exit_code == ExitCode.OK, result.output
    assert queue.gangs["ring"].model_dump(include=rules.keys()) == rules
    assert "at least 2 of 3, ring-1 among them, in one pool" in result.output
    assert {queue.jobs[name].group for name in NAMES} == {"ring"}


@pytest.mark.parametrize("gang", [None, {}])
def test_without_rules_all_must_start(slotq, queue, file, gang):
    result = slotq("gang", file(gang=gang))
    assert result.exit_code == ExitCode.OK, result.output
    assert "all 3" in result.output
    assert queue.gangs["ring"].min_members is None


def test_options_replace_the_rules_of_the_file(slotq, queue, file):
    given = file(gang={"min_members": 2, "mandatory": ["ring-1"]})
    slotq("gang", given, "--min-members", "1", "--mandatory", "ring-2", "--mandatory", "ring-3")
    told = queue.gangs["ring"]
    assert (told.min_members, told.mandatory, told.same_pool) == (1, ["ring-2", "ring-3"], False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": None}, "gang.yaml has no members"),
        ({"max_parallel": 2}, "use `slotq sweep`"),
        ({"priority": 2}, "gang.yaml has priority: a gang has only name, members, gang"),
        ({"members": ["a"]}, "must be a list of CreateTrainingJob requests"),
        ({"gang": [2]}, "gang of gang.yaml takes min_members, mandatory, same_pool"),
        ({"gang": {"sites": ["a"]}}, "sites of gang.yaml must be an object"),
        ({"gang": {"mandatory": 5}}, "mandatory of gang.yaml must be a list of jobs"),
        ({"gang": {"least": 2}}, "gang of gang.yaml takes min_members, mandatory, same_pool"),
    ],
)
def test_a_file_that_is_no_gang_is_refused(slotq, queue, file, changes, words):
    result = slotq("gang", file(**changes))
    assert (result.exit_code, queue.groups) == (ExitCode.USAGE, {})
    assert words in result.output


def test_a_gang_that_waits_says_why_and_who_is_missing(slotq, queue, file):
    slotq("gang", file(gang={"mandatory": ["ring-2"]}))
    queue.gangs["ring"].missing = ["ring-2"]
    text = "gang ring must start 3 jobs at once; 2 wait, and these are missing: ring-2"
    queue.group_reasons["ring"] = ReasonView(
        code="gang_incomplete", text=text, numbers={"group": "ring", "needed": 3, "waiting": 2}
    )
    for command in ("show", "why", "history"):
        assert text in " ".join(slotq(command, "ring").output.split())
    lines = [line.split() for line in slotq("show", "ring").output.splitlines()]
    assert ["missing", "ring-2"] in lines
    shown = GroupView.model_validate_json(slotq("why", "ring", "--json").output)
    assert (shown.gang.missing, shown.reason.numbers["waiting"]) == (["ring-2"], 2)


def test_a_name_that_is_taken_has_advice_for_groups(slotq, queue, file):
    slotq("gang", file())
    result = slotq("gang", file(members=members("other")))
    assert (result.exit_code, "other" in queue.jobs) == (ExitCode.NO, False)
    assert "a group named 'ring' exists already" in result.output
    assert "choose others" in result.output
    assert "--again" not in result.output


def test_groups_of_both_kinds_are_listed(slotq, queue, file):
    slotq("gang", file())
    slotq("gang", file(name="alone", members=members("alone")))
    client = client_of_cli(queue)
    client.groups.submit("grid", members("grid-1"), max_parallel=1)
    lines = [line.split() for line in slotq("groups").output.splitlines()]
    assert lines[1:] == [
        ["alone", "gang", "pending", "1", "1", "pending"],
        ["grid", "sweep", "pending", "1", "1", "pending"],
        ["ring", "gang", "pending", "3", "3", "pending"],
    ]
    told = GroupsView.model_validate_json(slotq("groups", "--json").output)
    assert [group.gang is None for group in told.groups] == [False, True, False]
    assert [group.name for group in client.groups(ended=True)] == ["alone", "grid", "ring"]


def client_of_cli(queue):
    from tests.unit.client.fake_queue import FakeHttp

    return client_of(FakeHttp(queue))


def test_the_history_of_a_group_has_the_attempts_of_its_jobs(slotq, queue, file):
    slotq("gang", file())
    history = [attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4"), attempt(2)]
    queue.jobs["ring-2"] = running(2, name="ring-2", group="ring", attempts=history)
    shown = slotq("history", "ring")
    assert all(name in shown.output for name in NAMES)
    assert "for job4" in shown.output
    told = GroupView.model_validate_json(slotq("history", "ring", "--json").output)
    assert [len(job.attempts) for job in told.jobs] == [0, 2, 0]
    assert [len(job.attempts) for job in client_of_cli(queue).groups.view("ring").jobs] == [0, 0, 0]


def test_verbs_read_the_jobs_of_a_group_by_name_and_not_from_the_list(slotq, queue, file):
    """The list is cut at a thousand jobs, and may lag behind."""
    slotq("gang", file())
    queue._list = lambda _: pytest.fail("the list was read")
    for verb, state in (("hold", "held"), ("release", "pending"), ("cancel", "cancelled")):
        result = slotq(verb, "--group", "ring", "--yes")
        assert result.exit_code == ExitCode.OK, result.output
        assert {queue.jobs[name].state for name in NAMES} == {state}


def test_a_group_is_cloned_whole_with_its_rules(slotq, queue, file):
    slotq("gang", file(gang={"min_members": 2, "mandatory": ["ring-3"]}))
    result = slotq("clone", "--group", "ring", "again", "--priority", "7")
    assert result.exit_code == ExitCode.OK, result.output
    assert queue.groups["again"][0] == ["again-1", "again-2", "again-3"]
    assert (queue.gangs["again"].min_members, queue.gangs["again"].mandatory) == (2, ["again-3"])
    assert queue.requests["again-2"]["Tags"] == [{"Key": "priority", "Value": "7"}]
    client = client_of_cli(queue)
    client.groups.submit("grid", members("a"), max_parallel=4)
    assert client.groups.clone("grid", "other").max_parallel == 4
    assert queue.groups["other"][0] == ["other-a"]
    with pytest.raises(NoSuchGroup):
        client.groups.clone("nothing", "more")
    with pytest.raises(NameTaken):
        client.groups.clone("ring", "again")


@pytest.mark.parametrize("words", [("new",), ("--group", "ring", "a", "b"), ()])
def test_a_clone_is_of_a_job_or_of_a_group(slotq, words):
    assert slotq("clone", *words).exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("jobs", "new", "made"),
    [
        (["ring-1", "ring-2"], "hoop", ["hoop-1", "hoop-2"]),
        (["ring", "a"], "hoop", ["hoop", "hoop-a"]),
        (["1", "ring-1"], "hoop", ["hoop-1", "hoop-2"]),
        (["a" * 63, "b"], "hoop", ["hoop-1", "hoop-2"]),
        (["a", "b"], "h" * 63, [f"{'h' * 61}-1", f"{'h' * 61}-2"]),
        (["a" * 60], "x" * 60 + "-yz", [f"{'x' * 60}-1"]),
    ],
)
def test_each_clone_has_a_legal_name_of_its_own(jobs, new, made):
    assert names_of_clones("ring", jobs, new) == dict(zip(jobs, made, strict=True))


def test_a_clone_comes_after_the_clones_of_what_the_first_came_after():
    tags = [{"Key": "slotq:after", "Value": "ring-1,other"}, {"Key": "team", "Value": "ring-1"}]
    made = cloned(least_request("ring-2", Tags=tags), {"ring-1": "hoop-1", "ring-2": "hoop-2"})
    assert made["TrainingJobName"] == "hoop-2"
    assert [tag["Value"] for tag in made["Tags"]] == ["hoop-1,other", "ring-1"]


def test_the_clients_settings_and_checks_apply_to_each_member(http, queue):
    client = client_of(http).with_settings(priority=5)
    group = client.groups.submit_gang("ring", members(), min_members=2, mandatory="ring-1")
    assert (group.members, group.gang.min_members, group.gang.mandatory) == (3, 2, ["ring-1"])
    assert queue.requests["ring-3"]["Tags"] == [{"Key": "priority", "Value": "5"}]
    wrong = {**least_request("ring-9"), "RoleArn": 3}
    with pytest.raises(InvalidRequest, match=r"^members\.1: "):
        client.groups.submit_gang("hoop", [*members("hoop-1"), wrong])
    with pytest.raises(InvalidRequest, match="min_members"):
        client.groups.submit_gang("hoop", members("hoop-1"), min_members=0)
    assert "hoop" not in queue.groups


@cache
def boto_session():
    """One session for all tests of this file, because reading AWS's service models takes long."""
    return boto3.Session()


@pytest.fixture
def sagemaker(http, said):
    with mock_aws():
        slotq_client = client_of(http)
        slotq.install(
            boto_session(),
            queue=slotq_client,
            endpoint="https://queue.test/prod",
            priority=3,
            say=said.append,
        )
        yield boto_session().client("sagemaker")


def test_the_jobs_of_a_block_are_submitted_together_when_it_ends(sagemaker, queue, said):
    with slotq.gang("ring", min_members=1) as ring:
        arn = sagemaker.create_training_job(**members("ring-1")[0])["TrainingJobArn"]
        sagemaker.create_training_job(**members("ring-2")[0])
        assert arn == "arn:aws:sagemaker:eu-west-1:123456789012:training-job/ring-1"
        assert (queue.groups, "ring-1" in queue.jobs) == ({}, False)
        described = sagemaker.describe_training_job(TrainingJobName="ring-1")
        told = described["TrainingJobStatus"], described["SecondaryStatus"]
        assert told == ("InProgress", "Pending")
        ring.mandatory.append("ring-2")
    assert queue.groups["ring"][0] == ["ring-1", "ring-2"]
    assert (queue.gangs["ring"].min_members, queue.gangs["ring"].mandatory) == (1, ["ring-2"])
    assert queue.requests["ring-1"]["Tags"] == [{"Key": "priority", "Value": "3"}]
    assert (ring.group.name, len(ring.group.jobs)) == ("ring", 2)
    assert said == [f"ring-{n}: in the queue, in gang ring" for n in (1, 2)]
    sagemaker.create_training_job(**members("after")[0])
    assert queue.jobs["after"].group == ""


def in_a_block(sagemaker, *names, trouble=None):
    with slotq.gang("ring"):
        for name in names:
            sagemaker.create_training_job(**members(name)[0])
        if trouble:
            raise trouble


def test_a_block_that_raises_submits_nothing(sagemaker, queue):
    with pytest.raises(RuntimeError):
        in_a_block(sagemaker, "ring-1", trouble=RuntimeError("no second estimator"))
    assert (queue.groups, queue.requests) == ({}, {})
    sagemaker.create_training_job(**members("ring-1")[0])
    assert queue.jobs["ring-1"].group == ""


def test_a_block_submits_something_once_and_is_in_no_other(sagemaker, queue):
    with pytest.raises(InvalidRequest, match="gang ring has no jobs"):
        in_a_block(sagemaker)
    with pytest.raises(InvalidRequest, match="end its block"), slotq.gang("hoop"):
        in_a_block(sagemaker, "ring-1")
    with pytest.raises(ClientError, match="has a job named 'ring-1' already"):
        in_a_block(sagemaker, "ring-1", "ring-1")
    assert queue.groups == {}


def test_the_page_of_gangs_works(slotq, sagemaker, queue, tmp_path, monkeypatch):
    text = (DOCS / "gangs.md").read_text()
    (gang,) = re.findall(r"^```none\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gang.yaml").write_text(gang)
    for line in re.findall(r"^slotq (.*)$", text, re.MULTILINE):
        result = slotq(*line.split())
        assert result.exit_code == ExitCode.OK, f"{line}: {result.output}"
    assert queue.groups["ring-again"] == ([f"ring-again-{n}" for n in (1, 2, 3)], None)
    queue.groups.clear()
    queue.jobs.clear()
    queue.requests.clear()
    estimators = dict(zip(("first", "second", "third"), map(Estimator, NAMES), strict=True))
    Estimator.client = sagemaker
    exec(code, dict(estimators))
    assert queue.groups["ring"] == (list(NAMES), None)


class Estimator:
    """An estimator as far as the page uses one."""

    client: Any = None

    def __init__(self, name):
        self.name = name

    def fit(self, *, wait):
        assert not wait
        self.client.create_training_job(**members(self.name)[0])
