"""Impossible classes, limits and slices in a scenario are refused with key and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotq.errors import ScenarioError
from slotq.simulate import load

POOL = "pools: [{name: p, capacity: 1}]"
JOB = "jobs: [{name: j, submit_at: 0, runtime: 1}]"


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ([POOL, "users: [{name: u, limits: {q: {HIGH: 1}}}]"], 2, "no pool 'q'; these exist: p"),
        ([POOL, "users: [{name: u, limits: {p: {GOLD: 1}}}]"], 2, "no class 'GOLD'"),
        ([POOL, "users: [{name: u, limits: {p: {AUTO: 1}}}]"], 2, "no class 'AUTO'"),
        ([POOL, "users: [{name: u, limits: {p: {HIGH: -1}}}]"], 2, "from 0 to 1,000,000 is"),
        ([POOL, "users: [{name: u, limits: {p: 3}}]"], 2, "slots by class are needed"),
        ([POOL, "users: [{name: u, limits: 3}]"], 2, "limits by pool and class are needed"),
        ([POOL, "users: [{name: u, groups: [g]}]"], 2, "no user group 'g'"),
        ([POOL, "users: [{name: u}, {name: u}]"], 2, "'u' exists already"),
        ([POOL, "user_groups: [{name: g, limits: {q: {}}}]"], 2, "no pool 'q'"),
        (["pools: [{name: p, capacity: 1, time_slice: 0}]"], 1, "more than 0 seconds"),
        (["pools: [{name: p, capacity: 1, time_slice: -5}]"], 1, "more than 0 seconds"),
        (
            ["classes: [{name: A, value: 3, demote_to: AUTO, demote_after: 9}]", POOL],
            1,
            "the class of AUTO at each admission",
        ),
        (
            [POOL, "classes: [{name: A, value: 3}]", "users: [{name: u, limits: {p: {HIGH: 1}}}]"],
            3,
            "no class 'HIGH'; these exist: A",
        ),
        (
            ["pools: [{name: p, capacity: 1, time_slice: 5}]", "jobs: [{name: j, submit_at: 0}]"],
            1,
            "until is needed",
        ),
    ],
)
def test_an_impossible_setting_is_refused(
    tmp_path: Path, lines: list[str], line: int, message: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("\n".join([*lines, "" if "jobs" in lines[-1] else JOB]))
    with pytest.raises(ScenarioError, match=message) as refused:
        load(path)
    assert f"bad.yaml:{line}:" in str(refused.value)


def test_all_of_hfais_classes_can_be_configured_with_auto(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    classes = "classes: [{name: HIGH, value: 30}, {name: LOW, value: 0}, {name: AUTO, value: -1}]"
    path.write_text(f"{POOL}\n{classes}\n{JOB}")
    assert list(load(path).known_classes) == ["HIGH", "LOW"]
