"""docs/cli-output.schema.json describes what the commands print with --json."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from jsonschema import Draft202012Validator

from slotq.cli.main import COMMANDS, cli
from slotq.cli.schemas import OUTPUTS, document
from slotq_core.wire.document.contents import read
from tests.least_request import least_request
from tests.unit.client.fake_aws import FakeLogs, FakeServices
from tests.unit.client.fake_queue import attempt, ended, pool_view
from tests.unit.client.test_cli import drift

ROOT = Path(__file__).parents[3]
SCHEMA = document()
REQUEST = least_request("new", Tags=[{"Key": "priority", "Value": "3"}])
CONFIGURATION = "pools: [{name: p5, capacity: 5, instance_type: ml.p5.48xlarge}]\n"
SCENARIO = """
pools: [{name: p5, capacity: 1}]
jobs:
  - {name: a, submit_at: 0, runtime: 10, priority: 1}
  - {name: b, submit_at: 5, runtime: 10, priority: 2}
expect: [{at: end, states: {a: completed, b: failed}}]
"""


def validator(name):
    return Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"})


def with_json():
    """Each command with --json, as a list of words."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        subcommands = command.commands if isinstance(command, click.Group) else {}
        for sub, each in {"": command, **subcommands}.items():
            if any("--json" in option.opts for option in each.params):
                yield f"{name} {sub}".strip()


def test_the_file_is_up_to_date():
    written = json.loads((ROOT / "docs" / "cli-output.schema.json").read_text())
    assert written == json.loads(json.dumps(SCHEMA)), "run `make schemas`"


def test_the_file_is_a_valid_schema():
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_has_every_command_with_json():
    assert set(with_json()) == set(OUTPUTS)


def named_in(line):
    """The command of a line, with its subcommand."""
    words = line.split()
    return max((name for name in OUTPUTS if words[: name.count(" ") + 1] == name.split()), key=len)


NOTIFYING = {
    "pools": [{"name": "p5", "capacity": 4, "instance_type": "ml.p5.48xlarge"}],
    "notifications": [
        {"name": "ops", "for": "all", "to": {"sns": "arn:aws:sns:us-east-1:123456789012:jobs"}}
    ],
}
LINES = [
    "submit -",
    "submit - --dry-run",
    "sweep sweep.yaml",
    "gang gang.yaml",
    "ls --all",
    "groups",
    "show grid",
    "show job1",
    "show job1 job3",
    "why job3",
    "why grid",
    "logs job1",
    "watch job9",
    "graph",
    "cancel job3",
    "hold job3 job1",
    "release job3",
    "priority 3 job3",
    "move p4 job3",
    "transfer speech job3",
    "clone job9 copy",
    "clone --group grid other",
    "retry job9",
    "requeue job1",
    "history job1",
    "history grid",
    "pools",
    "pools list",
    "pools show p5",
    "pools set p5 --slots 6",
    "pools resize p5 +1",
    "pools drain p5",
    "pools pause p5",
    "pools resume p5",
    "pools remove p4",
    "pools history",
    "nodes --pool p5",
    "reserve a 1 2099-12-01T20:00Z 2099-12-01T21:00Z --pool p5",
    "reservations",
    "reservations list",
    "reservations cancel a --pool p4",
    "projects",
    "projects list",
    "projects show nlp",
    "projects set nlp quota=1",
    "projects remove nlp",
    "quota",
    "quota set ann HIGH p5 1 --enforce",
    "config export",
    "config diff queue.yaml",
    "config apply queue.yaml",
    "config history",
    "notify test ops --dry-run",
    "limits",
    "limits set --waiting 6",
    "limits rule */ci --together",
    "timeline --since 7d",
    "usage --by project,submitter,pool,class",
    "configure --priority 3",
    "configure --list",
    "whoami",
    "doctor",
    "doctor --client",
    "version",
    "cost",
    "whatif --pool p5=4",
    "whatif --pool p5=4 --diff",
]


@pytest.mark.parametrize("line", LINES)
def test_the_output_of_a_command_fits_the_schema(slotq, queue, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = {"name": "more", "max_parallel": 1, "members": [REQUEST]}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    gang = {"name": "ring", "members": [REQUEST | {"TrainingJobName": "ring-1"}]}
    (tmp_path / "gang.yaml").write_text(json.dumps(gang))
    queue.groups["grid"] = ["job1"], 1
    queue.requests["job1"] = REQUEST | {"TrainingJobName": "job1"}
    if line.startswith("notify"):
        queue.configuration.settings = read(NOTIFYING)
    (tmp_path / "queue.yaml").write_text(CONFIGURATION)
    queue.requests["job9"] = REQUEST | {"TrainingJobName": "job9"}
    queue.jobs["job9"] = ended("failed", name="job9", attempts=[attempt(1, outcome="failed")])
    reserved = {"project": "a", "slots": 1, "begins": 0, "ends": 60}
    queue.pools = [pool_view("p5"), pool_view("p4", used=0, reservations=[reserved])]
    slotq("pools", "resize", "p5", "5")
    queue.drift = [drift("orphan", "stray")]
    world = {"aws": FakeServices(FakeLogs({"job1": ["one", "two"]}))}
    result = slotq(*line.split(), "--json", input=json.dumps(REQUEST), world=world)
    assert result.stdout, result.stderr
    streams = line.split()[0] in {"logs", "watch"}
    texts = result.stdout.splitlines() if streams else [result.stdout]
    for text in texts:
        validator(f"slotq {named_in(line)}").validate(json.loads(text))


def test_the_output_of_a_simulation_fits_the_schema(slotq, tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    result = slotq("simulate", str(tmp_path / "scenario.yaml"), "--check", "--json")
    said = json.loads(result.stdout)
    validator("slotq simulate").validate(said)
    assert said["differences"]


def test_every_command_of_the_schema_is_tried():
    # `local env` needs an emulator and `backup` a table; tests/functional runs them, and
    # test_cli_deploy.py `deploy`.
    elsewhere = {"simulate", "local env", "backup save", "backup load", "deploy"}
    tried = {named_in(line) for line in LINES} | elsewhere
    assert tried == set(OUTPUTS)


@pytest.mark.parametrize("words", [("show", "nobody"), ("cancel", "job9"), ("hold", "x", "y")])
def test_errors_fit_the_schema(slotq, words):
    result = slotq(*words, "--json")
    for line in result.stderr.splitlines():
        validator("ErrorView").validate(json.loads(line))


def test_wrong_output_does_not_fit_the_schema():
    assert not validator("slotq version").is_valid({"slotq": 1})
    assert not validator("slotq ls").is_valid({"version": 1})
