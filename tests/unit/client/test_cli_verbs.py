"""The verbs on the command line: one job or several, too late, no such job; exit codes."""

from __future__ import annotations

import json

import pytest

from slotq.cli.exits import ExitCode
from slotq_core.wire.views.jobs import JobView, QueueView
from tests.least_request import TRAINER, least_request
from tests.unit.client.fake_aws import FakeServices
from tests.unit.client.fake_queue import ended, job_view, no_connection, waiting

REQUEST = least_request("job9")


@pytest.fixture(autouse=True)
def more_jobs(queue):
    queue.jobs["job4"] = waiting(2, "behind job3", name="job4")
    queue.jobs["held"] = job_view("held", "held")
    queue.jobs["gone"] = ended("cancelled", name="gone")
    queue.requests = {"job9": REQUEST}


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("hold", "job3"), "held"),
        (("release", "held"), "pending"),
        (("cancel", "job1"), "cancelled"),
        (("requeue", "job1"), "stopping"),
        (("priority", "5", "job3"), "pending"),
        (("move", "p4,p5", "job3"), "pending"),
        (("transfer", "speech", "job3"), "pending"),
    ],
)
def test_a_verb_prints_the_jobs_new_state(slotq, queue, words, state):
    result = slotq(*words, "--json")
    assert result.exit_code == ExitCode.OK, result.output
    view = JobView.model_validate_json(result.output)
    assert (view.name, view.state) == (words[-1], state)
    assert slotq(*words).output.startswith(f"{words[-1]}: ")


@pytest.mark.parametrize(
    "words", [("hold",), ("cancel",), ("priority", "7"), ("move", "p4"), ("transfer", "speech")]
)
def test_a_verb_takes_several_jobs(slotq, queue, words):
    result = slotq(*words, "job3", "job4", "job3")
    assert result.exit_code == ExitCode.OK
    assert [line.split(":")[0] for line in result.output.splitlines()] == ["job3", "job4"]
    view = QueueView.model_validate_json(slotq(*words, "job3", "job4", "--json").output)
    assert [job.name for job in view.jobs] == ["job3", "job4"]


def test_a_refusal_of_one_job_does_not_stop_the_others(slotq, queue):
    result = slotq("hold", "job9", "job3", "nobody", "job4")
    assert result.exit_code == ExitCode.TOO_LATE, "that of the first that was refused"
    assert [queue.jobs[name].state for name in ("job3", "job4")] == ["held", "held"]
    assert "too late: job9 has ended" in result.stderr
    assert "there is no job 'nobody'" in result.stderr
    result = slotq("release", "nobody", "job9", "job3", "--json")
    assert result.exit_code == ExitCode.NO
    assert [job.name for job in QueueView.model_validate_json(result.stdout).jobs] == ["job3"]
    codes = [json.loads(line)["code"] for line in result.stderr.splitlines()]
    assert codes == ["no_such_job", "too_late"]


def test_an_unreachable_queue_stops_all(slotq, http):
    http.troubles = [no_connection()] * 5
    result = slotq("hold", "job3", "job4")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert len(http.sent) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hold", "job1"), "job1 is running; only a waiting job can be held"),
        (("release", "gone"), "gone has ended"),
        (("cancel", "job9"), "job9 has ended"),
        (("priority", "3", "job9"), "job9 has ended"),
        (("move", "p4", "job9"), "job9 has ended"),
        (("requeue", "job9"), "job9 has ended"),
    ],
)
def test_too_late_has_its_exit_code_and_changes_nothing(slotq, words, said):
    result = slotq(*words)
    assert result.exit_code == ExitCode.TOO_LATE
    assert result.stderr.startswith("slotq: too late: ")
    assert said in result.stderr
    assert result.stderr.endswith("Nothing was changed.\n")
    result = slotq(*words, "--json")
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (ExitCode.TOO_LATE, "too_late")


@pytest.mark.parametrize(
    "words",
    [
        ("show",), ("why",), ("history",), ("cancel",), ("hold",), ("release",), ("requeue",),
        ("priority", "1"), ("move", "p5"), ("retry",), ("watch",), ("logs",),
    ],
)  # fmt: skip
def test_an_unknown_job_suggests_similar_names(slotq, words):
    result = slotq(*words, "jb3", world={"aws": FakeServices()})
    assert result.exit_code == ExitCode.NO
    assert "there is no job 'jb3'" in result.stderr
    assert "Did you mean job3" in result.stderr
    result = slotq(*words, "quite-another", world={"aws": FakeServices()})
    assert "`slotq ls --all` lists" in result.stderr


