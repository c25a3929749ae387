"""`slotq ls`: filters, columns, sorting, and watching for changes."""

from __future__ import annotations

import io
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.output.columns import COLUMNS, in_order, queue_table
from slotq.output.job_tables import short_names
from slotq_core.wire.views.jobs import JobView, QueueView
from tests.unit.client.fake_queue import MOMENT, job_view, waiting


@pytest.fixture(autouse=True)
def more_jobs(queue):
    queue.jobs["job4"] = waiting(
        2,
        name="job4",
        priority=-3,
        pools=["p4"],
        project="vision",
        submitter="arn:aws:sts::123456789012:assumed-role/lab/eve",
        entry_time="2026-11-20T09:00:00.000Z",
        demand={"slots": 4},
    )
    queue.jobs["job5"] = job_view("job5", "held", priority=7)
    queue.jobs["job3"] = queue.jobs["job3"].model_copy(update={"project": "speech"})


def listed(result):
    assert result.exit_code == ExitCode.OK, result.output
    return [line.split()[0] for line in result.stdout.splitlines()[1:]]


def test_ended_jobs_are_listed_only_with_all(slotq):
    assert listed(slotq("ls")) == ["job1", "job3", "job4", "job5"]
    assert listed(slotq("ls", "--all")) == ["job1", "job3", "job4", "job9", "job5"]
    assert listed(slotq("ls", "--state", "failed")) == ["job9"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--state", "held"), ["job5"]),
        (("--project", "vision"), ["job4"]),
        (("--project", "vision", "--project", "speech"), ["job3", "job4"]),
        (("--submitter", "eve"), ["job4"]),
        (("--pool", "p4"), ["job4"]),
        (("--until", "2h"), ["job4"]),
        (("--since", "2h"), ["job1", "job3", "job5"]),
        (("--since", "2026-11-20T10:00:00", "--state", "running"), ["job1"]),
        (("--since", "2026-11-20T10:00:00+00:00", "--state", "pending"), ["job3"]),
        (("--limit", "2"), ["job1", "job3"]),
    ],
)
def test_each_filter_selects_its_jobs(slotq, words, names):
    assert listed(slotq("ls", *words)) == names


@pytest.mark.parametrize(
    "moment", ["soon", "999999w", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_what_is_no_moment_is_refused(slotq, moment):
    result = slotq("ls", "--since", moment)
    assert result.exit_code == ExitCode.USAGE
    assert f"'{moment}' is neither a time ago (30m, 2h, 7d) nor a date" in result.stderr


def test_projects_are_shown_where_there_are_several(slotq):
    lines = slotq("ls").stdout.splitlines()
    at = lines[0].index("PROJECT")
    shown = {line.split()[0]: line[at:].split(" ")[0] for line in lines[1:]}
    assert shown == {"job1": "", "job3": "speech", "job4": "vision", "job5": ""}
    assert "PROJECT" not in slotq("ls", "--project", "vision").stdout
    jobs = json.loads(slotq("ls", "--project", "vision", "--json").stdout)["jobs"]
    assert [job["project"] for job in jobs] == ["vision"]


def test_filters_are_sent_to_the_queue(slotq, http):
    slotq("ls", "--since", "30m", "--submitter", "eve", "--pool", "p4")
    query = parse_qs(urlsplit(http.sent[0].url).query)
    assert query["since"] == ["2026-11-20T11:30:00+00:00"]
    assert (query["submitter"], query["pool"], "project" in query) == (["eve"], ["p4"], False)
    assert "completed" not in query["state"]


@pytest.mark.parametrize("moment", ["soon", "2y", "20-11-2026"])
def test_a_wrong_time_is_a_usage_error(slotq, moment):
    result = slotq("ls", "--since", moment)
    assert result.exit_code == ExitCode.USAGE
    assert "30m, 2h, 7d" in result.stderr


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("priority", ["job4", "job1", "job3", "job5"]),
        ("-priority", ["job5", "job1", "job3", "job4"]),
        ("entered", ["job4", "job1", "job3", "job5"]),
        ("place", ["job3", "job4", "job1", "job5"]),
        ("-place", ["job4", "job3", "job1", "job5"]),
        ("-slots", ["job4", "job1", "job3", "job5"]),
        ("-name", ["job5", "job4", "job3", "job1"]),
    ],
)
def test_jobs_are_sorted_by_a_column(slotq, column, names):
    assert listed(slotq("ls", "--sort", column)) == names


