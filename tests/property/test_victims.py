"""The victims of one eviction, compared with every possible set."""

from __future__ import annotations

from itertools import combinations
from math import ceil
from operator import attrgetter

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.victim_search import better
from slotq_core.policy.actions.victims import Eviction, Shortfall, Shortfalls, one_by_one
from slotq_core.policy.state.candidates import Candidate, candidate_of
from slotq_core.policy.state.claims import Entitlement
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.shares import Shares
from slotq_core.policy.state.running_jobs import RunningJobs

NOW = 1_000_000
POOL = Pool(name="p", instance_type="ml.test", capacity=Demand(slots=9))
WORLD = Snapshot(pools=(POOL,))
BOOKS = Accounts(WORLD, [], Journal())
ROOM = PoolRoom(
    POOL,
    active=(),
    claimants=(),
    running=RunningJobs(WORLD, NOW, {}, Journal()),
    entitled=Entitlement(BOOKS, Shares(BOOKS)),
    now=NOW,
    journal=Journal(),
)


def running(
    name: str, *, priority: int, demand: Demand, since: int, evicted_at: tuple[int, ...] = ()
) -> Job:
    attempt = Attempt(
        number=1,
        training_job=name,
        token="t",
        pool=POOL.name,
        instance_type="ml.test",
        admitted_at=since,
        created=True,
        running_since=since,
    )
    return Job(
        name=name,
        state=JobState.RUNNING,
        priority=priority,
        entry_time=0,
        demand=demand,
        pools=(POOL.name,),
        evicted_at=evicted_at,
        attempt=attempt,
    )


DAY = 86_400_000
STARTS = (0, 0, 1, 3, 4)
"""How long a start takes; 0: not known."""


@st.composite
def candidates(draw: st.DrawFn, *, most: int) -> list[Candidate]:
    """Single jobs and gangs of two, some of which need gpus besides slots."""
    found = []
    starts = {POOL.name: draw(st.sampled_from(STARTS))}
    moments = st.sampled_from([NOW - DAY, NOW - DAY + 1, NOW - 1])
    for number in range(draw(st.integers(1, most))):
        jobs = [
            running(
                f"j{number:02d}{member}",
                priority=draw(st.integers(0, 2)),
                demand=Demand(slots=draw(st.integers(1, 5)), gpus=draw(st.sampled_from([0, 0, 3]))),
                since=NOW - draw(st.integers(0, 9)),
                evicted_at=tuple(draw(st.lists(moments, max_size=2))),
            )
            for member in range(draw(st.sampled_from([1, 1, 1, 2])))
        ]
        places = [(job, POOL.name) for job in jobs]
        found.append(candidate_of(places, f"j{number:02d}", NOW, starts=starts))
    return sorted(found, key=attrgetter("order"))


demands = st.builds(Demand, slots=st.integers(1, 12), gpus=st.sampled_from([0, 0, 2, 5]))


def lacks_of(missing: Demand) -> Shortfalls:
    return Shortfalls(
        Shortfall(missing=missing, gives=lambda candidate: candidate.frees(POOL.name))
    )


def counted(victims: tuple[Candidate, ...], base: tuple[int, int]) -> tuple[object, ...]:
    """The harm by the rule's own words: fewer of a higher rank, less work and starts in whole
    starts, fewer evictions in the last 24 h, less slot-time, fewer jobs. By the jobs alone."""
    ranks, cost, paid, lost, number = [], 0, 0, 0, 0
    for victim in victims:
        lately = []
        for job in victim.jobs:
            assert job.attempt is not None and job.attempt.running_since is not None
            work, start = NOW - job.attempt.running_since, victim.start
            whole = start * ceil((work + start) / start) if start else work
            cost += whole * job.demand.slots
            lost += work * job.demand.slots
            lately.append(sum(NOW - at < DAY for at in job.evicted_at) if start else 0)
            number += 1
        paid += max(lately)
        ranks += [victim.rank] * len(victim.jobs)
    above = sorted((rank for rank in ranks if rank > base), reverse=True)
    return (tuple(above), cost, paid, lost, number)


def harm(victims: tuple[Candidate, ...], base: tuple[int, int]) -> tuple:
    return Eviction(room=ROOM, victims=victims).harm(base)


@given(candidates(most=9), demands)
def test_no_other_set_does_less_harm(candidates: list[Candidate], missing: Demand) -> None:
    shortfalls, base = lacks_of(missing), candidates[0].rank
    chosen = one_by_one(candidates, shortfalls)
    enough = [
        some
        for count in range(len(candidates) + 1)
        for some in combinations(candidates, count)
        if missing.within(sum((each.frees(POOL.name) for each in some), Demand()))
    ]
    if chosen is None:
        assert not enough
        return
    found = better(chosen, candidates, shortfalls, base)
    assert found in enough
    assert harm(found, base) == counted(found, base)
    assert counted(found, base) == min(counted(some, base) for some in enough)


@given(candidates(most=60), st.builds(Demand, slots=st.integers(1, 99), gpus=st.integers(0, 20)))
def test_with_any_bound_the_set_is_never_worse_than_the_greedy_one(
    candidates: list[Candidate], missing: Demand
) -> None:
    shortfalls, base = lacks_of(missing), candidates[0].rank
    chosen = one_by_one(candidates, shortfalls)
    if chosen is not None:
        found = better(chosen, candidates, shortfalls, base)
        assert shortfalls.met_by(found)
        assert harm(found, base) <= harm(chosen, base)


@given(candidates(most=9), demands)
def test_no_victim_can_be_spared(candidates: list[Candidate], missing: Demand) -> None:
    shortfalls = lacks_of(missing)
    chosen = one_by_one(candidates, shortfalls) or ()
    for victims in (chosen, better(chosen, candidates, shortfalls, candidates[0].rank)):
        for victim in victims:
            assert not shortfalls.met_by([each for each in victims if each is not victim])


@given(candidates(most=9))
def test_without_a_known_start_the_order_is_by_the_work_alone(candidates: list[Candidate]) -> None:
    """So the classic queue stays as it was."""
    if any(candidate.start for candidate in candidates):
        return
    by_work = sorted(
        candidates,
        key=lambda c: (c.rank, c.unsaved, -c.slots, -c.entry_time, c.order[-2], c.order[-1]),
    )
    assert candidates == by_work
    for candidate in candidates:
        assert (candidate.cost, candidate.slot_cost) == (candidate.unsaved, candidate.lost)
        assert candidate.paid == 0
