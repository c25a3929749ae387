"""The plan that a state amounts to."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from slotq_core.model.reasons import Reason
from slotq_core.policy.lifecycle.start_attempts import failed_attempt
from slotq_core.policy.lines import TRIED_AT_ONCE
from slotq_core.policy.plan import Found, Need, Plan, Start, TryLater
from slotq_core.policy.state.groups.gangs import starts_together
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.turn.blocked import why_it_waits
from slotq_core.policy.turn.steps import Steps
from slotq_core.policy.turn.turn_order import Head, TurnOrder


def result(steps: Steps, turns: TurnOrder) -> Generator[Need, Found, Plan]:
    """The decisions and reasons. Where claims are given up, the plan decides that alone."""
    state = steps.state
    if state.decided.dropped:
        return Plan(decisions=tuple(state.decided.dropped.values()), wake_at=state.now)
    decided = list(starts_together(state.decided.in_order(), state.gangs))
    for head in sorted(turns.blocked.everyone()) if state.snapshot.scheduler else ():
        tried = state.decided.decisions.get(head.job.name)
        if isinstance(tried, TryLater) and len(tried.changed) == 1 and head.job.claim is None:
            yield from turns.know(head.line, head.at + TRIED_AT_ONCE)
            decided += _failed_alike(state, head, tried)
    return Plan(
        decisions=tuple(decided),
        reasons=Reasons(steps, turns),
        closed={name: state.budgets.reason(name) for name in state.budgets.hard},
        wake_at=state.decided.wake_at,
    )


class Reasons(Mapping[str, Reason]):
    """The reason of each job examined and left waiting, by job name. Where the end of the plan
    decides a reason, it is made when first read: a pass reads none, and thousands may wait."""

    def __init__(self, steps: Steps, turns: TurnOrder) -> None:
        self._steps, decided = steps, steps.state.decided
        told = decided.reasons.keys() | steps.state.snapshot.unread
        blocked = (head.job for head in turns.blocked.everyone())
        self._later = {job.name: job for job in blocked if job.name not in told}
        self._made = {
            name: decided.reasons.get(name)
            for name in (*self._later, *decided.reasons)
            if not isinstance(decided.decisions.get(name), Start)
        }

    def __getitem__(self, name: str) -> Reason:
        why = self._made[name]
        if why is None:
            why = self._made[name] = why_it_waits(self._steps, self._later[name])
        return why

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _failed_alike(state: PlanState, head: Head, tried: TryLater) -> Iterator[TryLater]:
    """Failed attempts of the jobs behind a blocked job in its line: they are blocked alike. The
    next plan, at the same time, takes those behind the last."""
    assert state.snapshot.scheduler is not None
    for job in head.line.jobs[head.at + 1 : head.at + 1 + TRIED_AT_ONCE]:
        yield failed_attempt([job], state.snapshot.scheduler, tried.why, state.now)
