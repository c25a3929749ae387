"""The periodic work of the queue: what each tick does before its pass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core.errors import Conflict, SlotQError, Unavailable
from slotq_core.operations.admit import Admitter
from slotq_core.operations.reconcile import Reconciler
from slotq_core.operations.usage.day_sums import DaySums
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration, Finding
from slotq_core.ports.surroundings import Clock

if TYPE_CHECKING:
    from slotq_core.operations.attempts.listening import Listener
    from slotq_core.operations.nodes.reading import NodeReading
    from slotq_core.operations.usage.past_use import PastUses

FinishGroups = Callable[[int], tuple[str, ...]]
"""Finishes, until a time (ms), the submissions of groups that other handlers have begun. Returns
the errors."""

AnswerCallbacks = Callable[[int], tuple[str, ...]]
"""Answers, until a time (ms), those who wait for jobs' ends. Returns what was not accepted."""


class PeriodicWork:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        scripts: Scripts,
        *,
        admitter: Admitter,
        reconciler: Reconciler,
        finish_groups: FinishGroups,
        nodes: NodeReading | None = None,
        answer_callbacks: AnswerCallbacks | None = None,
    ) -> None:
        """`nodes`, `answer_callbacks`: None if this deployment keeps or answers none."""
        self._answer_callbacks = answer_callbacks
        self._store, self._clock, self._scripts = store, clock, scripts
        self._admitter, self._reconciler = admitter, reconciler
        self._finish_groups, self.nodes = finish_groups, nodes
        self._day_sums = DaySums(store.usage, store.scheduler, clock)

    def run(self, *, until: int) -> tuple[list[str], list[Finding]]:
        """Add up the spending of projects with a budget, past use and the usage of days that are
        over, answer those who wait for jobs' ends, read the scripts' reports that decide something
        and those of nodes, audit the callers' counters and some of the stored lines, mark old
        history for removal, and reconcile if due, until a time (ms). Return the errors, and the
        findings.

        An error in one part does not stop the others.
        """
        troubles: list[str] = []
        findings: list[Finding] = []
        configuration = None
        try:
            configuration = self._store.configuration.read()
            self.count_spending(configuration)
        except SlotQError as error:
            troubles.append(f"budgets: {error}")
        parts: tuple[tuple[str, Callable[[], object]], ...] = (
            ("past use", lambda: self.count_past_use(configuration)),
            ("configuration", lambda: self.take_back(configuration)),
            ("reports", lambda: self.listen(configuration)),
            ("limits", lambda: self._admitter.audit(configuration)),
            ("groups", lambda: troubles.extend(self._finish_groups(until))),
            ("callbacks", lambda: troubles.extend(self.answer_callbacks(until))),
            ("nodes", lambda: findings.extend(self.nodes.look_at_all(until) if self.nodes else ())),
            ("history", lambda: self._store.repair.expire(now=self._clock.now())),
            ("usage", lambda: self._day_sums.run_if_due(self._clock.now())),
        )
        for name, run in parts:
            try:
                run()
            except SlotQError as error:
                troubles.append(f"{name}: {error}")
        try:
            findings += self._reconciler.run_if_due(self._clock.now(), until=until)
        except SlotQError as error:
            troubles.append(f"reconciliation: {error}")
        try:
            findings += self._store.repair.audit(now=self._clock.now())
        except SlotQError as error:
            troubles.append(f"audit: {error}")
        return troubles, findings

    def take_back(self, configuration: Configuration | None) -> None:
        """Undo a change of the configuration over which a handler has died."""
        if configuration is not None and configuration.changing:
            with suppress(Conflict, Unavailable):  # It lives, or another handler was faster.
                self._store.configuration.take_back(self._clock.now())

    def count_spending(self, configuration: Configuration | None = None) -> None:
        """Add up the spending of projects with a budget, for the passes. `configuration`: read just
        before; None: read it."""
        configuration = configuration or self._store.configuration.read()
        if any(project.budget for project in configuration.sharing.projects):
            from slotq_core.operations.usage.month_sums import MonthSums

            MonthSums(self._store.usage, self._clock).count(configuration, self._clock.now())

    def count_past_use(self, configuration: Configuration | None = None) -> None:
        """Add up past use once an hour, where fair shares count it. `configuration`: read just
        before; None: read it."""
        configuration = configuration or self._store.configuration.read()
        if configuration.sharing.fair_share is not None:
            self._past_uses.count(configuration, self._clock.now())

    def answer_callbacks(self, until: int) -> tuple[str, ...]:
        """Answer those who wait for jobs' ends, until a time (ms). Returns what was not
        accepted."""
        found = self._answer_callbacks(until) if self._answer_callbacks else ()
        return tuple(f"callback of {trouble}" for trouble in found)

    def listen(self, configuration: Configuration | None = None) -> None:
        """Read the reports that may change a decision. `configuration`: read just before; None:
        read it."""
        configuration = configuration or self._store.configuration.read()
        if configuration.group_decisions or any(pool.listens for pool in configuration.pools):
            self._listener.listen(configuration, self._clock.now())

    @cached_property
    def _past_uses(self) -> PastUses:
        from slotq_core.operations.usage.past_use import PastUses

        return PastUses(self._store.usage, self._clock)

    @cached_property
    def _listener(self) -> Listener:
        from slotq_core.operations.attempts.listening import Listener

        return Listener(self._store.worlds, self._store.decisions, self._scripts)
