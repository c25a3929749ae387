"""Broken variants of each safeguard: the campaign must catch every one, or it proves nothing.

A mutant is a change of the queue, made while it is hunted, and the part of the campaign that is to
catch it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Protocol
from unittest.mock import patch

from slotq_core.adapters.dynamodb import calls, line_bounds, transactions
from slotq_core.adapters.dynamodb import configuration as dynamodb_configuration
from slotq_core.adapters.dynamodb.accounting.counters import DynamoCounters
from slotq_core.adapters.dynamodb.decisions import DynamoDecisions
from slotq_core.adapters.dynamodb.groups import DynamoGroups
from slotq_core.adapters.dynamodb.layout import changed_items, items
from slotq_core.adapters.dynamodb.layout import (
    expressions as dynamodb_expressions,
)
from slotq_core.adapters.dynamodb.layout import (
    ledger_expressions as dynamodb_ledger_expressions,
)
from slotq_core.adapters.dynamodb.layout.lines import LINE_KEPT
from slotq_core.adapters.dynamodb.reading import loading
from slotq_core.adapters.dynamodb.reading.pool_reading import PoolReader
from slotq_core.adapters.dynamodb.repair.upkeep import DynamoRepair
from slotq_core.adapters.dynamodb.wake import DynamoScheduler
from slotq_core.adapters.notifiers import MessageAlarm
from slotq_core.adapters.sagemaker import sagemaker_errors
from slotq_core.adapters.sagemaker.operations import OPERATIONS
from slotq_core.adapters.sagemaker.sagemaker_errors import ErrorRow
from slotq_core.adapters.sagemaker.sagemaker_rights import quota_in
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.admission import caller_limits
from slotq_core.admission.dependencies import GroupProgress, progress_of
from slotq_core.errors import Conflict
from slotq_core.lifecycle import move
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import ServiceQuota
from slotq_core.operations import effects, passes
from slotq_core.operations.admit import Admitter
from slotq_core.operations.amend import ChangedJob
from slotq_core.operations.attempts import attempt_changes, observing, pool_lessons
from slotq_core.operations.attempts.attempt_changes import AttemptChanges
from slotq_core.operations.attempts.observing import Observing
from slotq_core.operations.attempts.pool_lessons import KnownHealth
from slotq_core.operations.attempts.suspends import Suspends
from slotq_core.operations.effects import Effects
from slotq_core.operations.jobs import batches, groups
from slotq_core.operations.jobs.followers import Followers
from slotq_core.operations.jobs.group_watch import GroupWatch
from slotq_core.operations.jobs.sweeps import SweepGoals
from slotq_core.operations.reconcile import Reconciler
from slotq_core.policy import setbacks
from slotq_core.policy.actions import settle
from slotq_core.policy.lifecycle import apply, missing_rights, retry, suspend
from slotq_core.policy.lifecycle.missing_rights import EVERYBODY
from slotq_core.policy.lifecycle.start_attempts import NOT_SCHEDULED
from slotq_core.policy.lifecycle.suspend import grace_ends
from slotq_core.ports.stored import Change
from slotq_core.ports.training import RIGHTS, Observation, Verdict
from slotq_core.storage.ends import record_of
from tests.faults import broken_gangs, crashes, interleavings
from tests.faults.branches import tried
from tests.faults.crashes import BEFORE, NO_ANSWER, NOISY, SILENT, THROTTLED, TOLD, Crash
from tests.faults.interleavings import Schedule
from tests.faults.promises import (
    ANNOUNCED,
    ATTEMPTS,
    BLAMELESS,
    CAPACITY,
    CONVERGENT,
    GRACE,
    LOST,
    NEIGHBOURS,
    ONE_LIVE,
    PARALLEL,
    PLACE,
    RECORDED,
    WHOLE,
    Broken,
)
from tests.faults.scenarios import (
    completes_in,
    creates_at_most,
    graces_end_in_time,
    lines_are_paid_for,
    one_started_before,
    started_first,
    stopped_before,
)
from tests.faults.stories import SCENARIOS
from tests.faults.whole_gangs import GANG
from tests.faults.world import World


class Watched(Protocol):
    """A run of the campaign, or an exploration of the model."""

    @property
    def watch(self) -> HasBroken: ...


class HasBroken(Protocol):
    @property
    def broken(self) -> list[Broken]: ...


Hunt = Callable[[], Iterator[Watched]]


@dataclass(frozen=True)
class Mutant:
    name: str
    change: Callable[[], AbstractContextManager[Any]]
    hunt: Hunt
    promise: str = ""
    """The promise that it must break; empty: any."""


def caught(mutant: Mutant) -> Broken | None:
    """The promise that the mutant breaks; None: it survives. Raises AssertionError if its change
    does not fit the code any more: that breaks promises, too, and proves nothing."""
    with mutant.change():
        for world in mutant.hunt():
            for broken in world.watch.broken:
                assert "a bug: TypeError" not in broken.what, (mutant.name, broken.what)
                if not mutant.promise or broken.promise == mutant.promise:
                    return broken
    return None


# --- where they are hunted


def crash(name: str, *modes: str, kind: str = BEFORE, first: int | None = None) -> Hunt:
    """The crash points of one scenario, each moment once, after an undisturbed run. `first`: before
    all others the one at this call, which has shown the mutant."""

    def hunt() -> Iterator[Watched]:
        scenario = next(each for each in SCENARIOS if each.name == name)
        calls, world = crashes.count_calls(scenario)
        yield world
        if first is not None:
            yield crashes.run(scenario, Crash(first, kind, modes[0]))
        points = [*crashes.crash_points(calls)]
        for mode in modes:
            yield from tried(scenario, (p for p in points if (p.kind, p.mode) == (kind, mode)))

    return hunt


def race(name: str, most: int = 500, first: Mapping[int, int] | None = None) -> Hunt:
    """The schedules of one case. `first`: before all others the one with these switches (at which
    choice, to which handler), which has shown the mutant: the search need not come to it."""

    def hunt() -> Iterator[World]:
        case = next(each for each in interleavings.CASES if each.name == name)
        if first:
            yield interleavings.run(case, Schedule(first))
        for _, world in interleavings.exhaustively(case, most):
            yield world

    return hunt


def undisturbed(name: str, look: Callable[[World], str]) -> Hunt:
    """One scenario without crashes, checked for what must hold in its end without them."""

    def hunt() -> Iterator[World]:
        scenario = next(each for each in SCENARIOS if each.name == name)
        _, world = crashes.count_calls(scenario)
        if wrong := look(world):
            world.watch.note(CONVERGENT, wrong)
        yield world

    return hunt


# --- what is broken


def without_condition(
    module: ModuleType, function: str, *wanted: str
) -> Callable[[], AbstractContextManager[Any]]:
    """The expression without these parts of its condition, or without all of it."""
    right = getattr(module, function)

    def wrong(*args: Any, **kwargs: Any) -> dict[str, Any]:
        built = dict(right(*args, **kwargs))
        parts = built.pop("ConditionExpression", "").split(" AND ")
        left = [part for part in parts if part and wanted and not part.startswith(wanted)]
        if left:
            built["ConditionExpression"] = " AND ".join(left)
        return _trimmed(built)

    return lambda: patch.object(module, function, wrong)


def _trimmed(expression: dict[str, Any]) -> dict[str, Any]:
    """Without placeholders that are no longer used."""
    texts = " ".join(text for key, text in expression.items() if key.endswith("Expression"))
    words = set(texts.replace("(", " ").replace(")", " ").replace(",", " ").split())
    for kind in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        kept = {key: value for key, value in expression.pop(kind, {}).items() if key in words}
        if kept:
            expression[kind] = kept
    return expression


def _at_create(change: Callable[[Any, int], Any]) -> AbstractContextManager[Any]:
    """Change the attempt after its intent was committed, differently in each create."""
    numbers = itertools.count()
    right = Effects._create

    def wrong(self: Effects, job: Job, attempt: Any, *more: Any) -> Any:
        other = change(attempt, next(numbers))
        with patch.object(self._training, "create", _under(self._training.create, other)):
            return right(self, job, attempt, *more)

    return patch.object(Effects, "_create", wrong)


def _tokens_by_chance() -> AbstractContextManager[Any]:
    return _at_create(lambda attempt, number: replace(attempt, token=f"token-{number}"))


def _names_by_chance() -> AbstractContextManager[Any]:
    return _at_create(
        lambda attempt, number: replace(attempt, training_job=f"{attempt.training_job}-{number}")
    )


def _under(create: Callable[..., Any], attempt: Any) -> Callable[..., Any]:
    return lambda request, job, _: create(request, job, attempt)


def _freed_at_the_stop() -> AbstractContextManager[Any]:
    """Slots come free when SageMaker accepts the stop, not when the job has ended."""

    def wrong(self: Effects, job: Job) -> Change:
        return self.observing.end(job, retry.Ending.STOPPED, self._clock.now(), "")

    return patch.object(Effects, "_stop_sent", wrong)


def _never_confirmed() -> AbstractContextManager[Any]:
    return patch.object(Observing, "created", lambda *_, **__: None)


@contextmanager
def _any_attempt() -> Iterator[None]:
    """Events of an older attempt count for the live one, whatever their token."""
    observe = Observing.observe

    def any_live(job: Job, _: str) -> bool:
        return job.attempt is not None

    def without_token(self: Observing, observation: Observation) -> Any:
        return observe(self, replace(observation, token=None))

    with (
        patch.object(attempt_changes, "is_live", any_live),
        patch.object(Observing, "observe", without_token),
    ):
        yield


def _changes_share_their_fate() -> AbstractContextManager[Any]:
    """Where a transaction of several attempts' changes is refused, none of them is tried alone."""
    right = AttemptChanges._together

    def wrong(self: AttemptChanges, ready: Any, known: KnownHealth) -> Iterator[Any]:
        if len(ready) == 1:
            yield from right(self, ready, known)
            return
        try:
            jobs = self._store.decisions.commit([this.change for this in ready])
        except Conflict as error:
            yield from ((this.number, error) for this in ready)
        else:
            for this, after in zip(ready, jobs, strict=True):
                yield this.number, self._changed([(this.wanted, this.change, after)], known)[0]

    return patch.object(AttemptChanges, "_together", wrong)


