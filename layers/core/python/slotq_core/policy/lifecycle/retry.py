"""The job after the end of its attempt, as pure functions.

Evictions, capacity errors and SageMaker's own faults requeue; they never count against the user's
retries. Reaching the maximum runtime is the job's own end. Anything else fails it, unless it has
retries left. An attempt that was stopped because it stalled counts as failed.

After a fault the job backs off; after one of a GPU that it shares, too, but the fourth within an
hour holds it, because it may be the cause. After a capacity error the pool backs off
(pool_health.py), and the job keeps its place and waits for any pool with room. After a refusal by a
quota of something else the job tries its other pools and then backs off (missing_rights.py). After
a missing right both the job and the right back off (missing_rights.py).

See docs/policy.md#when-something-fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from slotq_core.lifecycle import copied, move
from slotq_core.model.attempts import Attempt, AttemptOutcome, Restore, StopCause, StopOrder
from slotq_core.model.capacity.plans import PlanFacts
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import FORBIDDEN
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.interruptions import at_its_end
from slotq_core.policy.lifecycle.suspend import BY_ITS_SCRIPT, after_release
from slotq_core.timestamps import FAR_OFF, iso

FIRST_BACKOFF = 30_000
"""The back-off after the first failure (ms)."""

LONGEST_BACKOFF = 600_000
"""The longest back-off (ms)."""

MOST_SHARED_FAULTS = 3
"""Faults of shared GPUs, within `SHARED_FAULTS_WITHIN`, after which a job still waits again."""

SHARED_FAULTS_WITHIN = 3_600_000
"""For how long a fault of a shared GPU counts (ms)."""

SHARED_FAULTS = "shared_faults"
"""`Job.cause` of a job that is held for such faults."""

LONGEST_MESSAGE = 1024
"""Most characters of a SageMaker message that a job keeps: the maximum of a FailureReason. The
reason comes first, and every copy of a job holds the message."""

_CUT = " …"


class Ending(StrEnum):
    """How a training job ended, whatever that means for the job."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    REJECTED = "rejected"
    """SageMaker rejects the request for good: no retry helps."""
    NAME_TAKEN = "name_taken"
    """A training job that is not the queue's has the name: no retry helps."""
    RELEASED = "released"
    """The script has saved its work and gives its slots back, asked or not."""
    MAX_RUNTIME = "max_runtime"
    """The job reached its maximum runtime: it ends, whatever retries are left."""
    NO_CAPACITY = "no_capacity"
    OTHER_QUOTA = "other_quota"
    """A quota of the account that is not for the pool's instances refused the start."""
    FAULT = "fault"
    SHARED_FAULT = "shared_fault"
    """A fatal fault on a GPU of which several jobs had parts: any of them may have caused it."""
    NO_RIGHTS = "no_rights"
    """The queue, or SageMaker under the job's role, lacked a right."""
    FORBIDDEN = "forbidden_by_project"
    """The project's rules forbid the start. The job is held, so that nothing is lost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The job after its attempt, and the attempt for the history."""

    job: Job
    attempt: Attempt


def after_end(
    job: Job, ending: Ending, *, at: int, now: int, message: str = "", limit: int | None = None
) -> Ended:
    """Settle a job whose live attempt ended at `at` (ms), as the queue learned at `now` (ms). Cuts
    `message` to `LONGEST_MESSAGE` characters. `limit`: the quota that refused the start, after
    `OTHER_QUOTA`, if known."""
    assert job.attempt is not None
    at = max(at, job.attempt.admitted_at)  # A handler whose clock was ahead may have started it.
    job = at_its_end(job, at)
    assert job.attempt is not None
    outcome = _outcome(ending, job.attempt)
    message = _head(message or _without_message(job, outcome))
    attempt = copied(job.attempt, ended_at=at, outcome=outcome, message=message)
    if ending is Ending.RELEASED:  # It has saved its work, and loses none.
        attempt = copied(attempt, checkpoint_at=at, message=BY_ITS_SCRIPT)
    since = attempt.running_since
    if since is not None:
        job = copied(job, ran=job.ran + max(0, at - since), refused_in=(), denied_in=())
    if outcome is AttemptOutcome.OTHER_QUOTA:
        return Ended(job=_refused_by_quota(job, now, message, limit), attempt=attempt)
    return Ended(job=_onward(job, outcome, ending, now, message), attempt=attempt)


