"""No decision that the manager can take is more than one transaction holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.transactions import MAX_ACTIONS, action_count
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Claim, Job
from slotq_core.operations import bulk
from slotq_core.operations.amend import with_hold, without_attempt
from slotq_core.operations.passes import JOBS_PER_COMMIT, _transactions
from slotq_core.policy.actions.consolidate import MOST
from slotq_core.policy.lifecycle.apply import cancelled, pools_touched, steps
from slotq_core.policy.plan import Decision, DropClaim, EndBackoff, Evict, GiveUp, Move, Start
from slotq_core.ports.stored import Change
from tests.contract.worlds import NOW, S, a_job, a_pool, an_attempt

POOLS = {name: a_pool(name, 500) for name in ("p5", "p4")}
OWED = Claim(pool="p4", amount=a_job("x").demand, since=NOW)


def active(name: str, pool: str = "p5") -> Job:
    attempt: Attempt = replace(an_attempt(a_job(name), pool), created=True)
    return a_job(name, state=S.RUNNING, attempt=attempt, attempts=1, pools=("p5", "p4"))


def claimant(name: str = "claimant") -> Job:
    return a_job(name, claim=OWED, pools=("p5", "p4"))


LARGEST: dict[str, Decision] = {
    "end of a back-off": EndBackoff(job=a_job("job1", state=S.BACKOFF, not_before=NOW)),
    "start with a claim in another pool": Start(job=claimant(), pool="p5"),
    "claim given up": DropClaim(job=claimant()),
    "start given up": GiveUp(job=replace(active("job1"), state=S.STARTING)),
    "eviction of a whole pool, by one with a claim elsewhere": Evict(
        beneficiary=claimant(),
        victims=tuple(active(f"victim{n}") for n in range(500)),
        claim=replace(OWED, pool="p5"),
    ),
    "as many as may move for one": Move(
        beneficiary=claimant(),
        moved=tuple((active(f"moved{n}"), replace(OWED, moved=True)) for n in range(MOST)),
        claim=replace(OWED, pool="p5"),
    ),
}


@pytest.mark.parametrize("decision", LARGEST.values(), ids=LARGEST)
def test_every_part_of_a_decision_fits_a_transaction(decision: Decision) -> None:
    """`seen` as the manager passes it, and the claim's old pool besides."""
    seen = dict.fromkeys((*pools_touched(decision), "p4"), 1)
    parts = list(_transactions(steps(decision, POOLS, NOW + 1)))
    assert sum(len(part) for part in parts) == len(steps(decision, POOLS, NOW + 1))
    assert max(action_count(part, seen) for part in parts) <= MAX_ACTIONS


def test_moves_are_one_transaction() -> None:
    """All of them or none: whoever has moved has its room, and the job that it moved for too."""
    decision = LARGEST["as many as may move for one"]
    assert len(list(_transactions(steps(decision, POOLS, NOW + 1)))) == 1


def test_as_many_of_the_dearest_change_as_a_commit_may_have_fit() -> None:
    """With room to spare: each of a commit's jobs could cost twice what an eviction's does."""
    decision = LARGEST["eviction of a whole pool, by one with a claim elsewhere"]
    (first, *_) = _transactions(steps(decision, POOLS, NOW + 1))
    assert len(first) == JOBS_PER_COMMIT
    assert action_count(first, {"p5": 1}) == 4 + 2 * (JOBS_PER_COMMIT - 1) + 2
    assert 4 * JOBS_PER_COMMIT + len(POOLS) <= MAX_ACTIONS


def held(job: Job) -> Job:
    return with_hold(job, held=True, by="ann", now=NOW)


def given_up(job: Job) -> Job:
    return without_attempt(job, number=1, by="ann", now=NOW)


def without_claim(job: Job) -> Job:
    return replace(job, priority=7, pools=("p5",), claim=None)


@pytest.mark.parametrize(
    ("job", "changed"),
    [
        (claimant, lambda job: cancelled(job, "ann", NOW)),
        (active, lambda job: cancelled(job, "ann", NOW)),
        (active, given_up),
        (claimant, held),
        (claimant, without_claim),
        (claimant, lambda job: held(without_claim(job))),
        (a_job, lambda job: replace(job, priority=7)),
    ],
)
def test_as_many_as_users_change_in_one_commit_fit(job, changed) -> None:
    """Each with another request, and with a claim in another pool than the next."""
    jobs = [job(f"job{number}") for number in range(bulk.JOBS_PER_COMMIT)]
    jobs = [
        replace(it, claim=it.claim and replace(it.claim, pool=f"q{n}")) for n, it in enumerate(jobs)
    ]
    changes = [
        Change(before=it, after=changed(it), request={"TrainingJobName": "x"}) for it in jobs
    ]
    assert action_count(changes) <= MAX_ACTIONS


@pytest.mark.parametrize("job", [claimant(), active("job1"), a_job("job1")], ids=lambda j: j.name)
def test_a_cancel_fits(job: Job) -> None:
    change = Change(before=job, after=cancelled(job, "ada", NOW + 1))
    assert action_count([change]) <= 5
