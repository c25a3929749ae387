"""Turns that could not serve their job (steps 3g and 5).

A pool may drain for the job, the turn may count as a failed attempt, and the job gets a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotq_core.lifecycle import copied
from slotq_core.model.jobs import Job
from slotq_core.model.reasons import Reason
from slotq_core.policy.actions.reserve import due_at, pool_to_drain
from slotq_core.policy.explain import waiting as explain
from slotq_core.policy.lifecycle.missing_rights import takes_only_free_slots
from slotq_core.policy.lifecycle.start_attempts import failed_attempt
from slotq_core.policy.order import entered
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import Drain, PoolRoom
from slotq_core.policy.turn.prospects import might_gain
from slotq_core.policy.turn.steps import Steps


def is_kept_back(steps: Steps, job: Job) -> bool:
    """Whether a concurrency limit keeps the job, or its gang, from its turn. Explains it."""
    why = steps.state.concurrency.keeps_back(job)
    if why:
        gang = steps.state.gangs.get(job.group)
        for member in gang.waiting if gang and not gang.runs else [job]:
            if member.name not in steps.state.snapshot.unread:
                steps.state.decided.say(member, why)
    return why is not None


def blocked(steps: Steps, job: Job, rooms: Sequence[PoolRoom]) -> bool:
    """Let a pool drain if `reserve_after` has passed, or note that the job waits. Return False."""
    state = steps.state
    if state.drop_claim(job):
        return False
    timed, drain = [room for room in rooms if room.timed], None
    if timed or job.refused_in:
        steps.wake(job, timed)
        drain = _drain(steps, job, timed)
    if drain:
        _begin(steps, drain, job)
        state.decided.say(job, explain.reserved(job, drain, steps.rules.backfill.promise(drain)))
    elif _counts_attempts(state, job):
        _count_failed_attempt(state, [job], waiting_reason(steps, job))
    else:
        state.decided.unsay(job)
    return False


def waiting_reason(steps: Steps, job: Job) -> Reason:
    """The reason of a job that no step could serve and that no pool drains for."""
    return _first_two(_causes(steps, job))


def with_second(why: Reason, steps: Steps, job: Job) -> Reason:
    """The reason of a job that a concurrency limit keeps back, with the second cause."""
    return _first_two([why, *_causes(steps, job, is_second=True)])


def _first_two(causes: Sequence[Reason]) -> Reason:
    first, *others = dict.fromkeys(causes)
    return copied(first, also=others[0]) if others else first


def _causes(steps: Steps, job: Job, *, is_second: bool = False) -> list[Reason]:
    """The causes that keep the job back, the first cause first. As a second cause (`is_second`), a
    lack of room counts only if no step could find room."""
    gang = steps.state.gangs.get(job.group)
    if not (gang and gang.breathes):
        return _causes_alone(steps, job, is_second=is_second)
    others = [] if gang.is_ending else _causes_alone(steps, job, is_second=is_second)
    return [explain.not_yet_in(gang), *others]


def _causes_alone(steps: Steps, job: Job, *, is_second: bool) -> list[Reason]:
    """The same, of the job for itself."""
    state = steps.state
    rooms = state.rooms_of(job)
    large = [room for room in rooms if job.demand.within(room.size)]
    if not large:
        by_hours = explain.by_hours(job, rooms)
        return [by_hours or explain.too_small(job, rooms, state.accounts)]
    endangers = _endangers(steps, job)
    if endangers:
        return [endangers]
    if shut := explain.shut(job, large):
        return [shut, *explain.bounds(job, large[0], state)]
    room = explain.closest(job, large)
    bounds = explain.bounds(job, room, state)
    admitting = steps.rules.eligible.admitting(job, rooms)
    if (bounds or is_second) and might_gain(job, admitting, state):
        return bounds
    return [*bounds, explain.no_room(job, room, state, steps.rules)]


def gang_blocked(steps: Steps, gang: LiveGang, may_be_whole: Callable[[], bool]) -> bool:
    """Explain why the gang waits, and let a pool drain for each member that is due, unless its
    pools and limits could never hold the gang. Return False."""
    state, whole = steps.state, gang.representative
    if whole.claim:
        dropped = [job for job in gang.in_service_order if state.drop_claim(job)]
        if dropped:
            return False
    drain = drained = None
    why = explain.gang_blocked(gang, state, steps.rules)
    every = (state.rooms[name] for name in whole.pools if name in state.rooms)
    timed = any(room.timed for room in every) or any(
        job.refused_in for job in gang.in_service_order
    )
    for job in gang.in_service_order if timed else ():
        rooms = state.rooms_of(job)
        steps.wake(job, rooms)
        drain = _drain(steps, job, rooms)
        if drain and not (drained or may_be_whole()):
            drain = None
        if drain and not (drain.drain and drain.drain.gang == gang.group.name):
            _begin(steps, drain, job, gang.group.name)
        held = drain.drain.held_back if drain and drain.drain else ""
        state.decided.say(job, copied(why, drains=drain.pool.name if drain else "", project=held))
        drained = drained or drain
    if not drained:
        jobs = gang.in_service_order if state.snapshot.scheduler else gang.waiting
        _count_failed_attempt(state, jobs, why)
    return False


def explain_incomplete_gangs(state: PlanState) -> None:
    """Give a reason to the waiting members of gangs that cannot start yet."""
    for gang in state.gangs.values():
        if not gang.runs and not gang.ready:
            for job in gang.waiting:
                state.decided.say(job, explain.incomplete(gang))


def explain_spent_budgets(state: PlanState) -> None:
    """Give a reason to the jobs that a hard budget keeps back. The plan does not try them."""
    for job in state.budgets.kept_back:
        if job.name not in state.snapshot.unread:
            state.decided.say(job, state.budgets.reason(job.project))


def _drain(steps: Steps, job: Job, rooms: Sequence[PoolRoom]) -> PoolRoom | None:
    """The pool that drains for the job from now on, or None. "A job kept back by a quota or limit,
    or whose demand alone exceeds its project's fair share, drains nothing." For a gang the demand
    of all its members counts. A member that joins a running elastic gang drains nothing, because
    the gang does not need it. A job ahead for which a pool drains keeps the pool."""
    state, eligible = steps.state, steps.rules.eligible
    gang = state.gangs.get(job.group)
    admitting = [] if gang and gang.breathes else eligible.admitting(job, rooms)
    if not admitting:
        return None
    entry = entered(job, state.precedence.yields)
    may_drain = [
        room
        for room in admitting
        if (at := due_at(entry, room)) is not None
        and at <= state.now
        and job.demand.within(room.size)
        and not takes_only_free_slots(job, room.pool.name, state.now)
        and state.shares.could_ever_hold(eligible.with_gang(job, room.pool.name), room.pool.name)
        and eligible.within_bounds(job, room)
    ]
    return pool_to_drain(job, may_drain, None if gang else steps.rules.backfill.expected_at)


def _begin(steps: Steps, room: PoolRoom, job: Job, gang: str = "") -> None:
    """Let the room's pool drain for the job, and for the gang that starts with it."""
    eligible, pool = steps.rules.eligible, room.pool.name
    beyond = not steps.state.shares.within(eligible.with_gang(job, pool), pool)
    drain = Drain(
        job=job.name,
        project=job.project,
        place=eligible.place(job),
        gang=gang,
        beyond_share=beyond,
    )
    steps.state.journal.set(room, "drain", drain)
    steps.has_drained = True


def _endangers(steps: Steps, job: Job) -> Reason | None:
    """The reason of a job that has room but would endanger its running gang; else None."""
    eligible = steps.rules.eligible
    if job.group not in steps.state.gangs:
        return None
    able = eligible.admitting(job, steps.state.rooms_of(job))
    free = (room for room in able if room.fits_now(job))
    room = next((r for r in free if eligible.endangers_gang(job, r.pool.name)), None)
    if room is None:
        return None
    classed = eligible.classed(job, room.pool.name)
    beyond = steps.state.shares.beyond(job, room.pool.name)
    return explain.endangers(job, room, classed.priority_class if classed and not beyond else "")


def _count_failed_attempt(state: PlanState, jobs: Sequence[Job], why: Reason) -> None:
    """Give the jobs their reason, and count a failed attempt if attempts are counted."""
    for job in jobs:
        state.decided.say(job, why)
    settings = state.snapshot.scheduler
    if settings and _counts_attempts(state, jobs[0]):
        tried = [state.waiting[job.name] for job in jobs]
        state.decided.decide(jobs[0].name, failed_attempt(tried, settings, why, state.now))


def _counts_attempts(state: PlanState, job: Job) -> bool:
    """Whether a blocked turn is a failed attempt, unless the job would join its running gang."""
    settings = state.snapshot.scheduler
    if settings is None or settings.max_schedule_count is None:
        return False
    gang = state.gangs.get(job.group)
    return not (gang and gang.runs)
