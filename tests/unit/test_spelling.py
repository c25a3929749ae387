"""Hints for misspelt names, and durations with units."""

from __future__ import annotations

import pytest

from slotq_core import spelling
from slotq_core.spelling import MOST_COMPARED, as_known, did_you_mean, unknown
from slotq_core.timestamps import seconds_in

POOLS = ["main", "eu", "p5"]


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("man", POOLS, "; did you mean 'main'?"),
        ("MAIN", POOLS, "; did you mean 'main'?"),
        ("hihg", ["LOW", "HIGH"], "; did you mean 'HIGH'?"),
        ("submit-at", ["name", "submit_at"], "; did you mean 'submit_at'?"),
        ("nope", POOLS, ""),
        ("main", [], ""),
        ("m" * 100, ["m" * 99], ""),
    ],
)
def test_the_nearest_known_name_is_suggested(name, known, said):
    assert did_you_mean(name, known) == said


def test_a_hint_compares_a_bounded_number_of_names(monkeypatch):
    compared: list[str] = []

    def count(_name, known, _alike):
        compared.extend(known)
        return []

    monkeypatch.setattr(spelling, "near_names", count)
    did_you_mean("jobb", (f"job{n}" for n in range(10 * MOST_COMPARED)))
    assert len(compared) == MOST_COMPARED


def test_what_does_not_exist_is_named_with_what_does():
    assert unknown("pool", "man", POOLS) == (
        "there is no pool 'man'; the pools are main, eu, p5; did you mean 'main'?"
    )
    assert unknown("class", "x", ["LOW"]) == "there is no class 'x'; the classes are LOW"
    assert unknown("pool", "x", []) == "there is no pool 'x'; there are no pools"
    assert unknown("project", "x", [], whose="your") == "there is no project 'x'; you have none"
    many = unknown("pool", "x", [f"p{n}" for n in range(20)])
    assert many.endswith("p11 and 8 more")


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("high", ["HIGH", "LOW"], "HIGH"),
        ("HIGH", ["HIGH", "high"], "HIGH"),
        ("High", ["HIGH", "high"], None),
        ("hihg", ["HIGH"], None),
        ("auto", ["AUTO"], "AUTO"),
    ],
)
def test_a_name_in_another_case_is_known_where_one_fits(name, known, found):
    assert as_known(name, known) == found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("1h", 3600),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("1.1h", 3960),
        ("2.05m", 123),
        ("0.7d0.7d", 120_960),
        ("2d", 172_800),
        ("1w", 604_800),
        ("0.5s", 0.5),
        ("3600", None),
        ("1x", None),
        ("h", None),
        ("-1h", None),
        ("1 h", None),
        ("", None),
        ("١h", None),
    ],
)
def test_a_duration_has_units(text, seconds):
    assert seconds_in(text) == seconds
    assert type(seconds_in(text)) is type(seconds)
