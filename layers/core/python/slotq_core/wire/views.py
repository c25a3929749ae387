"""Model -> JSON: the queue's answers. Version 1.

`submission`, `bulk_changes`, `amendment` and `configuration` read requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from slotq_core import names
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.outlook import Outlook
from slotq_core.model.pools import MissingRight, Pool
from slotq_core.model.reasons import Number, Reason
from slotq_core.model.reports.outcome import resumption
from slotq_core.model.reports.report import Report, Saved
from slotq_core.timestamps import iso, seconds
from slotq_core.wire.body import BaseModel
from slotq_core.wire.pool_definition import settings_of

VERSION = 1


class ReasonView(BaseModel):
    """Why a job waits: `code` and `numbers` for programs, `text` for people."""

    code: str
    text: str
    numbers: dict[str, Number]


class OutlookView(BaseModel):
    """What a waiting job could get, and when. Each entry has the form of a reason."""

    rooms: list[ReasonView]
    """What each of the job's pools has for the job."""
    evictions: list[ReasonView]
    """What holds slots in those pools, grouped by why it is not evicted for the job."""
    reserved: list[ReasonView]
    """What is kept there for one job, this or another."""
    times: list[ReasonView]
    """Times at which time alone may change something for the job, the earliest first."""
    earliest: str | None = None
    """The earliest known time; None: it depends on other jobs."""


class AttemptView(BaseModel):
    number: int
    training_job: str
    pool: str
    instance_type: str
    admitted_at: str
    running_since: str | None = None
    ended_at: str | None = None
    outcome: str | None = None
    message: str = ""
    stop_cause: str | None = None
    """`evicted`, `requeued`, `cancelled` …, from the decision on; None if nobody stopped the
    attempt."""
    stopped_for: str | None = None
    """The job that this attempt was evicted for, or who cancelled the job or gave the attempt
    up."""
    artifact: str = ""
    checkpoints: str = ""
    step: int | None = None
    """Steps done when the queue stopped the attempt, as its script reported; None: not known."""
    of: int | None = None
    """How many steps there were."""
    saved: SavedView | None = None
    """The last checkpoint that the script reported, of an attempt that has ended."""
    resumption: str = ""
    """Where the job goes on after an eviction and what it loses, as a sentence; else empty."""
    warning: str = ""
    """What the script did wrong when it was asked to suspend, as a sentence; else empty."""
    logs: str = ""
    """The CloudWatch log group, a colon, and the prefix of the streams' names."""


class SavedView(BaseModel):
    """The last checkpoint that a script says it has saved."""

    step: int | None = None
    at: str
    took_seconds: float | None = None
    """How long the save took."""


class ProgressView(BaseModel):
    """How far a running job is, by its script's own word."""

    step: int | None = None
    """Steps done; None: the script reports only its saves."""
    of: int | None = None
    """How many there are; None: unknown."""
    at: str | None = None
    """When the script reported that step."""
    eta_seconds: float | None = None
    """The time to the last step at the pace of this attempt; None: unknown."""
    metrics: dict[str, int | float | str] = Field(default={})
    """Numbers by name, as the script gave them: at most 20, and texts of at most 64 printable
    characters."""
    saved: SavedView | None = None


class JobView(BaseModel):
    """One job as the queue shows it. Moments are ISO 8601 in UTC, durations seconds."""

    version: int = VERSION
    name: str
    state: str
    priority: int
    place: int | None = None
    """The job's place among the waiting jobs that share a pool with it, from 1. None if the job
    does not wait, in the answers to changes, and in a list with more waiting jobs than one answer
    holds."""
    place_is_lower_bound: bool = False
    """True if so many wait that not all were counted: the place is this or a later one."""
    reason: ReasonView | None = None
    outlook: OutlookView | None = None
    """Details beside the reason; only for a single waiting job."""
    entry_time: str
    changed_at: str
    demand: dict[str, int]
    parts: dict[str, dict[str, int]] = Field(default={})
    """What the job needs of each of several pools at once."""
    requires: dict[str, int] = Field(default={})
    """The properties that the job's pools must have at least."""
    pools: list[str]
    pool: str | None = None
    """The pool that the job runs in, the first of several; None while it does not run."""
    after: list[str] = Field(default=[])
    """The jobs that this one was submitted after, and groups, as `group:NAME`."""
    waits_for: list[str] = Field(default=[])
    """Those of them that the job still waits for."""
    preemptible: bool
    min_runtime: float
    retries: int
    submitter: str
    project: str = ""
    group: str = ""
    """The group that the job was submitted with; empty: none."""
    user: str = ""
    """The person behind the submitter, as of the submission: whose limits count."""
    priority_class: str = ""
    """The class that the priority is of; `AUTO` while the job waits for one; empty: none."""
    admitted_class: str = ""
    """The class that counts in its user's limits, where the job was demoted since."""
    workload: str = "training"
    """The kind of work: `training`, `interactive` or `inference`."""
    attempts_begun: int
    evictions: int
    training_job: str | None = None
    """The SageMaker training job of the latest attempt."""
    cause: str = ""
    """Why the job is in its state, where the state alone does not say: `max_runtime`, `rejected`
    …"""
    message: str = ""
    progress: ProgressView | None = None
    """For a running job whose script reports; None otherwise, and where S3 does not answer."""
    warnings: list[str] = Field(default=[])
    """What the job's user should know before it is too late, as sentences: that an eviction would
    set the job back to its beginning, for example."""
    stalled_since: str | None = None
    """The last sign of life of a running job that counts as stalled (`stall_after`)."""
    attempts: list[AttemptView] = Field(default=[])
    """The attempts so far; only for a single job."""
    metrics: dict[str, float] = Field(default={})
    """The final metrics of an ended member of a group, by name: SageMaker's, and what its script
    reported last."""


class RequestView(BaseModel):
    """A job's CreateTrainingJob request as submitted, with its current tags."""

    version: int = VERSION
    name: str
    request: dict[str, Any]
    withheld: list[str] = Field(default=[])
    """The fields shown only to the person who submitted the job."""


class QueueView(BaseModel):
    version: int = VERSION
    jobs: list[JobView]
    more: bool = False
    """Whether there may be further jobs."""
    next: str | None = None
    """Cursor of the page with the further jobs; null: there are none, or the answer was asked for
    with places."""


class MissingRightView(BaseModel):
    """A missing right. No job that needs it starts in the pool."""

    role: str = ""
    """The execution role whose jobs need the right; empty: every job of the pool needs it."""
    action: str
    """The missing action in IAM's notation."""
    since: str
    refusals: int
    """Consecutive refusals."""
    not_before: str
    """No start is tried before this moment."""
    message: str = ""
    """SageMaker's last message about the refusal."""


class PoolHealthView(BaseModel):
    """What the queue has learned of a pool from SageMaker's refusals."""

    errors: int = 0
    """Consecutive capacity errors; 0: healthy."""
    not_before: str | None = None
    """Nothing starts in the pool before this moment."""
    learned: int | None = None
    """Slots that the account's service limit allows, if fewer than the capacity."""
    learned_until: str | None = None
    """When the queue tries the configured capacity again."""
    message: str = ""
    """SageMaker's last message about its capacity."""
    missing_rights: list[MissingRightView] = Field(default=[])
    """Rights that the queue or an execution role lacks in the pool."""


class PoolSettingsView(BaseModel):
    """A pool's settings, as PATCH /pools/{name} takes them. Durations are seconds."""

    slots: int
    instance_type: str
    reserve_after: int | None
    """How long others may pass a job that does not fit; None: for ever."""
    min_runtime: int
    """How long an attempt is protected from eviction."""
    max_min_runtime: int
    """The most that a job's own `min_runtime` counts."""
    time_slice: int | None
    """How long a job runs before it yields to another user's; None: no time slices."""
    pending_timeout: int | None
    """How long SageMaker may look for instances; None: for ever."""
    suspend_grace: int = 0
    """How long a script is asked to release its slots before the job is stopped."""
    stall_after: int | None = None
    """How long a script may report nothing before its job counts as stalled; None: for ever."""
    on_stall: str = "warn"
    """What becomes of a stalled job: `warn`, or `evict` it and use one of its retries."""
    count_foreign: bool
    """Whether training jobs outside the queue count against the pool."""
    consolidate: bool
    """Whether running jobs may move to another pool."""
    open: bool = True
    """False: only projects with a quota in the pool may use it."""
    stall_unreported: bool = False
    """Whether jobs that never report anything stall too."""
    read_reports: bool = False
    """Whether victims are chosen by their reported checkpoints."""
    resources: dict[str, int]
    """The pool's resources besides slots."""
    properties: dict[str, int] = Field(default={})
    """What the pool's slots are like. Jobs may require it; none uses it up."""
    checkpoints: str = "warn"
    """What happens to a preemptible training job without checkpoints: `warn`; `provide`: it is
    given a place for them; `require`: it is refused."""
    state: str
    """`active`; `paused`: nothing starts; `drained`: also counts in no share."""


