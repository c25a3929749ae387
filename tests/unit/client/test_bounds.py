"""Values out of bounds are refused by name when they are set."""

from __future__ import annotations

import math

import boto3
import pytest

import slotq
from slotq.cli.exits import ExitCode
from slotq.configuration.settings import load
from slotq.errors import InvalidRequest, NotConfigured
from slotq.jobs.job import QueuedJob
from slotq.jobs.submission import settings_tags
from slotq.local.training.knobs import Knobs
from tests.unit.client.fake_queue import ENDPOINT, client_of, waiting

WRONG = [
    ({"priority": 1_000_001}, "priority must be a whole number from -1,000,000 to 1,000,000"),
    ({"priority": 1.5}, "priority must be a whole number"),
    ({"priority": True}, "priority must be a whole number"),
    ({"min_runtime": -1}, "min_runtime must be a whole number from 0 to 2,419,200, not -1"),
    ({"min_runtime": math.nan}, "min_runtime must be"),
    ({"demand": {"gpus": 0}}, "demand.gpus must be a whole number from 1 to 1,000,000, not 0"),
    ({"retries": -1}, "retries must be a whole number from 0 to 100, not -1"),
    ({"retries": 101}, "retries must be"),
    ({"retries": "3"}, "retries must be"),
]


@pytest.mark.parametrize(("settings", "said"), WRONG)
def test_a_job_setting_out_of_bounds_is_refused(settings, said):
    with pytest.raises(InvalidRequest, match=said) as refused:
        settings_tags(**settings)
    assert refused.value.field.split(".")[0] == next(iter(settings))


def test_install_refuses_a_wrong_setting_at_once(http):
    with pytest.raises(InvalidRequest, match="retries"):
        slotq.install(boto3.Session(), queue=client_of(http), endpoint=ENDPOINT, retries=-1)


@pytest.mark.parametrize("how", [{"poll": 0}, {"poll": -1}, {"poll": math.nan}, {"timeout": -1}])
def test_a_wrong_wait_is_refused(http, how):
    with pytest.raises(InvalidRequest, match=next(iter(how))):
        QueuedJob(client_of(http), waiting(1)).wait(**how)
    assert http.sent == []


def test_a_wrong_variable_is_named():
    with pytest.raises(NotConfigured, match=r"priority \(from SLOTQ_PRIORITY\) must be"):
        load({}, environ={"SLOTQ_PRIORITY": "1e3"})


@pytest.mark.parametrize(
    "line",
    [
        "submit - --retries -1",
        "submit - --demand gpus=-1",
        "submit - --demand gpus",
        "submit - --min-runtime -1",
        "submit - --priority 1000001",
        "clone job9 new --priority 1000001",
        "retry job9 --priority -1000001",
        "top --every nan",
        "top --every -1",
        "watch --every nan",
        "ls --limit -1",
        "logs job1 --attempt 0",
        "demo --speed nan",
        "pools set p5 --slots -1",
        "pools set p5 --min-runtime -1",
        "local start --tick nan",
        "local start --tick -1",
        "local start --tick inf",
        "local start --grace -1",
        "local start --grace inf",
        "local start --knob refuse_creates=nan",
        "local start --knob limits=ml.m5.large=-2",
        "local start --pool p=-1",
    ],
)
def test_a_wrong_option_is_refused(slotq, line):
    result = slotq(*line.split(), input="{}")
    assert result.exit_code == ExitCode.USAGE, result.output
    assert "Error" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plans: {}", "a list at the key"),
        ("plans: [{name: june}]", "has a name, an instance_type and windows"),
        ("[", "not YAML"),
    ],
)
def test_wrong_training_plans_start_no_emulator(slotq, tmp_path, text, said):
    file = tmp_path / "plans.yaml"
    file.write_text(text)
    result = slotq("local", "start", "--plans", str(file))
    assert result.exit_code == ExitCode.USAGE, result.output
    assert said in result.stderr


@pytest.mark.parametrize(
    "turned",
    [
        {"start_seconds": -1},
        {"start_seconds": math.nan},
        {"grace_seconds": math.inf},
        {"refuse_creates": 1.5},
        {"refuse_creates": 1e300},
        {"limits": {"ml.m5.large": -2}},
    ],
)
def test_a_wrong_knob_is_refused(turned):
    knobs = Knobs()
    with pytest.raises(ValueError, match=next(iter(turned))):
        knobs.turn(turned)
    assert knobs == Knobs()
