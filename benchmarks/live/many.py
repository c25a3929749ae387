"""What many changes at once cost: ends that a tick finds, and urgent jobs that arrive together.

`python -m benchmarks.live.many` prints each round of calls with the items that it touches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

from benchmarks.live.account import PASS, Live, live
from benchmarks.live.life import items_of
from benchmarks.live.meter import Usage
from benchmarks.live.passes import settled
from benchmarks.live.queues import FIRST_POOL, TYPE
from benchmarks.live.sharing import Shared
from benchmarks.promises import ENDS_AND_STARTS
from slotq_core.adapters.dynamodb.layout.lines import GRACE
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.projects import Budget
from slotq_core.model.users import PriorityClass
from tests.contract.worlds import cancelling
from tests.functional.account import HOUR, add_job, sample

ENDS, URGENT = 500, 30
PROJECTS, POOLS, SLOTS = 50, 20, 20
GANGS, WAITING_GANGS, WAITING = 40, 82, 600

Figures = dict[str, float]


def measure() -> dict[str, Figures]:
    """By what comes at once."""
    return {name: usage.figures() for name, usage in _measured().items()}


def _measured() -> dict[str, Usage]:
    evictions, starts = urgent()
    return {
        ENDS_AND_STARTS: ends(),
        f"{URGENT} urgent jobs evict": evictions,
        f"{URGENT} urgent jobs start": starts,
    }


def ends(number: int = ENDS, pools: int = 5) -> Usage:
    """A tick finds that this many training jobs have ended, of which no event told; as many jobs
    wait for their slots."""
    slots = number // pools
    names = [f"pool-{n:02d}" for n in range(pools)]
    with live(",".join(f"{name}={slots}@{TYPE}" for name in names)) as its:
        model = _model(its)
        sharing = _SHARED.configuration(number)
        now = its.account.clock.now()
        its.other.configuration.change(sharing=sharing, who="benchmark", now=now)
        for turn in range(2 * number):
            job = _of(model, turn, "job", priority=1)
            job = replace(job, pools=(names[turn % pools],))
            its.other.jobs.submit(job, _REQUEST)
        _start_all(its)
        its.account.clock.set(its.account.clock.now() + 2 * GRACE)
        its.send(sample("tick"))  # What a tick does once a day, or after other containers.
        assert len(its.account.plane.live()) == number, len(its.account.plane.live())
        _end_all(its)
        its.account.clock.set(its.account.clock.now() + 2 * GRACE)
        creates = its.account.plane.calls["CreateTrainingJob"]
        usage = _counted(its, sample("tick"))
        assert its.account.plane.calls["CreateTrainingJob"] == creates + number
        return usage


def urgent(number: int = URGENT) -> tuple[Usage, Usage]:
    """Urgent jobs arrive together in a queue of every kind of thing: the pass that evicts for them,
    and the pass after their victims have ended."""
    with mixed() as its:
        stops = its.account.plane.calls["StopTrainingJob"]
        for turn in range(number):
            its.caller = _SHARED.member(turn)
            tags = {
                "slotq:project": _SHARED.project(turn),
                "slotq:priority": "900",
                "slotq:pools": f"pool-{turn % POOLS:02d},pool-{(turn + 7) % POOLS:02d}",
            }
            its.submit(f"urgent-{turn:02d}", Tags=_tags(tags))
        evictions = _counted(its, PASS)
        assert its.account.plane.calls["StopTrainingJob"] == stops + number
        creates = its.account.plane.calls["CreateTrainingJob"]
        _end_what_stops(its)
        starts = _counted(its, PASS)
        assert its.account.plane.calls["CreateTrainingJob"] == creates + number
        return evictions, starts


_SHARED = Shared(projects=PROJECTS, departments=10, people=PROJECTS)
_REQUEST = json.loads(add_job()["body"])


def _tags(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


@contextmanager
def mixed() -> Iterator[Live]:
    """Full pools with projects, budgets, classes, time slices and groups."""
    with live(",".join(f"pool-{n:02d}={SLOTS}@{TYPE}" for n in range(POOLS))) as its:
        model = _model(its)
        _configure(its)
        running = POOLS * SLOTS - 3 * GANGS
        for turn in range(running):
            its.other.jobs.submit(_of(model, turn, "active", priority=5), _REQUEST)
        for turn in range(GANGS):
            _gang(its, turn, priority=5)
        _start_all(its)
        for turn in range(GANGS, GANGS + WAITING_GANGS):
            _gang(its, turn, priority=turn % 3)
        for turn in range(WAITING):
            its.other.jobs.submit(_of(model, turn, "waiting", priority=turn % 4), _REQUEST)
        _start_all(its)  # Some are evicted by those who deserve more.
        its.account.clock.set(its.account.clock.now() + 2 * GRACE)
        _settle(its)
        its.send(sample("tick"))
        settled(its)
        yield its


def _model(its: Live) -> Job:
    """A job that the API has taken in, whose copies the queue holds."""
    its.submit("model", Tags=FIRST_POOL)
    model = its.other.jobs.get("model")
    assert model is not None
    its.other.decisions.commit([cancelling(model)])
    its.account.lambda_.events.clear()
    return replace(model, version=1)


def _configure(its: Live) -> None:
    sharing = _SHARED.configuration(POOLS * SLOTS)
    projects = tuple(
        replace(project, budget=Budget(slot_ms=(1 + number) * 1000 * HOUR))
        if number % 2
        else project
        for number, project in enumerate(sharing.projects)
    )
    classes = (PriorityClass(name="URGENT", value=950), PriorityClass(name="BATCH", value=1))
    pools = tuple(
        replace(pool, time_slice=8 * HOUR if number % 5 == 0 else None)
        for number, pool in enumerate(its.other.configuration.pools())
    )
    its.other.configuration.change(
        pools,
        sharing=replace(sharing, projects=projects, classes=classes),
        who="benchmark",
        now=its.account.clock.now(),
    )


def _of(model: Job, turn: int, name: str, *, priority: int) -> Job:
    person = _SHARED.member(turn)
    return replace(
        model,
        name=f"{name}-{turn:04d}",
        project=_SHARED.project(turn),
        submitter=person,
        person=person,
        priority=priority,
        pools=(f"pool-{turn % POOLS:02d}",),
        demand=Demand(slots=1),
        entry_time=model.entry_time + turn,
    )


def _gang(its: Live, turn: int, *, priority: int) -> None:
    tags = {
        "slotq:project": _SHARED.project(turn),
        "slotq:priority": str(priority),
        "slotq:pools": ",".join(f"pool-{(turn + n) % POOLS:02d}" for n in range(3)),
    }
    members = [
        {**_REQUEST, "TrainingJobName": f"gang-{turn:03d}-{n}", "Tags": _tags(tags)}
        for n in range(3)
    ]
    its.caller = _SHARED.member(turn)
    body = {"name": f"gang-{turn:03d}", "gang": {}, "members": members}
    its.send(its.signed({**sample("submit-gang"), "body": json.dumps(body)}))


def _start_all(its: Live) -> None:
    """Run passes, and deliver SageMaker's events, until all that can run runs."""
    its.pass_()
    its.account.clock.set(its.account.clock.now() + 60_000)
    _settle(its)


