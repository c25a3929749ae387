"""Nodes: their slots, the room on them, and their ends. The database enforces all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.errors import Conflict, SlotQError
from slotq_core.model.attempts import StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.nodes import MOST_JOBS, Node, NodeState, node_of_owner
from slotq_core.ports.store import Store
from slotq_core.ports.stored import NodeChange
from tests.contract.keeping_nodes import (
    a_node_queue,
    becoming,
    changed,
    coming,
    ending_node,
    getting_ready,
    now,
    ready,
    runs_on,
    starting_node,
    version,
    waits_for_gpus,
)
from tests.contract.worlds import (
    NOW,
    a_pool,
    claiming,
    commit,
    completing,
    evicted,
    evicting,
    runs,
    starting,
    waits,
)


def used(store: Store, pool: str = "p5") -> Demand:
    return store.worlds.load(NOW).ledgers[pool].used


# --- starts


def test_a_node_takes_a_slot_from_its_start_to_its_end(store: Store) -> None:
    a_node_queue(store)
    before = version(store)
    node = changed(store, starting_node(store))
    assert (node.generation, node.version) == (before + 1, 1)
    assert store.worlds.load(NOW).snapshot.nodes == (node,)
    assert used(store) == Demand(slots=1)
    node = changed(store, getting_ready(node))
    assert (node.state, node.version, node.idle_since) == (NodeState.READY, 2, NOW + 1)
    assert version(store) == before + 1
    node = changed(store, becoming(node, NodeState.STOPPING))
    assert used(store) == Demand(slots=1)
    store.decisions.commit([], nodes=[ending_node(node)])
    assert store.nodes.get("p5", "n1") is None
    assert store.worlds.load(NOW).snapshot.nodes == ()
    assert used(store) == Demand()
    assert version(store) == before + 2


def test_a_node_takes_the_contents_that_its_pool_counts(store: Store) -> None:
    store.configuration.change(
        [a_pool("p5", capacity=Demand(slots=2, gpus=16))], who="the test", now=NOW
    )
    node = changed(store, starting_node(store, demand=Demand(slots=1, gpus=8)))
    assert used(store) == Demand(slots=1, gpus=8)
    store.decisions.commit([], nodes=[ending_node(node)])
    assert used(store) == Demand()


def test_a_node_needs_a_free_slot(store: Store) -> None:
    a_node_queue(store, slots=1)
    runs(store, "whole")
    with pytest.raises(Conflict):
        store.decisions.commit([], nodes=[starting_node(store)])
    assert store.worlds.load(NOW).snapshot.nodes == ()
    assert used(store) == Demand(slots=1)


def test_whole_jobs_find_the_slot_taken(store: Store) -> None:
    a_node_queue(store, slots=1)
    changed(store, starting_node(store))
    with pytest.raises(Conflict):
        commit(store, starting(waits(store, "whole")))


def test_a_name_is_of_one_node_at_a_time(store: Store) -> None:
    a_node_queue(store)
    node = changed(store, starting_node(store))
    with pytest.raises(Conflict):
        store.decisions.commit([], nodes=[starting_node(store)])
    store.decisions.commit([], nodes=[ending_node(node)])
    again = changed(store, starting_node(store))
    assert again.generation > node.generation


def test_the_generation_is_the_ledgers_next_version(store: Store) -> None:
    a_node_queue(store)
    stale = starting_node(store)
    changed(store, starting_node(store, "n2"))
    with pytest.raises(Conflict):
        store.decisions.commit([], nodes=[stale])
    seen = {"p5": version(store)}
    with pytest.raises(SlotQError):
        store.decisions.commit([], nodes=[starting_node(store, generation=99)], seen=seen)
    store.decisions.commit([], nodes=[starting_node(store)], seen=seen)


def test_a_node_and_the_claim_on_it_are_one_transaction(store: Store) -> None:
    a_node_queue(store)
    job = waits_for_gpus(store, "job1")
    change = claiming(job)
    assert change.after.claim is not None
    on_node = replace(change.after, claim=replace(change.after.claim, node="n1"))
    start = starting_node(store)
    store.decisions.commit(
        [replace(change, after=on_node)], nodes=[start], seen={"p5": version(store)}
    )
    world = store.worlds.load(NOW)
    assert [node.name for node in world.snapshot.nodes] == ["n1"]
    assert [each.claim and each.claim.node for each in world.snapshot.waiting] == ["n1"]


def test_the_training_job_leads_to_its_node_while_it_lasts(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    owner = store.jobs.owner_of(node.training_job)
    assert node_of_owner(owner or "") == ("p5", "n1")
    assert store.jobs.get(owner or "") is None
    store.decisions.commit([], nodes=[ending_node(node)])
    assert store.jobs.owner_of(node.training_job) is None
    runs(store, "whole")
    assert node_of_owner(store.jobs.owner_of("whole") or "") is None


# --- the room on a node


def test_a_job_on_a_node_takes_its_gpus_and_no_slot(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    before = version(store)
    one, two = runs_on(store, "one", node, 0, 1), runs_on(store, "two", node, 7)
    world = store.worlds.load(NOW)
    assert world.snapshot.active == (one, two)
    assert world.ledgers["p5"].used == Demand(slots=1)
    assert store.nodes.jobs(node) == {"one": 1, "two": 1}
    assert now(store, node).idle_since is None
    commit(store, completing(one))
    assert store.nodes.jobs(node) == {"two": 1}
    assert now(store, node).idle_since is None
    commit(store, completing(two))
    assert store.nodes.jobs(node) == {}
    assert now(store, node).idle_since == NOW + 4
    assert version(store) == before
    runs_on(store, "three", node, 0, 1, 2, 3, 4, 5, 6, 7)


def test_no_gpu_is_given_twice(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    runs_on(store, "one", node, 0, 1)
    for taken in [(0,), (1, 2), (2, 1)]:
        job = waits_for_gpus(store, f"late-{taken[0]}-{len(taken)}", len(taken))
        with pytest.raises(Conflict):
            commit(store, coming(job, node, *taken))
        commit(store, replace(coming(job, node, 0), after=replace(job, priority=2)))
    assert store.nodes.jobs(node) == {"one": 1}


def test_no_gpu_is_given_twice_in_one_transaction(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    jobs = [waits_for_gpus(store, name) for name in ("one", "two")]
    with pytest.raises(Conflict):
        store.decisions.commit([coming(job, node, 3) for job in jobs])
    store.decisions.commit([coming(jobs[0], node, 3), coming(jobs[1], node, 4)])
    assert store.nodes.jobs(node) == {"one": 1, "two": 1}


def test_parts_of_a_gpu_are_given_until_they_are_a_whole_one(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    quarters = [runs_on(store, f"quarter{n}", node, 3, part=25) for n in range(3)]
    late, whole = (waits_for_gpus(store, name) for name in ("late", "whole"))
    for change in (coming(late, node, 3, part=30), coming(whole, node, 3)):
        with pytest.raises(Conflict):
            commit(store, change)
    runs_on(store, "fits", node, 3, part=25)
    with pytest.raises(Conflict):
        commit(store, coming(late, node, 3, part=5))
    store.decisions.commit([completing(quarters[0]), coming(late, node, 3, part=25)])
    with pytest.raises(Conflict):
        commit(store, coming(whole, node, 3))
    commit(store, coming(whole, node, 4))
    assert set(store.nodes.jobs(node)) == {"quarter1", "quarter2", "fits", "late", "whole"}


def test_parts_of_one_transaction_add_up(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    jobs = [waits_for_gpus(store, name) for name in ("one", "two")]
    with pytest.raises(Conflict):
        store.decisions.commit([coming(job, node, 3, part=55) for job in jobs])
    store.decisions.commit([coming(job, node, 3, part=50) for job in jobs])
    assert store.nodes.jobs(node) == {"one": 1, "two": 1}


def test_a_gpu_can_be_taken_that_another_job_frees_in_the_same_commit(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    old, new = runs_on(store, "old", node, 0), waits_for_gpus(store, "new")
    store.decisions.commit([completing(old), coming(new, node, 0)])
    assert store.nodes.jobs(node) == {"new": 1}


def test_a_node_has_no_gpu_beyond_its_contents(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    with pytest.raises(Conflict):
        commit(store, coming(waits_for_gpus(store, "job1"), node, 8))


def test_other_resources_of_a_node_must_fit(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    one = runs_on(store, "one", node, 0, cpus=90)
    job = waits_for_gpus(store, "two")
    with pytest.raises(Conflict):
        commit(store, coming(job, node, 1, cpus=7))
    with pytest.raises(Conflict):
        commit(store, coming(job, node, 1, licences=1))
    job = commit(store, coming(job, node, 1, cpus=6))
    commit(store, completing(one))
    runs_on(store, "three", node, 0, cpus=90)


@pytest.mark.parametrize(
    "state", [state for state in NodeState if state is not NodeState.READY], ids=str
)
def test_jobs_come_only_to_a_ready_node(store: Store, state: NodeState) -> None:
    a_node_queue(store)
    node = changed(store, becoming(ready(store), state))
    with pytest.raises(Conflict):
        commit(store, coming(waits_for_gpus(store, "job1"), node, 0))


def test_jobs_of_another_tenant_do_not_come(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    runs_on(store, "one", node, 0)
    other = waits_for_gpus(store, "other", tenant="another")
    with pytest.raises(Conflict):
        commit(store, coming(other, node, 1))
    both = [waits_for_gpus(store, "two"), other]
    with pytest.raises(Conflict):
        store.decisions.commit([coming(job, node, n + 1) for n, job in enumerate(both)])


OTHER = "arn:aws:iam::123456789012:user/eve"


def for_one_person(store: Store) -> Node:
    return changed(store, replace_after(getting_ready(changed(store, starting_node(store)))))


def replace_after(change: NodeChange) -> NodeChange:
    assert change.after is not None
    return replace(change, after=replace(change.after, one_person=True))


def test_a_node_of_one_persons_jobs_takes_those_of_whoever_comes_first(store: Store) -> None:
    a_node_queue(store)
    node = for_one_person(store)
    theirs, later = (waits_for_gpus(store, n, submitter=OTHER) for n in ("theirs", "later"))
    ours = waits_for_gpus(store, "ours")
    with pytest.raises(Conflict):
        store.decisions.commit([coming(theirs, node, 0), coming(ours, node, 1)])
    first = commit(store, coming(theirs, node, 0))
    with pytest.raises(Conflict):
        commit(store, coming(ours, node, 1))
    second = commit(store, coming(later, node, 1))
    commit(store, completing(first))
    with pytest.raises(Conflict):
        commit(store, coming(ours, node, 0))
    store.decisions.commit([completing(second), coming(ours, node, 1)])
    with pytest.raises(Conflict):
        commit(store, coming(waits_for_gpus(store, "late", submitter=OTHER), node, 0))
    assert store.nodes.jobs(node) == {"ours": 1}


def test_other_nodes_take_the_jobs_of_several_persons(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    jobs = [waits_for_gpus(store, "theirs", submitter=OTHER), waits_for_gpus(store, "ours")]
    store.decisions.commit([coming(job, node, n) for n, job in enumerate(jobs)])
    commit(store, coming(waits_for_gpus(store, "late", submitter=OTHER), node, 2))
    assert len(store.nodes.jobs(node)) == 3


def test_jobs_come_to_the_generation_that_was_read(store: Store) -> None:
    a_node_queue(store)
    old = ready(store)
    store.decisions.commit([], nodes=[ending_node(old)])
    new = ready(store)
    job = waits_for_gpus(store, "job1")
    with pytest.raises(Conflict):
        commit(store, coming(job, old, 0))
    commit(store, coming(job, new, 0))


def test_a_node_takes_as_many_jobs_as_may_be(store: Store) -> None:
    a_node_queue(store)
    many = Demand(gpus=MOST_JOBS + 1)
    node = ready(store, contents=many)
    jobs = [waits_for_gpus(store, f"job{n:02}") for n in range(MOST_JOBS + 1)]
    half = MOST_JOBS // 2
    for begin, end in ((0, half), (half, MOST_JOBS)):
        for at in range(begin, end, 8):
            some = [coming(jobs[n], node, n) for n in range(at, at + 8)]
            store.decisions.commit(some)
    with pytest.raises(Conflict):
        commit(store, coming(jobs[-1], node, MOST_JOBS))
    assert len(store.nodes.jobs(node)) == MOST_JOBS


def test_a_start_that_is_taken_back_leaves_the_node(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    before = waits_for_gpus(store, "job1", 2)
    started = commit(store, coming(before, node, 0, 1))
    restored = replace(before, version=started.version)
    store.decisions.commit([replace(completing(started), after=restored, ended=None)])
    assert store.nodes.jobs(node) == {}
    runs_on(store, "job2", node, 0, 1)


def test_an_eviction_keeps_the_gpus_until_the_end(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    victim, job = runs_on(store, "victim", node, 0), waits_for_gpus(store, "job1")
    stopping, claimant = store.decisions.commit(
        [evicting(victim, "job1"), claiming(job)], seen={"p5": version(store)}
    )
    with pytest.raises(Conflict):
        commit(store, coming(claimant, node, 0))
    commit(store, evicted(stopping))
    commit(store, coming(claimant, node, 0))
    world = store.worlds.load(NOW)
    assert [each.name for each in world.snapshot.active] == ["job1"]
    assert [each.name for each in world.snapshot.waiting] == ["victim"]


def test_a_decision_on_an_old_ledger_does_not_come_to_a_node(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    seen = {"p5": version(store)}
    one, two = (waits_for_gpus(store, name) for name in ("one", "two"))
    store.decisions.commit([coming(one, node, 0)], seen=seen)
    with pytest.raises(Conflict):
        store.decisions.commit([coming(two, node, 1)], seen=seen)
    store.decisions.commit([coming(two, node, 1)], seen={"p5": version(store)})


def test_the_end_of_a_job_refuses_no_decision(store: Store) -> None:
    """It only makes room."""
    a_node_queue(store)
    node = ready(store)
    old, new = runs_on(store, "old", node, 0), waits_for_gpus(store, "new")
    seen = {"p5": version(store)}
    commit(store, completing(old))
    store.decisions.commit([coming(new, node, 1)], seen=seen)


# --- changes and ends of nodes


def test_a_node_changes_only_as_it_was_read(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    draining = becoming(node, NodeState.DRAINING)
    changed(store, draining)
    for late in (draining, becoming(node, NodeState.STOPPING), ending_node(node)):
        with pytest.raises(Conflict):
            store.decisions.commit([], nodes=[late])


def test_a_change_keeps_what_has_come_meanwhile(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    job = runs_on(store, "job1", node, 0)
    store.nodes.note_report(node, 7, at=1_000, lease_until=NOW + 60_000)
    order = StopOrder(cause=StopCause.EVICTED, by="job2", at=NOW + 5)
    after = changed(store, becoming(node, NodeState.STOPPING, stop=order))
    assert (after.reports, after.reported_at, after.lease_until) == (7, 1_000, NOW + 60_000)
    assert (after.idle_since, after.stop) == (None, order)
    assert store.nodes.jobs(node) == {"job1": 1}
    commit(store, completing(job))
    assert now(store, node).idle_since == NOW + 4


def test_a_node_keeps_the_problems_of_its_last_report(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    for number, problems in enumerate([("no route", "no S3"), ("no S3",), ()], start=1):
        store.nodes.note_report(node, number, at=1, lease_until=NOW, problems=problems)
        assert now(store, node).problems == problems
    assert store.worlds.load(NOW).snapshot.nodes == (now(store, node),)


def test_an_empty_node_ends_only_while_it_is_empty(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    stop = becoming(node, NodeState.STOPPING, empty=True)
    job = runs_on(store, "job1", node, 0)
    with pytest.raises(Conflict):
        store.decisions.commit([], nodes=[stop])
    commit(store, completing(job))
    assert changed(store, stop).state is NodeState.STOPPING


def test_a_node_with_jobs_does_not_end(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    one, two = runs_on(store, "one", node, 0), runs_on(store, "two", node, 1)
    node = changed(store, becoming(node, NodeState.STOPPING))
    with pytest.raises(Conflict):
        store.decisions.commit([], nodes=[ending_node(node)])
    with pytest.raises(Conflict):
        store.decisions.commit([evicted(one)], nodes=[ending_node(node)])
    assert used(store) == Demand(slots=1)
    store.decisions.commit([evicted(one), evicted(two)], nodes=[ending_node(node)])
    world = store.worlds.load(NOW)
    assert (world.snapshot.nodes, world.ledgers["p5"].used) == ((), Demand())
    assert [job.name for job in world.snapshot.waiting] == ["one", "two"]


def test_a_full_node_ends_in_several_transactions(store: Store) -> None:
    """First as many jobs as fit, then the rest with the node. Each by another handler: whoever dies
    in between leaves a node with fewer jobs."""
    a_node_queue(store)
    node = ready(store, contents=Demand(gpus=MOST_JOBS))
    jobs = [waits_for_gpus(store, f"job{n:02}") for n in range(MOST_JOBS)]
    for at in range(0, MOST_JOBS, 8):
        some = [coming(jobs[n], node, n) for n in range(at, at + 8)]
        jobs[at : at + 8] = store.decisions.commit(some)
    node = changed(store, becoming(node, NodeState.STOPPING))
    left, end, transactions = [evicted(job) for job in jobs], ending_node(node), 0
    while left:
        fits = store.decisions.fitting(left, nodes=[end])
        ends = [end] if fits == len(left) else []
        store.decisions.commit(left[:fits], nodes=ends)
        expected, transactions = len(left) - fits, transactions + 1
        snapshot = store.worlds.load(NOW).snapshot
        left = [evicted(job) for job in snapshot.active]
        assert [it.name for it in snapshot.nodes] == (["n1"] if left else [])
        assert len(left) == expected
        assert len(store.nodes.jobs(node)) == expected
    assert transactions <= 2
    assert used(store) == Demand()


def test_a_slot_comes_free_once(store: Store) -> None:
    a_node_queue(store)
    node, other = ready(store), ready(store, "n2")
    store.decisions.commit([], nodes=[ending_node(node)])
    with pytest.raises(Conflict):
        store.decisions.commit([], nodes=[ending_node(node)])
    again = ready(store)
    with pytest.raises(Conflict):
        store.decisions.commit([], nodes=[ending_node(node)])
    assert store.worlds.load(NOW).snapshot.nodes == (again, other)
    assert used(store) == Demand(slots=2)


def test_gpus_come_free_once(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    job = runs_on(store, "job1", node, 0)
    commit(store, evicted(job))
    runs_on(store, "job2", node, 0)
    with pytest.raises(Conflict):
        commit(store, evicted(job))
    late = waits_for_gpus(store, "late")
    with pytest.raises(Conflict):
        commit(store, coming(late, node, 0))


def test_contents_change_only_on_an_empty_node(store: Store) -> None:
    a_node_queue(store)
    node = changed(store, starting_node(store, contents=Demand()))
    learned = Demand(gpus=2, cpus=8)
    ready_now = getting_ready(node)
    assert ready_now.after is not None
    node = changed(
        store, replace(ready_now, after=replace(ready_now.after, contents=learned), empty=True)
    )
    assert node.contents == learned
    runs_on(store, "job1", node, 0, 1, cpus=8)
    with pytest.raises(Conflict):
        commit(store, coming(waits_for_gpus(store, "job2"), node, 2))


def test_a_job_comes_to_no_node_that_starts_or_ends_with_it(store: Store) -> None:
    a_node_queue(store)
    start = starting_node(store)
    job = waits_for_gpus(store, "job1")
    with pytest.raises(SlotQError):
        store.decisions.commit([coming(job, start.node, 0)], nodes=[start])
    node = ready(store)
    with pytest.raises(SlotQError):
        store.decisions.commit([coming(job, node, 0)], nodes=[ending_node(node)])


# --- reports and leases


def test_reports_only_rise_and_only_for_their_generation(store: Store) -> None:
    a_node_queue(store)
    old = ready(store)

    def note(node: Node, number: int) -> None:
        store.nodes.note_report(node, number, at=number, lease_until=NOW + number)

    before = (version(store), now(store, old).version)
    note(old, 2)
    for late in (1, 2):
        with pytest.raises(Conflict):
            note(old, late)
    note(old, 5)
    assert now(store, old).reports == 5
    assert (version(store), now(store, old).version) == before
    store.decisions.commit([], nodes=[ending_node(now(store, old))])
    with pytest.raises(Conflict):
        note(old, 6)
    assert store.nodes.get("p5", "n1") is None
    new = ready(store)
    with pytest.raises(Conflict):
        note(old, 6)
    assert now(store, new).reports == 0
    note(new, 1)


# --- configuration


def test_nodes_are_found_when_their_pool_no_longer_keeps_nodes(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    job = runs_on(store, "job1", node, 0)
    store.configuration.change([a_pool("p5", 2), a_pool("p4", 2)], who="the test", now=NOW)
    snapshot = store.worlds.load(NOW).snapshot
    assert snapshot.nodes == (now(store, node),)
    assert snapshot.active == (job,)
    assert store.worlds.load_all(NOW).snapshot.nodes == snapshot.nodes
    assert store.usage.running() == (job,)


def test_a_pool_is_not_removed_while_it_has_a_node(store: Store) -> None:
    a_node_queue(store)
    node = ready(store)
    with pytest.raises(SlotQError):
        store.configuration.change([a_pool("p4", 2)], who="the test", now=NOW)
    store.decisions.commit([], nodes=[ending_node(node)])
    store.configuration.change([a_pool("p4", 2)], who="the test", now=NOW)


def test_a_job_whose_node_is_gone_can_end(store: Store) -> None:
    """No end waits for a node: here a newer generation has its name."""
    a_node_queue(store)
    old = ready(store)
    job, on_both = runs_on(store, "job1", old, 0), runs_on(store, "job2", old, 1)
    _forget(store, old)
    new = ready(store)
    other = runs_on(store, "other", new, 0)
    commit(store, evicted(job))
    together = [evicted(on_both), completing(other)]
    with pytest.raises(Conflict):
        store.decisions.commit(together)
    for change in together:
        commit(store, change)
    assert store.nodes.jobs(new) == {}
    runs_on(store, "last", new, 0, 1)


def _forget(store: Any, node: Node) -> None:
    """Remove a node, as an operator might."""
    if hasattr(store, "_state"):
        del store._state.nodes[node.pool, node.name]
        store._state.raise_version(node.pool, Demand() - node.demand)
        return
    change = NodeChange(before=node, after=None)
    calls = store.decisions._calls
    from slotq_core.adapters.dynamodb.transactions import commit_actions, key_in

    actions = commit_actions(calls.table, [], None, nodes=[change])
    for action in actions:
        if "Delete" in action:
            action["Delete"].pop("ConditionExpression", None)
            action["Delete"].pop("ExpressionAttributeNames", None)
            action["Delete"].pop("ExpressionAttributeValues", None)
    assert len({key_in(action) for action in actions}) == 4
    calls.transact(actions)
