"""The search for moves between nodes, beside all that is possible in small worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.gpu_amounts import WHOLE
from slotq_core.policy.actions.consolidate import MOST
from slotq_core.policy.actions.nodes.move_search import (
    FoundMoves,
    Key,
    Movable,
    NodeGpus,
    least_costly,
)

PARTS = (5, 10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90)
WHOLES = (100, 100, 200, 300, 400)
SEEDS = st.integers(0, 1 << 32)


def a_world(
    rng: random.Random, *, most: int = 4, gpus: int = 4, jobs: int = 9
) -> tuple[list[NodeGpus], int | None]:
    """So many nodes at most, with at most so many GPUs and jobs each, and what waits."""
    names = [f"n{number}" for number in range(rng.randint(1, most))]
    sizes = rng.choice([PARTS, WHOLES, (*PARTS, *WHOLES), (25, 50, 100)])
    nodes = []
    for name in names:
        full = NodeGpus(name=name, now=(WHOLE,) * rng.randint(1, gpus))
        nodes.append(_with_jobs(full, names, sizes, rng, jobs))
    most = max(len(node.now) for node in nodes)
    need = rng.choice([None, rng.choice(PARTS), *(WHOLE * n for n in range(1, most + 1))])
    return nodes, need


def _with_jobs(
    node: NodeGpus, names: list[str], sizes: Sequence[int], rng: random.Random, most: int
) -> NodeGpus:
    free = [*node.now]
    movable, fill = [], rng.choice([0.4, 0.7, 0.9, 1])
    for number in range(rng.randint(0, most)):
        amount = rng.choice(sizes)
        able = [gpu for gpu, left in enumerate(free) if left >= min(amount, WHOLE)]
        count = max(1, amount // WHOLE)
        if len(able) < count or sum(free) <= (1 - fill) * WHOLE * len(free):
            continue
        taken = tuple(sorted(rng.sample(able, count)))
        for gpu in taken:
            free[gpu] -= min(amount, WHOLE)
        if rng.random() < 0.8:
            cost, barred = rng.randint(0, 5), [n for n in names if rng.random() < 0.1]
            job = Movable(
                name=f"{node.name}j{rng.randint(0, 99):02}{number}",
                amount=amount,
                gpus=taken,
                cost=cost,
                evictions=rng.choice([0, 0, 1, 3]),
                barred=frozenset(barred),
            )
            movable.append(job)
    now = tuple(0 if rng.random() < 0.1 else left for left in free)
    soon = tuple(0 if rng.random() < 0.05 else left for left in free)
    return replace(
        node,
        now=now,
        soon=soon if rng.random() < 0.9 else (),
        movable=tuple(movable),
        places=rng.choice([1, 2, MOST, MOST]),
    )


def by_brute_force(nodes: Sequence[NodeGpus], need: int | None) -> Key | None:
    """The key of the best of all sets of jobs of one node that may move; None: there is none."""
    if any(fits(node, (), need) for node in nodes):
        return None
    keys = [
        key_of(jobs)
        for node in nodes
        for size in range(1, min(MOST, len(node.movable)) + 1)
        for jobs in combinations(node.movable, size)
        if fits(node, jobs, need)
        and _all_fit(jobs, {other.name: other for other in nodes if other is not node})
    ]
    return min(keys, default=None)


def key_of(jobs: Sequence[Movable]) -> Key:
    names = tuple(sorted(job.name for job in jobs))
    evictions = sum(job.evictions for job in jobs)
    return sum(job.cost for job in jobs), len(jobs), evictions, names


def fits(node: NodeGpus, gone: Sequence[Movable], need: int | None) -> bool:
    """Whether the waiting job fits on the node without these jobs."""
    if not node.soon:
        return False
    free = [*node.soon]
    for job in gone:
        for gpu in job.gpus:
            free[gpu] += min(job.amount, WHOLE)
    need = len(free) * WHOLE if need is None else need
    if need < WHOLE:
        return max(free) >= need
    return free.count(WHOLE) >= need // WHOLE


def _all_fit(jobs: Sequence[Movable], there: dict[str, NodeGpus]) -> bool:
    if not jobs:
        return True
    job, *others = jobs
    return any(_all_fit(others, {**there, node.name: node}) for node in _ways(job, there))


def _ways(job: Movable, there: dict[str, NodeGpus]) -> Iterator[NodeGpus]:
    """Each node as it is with the job on some of its GPUs."""
    for name, node in there.items():
        if name not in job.barred and node.places > 0:
            count, taken = max(1, job.amount // WHOLE), min(job.amount, WHOLE)
            able = [gpu for gpu, amount in enumerate(node.now) if amount >= taken]
            for gpus in combinations(able, count):
                now = tuple(a - taken * (gpu in gpus) for gpu, a in enumerate(node.now))
                yield replace(node, now=now, places=node.places - 1)


def check(nodes: Sequence[NodeGpus], need: int | None, found: FoundMoves) -> None:
    """Check that the moves can be carried out, and that the job then fits."""
    by_name = {node.name: node for node in nodes}
    source = by_name[found.source]
    moved = [job for job in source.movable if job.name in found.to]
    assert len(moved) == len(found.to) == found.key[1] <= MOST
    assert sum(job.cost for job in moved) == found.key[0]
    assert fits(source, moved, need)
    free = {node.name: [*node.now] for node in nodes}
    for job in moved:
        to = found.to[job.name]
        assert to.node != source.name and to.node not in job.barred
        assert len({*to.gpus}) == max(1, job.amount // WHOLE)
        for gpu in to.gpus:
            free[to.node][gpu] -= min(job.amount, WHOLE)
            assert free[to.node][gpu] >= 0
    for node in nodes:
        assert [to.node for to in found.to.values()].count(node.name) <= node.places


@given(SEEDS)
def test_the_moves_are_the_best_of_all(seed: int) -> None:
    nodes, need = a_world(random.Random(seed))
    found, best = least_costly(nodes, need), by_brute_force(nodes, need)
    assert (found and found.key) == best
    if found:
        check(nodes, need, found)


def by_the_greedy_rule(nodes: Sequence[NodeGpus], need: int | None) -> Key | None:
    """The key of the best moves of one node, where the cheapest jobs that fit elsewhere go one by
    one to the first place, and those not needed in the end stay."""
    keys = []
    for node in nodes:
        there = {other.name: other for other in nodes if other is not node}
        chosen: list[Movable] = []
        for job in sorted(node.movable, key=lambda job: key_of([job])):
            if fits(node, chosen, need):
                break
            if (way := next(_ways(job, there), None)) is not None:
                there[way.name] = way
                chosen.append(job)
        for job in [*reversed(chosen)]:
            if fits(node, [other for other in chosen if other is not job], need):
                chosen.remove(job)
        if fits(node, chosen, need) and 0 < len(chosen) <= MOST:
            keys.append(key_of(chosen))
    return min(keys, default=None)


@given(SEEDS)
def test_in_larger_worlds_they_are_never_worse_than_by_the_greedy_rule(seed: int) -> None:
    nodes, need = a_world(random.Random(seed), most=8, gpus=8, jobs=20)
    found, greedy = least_costly(nodes, need), by_the_greedy_rule(nodes, need)
    if any(fits(node, (), need) for node in nodes):
        assert found is None
    elif greedy is not None:
        assert found and found.key <= greedy
    if found:
        check(nodes, need, found)


def test_the_search_ends_where_nothing_fits() -> None:
    """Sixteen jobs for fifteen places, which are enough by their sum: to try all ways would take
    more than 10^12 placings."""
    crowded = [
        Movable(name=f"j{gpu}{n}", amount=34 + 2 * gpu + n, gpus=(gpu,), cost=1)
        for gpu in range(8)
        for n in range(2)
    ]
    soon = tuple(WHOLE - 2 * (34 + 2 * gpu) - 1 for gpu in range(8))
    source = NodeGpus(name="n0", now=soon, soon=soon, movable=tuple(crowded))
    others = [NodeGpus(name=f"n{n}", now=(49 + n,)) for n in range(1, 16)]
    assert least_costly([source, *others], None) is None
    found = least_costly([source, *others, NodeGpus(name="n16", now=(49,))], None)
    assert found and len(found.to) == MOST