def test_sorting_compares_no_job_with_each_other(queue, monkeypatch):
    """With none of 10,000 places known, `--sort -place` would take a minute and a half."""
    jobs = [*queue.jobs.values()]
    monkeypatch.setattr(JobView, "__eq__", None)
    names = [job.name for job in in_order(jobs, "-place")]
    assert names == ["job4", "job3", "job1", "job9", "job5"]


def test_the_limit_applies_after_sorting(slotq):
    assert listed(slotq("ls", "--sort", "-priority", "--limit", "1")) == ["job5"]
    view = QueueView.model_validate_json(slotq("ls", "--sort", "-name", "--json").output)
    assert [job.name for job in view.jobs] == ["job5", "job4", "job3", "job1"]


def test_more_jobs_than_asked_for_are_announced(slotq):
    result = slotq("ls", "--limit", "2")
    assert listed(result) == ["job1", "job3"]
    assert "more jobs than these 2; `--limit 20` shows more" in result.stderr
    view = QueueView.model_validate_json(slotq("ls", "--limit", "2", "--json").stdout)
    assert (len(view.jobs), view.more) == (2, True)
    whole = slotq("ls", "--limit", "4")
    assert (len(listed(whole)), whole.stderr) == (4, "")
    assert not QueueView.model_validate_json(slotq("ls", "--json").stdout).more


def test_a_limit_above_one_answer_follows_the_pages(slotq, queue, http):
    queue.jobs |= {f"more-{n}": waiting(1, name=f"more-{n}") for n in range(2_500)}
    result = slotq("ls")
    assert len(listed(result)) == 1_000
    assert "more jobs than these 1,000; `--limit 10000`" in result.stderr
    before = len(http.sent)
    assert len(listed(slotq("ls", "--limit", "2100"))) == 2_100
    queries = [parse_qs(urlsplit(sent.url).query) for sent in http.sent[before:]]
    assert [query["limit"] for query in queries] == [["1000"], ["1000"], ["100"]]
    assert all(query["state"] == queries[0]["state"] for query in queries)
    assert slotq("ls", "--limit", "5000").stderr == ""


def test_columns_can_be_chosen(slotq):
    lines = slotq("ls", "--columns", "name, project,submitter,attempts").output.splitlines()
    assert lines[0].split() == ["JOB", "PROJECT", "SUBMITTER", "ATTEMPTS"]
    assert lines[3].split() == [
        "job4",
        "vision",
        "arn:aws:sts::123456789012:assumed-role/lab/eve",
        "0",
    ]
    result = slotq("ls", "--columns", "name,colour")
    assert result.exit_code == ExitCode.USAGE
    assert "there is no column 'colour'; the columns are name, state" in result.stderr


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_can_be_shown_and_sorted_by(slotq, queue, name):
    assert len(slotq("ls", "--all", "--columns", name).output.splitlines()) == 6
    jobs = list(queue.jobs.values())
    assert sorted(job.name for job in in_order(jobs, f"-{name}")) == sorted(queue.jobs)


def heads(result):
    return result.stdout.splitlines()[0].split()


def test_the_user_is_shown_when_there_are_several(slotq, queue):
    assert heads(slotq("ls"))[:3] == ["JOB", "USER", "STATE"]
    rows = {line.split()[0]: line.split()[1] for line in slotq("ls").stdout.splitlines()[1:]}
    assert rows == {"job1": "ada", "job3": "ada", "job4": "eve", "job5": "ada"}
    assert heads(slotq("ls", "--submitter", "eve"))[:2] == ["JOB", "STATE"]
    assert heads(slotq("ls", "--columns", "name,state")) == ["JOB", "STATE"]


@pytest.mark.parametrize(
    ("arns", "short"),
    [
        (["arn:aws:iam::1:user/ada"], ["ada"]),
        (["arn:aws:iam::1:user/ada", "arn:aws:iam::1:root"], ["ada", "root"]),
        (
            ["arn:aws:sts::1:assumed-role/a/eve", "arn:aws:sts::1:assumed-role/b/eve"],
            ["a/eve", "b/eve"],
        ),
        (["arn:aws:iam::1:user/x", "arn:aws:iam::2:user/x"], ["1/user/x", "2/user/x"]),
        (["", "ada"], ["", "ada"]),
        ([], []),
    ],
)
def test_short_names_tell_users_apart(arns, short):
    assert [short_names(arns)[arn] for arn in arns] == short


