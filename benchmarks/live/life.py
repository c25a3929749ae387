"""A job's life call by call: which call, on which items, for how many units.

A job is submitted to an idle queue, starts in the pass that follows, and completes; SageMaker tells
of each step, as in `benchmarks/cost_of_a_job.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from benchmarks.live.account import Live, live
from benchmarks.live.meter import Call, Usage
from slotq_core.adapters.dynamodb.layout.table import BY_STATE

EVENTS = ("training-starting", "training-in-progress", "training-completed")


def measure() -> dict[str, object]:
    """The life's calls and units, and the calls of each step in order. Equal calls in a row are one
    line, with their number."""
    with live() as its:
        steps = dict(_steps(its))
    calls = [call for usage in steps.values() for call in usage.calls]
    life = Usage(calls, sum(usage.rounds for usage in steps.values()))
    lines = {step: [*_lines(usage.calls)] for step, usage in steps.items()}
    return {**life.figures(), "steps": lines}


def _steps(its: Live) -> Iterator[tuple[str, Usage]]:
    with its.engine.meter.counting() as usage:
        its.submit("job")
    yield "submission", usage
    for number, event in enumerate(("pass", *EVENTS)):
        with its.engine.meter.counting() as usage:
            if number:
                its.deliver("job", event)
        if number:
            yield event, usage
        with its.engine.meter.counting() as usage:
            _passes(its)
        if usage.calls:
            yield f"pass after {EVENTS[number - 1] if number else 'submission'}", usage


def _passes(its: Live) -> None:
    """Run the passes that were asked for."""
    while its.account.lambda_.events:
        its.send(its.account.lambda_.events.pop(0))


def _lines(calls: list[Call]) -> Iterator[dict[str, object]]:
    for (operation, items), same in groupby(
        calls, key=lambda call: (call.operation, items_of(call))
    ):
        every = list(same)
        yield {
            "call": operation,
            "items": items,
            "times": len(every),
            "read_units": sum(call.read_units for call in every),
            "write_units": sum(call.write_units for call in every),
        }


def items_of(call: Call) -> str:
    """The kinds of items that a call reads or writes, as in `layout.table`."""
    kinds = dict.fromkeys(kind_of(key) for key, _ in (*call.read, *call.written))
    return ", ".join(kind for kind in kinds if kind != BY_STATE)


def kind_of(key: tuple[str, str]) -> str:
    """JOB, REQUEST, ATTEMPT, WAITING, LEDGER …: the part of a key that is not a name."""
    partition, item = (part.partition("#")[0] for part in key)
    if partition in {"JOB", "POOL", "SCHEDULER", "CONFIG"}:
        return item or partition
    return partition
