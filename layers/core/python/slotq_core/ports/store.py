"""The place where jobs are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from slotq_core.model.attempts import Attempt, Restore
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.limits import Limits
from slotq_core.model.pools import Pool, PoolHealth
from slotq_core.model.sharing import Sharing
from slotq_core.ports.counters import Counters
from slotq_core.ports.groups import Groups
from slotq_core.ports.scheduler import Scheduler
from slotq_core.ports.stored import (
    Change,
    Configuration,
    ConfigurationChange,
    Finding,
    InParts,
    Mark,
    Part,
    Poison,
    World,
)
from slotq_core.ports.training import Request, Sighting
from slotq_core.ports.usage import UsageBook

A = TypeVar("A")
R = TypeVar("R")


class Store(Protocol):
    """The place where jobs are kept. Every read that a decision rests on is strongly consistent.

    All methods may raise Unavailable (throttled, no answer). The caller's next trigger tries again.
    """

    @property
    def counters(self) -> Counters:
        """Counters of what callers have used of their limits."""

    @property
    def groups(self) -> Groups:
        """The groups that users have submitted."""

    @property
    def usage(self) -> UsageBook:
        """The record of what attempts used."""

    @property
    def scheduler(self) -> Scheduler:
        """When passes run."""

    def at_once(self, read: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        """What `read`, a read of this store, returns for each argument, in the order of the
        arguments. The reads go out together, as far as that saves time. Raises the first error in
        that order. `read` must not call this again."""

    def pools(self) -> tuple[Pool, ...]:
        """The configured pools, in their configured order."""

    def configuration(self) -> Configuration:
        """The configuration: pools, limits, sharing, use and revision."""

    def configure(
        self,
        pools: Sequence[Pool] | None = None,
        *,
        limits: Limits | None = None,
        sharing: Sharing | None = None,
        who: str,
        now: int,
        seen: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Replace what is given, all at once, and record who did so, when, before and after. With
        `dry_run`, raise what would be raised, and write nothing.

        `seen` is the revision that the caller decided on; raises Conflict if it is outdated.
        Removes a pool that is not listed any more. Raises PoolInUse if something runs in such a
        pool, and Misconfigured if the pools contradict each other or too many change. Capacity may
        shrink below use; then nothing is admitted until use has fallen.
        """

    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        """At most `limit` recorded changes of the configuration, the latest first; with `who`, only
        that caller's. Without `sharing` they do not tell how projects shared, which costs reads."""

    def pool(self, name: str) -> Pool | None:
        """One configured pool with its health; None if there is no such pool."""

    def health(self, pool: str) -> PoolHealth:
        """A pool's health alone; HEALTHY if nothing was learned of the pool."""

    def set_health(self, pool: str, health: PoolHealth) -> None:
        """Store a pool's health. Unconditional: a lost write costs one more failed start."""

    def last_restore(self) -> Restore | None:
        """The last restore of the stored data from an older copy, if it is on record."""

    def set_foreign(self, pool: str, amount: Demand) -> None:
        """Set what training jobs outside the queue occupy of a pool. A change raises the ledger's
        version."""

    def sightings(self) -> tuple[Sighting, ...]:
        """All sightings that are remembered and not forgotten."""

    def remember(self, sighting: Sighting) -> None: ...

    def forget(self, training_job: str) -> None: ...

    def expire(self, *, now: int, limit: int = 25) -> int:
        """Finish marking the records of at most `limit` ended jobs for removal. Returns the number
        of jobs.

        When a job ends, its records get a time of removal, and so does the record of what an
        attempt used when the attempt ends. Nothing else ever expires.
        """

    def audit(self, *, now: int) -> Sequence[Finding]:
        """Look for waiting jobs that no pass would see, in another small part of the data each
        time, and mend what hides them. For each tick: the cost is bounded. Returns what was found.
        """

    def quarantine(self, poison: Poison) -> None:
        """Mend the item from the job's own item if that is whole. Otherwise move it to where people
        find it, and keep counting the slots that it may hold."""

    def inspect(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterable[Finding]:
        """Find every disagreement in the stored data: ledgers with active jobs, copies with their
        jobs, missing lines.

        Reads everything, so it is for people. If `time_left` (ms) runs out, the last finding is
        `unfinished`: earlier findings stand, and there may be more.
        """

    def submit(
        self,
        job: Job,
        request: Request,
        *,
        opens_line: bool = True,
        opener: str = "",
        watched: Sequence[str] = (),
    ) -> Job:
        """Store a new job and its request, both or neither. Returns the job with its version.

        Never touches a ledger, so submissions conflict neither with each other nor with a pass.
        `watched`: of each group that it waits for, a member whose end is handed on to it. Raises
        StoredAlready, with that job, if a job of that name exists. Raises AwaitedEnded unless each
        of these, and each job that it waits for, lives and is `followed`. Raises NoSuchLine if the
        job needs a new line and `opens_line` is false. `opener`: the name that the caller who pays
        for a new line is counted under (`Counters.opened`); empty: nobody.
        """

    def has_line_of(self, job: Job) -> bool:
        """Whether the line that the job would wait in exists. One read."""

    def followers(self, name: str) -> Sequence[Job]:
        """The jobs that wait for this one, or for a group's entry or end (`Job.waits_for`), in any
        order."""

    def load(self, now: int) -> World:
        """Load the input of a pass at `now`: active jobs, claimants, due back-offs, and of each
        line the first jobs or, where a lower bound is known, a stand-in (`Snapshot.unread`).

        The cost does not depend on the number of waiting jobs.
        """

    def load_all(self, now: int) -> World:
        """Load the same with every waiting job: for explanations, never for a pass."""

    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        group_decisions: int | None = None,
        part: Part | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> tuple[Job, ...]:
        """Commit every change or none, in one transaction. Returns the jobs as they now stand.

        The conditions: each job still has `before.version`; each pool in `seen` still has that
        ledger version; every pool has room for what is newly held in it; no decision about a group
        has been committed since there were `group_decisions`; the decision that this is a `part` of
        is still to be finished. Raises Conflict if a condition fails. Raises NoSuchLine if
        `opens_line` is false and a change puts a job into a line that does not exist: a user's
        change asks for a new line first. A pass's change never does. `opener`: who pays for the
        new line, already counted.

        A change that ends an attempt also makes the record of what the attempt used (`usage`). A
        change that takes an attempt back, without an end, removes all records of the attempt.

        A job holds its slots from the change into an active state until the change out of it. The
        version of each pool in `seen`, and of each pool whose use changes, rises by one; so does
        the number of decisions about groups, if it is given.
        """

    def fitting(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        part: Part | None = None,
    ) -> int:
        """How many of these changes, the first ones, one transaction is sure to take; at least one.
        The other arguments: as of the commit."""

    def in_parts(self) -> InParts | None:
        """The decision that is to be finished, as it now stands. Raises NotUnderstood."""

    def turn_back(self, decision: InParts) -> InParts:
        """Turn a decision to START into one to UNDO. Raises Conflict if it is none any more."""

    def job(self, name: str) -> Job | None: ...

    def request(self, name: str) -> Request:
        """The job's request as it now stands. Raises NoSuchJob."""

    def job_and_attempts(self, name: str) -> tuple[Job, tuple[Attempt, ...]] | None:
        """The job with all its attempts in order, including the live one, by one read; None if
        there is no such job."""

    def job_of(self, training_job: str) -> str | None:
        """The name of the job that owns a training job; None if no attempt ever had that name."""

    def jobs(
        self,
        states: Iterable[JobState],
        *,
        limit: int = 1000,
        projects: frozenset[str] | None = None,
    ) -> tuple[Job, ...]:
        """Jobs in these states, the latest entry first within each. For people: the answer may lag
        behind. `limit`: how many to read. `projects`: return only jobs of these."""

    def in_state(
        self, state: JobState, *, after: Mark | None = None, latest_first: bool, at_once: int
    ) -> Iterator[Job]:
        """The jobs of a state behind `after`, by entry time, those of one moment by name. They are
        read on demand: about `at_once` first, then more at a time. For people: the answer may lag
        behind."""

    def waiting_in(self, projects: frozenset[str], *, limit: int) -> tuple[Job, ...] | None:
        """The jobs that wait in these projects, read without those of others. None: there are more
        than `limit`, or nobody has counted them."""

    def longest_waiting(self, *, before: int, limit: int) -> tuple[Job, ...]:
        """At most `limit` jobs of each state in which jobs wait (pending, preempted, backoff) that
        entered before a moment (ms), the earliest entry first within each. For people: the answer
        may lag behind."""

    def waiting_since(self) -> int | None:
        """The earliest entry time (ms) of a waiting job (pending or preempted); None if none waits.
        For people: the answer may lag behind."""
