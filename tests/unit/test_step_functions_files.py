"""The files of docs/step-functions: what AWS would make of them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
import yaml
from statelint.linter import Linter

from slotq_core.notices import job_answers
from slotq_core.operations.callbacks.answering import MOST_A_TICK
from tests import cloudformation
from tests.e2e.pages.blocks import blocks
from tests.functional.state_machines import EXAMPLES, VALUES, definition

PAGE = [*blocks("docs/step-functions.md")]
TEMPLATES = {"training": "template.yaml", "private": "private.yaml"}
"""The template that deploys each state machine."""


def template(name: str) -> dict[str, Any]:
    text = (EXAMPLES / TEMPLATES[name]).read_text()
    return dict(yaml.load(text, cloudformation.Loader))


def task(name: str, **changes: Any) -> dict[str, Any]:
    return dict(json.loads(definition(name, **changes))["States"]["Train"])


@pytest.mark.parametrize("name", TEMPLATES)
def test_statelint_finds_nothing(name):
    assert Linter.validate(json.loads(definition(name))) == []


def test_statelint_would_find_a_state_that_is_not_there():
    assert Linter.validate(json.loads(definition("training", Next="Nowhere")))


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_template_fills_in_each_value_and_no_other(name):
    used = re.findall(r"\$\{(\w+)\}", (EXAMPLES / f"{name}.asl.json").read_text())
    machine = template(name)["Resources"]["Training"]["Properties"]
    assert machine["DefinitionUri"] == f"{name}.asl.json"
    assert set(machine["DefinitionSubstitutions"]) == {*used} <= {*VALUES}
    assert machine["Type"] == "STANDARD"


def test_the_private_one_differs_only_in_the_way_to_the_queue():
    machines = [json.loads(definition(name)) for name in TEMPLATES]
    tasks = [machine["States"].pop("Train") for machine in machines]
    bodies = [tasks[0]["Parameters"].pop("RequestBody"), tasks[1]["Parameters"].pop("Payload")]
    for one in tasks:
        del one["Resource"], one["Parameters"]
        retried = one["Retry"][0].pop("ErrorEquals")
        assert "States.HeartbeatTimeout" in retried
    assert machines[0] == machines[1]
    assert tasks[0] == tasks[1]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("name", TEMPLATES)
def test_heartbeats_come_in_time_for_as_many_jobs_as_the_page_says(name):
    one = task(name)
    tick = cloudformation.template()["Resources"]["QueueManager"]["Properties"]["Events"]["Tick"]
    assert tick["Properties"]["Schedule"] == "rate(1 minute)"
    text = " ".join((EXAMPLES.parent / "step-functions.md").read_text().split())
    by_turns, seconds, jobs, least = re.search(
        r"shows life to (\S+) jobs, by turns. So (\d+) seconds are enough for (\S+) jobs that "
        r"state machines wait for. Never give less than (\d+)",
        text,
    ).groups()
    assert by_turns == f"{MOST_A_TICK:,}"
    assert one["HeartbeatSeconds"] == int(seconds) < one["TimeoutSeconds"]
    rounds = math.ceil(int(jobs.replace(",", "")) / MOST_A_TICK)
    assert 60 * (rounds + 1) < int(seconds)
    assert int(least) > 2 * 60


def test_the_page_shows_what_the_task_catches():
    (block,) = [json.loads(block.text) for block in PAGE if "ErrorEquals" in block.text]
    assert block == task("training")["Catch"] == task("private")["Catch"]


def test_each_error_that_is_caught_is_one_of_a_job():
    errors = {*job_answers._BY_CAUSE.values(), *job_answers._BY_STATE.values()}
    for catcher in task("training")["Catch"]:
        assert {*catcher["ErrorEquals"]} <= errors


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_page_deploys_with_each_parameter_that_has_no_default(name):
    (block,) = [block.text for block in PAGE if f"step-functions/{TEMPLATES[name]}" in block.text]
    given = dict(re.findall(r"(\w+)=(\S+)", block))
    declared = template(name)["Parameters"]
    assert {*given} == {key for key, parameter in declared.items() if "Default" not in parameter}
    for key, value in given.items():
        assert re.fullmatch(declared[key].get("AllowedPattern", ".+"), value), key
