"""Which jobs of one node to move to other nodes, so that a waiting job fits there.

Amounts are hundredths of a GPU. A part lies on one GPU; a larger amount is whole GPUs of one node.
All jobs that move must fit elsewhere at the same moment.

The best moves cost least (the sum over the jobs), then are the fewest, then of jobs with the fewest
earlier evictions, then have the first names. The search starts from the greedy rule: the cheapest
jobs that still fit elsewhere. Then it branches over how many jobs of each kind move, and drops what
costs more than the best moves so far. Jobs of a kind are alike but for cost, evictions and name, so
the best of a kind move first. The result is exact within `SOURCES`, if `LOOKS` are enough to try
where the jobs fit.

See docs/policy-decisions.md#consolidation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.policy.actions.consolidate import MOST

SOURCES = 64
"""Most nodes, or GPUs for a part of one, on which room is made: those with the cheapest jobs."""

LOOKS = 1 << 15
"""How often one search looks at a node for a job at most. The best moves found by then count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Movable:
    """A job that may move."""

    name: str
    amount: Gpus
    gpus: tuple[int, ...]
    """The GPUs that it has on its node, by index."""
    cost: int
    """The work that its move may lose, and a start."""
    evictions: int = 0
    """How often it has been evicted or moved before."""
    barred: frozenset[str] = frozenset()
    """The nodes to which it may not move."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeGpus:
    """A node, with an amount for each of its GPUs."""

    name: str
    now: tuple[Gpus, ...]
    """What jobs that move here may have, which is free at once."""
    soon: tuple[Gpus, ...] = ()
    """What the waiting job may have here, free or coming free; empty: it may not run here."""
    movable: tuple[Movable, ...] = ()
    places: int = MOST
    """How many more jobs the node takes at once."""


class Destination(NamedTuple):
    """Where a job moves to."""

    node: str
    gpus: tuple[int, ...]


Key = tuple[int, int, int, tuple[str, ...]]
"""Cost, number, earlier evictions and names of jobs. Smaller is better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundMoves:
    """Moves of jobs of one node."""

    source: str
    to: Mapping[str, Destination]
    """By job."""
    key: Key


class _Block(NamedTuple):
    """Jobs of one node that make room only together."""

    gives: int
    jobs: tuple[Movable, ...]

    @property
    def key(self) -> Key:
        return _key(self.jobs)


class _Task(NamedTuple):
    """One way to make room on a node: some of these blocks have to give what is missing."""

    node: NodeGpus
    missing: int
    """GPUs, or hundredths of one."""
    blocks: Sequence[_Block]

    @property
    def order(self) -> tuple[Key, str]:
        return min(block.key for block in self.blocks), self.node.name


def least_costly(nodes: Sequence[NodeGpus], need: Gpus | None) -> FoundMoves | None:
    """The moves after which so many hundredths of a GPU are free for the waiting job on one node;
    None: no moves are enough, or none is needed. `need`: None if the node must be empty."""
    tasks = [task for node in nodes for task in _tasks(node, need)]
    if any(task.missing <= 0 for task in tasks):
        return None
    able = [task for task in tasks if sum(b.gives for b in task.blocks) >= task.missing]
    search = _Search(sorted(nodes, key=lambda node: node.name))
    for task in sorted(able, key=lambda task: task.order)[:SOURCES]:
        if search.best and task.order[0] > search.best.key:
            break
        search.solve(task)
    return search.best