def _cancelled_starts_are_taken_back() -> AbstractContextManager[Any]:
    """A start that is taken back is so whatever has become of it."""
    right = apply.not_started

    def wrong(job: Job, before: Job, after: Job) -> Job | None:
        restored = right(after, before, after)
        return restored and replace(restored, version=job.version)

    return patch.object(effects, "not_started", wrong)


def _place_lost() -> AbstractContextManager[Any]:
    """An evicted job gets a new entry time."""

    def wrong(job: Job, state: JobState, *, at: int, **fields: Any) -> Job:
        if state is JobState.PREEMPTED:
            fields["entry_time"] = at
        return move(job, state, at=at, **fields)

    return patch.object(retry, "move", wrong)


def _cancel_comes_too_late() -> AbstractContextManager[Any]:
    """A job that is being evicted cannot be cancelled."""
    right = apply.cancelled

    def wrong(job: Job, by: str, now: int) -> Job:
        return job if job.state is JobState.STOPPING else right(job, by, now)

    from slotq_core.operations.jobs import changes

    return patch.object(changes, "cancelled", wrong)


@contextmanager
def _index_reads() -> Iterator[None]:
    """Decisions use reads that lag behind, as an index does."""
    right = calls.TableCalls.query

    def wrong(self: Any, expression: Any, *, limit: Any = None, **_: Any) -> Any:
        return right(self, expression, limit=limit, consistent=False)

    with patch.object(calls.TableCalls, "query", wrong):
        yield


