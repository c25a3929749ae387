"""Step 1, settle: decisions that follow from the clock, or from the state of a gang."""

from __future__ import annotations

from collections.abc import Iterator

from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import classes_of
from slotq_core.policy.lifecycle.demotion import demoted, demotes_at
from slotq_core.policy.lifecycle.retry import backed_off, gives_up_at
from slotq_core.policy.order import position
from slotq_core.policy.plan import Decision, Demote, EndBackoff, GiveUp
from slotq_core.policy.state.groups.gangs import settled
from slotq_core.policy.state.quotas.budgets import Budgets


def settle(snapshot: Snapshot, now: int) -> Iterator[Decision]:
    """End back-offs, break up gangs, give up starts without instances, demote, and give up claims
    of projects beyond their budget, in this order."""
    for job in sorted(snapshot.due, key=position):
        if backed_off(job, now):
            yield EndBackoff(job=job)
    yield from settled(snapshot)
    given_up = [job for at, job in gives_up_at(snapshot) if at <= now]
    for job in sorted(given_up, key=position):
        yield GiveUp(job=job)
    classes = classes_of(snapshot.classes)
    overdue = [job for at, job in demotes_at(snapshot) if at <= now]
    for job in sorted(overdue, key=position):
        yield Demote(job=job, after=demoted(job, classes))
    yield from Budgets(snapshot, now).void_claims()
