"""Which pools a queue has: the template's until somebody has changed them in the queue."""

from __future__ import annotations

import pytest

from slotq_core.adapters.initial_settings import take_in
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.settings import POOLS_VARIABLE as WHO
from slotq_core.adapters.settings import parse_pools
from slotq_core.errors import Misconfigured
from slotq_core.model.pools import Pool

NOW = 1_000_000


def pools(text: str) -> tuple[Pool, ...]:
    return parse_pools(text, default_type="ml.p5.48xlarge")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def slots(store: MemoryStore) -> dict[str, int]:
    return {pool.name: pool.capacity.slots for pool in store.pools()}


def test_the_setting_is_the_initial_value_and_is_followed_while_nobody_changes_anything(store):
    assert take_in(store, pools("a=1"), now=NOW) == ""
    assert take_in(store, pools("a=2,b=1"), now=NOW) == ""
    assert take_in(store, pools("a=2,b=1"), now=NOW) == ""
    assert slots(store) == {"a": 2, "b": 1}
    assert [change.who for change in store.changes(limit=9)] == [WHO, WHO]


def test_what_an_operator_has_changed_outlives_every_cold_start(store):
    take_in(store, pools("a=1"), now=NOW)
    store.configure(pools("a=5"), who="grace", now=NOW)
    assert take_in(store, pools("a=1"), now=NOW) == ""
    assert slots(store) == {"a": 5}
    assert len(store.changes(limit=9)) == 2


def test_a_setting_that_changes_after_an_operator_is_refused_and_says_who_it_was(store):
    take_in(store, pools("a=1"), now=NOW)
    store.configure(pools("a=5"), who="grace", now=NOW)
    told = take_in(store, pools("a=2"), now=NOW)
    assert slots(store) == {"a": 5}
    for part in ("SLOTQ_POOLS", "grace", "1970-01-01T00:16:40.000Z", "slotq pools"):
        assert part in told


def test_a_setting_that_says_what_the_operator_did_is_no_news(store):
    take_in(store, pools("a=1"), now=NOW)
    store.configure(pools("a=5"), who="grace", now=NOW)
    assert take_in(store, pools("a=5"), now=NOW) == ""


def test_where_nobody_ever_took_the_setting_in_it_does_not_begin_to_count(store):
    store.configure(pools("a=5"), who="grace", now=NOW)
    assert "grace" in take_in(store, pools("a=1"), now=NOW)
    assert slots(store) == {"a": 5}


def test_a_setting_that_contradicts_itself_stops_no_queue_that_has_pools(store):
    with pytest.raises(Misconfigured):
        take_in(store, [*pools("a=1"), *pools("a=2")], now=NOW)
    take_in(store, pools("a=1"), now=NOW)
    assert "one name" in take_in(store, [*pools("a=1"), *pools("a=2")], now=NOW)
    assert slots(store) == {"a": 1}


class Hurried(MemoryStore):
    """An operator changes the pools between the look and the write."""

    hurry = True

    def configure(self, wanted, *, who, now, seen=None):
        if self.hurry and who == WHO and self.pools():
            self.hurry = False
            super().configure(pools("a=7"), who="grace", now=now)
        super().configure(wanted, who=who, now=now, seen=seen)


def test_an_operator_who_is_quicker_by_a_moment_is_not_overwritten():
    store = Hurried()
    take_in(store, pools("a=1"), now=NOW)
    assert take_in(store, pools("a=2"), now=NOW) == ""
    assert slots(store) == {"a": 7}
