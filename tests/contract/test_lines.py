"""A load returns heads, claimants, active and due jobs, and nothing more."""

from __future__ import annotations

import random
from dataclasses import replace

from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.plan import Found, Need
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Ahead, Change
from slotq_core.storage.snapshots import FIRST_JOBS, MAX_DUE
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    ahead_of,
    all_waiting,
    backing_off,
    cancelling,
    claiming,
    commit,
    completing,
    evicted,
    evicting,
    runs,
    starting,
    starts,
    waits,
)

MINUTE = 60_000
HOUR = 60 * MINUTE


def waiting(store: Store, now: int = NOW) -> list[str]:
    """The jobs that a load gives, those of the highest priority first."""
    jobs = store.worlds.load(now).snapshot.waiting
    return [job.name for job in sorted(jobs, key=lambda job: (-job.priority, job.entry_time))]


def test_an_empty_store_gives_an_empty_snapshot(store: Store) -> None:
    world = store.worlds.load(NOW)
    assert (world.snapshot.pools, world.snapshot.waiting, world.ledgers) == ((), (), {})


def test_a_line_exists_once_a_job_has_entered_it(store: Store) -> None:
    a_queue(store, a_pool("p5", 2))
    first = waits(store, "first", priority=1)
    for priority, exists in ((1, True), (2, False)):
        assert store.counters.has_line_of(replace(first, name="new", priority=priority)) is exists


def test_a_load_gives_the_first_jobs_of_a_line_and_reads_on_when_asked(store: Store) -> None:
    a_queue(store, a_pool("p5", 2))
    entries = list(range(20))
    random.Random(5).shuffle(entries)
    for entry in entries:
        waits(store, f"job{entry:02d}", entry_time=NOW + entry)
    world = store.worlds.load(NOW)
    *_, last = first = world.snapshot.waiting
    assert [job.name for job in first] == [f"job{n:02d}" for n in range(FIRST_JOBS)]
    assert world.snapshot.behind[last.name]
    found = world.more(Need(after=last, count=3))
    assert [job.name for job in found.jobs] == ["job10", "job11", "job12"]
    assert found.behind
    assert [job.name for job in all_waiting(store.worlds.load(NOW))] == [
        f"job{n:02d}" for n in range(20)
    ]


def test_a_job_that_held_slots_at_the_load_is_not_read_again(store: Store) -> None:
    """It was evicted in the meantime; the plan knows it as one that runs."""
    a_queue(store, a_pool("p5", 1))
    job = runs(store, "old", entry_time=NOW)
    waits(store, "first", entry_time=NOW - 1)
    waits(store, "last", entry_time=NOW + 1)
    world = store.worlds.load(NOW)
    commit(store, evicted(commit(store, evicting(job, "x"))))
    assert [job.name for job in all_waiting(world)] == ["first", "last"]


