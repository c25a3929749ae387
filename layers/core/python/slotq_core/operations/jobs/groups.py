"""Take groups of jobs in, and show them (`ports.groups` says when a group exists).

A submission judges every member first. Then it stores the members, which wait for the group's entry
and are in no line; then the record, by which the group exists; then the members enter their lines.
Each step may be repeated, so the same body again, or the tick, goes on where a handler has died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from slotq_core import names
from slotq_core.admission.dependencies import after_end_of
from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    NameTaken,
    NoSuchGroup,
    Refused,
    SlotQError,
    Unavailable,
)
from slotq_core.lifecycle import move
from slotq_core.model.groups import Group, Opening, StoredGroup, entry_of
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.jobs.followers import Followers
from slotq_core.operations.jobs.submissions import Submissions
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Request

NOT_WHOLE = "group_not_whole"
"""The cause of a member that is cancelled because nobody has finished its group's submission."""

FINISHED_WITHIN = 3_600_000
"""How long an unfinished submission may be sent again (ms). Then its members are cancelled."""

_BUDGET = 20_000
"""How long members enter their lines within one request (ms). The tick goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewGroup:
    """A well-formed submission of a group."""

    name: str
    max_parallel: int
    members: tuple[tuple[Submission, Request], ...]
    """Each submission with the group's name."""
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupStatus:
    """A group and its members as the caller may see them."""

    stored: StoredGroup
    jobs: tuple[Job, ...]
    """In the order of the submission; those whose records have expired are left out."""


class GroupsOfJobs:
    """The users' verbs for groups."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        submissions: Submissions,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._store, self._clock, self._wake = store, clock, wake
        self._authorizer, self._submissions = authorizer, submissions
        self._followers = Followers(store, clock)

    def submit(self, wanted: NewGroup, *, submitter: str) -> GroupStatus:
        """Store the group, with all its members. Once this returns, all of them are in the queue.

        The same body again returns the group as it is, or goes on with an unfinished submission.
        Raises what the submission of a member raises, with the member's name, NameTaken and
        Unavailable. After a refusal no member is in a line.
        """
        stored = self._known(wanted, submitter) or self._stored(wanted, submitter)
        self._enter(wanted.name, until=self._clock.now() + _BUDGET)
        self._wake()
        return self._status(stored, submitter)

    def status(self, name: str, *, to: str | None = None) -> GroupStatus:
        """The group, as caller `to` may see it (None: the queue's owner). Raises NoSuchGroup, also
        where the caller may see none of its members."""
        stored = self._store.groups.get(name) if names.is_legal(name) else None
        found = self._status(stored, to) if stored else None
        if found is None or not (found.jobs or to in {None, found.stored.submitter}):
            raise NoSuchGroup(f"there is no group '{name[: names.LONGEST]}'", field="name")
        return found

    def finish(self, openings: Sequence[Opening], *, until: int) -> tuple[str, ...]:
        """Go on with submissions whose handlers have died; cancel the members of those that nobody
        has finished in time. Begins nothing from `until` on. Returns what went wrong; a group that
        fails stops no other."""
        troubles = []
        for opening in openings:
            if self._clock.now() >= until:
                break
            try:
                self._finish(opening, until)
            except SlotQError as error:
                troubles.append(f"group {opening.name}: {error}")
        return tuple(troubles)

    def _finish(self, opening: Opening, until: int) -> None:
        if self._store.groups.get(opening.name) is not None:
            self._enter(opening.name, until=until)
        elif opening.withdrawn or self._clock.now() - opening.at >= FINISHED_WITHIN:
            self._withdraw(opening, until)

    def _known(self, wanted: NewGroup, submitter: str) -> StoredGroup | None:
        """The stored group, if it is this one. Raises NameTaken if it is another."""
        known = self._store.groups.get(wanted.name)
        if known is not None and known.digest != _digest(wanted, submitter):
            raise NameTaken(f"a group named '{wanted.name}' exists already", field="name")
        return known

    def _stored(self, wanted: NewGroup, submitter: str) -> StoredGroup:
        """Store the members and then the record; or return the record, if another handler was
        faster."""
        stored = StoredGroup(
            group=Group(
                name=wanted.name,
                members=tuple(submission.name for submission, _ in wanted.members),
                max_parallel=wanted.max_parallel,
            ),
            submitter=submitter,
            project=self._judge(wanted, submitter),
            digest=_digest(wanted, submitter),
            at=self._clock.now(),
        )
        try:
            self._store_members(wanted, submitter)
            self._store.groups.keep(stored)
        except (Refused, Conflict) as error:
            if (known := self._known(wanted, submitter)) is not None:
                return known
            if isinstance(error, Refused):
                raise
            raise Unavailable(f"group {wanted.name} is being submitted; try again") from None
        return stored

    def _judge(self, wanted: NewGroup, submitter: str) -> str:
        """Check every member, and store nothing. Returns the project of them all."""
        stand = self._store.configuration()
        projects = set()
        for number, (submission, request) in enumerate(wanted.members):
            with _naming(number):
                judged = self._submissions.judged(submission, request, submitter, stand)
                known = self._store.job(submission.name)
                if known is not None:
                    self._submissions.refuse_other(known, submission, submitter)
                projects.add(judged.job.project)
        if len(projects) > 1:
            named = ", ".join(sorted(projects))
            raise InvalidRequest(
                f"the members of a group belong to one project, not to {named}", field="members"
            )
        return projects.pop()

    def _store_members(self, wanted: NewGroup, submitter: str) -> None:
        """Store the members outside all lines. Raises Conflict if another submission is open."""
        digest = _digest(wanted, submitter)
        self._store.groups.open(wanted.name, digest=digest, now=self._clock.now())
        entry = entry_of(wanted.name)
        for number, (submission, request) in enumerate(wanted.members):
            with _naming(number):
                self._submissions.stored(submission, request, submitter, entry=entry)

    def _enter(self, name: str, *, until: int) -> None:
        """Put the members of a stored group into their lines."""
        entry, now = entry_of(name), self._clock.now

        def entered(job: Job) -> Job:
            return after_end_of(job, entry, JobState.COMPLETED, now())

        if self._followers.change(entry, entered, until=until):
            self._store.groups.close(name)

    def _withdraw(self, opening: Opening, until: int) -> None:
        if not opening.withdrawn:
            try:
                self._store.groups.withdraw(opening)
            except Conflict:
                return  # It was finished, or begun again.
        message = f"the submission of its group {opening.name} was not finished within an hour"

        def cancelled(job: Job) -> Job:
            return move(
                job, JobState.CANCELLED, at=self._clock.now(), cause=NOT_WHOLE, message=message
            )

        if self._followers.change(entry_of(opening.name), cancelled, until=until):
            self._store.groups.close(opening.name)

    def _status(self, stored: StoredGroup, to: str | None) -> GroupStatus:
        found = [self._store.job(name) for name in stored.group.members]
        jobs = [job for job in found if job is not None and job.group == stored.group.name]
        sees = self._authorizer.sight(jobs, by=to)
        return GroupStatus(
            stored=stored, jobs=tuple(job for job in jobs if sees is None or sees(job))
        )


def _digest(wanted: NewGroup, submitter: str) -> str:
    """What tells submissions of one name apart: two people never share one."""
    return f"{wanted.digest} {submitter}"


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Name the member in a refusal."""
    try:
        yield
    except Refused as error:
        error.within(f"members.{number}")
        raise
