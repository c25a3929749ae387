"""Users take equal turns on the queue itself, however long it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from slotq.simulate.run.live import live_record
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.ports.store import Store
from tests.scenarios.test_scenarios import on_dynamodb

DAY = 86_400
SLICE = 1_800
USERS = ("ann", "bob", "cyd")


def turns(jobs: int, *, stop: int = 0) -> Scenario:
    """A day of three users with so many endless jobs each, on one slot."""
    return Scenario.model_validate(
        {
            "pools": [{"name": "p", "capacity": 1, "time_slice": SLICE, "stop_seconds": stop}],
            "jobs": [
                {"name": f"{user}{number}", "user": user, "submit_at": 7 * number + place}
                for place, user in enumerate(USERS)
                for number in range(jobs)
            ],
            "until": DAY,
        }
    )


def held(record: Record) -> Counter[str]:
    """How long (s) each user's jobs ran."""
    found: Counter[str] = Counter()
    for job, states in record.states.items():
        ends = [at for at, _ in states[1:]] + [DAY * 1000]
        for (since, state), end in zip(states, ends, strict=True):
            found[job[:3]] += (end - since) // 1000 if state == "running" else 0
    return found


@pytest.mark.parametrize("make_store", [MemoryStore, on_dynamodb])
@pytest.mark.parametrize("jobs", [1, 3])
def test_three_users_on_one_slot_get_equal_time_in_a_day(
    make_store: Callable[[], Store], jobs: int
) -> None:
    assert held(live_record(turns(jobs), make_store())) == dict.fromkeys(USERS, DAY // 3)


@pytest.mark.parametrize("make_store", [MemoryStore, on_dynamodb])
def test_turns_stay_equal_to_the_slice_where_stopping_takes_time(
    make_store: Callable[[], Store],
) -> None:
    found = held(live_record(turns(2, stop=60), make_store()))
    assert max(found.values()) - min(found.values()) <= SLICE
    assert min(found.values()) > DAY // 3 - 2 * SLICE
