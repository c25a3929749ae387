"""Examine everything that the queue stores, and compare it with SageMaker, for operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slotq_core.errors import ExaminedLately, Unavailable
from slotq_core.model.reasons import units
from slotq_core.operations import decisions_in_parts
from slotq_core.operations.attempts import rights_report, warm_report
from slotq_core.operations.reconcile import Reconciler
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Finding
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import SageMakerService

DOCTOR_BUDGET = 15_000
"""How long (ms) an examination may call SageMaker while somebody waits. API Gateway times out after
29 s."""

DOCTOR_ENDS = 24_000
"""Time (ms) from the start at which the examination of the table ends."""

EXAMINE_EVERY = 60_000
"""Minimum interval (ms) between two requested examinations."""


class Doctor:
    """Finds and repairs inconsistencies."""

    def __init__(
        self,
        store: Store,
        reconciler: Reconciler,
        clock: Clock,
        wake: Callable[[], None],
        *,
        training: SageMakerService,
    ) -> None:
        """`wake` asks for a pass. `training` describes training plans."""
        self._store, self._reconciler, self._clock, self._wake = store, reconciler, clock, wake
        self._training = training

    def examine(self, *, fix: bool = False) -> list[Finding]:
        """Find every inconsistency within the table and with SageMaker, and repair it if `fix` is
        true.

        Starts are left to the pass that follows, whose role may start training jobs. Reads
        everything, so it is for operators. If time runs out, a finding says so.
        """
        began = self._clock.now()
        try:
            found = self._reconciler.reconcile(mend=fix, starts=False, until=began + DOCTOR_BUDGET)
        except Unavailable as error:
            found = [Finding(kind="unavailable", subject="SageMaker", text=str(error))]
        found += rights_report.examine(self._store.configuration, self._store.health, mend=fix)
        found += warm_report.examine(
            self._store.configuration, self._store.health, self._clock.now(), mend=fix
        )
        found += decisions_in_parts.examine(self._store.decisions, self._clock.now())
        found += self._shared_roles()
        found += self._plans()
        found += self._callbacks()
        until = began + DOCTOR_ENDS
        found += self._store.repair.inspect(mend=fix, time_left=lambda: until - self._clock.now())
        if fix and found:
            self._wake()
        return found

    def _shared_roles(self) -> list[Finding]:
        if all(pool.nodes is None for pool in self._store.configuration.pools()):
            return []
        from slotq_core.operations.nodes import shared_roles

        return shared_roles.examine(self._store, self._clock.now())

    def _plans(self) -> Iterator[Finding]:
        pools = self._store.configuration.pools()
        if not any(pool.plan_arn for pool in pools):
            return
        from slotq_core.operations.training_plans import plan_report

        yield from plan_report.examine(pools, self._training, self._clock.now())

    def _callbacks(self) -> Iterator[Finding]:
        from slotq_core.operations.callbacks import callback_report

        return callback_report.examine(self._store.callbacks)

    def examine_if_due(self, *, fix: bool = False) -> list[Finding]:
        """Examine at most once a minute, because it reads everything. Looking and mending have
        separate turns. Raises ExaminedLately."""
        task, now = "mend" if fix else "examine", self._clock.now()
        if not self._store.scheduler.take_turn(task, now=now, next_at=now + EXAMINE_EVERY):
            due = self._store.scheduler.next_turn(task) or now
            left = max(1, -(-(due - now) // 1000))
            raise ExaminedLately(
                "the queue examines itself at most once a minute; ask again in "
                f"{units(left, 'seconds')}",
                retry_after=left,
            )
        return self.examine(fix=fix)
