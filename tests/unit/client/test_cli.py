"""The commands against a fake queue: output, JSON and exit codes."""

from __future__ import annotations

import json
from datetime import date

import pytest
import yaml
from click.testing import CliRunner

from slotq.cli.exits import MEANINGS, ExitCode
from slotq.cli.main import cli
from slotq_core.wire.views.about import FindingView
from slotq_core.wire.views.jobs import JobView, OutlookView, QueueView, ReasonView
from tests.least_request import least_request
from tests.unit.client.fake_queue import (
    FakeAnswer,
    attempt,
    client_of,
    ended,
    no_connection,
    running,
    waiting,
)

REQUEST = least_request("new")
NEXT = "place 1 in the line (0 ahead, since 2026-11-20 10:30 UTC)"


def test_ls_prints_a_table_in_queue_order(slotq):
    result = slotq("ls", "--all")
    lines = result.output.splitlines()
    assert result.exit_code == ExitCode.OK
    assert lines[0].split()[:4] == ["JOB", "STATE", "PRIORITY", "PLACE"]
    assert [line.split()[0] for line in lines[1:]] == ["job1", "job3", "job9"]
    assert "needs 1 slot; pool p5 has 0 free of 2" in lines[2]
    assert "\x1b" not in result.output


ESCAPES = "s3://bucket/\x1b]0;owned\x07\x9b2J\u202ex"


@pytest.mark.parametrize("command", ["show", "history", "why", "watch"])
def test_no_terminal_obeys_the_texts_of_others(slotq, queue, command):
    """Whoever submits a job chooses its places in S3, and its script the reason of its failure."""
    told = [attempt(1, artifact=ESCAPES, checkpoints=ESCAPES, logs=ESCAPES, message=ESCAPES)]
    outlook = {name: [] for name in ("rooms", "evictions", "reserved", "times")}
    outlook["rooms"] = [ReasonView(code="no_free_slots", text=ESCAPES, numbers={})]
    queue.jobs["nasty"] = ended(
        "failed", name="nasty", message=ESCAPES, cause=ESCAPES, attempts=told, outlook=outlook
    )
    shown = slotq(command, "nasty").stdout
    assert "s3://bucket/" in shown
    assert not any(bad in shown for bad in "\x1b\x07\x9b\u202e")
    json_of = slotq("show", "nasty", "--json").stdout
    assert JobView.model_validate_json(json_of).attempts[0].checkpoints == ESCAPES


def test_no_terminal_obeys_the_metric_of_a_sweep(slotq, http):
    members = [least_request("grid-1")]
    client_of(http).groups.submit("grid", members, max_parallel=1, sweep={"metric": ESCAPES})
    shown = slotq("show", "grid").stdout
    assert "s3://bucket/" in shown
    assert not any(bad in shown for bad in "\x1b\x07\x9b\u202e")


def test_ls_filters_by_state_and_limit(slotq, http):
    assert "job3" in slotq("ls", "--state", "pending", "--state", "running", "--limit", "5").output
    # A shorter answer would be without places: the command cuts the list itself.
    assert http.sent[0].url.endswith("/jobs?state=pending&state=running")
    assert slotq("ls", "--state", "backoff").output == "no jobs\n"
    assert slotq("ls", "--state", "asleep").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("where", [("--json", "ls", "--all"), ("ls", "--all", "--json")])
def test_ls_json_is_the_queues_view(slotq, queue, where):
    result = slotq(*where)
    view = QueueView.model_validate_json(result.output)
    assert view.jobs == list(queue.jobs.values())


@pytest.mark.parametrize("command", ["show", "why", "cancel"])
def test_show_json_is_the_queues_view(slotq, queue, command):
    result = slotq(command, "job3", "--json")
    assert JobView.model_validate_json(result.output) == queue.jobs["job3"]


def test_show_lists_the_attempts(slotq):
    output = slotq("show", "job1").output
    assert "job1-qstamp-2-abcdef" in output
    assert "evicted for job4" in output


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "job3",
            f"job3: waiting, {NEXT}: needs 1 slot; pool p5 has 0 free of 2",
        ),
        ("job1", "job1: running in pool p5 (attempt 2: job1-qstamp-2-abcdef)"),
        ("job9", "job9: failed after 1 attempt: AlgorithmError: exit code 1"),
    ],
)
def test_why_prints_one_sentence(slotq, name, sentence):
    assert slotq("why", name).output == sentence + "\n"


def test_why_shows_candidates_reservations_and_times(slotq, queue):
    def said(text: str) -> ReasonView:
        return ReasonView(code="x", text=text, numbers={})

    outlook = OutlookView(
        rooms=[said("pool p has 0 free")],
        evictions=[said("a holds 1 slot: not preemptible")],
        reserved=[said("1 slot is owed to b")],
        times=[],
    )
    queue.jobs["job3"] = queue.jobs["job3"].model_copy(update={"outlook": outlook})
    assert slotq("why", "job3").output.splitlines()[1:] == [
        "  room         pool p has 0 free",
        "  not evicted  a holds 1 slot: not preemptible",
        "  reserved     1 slot is owed to b",
        "  times        none known: it depends on other jobs",
    ]


