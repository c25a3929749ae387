"""Candidates for an eviction.

Never evicted: a job that the plan must not (`MayEvict`); one inside its pool's, project's or own
`min_runtime` (a job's own is capped by its pool's `max_min_runtime`, default 0); one already
stopping. A job whose create call SageMaker has not answered is never evicted either: a stop could
overtake the create. Evicting one evicts the gang: jobs that are evicted together are one
`Candidate`. A member beyond the core of an elastic gang is one of its own (groups/elastic.py).

An eviction costs the work since the last checkpoint plus one start of the pool, in whole starts.
Where no start is known, it costs the work alone.

See docs/policy-decisions.md#victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.policy.order import Rank, rank, same_user_and_rank
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict

Place = tuple[Job, str]
"""A job that holds slots, and the pool of these slots; of a job on a node, the node."""


class Later(str):
    """A name that sorts backwards: of candidates alike in all else, the later name goes first."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

    def __gt__(self, other: str) -> bool:
        return str.__lt__(self, other)


Order = tuple[Rank, int, int, int, int, int, int, int, Later, Later]
"""The sort key of candidates."""

StartTimes = Mapping[str, int]
"""How long a start takes (ms), by pool; a pool that is not here has no known start, nor has a
node."""

NO_STARTS: StartTimes = {}

_LATELY = 86_400_000
"""For how long (ms) an eviction spares its victim the next, among candidates of equal cost."""


