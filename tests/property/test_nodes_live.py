"""Nodes on the queue itself, on random scenarios: it does what the policy says, and no job starts
on a node in vain."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario
from tests.property.in_vain import nobody_starts_in_vain

UNTIL = 3_000


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """A pool with nodes, perhaps one without, perhaps two projects and a gang. Jobs of two users
    and two roles take GPUs, parts of one, or instances; they fail, release and are cancelled."""
    gpus = draw(st.sampled_from([2, 4]))
    projects = draw(st.booleans())
    pools = [_pool(draw, gpus)]
    if draw(st.integers(0, 3)) == 0:
        pools.append({"name": "q", "capacity": 1, "stop_seconds": 3})
    jobs = [_job(draw, f"j{number}", gpus) for number in range(draw(st.integers(3, 10)))]
    for job in jobs if projects else ():
        job["project"] = draw(st.sampled_from("ab"))
    world: dict[str, Any] = {"pools": pools, "jobs": jobs, "until": UNTIL}
    if projects:
        world["projects"] = [{"name": "a", "quota": 1}, {"name": "b", "quota": 1}]
    if draw(st.integers(0, 3)) == 0:
        world["groups"] = [{"name": "gang"}]
        for job in jobs[:2]:
            member = {"group": "gang", "priority": 1, "user": "ann", "submit_at": 20}
            job.update(member, **({"project": "a"} if projects else {}))
    return Scenario.model_validate(world)


def _pool(draw: st.DrawFn, gpus: int) -> dict[str, Any]:
    nodes: dict[str, Any] = {
        "gpus": gpus,
        "keep": draw(st.sampled_from([0, 60, 600])),
        "start_seconds": draw(st.sampled_from([0, 30, 180])),
    }
    if draw(st.integers(0, 2)) == 0:
        nodes["share"] = "pool"
    if draw(st.integers(0, 4)) == 0:
        nodes["uids"] = False
    pool = {
        "name": "p",
        "capacity": draw(st.integers(1, 3)),
        "stop_seconds": draw(st.sampled_from([0, 0, 5, 40])),
        "nodes": nodes,
    }
    settings = {
        "consolidate": True,
        "time_slice": 100,
        "suspend_grace": 20,
        "min_runtime": 50,
        "changes": [{"at": 200, "capacity": draw(st.integers(0, 3))}],
    }
    return pool | _some(draw, settings, 4)


def _job(draw: st.DrawFn, name: str, gpus: int) -> dict[str, Any]:
    moments = st.sampled_from([0, 0, 10, 26, 155, 300])
    job: dict[str, Any] = {
        "name": name,
        "submit_at": draw(moments),
        "runtime": draw(st.sampled_from([0, 12, 50, 100, 300, 483])),
        "priority": draw(st.sampled_from([0, 0, 1, 2])),
        "user": draw(st.sampled_from(["ann", "bob"])),
        "role": draw(st.sampled_from(["", "", "", "research"])),
    }
    if amount := draw(st.sampled_from([0, 1, 1, 2, gpus, 0.5, 0.25])):
        job["gpus"] = amount
    fates = {
        "checkpoint": False,
        "cancel_at": job["submit_at"] + draw(st.integers(0, 300)),
        "release_seconds": draw(st.sampled_from([1, 10, 30])),
        "fails": [draw(st.sampled_from([10, "fault"]))],
    }
    return job | _some(draw, fates, 6)


def _some(draw: st.DrawFn, values: dict[str, Any], one_of: int) -> dict[str, Any]:
    """Each of these with a chance of one in so many."""
    return {key: value for key, value in values.items() if draw(st.integers(1, one_of)) == 1}


@given(worlds())
def test_the_queue_itself_follows_the_policy_on_nodes(scenario: Scenario) -> None:
    assert unequal(simulate(scenario, nobody_starts_in_vain()), live_record(scenario)) == []
