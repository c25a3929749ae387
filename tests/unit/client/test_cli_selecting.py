"""Verbs with options that select jobs: the selected jobs, the question, the number of requests."""

from __future__ import annotations

import io
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.cli.selection import HANDFUL
from slotq_core.wire.views.jobs import QueueView
from tests.least_request import least_request
from tests.unit.client.fake_queue import (
    CALLER,
    FakeAnswer,
    ended,
    job_view,
    pool_view,
    running,
    waiting,
)

EVE = "arn:aws:sts::123456789012:assumed-role/lab/eve"
REQUEST = least_request("over")
VERBS = [
    ("cancel",),
    ("hold",),
    ("release",),
    ("priority", "7"),
    ("move", "p4"),
    ("requeue",),
    ("retry",),
]


@pytest.fixture(autouse=True)
def jobs(queue):
    """160 jobs of mine named ablation-…, the first running; two jobs of Eve's, one held; one failed
    job."""
    queue.jobs = {
        job.name: job
        for job in (
            running(name="ablation-0"),
            *(waiting(n, name=f"ablation-{n}") for n in range(1, 160)),
            waiting(160, name="eve-1", submitter=EVE, pools=["p4"], project="vision"),
            job_view("eve-2", "held", submitter=EVE, project="vision"),
            ended("failed", name="over"),
        )
    }
    queue.requests["over"] = REQUEST | {"TrainingJobName": "over"}
    return queue.jobs


def done(result):
    assert result.exit_code == ExitCode.OK, result.output
    return [line.split(":")[0] for line in result.stdout.splitlines()]


def sent(http):
    return [(each.method, urlsplit(each.url).path.removeprefix("/prod")) for each in http.sent]


def test_a_verb_changes_all_selected_jobs_in_few_requests(slotq, http, jobs):
    names = done(slotq("cancel", "--mine", "--state", "pending", "--name", "ablation-*", "--yes"))
    assert names == [f"ablation-{n}" for n in range(1, 160)]
    assert sent(http) == [("GET", "/me"), ("GET", "/jobs"), *[("PATCH", "/jobs")] * 2]
    query = parse_qs(urlsplit(http.sent[1].url).query)
    assert query == {"state": ["pending"], "submitter": [CALLER]}
    assert {jobs[name].state for name in names} == {"cancelled"}
    assert jobs["eve-1"].state == "pending"


def test_mine_is_everything_of_the_person(slotq, http, queue, jobs):
    """Under an ordinary role all sessions are one person, and the command says so."""
    queue.person = "arn:aws:sts::123456789012:assumed-role/lab"
    result = slotq("cancel", "--mine")
    said = f"slotq: --mine selects the jobs of all sessions of {queue.person}; `slotq whoami`"
    assert result.stderr.startswith(said)
    assert parse_qs(urlsplit(http.sent[1].url).query)["submitter"] == [queue.person]


@pytest.mark.parametrize(
    "answer",
    [
        FakeAnswer(403, '{"message": "Missing Authentication Token"}'),
        FakeAnswer(404, '{"code": "no_such_route", "message": "no"}'),
    ],
)
def test_mine_is_the_callers_own_where_the_queue_does_not_tell_the_person(
    slotq, http, jobs, answer
):
    """An earlier release of the queue, or IAM denies it."""
    http.troubles.append(answer)
    names = done(slotq("cancel", "--mine", "--name", "ablation-1"))
    assert names == ["ablation-1"]
    assert sent(http)[:3] == [("GET", "/me"), ("GET", "/version"), ("GET", "/jobs")]
    assert parse_qs(urlsplit(http.sent[2].url).query)["submitter"] == [CALLER]


def test_a_job_that_starts_before_the_cancel_continues(slotq, http, jobs):
    """`--state pending` must not stop a running job."""
    begun = running(name="ablation-11")
    words = ("cancel", "--state", "pending", "--name", "ablation-1?")
    result = slotq(
        *words, world={"asks": lambda: jobs.update({"ablation-11": begun}) or True}, input="y\n"
    )
    assert result.exit_code == ExitCode.TOO_LATE
    assert (jobs["ablation-11"].state, jobs["ablation-12"].state) == ("running", "cancelled")


