"""The whole policy: plan(snapshot, now) -> Plan. Pure; DESIGN section 5 is the specification.

    1 settle    what the clock has decided: back-offs, classes       actions/settle.py
    2 order     the most deprived project first                      turn/turn_order.py
                within a project: rank, entry time, name             order.py
    3 walk      each job in that order tries, least disruptive first, before the next one:
                  free slots, then slots coming free                 state/pool_room.py
                  move running jobs to another pool                  actions/consolidate.py
                  take slots back from projects over their share     actions/reclaim.py
                  evict a lower rank of its own project              actions/preempt.py
                  take its turn when a time slice is over            actions/time_slice.py
                  let a pool drain for it                            actions/reserve.py
                it may take over claims of jobs it could evict       actions/entitlement.py
    4 net       what a later turn takes back was never given         turn/revisit.py
    5 explain   every job examined and left waiting gets a reason    explain/waiting.py

A blocked job blocks the rest of its line, so one look at each line is enough (lines.py). A decision
never helps an earlier job, except when it puts a project above its share or takes back what this
plan gave: then the jobs that it may help are tried again. The plan ends early when a user yields,
because that user's place moves, and when a claim is given up, because earlier decisions rest on it.
"""

from __future__ import annotations

from dataclasses import replace

from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.settle import settle
from slotq_core.policy.explain.forecast import Question
from slotq_core.policy.explain.timers import first_timer
from slotq_core.policy.lines import by_user
from slotq_core.policy.plan import Plan
from slotq_core.policy.state.job_parts import in_parts
from slotq_core.policy.turn.blocked import blocked
from slotq_core.policy.turn.gang_turn import GangTurn
from slotq_core.policy.turn.prospects import has_prospects
from slotq_core.policy.turn.revisit import Revisits
from slotq_core.policy.turn.turn_order import TurnOrder
from slotq_core.policy.turn.walk import Walk


@in_parts
def plan(snapshot: Snapshot, now: int, asked: Job | None = None) -> Plan:
    """Decide what to do now, and why the rest waits. The same snapshot gives the same plan.

    `asked`: a waiting job for which the plan also gives the outlook.
    """
    settled = tuple(settle(snapshot, now))
    if settled:
        return Plan(decisions=settled, wake_at=now)
    if not snapshot.waiting:
        return Plan(wake_at=first_timer(snapshot))
    walk = Walk(snapshot, now)
    question = Question(asked, walk, by_user=by_user(snapshot))
    again = Revisits(walk)
    turns = TurnOrder(walk.takers(), walk.accounts, again, yields=walk.yields)
    while not walk.given_up and (job := turns.next()) and not walk.has_yielded(job):
        question.look(job)
        if not _visit(walk, job):
            turns.block()
        if again.is_called_for():
            turns.ask_again(*again.losses())
    return replace(walk.plan(), outlook=question.answer())


def _visit(walk: Walk, job: Job) -> bool:
    """Step 3, one turn. False: the job is blocked, and so is the rest of its line."""
    gang = walk.gangs.get(job.group)
    if walk.is_kept_back(job):
        return False
    if gang and not gang.runs:
        return GangTurn(walk=walk, gang=gang).take_turn()
    rooms = walk.rooms_of(job)
    able = [room for room in rooms if room.admits(job)]
    walk.take_its_claim(job)
    if not has_prospects(job, rooms, walk.accounts, walk.entitled):
        return blocked(walk, job, rooms, able)
    within = [room for room in able if walk.within_bounds(job, room)]
    if job.claim and job.claim.moved and walk.goes_where_it_moves(job, rooms, within):
        return True
    may_evict = gang is None  # A member that joins a running gang evicts nobody.
    surely = [room for room in within if room.may_evict_for(job)]
    return (
        walk.start(job, within)
        or walk.wait_for_coming(job, rooms, within)
        or (may_evict and walk.consolidate(job, surely))
        or (may_evict and walk.reclaim(job, surely))
        or (may_evict and walk.preempt(job, able))
        or (may_evict and walk.take_turn(job, rooms))
        or blocked(walk, job, rooms, able)
    )
