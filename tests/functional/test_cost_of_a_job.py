"""The counts that `slotq cost` uses are those of the present code."""

from __future__ import annotations

import pytest

from benchmarks.cost_of_a_job import MEASURED, cost_of
from benchmarks.dynamodb_units import item_size, read_units, write_units
from slotq.cost.bill import measured


@pytest.mark.parametrize("name", MEASURED)
def test_the_stored_counts_are_up_to_date(name: str):
    with_it, without, times = MEASURED[name]
    now = (cost_of(with_it) - cost_of(without)) / times
    assert measured()[name].as_json() == now.as_json(), (
        "run make counts ARGS=--write, and bring docs/cost.md up to date"
    )


def test_the_file_has_no_other_counts():
    assert set(measured()) == set(MEASURED)


def item(size: int, **more: str) -> dict[str, dict[str, str]]:
    made = {name: {"S": text} for name, text in more.items()}
    return {**made, "x": {"S": "y" * (size - item_size(made) - 1)}}


def test_units_follow_awss_rules():
    assert [read_units(size, consistent=True) for size in (0, 1, 4096, 4097)] == [1, 1, 1, 2]
    assert read_units(4097, consistent=False) == 1.0
    assert item_size(item(1024)) == 1024
    assert write_units(None, item(1024)) == 1
    assert write_units(item(1025), item(10)) == 2, "the larger of what was and what is"
    assert write_units(item(3000), None) == 3
    assert write_units(None, None) == 1, "a refused write costs too"


def test_an_index_costs_additional_writes():
    was = item(500, jobState="pending", entryTime="1")
    moved = item(500, jobState="running", entryTime="1")
    touched = item(600, jobState="pending", entryTime="1")
    assert write_units(None, was) == 1 + 1
    assert write_units(was, moved) == 1 + 2
    assert write_units(was, touched) == 1 + 1
    assert write_units(was, was) == 1
    assert write_units(was, item(500)) == 1 + 1
