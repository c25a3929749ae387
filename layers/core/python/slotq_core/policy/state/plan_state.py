"""The working state of one plan: the decisions so far, and the amounts left to later jobs.

Only this module applies a decision. Turns and actions look at the state and propose. All parts of
the state share one journal, so whatever a turn tries can be rolled back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from slotq_core.model.attempts import StopCause
from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import SEMI, Claim, Job
from slotq_core.model.pools import PoolState
from slotq_core.model.reasons import Reason
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.missing_rights import takes_only_free_slots
from slotq_core.policy.lines import WaitingLine, by_user, in_lines
from slotq_core.policy.order import Rank, precedence, rank
from slotq_core.policy.plan import Evict, Move, Start
from slotq_core.policy.state.candidates import Candidate, Place
from slotq_core.policy.state.claims import Entitlement
from slotq_core.policy.state.decided import Decided
from slotq_core.policy.state.groups.concurrency import Concurrency
from slotq_core.policy.state.groups.gangs import gangs
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.may_evict import MayEvict, may_evict
from slotq_core.policy.state.pool_room import PoolRoom, rooms_of
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.budgets import Budgets
from slotq_core.policy.state.quotas.limits import QuotaLimits
from slotq_core.policy.state.quotas.shares import Shares
from slotq_core.policy.state.running_jobs import RunningJobs

if TYPE_CHECKING:  # Most queues have no nodes or reservations: no cold start should pay for them.
    from slotq_core.policy.state.groups.gangs import LiveGang
    from slotq_core.policy.state.nodes.node_room import NodeRoom
    from slotq_core.policy.state.nodes.nodes import Nodes
    from slotq_core.policy.state.quotas.reservation_rights import ReservationRights

Moved = tuple[tuple[Job, Claim], ...]
"""Jobs that move, each with the claim to its destination."""

Destinations = Mapping[str, "tuple[NodeRoom, tuple[int, ...]]"]
"""By job that moves, the node to which it moves, and its GPUs there."""


class Loss(NamedTuple):
    """A job that loses the slots which this plan gave it."""

    job: Job
    pool: str
    checkpoint: int
    """The state before the turn in which the job got its slots."""


class PlanState:
    """Everything that a plan knows and has decided."""

    def __init__(self, snapshot: Snapshot, now: int, budgets: Budgets) -> None:
        self.budgets, self.now, self.precedence = budgets, now, precedence(snapshot)
        snapshot = budgets.without_them()
        self.journal, self.gangs = Journal(), gangs(snapshot)
        self.beyond_core = _beyond_core(snapshot, self.gangs)
        self.may_evict = _may_evict(snapshot, budgets, self.beyond_core)
        self.nodes = _nodes_of(snapshot, now, self.journal, self.gangs, self.may_evict)
        self.snapshot = seen = self.nodes.as_seen if self.nodes else snapshot
        lines = in_lines(
            snapshot.waiting,
            snapshot.behind,
            by_user=by_user(snapshot),
            unread=snapshot.unread,
        )
        self.waiting = {job.name: job for job in snapshot.waiting}
        self.concurrency = Concurrency(snapshot, self.journal)
        self.running = RunningJobs(
            seen, now, self.gangs, self.journal, self.nodes, may_evict=self.may_evict
        )
        self.accounts = Accounts(
            seen,
            lines,
            self.journal,
            self.budgets.soft,
            snapshot,
            nodes=self.nodes,
            now=now,
            may_evict=self.may_evict,
        )
        self.shares = Shares(self.accounts)
        self.entitled = Entitlement(self.accounts, self.shares)
        self.rooms = rooms_of(seen, self.running, self.entitled, now, self.journal)
        self.reservations = _reservation_rights(self.rooms, now, budgets)
        self.limits = QuotaLimits(self.accounts, self.shares, self.reservations)
        self.lines, self.decided = self._turn_takers(lines), Decided(self.journal)
        self.held_in: dict[str, str] = {}  # By job, the pool that holds slots for it.
        self.lost: list[Loss] = []
        """The jobs that lose, in the present turn, the slots that this plan gave them."""
        self.evicted: list[Place] = []
        """The running jobs that the present turn evicts or moves, each with its pool."""
        self.surplus: set[str] = set()
        """Pools in which an eviction has freed more than its beneficiary needs."""
        self.barred: dict[str, set[str]] = {}
        """By job, the pools where its turn comes last. A rollback keeps the bars."""
        self.undone = self._turn_began = 0
        """How many changes were undone to restart the plan."""
        self.tries_last = False
        """Whether all others have been asked, so that bars no longer count."""
        self.lowest_started: dict[str, Rank] = {}
        """By project, the lowest rank among the jobs that this plan has started."""
        self._rooms_of: dict[tuple[tuple[str, ...], tuple[str, ...]], list[PoolRoom]] = {}
        self._given: dict[str, int] = {}  # By job, the checkpoint before its turn gave it slots.

    def begin_turn(self) -> int:
        """Begin a turn. Return the checkpoint before it."""
        self._turn_began = self.journal.checkpoint()
        if self.lost:
            self.journal.set(self, "lost", [])
        if self.evicted:
            self.journal.set(self, "evicted", [])
        return self._turn_began

    def rooms_of(self, job: Job) -> list[PoolRoom]:
        """The existing rooms that the job's project may use and that no bar closes to the job, in
        the job's order. After a refusal those that have not refused it lately, if one could hold
        it, else all; those that refused it last come last."""
        key = (job.pools, job.refused_in)
        if key not in self._rooms_of:
            last = {name: place for place, name in enumerate(job.refused_in, start=1)}
            names = sorted(job.pools, key=lambda name: last.get(name, 0))
            self._rooms_of[key] = [self.rooms[name] for name in names if name in self.rooms]
        rooms = self._rooms_of[key]
        if self.gangs and job.group in self.gangs:
            rooms = self._beside_gang(job, rooms)
        if self.accounts.are_shut:
            rooms = [room for room in rooms if self.accounts.open_to(job, room.pool.name)]
        if job.refused_in:
            rooms = self._without_refusing(job, rooms)
        if self.tries_last or job.name not in self.barred:
            return rooms
        return [room for room in rooms if room.pool.name not in self.barred[job.name]]

    def _beside_gang(self, job: Job, rooms: list[PoolRoom]) -> list[PoolRoom]:
        """The rooms where a member of a gang that needs one pool may join, while the gang runs."""
        gang = self.gangs[job.group]
        if not (gang.group.same_pool and gang.runs):
            return rooms
        return [room for room in rooms if room.pool.name in gang.pools]

    def _without_refusing(self, job: Job, rooms: list[PoolRoom]) -> list[PoolRoom]:
        open_to = [r for r in rooms if not takes_only_free_slots(job, r.pool.name, self.now)]
        may_hold = (
            room.pool.state is PoolState.ACTIVE and job.demand.within(room.size) for room in open_to
        )
        return open_to if any(may_hold) else rooms

    @cached_property
    def _lines_of(self) -> dict[str, list[WaitingLine]]:
        """By project."""
        found: dict[str, list[WaitingLine]] = defaultdict(list)
        for line in self.lines:
            if line.jobs:
                found[line.jobs[0].project].append(line)
        return found

    def waits(self, project: str) -> Iterator[Job]:
        """The project's unserved jobs without a claim and within the concurrency limits: the first
        of each line represents the line."""
        for line in self._lines_of.get(project, ()):
            if line.jobs and line.jobs[0].claim is None:
                job = next((job for job in line.jobs if not self._is_served(job)), None)
                if job and not self.concurrency.keeps_back(job):
                    yield job

    def own_claims(self, job: Job, pool: str) -> Demand:
        """What the claim of the job, or the claims of the gang that the job represents, hold in the
        accounts that count the pool. They are part of `used` until the job's turn takes them."""
        if not job.claim:
            return NOTHING
        gang, shared = self.gangs.get(job.group), self.accounts.shared
        if gang and not gang.runs and shared is None:
            owed: Mapping[str, Demand] = gang.owed
        elif gang and not gang.runs:
            owed = Demand.totals(
                (other.claim.pool, self._owed_by(other), 1) for other in gang.waiting if other.claim
            )
        else:
            owed = {job.claim.pool: self._owed_by(job)}
        same = self.accounts.scopes.same
        return Demand.total([amount for where, amount in owed.items() if same(where, pool)])

    def _owed_by(self, job: Job) -> Demand:
        """What the claim of the job holds in the accounts. A node that is not shared counts
        already."""
        assert job.claim is not None
        shared = self.accounts.shared
        if job.claim.node and not (shared and shared.are_in(job.claim.pool)):
            return NOTHING
        return shared.of(job, job.claim.pool) if shared else job.demand

    def take_own_claim(self, job: Job) -> None:
        """Free the slots of the job's claim, for the job's own turn."""
        if job.claim and job.claim.node:
            self._take_own_gpus(job, job.claim.pool)
        elif job.claim:
            if job.claim.pool in self.rooms:
                self.rooms[job.claim.pool].take_claim(job)
            self.accounts.take_claim(job, job.claim.pool)

    def start(self, job: Job, room: PoolRoom, classed: Job | None = None) -> None:
        """Give the job its slots. `classed`: the job in the class that admits it."""
        room.give(classed or job)
        if self.nodes and job.group in self.nodes.members.on_nodes:
            self._keep_gang(job)
        self._take(job, room)
        self.journal.put(self._given, job.name, self._turn_began)
        lowest = min(rank(job), self.lowest_started.get(job.project, rank(job)))
        self.journal.put(self.lowest_started, job.project, lowest)
        pool = room.pool.name
        self.decided.decide(job.name, Start(job=self.waiting[job.name], pool=pool, classed=classed))

    def hold(self, job: Job, room: PoolRoom, why: Reason, *, promised: bool = False) -> None:
        """Hold slots, free or coming, against all jobs behind. `promised`: nothing was evicted."""
        self.decided.say(job, why)
        room.hold(job)
        self.journal.put(self.held_in, job.name, room.pool.name)
        self._take(job, room, promised=promised)

    def start_on(self, job: Job, room: NodeRoom, classed: Job | None = None) -> None:
        """Give the job GPUs of a node. `classed`: the job in the class that admits it."""
        assert self.nodes is not None
        self._occupy(job, room)
        if job.group in self.gangs:
            self._keep_gang(job)
        gpu_ids, waiting = self.nodes.give(job, room), self.waiting[job.name]
        start = Start(job=waiting, pool=room.pool, classed=classed, node=room.node, gpu_ids=gpu_ids)
        self.decided.decide(job.name, start)

    def hold_on(
        self,
        job: Job,
        room: NodeRoom,
        why: Reason,
        victims: Sequence[Candidate] = (),
        *,
        to: Destinations | None = None,
        cause: StopCause = StopCause.EVICTED,
    ) -> None:
        """Hold GPUs of a node, free or coming, against all jobs behind, after the eviction of these
        victims. `to`: the nodes that they move to, by job name; None: they do not move."""
        assert self.nodes is not None
        self.decided.say(job, why)
        gone: list[Job] = []
        moved: Moved = ()
        if victims:
            gone = [job for victim in victims for job in victim.jobs]
            self.nodes.evict(room, victims)
            if to is None:
                self._stop_on(room, gone)
                gone += self._evict_others(victims)
            else:
                moved = self._moved(gone, to)
        self._occupy(job, room, promised=not victims)
        self.nodes.hold(job, room)
        if victims:
            counted = self.accounts.users.class_held(job, room.pool) if job.auto else ""
            from slotq_core.policy.state.nodes.node_room import claim_to

            waiting, claim = self.waiting[job.name], claim_to(room, job, counted, self.now)
            evict = Evict(beneficiary=waiting, victims=tuple(gone), claim=claim, cause=cause)
            moves = Move(beneficiary=waiting, moved=moved, claim=claim)
            self.decided.decide(job.name, moves if moved else evict)
            if cause is StopCause.YIELDED:
                self.decided.has_yielded(gone)

    def _stop_on(self, room: NodeRoom, victims: Iterable[Job]) -> None:
        """Note in quotas and limits that these jobs on the node stop."""
        if not (self.accounts.shared and self.accounts.shared.are_in(room.pool)):
            self.accounts.on_nodes.stop(victims, room.pool)
            return
        for victim in victims:
            self.accounts.evict(victim, room.pool)
            self.journal.append(self.evicted, (victim, room.pool))

    def evict(self, places: Iterable[Place]) -> tuple[Job, ...]:
        """Evict these jobs, each in its pool. Return those that really run: a job that got its
        slots in this plan loses its start instead."""
        return tuple(job for job, pool in places if self._evict(job, pool))

    def evict_whole(self, candidates: Iterable[Candidate]) -> tuple[Job, ...]:
        """Evict these candidates, each with the other members of its gangs. Return those that
        really run."""
        chosen = [*candidates]
        gone = self.evict(place for candidate in chosen for place in candidate.places)
        return (*gone, *self._evict_others(chosen)) if self.nodes else gone

    def empty(self, room: NodeRoom, victims: Sequence[Candidate], to: Destinations) -> Moved:
        """Move all jobs of a node to others, so that its instance comes free."""
        assert self.nodes is not None
        shown, pool = self.nodes.as_jobs[room.pool, room.name], room.pool
        self.rooms[pool].evict(shown)
        self.nodes.close(shown)
        self.accounts.evict(shown, pool, empties=True)
        self.journal.append(self.evicted, (shown, pool))
        return self._moved([victim.jobs[0] for victim in victims], to)

    def move(self, job: Job, room: PoolRoom, claim: Claim, claimant: Job) -> None:
        """Evict the running job from the room and enter its claim in another pool."""
        room.evict(job)
        self.rooms[claim.pool].take_in(claimant)
        self.accounts.move(claimant, room.pool.name)
        self.journal.append(self.evicted, (job, room.pool.name))

    def claim_of(self, name: str) -> Claim:
        """The claim to the slots that are held for the job."""
        job, pool = self.waiting[name], self.held_in[name]
        counted = self.accounts.users.class_held(job, pool) if job.auto else ""
        return Claim(pool=pool, amount=job.demand, since=self.now, priority_class=counted)

    def drop_claim(self, job: Job) -> bool:
        """Give up the job's claim. Return whether there was one to give up: one to a node that this
        plan evicts is gone with the node."""
        waiting = self.waiting[job.name]
        claim, gone = waiting.claim, self.nodes.evicted if self.nodes else ()
        if claim is None or (claim.node and (claim.pool, claim.node) in gone):
            return False
        self.decided.drop(waiting)
        return True

    def _moved(self, jobs: Iterable[Job], to: Destinations) -> Moved:
        """Keep GPUs of other nodes for jobs that move there. The limits count them as before."""
        assert self.nodes is not None
        nodes, rooms = self.nodes, self.rooms
        return tuple(
            (job, nodes.move(job, room, ids, rooms[room.pool]))
            for job in jobs
            for room, ids in [to[job.name]]
        )

    def _evict(self, victim: Job, pool: str) -> bool:
        self.rooms[pool].evict(victim)
        if self.nodes:
            self.nodes.close(victim)
        if not isinstance(self.decided.decisions.get(victim.name), Start):
            self.accounts.evict(victim, pool)
            self.journal.append(self.evicted, (victim, pool))
            return True
        self.decided.undecide(victim.name)
        self.drop_claim(victim)
        self.accounts.give_back(victim, pool)
        self.concurrency.give_back(victim)
        self.journal.append(self.lost, Loss(victim, pool, self._given[victim.name]))
        return False

    def _evict_others(self, candidates: Iterable[Candidate]) -> Iterator[Job]:
        """Evict the members of these candidates' gangs that are on nodes, or in other pools."""
        from slotq_core.policy.state.nodes.gang_members import evict_member

        assert self.nodes is not None
        places = (place for candidate in candidates for place in candidate.others)
        for job, at in {job.name: (job, at) for job, at in places}.values():
            attempt = job.attempt
            if attempt is None or not attempt.node:
                if self.rooms[at].jobs.has(job) and self._evict(job, at):
                    yield job
            elif evict_member(job, self.nodes, self.rooms[attempt.pool]):
                self._stop_on(self.nodes.rooms[attempt.pool, attempt.node], [job])
                yield job

    def _keep_gang(self, job: Job) -> None:
        """Evict no member of the job's gang any more in this plan."""
        from slotq_core.policy.state.nodes.gang_members import spare

        assert self.nodes is not None
        if not self.running.is_kept(job):  # Another member has had it kept.
            self.running.keep(job)
            spare(job.group, self.nodes)

    def _take(self, job: Job, room: PoolRoom, *, promised: bool = False) -> None:
        """Count the job's slots in quotas and limits. Concurrency limits count claims already."""
        if job.claim and (job.claim.pool != room.pool.name or job.claim.node):
            self.drop_claim(job)
        self.accounts.take(job, room.pool.name, promised=promised)
        if not job.claim:
            self.concurrency.take(job)

    def _occupy(self, job: Job, room: NodeRoom, *, promised: bool = False) -> None:
        """Count the job on the node in quotas and limits."""
        assert self.nodes is not None
        if job.claim and (job.claim.pool, job.claim.node) != (room.pool, room.name):
            self.drop_claim(job)
        pool = self.rooms[room.pool]
        self.nodes.occupy(job, room, pool, self.accounts, promised=promised and not job.claim)
        if not job.claim:
            self.concurrency.take(job)

    def _take_own_gpus(self, job: Job, pool: str) -> None:
        """Free the GPUs of the job's claim. Its node still counts for its project, if it counts
        whole."""
        if self.nodes:
            self.nodes.take_claim(job)
        if self.accounts.shared and self.accounts.shared.are_in(pool):
            self.accounts.give_back(job, pool)
        else:
            self.accounts.on_nodes.give_back(job, pool)

    def _is_served(self, job: Job) -> bool:
        return job.name in self.held_in or job.name in self.decided.decisions

    def _turn_takers(self, lines: Iterable[WaitingLine]) -> list[WaitingLine]:
        """The lines whose jobs take turns. A gang that can start is a line with one
        representative."""
        if not self.gangs:
            return [*lines]
        single = []
        for line in lines:
            gang = self.gangs.get(line.jobs[0].group)
            if gang is None or gang.runs:
                single.append(line)
        ready = (gang for gang in self.gangs.values() if gang.ready)
        return single + [WaitingLine([gang.representative]) for gang in ready]


