"""The promises between users: classes, limits and turns, on random scenarios."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict, Move, Plan
from tests.property.first_jobs import plan_from_first_jobs
from tests.property.in_vain import nobody_starts_in_vain, stopped

USERS = ("ann", "bob", "cyd")
VALUES = {"TOP": 20, "MID": 10, "LOW": 0}
UNTIL = 300


PROJECTS: list[list[dict]] = [
    [],
    [],
    [{"name": "x", "quota": 1, "limit": 2}, {"name": "y", "quota": 1, "weight": 1}],
    [{"name": "x", "quota": 2}, {"name": "y", "quota": 1}, {"name": "z", "quota": 0}],
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
    """Without a demotion, with one, or with one after the other."""
    steps = draw(st.integers(0, 2)) if timers else 0
    lower = [{"demote_to": "MID", "demote_after": 30}, {"demote_to": "LOW", "demote_after": 20}]
    return [
        {"name": "TOP", "value": 20} | (lower[0] if steps else {}),
        {"name": "MID", "value": 10} | (lower[1] if steps > 1 else {}),
        {"name": "LOW", "value": 0},
    ]


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


@st.composite
def of_one_user(draw: st.DrawFn) -> Scenario:
    """A pool with jobs of nearly one user only, who has limits; demotions after a short time."""
    classes = [
        {"name": "TOP", "value": 20, "demote_to": "MID", "demote_after": 20},
        {"name": "MID", "value": 10, "demote_to": "LOW", "demote_after": 25},
        {"name": "LOW", "value": 0},
    ]
    projects = draw(st.sampled_from(PROJECTS))
    owners = [str(project["name"]) for project in projects]
    jobs = [
        draw(_job(f"j{number}", ("p",), owners))
        | {"user": draw(st.sampled_from(["ann", "ann", "ann", "bob"]))}
        | {"priority": draw(st.sampled_from(["TOP", "TOP", "MID", "LOW", "AUTO"]))}
        | {"slots": draw(st.sampled_from([1, 1, 1, 2]))}
        | {"runtime": draw(st.sampled_from([None, 15, 45, 70]))}
        | {"submit_at": draw(st.sampled_from([0, 0, 5, 15, 30, 50]))}
        for number in range(draw(st.integers(3, 8)))
    ]
    pool = {"capacity": draw(st.integers(2, 6)), "stop_seconds": draw(st.sampled_from([0, 3]))}
    limits = {name: draw(st.sampled_from([1, 2, 2, 3])) for name in VALUES}
    return Scenario.model_validate(
        {
            "pools": [{"name": "p", **pool}],
            "classes": classes,
            "projects": projects,
            "users": [{"name": "ann", "limits": {"p": limits}}],
            "jobs": jobs,
            "until": UNTIL,
        }
    )


@st.composite
def reclaiming(draw: st.DrawFn) -> dict:
    """Projects that take their quotas back from one that used what was idle, mostly for jobs of
    one rank."""
    early = [
        draw(_job(f"e{number}", ("p",), ["z", "z", "x"])) | {"submit_at": 0, "runtime": None}
        for number in range(draw(st.integers(2, 5)))
    ]
    late = [
        draw(_job(f"l{number}", ("p",), ["x", "y"])) | {"submit_at": draw(st.integers(5, 40))}
        for number in range(draw(st.integers(1, 4)))
    ]
    ranks = st.sampled_from(["MID", "MID", "MID", "TOP", "AUTO"])
    return {
        "pools": [{"name": "p", "capacity": draw(st.integers(2, 5)), "stop_seconds": 3}],
        "classes": [{"name": name, "value": value} for name, value in VALUES.items()],
        "projects": [
            {"name": "x", "quota": draw(st.integers(0, 2))},
            {"name": "y", "quota": draw(st.integers(0, 2))},
            {"name": "z", "quota": 0},
        ],
        "jobs": [job | {"priority": draw(ranks)} for job in (*early, *late)],
        "until": UNTIL,
    }


class Allowed:
    """What a scenario lets its users hold. Written from the text: personal limits come before
    groups', the largest of several groups counts, and a missing class is 0 if the pool has any
    limit. A demoted job counts whole in one of the classes that it has come through."""

    def __init__(self, scenario: Scenario) -> None:
        self._groups = {group.name: group.limits for group in scenario.user_groups}
        self._users = {user.name: user for user in scenario.users}
        self._lower = {each.name: each.demote_to for each in scenario.classes}

    def limit(self, name: str, pool: str, its: str) -> int | None:
        if name not in self._users:
            return None
        user = self._users[name]
        layers = [user.limits, *(self._groups[group] for group in user.groups)]
        if not any(pool in layer for layer in layers):
            return None
        personal = user.limits.get(pool, {})
        if its in personal:
            return personal[its]
        return max((self._groups[g].get(pool, {}).get(its, 0) for g in user.groups), default=0)

    def classes(self, job: Job) -> list[str]:
        found = [job.admitted_class or job.priority_class]
        while found[-1] != job.priority_class:
            found.append(self._lower[found[-1]])
        return found

    def all_fit(self, user: str, pool: str, jobs: Sequence[Job]) -> bool:
        """Whether each job can count in one of its classes, within the user's limits."""
        for way in product(*map(self.classes, jobs)):
            used: Counter[str] = Counter()
            for job, its in zip(jobs, way, strict=True):
                used[its] += job.demand.slots
            totals = {its: self.limit(user, pool, its) for its in used}
            if all(most is None or used[its] <= most for its, most in totals.items()):
                return True
        return False


def held_in(snapshot: Snapshot, pool: str) -> list[Job]:
    return [job for job in snapshot.active if job.attempt and job.attempt.pool == pool]


@given(worlds() | of_one_user())
def test_no_user_holds_more_than_the_limits(scenario: Scenario) -> None:
    """In every committed state, stopping jobs included."""
    allowed = Allowed(scenario)

    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        assert not any(job.priority_class == "AUTO" for job in snapshot.active)
        for user, pool in product(USERS, (pool.name for pool in snapshot.pools)):
            held = [job for job in held_in(snapshot, pool) if job.person == user]
            assert allowed.all_fit(user, pool, held), (user, pool, now)

    simulate(scenario, watch)


@given(worlds() | of_one_user())
def test_nobody_is_evicted_where_counting_demoted_jobs_again_is_enough(
    scenario: Scenario,
) -> None:
    """Looks at evictions for a job that has room in the pool, where nothing else keeps it back."""
    allowed = Allowed(scenario)
    bounded = {project.name for project in scenario.projects if project.limit is not None}

    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        first = planned.decisions[0] if planned.decisions else None
        if not isinstance(first, Evict) or any(job.claim for job in snapshot.waiting):
            return
        job, name = first.beneficiary, first.claim.pool
        (pool,) = (pool for pool in snapshot.pools if pool.name == name)
        held = held_in(snapshot, name)
        free = pool.capacity.slots - sum(other.demand.slots for other in held)
        stopping = any(other.state is JobState.STOPPING for other in snapshot.active)
        fixed = not job.preemptible and scenario.projects
        if job.demand.slots > free or stopping or fixed or job.project in bounded:
            return
        if pool.reserve_after is not None or job.auto:
            return
        own = [other for other in held if other.person == job.person]
        assert not allowed.all_fit(job.person, name, [*own, job]), (job.name, now)

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


@given(worlds() | of_one_user())
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


@given(worlds() | of_one_user())
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


@given(worlds() | of_one_user())
def test_a_plan_from_the_first_jobs_of_lines_is_the_plan_from_all(scenario: Scenario) -> None:
    def watch(snapshot: Snapshot, planned: Plan, now: int) -> None:
        assert plan(snapshot, now) == planned == plan_from_first_jobs(snapshot, now)

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


@given(worlds() | of_one_user())
def test_a_users_job_is_never_interrupted_for_the_users_job_of_equal_rank(
    scenario: Scenario,
) -> None:
    """Within one project. Not by a move either."""

    def watch(_snapshot: Snapshot, planned: Plan, _now: int) -> None:
        for decision in planned.decisions:
            if not isinstance(decision, Evict | Move):
                continue
            job = decision.beneficiary
            for victim in stopped(decision):
                alike = (victim.workload, victim.priority) == (job.workload, job.priority)
                own = job.person and (victim.person, victim.project) == (job.person, job.project)
                assert not (own and alike), (victim.name, job.name)

    simulate(scenario, watch)


@given(reclaiming())
def test_between_projects_it_does_not_matter_who_the_users_are(world: dict) -> None:
    """Without limits, slices and moves, which look at users, the outcome is that of a world in
    which each job has a user of its own, or all have one."""

    def events(user: Callable[[dict], str]) -> object:
        jobs = [{**job, "user": user(job)} for job in world["jobs"]]
        return simulate(Scenario.model_validate({**world, "jobs": jobs})).events

    assert events(lambda job: job["user"]) == events(lambda job: f"u-{job['name']}")
    assert events(lambda job: job["user"]) == events(lambda _: "airflow")


@given(worlds() | of_one_user())
def test_the_queue_itself_follows_the_policy(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []
