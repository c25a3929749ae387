"""The campaign's parts as tasks that any process can run, and their outcomes."""

from __future__ import annotations

import hashlib
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from traceback import format_exc

from tests.contract import dynamodb_local
from tests.faults import (
    backfill_mutants,
    callback_mutants,
    chaos,
    crashes,
    elastic_mutants,
    hours_mutants,
    interleavings,
    mutants,
    node_mutants,
    nodes,
    plan_mutants,
    reservation_mutants,
    semi_preemptible_mutants,
    start_mutants,
    warm_mutants,
    world,
)
from tests.faults.branches import Branch, tried
from tests.faults.crashes import Crash
from tests.faults.gate import Call
from tests.faults.interleavings import Schedule
from tests.faults.lines import mutants as mutants_of_lines
from tests.faults.lines.cases import CASES as CASES_OF_LINES
from tests.faults.lines.model import explore
from tests.faults.real_dynamodb import real_engine
from tests.faults.scenarios import Scenario
from tests.faults.stories import SCENARIOS
from tests.faults.world import World

MUTANTS = (
    *mutants.MUTANTS,
    *mutants_of_lines.MUTANTS,
    *nodes.MUTANTS,
    *node_mutants.MUTANTS,
    *hours_mutants.MUTANTS,
    *plan_mutants.MUTANTS,
    *reservation_mutants.MUTANTS,
    *backfill_mutants.MUTANTS,
    *semi_preemptible_mutants.MUTANTS,
    *start_mutants.MUTANTS,
    *elastic_mutants.MUTANTS,
    *warm_mutants.MUTANTS,
    *callback_mutants.MUTANTS,
)

Task = tuple[str, ...]
"""A task as words, so that it can be sent to a process and printed in a report."""

SHOWN = 60
"""The number of lines shown of a history."""


@dataclass
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """The broken promises, the shortest history, and how to replay it."""
    killed: list[str] = field(default_factory=list)
    """Caught mutants, and what caught them."""
    real: bool = False
    """On DynamoDB Local, which is too slow for finding the shortest history."""


@dataclass(frozen=True)
class Size:
    """The amount of each kind of task."""

    slices: int = 8
    """The number of tasks that each scenario's crash points are divided into, to spread the
    load."""
    stride: int = 1
    """One of this many crash points is tried."""
    doubles: int = 30
    """Of each scenario: crash points at which a second fault follows."""
    exhaustively: int = 700
    """The most schedules of one case."""
    drawn: bool = False
    """Whether the seed draws these schedules; otherwise they are those with few switches."""
    by_chance: int = 200
    chaos_jobs: tuple[int, ...] = (1_000,)
    states: int = 400_000
    """The most states of one case of the model."""
    mutants: int = len(MUTANTS)
    real: int = 4
    """On DynamoDB Local: crash runs of each scenario, schedules of each case, jobs of chaos."""


FULL = Size()
SHORT = Size(
    slices=1,
    stride=36,
    doubles=2,
    exhaustively=15,
    drawn=True,
    by_chance=5,
    chaos_jobs=(80,),
    states=5_000,
    real=2,
)
"""Every scenario, case and mutant; the seed draws the crash points and schedules."""

ON_THE_REAL_ENGINE = (
    "submit_and_complete",
    "cancel_while_starting",
    "cancel_while_stopping",
    "completes_while_stopping",
    "fault_then_back_off",
)
CASES_ON_THE_REAL_ENGINE = (
    "submit_beside_a_pass_that_ends",
    "the_same_submit_twice",
    "cancel_and_pass",
    "two_passes_decide_differently",
    "two_passes_evict",
    "three_passes",
)


def tasks(size: Size, seed: int) -> list[Task]:
    """The longest tasks first, so that no process waits for another at the end."""
    found: list[Task] = [("chaos", str(seed), str(jobs)) for jobs in size.chaos_jobs]
    found += [("real", part, str(seed), str(size.real)) for part in ("crash", "race", "chaos")]
    for case in interleavings.CASES:
        found.append(("race", case.name, str(size.exhaustively), *[str(seed)] * size.drawn))
        found.append(("chance", case.name, str(seed), str(size.by_chance)))
    parts = size.slices
    for scenario in SCENARIOS:
        offset = seed % size.stride
        found += [
            ("crash", scenario.name, f"{part}/{parts}", f"{offset}/{size.stride}")
            for part in range(1, parts)
        ]
        first = ("crash", scenario.name, f"0/{parts}", f"{offset}/{size.stride}")
        found.append((*first, f"{seed}/{size.doubles}"))
    found += [("model", case.name, str(size.states)) for case in CASES_OF_LINES]
    found += [("mutant", mutant.name) for mutant in MUTANTS[: size.mutants]]
    return found


