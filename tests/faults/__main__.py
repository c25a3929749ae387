"""`make faults`: the whole campaign. See docs/faults.md."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shlex
import sys
import time
from collections import Counter

from tests.faults import campaign
from tests.faults.campaign import FULL, SHORT, Outcome, Task

OF_THE_TREE = "tree"


def main() -> int:
    asked = _arguments()
    seed = campaign.seed_of_tree() if asked.seed == OF_THE_TREE else int(asked.seed)
    if asked.replay:
        world = campaign.replay(asked.replay)
        print("\n".join(world.history))
        print("\n".join(map(str, world.watch.broken)) or "nothing is broken")
        return 1 if world.watch.broken else 0
    began = time.monotonic()
    every = campaign.tasks(SHORT if asked.short else FULL, seed)
    work = [task for task in every if asked.only in " ".join(task)][asked.first :]
    again = shlex.quote(_again(asked, seed))
    print(f"seed {seed}; the same again: make faults ARGS={again}", flush=True)
    total, left = _perform(work, asked.processes, began + (asked.seconds or float("inf")))
    for line in total.killed:
        print(f"caught: {line}")
    for number, violation in enumerate(total.violations, 1):
        print(f"\nVIOLATION {number} (seed {seed})\n{violation}", flush=True)
    figures = {
        **dict(sorted(total.counts.items())),
        "tasks_not_done": left,
        "violations": len(total.violations),
        "seconds": round(time.monotonic() - began),
        "seed": seed,
    }
    print(json.dumps(figures))
    if left:
        print(f"go on with --first {asked.first + len(work) - left}", file=sys.stderr)
    return 1 if total.violations else 2 if left else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a part of it: some five minutes")
    parser.add_argument(
        "--seed", default="1", help="of everything that is left to chance; 'tree': by the commit"
    )
    parser.add_argument(
        "--seconds", type=int, help="begin nothing after so long, and exit 2 if anything is left"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="the number of the task to begin with, to go on"
    )
    parser.add_argument(
        "--only", default="", help="only tasks with this text, such as 'race two_passes'"
    )
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--replay", help="one run again, as a violation names it")
    return parser.parse_args()


def _again(asked: argparse.Namespace, seed: int) -> str:
    only = f" --only {shlex.quote(asked.only)}" if asked.only else ""
    return f"{'--short ' * asked.short}--seed {seed}{only}"


def _perform(work: list[Task], processes: int, until: float) -> tuple[Outcome, int]:
    """Run the tasks. Returns their outcomes and the number of tasks that there was no time for."""
    total, left = Outcome(counts=Counter(crash_points=0, interleavings=0, chaos_jobs=0)), 0
    with multiprocessing.Pool(processes) as pool:
        done = pool.imap_unordered(_timed, [(task, until) for task in work])
        for number, (task, outcome) in enumerate(done, 1):
            if outcome is None:
                left += 1
                continue
            total.counts += outcome.counts
            total.violations += outcome.violations
            total.killed += outcome.killed
            if outcome.violations or number % 20 == 0:
                found = f", {len(total.violations)} violations" if total.violations else ""
                print(f"{number}/{len(work)} {' '.join(task[:2])}{found}", file=sys.stderr)
    return total, left


def _timed(what: tuple[Task, float]) -> tuple[Task, Outcome | None]:
    task, until = what
    return task, campaign.perform(task) if time.monotonic() < until else None


if __name__ == "__main__":
    sys.exit(main())
