"""Which jobs may come to a node: those of the right person that end in time."""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.model.jobs import Job
from slotq_core.policy.state.journal import Journal

LONGEST_BY_DEFAULT = 86_400_000
"""How long a job may run (ms) if it does not say: SageMaker's default."""


@dataclass(kw_only=True, slots=True)
class Entrance:
    """The entrance of one node during one plan."""

    one_person: bool = False
    """Whether all jobs of the node have to be one person's."""
    person: str | None = None
    """Whose jobs run, wait or have a claim here; None: nobody's. Known only for nodes that take one
    person's jobs."""
    persons: frozenset[str] = frozenset()
    """The same of all jobs that hold GPUs before this plan, also those that stop."""
    lasts_for: int | None = None
    """How long (ms) the node stays at most; None: not known."""
    lasts_in_all: int = 0
    """The same from its start."""

    def takes(self, job: Job, *, now: bool) -> bool:
        """Whether the job may run here at all, now or when stopping jobs have stopped: for as long
        as it has to, and beside the jobs that are here."""
        return self.outlasts(job) and self.may_enter(job, now=now)

    def may_enter(self, job: Job, *, now: bool) -> bool:
        """Whether nobody else's jobs keep the job out of a node that takes one person's."""
        if not self.one_person:
            return True
        return self.person in {None, job.person} and not (now and self.persons - {job.person})

    def outlasts(self, job: Job) -> bool:
        """Whether the node stays for as long as the job may run. Of a job that may run longer than
        half a node's life, half of it has to be left: a new node always has."""
        if self.lasts_for is None:
            return True
        longest = job.longest_attempt or LONGEST_BY_DEFAULT
        return min(longest, self.lasts_in_all // 2) <= self.lasts_for

    @property
    def may_refuse(self) -> bool:
        """Whether there can be jobs that may not come: others' jobs, or jobs that run for long."""
        aging = self.lasts_for is not None and self.lasts_for < self.lasts_in_all // 2
        return aging or self.one_person

    def belong_to(self, job: Job, journal: Journal) -> None:
        """Note whose jobs the node takes from its first job on."""
        if self.one_person and self.person is None:
            journal.set(self, "person", job.person)
