"""The time of plan() and of a simulation, and how a plan's calls of functions grow with jobs and
projects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import log

from benchmarks.measure import Figure, carried_out, plan_figure, simulation_figure
from benchmarks.variants import mixed, on_nodes, with_free_slots, with_gangs, with_user_limits
from benchmarks.worlds import Size, world
from slotq_core.model.snapshot import Snapshot

SIZES = (1_000, 10_000, 100_000)
SHORT = (1_000, 10_000)
MOST_GROWTH = 1.1
"""The largest exponent of growth. n log n is about 1.1 over these sizes, n² is 2."""
MOST_FOR_NODES = 1.5
"""The largest cost of jobs on nodes, relative to as many that take whole instances."""
MOST_FOR_PROJECTS = 2.0
"""The largest cost of 1,000 projects, relative to 50 projects with as many lines."""

Figures = Mapping[str, Mapping[str, object]]


def measure(*, runs: int = 3, only: str = "", short: bool = False) -> Figures:
    """CPU seconds and the size of the work, by world. `only`: plans whose name contains this."""
    figures = {
        name: plan_figure(snapshot, runs)
        for name, snapshot in _queues(SHORT if short else SIZES, only)
    }
    if not only:
        figures["simulation"] = simulation_figure(1_000 if short else 10_000)
    return {name: _kept(figure) for name, figure in figures.items()}


def beyond(figures: Figures) -> list[str]:
    """What grows faster than it may, in words. Empty without the figures for it."""
    calls = {name: int(str(each["calls"])) for name, each in figures.items() if "calls" in each}
    sizes = sorted(int(name.split()[1]) for name in calls if name.removeprefix("plan ").isdigit())
    if len(sizes) < 2 or "plan, 1,000 projects" not in calls:
        return []
    least, most = sizes[0], sizes[-1]
    growth = log(calls[f"plan {most}"] / calls[f"plan {least}"]) / log(most / least)
    ratio = calls["plan, 1,000 projects"] / calls[f"plan {most}"]
    print(f"growth with waiting jobs: n to the power of {growth:.2f} (at most {MOST_GROWTH})")
    print(f"1,000 projects cost {ratio:.2f} times as much as 50 (at most {MOST_FOR_PROJECTS})")
    found = [*_beyond_for_nodes(calls)]
    if growth > MOST_GROWTH:
        found.append(f"plan() grows with n to the power of {growth:.2f}")
    if ratio > MOST_FOR_PROJECTS:
        found.append(f"1,000 projects cost {ratio:.2f} times as much as 50")
    return found


def _beyond_for_nodes(calls: Mapping[str, int]) -> Iterator[str]:
    """Whether jobs on nodes cost more than they may, in words."""
    for what, number in (("jobs", "2,000"), ("parts", "8,000")):
        whole = calls.get(f"plan, {number} whole instances")
        if whole:
            ratio = calls[f"plan, {number} {what} on 250 nodes"] / whole
            print(f"{what} on nodes cost {ratio:.2f} times whole ones (at most {MOST_FOR_NODES})")
            if ratio > MOST_FOR_NODES:
                yield f"{what} on nodes cost {ratio:.2f} times as much as whole ones"


def _kept(figure: Figure) -> dict[str, object]:
    counted = {} if figure.calls is None else {"calls": figure.calls}
    return {"cpu_seconds": round(figure.seconds, 4), **counted, "about": figure.about}


def _queues(sizes: Sequence[int], only: str) -> Iterator[tuple[str, Snapshot]]:
    """The queues to plan, by name; `only` those whose name contains this text."""
    queues: dict[str, Callable[[], Snapshot]] = {
        f"plan {waiting}": partial(world, Size(waiting=waiting)) for waiting in sizes
    }
    queues |= _largest(sizes[-1])
    return ((name, make()) for name, make in queues.items() if only in name)


def _largest(waiting: int) -> dict[str, Callable[[], Snapshot]]:
    size = Size(waiting=waiting)
    projects = Size(waiting=waiting, projects=1_000, departments=50, kinds=4)
    every_kind = Size(waiting=waiting, projects=1_000, departments=50)
    users = Size(waiting=waiting, users_of_a_kind=2)
    gangs = min(waiting, 10_000)
    return {
        "plan, 1,000 projects": lambda: world(projects),
        "plan, 1,000 projects, every kind": lambda: world(every_kind),
        "plan, 1,000 projects, 30 % free": lambda: with_free_slots(world(projects), 0.3),
        "plan, 2,000 users with limits": lambda: with_user_limits(world(users)),
        "plan, 2,000 gangs": lambda: with_gangs(world(Size(waiting=gangs)), gangs // 5),
        "plan, mixed": lambda: mixed(world(users)),
        "plan, no projects": lambda: world(Size(waiting=waiting, projects=0)),
        "plan, after its evictions": lambda: carried_out(world(size)),
        "plan, 2,000 whole instances": lambda: on_nodes(waiting, whole=True),
        "plan, 2,000 jobs on 250 nodes": lambda: on_nodes(waiting),
        "plan, 8,000 whole instances": lambda: on_nodes(waiting, per_gpu=4, whole=True),
        "plan, 8,000 parts on 250 nodes": lambda: on_nodes(waiting, per_gpu=4),
    }
