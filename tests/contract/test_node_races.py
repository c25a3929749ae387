"""Two handlers at one node at the same time: with threads on engines where that proves something.
Each race is run several times, since either may win."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slotq_core.errors import Conflict
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, NodeChange
from tests.contract.keeping_nodes import (
    a_node_queue,
    becoming,
    changed,
    coming,
    ending_node,
    now,
    ready,
    runs_on,
    starting_node,
    waits_for_gpus,
)
from tests.contract.test_races import THREADS, at_once, insist, won
from tests.contract.worlds import NOW, commit, completing, evicted

TURNS = 4


def committing(store: Store, *changes: Change, node: NodeChange | None = None) -> Callable[[], Any]:
    nodes = [node] if node else []
    return lambda: store.decisions.commit(changes, nodes=nodes)


def free_again(store: Store, node: Node) -> None:
    """The node is empty, and a job can have all of it."""
    assert store.nodes.jobs(node) == {}
    job = runs_on(store, f"all-{now(store, node).version}-{node.name}", node, *range(8))
    commit(store, completing(job))


def test_a_gpu_goes_to_exactly_one(racing_store: Store) -> None:
    store = a_node_queue(racing_store)
    node = ready(store)
    for turn in range(TURNS):
        jobs = [waits_for_gpus(store, f"job{turn}-{n}", 2) for n in range(THREADS)]
        results = at_once(
            *(committing(store, coming(job, node, 3, n % 3)) for n, job in enumerate(jobs))
        )
        ((job,),) = won(results)
        assert store.nodes.jobs(node) == {job.name: 1}
        commit(store, completing(job))
    free_again(store, node)


def test_jobs_and_gpus_add_up_under_concurrent_starts_and_ends(racing_store: Store) -> None:
    """Starts and ends, each retried until it holds."""
    store = a_node_queue(racing_store)
    node = ready(store)
    most: list[int] = []

    def live(number: int) -> Callable[[], None]:
        def life() -> None:
            job = waits_for_gpus(store, f"job{number}")
            job = _insist(store, lambda: coming(job, node, number % 3))
            most.append(len(store.nodes.jobs(node)))
            insist(store, completing(job))

        return life

    results = at_once(*(live(n) for n in range(THREADS)))
    assert [each for each in results if each is not None] == []
    assert len(most) == THREADS
    assert max(most) <= 3
    free_again(store, node)


def test_a_job_comes_or_the_node_drains_first(racing_store: Store) -> None:
    store = a_node_queue(racing_store)
    for turn in range(TURNS):
        node, job = ready(store, f"n{turn}"), waits_for_gpus(store, f"job{turn}")
        stop = becoming(node, NodeState.STOPPING, empty=True)
        results = at_once(committing(store, coming(job, node, 0)), committing(store, node=stop))
        assert len(won(results)) == 1
        there = store.nodes.jobs(node)
        assert (now(store, node).state is NodeState.STOPPING) == (not there)
        for name in there:
            commit(store, completing(_job(store, name)))
        store.decisions.commit([], nodes=[ending_node(now(store, node))])
    assert store.worlds.load(NOW).ledgers["p5"].used == Demand()


def test_a_node_ends_once(racing_store: Store) -> None:
    store = a_node_queue(racing_store, slots=3)
    ready(store, "other")
    for turn in range(TURNS):
        node = ready(store)
        one, two = runs_on(store, f"a{turn}", node, 0), runs_on(store, f"b{turn}", node, 1)
        end = committing(store, evicted(one), evicted(two), node=ending_node(node))
        results = at_once(*[end] * THREADS)
        assert len(won(results)) == 1
        world = store.worlds.load(NOW)
        assert [each.name for each in world.snapshot.nodes] == ["other"]
        assert (world.snapshot.active, world.ledgers["p5"].used) == ((), Demand(slots=1))


def test_a_job_ends_once_while_its_node_ends(racing_store: Store) -> None:
    """By its own end, or with its node."""
    store = a_node_queue(racing_store)
    for turn in range(TURNS):
        node = ready(store)
        job = runs_on(store, f"job{turn}", node, 0)
        alone = committing(store, evicted(job))
        both = committing(store, evicted(job), node=ending_node(node))
        results = at_once(alone, both)
        assert len(won(results)) == 1
        if store.nodes.get("p5", "n1"):
            assert store.nodes.jobs(node) == {}
            store.decisions.commit([], nodes=[ending_node(now(store, node))])
        assert store.worlds.load(NOW).ledgers["p5"].used == Demand()
        assert store.worlds.load(NOW).snapshot.active == ()


def test_the_last_slot_goes_to_one_node(racing_store: Store) -> None:
    store = a_node_queue(racing_store, slots=1)
    for _ in range(TURNS):
        starts = [starting_node(store, f"n{n}") for n in range(THREADS)]
        results = at_once(*(committing(store, node=start) for start in starts))
        assert len(won(results)) == 1
        world = store.worlds.load(NOW)
        (node,) = world.snapshot.nodes
        assert world.ledgers["p5"].used == Demand(slots=1)
        store.decisions.commit([], nodes=[ending_node(node)])


def test_one_generation_of_a_name_starts_once(racing_store: Store) -> None:
    store = a_node_queue(racing_store)
    for _ in range(TURNS):
        start = starting_node(store)
        results = at_once(*[committing(store, node=start)] * THREADS)
        assert len(won(results)) == 1
        (node,) = store.worlds.load(NOW).snapshot.nodes
        assert node.generation == start.node.generation
        store.decisions.commit([], nodes=[ending_node(node)])
    assert store.worlds.load(NOW).ledgers["p5"].used == Demand()


def test_numbers_are_taken_once(racing_store: Store) -> None:
    store = a_node_queue(racing_store)
    node = ready(store)
    for number in range(1, TURNS):

        def take(number: int = number) -> None:
            store.nodes.note_report(node, number, at=NOW, lease_until=NOW)

        results = at_once(*[take] * THREADS)
        assert [each for each in results if each is None] == [None]
        assert now(store, node).reports == number


def test_a_report_and_a_change_do_not_undo_each_other(racing_store: Store) -> None:
    store = a_node_queue(racing_store)
    node = ready(store)
    for number in range(1, TURNS):

        def report(number: int = number) -> None:
            store.nodes.note_report(node, number, at=number, lease_until=NOW + number)

        before = now(store, node)
        moved = becoming(before, NodeState.DRAINING, pending_since=NOW + number)
        at_once(report, committing(store, node=moved))
        after = now(store, node)
        if after.version == before.version:  # A collision, not a condition.
            after = changed(store, moved)
        if after.reports < number:
            report()
        after = now(store, node)
        assert (after.reports, after.lease_until) == (number, NOW + number)
        assert (after.state, after.pending_since) == (NodeState.DRAINING, NOW + number)


def _insist(store: Store, start: Callable[[], Change]) -> Job:
    while True:
        try:
            return commit(store, start())
        except Conflict:
            continue


def _job(store: Store, name: str) -> Job:
    job = store.jobs.get(name)
    assert job is not None
    return job


@pytest.fixture(autouse=True)
def _whole(racing_store: Store) -> Any:
    """Whatever has happened, the stored data agree."""
    yield
    assert [*racing_store.repair.inspect()] == []