@dataclass(kw_only=True, slots=True, eq=False)
class Candidate:
    """One job, or all running members of a gang in all their pools."""

    name: str
    """The name of the job or the gang."""
    gang: bool
    places: tuple[Place, ...]
    rank: Rank
    """The lowest among the members; `entry_time` is the last."""
    entry_time: int
    unsaved: int
    """Work that stopping the candidate may cost (ms): of a gang, the worst member's."""
    lost: int
    """Work that stopping may cost, summed over all jobs (ms times slots)."""
    slots: int
    """Slots in all pools."""
    cost: int
    """What an eviction costs the candidate (ms): the unsaved work and one start, rounded up to
    whole starts; of a gang, the worst member's. Where no start is known, the same as `unsaved`."""
    slot_cost: int
    """The same, summed over all jobs (ms times slots)."""
    start: int = 0
    """How long a start takes where the candidate runs (ms), the slowest; 0: not known."""
    evicted_lately: int = 0
    """The evictions for others within `_LATELY`, of a gang the most of a member; 0 where no start
    is known."""
    started: int = 0
    """If only this plan has started the candidate, a number that grows with each start; else 0."""
    others: tuple[Place, ...] = ()
    """Members of the same gangs elsewhere: they stop, too. What they hold does not count here."""
    extras: tuple[Candidate, ...] = ()
    """Of the core of an elastic gang, the other members: they stop, too, as victims of their
    own."""
    joined: int = 0
    """Of such a member, a number below 0 that falls with the time of its start; else 0."""
    order: Order = field(init=False)
    """The sort key of candidates, the first victim first: "lowest rank, then least cost in whole
    starts, then fewer evictions in the last 24 h, then least time since the last reported
    checkpoint (else since the attempt's start), then members beyond a core, the last joined first,
    then larger, then later entry, then later name".
    But of the starts of this plan the last is taken first, and before jobs that run.
    The last job's name breaks ties between a gang and a job of one name."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(job for job, _ in self.places)

    @property
    def number(self) -> int:
        """How many jobs stop."""
        return len(self.places) + len(self.others)

    @property
    def project(self) -> str:
        return self.places[0][0].project

    @property
    def pools(self) -> frozenset[str]:
        return frozenset(pool for _, pool in self.places)

    def frees(self, pool: str) -> Demand:
        """The amounts that stopping the candidate frees in the pool."""
        held = [job.demand for job, where in self.places if where == pool]
        return held[0] if len(held) == 1 else Demand.total(held)

    @property
    def holds(self) -> Demand:
        """The amounts that the candidate holds in all pools."""
        held = [job.demand for job, _ in self.places]
        return held[0] if len(held) == 1 else Demand.total(held)

    def ran_at(self, moment: int) -> bool:
        """Whether every job ran by the moment (ms)."""
        if self.extras and not all(extra.ran_at(moment) for extra in self.extras):
            return False
        return all(ran_at(job, moment) for job, _ in (*self.places, *self.others))

    @property
    def order_once_started(self) -> Order:
        """The sort key in the next plan, for which everything that this plan has started runs."""
        rank_of, cost, _, lost, _, joined, larger, later, name, last = self.order
        cost = max(cost, self.start)
        return (rank_of, cost, self.evicted_lately, lost, 0, joined, larger, later, name, last)

    @property
    def paid(self) -> int:
        """The evictions that count for it. A start of this plan has no instances to lose yet."""
        return 0 if self.started else self.evicted_lately

    def __post_init__(self) -> None:
        name, last = Later(self.name), Later(self.places[-1][0].name)
        larger, later, begun = -self.slots, -self.entry_time, -self.started
        self.order = (
            self.rank, self.cost, self.paid, self.unsaved, begun, self.joined, larger, later, name,
            last,
        )  # fmt: skip


def alone(job: Job, pool: str, now: int, started: int, start: int = 0) -> Candidate:
    """A single job as a candidate; quicker than `candidate_of`. `start`: how long a start takes in
    its pool (ms); 0: not known."""
    work = unsaved(job, now)
    cost = _in_starts(job, work, start)
    return Candidate(
        name=job.name,
        gang=False,
        places=((job, pool),),
        rank=rank(job),
        entry_time=job.entry_time,
        unsaved=work,
        lost=work * job.demand.slots,
        cost=cost,
        slot_cost=cost * job.demand.slots,
        start=start,
        evicted_lately=_lately(job, now) if start else 0,
        slots=job.demand.slots,
        started=started,
    )


class RunningGang:
    """The running members of one gang. They are evicted together."""

    def __init__(
        self,
        name: str,
        ranked: Iterable[Job],
        now: int,
        starts: StartTimes = NO_STARTS,
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        """`ranked`: also members that may yet join, so that a join changes nothing."""
        self._name, self._ranked, self._now, self._starts = name, ranked, now, starts
        self._may_evict = may_evict
        self.places: list[Place] = []
        self.started: dict[str, int] = {}
        """By member that this plan has started, the number of the start."""
        self.protected = False
        """Whether a `min_runtime` protects a member that ran before this plan."""
        self.is_known = False
        """Whether `as_one` still holds."""
        self._as_one: Candidate | None = None
        self.on_nodes: tuple[Place, ...] = ()
        """The members on nodes that ran before this plan."""

    def with_member(self, job: Job) -> Candidate | None:
        """The candidate that this member stops with."""
        return self.as_one()

    def add(self, job: Job, pool: str, number: int) -> None:
        """Add a member. `number`: of the start, if this plan starts the member; else 0."""
        self.places.append((job, pool))
        if number:
            self.started[job.name] = number

    def remove(self, job: Job, pool: str) -> None:
        self.places.remove((job, pool))
        self.started.pop(job.name, None)

    def as_one(self) -> Candidate | None:
        """The whole gang as one candidate; None unless every member may be stopped."""
        if not self.is_known:
            self.is_known, self._as_one = True, None
            if self.places and not self.protected and self.may_be_stopped():
                as_a_whole = len(self.started) == len(self.places)
                self._as_one = candidate_of(
                    self.places,
                    self._name,
                    self._now,
                    gang=True,
                    ranked=self._ranked,
                    started=max(self.started.values()) if as_a_whole else 0,
                    others=self.on_nodes,
                    starts=self._starts,
                )
        return self._as_one

    def protect(self, ends: Mapping[str, int | None]) -> Mapping[str, int | None]:
        """Extend the last protection of a member to the gang, or drop it if the gang is never
        stopped. `ends`: by protected member, when that ends (ms; None: not known). Returns the
        same of all members whose protection then counts."""
        self.protected = bool(ends)
        if not ends or not self.may_be_stopped():
            return {}
        known = [end for end in ends.values() if end is not None]
        until = max(known) if len(known) == len(ends) else None
        return {job.name: until for job, _ in self.places}

    def protected_with(self, job: Job) -> tuple[str, ...]:
        """The names of the candidates that a protection of this member protects."""
        return (self._name,)

    def may_be_stopped(self) -> bool:
        return all(may_be_stopped(job, self._may_evict) for job, _ in self.places)


class NodeWithGangs(RunningGang):
    """A node with members of gangs. Who takes its instance evicts these gangs whole."""

    def __init__(
        self,
        name: str,
        gangs: Sequence[RunningGang],
        now: int,
        starts: StartTimes = NO_STARTS,
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        """`name`: of the job that stands for the node."""
        super().__init__(name, (), now, starts, may_evict)
        self._gangs_on_it = gangs

    def as_one(self) -> Candidate | None:
        """The job that stands for the node, with all members of its gangs elsewhere; None unless
        all of these may be stopped, and are of one project."""
        if not self.is_known:
            self.is_known, self._as_one = True, None
            if self.places and not self.protected and self.may_be_stopped():
                self._as_one = self._with_gangs()
        return self._as_one

    def _with_gangs(self) -> Candidate | None:
        shown, pool = self.places[0]
        elsewhere: dict[str, Place] = {}
        for gang in self._gangs_on_it:
            members = (*gang.places, *gang.on_nodes)
            if gang.protected or any(job.project != shown.project for job, _ in members):
                return None
            elsewhere |= {job.name: (job, at) for job, at in members if at != shown.name}
        return candidate_of(
            [(shown, pool)],
            shown.name,
            self._now,
            others=(*elsewhere.values(),),
            starts=self._starts,
        )


def candidate_of(
    places: Iterable[Place],
    name: str,
    now: int,
    *,
    gang: bool = False,
    ranked: Iterable[Job] = (),
    started: int = 0,
    others: tuple[Place, ...] = (),
    starts: StartTimes = NO_STARTS,
) -> Candidate:
    """These jobs as one candidate. `ranked`: other jobs that count for its rank and entry time.
    `others`: jobs that stop with it."""
    ordered = tuple(sorted(places, key=lambda place: (place[0].name, place[1])))
    jobs = [job for job, _ in ordered]
    members = [*jobs, *ranked]
    stopped = [job for job, _ in others]
    every = [(job, starts.get(pool, 0)) for job, pool in (*ordered, *others)]
    costs = [(job, _in_starts(job, unsaved(job, now), start)) for job, start in every]
    start = max(start for _, start in every)
    return Candidate(
        name=name,
        gang=gang,
        places=ordered,
        rank=min(rank(job) for job in members),
        entry_time=max(job.entry_time for job in members),
        unsaved=max(unsaved(job, now) for job in (*jobs, *stopped)),
        lost=sum(lost_by(job, now) for job in (*jobs, *stopped)),
        cost=max(cost for _, cost in costs),
        slot_cost=sum(_over_slots(cost, job) for job, cost in costs),
        start=start,
        evicted_lately=max(_lately(job, now) for job, _ in every) if start else 0,
        slots=sum(job.demand.slots for job in jobs),
        started=started,
        others=others,
    )


def may_be_stopped(job: Job, may_evict: MayEvict) -> bool:
    """Whether the job itself allows a stop. A `min_runtime` depends on the pool as well."""
    return may_evict(job) and is_settled(job)


def is_settled(job: Job) -> bool:
    return job.state is not JobState.STARTING or (job.attempt is not None and job.attempt.created)


def is_safe_once_started(job: Job, pool: Pool, project_min: int) -> bool:
    """Whether a `min_runtime` will protect a job that only this plan has started."""
    return job.attempt is None and longest_protection(job, pool, project_min) > 0


def stays_for_its_user(job: Job, other: Job, pool: Pool) -> bool:
    """Whether the running job might move or yield for the waiting one, were it another user's."""
    between_equals = pool.consolidate or pool.time_slice is not None
    return between_equals and same_user_and_rank(job, other)


def protection(job: Job, pool: Pool, project_min: int, now: int) -> tuple[bool, int | None]:
    """Whether a `min_runtime` protects a job that holds slots, and until when (ms); None if the job
    does not run now, or no `min_runtime` applies."""
    length, attempt = _protection(job, pool, project_min), job.attempt
    auto = pool.auto_protection if attempt is not None and not attempt.node else 0
    if attempt is None or not (length or auto):
        return False, None
    if attempt.running_since is not None:
        until = attempt.running_since + max(length, auto)
        return now < until, until
    if attempt.ran_before < length:  # It starts, or is interrupted.
        return True, None
    if not auto:
        return False, None
    until = attempt.admitted_at + auto
    return now < until, until


def ran_at(job: Job, moment: int) -> bool:
    """Whether the job's attempt had begun to run by the moment (ms)."""
    since = job.attempt.running_since if job.attempt else None
    return since is not None and since <= moment


def unsaved(job: Job, now: int) -> int:
    """Work that stopping the job now may cost (ms). An interruption has cost what was unsaved."""
    attempt = job.attempt
    if attempt is None or attempt.interrupted_since is not None:
        return 0
    since = attempt.checkpoint_at or attempt.running_since
    return 0 if since is None else max(0, now - max(since, attempt.resumed_at or since))


def lost_by(job: Job, now: int) -> int:
    """Work that stopping the job now may cost (ms times slots); on a node, its part of the slot."""
    return _over_slots(unsaved(job, now), job)


def _over_slots(cost: int, job: Job) -> int:
    attempt = job.attempt
    if attempt is not None and attempt.node:
        return cost * job.gpus // (WHOLE * max(1, attempt.node_gpus))
    return cost * job.demand.slots


def _in_starts(job: Job, work: int, start: int) -> int:
    """The work (ms) and one start, rounded up to whole starts. A job that only this plan has
    started loses nothing."""
    if not start:
        return work
    return 0 if job.attempt is None else -(-(work + start) // start) * start


def _lately(job: Job, now: int) -> int:
    """How often others have taken the job's slots within `_LATELY`."""
    return sum(now - at < _LATELY for at in job.evicted_at)


def longest_protection(job: Job, pool: Pool, project_min: int) -> int:
    """How long (ms) each start of the job is protected in the pool at most."""
    return max(_protection(job, pool, project_min), pool.auto_protection)


def _protection(job: Job, pool: Pool, project_min: int) -> int:
    """How long (ms) the settings protect the job in the pool from its start."""
    return max(0, pool.min_runtime, project_min, min(job.min_runtime, pool.max_min_runtime))
