"""Jobs as JSON: the answers about one job and about the queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from slotq_core import names
from slotq_core.model.attempts import Attempt, GpuBound
from slotq_core.model.jobs import Job, Preemptible
from slotq_core.model.pools import CapacityKind
from slotq_core.model.reasons import Number, Reason
from slotq_core.model.reasons.outlook import Outlook
from slotq_core.model.reports import STOP_GRACE, Report, Saved, SlowSave, resumption, slow_save_of
from slotq_core.names import set_back
from slotq_core.timestamps import iso, iso_or_none, seconds
from slotq_core.wire import VERSION, traits
from slotq_core.wire.base import BaseModel
from slotq_core.wire.views.forms import view_of


class ReasonView(BaseModel):
    """Why a job waits: `code` and `numbers` for programs, `text` for people."""

    code: str
    text: str
    """The reason and, where there is one, the second cause, as sentences."""
    numbers: dict[str, Number]
    also: ReasonView | None = None
    """A second cause, which would keep the job back without the first one."""


def reason_view(reason: Reason) -> ReasonView:
    also = reason_view(reason.also) if reason.also else None
    return ReasonView(code=reason.code, text=reason.text(), numbers=reason.numbers(), also=also)


class OutlookView(BaseModel):
    """The slots that a waiting job could get, and when. Each entry has the form of a reason."""

    rooms: list[ReasonView]
    """The slots of each of the job's pools for the job."""
    evictions: list[ReasonView]
    """The jobs that hold slots in those pools, grouped by why they are not evicted for the job."""
    reserved: list[ReasonView]
    """The slots kept there for one job, this or another."""
    times: list[ReasonView]
    """Times at which time alone may change something for the job, the earliest first."""
    order: list[ReasonView] = Field(default=[])
    """The past use of the job's user, if that decides which of the project's jobs goes first."""
    earliest: str | None = None
    """The earliest known time; None: it depends on other jobs."""


class AttemptView(BaseModel):
    number: int
    training_job: str
    pool: str
    node: str = ""
    """The node that it ran on; empty: on whole instances."""
    node_training_job: str = ""
    """The node's own training job. Its log has the attempt's lines where the node does not reach
    CloudWatch Logs, each after the attempt's `training_job` in brackets. Empty: no node, or not
    recorded."""
    gpu_ids: list[int] = Field(default=[])
    """The GPUs of the node that it had, by their indexes."""
    gpu_part: int | float = 0
    """The part that it had of its one GPU; 0: whole GPUs."""
    gpu_bound: str = GpuBound.NONE.value
    """What held it to its part of a GPU: `mps`, `framework`, or `none`: it had whole GPUs."""
    instance_type: str
    admitted_at: str
    running_since: str | None = None
    interruptions: int = 0
    """How often SageMaker has taken spot instances back; `running_since` is later by the time that
    it took until the attempt ran again."""
    interrupted_since: str | None = None
    """Since when it has been interrupted; None: it is not."""
    capacity_kind: str = CapacityKind.ON_DEMAND.value
    """How its instances were bought: `on_demand` or `spot`."""
    warm: bool = False
    """Whether it started on instances that had stayed warm after another attempt."""
    trained: float | None = None
    """How long (s) an attempt in a spot pool that has ended has trained, by SageMaker's count;
    None: not known."""
    billed: float | None = None
    """How many of these seconds SageMaker bills, at the price on demand."""
    ended_at: str | None = None
    outcome: str | None = None
    message: str = ""
    stop_cause: str | None = None
    """`evicted`, `requeued`, `cancelled` …, from the decision on; None if no stop ended the
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
    """A warning: the script's fault after a request to suspend, or a last save longer than the time
    that the eviction left it; else empty."""
    logs: str = ""
    """The CloudWatch log group, a colon, and the prefix of the streams' names."""


class SavedView(BaseModel):
    """The last checkpoint that a script says it has saved."""

    step: int | None = None
    at: str
    took_seconds: float | None = None
    """How long the save took."""


class SlowSaveView(BaseModel):
    """The last save of a job's latest attempt took longer than an eviction leaves it."""

    took_seconds: float
    grace_seconds: float
    """How long the job's pool waits between asking a job to suspend and stopping it; 0: it does not
    ask."""
    stop_seconds: float
    """How long SageMaker then waits before it kills the script."""
    lost: bool
    """Whether such a save is not complete in that time."""
    text: str
    """The text, also among the job's warnings."""


class ProgressView(BaseModel):
    """The progress of a running job, as its script reports it."""

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


class SharedJobView(BaseModel):
    """The fields that the answers about jobs and the queue snapshot (`scenario.views`) share: a
    setting that both show is a field of this class. Moments are ISO 8601 in UTC, durations
    seconds."""

    name: str
    state: str
    priority: int
    entry_time: str
    changed_at: str
    demand: dict[str, int]
    parts: dict[str, dict[str, int]] = Field(default={})
    """The job's demand in each of several pools at once."""
    requires: dict[str, traits.Value] = Field(default={})
    """The properties that the job's pools must have: amounts at least, texts and booleans as they
    are. Also what each of its instances must contain."""
    pools: list[str]
    preemptible: Preemptible
    """`semi`: not while the job is within its project's quota."""
    min_runtime: float
    runtime_estimate: float = 0
    """How long the job will probably run in all, by its submission; 0: it does not say."""
    retries: int
    project: str = ""
    group: str = ""
    """The group that the job was submitted with; empty: none."""
    workload: str = "training"
    """The kind of work: `training`, `interactive` or `inference`."""
    priority_class: str = ""
    """The class that the priority is of; `AUTO` while the job waits for one; empty: none."""
    admitted_class: str = ""
    """The class that the job had before it was demoted; empty: it was not. In its user's limits it
    counts in the lowest class with room, from its present one up to this one."""
    cause: str = ""
    """Why the job is in its state, where the state alone does not say: `max_runtime`, `rejected`
    …"""
    message: str = ""


class JobView(SharedJobView):
    """One job as the queue shows it. Moments are ISO 8601 in UTC, durations seconds."""

    version: int = VERSION
    place: int | None = None
    """The job's place among the waiting jobs that share a pool with it, from 1. None if the job
    does not wait, in the answers to changes, and in a list with more waiting jobs than one answer
    holds."""
    place_is_lower_bound: bool = False
    """True if so many wait that not all were counted: the place is this or a later one."""
    reason: ReasonView | None = None
    outlook: OutlookView | None = None
    """Details beside the reason; only for a single waiting job."""
    pool: str | None = None
    """The pool that the job runs in, the first of several; None while it does not run."""
    gpus: int | float = 0
    """The GPUs of one node that the job takes, or its part of one GPU; 0: whole instances."""
    literal_paths: bool = False
    """Whether the job has /opt/ml itself on its node."""
    node: str | None = None
    """The node of the pool that the job runs on; None: on whole instances, or not now."""
    gpu_ids: list[int] = Field(default=[])
    """The GPUs of the node that it has, by their indexes."""
    gpu_bound: str = GpuBound.NONE.value
    """What holds it to its part of a GPU: `mps`, `framework`, or `none`: it has whole GPUs, or does
    not run."""
    whole: ReasonView | None = None
    """Why the job takes whole instances although it asked for GPUs of a node; None: it does not."""
    after: list[str] = Field(default=[])
    """The jobs that this one was submitted after, and groups, as `group:NAME`."""
    waits_for: list[str] = Field(default=[])
    """The jobs and groups that the job still waits for."""
    submitter: str
    user: str = ""
    """The person behind the submitter, as of the submission: whose limits count."""
    attempts_begun: int
    evictions: int
    training_job: str | None = None
    """The SageMaker training job of the latest attempt."""
    progress: ProgressView | None = None
    """For a running job whose script reports; None otherwise, and where S3 does not answer."""
    warnings: list[str] = Field(default=[])
    """Warnings to the job's user, as sentences: for example that an eviction would restart the job
    from its beginning."""
    slow_save: SlowSaveView | None = None
    """Set if the last save took too long: of a running job, or of the attempt that was evicted
    last. Its text is among `warnings`."""
    stalled_since: str | None = None
    """The last sign of life of a running job that counts as stalled (`stall_after`)."""
    attempts: list[AttemptView] = Field(default=[])
    """The attempts so far; only for a single job."""
    metrics: dict[str, float] = Field(default={})
    """The final metrics of an ended member of a group, by name: SageMaker's, and what its script
    reported last."""

    @property
    def news(self) -> list[str]:
        """The current warnings, without that of missing checkpoints, which appears once, at the
        submission, and on the job's page."""
        return [
            warning
            for warning in self.warnings
            if not warning.startswith(f"{set_back(self.name)}: ")
        ]


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
    examined: int = 0
    """How many jobs the answer was made from: the more, the more seldom it should be asked for."""


def outlook_view(outlook: Outlook) -> OutlookView:
    return OutlookView(
        rooms=[reason_view(reason) for reason in outlook.rooms],
        evictions=[reason_view(reason) for reason in outlook.spared],
        reserved=[reason_view(reason) for reason in outlook.reserved],
        times=[reason_view(reason) for reason in outlook.times],
        order=[reason_view(reason) for reason in outlook.order],
        earliest=iso_or_none(outlook.earliest),
    )


def attempt_view(attempt: Attempt) -> AttemptView:
    return view_of(
        attempt,
        AttemptView,
        stop_cause=attempt.stop.cause if attempt.stop else None,
        stopped_for=attempt.stop.by if attempt.stop else None,
        of=attempt.steps,
        warm=bool(attempt.warm_from),
        saved=_saved(attempt),
        resumption=resumption(attempt),
        warning="; ".join(filter(None, (attempt.warning, _slow_save(attempt)))),
        logs=":".join(names.log_place(attempt.training_job)),
    )


def _saved(attempt: Attempt) -> SavedView | None:
    if attempt.checkpoint_at is None or attempt.ended_at is None:
        return None
    return SavedView(
        step=attempt.saved_step,
        at=iso(attempt.checkpoint_at),
        took_seconds=None if attempt.save_took is None else seconds(attempt.save_took),
    )


def _slow_save(attempt: Attempt) -> str:
    slow = slow_save_of(attempt)
    return slow.sentence() if slow else ""


def with_slow_save(view: JobView, slow: SlowSave) -> JobView:
    """The job with the warning of a slow save."""
    shown = SlowSaveView(
        took_seconds=seconds(slow.took),
        grace_seconds=seconds(slow.grace),
        stop_seconds=seconds(STOP_GRACE),
        lost=slow.is_lost,
        text=slow.sentence(),
    )
    warnings = [*view.warnings, shown.text]
    return view.model_copy(update={"warnings": warnings, "slow_save": shown})


def progress_view(report: Report, eta: int | None) -> ProgressView:
    return ProgressView(
        step=report.step,
        of=report.of,
        at=iso_or_none(report.at),
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
    view = view_of(
        job,
        JobView,
        version=VERSION,  # The answer's, not the stored job's.
        place=place,
        place_is_lower_bound=place_is_lower_bound,
        reason=reason_view(reason) if reason else None,
        outlook=outlook_view(outlook) if outlook else None,
        pool=job.attempt.pool if job.attempt else None,
        node=(job.attempt.node or None) if job.attempt else None,
        gpu_ids=[*job.attempt.gpu_ids] if job.attempt else [],
        gpu_bound=(job.attempt.gpu_bound if job.attempt else GpuBound.NONE).value,
        whole=_whole(job),
        after=list(job.depends_on),
        waits_for=list(job.awaited),
        user=job.person,
        attempts_begun=job.attempts,
        training_job=names.training_job_name(job.name, job.attempts) if job.attempts else None,
        warnings=[*warnings],
        progress=progress_view(report, eta) if report else None,
        stalled_since=iso_or_none(job.attempt.silent_since) if job.attempt else None,
        attempts=[attempt_view(attempt) for attempt in attempts],
    )
    slow = slow_save_of(attempts[-1]) if attempts and not job.terminal else None
    return with_slow_save(view, slow) if slow else view


def _whole(job: Job) -> ReasonView | None:
    if not job.whole_because:
        return None
    from slotq_core.model.reasons.whole_instance import WholeInstance  # Few jobs ask for GPUs.

    return reason_view(WholeInstance(causes=job.whole_because))


def queue_view(
    jobs: Iterable[JobView], *, more: bool = False, following: str | None = None, examined: int = 0
) -> QueueView:
    """`following`: the cursor of the next page."""
    return QueueView(jobs=list(jobs), more=more, next=following, examined=examined)
