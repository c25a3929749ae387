"""The rules that keep quotas honest: a sentence, a change, the numbers of the refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.admission.configuration.subscription import SettingsInUse, check, held_by_fixed
from slotq_core.errors import Oversubscribed
from slotq_core.model.callers import NO_LIMITS
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.projects import EVERYWHERE, Department, Project
from slotq_core.model.sharing import Settings, Sharing, Subscription
from tests.unit.policy.test_nodes import on
from tests.unit.policy.test_reasons import runs


def pool(name: str, slots: int, **resources: int) -> Pool:
    capacity = Demand(slots=slots, **resources)
    return Pool(name=name, instance_type="ml.m5.large", capacity=capacity)


def project(name: str, quota: int | dict[str, int] = 0, department: str = "") -> Project:
    return Project(name=name, department=department, quota=amounts(quota))


def department(name: str, quota: int | dict[str, int] | None) -> Department:
    return Department(name=name, quota=None if quota is None else amounts(quota))


def amounts(quota: int | dict[str, int]) -> dict[str, Demand]:
    if isinstance(quota, int):
        return {EVERYWHERE: Demand(slots=quota)}
    return {scope: Demand(slots=slots) for scope, slots in quota.items()}


def stand(*entries: Project | Department, pools=(), held=None, off=()) -> SettingsInUse:
    sharing = Sharing(
        projects=tuple(each for each in entries if isinstance(each, Project)),
        departments=tuple(each for each in entries if isinstance(each, Department)),
        unchecked=frozenset(off),
    )
    pools = pools or (pool("p5", 4), pool("p4", 4))
    return SettingsInUse(
        settings=Settings(pools=pools, limits=NO_LIMITS, sharing=sharing), held=held or {}
    )


def faults(before: SettingsInUse, after: SettingsInUse) -> dict[str, str]:
    try:
        check(before, after)
    except Oversubscribed as refused:
        return dict(refused.faults)
    return {}


HELD = {"a": {"p5": Demand(slots=2), "p4": Demand(slots=1)}}
EMPTY = stand()


@pytest.mark.parametrize(
    ("after", "path", "said"),
    [
        (
            stand(project("a", 9)),
            "projects[0].quota",
            (
                "project 'a' has a quota of 9 slots over all pools, which have 8 (rule "
                "quota_within_pools)"
            ),
        ),
        (
            stand(project("a", {"p5": 4, "p4": 5})),
            "projects[0].quota.p4",
            "project 'a' has a quota of 5 slots in pool p4, which has 4 (rule quota_within_pools)",
        ),
        (
            stand(department("d", 9)),
            "departments[0].quota",
            (
                "department 'd' has a quota of 9 slots over all pools, which have 8 (rule "
                "quota_within_pools)"
            ),
        ),
        (
            stand(project("x"), project("a", 2, "d"), project("b", 2, "d"), department("d", 3)),
            "projects[1].quota",
            (
                "department 'd' has a quota of 3 slots over all pools, and its projects have 4 "
                "together (rule projects_within_department)"
            ),
        ),
        (
            stand(project("a", {"p5": 2}, "d"), department("d", {"p4": 2})),
            "projects[0].quota",
            (
                "department 'd' has a quota of 0 slots in pool p5, and its projects have 2 "
                "together (rule projects_within_department)"
            ),
        ),
    ],
)
def test_numbers_that_contradict_each_other_are_refused_with_both(after, path, said):
    assert faults(EMPTY, after) == {path: said}


@pytest.mark.parametrize(
    "fine",
    [
        stand(project("a", 8)),
        stand(project("a", {"p5": 4, "p4": 4}), project("b", {"p5": 4})),
        stand(project("a", 2, "d"), project("b", 2, "d"), department("d", 4)),
        stand(project("a", 2, "d"), project("b", 2, "d"), department("d", None)),
    ],
)
def test_numbers_that_agree_are_taken(fine):
    assert faults(EMPTY, fine) == {}


def test_a_department_that_shrinks_below_its_projects_is_refused_at_itself():
    projects = project("a", 2, "d"), project("b", 2, "d")
    for quota in (4, None):
        found = faults(
            stand(*projects, department("d", quota)), stand(*projects, department("d", 3))
        )
        assert list(found) == ["departments[0].quota"]
        assert "(rule department_above_projects)" in found["departments[0].quota"]


@pytest.mark.parametrize("quota", [2, {"p5": 1, "p4": 1}])
def test_a_quota_below_what_runs_for_good_is_refused(quota):
    before = stand(project("a", 4 if quota == 2 else {"p5": 4, "p4": 4}), held=HELD)
    ((_, said),) = faults(before, stand(project("a", quota), held=HELD)).items()
    assert "and its running jobs that may not be evicted hold" in said
    assert "(rule project_above_running)" in said


def test_resources_that_no_quota_names_do_not_count():
    held = {"a": {"p5": Demand(slots=2, gpus=16)}}
    assert faults(EMPTY, stand(project("a", 2), held=held)) == {}


def test_a_pool_that_shrinks_below_a_quota_is_refused():
    before = stand(project("a", {"p5": 4}))
    after = stand(project("a", {"p5": 4}), pools=(pool("p5", 3), pool("p4", 4)))
    assert list(faults(before, after)) == ["projects[0].quota.p5"]


def test_what_was_wrong_before_blocks_no_other_change():
    """Only numbers that a change makes worse are its own."""
    wrong = stand(project("a", 9), project("b", 2, "d"), department("d", 1), held=HELD)
    assert (
        faults(
            wrong,
            stand(
                project("a", 9),
                project("b", 2, "d"),
                project("c", 1),
                department("d", 1),
                held=HELD,
            ),
        )
        == {}
    )
    better = stand(project("b", 2, "d"), project("a", 8), department("d", 1), held=HELD)
    assert faults(wrong, better) == {}
    worse = stand(project("a", 10), project("b", 3, "d"), department("d", 1), held=HELD)
    assert list(faults(wrong, worse)) == ["projects[0].quota", "projects[1].quota"]


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (Subscription.QUOTA_WITHIN_POOLS, EMPTY, stand(project("a", 9))),
        (
            Subscription.PROJECTS_WITHIN_DEPARTMENT,
            EMPTY,
            stand(project("a", 2, "d"), department("d", 1)),
        ),
        (
            Subscription.DEPARTMENT_ABOVE_PROJECTS,
            stand(project("a", 2, "d"), department("d", 2)),
            stand(project("a", 2, "d"), department("d", 1)),
        ),
        (Subscription.PROJECT_ABOVE_RUNNING, EMPTY, stand(project("a", 1), held=HELD)),
    ],
)
def test_each_rule_can_be_switched_off(rule, before, after):
    assert faults(before, after)
    sharing = replace(after.sharing, unchecked=frozenset({rule}))
    off = replace(after, settings=replace(after.settings, sharing=sharing))
    assert faults(before, off) == {}


def test_thousands_of_faults_make_a_short_message():
    with pytest.raises(Oversubscribed) as refused:
        check(EMPTY, stand(*(project(f"p{n}", 9) for n in range(2000))))
    assert len(refused.value.faults) == 50
    assert refused.value.message.startswith("2000 numbers do not agree:\n")


def test_jobs_on_a_node_hold_its_slot_once_or_their_parts_where_projects_share_it():
    """Eight interactive jobs of a GPU on one instance do not hold eight slots."""

    def lasts(name: str, project: str, first: int) -> Job:
        job = on(runs(name, project=project, preemptible=False), first=first)
        assert job.attempt is not None
        return replace(job, attempt=replace(job.attempt, node_gpus=4))

    mine = [lasts(f"i{first}", "a", first) for first in range(3)]
    others = (on(runs("low", project="a"), "n2"), runs("w", project="b", preemptible=False))
    one, two = Demand(slots=1), Demand(slots=2)
    own = replace(pool("p", 2), nodes=NodeRules(gpus=4))
    assert held_by_fixed((*mine, *others), [own]) == {"a": {"p": one}, "b": {"p": one}}
    together = replace(own, nodes=NodeRules(gpus=4, shared=True))
    found = held_by_fixed((*mine, *others, lasts("o", "b", 3)), [together])
    assert found == {"a": {"p": one}, "b": {"p": two}}
