"""A pool whose size changes with time: what starts, what stops, and why jobs wait, where the pool
keeps some of its slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotq_core.model.attempts import Attempt
from slotq_core.model.capacity.schedule import SizeChange
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.plan import Close, DropClaim, Start

NOW = 1_000_000
HOUR = 3_600_000
SHRINKS = (SizeChange(at=0), SizeChange(at=NOW + HOUR, slots=1, grace=600_000, said="10:00 UTC"))


def pool(*changes: SizeChange, slots: int = 3, **fields: Any) -> Pool:
    return Pool(
        name="p",
        instance_type="ml.p5.48xlarge",
        capacity=Demand(slots=slots),
        schedule=changes,
        **fields,
    )


def waiting(name: str, *, longest: int = 2 * HOUR, slots: int = 1, **fields: Any) -> Job:
    return Job(
        name=name,
        state=JobState.PENDING,
        **{"priority": 0, "entry_time": NOW, **fields},
        demand=Demand(slots=slots),
        pools=("p",),
        longest_attempt=longest,
    )


def running(name: str, *, since: int = NOW, **fields: Any) -> Job:
    job = waiting(name, **fields)
    attempt = Attempt(
        number=1,
        training_job=name,
        token="t",
        pool="p",
        instance_type="ml.p5.48xlarge",
        admitted_at=since,
        created=True,
        running_since=since,
    )
    return replace(job, state=JobState.RUNNING, attempt=attempt, attempts=1)


def started(*jobs: Job, pool: Pool, active: tuple[Job, ...] = ()) -> list[str]:
    planned = plan(Snapshot(pools=(pool,), waiting=jobs, active=active), NOW)
    return [decision.job.name for decision in planned.decisions if isinstance(decision, Start)]


def test_those_that_must_not_be_stopped_share_what_is_left() -> None:
    jobs = [waiting(f"fixed{n}", preemptible=False) for n in range(3)]
    assert started(*jobs, pool=pool(*SHRINKS)) == ["fixed0"]
    savers = [waiting(f"saves{n}") for n in range(3)]
    assert started(*savers, pool=pool(*SHRINKS)) == ["saves0", "saves1", "saves2"]


def test_one_that_runs_counts_until_it_has_ended_at_the_latest() -> None:
    new = waiting("new", preemptible=False)
    late = running("late", preemptible=False)
    assert started(new, pool=pool(*SHRINKS), active=(late,)) == []
    soon = running("soon", preemptible=False, since=NOW - HOUR)
    assert started(new, pool=pool(*SHRINKS), active=(soon,)) == ["new"]
    stopping = replace(late, state=JobState.STOPPING)
    assert started(new, pool=pool(*SHRINKS), active=(stopping,)) == ["new"]


def test_the_size_after_the_next_counts_too() -> None:
    later = (SizeChange(at=0), SizeChange(at=NOW + HOUR, slots=2), SizeChange(at=NOW + 90 * 60_000,
             slots=0))  # fmt: skip
    assert started(waiting("job", preemptible=False), pool=pool(*later)) == []
    short = waiting("job", preemptible=False, longest=90 * 60_000)
    assert started(short, pool=pool(*later)) == ["job"]


def test_a_job_of_unknown_length_starts_only_if_it_may_be_stopped() -> None:
    assert started(waiting("job", longest=0, preemptible=False), pool=pool(*SHRINKS, slots=1)) == [
        "job"
    ]
    closes = (SizeChange(at=0), SizeChange(at=NOW + 20 * 24 * HOUR, slots=0))
    assert started(waiting("job", longest=0, preemptible=False), pool=pool(*closes)) == []
    assert started(waiting("job", longest=0, checkpoints=False), pool=pool(*closes)) == ["job"]


def test_as_many_stop_as_the_pool_has_lost() -> None:
    """The lowest rank first, then the last to enter; the others run on."""
    active = (
        running("high", priority=2, entry_time=NOW + 9),
        running("old", entry_time=NOW + 1),
        running("new", entry_time=NOW + 2),
    )
    world = Snapshot(pools=(pool(*SHRINKS),), active=active)
    at = NOW + HOUR
    (close,) = plan(world, at).decisions
    assert isinstance(close, Close)
    assert [job.name for job in close.jobs] == ["new", "old"]
    after = dict(steps(close, {"p": world.pools[0]}, at))
    assert {job.evictions for job in after.values()} == {1}


def test_what_does_not_save_stops_when_the_grace_is_over() -> None:
    fixed = running("fixed", preemptible=False)
    loses = running("loses", checkpoints=False)
    world = Snapshot(pools=(pool(*SHRINKS, suspend_grace=600_000),), active=(fixed, loses))
    assert plan(world, NOW + HOUR).decisions == ()
    assert plan(world, NOW + HOUR).wake_at == NOW + HOUR + 600_000
    (close,) = plan(world, NOW + HOUR + 600_000).decisions
    assert isinstance(close, Close)
    assert len(close.jobs) == 1


def test_a_gang_stops_whole_if_one_of_its_members_has_to() -> None:
    gang = [running(name, group="g") for name in ("a", "b")]
    world = Snapshot(
        pools=(pool(*SHRINKS),),
        active=(*gang, running("alone", priority=1)),
        groups=(Group(name="g", members=("a", "b"), min_members=2),),
    )
    (close,) = plan(world, NOW + HOUR).decisions
    assert isinstance(close, Close)
    assert [job.name for job in close.jobs] == ["a", "b"]


def test_a_claim_that_comes_too_late_is_given_up_at_once() -> None:
    claim = Claim(pool="p", amount=Demand(slots=1), since=NOW)
    late = replace(waiting("late", preemptible=False), claim=claim)
    fits = replace(waiting("fits"), claim=claim)
    active = (replace(running("gone"), state=JobState.STOPPING),)
    closes = (SizeChange(at=0), SizeChange(at=NOW + HOUR, slots=0))
    world = Snapshot(pools=(pool(*closes, slots=1),), waiting=(late, fits), active=active)
    assert plan(world, NOW).decisions == (DropClaim(job=late),)


def test_why_says_how_many_slots_are_there_and_when_there_are_more() -> None:
    changes = (SizeChange(at=0, slots=1), SizeChange(at=NOW + HOUR, said="10:00 UTC, 1 Jan"))
    job = waiting("large", slots=2)
    planned = plan(Snapshot(pools=(pool(*changes),), waiting=(job,)), NOW)
    assert planned.reasons["large"].text() == (
        "needs 2 slots, and pool p has 1 slot now; it has more at 10:00 UTC, 1 Jan"
    )
    assert planned.wake_at == NOW + HOUR
    for slots, said in ((1, "pool p has 1 slot now"), (0, "pool p is closed")):
        for_good = pool(SizeChange(at=0, slots=slots))
        planned = plan(Snapshot(pools=(for_good,), waiting=(job,)), NOW)
        assert said in planned.reasons["large"].text()
        assert (
            planned.reasons["large"].text().endswith("no time is known from which on it has more")
        )
        assert planned.wake_at is None
