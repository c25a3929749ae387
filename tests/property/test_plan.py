"""The promises that a single plan must keep, on random worlds."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.model.demand import Demand
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.lines import line_of
from slotq_core.policy.order import position
from slotq_core.policy.plan import DropClaim, Evict, Plan, Start
from slotq_core.storage.order_keys import order_key
from tests.property import reference
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.reference import Decided
from tests.property.worlds import NOW, snapshots


def settle(snapshot: Snapshot) -> tuple[Decided, Snapshot]:
    """Plan and apply until nothing is left to decide, which must be soon (promise 9, stable)."""
    starts: set[tuple[str, str]] = set()
    evictions: dict[str, tuple[str, set[str]]] = {}
    pools = {pool.name: pool for pool in snapshot.pools}
    claims = sum(job.claim is not None for job in snapshot.waiting)
    for _ in range(claims + len(snapshot.waiting) + 2):  # A claim is given up in a separate plan.
        planned = plan(snapshot, NOW)
        if not planned.decisions:
            return (starts, evictions), snapshot
        more_starts, more_evictions = decided(planned)
        starts |= more_starts
        evictions |= more_evictions
        jobs = {job.name: job for job in (*snapshot.active, *snapshot.waiting)}
        for decision in planned.decisions:
            jobs |= {after.name: after for _, after in steps(decision, pools, NOW)}
        snapshot = replace(
            snapshot,
            active=tuple(job for job in jobs.values() if job.active),
            waiting=tuple(job for job in jobs.values() if job.waits),
        )
    raise AssertionError("the plan does not settle")


def decided(planned: Plan) -> Decided:
    starts = {(d.job.name, d.pool) for d in planned.decisions if isinstance(d, Start)}
    evictions = {
        d.beneficiary.name: (d.claim.pool, {v.name for v in d.victims})
        for d in planned.decisions
        if isinstance(d, Evict)
    }
    return starts, evictions


@given(snapshots())
def test_the_plan_agrees_with_the_reference(snapshot: Snapshot) -> None:
    """Promise 4, ordered: the fast walk agrees with the one that begins anew after each
    decision."""
    assert settle(snapshot)[0] == reference.decide(snapshot, NOW)


@given(snapshots())
def test_a_plan_never_goes_over_capacity(snapshot: Snapshot) -> None:
    """Promise 2."""
    used = {pool.name: pool.foreign for pool in snapshot.pools}
    for job in snapshot.active:
        used[job.attempt.pool] += job.demand
    before = dict(used)
    for decision in plan(snapshot, NOW).decisions:
        if isinstance(decision, Start):
            used[decision.pool] += decision.job.demand
    for pool in snapshot.pools:
        assert used[pool.name].within(pool.capacity) or used[pool.name] == before[pool.name]


@given(snapshots())
def test_each_job_has_at_most_one_decision(snapshot: Snapshot) -> None:
    """Promise 3: no job is started twice, evicted twice, or both in one plan."""
    touched: list[str] = []
    for decision in plan(snapshot, NOW).decisions:
        if isinstance(decision, Start):
            touched.append(decision.job.name)
        elif isinstance(decision, Evict):
            touched += [decision.beneficiary.name, *(v.name for v in decision.victims)]
    assert len(touched) == len(set(touched))


@given(snapshots())
def test_a_plan_that_gives_up_a_claim_decides_nothing_else(snapshot: Snapshot) -> None:
    kinds = {type(decision) for decision in plan(snapshot, NOW).decisions}
    assert DropClaim not in kinds or kinds == {DropClaim}


@given(snapshots())
def test_nothing_is_evicted_unless_its_beneficiary_then_fits(snapshot: Snapshot) -> None:
    """Promise 4, second half: victims rank strictly lower, and without them there is room."""
    room = {pool.name: pool.capacity - pool.foreign for pool in snapshot.pools}
    for job in snapshot.active:
        if job.state != "stopping":
            room[job.attempt.pool] -= job.demand
    for decision in plan(snapshot, NOW).decisions:
        if isinstance(decision, Start):
            room[decision.pool] -= decision.job.demand
        elif isinstance(decision, Evict):
            pool, beneficiary = decision.claim.pool, decision.beneficiary
            assert all(victim.preemptible for victim in decision.victims)
            assert all(victim.priority < beneficiary.priority for victim in decision.victims)
            room[pool] += sum((victim.demand for victim in decision.victims), Demand())
            assert beneficiary.demand.within(room[pool])
            room[pool] -= beneficiary.demand


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_same_world_in_any_order_gives_the_same_plan(
    snapshot: Snapshot, rng: random.Random
) -> None:
    """Promise 9, deterministic."""
    active, waiting = list(snapshot.active), list(snapshot.waiting)
    rng.shuffle(active)
    rng.shuffle(waiting)
    shuffled = replace(snapshot, active=tuple(active), waiting=tuple(waiting))
    assert plan(shuffled, NOW) == plan(snapshot, NOW)


@given(snapshots())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(snapshot: Snapshot) -> None:
    assert plan_from_first_jobs(snapshot, NOW) == plan(snapshot, NOW)


@given(snapshots())
def test_order_keys_sort_in_policy_order(snapshot: Snapshot) -> None:
    assert sorted(snapshot.waiting, key=order_key) == sorted(snapshot.waiting, key=position)


@given(snapshots())
def test_every_examined_waiting_job_has_a_reason(snapshot: Snapshot) -> None:
    """Promise 10: in each waiting line at least the first job is explained."""
    _, settled = settle(snapshot)
    reasons = plan(settled, NOW).reasons
    explained_lines = {line_of(job) for job in settled.waiting if job.name in reasons}
    assert {line_of(job) for job in settled.waiting} == explained_lines
    assert all(reason.sentence() for reason in reasons.values())
