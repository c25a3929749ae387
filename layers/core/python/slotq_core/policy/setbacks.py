"""Decisions that the store refuses: how often a pass tries one again, and what it then puts away.

A race changes what a decision is conditioned on. So a decision that is refused on the very
conditions on which it was refused before meets no race: something stored can never be what the
conditions ask. Then nothing more is decided about its jobs, or about the pool whose ledger is in
the way, in this pass. All other pools and jobs go on. Each pass tries again, and reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from slotq_core.errors import ConditionFalse, Malformed, SlotQError
from slotq_core.model.jobs import Job
from slotq_core.policy.plan import Decision, jobs_in
from slotq_core.policy.put_away import PutAway

MOST_ALIKE = 3
"""How often a pass makes one decision on the same conditions. More than once, because a query may
show some of a transaction's items before the others."""

MOST_REFUSALS = 20
"""How often a pass makes one decision at all, though others change its jobs or pools each time."""

Kind = tuple[str, tuple[str, ...]]
"""What a decision does, and to which jobs."""


class Setbacks:
    """The refusals of one pass."""

    def __init__(self) -> None:
        self.away = PutAway()
        self._refused: Counter[Kind] = Counter()
        self._alike: Counter[tuple[Kind, str]] = Counter()

    def refused(
        self, decision: Decision, error: SlotQError, *, seen: Mapping[str, int], number: int
    ) -> tuple[str, str] | None:
        """Note a refusal. Return what is put away because of it, and why; None if the decision may
        be tried again. `seen` and `number`: the versions of ledgers and the number of
        decisions about groups that the commit was conditioned on."""
        jobs = jobs_in(decision)
        kind = type(decision).__name__, tuple(job.name for job in jobs)
        self._refused[kind] += 1
        alike = 0
        if isinstance(error, ConditionFalse | Malformed):
            about_group = number if any(job.group for job in jobs) else None
            conditions = tuple(job.version for job in jobs), sorted(seen.items()), about_group
            self._alike[kind, repr(conditions)] += 1
            alike = self._alike[kind, repr(conditions)]
        if alike < MOST_ALIKE and self._refused[kind] < MOST_REFUSALS:
            return None
        pools = error.pools if isinstance(error, ConditionFalse) else frozenset()
        self._put_away(jobs, pools)
        what, names = kind
        some = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        about = f"pool {', '.join(sorted(pools))}" if pools else "these jobs"
        return f"{what} {some}", (
            f"refused {self._refused[kind]} times and put away: nothing more is decided about "
            f"{about} in this pass; `slotq doctor` looks for the cause ({error})"
        )

    def put_groups_away(self, jobs: frozenset[str] = frozenset()) -> None:
        """Decide nothing about groups, because a decision about these jobs is begun and cannot be
        finished."""
        self.away = replace(self.away, every_group=True, jobs=self.away.jobs | jobs)

    def _put_away(self, jobs: tuple[Job, ...], pools: frozenset[str]) -> None:
        if pools:  # The jobs may still start elsewhere.
            self.away = replace(self.away, pools=self.away.pools | pools)
            return
        alone = frozenset(job.name for job in jobs if not job.group)
        groups = frozenset(job.group for job in jobs if job.group)
        self.away = replace(
            self.away, jobs=self.away.jobs | alone, groups=self.away.groups | groups
        )
