"""The store in memory and the one on DynamoDB treat nodes alike, whatever is done to them, and the
table holds what its nodes and jobs require."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import Conflict
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, NodeChange, World
from tests.contract.keeping_nodes import (
    TENANT,
    a_node_queue,
    becoming,
    coming,
    ending_node,
    getting_ready,
    starting_node,
)
from tests.contract.worlds import (
    NOW,
    REQUEST,
    a_job,
    claiming,
    completing,
    evicted,
    evicting,
    running,
    starting,
)

STEPS = 90
NAMES = ("n1", "n2")
GPUS = Demand(gpus=3, cpus=8)
Step = Callable[[Store], object]


def commits(store: Store, changes: list[Change], nodes: list[NodeChange], *, seen: bool) -> object:
    versions = {"p5": store.worlds.load(NOW).ledgers["p5"].version} if seen else None
    return store.decisions.commit(changes, nodes=nodes, seen=versions)


def of_a_node(chance: random.Random) -> Step:
    name, pick, seen = chance.choice(NAMES), chance.random(), chance.random() < 0.5
    state, empty = chance.choice([*NodeState]), chance.random() < 0.4

    def step(store: Store) -> object:
        node = store.nodes.get("p5", name)
        if node is None or pick < 0.1:
            return commits(store, [], [starting_node(store, name, contents=GPUS)], seen=seen)
        if pick < 0.4:
            ready = getting_ready(node)
            assert ready.after is not None
            after = replace(ready.after, one_person=name == "n2")
            return commits(store, [], [replace(ready, after=after)], seen=seen)
        if pick < 0.55:
            return commits(store, [], [becoming(node, state, empty=empty)], seen=seen)
        if pick < 0.6:
            old = replace(node, version=node.version - 1)
            return commits(store, [], [becoming(old, state)], seen=seen)
        if pick < 0.8:
            number = int(pick * 1000)
            return store.nodes.note_report(node, number, at=number, lease_until=NOW + number)  # type: ignore[func-returns-value]
        ends = [evicted(job) for job in _on(store, node)] if pick < 0.95 else []
        return commits(store, ends, [ending_node(node)], seen=seen)

    return step


def of_jobs(chance: random.Random) -> Step:
    name, seen = chance.choice(NAMES), chance.random() < 0.5
    picks = [(chance.random(), chance.random()) for _ in range(chance.choice([1, 1, 2, 3]))]
    gpus = [sorted(chance.sample(range(4), chance.choice([1, 1, 2]))) for _ in picks]
    parts = [(0, 25, 50, 60)[int(4000 * option) % 4] for _, option in picks]
    cpus, old = chance.choice([0, 0, 3]), chance.random() < 0.1

    def step(store: Store) -> object:
        node = store.nodes.get("p5", name)
        jobs = sorted(store.jobs.in_states(JobState), key=lambda job: job.name)
        changes: dict[str, Change] = {}
        for (which, option), taken, part in zip(picks, gpus, parts, strict=True):
            job = jobs[int(which * len(jobs))] if jobs else None
            if job is None or job.terminal:
                continue
            if job.active:
                options = [completing(job), evicted(job), evicting(job, "x")]
                if job.state is JobState.STARTING:
                    options.append(running(job))
                elif job.state is JobState.STOPPING:
                    options = options[:2]
            else:
                options = [claiming(job), starting(job)]
                if node is not None:
                    generation = node.generation - old
                    more = {"cpus": cpus, "part": part * (len(taken) == 1)}
                    more["generation"] = generation
                    options += [coming(job, node, *taken, **more)] * 6
            changes[job.name] = options[int(option * len(options))]
        return commits(store, [*changes.values()], [], seen=seen)

    return step


def submitted(number: int, chance: random.Random) -> Step:
    tenant = TENANT if chance.random() < 0.9 else "another"
    submitter = f"arn:aws:iam::123456789012:user/{'ada' if number % 2 else 'eve'}"
    job = a_job(f"job{number:02}", gpus=WHOLE, tenant=tenant, submitter=submitter)
    return lambda store: store.jobs.submit(job, REQUEST)


def steps(chance: random.Random) -> Iterator[Step]:
    for number in range(STEPS):
        kind = chance.choices(["node", "jobs", "submit"], weights=[3, 6, 2])[0]
        if kind == "submit":
            yield submitted(number, chance)
        else:
            yield of_a_node(chance) if kind == "node" else of_jobs(chance)


def outcome(store: Store, step: Step) -> object:
    try:
        return step(store)
    except Conflict:
        return Conflict


@pytest.mark.parametrize(
    ("client", "seed"), [("emulator", seed) for seed in range(6)], indirect=["client"]
)
def test_memory_and_dynamodb_treat_nodes_alike(client: Any, table: str, seed: int) -> None:
    memory, dynamo = MemoryStore(), DynamoStore(client, table, clock=lambda: NOW)
    a_node_queue(memory, slots=3)
    a_node_queue(dynamo, slots=3)
    held = 0
    for step in steps(random.Random(seed)):
        assert outcome(dynamo, step) == outcome(memory, step)
        world = memory.worlds.load(NOW)
        assert _held(dynamo.worlds.load(NOW)) == _held(world)
        held += sum(bool(job.attempt and job.attempt.node) for job in world.snapshot.active)
        for node in world.snapshot.nodes:
            assert dynamo.nodes.jobs(node) == memory.nodes.jobs(node)
        _no_gpu_twice(world.snapshot.nodes, memory)
        alone = [node for node in world.snapshot.nodes if node.one_person]
        assert all(len({job.person for job in _on(memory, node)}) < 2 for node in alone)
    assert held
    assert [*dynamo.repair.inspect()] == []
    assert set(dynamo.usage.running()) == set(memory.usage.running())


def _held(world: World) -> object:
    snapshot = world.snapshot
    return snapshot.nodes, snapshot.active, snapshot.pools, world.ledgers, world.poison


def _on(store: Store, node: Node) -> list[Any]:
    place = node.name, node.generation
    active = store.worlds.load(NOW).snapshot.active
    return [
        job
        for job in active
        if job.attempt and (job.attempt.node, job.attempt.node_generation) == place
    ]


def _no_gpu_twice(nodes: tuple[Node, ...], store: Store) -> None:
    for node in nodes:
        taken = Counter[int]()
        for job in _on(store, node):
            taken.update(job.attempt.gpus_held)
        assert max(taken.values(), default=0) <= WHOLE
        assert set(taken) <= set(range(node.contents["gpus"]))
        assert {job.tenant for job in _on(store, node)} <= {node.tenant}
