"""Storing a job, its request and its attempts, and finding them again."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from slotq_core.adapters.dynamodb.layout.table import job_key
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.errors import Conflict, InvalidRequest, NameTaken, NoSuchJob
from slotq_core.lifecycle import move
from slotq_core.model.attempts import Attempt, AttemptOutcome
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Ahead, Change
from tests.contract import worlds
from tests.contract.by_hand import Table
from tests.contract.test_dynamodb_cost import measured
from tests.contract.worlds import (
    NOW,
    REQUEST,
    S,
    a_job,
    a_pool,
    a_queue,
    ahead_of,
    attempts_of,
    backing_off,
    cancelling,
    claiming,
    commit,
    completing,
    evicted,
    evicting,
    running,
    runs,
    starting,
    starts,
    waits,
)
from tests.hypothesis_profiles import SHARES_FIXTURES


def test_a_submitted_job_is_stored_whole_with_its_first_version(store: Store) -> None:
    job = a_job("job1", project="vision", message="hello", retries=2, min_runtime=1000)
    kept = store.jobs.submit(job, REQUEST)
    assert kept == replace(job, version=1)
    assert store.jobs.get("job1") == kept
    assert store.jobs.request("job1") == REQUEST


ROLE = "arn:aws:sts::123456789012:assumed-role/Research"


@pytest.mark.parametrize("person", [ROLE, f"{ROLE}/ada", ""])
def test_a_job_keeps_the_person_as_of_its_submission(store: Store, person: str) -> None:
    """Patterns of roles may change afterwards."""
    kept = store.jobs.submit(a_job("job1", submitter=f"{ROLE}/ada", person=person), REQUEST)
    assert (kept.person, store.jobs.get("job1")) == (person, kept)
    (waiting,) = store.worlds.load(NOW).snapshot.waiting
    assert waiting == kept


def test_a_job_of_an_earlier_version_has_the_person_of_its_submitter(
    dynamo: DynamoStore, items: Table
) -> None:
    dynamo.jobs.submit(a_job("job1", submitter=f"{ROLE}/ada", person=ROLE), REQUEST)
    assert "person" not in items.get(job_key("job1"))
    found = dynamo.jobs.get("job1")
    assert found is not None
    assert found.person == ROLE


def test_a_job_that_was_never_submitted_is_unknown(store: Store) -> None:
    assert store.jobs.get("job1") is None
    assert attempts_of(store, "job1") == ()
    assert store.jobs.owner_of("job1") is None
    with pytest.raises(NoSuchJob):
        store.jobs.request("job1")


def test_a_name_can_be_used_once(store: Store) -> None:
    first = waits(store, "job1", priority=7)
    with pytest.raises(NameTaken):
        store.jobs.submit(a_job("job1", priority=9), {"another": "request"})
    assert store.jobs.get("job1") == first
    assert store.jobs.request("job1") == REQUEST
    assert [job.priority for job in store.worlds.load(NOW).snapshot.waiting] == [7]


def test_a_name_stays_taken_after_the_jobs_end(store: Store) -> None:
    commit(store, cancelling(waits(store, "job1")))
    with pytest.raises(NameTaken):
        waits(store, "job1")


def test_a_changed_request_is_part_of_its_commit(store: Store) -> None:
    a_queue(store)
    job, other = waits(store, "job1"), {"TrainingJobName": "any", "Tags": []}
    after = replace(job, priority=9)
    (changed,) = store.decisions.commit([Change(before=job, after=after, request=other)])
    assert changed == replace(after, version=job.version + 1)
    assert store.jobs.request("job1") == other
    with pytest.raises(Conflict):
        store.decisions.commit([Change(before=job, after=after, request=REQUEST)])
    assert store.jobs.request("job1") == other
    commit(store, starting(changed))
    assert store.jobs.request("job1") == other


def test_many_requests_are_read_together(store: Store) -> None:
    names = [f"job{n:03d}" for n in range(130)]
    for name in names:
        store.jobs.submit(a_job(name), {"TrainingJobName": name})
    found = store.jobs.requests([*names, "nobody", names[0]])
    assert found == {name: {"TrainingJobName": name} for name in names}
    assert store.jobs.requests([]) == {}


def test_a_change_to_a_too_large_request_changes_nothing(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    large = {"Environment": random.Random(1).randbytes(600_000).hex()}
    with pytest.raises(InvalidRequest):
        store.decisions.commit([Change(before=job, after=replace(job, priority=9), request=large)])
    assert (store.jobs.get("job1"), store.jobs.request("job1")) == (job, REQUEST)


def test_a_held_job_is_in_no_line(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    (held,) = store.decisions.commit([Change(before=job, after=move(job, S.HELD, at=NOW + 1))])
    assert store.jobs.get("job1") == held
    assert store.worlds.load(NOW).snapshot.waiting == ()
    assert store.worlds.load_all(NOW).snapshot.waiting == ()
    assert [each.name for each in store.jobs.in_states([S.HELD])] == ["job1"]
    (released,) = store.decisions.commit(
        [Change(before=held, after=move(held, S.PENDING, at=NOW + 2))]
    )
    assert store.worlds.load(NOW).snapshot.waiting == (released,)


def test_a_changed_priority_changes_the_place(store: Store) -> None:
    a_queue(store)
    first, last = waits(store, "first", priority=5), waits(store, "last", priority=1)
    assert ahead_of(store, last) == Ahead(jobs=1)
    (last,) = store.decisions.commit([Change(before=last, after=replace(last, priority=9))])
    assert (ahead_of(store, last), ahead_of(store, first)) == (Ahead(jobs=0), Ahead(jobs=1))


def test_a_request_that_compresses_well_may_exceed_an_item(store: Store) -> None:
    request = {"HyperParameters": {f"p{n}": "a long value " * 600 for n in range(100)}}
    assert len(json.dumps(request)) > 400 * 1024
    store.jobs.submit(a_job("job1"), request)
    assert store.jobs.request("job1") == request


def test_a_request_too_large_when_compressed_is_refused_and_nothing_is_stored(store: Store) -> None:
    noise = random.Random(1).randbytes(600_000).hex()
    with pytest.raises(InvalidRequest, match="even when compressed"):
        store.jobs.submit(a_job("job1"), {"Environment": {"noise": noise}})
    assert store.jobs.get("job1") is None
    assert store.worlds.load(NOW).snapshot.waiting == ()


def test_the_largest_accepted_request_fits_the_database(store: Store) -> None:
    """The limit is just below DynamoDB's, so the queue refuses before DynamoDB does."""
    noise = random.Random(1).randbytes(300_000).hex()
    low, high = 0, len(noise)
    while high - low > 16:
        middle = (low + high) // 2
        try:
            store.jobs.submit(a_job(f"try-{middle}"), {"noise": noise[:middle]})
            low = middle
        except InvalidRequest:
            high = middle
    assert low > 400_000


