"""The Store in memory, for simulations and tests. The same contract holds as for the DynamoDB
store."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

from slotq_core.adapters import stored_request
from slotq_core.adapters.configured import configured
from slotq_core.adapters.ended_attempts import HISTORY, expires_at, record_of
from slotq_core.adapters.group_ends import end_of
from slotq_core.adapters.holdings import PoolChange, pool_changes
from slotq_core.adapters.memory.counters import MemoryCounters
from slotq_core.adapters.memory.groups import MemoryGroups
from slotq_core.adapters.memory.index import Index
from slotq_core.adapters.memory.scheduler import MemoryScheduler
from slotq_core.adapters.memory.usage_records import MemoryUsage
from slotq_core.adapters.order_keys import order_key
from slotq_core.adapters.snapshots import (
    MAX_DUE,
    due_and_ended,
    due_part,
    read_at_first,
    snapshot_of,
)
from slotq_core.adapters.spending import spending
from slotq_core.adapters.yields import outlived, yields_in
from slotq_core.errors import Conflict, Misconfigured, NoSuchJob, PoolInUse
from slotq_core.model.attempts import Attempt, Restore
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import WAITING_OR_BACKING_OFF, WAITING_STATES, Job, JobState
from slotq_core.model.limits import NO_LIMITS, Limits, opener_mark
from slotq_core.model.pools import HEALTHY, Pool, PoolHealth, PoolState
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import Yielded
from slotq_core.policy.lines import Line, line_of
from slotq_core.policy.order import Yields, last_yields
from slotq_core.policy.plan import Found, Need
from slotq_core.ports.stored import (
    MOST_AHEAD,
    Ahead,
    AwaitedEnded,
    Change,
    Configuration,
    ConfigurationChange,
    Finding,
    InParts,
    Ledger,
    Mark,
    NoSuchLine,
    Part,
    PartsKind,
    Poison,
    StoredAlready,
    World,
)
from slotq_core.ports.training import Request, Sighting

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")


def _one_at_a_time(
    method: Callable[Concatenate[MemoryStore, P], R],
) -> Callable[Concatenate[MemoryStore, P], R]:
    def locked(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked


class MemoryStore:
    """In-memory store, safe for threads. A load costs time in proportion to the active jobs and the
    heads of the lines."""

    def __init__(self, *, history: int = HISTORY, most_changes: int = 1_000_000) -> None:
        """Set up the store. `history` is how long ended jobs stay readable (ms). `most_changes`:
        how many jobs one transaction of a decision changes at most."""
        self._keeps, self._most_changes = history, most_changes
        self._group_decisions = 0
        self._in_parts: InParts | None = None
        self._ended: list[str] = []
        """Ended jobs whose records are not yet marked for expiry."""
        self._marked: set[str] = set()
        self._lock = threading.RLock()
        self._pools: tuple[Pool, ...] = ()
        self._limits = NO_LIMITS
        self._sharing = NO_SHARING
        self._changes: list[ConfigurationChange] = []
        self._ledgers: dict[str, Ledger] = defaultdict(Ledger)
        self._jobs: dict[str, Job] = {}
        self._requests: dict[str, bytes] = {}
        self._attempts: dict[str, dict[int, Attempt]] = defaultdict(dict)
        self._job_of: dict[str, str] = {}
        self._index = Index()
        self._openers: dict[str, str] = {}
        """By line, the mark of the caller who opened it."""
        self.counters = MemoryCounters(self._all_jobs, self._open_lines)
        self.usage = MemoryUsage(self._active)
        self.groups = MemoryGroups()
        self.scheduler = MemoryScheduler()
        self._health: dict[str, PoolHealth] = {}
        self._foreign: dict[str, Demand] = {}
        self._yields: dict[tuple[str, tuple[str | None, str, str, int]], Yielded] = {}
        """By pool, user and rank."""
        self._sightings: dict[str, Sighting] = {}
        self.restored: Restore | None = None

    def at_once(self, read: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        return [read(each) for each in asked]

    @_one_at_a_time
    def pools(self) -> tuple[Pool, ...]:
        return self._pools

    @_one_at_a_time
    def configuration(self) -> Configuration:
        return Configuration(
            pools=self._pools,
            revision=len(self._changes),
            limits=self._limits,
            sharing=self._sharing,
            use=self.counters.queue_use,
            month_sum=self.usage.month,
            spent=self.usage.spending(),
            group_decisions=self._group_decisions,
            in_parts=self._in_parts is not None,
        )

    @_one_at_a_time
    def changes(
        self, *, limit: int, who: str | None = None, sharing: bool = True
    ) -> tuple[ConfigurationChange, ...]:
        found = [each for each in reversed(self._changes) if who in {None, each.who}][:limit]
        return tuple(each if sharing else replace(each, sharing=None) for each in found)

    @_one_at_a_time
    def configure(
        self,
        pools: Sequence[Pool] | None = None,
        *,
        limits: Limits | None = None,
        sharing: Sharing | None = None,
        who: str,
        now: int,
        seen: int | None = None,
        dry_run: bool = False,
    ) -> None:
        before = self.configuration()
        if seen not in {None, before.revision}:
            raise Conflict("the configuration has changed since it was read")
        after = configured(before, pools=pools, limits=limits, sharing=sharing)
        self._check_pools(before.pools, after.pools)
        if before != after and not dry_run:
            self._change_pools(before.pools, after.pools)
            self._record(before, after, who, now)

    def _check_pools(self, before: Sequence[Pool], after: Sequence[Pool]) -> None:
        """Raises PoolInUse and Misconfigured."""
        rest = {pool.name for pool in after}
        if len(rest) < len(after):
            raise Misconfigured("two pools have one name")
        for name in {pool.name for pool in before} - rest:
            if self._ledgers[name].used:
                raise PoolInUse(f"pool {name} cannot be removed: jobs run in it", field="name")

    def _change_pools(self, before: Sequence[Pool], after: Sequence[Pool]) -> None:
        """Raise the versions of ledgers whose room changes."""
        old, new = ({pool.name: pool for pool in each} for each in (before, after))
        for name in old.keys() - new.keys():
            self._foreign.pop(name, None)
        for name in old.keys() | new.keys():
            if _room(old.get(name)) != _room(new.get(name)):
                self._raise_version(name, Demand())

    def _record(self, before: Configuration, after: Configuration, who: str, now: int) -> None:
        shared = None if before.sharing == after.sharing else (before.sharing, after.sharing)
        change = ConfigurationChange(
            revision=before.revision + 1,
            who=who,
            at=now,
            before=before.pools,
            after=after.pools,
            limits_before=before.limits,
            limits_after=after.limits,
            sharing=shared,
        )
        self._changes.append(change)
        self._pools, self._limits, self._sharing = after.pools, after.limits, after.sharing

    @_one_at_a_time
    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self._pools_now() if pool.name == name), None)

    @_one_at_a_time
    def health(self, pool: str) -> PoolHealth:
        return self._health.get(pool, HEALTHY)

    @_one_at_a_time
    def set_health(self, pool: str, health: PoolHealth) -> None:
        self._health[pool] = health

    @_one_at_a_time
    def set_foreign(self, pool: str, amount: Demand) -> None:
        configured = any(each.name == pool for each in self._pools)
        if configured and amount != self._foreign.get(pool, Demand()):
            self._foreign[pool] = amount
            self._raise_version(pool, Demand())

    def last_restore(self) -> Restore | None:
        return self.restored

    @_one_at_a_time
    def sightings(self) -> tuple[Sighting, ...]:
        return tuple(self._sightings[name] for name in sorted(self._sightings))

    @_one_at_a_time
    def remember(self, sighting: Sighting) -> None:
        self._sightings[sighting.training_job] = sighting

    @_one_at_a_time
    def forget(self, training_job: str) -> None:
        self._sightings.pop(training_job, None)

    @_one_at_a_time
    def expire(self, *, now: int, limit: int = 25) -> int:
        """Mark ended jobs, and remove marked jobs whose time has come."""
        self.usage.expire(now)
        marked, self._ended = self._ended[:limit], self._ended[limit:]
        self._marked.update(marked)
        for name in sorted(self._marked):
            if (expires_at(self._jobs[name], self._keeps) or 0) * 1000 <= now:
                self._remove(name)
        return len(marked)

    def audit(self, *, now: int) -> tuple[Finding, ...]:
        """Nothing in memory is ever hidden."""
        return ()

    def _remove(self, name: str) -> None:
        for attempt in self._attempts.pop(name, {}).values():
            self._job_of.pop(attempt.training_job, None)
        self._marked.discard(name)
        del self._jobs[name], self._requests[name]

    def quarantine(self, poison: Poison) -> None:
        """Do nothing: objects in memory are never parsed, so none is unreadable."""

    def inspect(
        self, *, mend: bool = False, time_left: Callable[[], int] = lambda: 1
    ) -> Iterable[Finding]:
        """Find nothing: the store keeps no copies that could disagree."""
        return ()

    @_one_at_a_time
    def submit(
        self,
        job: Job,
        request: Request,
        *,
        opens_line: bool = True,
        opener: str = "",
        watched: Sequence[str] = (),
    ) -> Job:
        packed = stored_request.pack(request)
        opens = self._check_line(job, opens_line=opens_line, opener=opener)
        if job.name in self._jobs:
            raise StoredAlready(job.name, self._jobs[job.name])
        if not all(_is_awaited(self._jobs.get(name)) for name in (*job.awaited_jobs, *watched)):
            raise AwaitedEnded(job.name)
        self._requests[job.name] = packed
        if opens:
            self.counters.opened(opener)
        return self._keep(replace(job, version=1))

    @_one_at_a_time
    def has_line_of(self, job: Job) -> bool:
        return line_of(job) in self._lines()

    @_one_at_a_time
    def followers(self, name: str) -> tuple[Job, ...]:
        return tuple(self._of(self._index.followers(name)))

    @_one_at_a_time
    def load(self, now: int) -> World:
        active, claimants = self._of(self._index.active), self._claimants_here()
        seen = {job.name for job in (*active, *claimants)}
        first: list[Job] = []
        behind: dict[str, int] = {}
        apart, shares = self.configuration().by_user, bool(self._sharing.projects)
        groups = self._groups_of((Line.parse(line).group for line in self._index.lines()), now)
        for line in self._index.lines():
            count = read_at_first(
                Line.parse(line), self._pools, groups, by_user=apart, shares=shares
            )
            found = self._read_on(line, None, count, seen)
            first += found.jobs
            if found.behind:
                behind[found.jobs[-1].name] = found.behind
        earliest, ended = due_and_ended(self._of(self._index.due(MAX_DUE)))
        world = self._world(active, [*claimants, *first], due_part(earliest, now), now)

        def more(need: Need) -> Found:
            with self._lock:
                return self._read_on(line_of(need.after), need.after, need.count, seen)

        snapshot = replace(world.snapshot, behind=behind)
        return replace(
            world,
            snapshot=snapshot,
            ended=ended,
            more=more,
            keep_bounds=lambda: self._forget_yields(snapshot, now),
        )

    @_one_at_a_time
    def load_all(self, now: int) -> World:
        waiting, (due, _) = (
            self._of(self._index.waiting()),
            due_and_ended(self._of(self._index.due())),
        )
        return self._world(self._of(self._index.active), waiting, due, now)

    @_one_at_a_time
    def commit(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        group_decisions: int | None = None,
        part: Part | None = None,
        opens_line: bool = True,
        opener: str = "",
    ) -> tuple[Job, ...]:
        for after in (c.after for c in changes if c.after.waits or c.comes_to_other_line):
            self._check_line(after, opens_line=opens_line, opener=opener)
        if group_decisions not in {None, self._group_decisions}:
            raise Conflict("somebody has decided about a group since")
        if part is not None and not self._may_be(part):
            raise Conflict("the decision is no longer to be finished in this way")
        for change in changes:
            kept = self._jobs.get(change.before.name)
            if kept is None or kept.version != change.before.version:
                raise Conflict(f"{change.before.name} has changed since it was read")
        uses = pool_changes(changes, seen)
        packed = {c.after.name: stored_request.pack(c.request) for c in changes if c.request}
        for name, use in uses.items():
            self._check(name, use)
        for name, use in uses.items():
            if use.raises_version:
                self._raise_version(name, use.gained)
        if part is not None:
            self._in_parts = None if part.closes else part.of
        self._group_decisions += group_decisions is not None or bool(part and part.closes)
        self._requests.update(packed)
        self._yields.update({(pool, this.of): this for pool, this in yields_in(changes)})
        return tuple(self._apply(change) for change in changes)

    def fitting(
        self,
        changes: Sequence[Change],
        *,
        seen: Mapping[str, int] | None = None,
        part: Part | None = None,
    ) -> int:
        return min(len(changes), self._most_changes)

    @_one_at_a_time
    def in_parts(self) -> InParts | None:
        return self._in_parts

    @_one_at_a_time
    def turn_back(self, decision: InParts) -> InParts:
        if not self._is_in_parts(decision):
            raise Conflict("the decision is no longer to be finished in this way")
        self._in_parts = replace(decision, kind=PartsKind.UNDO)
        return self._in_parts

    def _check_line(self, job: Job, *, opens_line: bool, opener: str) -> bool:
        """Return whether the job opens a line that somebody pays for. Raise NoSuchLine if it may
        open none."""
        if opens_line and not opener:
            return False
        line, lines = line_of(job), self._lines()
        if line in lines:
            return False
        if not opens_line:
            raise NoSuchLine("there is no such line")
        self._openers = {name: it for name, it in self._openers.items() if name in lines}
        self._openers[line] = opener_mark(opener)
        return True

    def _may_be(self, part: Part) -> bool:
        return self._in_parts is None if part.opens else self._is_in_parts(part.of)

    def _is_in_parts(self, decision: InParts) -> bool:
        now = self._in_parts
        return now is not None and (now.number, now.kind) == (decision.number, decision.kind)

    @_one_at_a_time
    def _forget_yields(self, snapshot: Snapshot, now: int) -> None:
        gone = outlived(self._yields.values(), snapshot, now)
        self._yields = {key: each for key, each in self._yields.items() if each not in gone}

    @_one_at_a_time
    def job(self, name: str) -> Job | None:
        return self._jobs.get(name)

    @_one_at_a_time
    def request(self, name: str) -> Request:
        if name not in self._requests:
            raise NoSuchJob(f"there is no job named {name}")
        return stored_request.unpack(self._requests[name])

    @_one_at_a_time
    def job_and_attempts(self, name: str) -> tuple[Job, tuple[Attempt, ...]] | None:
        if (job := self._jobs.get(name)) is None:
            return None
        found, live = dict(self._attempts.get(name, {})), job.attempt
        if live and not (live.number in found and found[live.number].ended_at):
            found[live.number] = live
        return job, tuple(found[number] for number in sorted(found))

    @_one_at_a_time
    def job_of(self, training_job: str) -> str | None:
        return self._job_of.get(training_job)

    @_one_at_a_time
    def jobs(
        self,
        states: Iterable[JobState],
        *,
        limit: int = 1000,
        projects: frozenset[str] | None = None,
    ) -> tuple[Job, ...]:
        wanted, ranks = set(states), {state: rank for rank, state in enumerate(JobState)}
        found = [
            job
            for job in self._jobs.values()
            if job.state in wanted and (projects is None or job.project in projects)
        ]
        return tuple(sorted(found, key=lambda job: (ranks[job.state], -job.entry_time))[:limit])

    @_one_at_a_time
    def in_state(
        self, state: JobState, *, after: Mark | None = None, latest_first: bool, at_once: int
    ) -> Iterator[Job]:
        sign = -1 if latest_first else 1

        def key(entry_time: int, name: str) -> tuple[int, bool, str]:
            return sign * entry_time, not name, name

        found = [job for job in self._jobs.values() if job.state is state]
        if after is not None:
            last = key(after.entry_time, after.name)
            found = [job for job in found if key(job.entry_time, job.name) > last]
        return iter(sorted(found, key=lambda job: key(job.entry_time, job.name)))

    @_one_at_a_time
    def waiting_in(self, projects: frozenset[str], *, limit: int) -> tuple[Job, ...] | None:
        found = [job for job in self._jobs.values() if job.waits and job.project in projects]
        return tuple(found) if len(found) <= limit else None

    @_one_at_a_time
    def longest_waiting(self, *, before: int, limit: int) -> tuple[Job, ...]:
        found: list[Job] = []
        for state in WAITING_OR_BACKING_OFF:
            jobs = [job for job in self._jobs.values() if job.state is state]
            oldest = sorted(jobs, key=lambda job: (job.entry_time, job.name))
            found += [job for job in oldest if job.entry_time < before][:limit]
        return tuple(found)

    def waiting_since(self) -> int | None:
        waiting = (job for job in self._jobs.values() if job.state in WAITING_STATES)
        return min((job.entry_time for job in waiting), default=None)

    @_one_at_a_time
    def _ahead_of(self, job: Job, yields: Yields) -> Ahead:
        found = self._index.ahead_of(job, yields)
        return Ahead(jobs=min(found, MOST_AHEAD + 1), or_more=found > MOST_AHEAD)

    @_one_at_a_time
    def _all_jobs(self) -> list[Job]:
        return list(self._jobs.values())

    @_one_at_a_time
    def _active(self) -> list[Job]:
        return self._of(self._index.active)

    @_one_at_a_time
    def _open_lines(self) -> dict[str, str]:
        return {line: self._openers.get(line, "") for line in self._lines()}

    def _lines(self) -> set[str]:
        """The lines that jobs wait in, or come to without anybody's doing."""
        coming = (line_of(job) for job in self._jobs.values() if job.comes_to_line)
        return {*self._index.lines(), *coming}

    def _pools_now(self) -> list[Pool]:
        return [
            replace(
                pool,
                foreign=self._foreign.get(pool.name, Demand()),
                health=self._health.get(pool.name, HEALTHY),
            )
            for pool in self._pools
        ]

    def _of(self, names: Iterable[str]) -> list[Job]:
        return [self._jobs[name] for name in names]

    def _claimants_here(self) -> list[Job]:
        """Return the claimants. A claim in a pool that is no longer configured is void."""
        here = {pool.name for pool in self._pools}
        return [
            job for job in self._of(self._index.claimants) if job.claim and job.claim.pool in here
        ]

    def _read_on(self, line: str, after: Job | None, count: int | None, seen: set[str]) -> Found:
        """Return the next jobs of a line without the `seen` ones, and how many wait behind them.
        Adds them to `seen`."""
        place = (order_key(after), after.name) if after else None
        names = [name for name in self._index.behind(line, place) if name not in seen]
        seen.update(names[:count])
        found = names[:count]
        return Found(jobs=tuple(self._of(found)), behind=len(names) - len(found))

    def _world(self, active: list[Job], waiting: list[Job], due: list[Job], now: int) -> World:
        snapshot = snapshot_of(
            self._pools_now(),
            self._sharing,
            active,
            waiting,
            due,
            spent=spending(self.configuration(), self.usage, now),
            yields=self._yields.values(),
            groups=self._groups_of((job.group for job in (*active, *waiting, *due)), now).values(),
        )
        return World(
            snapshot=snapshot,
            ledgers={pool.name: self._ledgers[pool.name] for pool in self._pools},
            group_decisions=self._group_decisions,
            in_parts=self._in_parts,
            ahead_of=lambda job: self._ahead_of(job, last_yields(snapshot.yields)),
        )

    def _groups_of(self, names: Iterable[str], now: int) -> dict[str, Group]:
        """Return the groups of these names that users have submitted, a gang with what has become
        of its ended members."""
        kept = (self.groups.get(name) for name in sorted(set(names) - {""}))
        return {each.group.name: self._with_ended(each, now) for each in kept if each}

    def _with_ended(self, stored: StoredGroup, now: int) -> Group:
        if stored.group.max_parallel is not None:
            return stored.group
        ends = {
            name: end_of(self._jobs.get(name), stored, now=now, history=self._keeps)
            for name in stored.group.members
        }
        ended = {name: end for name, end in ends.items() if end is not None}
        return replace(stored.group, ended=ended)

    def _check(self, name: str, use: PoolChange) -> None:
        ledger = self._ledgers[name]
        if use.seen is not None and use.seen != ledger.version:
            raise Conflict(f"pool {name} has changed since it was read")
        pool = next((each for each in self._pools_now() if each.name == name), None)
        room = pool.capacity - pool.foreign if pool else Demand()
        free = room - ledger.used - use.gained
        if any(free[resource] < 0 for resource in use.admitted):
            raise Conflict(f"pool {name} has no room for that")

    def _raise_version(self, pool: str, gained: Demand) -> None:
        ledger = self._ledgers[pool]
        self._ledgers[pool] = Ledger(version=ledger.version + 1, used=ledger.used + gained)

    def _apply(self, change: Change) -> Job:
        name, began = change.after.name, change.after.attempt
        self._index.forget(change.before)
        if began:
            self._attempts[name].setdefault(began.number, began)
            self._job_of[began.training_job] = name
        if change.ended:
            self._attempts[name][change.ended.number] = change.ended
        if change.takes_back and change.before.attempt:
            del self._attempts[name][change.before.attempt.number]
            del self._job_of[change.before.attempt.training_job]
        if (record := record_of(change, self._keeps)) is not None:
            self.usage.keep(record)
        return self._keep(replace(change.after, version=change.before.version + 1))

    def _keep(self, job: Job) -> Job:
        before = self._jobs.get(job.name)
        self._jobs[job.name] = job
        self._index.keep(job)
        if job.terminal and not (before and before.terminal):
            self._ended.append(job.name)
        return job


def _is_awaited(job: Job | None) -> bool:
    """Whether a new job may come after this one."""
    return job is not None and job.followed and not job.terminal


def _room(pool: Pool | None) -> tuple[Demand, PoolState] | None:
    """Return what decides admission; None if there is no such pool."""
    return (pool.capacity, pool.state) if pool else None
