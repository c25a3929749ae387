"""`slotq simulate`: output, JSON and exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from slotq.cli.main import cli
from slotq_core.policy.turn.gang_turn import GangTurn
from tests.scenario_pages import SCENARIOS

WORLD = """\
pools: [{name: p, capacity: 1, stop_seconds: 5}]
jobs:
  - {name: low, submit_at: 0, runtime: 50}
  - {name: high, submit_at: 10, priority: 1, runtime: 20}
"""
RIGHT = "expect: [{at: 12, states: {low: stopping, high: pending}, evictions: {low: 1}}]\n"
WRONG = "expect: [{at: 12, states: {low: running}, started: {low: [0, 15], high: []}}]\n"


@pytest.fixture
def slotq(tmp_path):
    def run(text: str, *options: str, before: tuple[str, ...] = ()):
        path = tmp_path / "s.yaml"
        path.write_text(text)
        return CliRunner().invoke(cli, [*before, "simulate", str(path), *options])

    return run


def test_events_and_figures_are_printed(slotq):
    result = slotq(WORLD)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["10", "evict", "low", "p", "evicted", "for", "high"] in lines
    assert "2 jobs, 70 s: utilisation 100.0%" in result.stdout


def test_expectations_that_hold_are_reported(slotq):
    result = slotq(WORLD + RIGHT, "--check", "--live")
    assert result.exit_code == 0
    assert "all 3 expectations hold" in result.stdout
    assert "the live path gives the same events" in result.stdout
    assert result.stderr == ""


def test_a_wrong_expectation_is_shown_beside_the_result(slotq):
    result = slotq(WORLD + WRONG, "--check")
    assert result.exit_code == 1
    head, *rest = result.stderr.splitlines()
    assert head.endswith("s.yaml: 2 of 3 expectations do not hold")
    assert rest == [
        "at 12 s, state of low:",
        "  expected  running",
        "  seen      stopping",
        "at 12 s, started of low:",
        "  expected  [0, 15]",
        "  seen      [0]",
    ]


def test_a_check_without_expectations_says_so(slotq):
    assert "there is nothing to check" in slotq(WORLD, "--check").stdout


def test_expectations_count_only_with_check(slotq):
    assert slotq(WORLD + WRONG).exit_code == 0


@pytest.mark.parametrize("before", [(), ("--json",)], ids=["after", "before"])
def test_a_run_can_be_printed_as_json(slotq, before):
    result = slotq(WORLD, *([] if before else ["--json"]), before=before)
    answer = json.loads(result.stdout)
    assert set(answer) == {"events", "jobs", "metrics"}
    assert answer["events"][2:4] == [
        {"t": 10.0, "event": "submit", "job": "high", "pool": None, "reason": ""},
        {"t": 10.0, "event": "evict", "job": "low", "pool": "p", "reason": "evicted for high"},
    ]
    assert answer["jobs"]["low"]["started"] == [0.0, 35.0]
    assert answer["jobs"]["low"]["evictions"] == 1
    assert set(answer["metrics"]) == {
        "utilisation",
        "wait_mean",
        "wait_p95",
        "evictions",
        "slot_seconds_lost",
        "by_project",
        "by_priority",
    }


def test_a_check_can_be_printed_as_json(slotq):
    result = slotq(WORLD + WRONG, "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["differences"] == [
        {"at": 12.0, "what": "state", "of": "low", "expected": "running", "seen": "stopping"},
        {"at": 12.0, "what": "started", "of": "low", "expected": [0.0, 15.0], "seen": [0.0]},
    ]
    assert json.loads(slotq(WORLD + RIGHT, "--check", "--json").stdout)["differences"] == []


def test_many_events_are_cut_in_tables_but_not_in_json(slotq):
    jobs = "".join(f"  - {{name: j{n}, submit_at: 0, runtime: 1}}\n" for n in range(100))
    text = "pools: [{name: p, capacity: 1}]\njobs:\n" + jobs
    assert "and 100 more events" in slotq(text).stdout
    assert len(json.loads(slotq(text, "--json").stdout)["events"]) == 300


def test_figures_are_printed_by_project(slotq):
    result = slotq(WORLD + "projects: [{name: nlp}]\n")
    assert any(line.split()[:2] == ["default", "2"] for line in result.stdout.splitlines())


def test_why_explains_a_waiting_job_at_a_moment(slotq):
    result = slotq(WORLD, "--why", "high@12", "--why", "low")
    assert result.exit_code == 0
    at, *lines = result.stdout[result.stdout.index("at 12 s") :].splitlines()
    assert at == "at 12 s"
    assert lines[0].startswith("high: waiting, place 1")
    assert lines[1:] == [
        "  room         pool p has 0 free and 1 coming free of the 1 slot that it needs; 0 missing",
        "  reserved     1 slot of pool p is owed to high: other jobs were stopped for it",
        "  times        none known: it depends on other jobs",
    ]


def test_why_can_be_printed_as_json(slotq):
    answer = json.loads(slotq(WORLD, "--why", "high@12", "--json").stdout)
    (told,) = answer["why"]
    assert (told["at"], told["job"], told["place"]) == (12, "high", 1)
    assert told["reason"]["code"] == "slots_coming"
    assert told["outlook"]["reserved"][0]["numbers"]["slots"] == 1


def test_a_wrong_why_expectation_is_shown_beside_the_result(slotq):
    wrong = "expect: [{at: 12, why: [{job: high, reason: no_free_slots}, {job: low, place: 1}]}]\n"
    result = slotq(WORLD + wrong, "--check")
    assert result.exit_code == 1
    assert "2 of 2 expectations do not hold" in result.stderr
    assert 'seen      {"reason": "slots_coming"}' in result.stderr
    assert "seen      nothing" in result.stderr


@pytest.mark.parametrize("question", ["none@12", "high@soon", "high@-"])
def test_a_wrong_why_is_a_usage_error(slotq, question):
    assert slotq(WORLD, "--why", question).exit_code == 2


def test_a_policy_that_never_ends_is_reported_with_its_moment_and_jobs(monkeypatch):
    """The scenario's own rule, taken out: the gang evicts, gives up, and the same again."""
    monkeypatch.setattr(GangTurn, "_brought_back", lambda _: None)
    path = SCENARIOS / "gangs" / "gang_takes_nothing_that_comes_back.yaml"
    result = CliRunner().invoke(cli, ["simulate", str(path)])
    assert result.exit_code == 1
    assert "at 10 s the policy repeats its decisions without end" in result.stderr
    assert "j0 1001" in result.stderr
