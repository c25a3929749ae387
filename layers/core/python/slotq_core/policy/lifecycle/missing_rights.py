"""The scope of a refusal by AWS: a missing right, of a pool or of a role in it; or a quota of the
account.

A right that the queue itself lacks rejects no job: the pool (or the execution role) backs off with
the reason and is probed, and no job ends because of it. A role backs off in each pool separately,
because a role's rights can depend on the kind of instance.

Nothing is evicted for a job that lacks a right: the job might not start even then. A try takes only
slots that are free.

What one quota refuses concerns what that quota names: a pool backs off, and learns its size, only
from the quota of its own instance type for training jobs, on demand or as spot, as the pool is
bought; every pool backs off after a refusal by
the quota of all training jobs. Any other quota concerns the job alone: it waits for its other pools
and, once all have refused it, backs off. No other job pays for that: until SageMaker accepts the
job, or `NO_EVICTION_FOR` is over, the job takes only free slots where it was refused.
While it runs, no move takes it to a pool that refused it: it would be refused again and come back.

See docs/policy-decisions.md#missing-rights.

See docs/policy-decisions.md#quotas-of-the-account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import MissingRight, Pool, PoolHealth, ServiceQuota
from slotq_core.policy.lifecycle.retry import backoff
from slotq_core.timestamps import FAR_OFF

EVERYBODY = ""
"""In place of a role: every job needs the right."""

ASSUME_ROLE = "sts:AssumeRole"
"""The action that SageMaker needs in order to use an execution role."""

MOST_REMEMBERED = 20
"""Most missing rights that a pool remembers. A forgotten one costs one more refused start."""

TRY_FOR = 600_000
"""How long a start that SageMaker has not answered keeps other jobs from trying (ms)."""


LACKS = "a right is missing"
"""The start of every message about a missing right."""


def after_refusal(
    health: PoolHealth, *, role: str, action: str, message: str, now: int
) -> PoolHealth:
    """The health of the pool after a start was refused for a missing right, at `now` (ms). `role`:
    the role whose jobs need the right, or `EVERYBODY`."""
    known = next((right for right in health.missing_rights if right.role == role), None)
    refusals = known.refusals + 1 if known else 1
    missing = MissingRight(
        role=role,
        action=action,
        since=known.since if known else now,
        refusals=refusals,
        not_before=now + backoff(refusals),
        message=message.removeprefix(f"{LACKS}, {action}: "),
    )
    others = [right for right in health.missing_rights if right.role != role]
    others.sort(key=lambda right: (bool(right.role), -right.not_before, right.role))
    kept = (missing, *others)[:MOST_REMEMBERED]
    return replace(health, missing_rights=tuple(sorted(kept, key=lambda right: right.role)))


def after_acceptance(health: PoolHealth, role: str) -> PoolHealth:
    """The health of the pool after SageMaker has accepted a start under the role: neither it nor
    `EVERYBODY` lacks a right any more."""
    left = tuple(right for right in health.missing_rights if right.role not in {EVERYBODY, role})
    return replace(health, missing_rights=left)


def missing_for(pool: Pool, job: Job) -> MissingRight | None:
    """The right that the job lacks in the pool, or None; one that every job needs comes first."""
    lacking = [right for right in pool.health.missing_rights if right.role in {EVERYBODY, job.role}]
    return min(lacking, key=lambda right: right.role, default=None)


def rests(missing: MissingRight, now: int) -> bool:
    """Whether the right still backs off. An end more than `FAR_OFF` ahead does not count."""
    return now < missing.not_before <= now + FAR_OFF


class RightsThere:
    """The missing rights of one pool during one plan."""

    def __init__(self, pool: Pool, active: Iterable[Job], now: int) -> None:
        """`active`: the jobs that hold slots of the pool."""
        self._now = now
        self._missing = {right.role: right for right in pool.health.missing_rights}
        self._tries: dict[str, str] = {}
        """The name of the job that tries, by role."""
        for job in active if self._missing else ():
            if _unanswered(job, now):
                self.give(job)

    def __bool__(self) -> bool:
        """Whether any right is missing."""
        return bool(self._missing)

    def missing(self, job: Job) -> MissingRight | None:
        """The right that the job lacks, or None. Nothing is evicted for a job that lacks one."""
        return next(self._lacking(job), None) if self._missing else None

    def keeps_out(self, job: Job) -> bool:
        """Whether the job may not even try now: a right backs off, or another job tries it."""
        return bool(self._missing) and any(
            rests(right, self._now) or self._tries.get(right.role, job.name) != job.name
            for right in self._lacking(job)
        )

    def tries(self, job: Job) -> str:
        """The name of the job that tries a right which this job lacks; empty if none does."""
        found = (self._tries.get(right.role, "") for right in self._lacking(job))
        return next(filter(None, found), "")

    def tried_again(self, job: Job) -> int | None:
        """When (ms) the job may try; None if no back-off keeps it out."""
        moments = [right.not_before for right in self._lacking(job) if rests(right, self._now)]
        return max(moments, default=None)

    def give(self, job: Job) -> None:
        """Record the start of a job: it tries every right that it lacks, unless another does."""
        for right in self._lacking(job):
            self._tries.setdefault(right.role, job.name)

    def take_back(self, job: Job) -> None:
        """Take back the last start, which was the job's."""
        for right in self._lacking(job):
            if self._tries.get(right.role) == job.name:
                del self._tries[right.role]

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


NO_EVICTION_FOR = 1_800_000
"""How long a refused job evicts and drains nothing in a pool after it waits again (ms)."""


def is_of_the_job(quota: ServiceQuota | None, attempt: Attempt) -> bool:
    """Whether a refusal by this quota concerns only the job. None: the refusal names no readable
    quota, so the caller's verdict applies."""
    if quota is None or quota.all_training:
        return False
    if attempt.beside_warm:
        return True  # Warm instances count in the quota, until SageMaker lets them go.
    other_kind = quota.capacity_kind is not attempt.capacity_kind
    return other_kind or quota.instance_type not in _types(attempt)


def pools_concerned(
    quota: ServiceQuota | None, attempt: Attempt, job: Job
) -> tuple[str, ...] | None:
    """The pools that back off after a capacity error of the attempt; None: all pools."""
    if quota is not None and quota.all_training:
        return None
    if quota is None or not job.parts:
        return (attempt.pool,)
    parts = zip(job.parts, _types(attempt), strict=False)  # Older attempts know only one type.
    return tuple(pool for (pool, _), kind in parts if kind == quota.instance_type)


def limit_of(pool: Pool, quota: ServiceQuota | None) -> int | None:
    """The slots that a refusal allows the pool; None: it says nothing about the pool's size."""
    if quota is None or quota.instance_type != pool.instance_type:
        return None
    return quota.limit if quota.capacity_kind is pool.capacity_kind else None


def takes_only_free_slots(job: Job, pool: str, now: int) -> bool:
    """Whether the job may evict and drain nothing in the pool, because a quota of something else
    refused its last start there, and it has no claim there."""
    if pool not in job.refused_in or (job.claim is not None and job.claim.pool == pool):
        return False
    return now < no_eviction_until(job) <= now + FAR_OFF


def no_eviction_until(job: Job) -> int:
    """When that ends (ms)."""
    return job.changed_at + NO_EVICTION_FOR


def once_running(job: Job) -> Job:
    """The running job with the refusals that still count: those of pools that it is not in."""
    held = {pool for pool, _ in job.holds}
    refused = tuple(name for name in job.refused_in if name not in held)
    denied = tuple(name for name in job.denied_in if name not in held)
    return copied(job, refused_in=refused, denied_in=denied)


def _types(attempt: Attempt) -> tuple[str, ...]:
    return attempt.instance_types or (attempt.instance_type,)
