"""Random worlds, small enough that everything in them interacts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import JobSpec, PoolSpec
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.pools import HEALTHY, Pool, PoolHealth
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.missing_rights import NO_EVICTION_FOR

NOW = 1_000_000
"""The moment at which random snapshots are planned (ms)."""

_health = st.sampled_from(
    [
        *[HEALTHY] * 6,
        PoolHealth(errors=1, not_before=NOW + 5_000, message="no capacity"),
        PoolHealth(errors=1, not_before=NOW),
        PoolHealth(learned=2, learned_until=NOW + 9_000),
        PoolHealth(learned=1, learned_until=NOW),
    ]
)
durations = st.sampled_from([0, 5_000, 30_000, 100_000])


@st.composite
def pools(draw: st.DrawFn) -> tuple[Pool, ...]:
    return tuple(
        Pool(
            name=name,
            instance_type="ml.test",
            capacity=Demand(slots=draw(st.integers(1, 6))),
            foreign=Demand(slots=draw(st.sampled_from([0, 0, 0, 1]))),
            reserve_after=draw(st.sampled_from([None, None, 0, 50_000])),
            min_runtime=draw(st.sampled_from([0, 0, 40_000])),
            max_min_runtime=draw(st.sampled_from([0, 60_000])),
            health=draw(_health),
        )
        for name in ("p", "q", "r")[: draw(st.integers(1, 3))]
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Any world that the queue's rules allow: active jobs fit, claimants wait."""
    world = draw(pools())
    names = [pool.name for pool in world]
    jobs = [draw(_job(f"j{i:02d}", names)) for i in range(draw(st.integers(0, 14)))]
    room = {pool.name: (pool.capacity - pool.foreign).slots for pool in world}
    active, waiting = [], []
    for job in jobs:
        pool = draw(st.sampled_from(job.pools))
        if draw(st.booleans()) and job.demand.slots <= room[pool]:
            room[pool] -= job.demand.slots
            active.append(draw(_active(job, pool)))
        else:
            waiting.append(draw(_refused(draw(_claimant(job)))))
    return Snapshot(pools=world, active=tuple(active), waiting=tuple(waiting))


@st.composite
def _job(draw: st.DrawFn, name: str, pool_names: list[str]) -> Job:
    accepted = draw(st.lists(st.sampled_from(pool_names), min_size=1, unique=True))
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=draw(st.integers(0, 3)),
        entry_time=NOW - draw(st.sampled_from([0, 1_000, 50_000, 60_000, 200_000])),
        demand=Demand(slots=draw(st.integers(1, 3))),
        pools=tuple(accepted),
        preemptible=draw(st.sampled_from([True, True, True, False])),
        min_runtime=draw(durations),
    )


@st.composite
def _active(draw: st.DrawFn, job: Job, pool: str) -> Job:
    since = NOW - draw(st.sampled_from([1_000, 40_000, 90_000]))
    state = draw(st.sampled_from([JobState.RUNNING] * 4 + [JobState.STOPPING, JobState.STARTING]))
    attempt = Attempt(
        number=1,
        training_job=job.name,
        token="t",
        pool=pool,
        instance_type="ml.test",
        admitted_at=since,
        created=state is not JobState.STARTING or draw(st.booleans()),
        running_since=None if state is JobState.STARTING else since,
        stop=StopOrder(cause=StopCause.EVICTED, by="x", at=NOW)
        if state is JobState.STOPPING
        else None,
    )
    return replace(job, state=state, attempt=attempt, attempts=1)


@st.composite
def _claimant(draw: st.DrawFn, job: Job) -> Job:
    if draw(st.integers(0, 5)):
        return job
    claim = Claim(pool=draw(st.sampled_from(job.pools)), amount=job.demand, since=NOW - 500)
    return replace(job, claim=claim)


@st.composite
def _refused(draw: st.DrawFn, job: Job) -> Job:
    """Some jobs were refused by a quota of something else, lately or long ago."""
    if draw(st.integers(0, 7)):
        return job
    pools = draw(st.permutations(job.pools))
    refused = tuple(pools[: draw(st.integers(1, len(pools)))])
    since = NOW - draw(st.sampled_from([0, NO_EVICTION_FOR]))
    return replace(job, refused_in=refused, changed_at=since)


@st.composite
def scenarios(draw: st.DrawFn, *, settled: bool = False) -> Scenario:
    """Random scenarios. `settled`: everything is submitted before the start and nothing is
    cancelled."""
    specs = [
        PoolSpec(
            name=name,
            capacity=draw(st.integers(1, 5)),
            stop_seconds=draw(st.sampled_from([0, 3, 20])),
            reserve_after=draw(st.sampled_from([None, None, 0, 60])),
            min_runtime=draw(st.sampled_from([0, 0, 30])),
        )
        for name in ("p", "q")[: draw(st.integers(1, 2))]
    ]
    names = [spec.name for spec in specs]
    jobs = [draw(_spec(f"j{i}", names, settled=settled)) for i in range(draw(st.integers(1, 9)))]
    return Scenario(pools=tuple(specs), jobs=tuple(_fitting(specs, jobs)))


def _fitting(specs: list[PoolSpec], jobs: list[JobSpec]) -> list[JobSpec]:
    """Jobs running at the start must fit; others need not."""
    room = {spec.name: spec.capacity.slots for spec in specs}
    kept = []
    for job in jobs:
        if job.pool is not None:
            if job.slots > room[job.pool]:
                continue
            room[job.pool] -= job.slots
        kept.append(job)
    return kept


@st.composite
def _spec(draw: st.DrawFn, name: str, pool_names: list[str], *, settled: bool) -> JobSpec:
    running = draw(st.integers(0, 3)) == 0
    fields: dict = {
        "name": name,
        "priority": draw(st.integers(0, 3)),
        "slots": draw(st.integers(1, 4)),
        "runtime": draw(st.sampled_from([1, 20, 50, 100])),
        "checkpoint": draw(st.booleans()),
        "preemptible": draw(st.sampled_from([True, True, True, False])),
        "pools": draw(st.lists(st.sampled_from(pool_names), min_size=1, unique=True)),
    }
    if running:
        fields |= {"running_since": -10, "pool": fields["pools"][0], "runtime": 60}
    else:
        fields["submit_at"] = draw(st.sampled_from([-5, 0] if settled else [-5, 0, 10, 20, 55]))
        if not settled:
            fields["cancel_at"] = draw(st.sampled_from([None, None, None, 12, 60]))
    return JobSpec.model_validate(fields)
