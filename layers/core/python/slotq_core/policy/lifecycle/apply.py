"""Apply a decision to the jobs it names. Pure: the manager and the simulator share this code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields

from slotq_core import names
from slotq_core.gpu_amounts import WHOLE
from slotq_core.lifecycle import copied, move
from slotq_core.model.attempts import Attempt, Beneficiary, StopCause, StopOrder
from slotq_core.model.groups import LEFT_OUT
from slotq_core.model.jobs import MOST_EVICTIONS, Claim, Job, JobState
from slotq_core.model.pools import OnStall, Pool, WarmSlot, gpus_of
from slotq_core.model.reasons.stalled import Stalled
from slotq_core.policy import plan
from slotq_core.policy.lifecycle.missing_rights import missing_for
from slotq_core.policy.lifecycle.retry import end_backoff, stopped_for
from slotq_core.policy.lifecycle.suspend import with_grace
from slotq_core.policy.lifecycle.warm_slots import kept_for, released, taken
from slotq_core.policy.plan import Decision
from slotq_core.usage.attempt_use import charged_to

Step = tuple[Job, Job]
"""A job before and after."""


def steps(decision: Decision, pools: Mapping[str, Pool], now: int) -> tuple[Step, ...]:
    """The jobs that a decision at `now` (ms) changes; an eviction's beneficiary comes first."""
    changed: Iterable[Step] = ()
    match decision:
        case plan.EndBackoff(job=job) | plan.GiveUp(job=job) | plan.LeaveOut(job=job):
            changed = [(job, _ALONE[type(decision)](job, now))]
        case plan.Demote(job=job, after=after) | plan.Stall(job=job, after=after):
            changed = [(job, after)]
        case plan.TryLater(changed=changed):
            pass
        case plan.RollBack() | plan.EndGroup() | plan.Close():
            changed = _stopped_together(decision, now)
        case plan.Start() | plan.StartGang():
            starts = decision.starts if isinstance(decision, plan.StartGang) else (decision,)
            changed = [_start(start, pools, now) for start in starts]
        case plan.DropClaim(job=job):
            changed = [(job, copied(job, claim=None))]
        case plan.StartNode() | plan.Release():
            changed = _owed(decision)
        case plan.Evict(beneficiary=job, victims=victims, cause=cause):
            owed = _owed(decision)
            gains = beneficiary_of(job)
            gone = [
                (victim, evicted(victim, job.name, now, cause=cause, gains=gains))
                for victim in victims
            ]
            changed = [*owed, *gone]
        case plan.Move(beneficiary=job, moved=going, claim=claim):
            changed = [(job, copied(job, claim=claim))]
            changed += [(mover, moved(mover, owed_claim, job, now)) for mover, owed_claim in going]
    return tuple((before, with_grace(before, after, pools)) for before, after in changed)


WarmStep = tuple[WarmSlot, WarmSlot]
"""A warm slot before and after."""


def warm_steps(decision: Decision, now: int) -> tuple[WarmStep, ...]:
    """The warm slots that a decision at `now` (ms) changes."""
    match decision:
        case plan.Start(warm=slot, job=job) if slot is not None:
            name = names.training_job_name(job.name, job.attempts + 1)
            return ((slot, taken(slot, name, now)),)
        case plan.StartGang(starts=starts):
            return tuple(step for start in starts for step in warm_steps(start, now))
        case plan.Release(slots=slots):
            return tuple((slot, released(slot, job, now)) for slot, job in slots)
    return ()


def _owed(decision: plan.StartNode | plan.Release | plan.Evict) -> list[Step]:
    """The job and the other members of its gang with their claims."""
    job = decision.beneficiary if isinstance(decision, plan.Evict) else decision.job
    first = [(job, decision.claim)] if job is not None else []
    return [(member, copied(member, claim=owed)) for member, owed in (*first, *decision.along)]


def _stopped_together(
    decision: plan.RollBack | plan.EndGroup | plan.Close, now: int
) -> Iterable[Step]:
    """The members of a gang that stop, to wait again or for good, and the jobs of a pool that
    closes."""
    for job in decision.jobs:
        if isinstance(decision, plan.RollBack):
            yield job, evicted(job, decision.group, now)
        elif isinstance(decision, plan.Close):
            yield job, evicted(job, decision.pool, now, cause=StopCause.CLOSED)
        else:
            yield job, ended_with_group(job, decision.why, now)


def pools_touched(decision: Decision) -> tuple[str, ...]:
    """The pools that the decision depends on: its commit is conditioned on their ledgers."""
    match decision:
        case plan.Start(job=job, pool=pool):
            return _pools_of(job, pool)
        case plan.StartGang(starts=starts):
            return tuple(dict.fromkeys(start.pool for start in starts))
        case plan.DropClaim(job=job):
            return _pools_of(job, job.claim.pool) if job.claim else ()
        case plan.Release(slots=slots, job=job, claim=claim, along=along):
            own = _pools_of(job, claim.pool) if job and claim else ()
            others = (owed_claim.pool for _, owed_claim in along)
            return tuple(dict.fromkeys((*(slot.pool for slot, _ in slots), *own, *others)))
        case plan.StartNode(pool=pool, along=along):
            return tuple(dict.fromkeys((pool, *(owed_claim.pool for _, owed_claim in along))))
        case plan.Move(moved=going, claim=claim):
            return tuple(dict.fromkeys((claim.pool, *(owed_claim.pool for _, owed_claim in going))))
        case plan.Evict(beneficiary=job, claim=claim, along=along):
            return tuple(
                dict.fromkeys(
                    (*_pools_of(job, claim.pool), *(owed_claim.pool for _, owed_claim in along))
                )
            )
    return ()


def _pools_of(job: Job, pool: str) -> tuple[str, ...]:
    """The pools that a decision for the job in this pool depends on: all of them, if the job runs
    in several at once."""
    return tuple(part for part, _ in job.parts) or (pool,)


def _start(start: plan.Start, pools: Mapping[str, Pool], now: int) -> Step:
    job = start.classed or start.job
    parts = tuple(pools[pool].instance_type for pool, _ in job.parts)
    after = started(job, pools[start.pool], now, instance_types=parts)
    if start.beside_warm and after.attempt is not None:
        warm_from = start.warm.training_job if start.warm else ""
        attempt = copied(after.attempt, beside_warm=True, warm_from=warm_from)
        after = copied(after, attempt=attempt)
    if start.node is None or after.attempt is None:
        return start.job, after
    attempt = copied(
        after.attempt,
        node=start.node.name,
        node_generation=start.node.generation,
        node_training_job=start.node.training_job,
        gpu_ids=start.gpu_ids,
        gpu_part=job.gpus % WHOLE,
        node_gpus=start.node.contents["gpus"] or gpus_of(pools[start.pool]),
    )
    return start.job, copied(after, attempt=attempt)


def started(job: Job, pool: Pool, now: int, *, instance_types: tuple[str, ...] = ()) -> Job:
    """The job with its slots and the durable intent to create the next training job.
    `instance_types`: those of its parts."""
    number = job.attempts + 1
    warm_key, keep_warm = kept_for(job, pool, now)
    attempt = Attempt(
        number=number,
        training_job=names.training_job_name(job.name, number),
        token=names.token(job.name, job.entry_time, number),
        pool=pool.name,
        instance_type=pool.instance_type,
        capacity_kind=pool.capacity_kind,
        spot_wait=pool.spot_wait,
        plan_arn=pool.plan_arn,
        warm_key=warm_key,
        keep_warm=keep_warm,
        admitted_at=now,
        waiting_since=job.changed_at,
        instance_types=instance_types,
        probes=missing_for(pool, job) is not None,
    )
    return move(
        job,
        JobState.STARTING,
        at=now,
        attempts=number,
        attempt=attempt,
        schedule_attempts=0,
        message="",
    )


def not_started(job: Job, before: Job, after: Job) -> Job | None:
    """The job at the place that it had before its start, as if it had never started, with all that
    has changed since; None: it may have been created, or is being stopped. `before` and `after`:
    the job before and after the start."""
    if job.state is not JobState.STARTING or job.attempt is None or job.attempt.created:
        return None
    if not has_started(job, after):
        return None
    began = {
        field.name: getattr(before, field.name)
        for field in fields(Job)
        if field.name != "version" and getattr(before, field.name) != getattr(after, field.name)
    }
    return copied(job, **began)


def has_started(job: Job, after: Job) -> bool:
    """Whether the job is in the attempt that begins with this start."""
    return (job.entry_time, job.attempts) == (after.entry_time, after.attempts)


def beneficiary_of(job: Job) -> Beneficiary:
    return Beneficiary(project=job.project, submitter=charged_to(job), workload=job.workload.value)


def evicted(
    victim: Job,
    by: str,
    now: int,
    *,
    cause: StopCause = StopCause.EVICTED,
    gains: Beneficiary | None = None,
) -> Job:
    """The victim with the durable intent to stop it. It holds its slots until it has ended. `by`:
    the beneficiary, or the victim's own gang after a rollback or its pool at the end of a window,
    which have no beneficiary (`gains`)."""
    order = StopOrder(cause=cause, by=by, at=now, beneficiary=gains)
    lately = victim.evicted_at if gains is None else _with_eviction(victim, now)
    return _stopping(
        victim, order, stopped_for(order), evictions=victim.evictions + 1, evicted_at=lately
    )


def requeued(job: Job, by: str, now: int) -> Job:
    """The job after its user gives up the attempt: it keeps its entry time and checkpoints."""
    return evicted(job, by, now, cause=StopCause.REQUEUED)


def moved(job: Job, claim: Claim, beneficiary: Job, now: int) -> Job:
    """The job with the durable intent to stop it and a claim to its destination."""
    order = StopOrder(
        cause=StopCause.EVICTED,
        by=beneficiary.name,
        at=now,
        beneficiary=beneficiary_of(beneficiary),
    )
    message = f"moved to {claim.node or claim.pool} for {beneficiary.name}"
    lately = _with_eviction(job, now)
    return _stopping(
        job, order, message, claim=claim, evictions=job.evictions + 1, evicted_at=lately
    )


def _with_eviction(victim: Job, now: int) -> tuple[int, ...]:
    """The moments (ms) at which others have lately taken the victim's slots, with this one. What
    its own user, its gang or its pool's hours end is no loss to others."""
    return (*victim.evicted_at, now)[-MOST_EVICTIONS:]


def ended_with_group(job: Job, why: str, now: int) -> Job:
    """The member with the durable intent to stop it, because its gang has ended."""
    order = StopOrder(cause=StopCause.GROUP_ENDED, by=job.group, at=now)
    return _stopping(job, order, why)


def left_out(job: Job, now: int) -> Job:
    """The cancelled member of a gang that ended without it."""
    message = f"its gang {job.group} ended without it"
    return move(job, JobState.CANCELLED, at=now, cause=LEFT_OUT, message=message)


def given_up(job: Job, now: int) -> Job:
    """The job that got no instances in time, with the durable intent to stop its attempt."""
    assert job.attempt is not None
    order = StopOrder(cause=StopCause.NO_CAPACITY, by=job.attempt.pool, at=now)
    return _stopping(job, order, f"pool {job.attempt.pool} had no instances for it in time")


def stalled(job: Job, why: Stalled, pool: Pool, now: int) -> Job:
    """The stalled job after the pool's warning, or with the durable intent to stop its attempt."""
    assert job.attempt is not None
    attempt = copied(job.attempt, stalled_at=now)
    if pool.on_stall is OnStall.WARN:
        return copied(job, attempt=attempt)
    return _stopped_silent(job, attempt.pool, why, now)


def heartbeat_missed(job: Job, why: Stalled, now: int) -> Job:
    """The member that was silent for longer than its group's heartbeat, with the durable intent to
    stop its attempt."""
    return _stopped_silent(job, job.group, why, now)


def _stopped_silent(job: Job, by: str, why: Stalled, now: int) -> Job:
    assert job.attempt is not None
    attempt = copied(job.attempt, stalled_at=now)
    order = StopOrder(cause=StopCause.STALLED, by=by, at=now)
    return _stopping(copied(job, attempt=attempt), order, why.sentence())


def stopped_as(decided: Job, job: Job) -> Job | None:
    """The job with the same stop order, after it has changed since the stop was decided. None: that
    attempt has ended, or is stopping already."""
    order = decided.attempt.stop if decided.attempt else None
    if order is None or job.attempt is None or job.attempt.stop is not None:
        return None
    if (job.entry_time, job.attempts) != (decided.entry_time, decided.attempts):
        return None
    return _stopping(
        job,
        order,
        decided.message,
        claim=decided.claim,
        evictions=decided.evictions,
        evicted_at=decided.evicted_at,
    )


def cancelled(job: Job, by: str, now: int) -> Job:
    """The job after its user cancels it. A job with a live attempt is stopped first."""
    message = f"cancelled by {by}"
    if job.attempt is None:
        return move(job, JobState.CANCELLED, at=now, message=message)
    return _stopped_for_good(job, StopCause.CANCELLED, by, now, message)


def no_longer_needed(job: Job, met_by: str, now: int) -> Job:
    """The member of a sweep after `met_by` has reached the goal: cancelled, as by a user. A member
    that has ended, or is being stopped for good, stays unchanged."""
    stop = job.attempt.stop if job.attempt else None
    for_good = {StopCause.CANCELLED, StopCause.GOAL_REACHED}
    if job.terminal or (stop is not None and stop.cause in for_good):
        return job
    message = f"{met_by} has reached the goal of sweep {job.group}"
    cause = StopCause.GOAL_REACHED
    if job.attempt is None:
        return move(job, JobState.CANCELLED, at=now, cause=cause.value, message=message)
    return _stopped_for_good(job, cause, met_by, now, message)


def _stopped_for_good(job: Job, cause: StopCause, by: str, now: int, message: str) -> Job:
    """The job with the durable intent to stop it, unless a stop that was sent already does."""
    assert job.attempt is not None
    sent = job.attempt.stop is not None and job.attempt.stop.sent
    return _stopping(job, StopOrder(cause=cause, by=by, at=now, sent=sent), message)


def _stopping(job: Job, order: StopOrder, message: str, **fields: object) -> Job:
    assert job.attempt is not None
    attempt = copied(job.attempt, stop=order)
    return move(job, JobState.STOPPING, at=order.at, attempt=attempt, message=message, **fields)


_ALONE: Mapping[type, Callable[[Job, int], Job]] = {
    plan.EndBackoff: end_backoff,
    plan.GiveUp: given_up,
    plan.LeaveOut: left_out,
}
"""The effects of decisions that need only the job and the time."""