def test_submit_reads_json_yaml_and_stdin(slotq, http, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(REQUEST))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(REQUEST))
    first = slotq("submit", str(tmp_path / "a.json"))
    assert first.exit_code == ExitCode.OK
    place = "place 4 in the line (3 ahead, since 2026-11-20 10:30 UTC)"
    assert first.output == f"new: waiting, {place}: the pool is full\n"
    assert slotq("submit", str(tmp_path / "b.yaml")).exit_code == ExitCode.OK
    assert slotq("submit", "-", input=json.dumps(REQUEST)).exit_code == ExitCode.OK
    assert http.last_body() == REQUEST


@pytest.mark.parametrize("command", ["submit", "sweep", "gang"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '{"TrainingJobName": "a"}'.encode("utf-16")),
        ("a.json", b"[" * 100_000),
        ("a.yaml", b"a: &a [*a]"),
        ("a.yaml", b"\xff"),
        ("a.json", b'{"RoleArn": "a", "RoleArn": "b"}'),
        ("a.yaml", b"RoleArn: a\nRoleArn: b"),
        ("a.yaml", b"on: a"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_usage_error(slotq, tmp_path, command, name, content):
    (tmp_path / name).write_bytes(content)
    result = slotq(command, str(tmp_path / name))
    assert (result.exit_code, f"{name} cannot be read" in result.stderr) == (ExitCode.USAGE, True)


def test_a_date_in_yaml_is_a_text(slotq, tmp_path):
    member = {**REQUEST, "Environment": {"DAY": date(2026, 11, 20)}}
    for command, said in (
        ("submit", member),
        ("sweep", {"name": "s", "max_parallel": 1, "members": [member]}),
    ):
        (tmp_path / "a.yaml").write_text(yaml.safe_dump(said))
        result = slotq(command, str(tmp_path / "a.yaml"), "--dry-run")
        assert '"DAY": "2026-11-20"' in result.stdout, result.stderr


def test_an_empty_dependency_is_the_queues_to_refuse(slotq, http):
    """The variable of a script may be unset: its job must not start at once."""
    slotq("submit", "-", "--after", "", "--after-any", "", input=json.dumps(REQUEST))
    tags = {tag["Key"]: tag["Value"] for tag in http.last_body()["Tags"]}
    assert tags == {"slotq:after": "", "slotq:after-any": ""}


def test_submit_options_override_the_files_tags(slotq, http):
    request = REQUEST | {"Tags": [{"Key": "priority", "Value": "1"}]}
    slotq(
        *("submit", "-", "--name", "other", "--priority", "-5", "--pools", "p5,p4"),
        *("--not-preemptible", "--min-runtime", "60", "--retries", "1"),
        *("--demand", "gpus=8", "--demand", "mem_per_gpu_in_GiB=16"),
        input=json.dumps(request),
    )
    body = http.last_body()
    assert body["TrainingJobName"] == "other"
    assert {tag["Key"]: tag["Value"] for tag in body["Tags"]} == {
        "priority": "-5",
        "slotq:pools": "p5,p4",
        "slotq:demand": "gpus=8,mem_per_gpu_in_GiB=16",
        "slotq:preemptible": "false",
        "slotq:min-runtime": "60",
        "slotq:retries": "1",
    }


@pytest.mark.parametrize(
    ("option", "word"),
    [("--preemptible", "true"), ("--semi-preemptible", "semi"), ("--not-preemptible", "false")],
)
def test_whether_a_job_may_be_evicted_is_one_of_three_options(slotq, http, option, word):
    slotq("submit", "-", option, input=json.dumps(REQUEST))
    assert http.last_body()["Tags"] == [{"Key": "slotq:preemptible", "Value": word}]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("--class", "inference"), "inference"),
        (("--interactive",), "interactive"),
        (("--class", "training"), "training"),
    ],
)
def test_submit_names_the_class(slotq, http, words, kind):
    request = REQUEST | {"Tags": [{"Key": "slotq:class", "Value": "batch"}]}
    result = slotq("submit", "-", *words, input=json.dumps(request))
    assert result.exit_code == ExitCode.OK, result.output
    tags = {tag["Key"]: tag["Value"] for tag in http.last_body()["Tags"]}
    assert tags["slotq:class"] == kind
    assert slotq("submit", "-", "--class", "batch", input="{}").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', ""])
def test_submitting_something_else_than_a_request_is_a_usage_error(slotq, http, text):
    result = slotq("submit", "-", input=text)
    assert result.exit_code == ExitCode.USAGE
    assert "CreateTrainingJob request" in result.stderr
    assert not http.sent