def test_a_negative_priority_is_not_read_as_an_option(slotq, queue):
    assert slotq("priority", "-50", "job3", "job4").exit_code == ExitCode.OK
    assert (queue.jobs["job3"].priority, queue.jobs["job4"].priority) == (-50, -50)
    assert slotq("priority", "--json", "-5", "job3").exit_code == ExitCode.OK
    assert queue.jobs["job3"].priority == -5
    result = slotq("priority", "5", "job3", "--jsn")
    assert (result.exit_code, "--jsn" in result.stderr) == (ExitCode.USAGE, True)
    assert slotq("priority", "1.5", "job3").exit_code == ExitCode.USAGE


def test_a_requeue_names_the_stopped_attempt(slotq, http):
    slotq("requeue", "job1")
    assert http.last_body() == {"give_up": 2}


def test_a_requeue_of_a_waiting_job_stops_nothing(slotq, queue):
    before = queue.jobs["job3"]
    assert slotq("requeue", "job3").exit_code == ExitCode.OK
    assert queue.jobs["job3"] == before


def test_a_clone_is_a_new_job(slotq, queue):
    result = slotq("clone", "job9", "copy", "--priority", "4")
    assert (result.exit_code, result.output.split(":")[0]) == (ExitCode.OK, "copy")
    assert queue.requests["copy"]["TrainingJobName"] == "copy"
    assert queue.jobs["copy"].priority == 4


def test_a_clone_leaves_a_provided_place_for_checkpoints_to_its_job(slotq, queue):
    place = {"S3Uri": "s3://bucket/out/slotq-checkpoints/job9/20261122T103000"}
    queue.requests["job9"]["CheckpointConfig"] = place
    assert slotq("clone", "job9", "copy").exit_code == ExitCode.OK
    assert "CheckpointConfig" not in queue.requests["copy"]
    assert slotq("retry", "job9").exit_code == ExitCode.OK
    assert queue.requests["job9-r2"]["CheckpointConfig"] == place, "a retry goes on from there"


def test_a_retry_is_a_new_job_under_the_next_free_name(slotq, queue):
    assert slotq("retry", "job9").output.startswith("job9-r2: waiting")
    assert queue.requests["job9-r2"] == REQUEST | {"TrainingJobName": "job9-r2"}
    assert slotq("retry", "job9").output.startswith("job9-r2: "), "as long as that one lives"
    queue.jobs["job9-r2"] = ended("failed", name="job9-r2")
    # The name of an ended job cannot be submitted again.
    queue.requests["job9-r2"] |= {"RoleArn": f"{TRAINER}2"}
    assert slotq("retry", "job9").output.startswith("job9-r3: ")
    assert slotq("retry", "job9-r2", "--name", "own").output.startswith("own: ")


def test_several_jobs_are_retried_under_their_own_names(slotq, queue):
    queue.jobs["job8"] = ended("stopped", name="job8")
    queue.requests["job8"] = REQUEST | {"TrainingJobName": "job8"}
    result = slotq("retry", "job8", "job9", "--priority", "9")
    assert [line.split(":")[0] for line in result.output.splitlines()] == ["job8-r2", "job9-r2"]
    assert slotq("retry", "job8", "job9", "--name", "own").exit_code == ExitCode.USAGE


def test_only_a_job_that_ended_without_completing_is_retried(slotq, queue):
    result = slotq("retry", "job1")
    assert result.exit_code == ExitCode.NO
    assert "job1 is running: only an ended job" in result.stderr
    assert "slotq requeue job1" in result.stderr
    queue.jobs["fine"] = ended(name="fine")
    assert "slotq clone fine" in slotq("retry", "fine").stderr


def test_history_lists_every_attempt(slotq):
    lines = slotq("history", "job1", "job3").output.splitlines()
    assert lines[0].startswith("job1: running in pool p5")
    assert lines[1].split()[:3] == ["#", "TRAINING", "JOB"]
    assert "evicted for job4" in lines[2]
    assert lines[3].split()[:2] == ["2", "job1-qstamp-2-abcdef"]
    assert lines[4].startswith("job3: waiting")


@pytest.mark.parametrize("line", ["hodl job3", "relase held", "prioriti 1 job3", "can job1"])
def test_an_unknown_command_suggests_a_similar_one(slotq, line):
    near = {"hodl": "hold", "relase": "release", "prioriti": "priority", "can": "cancel"}
    word, *rest = line.split()
    result = slotq(word, *rest)
    assert result.exit_code == ExitCode.USAGE
    assert f"No such command '{word}'. Did you mean {near[word]}" in result.stderr
    assert "--help' for help" in result.stderr


def test_an_unknown_option_suggests_a_similar_one(slotq):
    result = slotq("ls", "--sate", "running")
    assert result.exit_code == ExitCode.USAGE
    assert "--state" in result.stderr
