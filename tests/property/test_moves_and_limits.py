"""The promises when claims meet limits: jobs of several projects move, and others arrive while they
stop. Such worlds are rare in the other files."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Move, Plan, Start, StartGang
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.budgets import Budgets
from tests.property.first_jobs import plan_from_first_jobs

MOST_PLANS = 150
"""In one moment: each of eight jobs is started and stopped a few times at most."""


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """Two or three pools, most of which allow moves; each job alone is within every bound."""
    pools = [_pool(draw, name) for name in ("p", "q", "r")[: draw(st.integers(2, 3))]]
    projects = [_project(draw, name) for name in ("a", "b", "c")[: draw(st.integers(0, 3))]]
    department = {"name": "d", "limit": draw(st.sampled_from([None, 2, 4]))}
    capacities = {pool["name"]: pool["capacity"] for pool in pools}
    jobs = []
    for number in range(draw(st.integers(3, 8))):
        accepted = draw(st.permutations(list(capacities)))[: draw(st.integers(1, len(pools)))]
        project = draw(st.sampled_from(projects)) if projects else {}
        in_department = department["limit"] if project.get("department") else None
        bounds = [max(capacities[name] for name in accepted), project.get("limit"), in_department]
        preemptible = draw(st.sampled_from([True] * 6 + [False])) or not project.get("quota", 1)
        if not preemptible:
            bounds.append(project.get("quota"))
        jobs.append(
            {
                "name": f"j{number}",
                **({"project": project["name"]} if project else {}),
                "pools": accepted,
                "priority": draw(st.sampled_from([0, 0, 1, 2, 5])),
                "slots": min(draw(st.integers(1, 3)), *(each for each in bounds if each)),
                "runtime": draw(st.sampled_from([7, 15, 30])),
                "submit_at": draw(st.sampled_from([0, 0, 0, 1, 10, 10, 11, 12, 13, 15])),
                "preemptible": preemptible,
            }
        )
    departments = [department] if any(each["department"] for each in projects) else []
    if draw(st.sampled_from([False, False, True])):
        for owner in (*projects, *departments):
            for kind in ("quota", "limit"):
                if owner.get(kind) is not None:
                    owner[kind] = dict.fromkeys(capacities, owner[kind])
    return Scenario.model_validate(
        {"pools": pools, "projects": projects, "departments": departments, "jobs": jobs}
    )


def _pool(draw: st.DrawFn, name: str) -> dict:
    return {
        "name": name,
        "capacity": draw(st.integers(1, 4)),
        "stop_seconds": draw(st.sampled_from([0, 3, 5])),
        "min_runtime": draw(st.sampled_from([0, 0, 0, 4])),
        "consolidate": draw(st.sampled_from([True, True, True, False])),
    }


def _project(draw: st.DrawFn, name: str) -> dict:
    return {
        "name": name,
        "quota": draw(st.integers(0, 2)),
        "limit": draw(st.sampled_from([None, None, None, 1, 2, 4])),
        "priority": draw(st.sampled_from([0, 0, 1])),
        "department": draw(st.sampled_from(["", "", "d"])),
    }


@given(worlds())
def test_every_moment_ends_and_so_does_every_job(scenario: Scenario) -> None:
    plans: Counter[int] = Counter()

    def watch(_snapshot: Snapshot, _planned: Plan, now: int) -> None:
        plans[now] += 1
        assert plans[now] < MOST_PLANS, now

    record = simulate(scenario, watch)
    for spec in scenario.jobs:
        assert record.states[spec.name][-1][1] in {"completed", "refused"}, spec.name


@given(worlds())
def test_no_claim_is_left_at_rest(scenario: Scenario) -> None:
    """When nothing is stopping, each beneficiary and each moving job has started or given up its
    claim."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        stopping = any(job.state is JobState.STOPPING for job in snapshot.active)
        if not planned.decisions and not stopping:
            assert [job.name for job in snapshot.waiting if job.claim] == [], now

    simulate(scenario, watch)


