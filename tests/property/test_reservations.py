"""Reservations, on random worlds: what cannot be evicted leaves them free, a job of the project
gets them from anybody, and nobody is evicted for anything else."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.capacity.reservations import held_beyond, reserved_at
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.hours.reservations import LONGEST_STOP
from slotq_core.policy.plan import Evict, Plan
from tests.property.in_vain import nobody_starts_in_vain

STEP = 600
"""Reservations begin and end at multiples of it (s)."""
UNTIL = 9_000
PROJECTS = ("a", "b", "c")


@st.composite
def reservations(draw: st.DrawFn, capacity: int) -> list[dict[str, Any]]:
    """One to three reservations that fit into the pool."""
    found: list[dict[str, Any]] = []
    for project in draw(st.lists(st.sampled_from(PROJECTS), min_size=1, max_size=3)):
        begin = draw(st.integers(0, 8))
        end = draw(st.integers(begin + 1, 12))
        slots = draw(st.integers(1, capacity))
        found.append(
            {"project": project, "slots": slots, "begins": STEP * begin, "ends": STEP * end}
        )
    keys = {(entry["project"], entry["begins"]) for entry in found}
    assume(len(keys) == len(found))
    for moment in range(0, 12 * STEP, STEP):
        there = [entry for entry in found if entry["begins"] <= moment < entry["ends"]]
        assume(sum(entry["slots"] for entry in there) <= capacity)
    return found


@st.composite
def worlds(draw: st.DrawFn, *, evictable: bool = False, idle: bool = False) -> Scenario:
    """A pool with reservations, perhaps another pool, and jobs of all kinds. `evictable`: all jobs
    may be evicted. `idle`: no job is of a project with a reservation."""
    capacity = draw(st.integers(1, 5))
    pools: list[dict[str, Any]] = [
        {
            "name": name,
            "capacity": capacity,
            "stop_seconds": draw(st.sampled_from([0, 0, 20])),
            "suspend_grace": draw(st.sampled_from([0, 0, 60])),
            "reserve_after": draw(st.sampled_from([None, None, 0, 100])),
            "reservations": draw(reservations(capacity)) if name == "p" else [],
        }
        for name in draw(st.sampled_from([("p",), ("p", "q")]))
    ]
    own = {entry["project"] for entry in pools[0]["reservations"]}
    projects = [name for name in PROJECTS if not (idle and name in own)]
    assume(projects)
    names = tuple(pool["name"] for pool in pools)
    jobs = [
        draw(_job(f"j{number}", names, projects, evictable=evictable))
        for number in range(draw(st.integers(1, 8)))
    ]
    if draw(st.booleans()) and not evictable:
        for job in jobs[:2]:
            job |= {"group": "g", "project": jobs[0]["project"]}
    return Scenario.model_validate(
        {
            "pools": pools,
            "projects": [
                {
                    "name": name,
                    "quota": draw(st.integers(0, capacity * len(pools) // 3)),
                    "weight": draw(st.integers(0, 2)),
                }
                for name in PROJECTS
            ],
            "groups": [{"name": "g"}] if any("group" in job for job in jobs) else [],
            "jobs": jobs,
            "until": UNTIL,
        }
    )


@st.composite
def _job(
    draw: st.DrawFn, name: str, pools: tuple[str, ...], projects: list[str], *, evictable: bool
) -> dict[str, Any]:
    runtime = draw(st.integers(1, 5_000))
    return {
        "name": name,
        "project": draw(st.sampled_from(projects)),
        "submit_at": draw(st.integers(0, 6_000)),
        "priority": draw(st.integers(0, 2)),
        "slots": draw(st.sampled_from([1, 1, 2])),
        "runtime": runtime,
        "max_runtime": runtime + draw(st.sampled_from([0, 1, 600, 3_000])),
        "preemptible": evictable or draw(st.sampled_from([True, "semi", False])),
        "pools": draw(st.lists(st.sampled_from(pools), min_size=1, unique=True)),
        "user": draw(st.sampled_from(["ann", "bob"])),
    }


def check(scenario: Scenario, record: Record) -> None:
    """What cannot be evicted never takes what is reserved for others, from the start of each such
    job to its latest end."""
    pool = scenario.pools[0]
    reserved = pool.pool.reservations
    jobs = {job.name: job for job in scenario.jobs}
    fixed = [
        (
            jobs[run.job],
            run.since,
            record.end if run.until is None else run.until,
            run.since + (jobs[run.job].max_runtime or 0) + LONGEST_STOP,
        )
        for run in record.runs
        if run.pool == pool.name and jobs[run.job].preemptible is not True
    ]
    for job, since, _, latest in fixed:
        for moment in {since, *(r.begins for r in reserved if since < r.begins < latest)}:
            there = reserved_at(reserved, moment)
            held: dict[str, int] = {}
            for other, begun, ended, ends in fixed:
                if begun <= since < ended and moment < ends:
                    held[_project(other)] = held.get(_project(other), 0) + other.slots
            if held.get(_project(job), 0) > there.get(_project(job), 0) and set(there) - {
                _project(job)
            }:
                assert held_beyond(there, held) <= pool.capacity.slots, (job.name, moment)


def _project(job: Any) -> str:
    return job.project or ""


class Watch:
    """Asserts what holds of each plan."""

    def __init__(self) -> None:
        self._in_vain = nobody_starts_in_vain()

    def __call__(self, snapshot: Snapshot, planned: Plan, now: int) -> None:
        self._in_vain(snapshot, planned, now)
        pool = snapshot.pools[0]
        reserved = reserved_at(pool.reservations, now)
        self._keeps_what_is_reserved(snapshot, planned, reserved)
        if not planned.decisions and not any(job.claim for job in snapshot.waiting):
            for job in snapshot.waiting:
                self._gets_what_is_reserved(job, snapshot, pool, reserved, now)

    def _keeps_what_is_reserved(
        self, snapshot: Snapshot, planned: Plan, reserved: dict[str, int]
    ) -> None:
        """No project loses to others what is reserved for it, but by the last victim's size."""
        lost: dict[str, list[int]] = {}
        for decision in planned.decisions:
            for victim in decision.victims if isinstance(decision, Evict) else ():
                here = victim.attempt is not None and victim.attempt.pool == "p"
                if here and victim.project != decision.beneficiary.project and not victim.group:
                    lost.setdefault(victim.project, []).append(victim.demand.slots)
        for project, slots in lost.items():
            held = _held(snapshot, project)
            rest = held - sum(slots) + max(slots)
            assert not reserved.get(project) or rest > reserved[project]

    def _gets_what_is_reserved(
        self, job: Job, snapshot: Snapshot, pool: Pool, reserved: dict[str, int], now: int
    ) -> None:
        """Once settled, no job waits for reserved slots that jobs hold which may be evicted."""
        own = reserved.get(job.project, 0)
        slots = job.demand.slots
        covered = own and _held(snapshot, job.project) + slots <= own
        if not covered or job.group or not job.evictable or pool.name not in job.pools:
            return
        active = [j for j in snapshot.active if j.attempt and j.attempt.pool == pool.name]
        if any(j.state is JobState.STOPPING for j in active):
            return
        free = pool.capacity.slots - sum(j.demand.slots for j in active)
        may_go = sum(
            j.demand.slots
            for j in active
            if j.evictable
            and not j.group
            and j.project != job.project
            and j.project not in reserved
        )
        assert free + may_go < slots, (job.name, now)