def test_names_are_sent_a_hundred_at_a_time(slotq, http):
    assert len(done(slotq("cancel", *(f"ablation-{n}" for n in range(160))))) == 160
    assert sent(http) == [("PATCH", "/jobs")] * 2


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--submitter", "eve"), ["eve-1", "eve-2"]),
        (("--project", "vision", "--state", "held"), ["eve-2"]),
        (("--pool", "p4"), ["eve-1"]),
        (("--name", "EVE-*"), None),
        (("--name", "*-[12]"), ["ablation-1", "ablation-2", "eve-1", "eve-2"]),
        (("--name", "eve-?", "--state", "held", "--state", "pending"), ["eve-1", "eve-2"]),
        (("--state", "pending", "ablation-0", "ablation-7", "eve-1"), ["ablation-7", "eve-1"]),
        (("--mine", "eve-1"), None),
        (("--mine", "--name", "over"), None),
        (("--state", "failed"), ["over"]),
        (("ablation-3", "eve-1"), ["ablation-3", "eve-1"]),
    ],
)
def test_options_select_jobs(slotq, queue, words, names):
    before = dict(queue.jobs)
    result = slotq("cancel", *words, "--dry-run", "--json")
    if names is None:
        assert result.exit_code == ExitCode.NO
        assert json.loads(result.stderr)["code"] == "no_such_job"
    else:
        assert [job.name for job in QueueView.model_validate_json(result.stdout).jobs] == names
    assert queue.jobs == before


@pytest.mark.parametrize(
    ("verb", "states"),
    [
        ("cancel", {"pending", "held", "running"}),
        ("hold", {"pending"}),
        ("release", {"held"}),
        ("requeue", {"running"}),
        ("retry", {"failed"}),
    ],
)
def test_without_a_state_a_verb_selects_jobs_it_applies_to(slotq, verb, states):
    shown = QueueView.model_validate_json(slotq(verb, "--name", "*", "--dry-run", "--json").stdout)
    assert {job.state for job in shown.jobs} == states


@pytest.mark.parametrize("words", VERBS)
def test_every_verb_can_select(slotq, words):
    chosen = ("--name", "[eo]*") if words != ("requeue",) else ("--name", "ablation-0")
    assert slotq(*words, *chosen).exit_code == ExitCode.OK


@pytest.mark.parametrize("words", VERBS)
def test_no_verb_selects_everything_without_options(slotq, http, words):
    result = slotq(*words)
    assert result.exit_code == ExitCode.USAGE
    assert "--mine, --state, --name" in result.stderr
    assert slotq(*words, "--yes").exit_code == ExitCode.USAGE
    assert slotq(*words, "--dry-run").exit_code == ExitCode.USAGE
    assert http.sent == []


def test_contradicting_options_are_a_usage_error(slotq):
    result = slotq("cancel", "--mine", "--submitter", "eve")
    assert (result.exit_code, "exclude each other" in result.stderr) == (ExitCode.USAGE, True)
    assert slotq("cancel", "--state", "waiting").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("option", ["--submitter", "--project", "--pool"])
def test_an_empty_option_selects_nothing(slotq, http, option):
    result = slotq("cancel", option, "")
    assert (result.exit_code, f"{option} is empty" in result.stderr) == (ExitCode.USAGE, True)
    assert http.sent == []


def test_an_empty_selection_is_described(slotq, http, queue):
    queue.pools = [pool_view("p5")]
    result = slotq("cancel", "--mine", "--name", "abl", "--pool", "p5")
    assert result.exit_code == ExitCode.NO
    assert f"no job named 'abl' of {CALLER} in p5 runs or waits" in result.stderr
    result = slotq("hold", "--project", "x", "--state", "held", "--state", "pending", "eve-1")
    assert "no job in project x among eve-1 is held or pending" in result.stderr
    assert ("PATCH", "/jobs") not in sent(http)


def test_a_dry_run_shows_a_table(slotq, jobs):
    lines = slotq("cancel", "--name", "*-1", "--dry-run").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", "ablation-1", "eve-1"]
    assert lines[2].split()[1] == "eve", "whose it is, for there are two"


def asked(slotq, *words, answer):
    return slotq(*words, world={"asks": lambda: True}, input=answer)


def test_a_person_is_asked_before_many_jobs_change(slotq, jobs):
    words = ("cancel", "--mine", "--state", "pending")
    result = asked(slotq, *words, answer="n\n")
    assert (result.exit_code, result.stdout) == (ExitCode.NO, "")
    assert "Cancel 159 jobs? [y/N]" in result.stderr
    assert f"… and {159 - HANDFUL} more" in result.stderr
    assert "nothing was changed" in result.stderr
    assert jobs["ablation-1"].state == "pending"
    assert asked(slotq, *words, answer="").exit_code == ExitCode.INTERRUPTED
    assert jobs["ablation-1"].state == "pending"
    assert len(done(asked(slotq, *words, answer="y\n"))) == 159


