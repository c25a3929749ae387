"""Elastic gangs on random scenarios: the core stays whole, and members come and go in order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from operator import attrgetter

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import GroupSpec, JobSpec, PoolSpec
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import TERMINAL_STATES, Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.victim_search import better
from slotq_core.policy.actions.victims import Eviction, one_by_one
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Plan, Start, StartGang
from slotq_core.policy.state.candidates import Candidate, candidate_of
from slotq_core.policy.state.groups.elastic import ElasticGang
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.budgets import Budgets
from slotq_core.wire.document.sections import ProjectSection
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain
from tests.property.test_victims import NOW, POOL, ROOM, demands, lacks_of, running

S = JobState


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """One or two pools, with and without projects; one or two elastic gangs among single jobs that
    may evict their members. Only the gangs' members may be of different sizes."""
    names = ("p", "q")[: draw(st.integers(1, 2))]
    owners = ("a", "b") if draw(st.booleans()) else ("",)
    kinds = st.sampled_from([True, True, False, *(["semi"] if owners[0] else [])])
    groups, jobs = [], []
    for g in range(draw(st.integers(1, 2))):
        members = [f"g{g}m{i}" for i in range(draw(st.integers(2, 5)))]
        groups.append(
            GroupSpec(
                name=f"g{g}",
                min_members=draw(st.integers(1, len(members) - 1)),
                mandatory=draw(st.sampled_from([(), (), tuple(members[-1:])])),
                elastic=draw(st.sampled_from([True, True, True, False])),
            )
        )
        shared = {
            "preemptible": draw(kinds),
            "project": draw(st.sampled_from(owners)) or None,
            "priority": draw(st.sampled_from([0, 0, 1])),
            "runtime": draw(st.sampled_from([25, 60])),
        }
        jobs += [draw(_job(name, names, group=f"g{g}", **shared)) for name in members]
    for i in range(draw(st.integers(2, 6))):
        project = draw(st.sampled_from(owners)) or None
        at = draw(st.sampled_from([0, 5, 9, 20, 21]))
        job = _job(f"j{i}", names, project=project, preemptible=draw(kinds), submit_at=at)
        jobs.append(draw(job))
    pools = [
        PoolSpec(
            name=name,
            capacity=draw(st.integers(2, 6)),
            stop_seconds=draw(st.sampled_from([0, 3])),
            start_seconds=draw(st.sampled_from([0, 0, 2])),
            min_runtime=draw(st.sampled_from([0, 0, 6])),
            reserve_after=draw(st.sampled_from([None, None, 0, 20])),
        )
        for name in names
    ]
    projects = [ProjectSection(name=name, quota=draw(st.integers(0, 4))) for name in owners if name]
    return Scenario(pools=pools, groups=groups, jobs=jobs, projects=projects)


@st.composite
def _job(draw: st.DrawFn, name: str, pools: tuple[str, ...], **settings: object) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": name,
            "submit_at": draw(st.sampled_from([0, 0, 0, 5])),
            "priority": draw(st.integers(0, 2)),
            "slots": draw(st.sampled_from([1, 1, 1, 2])),
            "pools": draw(st.lists(st.sampled_from(pools), min_size=1, unique=True)),
            "runtime": draw(st.sampled_from([10, 25, 60])),
            "cancel_at": draw(st.sampled_from([None, None, None, None, 7, 30])),
            **settings,
        }
    )


def _live(snapshot: Snapshot, group: Group) -> list[Job]:
    return [
        job for job in snapshot.active if job.group == group.name and job.state is not S.STOPPING
    ]


def _least(group: Group) -> int:
    done = sum(state is S.COMPLETED for state in group.ended.values())
    return max(1, (group.min_members or 0) - done)


def _core(snapshot: Snapshot, group: Group) -> set[str]:
    """By the rule's own words: who is mandatory, then who joined first."""
    live, core = _live(snapshot, group), set[str]()
    rest = sorted(live, key=lambda job: (_joined(job), job.demand.slots, _place(job)))
    core |= {job.name for job in live if job.name in group.mandatory}
    for job in rest:
        if len(core) < _least(group):
            core.add(job.name)
    return core


def _joined(job: Job) -> int:
    assert job.attempt is not None
    return job.attempt.admitted_at


def _place(job: Job) -> tuple[int, int, str]:
    return (-job.priority, job.entry_time, job.name)


