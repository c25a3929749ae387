"""Every decision of the manager fits one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.transactions import MAX_ACTIONS, action_count, fitting
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Claim, Job
from slotq_core.operations import bulk
from slotq_core.operations.amend import with_hold, without_attempt
from slotq_core.policy.actions.consolidate import MOST
from slotq_core.policy.lifecycle.apply import Step, cancelled, pools_touched, steps
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


def parts_of(decision: Decision, seen: Mapping[str, int]) -> Iterator[list[Change]]:
    """The transactions of a decision, as a pass divides it."""
    changes = [Change(before=before, after=after) for before, after in decided(decision)]
    while changes:
        count = fitting(changes, seen, None, MAX_ACTIONS)
        yield changes[:count]
        changes = changes[count:]


def decided(decision: Decision) -> tuple[Step, ...]:
    return steps(decision, POOLS, NOW + 1)


@pytest.mark.parametrize("decision", LARGEST.values(), ids=LARGEST)
def test_every_part_of_a_decision_fits_a_transaction(decision: Decision) -> None:
    """With `seen` as the manager passes it, and the claim's old pool."""
    seen = dict.fromkeys((*pools_touched(decision), "p4"), 1)
    parts = [*parts_of(decision, seen)]
    assert sum(len(part) for part in parts) == len(decided(decision))
    assert max(action_count(part, seen) for part in parts) <= MAX_ACTIONS


def test_all_moves_for_one_job_are_one_transaction() -> None:
    """All or none: each moved job has its room, and so has the job that they move for."""
    assert len([*parts_of(LARGEST["as many as may move for one"], {"p5": 1, "p4": 1})]) == 1


def test_a_transaction_holds_as_much_as_fits() -> None:
    """Nothing is divided that one transaction could hold, but for a few actions."""
    decision = LARGEST["eviction of a whole pool, by one with a claim elsewhere"]
    first, second, *_ = parts_of(decision, {"p5": 1})
    assert action_count([*first, *second[:2]], {"p5": 1}) > MAX_ACTIONS


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
def test_a_commit_of_users_changes_fits(job, changed) -> None:
    """Each job with a new request and with a claim in a different pool."""
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
