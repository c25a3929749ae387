"""Change many jobs in one request: one commit per batch, one bump and one wake for all. A retry and
a move to another project count like submissions; each is a commit of its own.

The request has a time budget. Each job that was not reached gets an error, so that the caller can
send that job again: every change may be sent twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slotq_core.errors import Conflict, SlotQError, Unavailable
from slotq_core.model.jobs import Job
from slotq_core.operations.amend import ChangedJob, ChangeRequest, notices_of, orders_stop
from slotq_core.operations.status import Status
from slotq_core.ports.decisions import Decisions
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock

BUDGET = 15_000
"""How long (ms) new changes begin. API Gateway gives up after 29 s; the last changes need part of
that time."""

JOBS_PER_COMMIT = 15
"""Jobs in one transaction, at most. A transaction has at most 100 actions; a change of most jobs
costs up to five, of one that comes after others one more for each, and a pool's ledger one."""

LARGEST_COMMIT = 2_000_000
"""Characters of changed requests in one transaction. DynamoDB's limit is 4 MB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeOutcome:
    """The result of one requested change: the job's status without its place and reason, or the
    error."""

    name: str
    """The name in the request."""
    status: Status | None = None
    """For a retry, the status of the new job."""
    error: SlotQError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Done:
    outcome: ChangeOutcome
    written: bool = False
    """Whether something was written."""


class NotReached(Unavailable):
    """The time budget ended before this change was reached."""


class Bulk:
    """Applies requested changes by the hundred."""

    def __init__(
        self,
        decisions: Decisions,
        clock: Clock,
        *,
        decide: Callable[[ChangeRequest, str], Change | Job],
        apply: Callable[[ChangeRequest, str], ChangedJob],
        stop: Callable[[Job], None],
        wake: Callable[[], None],
    ) -> None:
        """`decide` computes what a requested change does. `apply` commits one change alone. `stop`
        stops the attempt that a committed change stops. Only `wake` requests a pass."""
        self._decisions, self._clock = decisions, clock
        self._decide, self._apply, self._stop, self._wake = decide, apply, stop, wake

    def run(self, changes: Sequence[ChangeRequest], *, by: str) -> list[ChangeOutcome]:
        """Return an outcome for each change, in the given order. A refused change stops no other.

        Raises Unavailable if nothing could be done.
        """
        until = self._clock.now() + BUDGET
        done: list[_Done] = []
        try:
            self._apply_until(until, changes, by, done)
        finally:
            if any(change.written for change in done):
                self._wake()
        outcomes = [change.outcome for change in done]
        return outcomes + [_not_reached(change) for change in changes[len(outcomes) :]]

    def _apply_until(
        self, until: int, changes: Sequence[ChangeRequest], by: str, done: list[_Done]
    ) -> None:
        for batch in _batches(changes):
            if done and self._clock.now() >= until:
                return
            try:
                if batch[0].is_counted:
                    done.append(self._alone(batch[0], by))
                else:
                    self._together(batch, by, done)
            except Unavailable:
                if not done:
                    raise
                return

    def _together(self, batch: Sequence[ChangeRequest], by: str, done: list[_Done]) -> None:
        """Commit the batch in one transaction. Commit each change alone if another handler changes
        one of the jobs meanwhile, if the batch is too large for one transaction, or if a change
        opens a line, which the limits must allow."""
        decided = [self._decided(request, by) for request in batch]
        try:
            jobs = iter(
                self._committed([change for change in decided if isinstance(change, Change)])
            )
        except Conflict:
            done.extend(self._alone(request, by) for request in batch)
            return
        for request, result in zip(batch, decided, strict=True):
            if isinstance(result, SlotQError):
                done.append(_Done(outcome=ChangeOutcome(name=request.name, error=result)))
            elif isinstance(result, Job):
                done.append(_done(request, ChangedJob(job=result, written=False)))
            else:
                job = next(jobs)
                changed = ChangedJob(job=job, written=True, notices=notices_of(result))
                done.append(_done(request, changed))
                if request.stops and orders_stop(result.before, job):
                    self._stop(job)

    def _decided(self, request: ChangeRequest, by: str) -> Change | Job | SlotQError:
        try:
            return self._decide(request, by)
        except Unavailable:
            raise
        except SlotQError as error:
            return error

    def _committed(self, changes: Sequence[Change]) -> Sequence[Job]:
        fits = sum(map(_size, changes)) <= LARGEST_COMMIT
        if not fits or self._decisions.fitting(changes) < len(changes):
            raise Conflict("too large for one transaction")
        return self._decisions.commit(changes, opens_line=False) if changes else ()

    def _alone(self, request: ChangeRequest, by: str) -> _Done:
        try:
            changed = self._apply(request, by)
        except Unavailable:
            raise
        except SlotQError as error:
            return _Done(outcome=ChangeOutcome(name=request.name, error=error))
        return _done(request, changed)


def _batches(requests: Iterable[ChangeRequest]) -> Iterator[list[ChangeRequest]]:
    """Split the changes into batches, in order: no job twice in one batch, each retry and each move
    to another project alone."""
    batch: list[ChangeRequest] = []
    for request in requests:
        if batch and not _joins(request, batch):
            yield batch
            batch = []
        batch.append(request)
    yield batch


def _joins(request: ChangeRequest, batch: Sequence[ChangeRequest]) -> bool:
    return (
        len(batch) < JOBS_PER_COMMIT
        and not request.is_counted
        and not batch[-1].is_counted
        and request.name not in {other.name for other in batch}
    )


def _size(change: Change) -> int:
    return len(json.dumps(change.request)) if change.request is not None else 0


def _done(request: ChangeRequest, changed: ChangedJob) -> _Done:
    status = Status(job=changed.job, notices=changed.notices)
    outcome = ChangeOutcome(name=request.name, status=status)
    return _Done(outcome=outcome, written=changed.written)


def _not_reached(request: ChangeRequest) -> ChangeOutcome:
    error = NotReached("time ran out before this change; send it again")
    return ChangeOutcome(name=request.name, error=error)