@given(worlds())
def test_a_job_moves_jobs_of_others_only_within_its_shares(scenario: Scenario) -> None:
    """The job's project and department are within their fair shares with it, counting the moves and
    what the plan decided before."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        held = Held(snapshot, now)
        for decision in planned.decisions:
            held.count(decision)
            if isinstance(decision, Move):
                job = decision.beneficiary
                if any(moved.project != job.project for moved, _ in decision.moved):
                    held.assert_within_share(job, decision.claim.pool)

    simulate(scenario, watch)


@given(worlds())
def test_a_move_makes_room_for_the_job_that_waits(scenario: Scenario) -> None:
    """Nothing moves unless the waiting job then fits into the pool whose slots it claims."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        pools = {pool.name: pool for pool in snapshot.pools}
        for decision in planned.decisions:
            if isinstance(decision, Move):
                pool, moved = decision.claim.pool, [job.name for job, _ in decision.moved]
                assert moved and {job.attempt.pool for job, _ in decision.moved} == {pool}
                stay = [
                    job.demand
                    for job in snapshot.active
                    if job.attempt.pool == pool and job.state is not JobState.STOPPING
                    if job.name not in moved
                ]
                needed = sum(stay, decision.beneficiary.demand)
                assert needed.within(pools[pool].capacity), (pool, now)
                assert decision.claim.amount == decision.beneficiary.demand

    simulate(scenario, watch)


@given(worlds())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(snapshot, now) == planned == plan_from_first_jobs(snapshot, now)

    simulate(scenario, watch)


class Held:
    """What each project and department holds, by scope, as the decisions of one plan come."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self._accounts = PlanState(snapshot, now, Budgets(snapshot, now)).accounts
        self._held: Counter[tuple[str, str]] = Counter()
        for job in snapshot.active:
            if job.state is not JobState.STOPPING:
                self._add(job, job.attempt.pool)
        for job in (*snapshot.active, *snapshot.waiting):
            if job.claim:
                self._add(job, job.claim.pool)

    def count(self, decision: object) -> None:
        match decision:
            case StartGang(starts=starts):
                for start in starts:
                    self.count(start)
            case Start(job=job, pool=pool):
                self._begin(job, pool)
            case Evict(beneficiary=job, victims=victims, claim=claim, along=along):
                for victim in victims:
                    self._add(victim, victim.attempt.pool, -1)
                for member, owed in ((job, claim), *along):
                    self._begin(member, owed.pool)
            case Move(beneficiary=job, moved=moved, claim=claim):
                for moving, owed in moved:
                    self._add(moving, moving.attempt.pool, -1)
                    self._add(moving, owed.pool)
                self._begin(job, claim.pool)

    def assert_within_share(self, job: Job, pool: str) -> None:
        for account in self._accounts.of(job, pool):
            held = self._held[account.key, self._accounts.scopes.of(pool)]
            assert held <= account.share.slots, (account.key, held, account.share)

    def _begin(self, job: Job, pool: str) -> None:
        if job.claim:
            self._add(job, job.claim.pool, -1)
        self._add(job, pool)

    def _add(self, job: Job, pool: str, times: int = 1) -> None:
        for account in self._accounts.of(job, pool):
            self._held[account.key, self._accounts.scopes.of(pool)] += times * job.demand.slots


@given(worlds())
def test_capacity_and_limits_always_hold(scenario: Scenario) -> None:
    limits = {each.name: each.limit for each in scenario.projects if isinstance(each.limit, int)}

    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        for pool in snapshot.pools:
            used = sum((j.demand for j in snapshot.active if j.attempt.pool == pool.name), Demand())
            assert used.within(pool.capacity), (pool.name, now)
        for name, limit in limits.items():
            held = sum(job.demand.slots for job in snapshot.active if job.project == name)
            assert held <= limit, (name, now)

    simulate(scenario, watch)
