"""The promises when running jobs may move to another pool so that a waiting job can start."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Move, Plan
from tests.property.heads import at_the_heads
from tests.property.in_vain import nobody_starts_in_vain
from tests.property.test_plan import settle
from tests.property.test_runs import decides_nothing_before_its_time
from tests.property.worlds import NOW, snapshots


@st.composite
def crowded(draw: st.DrawFn, *, cancels: bool = True, at_once: bool = True) -> Scenario:
    """Small jobs that run and accept several pools; wide ones that wait and accept one or two.

    `at_once`: a job may be evicted as soon as it has started.
    """
    names = ("p", "q", "r")[: draw(st.integers(2, 3))]
    pools: list[dict] = [
        {
            "name": name,
            "capacity": draw(st.integers(2, 4)),
            "stop_seconds": draw(st.sampled_from([0, 3, 20])),
            "min_runtime": draw(st.sampled_from([0, 0, 30] if at_once else [1, 1, 30])),
            "consolidate": draw(st.sampled_from([True, True, True, False])),
        }
        for name in names
    ]
    jobs: list[dict] = []
    room = {pool["name"]: pool["capacity"] for pool in pools}
    for number in range(draw(st.integers(1, 6))):
        accepts = draw(st.permutations(names))
        slots = draw(st.sampled_from([1, 1, 2]))
        if slots <= room[accepts[0]]:
            room[accepts[0]] -= slots
            jobs.append(
                {
                    **_job(draw, f"small{number}", slots),
                    "running_since": -draw(st.sampled_from([10, 50])),
                    "pool": accepts[0],
                    "pools": accepts,
                    "runtime": 150,
                    "preemptible": draw(st.sampled_from([True, True, True, False])),
                }
            )
    jobs += [
        {
            **_job(draw, f"wide{number}", draw(st.integers(1, 4))),
            "submit_at": draw(st.sampled_from([0, 0, 2, 25])),
            "pools": draw(st.permutations(names))[: draw(st.sampled_from([1, 1, 2]))],
            "runtime": draw(st.sampled_from([5, 40])),
            "cancel_at": draw(st.sampled_from([None, None, 4])) if cancels else None,
        }
        for number in range(draw(st.integers(1, 4)))
    ]
    return Scenario.model_validate({"pools": pools, "jobs": jobs})


def _job(draw: st.DrawFn, name: str, slots: int) -> dict:
    return {"name": name, "slots": slots, "priority": draw(st.integers(0, 2))}


worlds = crowded()


def moving(snapshot: Snapshot) -> Snapshot:
    return replace(
        snapshot, pools=tuple(replace(pool, consolidate=True) for pool in snapshot.pools)
    )


@given(worlds)
def test_every_run_ends_and_so_does_every_job(scenario: Scenario) -> None:
    """Promises 1 and 9: no two jobs move each other in turn."""
    record = simulate(scenario)
    assert len(record.events) < 1_000
    for spec in scenario.jobs:
        assert record.states[spec.name][-1][1] in {"completed", "cancelled", "refused"}


@given(worlds)
def test_no_pool_is_over_its_capacity_counting_moving_jobs(scenario: Scenario) -> None:
    """Promise 2. A moving job holds its room in the new pool from the decision on."""

    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        for pool in snapshot.pools:
            held = [job.demand for job in snapshot.active if job.attempt.pool == pool.name]
            jobs = (*snapshot.active, *snapshot.waiting)
            held += [
                job.claim.amount
                for job in jobs
                if job.claim and job.claim.moved and job.claim.pool == pool.name
            ]
            assert sum(held, Demand()).within(pool.capacity), (pool.name, now)

    simulate(scenario, watch)


@given(worlds)
def test_a_moving_job_starts_in_its_new_pool(scenario: Scenario) -> None:
    """It starts there at the moment it has stopped. Or it starts in another of its pools, if it
    would have to move again in that moment for a job that then starts there or for which others
    move out of there too. A job that outranks it may take its room in that moment, as in any later
    one: to start at once, or once others have stopped there for it."""
    record = simulate(scenario)
    pools = {spec.name: spec.pools for spec in scenario.jobs}
    ranks = {spec.name: int(spec.priority or 0) for spec in scenario.jobs}
    goes_to: dict[str, str] = {}
    stopped: dict[str, int] = {}
    for event in record.events:
        if event.event == "evict" and event.reason.startswith("moved to "):
            goes_to[event.job] = event.reason.split()[2]
        elif event.event in {"complete", "cancel"}:
            goes_to.pop(event.job, None)
        elif event.event == "stopped":
            stopped[event.job] = event.t
        elif event.event == "start" and event.job in goes_to:
            target = goes_to.pop(event.job)
            then = (each for each in record.events if each.t == stopped[event.job])
            there = [each for each in then if each.pool == target]
            assert event.pool in pools[event.job]
            if event.t == stopped[event.job]:
                came = {each.event for each in there}
                assert event.pool == target or came & {"start", "evict"}
            else:
                took = {each.job for each in there if each.event == "start"}
                took |= {each.reason.split()[-1] for each in there if each.event == "evict"}
                assert any(ranks[other] > ranks[event.job] for other in took)
    assert not goes_to


@given(worlds)
def test_a_move_lets_another_job_fit_and_harms_nobody(scenario: Scenario) -> None:
    """In one plan, moving jobs are preemptible and running, and all their new rooms are free at
    once."""

    def watch(snapshot: Snapshot, planned: Plan, _now: int) -> None:
        for decision in planned.decisions:
            if not isinstance(decision, Move):
                continue
            freed = Demand()
            for job, claim in decision.moved:
                assert job.preemptible and job.state is JobState.RUNNING
                assert claim.pool in job.pools and claim.pool != job.attempt.pool
                assert job.attempt.pool == decision.claim.pool
                freed += job.demand
            held = [j for j in snapshot.active if j.attempt.pool == decision.claim.pool]
            stay = sum((j.demand for j in held if j.state is not JobState.STOPPING), Demand())
            (pool,) = (p for p in snapshot.pools if p.name == decision.claim.pool)
            assert (stay - freed + decision.beneficiary.demand).within(pool.capacity)

    simulate(scenario, watch)


@given(crowded(cancels=False, at_once=False))
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    """No job is evicted at the moment of its start. In that moment the queue sees a created
    training job that does not run yet, and the simulator a running one."""
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []


@given(snapshots().map(moving), st.randoms(use_true_random=False))
def test_the_plan_is_the_same_in_any_order_and_from_the_heads(snapshot: Snapshot, rng) -> None:
    active, waiting = list(snapshot.active), list(at_the_heads(snapshot).waiting)
    rng.shuffle(active)
    rng.shuffle(waiting)
    heads = replace(snapshot, active=tuple(active), waiting=tuple(waiting))
    assert plan(heads, NOW) == plan(snapshot, NOW)


@given(snapshots().map(moving))
def test_planning_comes_to_rest_at_once(snapshot: Snapshot) -> None:
    """Promise 9: after as many plans as jobs wait, nothing is left to decide."""
    settle(snapshot)


@given(worlds)
def test_twenty_further_passes_decide_nothing(scenario: Scenario) -> None:
    decides_nothing_before_its_time(scenario)
