"""Who is protected by a quota, and what a plan makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import SEMI, Claim, Job, JobState, Preemptible, Workload
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Department, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Start
from slotq_core.policy.state.may_evict import BY_SETTING, may_evict
from slotq_core.policy.state.quotas.in_quota import cores_beyond_quota, in_quota

NOW = 1_000_000


def project(name: str, slots: int, **fields: Any) -> Project:
    return Project(name=name, quota={EVERYWHERE: Demand(slots=slots)}, **fields)


def waits(name: str, slots: int = 1, **fields: Any) -> Job:
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=fields.pop("priority", 0),
        entry_time=fields.pop("entry_time", 0),
        demand=Demand(slots=slots),
        pools=("p",),
        project=fields.pop("project", "a"),
        preemptible=fields.pop("preemptible", SEMI),
        **fields,
    )


def runs(name: str, since: int, slots: int = 1, **fields: Any) -> Job:
    attempt = Attempt(
        number=1,
        training_job=name,
        token="t",
        pool="p",
        instance_type="ml.test",
        admitted_at=since,
        created=True,
        running_since=since,
        node=fields.pop("node", ""),
    )
    waiting = waits(name, slots, **fields)
    return replace(waiting, state=JobState.RUNNING, attempt=attempt, attempts=1)


def world(*jobs: Job, capacity: int = 8, quota: int = 3, **fields: Any) -> Snapshot:
    """Project `a` with that quota, project `b` with the rest of the pool."""
    return Snapshot(
        pools=(Pool(name="p", instance_type="ml.test", capacity=Demand(slots=capacity)),),
        projects=fields.pop("projects", (project("a", quota), project("b", capacity - quota))),
        active=tuple(job for job in jobs if job.active),
        waiting=tuple(job for job in jobs if not job.active),
        **fields,
    )


def test_the_jobs_that_started_first_are_within_the_quota() -> None:
    jobs = [runs("late", 3), runs("first", 1), runs("fourth", 4), runs("second", 2)]
    assert in_quota(world(*jobs)) == {"first", "second", "late"}


def test_jobs_that_started_together_go_by_name() -> None:
    assert in_quota(world(runs("b", 1, 2), runs("a", 1, 2))) == {"a"}


def test_a_job_beyond_the_quota_protects_none_behind_it() -> None:
    """So a protected job stays protected when those that started before it end."""
    before, large, small = runs("before", 1, 2), runs("large", 2, 3), runs("small", 3)
    assert in_quota(world(before, large, small)) == {"before"}
    assert in_quota(world(large, small)) == {"large"}
    assert in_quota(world(small)) == {"small"}


@pytest.mark.parametrize("setting", [False, True, SEMI])
def test_work_that_is_never_evicted_comes_first_and_preemptible_work_not_at_all(
    setting: Preemptible,
) -> None:
    other = runs("other", 1, 2, preemptible=setting)
    protected = in_quota(world(other, runs("late", 2, 2)))
    assert protected == {True: {"late"}, False: set(), SEMI: {"other"}}[setting]


def test_interactive_work_needs_no_protection_and_takes_quota() -> None:
    shell = runs("shell", 5, 2, workload=Workload.INTERACTIVE)
    assert in_quota(world(shell, runs("job", 1, 2))) == set()


def test_a_claim_of_work_that_is_never_evicted_takes_quota() -> None:
    owed = Claim(pool="p", amount=Demand(slots=2), since=NOW)
    job = runs("job", 1, 2)
    assert in_quota(world(job, waits("owed", 2, preemptible=False, claim=owed))) == set()
    assert in_quota(world(job, waits("owed", 2, claim=owed))) == {"job"}


def test_a_job_that_stops_takes_no_quota() -> None:
    stopping = replace(runs("stops", 1, 3), state=JobState.STOPPING)
    assert in_quota(world(stopping, runs("job", 2))) == {"job"}


def test_each_project_has_its_own_quota() -> None:
    jobs = [runs("a1", 1, 3), runs("b1", 2, 5, project="b"), runs("b2", 3, project="b")]
    assert in_quota(world(*jobs)) == {"a1", "b1"}


def test_a_department_counts_what_is_within_the_quotas_of_its_projects() -> None:
    department = Department(name="d", quota={EVERYWHERE: Demand(slots=4)})
    projects = (project("a", 3, department="d"), project("b", 3, department="d"))
    jobs = [runs("a1", 1, 4), runs("b1", 2, 3, project="b"), runs("a2", 3)]
    snapshot = world(*jobs, projects=projects, departments=(department,))
    assert in_quota(snapshot) == {"b1"}
    jobs[0] = runs("a1", 1, 2)
    snapshot = world(*jobs, projects=projects, departments=(department,))
    assert in_quota(snapshot) == {"a1"}


def test_a_department_without_a_quota_of_its_own_bounds_nothing() -> None:
    projects = (project("a", 3, department="d"), project("b", 3, department="d"))
    jobs = [runs("a1", 1, 3), runs("b1", 2, 3, project="b")]
    snapshot = world(*jobs, projects=projects, departments=(Department(name="d"),))
    assert in_quota(snapshot) == {"a1", "b1"}


def test_a_quota_of_one_pool_says_nothing_of_another() -> None:
    by_pool = Project(name="a", quota={"p": Demand(slots=1), "q": Demand(slots=5)})
    jobs = [runs("first", 1), runs("second", 2)]
    assert in_quota(world(*jobs, projects=(by_pool,))) == {"first"}


def test_a_soft_budget_that_is_spent_leaves_no_quota() -> None:
    assert in_quota(world(runs("job", 1)), {"a"}) == set()


def test_without_projects_nothing_is_protected() -> None:
    assert in_quota(world(runs("job", 1, project=""), projects=())) == set()


def test_members_of_a_gang_that_start_together_are_within_the_quota_all_or_none() -> None:
    gang = Group(name="g", members=("g1", "g2", "g3"))
    members = [runs("g1", 1, 2, group="g"), runs("g2", 1, 2, group="g")]
    joins = runs("g3", 2, 1, group="g")
    assert in_quota(world(*members, joins, groups=(gang,))) == set()
    assert in_quota(world(*members, joins, groups=(gang,), quota=4)) == {"g1", "g2"}


def test_members_of_a_sweep_are_within_the_quota_one_by_one() -> None:
    sweep = Group(name="g", members=("g1", "g2"), max_parallel=2)
    members = [runs("g1", 1, 2, group="g"), runs("g2", 2, 2, group="g")]
    assert in_quota(world(*members, groups=(sweep,))) == {"g1"}


def test_a_node_counts_once() -> None:
    jobs = [runs(f"job{number}", number, node=f"node-{number // 2}") for number in range(8)]
    assert in_quota(world(*jobs)) == {f"job{number}" for number in range(6)}


def test_one_predicate() -> None:
    semi, fixed = runs("semi", 1), runs("fixed", 1, preemptible=False)
    assert may_evict(frozenset()) is BY_SETTING
    assert BY_SETTING(semi) and not BY_SETTING(fixed)
    asked = may_evict({"semi"})
    assert not asked(semi) and not asked(fixed) and asked(runs("other", 1))


def test_a_higher_rank_evicts_a_job_beyond_the_quota_and_no_other() -> None:
    within, beyond = runs("within", 1, 3), runs("beyond", 2, 1)
    first = waits("first", priority=9)
    found = plan(world(within, beyond, first, capacity=4), NOW)
    assert [decision.victims for decision in found.decisions if isinstance(decision, Evict)] == [
        (beyond,)
    ]
    alone = world(within, first, capacity=3)
    assert plan(alone, NOW).decisions == ()
    (decision,) = plan(replace(alone, projects=(project("a", 2),)), NOW).decisions
    assert isinstance(decision, Evict) and decision.victims == (within,)


def test_no_quota_keeps_a_semi_preemptible_job_waiting() -> None:
    full = runs("full", 1, 3)
    found = plan(world(full, waits("more", 2)), NOW)
    assert [type(decision) for decision in found.decisions] == [Start]


def test_work_that_is_never_evicted_waits_for_what_is_protected() -> None:
    protected = runs("protected", 1, 2)
    found = plan(world(protected, waits("fixed", 2, preemptible=False)), NOW)
    assert found.decisions == ()
    assert found.reasons["fixed"].code == "quota_for_non_preemptible"
    preemptible = replace(protected, preemptible=True)
    found = plan(world(preemptible, waits("fixed", 2, preemptible=False)), NOW)
    assert [type(decision) for decision in found.decisions] == [Start]


def fixed(name: str, since: int, slots: int = 1, **fields: Any) -> Job:
    return runs(name, since, slots, preemptible=False, **fields)


def test_cores_count_behind_all_that_is_never_evicted_and_in_the_order_of_their_starts() -> None:
    first, second = fixed("g", 1, 2, group="g"), fixed("h", 2, 1, group="h")
    cores = [[second], [first]]
    assert cores_beyond_quota(world(first, second), cores, set()) == set()
    single = fixed("single", 3)
    assert cores_beyond_quota(world(first, second, single), cores, set()) == {"h"}
    owed = Claim(pool="p", amount=Demand(slots=2), since=NOW)
    waiting = waits("owed", 2, preemptible=False, claim=owed)
    assert cores_beyond_quota(world(first, second, waiting), cores, set()) == {"g", "h"}


def test_what_is_beyond_a_core_or_may_be_evicted_takes_nothing_from_a_core() -> None:
    core, member = fixed("g1", 1, 3, group="g"), fixed("g2", 1, 3, group="g")
    others = runs("semi", 0, 2), runs("plain", 0, 2, preemptible=True)
    assert cores_beyond_quota(world(core, member, *others), [[core]], {"g2"}) == set()