def after_node_start(
    job: Job,
    attempt: Attempt,
    ending: Ending,
    *,
    at: int,
    now: int,
    message: str = "",
    limit: int | None = None,
) -> Ended:
    """Settle a waiting job whose node ended (`at`, ms) before it was ready, as the job's own start
    would have ended: `attempt` stands for it, and enters no history. The job's claim to the node
    is gone."""
    begun = copied(job, state=JobState.STARTING, attempt=attempt, claim=None)
    ended = after_end(begun, ending, at=at, now=now, message=message, limit=limit)
    if ended.job.state is JobState.PENDING:  # It never left its place.
        return Ended(job=copied(ended.job, state=job.state), attempt=ended.attempt)
    return ended


def stopped_before_restore(
    job: Job, restore: Restore, *, running_since: int | None, ended_at: int
) -> Job:
    """Add the stop order that the copy of the table lacks, if the attempt was stopped (`ended_at`,
    ms) between the copy and its restore. Also if the attempt began to run in between
    (`running_since`) and the queue itself stopped it as an unexpected training job. Otherwise
    return the job unchanged.

    The cause of the stop is not known: an eviction, a cancel, a person. So the job waits again, at
    its place; a user who had cancelled it has to cancel it again."""
    if job.attempt is None or job.attempt.stop is not None:
        return job
    began_unknown = running_since is not None and restore.hides(running_since)
    if not (restore.hides(ended_at) or (began_unknown and ended_at <= job.attempt.admitted_at)):
        return job
    copied_at, restored_at = iso(restore.copied_at), iso(restore.restored_at)
    by = f"a restore of the queue's table (copied {copied_at}, restored {restored_at})"
    order = StopOrder(cause=StopCause.RESTORED, by=by, at=ended_at, sent=True)
    attempt = copied(job.attempt, created=True, stop=order)
    return copied(job, attempt=attempt, evictions=job.evictions + 1)


def stopped_with_plan(job: Job, plan: PlanFacts | None, *, ended_at: int) -> Job:
    """Add the stop order that the queue did not give in time, if SageMaker stopped the attempt
    (`ended_at`, ms) to take the instances of its training plan back. Otherwise return the job
    unchanged. `plan`: what is known of the plan of the attempt's pool.

    SageMaker does not say why it stops a training job. So also a job that somebody stops outside
    the queue while its plan's instances are taken waits again."""
    attempt = job.attempt
    if attempt is None or attempt.stop is not None or plan is None:
        return job
    if plan.arn != attempt.plan_arn or (plan.usable and plan.at(ended_at) is not None):
        return job
    order = StopOrder(cause=StopCause.CLOSED, by=attempt.pool, at=ended_at, sent=True)
    stopped = copied(attempt, created=True, stop=order)
    return copied(job, attempt=stopped, evictions=job.evictions + 1)


def backoff(errors: int) -> int:
    """The back-off (ms) after `errors` failures in a row: doubles from `FIRST_BACKOFF`, up to
    `LONGEST_BACKOFF`."""
    return min(LONGEST_BACKOFF, FIRST_BACKOFF << min(errors - 1, 16))


_EVICTIONS = {
    StopCause.EVICTED: "evicted for",
    StopCause.YIELDED: "yielded to",
    StopCause.CLOSED: "suspended because of the times of pool",
    StopCause.REQUEUED: "given up by",
    StopCause.RESTORED: "stopped before",
}
"""Stop causes after which a job waits again, each with the start of its message."""


_SILENT = {
    AttemptOutcome.STOPPED: "stopped outside the queue",
    AttemptOutcome.FAILED: "SageMaker gives no reason",
    AttemptOutcome.FAULT: "SageMaker gives no reason",
}
"""The message of an attempt whose end neither SageMaker nor the queue explains."""