def _lease_for_ever() -> AbstractContextManager[Any]:
    right = DynamoScheduler.take_lease

    def wrong(self: DynamoScheduler, holder: str, *, now: int, **more: Any) -> Any:
        return right(self, holder, now=now - 10**9, **more)

    return patch.object(DynamoScheduler, "take_lease", wrong)


def _never_found_stale() -> AbstractContextManager[Any]:
    return patch.multiple(Effects, stale=lambda *_: [], due=lambda *_: [])


def _never_reconciled() -> AbstractContextManager[Any]:
    return patch.object(Reconciler, "run_if_due", lambda *_, **__: [])


def _deaf() -> AbstractContextManager[Any]:
    """No trigger raises the generation."""
    return patch.object(DynamoScheduler, "bump", lambda _: None)


def _held_leases_swallow_bumps() -> AbstractContextManager[Any]:
    """An event's bump does not count while another handler holds the lease."""
    right = dynamodb_expressions.bump_and_take_lease

    def wrong(holder: str, until: int) -> dict[str, Any]:
        built = dict(right(holder, until))
        built["UpdateExpression"] = built["UpdateExpression"].replace(
            "ADD generation :one", "ADD moves :one"
        )
        return built

    return patch.object(dynamodb_expressions, "bump_and_take_lease", wrong)


def _changes_are_not_announced() -> AbstractContextManager[Any]:
    """What calls for no pass moves no version."""
    return patch.object(DynamoScheduler, "announce", lambda _: None)


def _passes_are_not_announced() -> AbstractContextManager[Any]:
    """A pass ends its lease as if it had changed nothing."""
    return patch.object(dynamodb_expressions, "also_moves", lambda expression: expression)


def _touches_remembered_too_long() -> AbstractContextManager[Any]:
    """A container relies on a touch from before a pass may have removed the line."""
    return patch.object(line_bounds, "KEPT_FOR", 4 * LINE_KEPT)


def _all_is_seen_to() -> AbstractContextManager[Any]:
    """Giving the lease back marks all news as handled, also those that came during the pass."""
    right = dynamodb_expressions.end_lease

    def wrong(holder: str, generation: int | None) -> dict[str, Any]:
        built = dict(right(holder, None))
        if generation:
            built["UpdateExpression"] = "SET seen = generation REMOVE #holder, #until"
        return built

    return patch.object(dynamodb_expressions, "end_lease", wrong)


def _one_transaction_less() -> AbstractContextManager[Any]:
    """A job's copies are written after its own item, not with it."""
    right = calls.TableCalls.transact

    def wrong(self: Any, actions: Any) -> None:
        for action in actions:
            right(self, [action])

    return patch.object(calls.TableCalls, "transact", wrong)


def _never_recorded() -> AbstractContextManager[Any]:
    """The end of an attempt leaves no record of what it used."""
    return patch.object(changed_items, "record_of", lambda *_: None)


def _one_record_a_job() -> AbstractContextManager[Any]:
    """The record of a job's second attempt overwrites that of the first."""
    right = record_of

    def wrong(change: Change, history: int) -> Any:
        record = right(change, history)
        return record and replace(record, position=record.use.job)

    return patch.object(changed_items, "record_of", wrong)


def _answers_of_creates(rows: tuple[ErrorRow, ...]) -> AbstractContextManager[Any]:
    training = replace(OPERATIONS[WorkKind.TRAINING], create=rows)
    return patch.dict(OPERATIONS, {WorkKind.TRAINING: training})


def _refusals_end_jobs() -> AbstractContextManager[Any]:
    """A refusal for a missing right counts as a final refusal of the request."""
    rows = tuple(
        replace(row, verdict=Verdict.FAIL) if row.verdict in RIGHTS else row
        for row in sagemaker_errors.CREATE
    )
    return _answers_of_creates(rows)


def _refusals_are_believed() -> AbstractContextManager[Any]:
    """A refused create is not checked for an earlier create without an answer."""
    return patch.object(SageMakerTraining, "_unless_there", lambda *asked: asked[-1])


def _a_role_closes_the_pool() -> AbstractContextManager[Any]:
    right = pool_lessons.Lessons._refused

    def wrong(self: Any, known: Any, pool: str, _: str, *said: str) -> bool:
        return right(self, known, pool, EVERYBODY, *said)

    return patch.object(pool_lessons.Lessons, "_refused", wrong)


def _unseen_interruptions_are_running_time() -> AbstractContextManager[Any]:
    return patch.object(observing, "with_unseen", lambda job, *_, **__: job)


def _interruptions_are_running_time() -> AbstractContextManager[Any]:
    changes = ExitStack()
    changes.enter_context(patch.object(observing, "interrupted", lambda *_: None))
    changes.enter_context(_unseen_interruptions_are_running_time())
    return changes


def _waits_end_jobs() -> AbstractContextManager[Any]:
    right = observing._ending
    return patch.object(
        observing, "_ending", lambda seen, at: right(replace(seen, max_wait=False), at)
    )


def _no_lesson_of_spot() -> AbstractContextManager[Any]:
    """The job waits again, and its pool does not back off."""
    return patch.object(pool_lessons.Lessons, "_no_capacity", lambda *_: False)


def _a_pool_learns_from_another_quota() -> AbstractContextManager[Any]:
    """The quota's name is not read: the refusal is one of the pool's own."""
    own = tuple(
        replace(row, verdict=Verdict.BACK_OFF) if row.verdict is Verdict.OTHER_QUOTA else row
        for row in sagemaker_errors.CREATE
    )
    changes = ExitStack()
    changes.enter_context(_answers_of_creates(own))
    changes.enter_context(patch.object(observing, "is_of_the_job", lambda *_: False))
    changes.enter_context(patch.object(pool_lessons, "limit_of", _any_limit))
    return changes


def _any_limit(_: Any, quota: Any) -> int | None:
    return quota.limit if quota else None


def _another_quota_closes_every_pool() -> AbstractContextManager[Any]:
    """A refusal by another quota counts as one by the quota of all training jobs."""

    def wrong(text: str, work: WorkKind) -> ServiceQuota | None:
        right = quota_in(text, work)
        return replace(right, instance_type="", all_training=True) if right else None

    changes = ExitStack()
    changes.enter_context(_a_pool_learns_from_another_quota())
    changes.enter_context(patch.object(sagemaker_errors, "quota_in", wrong))
    return changes


def _a_right_never_returns() -> AbstractContextManager[Any]:
    return patch.object(missing_rights, "rests", lambda *_: True)


def _never_audited() -> AbstractContextManager[Any]:
    return patch.object(Admitter, "audit", lambda *_: None)


def _opens_any_line() -> AbstractContextManager[Any]:
    """A user's change is committed as a pass's is."""

    def wrong(self: Admitter, change: Change, *, by: str) -> Any:
        return self._store.decisions.commit([change])

    return patch.object(Admitter, "entering", wrong)


def _unconditional_line_update(
    update: str, more: str, values: dict[str, Any], **_: Any
) -> dict[str, Any]:
    return {"UpdateExpression": update + more, "ExpressionAttributeValues": values}


def _nobody_pays() -> AbstractContextManager[Any]:
    """An audit finds no opener."""

    def wrong(limits: Any, people: Any, lines: Any, known: Any) -> Any:
        return right(limits, people, [replace(line, opener="") for line in lines], known)

    right = caller_limits.payers
    return patch.object(caller_limits, "payers", wrong)


def _lines_never_corrected() -> AbstractContextManager[Any]:
    right = DynamoCounters.correct

    def wrong(self: DynamoCounters, caller: str, seen: Any, **more: Any) -> None:
        right(self, caller, seen, **{**more, "lines": seen.lines})

    return patch.object(DynamoCounters, "correct", wrong)


def _attempts_come_early() -> AbstractContextManager[Any]:
    """Any pass ends a back-off."""
    return patch.object(settle, "backed_off", lambda *_: True)


def _counted_by_a_write_of_its_own() -> AbstractContextManager[Any]:
    """A failed attempt is counted first, and the job backs off then."""
    right = DynamoDecisions.commit

    def wrong(self: DynamoDecisions, changes: Any, **more: Any) -> Any:
        one = changes[0]
        if one.after.cause != NOT_SCHEDULED or not one.before.waits:
            return right(self, changes, **more)
        counted = replace(one.before, schedule_attempts=one.after.schedule_attempts)
        (kept,) = right(self, [replace(one, after=counted)], **more)
        return right(self, [replace(one, before=kept)], **more)

    return patch.object(DynamoDecisions, "commit", wrong)


def _pools_kept_too_long() -> AbstractContextManager[Any]:
    """The kept jobs of a pool count, whatever the pool's ledger says."""
    right = PoolReader._as_kept

    def wrong(self: PoolReader, pool: Any, ledgers: Any, now: int) -> Any:
        kept = self._kept.get(pool.name)
        return kept.read if kept else right(self, pool, ledgers, now)

    return patch.object(PoolReader, "_as_kept", wrong)


def _configuration_kept_too_long() -> AbstractContextManager[Any]:
    return patch.object(dynamodb_configuration, "_label", lambda _: {"revision": {"N": "1"}})


def _ends_unknown_until_the_tick() -> AbstractContextManager[Any]:
    """A load knows only what the last tick has added up."""
    return patch.object(loading, "spending", lambda stand, *_: stand.spent)


def _stopped_in_its_grace() -> AbstractContextManager[Any]:
    """The stop follows the marker at once."""
    right = Suspends.in_grace

    def wrong(self: Suspends, *args: Any, **options: Any) -> bool:
        right(self, *args, **options)
        return False

    return patch.object(Suspends, "in_grace", wrong)


@contextmanager
def _grace_forgotten() -> Iterator[None]:
    """Only the process that has asked a script knows of its grace."""

    def others_are_over(self: Suspends, job: Job) -> bool:
        return not self.has_asked(job)

    right = Suspends.in_grace

    def wrong(self: Suspends, job: Job, attempt: Any, **options: Any) -> bool:
        assert attempt.stop is not None
        fresh = attempt.stop.at == self._clock.now()
        return (fresh or self.has_asked(job)) and right(self, job, attempt, **options)

    with (
        patch.object(Suspends, "is_over", others_are_over),
        patch.object(Suspends, "in_grace", wrong),
    ):
        yield


def _graces_never_end() -> AbstractContextManager[Any]:
    """A pass looks only for intents of dead handlers."""
    return patch.object(Effects, "due", Effects.stale)


def _never_asked_again() -> AbstractContextManager[Any]:
    """Nobody asks for a handler that died before it asked."""
    right = Effects.due

    def wrong(self: Effects, jobs: Any) -> list[Job]:
        stale = {job.name for job in self.stale(jobs)}
        return [
            job
            for job in right(self, jobs)
            if grace_ends(job) is None or self._suspends.is_over(job) or job.name in stale
        ]

    return patch.object(Effects, "due", wrong)


def _no_alarm() -> AbstractContextManager[Any]:
    """No pass comes at the end of a grace, before the next tick."""
    return patch.object(MessageAlarm, "ring_at", lambda *_: None)


def _cancel_waits_for_the_grace() -> AbstractContextManager[Any]:
    right = apply.cancelled

    def wrong(job: Job, by: str, now: int) -> Job:
        after = right(job, by, now)
        if after.attempt is None or after.attempt.stop is None:
            return after
        order = replace(after.attempt.stop, grace_until=grace_ends(job))
        return replace(after, attempt=replace(after.attempt, stop=order))

    from slotq_core.operations.jobs import changes

    return patch.object(changes, "cancelled", wrong)


def _releases_fail_jobs() -> AbstractContextManager[Any]:
    """A release is a failure, and uses a retry."""
    failures = {**observing._FAILURES, Verdict.RELEASED: retry.Ending.FAILED}
    return patch.object(observing, "_FAILURES", failures)


def _releases_are_not_counted() -> AbstractContextManager[Any]:
    return patch.object(suspend, "MOST_RELEASES", 1_000)


def _ends_are_kept_to_themselves() -> AbstractContextManager[Any]:
    """Nobody tells the jobs that wait for an ended job."""
    return patch.object(Followers, "notify_dependents", lambda *_, **__: None)


def _goals_are_noted_only() -> AbstractContextManager[Any]:
    """Nobody goes on with the cancels of a handler that has died after it noted the goal."""
    right = SweepGoals.take_in

    def wrong(self: SweepGoals, ended: Job, *, until: int) -> list[Job]:
        stored = self._store.groups.get(ended.group) if ended.group else None
        return [] if stored and stored.met_by else right(self, ended, until=until)

    return patch.object(SweepGoals, "take_in", wrong)


def _silence_is_forgiven() -> AbstractContextManager[Any]:
    """Nobody stops a member that has missed its group's heartbeat."""
    return patch.object(settle, "heartbeats_missed", lambda _: ())


def _told_after_it_is_settled() -> AbstractContextManager[Any]:
    """An end counts as handed on before the jobs that wait for it are told."""
    right = Followers.notify_dependents

    def wrong(self: Followers, ended: Job, *, until: int) -> None:
        (settled,) = self._store.decisions.commit(
            [Change(before=ended, after=replace(ended, followed=False))]
        )
        right(self, settled, until=until)

    return patch.object(Followers, "notify_dependents", wrong)


def _only_the_first_part_is_counted() -> AbstractContextManager[Any]:
    """A job over several pools takes its whole demand from the first."""

    def wrong(job: Job) -> tuple[tuple[str, Demand], ...]:
        return ((job.attempt.pool, job.demand),) if job.attempt else ()

    return patch.object(Job, "holds", property(wrong))


@contextmanager
def _nobody_is_followed() -> Iterator[None]:
    """A job comes after another without the other's knowledge."""
    unconditional = without_condition(dynamodb_expressions, "is_awaited", "followed")
    with unconditional(), patch.object(Followers, "follow", lambda *_: None):
        yield


def _the_watch_is_not_passed_on() -> AbstractContextManager[Any]:
    """The end of a group's watch counts as handed on, and no other member is followed."""

    def wrong(self: GroupWatch, ended: Job) -> GroupProgress:
        stored = self._store.groups.get(ended.group)
        assert stored is not None
        return progress_of(stored.group, self._until_living(stored.group))

    return patch.object(GroupWatch, "watched", wrong)


def _nobody_is_told_of_a_group() -> AbstractContextManager[Any]:
    """A job is stored after a group, whatever has become of the group's watch."""
    right = transactions.submit_actions
    return patch.object(
        transactions, "submit_actions", lambda name, job, request, _: right(name, job, request)
    )


def _unfinished_groups_are_loaded() -> AbstractContextManager[Any]:
    """A load counts the jobs of groups without a record."""
    right = DynamoGroups.of

    def wrong(self: DynamoGroups, names: Iterable[str]) -> Mapping[str, Group]:
        asked = {*names} - {""}
        free = {name: Group(name=name, members=(), max_parallel=99) for name in asked}
        return {**free, **right(self, asked)}

    return patch.object(DynamoGroups, "of", wrong)


def _no_group_looks_for_an_opening() -> AbstractContextManager[Any]:
    """A whole group is stored beside another submission of its name."""
    right = transactions.group_actions

    def wrong(name: str, stored: StoredGroup, *, is_open: bool) -> list[Any]:
        found = right(name, stored, is_open=is_open)
        return found if is_open else found[:1]

    return patch.object(transactions, "group_actions", wrong)


def _unfinished_groups_are_left() -> AbstractContextManager[Any]:
    """Nobody finishes what a dead handler has begun."""
    return patch.object(groups.GroupsOfJobs, "finish", lambda *_, **__: ())


def _any_job_of_the_name_is_the_batchs() -> AbstractContextManager[Any]:
    """A batch takes whatever is stored under a name for the job that it submits."""

    def wrong(self: Any, number: int, known: Job) -> bool:
        self._done(number, ChangedJob(job=known, written=False))
        return True

    return patch.object(batches._Batch, "_found", wrong)


def _a_batch_answers_before_it_is_stored() -> AbstractContextManager[Any]:
    """A refused transaction of a batch is taken for a stored one."""
    right = batches._Batch._stores

    def wrong(self: Any, part: Any, configuration: Any) -> bool:
        if not right(self, part, configuration):
            for number, admitted in part:
                self._done(number, ChangedJob(job=admitted.job, written=True))
        return True

    return patch.object(batches._Batch, "_stores", wrong)


def _a_batch_asks_for_no_pass() -> AbstractContextManager[Any]:
    right = batches.Batches.submit

    def wrong(self: Any, *args: Any, **more: Any) -> Any:
        with patch.object(self, "_wake", lambda: None):
            return right(self, *args, **more)

    return patch.object(batches.Batches, "submit", wrong)


def _a_batch_refuses_what_comes_behind_an_untried_job() -> AbstractContextManager[Any]:
    right = batches._waves

    def wrong(members: Any) -> Any:
        return [dict.fromkeys(wave, ()) for wave in right(members)]

    return patch.object(batches, "_waves", wrong)


