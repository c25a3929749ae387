"""What a semi-preemptible job may count on, on the worlds of other properties."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.jobs import SEMI, Job, JobState
from slotq_core.model.projects import EVERYWHERE
from slotq_core.model.reasons import QuotaExceeded
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Move, Plan
from slotq_core.policy.state.quotas.in_quota import in_quota
from tests.property.in_vain import stopped
from tests.property.test_everything import worlds as everything
from tests.property.test_projects import worlds as of_projects


def worlds() -> st.SearchStrategy[Scenario]:
    return of_projects() | everything()


def running(jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job.state is not JobState.STOPPING]


def started(job: Job) -> tuple[int, str]:
    assert job.attempt is not None
    return job.attempt.admitted_at, job.group if job.group == "gang" else job.name


def within_quota(snapshot: Snapshot) -> set[str]:
    """The semi-preemptible jobs within the quotas, in slots over all pools, counted naively: each
    together with everything that comes before it."""
    found = set()
    for project in snapshot.projects:
        quota = project.quota.get(EVERYWHERE)
        own = [job for job in running(snapshot.active) if job.project == project.name]
        fixed = sum(job.demand.slots for job in own if not job.preemptible)
        fixed += sum(
            job.demand.slots
            for job in (*snapshot.active, *snapshot.waiting)
            if job.project == project.name and job.claim and not job.preemptible
        )
        semi = [job for job in own if job.preemptible == SEMI]
        for job in semi:
            before = [other for other in semi if started(other) <= started(job)]
            held = fixed + sum(other.demand.slots for other in before)
            if quota is not None and held <= quota.slots:
                found.add(job.name)
    return found


@given(worlds())
def test_within_the_quota_no_job_is_evicted(scenario: Scenario) -> None:
    """Departments have no quotas of their own in these worlds. A gang's own members may stop it."""

    def watch(snapshot: Snapshot, planned: Plan, _now: int) -> None:
        safe = within_quota(snapshot)
        assert in_quota(snapshot) == safe
        for decision in planned.decisions:
            if isinstance(decision, Evict | Move):
                assert not safe.intersection(victim.name for victim in stopped(decision))

    simulate(scenario, watch)


@given(worlds())
def test_protection_lasts_as_long_as_the_job_runs(scenario: Scenario) -> None:
    """No start of another job takes it away."""
    protected: set[str] = set()

    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        runs = {job.name for job in running(snapshot.active)}
        lost = protected & runs - in_quota(snapshot)
        assert not lost, now
        protected.clear()
        protected.update(in_quota(snapshot))

    simulate(scenario, watch)


@given(worlds())
def test_a_job_waits_for_no_quota(scenario: Scenario) -> None:
    """A semi-preemptible job starts where, and when, a preemptible one would."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        semi = {job.name for job in snapshot.waiting if job.preemptible == SEMI}
        for name, why in planned.reasons.items():
            assert name not in semi or not isinstance(why, QuotaExceeded), (name, now)
        if any(pool.reserve_after is not None for pool in snapshot.pools):
            return  # What its quota may protect passes no drain.
        waiting = tuple(
            replace(job, preemptible=True) if job.preemptible == SEMI else job
            for job in snapshot.waiting
        )
        other = plan(replace(snapshot, waiting=waiting), now)
        assert _said(other) == _said(planned), now

    simulate(scenario, watch)


def _said(planned: Plan) -> Mapping[str, list[str]]:
    """The jobs that decisions concern, by kind."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    for decision in planned.decisions:
        job = getattr(decision, "job", None) or getattr(decision, "beneficiary", None)
        victims = stopped(decision) if isinstance(decision, Evict | Move) else ()
        names = [job.name if job else "", *(victim.name for victim in victims)]
        said[type(decision).__name__].append(" ".join(names))
    return {kind: sorted(names) for kind, names in said.items()}
