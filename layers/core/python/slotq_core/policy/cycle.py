"""The whole policy on one screen: plan(snapshot, now) -> Plan. Pure; DESIGN section 5.

    1 settle    back-offs whose time has come end; starts that got no instances in time are given
                up; classes end; the rest is for the next plan          -> retry.py, demote.py
    2 order     between projects the most deprived first, asked anew after each decision; within
                one rank, then entry time, then name              -> turns.py, order.py, shares.py
    3 walk      each job in that order, before the next one is looked at:
                  a  starts on free slots, in the first of its pools that has room -> fit.py
                  b  waits for slots that are coming free, and holds them          -> fit.py
                  c  moves others to further pools of theirs, where allowed    -> consolidate.py
                  d  reclaims from projects above their share, and claims          -> reclaim.py
                  e  preempts strictly lower rank in its project, and claims       -> preempt.py
                  f  takes its turn where time slices are over, and claims         -> slices.py
                  g  after `reserve_after`, makes one of its pools drain           -> reserve.py
                within its project's quota and limit, and its user's -> account.py, users.py
                in the highest class with room, where it is AUTO        -> classes.py, demote.py
                where only so many may run at once, it may have to wait untried  -> parallel.py
                with scheduler settings, a blocked job is tried again later      -> attempts.py
                a gang: all of its members, or none          -> gang.py, together.py
                a job over several pools: all of its parts, or none                -> parts.py
                a pool that backs off, is being probed, paused or drained takes part in none of it;
                nor does it for a job of a role that backs off there              -> rights.py
    4 net       what was given in this plan and is taken back in it was never given
    5 explain   whoever was looked at and waits gets a typed reason; of the one job that somebody
                asks about, what could be evicted and what is reserved   -> explain.py, outlook.py

One look at each line is enough: when its first job is blocked, so are those behind it (lines.py).
One way down the order is enough, too: a decision gives those ahead nothing that they could not have
had, but that somebody has come above its share, or has lost what this plan gave it: then whoever
that may bring something is asked again (turns.py, again.py). The walk ends at a job whose user has
yielded in this plan, for its place is further down now; and where a claim is given up, for what was
decided before rests on it: that alone is the plan then, and the next one begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.again import Again
from slotq_core.policy.blocked import blocked
from slotq_core.policy.demote import demoted, demotes_at
from slotq_core.policy.gang import settled
from slotq_core.policy.lines import by_user
from slotq_core.policy.order import position
from slotq_core.policy.outlook import Question
from slotq_core.policy.parts import in_parts
from slotq_core.policy.plan import Decision, Demote, EndBackoff, GiveUp, Plan
from slotq_core.policy.prospects import has_prospects
from slotq_core.policy.retry import backed_off, gives_up_at
from slotq_core.policy.timers import first_timer
from slotq_core.policy.together import Together
from slotq_core.policy.turns import Turns
from slotq_core.policy.walk import Walk


@in_parts
def plan(snapshot: Snapshot, now: int, asked: Job | None = None) -> Plan:
    """What to do now, and why the rest waits. The same snapshot always gives the same plan.

    `asked`: a job that waits, of which the plan is to say more than its reason.
    """
    settled = tuple(_settle(snapshot, now))
    if settled:
        return Plan(decisions=settled, wake_at=now)
    if not snapshot.waiting:
        return Plan(wake_at=first_timer(snapshot))
    walk = Walk(snapshot, now)
    question = Question(asked, walk, by_user=by_user(snapshot))
    again = Again(walk)
    turns = Turns(walk.takers(), walk.accounts, again, yields=walk.yields)
    while not walk.given_up and (job := turns.next()) and not walk.has_yielded(job):
        question.look(job)
        if not _visit(walk, job):
            turns.block()
        if again.is_called_for():
            turns.ask_again(*again.losses())
    return replace(walk.plan(), outlook=question.answer())


def _settle(snapshot: Snapshot, now: int) -> Iterator[Decision]:
    """Step 1."""
    for job in sorted(snapshot.due, key=position):
        if backed_off(job, now):
            yield EndBackoff(job=job)
    yield from settled(snapshot)
    given_up = [job for at, job in gives_up_at(snapshot) if at <= now]
    for job in sorted(given_up, key=position):
        yield GiveUp(job=job)
    classes = {each.name: each for each in snapshot.classes}
    had_its_time = [job for at, job in demotes_at(snapshot) if at <= now]
    for job in sorted(had_its_time, key=position):
        yield Demote(job=job, after=demoted(job, classes))


def _visit(walk: Walk, job: Job) -> bool:
    """Step 3, the turn of one job. False: it is blocked, and so is all of its line behind it."""
    gang = walk.gangs.get(job.group)
    if walk.is_kept_back(job):
        return False
    if gang and not gang.runs:
        return Together(walk=walk, gang=gang).take_turn()
    rooms = walk.rooms_of(job)
    able = [room for room in rooms if room.admits(job)]
    walk.take_its_claim(job)
    if not has_prospects(job, rooms, walk.accounts, walk.entitled):
        return blocked(walk, job, rooms, able)
    within = [room for room in able if walk.within_bounds(job, room)]
    if job.claim and job.claim.moved and walk.goes_where_it_moves(job, rooms, within):
        return True
    may_evict = gang is None  # Its gang runs without it: nobody goes for one that joins.
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
