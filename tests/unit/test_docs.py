"""The documentation's commands, settings and Python work."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

from slotq.cli.exits import MEANINGS
from slotq.cli.main import COMMANDS, cli
from slotq.configuration.settings import SETTINGS, load
from slotq.document import configuration_file
from slotq.document.schema import schema
from slotq.simulate import load as load_scenario
from slotq.simulate import simulate
from slotq.simulate.report import differences
from slotq.simulate.run.metrics import Figures, Metrics
from slotq.simulate.scenario.contents import SECTIONS
from slotq.simulate.scenario.sections import ChangeSpec, WhySpec
from slotq_core.lifecycle import BEGINNINGS, TRANSITIONS
from tests import scenario_pages
from tests.faults.campaign import MUTANTS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(slotq(?: [^`]*)?)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(language):
    return [
        pytest.param(text, id=f"{page.name}-{n}")
        for page in PAGES
        for n, (kind, text) in enumerate(BLOCK.findall(page.read_text()))
        if kind == language
    ]


def commands():
    """Every `slotq …` line of a shell block and every one within a sentence."""
    for page in PAGES:
        text = page.read_text()
        lines = [
            line for kind, body in BLOCK.findall(text) if kind == "sh" for line in body.splitlines()
        ]
        lines = [line for line in lines if re.match(r"(\w+=\S+ )*slotq\b", line)]
        for line in dict.fromkeys([*lines, *INLINE.findall(text)]):
            yield pytest.param(line, id=f"{page.name}: {line}")


@pytest.mark.parametrize("line", list(commands()))
def test_every_command_line_in_the_docs_is_valid(line):
    """A line in a sentence may leave arguments out, but not add unknown ones."""
    words = [w for w in shlex.split(line, comments=True) if not re.match(r"\w+=", w)]
    ends = [place for place, word in enumerate(words) if word in {"|", "<", ">"}]
    words = words[: ends[0]] if ends else words
    command: click.Command = cli
    context = click.Context(cli)
    words = [word.strip("[]…") for word in words[1:]]
    while isinstance(command, click.Group):
        words = skip_options(command, words)
        if not words:
            return
        name = words.pop(0)
        if name in {"COMMAND", "_…"}:
            return
        found = command.get_command(context, name)
        assert found is not None, f"there is no command '{name}'"
        command = found
    check_arguments(command, words)


def skip_options(command, words):
    """The words from the first that is not an option of the group."""
    known = {flag: option for option in command.params for flag in option.opts}
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in {"--help", "-h"}:
            return []
        assert option in known, f"there is no option {option}"
        if not known[option].is_flag:
            words.pop(0)
    return words


def check_arguments(command, words):
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    # The rest belongs to another program.
    own = words[: words.index("--")] if "--" in words else words
    for word in own:
        if word.startswith("--"):
            flag = word.partition("=")[0]
            assert flag in flags | {"--help"}, f"{command.name} has no option {flag}"
    if not {"--help", "-h"} & set(words):
        try:
            command.make_context(command.name, list(words), resilient_parsing=True)
        except click.UsageError as error:
            pytest.fail(str(error))


def test_every_command_is_in_the_readme_or_the_commands_pages():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("cli*.md"))]
    text = "".join(page.read_text() for page in pages)
    for name in COMMANDS:
        assert f"slotq {name}" in text


def test_the_exit_codes_in_the_docs_are_those_of_the_program():
    text = (ROOT / "docs" / "cli.md").read_text()
    for code, meaning in MEANINGS.items():
        assert f"| {int(code)} | {meaning} |" in text


def test_every_setting_is_in_the_docs():
    text = (ROOT / "docs" / "client.md").read_text()
    for setting in SETTINGS:
        assert f"`SLOTQ_{setting.upper()}`" in text


@pytest.mark.parametrize("text", blocks("toml"))
def test_config_files_in_the_docs_load(text, tmp_path):
    (tmp_path / "config.toml").write_text(text)
    assert load(environ={"SLOTQ_CONFIG": str(tmp_path / "config.toml")}).endpoint


@pytest.mark.parametrize("text", blocks("python"))
def test_python_in_the_docs_compiles(text):
    compile(text, "docs", "exec")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_scenarios_and_configurations_in_the_docs_hold(text, tmp_path):
    """What expects nothing is a queue's configuration."""
    (tmp_path / "file.yaml").write_text(text)
    if "expect:" not in text:
        assert configuration_file.load(tmp_path / "file.yaml").left_out == ()
        return
    scenario = load_scenario(tmp_path / "file.yaml")
    assert differences(scenario, simulate(scenario)) == []


@pytest.mark.parametrize("text", blocks("csv"))
def test_traces_in_the_docs_load(text, tmp_path):
    world = "pools: [{name: p, capacity: 4}]\nprojects: [{name: vision}, {name: nlp}]\n"
    (tmp_path / "world.yaml").write_text(world)
    (tmp_path / "jobs.csv").write_text(text)
    assert load_scenario(tmp_path / "world.yaml", tmp_path / "jobs.csv").jobs


