"""What news of a training job, or its end, changes for its job.

News come from events, from a reconciliation, or from an answer to a call. Repeated, late and
foreign news change nothing and write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property

from slotq_core.errors import NoSuchJob, NotUnderstood, SlotQError, Unavailable
from slotq_core.lifecycle import move
from slotq_core.model.attempts import Attempt, GpuBound, Restore
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import node_of_owner
from slotq_core.model.pools import CapacityKind, ServiceQuota
from slotq_core.model.reports import MAY_GO_ON, MOST_FINAL, final_metrics, with_report
from slotq_core.model.users import classes_of
from slotq_core.names import STAMP
from slotq_core.operations.attempts.attempt_changes import AttemptChanges, Outcome, Wanted
from slotq_core.policy.lifecycle.demotion import demoted_by_time
from slotq_core.policy.lifecycle.interruptions import interrupted, resumed, with_unseen
from slotq_core.policy.lifecycle.missing_rights import is_of_the_job, once_running
from slotq_core.policy.lifecycle.retry import (
    Ending,
    after_end,
    stopped_before_restore,
    stopped_with_plan,
)
from slotq_core.ports.scripts import NoScripts, Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, Configuration
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import (
    CallResult,
    Observation,
    Phase,
    Request,
    TrainingService,
    Verdict,
)
from slotq_core.privacy.redaction import without_secrets
from slotq_core.timestamps import FAR_OFF

REPORT_PATIENCE = 180_000
"""How long (ms) to wait for an unreadable report, if an end's metrics may end a sweep."""

READ_WITHIN = 1_000
"""How long (ms) a handler uses the configuration that it has read."""

_FAILURES = {
    Verdict.BACK_OFF: Ending.NO_CAPACITY,
    Verdict.OTHER_QUOTA: Ending.OTHER_QUOTA,
    Verdict.REQUEUE: Ending.FAULT,
    Verdict.NO_RIGHTS: Ending.NO_RIGHTS,
    Verdict.ROLE_LACKS_RIGHTS: Ending.NO_RIGHTS,
    Verdict.RELEASED: Ending.RELEASED,
    Verdict.FAIL: Ending.FAILED,
}
"""The ending that follows from each of the adapter's verdicts on a failure."""

Metrics = tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """The outcome of an observation."""

    ignored: str = ""
    """Why the observation belongs to no live attempt; empty if it belongs to one."""
    calls_for_pass: bool = False
    """Whether a pass may now decide differently."""


ObserveNode = Callable[[str, str, Observation], Observed]
"""Takes in an observation of the training job of a node of this pool and name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _News:
    """An observation, with facts that are looked up once, even if others change the job
    meanwhile."""

    seen: Observation
    shown: Callable[[], str]
    """SageMaker's message without secrets."""
    reported: Callable[[Attempt], Attempt]
    """The ended attempt with its script's last report."""
    billed: Callable[[Attempt], Attempt]
    """The ended attempt with what SageMaker bills for it."""
    metrics: Callable[..., Metrics]
    """The final metrics of the ended attempt; as `Observing._metrics` finds them."""
    reads: Reads


class Observing:
    """Commits what news of training jobs change for their jobs."""

    def __init__(
        self,
        store: Store,
        training: TrainingService,
        clock: Clock,
        changes: AttemptChanges,
        scripts: Scripts | None = None,
        *,
        observe_node: ObserveNode,
    ) -> None:
        """`observe_node` takes in what is observed of a node's training job."""
        self._store, self._training, self._clock = store, training, clock
        self._changes, self._observe_node = changes, observe_node
        self._scripts = scripts or NoScripts()

    def observe(self, observation: Observation) -> Observed:
        """Apply an observation of one training job. Repeated, late and foreign observations change
        nothing and write nothing."""
        training_job = observation.training_job
        job = self._begun_as(training_job)
        name = job.name if job is not None else self._store.jobs.owner_of(training_job)
        if name is None:
            return Observed(ignored="no job of this queue ever ran under that name")
        if job is None and (node := node_of_owner(name)) is not None:
            return self._observe_node(*node, observation)

        reads = Reads(self._store)
        wanted = self._news(job or self._store.jobs.get(name), name, observation, reads)
        taken = self._changes.one(wanted)
        if taken is None:
            return Observed(ignored=f"that attempt of {name} is over")
        return Observed(calls_for_pass=taken.calls_for_pass)

    def take_in(self, found: Sequence[tuple[Job, Observation | None]]) -> list[Outcome]:
        """Apply what SageMaker says of these jobs' live attempts; None: it has no such training
        job, because somebody has deleted it, so the job ends as stopped. Returns the outcomes."""
        quoted = [job.name for job, seen in found if seen is not None and seen.message]
        reads = Reads(self._store, quoted)
        return self._changes.all([self._wanted(job, seen, reads) for job, seen in found])

    def _wanted(self, job: Job, seen: Observation | None, reads: Reads) -> Wanted:
        assert job.attempt is not None
        if seen is not None:
            return self._news(job, job.name, seen, reads)
        name = job.attempt.training_job
        return self.gone(job, name, f"its training job {name} is no longer in SageMaker")

    def _news(self, job: Job | None, name: str, observation: Observation, reads: Reads) -> Wanted:
        """The change of the job by what was observed."""

        @cache  # Computed once, however often others change the job meanwhile.
        def shown() -> str:
            return shown_text(name, observation.message, reads)

        @cache
        def metrics(attempt: Attempt, *, matter: bool) -> Metrics:
            return self._metrics(observation, attempt, matter=matter)

        @cache
        def billed(attempt: Attempt) -> Attempt:
            return self._billed(observation, attempt)

        news = _News(
            seen=observation,
            shown=shown,
            billed=billed,
            reported=cache(self._reported),
            metrics=metrics,
            reads=reads,
        )
        return Wanted(
            job=job,
            training_job=observation.training_job,
            change=lambda job: self._seen(job, news),
            answer=_answer_in(observation),
        )

    def _begun_as(self, training_job: str) -> Job | None:
        """Return the job whose first attempt had that name, if there is one. A first attempt bears
        its job's own name, so most observations find their job by one read."""
        job = None if STAMP in training_job else self._store.jobs.get(training_job)
        return job if job is not None and job.attempts else None

    def gone(self, job: Job, training_job: str, message: str) -> Wanted:
        """The end of a job whose training job does not exist: it ends as stopped."""
        return Wanted(
            job=job,
            training_job=training_job,
            change=lambda job: self.end(job, Ending.STOPPED, self._clock.now(), message),
        )

    def _seen(self, job: Job, news: _News) -> Change | None:
        assert job.attempt is not None
        seen = news.seen
        if seen.token is not None and seen.token != job.attempt.token:
            return None  # A training job of the same name that belongs to somebody else.
        now = self._clock.now()
        at = min(max(seen.at, job.attempt.admitted_at), now)
        if seen.phase.ended:
            by_itself = seen.phase is not Phase.STOPPED and not seen.max_wait
            begun = _as_begun(job, seen, at)
            begun = with_unseen(begun, seen.trained, at, by_itself=by_itself)
            begun = self._with_plans_end(self._with_lost_stop(begun, news), seen)
            ending = _ending(seen, job.attempt)
            return self.end(begun, ending, at, news.shown(), news, quota=seen.quota)
        if job.attempt.interrupted_since is not None:
            runs = seen.phase is Phase.RUNNING and not seen.interrupted
            return _changed(job, resumed(job, min(seen.changed_at, now)) if runs else None)
        if seen.interrupted and job.attempt.running_since is not None:
            return _changed(job, interrupted(job, min(seen.changed_at, now)))
        if seen.phase is Phase.RUNNING and job.attempt.running_since is None:
            place = seen.checkpoints or job.attempt.checkpoints
            attempt = replace(
                job.attempt,
                created=True,
                running_since=at,
                checkpoints=place,
                gpu_bound=seen.gpu_bound,
            )
            state = JobState.RUNNING if job.state is JobState.STARTING else job.state
            after = replace(once_running(job), attempt=attempt, faults=0)
            if state is not job.state:
                after = move(after, state, at=now, message="")
            return Change(before=job, after=after)
        if seen.pending and job.attempt.pending_since is None:
            attempt = replace(job.attempt, created=True, pending_since=at)
            return Change(before=job, after=replace(job, attempt=attempt))
        return self.created(job, seen.checkpoints)

    def created(
        self, job: Job, checkpoints: str = "", *, warm_key: str = "", kept_none: bool = False
    ) -> Change | None:
        """The confirmation of a create, with the place of the checkpoints, the key of its instances
        and whether they will not be kept; None: it is there."""
        assert job.attempt is not None
        if job.attempt.created:
            return None
        attempt = replace(
            job.attempt,
            created=True,
            checkpoints=checkpoints or job.attempt.checkpoints,
            warm_key=warm_key or job.attempt.warm_key,
            keep_warm=0 if kept_none else job.attempt.keep_warm,
        )
        return Change(before=job, after=replace(job, attempt=attempt))

    def _with_lost_stop(self, job: Job, news: _News) -> Job:
        """Return the job with its stop, which a restored table may not contain."""
        seen = news.seen
        if seen.phase is not Phase.STOPPED or job.attempt is None or job.attempt.stop is not None:
            return job
        restore = news.reads.last_restore
        if restore is None or restore.restored_at > self._clock.now() + FAR_OFF:
            return job
        since = seen.running_since
        return stopped_before_restore(job, restore, running_since=since, ended_at=seen.at)

    def _with_plans_end(self, job: Job, seen: Observation) -> Job:
        """Return the job with its stop, if SageMaker has taken the instances of its plan."""
        attempt = job.attempt
        if seen.phase is not Phase.STOPPED or attempt is None or not attempt.plan_arn:
            return job
        plan = self._store.health.get(attempt.pool).plan
        return stopped_with_plan(job, plan, ended_at=seen.at)

    def end(
        self,
        job: Job,
        ending: Ending,
        at: int,
        message: str,
        news: _News | None = None,
        *,
        quota: ServiceQuota | None = None,
    ) -> Change:
        limit = quota.limit if quota else None
        ended = after_end(job, ending, at=at, now=self._clock.now(), message=message, limit=limit)
        attempt, after = ended.attempt, ended.job
        if after.priority_class and not after.terminal:
            reads = news.reads if news is not None else Reads(self._store)
            sharing = reads.configuration(self._clock.now()).sharing
            after = demoted_by_time(after, classes_of(sharing.classes))
        if news is not None:
            seen = news.seen
            is_unknown = seen.gpu_bound is GpuBound.NONE
            attempt = replace(
                attempt,
                artifact=seen.artifact,
                checkpoints=seen.checkpoints or attempt.checkpoints,
                gpu_bound=attempt.gpu_bound if is_unknown else seen.gpu_bound,
            )
            if attempt.capacity_kind is CapacityKind.SPOT:
                attempt = news.billed(attempt)
            if attempt.outcome in MAY_GO_ON:
                attempt = news.reported(attempt)
                after = replace(after, reports=after.reports or attempt.reported)
            if after.terminal and after.group:
                after = replace(after, metrics=news.metrics(attempt, matter=after.followed))
        return Change(before=job, after=after, ended=attempt)

    def _reported(self, attempt: Attempt) -> Attempt:
        """The ended attempt with its script's last report. Reads once, and accepts any answer."""
        if attempt.running_since is None:
            return attempt
        report = self._scripts.report(attempt)
        return attempt if report is None else with_report(attempt, report)

    def _billed(self, seen: Observation, attempt: Attempt) -> Attempt:
        """The ended attempt in a spot pool with what SageMaker bills for it. An event may lack
        that: then this asks SageMaker once, and accepts any answer."""
        if attempt.running_since is None:
            return attempt
        if seen.billed is None:
            with suppress(NotUnderstood, Unavailable):
                seen = self._training.describe(seen.training_job) or seen
        return replace(attempt, trained=seen.trained, billed=seen.billed)

    def _metrics(self, seen: Observation, attempt: Attempt, *, matter: bool) -> Metrics:
        """The final metrics of a group's member: the last report of its script, and the metrics
        that SageMaker found in its output. An event may lack the latter: then this asks SageMaker
        about a completed attempt that has no report.

        `matter`: the metrics may end a sweep. Then this always asks SageMaker, and raises
        Unavailable if SageMaker does not answer, or (for `REPORT_PATIENCE`) if the report cannot be
        read. The end is then processed later."""
        if attempt.running_since is None:
            return ()
        report = self._scripts.report(attempt)
        late = self._clock.now() - seen.at >= REPORT_PATIENCE
        if matter and report is None and attempt.checkpoints and not late:
            raise Unavailable(f"the last report of {attempt.training_job} cannot be read now")
        found = final_metrics(report.metrics) if report else {}
        reported = dict(seen.metrics)
        may_ask = not attempt.node  # A node's report has them all.
        if may_ask and not reported and (matter or not found) and seen.phase is Phase.COMPLETED:
            with suppress(NotUnderstood, *(() if matter else (Unavailable,))):
                described = self._training.describe(seen.training_job)
                reported = dict(described.metrics) if described else {}
        return tuple(sorted({**found, **reported}.items())[:MOST_FINAL])


class Reads:
    """What several jobs read: the given jobs' requests together, the configuration once."""

    def __init__(self, store: Store, names: Sequence[str] = ()) -> None:
        self._store = store
        self._requests: Mapping[str, Request] = {}
        if len(names) > 1:
            with suppress(SlotQError):  # Each create reads its own then.
                self._requests = store.jobs.requests(names)
        self._configuration: tuple[int, Configuration] | None = None

    def request(self, job: str) -> Request:
        """Return the job's request, which stays as it is while the job starts."""
        return self._requests.get(job) or self._store.jobs.request(job)

    @cached_property
    def last_restore(self) -> Restore | None:
        return self._store.repair.last_restore()

    def configuration(self, now: int) -> Configuration:
        """Return the configuration, as of at most `READ_WITHIN` ago."""
        if self._configuration is None or now - self._configuration[0] >= READ_WITHIN:
            self._configuration = now, self._store.configuration.read()
        return self._configuration[1]


def shown_text(job: str, message: str, reads: Reads) -> str:
    """Return SageMaker's text without secrets; empty if the request cannot be read, because the
    secrets in the text are then unknown."""
    if not message:
        return ""
    try:
        return without_secrets(message, reads.request(job))
    except (NoSuchJob, NotUnderstood):
        return ""


def _changed(job: Job, after: Job | None) -> Change | None:
    return None if after is None else Change(before=job, after=after)


def _as_begun(job: Job, seen: Observation, at: int) -> Job:
    """Return the job with the start of its running time. Events may be lost: then only the news of
    the end (`at`, ms) contains the start."""
    if job.attempt is None or job.attempt.running_since is not None or seen.running_since is None:
        return job
    if job.attempt.interrupted_since is not None:
        return job
    since = min(max(seen.running_since, job.attempt.admitted_at), at)
    return replace(job, attempt=replace(job.attempt, running_since=since))


def _answer_in(seen: Observation) -> CallResult:
    """Return what an observed failure says about the pool, as the answer to its create would."""
    return CallResult(
        verdict=seen.verdict, message=seen.message, quota=seen.quota, action=seen.action
    )


def failure(verdict: Verdict, quota: ServiceQuota | None, attempt: Attempt) -> Ending:
    if verdict is Verdict.BACK_OFF and is_of_the_job(quota, attempt):
        return Ending.OTHER_QUOTA
    return _FAILURES.get(verdict, Ending.FAILED)


def _ending(seen: Observation, attempt: Attempt) -> Ending:
    match seen.phase:
        case Phase.COMPLETED:
            return Ending.COMPLETED
        case Phase.STOPPED:
            return Ending.STOPPED
    if seen.max_wait and attempt.capacity_kind is CapacityKind.SPOT:
        return Ending.NO_CAPACITY
    if seen.max_runtime:
        return Ending.MAX_RUNTIME
    if seen.shared_fault:
        return Ending.SHARED_FAULT
    return failure(seen.verdict, seen.quota, attempt)
