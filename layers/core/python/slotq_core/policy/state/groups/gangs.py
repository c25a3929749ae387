"""Gangs: optional and mandatory members, and gangs that are no longer whole.

A gang's members are admitted together over all their pools, or none. Evicting one evicts the gang.
Its rank is its lowest member's, its entry its last member's; completed members count towards the
minimum, cancelled ones do not; members left out at the start may join while the gang runs and end
`cancelled`, reason `left_out`, with it. A failed start rolls the others back. A gang
that ends with one of its members ends at that member's end, and when it is broken.

See docs/policy-decisions.md#gangs-parts-sweeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import StopCause
from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import gpus_of
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import position, rank
from slotq_core.policy.plan import Decision, EndGroup, LeaveOut, RollBack, Start, StartGang

_CANCELS = frozenset({StopCause.CANCELLED, StopCause.GROUP_ENDED})
"""Stops after which the job ends as cancelled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JointJob(Job):
    """A job that asks for several members of its gang: its demand is theirs together."""

    members: tuple[Job, ...]


@dataclass(frozen=True, kw_only=True)
class GangMembers:
    """A group and its members that have not ended: how many must run, and what runs."""

    group: Group
    waiting: tuple[Job, ...]
    active: tuple[Job, ...]

    @cached_property
    def needed(self) -> int:
        """How many members must run besides those that have completed."""
        ended = list(self.group.ended.values())
        least = self.group.min_members
        if least is None:
            least = len(self.group.members) - ended.count(JobState.CANCELLED)
        return max(0, least - ended.count(JobState.COMPLETED))

    @cached_property
    def mandatory(self) -> frozenset[str]:
        """The mandatory members that have not completed."""
        ended = self.group.ended
        return frozenset(n for n in self.group.mandatory if ended.get(n) is not JobState.COMPLETED)

    @property
    def broken(self) -> bool:
        """Whether the gang can never be whole again: too few members are left, or a mandatory one
        has ended without completing."""
        left = [name for name in self.group.members if name not in self.group.ended]
        return len(left) < self.needed or not self.mandatory <= set(left)

    @property
    def end(self) -> str:
        """The cause of the gang's end, as a sentence; empty: it goes on, or members end alone."""
        last = self.group.ends_with
        if not last:
            return ""
        if (state := self.group.ended.get(last)) is not None:
            return f"its group {self.group.name} ended with {last}, which is {state}"
        return f"too few of its group {self.group.name} can still complete" if self.broken else ""

    @cached_property
    def runs(self) -> bool:
        """Whether a member holds slots and is not stopping. Other members may then join."""
        return bool(self.live)

    @cached_property
    def live(self) -> tuple[Job, ...]:
        """The members that hold slots and are not stopping."""
        return tuple(job for job in self.active if job.state is not JobState.STOPPING)

    @cached_property
    def pools(self) -> frozenset[str]:
        """The pools where members are live."""
        return frozenset(job.attempt.pool for job in self.live if job.attempt)

    @property
    def breathes(self) -> bool:
        """Whether the gang is elastic and runs: members beyond its core come and go singly."""
        return self.group.elastic and self.runs

    @property
    def is_ending(self) -> bool:
        """Whether a member of an elastic gang has completed: the others have nothing to join."""
        return self.group.elastic and JobState.COMPLETED in self.group.ended.values()

    def enough(self, names: Iterable[str]) -> bool:
        """Whether these members are enough to run: at least one, and every mandatory member."""
        chosen = set(names)
        return len(chosen) >= max(1, self.needed) and self.mandatory <= chosen


@dataclass(frozen=True, kw_only=True)
class LiveGang(GangMembers):
    """A gang as the plan serves it: its rank, its orders and what it asks for."""

    gpus_in: Mapping[str, int] = field(default_factory=dict)
    """The GPUs of an instance, by pool with nodes."""

    @property
    def ranked(self) -> tuple[Job, ...]:
        """The members with a known rank. An AUTO job has none before admission."""
        return (*self.active, *(job for job in self.waiting if not job.auto))

    def is_lowered_by(self, job: Job) -> bool:
        """Whether the job, with its rank known, would lower the gang's rank."""
        return all(rank(job) < rank(other) for other in self.ranked)

    @property
    def ready(self) -> bool:
        """Whether the waiting members are enough to start. They wait while others are stopping."""
        return not self.active and self.enough(job.name for job in self.waiting)

    def allowed_pools(self) -> list[frozenset[str]]:
        """The sets of pools to try in order. A gang that needs one pool tries each alone, first
        those with most claims of its members."""
        pools = self.representative.pools
        if self.group.same_pool:
            owed = Counter(job.claim.pool for job in self.waiting if job.claim)
            return [frozenset({name}) for name in sorted(pools, key=lambda name: -owed[name])]
        return [frozenset(pools)]

    @cached_property
    def in_service_order(self) -> Sequence[Job]:
        """The waiting members in the order of service, each with the gang's rank and entry time."""
        return [self._with_gang_rank(job) for job in sorted(self.waiting, key=self._place)]

    def _place(self, job: Job) -> tuple[object, ...]:
        """Mandatory members come first, then members with a claim, then those that accept fewer
        pools, then the larger ones: whole instances before GPUs of nodes."""
        fewer = (len(job.pools), -job.demand.slots, bool(job.gpus), -job.gpus)
        return (job.name not in self.mandatory, job.claim is None, *fewer, position(job))

    def _with_gang_rank(self, job: Job, **changes: Any) -> Job:
        return copied(job, **self._rank_and_entry, **changes)

    @cached_property
    def _rank_and_entry(self) -> Mapping[str, Any]:
        """The gang's rank and entry time, as fields of a job."""
        lowest = min(self.waiting, key=rank)
        return {
            "priority": lowest.priority,
            "priority_class": lowest.priority_class,
            "workload": lowest.workload,
            "entry_time": max(member.entry_time for member in self.waiting),
        }

    @cached_property
    def owed(self) -> Mapping[str, Demand]:
        """By pool, the claims of the waiting members."""
        claims = (
            (job.claim.pool, job.demand, 1)
            for job in self.waiting
            if job.claim and not job.claim.node
        )
        return Demand.totals(claims)

    def least_in(self, pool: str | None, member: Job) -> Job:
        """The member with the gang's least demand in a pool where this member is to run. None: in
        all pools together, that of all that wait."""
        if pool is None:
            return self._joint(self.waiting, copied(member, demand=self.representative.demand))
        demand = self._bound_to.get(pool, NOTHING)
        bound = [job for job in self.waiting if job.pools == (pool,)] if self.gpus_in else []
        if member.pools != (pool,):
            return self._joint([*bound, member], copied(member, demand=demand + member.demand))
        return self._joint(bound, copied(member, demand=demand))

    def _joint(self, members: Iterable[Job], job: Job) -> Job:
        """The job that asks for these members. Without nodes its demand says all."""
        if not self.gpus_in:
            return job
        values = {own.name: getattr(job, own.name) for own in fields(Job)}
        return JointJob(**values, members=tuple(members))

    @cached_property
    def _bound_to(self) -> Mapping[str, Demand]:
        """By pool, the demand of the waiting members that accept no other pool."""
        bound = [job for job in self.waiting if len(job.pools) == 1]
        if self.gpus_in:
            pools = {job.pools[0] for job in bound}
            return {
                pool: self._in_all([job for job in bound if job.pools[0] == pool]) for pool in pools
            }
        return Demand.totals((job.pools[0], job.demand, 1) for job in bound)

    def _in_all(self, jobs: Iterable[Job]) -> Demand:
        """The demand of these members together. Those that take GPUs of nodes are packed."""
        if not self.gpus_in:
            return Demand.total(job.demand for job in jobs)
        from slotq_core.policy.state.nodes.node_requests import packed

        return packed(jobs, self.gpus_in)

    def orders(self) -> list[Sequence[Job]]:
        """The orders of service to try. If not all members are needed, the second order serves
        smaller ones first: a large one may take the room of several."""
        ordered = self.in_service_order
        if len(ordered) <= self.needed:
            return [ordered]
        smaller = sorted(
            ordered,
            key=lambda job: (
                job.name not in self.mandatory,
                job.claim is None,
                job.demand.slots,
                not job.gpus,
                job.gpus,
            ),
        )
        return [ordered, smaller]

    @cached_property
    def representative(self) -> Job:
        """The representative that takes the gang's turn: the first member, with the demand and the
        pools of all."""
        jobs = sorted(self.waiting, key=self._place)
        first = self._with_gang_rank(
            jobs[0],
            demand=self._in_all(jobs),
            pools=tuple(dict.fromkeys(pool for job in jobs for pool in job.pools)),
            claim=next((job.claim for job in jobs if job.claim), None),
        )
        return self._joint(jobs, first)


