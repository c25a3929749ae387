"""The promises between users: classes, limits and turns, on random scenarios."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.jobs import JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import by_user
from slotq_core.policy.plan import Plan
from tests.property.heads import at_the_heads
from tests.property.in_vain import nobody_starts_in_vain

USERS = ("ann", "bob", "cyd")
VALUES = {"TOP": 20, "MID": 10, "LOW": 0}
UNTIL = 300


PROJECTS: list[list[dict]] = [
    [],
    [],
    [{"name": "x", "quota": 1, "limit": 2}, {"name": "y", "quota": 1, "weight": 1}],
]


@st.composite
def worlds(draw: st.DrawFn, *, slices: bool = True, timers: bool = True) -> Scenario:
    """A pool or two, three users of whom some have limits, jobs of all classes and of none.

    `timers`: whether time alone may change something, but for slices.
    """
    names = ("p", "q")[: draw(st.integers(1, 2))]
    pools = [_pool(draw, name, slices=slices, timers=timers) for name in names]
    classes = _classes(draw, timers=timers)
    limits = st.dictionaries(
        st.sampled_from(names),
        st.dictionaries(st.sampled_from(sorted(VALUES)), st.integers(0, 3)),
    )
    groups = [{"name": name, "limits": draw(limits)} for name in draw(st.sampled_from(["", "gh"]))]
    users = [
        {
            "name": name,
            "limits": draw(limits),
            "groups": draw(st.lists(st.sampled_from("gh"), unique=True)) if groups else [],
        }
        for name in USERS[: draw(st.integers(0, 3))]
    ]
    projects = draw(st.sampled_from(PROJECTS))
    owners = [str(project["name"]) for project in projects]
    jobs = [draw(_job(f"j{i}", names, owners)) for i in range(draw(st.integers(1, 8)))]
    return Scenario.model_validate(
        {
            "pools": pools,
            "classes": classes,
            "projects": projects,
            "users": users,
            "user_groups": groups,
            "jobs": jobs,
            "until": UNTIL,
        }
    )


def _pool(draw: st.DrawFn, name: str, *, slices: bool, timers: bool) -> dict:
    return {
        "name": name,
        "capacity": draw(st.integers(1, 4)),
        "stop_seconds": draw(st.sampled_from([0, 3])),
        "time_slice": draw(st.sampled_from([None, 20, 35])) if slices else None,
        "consolidate": draw(st.sampled_from([False, False, True])),
        "min_runtime": draw(st.sampled_from([0, 0, 25])) if timers else 0,
        "reserve_after": draw(st.sampled_from([None, None, 0, 30])) if timers else None,
    }


def _classes(draw: st.DrawFn, *, timers: bool) -> list[dict]:
    demote = draw(st.booleans()) and timers
    top = {"name": "TOP", "value": 20} | (
        {"demote_to": "MID", "demote_after": 30} if demote else {}
    )
    return [top, {"name": "MID", "value": 10}, {"name": "LOW", "value": 0}]


@st.composite
def _job(draw: st.DrawFn, name: str, pools: tuple[str, ...], projects: list[str]) -> dict:
    job = {
        "name": name,
        "user": draw(st.sampled_from([*USERS, *USERS, ""])),
        "priority": draw(st.sampled_from([*VALUES, "AUTO", "MID", 10, 7])),
        "slots": draw(st.sampled_from([1, 1, 2, 3])),
        "runtime": draw(st.sampled_from([None, None, 5, 60])),
        "pools": draw(st.lists(st.sampled_from(pools), min_size=1, unique=True)),
        "preemptible": draw(st.sampled_from([True, True, True, False])),
        "checkpoint": draw(st.sampled_from([True, True, True, False])),
        "submit_at": draw(st.sampled_from([-5, 0, 0, 10, 20])),
    }
    return job | ({"project": draw(st.sampled_from(projects))} if projects else {})


@given(worlds())
def test_no_user_holds_more_than_the_limits(scenario: Scenario) -> None:
    """In every committed state, stopping jobs included. Written from the text: personal limits come
    before groups', the largest of several groups counts, and a missing class is 0 if the pool has
    any limit."""
    groups = {group.name: group.limits for group in scenario.user_groups}

    def limit(name: str, pool: str, class_name: str) -> int | None:
        (user,) = (user for user in scenario.users if user.name == name)
        layers = [user.limits, *(groups[group] for group in user.groups)]
        if not any(pool in layer for layer in layers):
            return None
        personal = user.limits.get(pool, {})
        if class_name in personal:
            return personal[class_name]
        return max(
            (groups[group].get(pool, {}).get(class_name, 0) for group in user.groups), default=0
        )

    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        held: Counter[tuple[str, str, str]] = Counter()
        for job in snapshot.active:
            assert job.attempt is not None
            class_name = job.admitted_class or job.priority_class
            assert class_name != "AUTO"
            held[job.submitter, job.attempt.pool, class_name] += job.demand.slots
        for (user, pool, class_name), slots in held.items():
            most = (
                limit(user, pool, class_name) if user in {u.name for u in scenario.users} else None
            )
            assert most is None or slots <= most, (user, pool, class_name, now)

    simulate(scenario, watch)


@given(worlds(slices=False, timers=False))
def test_a_settled_world_gives_no_further_action(scenario: Scenario) -> None:
    """Promise 9: for twenty further passes, when time alone changes nothing."""
    seen: list[tuple[Snapshot, Plan, int]] = []
    simulate(scenario, lambda *each: seen.append(each))
    snapshot, planned, now = seen[-1]
    assert not planned.decisions
    if any(job.state is JobState.STOPPING for job in snapshot.active):
        return  # Ended by `until`.
    for i in range(20):
        assert not plan(snapshot, now + 60_000 * i).decisions


@given(worlds())
def test_the_queue_comes_to_rest_at_every_moment(scenario: Scenario) -> None:
    """No endless cycle within a moment, and no faster turns than the slices allow."""
    record = simulate(scenario)
    moments = Counter(event.t for event in record.events)
    assert all(count <= 8 * len(scenario.jobs) for count in moments.values())
    began: dict[str, int] = {}
    for event in record.events:
        if event.event == "start":
            began[event.job] = event.t  # Perhaps in another pool at the moment of the yield.
        elif event.event == "yield":
            (pool,) = (pool for pool in scenario.pools if pool.name == event.pool)
            assert pool.time_slice is not None
            assert event.t - began[event.job] >= pool.time_slice


@given(worlds())
def test_no_two_jobs_evict_each_other_in_turn_without_a_slice(scenario: Scenario) -> None:
    """A victim evicts the job that evicted it only when that job's slice is over or it has been
    demoted."""
    record = simulate(scenario)
    slices = {pool.name: pool.time_slice for pool in scenario.pools}
    for i, first in enumerate(record.events):
        if first.event not in ("evict", "yield"):
            continue
        winner = first.reason.split()[-1]
        for later in record.events[i + 1 :]:
            if (later.job, later.reason.split()[-1:]) != (winner, [first.job]):
                continue
            if later.event == "yield":
                assert later.t - first.t >= (slices[later.pool or ""] or 0)
            elif later.event == "evict":
                between = [e for e in record.events if first.t <= e.t <= later.t]
                assert any(e.event == "demote" and e.job == winner for e in between) or any(
                    e.event in ("complete", "submit", "yield") and e.job not in (winner, first.job)
                    for e in between
                )


@given(
    capacity=st.integers(1, 5),
    jobs=st.integers(1, 2),
    times=st.tuples(st.sampled_from([20, 50]), st.sampled_from([0, 0, 3, 25])),
    entries=st.lists(st.integers(-20, 0), min_size=6, max_size=6),
    priorities=st.sampled_from(["LOW", 7]),
)
def test_equal_users_get_equal_time_within_one_slice(
    capacity: int, jobs: int, times: tuple[int, int], entries: list[int], priorities: str | int
) -> None:
    """Three users, each with as many endless jobs: their times differ by at most one slice for each
    slot that one of them may hold at once."""
    slice_s, stop = times
    scenario = Scenario.model_validate(
        {
            "pools": [
                {
                    "name": "p",
                    "capacity": min(capacity, 3 * jobs),
                    "time_slice": slice_s,
                    "stop_seconds": stop,
                }
            ],
            "jobs": [
                {
                    "name": f"{user}{i}",
                    "user": user,
                    "priority": priorities,
                    "submit_at": entries[3 * i + n],
                }
                for i in range(jobs)
                for n, user in enumerate(USERS)
            ],
            "until": 1_500,
        }
    )
    ran = _time_of_users(simulate(scenario), 1_500_000)
    most = (slice_s + stop) * 1000 * min(capacity, jobs)
    assert max(ran.values()) - min(ran.values()) <= most, ran


def _time_of_users(record: Record, until: int) -> dict[str, int]:
    """The total running time of their jobs, without stopping time."""
    times = dict.fromkeys(USERS, 0)
    for name, states in record.states.items():
        ends = [t for t, _ in states[1:]] + [until]
        for (since, state), end in zip(states, ends, strict=True):
            if state == "running":
                times[name[:3]] += end - since
    return times


@given(worlds())
def test_the_heads_of_the_lines_give_the_same_plan_as_everything(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(at_the_heads(snapshot, by_user=by_user(snapshot)), now) == planned

    simulate(scenario, watch)


@given(worlds(), st.randoms(use_true_random=False))
def test_the_same_world_in_any_order_gives_the_same_plan(
    scenario: Scenario, rng: random.Random
) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        def shuffled(each: tuple) -> tuple:
            return tuple(rng.sample(each, len(each)))

        other = replace(
            snapshot,
            active=shuffled(snapshot.active),
            waiting=shuffled(snapshot.waiting),
            users=shuffled(snapshot.users),
            user_groups=shuffled(snapshot.user_groups),
            yields=shuffled(snapshot.yields),
        )
        assert plan(other, now) == planned

    simulate(scenario, watch)


@given(worlds())
def test_a_users_job_is_never_interrupted_for_the_users_job_of_equal_rank(
    scenario: Scenario,
) -> None:
    def watch(_snapshot: Snapshot, planned: Plan, _now: int) -> None:
        for decision in planned.decisions:
            job = getattr(decision, "beneficiary", None)
            for victim in getattr(decision, "victims", ()):
                alike = (victim.workload, victim.priority) == (job.workload, job.priority)
                assert not (job.submitter and victim.submitter == job.submitter and alike)

    simulate(scenario, watch)


@given(worlds())
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []
