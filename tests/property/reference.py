"""The rules of docs/policy.md and docs/policy-decisions.md, slowly: decisions restart the walk.

Written from the text and not from the policy's code, for comparison with that code.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot

Decided = tuple[set[tuple[str, str]], dict[str, tuple[str, set[str]]]]
"""(job, pool) of each start; beneficiary, pool and victims of each eviction."""


def decide(snapshot: Snapshot, now: int) -> Decided:
    world = _World(snapshot, now)
    while True:
        try:
            while _Walk(world).comes_to_a_decision():
                pass
        except _GivenUp as claim:
            world = _World(_without(snapshot, claim.job), now)
            snapshot = world.snapshot
        else:
            return world.starts, world.evictions


class _GivenUp(Exception):
    """A claim was given up, on which earlier decisions rest."""

    def __init__(self, job: str) -> None:
        self.job = job


def _without(snapshot: Snapshot, name: str) -> Snapshot:
    """The world without that job's claim."""
    waiting = (replace(j, claim=None) if j.name == name else j for j in snapshot.waiting)
    return replace(snapshot, waiting=tuple(waiting))


def size(job: Job) -> int:
    return job.demand.slots


def entitled(evictor: Job, holder: Job) -> bool:
    return holder.preemptible and holder.priority < evictor.priority


class _World:
    """The jobs' places and claims. Each decision changes them."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self.now, self.snapshot = now, snapshot
        self.pools = {pool.name: pool for pool in snapshot.pools}
        self.where = {j.name: j.attempt.pool for j in snapshot.active if j.attempt}
        self.stopping = {j.name: j for j in snapshot.active if j.state is JobState.STOPPING}
        self.running = {j.name: j for j in snapshot.active if j.name not in self.stopping}
        self.waiting = {j.name: j for j in snapshot.waiting}
        self.claims = {j.name: j.claim.pool for j in snapshot.waiting if j.claim}
        self.starts: set[tuple[str, str]] = set()
        self.evictions: dict[str, tuple[str, set[str]]] = {}

    def takes_what_is_free(self, job: Job, pool: Pool) -> bool:
        """Whether another quota refused the job in the pool within the last half hour: "nothing is
        evicted there for it, and nothing drains"."""
        lately = pool.name in job.refused_in and self.now < job.changed_at + 1_800_000
        return lately and self.claims.get(job.name) != pool.name

    def free(self, pool: Pool) -> int:
        active = (*self.running.values(), *self.stopping.values())
        used = sum(size(job) for job in active if self.where[job.name] == pool.name)
        return pool.size(self.now).slots - used

    def unavailable(self, pool: Pool) -> bool:
        """Whether the pool backs off or one job has been probing it for less than ten minutes: "one
        probe at a time"."""
        if not pool.health.errors:
            return False
        probes = [
            job
            for job in self.running.values()
            if self.where[job.name] == pool.name and job.state is not JobState.RUNNING
        ]
        return bool(probes) or self.now < (pool.health.not_before or 0)

    def coming(self, pool: Pool) -> int:
        stopping = self.stopping.values()
        return sum(size(job) for job in stopping if self.where[job.name] == pool.name)

    def lost(self, job: Job) -> int:
        since = job.attempt.running_since if job.attempt else None
        return 0 if since is None else self.now - since

    def safe(self, job: Job, pool: Pool) -> bool:
        if not job.preemptible:
            return True
        begun = job.attempt.running_since if job.attempt else None
        if job.attempt and begun is None and not job.attempt.created:
            return True
        span = max(pool.min_runtime, min(job.min_runtime, pool.max_min_runtime))
        return span > 0 and (begun is None or self.now < begun + span)

    def options(self, job: Job, pool: Pool) -> list[Job]:
        """The candidates for eviction for the job in that pool, in eviction order."""
        options = [
            other
            for other in self.running.values()
            if self.where[other.name] == pool.name
            and other.priority < job.priority
            and not self.safe(other, pool)
        ]
        options.sort(key=lambda v: v.name, reverse=True)  # At last, the later name goes first.
        return sorted(options, key=lambda v: (v.priority, self.lost(v), -size(v), -v.entry_time))

    def victims(self, options: list[Job], missing: int, base: int) -> list[Job] | None:
        """Candidates one by one, then the best set if better."""
        chosen = []
        for victim in options:
            if sum(map(size, chosen)) < missing:
                chosen.append(victim)
        if sum(map(size, chosen)) < missing:
            return None
        for victim in reversed(list(chosen)):
            if sum(map(size, chosen)) - size(victim) >= missing:
                chosen.remove(victim)
        best = min(
            (
                [options[place] for place in places]
                for count in range(1, len(options) + 1)
                for places in combinations(range(len(options)), count)
                if sum(size(options[place]) for place in places) >= missing
            ),
            key=lambda each: (self.harm(each, base), sorted(map(options.index, each))[::-1]),
        )
        return best if self.harm(best, base) < self.harm(chosen, base) else chosen

    def start(self, job: Job, pool: Pool) -> None:
        self.starts.add((job.name, pool.name))
        self.running[job.name] = self.waiting.pop(job.name)
        self.where[job.name] = pool.name
        self.claims.pop(job.name, None)

    def gives_up_elsewhere(self, job: Job, pool: Pool) -> bool:
        """Whether the job has a claim in another pool than the one it now uses; it gives that claim
        up first."""
        elsewhere = self.claims.get(job.name, pool.name) != pool.name
        if elsewhere:
            self.give_up(job)
        return elsewhere

    def give_up(self, job: Job) -> None:
        """Give the job's claim up. A claim from before this plan undoes all decisions since."""
        if job.claim and job.name not in self.evictions:
            raise _GivenUp(job.name)
        del self.claims[job.name]

    def evict(self, job: Job, pool: Pool, victims: list[Job]) -> None:
        for victim in victims:
            if victim.attempt is None:
                self.take_back(victim)
        running = [victim for victim in victims if victim.attempt]
        if running:
            self.evictions[job.name] = (pool.name, {victim.name for victim in running})
            self.claims[job.name] = pool.name
        for victim in running:
            self.stopping[victim.name] = self.running.pop(victim.name)

    def take_back(self, job: Job) -> None:
        """As the design says: "What was given in this plan and is taken back in it was never
        given"."""
        if job.claim:
            raise _GivenUp(job.name)
        self.starts.remove((job.name, self.where.pop(job.name)))
        self.waiting[job.name] = self.running.pop(job.name)

    def harm(self, victims: list[Job], base: int) -> tuple[object, ...]:
        """`base`: the lowest rank that could be evicted at all; "higher" ranks are above it."""
        above = (victim.priority for victim in victims if victim.priority > base)
        ranks = sorted(above, reverse=True)
        return ranks, sum(size(v) * self.lost(v) for v in victims), len(victims)


