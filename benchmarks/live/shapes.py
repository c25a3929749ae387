"""What passes cost in queues of any shape: the worst of many, not the mean.

A shape says how much there is of each kind; its world is made at random from its seed. `python -m
benchmarks.live.shapes` searches: it draws shapes, measures each, and prints the worst. The worst
ones found stay here as fixtures (`WORST`).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import app
from benchmarks.live.account import Live, live
from benchmarks.live.meter import Usage
from benchmarks.live.passes import settled
from benchmarks.live.queues import ACTIVE, KINDS, TYPE, fill_in
from benchmarks.live.sharing import ROLE
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Beyond, Budget, Project
from slotq_core.model.sharing import Sharing
from slotq_core.model.users import PriorityClass, UserGroup
from slotq_core.policy.state.groups.job_parts import total
from slotq_core.ports.stored import Change
from slotq_core.ports.usage import NO_MONTH, MonthSum
from slotq_core.usage.calendar_days import day_of, month_of
from tests.contract.worlds import cancelling, completing, running, starting
from tests.functional.account import HOUR, forget

Figures = dict[str, float]
_NEXT = KINDS + 1
"""The priority of the job that starts once a slot is free: above all others that wait."""
_CLASSES = tuple(PriorityClass(name=f"C{value}", value=value) for value in (ACTIVE, *range(52)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How much of each kind there is. All pools are full."""

    pools: int = 2
    projects: int = 0
    groups: int = 0
    """Gangs and sweeps; every third one runs."""
    lines: int = 100
    """Lines of single jobs."""
    reach: int = 1
    """The most pools that a job accepts, in any order."""
    spread: bool = False
    """Whether a job holds slots in several pools at once, as many as it would otherwise accept."""
    slots: int = 4
    """Of each pool."""
    budgets: bool = False
    """Whether each project has nearly spent its budget, and some a bit more."""
    users: bool = False
    """Whether users have limits by class, and pools have time slices."""
    drains: bool = False
    """Whether pools drain for jobs that have waited for long."""
    seed: int = 0

    def __str__(self) -> str:
        """The shape as its settings."""
        said = ((field.name, getattr(self, field.name)) for field in fields(self))
        return ", ".join(f"{name}={value}" for name, value in said)


def drawn(seed: int) -> Shape:
    """The shape of this seed: each number is drawn by its magnitude, so that small ones and large
    ones meet."""
    rng = random.Random(seed)

    def of(least: int, most: int) -> int:
        span: float = ((most + 1) / (least + 1)) ** rng.random()
        return round((least + 1) * span) - 1

    pools = of(1, 200)
    return Shape(
        pools=pools,
        projects=rng.choice((0, of(1, 1_000))),
        groups=rng.choice((0, of(1, 500))),
        lines=of(1, 1_500),
        reach=min(pools, of(1, 6)),
        spread=rng.random() < 0.2,
        slots=of(1, 8),
        budgets=rng.random() < 0.5,
        users=rng.random() < 0.3,
        drains=rng.random() < 0.3,
        seed=seed,
    )


MIXED = Shape(pools=20, projects=50, groups=122, lines=300, reach=3, budgets=True, users=True)
NAMED = {
    "50 projects with everything, 20 pools, 122 groups": MIXED,
    "200 pools": Shape(pools=200, lines=200, slots=2),
    "1,505 lines over permutations of 5 pools": Shape(pools=5, lines=1_505, reach=5, spread=True),
}
WORST = {f"drawn from seed {seed}": drawn(seed) for seed in (62, 107, 148, 186)}
"""The worst of 200: the most rounds of each kind of pass, and the most calls."""
SHORT = tuple(NAMED)[:1]


def measure(*, short: bool = False) -> dict[str, dict[str, Figures]]:
    """What each kind of pass costs, by shape; first the worst of all, whatever its shape."""
    shapes = {name: NAMED[name] for name in SHORT} if short else {**NAMED, **WORST}
    found = {name: world(shape) for name, shape in shapes.items()}
    kinds = next(iter(found.values()))
    worst = {kind: _worst([passes[kind] for passes in found.values()]) for kind in kinds}
    return {"the worst of all": worst, **found}


