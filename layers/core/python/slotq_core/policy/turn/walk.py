"""The working state of one plan: what each step of a turn gives, holds and takes back.

cycle.py has the order of the steps. The module of each step has the rules for its victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Claim, Job
from slotq_core.model.reasons import Reason
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.consolidate import Consolidation
from slotq_core.policy.actions.entitlement import Entitlement
from slotq_core.policy.actions.preempt import Preemption
from slotq_core.policy.actions.reclaim import Books, reclaim
from slotq_core.policy.actions.time_slice import TimeSlices
from slotq_core.policy.actions.victims import Eviction
from slotq_core.policy.explain import waiting as explain
from slotq_core.policy.explain.timers import first_timer, known_times
from slotq_core.policy.lifecycle.demotion import admitted_in
from slotq_core.policy.lifecycle.start_attempts import failed_alike
from slotq_core.policy.lines import by_user, in_lines
from slotq_core.policy.order import Rank, entered, last_yields, rank
from slotq_core.policy.plan import Decision, DropClaim, Evict, Move, Plan, Start, TryLater
from slotq_core.policy.state.candidates import Place
from slotq_core.policy.state.concurrency import Concurrency
from slotq_core.policy.state.gangs import gangs, starts_together
from slotq_core.policy.state.pool_room import PoolRoom, rooms_of
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.running_jobs import RunningJobs
from slotq_core.policy.turn.losses import Losses


class Walk:
    """One pass over the waiting jobs in order. Each step returns whether it served the job."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self.now = now
        self.snapshot = snapshot
        self._lines = in_lines(snapshot.waiting, by_user=by_user(snapshot))
        self._parallel = Concurrency(snapshot)
        self.gangs = gangs(snapshot)
        self.waiting = {job.name: job for job in snapshot.waiting}
        self._holders = RunningJobs(snapshot, now, self.gangs)
        self.rooms = rooms_of(snapshot, self._holders, now)
        self.accounts = Accounts(snapshot, self._lines)
        self.entitled = Entitlement(self.accounts)
        self.yields = last_yields(snapshot.yields)
        self.slices = TimeSlices(
            accounts=self.accounts,
            entitled=self.entitled,
            gangs=self.gangs,
            yields=self.yields,
            now=now,
        )
        self.sheets = explain.Sheets(
            accounts=self.accounts,
            entitled=self.entitled,
            slices=self.slices,
            waiting=self.waiting,
        )
        self._preemption = Preemption(
            everywhere=self.rooms, accounts=self.accounts, entitled=self.entitled
        )
        self._books = Books(
            accounts=self.accounts,
            entitled=self.entitled,
            waiting=self._waits,
            rooms=self.rooms_of,
        )
        self._consolidation = Consolidation(
            everywhere=self.rooms, accounts=self.accounts, entitled=self.entitled
        )
        self.decisions: dict[str, Decision] = {}
        """By the name of the job that each concerns, in the order in which they were taken."""
        self.reasons: dict[str, Reason] = {}
        self.given_up: dict[str, DropClaim] = {}
        """Abandoned claims, by job. The first one ends the plan, and no other decision is kept."""
        self._takers: dict[str, list[Job]] = {}
        """By project, the jobs that take turns; empty until first needed."""
        self._yielded: set[tuple[str, Rank]] = set()
        """Users and ranks at which a job has yielded its slots in this plan."""
        self._held_in: dict[str, str] = {}
        """By job, the pool that holds slots for the job against those behind."""
        self.losses = Losses()
        """The losses of the current turn."""
        self.surplus = False
        """Whether an eviction freed more than its beneficiary needs."""
        self.wake_at = first_timer(snapshot)

    def takers(self) -> list[list[Job]]:
        """The jobs that take turns, by line; for each gang that can start, its representative."""
        found = []
        for line in self._lines:
            gang = self.gangs.get(line[0].group)
            if gang is None or gang.runs:
                found.append(line)
            elif not gang.ready:
                self.reasons |= {job.name: explain.incomplete(gang) for job in line}
        return found + [[gang.lead()] for gang in self.gangs.values() if gang.ready]

    def plan(self) -> Plan:
        if self.given_up:
            return Plan(decisions=tuple(self.given_up.values()), wake_at=self.now)
        decided = list(starts_together(self.decisions.values(), self.gangs))
        tried = [each for each in decided if isinstance(each, TryLater)]
        return Plan(
            decisions=(*decided, *failed_alike(tried, self.snapshot, self.now)),
            reasons={
                name: why
                for name, why in self.reasons.items()
                if not isinstance(self.decisions.get(name), Start)
            },
            wake_at=self.wake_at,
        )

    def has_yielded(self, job: Job) -> bool:
        """Whether the user's place at that rank was lost to a time slice in this plan."""
        return (job.submitter, rank(job)) in self._yielded

    def keeps_back(self, job: Job) -> Reason | None:
        """The concurrency limit that keeps this job waiting, or its gang, if any."""
        return self._parallel.keeps_back(job)

    def is_kept_back(self, job: Job) -> bool:
        why = self.keeps_back(job)
        if why:
            gang = self.gangs.get(job.group)
            tried = gang.waiting if gang and not gang.runs else [job]
            self.reasons |= {each.name: why for each in tried}
        return why is not None

    def rooms_of(self, job: Job) -> list[PoolRoom]:
        """The rooms of the job's pools that exist and that its project may use."""
        there = (self.rooms[name] for name in job.pools if name in self.rooms)
        return [room for room in there if self.accounts.open_to(job, room.pool.name)]

    def take_its_claim(self, job: Job) -> None:
        """Free the capacity that the job's claim keeps, so that the job's own turn can use it."""
        if job.claim:
            for room in self.rooms_of(job):
                room.take_claim(job)
            self.accounts.take_claim(job, job.claim.pool)

    def within_bounds(self, job: Job, room: PoolRoom) -> bool:
        """Whether the gang, the limits and the quotas of the job allow a start in this room.

        A limit binds every job; a quota binds a job that cannot be evicted.
        """
        name = room.pool.name
        if self.endangers_its_gang(job, name) or self._goes_with_its_gang(job):
            return False
        return self.accounts.limits_allow(job, name) and self.accounts.quotas_allow(job, name)

    def _goes_with_its_gang(self, job: Job) -> bool:
        """Whether the job would join a gang that this plan evicts."""
        if job.group not in self.gangs or not self.gangs[job.group].runs:
            return False
        evictions = (each for each in self.decisions.values() if isinstance(each, Evict))
        return any(victim.group == job.group for each in evictions for victim in each.victims)

    def endangers_its_gang(self, job: Job, pool: str) -> bool:
        """Whether the job would weaken the running gang that it joins.

        With the job, the gang could be reclaimed, or evicted for jobs that could not evict it
        before.
        """
        gang = self.gangs.get(job.group)
        if gang is None or not gang.runs:
            return False
        counted = self.classed(job, pool) or job
        return bool(self.accounts.beyond_shares(job, pool)) or gang.is_lowered_by(counted)

    def start(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        for room in rooms:
            if room.fits_now(job, self.entitled):
                classed = self.classed(job, room.pool.name)
                room.give(classed or job)
                self._take(job, room)
                its = self.waiting[job.name]
                self.decisions[job.name] = Start(job=its, pool=room.pool.name, classed=classed)
                return True
        return False

    def started(self) -> Iterator[Job]:
        """The jobs that this plan starts, so far."""
        return (each.job for each in self.decisions.values() if isinstance(each, Start))

    def classed(self, job: Job, pool: str) -> Job | None:
        """The AUTO job in the class that admits it there; None if no class does, or for other
        jobs."""
        waiting, users = self.waiting[job.name], self.accounts.users
        its = users.admits_in(waiting, pool) if waiting.auto else None
        return admitted_in(waiting, users.classes[its], users.classes) if its else None

    def wait_for_coming(
        self,
        job: Job,
        rooms: Sequence[PoolRoom],
        within: Sequence[PoolRoom],
        *,
        owed: bool = False,
    ) -> bool:
        """Hold coming slots for the job: first in the pool of its claim, then in `within`, in
        order.

        A claim stands while its pool is unavailable for a time. The job does not wait in that pool
        if others have used up a limit or quota since, or if a missing right keeps the job out.

        `owed`: the job will get a claim to the slots that it waits for.
        """
        claimed = [room for room in rooms if job.claim and room.pool.name == job.claim.pool]
        claimed = [each for each in claimed if self.accounts.may_come_true(job, each.pool.name)]
        claimed = [each for each in claimed if not each.rights.keeps_out(job)]
        for room in (*claimed, *within):
            if room.fits_soon(job, self.entitled):
                self._hold(job, room, promised=not (owed or job.claim))
                self.wake(job, claimed)
                return True
        return False

    def goes_where_it_moves(
        self, job: Job, rooms: Sequence[PoolRoom], within: Sequence[PoolRoom]
    ) -> bool:
        """Start the job only in its destination pool, or hold coming slots there.

        In its old pool it would take the room that another job gained by the move.
        """
        there = [room for room in within if job.claim and room.pool.name == job.claim.pool]
        if self.start(job, there):
            self.losses.moved_to.update(room.pool.name for room in there)
            return True
        return self.wait_for_coming(job, rooms, ())

    def _hold(self, job: Job, room: PoolRoom, *, promised: bool = False) -> None:
        """Hold the slots against all jobs behind."""
        self.reasons[job.name] = explain.coming(job, room)
        room.hold(job)
        self._held_in[job.name] = room.pool.name
        self._take(job, room, promised=promised)

    def _take(self, job: Job, room: PoolRoom, *, promised: bool = False) -> None:
        """Count the job's slots in quotas and limits.

        Concurrency limits have counted a job with a claim from the start.
        """
        if job.claim and job.claim.pool != room.pool.name:
            self.give_up(job)
        self.accounts.take(job, room.pool.name, promised=promised)
        if not job.claim:
            self._parallel.take(job)

    def consolidate(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        found = self._consolidation.find(job, rooms)
        if found is None:
            return False
        moved = self._consolidation.carry_out(found, self.now)
        for other, room in found.to:
            if found.room.was_given(other):
                self._start_elsewhere(other, found.room, room)
        if not moved:
            return self.start(job, [found.room])
        self._hold(job, found.room)
        its, claim = self.waiting[job.name], self.claim_of(job.name)
        self.decisions[job.name] = Move(beneficiary=its, moved=moved, claim=claim)
        return True

    def _start_elsewhere(self, job: Job, given: PoolRoom, room: PoolRoom) -> None:
        """Start a job of this plan in `room` instead of `given`."""
        self.losses.elsewhere = True
        self.give_up(job)
        given.evict(job)
        self.accounts.give_back(job, given.pool.name)
        room.give(job)
        self.accounts.take(job, room.pool.name)
        start = self.decisions[job.name]
        assert isinstance(start, Start)
        self.decisions[job.name] = replace(start, pool=room.pool.name)

    def reclaim(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        return self.evict(job, reclaim(job, rooms, self._books))

    def reclaim_along(
        self,
        job: Job,
        rooms: Sequence[PoolRoom],
        along: Iterable[Place],
        spare: AbstractSet[str],
    ) -> Eviction | None:
        """What a gang's member may reclaim, without the candidates named in `spare`.

        `along`: the members that start with it, each with its pool. The gate counts them.
        """
        before = self.accounts.mark()
        for other, pool in along:
            self.accounts.take(other, pool)
        found = reclaim(job, rooms, self._books, spare)
        self.accounts.back_to(before)
        return found

    def protected_after_start(self) -> set[str]:
        """The names of candidates that a `min_runtime` will protect after this plan."""
        return self._holders.protected_after_start()

    def _waits(self, project: str) -> Iterator[Job]:
        """The project's jobs without a claim that are unserved and within the concurrency
        limits."""
        if not self._takers:
            for line in self.takers():
                self._takers.setdefault(line[0].project, []).extend(line)
        for job in self._takers.get(project, ()):
            served = job.claim or job.name in self._held_in or job.name in self.decisions
            if not served and not self.keeps_back(job):
                yield job

    def preempt(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        surely = [room for room in rooms if room.may_evict_for(job)]
        rooms = [room for room in surely if self.accounts.quotas_allow(job, room.pool.name)]
        return self.evict(job, self._preemption.find(job, rooms))

    def take_turn(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        well = [room for room in rooms if not room.unavailable and room.may_evict_for(job)]
        rooms = [room for room in well if self.accounts.quotas_allow(job, room.pool.name)]
        drains = {r.pool.name: self.waiting[r.drains_for] for r in rooms if r.closed_to(job)}
        return self.evict(job, self.slices.find(job, rooms, drains), StopCause.YIELDED)

    def evict(self, job: Job, found: Eviction | None, cause: StopCause = StopCause.EVICTED) -> bool:
        if found is None:
            return False
        places = [place for candidate in found.victims for place in candidate.places]
        victims = [job for job, pool in places if self.take_back(job, pool)]
        gang = self.gangs.get(job.group)
        if not victims and gang is None:
            room = [found.room]
            return self.start(job, room) or self.wait_for_coming(job, room, room)
        self._hold(job, found.room)
        if victims:
            self.surplus |= found.room.both.slots > 0
            self.decisions[job.name] = Evict(
                beneficiary=self.waiting[job.name],
                victims=tuple(victims),
                claim=self.claim_of(job.name),
                cause=cause,
            )
            if cause is StopCause.YIELDED:
                self._yielded |= {(victim.submitter, rank(victim)) for victim in victims}
        return True

    def take_back(self, victim: Job, pool: str) -> bool:
        """Evict the victim. Return True if it really runs.

        A victim that only got its slots in this plan loses its start instead.
        """
        self.rooms[pool].evict(victim)
        if isinstance(self.decisions.get(victim.name), Start):
            del self.decisions[victim.name]
            self.give_up(victim)
            self.accounts.give_back(victim, pool)
            self._parallel.give_back(victim)
            self.losses.taken_back.append((victim, pool))
            self.reasons[victim.name] = explain.taken_back(victim, self.rooms[pool])
            return False
        self.accounts.evict(victim, pool)
        return True

    def claim_of(self, name: str) -> Claim:
        job = self.waiting[name]
        pool = self._held_in[name]
        its = self.accounts.users.class_held(job, pool) if job.auto else ""
        return Claim(pool=pool, amount=job.demand, since=self.now, priority_class=its)

    def give_up(self, job: Job) -> bool:
        """Give up the job's claim. Return whether it had one.

        Other decisions of this plan rest on the claim, so the next plan starts without it.
        """
        its = self.waiting[job.name]
        if its.claim:
            self.given_up[job.name] = DropClaim(job=its)
        return its.claim is not None

    def wake(self, job: Job, rooms: Sequence[PoolRoom]) -> None:
        """Bring `wake_at` forward to the next time that may change the job's situation."""
        rooms = [room for room in rooms if room.timed]
        if not rooms:
            return
        entry = entered(job, self.yields)
        moments = [at for room in rooms for _, at in known_times(job, entry, room, self.slices)]
        self.wake_at = min(
            (at for at in [*moments, self.wake_at] if at is not None and at > self.now),
            default=None,
        )

    def mark(self) -> Any:
        rooms = {name: room.state() for name, room in self.rooms.items()}
        books = self._holders.mark(), self.accounts.mark(), self._parallel.state()
        said = dict(self.decisions), dict(self.reasons), dict(self.given_up), dict(self._held_in)
        return said, rooms, books, self.losses.copy(), self.surplus

    def back_to(self, mark: Any) -> None:
        said, rooms, books, losses, self.surplus = mark
        self.decisions, self.reasons, self.given_up, self._held_in = map(dict, said)
        self.losses = losses.copy()
        for name, state in rooms.items():
            self.rooms[name].back_to(state)
        holders, accounts, counts = books
        self._holders.back_to(holders)
        self.accounts.back_to(accounts)
        self._parallel.back_to(counts)
