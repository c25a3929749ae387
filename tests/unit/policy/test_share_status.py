"""What projects and departments deserve, hold and wait for, as `slotq projects` shows it."""

from __future__ import annotations

from typing import Any

from slotq_core.model.demand import Demand
from slotq_core.model.projects import Department, Project, ShareStatus
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.explain.share_status import share_statuses
from tests.unit.policy.test_reasons import NOW, pool, runs, stops, waits


def stand(**world: Any) -> dict[tuple[str, str], ShareStatus]:
    snapshot = Snapshot(pools=world.pop("pools", (pool(slots=8),)), **world)
    return {(each.name, each.scope): each for each in share_statuses(snapshot, NOW)}


def quota(slots: int, where: str = "") -> dict[str, Demand]:
    return {where: Demand(slots=slots)}


def test_without_projects_nobody_stands():
    assert stand(active=(runs("a"),)) == {}


def test_the_surplus_is_part_of_the_share():
    found = stand(
        projects=(Project(name="a", quota=quota(2)), Project(name="b", quota=quota(4), limit={})),
        active=(runs("j", project="a", slots=3), stops("k", project="a")),
        waiting=(waits("l", project="a", slots=2), waits("m", project="b")),
    )
    assert found["a", ""] == ShareStatus(
        name="a",
        is_department=False,
        scope="",
        resource="slots",
        quota=2,
        share=6,
        limit=None,
        held=3,
        stopping=1,
        waiting=3,
    )
    assert (found["a", ""].over_quota, found["b", ""].over_quota) == (1, 0)
    assert (found["b", ""].share, found["b", ""].waiting) == (1, 1)


def test_jobs_behind_the_first_of_a_line_count_as_waiting():
    found = stand(
        projects=(Project(name="a", quota=quota(2)),),
        waiting=(waits("j", project="a"),),
        behind={"j": 4},
    )
    assert found["a", ""].waiting == 5


def test_quotas_by_pool_stand_in_each_pool():
    found = stand(
        pools=(pool("p"), pool("q")),
        projects=(Project(name="a", quota=quota(1, "p")), Project(name="b", quota=quota(1, "q"))),
        active=(runs("j", project="a", slots=2),),
    )
    assert {key: each.held for key, each in found.items() if each.held} == {("a", "p"): 2}
    assert len(found) == 4


def test_a_department_holds_what_its_projects_hold():
    found = stand(
        departments=(Department(name="d", limit={"": {"slots": 5}}),),
        projects=(
            Project(name="a", department="d", quota=quota(2)),
            Project(name="b", department="d", quota=quota(1)),
        ),
        active=(runs("j", project="a"), runs("k", project="b")),
    )
    department = found["d", ""]
    assert (department.is_department, department.quota, department.held) == (True, 3, 2)
    assert department.limit == 5