class PoolView(BaseModel):
    """One pool as the queue uses it. Amounts are by resource; `slots` is an instance each."""

    name: str
    instance_type: str
    capacity: dict[str, int]
    """The configured capacity."""
    size: dict[str, int]
    """What the queue may use now: the capacity without foreign use, less while the account allows
    less."""
    used: dict[str, int]
    """Used by jobs that start, run or stop."""
    foreign: dict[str, int]
    """Used by training jobs outside the queue, if the pool counts them."""
    settings: PoolSettingsView
    health: PoolHealthView


class PoolsView(BaseModel):
    version: int = VERSION
    revision: int = 0
    """The configuration's revision; rises with each change."""
    pools: list[PoolView]


class FindingView(BaseModel):
    """One disagreement in the queue's records, or between them and SageMaker."""

    kind: str
    """For programs: `ended_unseen`, `orphan`, `ledger` …"""
    subject: str
    """The job, training job or pool."""
    text: str
    mended: bool


class DoctorView(BaseModel):
    version: int = VERSION
    findings: list[FindingView]


class AboutView(BaseModel):
    """The deployed release, and who the caller is."""

    version: int = VERSION
    """The version of the JSON."""
    slotq: str
    """The deployed release."""
    caller: str
    """The ARN of who signed the request."""


class FaultView(BaseModel):
    """One fault of a request."""

    path: str
    """The faulty field, e.g. `projects[2].quota`."""
    message: str


class MembershipView(BaseModel):
    """The caller's role in one project."""

    name: str
    role: str
    """`viewer`, `member`, `admin` or `operator`."""
    default: bool
    """Whether the caller's jobs belong to this project if they name none."""


class MeView(BaseModel):
    """Who the caller is to the queue."""

    version: int = VERSION
    caller: str
    """The ARN of who signed the request."""
    person: str
    """The person behind the caller, as an ARN: what counts for limits and for one's own jobs."""
    why: str
    """How the person was decided, as a sentence."""
    projects: list[MembershipView] = Field(default=[])
    """The projects in which the caller has a role."""
    shared: bool = True
    """Whether the queue is shared between projects, so that roles decide beside IAM."""
    operates: bool = True
    """Whether the queue lets the caller change its configuration. IAM must too."""


class ErrorView(BaseModel):
    """The body of every 4xx and 5xx answer."""

    version: int = VERSION
    code: str
    message: str
    field: str = ""
    faults: list[FaultView] = Field(default=[])
    """All faults of a malformed request; the message tells them too."""


def reason_view(reason: Reason) -> ReasonView:
    return ReasonView(code=reason.code, text=reason.sentence(), numbers=reason.numbers())


def outlook_view(outlook: Outlook) -> OutlookView:
    return OutlookView(
        rooms=[reason_view(reason) for reason in outlook.rooms],
        evictions=[reason_view(reason) for reason in outlook.spared],
        reserved=[reason_view(reason) for reason in outlook.reserved],
        times=[reason_view(reason) for reason in outlook.times],
        earliest=_iso(outlook.earliest),
    )


def attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        training_job=attempt.training_job,
        pool=attempt.pool,
        instance_type=attempt.instance_type,
        admitted_at=iso(attempt.admitted_at),
        running_since=_iso(attempt.running_since),
        ended_at=_iso(attempt.ended_at),
        outcome=attempt.outcome,
        message=attempt.message,
        stop_cause=attempt.stop.cause if attempt.stop else None,
        stopped_for=attempt.stop.by if attempt.stop else None,
        artifact=attempt.artifact,
        checkpoints=attempt.checkpoints,
        step=attempt.step,
        of=attempt.steps,
        saved=_saved(attempt),
        resumption=resumption(attempt),
        warning=attempt.warning,
        logs=f"{names.LOG_GROUP}:{attempt.training_job}/",
    )


