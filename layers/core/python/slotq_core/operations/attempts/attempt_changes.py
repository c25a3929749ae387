"""Change jobs while an attempt is live: one job, or many in as few transactions as hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slotq_core.errors import Conflict, SlotQError
from slotq_core.model.jobs import Job
from slotq_core.operations.attempts.pool_lessons import KnownHealth, Lessons, is_accepted
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import InParallel
from slotq_core.ports.training import CallResult

_TRIES = 20
"""How often a conditional change of one job is tried while others change the same job."""

_MOST_TOGETHER = 50
"""Most changes that are considered for one transaction; each takes two of its actions or more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A change of a job, valid while this training job is the job's live attempt."""

    job: Job | None
    """The job as the caller has read or committed it. It is read again only after a conflict: the
    commit depends on the version, so a job that has changed since is never overwritten."""
    training_job: str
    change: Callable[[Job], Change | None]
    """What changes; None: nothing is left to change. May be called for a newer job again."""
    answer: CallResult | None = None
    """SageMaker's answer that the change follows from, if any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """A job after a change, or unchanged if nothing was left to change."""

    job: Job
    written: bool = False
    calls_for_pass: bool = False
    """Whether a pass may now decide differently."""
    learned: bool = False
    """Whether the change has shown a new fact about the pool."""


Outcome = Changed | SlotQError | None
"""None: the attempt is no longer live."""


class AttemptChanges:
    def __init__(self, store: Store, lessons: Lessons, at_once: InParallel) -> None:
        """Set up the changes. `at_once` decides about several jobs, and changes several pools, at
        once; the store uses another one."""
        self._store, self._lessons, self._at_once = store, lessons, at_once

    def one(self, wanted: Wanted) -> Changed | None:
        """Change the job; retry on conflicts. Returns None if the attempt is no longer live. Raises
        Conflict after `_TRIES` conflicts."""
        found = self._decide(wanted, wanted.job)
        return self._commit(wanted, found) if isinstance(found, Change) else found

    def all(self, wanted: Sequence[Wanted]) -> list[Outcome]:
        """Change several jobs. Returns the outcome of each.

        The jobs of one pool share transactions, because each of these changes the pool's ledger.
        Where a transaction is refused, halves of it are tried, so that a change which has become
        false affects itself alone.
        """
        decided = self._at_once(self._decided, wanted)
        outcomes: dict[int, Outcome] = {}
        by_pool: dict[str, list[_Ready]] = {}
        for number, (this, change) in enumerate(zip(wanted, decided, strict=True)):
            if isinstance(change, Change) and change.before.attempt is not None:
                ready = _Ready(number=number, wanted=this, change=change)
                by_pool.setdefault(change.before.attempt.pool, []).append(ready)
            elif not isinstance(change, Change):
                outcomes[number] = change
        for found in self._at_once(self._in_one_pool, [*by_pool.values()]):
            outcomes |= found
        return [outcomes[number] for number in range(len(wanted))]

    def _decide(self, wanted: Wanted, job: Job | None) -> Change | Changed | None:
        if job is None or not is_live(job, wanted.training_job):
            return None
        return wanted.change(job) or Changed(job=job)

    def _decided(self, wanted: Wanted) -> Change | Outcome:
        try:
            return self._decide(wanted, wanted.job)
        except SlotQError as error:
            return error

    def _commit(self, wanted: Wanted, change: Change) -> Changed | None:
        """Commit one change; after a conflict, the change of the job as it is then."""
        known = self._lessons.known()
        for _ in range(_TRIES):
            (change,) = known.with_starts([change])
            try:
                (after,) = self._store.decisions.commit([change])
            except Conflict:
                found = self._decide(wanted, self._store.jobs.get(change.before.name))
                if not isinstance(found, Change):
                    return found
                change = found
                continue
            return self._changed([(wanted, change, after)], known)[0]
        raise Conflict(f"{wanted.training_job}: its job's record changed {_TRIES} times in a row")

    def _in_one_pool(self, ready: Sequence[_Ready]) -> dict[int, Outcome]:
        found: dict[int, Outcome] = {}
        known = self._lessons.known()
        while ready:
            changes = known.with_starts([this.change for this in ready[:_MOST_TOGETHER]])
            count = self._store.decisions.fitting(changes)
            found |= self._together(ready[:count], known)
            ready = ready[count:]
        return found

    def _together(
        self, ready: Sequence[_Ready], known: KnownHealth
    ) -> Iterator[tuple[int, Outcome]]:
        """Commit in one transaction. Where it is refused, commit each half."""
        if len(ready) == 1:
            yield ready[0].number, self._alone(ready[0])
            return
        changes = known.with_starts([this.change for this in ready])
        try:
            jobs = self._store.decisions.commit(changes)
        except Conflict:
            middle = len(ready) // 2
            yield from self._together(ready[:middle], known)
            yield from self._together(ready[middle:], known)
            return
        except SlotQError as error:
            yield from ((this.number, error) for this in ready)
            return
        made = [
            (this.wanted, change, after)
            for this, change, after in zip(ready, changes, jobs, strict=True)
        ]
        found: Sequence[Outcome]
        try:
            found = self._changed(made, known)
        except SlotQError as error:
            found = [error] * len(ready)
        yield from zip((this.number for this in ready), found, strict=True)

    def _alone(self, ready: _Ready) -> Outcome:
        try:
            return self._commit(ready.wanted, ready.change)
        except SlotQError as error:
            return error

    def _changed(
        self, made: Sequence[tuple[Wanted, Change, Job]], known: KnownHealth
    ) -> list[Changed]:
        taken = [(change, wanted.answer) for wanted, change, _ in made]
        learned = self._lessons.take(taken, known)
        return [
            Changed(
                job=after,
                written=True,
                calls_for_pass=new or _calls_for_pass(change),
                learned=new,
            )
            for (_, change, after), new in zip(made, learned, strict=True)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ready:
    """A change to commit, with its place among the wanted ones."""

    number: int
    wanted: Wanted
    change: Change


def is_live(job: Job, training_job: str) -> bool:
    """Whether this training job is the job's live attempt."""
    return job.attempt is not None and job.attempt.training_job == training_job


def _calls_for_pass(change: Change) -> bool:
    """Whether a pass may decide differently after this change: slots come free, or an attempt may
    now be evicted.

    A start of an attempt, or of SageMaker's search for instances, matters only after some time: by
    a `pending_timeout`, a `min_runtime` or a consolidation. The tick's pass handles those.
    """
    return change.ended is not None or is_accepted(change)
