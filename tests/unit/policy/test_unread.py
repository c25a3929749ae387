"""What a plan reads of a line of which it knows only a lower bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import AUTO
from slotq_core.policy.cycle import plan
from slotq_core.policy.lines import Line
from slotq_core.policy.order import position
from slotq_core.policy.plan import Found, Need, Plan, Start
from slotq_core.storage.order_keys import order_key, place_in
from slotq_core.storage.snapshots import stand_in

NOW = 1_000_000
POOL = Pool(name="p", instance_type="ml.test", capacity=Demand(slots=4))
JOB = Job(
    name="job",
    state=JobState.PENDING,
    priority=3,
    entry_time=NOW - 1_000,
    demand=Demand(slots=1),
    pools=("p",),
)


def running(name: str, slots: int, priority: int = 3) -> Job:
    attempt = Attempt(
        number=1,
        training_job=name,
        token="t",
        pool="p",
        instance_type="ml.test",
        admitted_at=NOW - 5_000,
        created=True,
        running_since=NOW - 5_000,
    )
    demand = Demand(slots=slots)
    job = replace(JOB, name=name, priority=priority, demand=demand, attempt=attempt, attempts=1)
    return replace(job, state=JobState.RUNNING)


class World:
    """Lines known by their bounds. `lines`: the jobs of each, in order."""

    def __init__(self, *lines: list[Job], active: tuple[Job, ...] = (), **pool: object) -> None:
        self.asked: list[str] = []
        first = [line[0] for line in lines]
        stand_ins = [
            stand_in(Line.of(job), n, entry_time=job.entry_time, name=job.name)
            for n, job in enumerate(first)
        ]
        self.lines = dict(zip((job.name for job in stand_ins), lines, strict=True))
        self.snapshot = Snapshot(
            pools=(replace(POOL, **pool),),
            active=active,
            waiting=tuple(stand_ins),
            unread=frozenset(self.lines),
        )

    def more(self, need: Need) -> Found:
        name = need.after.name
        self.asked.append(name)
        if name in self.lines:
            jobs = self.lines[name]
            return Found(jobs=tuple(jobs[:1]), behind=len(jobs) - 1)
        line = next(line for line in self.lines.values() if need.after in line)
        at = line.index(need.after) + 1
        return Found(jobs=tuple(line[at : at + 1]), behind=len(line) - at - 1)

    def plan(self, asked: Job | None = None) -> Plan:
        return plan(self.snapshot, NOW, asked, more=self.more)


def started(planned: Plan) -> list[str]:
    return [each.job.name for each in planned.decisions if isinstance(each, Start)]


def test_a_blocked_line_is_not_read():
    world = World([JOB], active=(running("r", 4),))
    planned = world.plan()
    assert (planned.decisions, planned.reasons, world.asked) == ((), {}, [])


def test_a_line_is_read_as_far_as_it_is_served():
    jobs = [replace(JOB, name=f"job-{n}", entry_time=NOW - 9 + n) for n in range(9)]
    world = World(jobs, active=(running("r", 2),))
    planned = world.plan()
    assert started(planned) == ["job-0", "job-1"]
    assert world.asked == ["job-0#0", "job-0", "job-1"]
    assert list(planned.reasons) == ["job-2"]


def test_a_line_that_may_evict_is_read():
    world = World([JOB], active=(running("r", 4, priority=1),))
    (evict,) = world.plan().decisions
    assert (evict.beneficiary, world.asked) == (JOB, ["job#0"])


def test_a_line_whose_pool_should_drain_is_read():
    world = World(
        [replace(JOB, demand=Demand(slots=4))], active=(running("r", 2),), reserve_after=0
    )
    planned = world.plan()
    assert (list(planned.reasons), world.asked) == (["job"], ["job#0"])


def test_a_line_that_somebody_asks_about_is_read():
    role = "arn:aws:iam::123456789012:role/r"
    job = replace(JOB, role=role)
    world = World([job], active=(running("r", 4),))
    planned = world.plan(asked=job)
    assert (list(planned.reasons), world.asked) == (["job"], ["job#0"])
    assert planned.outlook is not None


def test_lines_that_differ_only_in_a_role_are_read_each():
    one, other = (replace(JOB, name=name, role=f"arn:{name}") for name in "ab")
    world = World([one], [other])
    assert started(world.plan()) == ["a", "b"]


def test_a_line_may_turn_out_to_be_empty():
    world = World([JOB])
    world.lines["job#0"] = []
    assert world.plan().decisions == ()
    assert world.asked == ["job#0"]


def test_the_jobs_of_a_line_that_were_later_than_its_bound_take_their_places():
    """The bound is the place of a job that has gone. Another line's job comes first by now."""
    gone = replace(JOB, entry_time=NOW - 9_000, name="gone")
    late, early = replace(JOB, name="late"), replace(JOB, entry_time=NOW - 2_000, name="early")
    late, gone = (replace(job, demand=Demand(slots=2)) for job in (late, gone))
    world = World([gone], [early], active=(running("r", 2),))
    world.lines["gone#0"] = [late]
    assert started(world.plan()) == ["early"]


@pytest.mark.parametrize("auto", [False, True])
def test_a_stand_in_has_its_place_from_the_order_key(auto):
    job = replace(JOB, priority_class=AUTO, auto=True, priority=-1) if auto else JOB
    entry_time, name = place_in(order_key(job))
    found = stand_in(Line.of(job), 7, entry_time=entry_time, name=name)
    later = replace(job, name="job-")
    assert position(job) < position(found) < position(later)
    assert Line.of(found) == Line.of(job)