def _saved(attempt: Attempt) -> SavedView | None:
    if attempt.checkpoint_at is None or attempt.ended_at is None:
        return None
    return SavedView(step=attempt.saved_step, at=iso(attempt.checkpoint_at))


def progress_view(report: Report, eta: int | None) -> ProgressView:
    return ProgressView(
        step=report.step,
        of=report.of,
        at=_iso(report.at),
        eta_seconds=None if eta is None else seconds(eta),
        metrics=dict(report.metrics),
        saved=_save_view(report.saved) if report.saved else None,
    )


def _save_view(saved: Saved) -> SavedView:
    took = None if saved.took is None else seconds(saved.took)
    return SavedView(step=saved.step, at=iso(saved.at), took_seconds=took)


def job_view(
    job: Job,
    *,
    place: int | None = None,
    place_is_lower_bound: bool = False,
    reason: Reason | None = None,
    outlook: Outlook | None = None,
    attempts: Sequence[Attempt] = (),
    warnings: Iterable[str] = (),
    report: Report | None = None,
    eta: int | None = None,
) -> JobView:
    return JobView(
        name=job.name,
        state=job.state,
        priority=job.priority,
        place=place,
        place_is_lower_bound=place_is_lower_bound,
        reason=reason_view(reason) if reason else None,
        outlook=outlook_view(outlook) if outlook else None,
        entry_time=iso(job.entry_time),
        changed_at=iso(job.changed_at),
        demand=dict(job.demand),
        parts={pool: dict(demand) for pool, demand in job.parts},
        requires=dict(job.requires),
        pools=list(job.pools),
        pool=job.attempt.pool if job.attempt else None,
        after=list(job.depends_on),
        waits_for=list(job.awaited),
        preemptible=job.preemptible,
        min_runtime=seconds(job.min_runtime),
        retries=job.retries,
        submitter=job.submitter,
        user=job.person,
        priority_class=job.priority_class,
        admitted_class=job.admitted_class,
        project=job.project,
        group=job.group,
        workload=job.workload,
        attempts_begun=job.attempts,
        evictions=job.evictions,
        training_job=names.training_job_name(job.name, job.attempts) if job.attempts else None,
        cause=job.cause,
        message=job.message,
        warnings=[*warnings],
        progress=progress_view(report, eta) if report else None,
        stalled_since=_iso(job.attempt.silent_since) if job.attempt else None,
        attempts=[attempt_view(attempt) for attempt in attempts],
        metrics=dict(job.metrics),
    )


def queue_view(
    jobs: Iterable[JobView], *, more: bool = False, following: str | None = None
) -> QueueView:
    """`following`: the cursor of the next page."""
    return QueueView(jobs=list(jobs), more=more, next=following)


def pool_view(pool: Pool, *, size: Demand, used: Demand) -> PoolView:
    health = pool.health
    return PoolView(
        name=pool.name,
        instance_type=pool.instance_type,
        capacity=_amounts(pool.capacity),
        size=_amounts(size),
        used=_amounts(used),
        foreign=_amounts(pool.foreign),
        settings=PoolSettingsView(**settings_of(pool)),
        health=PoolHealthView(
            errors=health.errors,
            not_before=_iso(health.not_before),
            learned=health.learned,
            learned_until=_iso(health.learned_until),
            message=health.message,
            missing_rights=[_missing_right(each) for each in health.missing_rights],
        ),
    )


def _missing_right(missing: MissingRight) -> MissingRightView:
    return MissingRightView(
        role=missing.role,
        action=missing.action,
        since=iso(missing.since),
        refusals=missing.refusals,
        not_before=iso(missing.not_before),
        message=missing.message,
    )


def _amounts(demand: Demand) -> dict[str, int]:
    return {"slots": demand.slots, **demand}


def _iso(moment: int | None) -> str | None:
    return None if moment is None else iso(moment)
