"""Gangs on random scenarios run whole or not at all, and everything that can end does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import GroupSpec, JobSpec, PoolSpec
from slotq_core.admission.groups import check_gang
from slotq_core.errors import NeverFits
from slotq_core.model.jobs import TERMINAL_STATES, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Plan, Start, StartGang
from slotq_core.policy.state.groups.gangs import LiveGang, gangs
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain

S = JobState
POOLS = ("p", "q", "r")


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """One to three pools; gangs of two or three, with and without a member that ends them and a
    heartbeat, among single jobs, of which one may come after a gang."""
    names = POOLS[: draw(st.integers(1, 3))]
    groups, jobs = [], []
    for g in range(draw(st.integers(1, 3))):
        members = [f"g{g}m{i}" for i in range(draw(st.integers(2, 3)))]
        groups.append(
            GroupSpec(
                name=f"g{g}",
                min_members=draw(st.sampled_from([None, None, 1, 2])),
                mandatory=draw(st.sampled_from([(), (), tuple(members[:1])])),
                same_pool=draw(st.sampled_from([False, False, True])),
                ends_with=draw(st.sampled_from([None, None, *members])),
                heartbeat_seconds=draw(st.sampled_from([None, 5, 12])),
            )
        )
        jobs += [draw(_job(name, names, f"g{g}")) for name in members]
    if draw(st.booleans()):
        last = draw(_job("last", names, None))
        key = draw(st.sampled_from(["after", "after_any"]))
        jobs.append(last.model_copy(update={key: ("group:g0",), "submit_at": 20_000}))
    jobs += [draw(_job(f"j{i}", names, None)) for i in range(draw(st.integers(0, 5)))]
    pools = [
        PoolSpec(
            name=name,
            capacity=draw(st.integers(1, 4)),
            stop_seconds=draw(st.sampled_from([0, 3])),
            reserve_after=draw(st.sampled_from([None, None, 0, 20])),
        )
        for name in names
    ]
    return Scenario(pools=pools, groups=groups, jobs=jobs)


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
            "preemptible": draw(st.sampled_from([True, True, False])),
            "cancel_at": draw(st.sampled_from([None, None, None, None, 7, 30])),
            "silent_from": draw(st.sampled_from([None, None, None, 4, 20])) if group else None,
            "retries": draw(st.sampled_from([0, 0, 1])),
        }
    )


def _live(gang: LiveGang) -> set[str]:
    return {job.name for job in gang.active if job.state is not S.STOPPING}


@given(worlds())
def test_a_gang_starts_whole_and_never_runs_in_part(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        here = gangs(snapshot)
        for decision in planned.decisions:
            match decision:
                case StartGang(group=group, starts=starts):
                    assert here[group].enough(start.job.name for start in starts)
                    pools = {start.pool for start in starts}
                    assert len(pools) == 1 or not here[group].group.same_pool
                case Start(job=job) if job.group:
                    assert here[job.group].runs, f"{job.name} starts without its gang"
                case Evict(victims=victims):
                    for group in {victim.group for victim in victims if victim.group}:
                        assert _live(here[group]) <= {victim.name for victim in victims}
        if not planned.decisions:
            for gang in here.values():
                live = _live(gang)
                assert not live or gang.broken or gang.enough(live)

    simulate(scenario, watch)


@given(worlds())
def test_every_job_ends(scenario: Scenario) -> None:
    record = simulate(scenario)
    last = {name: states[-1][1] for name, states in record.states.items()}
    ends = {name: S.CANCELLED if end == "refused" else S(end) for name, end in last.items()}
    silent = {job.name for job in scenario.jobs if job.silent_from is not None}
    first = [job.name for job in scenario.jobs if job.group == "g0"]
    for name, end in ends.items():
        fails = end is S.FAILED and name in silent
        awaits = name == "last" and any(ends[each] not in TERMINAL_STATES for each in first)
        ended = end in {S.COMPLETED, S.CANCELLED} or fails or awaits
        assert ended or _too_large(scenario, ends, name), name


def _too_large(scenario: Scenario, ends: Mapping[str, JobState], name: str) -> bool:
    """Whether the gang's members left after a cancel are too many for the pools. They wait for
    larger pools, as a job does whose pool has shrunk."""
    of = {job.name: job.group for job in scenario.jobs}
    groups = {group.name: group for group in scenario.configuration().groups}
    group = groups.get(of[name] or "")
    if group is None:
        return False
    its = {member: end for member, end in ends.items() if of[member] == group.name}
    ended = {member: end for member, end in its.items() if end in TERMINAL_STATES}
    left = [job for job in scenario.jobs if job.name in its.keys() - ended.keys()]
    try:
        members = {"": [scenario.submission(job) for job in left]}
        check_gang(replace(group, ended=ended), members, scenario.configuration().pools)
    except NeverFits:
        return S.CANCELLED in ended.values()
    return False


@given(worlds())
def test_a_gang_that_evicts_starts(scenario: Scenario) -> None:
    owed: dict[str, int] = {}

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        for decision in planned.decisions:
            if isinstance(decision, Evict):
                for job in (decision.beneficiary, *(each for each, _ in decision.along)):
                    owed[job.name] = now

    record = simulate(scenario, watch)
    cancelled = {spec.name for spec in scenario.jobs if spec.cancel_at is not None}
    gone = {spec.group for spec in scenario.jobs if spec.name in cancelled and spec.group}
    for name, at in owed.items():
        spec = next(each for each in scenario.jobs if each.name == name)
        if name in cancelled or spec.group in gone:
            continue
        assert any(started >= at for started in record.started(name)), name


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_the_lists_does_not_matter(scenario: Scenario, rng: object) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        waiting, active = list(snapshot.waiting), list(snapshot.active)
        rng.shuffle(waiting)  # type: ignore[attr-defined]
        rng.shuffle(active)  # type: ignore[attr-defined]
        shuffled = Snapshot(
            pools=snapshot.pools,
            active=tuple(active),
            waiting=tuple(waiting),
            groups=tuple(reversed(snapshot.groups)),
        )
        assert plan(shuffled, now) == planned

    simulate(scenario, watch)


@given(worlds())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(snapshot, now) == planned == plan_from_first_jobs(snapshot, now)

    simulate(scenario, watch)


@given(worlds())
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []
