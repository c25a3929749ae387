"""Groups as stored: a record is kept once, and only while its submission is open; a load has the
groups of the jobs that wait."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from math import ceil

import pytest

from slotq_core.adapters.dynamodb.layout.table import group_key
from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, NameTaken, NotUnderstood
from slotq_core.manager import QueueManager
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup, Sweep, entry_of
from slotq_core.model.jobs import Submission
from slotq_core.operations.jobs.groups import NewGroup
from slotq_core.ports.store import Store
from slotq_core.ports.stored import AwaitedEnded
from slotq_core.wire.groups.group_submission import MOST_MEMBERS
from tests.contract.by_hand import Table
from tests.contract.metered import Metered
from tests.contract.test_pass_cost import Fixed, Training
from tests.contract.worlds import NOW, REQUEST, a_pool, a_queue, cancelling, commit, waits

GRID = Group(name="grid", members=("a", "b"), max_parallel=1)


def stored(digest: str = "d") -> StoredGroup:
    return StoredGroup(group=GRID, submitter="ann", digest=digest, project="vision", at=NOW)


def kept(store: Store) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(stored())
    store.groups.close("grid")


def test_a_record_is_read_as_it_was_kept(store: Store) -> None:
    assert store.groups.get("grid") is None
    kept(store)
    assert store.groups.get("grid") == stored()
    assert [*store.groups.openings()] == []


SWEEP = Sweep(
    parameters=({"lr": 0.1, "opt": "adam"}, {"lr": 1, "fast": True}),
    metric="loss",
    maximize=True,
    goal=0.9,
)


def test_a_sweep_is_read_as_it_was_kept_and_its_goal_is_met_once_noted(store: Store) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(replace(stored(), sweep=SWEEP))
    assert store.groups.get("grid") == replace(stored(), sweep=SWEEP)
    for job in ("a", "b"):
        store.groups.meet("grid", job=job)
        assert store.groups.get("grid") == replace(stored(), sweep=SWEEP, met_by=job)


def test_a_record_is_kept_once_and_only_while_its_submission_is_open(store: Store) -> None:
    with pytest.raises(Conflict):
        store.groups.keep(stored())
    store.groups.open("grid", digest="d", now=NOW)
    with pytest.raises(Conflict):
        store.groups.keep(stored("another"))
    store.groups.keep(stored())
    with pytest.raises(Conflict):
        store.groups.keep(stored())


def test_one_submission_of_a_name_is_open_at_a_time(store: Store) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    with pytest.raises(Conflict):
        store.groups.open("grid", digest="another", now=NOW)
    store.groups.open("grid", digest="d", now=NOW + 1)
    (opening,) = store.groups.openings()
    assert (opening.name, opening.digest, opening.at) == ("grid", "d", NOW + 1)
    store.groups.close("grid")
    store.groups.open("grid", digest="another", now=NOW)


def test_a_submission_that_was_begun_again_is_not_withdrawn(store: Store) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    (opening,) = store.groups.openings()
    store.groups.open("grid", digest="d", now=NOW + 1)
    with pytest.raises(Conflict):
        store.groups.withdraw(opening)


def test_nothing_is_withdrawn_that_was_kept_and_nothing_kept_that_was_withdrawn(
    store: Store,
) -> None:
    store.groups.open("grid", digest="d", now=NOW)
    (opening,) = store.groups.openings()
    store.groups.withdraw(opening)
    assert [each.withdrawn for each in store.groups.openings()] == [True]
    with pytest.raises(Conflict):
        store.groups.keep(stored())
    with pytest.raises(Conflict):
        store.groups.open("grid", digest="d", now=NOW + 1)
    store.groups.close("grid")
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(stored())
    (opening,) = store.groups.openings()
    with pytest.raises(Conflict):
        store.groups.withdraw(opening)


def test_a_load_has_the_groups_of_the_jobs_that_wait(store: Store) -> None:
    a_queue(store)
    kept(store)
    assert (
        store.worlds.load(NOW).snapshot.groups == store.worlds.load_all(NOW).snapshot.groups == ()
    )
    waits(store, "a", group="grid")
    waits(store, "c", group="unknown")
    assert (
        store.worlds.load(NOW).snapshot.groups
        == store.worlds.load_all(NOW).snapshot.groups
        == (GRID,)
    )


def test_a_member_waits_for_its_groups_entry_and_for_no_job(store: Store) -> None:
    a_queue(store)
    member = waits(store, "a", group="grid", after_any=(entry_of("grid"),))
    assert [*store.jobs.followers(entry_of("grid"))] == [member]
    assert store.worlds.load(NOW).snapshot.waiting == ()
    assert member.awaited_jobs == ()
    with pytest.raises(AwaitedEnded):
        waits(store, "b", group="grid", after_any=(entry_of("grid"), "nobody"))
    assert [*store.repair.inspect()] == []


def test_of_a_group_whose_record_cannot_be_read_nothing_starts(
    dynamo: DynamoStore, items: Table
) -> None:
    a_queue(dynamo)
    kept(dynamo)
    items.change(group_key("grid"), maxParallel={"S": "many"})
    waits(dynamo, "a", group="grid")
    (group,) = dynamo.worlds.load(NOW).snapshot.groups
    assert (group.name, group.max_parallel) == ("grid", 0)
    with pytest.raises(NotUnderstood):
        dynamo.groups.get("grid")


def test_a_load_keeps_nothing_of_what_sweeps_try(dynamo: DynamoStore) -> None:
    """A queue may have hundreds of sweeps, and each tries up to 250,000 bytes."""
    a_queue(dynamo)
    tried = {f"{number:x}": number for number in range(10_000)}
    for name in map(str, range(20)):
        sweep = Sweep(parameters=(tried,), metric="loss")
        rules = replace(GRID, name=f"grid{name}", members=(name,))
        dynamo.groups.open(rules.name, digest="d", now=NOW)
        dynamo.groups.keep(replace(stored(), group=rules, sweep=sweep))
        waits(dynamo, name, group=rules.name)
    tracemalloc.start()
    dynamo.worlds.load(NOW)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 5_000_000


def test_a_record_is_read_once(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    kept(dynamo)
    waits(dynamo, "a", group="grid")
    dynamo.worlds.load(NOW)
    items.remove(group_key("grid"))
    assert dynamo.worlds.load(NOW).snapshot.groups == (GRID,)


def test_the_rules_of_a_gang_are_read_as_they_were_kept(store: Store) -> None:
    gang = Group(
        name="grid", members=("a", "b", "c"), min_members=2, mandatory=("b",), same_pool=True
    )
    wanted = replace(stored(), group=gang)
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(wanted)
    assert store.groups.get("grid") == wanted


def test_reads_at_once_are_in_the_order_of_what_was_asked(store: Store) -> None:
    a_queue(store)
    for name in ("a", "b", "c"):
        waits(store, name)
    found = store.at_once(store.jobs.get, ["c", "nobody", "a", "b"])
    assert [job and job.name for job in found] == ["c", None, "a", "b"]
    assert store.at_once(store.jobs.get, []) == []


def test_the_members_of_a_group_are_read_together() -> None:
    """The record, then sixteen members at a time; for a submission too, which reads the names of
    its members. None of it costs a call for each member, one after the other."""
    metered = Metered()
    store = metered.store()
    a_queue(store, a_pool(slots=MOST_MEMBERS))
    names = tuple(f"m{number}" for number in range(MOST_MEMBERS))
    for name in names:
        cancelled = cancelling(waits(store, name, group="grid", submitter="ann"))
        commit(store, cancelled)
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(replace(stored(), group=Group(name="grid", members=names)))
    rounds_of_members = ceil(MOST_MEMBERS / IN_FLIGHT)
    metered.reset()
    found = queue_of(store).group_lookup.status("grid")
    assert len(found.members) == MOST_MEMBERS
    assert metered.calls == {"get_item": 1 + MOST_MEMBERS}
    assert metered.rounds == 1 + rounds_of_members
    metered.reset()
    queue_of(store).group_lookup.status("grid", with_attempts=True)
    assert metered.calls == {"get_item": 1, "query": MOST_MEMBERS}
    assert metered.rounds == 1 + rounds_of_members

    submitted = [
        (Submission(name=name, instance_type="ml.p5.48xlarge", demand=Demand(slots=1)), REQUEST)
        for name in (*(f"new-{name}" for name in names[1:]), names[0])
    ]
    wanted = NewGroup(name="other", members=tuple(submitted), digest="d", max_parallel=1)
    metered.reset()
    with pytest.raises(NameTaken, match=f"^members.{MOST_MEMBERS - 1}: "):
        queue_of(store).groups.submit(wanted, submitter="ann")
    assert metered.calls["get_item"] == 2 + MOST_MEMBERS, "the revision of the configuration too"
    assert metered.rounds == sum(metered.calls.values()) - MOST_MEMBERS + rounds_of_members
    assert metered.rounds < 7 + rounds_of_members


def queue_of(store: DynamoStore) -> QueueManager:
    return QueueManager(store=store, training=Training(), clock=Fixed(), notifier=Fixed())