@contextmanager
def _refusals_do_not_count() -> Iterator[None]:
    for_ever = 10**9
    with (
        patch.object(setbacks, "MOST_ALIKE", for_ever),
        patch.object(setbacks, "MOST_REFUSALS", for_ever),
    ):
        yield


def _no_ledger_awaits_a_revision() -> AbstractContextManager[Any]:
    """Passes take the ledgers of a change in parts for broken ones."""
    return patch("slotq_core.adapters.dynamodb.held_slots.since_of", lambda _: 0)


def _no_change_is_taken_back() -> AbstractContextManager[Any]:
    return patch.object(dynamodb_configuration.DynamoConfiguration, "take_back", lambda *_: None)


def _any_ledger_is_sound() -> AbstractContextManager[Any]:
    right = items.ledger_of

    def wrong(item: Any) -> Any:
        return right({"version": {"N": "1"}, **item}) if "version" not in item else right(item)

    return patch("slotq_core.adapters.dynamodb.held_slots.ledger_of", wrong)


def met(label: str) -> Callable[[World], str]:
    """That somebody's submission has met a limit."""
    return lambda world: "" if label in world.limited else f"{label} has met no limit"


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a sweep's limit is of one pool",
        without_condition(dynamodb_expressions, "decide_about_groups"),
        race("two_passes_start_members_in_two_pools"),
        PARALLEL,
    ),
    Mutant(
        "a member joins whom another pass evicts",
        without_condition(dynamodb_expressions, "decide_about_groups"),
        race("a_member_joins_while_its_gang_is_evicted", first={14: 2, 39: 1}),
        GANG,
    ),
    Mutant(
        "a decision in parts is met by nobody",
        broken_gangs.met_by_nobody,
        crash("a_gang_starts_in_parts", SILENT, first=202),
        CONVERGENT,
    ),
    Mutant(
        "effects before the last part",
        broken_gangs.effects_of_each_part,
        undisturbed("a_gang_starts_in_parts", lambda _: ""),
        GANG,
    ),
    Mutant(
        "a start in parts is not undone",
        broken_gangs.undone_by_nobody,
        race("a_mandatory_member_is_cancelled_while_its_gang_starts_in_parts", first={15: 1}),
        GANG,
    ),
    Mutant(
        "a part does not ask for its record",
        broken_gangs.parts_without_their_record,
        race(
            "a_mandatory_member_is_cancelled_while_its_gang_starts_in_parts", first={21: 1, 28: 2}
        ),
        GANG,
    ),
    Mutant(
        "a start in parts goes on without a member",
        broken_gangs.started_without_the_rest,
        race("a_mandatory_member_is_cancelled_while_its_gang_starts_in_parts", first={15: 1}),
        GANG,
    ),
    Mutant(
        "who changes meanwhile is not evicted with its gang",
        broken_gangs.changed_members_are_spared,
        race("a_member_runs_while_its_gang_is_evicted_in_parts", first={20: 2}),
        GANG,
    ),
    Mutant(
        "a member goes on after its server",
        broken_gangs.one_goes_on_without_its_server,
        undisturbed("a_federated_job_ends_with_its_server", lambda _: ""),
        GANG,
    ),
    Mutant(
        "a reconciliation starts half a gang",
        broken_gangs.reconciled_too_early,
        crash("a_gang_starts_in_parts_at_a_tick", TOLD, first=274),
        GANG,
    ),
    Mutant(
        "unfinished groups are loaded",
        _unfinished_groups_are_loaded,
        crash("a_sweep_is_stored_in_parts", TOLD),
        WHOLE,
    ),
    Mutant(
        "unfinished groups are left",
        _unfinished_groups_are_left,
        crash("a_sweep_is_stored_in_parts", SILENT),
        CONVERGENT,
    ),
    Mutant(
        "any job of the name is the batch's",
        _any_job_of_the_name_is_the_batchs,
        race("two_batches_with_a_common_name"),
        LOST,
    ),
    Mutant(
        "a batch answers before it is stored",
        _a_batch_answers_before_it_is_stored,
        race("two_batches_with_a_common_name"),
        LOST,
    ),
    Mutant(
        "a batch asks for no pass",
        _a_batch_asks_for_no_pass,
        race("a_batch_beside_a_pass_that_ends"),
        CONVERGENT,
    ),
    Mutant(
        "a batch refuses what comes behind an untried job",
        _a_batch_refuses_what_comes_behind_an_untried_job,
        crash("a_batch_is_stored_in_parts", TOLD, kind=THROTTLED, first=35),
        LOST,
    ),
    Mutant(
        "no group looks for an opening",
        _no_group_looks_for_an_opening,
        race("two_groups_of_one_name"),
        WHOLE,
    ),
    Mutant(
        "a group is withdrawn that is begun again",
        without_condition(dynamodb_expressions, "withdraw_group"),
        race("a_group_is_finished_while_it_is_withdrawn", first={4: 1, 12: 0}),
    ),
    Mutant(
        "a caller's count has no limit",
        without_condition(dynamodb_expressions, "count_submissions"),
        undisturbed("submissions_meet_the_limit_of_a_minute", met("submit c")),
        CONVERGENT,
    ),
    Mutant(
        "nobody audits the counts",
        _never_audited,
        crash("submissions_meet_the_limit_of_what_waits", TOLD),
        CONVERGENT,
    ),
    Mutant(
        "a change opens any line",
        _opens_any_line,
        undisturbed("amendments_open_lines", lines_are_paid_for(5)),
        CONVERGENT,
    ),
    Mutant(
        "a change need not find its line",
        lambda: patch.object(dynamodb_expressions, "_line_update", _unconditional_line_update),
        undisturbed("amendments_open_lines", lines_are_paid_for(5)),
        CONVERGENT,
    ),
    Mutant(
        "no condition on the count of lines",
        without_condition(dynamodb_expressions, "count_line"),
        undisturbed("amendments_open_lines", lines_are_paid_for(5)),
        CONVERGENT,
    ),
    Mutant(
        "nobody pays for an empty line",
        _nobody_pays,
        undisturbed("amendments_open_lines", lines_are_paid_for(5)),
        CONVERGENT,
    ),
    Mutant(
        "nobody audits the lines",
        _lines_never_corrected,
        crash("amendments_open_lines", TOLD, SILENT),
        CONVERGENT,
    ),
    Mutant(
        "no condition on a job's version",
        without_condition(dynamodb_expressions, "job_unchanged"),
        race("cancel_and_pass"),
    ),
    Mutant(
        "no condition on the ledger",
        without_condition(dynamodb_ledger_expressions, "change_use"),
        race("two_passes_decide_differently"),
        CAPACITY,
    ),
    Mutant(
        "a pass mends what a change in parts has made of a ledger",
        _no_ledger_awaits_a_revision,
        race("pools_go_in_parts_beside_a_pass", first={9: 1, 64: 2}),
        CAPACITY,
    ),
    Mutant(
        "a change in parts ends that was taken back",
        without_condition(dynamodb_expressions, "next_revision", "changing"),
        race("a_change_in_parts_is_taken_back_while_its_handler_sleeps"),
        CAPACITY,
    ),
    Mutant(
        "nobody takes a change back",
        _no_change_is_taken_back,
        crash("the_pools_change_in_parts", SILENT),
        CONVERGENT,
    ),
    Mutant(
        "a name may be given twice",
        without_condition(dynamodb_expressions, "is_new"),
        race("the_same_submit_twice"),
        LOST,
    ),
    Mutant(
        "a line is removed though somebody has come",
        without_condition(dynamodb_expressions, "line_untouched"),
        race("submit_beside_a_pass_that_removes_its_line"),
        LOST,
    ),
    Mutant("tokens by chance", _tokens_by_chance, crash("submit_and_complete", TOLD), ONE_LIVE),
    Mutant("names by chance", _names_by_chance, crash("submit_and_complete", TOLD), ONE_LIVE),
    Mutant(
        "slots come free at the stop",
        _freed_at_the_stop,
        crash("cancel_while_stopping", TOLD),
        CAPACITY,
    ),
    Mutant(
        "a create is never confirmed", _never_confirmed, crash("cancel_running", SILENT), CONVERGENT
    ),
    Mutant("any attempt's news count", _any_attempt, crash("one_evicts_three", NOISY)),
    Mutant(
        "ends of one transaction share their fate",
        _changes_share_their_fate,
        race("an_event_beside_a_tick_that_finds_the_end"),
        CONVERGENT,
    ),
    Mutant(
        "a start that is taken back forgets the cancel",
        _cancelled_starts_are_taken_back,
        race("a_cancel_beside_starts_that_are_taken_back"),
    ),
    Mutant(
        "a refusal leaves further starts to be refused",
        lambda: patch.object(Effects, "take_back", lambda *_: None),
        undisturbed("a_quota_refuses_the_third_of_five_starts", creates_at_most(7)),
        CONVERGENT,
    ),
    Mutant("an evicted job enters anew", _place_lost, crash("preempt_chain", TOLD), PLACE),
    Mutant(
        "an eviction beats the cancel", _cancel_comes_too_late, crash("cancel_while_stopping", TOLD)
    ),
    Mutant("decisions rest on an index", _index_reads, crash("third_of_two_waits", TOLD)),
    Mutant("a lease never ends", _lease_for_ever, crash("submit_and_complete", TOLD)),
    Mutant(
        "dead handlers' intents are left",
        _never_found_stale,
        crash("submit_and_complete", TOLD),
        CONVERGENT,
    ),
    Mutant("nothing is reconciled", _never_reconciled, crash("submit_and_complete", SILENT)),
    Mutant(
        "a touch is remembered for longer than its line is kept",
        _touches_remembered_too_long,
        race("submit_beside_a_pass_that_removes_its_line"),
        LOST,
    ),
    Mutant(
        "changes without a pass are hidden from lists",
        _changes_are_not_announced,
        crash("submit_and_complete", TOLD),
        ANNOUNCED,
    ),
    Mutant(
        "a pass hides its changes from lists",
        _passes_are_not_announced,
        crash("submit_and_complete", TOLD),
        ANNOUNCED,
    ),
    Mutant(
        "a bump is merged away",
        _held_leases_swallow_bumps,
        race("event_beside_a_pass_that_ends"),
        CONVERGENT,
    ),
    Mutant("nobody bumps", _deaf, race("submit_beside_a_pass_that_ends"), CONVERGENT),
    Mutant(
        "a pass takes all news for its own",
        _all_is_seen_to,
        race("submit_beside_a_pass_that_ends"),
        CONVERGENT,
    ),
    Mutant(
        "a refusal for want of a right ends the job",
        _refusals_end_jobs,
        crash("the_right_to_create_vanishes"),
        BLAMELESS,
    ),
    Mutant(
        "an interruption is running time",
        _interruptions_are_running_time,
        crash("spot_never_comes_back"),
    ),
    Mutant(
        "an interruption without an event is running time",
        _unseen_interruptions_are_running_time,
        crash("spot_never_comes_back", SILENT),
    ),
    Mutant("the end of the wait for spot ends the job", _waits_end_jobs, crash("spot_never_comes")),
    Mutant(
        "a spot pool that has no instances is tried again at once",
        _no_lesson_of_spot,
        undisturbed("spot_never_comes", completes_in("a", "q")),
    ),
    Mutant(
        "a pool learns from another quota",
        _a_pool_learns_from_another_quota,
        crash("another_quota_refuses"),
        NEIGHBOURS,
    ),
    Mutant(
        "another quota closes every pool",
        _another_quota_closes_every_pool,
        crash("another_quota_refuses"),
        NEIGHBOURS,
    ),
    Mutant(
        "a lost role ends its jobs",
        _refusals_end_jobs,
        crash("a_role_is_wrong_for_a_while"),
        BLAMELESS,
    ),
    Mutant(
        "a refusal is believed after an answer was lost",
        _refusals_are_believed,
        crash("the_right_to_create_vanishes", SILENT, kind=NO_ANSWER),
        CAPACITY,
    ),
    Mutant(
        "a lost role closes its pool to all",
        _a_role_closes_the_pool,
        undisturbed("a_role_is_wrong_for_a_while", started_first("c")),
        CONVERGENT,
    ),
    Mutant(
        "a right never returns",
        _a_right_never_returns,
        crash("the_right_to_create_vanishes"),
        CONVERGENT,
    ),
    Mutant(
        "pools are kept too long",
        _pools_kept_too_long,
        crash("a_federated_job_loses_too_many", TOLD),
        LOST,
    ),
    Mutant(
        "the configuration is kept too long",
        _configuration_kept_too_long,
        crash("a_pool_shrinks_and_grows", TOLD),
    ),
    Mutant(
        "what has ended since the tick is not spent",
        _ends_unknown_until_the_tick,
        undisturbed("a_project_spends_its_budget", one_started_before(400, "a1", "a2")),
        CONVERGENT,
    ),
    Mutant(
        "the stop follows the marker",
        _stopped_in_its_grace,
        crash("asked_to_release", TOLD),
        GRACE,
    ),
    Mutant(
        "a restart forgets the grace",
        _grace_forgotten,
        crash("asked_to_release", TOLD),
        GRACE,
    ),
    Mutant(
        "a grace never ends",
        _graces_never_end,
        undisturbed("asked_to_release", graces_end_in_time),
        CONVERGENT,
    ),
    Mutant(
        "only a tick ends a grace",
        _no_alarm,
        undisturbed("asked_to_release", graces_end_in_time),
        CONVERGENT,
    ),
    Mutant(
        "a handler dies before it asks",
        _never_asked_again,
        crash("asked_in_a_long_grace", TOLD),
        CONVERGENT,
    ),
    Mutant(
        "a cancel waits for the grace",
        _cancel_waits_for_the_grace,
        undisturbed("cancelled_in_its_grace", stopped_before(45, "low")),
        CONVERGENT,
    ),
    Mutant("a release uses a retry", _releases_fail_jobs, crash("releases_by_itself"), LOST),
    Mutant(
        "a script may release for ever",
        _releases_are_not_counted,
        crash("releases_again_and_again"),
        CONVERGENT,
    ),
    Mutant(
        "a job is stored after one that has ended",
        without_condition(dynamodb_expressions, "is_awaited", "jobState"),
        race("submit_after_a_job_that_ends", 3_000),
        CONVERGENT,
    ),
    Mutant(
        "only the first pool of a job is counted",
        _only_the_first_part_is_counted,
        crash("jobs_over_two_pools"),
        CAPACITY,
    ),
    Mutant(
        "an end is not handed on",
        _ends_are_kept_to_themselves,
        crash("jobs_come_after_others"),
        CONVERGENT,
    ),
    Mutant(
        "a goal that is noted has been acted on",
        _goals_are_noted_only,
        crash("a_sweep_meets_its_goal", TOLD, SILENT),
        CONVERGENT,
    ),
    Mutant(
        "a missed heartbeat has no effect",
        _silence_is_forgiven,
        crash("a_silent_member_ends_its_gang"),
        CONVERGENT,
    ),
    Mutant(
        "an end is settled before it is handed on",
        _told_after_it_is_settled,
        crash("jobs_come_after_others", TOLD),
        CONVERGENT,
    ),
    Mutant(
        "nobody knows that others come after",
        _nobody_is_followed,
        crash("jobs_come_after_others"),
        CONVERGENT,
    ),
    Mutant(
        "the watch of a group is not passed on",
        _the_watch_is_not_passed_on,
        crash("jobs_come_after_a_group"),
        CONVERGENT,
    ),
    Mutant(
        "a job is stored after a group whose watch has ended",
        _nobody_is_told_of_a_group,
        race("submit_after_a_group_that_ends", 3_000),
        CONVERGENT,
    ),
    Mutant(
        "any pass tries a job again",
        _attempts_come_early,
        crash("attempts_to_start_are_counted"),
        ATTEMPTS,
    ),
    Mutant(
        "a failed attempt is counted, and a crash counts it again",
        _counted_by_a_write_of_its_own,
        crash("attempts_to_start_are_counted", TOLD),
        ATTEMPTS,
    ),
    Mutant("an end is not recorded", _never_recorded, crash("cancel_running", TOLD), RECORDED),
    Mutant("a job has one record", _one_record_a_job, crash("preempt_chain", TOLD), RECORDED),
    Mutant(
        "a refused decision is tried without end",
        _refusals_do_not_count,
        crash("a_row_that_never_matches", TOLD),
        CONVERGENT,
    ),
    Mutant(
        "what is refused for ever is not put away",
        lambda: patch.object(passes, "without", lambda snapshot, _, more: (snapshot, more)),
        crash("a_row_that_never_matches", TOLD),
        CONVERGENT,
    ),
    Mutant(
        "a ledger needs no version",
        _any_ledger_is_sound,
        crash("a_row_that_never_matches", TOLD),
        CONVERGENT,
    ),
    Mutant(
        "a restore is not remembered",
        lambda: patch.object(DynamoRepair, "last_restore", lambda _: None),
        crash("the_table_is_restored", TOLD),
    ),
    Mutant("no transaction", _one_transaction_less, crash("submit_and_complete", TOLD), LOST),
)