def seed_of_tree() -> int:
    """A seed by the content of the last commit: the same for whoever checks it out, another one for
    the next. 1 without Git."""
    ran = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"],
        cwd=Path(__file__).parent,
        capture_output=True,
        check=False,
    )
    return int(hashlib.sha256(ran.stdout).hexdigest()[:6], 16) if ran.returncode == 0 else 1


def perform(task: Task) -> Outcome:
    kind, *words = task
    outcome = Outcome()
    try:
        _KINDS[kind](outcome, *words)
    except Exception:  # noqa: BLE001 - it goes into the report, with all the others
        outcome.violations.append(f"{task}: the campaign itself fails\n{format_exc()}")
    return outcome


@lru_cache(maxsize=1)
def _counted(name: str, _engine: object) -> tuple[list[Call], World]:
    return crashes.count_calls(_scenario(name))


def _crash(outcome: Outcome, name: str, share: str, sample: str, doubles: str = "1/0") -> None:
    """`share`: which part of how many; `sample`: the first point, and one of how many; `doubles`:
    a seed, and how many pairs of faults it draws."""
    part, parts = map(int, share.split("/"))
    offset, stride = map(int, sample.split("/"))
    calls, ran = _counted(name, world.make_dynamo)
    if ran.watch.broken:
        outcome.violations.append(f"{name} breaks with no fault at all\n{_history(ran)}")
        return
    if part == 0:
        outcome.counts["scenarios"] += 1
        outcome.counts["calls_in_scenarios"] += len(calls)
        if stride == 1:
            outcome.counts["crash_points"] += crashes.points_covered(calls)
    points = list(crashes.crash_points(calls))[offset::stride][part::parts]
    seed, count = doubles.split("/")
    points += crashes.double_crashes(calls, int(count), random.Random(f"{name}-{seed}"))
    _try_all(outcome, name, points)


def _try_all(outcome: Outcome, name: str, points: Iterator[Crash] | list[Crash]) -> None:
    scenario = _scenario(name)
    for branch in tried(scenario, points):
        _count(outcome, branch, "crash_runs")
        if branch.watch.broken:
            crash = branch.crash
            shorter, nearer, least = (
                (scenario, crash, crashes.run(scenario, crash))
                if outcome.real
                else crashes.shortest(scenario, crash)
            )
            steps = ", ".join(step.label for step in shorter.steps)
            outcome.violations.append(
                f"scenario {name}, {crash}\nshortest: {steps}; {nearer}\n{_history(least)}\n"
                f"{_again(outcome, _of_crash(name, crash))}"
            )
            return


def _race(outcome: Outcome, name: str, most: str, seed: str = "") -> None:
    rng = random.Random(f"{name}-{seed}") if seed else None
    found = interleavings.exhaustively(_case(name), int(most), rng)
    _follow(outcome, name, found, "exhaustive_schedules")


def _chance(outcome: Outcome, name: str, seed: str, count: str) -> None:
    found = interleavings.by_chance(_case(name), int(seed), int(count))
    _follow(outcome, name, found, "random_schedules")


def _follow(
    outcome: Outcome, name: str, found: Iterator[tuple[Schedule, World]], counted: str
) -> None:
    for schedule, ran in found:
        _count(outcome, ran, counted)
        outcome.counts["interleavings"] += 1
        if ran.watch.broken:
            case = _case(name)
            fewer, least, shown = (
                (case, schedule, ran) if outcome.real else interleavings.shortest(case, schedule)
            )
            handlers = " | ".join(label for label, _ in fewer.handlers)
            choices = ",".join(map(str, schedule.taken))
            outcome.violations.append(
                f"case {name}: {handlers}, switched {_brief(least)}\n{_history(shown)}\n"
                f"{_again(outcome, f'race|{name}|{choices}')}"
            )
            return


_WEATHER = (
    *("events", "events_lost", "events_doubled"),
    *("throttled", "no_answer", "killed", "refused_rights"),
)


def _chaos(outcome: Outcome, seed: str, count: str) -> None:
    ran = chaos.run(int(seed), int(count))
    outcome.counts["chaos_jobs"] += len(ran.watch.jobs)
    outcome.counts["calls"] += ran.calls
    for key in _WEATHER:
        outcome.counts[f"chaos_{key}" if "events_" not in key else key] += ran.weather.count[key]
    if ran.watch.broken:
        least = ran if outcome.real else chaos.fewest(int(seed), int(count))
        names = ",".join(least.wanted)
        outcome.violations.append(
            f"chaos, seed {seed}: {len(least.wanted)} of {count} jobs do it: "
            f"{', '.join(least.wanted[:20])}\n{_history(least)}\n"
            f"{_again(outcome, f'chaos|{seed}|{count}|{names}')}"
        )


