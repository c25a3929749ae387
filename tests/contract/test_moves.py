"""A job that moves to another pool: stopping in one, with a claim in the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.errors import Conflict
from slotq_core.model.jobs import Claim, Job
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from tests.contract.worlds import (
    NOW,
    a_pool,
    a_queue,
    commit,
    evicted,
    evicting,
    runs,
    starting,
    waits,
)


def moves(store: Store) -> Job:
    """A job that stops in p5 and has a claim in p4."""
    a_queue(store, a_pool("p5"), a_pool("p4", consolidate=True))
    change = evicting(runs(store, "job1", pools=("p5", "p4")), "job2")
    claim = Claim(pool="p4", amount=change.after.demand, since=NOW, moved=True)
    return commit(store, Change(before=change.before, after=replace(change.after, claim=claim)))


def test_a_moving_job_holds_its_slots_and_is_in_no_line_while_it_stops(store: Store) -> None:
    job = moves(store)
    seen = store.worlds.load(NOW).snapshot
    assert [each.consolidate for each in seen.pools] == [False, True]
    assert (seen.active, seen.waiting) == ((job,), ())
    assert store.jobs.get("job1") == job and job.claim and job.claim.moved


def test_a_moved_job_waits_with_its_claim_once_stopped(store: Store) -> None:
    job = commit(store, evicted(moves(store)))
    seen = store.worlds.load(NOW).snapshot
    assert (seen.active, seen.waiting) == ((), (job,))
    assert job.claim and job.claim.pool == "p4"


def test_a_plan_that_has_not_seen_the_claim_is_refused(store: Store) -> None:
    """Read too late in the one pool and too early in the other, the job is missing: such a plan is
    stale."""
    job = moves(store)
    other = waits(store, "other")
    versions = {name: each.version for name, each in store.worlds.load(NOW).ledgers.items()}
    commit(store, evicted(job))
    with pytest.raises(Conflict):
        store.decisions.commit([starting(other, "p4")], seen={"p4": versions["p4"]})