def test_nothing_is_behind_the_last_job_of_a_line(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    only = waits(store, "only")
    world = store.worlds.load(NOW)
    assert world.snapshot.behind == {}
    assert world.more(Need(after=only, count=5)) == Found()


def test_every_line_gives_its_first_jobs(store: Store) -> None:
    a_queue(store, a_pool("p5", 1), a_pool("p4", 1))
    for n in range(2):
        waits(store, f"a{n}", entry_time=NOW + n, priority=9)
        waits(store, f"b{n}", entry_time=NOW + n, priority=5, pools=("p4",))
        waits(store, f"c{n}", entry_time=NOW + n, priority=1, slots=2)
    assert waiting(store) == ["a0", "a1", "b0", "b1", "c0", "c1"]


def test_load_all_returns_all_waiting_jobs(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    names = {waits(store, f"job{n:02d}", entry_time=NOW + n).name for n in range(20)}
    assert {job.name for job in store.worlds.load_all(NOW).snapshot.waiting} == names
    assert store.worlds.load_all(NOW).ledgers == store.worlds.load(NOW).ledgers


def test_a_claimant_is_loaded_from_behind_many_jobs(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    late = commit(store, claiming(waits(store, "late", entry_time=NOW + 999)))
    names = [f"job{n:02d}" for n in range(FIRST_JOBS + 5)]
    for n, name in enumerate(names):
        waits(store, name, entry_time=NOW + n)
    assert late in store.worlds.load(NOW).snapshot.waiting
    assert waiting(store) == [*names[:FIRST_JOBS], "late"]
    assert [job.name for job in all_waiting(store.worlds.load(NOW))].count("late") == 1


def test_a_claim_is_held_until_the_job_starts_or_leaves(store: Store) -> None:
    a_queue(store)
    one, two = waits(store, "one"), waits(store, "two")
    one, two = store.decisions.commit([claiming(one), claiming(two)])
    assert store.worlds.load(NOW).snapshot.waiting == (one, two)
    commit(store, starting(one))
    commit(store, cancelling(two))
    assert store.worlds.load(NOW).snapshot.waiting == ()


def test_a_claim_can_move_to_another_pool_or_be_given_up(store: Store) -> None:
    a_queue(store, a_pool("p5"), a_pool("p4"))
    job = commit(store, claiming(waits(store, "job1", pools=("p5", "p4"))))
    job = commit(store, claiming(job, "p4"))
    assert store.worlds.load(NOW).snapshot.waiting == (job,)
    job = commit(store, Change(before=job, after=replace(job, claim=None)))
    assert store.worlds.load(NOW).snapshot.waiting == (job,)


def test_an_evicted_job_waits_again_at_its_old_place(store: Store) -> None:
    a_queue(store, a_pool("p5", 1))
    job = runs(store, "old", entry_time=NOW - 9)
    waits(store, "younger", entry_time=NOW)
    commit(store, evicted(commit(store, evicting(job, "x"))))
    assert [job.name for job in all_waiting(store.worlds.load(NOW))] == ["old", "younger"]


def test_an_evicted_job_waits_again_after_its_line_was_removed(store: Store) -> None:
    a_queue(store)
    job = runs(store, "job1")
    store.worlds.load(NOW + 2 * HOUR)  # Finds the line empty and untouched for long.
    at = NOW + 3 * HOUR
    change = evicted(commit(store, evicting(job, "x")))
    again = commit(store, replace(change, after=replace(change.after, changed_at=at)))
    assert store.worlds.load(at).snapshot.waiting == (again,)


def test_the_next_submission_restores_a_removed_line(store: Store) -> None:
    a_queue(store)
    commit(store, cancelling(waits(store, "job1")))
    store.worlds.load(NOW + 2 * HOUR)
    job = waits(store, "job2", entry_time=NOW + 2 * HOUR)
    assert store.worlds.load(NOW + 2 * HOUR).snapshot.waiting == (job,)


def test_a_line_with_waiting_jobs_stays_at_any_age(store: Store) -> None:
    a_queue(store)
    job = waits(store, "job1")
    for days in range(1, 4):
        assert store.worlds.load(NOW + days * 24 * HOUR).snapshot.waiting == (job,)


def test_due_jobs_are_loaded_with_the_next_due_time(store: Store) -> None:
    a_queue(store, a_pool("p5", 9))
    jobs = [
        commit(store, backing_off(starts(store, f"job{n}"), until=NOW + n * MINUTE))
        for n in range(5)
    ]
    assert store.worlds.load(NOW - 1).snapshot.due == (jobs[0],)
    assert store.worlds.load(NOW + 2 * MINUTE).snapshot.due == tuple(jobs[:4])
    assert store.worlds.load(NOW + 9 * MINUTE).snapshot.due == tuple(jobs)
    assert store.worlds.load_all(NOW).snapshot.due == tuple(jobs)
    assert store.worlds.load(NOW).snapshot.waiting == ()


def test_many_due_jobs_come_in_parts_earliest_first(store: Store) -> None:
    a_queue(store, a_pool("p5", MAX_DUE + 5))
    for first in range(0, MAX_DUE + 5, 15):
        jobs = [waits(store, f"job{n:03d}") for n in range(first, first + 15)]
        jobs = list(store.decisions.commit([starting(job) for job in jobs]))
        store.decisions.commit([backing_off(job, NOW + first + n) for n, job in enumerate(jobs)])
    due = store.worlds.load(NOW + HOUR).snapshot.due
    assert [job.name for job in due] == [f"job{n:03d}" for n in range(MAX_DUE)]


def test_a_job_waits_for_slots_again_after_its_back_off(store: Store) -> None:
    a_queue(store)
    job = commit(store, backing_off(starts(store, "job1"), until=NOW))
    back = replace(job, state=JobState.PENDING, not_before=None)
    job = commit(store, Change(before=job, after=back))
    assert store.worlds.load(NOW).snapshot.due == ()
    assert store.worlds.load(NOW).snapshot.waiting == (job,)


def test_all_active_jobs_are_loaded(store: Store) -> None:
    a_queue(store, a_pool("p5", 5), a_pool("p4", 5))
    jobs: list[Job] = [runs(store, f"job{n}") for n in range(4)]
    jobs.append(starts(store, "job4", pool="p4", pools=("p4",)))
    jobs[0] = commit(store, evicting(jobs[0], "x"))
    commit(store, completing(jobs.pop(1)))
    assert store.worlds.load(NOW).snapshot.active == tuple(jobs)


def test_the_place_counts_every_line_that_shares_a_pool(store: Store) -> None:
    a_queue(store, a_pool("p5"), a_pool("p4"), a_pool("p3"))
    for n in range(3):
        waits(store, f"same{n}", entry_time=NOW + n)
        waits(store, f"high{n}", priority=9, pools=("p4", "p5"))
        waits(store, f"low{n}", priority=0, pools=("p5",))
        waits(store, f"elsewhere{n}", priority=9, pools=("p3",))
    job = waits(store, "job1", entry_time=NOW + 2)  # Ahead of same2 by name.
    assert ahead_of(store, job) == Ahead(jobs=5)
    first = store.jobs.get("high0")
    assert first is not None
    assert ahead_of(store, first) == Ahead(jobs=0)