def test_a_change_raises_the_version_by_one(store: Store) -> None:
    job = waits(store, "job1")
    after = replace(job, message="seen", version=99)
    (kept,) = store.decisions.commit([Change(before=job, after=after)])
    assert kept == replace(after, version=2)
    assert store.jobs.get("job1") == kept


def test_a_change_from_an_old_version_is_refused(store: Store) -> None:
    job = waits(store, "job1")
    newer = commit(store, Change(before=job, after=replace(job, message="first")))
    with pytest.raises(Conflict):
        store.decisions.commit([Change(before=job, after=replace(job, message="second"))])
    assert store.jobs.get("job1") == newer


def test_a_repeated_commit_is_refused_and_changes_nothing(store: Store) -> None:
    """So retrying a commit with a lost answer does no harm."""
    a_queue(store)
    change = starting(waits(store, "job1"))
    commit(store, change)
    world = store.worlds.load(NOW)
    with pytest.raises(Conflict):
        store.decisions.commit([change])
    assert store.worlds.load(NOW) == world


def test_a_change_of_an_unknown_job_is_refused(store: Store) -> None:
    job = replace(a_job("ghost"), version=1)
    with pytest.raises(Conflict):
        store.decisions.commit([cancelling(job)])
    assert store.jobs.get("ghost") is None


def test_one_false_condition_undoes_the_whole_commit(store: Store) -> None:
    a_queue(store)
    fresh, stale = waits(store, "fresh"), waits(store, "stale")
    moved = commit(store, Change(before=stale, after=replace(stale, message="moved on")))
    before = store.worlds.load(NOW)
    with pytest.raises(Conflict):
        store.decisions.commit([starting(fresh), starting(stale)])
    assert store.worlds.load(NOW) == before
    assert (store.jobs.get("fresh"), store.jobs.get("stale")) == (fresh, moved)
    assert attempts_of(store, "fresh") == ()
    assert store.jobs.owner_of("fresh") is None


