"""The store in memory and the one on DynamoDB answer alike, whatever is done to them, and the table
holds exactly the records that its jobs require."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.items import items_of, keyed, ledger_of, mark
from slotq_core.adapters.dynamodb.layout.table import (
    AFTER_PREFIX,
    CONFIG,
    EXPIRES_AT,
    HISTORY,
    LINES,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import Conflict, Misconfigured, NameTaken
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import TERMINAL_STATES, Job, JobState
from slotq_core.ports.store import Store
from slotq_core.ports.stored import AwaitedEnded, Change
from slotq_core.usage.calendar_days import day_of
from tests.contract.worlds import (
    NOW,
    REQUEST,
    S,
    a_job,
    a_pool,
    ahead_of,
    attempts_of,
    backing_off,
    cancelling,
    claiming,
    completing,
    evicted,
    evicting,
    freeing,
    giving_up,
    running,
    starting,
    trying_later,
)

RECORDS = ("ATTEMPT#", "NAME", "REQUEST", "CHANGE#", "REVISION")

REFUSALS = (Conflict, Misconfigured, NameTaken, AwaitedEnded)

DAY = day_of(NOW)
STEPS = 60


def a_step(chance: random.Random) -> Any:
    """An action: a new configuration, a submission, a commit of one to three changes, a tick, or a
    count of foreign use."""
    kinds = ["configure", "submit", "commit", "expire", "foreign"]
    kind = chance.choices(kinds, weights=[1, 4, 18, 1, 1])[0]
    if kind == "expire":
        return chance.randint(1, 4)
    if kind == "foreign":
        return chance.choice(["p5", "p4"]), Demand(slots=chance.choice([0, 0, 1]))
    if kind == "configure":
        names = chance.choices([("p5", "p4"), ("p4", "p5"), ("p5",)], weights=[6, 2, 1])[0]
        return [a_pool(name, chance.randint(1, 3)) for name in names]
    if kind == "submit":
        name = f"job{chance.randrange(40)}"
        return a_job(
            name,
            slots=chance.choice([1, 1, 2]),
            priority=chance.randint(0, 2),
            entry_time=NOW + chance.randint(0, 3),
            pools=chance.choice([("p5",), ("p4", "p5")]),
            after=chance.choice([(), (), (), ("job0",)]) if name != "job0" else (),
            followed=name == "job0",
        )
    moves = [
        (chance.random(), chance.random(), chance.choice(["p5", "p5", "p4"]))
        for _ in range(chance.choice([1, 1, 2, 3]))
    ]
    return moves, chance.choice(["seen", "unseen", "seen", "unseen", "stale"])


def changes_for(job: Job, pool: str) -> list[Change]:
    """The changes that can happen to the job next."""
    if job.state is S.BACKOFF:
        back = replace(job, state=S.PREEMPTED, not_before=None)
        return [Change(before=job, after=back), cancelling(job)]
    if job.after and not job.terminal:
        return [freeing(job), freeing(job), cancelling(job)]
    if job.waits:
        starts = [starting(job, pool)] * 4
        in_vain = [trying_later(job, NOW + job.entry_time % 5), giving_up(job)]
        return [*starts, claiming(job, pool), claiming(job, pool), *in_vain, cancelling(job)]
    if not job.active:
        return [Change(before=replace(job, version=job.version - 1), after=job)]
    ends = [completing(job), evicted(job), backing_off(job, NOW + job.entry_time % 7)]
    if job.state is S.STARTING:
        return [*[running(job)] * 4, evicting(job, "x"), *ends]
    return ends if job.state is S.STOPPING else [*[evicting(job, "x")] * 3, *ends]


def apply(store: Store, step: Any) -> object:
    """The result of a step, or the kind of its error."""
    try:
        if isinstance(step, Job):
            return store.jobs.submit(step, REQUEST)
        if isinstance(step, list):
            store.configuration.change(step, who="the test", now=NOW)
            return None
        if isinstance(step, int):
            return store.repair.expire(now=NOW, limit=step)
        if isinstance(step[1], Demand):
            return store.health.set_foreign(*step)  # type: ignore[func-returns-value]
        return apply_commit(store, *step)
    except REFUSALS as error:
        return next(kind for kind in REFUSALS if isinstance(error, kind))


def apply_commit(store: Store, moves: list[tuple[float, float, str]], how: str) -> object:
    states = JobState if how == "stale" else set(JobState) - TERMINAL_STATES
    jobs = sorted(store.jobs.in_states(states), key=lambda job: job.name)
    changes: dict[str, Change] = {}
    for which, option, pool in moves:
        if jobs:
            job = jobs[int(which * len(jobs))]
            options = changes_for(job, pool)
            changes[job.name] = options[int(option * len(options))]
    seen = {name: each.version for name, each in store.worlds.load(NOW).ledgers.items()}
    if how == "stale":
        seen = {name: version - 1 for name, version in seen.items()}
    return store.decisions.commit(list(changes.values()), seen=None if how == "unseen" else seen)


@pytest.mark.parametrize(
    ("client", "seed"),
    [("emulator", seed) for seed in range(4)],
    indirect=["client"],
)
def test_memory_and_dynamodb_answer_alike(client: Any, table: str, seed: int) -> None:
    chance = random.Random(seed)
    memory, dynamo = MemoryStore(), DynamoStore(client, table)
    for store in (memory, dynamo):
        store.configuration.change([a_pool("p5", 2), a_pool("p4", 1)], who="the test", now=NOW)
    for _ in range(STEPS):
        step = a_step(chance)
        result = apply(memory, step)
        assert apply(dynamo, step) == result
        if isinstance(result, tuple):
            assert dynamo.worlds.load(NOW + 3) == memory.worlds.load(NOW + 3)
    assert dynamo.worlds.load_all(NOW) == memory.worlds.load_all(NOW)
    _listed_alike(dynamo, memory)
    _exactly_what_the_jobs_call_for(client, table, memory)
    _only_what_has_ended_expires(client, table, memory)
    while memory.repair.expire(now=NOW):
        dynamo.repair.expire(now=NOW)
    everything_of_what_has_ended_expires(client, table, memory)


def _listed_alike(dynamo: Store, memory: Store) -> None:
    jobs = set(memory.jobs.in_states(JobState))
    assert set(dynamo.jobs.in_states(JobState)) == jobs
    assert dynamo.usage.ended(DAY, limit=1000) == memory.usage.ended(DAY, limit=1000)
    assert set(dynamo.usage.running()) == set(memory.usage.running())
    for job in jobs:
        assert dynamo.jobs.get(job.name) == memory.jobs.get(job.name)
        assert attempts_of(dynamo, job.name) == attempts_of(memory, job.name)
        assert ahead_of(dynamo, job) == ahead_of(memory, job)
        for attempt in attempts_of(memory, job.name):
            assert dynamo.jobs.owner_of(attempt.training_job) == job.name


def _exactly_what_the_jobs_call_for(client: Any, table: str, memory: Store) -> None:
    wanted = [
        keyed(key, item)
        for job in memory.jobs.in_states(JobState)
        for key, item in items_of(job).items()
    ]
    found = [
        {name: value for name, value in item.items() if name != EXPIRES_AT}
        for item in client.scan(TableName=table)["Items"]
        if item["pk"]["S"] != HISTORY and not is_of_an_attempt(item)
    ]
    ledgers = {i["pk"]["S"]: i for i in found if i["sk"]["S"] == "LEDGER"}
    kept = [
        item
        for item in found
        if item["pk"]["S"] not in {CONFIG, LINES}
        and item not in ledgers.values()
        and not item["sk"]["S"].startswith(RECORDS)
    ]
    assert sorted(kept, key=str) == sorted(wanted, key=str)
    _ledgers_add_up(ledgers, memory)


def _only_what_has_ended_expires(client: Any, table: str, store: Store) -> None:
    for item in client.scan(TableName=table)["Items"]:
        if EXPIRES_AT in item and not is_of_an_attempt(item):
            job = store.jobs.get(owner(item))
            assert job
            assert job.terminal
            assert int(item[EXPIRES_AT]["N"]) * 1000 >= job.changed_at + 30 * 86_400_000


def everything_of_what_has_ended_expires(client: Any, table: str, store: Store) -> None:
    for item in client.scan(TableName=table)["Items"]:
        job = store.jobs.get(owner(item))
        ended = bool(job and job.terminal) or is_of_an_attempt(item)
        assert (EXPIRES_AT in item) == ended


def is_of_an_attempt(item: dict[str, Any]) -> bool:
    """Whether the item is the record of what an ended attempt used."""
    return str(item["pk"]["S"]).startswith("ENDED#")


def owner(item: dict[str, Any]) -> str:
    """The job that an item is a record of; empty if none."""
    kind, _, name = item["pk"]["S"].partition("#")
    if item["sk"]["S"].startswith(AFTER_PREFIX):
        return str(item["sk"]["S"].removeprefix(AFTER_PREFIX))
    if kind == "NAME":
        return str(item["jobName"]["S"])
    return name if kind == "JOB" else ""


def _ledgers_add_up(ledgers: dict[str, Any], memory: Store) -> None:
    used: dict[str, Demand] = {}
    marks: Counter[str] = Counter()
    for job in memory.jobs.in_states(JobState):
        pool = job.attempt.pool if job.attempt else job.claim.pool if job.claim else None
        if pool:
            marks[pool] += mark(job)
        if pool and job.active:
            used[pool] = used.get(pool, Demand()) + job.demand
    rooms = {
        pool.name: pool.capacity - pool.foreign for pool in memory.worlds.load(NOW).snapshot.pools
    }
    for key, ledger in ledgers.items():
        pool = key.removeprefix("POOL#")
        assert ledger_of(ledger).used == used.get(pool, Demand())
        assert int(ledger.get("holders", {"N": "0"})["N"]) == marks[pool]
        if pool in rooms:
            free = rooms[pool] - used.get(pool, Demand())
            assert int(ledger["free_slots"]["N"]) == free.slots
        else:
            assert "free_slots" not in ledger
