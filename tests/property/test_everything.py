"""All parts of the policy at once, on random scenarios: projects, users, gangs, sweeps, slices,
moves.

Other files have the properties of each rule; here the rules meet.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.reasons import BehindInLine, SweepLimit
from slotq_core.model.reasons.outlook import Outlook
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.status import why
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import Line, by_user
from slotq_core.policy.plan import Evict, Move, Plan
from slotq_core.policy.state.groups.gangs import gangs
from slotq_core.ports.stored import Ahead
from slotq_core.wire.views.jobs import reason_view
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain, stopped

POOLS = ("p", "q")
USERS = ("ann", "bob", "")
UNTIL = 400


PROJECTS: list[list[dict]] = [
    [],
    [{"name": "a", "quota": 2, "weight": 1}, {"name": "b", "quota": 1, "weight": 3}],
    [
        {"name": "a", "quota": 1, "department": "d"},
        {"name": "b", "quota": 2, "department": "d", "priority": 1},
        {"name": "c", "quota": 2, "limit": 3},
    ],
]
WIDE = {"name": "wide", "submit_at": 0, "parts": {"p": 1, "q": 1}, "runtime": 30, "priority": 1}
AFTER = {"name": "last", "submit_at": 0, "after": ["j0"], "runtime": 10, "priority": 2}


@st.composite
def worlds(draw: st.DrawFn, *, live: bool = False) -> Scenario:
    """Two pools; two or three projects, with or without a department; users with and without
    limits; a gang, a sweep and single jobs. `live`: without what the queue itself does not support
    yet."""
    pools = [_pool(draw, name) for name in POOLS]
    projects = draw(st.sampled_from(PROJECTS))
    owners = [str(each["name"]) for each in projects]
    jobs = _jobs(draw, owners, live=live)
    return Scenario.model_validate(
        {
            "pools": pools,
            "projects": projects,
            "departments": [{"name": "d", "limit": 4}] if "c" in owners else [],
            "users": draw(st.sampled_from([[], [{"name": "ann", "limits": {"p": {"NORMAL": 2}}}]])),
            "groups": [
                {"name": "gang", "min_members": draw(st.sampled_from([None, 2]))},
                {"name": "sweep", "max_parallel": draw(st.integers(1, 2))},
            ],
            "jobs": jobs,
            "until": UNTIL,
        }
    )


def _pool(draw: st.DrawFn, name: str) -> dict:
    return {
        "name": name,
        "capacity": draw(st.integers(2, 5)),
        "stop_seconds": draw(st.sampled_from([0, 3])),
        "start_seconds": draw(st.sampled_from([0, 0, 4, 12])),
        "reserve_after": draw(st.sampled_from([None, None, 0, 40])),
        "min_runtime": draw(st.sampled_from([0, 0, 25, "auto"])),
        "time_slice": draw(st.sampled_from([None, None, 30])),
        "consolidate": draw(st.booleans()),
    }


def _jobs(draw: st.DrawFn, owners: list[str], *, live: bool) -> list[dict]:
    """The members of the gang, all of one project; those of the sweep; single jobs."""
    common = draw(st.sampled_from(owners)) if owners else None
    members = [
        draw(_job(f"g{i}", [common] if common else [], group="gang"))
        for i in range(draw(st.integers(2, 3)))
    ]
    sweep = [draw(_job(f"s{i}", owners, group="sweep")) for i in range(draw(st.integers(1, 3)))]
    singles = [draw(_job(f"j{i}", owners)) for i in range(draw(st.integers(2, 6)))]
    extra = [] if live else [{**each, "project": common} for each in (WIDE, AFTER)]
    return [*members, *sweep, *singles, *extra]


@st.composite
def _job(draw: st.DrawFn, name: str, projects: list[str], group: str | None = None) -> dict:
    return {
        "name": name,
        "group": group,
        "project": draw(st.sampled_from(projects)) if projects else None,
        "user": draw(st.sampled_from(USERS)),
        "priority": draw(st.sampled_from([10, 10, 20, 0, "AUTO"])),
        "slots": draw(st.sampled_from([1, 1, 2])),
        "pools": draw(st.lists(st.sampled_from(POOLS), min_size=1, unique=True)),
        "runtime": draw(st.sampled_from([15, 40, 90])),
        "preemptible": draw(st.sampled_from([True, True, "semi", False])),
        "submit_at": draw(st.sampled_from([0, 0, 10, 35])),
        "cancel_at": draw(st.sampled_from([None, None, None, None, 20])),
    }


@given(worlds())
def test_bounds_hold_and_no_cycle_occurs(scenario: Scenario) -> None:
    seen: dict[object, int] = {}
    limits = {project.name: project.limit for project in scenario.projects}

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        used: Counter[str] = Counter()
        for job in snapshot.active:
            assert job.attempt is not None
            for where, demand in job.parts or ((job.attempt.pool, job.demand),):
                used[where] += demand.slots
        for pool in snapshot.pools:
            assert used[pool.name] <= pool.capacity.slots
        for name, limit in limits.items():
            held = sum(job.demand.slots for job in snapshot.active if job.project == name)
            assert not isinstance(limit, int) or held <= limit
        sweep = [job for job in snapshot.active if job.group == "sweep"]
        (most,) = (group.max_parallel for group in scenario.groups if group.max_parallel)
        assert len(sweep) <= most
        victims = frozenset(
            victim.name
            for decision in planned.decisions
            if isinstance(decision, Evict | Move)
            for victim in stopped(decision)
        )
        if victims:
            holders = frozenset(
                (j.name, j.state, j.attempt and j.attempt.pool) for j in snapshot.active
            )
            state = (now, holders, frozenset(job.name for job in snapshot.waiting))
            assert state not in seen, f"the same eviction twice at {now}"
            seen[state] = now
            assert all(job.evictable for job in snapshot.active if job.name in victims)

    record = simulate(scenario, watch)
    assert len(record.events) < 1_500


@given(worlds())
def test_the_next_plan_of_a_moment_evicts_no_job_just_started(
    scenario: Scenario,
) -> None:
    simulate(scenario, nobody_starts_in_vain())


@given(worlds())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(scenario: Scenario) -> None:
    """A simulation plans from the heads and compares each plan with one from everything."""

    def watch(everything: Snapshot, planned: Plan, now: int) -> None:
        from_all, asking = plan(everything, now), plan_from_first_jobs(everything, now)
        assert from_all.decisions == planned.decisions == asking.decisions

    simulate(scenario, watch)


@given(worlds())
def test_a_non_preemptible_job_is_never_evicted(scenario: Scenario) -> None:
    """Not for any job. Its own gang may roll back if it cannot be whole (docs/policy.md)."""

    def watch(_snapshot: Snapshot, planned: Plan, _now: int) -> None:
        for decision in planned.decisions:
            if isinstance(decision, Evict | Move):
                assert all(victim.preemptible for victim in stopped(decision))

    simulate(scenario, watch)


@given(worlds())
def test_every_waiting_job_can_be_explained_without_changing_the_plan(
    scenario: Scenario,
) -> None:
    """Promise 10. At rest the outlook lists every holder of slots in the job's pools, or says that
    it needs none of their slots. No known time is before the one that the plan names."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        if planned.decisions or any(job.state is JobState.STARTING for job in snapshot.active):
            return
        unasked = plan(snapshot, now)
        for job in snapshot.waiting[:3]:
            asked = plan(snapshot, now, asked=job)
            assert replace(asked, outlook=None) == unasked
            reason = why(job, asked, Ahead(jobs=0))
            assert reason is not None and reason.sentence(), job.name
            if asked.outlook is None:
                continue
            _check(asked.outlook, snapshot)
            earliest = asked.outlook.earliest
            assert earliest is None or (asked.wake_at or earliest + 1) <= earliest, job.name

    simulate(scenario, watch)


