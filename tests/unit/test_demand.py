"""Demands: a missing resource counts as 0, and a resource of 0 as missing."""

from __future__ import annotations

import pytest

from slotq_core.model.demand import Demand


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Demand({"slots": 0}), Demand()),
        (Demand({"slots": 2, "gpus": 0}), Demand(slots=2)),
        (Demand(slots=2) + Demand(gpus=1), Demand({"gpus": 1, "slots": 2})),
        (Demand(slots=2) - Demand(slots=2), Demand()),
        (Demand(slots=2) - Demand(gpus=1), Demand(slots=2, gpus=-1)),
        (Demand(slots=2, gpus=8) * 3, Demand(slots=6, gpus=24)),
        (Demand(slots=2) * 0, Demand()),
        (Demand.total([]), Demand()),
        (Demand.total([Demand(slots=1), Demand(gpus=-2), Demand(gpus=2)]), Demand(slots=1)),
    ],
)
def test_demands_are_added_and_subtracted(found: Demand, expected: Demand):
    assert found == expected
    assert hash(found) == hash(expected)
    assert dict(found) == dict(expected)


def test_totals_are_made_for_each_key():
    amounts = [("a", Demand(slots=1), 1), ("b", Demand(gpus=1), 1), ("a", Demand(slots=1), 2)]
    assert Demand.totals(amounts) == {"a": Demand(slots=3), "b": Demand(gpus=1)}


def test_summing_leaves_the_demands_unchanged():
    one = Demand(slots=1)
    Demand.totals([("a", one, 1), ("a", one, 1)])
    assert one == Demand(slots=1)


def test_a_demand_exceeds_a_bound_in_any_of_the_named_resources():
    held, bound = Demand(slots=2, gpus=9), Demand(slots=3, gpus=8)
    assert held.exceeds(bound, ["slots", "gpus"], Demand())
    assert not held.exceeds(bound, ["slots"], Demand(slots=1))
    assert held.exceeds(bound, ["slots"], Demand(slots=2))
    assert not Demand().exceeds(Demand(), ["slots"], Demand())


def test_the_largest_part_is_of_what_is_held():
    held, whole = Demand(slots=2, gpus=9), Demand(slots=4, gpus=10)
    assert held.largest_part(whole, ["slots"], Demand()) == 0.5
    assert held.largest_part(whole, ["slots", "gpus"], Demand(slots=2)) == 1.0
    assert held.largest_part(Demand(gpus=10), ["slots"], Demand()) == float("inf")
    assert Demand().largest_part(Demand(), ["slots"], Demand()) == 0.0
