"""Many jobs changed in one request: each by a commit of its own, for all of them one bump and wake.

Bounded by time. What was not reached is said, so that the caller sends it again: every change may
be sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slotq_core import explaining
from slotq_core.amending import Changed, Wish
from slotq_core.errors import SlotQError, Unavailable
from slotq_core.explaining import Status
from slotq_core.ports import Clock, Store

BUDGET = 15_000
"""How long changes are begun (ms). API Gateway gives up after 29 s, and the last change and the
look at the line need some of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one wish: where its job stands, or why nothing was changed."""

    name: str
    status: Status | None = None
    error: SlotQError | None = None


class NotReached(Unavailable):
    """The time of an answer was used up before this wish's turn came."""


class Bulk:
    """Fulfils wishes by the hundred."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        change: Callable[[Wish, str], Changed],
        wake: Callable[[], None],
    ) -> None:
        """`change` commits one wish of somebody's, and asks for no pass; `wake` does."""
        self._store, self._clock, self._change, self._wake = store, clock, change, wake

    def run(self, wishes: Sequence[Wish], *, by: str) -> list[Outcome]:
        """An outcome for each wish, in their order: one that is refused stops none of the others.

        Raises Unavailable where not even the first could be looked at.
        """
        until = self._clock.now() + BUDGET
        outcomes: list[Outcome] = []
        anew = False
        try:
            for wish in wishes:
                if outcomes and self._clock.now() >= until:
                    break
                try:
                    changed = self._change(wish, by)
                except Unavailable:
                    if not outcomes:
                        raise
                    break
                except SlotQError as error:
                    outcomes.append(Outcome(name=wish.name, error=error))
                else:
                    anew = anew or changed.anew
                    outcomes.append(Outcome(name=wish.name, status=Status(job=changed.job)))
            outcomes = self._explained(outcomes, until)
        finally:
            if anew:
                self._wake()
        return outcomes + [_not_reached(wish) for wish in wishes[len(outcomes) :]]

    def _explained(self, outcomes: list[Outcome], until: int) -> list[Outcome]:
        """With place and reason of the jobs that wait, where there is time to look."""
        waiting = {it.name: it.status.job for it in outcomes if it.status and it.status.job.waits}
        now = self._clock.now()
        if not waiting or now >= until:
            return outcomes
        try:
            everything = self._store.load_all(now).snapshot
        except Unavailable:
            return outcomes
        known = {it.job.name: it for it in explaining.statuses(waiting.values(), everything, now)}
        return [replace(it, status=known[it.name]) if _waits(it) else it for it in outcomes]


def _waits(outcome: Outcome) -> bool:
    return outcome.status is not None and outcome.status.job.waits


def _not_reached(wish: Wish) -> Outcome:
    error = NotReached("the time of an answer was used up before its turn; send it again")
    return Outcome(name=wish.name, error=error)