def _settle(its: Live) -> None:
    its.account.plane.advance()
    while its.account.lambda_.events or its.account.emitted:
        waiting = its.account.lambda_.events or its.account.emitted
        its.send(waiting.pop(0))
        its.account.plane.advance()


def _end_all(its: Live) -> None:
    """Everything that runs ends, and no event tells."""
    for training_job in [*its.account.plane.live()]:
        job = its.account.plane.job(training_job)
        assert job is not None
        job.status = "Completed"
    its.account.emitted.clear()


def _counted(its: Live, event: dict[str, Any]) -> Usage:
    its.account.lambda_.events.clear()
    with its.engine.meter.counting() as usage:
        its.send(event)
    return usage


def _end_what_stops(its: Live) -> None:
    """What was asked to stop has stopped, and the handler is told of it while another one has the
    lease."""
    now = its.account.clock.now() + 150_000
    its.account.clock.set(now)
    its.other.scheduler.take_lease("other", now=now, until=now + 60_000)
    _settle(its)
    its.other.scheduler.end_lease("other", generation=None)


def main() -> None:
    for name, usage in _measured().items():
        print(f"== {name}: {usage.figures()}")
        _print(usage)


def _print(usage: Usage) -> None:
    """The calls in the order of their rounds; equal ones as one line."""
    for (begun, operation, items), calls in groupby(
        usage.calls, key=lambda call: (call.round, call.operation, items_of(call))
    ):
        print(f"{begun:5} {len([*calls]):4} {operation} {items}")


if __name__ == "__main__":
    main()