@given(worlds())
def test_every_job_behind_others_names_the_head_of_its_line(scenario: Scenario) -> None:
    """Promise 10. In a settled world each waiting job has a reason of its own, a limit's that keeps
    it back whatever its place, or that of the first job of its line, which waits as well."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        if planned.decisions:
            return
        whole, apart = plan(snapshot, now), by_user(snapshot)
        lines = {job.name: Line.of(job, by_user=apart) for job in snapshot.waiting}
        sweeps = {each.name for each in snapshot.groups if each.max_parallel is not None}
        for job in snapshot.waiting:
            reason = why(job, whole, Ahead(jobs=0))
            assert reason is not None
            assert reason_view(reason).text == reason.text()
            if isinstance(reason, BehindInLine) and not reason.head:
                # Its gang holds coming slots for as many members as it needs, without this one.
                assert job.group in gangs(snapshot)
            elif isinstance(reason, BehindInLine):
                assert lines[reason.head] == lines[job.name]
                assert reason.head_waits == whole.reasons[reason.head]
                assert reason.head_waits.code not in {"sweep_limit", "job_limit_reached"}
            if isinstance(reason, SweepLimit):
                assert job.group == reason.group in sweeps

    simulate(scenario, watch)


def _check(outlook: Outlook, snapshot: Snapshot) -> None:
    every = (*outlook.rooms, *outlook.spared, *outlook.reserved, *outlook.times)
    assert all(each.sentence() for each in every)
    pools = {each.pool for each in outlook.spared}
    for pool in pools:
        told = sum(each.slots for each in outlook.spared if each.pool == pool)
        held = [demand for job in snapshot.active for where, demand in _held(job) if where == pool]
        assert told == sum(demand.slots for demand in held), pool


def _held(job: Job) -> Iterable[tuple[str, Demand]]:
    assert job.attempt is not None
    return job.parts or [(job.attempt.pool, job.demand)]


@given(worlds())
def test_the_gang_is_whole_at_rest(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        gang = gangs(snapshot)["gang"]
        live = {job.name for job in gang.active if job.state is not JobState.STOPPING}
        if live and not planned.decisions:
            assert gang.broken or gang.enough(live), now

    simulate(scenario, watch)


@given(worlds(), st.randoms(use_true_random=False))
def test_the_same_world_in_any_order_gives_the_same_plan(
    scenario: Scenario, rng: random.Random
) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        waiting, active = list(snapshot.waiting), list(snapshot.active)
        rng.shuffle(waiting)
        rng.shuffle(active)
        shuffled = replace(
            snapshot,
            waiting=tuple(waiting),
            active=tuple(active),
            pools=tuple(reversed(snapshot.pools)),
            groups=tuple(reversed(snapshot.groups)),
            users=tuple(reversed(snapshot.users)),
        )
        assert plan(shuffled, now) == planned

    simulate(scenario, watch)


@given(worlds())
def test_no_claim_is_left_at_rest(scenario: Scenario) -> None:
    """When nothing is stopping, each beneficiary has started or given up its claim."""

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        stopping = any(job.state is JobState.STOPPING for job in snapshot.active)
        if planned.decisions or stopping:
            return
        for job in snapshot.waiting:
            assert job.claim is None, (job.name, now)

    simulate(scenario, watch)


@given(worlds(live=True))
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []
