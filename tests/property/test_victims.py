"""The victims of one eviction, compared with every possible set."""

from __future__ import annotations

from itertools import combinations
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


def running(name: str, *, priority: int, demand: Demand, since: int) -> Job:
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
        attempt=attempt,
    )


@st.composite
def candidates(draw: st.DrawFn, *, most: int) -> list[Candidate]:
    """Single jobs and gangs of two, some of which need gpus besides slots."""
    found = []
    for number in range(draw(st.integers(1, most))):
        jobs = [
            running(
                f"j{number:02d}{member}",
                priority=draw(st.integers(0, 2)),
                demand=Demand(slots=draw(st.integers(1, 5)), gpus=draw(st.sampled_from([0, 0, 3]))),
                since=NOW - draw(st.integers(0, 9)),
            )
            for member in range(draw(st.sampled_from([1, 1, 1, 2])))
        ]
        found.append(candidate_of([(job, POOL.name) for job in jobs], f"j{number:02d}", NOW))
    return sorted(found, key=attrgetter("order"))


demands = st.builds(Demand, slots=st.integers(1, 12), gpus=st.sampled_from([0, 0, 2, 5]))


def lacks_of(missing: Demand) -> Shortfalls:
    return Shortfalls(
        Shortfall(missing=missing, gives=lambda candidate: candidate.frees(POOL.name))
    )


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
    assert harm(found, base) == min(harm(some, base) for some in enough)


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
