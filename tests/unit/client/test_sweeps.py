"""Sweeps from the client: `slotq sweep`, `show`, `retry`, `submit --array`, and `queue.sweeps`
with its rounds."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import slotq as package
from slotq.cli.exits import ExitCode
from slotq.cli.verbs.sweep import indexed
from slotq.errors import InvalidRequest, NameTaken, NotAllowed
from slotq.jobs.job_calls import JobCalls
from slotq.session.installed_sdk import sdk_version
from slotq.sweeps.definition import define
from slotq_core.wire.views.jobs import ProgressView
from tests.least_request import least_request
from tests.unit.client.fake_queue import client_of, job_view

DOCS = Path(__file__).parents[3] / "docs"
TEMPLATE = {key: it for key, it in least_request("x").items() if key != "TrainingJobName"}
SPACE = {"lr": [0.1, 0.2], "opt": ["adam", "sgd"]}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**changes):
        said = {
            "name": "grid",
            "max_parallel": 2,
            "template": TEMPLATE,
            "space": SPACE,
            "objective": "loss",
            **changes,
        }
        said = {key: it for key, it in said.items() if it is not None}
        (tmp_path / "sweep.yaml").write_text(json.dumps(said))
        return "sweep.yaml"

    return write


def ends(queue, name, state="completed", **metrics):
    old = queue.jobs.get(name)
    group = old.group if old else "grid"
    queue.jobs[name] = job_view(name, state, group=group, metrics=metrics)


def test_a_file_becomes_a_sweep(slotq, queue, file):
    result = slotq("sweep", file())
    assert result.exit_code == ExitCode.OK, result.output
    assert "loss, the smallest is best" in result.output
    assert queue.groups["grid"] == (["grid-1", "grid-2", "grid-3", "grid-4"], 2)
    assert queue.requests["grid-3"]["HyperParameters"] == {"lr": "0.2", "opt": "adam"}
    again = slotq("sweep", file())
    assert again.exit_code == ExitCode.OK
    assert len(queue.requests) == 4 + len(set(queue.requests) - set(queue.groups["grid"][0]))


def test_the_table_marks_the_best_and_sorts(slotq, queue, file):
    slotq("sweep", file())
    ends(queue, "grid-1", loss=0.5)
    ends(queue, "grid-2", "failed", loss=0.01)
    ends(queue, "grid-3", loss=0.25)
    lines = slotq("show", "grid").output.splitlines()
    table = lines[lines.index("") + 1 :]
    assert [line.split() for line in table] == [
        ["NAME", "STATE", "lr", "opt", "loss"],
        ["grid-1", "completed", "0.1", "adam", "0.5"],
        ["grid-2", "failed", "0.1", "sgd", "0.01"],
        ["*", "grid-3", "completed", "0.2", "adam", "0.25"],
        ["grid-4", "pending", "0.2", "sgd"],
    ]
    assert "0.25  grid-3  lr=0.2, opt=adam" in slotq("show", "grid").output
    told = json.loads(slotq("show", "grid", "--sort", "-lr", "--json").output)
    assert [trial["name"] for trial in told["sweep"]["trials"]] == [
        "grid-3",
        "grid-4",
        "grid-1",
        "grid-2",
    ]
    assert [trial["best"] for trial in told["sweep"]["trials"]] == [True, False, False, False]
    best = json.loads(slotq("show", "grid", "--sort", "objective", "--json").output)
    names = [trial["name"] for trial in best["sweep"]["trials"]]
    assert names == ["grid-3", "grid-1", "grid-2", "grid-4"], "a failed trial is none of the best"
    refused = slotq("show", "grid", "--sort", "size")
    assert "sort takes one of lr, name, objective, opt, state" in refused.output
    assert slotq("show", "job1", "--sort", "lr").exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"space": None}, "sweep.yaml has no space"),
        ({"more": 1}, "sweep.yaml has more"),
        ({"template": "x"}, "must be a CreateTrainingJob request"),
        ({"max_parallel": 0}, "max_parallel takes a whole number from 1"),
        ({"objective": {"goal": 1}}, "objective takes a metric's name"),
        ({"objective": {"metric": "loss", "gaol": 1}}, "objective has no gaol"),
        ({"objective": {"metric": "loss", "goal": "x"}}, "goal is a number"),
        ({"objective": {"metric": "loss", "goal": True}}, "goal is a number"),
        ({"objective": {"metric": "loss", "goal": 10**400}}, "goal is a number"),
        ({"objective": ""}, "objective takes a metric's name"),
        ({"halving": {"rungs": [1, 2]}}, "halving takes a parameter"),
        ({"halving": {"parameter": "e", "rungs": [1, [2]]}}, "each rung is a value"),
        ({"halving": {"parameter": "lr", "rungs": [1, 2]}}, "lr is in the space"),
        ({"halving": {"parameter": "e", "rungs": [1]}}, "at least two"),
        ({"halving": {"parameter": "e", "rungs": [1, 2], "keep": 1}}, "keep, from 2"),
        (
            {"halving": {"parameter": "e", "rungs": [1, 2]}, "objective": None},
            "halving needs an objective",
        ),
        (
            {
                "halving": {"parameter": "e", "rungs": [1, 2]},
                "objective": {"metric": "loss", "goal": 1},
            },
            "a halving has no goal",
        ),
        ({"name": 7}, "name takes a text"),
    ],
)
def test_a_file_that_is_no_sweep_is_refused(slotq, queue, file, changes, words):
    result = slotq("sweep", file(**changes))
    assert result.exit_code != ExitCode.OK
    assert (words in result.output, queue.groups) == (True, {}), result.output


def test_a_dry_run_submits_nothing(slotq, queue, file):
    shown = json.loads(slotq("sweep", file(), "--dry-run").stdout)
    assert [each["TrainingJobName"] for each in shown] == ["grid-1", "grid-2", "grid-3", "grid-4"]
    assert queue.groups == {}


def test_a_retry_of_a_sweep_retries_what_stands_failed(slotq, queue, file):
    slotq("sweep", file())
    ends(queue, "grid-1", "failed")
    ends(queue, "grid-2", "failed")
    ends(queue, "grid-2-r2", "completed")
    ends(queue, "grid-3", "cancelled")
    result = slotq("retry", "grid")
    assert result.exit_code == ExitCode.OK, result.output
    assert {"grid-1-r2", "grid-3-r2"} <= set(queue.jobs)
    assert "grid-2-r3" not in queue.jobs
    refused = slotq("retry", "grid")
    assert queue.jobs["grid-3-r2"].group == "grid"
    assert (refused.exit_code, "no job of grid has failed" in refused.output) != (
        ExitCode.OK,
        False,
    )


@pytest.mark.parametrize("named", ["grid", "grid-1"])
def test_the_retry_of_one_trial_takes_its_place(slotq, queue, file, named):
    slotq("sweep", file())
    ends(queue, "grid-1", "failed")
    assert slotq("retry", named).exit_code == ExitCode.OK
    assert queue.jobs["grid-1-r2"].group == "grid"


def test_the_retry_of_one_trial_waits_for_the_next_minute(http, queue, file, slotq):
    slotq("sweep", file())
    ends(queue, "grid-1", "failed")
    queue.room = 0
    clock = SimpleNamespace(sleep=lambda _: setattr(queue, "room", 60))
    assert client_of(http, clock=clock).jobs.retry("grid-1").group == "grid"
    assert queue.room == 59


def test_one_who_may_not_change_jobs_in_bulk_retries_a_trial_as_a_job(
    http, queue, file, slotq, monkeypatch
):
    slotq("sweep", file())
    ends(queue, "grid-1", "failed")

    def refused(*_):
        raise NotAllowed("no PATCH /jobs for you")

    client = client_of(http)
    monkeypatch.setattr(JobCalls, "change", refused)
    assert client.jobs.retry("grid-1").name == "grid-1-r2"
    assert queue.jobs["grid-1-r2"].group == ""


def test_waiting_for_a_sweep_that_fails_says_so(slotq, queue, file):
    slotq("sweep", file())
    for name, state in (("grid-1", "failed"), ("grid-2", "completed")):
        ends(queue, name, state)
    for name in ("grid-3", "grid-4"):
        ends(queue, name, "completed")
    assert slotq("sweep", file(), "--wait").exit_code == ExitCode.NO
    ends(queue, "grid-1-r2", "completed")
    assert slotq("sweep", file(), "--wait").exit_code == ExitCode.OK


def test_an_array_is_a_group(slotq, queue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text(
        json.dumps(least_request("cv", Environment={"I": "{index}"}))
    )
    result = slotq("submit", "job.json", "--array", "0-6:3%2", "--priority", "7")
    assert result.exit_code == ExitCode.OK, result.output
    assert queue.groups["cv"] == (["cv-0", "cv-3", "cv-6"], 2)
    assert queue.requests["cv-3"]["Environment"]["I"] == "3"
    assert queue.requests["cv-3"]["Environment"]["SLOTQ_ARRAY_TASK_ID"] == "3"
    assert queue.requests["cv-3"]["Tags"] == [{"Key": "priority", "Value": "7"}]
    again = slotq("submit", "job.json", "--array", "1,2", "--dry-run")
    assert again.exit_code == ExitCode.NO, "it says what the same without --dry-run would"
    shown = slotq("submit", "job.json", "--name", "new", "--array", "1,2", "--dry-run").stdout
    assert [each["TrainingJobName"] for each in json.loads(shown)] == ["new-1", "new-2"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--array", "3-1"], "3-1 ends before it begins"),
        (["--array", "1-3", "--wait"], "--wait is for one job"),
        (["--array", "1-3", "--again"], "--again is for one job"),
    ],
)
def test_an_array_that_is_none_is_refused(slotq, queue, tmp_path, options, words):
    (tmp_path / "job.json").write_text(json.dumps(least_request("cv")))
    result = slotq("submit", str(tmp_path / "job.json"), *options)
    assert result.exit_code != ExitCode.OK
    assert words in result.output
    assert queue.groups == {}


class Runs:
    """Ends the jobs of the last group at each pause: the loss is that of the trial's number."""

    def __init__(self, queue, most=9):
        self.queue, self.most, self.said = queue, most, []

    def sleep(self, _):
        if not self.most:
            raise KeyboardInterrupt
        self.most -= 1
        for group, (names, _) in self.queue.groups.items():
            for name in names:
                if self.queue.jobs[name].state == "pending":
                    ends(self.queue, name, loss=abs(3 - int(name.rpartition("-")[2])))
                    self.queue.jobs[name] = self.queue.jobs[name].model_copy(
                        update={"group": group}
                    )

    def wait(self, sweep):
        return sweep.wait(say=self.said.append, sleep=self.sleep, clock=lambda: 0.0)


HALVING = {"parameter": "epochs", "rungs": [1, 3, 9], "keep": 3}


def halved(http, **more):
    template = {**TEMPLATE, "CheckpointConfig": {"S3Uri": "s3://bucket/c"}}
    return client_of(http).sweeps.submit(
        "h",
        template,
        {"lr": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]},
        max_parallel=4,
        objective="loss",
        halving=HALVING,
        **more,
    )


def test_halving_goes_on_with_the_best_from_their_checkpoints(http, queue):
    runs = Runs(queue)
    sweep = runs.wait(halved(http))
    assert {name: names for name, (names, _) in queue.groups.items()} == {
        "h": [f"h-{number}" for number in range(1, 8)],
        "h-round-2": ["h-round-2-2", "h-round-2-3", "h-round-2-4"],
        "h-round-3": ["h-round-3-3"],
    }
    last = queue.requests["h-round-3-3"]
    assert last["HyperParameters"] == {"lr": "0.3", "epochs": "9"}
    assert last["CheckpointConfig"] == {"S3Uri": "s3://bucket/c/h-3"}
    assert queue.requests["h-3"]["CheckpointConfig"] == last["CheckpointConfig"]
    best = sweep.best()
    assert (best.name, best.parameters) == ("h-round-3-3", {"lr": 0.3, "epochs": 9})
    names = [trial.name for trial in sweep.results()]
    assert names == ["h-1", "h-round-2-2", "h-round-3-3", "h-round-2-4", "h-5", "h-6", "h-7"]
    assert runs.said[-1] == ("h (h-round-3): 7 completed; best 0 (h-round-3-3)")


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_halving_goes_on_where_another_process_was_killed(http, queue, looks):
    with pytest.raises(KeyboardInterrupt):
        Runs(queue, looks).wait(halved(http))
    Runs(queue).wait(halved(http))
    whole = dict(queue.groups)
    assert [*whole] == ["h", "h-round-2", "h-round-3"]
    assert Runs(queue).wait(halved(http)).best().name == "h-round-3-3"
    assert queue.groups == whole


def test_a_function_proposes_rounds_until_it_is_done(http, queue):
    asked = []

    def propose(trials):
        asked.append([(trial.name, trial.objective) for trial in trials])
        return [{"lr": 0.1}, {"lr": 0.2}] if len(asked) < 3 else None

    sweep = client_of(http).sweeps.submit("f", TEMPLATE, propose, max_parallel=2, objective="loss")
    Runs(queue).wait(sweep)
    assert asked[:2] == [[], [("f-0001", 2.0), ("f-0002", 1.0)]]
    assert queue.groups["f-round-2"][0] == ["f-round-2-0003", "f-round-2-0004"]
    assert sweep.best().name == "f-round-2-0003"


def test_a_sweep_is_found_again_without_its_request(http, queue):
    client = client_of(http)
    client.sweeps.submit("grid", TEMPLATE, SPACE, max_parallel=2, objective="loss")
    ends(queue, "grid-2", loss=1)
    found = client.sweeps.get("grid")
    assert found.best().parameters == {"lr": 0.1, "opt": "sgd"}
    assert found.states == {"pending": 3, "completed": 1}
    other = {**TEMPLATE, "HyperParameters": {"other": "request"}}
    sent = dict(queue.requests)
    client.sweeps.submit("grid", other, SPACE, max_parallel=2, objective="loss")
    assert queue.requests == sent, "the same parameters under the same name are the same sweep"
    client.groups.submit("plain", [least_request("p")], max_parallel=1)
    with pytest.raises(InvalidRequest, match="without saying what its members try"):
        client.sweeps.get("plain")


def test_a_sweep_may_name_its_trials_otherwise(http, queue):
    """As a program does that sends members and says what they try."""
    names = ["a-1", "b-1", "small"]
    members = map(least_request, names)
    client_of(http).groups.submit("own", members, max_parallel=1, sweep={"metric": "loss"})
    assert [trial.name for trial in client_of(http).sweeps.get("own").results()] == names


def test_a_group_of_a_rounds_name_that_is_no_sweep_is_no_round(slotq, http, queue, file):
    client_of(http).groups.submit_gang("grid-round-2", [least_request("x"), least_request("y")])
    shown = slotq("sweep", file())
    assert shown.exit_code == ExitCode.OK, shown.output
    again = slotq("sweep", file())
    assert again.exit_code == ExitCode.OK, again.output
    assert [trial.name for trial in client_of(http).sweeps.get("grid").results()][3:] == ["grid-4"]


@pytest.mark.parametrize(
    ("more", "again"),
    [
        ({}, False),
        ({"objective": {"metric": "loss", "goal": 0.2}}, True),
        ({"objective": "accuracy"}, True),
        ({"space": {"lr": [0.1, 0.3]}}, True),
        ({"max_parallel": 2}, True),
    ],
)
def test_only_the_same_sweep_is_found_again(http, queue, more, again):
    """What differs is submitted, and the queue says that the name is taken."""
    said = {"space": {"lr": [0.1, 0.2]}, "max_parallel": 1, "objective": "loss"}
    client_of(http).sweeps.submit("s", TEMPLATE, **said)
    with suppress(NameTaken):
        client_of(http).sweeps.submit("s", TEMPLATE, **(said | more))
    submitted = [each for each in http.sent if each.method == "POST"]
    assert len(submitted) == 1 + again


def test_a_sweep_is_cancelled_and_retried_whole(http, queue):
    sweep = client_of(http).sweeps.submit("grid", TEMPLATE, SPACE, max_parallel=2)
    ends(queue, "grid-1", "failed")
    assert [out.job.name for out in sweep.refresh().retry()] == ["grid-1-r2"]
    sweep.refresh().cancel()
    assert {queue.jobs[name].state for name in ("grid-1-r2", "grid-2", "grid-4")} == {"cancelled"}


def test_a_sweep_prints_its_trials(http, queue):
    sweep = client_of(http).sweeps.submit("grid", TEMPLATE, SPACE, max_parallel=2, objective="loss")
    ends(queue, "grid-1", loss=0.5)
    sweep.refresh()
    assert repr(sweep).startswith("<sweep grid: ")
    line, head, first, *rest = str(sweep).splitlines()
    assert line.startswith("grid: ")
    assert head.split() == ["Trial", "State", "lr", "opt", "loss"]
    assert first.split() == ["grid-1", "completed", "0.1", "adam", "0.5"]
    assert len(rest) == 3
    assert "<td>grid-2</td>" in sweep._repr_mimebundle_()["text/html"]


