"""`make bench`: what the queue costs, beside what it cost before. See README.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import (
    cold_start,
    drain_trace,
    evictions,
    inputs,
    memory,
    node_trace,
    page,
    plans,
    promises,
    results,
    table,
    teams,
    trace,
    training_script,
)
from benchmarks.live import (
    burst,
    classic,
    cpu,
    emulator,
    groups,
    life,
    limits,
    many,
    nodes,
    open_page,
    passes,
    projects,
    shapes,
    submissions,
)

Measure = Callable[[], Any]


def main() -> int:
    options = _options()
    measures = _measures(options)
    wanted = options.parts.split(",") if options.parts else [*measures]
    version = results.present()
    name, before = results.before(results.read(), version)
    parts = {}
    for part in wanted:
        print(f"\n== {part}", flush=True)
        found = measures[part]()
        if found is None:
            continue
        parts[part] = found
        table.show(found, before.get(part, {}))
        if options.write:
            results.keep(version, {part: found})
    if options.write:
        page.write()
    table.show_promises(parts, before, name)
    wrong = [*promises.broken(parts), *_beyond(parts)]
    for text in wrong:
        print(f"beyond its bound: {text}")
    return 1 if wrong else 0


def _measures(options: argparse.Namespace) -> Mapping[str, Measure]:
    """Each part, in the order of the table."""
    short: bool = options.short
    runs = options.runs or (1 if short else 3)  # The counts are the same in each.
    if options.only:
        return {"plans": lambda: plans.measure(runs=runs, only=options.only, short=short)}
    parts: dict[str, Measure] = {
        "submissions": lambda: submissions.measure(short=short),
        "passes": lambda: passes.measure(short=short),
        "projects": lambda: projects.measure(short=short),
        "shapes": lambda: shapes.measure(short=short),
        "groups": groups.measure,
        "many at once": many.measure,
        "batches": groups.measure_batches,
        "life": life.measure,
        "open page": lambda: open_page.measure(short=short),
        "classic": lambda: classic.measure(short=short),
        "plans": lambda: plans.measure(runs=runs, short=short),
        "cold start": lambda: cold_start.measure(
            1 if short else cold_start.RUNS, instructions=not short
        ),
        "training script": training_script.measure,
        "nodes": lambda: nodes.measure(short=short),
    }
    if not short:
        parts |= {"inputs": inputs.measure, "memory": memory.measure}
        parts |= {"limits": limits.measure, "burst": burst.measure, "cpu": cpu.measure}
        parts["emulator"] = emulator.measure
        parts["evictions"] = evictions.measure
        parts["teams"] = teams.measure
    if options.trace:
        parts["trace"] = lambda: trace.measure(options.trace)
        parts["drains in a trace"] = lambda: drain_trace.measure(options.trace)
        parts["nodes in a trace"] = lambda: node_trace.measure(options.trace)
    return parts


def _beyond(parts: Mapping[str, Any]) -> list[str]:
    found = plans.beyond(parts["plans"]) if "plans" in parts else []
    if parts.get("cold start"):
        found += cold_start.beyond(parts["cold start"])
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--short", action="store_true", help="small worlds: less than a minute")
    parser.add_argument(
        "--write", action="store_true", help="keep the figures, and show them on the page"
    )
    parser.add_argument("--parts", default="", help="only these parts, separated by commas")
    parser.add_argument(
        "--runs", type=int, help="the least time of so many plans counts (3; with --short 1)"
    )
    parser.add_argument("--only", default="", help="only plans whose name contains this text")
    parser.add_argument("--trace", type=Path, help="a CSV trace to schedule on 256 slots as well")
    options = parser.parse_args()
    if options.write and (options.short or options.only):
        parser.error("--write keeps whole parts: without --short and --only")
    return options


if __name__ == "__main__":
    sys.exit(main())
