"""Update a pool's health from a committed change: missing capacity, a missing right, and the return
of each. An update that is lost with its handler costs one more start."""

from __future__ import annotations

from collections.abc import Callable

from slotq_core.model.attempts import Attempt, AttemptOutcome
from slotq_core.model.pools import Pool, PoolHealth
from slotq_core.policy.lifecycle.missing_rights import EVERYBODY, after_acceptance, after_refusal
from slotq_core.policy.lifecycle.pool_health import after_a_start, after_capacity_error
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Answer, Verdict


class Lessons:
    """Records in the pool's health what SageMaker's answers show."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def take(self, change: Change, answer: Answer | None = None) -> None:
        """Record what the change shows. `answer`: SageMaker's answer, if the change follows from
        one."""
        ended, live = change.ended, change.after.attempt
        if ended is not None:
            self._of_an_end(change, ended, answer or Answer(verdict=Verdict.OK))
        elif live and live.probes and _is_accepted(change):
            self._keep(live.pool, lambda pool: after_acceptance(pool.health, change.after.role))
        if live and _begins_to_run(change):
            self._keep(live.pool, after_a_start)

    def unanswered(self, attempt: Attempt, answer: Answer) -> None:
        """Record that a missing right hides whether the create took effect. Nothing else starts in
        the pool meanwhile."""
        self._refused(attempt.pool, EVERYBODY, answer.action, answer.message)

    def _of_an_end(self, change: Change, ended: Attempt, answer: Answer) -> None:
        message = ended.message or change.before.message
        if ended.outcome is AttemptOutcome.NO_CAPACITY:
            now, limit = self._clock.now(), answer.limit
            self._keep(
                ended.pool,
                lambda pool: after_capacity_error(pool, now=now, message=message, limit=limit),
            )
        elif ended.outcome is AttemptOutcome.NO_RIGHTS:
            role = EVERYBODY if answer.verdict is Verdict.NO_RIGHTS else change.before.role
            if role or answer.verdict is Verdict.NO_RIGHTS:
                self._refused(ended.pool, role, answer.action, message)

    def _refused(self, pool: str, role: str, action: str, message: str) -> None:
        now = self._clock.now()
        self._keep(
            pool,
            lambda it: after_refusal(it.health, role=role, action=action, message=message, now=now),
        )

    def _keep(self, name: str, learned: Callable[[Pool], PoolHealth]) -> None:
        pool = self._store.pool(name)
        if pool is not None and (health := learned(pool)) != pool.health:
            self._store.set_health(name, health)


def _is_accepted(change: Change) -> bool:
    before, after = change.before.attempt, change.after.attempt
    return before is not None and after is not None and after.created and not before.created


def _begins_to_run(change: Change) -> bool:
    before, after = change.before.attempt, change.after.attempt
    if before is None or after is None:
        return False
    return before.running_since is None and after.running_since is not None