NASTY = "AlgorithmError:\n  File 'a.py'\r\n\tline 3\x1b[2J\u2028" + "x" * 300


@pytest.fixture(params=[{}, {"FORCE_COLOR": "1", "TERM": "dumb"}, {"COLUMNS": "40"}])
def nasty(request, queue, monkeypatch):
    """Reply with messages of several lines, which rich would wrap at a terminal's width."""
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)
    queue.jobs["job9"] = queue.jobs["job9"].model_copy(update={"message": NASTY})
    reason = queue.jobs["job3"].reason.model_copy(update={"text": NASTY})
    queue.jobs["job4"] = queue.jobs["job4"].model_copy(update={"reason": reason})


@pytest.mark.usefixtures("nasty")
@pytest.mark.parametrize(
    ("line", "number", "long"),
    [
        ("ls --all", 1 + 5, 2),
        ("cancel --name * --dry-run", 1 + 4, 1),
        ("why job1 job3 job4 job5 job9", 5, 2),
    ],
)
def test_each_job_is_one_line_in_a_pipe(slotq, line, number, long):
    lines = slotq(*line.split()).stdout.splitlines()
    assert len(lines) == number, lines
    assert not any(bad in each for each in lines for bad in "\x1b\r\t")
    assert sum("x" * 300 in each for each in lines) == long


def test_watch_shows_each_change(slotq, queue, clock):
    def after_sleep():
        queue.jobs.pop("job5", None)
        if clock.now >= 6:
            raise KeyboardInterrupt

    clock.after_sleep = after_sleep
    result = slotq("ls", "--watch", "--every", "2", "--json")
    assert result.exit_code == ExitCode.INTERRUPTED
    seen = [
        [job["name"] for job in json.loads(line)["jobs"]] for line in result.output.splitlines()
    ]
    assert seen == [["job1", "job3", "job4", "job5"], ["job1", "job3", "job4"]]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "app", "coloured"),
    [
        ({}, App(), True),
        ({"NO_COLOR": "1"}, App(), False),
        ({"NO_COLOR": ""}, App(), False),
        ({}, App(color=False), False),
    ],
)
def test_colours_are_used_only_when_wanted(queue, monkeypatch, variables, app, coloured):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    app.console().print(queue_table(queue.jobs.values()))
    assert ("\x1b[32m" in terminal.getvalue()) is coloured
    assert ("\x1b" in terminal.getvalue()) is coloured


def test_mine_lists_the_jobs_of_the_person(slotq, queue):
    assert listed(slotq("ls", "--mine")) == ["job1", "job3", "job5"]
    queue.person = "arn:aws:sts::123456789012:assumed-role/lab/eve"
    assert listed(slotq("ls", "--mine")) == ["job4"]
    assert slotq("ls", "--mine", "--submitter", "eve").exit_code == ExitCode.USAGE


def test_classes_are_shown_where_there_are_several(slotq, queue):
    assert "CLASS" not in slotq("ls").output
    queue.jobs["shell"] = job_view("shell", workload="interactive")
    line = next(line for line in slotq("ls").output.splitlines() if line.startswith("shell"))
    assert "interactive" in line
    assert "interactive" in slotq("show", "shell").output


def test_a_log_gets_no_table_for_mere_progress(slotq, queue, clock):
    """Programs get each change, people a table now and then."""

    def walk(*options):
        step = 0

        def sleep(seconds):
            nonlocal step
            clock.sleep(seconds)
            step += 1
            if step > 100:
                raise KeyboardInterrupt
            progress = {"step": step, "of": 100, "at": MOMENT}
            job = queue.jobs["job1"].model_dump() | {"progress": progress}
            queue.jobs["job1"] = JobView.model_validate(job)

        return slotq("ls", "--watch", "--every", "10", *options, world={"sleep": sleep}).stdout

    assert 3 <= walk().count("PRIORITY") <= 5
    assert len(walk("--json").splitlines()) > 90
