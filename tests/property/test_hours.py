"""Pools with hours, on random worlds: nothing that must not be interrupted is cut off, and nothing
runs in a closed pool."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.model.capacity.schedule import Schedule
from slotq_core.wire.capacity.opening_hours import schedule
from tests.property.in_vain import nobody_starts_in_vain

STEP = 600
"""Windows begin and end at multiples of it (s)."""
UNTIL = 14_400


@st.composite
def windows(draw: st.DrawFn) -> list[str]:
    """One to three windows of the first hours of 1970."""
    edges = draw(
        st.lists(st.integers(0, UNTIL // STEP), min_size=2, max_size=6, unique=True).map(sorted)
    )
    pairs = zip(edges[::2], edges[1::2], strict=False)
    return [f"thu {_clock(begin)}-{_clock(end)} UTC" for begin, end in pairs]


def _clock(step: int) -> str:
    minutes = step * STEP // 60
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """A pool with hours, another with hours or without, and jobs of all kinds."""
    names = ("p", "q")
    pools: list[dict[str, Any]] = [
        {
            "name": name,
            "capacity": draw(st.integers(1, 3)),
            "windows": draw(windows()) if name == "p" or draw(st.booleans()) else [],
            "suspend_grace": draw(st.sampled_from([0, 0, 60, 300])),
            "stop_seconds": draw(st.sampled_from([0, 0, 20])),
            "reserve_after": draw(st.sampled_from([None, None, 0, 100])),
            "consolidate": draw(st.booleans()),
        }
        for name in names
    ]
    group = draw(st.booleans())
    jobs = [draw(_job(f"j{number}", names)) for number in range(draw(st.integers(1, 7)))]
    if group:
        for job in jobs[:2]:
            job["group"] = "g"
    return Scenario.model_validate(
        {
            "pools": pools,
            "groups": [{"name": "g"}] if group else [],
            "jobs": jobs,
            "until": UNTIL + 2_000,
        }
    )


@st.composite
def _job(draw: st.DrawFn, name: str, pools: tuple[str, ...]) -> dict[str, Any]:
    runtime = draw(st.integers(1, 4_000))
    own = draw(st.lists(st.sampled_from(pools), min_size=1, unique=True))
    return {
        "name": name,
        "submit_at": draw(st.integers(0, 9_000)),
        "priority": draw(st.integers(0, 2)),
        "slots": draw(st.sampled_from([1, 1, 2])),
        "runtime": runtime,
        "max_runtime": runtime + draw(st.sampled_from([0, 1, 600, 3_000])),
        "preemptible": draw(st.booleans()),
        "checkpoint": draw(st.booleans()),
        "release_seconds": draw(st.sampled_from([None, 30])),
        "pools": own,
        "user": draw(st.sampled_from(["ann", "bob"])),
    }


def check(scenario: Scenario, record: Record) -> None:
    """The two promises, in milliseconds."""
    moments = {
        pool.name: _moments(pool.pool.windows, pool.suspend_grace) for pool in scenario.pools
    }
    stops = {pool.name: pool.stop_seconds for pool in scenario.pools}
    jobs = {job.name: job for job in scenario.jobs}
    gangs = [job for job in scenario.jobs if job.group]
    for run in record.runs:
        together = gangs if jobs[run.job].group else [jobs[run.job]]
        fixed = any(not (job.preemptible and job.checkpoint) for job in together)
        for change in moments[run.pool]:
            if change.slots == 0 and change.at > run.since:
                longest = max(job.max_runtime or 0 for job in together)
                if fixed:
                    assert run.since + longest <= change.at, (run, change)
                until = record.end if run.until is None else run.until
                assert until <= change.at + change.grace + stops[run.pool], (run, change)
                break
    begun = [(run.pool, run.since) for run in record.runs]
    for pool, since in begun:
        last = [change for change in moments[pool] if change.at <= since]
        assert not moments[pool] or last[-1].slots is None, (pool, since)
    suspended = {event.job for event in record.events if event.event == "suspend"}
    for name in suspended:
        together = gangs if jobs[name].group else [jobs[name]]
        assert all(job.preemptible and job.checkpoint for job in together)


def _moments(written: tuple[str, ...], grace: int) -> Schedule:
    return schedule(written, 0, grace=grace) if written else ()


@given(worlds())
def test_nothing_is_cut_off_and_nothing_runs_in_a_closed_pool(scenario: Scenario) -> None:
    check(scenario, simulate(scenario, nobody_starts_in_vain()))


@given(worlds())
def test_the_queue_itself_does_the_same(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []
