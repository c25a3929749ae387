"""Carry out committed decisions: intent -> call to SageMaker -> confirm.

An intent is durable before its call: `starting` without a confirmed create, or `stopping` without a
sent stop. Therefore any later handler can finish the intent. Names and tokens are deterministic, so
a repeated create is recognised as the queue's own, and a repeated stop as already done. A fresh
intent is left to the handler that committed it. An intent older than `HANDLER_LIFETIME` belongs to
a dead handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from slotq_core.errors import (
    Conflict,
    NoSuchJob,
    NotUnderstood,
    RightMissing,
    SlotQError,
    Unavailable,
)
from slotq_core.lifecycle import move
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import ServiceQuota
from slotq_core.model.reports import MAY_GO_ON, MOST_FINAL, final_metrics, with_report
from slotq_core.model.users import classes_of
from slotq_core.names import STAMP
from slotq_core.operations.attempts.pool_lessons import Lessons, is_accepted
from slotq_core.operations.attempts.suspends import Suspends, intent_at
from slotq_core.policy.lifecycle.demotion import demoted_by_time
from slotq_core.policy.lifecycle.missing_rights import is_of_the_job, once_running
from slotq_core.policy.lifecycle.retry import Ending, after_end, stopped_before_restore
from slotq_core.ports.scripts import NoScripts, Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
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

if TYPE_CHECKING:
    from slotq_core.operations.attempts.gang_starts import GangStarts

HANDLER_LIFETIME = 60_000
"""Upper bound (ms) on a handler's life. The function's timeout in template.yaml must not exceed it.
"""

LONGEST_EFFECT = 10_000
"""Age (ms) at which an effect makes no further call. Its intent stays, and a later pass
continues."""

SLOW = 5_000
"""Duration (ms) from which an effect is reported as slow and runs last from then on."""

REPORT_PATIENCE = 180_000
"""How long (ms) to wait for an unreadable report, if an end's metrics may end a sweep."""

_TRIES = 20
"""How often a conditional change of one job is tried while others change the same job."""

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

_REFUSALS = {Verdict.FAIL: Ending.REJECTED, Verdict.NAME_TAKEN: Ending.NAME_TAKEN}
"""The ending of an attempt whose create is refused permanently: no retry helps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """The outcome of an observation."""

    ignored: str = ""
    """Why the observation belongs to no live attempt; empty if it belongs to one."""
    calls_for_pass: bool = False
    """Whether a pass may now decide differently."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _News:
    """An observation, with facts that are looked up once, even if others change the job
    meanwhile."""

    seen: Observation
    shown: Callable[[], str]
    """SageMaker's message without secrets."""
    reported: Callable[[Attempt], Attempt]
    """The ended attempt with its script's last report."""
    metrics: Callable[..., Metrics]
    """The final metrics of the ended attempt; as `Effects._metrics` finds them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Taken:
    """A job after a change, or unchanged if nothing was left to change."""

    job: Job
    calls_for_pass: bool = False
    learned: bool = False
    """Whether the change has shown a new fact about the pool."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CarriedOut:
    """The outcome of the intents of several jobs."""

    troubles: tuple[str, ...] = ()
    """Errors, and slow calls."""
    as_planned: bool = True
    """Whether every job was started and nothing else happened, so that a plan that expects these
    starts is still valid."""


class Effects:
    """Calls SageMaker, and commits the consequences of each answer for the job."""

    def __init__(
        self,
        store: Store,
        training: TrainingService,
        clock: Clock,
        suspends: Suspends,
        scripts: Scripts | None = None,
    ) -> None:
        self._scripts = scripts or NoScripts()
        self._store = store
        self._training = training
        self._clock = clock
        self._suspends = suspends
        self._lessons = Lessons(store.configuration, store.health, clock)
        self._gangs: GangStarts | None = None
        self._slow: dict[str, int] = {}
        """Duration (ms) of the latest effect, for each job whose latest effect was slow. Kept by
        this process only. The table stays small, because each entry costs SLOW."""

    def stale(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs whose intent belongs to a dead handler."""
        now = self._clock.now()
        return [job for job in jobs if _unfinished(job) and _is_dead(_intent_at(job), now)]

    def due(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs whose intents this pass carries out: those of dead handlers, also of a
        handler that may have died before asking the script, and stops whose grace is over."""
        now = self._clock.now()
        return [
            job
            for job in jobs
            if _unfinished(job)
            and (
                (_is_dead(_ordered_at(job), now) and not self._suspends.has_asked(job))
                or self._suspends.is_over(job)
            )
        ]

    def is_slow(self, job: Job) -> bool:
        """Whether the job's latest effect was slow. Slow effects run last."""
        return job.name in self._slow

    def carry_out(self, job: Job) -> bool:
        """Make the call that the job's live attempt still needs, if any. Return whether this was an
        accepted create that has shown nothing new about the pool."""
        began = self._clock.now()
        try:
            return self._do(job, began)
        finally:
            took = self._clock.now() - began
            self._slow.pop(job.name, None)
            if took >= SLOW:
                self._slow[job.name] = took

    def carry_out_all(self, jobs: Iterable[Job], *, until: int | None = None) -> CarriedOut:
        """Run `carry_out` for each job, slow jobs last; begin none from `until` on. A failure stops
        no other job: its intent stays, and a later pass finishes the work."""
        troubles, as_planned = [], True
        for job in sorted(jobs, key=lambda job: self._slow.get(job.name, 0)):
            if until is not None and self._clock.now() >= until:
                troubles.append(f"{job.name}: no time left in this pass")
                as_planned = False
                continue
            try:
                as_planned = self.carry_out(job) and as_planned
            except SlotQError as error:
                troubles.append(f"{job.name}: {error}")
                as_planned = False
            if took := self._slow.get(job.name):
                troubles.append(
                    f"{job.name}: the call took {took / 1000:.1f} s; the job goes last from now on"
                )
        return CarriedOut(troubles=tuple(troubles), as_planned=as_planned)

    def observe(self, observation: Observation) -> Observed:
        """Apply an observation of one training job. Repeated, late and foreign observations change
        nothing and write nothing."""
        training_job = observation.training_job
        job = self._begun_as(training_job)
        name = job.name if job is not None else self._store.jobs.owner_of(training_job)
        if name is None:
            return Observed(ignored="no job of this queue ever ran under that name")

        @cache  # Computed once, however often others change the job meanwhile.
        def shown() -> str:
            return self._shown(name, observation.message)

        @cache
        def metrics(attempt: Attempt, *, matter: bool) -> Metrics:
            return self._metrics(observation, attempt, matter=matter)

        news = _News(seen=observation, shown=shown, reported=cache(self._reported), metrics=metrics)
        taken = self._change(
            job or self._store.jobs.get(name),
            training_job,
            lambda job: self._seen(job, news),
            answer=_answer_in(observation),
        )
        if taken is None:
            return Observed(ignored=f"that attempt of {name} is over")
        return Observed(calls_for_pass=taken.calls_for_pass)

    def _begun_as(self, training_job: str) -> Job | None:
        """Return the job whose first attempt had that name, if there is one. A first attempt bears
        its job's own name, so most observations find their job by one read."""
        job = None if STAMP in training_job else self._store.jobs.get(training_job)
        return job if job is not None and job.attempts else None

    def vanished(self, training_job: str) -> None:
        """End the job as stopped, because SageMaker no longer has the training job: somebody
        deleted it."""
        name = self._store.jobs.owner_of(training_job)
        if name is not None:
            message = f"its training job {training_job} is no longer in SageMaker"
            self._gone(self._store.jobs.get(name), training_job, message)

    def _gone(self, job: Job | None, training_job: str, message: str) -> None:
        self._change(
            job,
            training_job,
            lambda job: self._end(job, Ending.STOPPED, self._clock.now(), message),
        )

    def _do(self, job: Job, began: int) -> bool:
        if job.attempt is None:
            return False
        if job.state is JobState.STARTING and not job.attempt.created:
            return self._create(job, job.attempt, began)
        if job.attempt.stop is None or job.attempt.stop.sent:
            return False
        if not self._suspends.in_grace(job, job.attempt):
            self._stop(job, job.attempt, began)
        return False

    def _is_late(self, began: int) -> bool:
        return self._clock.now() - began >= LONGEST_EFFECT

    def _create(self, job: Job, attempt: Attempt, began: int) -> bool:
        request, broken = self._prescribed(job, attempt)
        if broken and not self._was_created(job, attempt):
            self._forbidden(job, attempt, broken)
            return False
        answer = self._training.create(self._as_member(request, job, attempt), job, attempt)
        match answer.verdict:
            case Verdict.OK | Verdict.ALREADY_DONE:
                place = checkpoints_of(request)
                taken = self._change(
                    job, attempt.training_job, lambda current: self._created(current, place)
                )
                # A cancel during the call leaves the stop to this handler.
                if taken is not None and taken.job.attempt and taken.job.attempt.stop:
                    return self._do(taken.job, began)
                return taken is not None and not taken.learned
            case Verdict.RETRY:  # The intent stays; a later pass repeats the call.
                said = without_secrets(answer.message, request)
                if answer.action:
                    self._lessons.unanswered(attempt, replace(answer, message=said))
                    raise RightMissing(said)
                raise Unavailable(f"CreateTrainingJob {attempt.training_job}: {said}")
            case _:
                self._refused(job, attempt, answer)
        return False

    def _prescribed(self, job: Job, attempt: Attempt) -> tuple[Request, str]:
        """Return the request to start with, and the fields that the job's project forbids by
        now."""
        request = self._store.jobs.request(job.name)
        configuration = self._store.configuration.read() if job.project else None
        project = configuration.sharing.project(job.project) if configuration else None
        if configuration is None or project is None:
            return request, ""
        parts = {pool for pool, _ in job.parts}
        types = {
            pool.name: pool.instance_type for pool in configuration.pools if pool.name in parts
        }
        # Most queues have no such rules, and no cold start should pay for them.
        from slotq_core.admission.prescribed import broken_at_start, prescribed

        broken = broken_at_start(
            request,
            project,
            job.workload,
            types={**types, attempt.pool: attempt.instance_type},
        )
        return prescribed(request, project.requests, at_start=True), broken

    def _as_member(self, request: Request, job: Job, attempt: Attempt) -> Request:
        """The request with the environment variables of a gang's member."""
        if not job.group:
            return request
        if self._gangs is None:
            # Most jobs are in no group, and no cold start should pay for them.
            from slotq_core.operations.attempts.gang_starts import GangStarts

            self._gangs = GangStarts(self._store)
        return self._gangs.as_member(request, job, attempt)

    def _was_created(self, job: Job, attempt: Attempt) -> bool:
        """Whether a dead handler may have created the training job, under the rules of that time: a
        training job of that name exists. A repeated create then starts nothing, and its answer
        shows the owner of the name."""
        if not _is_dead(_intent_at(job), self._clock.now()):
            return False
        return self._training.describe(attempt.training_job) is not None

    def _forbidden(self, job: Job, attempt: Attempt, broken: str) -> None:
        """End an attempt before its create: the job is held."""
        now, message = self._clock.now(), self._shown(job.name, broken)
        self._change(
            job,
            attempt.training_job,
            lambda current: self._end(current, Ending.FORBIDDEN, now, message),
        )

    def _refused(self, job: Job, attempt: Attempt, answer: CallResult) -> None:
        ending = _REFUSALS.get(answer.verdict) or _failure(answer.verdict, answer.quota, attempt)
        message = self._shown(job.name, answer.message)
        self._change(
            job,
            attempt.training_job,
            lambda current: self._end(
                current, ending, self._clock.now(), message, quota=answer.quota
            ),
            answer=answer,
        )

    def _stop(self, job: Job, attempt: Attempt, began: int) -> None:
        stale = _is_dead(_intent_at(job), self._clock.now())
        if not attempt.created and not stale:
            return  # The create is in progress; the handler that confirms it also stops it.
        if not attempt.created and not self._is_there(attempt):
            message = f"its training job {attempt.training_job} does not run"
            self._gone(job, attempt.training_job, message)
            return
        if self._is_late(began):
            return
        answer = self._training.stop(attempt.training_job)
        match answer.verdict:
            case Verdict.OK:
                self._change(job, attempt.training_job, self._stop_sent)
            case Verdict.ALREADY_DONE:
                self._change(job, attempt.training_job, self._stop_sent)
                if not self._is_late(began):  # Otherwise a reconciliation will look.
                    self._look(attempt.training_job)
            case Verdict.FAIL:
                # No such training job: it was never created, or somebody deleted it.
                self._gone(job, attempt.training_job, answer.message)
            case Verdict.NO_RIGHTS:
                raise RightMissing(answer.message)
            case _:  # The intent stays here, too.
                raise Unavailable(f"StopTrainingJob {attempt.training_job}: {answer.message}")

    def _is_there(self, attempt: Attempt) -> bool:
        """Whether an unconfirmed create took effect. The name may by now belong to a training job
        of somebody else, which the queue must not stop."""
        there = self._training.look_into(attempt.training_job, now=self._clock.now())
        return there is not None and there.ours

    def _look(self, training_job: str) -> None:
        """Ask SageMaker for the training job's state: its end may have been missed."""
        try:
            seen = self._training.describe(training_job)
        except Unavailable:
            return
        if seen is not None:
            self.observe(seen)

    def _change(
        self,
        job: Job | None,
        training_job: str,
        change: Callable[[Job], Change | None],
        *,
        answer: CallResult | None = None,
    ) -> _Taken | None:
        """Change the job while this training job is its live attempt; retry on conflicts.

        `job`: as the caller has read or committed it. It is read again only after a conflict: the
        commit depends on the version, so a job that has changed since is never overwritten. Return
        None if the attempt is no longer live. Raises Conflict after `_TRIES` conflicts.
        """
        for _ in range(_TRIES):
            if job is None or job.attempt is None or job.attempt.training_job != training_job:
                return None
            wanted = change(job)
            if wanted is None:
                return _Taken(job=job)
            try:
                (after,) = self._store.decisions.commit([wanted])
            except Conflict:
                job = self._store.jobs.get(job.name)
                continue
            learned = self._lessons.take(wanted, answer)
            calls_for_pass = learned or _calls_for_pass(wanted)
            return _Taken(job=after, calls_for_pass=calls_for_pass, learned=learned)
        raise Conflict(f"{training_job}: its job's record changed {_TRIES} times in a row")

    def _created(self, job: Job, checkpoints: str = "") -> Change | None:
        assert job.attempt is not None
        if job.attempt.created:
            return None
        place = checkpoints or job.attempt.checkpoints
        attempt = replace(job.attempt, created=True, checkpoints=place)
        return Change(before=job, after=replace(job, attempt=attempt))

    def _stop_sent(self, job: Job) -> Change | None:
        assert job.attempt is not None
        stop = job.attempt.stop
        if stop is None or stop.sent:
            return None
        attempt = replace(job.attempt, created=True, stop=replace(stop, sent=True))
        return Change(before=job, after=replace(job, attempt=attempt))

    def _seen(self, job: Job, news: _News) -> Change | None:
        assert job.attempt is not None
        seen = news.seen
        if seen.token is not None and seen.token != job.attempt.token:
            return None  # A training job of the same name that belongs to somebody else.
        now = self._clock.now()
        at = min(max(seen.at, job.attempt.admitted_at), now)
        if seen.phase.ended:
            begun = self._with_lost_stop(_as_begun(job, seen, at), seen)
            ending = _ending(seen, job.attempt)
            return self._end(begun, ending, at, news.shown(), news, quota=seen.quota)
        if seen.phase is Phase.RUNNING and job.attempt.running_since is None:
            place = seen.checkpoints or job.attempt.checkpoints
            attempt = replace(job.attempt, created=True, running_since=at, checkpoints=place)
            state = JobState.RUNNING if job.state is JobState.STARTING else job.state
            after = replace(once_running(job), attempt=attempt, faults=0)
            if state is not job.state:
                after = move(after, state, at=now, message="")
            return Change(before=job, after=after)
        if seen.pending and job.attempt.pending_since is None:
            attempt = replace(job.attempt, created=True, pending_since=at)
            return Change(before=job, after=replace(job, attempt=attempt))
        return self._created(job, seen.checkpoints)

    def _with_lost_stop(self, job: Job, seen: Observation) -> Job:
        """Return the job with its stop, which a restored table may not contain."""
        if seen.phase is not Phase.STOPPED or job.attempt is None or job.attempt.stop is not None:
            return job
        restore = self._store.repair.last_restore()
        if restore is None or restore.restored_at > self._clock.now() + FAR_OFF:
            return job
        since = seen.running_since
        return stopped_before_restore(job, restore, running_since=since, ended_at=seen.at)

    def _end(
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
            sharing = self._store.configuration.read().sharing
            after = demoted_by_time(after, classes_of(sharing.classes))
        if news is not None:
            place = news.seen.checkpoints or attempt.checkpoints
            attempt = replace(attempt, artifact=news.seen.artifact, checkpoints=place)
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
        if not reported and (matter or not found) and seen.phase is Phase.COMPLETED:
            with suppress(NotUnderstood, *(() if matter else (Unavailable,))):
                described = self._training.describe(seen.training_job)
                reported = dict(described.metrics) if described else {}
        return tuple(sorted({**found, **reported}.items())[:MOST_FINAL])

    def _shown(self, job: str, message: str) -> str:
        """Return SageMaker's text without secrets; empty if the request cannot be read, because the
        secrets in the text are then unknown."""
        if not message:
            return ""
        try:
            return without_secrets(message, self._store.jobs.request(job))
        except (NoSuchJob, NotUnderstood):
            return ""


def _as_begun(job: Job, seen: Observation, at: int) -> Job:
    """Return the job with the start of its running time. Events may be lost: then only the news of
    the end (`at`, ms) contains the start."""
    if job.attempt is None or job.attempt.running_since is not None or seen.running_since is None:
        return job
    since = min(max(seen.running_since, job.attempt.admitted_at), at)
    return replace(job, attempt=replace(job.attempt, running_since=since))


def checkpoints_of(request: Request) -> str:
    """The S3 URI of the request's checkpoints; empty if it has none."""
    config = request.get("CheckpointConfig")
    place = config.get("S3Uri") if isinstance(config, Mapping) else None
    return place if isinstance(place, str) else ""


def _calls_for_pass(change: Change) -> bool:
    """Whether a pass may decide differently after this change: slots come free, or an attempt may
    now be evicted.

    A start of an attempt, or of SageMaker's search for instances, matters only after some time: by
    a `pending_timeout`, a `min_runtime` or a consolidation. The tick's pass handles those.
    """
    return change.ended is not None or is_accepted(change)


def _answer_in(seen: Observation) -> CallResult:
    """Return what an observed failure says about the pool, as the answer to its create would."""
    return CallResult(
        verdict=seen.verdict, message=seen.message, quota=seen.quota, action=seen.action
    )


def _failure(verdict: Verdict, quota: ServiceQuota | None, attempt: Attempt) -> Ending:
    if verdict is Verdict.BACK_OFF and is_of_the_job(quota, attempt):
        return Ending.OTHER_QUOTA
    return _FAILURES.get(verdict, Ending.FAILED)


def _ending(seen: Observation, attempt: Attempt) -> Ending:
    match seen.phase:
        case Phase.COMPLETED:
            return Ending.COMPLETED
        case Phase.STOPPED:
            return Ending.STOPPED
    if seen.max_runtime:
        return Ending.MAX_RUNTIME
    return _failure(seen.verdict, seen.quota, attempt)


def _unfinished(job: Job) -> bool:
    assert job.attempt is not None
    if job.attempt.stop is not None:
        return not job.attempt.stop.sent
    return not job.attempt.created


def _is_dead(intent_at: int, now: int) -> bool:
    """Whether the handler of an intent of that time has ended, or the handler's clock was wrong."""
    return not now - HANDLER_LIFETIME < intent_at <= now + FAR_OFF


def _intent_at(job: Job) -> int:
    assert job.attempt is not None
    return intent_at(job.attempt.stop) if job.attempt.stop else job.attempt.admitted_at


def _ordered_at(job: Job) -> int:
    assert job.attempt is not None
    return job.attempt.stop.at if job.attempt.stop else job.attempt.admitted_at
