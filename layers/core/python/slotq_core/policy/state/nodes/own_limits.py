"""Limits of projects and departments where nodes exist: jobs count what they hold themselves.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from slotq_core.gpu_amounts import Gpus
from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.nodes.node_jobs import NodeName, Occupied
from slotq_core.policy.state.nodes.own_amounts import OwnAmounts
from slotq_core.policy.state.quotas.account import Account, Chain

ChainOf = Callable[[Job, str], Chain]
"""The accounts that count a job in a pool."""


class OwnLimits:
    """What projects and departments hold under their limits during one plan."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        found: Mapping[NodeName, Occupied],
        journal: Journal,
    ) -> None:
        """`pools`: those with nodes."""
        self._found = {f"{pool}/{name}": on_it for (pool, name), on_it in found.items()}
        """By name of the job that stands for the node."""
        self._journal = journal
        amounts = OwnAmounts(pools, found)
        self._own, self._per = amounts.of, amounts.per
        self._limits: dict[int, Mapping[str, int]] = {}
        self._held: dict[int, Demand] = {}
        self._stopping: dict[int, Demand] = {}
        """By `id` of the account: its limit, what it holds, and the part of it that stops."""
        self._of: ChainOf = lambda _job, _pool: ()

    def begin(
        self, snapshot: Snapshot, of: ChainOf, limits: Mapping[int, Mapping[str, int]]
    ) -> None:
        """Enter what jobs hold and claim. `of`: the accounts of a job. `limits`: by `id` of the
        account."""
        self._of, self._limits = of, dict(limits)
        for job in snapshot.active:
            assert job.attempt is not None
            if job.state is JobState.STOPPING:
                self._stop(job, job.attempt.pool, held=False)
            else:
                self.take(job, job.attempt.pool)
        for job in (*snapshot.active, *snapshot.waiting):
            if job.claim:
                self.take(job, job.claim.pool)

    def take(self, job: Job, pool: str) -> None:
        """Count what the job holds, claims or is promised in the pool."""
        self._add(self._held, self._of(job, pool), self._own(job, pool))

    def give_back(self, job: Job, pool: str) -> None:
        self._add(self._held, self._of(job, pool), NOTHING - self._own(job, pool))

    def stop(self, job: Job, pool: str) -> None:
        """Note that the job, or each job on the node that it stands for, stops. It counts until it
        has ended; where its claim counts, once."""
        for stopping in self._jobs(job):
            self._stop(stopping, pool, held=True)

    def over(
        self, job: Job, pool: str, below: Iterable[Job] = (), *, once_stopped: bool = False
    ) -> Demand:
        """What others must give under the limits, in parts. `below`: jobs whose claims the job may
        take over. `once_stopped`: without what stops already."""
        asked, over = self._own(job, pool), NOTHING
        for account in self._limited(job, pool):
            held = self._held.get(id(account), NOTHING) + asked - self._owed(account, below)
            if once_stopped:
                held -= self._stopping.get(id(account), NOTHING)
            excess = {
                name: held[name] - most * self._per
                for name, most in self._limits[id(account)].items()
                if name in asked and held[name] > most * self._per
            }
            over = over.larger(Demand(excess))
        return over

    def in_gpus(self, job: Job, pool: str, over: Demand) -> Gpus:
        """How much of GPUs other jobs on nodes of the pool must give for that excess."""
        asked = self._own(job, pool)
        return max((-(-over[name] * job.gpus // asked[name]) for name in over), default=0)

    def gives(self, candidate: Candidate, pool: str) -> Demand:
        """What the eviction of the candidate gives under the limits of its project in the pool."""
        here = self._of(candidate.jobs[0], pool)
        return Demand.total(
            self._own(job, where)
            for stands, where in candidate.places
            for job in self._jobs(stands)
            if _among(here[:1], self._of(job, where))
        )

    def left(self, job: Job, pool: str, room: Demand, below: Iterable[Job]) -> Demand:
        """The part of the room that the limits leave to whole jobs."""
        for account in self._limited(job, pool):
            held = self._held.get(id(account), NOTHING) - self._owed(account, below)
            most = {
                name: max(0, (limit * self._per - held[name]) // self._per)
                for name, limit in self._limits[id(account)].items()
            }
            room = Demand({name: min(room[name], most.get(name, room[name])) for name in room})
        return room

    def bounds(self, job: Job, pool: str) -> Iterator[tuple[Account, str, int, int, int]]:
        """The limits that keep the job back: account, resource, and what is needed, held and
        allowed, rounded up to units."""
        asked = self._own(job, pool)
        for account in self._limited(job, pool):
            held = self._held.get(id(account), NOTHING)
            for name, most in self._limits[id(account)].items():
                if name in asked and held[name] + asked[name] > most * self._per:
                    yield account, name, self._units(asked[name]), self._units(held[name]), most
                    break

    def _units(self, parts: int) -> int:
        return -(-parts // self._per)

    def _limited(self, job: Job, pool: str) -> Iterator[Account]:
        return (account for account in self._of(job, pool) if self._limits.get(id(account)))

    def _owed(self, account: Account, below: Iterable[Job]) -> Demand:
        return Demand.total(
            self._own(other, other.claim.pool)
            for other in below
            if other.claim and _among((account,), self._of(other, other.claim.pool))
        )

    def _jobs(self, job: Job) -> Iterable[Job]:
        on_it = self._found.get(job.name)
        return on_it.running if on_it else (job,)

    def _stop(self, job: Job, pool: str, *, held: bool) -> None:
        """`held`: whether the job counts as held so far."""
        own = self._own(job, pool)
        claimed = self._of(job, job.claim.pool) if job.claim else ()
        for account in self._of(job, pool):
            if _among((account,), claimed):
                self._add(self._held, (account,), NOTHING - own if held else NOTHING)
            else:
                self._add(self._held, (account,), NOTHING if held else own)
                self._add(self._stopping, (account,), own)

    def _add(self, amounts: dict[int, Demand], chain: Chain, more: Demand) -> None:
        for account in chain if more else ():
            key = id(account)
            self._journal.put(amounts, key, amounts.get(key, NOTHING) + more)


def _among(accounts: Chain, others: Chain) -> bool:
    """Whether one of these accounts is among the others."""
    return any(account is other for account in accounts for other in others)
