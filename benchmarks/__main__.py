"""`make bench`: the time of plans and simulations, and its growth. See README.md."""

from __future__ import annotations

import argparse
import json
import sys
from math import log
from pathlib import Path

from benchmarks.measure import Figure, lines_of, plan_figure, simulation_figure, trace_figure
from benchmarks.worlds import Size, world

MOST_GROWTH = 1.4
"""The largest exponent of growth. n log n is about 1.1 over these sizes, n² is 2. The rest allows
for noise."""
MOST_FOR_PROJECTS = 8.0
"""The largest cost of 1,000 projects, relative to 50 projects with as many lines."""


def main() -> int:
    options = _options()
    figures: dict[str, Figure] = {}
    top = 10_000 if options.short else 100_000
    sizes = [1_000, 10_000] if options.short else [1_000, 10_000, 100_000]
    for waiting in sizes:
        figures[f"plan {waiting}"] = _plan(Size(waiting=waiting), options.runs)
    few = Size(waiting=top, projects=1_000, departments=50, kinds=4)
    many = Size(waiting=top, projects=1_000, departments=50)
    figures["plan, 1,000 projects"] = _plan(few, options.runs)
    figures["plan, 1,000 projects, every kind"] = _plan(many, options.runs)
    figures["plan, no projects"] = _plan(Size(waiting=top, projects=0), options.runs)
    figures["plan, after its evictions"] = _plan(Size(waiting=top), options.runs, after=True)
    figures["simulation"] = simulation_figure(1_000 if options.short else 10_000)
    if options.trace:
        figures["trace"] = trace_figure(options.trace)
    growth = log(_of(figures, top) / _of(figures, sizes[0])) / log(top / sizes[0])
    ratio = figures["plan, 1,000 projects"].seconds / _of(figures, top)
    _print(figures, growth, ratio)
    return 1 if growth > MOST_GROWTH or ratio > MOST_FOR_PROJECTS else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--short", action="store_true", help="small worlds: a few seconds")
    parser.add_argument("--runs", type=int, default=3, help="the least of so many runs counts")
    parser.add_argument("--trace", type=Path, help="a CSV trace to simulate on 256 slots as well")
    return parser.parse_args()


def _plan(size: Size, runs: int, *, after: bool = False) -> Figure:
    snapshot = world(size)
    return plan_figure(snapshot, runs, lines=lines_of(snapshot), after=after)


def _of(figures: dict[str, Figure], waiting: int) -> float:
    return figures[f"plan {waiting}"].seconds


def _print(figures: dict[str, Figure], growth: float, ratio: float) -> None:
    print(f"{'':34}{'CPU s':>9}  ")
    for name, figure in figures.items():
        print(f"{name:34}{figure.seconds:9.3f}  {figure.about}")
    print(f"growth with what waits: n to the power of {growth:.2f} (at most {MOST_GROWTH})")
    print(f"1,000 projects cost {ratio:.2f} times as much as 50 (at most {MOST_FOR_PROJECTS})")
    seconds = {name: round(figure.seconds, 4) for name, figure in figures.items()}
    print(
        json.dumps({"cpu_seconds": seconds, "growth": round(growth, 3), "ratio": round(ratio, 3)})
    )


if __name__ == "__main__":
    sys.exit(main())
