"""Jobs over several pools at once (heterogeneous clusters): all of their parts start, or none.

Each part is planned as a member of a gang made for the job. Decisions on the parts are then
restated for the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from slotq_core.lifecycle import copied
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.reasons import GangBlocked, NeedsSeveralPools, Reason
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy import plan
from slotq_core.policy.lines import Line, by_user
from slotq_core.policy.order import position
from slotq_core.policy.plan import Decision, Plan, Planning, Unexamined
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.user_limits import UserBooks

Planner = Callable[[Snapshot, int, Job | None], Planning]
"""The type of `planning` in cycle.py."""


def in_parts(planner: Planner) -> Planner:
    """Extend a planner that knows only gangs, so that jobs may have parts. It asks for no more of
    their lines: a plan begins with all that empty pools could hold (`lines.first_read`)."""

    def planned(snapshot: Snapshot, now: int, asked: Job | None = None) -> Planning:
        jobs = (*snapshot.active, *snapshot.waiting, *snapshot.due)
        whole = {job.name: job for job in jobs if job.parts}
        if not whole:
            return (yield from planner(snapshot, now, asked))
        apart = _in_one_class(_taken_apart(snapshot))
        rejoined = _rejoined((yield from planner(apart, now, asked)), whole)
        return copied(rejoined, unexamined=_OfWholes(rejoined, snapshot))

    return planned


def part_name(job: str, pool: str) -> str:
    """The name of a part. No job has such a name, because job names contain no `@`."""
    return f"{job}@{pool}"


def whole_name(part: str) -> str:
    """The name of the part's job. A job's own name stays as it is."""
    return part.partition("@")[0]


def _taken_apart(snapshot: Snapshot) -> Snapshot:
    gangs = [
        Group(name=job.name, members=tuple(part_name(job.name, pool) for pool, _ in job.parts))
        for job in (*snapshot.active, *snapshot.waiting)
        if job.parts
    ]
    return copied(
        snapshot,
        active=tuple(part for job in snapshot.active for part in _parts(job)),
        waiting=tuple(part for job in snapshot.waiting for part in _parts(job)),
        groups=(*snapshot.groups, *gangs),
    )


def _in_one_class(apart: Snapshot) -> Snapshot:
    """Admit the parts of an AUTO job in one class: the highest with room for all parts."""
    auto: dict[str, list[Job]] = {}
    for job in apart.waiting:
        if job.auto and whole_name(job.name) != job.name:
            auto.setdefault(job.group, []).append(job)
    if not auto:
        return apart
    books = UserBooks(apart, Journal())
    books.begin(apart)
    common = {
        name: next(
            (class_name for class_name in _claimed(parts) if class_name in books.classes), ""
        )
        or books.common_class(parts)
        for name, parts in auto.items()
    }
    parts = {part.name for split in auto.values() for part in split}
    waiting = (
        copied(job, admitted_class=common[job.group]) if job.name in parts else job
        for job in apart.waiting
    )
    return copied(apart, waiting=tuple(waiting))


def _claimed(parts: Iterable[Job]) -> Iterator[str]:
    """The classes to which claims bind these parts."""
    return (part.claim.priority_class for part in parts if part.claim)


def _parts(job: Job) -> Iterator[Job]:
    if not job.parts:
        yield job
        return
    for pool, demand in job.parts:
        yield copied(
            job,
            name=part_name(job.name, pool),
            group=job.name,
            parts=(),
            demand=demand,
            pools=(pool,),
            attempt=job.attempt and copied(job.attempt, pool=pool),
            claim=job.claim and copied(job.claim, pool=pool, amount=demand),
        )


def _rejoined(parts: Plan, whole: Mapping[str, Job]) -> Plan:
    """Restate the decisions and reasons of the parts, once for each job."""
    jobs = {part_name(name, pool): job for name, job in whole.items() for pool, _ in job.parts}
    decisions: list[Decision] = []
    for decision in parts.decisions:
        said = _of_the_whole(decision, jobs)
        if said not in decisions:
            decisions.append(said)
    reasons = {name: why for name, why in parts.reasons.items() if name not in jobs}
    for name, why in parts.reasons.items():
        if name in jobs and jobs[name].name not in reasons:
            reasons[jobs[name].name] = _reason(jobs[name], why)
    return copied(parts, decisions=tuple(decisions), reasons=reasons)


class _OfWholes(Unexamined):
    """The reasons of jobs that were not examined, including jobs in parts."""

    def __init__(self, planned: Plan, snapshot: Snapshot) -> None:
        self._planned, self._snapshot = planned, snapshot
        self._others = planned.unexamined

    def kept_back(self, job: Job) -> Reason | None:
        return self._others.kept_back(job)

    def head_of(self, job: Job) -> str:
        if not job.parts:
            return self._others.head_of(job)
        return self._heads.get(Line.of(job, by_user=self._by_user), "")

    @cached_property
    def _by_user(self) -> bool:
        return by_user(self._snapshot)

    @cached_property
    def _heads(self) -> dict[Line, str]:
        """By line, the first job in parts that was examined and waits."""
        heads: dict[Line, str] = {}
        for job in sorted(self._snapshot.waiting, key=position):
            if job.parts and job.claim is None and job.name in self._planned.reasons:
                heads.setdefault(Line.of(job, by_user=self._by_user), job.name)
        return heads


def _of_the_whole(decision: Decision, jobs: Mapping[str, Job]) -> Decision:
    match decision:
        case plan.StartGang(starts=starts) if starts[0].job.name in jobs:
            job, classed = jobs[starts[0].job.name], starts[0].classed
            whole = classed and _as_whole(classed, job)
            beside = any(start.beside_warm for start in starts)
            return plan.Start(job=job, pool=job.parts[0][0], classed=whole, beside_warm=beside)
        case plan.Release(job=part, claim=claim) if part and claim and part.name in jobs:
            job = jobs[part.name]
            pool, amount = job.parts[0]
            owed = copied(claim, pool=pool, amount=amount)
            return copied(decision, job=job, claim=owed, along=())
        case plan.EndBackoff() | plan.GiveUp() | plan.DropClaim() if decision.job.name in jobs:
            return copied(decision, job=jobs[decision.job.name])
        case plan.Stall(job=job, after=after) if job.name in jobs:
            whole = jobs[job.name]
            assert after.attempt is not None and whole.attempt is not None
            attempt = copied(after.attempt, pool=whole.attempt.pool)
            after = copied(_as_whole(after, whole), attempt=attempt)
            return copied(decision, job=whole, after=after)
        case plan.Demote(job=job, after=after) if job.name in jobs:
            return plan.Demote(job=jobs[job.name], after=_as_whole(after, jobs[job.name]))
        case plan.TryLater(changed=changed, why=why) if changed[0][0].name in jobs:
            before, after = changed[0]
            job = jobs[before.name]
            return plan.TryLater(changed=((job, _as_whole(after, job)),), why=_reason(job, why))
        case plan.Evict():
            return _eviction(decision, jobs)
        case plan.Close(jobs=closed):
            decision = copied(decision, jobs=tuple(_once(jobs.get(j.name, j) for j in closed)))
    return decision


def _eviction(decision: plan.Evict, jobs: Mapping[str, Job]) -> plan.Evict:
    victims = tuple(_once(jobs.get(victim.name, victim) for victim in decision.victims))
    job = jobs.get(decision.beneficiary.name)
    if job is None:
        return copied(decision, victims=victims)
    pool, amount = job.parts[0]
    claim = copied(decision.claim, pool=pool, amount=amount)
    return plan.Evict(beneficiary=job, victims=victims, claim=claim)


def _as_whole(part: Job, job: Job) -> Job:
    """The changes decided for the part, applied to the whole job."""
    return copied(
        part,
        name=job.name,
        group=job.group,
        parts=job.parts,
        demand=job.demand,
        pools=job.pools,
        attempt=part.attempt and job.attempt,
        claim=part.claim and job.claim,
    )


def _once(jobs: Iterable[Job]) -> Iterator[Job]:
    yield from {job.name: job for job in jobs}.values()


def _reason(job: Job, why: Reason) -> Reason:
    if not isinstance(why, GangBlocked):
        return why
    return NeedsSeveralPools(
        needed=tuple((pool, demand.slots) for pool, demand in job.parts),
        drains=why.drains,
        lacks=why.lacks,
        also=why.also,
        project=why.project,
    )


def total(parts: Iterable[tuple[str, Demand]]) -> Demand:
    """The total demand of a job with these parts."""
    return sum((demand for _, demand in parts), Demand())
