"""The promises that hold over time, on random scenarios run to their end."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Plan, Start, StartGang
from slotq_core.policy.state.candidates import protection
from tests.property.in_vain import nobody_starts_in_vain
from tests.property.worlds import scenarios


@given(scenarios())
def test_every_run_ends_and_so_does_every_job(scenario: Scenario) -> None:
    """Promises 1 and 9: nothing is lost, nothing continues for ever, and every job that could run
    has run."""
    record = simulate(scenario)
    for spec in scenario.jobs:
        assert record.states[spec.name][-1][1] in {"completed", "cancelled", "refused"}


@given(scenarios())
def test_no_pool_is_ever_over_its_capacity(scenario: Scenario) -> None:
    """Promise 2, at every moment of a run."""

    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        for pool in snapshot.pools:
            used = sum((j.demand for j in snapshot.active if j.attempt.pool == pool.name), Demand())
            assert used.within(pool.capacity), (pool.name, now)

    simulate(scenario, watch)


@given(scenarios())
def test_an_evicted_job_keeps_its_entry_time(scenario: Scenario) -> None:
    """Promise 5."""
    entered: dict[str, int] = {}

    def watch(snapshot: Snapshot, _planned: Plan, _now: int) -> None:
        for job in (*snapshot.active, *snapshot.waiting):
            assert entered.setdefault(job.name, job.entry_time) == job.entry_time

    simulate(scenario, watch)


@given(scenarios(settled=True))
def test_a_beneficiary_starts_before_its_victim(
    scenario: Scenario,
) -> None:
    """Promise 9: in a world where no job comes or goes, no eviction is useless."""
    record = simulate(scenario)
    waits_for: dict[str, str] = {}
    for event in record.events:
        if event.event == "evict":
            waits_for[event.job] = event.reason.removeprefix("evicted for ")
        elif event.event == "start":
            assert event.job not in waits_for, (
                f"{event.job} ran again before {waits_for[event.job]}"
            )
            waits_for = {v: b for v, b in waits_for.items() if b != event.job}
        elif event.event == "complete":
            waits_for.pop(event.job, None)
    assert not waits_for


@given(scenarios())
def test_no_job_is_admitted_while_one_ahead_of_it_could_have_been(scenario: Scenario) -> None:
    """Promise 4, from outside the walk: a job ahead of a starting job that still waits and accepts
    that pool does not fit into the room that was free there, except for room claimed by or given to
    others."""

    def watch(snapshot: Snapshot, planned: Plan, _now: int) -> None:
        starts = [d for d in planned.decisions if isinstance(d, Start)]
        started = {d.job.name for d in starts}
        for start in starts:
            if start.job.claim:
                continue
            free = _free(snapshot, start.pool)
            for job in snapshot.waiting:
                ahead = (-job.priority, job.entry_time, job.name) < (
                    -start.job.priority,
                    start.job.entry_time,
                    start.job.name,
                )
                if ahead and job.name not in started and start.pool in job.pools:
                    owed = _owed_to_others(snapshot, start.pool, job)
                    given = sum(
                        (
                            d.job.demand
                            for d in starts
                            if d.pool == start.pool and _ahead(d.job, job)
                        ),
                        Demand(),
                    )
                    assert not job.demand.within(free - owed - given), (job.name, start.job.name)

    simulate(scenario, watch)


@given(scenarios())
def test_planning_again_at_once_decides_nothing(scenario: Scenario) -> None:
    """Promise 9: a settled world gives no further action, and no jobs evict each other in turn."""
    last: list[Plan] = []

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(snapshot, now) == planned
        last.append(planned)
        assert len(last) < 2_000, "the queue does not come to rest"

    simulate(scenario, watch)
    assert last and not last[-1].decisions


@given(scenarios())
def test_a_plan_that_only_starts_jobs_is_the_last_of_its_moment(scenario: Scenario) -> None:
    """A pass ends after such a plan without looking again, and knows when to wake."""
    last: list[tuple[Plan, int]] = []

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        before, at = last[-1] if last else (Plan(), -1)
        if before.decisions and at == now and _only_starts(before):
            assert planned.decisions == ()
            assert planned.wake_at in {before.wake_at, *_protections_begun(snapshot, now)}
        last.append((planned, now))

    simulate(scenario, watch)


def _protections_begun(snapshot: Snapshot, now: int) -> Iterator[int | None]:
    """The ends of each `min_runtime` that has begun by now: a plan that gives a job its slots does
    not know when it will run. The next tick does."""
    pools = {pool.name: pool for pool in snapshot.pools}
    for job in snapshot.active:
        if job.attempt.running_since == now:
            yield protection(job, pools[job.attempt.pool], 0, now)[1]


def _only_starts(planned: Plan) -> bool:
    return all(isinstance(decision, Start | StartGang) for decision in planned.decisions)


def decides_nothing_before_its_time(scenario: Scenario) -> None:
    """When nothing is left to decide, twenty further passes decide nothing before the moment at
    which, by the plan, time may change something."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        starting = any(job.state is JobState.STARTING for job in snapshot.active)
        if not planned.decisions and not starting:
            until = now + 2_000_000 if planned.wake_at is None else planned.wake_at
            step = max(1, (until - now) // 20)
            for later in range(now, until, step):
                assert not plan(snapshot, later).decisions

    simulate(scenario, watch)


@given(scenarios())
def test_twenty_further_passes_decide_nothing(scenario: Scenario) -> None:
    """Promise 9: a settled world gives no further action."""
    decides_nothing_before_its_time(scenario)


@given(scenarios())
def test_no_two_jobs_evict_each_other(scenario: Scenario) -> None:
    """Promise 9: evictions go strictly down the ranks, so there are no cycles."""

    def watch(_snapshot: Snapshot, planned: Plan, _now: int) -> None:
        for decision in planned.decisions:
            if isinstance(decision, Evict):
                assert all(v.priority < decision.beneficiary.priority for v in decision.victims)

    simulate(scenario, watch)


@given(scenarios())
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    """Manager, store and training plane on the virtual clock give the same events."""
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []


def _free(snapshot: Snapshot, name: str) -> Demand:
    (pool,) = (p for p in snapshot.pools if p.name == name)
    used = (j.demand for j in snapshot.active if j.attempt.pool == name)
    return pool.capacity - pool.foreign - sum(used, Demand())


def _owed_to_others(snapshot: Snapshot, name: str, job: Job) -> Demand:
    claims = (j for j in snapshot.waiting if j.claim and j.claim.pool == name and j is not job)
    return sum((j.claim.amount for j in claims), Demand())


def _ahead(one: Job, other: Job) -> bool:
    return (-one.priority, one.entry_time, one.name) < (
        -other.priority,
        other.entry_time,
        other.name,
    )
