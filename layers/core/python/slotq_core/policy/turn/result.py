"""The plan that a state amounts to."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from slotq_core.policy.lifecycle.start_attempts import failed_attempt
from slotq_core.policy.lines import TRIED_AT_ONCE
from slotq_core.policy.plan import Found, Need, Plan, Start, TryLater
from slotq_core.policy.state.groups.gangs import starts_together
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.turn.blocked import why_it_waits
from slotq_core.policy.turn.steps import Steps
from slotq_core.policy.turn.turn_order import Head, TurnOrder


def result(steps: Steps, turns: TurnOrder) -> Generator[Need, Found, Plan]:
    """The decisions and reasons. Where claims are given up, the plan decides that alone: its other
    decisions rest on them."""
    state = steps.state
    if state.decided.dropped:
        return Plan(decisions=tuple(state.decided.dropped.values()), wake_at=state.now)
    decided = list(starts_together(state.decided.decisions.values(), state.gangs))
    for head in sorted(turns.blocked.everyone()):
        tried = state.decided.decisions.get(head.job.name)
        if isinstance(tried, TryLater) and len(tried.changed) == 1 and head.job.claim is None:
            yield from turns.know(head.line, head.at + TRIED_AT_ONCE)
            decided += _failed_alike(state, head, tried)
    later = {
        name: why_it_waits(steps, job)
        for name, job in state.decided.unexplained.items()
        if name not in state.snapshot.unread
    }
    reasons = {
        name: why
        for name, why in (later | state.decided.reasons).items()
        if not isinstance(state.decided.decisions.get(name), Start)
    }
    return Plan(decisions=tuple(decided), reasons=reasons, wake_at=state.decided.wake_at)


def _failed_alike(state: PlanState, head: Head, tried: TryLater) -> Iterator[TryLater]:
    """Failed attempts of the jobs behind a blocked job in its line: they are blocked alike.

    The next plan, at the same time, takes those behind the last. A gang is left out: its attempt
    covers all its members.
    """
    assert state.snapshot.scheduler is not None
    for job in head.line.jobs[head.at + 1 : head.at + 1 + TRIED_AT_ONCE]:
        yield failed_attempt([job], state.snapshot.scheduler, tried.why, state.now)
