"""Gangs as stored: their rules and ends, decisions about groups one after another, and decisions in
parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.layout.table import parts_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, InParts, Part, PartsKind
from slotq_core.storage.ends import HISTORY
from tests.contract.by_hand import Table
from tests.contract.metered import Metered
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    attempts_of,
    cancelling,
    commit,
    completing,
    running,
    starting,
    starts,
    waits,
)

S = JobState
GANG = Group(name="gang", members=("a", "b", "c"), min_members=2, mandatory=("a",), same_pool=True)


def kept(store: Store, group: Group = GANG, at: int = NOW) -> Group:
    store.groups.open(group.name, digest="d", now=at)
    store.groups.keep(StoredGroup(group=group, submitter="ann", digest="d", at=at))
    store.groups.close(group.name)
    return group


def members(store: Store, *names: str) -> list[Job]:
    return [waits(store, name, group="gang") for name in names]


def groups(store: Store, now: int = NOW) -> tuple[Group, ...]:
    found = store.worlds.load(now).snapshot.groups
    assert found == store.worlds.load_all(now).snapshot.groups
    return found


def test_a_gangs_rules_are_kept(store: Store) -> None:
    a_queue(store)
    kept(store)
    members(store, "a")
    assert groups(store) == (GANG,)
    assert store.groups.get("gang") == StoredGroup(group=GANG, submitter="ann", digest="d", at=NOW)


def test_a_load_knows_what_has_become_of_the_members(store: Store) -> None:
    a_queue(store)
    kept(store)
    a, b, c = members(store, "a", "b", "c")
    commit(store, completing(commit(store, running(commit(store, starting(a))))))
    commit(store, cancelling(b))
    assert groups(store) == (replace(GANG, ended={"a": S.COMPLETED, "b": S.CANCELLED}),)
    held = commit(store, Change(before=c, after=replace(c, state=S.HELD)))
    assert groups(store) == ()
    members(store, "d")
    commit(store, cancelling(held))
    (group,) = groups(store)
    assert dict(group.ended) == {"a": S.COMPLETED, "b": S.CANCELLED, "c": S.CANCELLED}


def test_a_load_has_the_gangs_of_the_jobs_that_run_or_claim_slots(store: Store) -> None:
    a_queue(store)
    kept(store)
    starts(store, "a", group="gang")
    assert groups(store) == (GANG,)


def test_another_job_of_a_members_name_is_no_member(store: Store) -> None:
    a_queue(store)
    kept(store)
    members(store, "a", "b")
    commit(store, cancelling(waits(store, "c")))
    assert groups(store) == (GANG,)


def test_nobody_waits_for_a_member_whose_record_has_expired(store: Store) -> None:
    a_queue(store)
    kept(store)
    members(store, "a", "b")
    (group,) = groups(store, NOW + HISTORY)
    assert dict(group.ended) == {"c": S.CANCELLED}


def test_a_member_that_has_ended_is_read_once(dynamo: DynamoStore, items: Table) -> None:
    a_queue(dynamo)
    kept(dynamo)
    a, *_ = members(dynamo, "a", "b", "c")
    commit(dynamo, cancelling(a))
    assert groups(dynamo) == (replace(GANG, ended={"a": S.CANCELLED}),)
    items.remove(("JOB#a", "JOB"))
    assert groups(dynamo) == (replace(GANG, ended={"a": S.CANCELLED}),)


def test_decisions_about_groups_are_made_one_after_another(store: Store) -> None:
    """Also where they touch different pools."""
    a_queue(store, a_pool("p5"), a_pool("p4"))
    a, b = members(store, "a", "b")
    seen = store.worlds.load(NOW).group_decisions
    store.decisions.commit([starting(a)], seen={}, group_decisions=seen)
    with pytest.raises(Conflict):
        store.decisions.commit([starting(b, "p4")], seen={}, group_decisions=seen)
    assert store.worlds.load(NOW).group_decisions == seen + 1
    store.decisions.commit([starting(b, "p4")], seen={}, group_decisions=seen + 1)
    assert store.configuration.read().revision == 1


def a_decision(store: Store, *changes: Change, kind: PartsKind = PartsKind.START) -> InParts:
    steps = tuple((change.before, change.after) for change in changes)
    return InParts(number=store.worlds.load(NOW).group_decisions, kind=kind, steps=steps)


def begun(store: Store) -> tuple[InParts, list[Change]]:
    """A start in two parts, of which the first is committed."""
    a_queue(store, a_pool(slots=3))
    kept(store)
    changes = [starting(job) for job in members(store, "a", "b")]
    decision = a_decision(store, *changes)
    part = Part(of=decision, opens=True)
    store.decisions.commit(changes[:1], group_decisions=decision.number, part=part)
    return decision, changes


def test_a_load_meets_a_decision_in_parts_until_its_last_part(store: Store) -> None:
    decision, (_, second) = begun(store)
    assert store.worlds.load(NOW).in_parts == store.decisions.in_parts() == decision
    store.decisions.commit([], part=Part(of=decision))
    assert store.worlds.load(NOW).in_parts == decision
    store.decisions.commit([second], part=Part(of=decision, closes=True))
    assert store.worlds.load(NOW).in_parts is store.decisions.in_parts() is None
    assert [job.name for job in store.worlds.load(NOW).snapshot.active] == ["a", "b"]


def test_the_end_of_a_decision_in_parts_is_a_decision(store: Store) -> None:
    decision, (_, second) = begun(store)
    seen = store.worlds.load(NOW).group_decisions
    assert seen == decision.number + 1
    store.decisions.commit([second], part=Part(of=decision, closes=True))
    with pytest.raises(Conflict):
        store.decisions.commit([], group_decisions=seen)


@pytest.mark.parametrize("closes", [False, True])
def test_no_part_is_committed_without_the_record(store: Store, closes: bool) -> None:
    decision, (_, second) = begun(store)
    undo = store.decisions.turn_back(decision)
    assert undo == replace(decision, kind=PartsKind.UNDO) == store.worlds.load(NOW).in_parts
    with pytest.raises(Conflict):
        store.decisions.commit([second], part=Part(of=decision, closes=closes))
    store.decisions.commit([], part=Part(of=undo, closes=True))
    with pytest.raises(Conflict):
        store.decisions.commit([second], part=Part(of=undo, closes=closes))
    assert store.jobs.get("b") == second.before


def test_only_a_start_that_is_there_is_turned_back(store: Store) -> None:
    decision, _ = begun(store)
    undo = store.decisions.turn_back(decision)
    with pytest.raises(Conflict):
        store.decisions.turn_back(decision)
    store.decisions.commit([], part=Part(of=undo, closes=True))
    with pytest.raises(Conflict):
        store.decisions.turn_back(decision)


def test_one_decision_is_in_parts_at_a_time(store: Store) -> None:
    begun(store)
    other = a_decision(store)
    with pytest.raises(Conflict):
        store.decisions.commit([], group_decisions=other.number, part=Part(of=other, opens=True))


def test_an_attempt_that_is_taken_back_has_never_been(store: Store) -> None:
    decision, (first, _) = begun(store)
    job = store.jobs.get("a")
    assert job is not None and job.attempt is not None
    before = replace(first.before, followed=True)
    commit(store, Change(before=job, after=before))
    assert store.jobs.get("a") == replace(before, version=job.version + 1)
    assert attempts_of(store, "a") == ()
    assert store.jobs.owner_of(job.attempt.training_job) is None
    world = store.worlds.load(NOW)
    assert [each.name for each in world.snapshot.waiting] == ["a", "b"]
    assert world.snapshot.active == ()
    assert world.ledgers["p5"].used.slots == 0
    assert [*store.repair.inspect()] == []
    assert store.decisions.in_parts() == decision


def test_two_hundred_jobs_fit_the_record(store: Store) -> None:
    a_queue(store, a_pool(slots=200))
    changes = [starting(job) for job in members(store, *(f"m{n:03d}" for n in range(200)))]
    decision = a_decision(store, *changes)
    first = Part(of=decision, opens=True)
    count = store.decisions.fitting(changes, part=first)
    assert 1 <= count <= len(changes)
    store.decisions.commit(changes[:count], group_decisions=decision.number, part=first)
    assert store.decisions.in_parts() == decision


def test_a_transaction_takes_what_fits(dynamo: DynamoStore) -> None:
    """The count is what DynamoDB takes, to a few actions."""
    a_queue(dynamo, a_pool(slots=200))
    changes = [starting(job) for job in members(dynamo, *(f"m{n:03d}" for n in range(40)))]
    decision = a_decision(dynamo, *changes)
    first = Part(of=decision, opens=True)
    seen = {"p5": dynamo.worlds.load(NOW).ledgers["p5"].version}
    count = dynamo.decisions.fitting(changes, seen=seen, part=first)
    assert count == 19
    dynamo.decisions.commit(changes[:count], seen=seen, group_decisions=decision.number, part=first)


def test_a_decision_that_cannot_be_read_is_put_aside(dynamo: DynamoStore, items: Table) -> None:
    begun(dynamo)
    items.change(parts_key(), steps={"S": "?"})
    world = dynamo.worlds.load(NOW)
    assert world.in_parts is None
    (poison,) = world.poison
    dynamo.repair.quarantine(poison)
    world = dynamo.worlds.load(NOW)
    assert (world.in_parts, world.poison) == (None, ())


def test_a_gang_costs_no_calls_once_it_is_known() -> None:
    """The record and each ended member are read once; who is held is read each time."""
    metered = Metered()
    store = metered.store()
    a_queue(store, a_pool(slots=20))
    names = tuple(f"m{number:02d}" for number in range(20))
    kept(store, Group(name="gang", members=names, min_members=5))
    jobs = members(store, *names)
    for job in jobs[:10]:
        commit(store, completing(commit(store, running(commit(store, starting(job))))))
    for job in jobs[10:15]:
        commit(store, starting(job))
    commit(store, Change(before=jobs[15], after=replace(jobs[15], state=S.HELD)))

    def reads(ended: int) -> list[str]:
        metered.items_read.clear()
        (group,) = store.worlds.load(NOW).snapshot.groups
        assert len(group.ended) == ended
        return [pk for pk, _ in metered.items_read if pk.startswith(("GROUP#", "JOB#"))]

    assert sorted(reads(10)) == ["GROUP#gang", *(f"JOB#m{n:02d}" for n in range(10)), "JOB#m15"]
    assert reads(10) == reads(10) == ["JOB#m15"]
    commit(store, cancelling(store.jobs.get("m15")))
    assert reads(11) == ["JOB#m15"]
    assert reads(11) == []
