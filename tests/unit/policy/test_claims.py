"""A claim that cannot come true any more is given up, so that others can use its slots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.pools import PoolHealth
from slotq_core.model.projects import EVERYWHERE, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import AUTO, User
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Decision, DropClaim, Evict, Start
from tests.unit.policy.test_reasons import NOW, pool, runs, stops, waits

CLAIMANT = waits(
    "job",
    slots=2,
    person="ann",
    project="a",
    priority=10,
    priority_class="NORMAL",
    claim=Claim(pool="p", amount=Demand(slots=2), since=NOW - 1),
)
IN_ANY_CLASS = replace(
    CLAIMANT,
    auto=True,
    priority=-1,
    priority_class=AUTO,
    claim=replace(CLAIMANT.claim, priority_class="NORMAL"),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    sentence: str
    most: int | None = None
    """The slots that the user may hold in the class."""
    limit: int | None = None
    """The slots that the project may hold."""
    active: tuple[Job, ...] = ()
    job: Job = CLAIMANT
    decisions: tuple[type[Decision], ...]


OTHER = {"person": "ann", "project": "a", "priority": 10, "priority_class": "NORMAL"}

CASES = [
    Case(sentence="nothing is in its way: it starts", most=2, limit=2, decisions=(Start,)),
    Case(sentence="its user may hold less by now", most=1, decisions=(DropClaim,)),
    Case(
        sentence="so may the user of one that is yet to be admitted",
        most=1,
        job=IN_ANY_CLASS,
        decisions=(DropClaim,),
    ),
    Case(
        sentence="its user holds too much besides by now",
        most=2,
        active=(runs("other", **OTHER),),
        decisions=(DropClaim,),
    ),
    Case(
        sentence="its user's other job is stopping: it waits for that",
        most=2,
        active=(stops("other", **OTHER),),
        decisions=(),
    ),
    Case(sentence="its project may hold less by now", limit=1, decisions=(DropClaim,)),
    Case(
        sentence="its project's other job is stopping: it waits for that",
        limit=2,
        active=(stops("other", **OTHER),),
        decisions=(),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_a_claim_is_kept_while_it_can_come_true(case: Case) -> None:
    limit = {} if case.limit is None else {EVERYWHERE: Demand(slots=case.limit)}
    users = (User(name="ann", limits={"p": {"NORMAL": case.most}}),) if case.most else ()
    snapshot = Snapshot(
        pools=(pool(slots=4),),
        active=case.active,
        waiting=(case.job,),
        projects=(Project(name="a", limit=limit),),
        users=users,
    )
    planned = plan(snapshot, NOW)
    assert tuple(map(type, planned.decisions)) == case.decisions


def test_where_claims_exceed_a_pool_that_shrank_no_later_job_starts_first() -> None:
    """The job of higher rank may take over all claims but one, and does once that is given up. A
    plan that barred those whose claims it takes over started later ones in their stead."""
    one = Claim(pool="p", amount=Demand(slots=1), since=NOW - 1)
    high = waits("high", slots=2, priority=1)
    claimants = (
        waits("a", claim=one),
        waits("b", claim=one),
        waits("c", claim=one, preemptible=False),
        waits("d", claim=one, pools=("p", "q")),
    )
    pools = (pool(slots=2), pool("q", slots=1))
    given_up = plan(Snapshot(pools=pools, waiting=(high, *claimants)), NOW).decisions
    assert all(isinstance(each, DropClaim) for each in given_up)
    void = {each.job.name for each in given_up}
    left = (replace(each, claim=None) if each.name in void else each for each in claimants)
    then = plan(Snapshot(pools=pools, waiting=(high, *left)), NOW).decisions
    assert [(each.job.name, each.pool) for each in then] == [("high", "p"), ("d", "q")]


def test_who_starts_by_a_claim_in_the_same_moment_is_the_only_probe():
    """`first` gets the free slot, and `owed` the slot of `small`: the next plan starts `first`, and
    until then nothing is evicted for `third` in a pool that may still have no capacity."""
    claim = Claim(pool="p", amount=Demand(slots=1), since=NOW - 1)
    snapshot = Snapshot(
        pools=(pool(slots=5, health=PoolHealth(errors=1, not_before=NOW)),),
        active=(runs("small"), runs("large", slots=3)),
        waiting=(
            waits("first", priority=3),
            waits("owed", priority=3, claim=claim),
            waits("third", priority=1),
        ),
    )
    (evicts,) = plan(snapshot, NOW).decisions
    assert isinstance(evicts, Evict)
    assert (evicts.beneficiary.name, [job.name for job in evicts.victims]) == ("first", ["small"])
