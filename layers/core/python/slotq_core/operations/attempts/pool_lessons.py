"""Update a pool's health from a change: missing capacity, a missing right, the return of each, and
how long a start took.

What a start shows is written in its own transaction (`Change.health`). Other lessons follow the
commit: if the handler dies before the update, the next start repeats the lesson.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from slotq_core.model.attempts import Attempt, AttemptOutcome
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool, PoolHealth, ServiceQuota
from slotq_core.policy.lifecycle.missing_rights import (
    EVERYBODY,
    after_acceptance,
    after_refusal,
    limit_of,
    pools_concerned,
)
from slotq_core.policy.lifecycle.pool_health import (
    after_a_start,
    after_capacity_error,
    after_failed_agent,
    start_in,
    with_start,
)
from slotq_core.ports.configuration import Health, StoredConfiguration
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import CallResult, Verdict


class Lessons:
    """Records in the pool's health what SageMaker's answers show."""

    def __init__(self, configuration: StoredConfiguration, health: Health, clock: Clock) -> None:
        self._configuration, self._health = configuration, health
        self._clock = clock

    def known(self) -> KnownHealth:
        """The health of pools, for changes that are committed together."""
        return KnownHealth(self._health)

    def take(
        self,
        taken: Sequence[tuple[Change, CallResult | None]],
        known: KnownHealth | None = None,
    ) -> list[bool]:
        """Record what these committed changes show, one after the other: each pool is read and
        written at most once. With each change: SageMaker's answer, if the change follows from one.
        `known`: what was read for them. Returns whether each has shown what calls for a pass."""
        known = known or self.known()
        learned = [self._take(known, change, answer) for change, answer in taken]
        known.keep()
        return learned

    def _take(self, known: KnownHealth, change: Change, answer: CallResult | None) -> bool:
        ended, live = change.ended, change.after.attempt
        if ended is not None:
            answer = answer or CallResult(verdict=Verdict.OK)
            return self._of_an_end(known, change, ended, answer)
        if live is None:
            return False
        learned = False
        if live.probes and is_accepted(change):
            learned = known.learn(
                live.pool, lambda health: after_acceptance(health, change.after.role)
            )
        if change.health is not None:
            return known.has_started(live.pool, change.health) or learned
        return (_begins_to_run(change) and known.learn(live.pool, after_a_start)) or learned

    def unanswered(self, attempt: Attempt, answer: CallResult) -> None:
        """Record that a missing right hides the outcome of the create. Nothing else starts in the
        pool meanwhile."""
        known = KnownHealth(self._health)
        self._refused(known, attempt.pool, EVERYBODY, answer.action, answer.message)
        known.keep()

    def of_accepted_node(self, pool: str, role: str) -> bool:
        """Record that SageMaker has accepted the create of a node under this role."""
        return self._of_pool(pool, lambda health: after_acceptance(health, role))

    def of_running_node(self, pool: str) -> bool:
        """Record that a node got its instance."""
        return self._of_pool(pool, after_a_start)

    def of_no_warm_quota(self, pool: str) -> bool:
        """Record that the account has no quota for warm instances of the pool's type."""
        now = self._clock.now()
        return self._of_pool(pool, lambda health: replace(health, warm_refused_at=now))

    def of_missing_instances(self, pool: str, message: str) -> bool:
        """Record that SageMaker had no instance for a node in time."""
        now, known = self._clock.now(), KnownHealth(self._health)
        is_new = known.learn_of_pool(
            pool, lambda pool: after_capacity_error(pool, now=now, message=message)
        )
        known.keep()
        return is_new

    def of_failed_agent(self, node: Node, image: str, message: str) -> bool:
        """Record that the image of a node could not run the agent."""
        now = self._clock.now()
        return self._of_pool(
            node.pool,
            lambda health: after_failed_agent(
                health, tenant=node.tenant, image=image, message=message, now=now
            ),
        )

    def _of_pool(self, pool: str, learned: Callable[[PoolHealth], PoolHealth]) -> bool:
        """Take one lesson. Returns whether it was new."""
        known = KnownHealth(self._health)
        is_new = known.learn(pool, learned)
        known.keep()
        return is_new

    def _of_an_end(
        self, known: KnownHealth, change: Change, ended: Attempt, answer: CallResult
    ) -> bool:
        message = ended.message or change.before.message
        if ended.outcome is AttemptOutcome.NO_CAPACITY:
            return self._no_capacity(known, change.before, ended, answer.quota, message)
        if ended.outcome is AttemptOutcome.NO_RIGHTS:
            role = EVERYBODY if answer.verdict is Verdict.NO_RIGHTS else change.before.role
            if role or answer.verdict is Verdict.NO_RIGHTS:
                return self._refused(known, ended.pool, role, answer.action, message)
        return False

    def _no_capacity(
        self, known: KnownHealth, job: Job, ended: Attempt, quota: ServiceQuota | None, message: str
    ) -> bool:
        def refused(pool: Pool) -> PoolHealth:
            limit = limit_of(pool, quota)
            return after_capacity_error(pool, now=now, message=message, limit=limit)

        now, names = self._clock.now(), pools_concerned(quota, ended, job)
        if names is None:
            pools = self._configuration.pools()
            names = tuple(pool.name for pool in pools if pool.work is job.work)
        changed = [name for name in names if known.learn_of_pool(name, refused)]
        return bool(changed)

    def _refused(self, known: KnownHealth, pool: str, role: str, action: str, message: str) -> bool:
        now = self._clock.now()
        return known.learn_of_pool(
            pool,
            lambda pool: after_refusal(
                pool.health, role=role, action=action, message=message, now=now
            ),
        )


class KnownHealth:
    """The health of pools while lessons are taken: read when first needed, written at the end."""

    def __init__(self, health: Health) -> None:
        self._stored = health
        self._pools: dict[str, Pool | None] = {}
        self._health: dict[str, PoolHealth] = {}
        self._changed: set[str] = set()

    def learn_of_pool(self, name: str, learned: Callable[[Pool], PoolHealth]) -> bool:
        """Take a lesson of a pool that is configured; returns whether its health has changed."""
        if name not in self._pools:
            self._pools[name] = self._stored.pool(name)
        pool = self._pools[name]
        if pool is None:
            return False
        before = self._health.setdefault(name, pool.health)
        return self._set(name, before, learned(replace(pool, health=before)))

    def learn(self, name: str, learned: Callable[[PoolHealth], PoolHealth]) -> bool:
        """Take a lesson that depends on the health alone, so the pool is not read. A healthy pool,
        as most are, costs one read."""
        before = self._read(name)
        return self._set(name, before, learned(before))

    def with_starts(self, changes: Sequence[Change]) -> list[Change]:
        """The changes, each pool's first that ends a start with what all of them show of the pool.
        A pool costs one read, which `take` then saves."""
        firsts: dict[str, int] = {}
        shown: dict[str, PoolHealth] = {}
        for number, change in enumerate(changes):
            attempt, took = change.after.attempt, start_in(change.before, change.after)
            if attempt is None or attempt.running_since is None or took is None:
                continue
            pool = attempt.pool
            if firsts.setdefault(pool, number) == number:
                shown[pool] = after_a_start(self._read(pool))
            shown[pool] = with_start(shown[pool], took, attempt.running_since)
        health = {firsts[pool]: after for pool, after in shown.items()}
        return [replace(change, health=health.get(number)) for number, change in enumerate(changes)]

    def has_started(self, name: str, health: PoolHealth) -> bool:
        """Take what a committed change has stored; returns whether the pool had capacity errors."""
        before, self._health[name] = self._read(name), health
        return before.errors > health.errors

    def _read(self, name: str) -> PoolHealth:
        if name not in self._health:
            self._health[name] = self._stored.get(name)
        return self._health[name]

    def keep(self) -> None:
        """Write what has changed."""
        for name in sorted(self._changed):
            self._stored.set(name, self._health[name])

    def _set(self, name: str, before: PoolHealth, after: PoolHealth) -> bool:
        self._health[name] = after
        if after == before:
            return False
        self._changed.add(name)
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