LOGARITHMIC = {"scaling_type": "Logarithmic"}
REVERSE = {"scaling_type": "ReverseLogarithmic"}
RANGES = [
    ("ContinuousParameter", (0.1, 0.9), {}, package.uniform(0.1, 0.9)),
    ("ContinuousParameter", (1, 2), {"scaling_type": "Linear"}, package.uniform(1.0, 2.0)),
    ("ContinuousParameter", (1e-5, 0.1), LOGARITHMIC, package.log_uniform(1e-5, 0.1)),
    ("ContinuousParameter", (0.9, 0.999), REVERSE, package.reverse_log_uniform(0.9, 0.999)),
    ("IntegerParameter", (1, 8), {}, package.integer(1, 8)),
    ("IntegerParameter", (16, 512), LOGARITHMIC, package.log_integer(16, 512)),
    ("CategoricalParameter", (["adam", "sgd"],), {}, package.choice("adam", "sgd")),
    ("CategoricalParameter", ([16, 32],), {}, package.choice("16", "32")),
]


@pytest.fixture
def ranges():
    """The module of the installed SDK with the ranges of its tuner."""
    pytest.importorskip("sagemaker", reason="no SageMaker SDK is installed")
    return import_module(
        "sagemaker.parameter" if sdk_version() == 2 else "sagemaker.core.parameter"
    )


@pytest.mark.parametrize("case", RANGES)
def test_a_range_of_the_sdks_tuner_is_a_sampler(http, queue, ranges, case):
    kind, bounds, more, sampler = case
    own = type("Own", (getattr(ranges, kind),), {})  # A user's own subclass says the same.
    drawn = []
    for name, range_ in (
        ("theirs", getattr(ranges, kind)(*bounds, **more)),
        ("own", own(*bounds, **more)),
        ("ours", sampler),
    ):
        sweeps = client_of(http).sweeps
        sweeps.submit(name, TEMPLATE, {"lr": range_}, max_parallel=2, trials=9, seed=4)
        drawn.append([queue.requests[f"{name}-{n}"]["HyperParameters"] for n in range(1, 10)])
    assert drawn[0] == drawn[1] == drawn[2]


@pytest.mark.parametrize(
    "case",
    [
        ("IntegerParameter", (1, 8), REVERSE, "scaling types Auto, Linear, Logarithmic, not 'Rev"),
        ("ContinuousParameter", (0, 1), LOGARITHMIC, "log_uniform takes two numbers above 0"),
        ("ContinuousParameter", (0.5, 1), REVERSE, "two numbers from 0 to below 1"),
        ("ContinuousParameter", (object(), 1), {}, "a pipeline variable has no value yet"),
        ("IntegerParameter", (1.5, 8), {}, "the bounds of IntegerParameter are numbers"),
    ],
)
def test_a_range_that_cannot_be_drawn_from(http, ranges, case):
    kind, bounds, more, said = case
    range_ = getattr(ranges, kind)(*bounds, **more)
    with pytest.raises(InvalidRequest, match=said) as refused:
        client_of(http).sweeps.submit("grid", TEMPLATE, {"lr": range_}, max_parallel=2, trials=2)
    assert refused.value.field == "space.lr"


def test_ranges_and_lists_are_not_mixed(http, ranges):
    space = {"lr": ranges.ContinuousParameter(0, 1), "batch": [8, 16]}
    with pytest.raises(InvalidRequest, match=r"space\.batch is a list beside samplers"):
        client_of(http).sweeps.submit("grid", TEMPLATE, space, max_parallel=2, trials=2)


def test_waiting_ends_with_its_timeout(http, queue):
    sweep = client_of(http).sweeps.submit("grid", TEMPLATE, SPACE, max_parallel=2)
    ticks = iter(range(100))
    with pytest.raises(TimeoutError, match="sweep grid has not ended within 3 s"):
        sweep.wait(3, say=lambda _: None, sleep=lambda _: None, clock=lambda: next(ticks))


def test_the_words_of_a_sweep_are_slotqs(http):
    assert package.Sweep.__module__ == "slotq.sweeps.sweep"
    assert package.choice(1, 2).values == (1, 2)


def blocks(page, language):
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_guide_to_sweeps_works(slotq, http, queue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, table, halving = blocks("sweeps.md", "none")
    (commands,) = blocks("sweeps.md", "sh")
    (tmp_path / "sweep.yaml").write_text(file)
    submit, show = (shlex.split(line)[1:] for line in commands.splitlines())
    assert slotq(*submit[:-1]).exit_code == ExitCode.OK
    names = queue.groups["grid"][0]
    for name in names:
        ends(queue, name, "failed")
    ends(queue, "grid-4", loss=0.21)
    ends(queue, "grid-3", loss=0.25)
    ends(queue, "grid-1", "running")
    report = ProgressView(step=1, metrics={"loss": 0.8})
    queue.jobs["grid-1"] = queue.jobs["grid-1"].model_copy(update={"progress": report})
    shown = [line.split() for line in slotq(*show).output.splitlines()]
    for line in table.splitlines():
        assert line.split() in shown
    ends(queue, "grid-1", loss=0.8)
    code, _ = blocks("sweeps.md", "python")  # test_session.py runs the other.
    client = client_of(http)

    def sweep(_, space, **given):
        request = queue.requests["grid-1"]
        return client.sweeps.submit(given.pop("name"), request, space, **given)

    exec(code, {"session": SimpleNamespace(sweep=sweep), "estimator": None})
    again = slotq("sweep", "sweep.yaml", "--wait")
    assert "grid: 3 completed, 3 failed; best 0.21 (grid-4)" in again.output
    (tmp_path / "halved.yaml").write_text(file.replace("name: grid\n", "name: h\n") + halving)
    assert slotq("sweep", "halved.yaml").exit_code == ExitCode.OK
    assert queue.requests["h-1"]["HyperParameters"]["epochs"] == "1"


@pytest.mark.parametrize(
    ("command", "prints"),
    [
        (["printf", "%s|", "a{index}b", "{index}", "it's", ""], "a7b|7|it's||"),
        (["printf", "%s|", "$HOME {index}"], "$HOME 7|"),
        (["printf", "no index"], "no index"),
    ],
)
def test_the_command_of_an_array_has_the_jobs_own_index(command, prints):
    run = subprocess.run(
        indexed(command),
        env={**os.environ, "SLOTQ_ARRAY_TASK_ID": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == prints


def test_the_guide_to_arrays_works(slotq, queue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text(json.dumps(least_request("cv")))
    (commands,) = blocks("arrays.md", "sh")
    submit, command, *rest = (shlex.split(line)[1:] for line in commands.splitlines())
    assert slotq(*submit).exit_code == ExitCode.OK
    assert (len(queue.groups["cv"][0]), queue.groups["cv"][1]) == (500, 20)
    options = ["--image", "i", "--role", "arn:aws:iam::123456789012:role/r", "--output", "s3://b/o"]
    options += ["--instance-type", "ml.p5.48xlarge", "--dry-run"]
    place = command.index("--")
    made = json.loads(slotq(*command[:place], *options, *command[place:]).stdout)
    assert [each["TrainingJobName"] for each in made] == [f"folds-{n}" for n in range(5)]
    assert {each["CheckpointConfig"]["S3Uri"][-8:] for each in made} >= {"/folds-0", "/folds-4"}
    for line in rest:
        assert slotq(*(word.replace("folds", "cv") for word in line)).exit_code == ExitCode.OK


@pytest.mark.parametrize("space", [{"lr": [1, 2]}, [{"lr": 1}], lambda _: []])
@pytest.mark.parametrize("given", [{"seed": 4}, {"first": 2}])
def test_what_only_a_sampler_reads_is_refused_elsewhere(space, given):
    with pytest.raises(InvalidRequest, match=next(iter(given))):
        define(name="grid", template={}, space=space, max_parallel=1, **given)


def test_a_templates_name_is_said_to_have_no_effect(slotq, tmp_path):
    file = tmp_path / "sweep.json"
    sweep = {
        "name": "grid",
        "max_parallel": 1,
        "template": least_request("x"),
        "space": {"lr": [1]},
    }
    file.write_text(json.dumps(sweep))
    done = slotq("sweep", str(file), "--dry-run")
    assert "warning: TrainingJobName of the template has no effect" in done.stderr
    assert json.loads(done.stdout)[0]["TrainingJobName"] == "grid-1"