def test_submit_wait_follows_the_job_to_its_end(slotq, queue):
    queue.script(waiting(1, name="new"), running(name="new"), ended(name="new"))
    queue.requests["new"] = REQUEST
    result = slotq("submit", "-", "--wait", input=json.dumps(REQUEST))
    assert result.exit_code == ExitCode.OK
    assert result.output.splitlines()[-1] == "new: completed after 1 attempt"


def test_the_exit_code_of_watch_says_whether_the_job_completed(slotq, queue):
    queue.script(running(), ended("failed", message="out of memory"))
    result = slotq("watch", "job1", "--every", "1")
    assert result.exit_code == ExitCode.NO
    assert result.output.splitlines() == [
        "job1: running in pool p5 (attempt 1: job1)",
        "job1: failed after 1 attempt: out of memory",
    ]


def test_watch_json_prints_a_view_for_each_change(slotq, queue):
    queue.script(waiting(1), waiting(1), running(), ended())
    result = slotq("watch", "job1", "--json")
    states = [JobView.model_validate_json(line).state for line in result.output.splitlines()]
    assert states == ["pending", "running", "completed"]


def test_an_interrupted_watch_says_that_the_job_continues(slotq, queue, clock):
    def interrupt():
        raise KeyboardInterrupt

    clock.after_sleep = interrupt
    result = slotq("watch", "job3")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "slotq cancel job3" in result.stderr
    assert queue.jobs["job3"].state == "pending"


def test_watch_shows_the_queue_until_interrupted(slotq, queue, clock):
    def after_sleep():
        queue.jobs.pop("job3", None)
        if clock.now >= 20:
            raise KeyboardInterrupt

    clock.after_sleep = after_sleep
    result = slotq("watch")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert result.output.count("JOB") == 2  # once at first, once after job3 has left


def test_a_refusal_prints_the_queues_message(slotq):
    result = slotq("show", "job77")
    assert result.exit_code == ExitCode.NO
    assert result.stderr.startswith("slotq: there is no job 'job77'")
    assert "slotq ls" in result.stderr
    assert result.stdout == ""


def test_errors_as_json_go_to_stderr(slotq):
    result = slotq("show", "job77", "--json")
    assert json.loads(result.stderr)["code"] == "no_such_job"
    assert result.stdout == ""


def test_cancelling_an_ended_job_is_too_late(slotq):
    assert slotq("cancel", "job3").exit_code == ExitCode.OK
    assert slotq("cancel", "job9").exit_code == ExitCode.TOO_LATE


def test_an_unreachable_queue_has_its_exit_code(slotq, http):
    http.troubles = [no_connection()] * 9
    result = slotq("ls")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "cannot reach the queue" in result.stderr


def test_a_denied_call_has_its_exit_code(slotq, http):
    http.troubles = [FakeAnswer(403, '{"message": "Forbidden"}')]
    assert slotq("ls").exit_code == ExitCode.NOT_ALLOWED


def test_a_missing_endpoint_is_a_settings_error():
    result = CliRunner().invoke(cli, ["ls"])
    assert result.exit_code == ExitCode.USAGE
    assert "SLOTQ_ENDPOINT" in result.stderr


def test_help_lists_every_exit_code():
    output = CliRunner().invoke(cli, ["--help"]).output
    for code, meaning in MEANINGS.items():
        assert f"{int(code)}  {meaning}" in output
    assert set(MEANINGS) == set(ExitCode)


def test_an_unknown_command_is_a_usage_error(slotq):
    assert slotq("fly").exit_code == ExitCode.USAGE


def test_version_prints_the_version(slotq):
    assert slotq("version").output.startswith("slotq 0.")
    assert set(json.loads(slotq("version", "--json").output)) == {"slotq", "wire"}


def drift(kind, subject):
    return FindingView(
        kind=kind, subject=subject, text=f"what is wrong with {subject}", mended=False
    )


def test_the_exit_code_of_doctor_says_whether_there_are_findings(slotq, queue, http):
    result = slotq("doctor")
    assert (result.exit_code, result.output.splitlines()[-1]) == (ExitCode.OK, "nothing found")
    queue.drift = [drift("ended_unseen", "job1")]
    result = slotq("doctor")
    assert result.exit_code == ExitCode.NO
    assert "ended_unseen" in result.output
    assert "what is wrong with job1" in result.output
    assert slotq("doctor", "--fix").exit_code == ExitCode.OK
    queue.drift.append(drift("orphan", "stray"))
    result = slotq("doctor", "--fix", "--json")
    assert result.exit_code == ExitCode.NO
    assert [it["mended"] for it in json.loads(result.output)["findings"]] == [True, False]
    asked = [each.method for each in http.sent if each.url.endswith("/doctor")]
    assert asked == ["GET", "GET", "POST", "POST"]
