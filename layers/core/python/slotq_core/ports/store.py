"""The store of jobs: its facets, and its upkeep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from slotq_core.model.attempts import Restore
from slotq_core.ports.callbacks import Callbacks
from slotq_core.ports.configuration import Health, StoredConfiguration
from slotq_core.ports.counters import Counters
from slotq_core.ports.decisions import Decisions, Nodes, Worlds
from slotq_core.ports.jobs import Groups, StoredJobs
from slotq_core.ports.stored import Finding, Poison
from slotq_core.ports.surroundings import Scheduler
from slotq_core.ports.usage import UsageBook

A = TypeVar("A")
R = TypeVar("R")


class Repair(Protocol):
    """Upkeep of the stored data. Methods may raise Unavailable."""

    def last_restore(self) -> Restore | None:
        """Return the last restore of the stored data from an older copy, if it is on record."""

    def expire(self, *, now: int, limit: int = 25) -> int:
        """Finish marking the records of at most `limit` ended jobs for removal. Returns the number
        of jobs.

        When a job ends, its records get a time of removal, and so does the record of what an
        attempt used when the attempt ends. Nothing else ever expires.
        """

    def audit(self, *, now: int) -> Sequence[Finding]:
        """Look for waiting jobs that no pass would see, in another small part of the data each
        time, and repair their records. Called at each tick: the cost is bounded. Returns the
        findings."""

    def quarantine(self, poison: Poison) -> None:
        """Repair the item from the job's own item if that is intact. Otherwise move it to a place
        where people find it, and keep counting the slots that it may hold."""

    def inspect(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterable[Finding]:
        """Find every disagreement in the stored data: ledgers with active jobs, copies with their
        jobs, missing lines.

        Reads everything, so it is for people. If `time_left` (ms) runs out, the last finding is
        `unfinished`: earlier findings are valid, and there may be more.
        """


class Store(Protocol):
    """The store of jobs. Every read that a decision depends on is strongly consistent.

    All methods of its facets may raise Unavailable (throttled, no answer). The caller's next
    trigger tries again.
    """

    @property
    def jobs(self) -> StoredJobs:
        """The jobs: submitted once, and read."""

    @property
    def worlds(self) -> Worlds:
        """The input of decisions."""

    @property
    def decisions(self) -> Decisions:
        """Changes of jobs, in transactions."""

    @property
    def nodes(self) -> Nodes:
        """The nodes, one by one."""

    @property
    def configuration(self) -> StoredConfiguration:
        """Pools, limits, and how projects share."""

    @property
    def groups(self) -> Groups:
        """The groups that users have submitted."""

    @property
    def health(self) -> Health:
        """The health of pools."""

    @property
    def scheduler(self) -> Scheduler:
        """When passes run."""

    @property
    def counters(self) -> Counters:
        """The use of callers' limits."""

    @property
    def usage(self) -> UsageBook:
        """The record of attempts' use."""

    @property
    def callbacks(self) -> Callbacks:
        """Who waits for jobs' ends."""

    @property
    def repair(self) -> Repair:
        """Upkeep of the stored data."""

    def at_once(self, read: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        """Return what `read`, a read of this store, returns for each argument, in the order of the
        arguments. The reads go out together, as far as that saves time. Raises the first error in
        that order. `read` must not call this again."""
