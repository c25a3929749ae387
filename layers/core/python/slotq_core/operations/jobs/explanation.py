"""Plans that explain: they examine jobs that a pass need not examine.

For many lines a load contains only a lower bound, and a plan does not read a line whose stand-in is
blocked. The first job of such a line gets no reason unless the line is read beforehand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush

from slotq_core.model.jobs import Job
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.settle import settle
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import steps
from slotq_core.policy.lines import Line
from slotq_core.policy.order import Position, position, precedence
from slotq_core.policy.plan import Found, Need, Plan
from slotq_core.policy.state.quotas.budgets import Budgets
from slotq_core.ports.stored import World

MOST_LINES_READ = 20
"""Maximum number of lines that one list reads, each by one call, where not all waiting jobs are
known."""

_FIRST_OF_A_LINE = 8
"""How many jobs are read at first behind a line's first: as many cost one read unit."""


def explained(world: World, now: int, asked: Job) -> Plan:
    """Return a plan that examines the line of this job, with the job's outlook."""
    return plan(settled(world.snapshot, now), now, asked, world.more)


def explained_list(
    world: World, now: int, jobs: Iterable[Job], waiting: Iterable[Job] | None
) -> Plan:
    """Return a plan that examines the first waiting job of each line that these jobs wait in.

    `waiting`: every waiting job; then the plan reads no line to explain it. None: not all of them
    are known; the plan reads their lines first, MOST_LINES_READ at most, the highest ranks first.
    """
    known = _read(world, jobs) if waiting is None else _listed(world.snapshot, waiting)
    return plan(settled(_with_lines(world.snapshot, known), now), now, more=world.more)


class QueueInOrder:
    """The waiting jobs in the policy's order. Iterating reads lines on demand: each begins with a
    known job or with a stand-in, whose place is a lower bound, so a line is read only once its turn
    has come."""

    def __init__(self, world: World, *, calls: int) -> None:
        """`calls`: how often lines may be read."""
        self._world, self._left = world, calls
        self._by = precedence(world.snapshot)
        self._behind = dict(world.snapshot.behind)
        self._unread = set(world.snapshot.unread)
        self._known: dict[str, Job] = {}
        self._heap: list[tuple[Position, str, Job]] = []
        self._wanted: Counter[Line] = Counter()
        self._add(world.snapshot.waiting)
        self.cut = False
        """Whether it has ended early, because lines may not be read any more."""

    def __iter__(self) -> Iterator[Job]:
        while self._heap and not self.cut:
            _, name, job = heappop(self._heap)
            if name not in self._unread:
                yield job
            if name in self._unread or name in self._behind:
                self.cut = not self._read_on(job)

    def snapshot(self) -> Snapshot:
        """The world's snapshot with all jobs that were read."""
        return replace(
            self._world.snapshot,
            waiting=tuple(self._known.values()),
            behind=dict(self._behind),
            unread=frozenset(self._unread),
        )

    def _read_on(self, last: Job) -> bool:
        """Read the next jobs of a line behind its last known job, each time more at once. Returns
        False if no call is left."""
        if not self._left:
            return False
        self._left -= 1
        line = _shared(last)
        count = _FIRST_OF_A_LINE << self._wanted[line]
        self._wanted[line] += 1
        found = self._world.more(Need(after=last, count=count, alone=True))
        self._behind.pop(last.name, None)
        if last.name in self._unread:
            self._unread.discard(last.name)
            del self._known[last.name]
        self._add(found.jobs)
        if found.jobs and found.behind:
            self._behind[found.jobs[-1].name] = found.behind
        return True

    def _add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._known[job.name] = job
            heappush(self._heap, (position(job, self._by), job.name, job))


def explained_snapshot(world: World, snapshot: Snapshot, now: int) -> Plan:
    """Return a plan over the world's snapshot with what was read of its lines since."""
    return plan(settled(snapshot, now), now, more=world.more)


def settled(snapshot: Snapshot, now: int) -> Snapshot:
    """Return the snapshot after the decisions that precede all others, without jobs in back-off. A
    plan that takes one of these decisions, or ends a back-off, examines no job."""
    snapshot = replace(snapshot, due=())
    pools = {pool.name: pool for pool in snapshot.pools}
    after = {
        before.name: job
        for decision in settle(snapshot, now, Budgets(snapshot, now))
        for before, job in steps(decision, pools, now)
    }
    return replace(
        snapshot,
        active=tuple(after.get(job.name, job) for job in snapshot.active),
        waiting=tuple(
            job for waiting in snapshot.waiting if (job := after.get(waiting.name, waiting)).waits
        ),
    )


def _listed(snapshot: Snapshot, waiting: Iterable[Job]) -> dict[str, Found]:
    """Return the jobs of each unread line, by the line's stand-in, from every waiting job. A list
    may lag behind the snapshot, which knows all claimants."""
    loaded = {job.name for job in (*snapshot.active, *snapshot.waiting, *snapshot.due)}
    jobs = defaultdict(list)
    for job in waiting:
        if job.claim is None and job.name not in loaded:
            jobs[_shared(job)].append(job)
    return {
        job.name: Found(jobs=tuple(jobs[_shared(job)]))
        for job in _stand_ins(snapshot)
        if _shared(job) in jobs
    }


def _read(world: World, jobs: Iterable[Job]) -> dict[str, Found]:
    """Return the first jobs of the unread lines that these jobs wait in, by stand-in."""
    lines = {_shared(job) for job in jobs if job.waits}
    unread = sorted(_stand_ins(world.snapshot), key=position)
    asked = [stand_in for stand_in in unread if _shared(stand_in) in lines]
    return {
        stand_in.name: world.more(Need(after=stand_in, count=1))
        for stand_in in asked[:MOST_LINES_READ]
    }


def _with_lines(snapshot: Snapshot, known: Mapping[str, Found]) -> Snapshot:
    """Return the snapshot with the known jobs of lines in place of their stand-ins."""
    jobs = {job.name: job for job in snapshot.waiting if job.name not in known}
    jobs |= {job.name: job for found in known.values() for job in found.jobs}
    behind = {name: more for name, more in snapshot.behind.items() if name not in known}
    behind |= {
        line.jobs[-1].name: line.behind for line in known.values() if line.jobs and line.behind
    }
    return replace(
        snapshot,
        waiting=tuple(jobs.values()),
        behind=behind,
        unread=snapshot.unread - known.keys(),
    )


def _stand_ins(snapshot: Snapshot) -> list[Job]:
    return [job for job in snapshot.waiting if job.name in snapshot.unread]


def _shared(job: Job) -> Line:
    """Return the attributes that a job shares with its line's stand-in, which has no role."""
    return Line.of(job)._replace(role="")
