"""Gangs: who of them may start, who must, and what becomes of one that is no longer whole.

"A gang's members are admitted together over all their pools, or none. Evicting one evicts the gang.
Its rank is its lowest member's, its entry its last member's; completed members count towards the
minimum, cancelled ones do not; members left out at the start may join while the gang runs and end
`cancelled`, reason `left_out`, with it. A failed start rolls the others back." (DESIGN 5.4)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slotq_core.model.attempts import StopCause
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import position, rank
from slotq_core.policy.plan import Decision, LeaveOut, RollBack, Start, StartGang


@dataclass(frozen=True, kw_only=True, slots=True)
class Gang:
    """A group and those of its members that have not ended."""

    group: Group
    waiting: tuple[Job, ...]
    active: tuple[Job, ...]

    @property
    def needed(self) -> int:
        """How many more than have completed must run for the gang to run."""
        ended = list(self.group.ended.values())
        least = self.group.min_members
        if least is None:
            least = len(self.group.members) - ended.count(JobState.CANCELLED)
        return max(0, least - ended.count(JobState.COMPLETED))

    @property
    def mandatory(self) -> frozenset[str]:
        """Those that must be among them."""
        ended = self.group.ended
        return frozenset(n for n in self.group.mandatory if ended.get(n) is not JobState.COMPLETED)

    @property
    def broken(self) -> bool:
        """It can never be whole again: too many of its members have ended otherwise than well."""
        left = [name for name in self.group.members if name not in self.group.ended]
        return len(left) < self.needed or not self.mandatory <= set(left)

    @property
    def runs(self) -> bool:
        """It has been admitted and not been stopped since: others may join it."""
        return any(job.state is not JobState.STOPPING for job in self.active)

    @property
    def ranked(self) -> tuple[Job, ...]:
        """Those whose rank is known: an AUTO job has none before it is admitted."""
        return (*self.active, *(job for job in self.waiting if not job.auto))

    def is_lowered_by(self, job: Job) -> bool:
        """Whether it would count for less with this job, now that its rank there is known."""
        return all(rank(job) < rank(other) for other in self.ranked)

    def enough(self, names: Iterable[str]) -> bool:
        """Whether these are enough of it to run: at least one, however many have completed."""
        chosen = set(names)
        return len(chosen) >= max(1, self.needed) and self.mandatory <= chosen

    @property
    def ready(self) -> bool:
        """Whether those that wait are enough of it to start. While some are being stopped the
        others wait for them."""
        return not self.active and self.enough(job.name for job in self.waiting)

    def allowed_pools(self) -> list[frozenset[str]]:
        """The sets of pools to try, one after the other: each alone where it must be one, and first
        where most of it is owed slots."""
        pools = dict.fromkeys(name for job in self.standing() for name in job.pools)
        if self.group.same_pool:
            owed = Counter(job.claim.pool for job in self.waiting if job.claim)
            return [frozenset({name}) for name in sorted(pools, key=lambda name: -owed[name])]
        return [frozenset(pools)]

    def standing(self) -> list[Job]:
        """Those that wait, each with the rank and the entry of the whole, in the order in which
        they are served: the mandatory, those that accept fewer pools, the larger ones first."""
        lowest = min(self.waiting, key=rank)
        last = max(job.entry_time for job in self.waiting)
        jobs = sorted(
            self.waiting,
            key=lambda job: (
                job.name not in self.mandatory,
                job.claim is None,
                len(job.pools),
                -job.demand.slots,
                position(job),
            ),
        )
        return [
            replace(
                job,
                priority=lowest.priority,
                priority_class=lowest.priority_class,
                admitted_class=job.admitted_class or job.priority_class,
                workload=lowest.workload,
                entry_time=last,
            )
            for job in jobs
        ]

    def orders(self) -> list[list[Job]]:
        """The orders in which to try: as they stand; and where fewer than all will do, the smaller
        ones first, for a large one may take the room of several."""
        standing = self.standing()
        if len(standing) <= self.needed:
            return [standing]
        smaller = sorted(
            standing,
            key=lambda job: (job.name not in self.mandatory, job.claim is None, job.demand.slots),
        )
        return [standing, smaller]

    def lead(self) -> Job:
        """Who takes the turn for all of it: one of its jobs, asking for what all ask for."""
        jobs = self.standing()
        total = sum((job.demand for job in jobs), Demand())
        claim = next((job.claim for job in jobs if job.claim), None)
        return replace(jobs[0], demand=total, claim=claim)


def starts_together(decisions: Iterable[Decision], gangs: Mapping[str, Gang]) -> Iterator[Decision]:
    """The starts of a gang's members as one decision, in the place of the first."""
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
    for each in ordered:
        yield StartGang(group=each, starts=tuple(starts[each])) if isinstance(each, str) else each


def gangs(snapshot: Snapshot) -> dict[str, Gang]:
    """By the group's name. A sweep is none: its jobs go their own ways (concurrency.py)."""
    if not snapshot.groups:
        return {}
    waiting = _by_group(snapshot.waiting)
    active = _by_group(snapshot.active)
    return {
        group.name: Gang(
            group=_with_cancels(group, active.get(group.name, ())),
            waiting=tuple(waiting.get(group.name, ())),
            active=tuple(active.get(group.name, ())),
        )
        for group in snapshot.groups
        if group.max_parallel is None
    }


def _with_cancels(group: Group, active: Sequence[Job]) -> Group:
    """A member whose user has cancelled it counts as cancelled from then on, not only once it has
    stopped: the others need not stop for it."""
    cancelled = {
        job.name: JobState.CANCELLED
        for job in active
        if job.attempt and job.attempt.stop and job.attempt.stop.cause is StopCause.CANCELLED
    }
    return replace(group, ended={**cancelled, **group.ended}) if cancelled else group


def settled(snapshot: Snapshot) -> Iterator[LeaveOut | RollBack]:
    """What has become of gangs since the last plan."""
    for _, gang in sorted(gangs(snapshot).items()):
        if gang.runs:
            rolled = _to_roll_back(gang)
            if rolled:
                yield RollBack(group=gang.group.name, jobs=rolled)
        elif not gang.active and (gang.broken or _is_over(gang)):
            for job in sorted(gang.waiting, key=position):
                yield LeaveOut(job=job)


def _to_roll_back(gang: Gang) -> tuple[Job, ...]:
    """All that run of a gang that could be whole but is not, because a start has failed or a member
    it cannot do without was cancelled. (What is left of a broken one goes on to its end.)"""
    live = [job for job in gang.active if job.state is not JobState.STOPPING]
    if gang.broken:
        return ()
    return () if gang.enough(job.name for job in live) else tuple(sorted(live, key=position))


def _is_over(gang: Gang) -> bool:
    """It has run, and none of those that ran waits for its next attempt."""
    ran = any(state is not JobState.CANCELLED for state in gang.group.ended.values())
    return ran and not any(job.attempts for job in gang.waiting)


def _by_group(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        if job.group:
            found.setdefault(job.group, []).append(job)
    return found