_OF_ITS_GROUP = frozenset({StopCause.GROUP_ENDED, StopCause.GOAL_REACHED})
"""Stop causes after which a job is cancelled for the sake of its group."""


def stopped_for(stop: StopOrder) -> str:
    """The message of an evicted, yielded or requeued job."""
    return f"{_EVICTIONS[stop.cause]} {stop.by}"


def gives_up_at(snapshot: Snapshot) -> Iterator[tuple[int, Job]]:
    """Starting jobs that SageMaker keeps Pending, each with the time (ms) to give the start up:
    "beyond the pool's `pending_timeout` it is stopped and goes on to its next pool"."""
    timeouts = {pool.name: pool.pending_timeout for pool in snapshot.pools if pool.pending_timeout}
    for job in snapshot.active if timeouts else ():
        attempt = job.attempt
        if job.state is not JobState.STARTING or attempt is None or attempt.pending_since is None:
            continue
        if attempt.pool in timeouts:
            yield attempt.pending_since + timeouts[attempt.pool], job


def backed_off(job: Job, now: int) -> bool:
    """Whether the job's back-off is over, or a wrong clock (`FAR_OFF`) set it."""
    assert job.not_before is not None
    return job.not_before <= now or job.changed_at > now + FAR_OFF


def end_backoff(job: Job, now: int) -> Job:
    """End the job's back-off: it waits for slots again, at its old place."""
    message = job.message if job.refused_in else ""
    return move(job, _waiting_state(job), at=now, message=message)


def _without_message(job: Job, outcome: AttemptOutcome) -> str:
    """The message of an attempt whose end SageMaker does not explain. The job's own message says
    why the queue gave an attempt up; an eviction or a cancel needs none."""
    assert job.attempt is not None
    given_up = outcome in {AttemptOutcome.NO_CAPACITY, AttemptOutcome.STALLED}
    return job.message if given_up and job.attempt.stop else _SILENT.get(outcome, "")


def _head(message: str) -> str:
    cut = message[: LONGEST_MESSAGE - len(_CUT)]
    return message if len(message) <= LONGEST_MESSAGE else cut + _CUT


def _outcome(ending: Ending, attempt: Attempt) -> AttemptOutcome:
    """The outcome of an attempt: completed, even while stopping; else the outcome of the stop
    order, because a script may end in any way after a request to stop."""
    if ending is Ending.COMPLETED:
        return AttemptOutcome.COMPLETED
    if ending is Ending.RELEASED and (
        attempt.stop is None or attempt.stop.cause is StopCause.NO_CAPACITY
    ):
        return AttemptOutcome.RELEASED  # It ran, so the pool did have instances for it.
    if attempt.stop is not None and attempt.stop.cause in _OF_ITS_GROUP:
        return AttemptOutcome.CANCELLED
    if attempt.stop is not None:
        evicted = attempt.stop.cause in _EVICTIONS
        return AttemptOutcome.EVICTED if evicted else AttemptOutcome(attempt.stop.cause.value)
    if ending in {Ending.REJECTED, Ending.NAME_TAKEN}:
        return AttemptOutcome.FAILED
    if ending is Ending.SHARED_FAULT:
        return AttemptOutcome.FAULT
    return AttemptOutcome(ending.value)


def _onward(job: Job, outcome: AttemptOutcome, ending: Ending, now: int, message: str) -> Job:
    match outcome:
        case AttemptOutcome.EVICTED | AttemptOutcome.CANCELLED:
            assert job.attempt is not None and job.attempt.stop is not None
            return _stopped(job, job.attempt.stop, now)
        case AttemptOutcome.RELEASED:
            return after_release(job, now)
        case AttemptOutcome.NO_CAPACITY:
            return move(job, _waiting_state(job), at=now, cause=outcome.value, message=message)
        case AttemptOutcome.FAULT | AttemptOutcome.NO_RIGHTS:
            return _after_fault(job, ending, now, message)
        case AttemptOutcome.FORBIDDEN:
            return move(job, JobState.HELD, at=now, cause=FORBIDDEN, message=message)
        case AttemptOutcome.STALLED:  # Its message says since when; SageMaker knows only the stop.
            return _failed(job, outcome.value, now, job.message, retried=True)
        case AttemptOutcome.FAILED | AttemptOutcome.MAX_RUNTIME:
            by_itself = ending is Ending.FAILED
            cause = "" if by_itself else ending.value
            return _failed(job, cause, now, message, retried=by_itself)
    return move(job, JobState(outcome.value), at=now, message=message)