def _mutant(outcome: Outcome, name: str) -> None:
    mutant = next(each for each in MUTANTS if each.name == name)
    outcome.counts["mutants"] += 1
    if broken := mutants.caught(mutant):
        outcome.counts["mutants_killed"] += 1
        outcome.killed.append(f"{name}: {broken}")
    else:
        outcome.violations.append(f"the mutant '{name}' lives: the campaign does not see it")


def _model(outcome: Outcome, name: str, most: str) -> None:
    """Every order of the steps of one case of the lines' protocol."""
    found = explore(next(each for each in CASES_OF_LINES if each.name == name), int(most))
    outcome.counts["model_states"] += found.states
    outcome.counts["model_raises"] += found.raised
    for broken in found.broken:
        steps = "\n".join(f"  {step[:200]}" for step in found.steps)
        outcome.violations.append(f"model {name}: {broken}\n{steps}")


def _real(outcome: Outcome, part: str, seed: str, count: str) -> None:
    """A part of the campaign with the store on DynamoDB Local."""
    found = Outcome(real=True)
    try:
        with real_engine() as engine:
            for kind, *words in _on_the_real_engine(part, seed, int(count)):
                _KINDS[kind](found, *words)
    except dynamodb_local.NotHere as missing:
        outcome.counts["local_missing"] += 1
        if dynamodb_local.required():
            outcome.violations.append(f"DynamoDB Local: {missing}")
        return
    for what in ("crash_runs", "interleavings", "chaos_jobs"):
        outcome.counts[f"local_{what}"] += found.counts[what]
    outcome.counts["local_calls"] += engine.calls
    outcome.counts["local_conflicts"] += engine.conflicts
    outcome.violations += [f"on DynamoDB Local: {each}" for each in found.violations]
    outcome.violations += [f"DynamoDB Local: {each}" for each in engine.unlike[:3]]


def _on_the_real_engine(part: str, seed: str, count: int) -> Iterator[Task]:
    if part == "chaos":
        yield "chaos", seed, str(count)
    if part == "race":
        for name in CASES_ON_THE_REAL_ENGINE:
            yield "race", name, str(count // 2)
            yield "chance", name, seed, str(count // 2)
    if part == "crash":
        for name in ON_THE_REAL_ENGINE:
            points = len([*crashes.crash_points(_counted(name, world.make_dynamo)[0])])
            stride = points // count
            yield "crash", name, "0/1", f"{int(seed) % stride}/{stride}"


_KINDS: dict[str, Callable[..., None]] = {
    "crash": _crash,
    "race": _race,
    "chance": _chance,
    "chaos": _chaos,
    "model": _model,
    "mutant": _mutant,
    "real": _real,
}


def replay(words: str) -> World:
    """Run one task again, from the line that ends a violation's report."""
    if words.startswith("real|"):
        with real_engine():
            return replay(words.removeprefix("real|"))
    kind, name, *rest = words.split("|")
    if kind == "crash":
        how, mode, call, again = rest
        crash = Crash(int(call), how, mode, again=int(again) if again else None)
        return crashes.run(_scenario(name), crash)
    if kind == "race":
        return interleavings.run(_case(name), Schedule([int(each) for each in rest[0].split(",")]))
    count, names = rest
    return chaos.run(int(name), int(count), only=names.split(",") if names else ())


def _again(outcome: Outcome, words: str) -> str:
    return f"again: python -m tests.faults --replay '{'real|' * outcome.real}{words}'"


def _of_crash(name: str, crash: Crash) -> str:
    return f"crash|{name}|{crash.kind}|{crash.mode}|{crash.call}|{crash.again or ''}"


def _count(outcome: Outcome, ran: World | Branch, what: str) -> None:
    outcome.counts[what] += 1
    outcome.counts["calls"] += ran.calls


def _history(ran: World) -> str:
    lines = [line for line in ran.history if not line.endswith("] tick")]
    broken = "\n".join(f"  {each}" for each in ran.watch.broken[:5])
    return "\n".join([broken, *(line[:200] for line in lines[-SHOWN:])])


def _brief(schedule: Schedule) -> str:
    """The handlers that ran, with the number of consecutive switching points each."""
    runs = [f"{who}×{len(list(each))}" for who, each in groupby(schedule.taken)]
    return " ".join(runs[:40])


def _scenario(name: str) -> Scenario:
    return next(each for each in SCENARIOS if each.name == name)


def _case(name: str) -> interleavings.Case:
    return next(each for each in interleavings.CASES if each.name == name)
