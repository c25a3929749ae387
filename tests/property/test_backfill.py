"""Backfill where a pool drains never delays the drained-for job beyond its promise, whatever ends
early, is cancelled or evicted."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.jobs import Job
from slotq_core.model.reasons import Reserved
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.backfill import Backfill
from slotq_core.policy.cycle import plan
from slotq_core.policy.order import position
from slotq_core.policy.plan import Evict, Plan, Start
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain

HOUR = 3_600


@st.composite
def worlds(draw: st.DrawFn, *, projects: bool = False) -> Scenario:
    """Pools that drain at once or after a while; large jobs beside small ones, most of them with a
    bound that they do not reach."""
    names = ("p", "q")[: draw(st.sampled_from([1, 1, 2]))]
    pools = [
        {
            "name": name,
            "capacity": draw(st.integers(2, 6)),
            "stop_seconds": draw(st.sampled_from([0, 30, 300])),
            "reserve_after": draw(st.sampled_from([0, 0, 600, None])),
            "min_runtime": draw(st.sampled_from([0, 0, 0, 900])),
        }
        for name in names
    ]
    quotas = draw(st.sampled_from([(2, 0), (3, 1), (1, 2), (4, 4), (6, 1)]))
    owners = [{"name": name, "quota": quota} for name, quota in zip("ab", quotas, strict=True)]
    jobs = [
        draw(_job(f"j{number}", names, ["a", "b"] if projects else []))
        for number in range(draw(st.integers(3, 12)))
    ]
    return Scenario.model_validate(
        {"pools": pools, "projects": owners if projects else [], "jobs": jobs, "until": 60 * HOUR}
    )


@st.composite
def _job(draw: st.DrawFn, name: str, pools: tuple[str, ...], projects: list[str]) -> dict:
    bounds = [HOUR, HOUR, 2 * HOUR, 5 * HOUR, 9 * HOUR]
    bound = draw(st.sampled_from(bounds if projects else [None, *bounds]))
    job = {
        "name": name,
        "priority": draw(st.sampled_from([0, 0, 0, 1, 2])),
        "slots": draw(st.sampled_from([1, 1, 1, 2, 3, 4])),
        "pools": [*pools] if draw(st.booleans()) else [draw(st.sampled_from(pools))],
        "max_runtime": bound,
        "runtime": int((bound or HOUR) * draw(st.sampled_from([0.1, 0.5, 1]))),
        "preemptible": draw(st.sampled_from([True, True, False, *["semi"] * bool(projects)])),
        "submit_at": draw(st.sampled_from([0, 0, 0, 60, 600, HOUR, 2 * HOUR])),
        "cancel_at": draw(st.sampled_from([None] * 6 + [HOUR, 3 * HOUR])),
    }
    return job | {"project": draw(st.sampled_from(projects))} if projects else job


@given(worlds())
def test_who_passes_never_delays_the_drained_for_job_beyond_its_promise(scenario: Scenario) -> None:
    keeper = Keeper()
    simulate(scenario, keeper.watch)


class Keeper:
    """The promises of one simulation. Asserts that they are kept."""

    def __init__(self) -> None:
        self.promised: dict[str, tuple[int, str]] = {}
        """By job, the earliest promise (ms) and its pool."""
        self.passed = 0
        """How many jobs have started where a pool drained for a job ahead of them."""

    def watch(self, snapshot: Snapshot, planned: Plan, now: int) -> None:
        self._check(snapshot, now)
        self._void_all(snapshot, planned, now)
        for name, why in planned.reasons.items():
            if isinstance(why, Reserved) and why.at_latest is not None:
                before = self.promised.get(name)
                at = min(why.at_latest, before[0]) if before else why.at_latest
                self.promised[name] = at, why.pool

    def _check(self, snapshot: Snapshot, now: int) -> None:
        waiting = {job.name: job for job in snapshot.waiting}
        started = {job.name: job.attempt.admitted_at for job in snapshot.active if job.attempt}
        for name, (at, _) in list(self.promised.items()):
            if name in waiting:
                assert now <= at, (name, at, now)
                continue
            del self.promised[name]
            if name in started:  # Else it was cancelled.
                assert started[name] <= at, (name, at, started[name])

    def _void_all(self, snapshot: Snapshot, planned: Plan, _now: int) -> None:
        """Make void what was promised behind the jobs that take slots now."""
        waiting = {job.name: job for job in snapshot.waiting}
        reasons = planned.reasons.items()
        drained = {why.pool: waiting[name] for name, why in reasons if isinstance(why, Reserved)}
        for start in planned.decisions:
            if isinstance(start, Start):
                ahead = drained.get(start.pool)
                behind = ahead is not None and position(start.job) > position(ahead)
                self.passed += behind and start.job.claim is None
                self._void(start.job, start.pool, waiting)
        for pool, job in drained.items():
            self._void(job, pool, waiting)

    def _void(self, job: Job, pool: str, waiting: dict[str, Job]) -> None:
        """A job ahead that takes slots of the pool, or for which it drains, makes promises void."""
        for name, (_, where) in list(self.promised.items()):
            if where == pool and name in waiting and position(job) < position(waiting[name]):
                del self.promised[name]


class KeeperBetweenProjects(Keeper):
    """Between projects the order changes with what they hold. So a job that starts is ahead if it
    would start where no job passed a drain."""

    def _void_all(self, snapshot: Snapshot, planned: Plan, now: int) -> None:
        if not self.promised:
            return
        with patch.object(Backfill, "lets_pass", lambda *_: False):
            ahead = plan(snapshot, now)
        for decision in ahead.decisions:
            if isinstance(decision, Start):
                self._forget(decision.job, decision.pool)
            elif isinstance(decision, Evict):
                self._forget(decision.beneficiary, decision.claim.pool)
        waiting = {job.name: job for job in snapshot.waiting}
        for name, why in planned.reasons.items():
            if isinstance(why, Reserved):
                self._forget(waiting[name], why.pool)

    def _forget(self, job: Job, pool: str) -> None:
        for name, (_, where) in list(self.promised.items()):
            if where == pool and name != job.name:
                del self.promised[name]


@given(worlds(projects=True))
def test_between_projects_it_is_not_delayed_either(scenario: Scenario) -> None:
    simulate(scenario, KeeperBetweenProjects().watch)


@given(worlds())
def test_the_queue_itself_passes_drains_alike(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []


@given(worlds(projects=True))
def test_with_projects_too(scenario: Scenario) -> None:
    """No job starts to be evicted, and the first jobs of lines are enough."""
    vain = nobody_starts_in_vain()

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        vain(snapshot, planned, now)
        from_all, asking = plan(snapshot, now), plan_from_first_jobs(snapshot, now)
        assert from_all.decisions == planned.decisions == asking.decisions

    assert unequal(simulate(scenario, watch), live_record(scenario)) == []