def _held(snapshot: Snapshot, project: str) -> int:
    """What the project's jobs have in the pool `p`, or will have by their claims."""
    running = [
        job
        for job in snapshot.active
        if job.state is not JobState.STOPPING and job.attempt and job.attempt.pool == "p"
    ]
    owed = [job for job in snapshot.waiting if job.claim and job.claim.pool == "p"]
    return sum(job.demand.slots for job in (*running, *owed) if job.project == project)


@given(worlds())
def test_what_is_reserved_is_there_for_its_project(scenario: Scenario) -> None:
    check(scenario, simulate(scenario, Watch()))


@given(worlds())
def test_the_queue_itself_does_the_same(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []


@given(worlds(evictable=True, idle=True))
def test_nobody_notices_a_reservation_that_nobody_uses(scenario: Scenario) -> None:
    """Where all jobs may be evicted, nothing starts, stops or waits for an idle reservation."""
    bare = scenario.model_copy(
        update={
            "pools": tuple(pool.model_copy(update={"reservations": ()}) for pool in scenario.pools)
        }
    )
    assert [pool.pool.reservations for pool in bare.pools] == [()] * len(bare.pools)
    assert unequal(simulate(bare), simulate(scenario)) == []


@given(worlds())
def test_an_ended_reservation_changes_nothing(scenario: Scenario) -> None:
    """Nothing happens after the end but what would have happened without the reservation."""
    bare = scenario.model_copy(
        update={
            "pools": tuple(pool.model_copy(update={"reservations": ()}) for pool in scenario.pools)
        }
    )
    past = scenario.model_copy(
        update={
            "pools": tuple(
                pool.model_copy(
                    update={
                        "reservations": tuple(
                            {**entry, "begins": 0, "ends": 0.001} for entry in pool.reservations[:1]
                        )
                    }
                )
                for pool in scenario.pools
            ),
            "jobs": tuple(
                job.model_copy(update={"submit_at": max(1_000, job.submit_at)})
                for job in scenario.jobs
            ),
        }
    )
    bare = bare.model_copy(update={"jobs": past.jobs})
    assert unequal(simulate(bare), simulate(past)) == []
