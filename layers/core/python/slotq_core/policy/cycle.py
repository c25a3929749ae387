"""The whole policy: plan(snapshot, now) -> Plan, a pure function. The rules: docs/policy.md.

    1 settle    back-offs, broken gangs, demotions that are due      actions/settle.py
                who has spent the budget of the month                state/quotas/budgets.py
    2 order     the most deprived project first                      turn/turn_order.py
                within a project: rank, entry time, name             order.py
    3 walk      each job in that order has a turn, with the least disruptive step first:
                  free slots, also where a pool drains for another
                  job, if that one cannot be delayed                 actions/backfill.py
                  slots coming free                                  state/pool_room.py
                  move running jobs to another pool                  actions/consolidate.py, gate.py
                  or to other nodes                                  actions/nodes/node_moves.py
                  take slots back from projects over their share     actions/reclaim.py, gate.py
                  or slots that are reserved for its project         actions/reservation_reclaim.py
                  evict a lower rank of its own project              actions/preempt.py
                  take its turn when a time slice is over            actions/time_slice.py
                  let a pool drain for it                            actions/reserve.py
                                                                     turn/blocked.py
                a job may use slots claimed by jobs it could evict   state/claims.py
                a job on nodes tries the nodes of its tenant first   turn/node_turn.py
                after turns, blocked jobs that they help try again   turn/revisit.py
    4 net       if a turn takes a start back, the plan restarts      turn/net.py
                without it, and tries that job last
    5 explain   every job examined and left waiting gets a reason    explain/waiting.py

A line is a group of waiting jobs that differ only in their place (lines.py). A blocked job blocks
all jobs behind it in its line. The snapshot may hold only the first jobs of a line, or only a lower
bound of the first job (turn/unread.py). The plan asks for more jobs of a line when it has served
those in the snapshot. If a user's job has yielded to a time slice in this plan, the plan ends at
the next waiting job of the same project, user and rank, because that job's place has changed.
"""

from __future__ import annotations

from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.action_rules import Rules
from slotq_core.policy.actions.settle import settle
from slotq_core.policy.explain.forecast import Question
from slotq_core.policy.explain.timers import first_timer
from slotq_core.policy.plan import Answers, Decision, Plan, Planning, nothing_more, run_to_end
from slotq_core.policy.state.groups.job_parts import in_parts
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.budgets import Budgets
from slotq_core.policy.turn.blocked import (
    blocked,
    explain_incomplete_gangs,
    explain_spent_budgets,
    is_kept_back,
)
from slotq_core.policy.turn.gang_turn import take_turn
from slotq_core.policy.turn.net import restarts, tried_last
from slotq_core.policy.turn.prospects import has_prospects
from slotq_core.policy.turn.result import result
from slotq_core.policy.turn.revisit import Revisit
from slotq_core.policy.turn.steps import Steps
from slotq_core.policy.turn.turn_order import TurnOrder
from slotq_core.policy.turn.unread import is_to_be_read


def plan(
    snapshot: Snapshot, now: int, asked: Job | None = None, more: Answers = nothing_more
) -> Plan:
    """Make the decisions of this moment, and the reasons of jobs that wait. The same snapshot gives
    the same plan.

    `asked`: a waiting job for which the plan also gives the outlook. `more` gives further jobs of a
    line, if the snapshot has only its first ones.
    """
    return run_to_end(planning(snapshot, now, asked), more)


@in_parts
def planning(snapshot: Snapshot, now: int, asked: Job | None = None) -> Planning:
    """The plan as a generator: it yields a `Need` and is sent a `Found`."""
    budgets = Budgets(snapshot, now)
    if settled := tuple(settle(snapshot, now, budgets)):
        return Plan(decisions=settled, wake_at=now)
    timer = first_timer(snapshot, now, budgets)
    if not snapshot.waiting:
        return Plan(decisions=_without_waiting(snapshot, now), wake_at=timer)
    state = PlanState(snapshot, now, budgets)
    rules = Rules(state)
    steps, turns = Steps(state, rules), TurnOrder(state)
    revisit, question = Revisit(state, rules, turns.blocked), Question(asked, state, rules)
    state.decided.wake([timer], now)
    explain_incomplete_gangs(state)
    explain_spent_budgets(state)
    while True:
        before = state.begin_turn()
        head = turns.next()
        if head is None and turns.try_again(revisit.at_the_end() or tried_last(state, turns)):
            continue
        if head is None or state.decided.moves_place_of(head.job):
            break
        question.look(head.job)
        served = _visit(steps, head.job)
        if is_to_be_read(state, question, head.job, served=served):
            state.journal.rollback(before)
            yield from turns.read(head)
            continue
        if state.lost and restarts(state, turns, head):
            continue
        if served:
            turns.try_again(revisit.helped(head.job))
            yield from turns.go_on(head)
        else:
            turns.block(head)
    planned = yield from result(steps, turns, question)
    state.journal.close()
    return planned


def _visit(steps: Steps, job: Job) -> bool:
    """Step 3, one turn. False: the job is blocked, and so is the rest of its line."""
    state, eligible = steps.state, steps.rules.eligible
    gang = state.gangs.get(job.group)
    state.decided.undecide(job.name)  # On a second turn, forget the failed attempt of the first.
    if is_kept_back(steps, job):
        return False
    if gang and not gang.runs:
        return take_turn(steps, gang)
    if job.gpus and state.nodes:
        # Most queues have no nodes, and no cold start should pay for them.
        from slotq_core.policy.turn.node_turn import take_turn_on_nodes

        return take_turn_on_nodes(steps, job)
    rooms = state.rooms_of(job)
    state.take_own_claim(job)
    if not has_prospects(job, rooms, steps):
        return steps.backfill(job, rooms) or blocked(steps, job, rooms)
    admitting = eligible.admitting(job, rooms)
    may_evict = gang is None  # A member that joins a running gang evicts no jobs.
    if not (admitting or job.claim):  # A time slice may end in a pool that drains.
        return (
            steps.backfill(job, rooms)
            or (may_evict and steps.take_turn(job, rooms))
            or blocked(steps, job, rooms)
        )
    within_limits = [room for room in admitting if eligible.within_bounds(job, room)]
    if job.claim and job.claim.moved and steps.go_to_destination(job, rooms, within_limits):
        return True
    # A preemption may make room under a limit, and a time slice in a pool that drains. So these
    # two steps get more rooms.
    may_evict_in = steps.with_rights(job, within_limits)
    return (
        steps.start(job, within_limits)
        or steps.backfill(job, rooms)
        or steps.wait_for_coming(job, rooms, within_limits)
        or (may_evict and steps.consolidate(job, may_evict_in))
        or (may_evict and steps.reclaim(job, may_evict_in))
        or (may_evict and steps.preempt(job, admitting))
        or (may_evict and steps.take_turn(job, rooms))
        or blocked(steps, job, rooms)
    )


def _without_waiting(snapshot: Snapshot, now: int) -> tuple[Decision, ...]:
    """The ends of nodes, and the releases of warm instances, where no job waits."""
    ends: tuple[Decision, ...] = ()
    if snapshot.nodes:
        from slotq_core.policy.state.nodes.node_ends import idle_ends

        ends = idle_ends(snapshot, now)
    if snapshot.warm:
        from slotq_core.policy.turn.warm_starts import releases_alone

        ends += releases_alone(snapshot, now)
    return ends
