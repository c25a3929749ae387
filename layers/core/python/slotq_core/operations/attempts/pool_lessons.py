"""Update a pool's health from a committed change: missing capacity, a missing right, and the return
of each. If the handler dies before the update, the next start repeats the lesson."""

from __future__ import annotations

from collections.abc import Callable

from slotq_core.model.attempts import Attempt, AttemptOutcome
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool, PoolHealth, ServiceQuota
from slotq_core.policy.lifecycle.missing_rights import (
    EVERYBODY,
    after_acceptance,
    after_refusal,
    limit_of,
    pools_concerned,
)
from slotq_core.policy.lifecycle.pool_health import after_a_start, after_capacity_error
from slotq_core.ports.configuration import Health, StoredConfiguration
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import CallResult, Verdict


class Lessons:
    """Records in the pool's health what SageMaker's answers show."""

    def __init__(self, configuration: StoredConfiguration, health: Health, clock: Clock) -> None:
        self._configuration, self._health = configuration, health
        self._clock = clock

    def take(self, change: Change, answer: CallResult | None, running: set[str]) -> bool:
        """Record what the change shows. `answer`: SageMaker's answer, if the change follows from
        one. `running`: the pools of which a change of the same transaction has shown that a job
        runs there; updated. Return whether the pool's health has changed."""
        ended, live = change.ended, change.after.attempt
        if ended is not None:
            return self._of_an_end(change, ended, answer or CallResult(verdict=Verdict.OK))
        if live is None:
            return False
        learned = False
        if live.probes and is_accepted(change):
            learned = self._keep(
                live.pool, lambda health: after_acceptance(health, change.after.role)
            )
        if not _begins_to_run(change) or live.pool in running:
            return learned
        running.add(live.pool)
        return self._keep(live.pool, after_a_start) or learned

    def unanswered(self, attempt: Attempt, answer: CallResult) -> None:
        """Record that a missing right hides the outcome of the create. Nothing else starts in the
        pool meanwhile."""
        self._refused(attempt.pool, EVERYBODY, answer.action, answer.message)

    def _of_an_end(self, change: Change, ended: Attempt, answer: CallResult) -> bool:
        message = ended.message or change.before.message
        if ended.outcome is AttemptOutcome.NO_CAPACITY:
            return self._no_capacity(change.before, ended, answer.quota, message)
        if ended.outcome is AttemptOutcome.NO_RIGHTS:
            role = EVERYBODY if answer.verdict is Verdict.NO_RIGHTS else change.before.role
            if role or answer.verdict is Verdict.NO_RIGHTS:
                return self._refused(ended.pool, role, answer.action, message)
        return False

    def _no_capacity(
        self, job: Job, ended: Attempt, quota: ServiceQuota | None, message: str
    ) -> bool:
        def refused(pool: Pool) -> PoolHealth:
            limit = limit_of(pool, quota)
            return after_capacity_error(pool, now=now, message=message, limit=limit)

        now, names = self._clock.now(), pools_concerned(quota, ended, job)
        if names is None:
            names = tuple(pool.name for pool in self._configuration.pools())
        changed = [name for name in names if self._learn(name, refused)]
        return bool(changed)

    def _refused(self, pool: str, role: str, action: str, message: str) -> bool:
        now = self._clock.now()
        return self._learn(
            pool,
            lambda pool: after_refusal(
                pool.health, role=role, action=action, message=message, now=now
            ),
        )

    def _learn(self, name: str, learned: Callable[[Pool], PoolHealth]) -> bool:
        """Record what follows for a pool that is configured."""
        pool = self._health.pool(name)
        return pool is not None and self._set(name, pool.health, learned(pool))

    def _keep(self, name: str, learned: Callable[[PoolHealth], PoolHealth]) -> bool:
        """Record a lesson that depends on the health alone, so the pool is not read. A healthy
        pool, as most are, costs one read."""
        health = self._health.get(name)
        return self._set(name, health, learned(health))

    def _set(self, name: str, before: PoolHealth, after: PoolHealth) -> bool:
        if after == before:
            return False
        self._health.set(name, after)
        return True


def is_accepted(change: Change) -> bool:
    """Whether the change records that SageMaker has accepted the attempt's create."""
    before, after = change.before.attempt, change.after.attempt
    return before is not None and after is not None and after.created and not before.created


def _begins_to_run(change: Change) -> bool:
    before, after = change.before.attempt, change.after.attempt
    if before is None or after is None:
        return False
    return before.running_since is None and after.running_since is not None
