"""Submit many jobs in one request, each with an answer as if it came alone.

As many new jobs of one project as one transaction holds are counted and stored together, without a
read for each. Only where something is in the way of one of them are they looked up, and the rest
submitted one by one, so that each gets its own refusal. The same request again returns the stored
jobs and goes on with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

from slotq_core.admission.dependencies import Predecessors
from slotq_core.admission.submission import Admitted, After
from slotq_core.errors import (
    Conflict,
    LimitReached,
    NameTaken,
    NotUnderstood,
    QueueFull,
    Refused,
    SlotQError,
    TooManySubmissions,
    TooManyWaiting,
    Unavailable,
)
from slotq_core.model.jobs import Job, Submission
from slotq_core.operations.amend import ChangedJob
from slotq_core.operations.bulk import ChangeOutcome, NotReached
from slotq_core.operations.jobs.submissions import Submissions
from slotq_core.operations.status import Status, bounds_of, notices_of_bounds
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Request

BUDGET = 20_000
"""How long one request stores jobs (ms). API Gateway gives up after 29 s; reading the body and the
last jobs need part of that time."""

_FOR_ALL = (TooManySubmissions, TooManyWaiting, QueueFull)
"""Limits that leave room for no further job of the same caller and project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMember:
    """One job of a batch."""

    name: str
    """Its name as sent; empty if it has none."""
    read: tuple[Submission, Request] | Refused
    """The submission, or why it cannot be read."""


class Batches:
    """The users' verb for many new jobs in one call."""

    def __init__(
        self, store: Store, clock: Clock, submissions: Submissions, *, wake: Callable[[], None]
    ) -> None:
        self._store, self._clock = store, clock
        self._submissions, self._wake = submissions, wake

    def submit(self, members: Sequence[NewMember], *, submitter: str) -> list[ChangeOutcome]:
        """Store the jobs, as far as each may be stored. Returns an outcome for each, in this order;
        NotReached for those that time did not suffice for: they may be sent again.

        A job may come after earlier ones of the batch. Of two with one name, the second is the same
        job or refused. Raises Unavailable if nothing could be done.
        """
        until = self._clock.now() + BUDGET
        batch = _Batch(
            self._store,
            self._clock,
            self._submissions,
            members=members,
            submitter=submitter,
            until=until,
        )
        try:
            batch.run()
        finally:
            if batch.needs_pass:
                self._wake()
        return [
            batch.outcomes.get(number) or _not_reached(member)
            for number, member in enumerate(members)
        ]