def _worst(figures: list[Figures]) -> Figures:
    return {name: max(each[name] for each in figures) for name in figures[0]}


def world(shape: Shape) -> dict[str, Figures]:
    """What each kind of pass costs in a queue of this shape."""
    return {kind: usage.figures() for kind, usage in passes(shape).items()}


def passes(shape: Shape) -> dict[str, Usage]:
    """A pass with nothing to do, in a warm container and in a new one, and one with one decision:
    another container has ended a job."""
    with queue(shape) as its:
        quiet = settled(its)
        before = its.account.plane.calls["CreateTrainingJob"]
        ended = its.other.jobs.get("active-0-0")
        assert ended is not None
        its.other.decisions.commit([completing(ended)])
        decision = its.pass_()
        started = its.account.plane.calls["CreateTrainingJob"] - before
        assert started == 1 or shape.drains, (started, shape)  # Or a pool goes on draining.
        forget()
        app.manager()
        cold = its.pass_()
    return {"quiet": quiet, "one decision": decision, "cold container": cold}


@contextmanager
def queue(shape: Shape) -> Iterator[Live]:
    """A queue of this shape."""
    with live() as its:
        its.submit("sample")
        sample = its.other.jobs.get("sample")
        assert sample is not None
        its.other.decisions.commit([cancelling(sample)])
        its.account.lambda_.events.clear()
        made = _Made(its, shape, random.Random(shape.seed))
        made.configure()
        made.fill(sample)
        yield its


class _Made:
    """A world in the making."""

    def __init__(self, its: Live, shape: Shape, rng: random.Random) -> None:
        self._its, self._shape, self._rng = its, shape, rng
        self._now = its.account.clock.now()
        self._pools = [f"pool-{number:03d}" for number in range(shape.pools)]

    def configure(self) -> None:
        shape = self._shape
        pools = [
            Pool(
                name=name,
                instance_type=TYPE,
                capacity=Demand(slots=shape.slots),
                time_slice=HOUR if shape.users else None,
                reserve_after=HOUR if shape.drains else None,
            )
            for name in self._pools
        ]
        self._configure_pools(pools)
        sharing = Sharing(
            projects=tuple(map(self._project, range(shape.projects))),
            classes=_CLASSES if shape.users else (),
            user_groups=(self._everybody(),) if shape.users else (),
        )
        self._its.other.configuration.change(sharing=sharing, who="benchmark", now=self._now)
        if shape.budgets and shape.projects:
            self._spend()

    def _configure_pools(self, pools: list[Pool]) -> None:
        """Configure the pools, some at a time: a transaction has no room for all."""
        for count in range(0, len(pools) + 40, 40):
            self._its.other.configuration.change(pools[:count], who="benchmark", now=self._now)

    def _project(self, number: int) -> Project:
        """Each project deserves what it holds, so nobody reclaims anything."""
        pools = range(self._shape.pools)
        slots = [1 for n in pools for s in range(self._shape.slots) if self._owner(n, s) == number]
        limit = Budget(slot_ms=100 * HOUR, beyond=Beyond.SOFT) if self._shape.budgets else None
        quota = {EVERYWHERE: Demand(slots=sum(slots))}
        return Project(name=_project(number), quota=quota, budget=limit)

    def _owner(self, pool: int, slot: int) -> int:
        """The project that holds this slot."""
        return (pool * self._shape.slots + slot) % max(1, self._shape.projects)

    def _everybody(self) -> UserGroup:
        limits = {pool: {each.name: 1_000 for each in _CLASSES} for pool in self._pools}
        return UserGroup(name="everybody", members=("*",), limits=limits)

    def _spend(self) -> None:
        spent = {
            _project(number): round(HOUR * self._rng.uniform(90, 101))
            for number in range(1, self._shape.projects)
        }
        month = MonthSum(
            month=month_of(self._now),
            settled={_project(0): 0, **spent},
            day=day_of(self._now),
        )
        self._its.other.usage.keep_month(NO_MONTH, month)

    def fill(self, sample: Job) -> None:
        """Fill the pools, and let jobs and groups wait."""
        shape = self._shape
        for number, pool in enumerate(self._pools):
            for slot in range(shape.slots):
                active = self._job(sample, f"active-{number}-{slot}", self._owner(number, slot))
                protected = replace(active, priority=ACTIVE, preemptible=False)
                self._run(protected, pool)
        waiting = [self._waiting(sample, number) for number in range(shape.lines)]
        waiting += [
            replace(job, name=f"{job.name}-{more}")
            for job in waiting
            for more in range(self._rng.randrange(3))
        ]
        urgent = replace(
            self._job(sample, "next", self._owner(0, 0)), priority=_NEXT, pools=("pool-000",)
        )
        for number in range(shape.groups):
            waiting += self._group(sample, number)
        fill_in(self._its.engine, [urgent, *waiting])

    def _waiting(self, sample: Job, number: int) -> Job:
        rng = self._rng
        job = replace(
            self._job(sample, f"waiting-{number:05d}", rng.randrange(10_000)),
            priority=rng.randrange(KINDS),
            demand=Demand(slots=rng.randint(1, self._shape.slots)),
            pools=self._some_pools(),
        )
        if not self._shape.spread or len(job.pools) == 1:
            return job
        parts = tuple((pool, Demand(slots=rng.randint(1, self._shape.slots))) for pool in job.pools)
        return replace(job, parts=parts, demand=total(parts))

    def _group(self, sample: Job, number: int) -> list[Job]:
        """Keep a group's record. Returns its waiting members."""
        rng, name = self._rng, f"group-{number:03d}"
        project, size = rng.randrange(10_000), rng.randint(2, 4)
        pools, priority = self._some_pools(), rng.randrange(KINDS)
        members = [
            replace(
                self._job(sample, f"{name}-{member}", project),
                pools=pools,
                priority=priority,
                group=name,
            )
            for member in range(size)
        ]
        sweep = 1 if rng.random() < 0.3 else None
        group = Group(name=name, members=tuple(m.name for m in members), max_parallel=sweep)
        stored = StoredGroup(
            group=group,
            submitter=sample.submitter,
            digest="d",
            project=members[0].project,
            at=self._now,
        )
        groups = self._its.other.groups
        groups.open(name, digest=stored.digest, now=self._now)
        groups.keep(stored)
        return members

    def _run(self, job: Job, pool: str) -> None:
        other = self._its.other
        stored = other.jobs.submit(replace(job, pools=(pool,)), {"TrainingJobName": job.name})
        (begun,) = other.decisions.commit([starting(stored, pool)])
        change = running(begun)
        other.decisions.commit([Change(before=begun, after=change.after)])

    def _some_pools(self) -> tuple[str, ...]:
        return tuple(self._rng.sample(self._pools, self._rng.randint(1, self._shape.reach)))

    def _job(self, sample: Job, name: str, number: int) -> Job:
        """A job of one slot, of this project's person."""
        project = number % self._shape.projects if self._shape.projects else None
        person = f"{ROLE}/person-{number % 400:03d}" if project is None else _person(project)
        entered = sample.entry_time - HOUR - self._rng.randrange(HOUR)
        return replace(
            sample,
            name=name,
            entry_time=entered,
            submitter=person,
            person=person,
            pools=("pool-000",),
            version=1,
            line_by_user=self._shape.users,
            project="" if project is None else _project(project),
        )


def _project(number: int) -> str:
    return f"project-{number:04d}"


def _person(project: int) -> str:
    return f"{ROLE}/person-{project % 400:03d}"


def search(number: int = 200, first: int = 0) -> None:
    """Print what passes cost in so many shapes, the worst last."""
    found = []
    for seed in range(first, first + number):
        shape = drawn(seed)
        found.append((world(shape), shape))
        print(".", end="", file=sys.stderr, flush=True)
    for kind in found[0][0]:
        for figure in ("rounds", "calls"):
            print(f"\n{kind}, {figure}")
            found.sort(key=lambda each: each[0][kind][figure])
            for figures, shape in found[-5:]:
                calls, rounds = figures[kind]["calls"], figures[kind]["rounds"]
                print(f"  {calls:5.0f} calls {rounds:4.0f} rounds {shape}")


if __name__ == "__main__":
    search(
        int(sys.argv[1]) if len(sys.argv) > 1 else 200, int(sys.argv[2]) if len(sys.argv) > 2 else 0
    )
