"""Counted attempts, sweeps, dependencies and failing attempts, on random scenarios."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import GroupSpec, JobSpec, PoolSpec
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.start_attempts import interval
from slotq_core.policy.plan import EndBackoff, Evict, Plan, Start, StartGang, TryLater
from slotq_core.wire.document.sections import SchedulerSection
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain

TERMINAL = {"completed", "failed", "cancelled", "stopped", "refused"}

settings = st.builds(
    SchedulerSection,
    max_jobs=st.sampled_from([None, None, 1, 3]),
    max_schedule_count=st.sampled_from([2, 4, 10]),
    min_schedule_interval=st.sampled_from([1, 7]),
    max_schedule_interval=st.sampled_from([7, 60]),
)


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    scheduler: st.SearchStrategy[SchedulerSection] = st.just(SchedulerSection()) | settings,  # noqa: B008
    most_after: int = 2,
    grouped: bool = True,
) -> Scenario:
    """One or two pools; a sweep, a gang and single jobs, some with dependencies on earlier jobs."""
    names = ("p", "q")[: draw(st.integers(1, 2))]
    pools = [
        PoolSpec(
            name=name,
            capacity=draw(st.integers(1, 4)),
            stop_seconds=draw(st.sampled_from([0, 3])),
            reserve_after=draw(st.sampled_from([None, None, 0, 20])),
        )
        for name in names
    ]
    groups = [
        GroupSpec(name="sweep", max_parallel=draw(st.integers(1, 2))),
        GroupSpec(name="gang", min_members=draw(st.sampled_from([None, 1]))),
    ]
    jobs = [draw(_job(f"s{i}", names, "sweep")) for i in range(draw(st.integers(1, 4)))]
    jobs += [draw(_job(f"g{i}", names, "gang")) for i in range(2)]
    if not grouped:
        groups, jobs = [], [job.model_copy(update={"group": None}) for job in jobs]
    jobs += [draw(_job(f"j{i}", names, None)) for i in range(draw(st.integers(1, 5)))]
    if most_after:
        jobs = draw(_in_order(jobs, most_after))
    return Scenario(pools=pools, groups=groups, scheduler=draw(scheduler), jobs=jobs)


@st.composite
def _job(draw: st.DrawFn, name: str, pools: tuple[str, ...], group: str | None) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": name,
            "group": group,
            "submit_at": draw(st.sampled_from([0, 0, 0, 5, 20])),
            "priority": draw(st.integers(0, 2)),
            "slots": draw(st.sampled_from([1, 1, 2])),
            "pools": draw(st.lists(st.sampled_from(pools), min_size=1, unique=True)),
            "runtime": draw(st.sampled_from([10, 25, 60])),
            "checkpoint": draw(st.booleans()),
            "preemptible": draw(st.sampled_from([True, True, False])),
            "cancel_at": draw(st.sampled_from([None, None, None, None, 7, 30])),
            "retries": draw(st.integers(0, 1)),
            "fails": draw(st.lists(_failures, max_size=3)),
        }
    )


_failures = st.sampled_from([None, None, None, 4, 30, "fault", "no_capacity"])


@st.composite
def _in_order(draw: st.DrawFn, jobs: list[JobSpec], most_after: int) -> list[JobSpec]:
    """Dependencies point from right to left, so never in a circle; the gang has none. Nobody
    cancels a job in the moment in which one is cancelled that it comes after
    (docs/policy-decisions.md#tried-on-random-worlds)."""
    found = []
    for place, job in enumerate(jobs):
        before = [each.name for each in jobs[:place] if each.group != "gang"]
        some = st.lists(st.sampled_from(before), max_size=most_after, unique=True)
        names = draw(some) if before else []
        if job.group == "gang" or not draw(st.booleans()):
            found.append(job)
            continue
        at = None if job.cancel_at is None else job.cancel_at + place
        found.append(job.model_copy(update={"after": tuple(names), "cancel_at": at}))
    return found


@given(worlds())
def test_every_job_ends(scenario: Scenario) -> None:
    """All jobs are finite. A job that fits runs to its end, fails or is given up; its dependents
    are then cancelled; nothing waits for ever."""
    record = simulate(scenario)
    for job in scenario.jobs:
        assert record.states[job.name][-1][1] in TERMINAL, job.name
    assert len(record.events) < 2_000


@given(worlds(scheduler=settings))
def test_attempts_come_at_exactly_their_times(scenario: Scenario) -> None:
    """After failed attempt k the next begins min(max, min·2^(k-1)) later. Freed capacity does not
    make it earlier, and it is never later. The last failed attempt ends the job."""
    wanted = scenario.configuration().scheduler
    assert wanted is not None
    next_try: dict[str, int] = {}

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        for decision in planned.decisions:
            match decision:
                case EndBackoff(job=job) if job.cause == "not_scheduled":
                    assert now == next_try.pop(job.name)
                case TryLater(changed=changed):
                    for before, after in changed:
                        check(before, after, now)
                case Start(job=job):
                    assert job.name not in next_try
                case StartGang(starts=starts):
                    assert not {each.job.name for each in starts} & next_try.keys()

    def check(before: Job, after: Job, now: int) -> None:
        assert before.name not in next_try
        tries = after.schedule_attempts
        assert tries > before.schedule_attempts
        assert (after.state is JobState.FAILED) == (tries == wanted.max_schedule_count)
        if after.state is JobState.BACKOFF:
            next_try[after.name] = now + interval(wanted, tries)
            assert after.not_before == next_try[after.name]

    simulate(scenario, watch)


@given(worlds())
def test_concurrency_limits_always_hold(scenario: Scenario) -> None:
    """A gang counts as one in `max_jobs`. A sweep's jobs count one by one, and up to the sweep's
    own limit. Nothing is evicted for a job that could not start then."""
    limit = next(group.max_parallel or 0 for group in scenario.groups if group.name == "sweep")
    most = scenario.scheduler.max_jobs

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        groups = Counter(job.group for job in snapshot.active)
        assert groups["sweep"] <= limit
        units = {"gang" if job.group == "gang" else job.name for job in snapshot.active}
        assert most is None or len(units) <= most
        for decision in planned.decisions:
            if isinstance(decision, Evict) and decision.beneficiary.group == "sweep":
                assert groups["sweep"] < limit
            if isinstance(decision, Evict) and most is not None:
                assert len(units) < most

    simulate(scenario, watch)


@given(worlds())
def test_no_job_starts_before_its_dependencies_have_completed(scenario: Scenario) -> None:
    record = simulate(scenario)
    for job in scenario.jobs:
        for start in record.started(job.name):
            for name in job.after:
                assert record.state_at(name, start) == "completed"
        ended_badly = {record.states[name][-1][1] for name in job.after} - {"completed"}
        if ended_badly and record.states[job.name][0][1] != "refused":
            assert record.states[job.name][-1][1] == "cancelled"


@given(worlds())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(snapshot, now) == planned == plan_from_first_jobs(snapshot, now)

    simulate(scenario, watch)


@given(worlds(most_after=0))
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []


@given(worlds(scheduler=settings, grouped=False, most_after=1))
def test_the_queue_itself_counts_attempts_as_its_configuration_says(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []
