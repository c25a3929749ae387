"""Compute each job's place in the queue, the reason why it waits, and warnings for its user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slotq_core.admission.checkpoints import loses_its_work, warning
from slotq_core.model import projects
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import WAITING_STATES, Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import PARTS, Department, Project
from slotq_core.model.reasons import (
    BackingOff,
    BehindInLine,
    BudgetSpent,
    GroupNotWhole,
    HoldingLimit,
    NextPass,
    QuotaExceeded,
    Reason,
    StartForbidden,
    TriesAgain,
    WaitsForApproval,
    WaitsForJobs,
)
from slotq_core.model.reasons.outlook import KnownTime, Outlook, TimeCause, UsedByUser
from slotq_core.model.reports import Report
from slotq_core.model.sharing import Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.jobs.explanation import explained
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.stall import warned_of
from slotq_core.policy.lifecycle.start_attempts import NOT_SCHEDULED
from slotq_core.policy.order import BY_ENTRY, Position, Precedence, position, precedence, used_by
from slotq_core.policy.plan import Plan, Start
from slotq_core.ports.stored import Ahead, Configuration, World
from slotq_core.privacy.identity import People


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """A job, with its place and the reason why it waits."""

    job: Job
    place: int | None = None
    """Place among the waiting jobs that share a pool with this job; 1 is next, None if the job does
    not wait or if the place was not asked for."""
    place_is_lower_bound: bool = False
    """True if counting ended early (`ports.stored.Ahead`)."""
    reason: Reason | None = None
    outlook: Outlook | None = None
    """Possible victims, reservations and known times. None unless requested for this one job, or if
    the job's turn does not come."""
    attempts: tuple[Attempt, ...] = ()
    notices: tuple[str, ...] = ()
    """Notices for the user about a change just made, as sentences."""
    report: Report | None = None
    """The script's report about the running attempt; None unless requested."""
    eta: int | None = None
    """The time (ms) to the script's last step, as of the report's reading; None: unknown."""


MOST_LISTED = 1000
"""Maximum number of jobs in one answer."""

MOST_LOOKED_AT = 10_000
"""Maximum number of jobs that a filter examines: the store can read as many while an answer is
awaited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFilter:
    """A filter on jobs. Fields that are left out filter nothing."""

    projects: frozenset[str] | None = None
    """The jobs' projects, by name; empty: the jobs without one."""
    submitter: str = ""
    """The ARN of the submitter or of the person behind it, or any part of the submitter's ARN after
    the first slash, such as a user's name."""
    pool: str = ""
    """Pool where the job runs or, before it runs, may run."""
    since: int | None = None
    """Earliest entry time (ms), inclusive."""
    until: int | None = None
    """Latest entry time (ms), inclusive."""

    @property
    def looks_at(self) -> int:
        return MOST_LISTED if self == ANY_JOB else MOST_LOOKED_AT

    def has(self, job: Job, people: People) -> bool:
        entered = job.entry_time
        return (
            (self.projects is None or job.project in self.projects)
            and (not self.submitter or self.submitter in _names(job.submitter, people))
            and (not self.pool or self.pool in _pools(job))
            and (self.since is None or entered >= self.since)
            and (self.until is None or entered <= self.until)
        )


ANY_JOB = JobFilter()

_SOME = Ahead(jobs=0, or_more=True)
"""An unknown number of jobs ahead."""


def _names(arn: str, people: People) -> tuple[str, ...]:
    return (arn, people.person(arn), *arn.split("/")[1:])


def _pools(job: Job) -> tuple[str, ...]:
    return tuple(pool for pool, _ in job.holds) or job.pools


