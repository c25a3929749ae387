"""The GPUs of one node during one plan: free, coming free, claimed and held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.policy.order import Rank, outranks, rank
from slotq_core.policy.state.candidates import Candidate, unsaved
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.nodes.node_jobs import Occupied

LONGEST_BY_DEFAULT = 86_400_000
"""How long a job may run (ms) if it does not say: SageMaker's default."""

_ADMITTING = (NodeState.STARTING, NodeState.READY)


class NodeRoom:
    """One node, or one that this plan starts. Amounts exclude the GPUs given to earlier jobs."""

    def __init__(
        self,
        name: str,
        pool: str,
        tenant: str,
        *,
        gpus: int,
        journal: Journal,
        node: Node | None = None,
    ) -> None:
        """`node`: None if this plan starts the node, or waits for an instance for it."""
        self.name, self.pool, self.tenant, self.gpus = name, pool, tenant, gpus
        self.node, self._journal = node, journal
        self.ready = node is not None and node.state is NodeState.READY
        self.empty = True
        """Whether no job holds, claims or waits for a GPU here."""
        self.fixed = False
        """Whether a job that cannot be evicted counts here."""
        self.one_person = node is not None and node.one_person
        """Whether all of its jobs have to be one person's."""
        self.person: str | None = None
        """Whose jobs run, wait or have a claim here; None: nobody's. Known only for nodes that take
        one person's jobs."""
        self.persons: frozenset[str] = frozenset()
        """The same of all jobs that hold GPUs before this plan, also those that stop."""
        self.closed = False
        """Whether no job starts here in this plan: an eviction ends the node."""
        self.lasts_for: int | None = None
        """How long (ms) the node stays at most; None: not known."""
        self.lasts_in_all = 0
        """The same from its start."""
        self.free_ids: tuple[int, ...] = tuple(range(gpus))
        self.free = gpus
        """GPUs not given and not held for a job; those of claimants count as free."""
        self.coming = 0
        """GPUs of stopping jobs that are not held for a job."""
        self.claims: dict[str, Job] = {}
        """The claimants without a turn so far."""
        self.candidates: Sequence[Candidate] = ()
        """The jobs that may be evicted, in the order of eviction."""

    def take_in(self, found: Occupied, candidates: Sequence[Candidate]) -> None:
        """Enter the jobs that held GPUs before this plan, and the claims."""
        held = {index for job in found.jobs if job.attempt for index in job.attempt.gpu_ids}
        self.free_ids = tuple(index for index in self.free_ids if index not in held)
        self.free = self.gpus - sum(job.gpus for job in found.jobs)
        self.coming = sum(job.gpus for job in found.jobs if job.state is JobState.STOPPING)
        self.claims = {job.name: job for job in found.claimants}
        self.empty = found.empty
        self.fixed = any(not job.evictable for job in (*found.running, *found.claimants))
        self.closed = found.ends or found.node.state not in _ADMITTING
        if self.one_person:
            self.persons = frozenset(job.person for job in found.jobs)
            self.person = found.person
        self.candidates = candidates

    @property
    def open_now(self) -> int:
        """The GPUs that a job without a right to claims may have now."""
        if self.closed or not self.ready:
            return 0
        return min(self.free, self.open_soon)

    @property
    def open_soon(self) -> int:
        """The GPUs that such a job may have now, or when stopping jobs have stopped and the node is
        ready."""
        if self.closed:
            return 0
        return self.free + self.coming - self._owed(self.claims.values())

    def left(self, job: Job) -> int:
        """Free and coming GPUs, less the claims of others that the job may not take over."""
        others = [
            other
            for other in self.claims.values()
            if other.name != job.name and not (outranks(job, other) and other.evictable)
        ]
        return 0 if self.closed else self.free + self.coming - self._owed(others)

    def takes(self, job: Job, *, now: bool) -> bool:
        """Whether the job may run here at all, now or when stopping jobs have stopped: for as long
        as it has to, and beside the jobs that are here."""
        return self.outlasts(job) and self.is_open_to(job, now=now)

    def is_open_to(self, job: Job, *, now: bool) -> bool:
        """Whether nobody else's jobs keep the job out of a node that takes one person's."""
        if not self.one_person:
            return True
        return self.person in {None, job.person} and not (now and self.persons - {job.person})

    def outlasts(self, job: Job) -> bool:
        """Whether the node stays for as long as the job may run. Of a job that may run longer than
        half a node's life, half of it has to be left: a new node always has."""
        if self.lasts_for is None:
            return True
        return (
            min(job.longest_attempt or LONGEST_BY_DEFAULT, self.lasts_in_all // 2) <= self.lasts_for
        )

    def give(self, job: Job) -> tuple[int, ...]:
        """Give the job its GPUs. Return their indexes."""
        taken, rest = self.free_ids[: job.gpus], self.free_ids[job.gpus :]
        self._journal.set(self, "free_ids", rest)
        self._belong_to(job)
        self._change(free=-job.gpus)
        return taken

    def hold(self, job: Job) -> None:
        """Hold the job's GPUs against later jobs: free ones first, then coming ones."""
        free = min(job.gpus, max(0, self.free))
        self._belong_to(job)
        self._change(free=-free, coming=free - job.gpus)

    def take_claim(self, job: Job) -> None:
        """Free the GPUs of the job's claim, for the job's own turn."""
        if job.name in self.claims:
            self._journal.drop(self.claims, job.name)

    def evict(self, victims: Iterable[Candidate]) -> None:
        """Evict these candidates. Their GPUs come free later."""
        gone = [*victims]
        self._change(coming=sum(victim.slots for victim in gone))
        kept = [candidate for candidate in self.candidates if candidate not in gone]
        self._journal.set(self, "candidates", kept)

    def gives(self, job: Job) -> list[Candidate]:
        """The candidates of lower rank that may be evicted for the job, in order."""
        own = rank(job)
        return [
            candidate
            for candidate in self.candidates
            if candidate.rank < own and candidate.project == job.project
        ]

    def _belong_to(self, job: Job) -> None:
        if self.one_person and self.person is None:
            self._journal.set(self, "person", job.person)

    def _change(self, *, free: int = 0, coming: int = 0) -> None:
        self._journal.record(NodeRoom._restore, self, self.free, self.coming)
        self.free, self.coming = self.free + free, self.coming + coming

    def _restore(self, free: int, coming: int) -> None:
        self.free, self.coming = free, coming

    @staticmethod
    def _owed(jobs: Iterable[Job]) -> int:
        return sum(job.gpus for job in jobs)


def candidate_on(job: Job, room: str, gpus: int, rank_of: Rank, now: int) -> Candidate:
    """A job on a node as a candidate: it frees its GPUs there, and loses its part of the node's
    time."""
    cost = unsaved(job, now)
    return Candidate(
        name=job.name,
        gang=False,
        places=((job, room),),
        rank=rank_of,
        entry_time=job.entry_time,
        unsaved=cost,
        lost=cost * job.gpus // max(1, gpus),
        slots=job.gpus,
    )