def _may_evict(
    snapshot: Snapshot, budgets: Budgets, beyond_core: AbstractSet[str] | None
) -> MayEvict:
    """Who may be a victim: also by quota, where a semi-preemptible job runs."""
    if not any(job.preemptible == SEMI for job in snapshot.active):
        return may_evict(frozenset(), beyond_core)
    from slotq_core.policy.state.quotas.in_quota import in_quota

    return may_evict(in_quota(snapshot, budgets.soft, beyond_core or frozenset()), beyond_core)


def _beyond_core(snapshot: Snapshot, gangs: Mapping[str, LiveGang]) -> set[str] | None:
    """The members of elastic gangs that the plan may evict singly. None: no gang is elastic, as in
    most queues, and no cold start should pay for one."""
    if not any(gang.group.elastic for gang in gangs.values()):
        return None
    from slotq_core.policy.state.groups.elastic import beyond_core, changed_cores

    names = beyond_core(gangs)
    if snapshot.projects and (cores := changed_cores(gangs)):
        from slotq_core.policy.state.quotas.in_quota import cores_beyond_quota

        names |= cores_beyond_quota(snapshot, cores, names)
    return names


def _reservation_rights(
    rooms: Mapping[str, PoolRoom], now: int, budgets: Budgets
) -> ReservationRights | None:
    """The reservations in force; None: no pool has any."""
    if not any(room.pool.reservations for room in rooms.values()):
        return None
    from slotq_core.policy.state.quotas.reservation_rights import ReservationRights

    return ReservationRights(rooms, now, budgets.soft)


def _nodes_of(
    snapshot: Snapshot,
    now: int,
    journal: Journal,
    gangs: Mapping[str, LiveGang],
    may_evict: MayEvict,
) -> Nodes | None:
    """The nodes of the plan; None: there are none, and no pool may have some."""
    if not (snapshot.nodes or any(pool.nodes for pool in snapshot.pools)):
        return None
    from slotq_core.policy.state.nodes.nodes import Nodes

    return Nodes(snapshot, now, journal, gangs, may_evict)