def starts_together(
    decisions: Iterable[Decision], gangs: Mapping[str, LiveGang]
) -> Iterator[Decision]:
    """The decisions, with the starts of each gang's members merged in place of the first."""
    starts: dict[str, list[Start]] = {}
    ordered: list[Decision | str] = []
    for decision in decisions:
        group = decision.job.group if isinstance(decision, Start) else ""
        if not isinstance(decision, Start) or group not in gangs or gangs[group].runs:
            ordered.append(decision)
        elif group in starts:
            starts[group].append(decision)
        else:
            starts[group] = [decision]
            ordered.append(group)
    for entry in ordered:
        yield (
            StartGang(group=entry, starts=tuple(starts[entry])) if isinstance(entry, str) else entry
        )


def gangs(snapshot: Snapshot) -> dict[str, LiveGang]:
    """The gangs by group name. A sweep is no gang: its jobs are independent (concurrency.py)."""
    if not snapshot.groups:
        return {}
    waiting = _by_group(snapshot.waiting)
    active = _by_group(snapshot.active)
    gpus_in = {pool.name: gpus_of(pool) for pool in snapshot.pools if pool.nodes is not None}
    return {
        group.name: LiveGang(
            group=_with_last_stops(group, active.get(group.name, ())),
            waiting=tuple(waiting.get(group.name, ())),
            active=tuple(active.get(group.name, ())),
            gpus_in=gpus_in,
        )
        for group in snapshot.groups
        if group.max_parallel is None
    }


def _with_last_stops(group: Group, active: Sequence[Job]) -> Group:
    """The group with members that stop for good counted as ended though they have not stopped yet:
    the other members need not stop for them."""
    ends = ((job.name, _end_after_stop(job)) for job in active)
    stopped = {name: end for name, end in ends if end is not None}
    return copied(group, ended={**stopped, **group.ended}) if stopped else group


def _end_after_stop(job: Job) -> JobState | None:
    """The state in which a job that stops for good will end, unless it completes; None: it waits
    again after its stop, or does not stop."""
    stop = job.attempt.stop if job.attempt else None
    if stop is None:
        return None
    if stop.cause in _CANCELS:
        return JobState.CANCELLED
    return JobState.FAILED if stop.cause is StopCause.STALLED and not job.retries else None


def settled(snapshot: Snapshot) -> Iterator[LeaveOut | RollBack | EndGroup]:
    """Decisions on gangs since the last plan: ends, rollbacks and members to leave out."""
    for _, gang in sorted(gangs(snapshot).items()):
        if gang.end:
            yield from _ended(gang)
        elif gang.runs:
            rolled = _to_roll_back(gang)
            if rolled:
                yield RollBack(group=gang.group.name, jobs=rolled)
        elif not gang.active and (gang.broken or _is_over(gang)):
            for job in sorted(gang.waiting, key=position):
                yield LeaveOut(job=job)


def _ended(gang: LiveGang) -> Iterator[LeaveOut | EndGroup]:
    """The end of a gang that ends with one of its members: no other member starts any more."""
    live = [job for job in gang.active if job.attempt and not job.attempt.stop]
    if live:
        jobs = tuple(sorted(live, key=position))
        yield EndGroup(group=gang.group.name, jobs=jobs, why=gang.end)
    for job in sorted(gang.waiting, key=position):
        yield LeaveOut(job=job)


def _to_roll_back(gang: LiveGang) -> tuple[Job, ...]:
    """The running members of an incomplete gang that can still be whole: a start has failed, or a
    needed member was cancelled. The rest of a broken gang runs to its end."""
    if gang.broken or gang.enough(job.name for job in gang.live):
        return ()
    return tuple(sorted(gang.live, key=position))


def _is_over(gang: LiveGang) -> bool:
    """Whether the gang has run and no member that ran waits for another attempt. An elastic gang is
    over once enough have completed."""
    if gang.is_ending and not (gang.needed or gang.mandatory):
        return True
    ran = any(state is not JobState.CANCELLED for state in gang.group.ended.values())
    return ran and not any(job.attempts for job in gang.waiting)


def _by_group(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        if job.group:
            found.setdefault(job.group, []).append(job)
    return found
