"""The promises when pools have more resources than slots and change while jobs run and wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.demand import Demand
from slotq_core.model.pools import PoolState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Plan, Start
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """Two pools that may change, one with gpus too; with or without projects."""
    pools = [
        {
            "name": "p",
            "capacity": {"slots": draw(st.integers(2, 5)), "gpus": draw(st.integers(2, 8))},
            "stop_seconds": draw(st.sampled_from([0, 3])),
            "reserve_after": draw(st.sampled_from([None, None, 20])),
            "changes": draw(st.lists(_changes, max_size=3)),
        },
        {
            "name": "q",
            "capacity": draw(st.integers(1, 4)),
            "changes": draw(st.lists(_changes.filter(lambda c: "gpus" not in str(c)), max_size=2)),
        },
    ][: draw(st.integers(1, 2))]
    of_gpus = draw(st.booleans())
    projects = [
        {
            "name": name,
            "quota": _amount(draw, of_gpus=of_gpus),
            "limit": draw(st.sampled_from([None, None, 3, {"gpus": 4}])),
        }
        for name in ("a", "b", "c")[: draw(st.integers(0, 3))]
    ]
    shared = _shared(projects)
    for project in projects:
        project["weight"] = draw(st.sampled_from([None, 0, 1, 3]) | _by_resource(shared))
    names = [project["name"] for project in projects]
    shapes = [draw(_shape(names, len(pools))) for _ in range(draw(st.integers(1, 4)))]
    jobs = [
        {**draw(st.sampled_from(shapes)), "name": f"j{i}", "submit_at": draw(_moments)}
        for i in range(draw(st.integers(1, 14)))
    ]
    return Scenario.model_validate(
        {"pools": pools, "projects": projects, "jobs": jobs, "until": 2_000}
    )


_changes = st.one_of(
    st.fixed_dictionaries({"at": st.integers(1, 30), "capacity": st.integers(1, 3)}),
    st.fixed_dictionaries(
        {"at": st.integers(1, 30), "capacity": st.just({"gpus": 1})},
    ),
    st.fixed_dictionaries({"at": st.integers(1, 30), "foreign": st.integers(0, 2)}),
    st.fixed_dictionaries({"at": st.integers(1, 60), "state": st.sampled_from(list(PoolState))}),
)


def _amount(draw: st.DrawFn, *, of_gpus: bool) -> object:
    slots = draw(st.integers(0, 3))
    return {"slots": slots, "gpus": draw(st.integers(0, 4))} if of_gpus else slots


def _shared(projects: list[dict]) -> list[str]:
    """The resources of which somebody has a quota; slots if there are none."""
    quotas = [q if isinstance(q, dict) else {"slots": q} for q in (p["quota"] for p in projects)]
    return sorted({name for quota in quotas for name in quota if quota[name]}) or ["slots"]


def _by_resource(resources: list[str]) -> st.SearchStrategy:
    return st.dictionaries(st.sampled_from(resources), st.sampled_from([0, 1, 3]))


_moments = st.sampled_from([-5, 0, 0, 10, 20])


@st.composite
def _shape(draw: st.DrawFn, projects: list[str], pools: int) -> dict:
    """What several jobs have in common, so that lines become long."""
    demand = {"slots": draw(st.integers(1, 3)), "gpus": draw(st.sampled_from([0, 0, 1, 2, 4]))}
    accepted = draw(st.sampled_from([["p"], ["p", "q"], ["q"], ["q", "p"]]))
    return {
        "project": draw(st.sampled_from(projects)) if projects else None,
        "priority": draw(st.integers(0, 2)),
        "demand": demand,
        "pools": [pool for pool in accepted if pools > 1 or pool == "p"] or ["p"],
        "runtime": draw(st.sampled_from([None, 5, 40])),
        "preemptible": draw(st.sampled_from([True, True, True, False])),
    }


@given(worlds())
def test_nothing_starts_without_room_or_in_a_closed_pool(scenario: Scenario) -> None:
    """Promise 2. A pool below its use stays in use until the use has fallen."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        for pool in snapshot.pools:
            starts = [
                decision.job.demand
                for decision in planned.decisions
                if isinstance(decision, Start) and decision.pool == pool.name
            ]
            if starts:
                assert pool.state is PoolState.ACTIVE, (pool.name, now)
                free = pool.capacity - pool.foreign - _used(snapshot, pool.name)
                new = sum(starts, Demand())
                assert all(new[name] <= free[name] for name in new), (pool.name, now)

    simulate(scenario, watch)


@given(worlds())
def test_nothing_is_evicted_without_a_start(scenario: Scenario) -> None:
    """Promise 4: a beneficiary fits whole in free, coming and freed slots, without those the plan
    has given to others before."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        room = {
            pool.name: pool.capacity
            - pool.foreign
            - (_used(snapshot, pool.name) - _stopping(snapshot, pool.name))
            for pool in snapshot.pools
        }
        active = {pool.name for pool in snapshot.pools if pool.state is PoolState.ACTIVE}
        for decision in planned.decisions:
            if isinstance(decision, Start):
                room[decision.pool] -= decision.job.demand
            elif isinstance(decision, Evict):
                for victim in decision.victims:
                    room[victim.attempt.pool] += victim.demand
                need, pool = decision.beneficiary.demand, decision.claim.pool
                assert pool in active
                assert all(need[name] <= room[pool][name] for name in need), (pool, now)
                room[pool] -= need

    simulate(scenario, watch)


@given(worlds())
def test_the_queue_comes_to_rest(scenario: Scenario) -> None:
    assert len(simulate(scenario).events) < 500


@given(worlds())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(snapshot, now) == planned == plan_from_first_jobs(snapshot, now)

    simulate(scenario, watch)


@given(worlds())
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []


def _used(snapshot: Snapshot, pool: str) -> Demand:
    return sum((j.demand for j in snapshot.active if j.attempt.pool == pool), Demand())


def _stopping(snapshot: Snapshot, pool: str) -> Demand:
    stopping = (j for j in snapshot.active if j.attempt.pool == pool and j.attempt.stop)
    return sum((job.demand for job in stopping), Demand())