def why(job: Job, planned: Plan, ahead: Ahead) -> Reason | None:
    """Return why the job waits; None if it does not wait. `planned`: a plan that could examine the
    job."""
    if job.state is JobState.BACKOFF and job.not_before is not None:
        if job.cause == NOT_SCHEDULED:
            tried = job.schedule_attempts
            return TriesAgain(until=job.not_before, attempts=tried, cause=job.message)
        return BackingOff(until=job.not_before, cause=job.message)
    if job.state is JobState.HELD:
        return _held(job)
    if job.state in WAITING_STATES and job.waits_for:
        return _comes_after(job)
    if not job.waits:
        return None
    known = planned.reasons.get(job.name) or planned.closed.get(job.project)
    known = known or planned.unexamined.kept_back(job)
    if known is not None:
        return known
    for decision in planned.decisions:
        if isinstance(decision, Start) and decision.job.name == job.name:
            return NextPass(pool=decision.pool)
    head = planned.unexamined.head_of(job)
    return BehindInLine(
        ahead=ahead.jobs,
        or_more=ahead.or_more,
        head=head,
        head_waits=planned.reasons.get(head),
    )


def _comes_after(job: Job) -> Reason:
    if job.awaited != job.waits_for:
        return GroupNotWhole(group=job.group)
    return WaitsForJobs(jobs=job.after, ended=job.after_any)


def _held(job: Job) -> Reason | None:
    """Return the reason if the project's rules hold the job; None if a user does."""
    match job.cause:
        case projects.APPROVAL:
            return WaitsForApproval(project=job.project)
        case projects.FORBIDDEN:
            return StartForbidden(project=job.project, rules=job.message)
    return None


def looked_into(job: Job, world: World, now: int) -> Status:
    """Return the full explanation of why the job waits."""
    if job.group in world.unfinished:
        return Status(job=job, reason=GroupNotWhole(group=job.group))
    ahead = world.ahead_of(job) if job.waits else None
    planned = explained(world, now, job)
    outlook = planned.outlook
    if job.state is JobState.BACKOFF and job.not_before is not None:
        outlook = Outlook(times=(KnownTime(at=job.not_before, cause=TimeCause.BACKOFF),))
    placed = _placed(job, planned, ahead)
    if isinstance(placed.reason, BudgetSpent):
        reset = KnownTime(at=placed.reason.until, cause=TimeCause.BUDGET)
        outlook = (outlook or Outlook()).with_times(reset)
    if used := _used(job, world.snapshot):
        outlook = replace(outlook or Outlook(), order=used)
    return replace(placed, outlook=outlook)


def _used(job: Job, snapshot: Snapshot) -> tuple[UsedByUser, ...]:
    """What the user of a waiting job has used, where that counts."""
    used = precedence(snapshot).used
    if not used or not job.waits:
        return ()
    part = used_by(job.project, job.person, used)
    percent = round(100 * part / PARTS, 1)
    return (UsedByUser(user=job.person, project=job.project, percent=percent),)


def _placed(job: Job, planned: Plan, ahead: Ahead | None) -> Status:
    """Return the job's status; without a place if it does not wait or `ahead` is not known."""
    if ahead is None or not job.waits:
        return Status(job=job, reason=why(job, planned, ahead or _SOME))
    return Status(
        job=job,
        place=1 + ahead.jobs,
        place_is_lower_bound=ahead.or_more,
        reason=why(job, planned, ahead),
    )


def places(waiting: Iterable[Job], by: Precedence = BY_ENTRY) -> Mapping[str, int]:
    """Return the place of each waiting job, by name."""
    ahead: Counter[tuple[str, ...]] = Counter()
    found = {}
    for job in sorted(waiting, key=lambda job: position(job, by)):
        mine = set(job.pools)
        found[job.name] = 1 + sum(n for pools, n in ahead.items() if mine.intersection(pools))
        ahead[job.pools] += 1
    return found


def statuses(
    jobs: Iterable[Job],
    planned: Plan,
    waiting: Iterable[Job] | None,
    by: Precedence = BY_ENTRY,
    *,
    unfinished: Container[str] = (),
) -> list[Status]:
    """Return these jobs' statuses in the order of the queue: jobs that hold slots, waiting jobs,
    jobs that wait for a time, ended jobs (the latest first). A job that changed while the states
    were read, and is there twice, counts as last changed. `unfinished`: groups whose submission is
    not finished.

    `planned`: a plan that could examine them. `waiting`: every waiting job, for the places; None:
    not all of them are known, and no job gets a place.
    """
    place = {} if waiting is None else places(waiting, by)
    latest = {job.name: job for job in sorted(jobs, key=lambda job: job.version)}
    shown = [
        Status(job=job, reason=GroupNotWhole(group=job.group))
        if job.group in unfinished and job.waits
        else _placed(job, planned, _ahead(place.get(job.name)))
        for job in latest.values()
    ]
    return sorted(shown, key=lambda status: _as_listed(status, by))


