"""Worlds with nodes on a virtual clock: who starts when, and where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq.errors import ScenarioError
from slotq.simulate import Record, Scenario, load, simulate
from slotq.simulate.run.live import live_record
from slotq.simulate.run.simulated_nodes import SimulatedNodes
from slotq.simulate.whatif import ForecastInput, forecast
from slotq.simulate.whatif.forecast import NODE_START, Runtimes
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import Attempt
from slotq_core.model.callers import NO_LIMITS
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.sharing import NO_SHARING, Settings
from slotq_core.model.snapshot import QueueSnapshot, Snapshot
from slotq_core.policy.plan import Plan
from slotq_core.wire.scenario.views import scenario_view

NODES = {"gpus": 8, "keep": 600, "start_seconds": 180}


def ran(jobs: list[dict[str, Any]], *, slots: int = 1, **world: Any) -> tuple[Record, list[str]]:
    """The record of a run, and each state of each node with its moment (s)."""
    seen: list[str] = []
    states: dict[tuple[str, int], NodeState] = {}

    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        before = dict(states)
        states.clear()
        for node in snapshot.nodes:
            states[node.name, node.generation] = node.state
            if before.get((node.name, node.generation)) is not node.state:
                seen.append(f"{now // 1000} {node.name} {node.state}")
        seen.extend(
            f"{now // 1000} {name} gone" for name, n in sorted(before.keys() - states.keys())
        )

    pool = {"name": "p", "capacity": slots, "stop_seconds": 5, "nodes": NODES}
    scenario = Scenario.model_validate({"pools": [pool], "jobs": jobs, **world})
    return simulate(scenario, watch), seen


def job(name: str, at: int = 0, runtime: int = 100, **fields: Any) -> dict[str, Any]:
    return {"name": name, "submit_at": at, "runtime": runtime, **fields}


def test_sixty_trials_of_one_gpu_run_sixteen_at_once_on_two_nodes():
    record, seen = ran([job(f"t{n:02}", gpus=1) for n in range(60)], slots=2)
    starts = sorted(record.started(f"t{n:02}")[0] // 1000 for n in range(60))
    assert starts == [180] * 16 + [280] * 16 + [380] * 16 + [480] * 12
    assert all(record.states[f"t{n:02}"][-1][1] == "completed" for n in range(60))
    assert seen == [
        "0 node-1 starting",
        "0 node-2 starting",
        "180 node-1 ready",
        "180 node-2 ready",
        "1180 node-1 draining",
        "1180 node-2 draining",
        "1180 node-1 gone",
        "1180 node-2 gone",
    ]


def test_whole_gpus_wait_for_a_gpu_without_parts():
    halves = [job(f"h{n}", gpus=0.5, runtime=100 + 100 * (n % 2)) for n in range(16)]
    record, _ = ran([*halves, job("whole", at=200, gpus=1), job("part", at=200, gpus=0.5)])
    assert record.started("whole") == [380_000], "each GPU has one half until then"
    assert record.started("part") == [280_000]


def test_a_higher_rank_evicts_parts_of_one_gpu():
    quarters = [job(f"q{n:02}", gpus=0.25, runtime=1_000) for n in range(32)]
    record, _ = ran([*quarters, job("high", at=300, gpus=0.5, priority=1)], slots=1)
    assert record.started("high") == [305_000]
    assert sum(record.evictions(f"q{n:02}") for n in range(32)) == 2


def test_a_whole_instance_ends_a_node_without_jobs():
    record, seen = ran([job("a", gpus=1), job("whole", at=400)])
    assert record.started("whole") == [400_000]
    assert seen[-3:] == ["180 node-1 ready", "400 node-1 draining", "400 node-1 gone"]


def test_a_whole_instance_evicts_all_jobs_of_a_node_and_they_come_back():
    low = [job(f"low{n}", gpus=1, runtime=1_000) for n in range(3)]
    record, _ = ran([*low, job("whole", at=300, priority=1)])
    assert record.started("whole") == [305_000]
    assert [record.evictions(f"low{n}") for n in range(3)] == [1, 1, 1]
    assert record.started("low2") == [180_000, 405_000 + 180_000]


def test_projects_share_no_node_unless_the_pool_says_so():
    projects = [{"name": name, "quota": 1} for name in "ab"]
    jobs = [job("a", gpus=1, project="a"), job("b", gpus=1, project="b")]
    _, apart = ran(jobs, slots=2, projects=projects)
    assert apart[:2] == ["0 node-1 starting", "0 node-2 starting"]


def test_where_a_node_takes_one_persons_jobs_others_start_their_own_and_none_ends_in_turn():
    alone = {"name": "p", "capacity": 2, "nodes": NODES | {"uids": False}}
    jobs = [job(f"{who}{n}", at=n, gpus=1, user=who) for n in range(4) for who in ("ann", "bob")]
    record, seen = ran([*jobs, job("late", at=1_000, gpus=8, user="cleo")], pools=[alone])
    started = {each["name"]: record.started(each["name"])[0] // 1000 for each in jobs}
    assert {started[f"ann{n}"] for n in range(4)} == {180}
    assert [started[f"bob{n}"] for n in range(4)] == [360, 280, 280, 280]
    assert record.started("late") == [1_000_000], "it takes an empty node, whoever had it"
    begun = [line for line in seen if line.endswith("starting")]
    assert begun == ["0 node-1 starting", "180 node-2 starting"]


@pytest.mark.parametrize("extra", ["slots: 2", "demand: {slots: 1}", "running_since: 0, pool: p"])
def test_a_job_with_gpus_takes_no_slots_and_runs_on_no_node_at_the_start(tmp_path, extra: str):
    path = tmp_path / "world.yaml"
    at = "" if "running" in extra else "submit_at: 0, "
    path.write_text(
        "pools: [{name: p, capacity: 2, nodes: {gpus: 8}}]\n"
        f"jobs: [{{name: a, {at}gpus: 1, {extra}}}]\n"
    )
    with pytest.raises(ScenarioError, match="a job with gpus starts on a node"):
        load(path)


def test_a_forecast_goes_on_from_the_nodes_and_the_jobs_there():
    pool = Pool(
        name="p",
        instance_type="ml.p5.48xlarge",
        capacity=Demand(slots=2),
        nodes=NodeRules(gpus=8, keep=600_000),
    )
    waiting = [waits_for_gpus(name, gpus) for name, gpus in (("a", 2), ("b", 4), ("c", 8))]
    attempt = Attempt(
        number=1,
        training_job="r",
        token="",
        pool="p",
        instance_type="ml.p5.48xlarge",
        admitted_at=BEGIN,
        created=True,
        running_since=BEGIN,
        node="n1",
        node_generation=7,
        gpu_ids=(0, 1, 2, 3, 4, 5),
        node_gpus=8,
    )
    runs = replace(waits_for_gpus("r", 6), state=JobState.RUNNING, attempt=attempt, attempts=1)
    snapshot = QueueSnapshot(
        at=BEGIN, pools=(pool,), jobs=(runs, *waiting), nodes=(node("n1", NodeState.READY),)
    )
    settings = Settings(pools=(pool,), limits=NO_LIMITS, sharing=NO_SHARING)
    queue = ForecastInput.of(scenario_view(snapshot, settings, 1))
    queue = replace(queue, settings=replace(queue.settings, pools=(pool,)))
    record = forecast(queue, hours=2, runtimes=Runtimes(every=600_000)).record
    started = {name: record.started(name)[0] - BEGIN for name in "abc"}
    assert started == {"a": 0, "b": NODE_START, "c": 600_000}


BEGIN = 1_800_000_000_000


def waits_for_gpus(name: str, gpus: int) -> Job:
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=0,
        entry_time=BEGIN - 60_000 + ord(name),
        demand=Demand(slots=1),
        pools=("p",),
        gpus=WHOLE * gpus,
        tenant="t",
    )


def node(name: str, state: NodeState) -> Node:
    return Node(
        name=name,
        pool="p",
        generation=7,
        state=state,
        tenant="t",
        contents=Demand(gpus=8),
        training_job="",
        token="",
        started_at=BEGIN - 900_000,
        created=True,
        running_since=BEGIN - 600_000,
    )


def test_a_node_that_starts_when_a_run_begins_is_ready_in_time():
    nodes = SimulatedNodes({"p": 1_000_000})
    starting = node("n2", NodeState.STARTING)
    (begun,) = nodes.go_on([starting, node("n1", NodeState.STOPPING)])
    assert nodes.ready_at(begun) == BEGIN + 100_000
    nodes.be_ready("n2", 7, BEGIN + 100_000)
    nodes.settle([], BEGIN + 100_000)
    assert nodes.end([])
    assert [(each.name, each.state) for each in nodes.all()] == [("n2", NodeState.READY)]


def test_a_projects_limit_counts_the_gpus_of_its_jobs_on_nodes():
    projects = [{"name": "a", "quota": 0, "limit": 1}]
    jobs = [job(f"j{n:02}", gpus=2, project="a", role=f"role{n % 2}") for n in range(8)]
    record, seen = ran(jobs, slots=4, projects=projects)
    starts = sorted(record.started(f"j{n:02}")[0] // 1000 for n in range(8))
    assert starts == [180] * 4 + [280] * 4
    assert sum(" starting" in each for each in seen) == 2


def test_jobs_on_a_node_spend_their_parts_of_a_budget():
    """Eight jobs of one GPU of eight spend one slot-hour in an hour; then nothing starts."""
    projects = [{"name": "a", "quota": 0, "budget": {"slot_hours": 1, "beyond": "hard"}}]
    jobs = [job(f"j{n}", gpus=1, runtime=3_600, project="a") for n in range(8)]
    jobs += [job("half", at=2_000, gpus=1, runtime=10, project="a")]
    jobs += [job("late", at=4_000, gpus=1, runtime=10, project="a")]
    record, _ = ran(jobs, slots=2, projects=projects, until=9_000)
    assert [record.started(f"j{n}") for n in range(8)] == [[180_000]] * 8
    assert (record.started("half"), record.started("late")) == ([2_180_000], [])


SLICED = {"name": "p", "capacity": 1, "time_slice": 100, "nodes": {"gpus": 2, "keep": 600}}


def test_a_job_without_checkpoints_and_one_of_the_same_user_yield_nothing():
    jobs = [
        {"name": "a", "user": "ann", "submit_at": 0, "gpus": 1, "checkpoint": False},
        {"name": "b", "user": "bob", "submit_at": 0, "gpus": 1},
        {"name": "c", "user": "bob", "gpus": 1, "submit_at": 5},
        {"name": "d", "user": "cyd", "gpus": 1, "submit_at": 10},
    ]
    scenario = Scenario.model_validate({"pools": [SLICED], "jobs": jobs, "until": 290})
    record = simulate(scenario)
    started = {name: [at // 1000 for at in record.started(name)] for name in "abcd"}
    assert started == {"a": [0], "b": [0, 200], "c": [], "d": [100]}


@pytest.mark.parametrize("pools", [[], ["p"], ["q", "p"]])
def test_a_live_run_has_no_start_on_a_node_that_fails_as_an_instances(pools: list[str]):
    world = {
        "pools": [{"name": "p", "capacity": 1, "nodes": NODES}, {"name": "q", "capacity": 1}],
        "jobs": [job("a", gpus=1, pools=pools, retries=1, fails=[5, "no_capacity"])],
    }
    with pytest.raises(ScenarioError, match=r"jobs.a.fails: on a node no start fails"):
        live_record(Scenario.model_validate(world))
    world["jobs"][0]["pools"] = ["q"]
    assert live_record(Scenario.model_validate(world)).started("a")


def test_a_live_run_plays_a_thousandth_of_a_second_of_a_nodes_start():
    """1.001 seconds are 1000.9999999999999 milliseconds in floating point."""
    nodes = NODES | {"start_seconds": 1.001}
    world = {"pools": [{"name": "p", "capacity": 1, "nodes": nodes}], "jobs": [job("a", gpus=1)]}
    assert live_record(Scenario.model_validate(world)).started("a") == [1_001]
