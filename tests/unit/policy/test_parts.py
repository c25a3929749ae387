"""Jobs over several pools at once hold all their parts or none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slotq_core.admission.rules import admit
from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model import reasons
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim, Job, JobState, Submission
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.status import looked_into
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import Line, first_read, line_of
from slotq_core.policy.plan import DropClaim, Evict, Start
from slotq_core.ports.stored import World
from slotq_core.wire.views.jobs import reason_view

NOW = 1_000_000
POOLS = tuple(
    Pool(name=name, instance_type="t", capacity=Demand(slots=slots))
    for name, slots in (("cpu", 2), ("gpu", 1))
)
PARTS = (("cpu", Demand(slots=2)), ("gpu", Demand(slots=1)))


def job(name: str, *, priority: int = 0, parts=(), pool: str = "cpu", slots: int = 1) -> Job:
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=priority,
        entry_time=NOW - 100,
        demand=Demand(slots=3) if parts else Demand(slots=slots),
        pools=tuple(name for name, _ in parts) or (pool,),
        parts=parts,
    )


def running(waits: Job) -> Job:
    attempt = Attempt(
        number=1,
        training_job=waits.name,
        token="",
        pool=waits.pools[0],
        instance_type="t",
        admitted_at=NOW - 50,
        created=True,
        running_since=NOW - 50,
    )
    return replace(waits, state=JobState.RUNNING, attempt=attempt, attempts=1)


def stopping(waits: Job) -> Job:
    runs = running(waits)
    order = StopOrder(cause=StopCause.EVICTED, by="x", at=NOW - 1)
    return replace(runs, state=JobState.STOPPING, attempt=replace(runs.attempt, stop=order))


def planned(*waiting: Job, active: tuple[Job, ...] = (), pools=POOLS):
    return plan(Snapshot(pools=pools, active=active, waiting=waiting), NOW)


def test_a_job_starts_when_all_its_parts_fit():
    wide = job("wide", parts=PARTS)
    assert planned(wide).decisions == (Start(job=wide, pool="cpu"),)


def test_a_job_waits_when_one_part_does_not_fit_and_others_pass_it():
    wide, small = job("wide", parts=PARTS), replace(job("small"), entry_time=NOW - 50)
    done = planned(wide, small, active=(running(job("a", pool="gpu")),))
    assert done.decisions == (Start(job=small, pool="cpu"),)
    why = done.reasons["wide"]
    lacks = reasons.Lacks(member="wide", pool="gpu", member_needs=1, pool_free=0, holder="a")
    assert why == reasons.NeedsSeveralPools(needed=(("cpu", 2), ("gpu", 1)), drains="", lacks=lacks)
    assert why.text() == (
        "needs 2 slots in pool cpu and 1 slot in pool gpu at the same time. Pool gpu has 0 free "
        "for wide, which needs 1 slot; a holds slots there"
    )
    numbers = json.loads(reason_view(why).model_dump_json())["numbers"]
    assert numbers["needed"] == {"cpu": 2, "gpu": 1}
    assert (numbers["pool"], numbers["holder"]) == ("gpu", "a")


def test_a_job_behind_others_in_parts_says_what_the_first_of_them_waits_for():
    jobs = [replace(job(f"wide{n}", parts=PARTS), entry_time=NOW + n) for n in range(4)]
    snapshot = Snapshot(
        pools=POOLS, active=(running(job("a", pool="gpu")),), waiting=tuple(jobs[:3])
    )
    world = World(snapshot=snapshot, ledgers={})
    why = looked_into(jobs[3], world, NOW).reason
    assert isinstance(why, reasons.BehindInLine)
    assert why.head == "wide0"
    assert isinstance(why.head_waits, reasons.NeedsSeveralPools)


def test_a_running_job_holds_slots_in_each_of_its_pools():
    other = job("other", pool="gpu")
    done = planned(other, active=(running(job("wide", parts=PARTS)),))
    assert done.decisions == ()


def test_a_job_evicts_in_all_its_pools_at_once_with_one_claim():
    wide = job("wide", parts=PARTS, priority=5)
    victims = (running(job("a", pool="cpu")), running(job("b", pool="gpu")))
    (evict,) = planned(wide, active=victims).decisions
    claim = Claim(pool="cpu", amount=Demand(slots=2), since=NOW)
    assert evict == Evict(beneficiary=wide, victims=victims, claim=claim)


def test_nothing_is_evicted_when_one_pool_cannot_be_cleared():
    wide = job("wide", parts=PARTS, priority=5)
    kept = running(job("kept", pool="gpu", priority=9))
    assert planned(wide, active=(kept, running(job("a")))).decisions == ()


def test_a_job_is_evicted_whole_for_a_job_in_one_of_its_pools():
    wide = running(job("wide", parts=PARTS))
    high = job("high", pool="gpu", priority=5)
    (evict,) = planned(high, active=(wide,)).decisions
    assert evict.victims == (wide,)
    assert evict.beneficiary == high


def test_the_claim_holds_in_all_pools_of_the_job():
    owed = Claim(pool="cpu", amount=Demand(slots=2), since=NOW - 1)
    wide = replace(job("wide", parts=PARTS, priority=5), claim=owed)
    others = (job("in-cpu", priority=1), job("in-gpu", pool="gpu", priority=1))
    leaving = stopping(job("leaving", pool="gpu"))
    assert planned(wide, *others, active=(leaving,)).decisions == ()
    assert planned(wide, *others).decisions == (Start(job=wide, pool="cpu"),)


def test_a_claim_that_cannot_come_true_is_given_up_once():
    owed = Claim(pool="cpu", amount=Demand(slots=2), since=NOW - 1)
    wide = replace(job("wide", parts=PARTS), claim=owed)
    kept = running(job("kept", pool="gpu", priority=9))
    assert planned(wide, active=(kept,)).decisions == (DropClaim(job=wide),)


def test_a_line_with_parts_is_separate_and_is_read_as_far_as_empty_pools_could_hold_it():
    wide = job("wide", parts=PARTS)
    alike = replace(wide, parts=(("cpu", Demand(slots=1)), ("gpu", Demand(slots=2))))
    assert line_of(wide) != line_of(alike)
    assert Line.parse(line_of(wide)) == Line.of(wide)
    assert first_read(Line.of(wide), POOLS, {}) == 2


def test_admission_checks_each_part():
    asked = Submission(
        name="wide",
        instance_type="",
        demand=Demand(slots=3),
        pools=("cpu", "gpu"),
        parts=(("cpu", Demand(slots=1)), ("gpu", Demand(slots=2))),
    )
    with pytest.raises(NeverFits, match="the job needs 2 slots, more than any of its pools: gpu"):
        admit(asked, POOLS, submitter="u", now=NOW)
    with pytest.raises(InvalidRequest, match="cannot belong to a group"):
        admit(replace(asked, group="g"), POOLS, submitter="u", now=NOW)
    fits = admit(replace(asked, parts=PARTS), POOLS, submitter="u", now=NOW)
    assert (fits.parts, fits.pools, fits.demand) == (PARTS, ("cpu", "gpu"), Demand(slots=3))