def all_waiting(found: Sequence[Job], states: Iterable[JobState], limit: int) -> list[Job] | None:
    """Return the waiting jobs in an answer of `StoredJobs.in_states`; None if it may lack some.

    The answer begins with the waiting states, so a cut answer that goes on to another state holds
    them all.
    """
    cut = len(found) >= limit and found[-1].state in WAITING_STATES
    if cut or not WAITING_STATES.issubset(states):
        return None
    return [job for job in found if job.waits]


def as_loaded(jobs: Iterable[Job], world: World, states: Container[JobState]) -> list[Job]:
    """Return those of the jobs that are in these states, as loaded where they are active: an answer
    of `StoredJobs.in_states` may still show them as waiting."""
    active = {job.name: job for job in world.snapshot.active}
    return [job for listed in jobs if (job := active.get(listed.name, listed)).state in states]


def warnings_of(status: Status) -> Iterator[str]:
    """Yield the warnings about the job. Ended jobs get no warnings."""
    yield from status.notices
    if status.job.terminal:
        return
    if loses_its_work(status.job):
        yield warning(status.job)
    if stalled := warned_of(status.job):
        yield stalled.sentence()
    if status.attempts and (unreleased := status.attempts[-1].warning):
        yield f"attempt {status.attempts[-1].number}: {unreleased}"


def notices_of_bounds(job: Job, configuration: Configuration) -> tuple[str, ...]:
    """Return the warning of a new or changed job that cannot start until the configuration
    changes."""
    why = beyond_alone(job, configuration.pools, configuration.sharing)
    return (f"the job waits until the configuration changes: {why.sentence()}",) if why else ()


def bounds_of(job: Job) -> Hashable:
    """What the answer of `notices_of_bounds` depends on, for new jobs of one project."""
    return (job.demand, job.pools, job.parts, job.preemptible, job.workload)


def beyond_alone(job: Job, pools: Iterable[Pool], sharing: Sharing) -> Reason | None:
    """The quota or limit that would keep the job waiting even in an empty queue; None if there is
    no such limit. An interactive job in a project with a quota of 0, for example."""
    if not sharing.projects or not may_be_beyond(job, sharing):
        return None
    alone = Snapshot(
        pools=tuple(pools),
        projects=sharing.projects,
        departments=sharing.departments,
        waiting=(_waiting(job),),
    )
    why = plan(alone, job.entry_time).reasons.get(job.name)
    causes = (why, why.also) if why else ()
    return next(
        (cause for cause in causes if isinstance(cause, QuotaExceeded | HoldingLimit)), None
    )


def may_be_beyond(job: Job, sharing: Sharing) -> bool:
    """Whether a quota or limit binds the job. Most jobs may be evicted, and no limit binds them."""
    project = sharing.project(job.project)
    if project is None:
        return False
    owners: list[Project | Department] = [project]
    owners += (dept for dept in sharing.departments if dept.name == project.department)
    return not job.evictable or any(owner.limit or not owner.over_quota for owner in owners)


def _waiting(job: Job) -> Job:
    """The job, waiting for nothing but slots."""
    return replace(
        job, state=JobState.PENDING, group="", after=(), after_any=(), claim=None, auto=False
    )


def _ahead(place: int | None) -> Ahead | None:
    return None if place is None else Ahead(jobs=place - 1)


def _as_listed(status: Status, by: Precedence) -> tuple[int, Position]:
    job = status.job
    if job.active:
        return 0, position(job)
    if job.waits:
        return 1, position(job, by)
    if not job.terminal:
        return 2, position(job)
    return 3, (-job.changed_at, 0, 0, 0, False, 0, job.name)