@pytest.mark.parametrize("section", SECTIONS)
def test_the_docs_list_every_key_of_a_scenario_and_no_other(section):
    text = (ROOT / "docs" / "scenario-file.md").read_text()
    body = re.split(r"\n##", text.partition(f"\n## {section}\n")[2])[0]
    deeper = {"pools": ("Each of the `changes`", ChangeSpec), "expect": ("Of `why` only", WhySpec)}
    lead, inner = deeper.get(section, ("no such words", None))
    first, *nested = body.split(lead)
    assert re.findall(r"^\| `(\w+)` \|", first, re.MULTILINE) == list(SECTIONS[section].keys())
    assert len(nested) == (inner is not None)
    for part in nested:
        assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == list(inner.keys())


def test_the_schema_of_the_configuration_is_up_to_date():
    written = json.loads((ROOT / "docs" / "configuration.schema.json").read_text())
    assert written == schema(), "run `make schemas`"
    Draft202012Validator.check_schema(written)


@pytest.mark.parametrize(
    "text", [each for each in blocks("yaml") if "expect:" not in each.values[0]]
)
def test_the_schema_takes_the_configurations_in_the_docs(text):
    document = yaml.safe_load(text)
    Draft202012Validator(schema()).validate(document)
    assert not Draft202012Validator(schema()).is_valid({**document, "pool": []})


def test_every_figure_of_a_run_is_in_the_docs():
    text = (ROOT / "docs" / "simulate.md").read_text()
    for field in fields(Metrics):
        assert f"| `{field.name}` |" in text
    for field in fields(Figures):
        assert f"`{field.name}`" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    for page in (ROOT / "docs").iterdir():
        assert f"({page.name})" in index or page.name == "README.md" or page.suffix in {".png", ""}


def test_the_readme_opens_with_the_two_commands():
    opening = (ROOT / "README.md").read_text()[:1000]
    assert opening.index("make demo") < opening.index("make test")


PROTOCOL = (ROOT / "docs" / "protocol.md").read_text()


def test_the_diagram_of_the_states_is_the_lifecycle():
    (diagram,) = [body for kind, body in BLOCK.findall(PROTOCOL) if kind == "mermaid"]
    groups = {name: body.split() for name, body in re.findall(r"state (\w+) \{([^}]*)\}", diagram)}
    drawn = {
        (before, after)
        for left, right in re.findall(r"(\S+) --> (\w+)", diagram)
        for before in groups.get(left, [left])
        for after in groups.get(right, [right])
    }
    legal = {(before.value, after.value) for before in TRANSITIONS for after in TRANSITIONS[before]}
    assert drawn == legal | {("[*]", state.value) for state in BEGINNINGS}


def test_names_on_the_protocol_page_exist():
    files = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    assert set(re.findall(r"`(\w+\.py)`", PROTOCOL)) <= files
    rows = PROTOCOL.partition("## Why each promise holds")[2]
    last = [line.split("|")[4] for line in rows.splitlines() if re.match(r"\| \d", line)]
    assert len(last) == 10
    named = {name for cell in last for name in re.findall(r"`([^`]+)`", cell)}
    assert {name for name in named if not name.endswith(".py")} <= {each.name for each in MUTANTS}


def test_metrics_of_the_bad_days_page_exist():
    handler = (ROOT / "functions" / "queue_manager" / "app.py").read_text()
    days = (ROOT / "docs" / "bad-days.md").read_text()
    named = {
        word
        for part in re.findall(r"metrics? ((?:`\w+`(?:, )?)+)", days)
        for word in re.findall(r"\w+", part)
    }
    assert named == set(re.findall(r'count\("(\w+)"', handler)) - {"PoolsRefused"}


def test_the_index_of_scenarios_is_up_to_date():
    """If this fails, run make scenarios."""
    assert (ROOT / "docs" / "scenarios.md").read_text() == scenario_pages.page()


def test_every_scenario_is_in_a_folder_of_the_index():
    there = set((ROOT / "tests" / "scenarios").rglob("*.yaml"))
    folders = scenario_pages.SUBJECTS
    assert there == {path for path in there if path.parent.name in folders}


def test_scenarios_and_tests_named_in_the_decisions_exist():
    text = (ROOT / "docs" / "policy-decisions.md").read_text()
    there = {path.stem for path in (ROOT / "tests" / "scenarios").rglob("*.yaml")}
    bracketed = re.findall(r"\(((?:`\w+`(?:,\s+)?)+)\)", text)
    named = {name for part in bracketed for name in re.findall(r"\w+", part)}
    assert named and named <= there
    tests = {path.name for path in (ROOT / "tests").rglob("*.py")}
    assert set(re.findall(r"`(test_\w+\.py)`", text)) <= tests
