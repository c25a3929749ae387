"""Step 4, net: a start that a later turn takes back does not count.

If a plan takes back slots that it gave a job in a pool, the job is barred from that pool and the
plan restarts. The job then has its turn in that pool last, after all others, with full rights.
Slots that it gets then and loses again stay lost for this plan. Bars only grow, so a plan ends.

The restarted plan would be the same up to the turn in which the job got its slots. So it restarts
at the checkpoint before that turn. In a large world with many such losses the restarts would cost
many times the plan itself. Therefore, after `MOST_UNDONE` undone changes, slots that are lost stay
lost for this plan.

See docs/policy-decisions.md#net-effects-within-one-plan.
"""

from __future__ import annotations

from slotq_core.model.jobs import Job
from slotq_core.policy.explain import waiting as explain
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.turn.turn_order import Head, TurnOrder

MOST_UNDONE = 3_000
"""So many changes may be undone in any plan: far more than a world of some hundred jobs has."""


def restarts(state: PlanState, turns: TurnOrder, head: Head) -> bool:
    """Restart the plan if the turn of this head took back slots that this plan gave. Return whether
    the plan restarts.

    Called after the whole turn, because a gang tries and rolls back. A plan that gives up a claim
    decides nothing else, so it never commits the starts that it took back.
    """
    if state.decided.dropped:
        return False
    new = [loss for loss in state.lost if loss.pool not in state.barred.get(loss.job.name, ())]
    if new:
        reached = state.journal.checkpoint()
        begin = min(loss.checkpoint for loss in new)
        if state.undone + reached - begin <= MOST_UNDONE:
            state.undone += reached - begin
            for loss in new:
                state.barred.setdefault(loss.job.name, set()).add(loss.pool)
            turns.put_back(head)
            state.journal.rollback(begin)
            return True
    for loss in state.lost:
        state.decided.say(loss.job, explain.taken_back(loss.job, state.rooms[loss.pool]))
    return False


def tried_last(state: PlanState, turns: TurnOrder) -> list[Head]:
    """The barred jobs that wait, once all others have been asked."""
    if state.tries_last or state.decided.dropped or not state.barred:
        return []
    state.journal.set(state, "tries_last", value=True)
    heads = turns.blocked.everyone()
    return [head for head in heads if state.barred.keys() & _members(state, head.job)]


def _members(state: PlanState, job: Job) -> set[str]:
    """The names of the jobs behind the representative."""
    gang = state.gangs.get(job.group)
    return {member.name for member in gang.waiting} if gang and not gang.runs else {job.name}