@pytest.mark.parametrize(
    "words",
    [
        ("cancel", "--mine", "--yes"),
        ("cancel", "--mine", "-y", "--json"),
        ("hold", "--name", "ablation-1?", "--yes"),
        ("cancel", "--name", "ablation-[1-5]"),
        ("cancel", *(f"ablation-{n}" for n in range(160))),
    ],
)
def test_few_jobs_given_names_or_yes_need_no_question(slotq, words):
    result = asked(slotq, *words, answer="")
    assert (result.exit_code, "[y/N]" in result.output) == (ExitCode.OK, False)


def test_no_question_is_asked_in_a_pipe(slotq):
    """Nobody would answer it: many jobs need --yes there, as everywhere where one is asked."""
    result = slotq("cancel", "--mine", input="")
    assert (result.exit_code, "[y/N]" in result.output) == (ExitCode.USAGE, False)
    assert "nothing was changed. Add --yes to cancel them all" in result.stderr
    assert slotq("cancel", "--mine", "--yes", input="").exit_code == ExitCode.OK


def test_a_handful_needs_no_yes_in_a_pipe(slotq, jobs):
    few = [name for name in jobs if name.startswith("ablation-")][:HANDFUL]
    assert done(slotq("cancel", "--mine", *few)) == few


def test_one_selected_job_is_a_list_too(slotq):
    result = slotq("cancel", "--name", "eve-1", "--json")
    assert [job.name for job in QueueView.model_validate_json(result.stdout).jobs] == ["eve-1"]


def test_a_selection_larger_than_one_answer_is_reported(slotq, jobs):
    jobs |= {f"more-{n}": waiting(1, name=f"more-{n}") for n in range(1000)}
    result = slotq("hold", "--mine", "--yes")
    assert (result.exit_code, len(done(result))) == (ExitCode.OK, 1000)
    assert "1,000 jobs at a time" in result.stderr


@pytest.mark.parametrize("words", [("--name", "last-*"), ("last-1", "--state", "pending")])
def test_a_job_is_found_by_its_name_behind_a_thousand_others(slotq, jobs, words):
    """The queue does not know these filters: its first answer may have none of the jobs."""
    jobs |= {f"more-{n}": waiting(1, name=f"more-{n}") for n in range(2000)}
    jobs["last-1"] = waiting(1, name="last-1")
    result = slotq("hold", *words)
    assert (result.exit_code, done(result)) == (ExitCode.OK, ["last-1"]), result.stderr
    assert "at a time" not in result.stderr


def test_the_names_to_suggest_are_read_once(slotq, http):
    result = slotq("cancel", *(f"ablatoin-{n}" for n in range(30)))
    assert (result.exit_code, result.stderr.count("Did you mean")) == (ExitCode.NO, 30)
    assert sent(http).count(("GET", "/jobs")) == 1


def test_name_means_a_new_name_or_a_pattern_by_the_verbs_arguments(slotq, queue):
    assert slotq("retry", "over", "--as", "anew").stdout.startswith("anew: ")
    assert slotq("retry", "over", "--name", "newer").stdout.startswith("newer: ")
    assert slotq("retry", "--name", "ov*").stdout.startswith("over-r2: ")
    for words in (("--name", "ov*", "--as", "x"), ("over", "eve-1", "--as", "x")):
        assert slotq("retry", *words).exit_code == ExitCode.USAGE
    before = dict(queue.jobs)
    assert slotq("retry", "over", "--as", "third", "--dry-run").exit_code == ExitCode.OK
    assert queue.jobs == before


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_question_needs_a_terminal_for_input_and_output(monkeypatch):
    from slotq.cli.app import App

    for name, stream in (("stdin", Terminal()), ("stderr", Terminal())):
        assert not App().asks()
        monkeypatch.setattr(f"sys.{name}", stream)
    assert App().asks()


def test_help_names_every_way_to_select():
    command = cli.get_command(None, "cancel")
    flags = {flag for option in command.params for flag in option.opts}
    assert flags >= {
        "--mine", "--state", "--name", "--project", "--pool", "--submitter", "--dry-run", "--yes"
    }  # fmt: skip
