"""What a missing right means for a pool (DESIGN 5.5).

"That the queue itself lacks a right is no rejection: the pool (or the execution role) backs off
with the reason and is probed, and nobody's job ends for it." A role backs off in each pool for
itself, for what a role may do can depend on the kind of instance.

While a right is missing nothing is evicted for those who need it: what is stopped could not start
again either. A try takes free slots only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import MissingRight, Pool, PoolHealth
from slotq_core.policy.lifecycle.retry import backoff
from slotq_core.timestamps import FAR_OFF

EVERYBODY = ""
"""Stands for the role where every job needs the right."""

ASSUME_ROLE = "sts:AssumeRole"
"""What SageMaker needs of an execution role."""

MOST_REMEMBERED = 20
"""Rights a pool remembers as missing. What is forgotten costs one more refused start."""

TRY_FOR = 600_000
"""How long a start that SageMaker has not answered keeps others from trying (ms)."""


LACKS = "a right is missing"
"""Begins whatever is said of a refusal for want of a right."""


def after_refusal(
    health: PoolHealth, *, role: str, action: str, message: str, now: int
) -> PoolHealth:
    """`role`: whose jobs need the right, or `EVERYBODY`."""
    known = next((each for each in health.missing_rights if each.role == role), None)
    refusals = known.refusals + 1 if known else 1
    missing = MissingRight(
        role=role,
        action=action,
        since=known.since if known else now,
        refusals=refusals,
        not_before=now + backoff(refusals),
        message=message.removeprefix(f"{LACKS}, {action}: "),
    )
    others = [each for each in health.missing_rights if each.role != role]
    others.sort(key=lambda each: (bool(each.role), -each.not_before, each.role))
    kept = (missing, *others)[:MOST_REMEMBERED]
    return replace(health, missing_rights=tuple(sorted(kept, key=lambda each: each.role)))


def after_acceptance(health: PoolHealth, role: str) -> PoolHealth:
    """SageMaker has accepted a start under that role: every job's rights are there, and its own."""
    left = tuple(each for each in health.missing_rights if each.role not in {EVERYBODY, role})
    return replace(health, missing_rights=left)


def missing_for(pool: Pool, job: Job) -> MissingRight | None:
    """What the job lacks there: first what every job needs, then what its role does."""
    lacking = [each for each in pool.health.missing_rights if each.role in {EVERYBODY, job.role}]
    return min(lacking, key=lambda each: each.role, default=None)


def rests(missing: MissingRight, now: int) -> bool:
    """Nothing tries for now. (No back-off is so long that it could end `FAR_OFF`.)"""
    return now < missing.not_before <= now + FAR_OFF


class RightsThere:
    """The missing rights of one pool during one plan."""

    __slots__ = ("_missing", "_now", "_tries")

    def __init__(self, pool: Pool, active: Iterable[Job], now: int) -> None:
        """`active`: what holds slots of the pool."""
        self._now = now
        self._missing = {each.role: each for each in pool.health.missing_rights}
        self._tries: dict[str, str] = {}
        """By role, the job that tries."""
        for job in active if self._missing else ():
            if _unanswered(job, now):
                self.give(job)

    def __bool__(self) -> bool:
        """Whether any is missing."""
        return bool(self._missing)

    def missing(self, job: Job) -> MissingRight | None:
        """What the job lacks: nobody is evicted for it."""
        return next(self._lacking(job), None)

    def keeps_out(self, job: Job) -> bool:
        """Whether the job may not even try now."""
        return any(
            rests(each, self._now) or self._tries.get(each.role, job.name) != job.name
            for each in self._lacking(job)
        )

    def tries(self, job: Job) -> str:
        """The job that tries what this one lacks; empty where none does."""
        found = (self._tries.get(each.role, "") for each in self._lacking(job))
        return next(filter(None, found), "")

    def tried_again(self, job: Job) -> int | None:
        """From when on the job may try; None where nothing but another's try keeps it out."""
        moments = [each.not_before for each in self._lacking(job) if rests(each, self._now)]
        return max(moments, default=None)

    def give(self, job: Job) -> None:
        """A job starts: where a right is missing, it tries."""
        for each in self._lacking(job):
            self._tries.setdefault(each.role, job.name)

    def state(self) -> dict[str, str]:
        """For `back_to`."""
        return dict(self._tries)

    def back_to(self, state: dict[str, str]) -> None:
        self._tries = dict(state)

    def _lacking(self, job: Job) -> Iterator[MissingRight]:
        if self._missing:
            for role in dict.fromkeys((EVERYBODY, job.role)):
                if role in self._missing:
                    yield self._missing[role]


def _unanswered(job: Job, now: int) -> bool:
    attempt = job.attempt
    if job.state is not JobState.STARTING or attempt is None or attempt.created:
        return False
    return now < attempt.admitted_at + TRY_FOR