def _tasks(node: NodeGpus, need: Gpus | None) -> Iterator[_Task]:
    if not node.soon:
        return
    need = len(node.soon) * WHOLE if need is None else need
    if need < WHOLE:
        for gpu, soon in enumerate(node.soon):
            on_it = (job for job in node.movable if gpu in job.gpus)
            blocks = [_Block(min(job.amount, WHOLE), (job,)) for job in on_it]
            yield _Task(node, need - soon, blocks)
        return
    yield _Task(node, need // WHOLE - node.soon.count(WHOLE), [*_whole_blocks(node)])


def _whole_blocks(node: NodeGpus) -> Iterator[_Block]:
    """The jobs that free whole GPUs: one with whole GPUs, and all those with parts of one GPU."""
    parts: dict[int, list[Movable]] = defaultdict(list)
    for job in node.movable:
        if job.amount < WHOLE:
            parts[job.gpus[0]].append(job)
        elif all(node.soon[gpu] == 0 for gpu in job.gpus):
            yield _Block(len(job.gpus), (job,))
    for gpu, jobs in parts.items():
        if node.soon[gpu] + sum(job.amount for job in jobs) == WHOLE:
            yield _Block(1, tuple(jobs))


@dataclass(kw_only=True, slots=True)
class _Placing:
    """The free amounts of some nodes, on which jobs are put and taken off again."""

    free: dict[str, list[int]]
    places: dict[str, int]
    """How many more jobs each node takes."""
    left: int
    """How many more looks at a node are allowed."""

    def all_of(self, jobs: Sequence[Movable]) -> dict[str, Destination] | None:
        """Where these jobs fit together; None: nowhere. The largest come first."""
        if not jobs:
            return {}
        job, *others = jobs
        for to in self.options(job, others):
            if self.left <= 0:
                return None
            self.put(job, to)
            rest = self.all_of(others)
            if rest is not None:
                return {job.name: to, **rest}
            self.take_off(job, to)
        return None

    def options(self, job: Movable, others: Iterable[Movable] = ()) -> Iterator[Destination]:
        """Where the job fits: the GPU, then the node that is left with least comes first. Of nodes
        that are alike for it and the others, the first."""
        found = []
        self.left -= len(self.free)
        wary = [other for other in others if other.barred]
        for node, free in self.free.items():
            if node in job.barred or self.places[node] <= 0:
                continue
            like = (
                self.places[node],
                *sorted(free),
                *(other.name for other in wary if node in other.barred),
            )
            if job.amount >= WHOLE:
                ids = tuple(gpu for gpu, amount in enumerate(free) if amount == WHOLE)
                count = job.amount // WHOLE
                if len(ids) >= count:
                    found.append((0, sum(free), node, ids[:count], like))
            else:
                fitting: dict[int, int] = {}
                for gpu, amount in enumerate(free):
                    if amount >= job.amount:
                        fitting.setdefault(amount, gpu)
                found += [(a, sum(free), node, (gpu,), like) for a, gpu in fitting.items()]
        seen = set()
        for amount, _, node, gpus, like in sorted(found):
            if (amount, like) not in seen:
                seen.add((amount, like))
                yield Destination(node, gpus)

    def one_by_one(self, jobs: Iterable[Movable]) -> dict[str, Destination] | None:
        """Where these jobs fit if each takes its first option; None, and no job is put anywhere, if
        one has none."""
        placed: list[tuple[Movable, Destination]] = []
        for job in jobs:
            to = next(self.options(job), None)
            if to is None:
                for other, option in placed:
                    self.take_off(other, option)
                return None
            self.put(job, to)
            placed.append((job, to))
        return {job.name: to for job, to in placed}

    def put(self, job: Movable, to: Destination) -> None:
        self.places[to.node] -= 1
        for gpu in to.gpus:
            self.free[to.node][gpu] -= min(job.amount, WHOLE)

    def take_off(self, job: Movable, to: Destination) -> None:
        self.places[to.node] += 1
        for gpu in to.gpus:
            self.free[to.node][gpu] += min(job.amount, WHOLE)


@dataclass(slots=True)
class _Search:
    nodes: Sequence[NodeGpus]
    best: FoundMoves | None = None
    left: int = LOOKS
    room: int = field(default=0, init=False)
    """The free amount of all nodes but the source of the present task."""

    def solve(self, task: _Task) -> None:
        """Look for better moves that do this."""
        self.room = sum(sum(node.now) for node in self.nodes if node is not task.node)
        self._greedily(task)
        kinds: dict[object, list[_Block]] = defaultdict(list)
        for block in sorted(task.blocks, key=lambda block: block.key):
            kinds[
                block.gives, tuple(sorted((j.amount, *sorted(j.barred)) for j in block.jobs))
            ].append(block)
        self._branch(task, [*kinds.values()], (), task.missing)

    def _branch(
        self,
        task: _Task,
        kinds: Sequence[Sequence[_Block]],
        chosen: tuple[_Block, ...],
        missing: int,
    ) -> None:
        """Try all sets with these blocks and some of these kinds."""
        if missing <= 0:
            self._offer(task, chosen)
            return
        if sum(block.gives for kind in kinds for block in kind) < missing:
            return
        first, *others = kinds
        self._branch(task, others, chosen, missing)
        for block in first:
            chosen, missing = (*chosen, block), missing - block.gives
            if not self._may_be_best(chosen):
                return
            self._branch(task, others, chosen, missing)
            if missing <= 0:
                return

    def _may_be_best(self, chosen: Sequence[_Block]) -> bool:
        jobs = _jobs(chosen)
        if len(jobs) > MOST or sum(job.amount for job in jobs) > self.room:
            return False
        return self.best is None or _key(jobs)[:2] <= self.best.key[:2]

    def _offer(self, task: _Task, chosen: Sequence[_Block]) -> None:
        jobs = _jobs(chosen)
        if self.best is not None and _key(jobs) >= self.best.key:
            return
        placing = self._placing(task)
        to = placing.all_of(sorted(jobs, key=lambda job: (-job.amount, job.name)))
        self.left = placing.left
        if to is not None:
            self._keep(task, chosen, to)

    def _greedily(self, task: _Task) -> None:
        """Take the cheapest blocks that fit elsewhere beside those before them; then drop what is
        not needed, the last first."""
        placing, missing = self._placing(task), task.missing
        chosen: list[_Block] = []
        to: dict[str, Destination] = {}
        for block in sorted(task.blocks, key=lambda block: block.key):
            if missing <= 0:
                break
            if (placed := placing.one_by_one(block.jobs)) is not None:
                to |= placed
                chosen.append(block)
                missing -= block.gives
        if missing > 0:
            return
        for block in [*reversed(chosen)]:
            if missing + block.gives <= 0:
                missing += block.gives
                chosen.remove(block)
        jobs = _jobs(chosen)
        if len(jobs) <= MOST and (self.best is None or _key(jobs) < self.best.key):
            self._keep(task, chosen, {job.name: to[job.name] for job in jobs})

    def _keep(self, task: _Task, chosen: Sequence[_Block], to: dict[str, Destination]) -> None:
        self.best = FoundMoves(
            source=task.node.name,
            to=dict(sorted(to.items())),
            key=_key(_jobs(chosen)),
        )

    def _placing(self, task: _Task) -> _Placing:
        """The nodes that have something free, but for the source."""
        others = [node for node in self.nodes if node is not task.node and any(node.now)]
        return _Placing(
            free={node.name: [*node.now] for node in others},
            places={node.name: node.places for node in others},
            left=self.left,
        )


def _jobs(blocks: Iterable[_Block]) -> list[Movable]:
    return [job for block in blocks for job in block.jobs]


def _key(jobs: Sequence[Movable]) -> Key:
    return (
        sum(job.cost for job in jobs),
        len(jobs),
        sum(job.evictions for job in jobs),
        tuple(sorted(job.name for job in jobs)),
    )
