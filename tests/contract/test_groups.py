"""Groups as stored: a record is kept once, and only while its submission is open; a load has the
groups of the jobs that wait."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.calls import MAX_KEYS
from slotq_core.adapters.dynamodb.layout.table import group_key
from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.admission.groups import NewGroup
from slotq_core.errors import Conflict, NameTaken, NotUnderstood
from slotq_core.manager import QueueManager
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup, Sweep, entry_of
from slotq_core.model.jobs import Submission
from slotq_core.ports.store import Store
from slotq_core.ports.stored import AwaitedEnded, NewJob, StoredAlready
from slotq_core.wire.groups.group_submission import MOST_MEMBERS
from tests.contract.by_hand import Table
from tests.contract.metered import Metered
from tests.contract.test_pass_cost import Fixed, Training
from tests.contract.worlds import NOW, REQUEST, a_job, a_pool, a_queue, cancelling, commit, waits

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
    (opening,) = store.groups.openings()
    store.groups.keep(stored())
    assert [*store.groups.openings()] == []
    with pytest.raises(Conflict):
        store.groups.withdraw(opening)


def test_an_opening_knows_its_members_and_whether_it_is_new(store: Store) -> None:
    assert not store.groups.open("grid", digest="d", now=NOW, members=("a", "b"))
    assert store.groups.open("grid", digest="d", now=NOW, members=("a", "b"))
    assert [each.members for each in store.groups.openings()] == [("a", "b")]


def new(*names: str, **fields: Any) -> list[NewJob]:
    return [NewJob(job=a_job(name, group="grid", **fields), request=REQUEST) for name in names]


def test_a_whole_group_is_stored_with_its_record_or_not_at_all(store: Store) -> None:
    a_queue(store)
    waits(store, "b")
    with pytest.raises(StoredAlready) as refused:
        store.jobs.submit_together(new("a", "b"), group=stored())
    assert refused.value.job == store.jobs.get("b")
    store.groups.open("grid", digest="d", now=NOW)
    with pytest.raises(Conflict):
        store.jobs.submit_together(new("a"), group=stored())
    assert (store.jobs.get("a"), store.groups.get("grid")) == (None, None)
    store.groups.close("grid")
    jobs = store.jobs.submit_together(new("a", "c"), group=stored())
    assert [store.jobs.get(name) for name in ("a", "c")] == jobs
    assert store.jobs.request("c") == REQUEST
    assert store.groups.get("grid") == stored()
    with pytest.raises(Conflict):
        store.jobs.submit_together(new("d"), group=stored())
    assert store.jobs.get("d") is None
    assert [*store.repair.inspect()] == []


def test_jobs_stored_together_may_come_after_each_other_and_after_a_followed_one(
    store: Store,
) -> None:
    a_queue(store)
    waits(store, "first")
    both = new("a", followed=True) + new("b", after=("a", "first"))
    with pytest.raises(AwaitedEnded):
        store.jobs.submit_together(both)
    assert store.jobs.get("a") is None
    waits(store, "second", followed=True)
    store.jobs.submit_together(new("a", followed=True) + new("b", after=("a", "second")))
    assert [job.name for job in store.jobs.followers("a")] == ["b"]
    assert [job.name for job in store.jobs.followers("second")] == ["b"]


def test_as_many_jobs_are_stored_together_as_a_transaction_holds(dynamo: DynamoStore) -> None:
    """Three actions each, two for the record, a hundred in all."""
    many = new(*(f"m{number}" for number in range(40)))
    assert dynamo.jobs.fitting(many) == 33
    assert dynamo.jobs.fitting(many, group=stored()) == 32
    assert dynamo.jobs.fitting(many[:20]) == 20
    noise = random.Random(1).randbytes(250_000).hex()
    large = [replace(each, request={**REQUEST, "RoleArn": noise}) for each in many]
    assert 1 < dynamo.jobs.fitting(large) < 14, "4 MB in all"


def test_doctor_finds_a_group_whose_record_is_lost(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    kept(dynamo)
    waits(dynamo, "a", group="grid")
    assert [*dynamo.repair.inspect()] == []
    items.remove(group_key("grid"))
    (found,) = dynamo.repair.inspect()
    assert (found.kind, found.subject) == ("group", "grid")
    assert found.text == "it has no record, so that a does not start: cancel its jobs"
    dynamo.groups.open("grid", digest="d", now=NOW)
    assert [*dynamo.repair.inspect()] == []


def test_a_job_of_a_group_without_a_record_is_not_in_the_queue(store: Store) -> None:
    """Its submission is not finished."""
    a_queue(store)
    waits(store, "a", group="grid")
    for world in (store.worlds.load(NOW), store.worlds.load_all(NOW)):
        assert world.snapshot.waiting == ()
    assert store.worlds.load(NOW).unfinished == {"grid"}
    kept(store)
    for world in (store.worlds.load(NOW), store.worlds.load_all(NOW)):
        assert [job.name for job in world.snapshot.waiting] == ["a"]
    assert store.worlds.load(NOW).unfinished == frozenset()


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
    store.groups.open("grid", digest="d", now=NOW)
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
        name="grid",
        members=("a", "b", "c"),
        min_members=2,
        mandatory=("b",),
        same_pool=True,
        elastic=True,
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


def test_several_jobs_are_in_the_order_of_what_was_asked(store: Store) -> None:
    a_queue(store)
    names = [f"job{number}" for number in range(103)]
    for name in names:
        waits(store, name)
    asked = ["job102", "nobody", *names[:-1], "job102"]
    assert [*store.jobs.several(asked)] == ["job102", *names[:-1]]
    assert store.jobs.several(["job7"]) == {"job7": store.jobs.get("job7")}
    assert store.jobs.several([]) == {}


def test_the_members_of_a_group_are_read_together() -> None:
    """The record, then a hundred members a call; for a submission too, which reads the names of its
    members where a condition has refused it."""
    metered = Metered()
    store = metered.store()
    a_queue(store, a_pool(slots=MOST_MEMBERS))
    names = tuple(f"m{number}" for number in range(MOST_MEMBERS))
    for name in names:
        cancelled = cancelling(waits(store, name, group="grid", submitter="ann"))
        commit(store, cancelled)
    store.groups.open("grid", digest="d", now=NOW)
    store.groups.keep(replace(stored(), group=Group(name="grid", members=names)))
    reads = ceil(MOST_MEMBERS / MAX_KEYS)
    metered.reset()
    found = queue_of(store).group_lookup.status("grid")
    assert len(found.members) == MOST_MEMBERS
    assert metered.calls == {"get_item": 1, "batch_get_item": reads}
    metered.reset()
    queue_of(store).group_lookup.status("grid", with_attempts=True)
    assert metered.calls == {"get_item": 1, "batch_get_item": reads, "query": MOST_MEMBERS}
    assert metered.rounds == 1 + reads + ceil(MOST_MEMBERS / IN_FLIGHT)

    submitted = [
        (Submission(name=name, instance_type="ml.p5.48xlarge", demand=Demand(slots=1)), REQUEST)
        for name in (*(f"new-{name}" for name in names[1:]), names[0])
    ]
    wanted = NewGroup(name="other", members=tuple(submitted), digest="d", max_parallel=1)
    metered.reset()
    with pytest.raises(NameTaken, match=f"^members.{MOST_MEMBERS - 1}: "):
        queue_of(store).groups.submit(wanted, submitter="ann")
    assert metered.calls["get_item"] == 2, "the record and the revision of the configuration"
    assert metered.calls["batch_get_item"] == reads
    assert metered.rounds < 7 + reads


def queue_of(store: DynamoStore) -> QueueManager:
    return QueueManager(store=store, training=Training(), clock=Fixed(), notifier=Fixed())