class _Batch:
    """One request at work."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        submissions: Submissions,
        *,
        members: Sequence[NewMember],
        submitter: str,
        until: int,
    ) -> None:
        self._store, self._clock, self._submissions = store, clock, submissions
        self._members, self._submitter, self._until = members, submitter, until
        self._stored: dict[str, Job] = {}
        self._full: dict[str, LimitReached] = {}
        """By project, the limit that leaves room for no further job."""
        self._notices: dict[Hashable, tuple[str, ...]] = {}
        self._sent_before = False
        """Whether the latest part that was looked up had stored jobs. Then the next is looked up
        before anything is tried: a refused transaction costs more than reads."""
        self._failure: SlotQError | None = None
        read = [member.read for member in members if not isinstance(member.read, Refused)]
        self._awaited = {name for each, _ in read for name in (*each.after, *each.after_any)}
        self.outcomes: dict[int, ChangeOutcome] = {}
        self.needs_pass = False

    def run(self) -> None:
        """Raises Unavailable if there is no outcome."""
        for number, member in enumerate(self._members):
            if isinstance(member.read, Refused):
                self._refused(number, member.read)
        self._attempt(self._store_all)
        if self._failure is not None and not self.outcomes:
            raise Unavailable(str(self._failure)) from self._failure

    def _store_all(self) -> None:
        configuration, malformed = self._store.configuration.read(), len(self.outcomes)
        for wave in _waves(self._members):
            for part in self._parts(wave, configuration):
                if self._is_late() and len(self.outcomes) > malformed:
                    return
                self._attempt(partial(self._together, part, configuration))

    def _attempt(self, act: Callable[[], object]) -> None:
        """Do something for some of the jobs. If it cannot be done now, they have no outcome."""
        try:
            act()
        except (Unavailable, Conflict) as error:
            self._failure = error

    def _parts(
        self, wave: Mapping[int, Sequence[int]], configuration: Configuration
    ) -> list[Sequence[tuple[int, Admitted]]]:
        """The jobs of a wave in parts that are stored together. Omits those that come behind a job
        that could not be tried."""
        asked: dict[After, Predecessors] = {}
        by_project: dict[str, dict[str, tuple[int, Admitted]]] = {}

        def judge(number: int) -> None:
            admitted = self._admitted(number, configuration, asked)
            if admitted is not None:
                job = admitted.job
                by_project.setdefault(job.project, {})[job.name] = (number, admitted)

        for number, ahead in wave.items():
            if self._is_late():
                break
            if not self.outcomes.keys() >= {*ahead}:
                continue
            if (full := self._limit_of(ahead)) is not None:
                self._attempt(partial(self._despite, number, copy(full)))
            elif not self._is_repeated(number):
                self._attempt(partial(judge, number))
        return [
            [found[each.job.name] for each in part]
            for found in by_project.values()
            for part in self._submissions.in_parts([admitted for _, admitted in found.values()])
        ]

    def _limit_of(self, ahead: Sequence[int]) -> LimitReached | None:
        """The limit that has refused one of these. It leaves no room for a job behind it either,
        which may be sent again with it."""
        errors = (self.outcomes[number].error for number in ahead)
        return next((error for error in errors if isinstance(error, _FOR_ALL)), None)

    def _is_repeated(self, number: int) -> bool:
        """Whether an earlier job of the batch has the name. Then this is the same one, or refused.
        An earlier one that was not stored does not count."""
        submission, _ = self._read(number)
        first = self._stored.get(submission.name)
        if first is None:
            return False
        if not self._found(number, first):
            self._alone(number)
        return True

    def _admitted(
        self, number: int, configuration: Configuration, asked: dict[After, Predecessors]
    ) -> Admitted | None:
        """The job to store; None: the member has its outcome, or nothing could be looked up."""
        submission, request = self._read(number)
        try:
            admitted = self._submissions.judged(
                submission, request, self._submitter, configuration, asked=asked
            )
            self._submissions.check_storable(admitted)
        except Refused as refusal:
            self._despite(number, refusal)
            return None
        except NotUnderstood as error:
            self._refused(number, error)
            return None
        followed = submission.name in self._awaited
        return replace(admitted, job=replace(admitted.job, followed=followed))

    def _together(self, part: Sequence[tuple[int, Admitted]], configuration: Configuration) -> None:
        """Store these jobs in one transaction; or each for itself, if something is in the way."""
        project = part[0][1].job.project
        tries = project not in self._full and not self._sent_before
        if tries and self._stores(part, configuration):
            return
        names = [admitted.job.name for _, admitted in part]
        # A record that cannot be read is left to the submission alone.
        known = self._store.jobs.several(names, readable_only=True)
        self._sent_before = bool(known)
        new = [each for each in part if each[1].job.name not in known]
        untried = new and not (tries and len(new) == len(part))
        if untried and project not in self._full and self._stores(new, configuration):
            new = []
        if new:
            self._in_halves(new, project, configuration)
        for number, admitted in part:
            job = known.get(admitted.job.name)
            if job is None or self._found(number, job):
                continue
            if project in self._full:
                self._despite(number, copy(self._full[project]))
            else:
                self._alone(number, project)

    def _in_halves(
        self, part: Sequence[tuple[int, Admitted]], project: str, configuration: Configuration
    ) -> None:
        """Store as many of these jobs together as nothing is in the way of: of those that a limit
        has room for, the first ones."""
        if (full := self._full.get(project)) is not None:
            for number, _ in part:
                self._refused(number, copy(full))
        elif len(part) == 1:
            self._alone(part[0][0], project)
        else:
            middle = len(part) // 2
            for half in (part[:middle], part[middle:]):
                if self._is_late():
                    return
                if project in self._full or not self._stores(half, configuration):
                    self._in_halves(half, project, configuration)

    def _stores(self, part: Sequence[tuple[int, Admitted]], configuration: Configuration) -> bool:
        """Store these jobs in one transaction, if nothing is in the way."""
        admitted = [each for _, each in part]
        self._submissions.follow(admitted)
        jobs = self._submissions.stored_together(admitted, configuration)
        for (number, each), job in zip(part, jobs or (), strict=False):
            notices = (*each.notices, *self._of_bounds(job, configuration))
            self._done(number, ChangedJob(job=job, written=True, notices=notices))
        return jobs is not None

    def _of_bounds(self, job: Job, configuration: Configuration) -> tuple[str, ...]:
        key = job.project, bounds_of(job)
        if key not in self._notices:
            self._notices[key] = notices_of_bounds(job, configuration)
        return self._notices[key]

    def _found(self, number: int, known: Job) -> bool:
        """Take the stored job for the member's outcome, if it is the same submission."""
        try:
            self._submissions.refuse_other(known, self._read(number)[0], self._submitter)
        except NameTaken:
            return False
        self._done(number, ChangedJob(job=known, written=False))
        return True

    def _despite(self, number: int, refusal: Refused) -> None:
        """Refuse the job, unless the same submission is stored already."""
        submission, _ = self._read(number)
        self._try(number, lambda: self._submissions.despite(refusal, submission, self._submitter))

    def _alone(self, number: int, project: str | None = None) -> None:
        """Submit one job as a request of its own would. `project`: the job's, if it is known."""
        if self._is_late():
            return
        submission, request = self._read(number)
        followed = submission.name in self._awaited

        def stored() -> ChangedJob:
            return self._submissions.stored(submission, request, self._submitter, followed=followed)

        error = self._try(number, stored)
        if project is not None and isinstance(error, _FOR_ALL):
            self._full[project] = error

    def _try(self, number: int, submit: Callable[[], ChangedJob]) -> SlotQError | None:
        """Note the outcome of a submission, and return its error, if any."""
        try:
            self._done(number, submit())
        except (Unavailable, Conflict) as error:
            self._failure = error
        except SlotQError as error:
            self._refused(number, error)
            return error
        return None

    def _done(self, number: int, changed: ChangedJob) -> None:
        job = changed.job
        self._stored[job.name] = job
        self.needs_pass |= changed.written and job.waits
        status = Status(job=job, notices=changed.notices)
        self.outcomes[number] = ChangeOutcome(name=self._members[number].name, status=status)

    def _refused(self, number: int, error: SlotQError) -> None:
        self.outcomes[number] = ChangeOutcome(name=self._members[number].name, error=error)

    def _read(self, number: int) -> tuple[Submission, Request]:
        read = self._members[number].read
        assert not isinstance(read, Refused)
        return read

    def _is_late(self) -> bool:
        return self._clock.now() >= self._until


def _waves(members: Sequence[NewMember]) -> list[dict[int, tuple[int, ...]]]:
    """The numbers of the members that could be read, in waves: each behind the earlier members that
    have its name or that it comes after, whose numbers it has. No member comes after a later one.
    """
    last: dict[str, tuple[int, int]] = {}
    waves: list[dict[int, tuple[int, ...]]] = []
    for number, member in enumerate(members):
        if isinstance(member.read, Refused):
            continue
        submission, _ = member.read
        names = (submission.name, *submission.after, *submission.after_any)
        ahead = [last[name] for name in names if name in last]
        wave = 1 + max((wave for wave, _ in ahead), default=-1)
        last[submission.name] = wave, number
        if wave == len(waves):
            waves.append({})
        waves[wave][number] = tuple(earlier for _, earlier in ahead)
    return waves


def _not_reached(member: NewMember) -> ChangeOutcome:
    error = NotReached("time ran out before this job; send it again")
    return ChangeOutcome(name=member.name, error=error)
