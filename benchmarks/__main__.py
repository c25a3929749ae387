"""`make bench`: the time of plans and simulations, and its growth. See README.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import log
from pathlib import Path

from benchmarks.measure import Figure, carried_out, plan_figure, simulation_figure, trace_figure
from benchmarks.variants import with_free_slots, with_gangs, with_user_limits
from benchmarks.worlds import Size, world
from slotq_core.model.snapshot import Snapshot

MOST_GROWTH = 1.4
"""The largest exponent of growth. n log n is about 1.1 over these sizes, n² is 2. The rest allows
for noise."""
MOST_FOR_PROJECTS = 8.0
"""The largest cost of 1,000 projects, relative to 50 projects with as many lines."""


def main() -> int:
    options = _options()
    most = 10_000 if options.short else 100_000
    sizes = [1_000, 10_000] if options.short else [1_000, 10_000, 100_000]
    figures = {
        name: plan_figure(snapshot, options.runs) for name, snapshot in _queues(sizes, options.only)
    }
    if not options.only:
        figures["simulation"] = simulation_figure(1_000 if options.short else 10_000)
    if options.trace:
        figures["trace"] = trace_figure(options.trace)
    _print_table(figures)
    if options.only:
        return 0
    return _check_growth(figures, sizes[0], most)


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
        "plan, no projects": lambda: world(Size(waiting=waiting, projects=0)),
        "plan, after its evictions": lambda: carried_out(world(size)),
    }


def _check_growth(figures: dict[str, Figure], least: int, most: int) -> int:
    """Print how time grows with jobs and with projects; 1 if beyond bounds."""
    growth = log(_plan_seconds(figures, most) / _plan_seconds(figures, least)) / log(most / least)
    ratio = figures["plan, 1,000 projects"].seconds / _plan_seconds(figures, most)
    print(f"growth with waiting jobs: n to the power of {growth:.2f} (at most {MOST_GROWTH})")
    print(f"1,000 projects cost {ratio:.2f} times as much as 50 (at most {MOST_FOR_PROJECTS})")
    seconds = {name: round(figure.seconds, 4) for name, figure in figures.items()}
    print(
        json.dumps({"cpu_seconds": seconds, "growth": round(growth, 3), "ratio": round(ratio, 3)})
    )
    return 1 if growth > MOST_GROWTH or ratio > MOST_FOR_PROJECTS else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--short", action="store_true", help="small worlds: a few seconds")
    parser.add_argument("--runs", type=int, default=3, help="the least of so many runs counts")
    parser.add_argument("--only", default="", help="only plans whose name contains this text")
    parser.add_argument("--trace", type=Path, help="a CSV trace to simulate on 256 slots as well")
    return parser.parse_args()


def _plan_seconds(figures: dict[str, Figure], waiting: int) -> float:
    return figures[f"plan {waiting}"].seconds


def _print_table(figures: dict[str, Figure]) -> None:
    print(f"{'':34}{'CPU s':>9}  ")
    for name, figure in figures.items():
        print(f"{name:34}{figure.seconds:9.3f}  {figure.about}")


if __name__ == "__main__":
    sys.exit(main())