def test_a_job_is_in_the_lists_of_its_state_all_its_life(store: Store) -> None:
    """In each state a pass finds the job in exactly the lists where it looks for such jobs."""
    a_queue(store)
    job = waits(store, "job1")
    assert _seen(store) == {"waiting": job}
    job = commit(store, starting(job))
    assert _seen(store) == {"active": job}
    job = commit(store, running(job))
    assert _seen(store) == {"active": job}
    job = commit(store, evicting(job, "job9"))
    assert _seen(store) == {"active": job}
    job = commit(store, evicted(job))
    assert _seen(store) == {"waiting": job}
    job = commit(store, claiming(job))
    assert _seen(store) == {"waiting": job}
    job = commit(store, starting(job))
    assert _seen(store) == {"active": job}
    job = commit(store, backing_off(job, until=NOW + 60_000))
    assert _seen(store, NOW + 60_000) == {"due": job}
    job = commit(store, Change(before=job, after=_back(job)))
    assert _seen(store) == {"waiting": job}
    job = commit(store, starting(job))
    job = commit(store, completing(job))
    assert _seen(store) == {}
    assert store.jobs.get("job1") == job
    assert [attempt.outcome for attempt in attempts_of(store, "job1")] == [
        AttemptOutcome.EVICTED,
        AttemptOutcome.NO_CAPACITY,
        AttemptOutcome.COMPLETED,
    ]


def _back(job: Job) -> Job:
    return replace(job, state=S.PREEMPTED, not_before=None, changed_at=NOW)


def _seen(store: Store, now: int = NOW) -> dict[str, Job]:
    snapshot = store.worlds.load(now).snapshot
    parts = {"active": snapshot.active, "waiting": snapshot.waiting, "due": snapshot.due}
    return {part: job for part, jobs in parts.items() for job in jobs}


def test_the_history_has_the_live_attempt_as_it_is_now(store: Store) -> None:
    a_queue(store)
    job = runs(store, "job1")
    assert job.attempt is not None
    assert job.attempt.running_since is not None
    assert attempts_of(store, "job1") == (job.attempt,)


def test_the_history_keeps_an_attempt_as_it_ended(store: Store) -> None:
    a_queue(store)
    job = commit(store, evicting(runs(store, "job1"), "job2"))
    change = evicted(job)
    again = commit(store, starting(commit(store, change)))
    assert attempts_of(store, "job1") == (change.ended, again.attempt)


def test_every_attempt_is_found_by_its_training_job(store: Store) -> None:
    a_queue(store)
    job = commit(store, evicted(commit(store, evicting(runs(store, "job1"), "job2"))))
    commit(store, starting(job))
    assert store.jobs.owner_of("job1") == "job1"
    assert store.jobs.owner_of("job1-qstamp-2-abcdef") == "job1"
    assert store.jobs.owner_of("job1-qstamp-3-abcdef") is None