class _Walk:
    """One walk through the order, up to the first decision."""

    def __init__(self, world: _World) -> None:
        self.world = world
        self.held_free = dict.fromkeys(world.pools, 0)
        self.held_coming = dict.fromkeys(world.pools, 0)
        self.drains: dict[str, Job] = {}
        self.walked: set[str] = set()
        self.blocked: set[tuple[object, ...]] = set()

    def comes_to_a_decision(self) -> bool:
        order = sorted(
            self.world.waiting.values(), key=lambda j: (-j.priority, j.entry_time, j.name)
        )
        return any(self.turn(job) for job in order)

    def turn(self, job: Job) -> bool:
        line = (job.pools, job.refused_in, job.demand, job.preemptible, job.priority)
        if line in self.blocked and job.name not in self.world.claims:
            return False
        claimed = self.world.claims.get(job.name)
        unrefused = [name for name in job.pools if name not in job.refused_in]
        names = [*unrefused, *job.refused_in]
        mine = [self.world.pools[name] for name in names if name in self.world.pools]
        fresh = [p for p in mine if not self.world.takes_what_is_free(job, p)]
        if any(size(job) <= pool.size(self.world.now).slots for pool in fresh):
            mine = fresh
        mine = [p for p in mine if not self.world.unavailable(p) or claimed == p.name]
        pools = [p for p in mine if p.name not in self.drains or claimed == p.name]
        self.walked.add(job.name)
        passed = [] if claimed else [p for p in mine if self.lets_pass(job, p)]
        if self.starts(job, pools) or self.starts(job, passed):
            return True
        return self.waits_or_evicts(job, pools, line)

    def lets_pass(self, job: Job, pool: Pool) -> bool:
        """Whether the job cannot delay the one that the pool drains for. No job of these worlds
        has a bound. So it takes what is left over when the other may evict all that it ever may,
        or may be evicted for the other, and is never protected."""
        if pool.name not in self.drains:
            return False
        ahead = self.drains[pool.name]
        at, left_over = self.expected(ahead, pool)
        if at is not None and size(job) <= left_over:
            return True
        span = max(pool.min_runtime, min(job.min_runtime, pool.max_min_runtime))
        starts = max(1_200_000, 600_000 + span)
        soon = span > 0 if at is None else at < self.world.now + starts
        return not soon and entitled(ahead, job)

    def expected(self, job: Job, pool: Pool) -> tuple[int | None, int]:
        """When the job fits at the latest, and what it leaves over; None: not known."""
        now, ends = self.world.now, list[tuple[int, int]]()
        left = self.left(job, pool)
        for other in self.world.stopping.values():
            if self.world.where[other.name] == pool.name:
                left -= size(other)
                stop = other.attempt.stop if other.attempt else None
                if stop is not None and (stop.grace_until or stop.at) + 300_000 >= now:
                    ends.append(((stop.grace_until or stop.at) + 300_000, size(other)))
        for other in self.world.running.values():
            if self.world.where[other.name] == pool.name and entitled(job, other):
                ends.append((self.protected_until(other, pool), size(other)))
        for at in sorted({now, *(end for end, _ in ends)}):
            then = left + sum(amount for end, amount in ends if end <= at)
            if size(job) <= then:
                return at, then - size(job)
        return None, 0

    def protected_until(self, job: Job, pool: Pool) -> int:
        span = max(pool.min_runtime, min(job.min_runtime, pool.max_min_runtime))
        begun = job.attempt.running_since if job.attempt else None
        if not span or (begun is not None and begun + span <= self.world.now):
            return self.world.now
        if begun is not None:
            return begun + span
        return (job.attempt.admitted_at if job.attempt else self.world.now) + 600_000 + span

    def starts(self, job: Job, pools: list[Pool]) -> bool:
        for pool in pools:
            free = self.world.free(pool) - self.held_free[pool.name]
            if self.world.unavailable(pool):
                continue
            if size(job) <= min(self.left(job, pool), free):
                self.world.gives_up_elsewhere(job, pool)
                self.world.start(job, pool)
                return True
        return False

    def waits_or_evicts(self, job: Job, pools: list[Pool], line: tuple[object, ...]) -> bool:
        claimed = self.world.claims.get(job.name)
        soon = [pool for pool in pools if size(job) <= self.left(job, pool)]
        if soon:
            pool = min(soon, key=lambda p: p.name != claimed)
            if self.world.gives_up_elsewhere(job, pool):
                return True
            self.hold(job, pool)
            return False
        well = [
            pool
            for pool in pools
            if not (self.world.unavailable(pool) or self.world.takes_what_is_free(job, pool))
        ]
        options = {pool.name: self.world.options(job, pool) for pool in well}
        base = min((v.priority for each in options.values() for v in each), default=0)
        offers = [
            (p, self.world.victims(options[p.name], size(job) - self.left(job, p), base))
            for p in well
        ]
        possible = [(p, victims) for p, victims in offers if victims is not None]
        if possible:
            pool, victims = min(possible, key=lambda offer: self.world.harm(offer[1], base))
            self.world.gives_up_elsewhere(job, pool)
            self.world.evict(job, pool, victims)
            return True
        if claimed:
            self.world.give_up(job)
            return True
        self.blocked.add(line)
        self.drain(job, pools)
        return False

    def left(self, job: Job, pool: Pool) -> int:
        left = self.world.free(pool) - self.held_free[pool.name]
        left += self.world.coming(pool) - self.held_coming[pool.name]
        if self.world.claims.get(job.name) == pool.name:
            return left
        claimants = [
            self.world.waiting[n] for n, at in self.world.claims.items() if at == pool.name
        ]
        return left - sum(
            size(other)
            for other in claimants
            if other.name not in self.walked and not entitled(job, other)
        )

    def hold(self, job: Job, pool: Pool) -> None:
        free = self.world.free(pool) - self.held_free[pool.name]
        part = max(0, min(size(job), free))
        self.held_free[pool.name] += part
        self.held_coming[pool.name] += size(job) - part

    def drain(self, job: Job, pools: list[Pool]) -> None:
        due = [
            pool
            for pool in pools
            if size(job) <= pool.size(self.world.now).slots
            and not self.world.unavailable(pool)
            and not self.world.takes_what_is_free(job, pool)
            and pool.reserve_after is not None
            and self.world.now - job.entry_time >= pool.reserve_after
        ]
        if due:
            fits = {pool.name: self.expected(job, pool)[0] or 1 << 62 for pool in due}
            best = min(due, key=lambda p: (fits[p.name], max(0, size(job) - self.left(job, p))))
            self.drains[best.name] = job