def _evicted(snapshot: Snapshot, planned: Plan) -> Iterator[tuple[Group, set[str], list[Job]]]:
    """The members of a gang that each eviction stops, and those that are live before it."""
    stopped: set[str] = set()
    for decision in planned.decisions:
        if isinstance(decision, Evict):
            names = {victim.name for victim in decision.victims}
            for group in snapshot.groups:
                live = [job for job in _live(snapshot, group) if job.name not in stopped]
                if gone := names & {job.name for job in live}:
                    yield group, gone, live
            stopped |= names


@given(worlds())
def test_the_core_goes_whole_or_stays_whole(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        for group, gone, jobs in _evicted(snapshot, planned):
            live = {job.name for job in jobs}
            assert gone == live or (group.elastic and not gone & _core(snapshot, group))
            left = live - gone
            assert not left or len(left) >= min(_least(group), len(live))

    simulate(scenario, watch)


@given(worlds())
def test_the_last_joined_goes_first(scenario: Scenario) -> None:
    """Of members of one size, once their starts are known and no `min_runtime` protects any."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        safe = any(pool.min_runtime for pool in snapshot.pools)
        for group, gone, live in () if safe else _evicted(snapshot, planned):
            extras = [job for job in live if job.name not in _core(snapshot, group)]
            if {*gone} == {job.name for job in live} or len({j.demand.slots for j in live}) > 1:
                continue
            extras.sort(key=lambda job: (-_joined(job), -job.entry_time))
            goes = [_joined(job) for job in extras if job.name in gone]
            assert goes == [_joined(job) for job in extras[: len(gone)]]

    simulate(scenario, watch)


@given(worlds())
def test_no_member_goes_and_comes_in_one_moment(scenario: Scenario) -> None:
    """A gang evicted whole may come back smaller at once."""
    gone: dict[str, int] = {}

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        for group, names, live in _evicted(snapshot, planned):
            if group.elastic and names != {job.name for job in live}:
                gone.update(dict.fromkeys(names, now))
        for decision in planned.decisions:
            starts = decision.starts if isinstance(decision, StartGang) else (decision,)
            for start in starts:
                if isinstance(start, Start):
                    assert gone.get(start.job.name) != now, start.job.name

    simulate(scenario, watch)


@given(worlds())
def test_all_that_runs_of_a_gang_runs_in_one_pool(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        for group in snapshot.groups:
            pools = {job.attempt.pool for job in _live(snapshot, group) if job.attempt}
            assert len(pools) <= 1 or not group.elastic

    simulate(scenario, watch)


@given(worlds())
def test_what_is_never_evicted_stays_within_its_quota(scenario: Scenario) -> None:
    """Of gangs that are not preemptible, the core."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        for project in snapshot.projects:
            held = fixed_of(snapshot, project.name)
            assert held.slots <= sum(amount.slots for amount in project.quota.values())

    def fixed_of(snapshot: Snapshot, project: str) -> Demand:
        spared = {
            job.name
            for group in snapshot.groups
            if group.elastic
            for job in _live(snapshot, group)
            if job.name not in _core(snapshot, group)
        }
        held = [
            job.demand
            for job in snapshot.active
            if job.project == project and job.preemptible is False and job.name not in spared
            if job.state is not S.STOPPING
        ]
        return Demand.total(held)

    if not any(job.cancel_at is not None for job in scenario.jobs if job.group):
        simulate(scenario, watch)  # Who takes a lost member's place in the core is not asked.


@given(worlds())
def test_no_place_in_the_core_protects_more_than_the_quota(scenario: Scenario) -> None:
    """Also after members have ended, or were cancelled, and others have taken their places."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        may_evict = PlanState(snapshot, now, Budgets(snapshot, now)).may_evict
        for project in snapshot.projects:
            safe = [
                job.demand.slots
                for job in snapshot.active
                if job.project == project.name and job.preemptible is False
                if job.state is not S.STOPPING and not may_evict(job)
            ]
            assert sum(safe) <= sum(amount.slots for amount in project.quota.values()), now

    simulate(scenario, watch)


@given(worlds())
def test_every_job_ends(scenario: Scenario) -> None:
    record = simulate(scenario)
    fixed = {job.name for job in scenario.jobs if job.project and job.preemptible is False}
    for name, states in record.states.items():
        end = states[-1][1]
        if end not in {"refused", *map(str, TERMINAL_STATES)}:
            (job,) = (job for job in scenario.jobs if job.name == name)
            members = {
                each.name for each in scenario.jobs if each.group == job.group or each is job
            }
            assert members & fixed or _lacks_members(scenario, job), name


def _lacks_members(scenario: Scenario, job: JobSpec) -> bool:
    """Whether the job's gang waits for larger pools, after a cancel has left too large ones."""
    mine = [each for each in scenario.jobs if job.group and each.group == job.group]
    return any(each.cancel_at is not None for each in mine)


@given(worlds())
def test_nothing_starts_in_vain(scenario: Scenario) -> None:
    simulate(scenario, nobody_starts_in_vain())


@given(worlds(), st.randoms(use_true_random=False))
def test_the_plan_is_the_same_in_any_order_and_from_the_heads(
    scenario: Scenario, rng: random.Random
) -> None:
    from dataclasses import replace

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        waiting, active = list(snapshot.waiting), list(snapshot.active)
        rng.shuffle(waiting)
        rng.shuffle(active)
        shuffled = replace(snapshot, active=tuple(active), waiting=tuple(waiting))
        assert plan(shuffled, now) == planned == plan_from_first_jobs(snapshot, now)

    simulate(scenario, watch)


@given(worlds())
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []


@st.composite
def gangs_among_jobs(draw: st.DrawFn) -> list[Candidate]:
    """Single jobs and elastic gangs of one size of members, as candidates in their order."""
    starts, found = {POOL.name: draw(st.sampled_from([0, 0, 1, 4]))}, []
    for number in range(draw(st.integers(0, 3))):
        job = running(
            f"j{number}",
            priority=draw(st.integers(0, 2)),
            demand=Demand(slots=draw(st.integers(1, 3))),
            since=NOW - draw(st.integers(0, 9)),
        )
        found.append(candidate_of([(job, POOL.name)], job.name, NOW, starts=starts))
    for number in range(draw(st.integers(1, 2))):
        size, priority = draw(st.integers(1, 2)), draw(st.integers(0, 2))
        members = [
            running(
                f"g{number}m{i}",
                priority=priority,
                demand=Demand(slots=size),
                since=NOW - draw(st.integers(0, 9)),
            )
            for i in range(draw(st.integers(2, 4)))
        ]
        group = Group(
            name=f"g{number}",
            members=tuple(job.name for job in members),
            min_members=draw(st.integers(1, len(members) - 1)),
            elastic=True,
        )
        gang = ElasticGang(LiveGang(group=group, waiting=(), active=tuple(members)), NOW, starts)
        for job in members:
            gang.add(job, POOL.name, 0)
        found += dict.fromkeys(map(gang.with_member, members))
    return sorted(found, key=attrgetter("order"))


@given(gangs_among_jobs(), demands)
def test_no_other_set_does_less_harm(candidates: list[Candidate], missing: Demand) -> None:
    """Among the sets in which members go from the last joined on, and a core never alone."""
    missing = Demand(slots=missing.slots)
    shortfalls, base = lacks_of(missing), candidates[0].rank

    def is_allowed(some: tuple[Candidate, ...]) -> bool:
        for candidate in candidates:
            if candidate.extras and candidate in some and not {*candidate.extras} <= {*some}:
                return False
            if candidate.joined and candidate in some:
                its = [c for core in candidates if candidate in core.extras for c in core.extras]
                later = [c for c in its if c.order < candidate.order]
                if not {*later} <= {*some}:
                    return False
        return True

    def harm(some: tuple[Candidate, ...]) -> tuple[object, ...]:
        return Eviction(room=ROOM, victims=some).harm(base)

    enough = [
        some
        for count in range(len(candidates) + 1)
        for some in combinations(candidates, count)
        if is_allowed(some)
        if missing.within(sum((each.frees(POOL.name) for each in some), Demand()))
    ]
    chosen = one_by_one(candidates, shortfalls)
    assert (chosen is None) == (not enough)
    if chosen is not None:
        found = better(chosen, candidates, shortfalls, base)
        assert tuple(sorted(found, key=attrgetter("order"))) in enough
        assert harm(found) <= harm(chosen)
        most = sum(candidate.joined < 0 for candidate in chosen)
        fewer = [some for some in enough if sum(c.joined < 0 for c in some) <= most]
        assert harm(found) == min(map(harm, [*fewer, found]))