def _after_fault(job: Job, ending: Ending, now: int, message: str) -> Job:
    """The job after a fault that is not its own, or without a right: it backs off. Too many faults
    of GPUs that it shared hold it."""
    if ending is Ending.NO_RIGHTS:
        # One step longer than the back-off of the right: another job tries first, and may not need
        # the right that this job was refused.
        return _backing_off(job, now, message, cause=ending.value, longer=1)
    if ending is not Ending.SHARED_FAULT:
        return _backing_off(job, now, message)
    recent = (*(at for at in job.shared_faults if now - SHARED_FAULTS_WITHIN < at <= now), now)
    if len(recent) <= MOST_SHARED_FAULTS:
        return _backing_off(copied(job, shared_faults=recent), now, message, cause=ending.value)
    held = (
        f"{len(recent)} times within an hour a fatal fault hit the GPU that it shared, and it may "
        f"be the cause: try it on a whole GPU, or release it: slotq release {job.name}"
    )
    return move(job, JobState.HELD, at=now, cause=SHARED_FAULTS, message=held, shared_faults=())


def _backing_off(job: Job, now: int, message: str, *, cause: str = "", longer: int = 0) -> Job:
    faults = job.faults + 1
    back = {"not_before": now + backoff(faults + longer), "faults": faults}
    return move(job, JobState.BACKOFF, at=now, cause=cause, message=message, **back)


def _stopped(job: Job, stop: StopOrder, now: int) -> Job:
    if stop.cause is StopCause.CANCELLED:
        return move(job, JobState.CANCELLED, at=now, message=f"cancelled by {stop.by}")
    if stop.cause in _OF_ITS_GROUP:
        return move(job, JobState.CANCELLED, at=now, cause=stop.cause.value, message=job.message)
    # It keeps its entry time, and so its place.
    return move(job, JobState.PREEMPTED, at=now, message=stopped_for(stop))


def _failed(job: Job, cause: str, now: int, message: str, *, retried: bool) -> Job:
    """The job after a failed attempt: it waits again if it has retries left and may use them."""
    if retried and job.retries:
        return move(job, JobState.PENDING, at=now, message=message, retries=job.retries - 1)
    return move(job, JobState.FAILED, at=now, cause=cause, message=message)


def _refused_by_quota(job: Job, now: int, message: str, limit: int | None) -> Job:
    """The job after a quota other than its pool's refused the start. It fails once every pool has
    refused it with a quota of 0; it tries at once the pools that have not refused it; else it backs
    off."""
    held = [pool for pool, _ in job.holds]
    first_time = job.refused_in == _without(job.refused_in, held)
    denied = (*_without(job.denied_in, held), *(held if limit == 0 else ()))
    refused = (*_without((*_without(job.refused_in, held), *held), denied), *denied)
    cause = AttemptOutcome.OTHER_QUOTA.value
    if {*job.pools} <= {*denied}:
        return move(job, JobState.FAILED, at=now, cause=cause, message=message)
    marked = copied(job, refused_in=refused, denied_in=denied)
    if first_time and not {*job.pools} <= {*refused}:
        return move(marked, _waiting_state(job), at=now, cause=cause, message=message)
    return _backing_off(marked, now, message, cause=cause)


def _without(names: Iterable[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in others)


def _waiting_state(job: Job) -> JobState:
    return JobState.PREEMPTED if job.evictions else JobState.PENDING