def test_attempts_are_in_order_beyond_the_tenth(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    for _ in range(11):
        job = commit(store, evicted(commit(store, starting(job))))
    assert [attempt.number for attempt in attempts_of(store, "job1")] == list(range(1, 12))


def test_jobs_are_listed_by_state_latest_entry_first(store: Store) -> None:
    a_queue(store)
    old, new = waits(store, "old", entry_time=NOW - 5), waits(store, "new", entry_time=NOW + 5)
    run = runs(store, "run")
    gone = commit(store, cancelling(waits(store, "gone")))
    assert store.jobs.in_states([S.PENDING]) == (new, old)
    assert store.jobs.in_states([S.PENDING], limit=1) == (new,)
    assert set(store.jobs.in_states(JobState)) == {old, new, run, gone}
    assert store.jobs.in_states([S.FAILED]) == ()


def test_a_cut_listing_keeps_live_jobs(store: Store) -> None:
    commit(store, cancelling(waits(store, "gone")))
    pending = waits(store, "pending")
    assert store.jobs.in_states(reversed(JobState), limit=1) == (pending,)


def test_a_claim_and_several_pools_do_not_list_a_job_twice(store: Store) -> None:
    a_queue(store, a_pool("p5"), a_pool("p4"))
    job = commit(store, claiming(waits(store, "job1", pools=("p5", "p4"))))
    assert store.jobs.in_states(JobState) == (job,)


@settings(max_examples=40, suppress_health_check=SHARES_FIXTURES)
@given(described=worlds.jobs(S.PENDING))
def test_any_job_survives_storing(store: Store, described: Job) -> None:
    if store.jobs.get(described.name) is not None:
        return
    for name in described.waits_for:
        if store.jobs.get(name) is None:
            store.jobs.submit(a_job(name, followed=True), REQUEST)
    job = store.jobs.submit(described, REQUEST)
    assert store.jobs.get(described.name) == job == replace(described, version=1)
    assert job in store.jobs.in_states([S.PENDING], limit=100)


@settings(max_examples=40, suppress_health_check=SHARES_FIXTURES)
@given(described=worlds.jobs(), ended=worlds.attempts)
def test_any_state_of_a_job_survives_storing(store: Store, described: Job, ended: Attempt) -> None:
    name, ended = described.name, replace(ended, ended_at=NOW)
    if store.jobs.get(name) is not None:
        return
    used = [described.attempt.pool] if described.attempt else []
    a_queue(store, *(a_pool(pool, capacity=described.demand) for pool in used))
    job = store.jobs.submit(a_job(name), REQUEST)
    after = replace(described, name=name)
    (kept,) = store.decisions.commit([Change(before=job, after=after, ended=ended)])
    assert store.jobs.get(name) == kept == replace(after, version=2)
    assert ended in attempts_of(store, name)
    gone = replace(kept, state=S.CANCELLED, attempt=None, claim=None, not_before=None)
    commit(store, Change(before=kept, after=gone))


def test_all_resources_of_a_demand_are_held(store: Store) -> None:
    a_queue(store, a_pool("p5", capacity=Demand(slots=2, gpus=16)))
    job = starts(store, "job1", demand=Demand(slots=1, gpus=8))
    assert store.worlds.load(NOW).ledgers["p5"].used == job.demand


def test_what_a_job_requires_of_its_pools_is_kept(store: Store) -> None:
    a_queue(store)
    requires = Demand({"mem_per_gpu_in_GiB": 16})
    job = waits(store, "job1", requires=requires)
    assert (store.jobs.get("job1"), job.requires) == (job, requires)
    assert store.worlds.load(NOW).snapshot.waiting == (job,)


def test_jobs_are_found_by_project(store: Store) -> None:
    a_queue(store, a_pool("p5", 4))
    first = waits(store, "first", project="a", entry_time=NOW)
    second = waits(store, "second", project="a", entry_time=NOW + 1, priority=7)
    back = commit(store, evicting(runs(store, "back", project="a"), "first"))
    commit(store, evicted(back))
    claimant = commit(store, claiming(waits(store, "claimant", project="b")))
    held = waits(store, "held", project="b")
    commit(store, Change(before=held, after=move(held, S.HELD, at=NOW)))
    bare = waits(store, "bare")
    starts(store, "active", project="b")

    def found(*projects: str, **more: int) -> list[str]:
        return [job.name for job in store.jobs.in_states(S, projects=frozenset(projects), **more)]

    assert found("a") == [second.name, first.name, back.name]
    assert found("b") == [claimant.name, "held", "active"]
    assert sorted(found("a", "b", "")) == sorted(job.name for job in store.jobs.in_states(S))
    assert found("") == [bare.name]
    assert found("c") == []
    assert found("a", limit=1) == [second.name]
    assert store.jobs.in_states([S.PENDING], projects=frozenset("a"))[0] == second


def test_waiting_jobs_of_a_project_are_read_without_those_of_others(
    dynamo: DynamoStore, client: Any
) -> None:
    a_queue(dynamo)
    for n in range(20):
        waits(dynamo, f"other{n}", project="b", priority=n % 3)
    waits(dynamo, "job", project="a")
    with measured(client) as meter:
        assert [
            job.name for job in dynamo.jobs.in_states([S.PENDING], projects=frozenset("a"))
        ] == ["job"]
    assert meter.calls == ["Query", "Query"]


def test_the_longest_waiting_jobs_entry_is_known(store: Store) -> None:
    a_queue(store)
    assert store.jobs.waiting_since() is None
    waits(store, "young", entry_time=NOW + 2000)
    waits(store, "middle", entry_time=NOW + 1000)
    assert store.jobs.waiting_since() == NOW + 1000
    starts(store, "old", entry_time=NOW - 1000)
    assert store.jobs.waiting_since() == NOW + 1000
    waits(store, "oldest", entry_time=NOW - 2000)
    assert store.jobs.waiting_since() == NOW - 2000


def test_the_longest_waiting_jobs_come_first_in_each_state(store: Store) -> None:
    a_queue(store)
    assert store.jobs.longest_waiting(before=NOW, limit=5) == ()
    for name, entry_time in (("young", NOW), ("old", NOW - 2000), ("middle", NOW - 1000)):
        waits(store, name, entry_time=entry_time)
    starts(store, "running", entry_time=NOW - 3000)
    found = store.jobs.longest_waiting(before=NOW, limit=5)
    assert [job.name for job in found] == ["old", "middle"]
    assert [job.name for job in store.jobs.longest_waiting(before=NOW, limit=1)] == ["old"]
    assert store.jobs.longest_waiting(before=NOW - 2000, limit=5) == ()
