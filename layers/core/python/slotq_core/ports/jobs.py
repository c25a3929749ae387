"""The jobs and the groups that users have submitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import Opening, StoredGroup
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import Callback
from slotq_core.ports.stored import Mark, NewJob
from slotq_core.ports.training import Request


class StoredJobs(Protocol):
    """Every job that was submitted, until its history ends. Reads of one job are strongly
    consistent. Methods may raise Unavailable, and NotUnderstood for a record that cannot be read.
    """

    def submit(
        self,
        job: Job,
        request: Request,
        *,
        opens_line: bool = True,
        opener: str = "",
        watched: Sequence[str] = (),
        callback: Callback | None = None,
    ) -> Job:
        """Store a new job, its request and its callback, all or nothing. Returns the job with its
        version.

        Never touches a ledger, so submissions conflict neither with each other nor with a pass.
        `watched`: of each group that it waits for, a member whose end notifies it. Raises
        StoredAlready, with that job, if a job of that name exists. Raises AwaitedEnded unless all
        watched members, and all jobs that it waits for, live and are `followed`. Raises NoSuchLine
        if the job needs a new line and `opens_line` is false. `opener`: the counter's name of the
        caller who pays for a new line (`Counters.opened`); empty: no caller.
        """

    def fitting(self, new: Sequence[NewJob], *, group: StoredGroup | None = None) -> int:
        """How many of these jobs, the first ones, `submit_together` can store at once; at least
        one. Reads nothing. Raises InvalidRequest for a request that cannot be stored at all."""

    def submit_together(
        self,
        new: Sequence[NewJob],
        *,
        group: StoredGroup | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> list[Job]:
        """Store new jobs and their requests, all or none, as `submit` does; as many as `fitting`.

        `group`: the record of the group that is whole with them. It is stored with them, and
        Conflict is raised if there is one, or if a submission of its name is open. The jobs may
        come after each other.
        """

    def get(self, name: str) -> Job | None: ...

    def several(self, names: Sequence[str], *, readable_only: bool = False) -> dict[str, Job]:
        """Return those of these jobs that exist, in this order; a hundred cost one call. They need
        not be of one moment. `readable_only`: leave out records that cannot be read."""

    def request(self, name: str) -> Request:
        """Return the job's current request. Raises NoSuchJob."""

    def requests(self, names: Sequence[str]) -> Mapping[str, Request]:
        """Return the current requests of these jobs by name, as far as they can be read."""

    def with_attempts(self, name: str) -> tuple[Job, tuple[Attempt, ...]] | None:
        """Return the job with all its attempts in order, including the live one, by one read; None
        if no such job exists."""

    def owner_of(self, training_job: str) -> str | None:
        """Return the name of the job that owns a training job, or the owner that `node_of_owner`
        reads for a node's; None if no attempt ever had that name, and no node has it."""

    def followers(self, name: str) -> Sequence[Job]:
        """Return the jobs that wait for this one, or for a group's entry or end (`Job.waits_for`),
        in any order."""

    def in_states(
        self,
        states: Iterable[JobState],
        *,
        limit: int = 1000,
        projects: frozenset[str] | None = None,
    ) -> tuple[Job, ...]:
        """Return jobs in these states, the latest entry first within each. For people: the answer
        may lag behind. `limit`: how many to read. `projects`: return only jobs of these."""

    def by_entry(
        self, state: JobState, *, after: Mark | None = None, latest_first: bool, at_once: int
    ) -> Iterator[Job]:
        """Yield the jobs of a state behind `after`, by entry time, those of one moment by name.
        They are read on demand: about `at_once` first, then more at a time. For people: the answer
        may lag behind."""

    def waiting_in(self, projects: frozenset[str], *, limit: int) -> tuple[Job, ...] | None:
        """Return the jobs that wait in these projects, without reading those of others. None: there
        are more than `limit`, or their number is unknown."""

    def longest_waiting(self, *, before: int, limit: int) -> tuple[Job, ...]:
        """Return at most `limit` jobs of each state in which jobs wait (pending, preempted,
        backoff) that entered before a moment (ms), the earliest entry first within each. For
        people: the answer may lag behind."""

    def waiting_since(self) -> int | None:
        """Return the earliest entry time (ms) of a waiting job (pending or preempted); None if none
        waits. For people: the answer may lag behind."""


class Groups(Protocol):
    """The groups that users have submitted: their records and their openings.

    A group exists from the moment that its record is kept. One that a single transaction holds is
    stored at once (`StoredJobs.submit_together`). The submission of a larger one is an opening
    first: its members are stored in their lines, where no load counts them while there is no
    record. Keeping the record ends the opening.

    Every read is strongly consistent. Methods may raise Unavailable.
    """

    def get(self, name: str) -> StoredGroup | None: ...

    def open(self, name: str, *, digest: str, now: int, members: Sequence[str] = ()) -> bool:
        """Begin a submission, or begin the same one again. Returns whether it had begun before.
        Raises Conflict while another one of that name is open, or this one is being withdrawn."""

    def keep(self, stored: StoredGroup) -> None:
        """Store the record and forget the opening. Raises Conflict if there is a record, or if the
        submission is not open or is being withdrawn."""

    def openings(self) -> Sequence[Opening]:
        """All openings, in any order."""

    def withdraw(self, opening: Opening) -> None:
        """Make sure that the record is never kept. Raises Conflict if it has been, or if the
        submission was begun again since the opening was read."""

    def meet(self, name: str, *, job: str) -> None:
        """Record that this job has reached the goal of the sweep, in place of an earlier record."""

    def close(self, name: str) -> None:
        """Forget the opening."""
