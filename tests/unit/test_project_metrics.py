"""Which projects have metrics of their own, and what the others add up to."""

from __future__ import annotations

from typing import Any

from slotq_core.model.projects import ShareStatus
from slotq_core.operations.usage.project_metrics import OTHERS, ResourceAmounts, measured

NAMES = ("a", "b", "c", "d")


def stand(name: str, held: int = 0, waiting: int = 0, **more: Any) -> ShareStatus:
    more = {"scope": "", "resource": "slots", "quota": 1, "share": 2, "limit": None, **more}
    more = {"is_department": False, "stopping": 0, **more}
    return ShareStatus(name=name, held=held, waiting=waiting, **more)


def test_the_busiest_have_their_own_and_the_others_are_added_up():
    found = measured(
        [stand("a", 1), stand("b", 3), stand("c", 1, 9), stand("d", 0, 50)], NAMES, most=2
    )
    assert found == {
        ("b", "slots"): ResourceAmounts(held=3, over_quota=2, share=2),
        ("c", "slots"): ResourceAmounts(held=1, waiting=9, share=2),
        (OTHERS, "slots"): ResourceAmounts(held=1, waiting=50, share=4),
    }


def test_of_equal_projects_the_older_comes_first():
    found = measured([stand("b", 1), stand("a", 1)], NAMES, most=1)
    assert [name for name, _ in found] == [OTHERS, "a"]


def test_idle_projects_cost_nothing_and_departments_are_not_counted_twice():
    idle, department = stand("b", share=0), stand("d", 1, is_department=True)
    assert [*measured([stand("a", 1), idle, department], NAMES, most=9)] == [("a", "slots")]


def test_jobs_without_a_project_and_of_a_removed_one_count_among_the_others():
    found = measured([stand("", 2, share=0), stand("gone", 0, 1, share=0)], NAMES, most=9)
    assert found == {(OTHERS, "slots"): ResourceAmounts(held=2, waiting=1, over_quota=1)}


def test_amounts_by_pool_are_added_up():
    found = measured([stand("a", 1, scope="p5"), stand("a", 2, scope="p4")], NAMES, most=9)
    assert found == {("a", "slots"): ResourceAmounts(held=3, over_quota=1, share=4)}


def test_each_resource_counts_by_itself_and_slots_say_who_is_busiest():
    found = measured(
        [
            stand("a", 1),
            stand("a", 64, resource="gpus", quota=32, share=40),
            stand("b", 2),
            stand("b", 0, resource="gpus", share=0),
        ],
        NAMES,
        most=1,
    )
    assert set(found) == {("b", "slots"), ("b", "gpus"), (OTHERS, "slots"), (OTHERS, "gpus")}
    assert found[OTHERS, "gpus"] == ResourceAmounts(held=64, over_quota=32, share=40)
    only_gpus = [stand("a", 1, resource="gpus"), stand("b", 2, resource="gpus")]
    assert [*measured(only_gpus, NAMES, most=1)] == [(OTHERS, "gpus"), ("b", "gpus")]


def test_there_are_at_most_as_many_as_asked_for_and_one_more():
    standings = [stand(f"p{n}", 1 + n) for n in range(1000)]
    found = measured(standings, [each.name for each in standings], most=50)
    assert len(found) == 51
    assert sum(each.held for each in found.values()) == sum(range(1001))
    assert measured([], NAMES, most=50) == {}
