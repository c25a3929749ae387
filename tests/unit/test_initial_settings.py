"""A queue's pools come from the template until somebody changes them in the queue."""

from __future__ import annotations

from functools import partial

import pytest

from slotq_core.adapters import initial_settings
from slotq_core.adapters.deployment_settings import POOLS_VARIABLE as WHO
from slotq_core.adapters.deployment_settings import parse_pools
from slotq_core.adapters.memory.configuration import MemoryConfiguration
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import Misconfigured
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.model.users import User
from slotq_core.operations.configuring.jobs_in_need import check_removal
from tests.contract.worlds import waits

NOW = 1_000_000
take_in = partial(initial_settings.take_in, check_jobs=check_removal)


def pools(text: str) -> tuple[Pool, ...]:
    return parse_pools(text, default_type="ml.p5.48xlarge")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def slots(store: MemoryStore) -> dict[str, int]:
    return {pool.name: pool.capacity.slots for pool in store.configuration.pools()}


def test_pools_follow_the_setting_while_no_operator_changes_them(store):
    assert take_in(store, pools("a=1"), now=NOW) == ""
    assert take_in(store, pools("a=2,b=1"), now=NOW) == ""
    assert take_in(store, pools("a=2,b=1"), now=NOW) == ""
    assert slots(store) == {"a": 2, "b": 1}
    assert [change.who for change in store.configuration.changes(limit=9)] == [WHO, WHO]


def test_an_operators_change_outlives_every_cold_start(store):
    take_in(store, pools("a=1"), now=NOW)
    store.configuration.change(pools("a=5"), who="grace", now=NOW)
    assert take_in(store, pools("a=1"), now=NOW) == ""
    assert slots(store) == {"a": 5}
    assert len(store.configuration.changes(limit=9)) == 2


def test_a_setting_changed_after_an_operator_is_refused_and_names_the_operator(store):
    take_in(store, pools("a=1"), now=NOW)
    store.configuration.change(pools("a=5"), who="grace", now=NOW)
    told = take_in(store, pools("a=2"), now=NOW)
    assert slots(store) == {"a": 5}
    for part in ("SLOTQ_POOLS", "grace", "1970-01-01T00:16:40.000Z", "slotq pools"):
        assert part in told


def test_a_setting_equal_to_the_operators_change_is_accepted(store):
    take_in(store, pools("a=1"), now=NOW)
    store.configuration.change(pools("a=5"), who="grace", now=NOW)
    assert take_in(store, pools("a=5"), now=NOW) == ""


def test_a_setting_never_applied_does_not_start_to_count(store):
    store.configuration.change(pools("a=5"), who="grace", now=NOW)
    assert "grace" in take_in(store, pools("a=1"), now=NOW)
    assert slots(store) == {"a": 5}


def test_a_malformed_setting_does_not_stop_a_queue_with_pools(store):
    with pytest.raises(Misconfigured):
        take_in(store, [*pools("a=1"), *pools("a=2")], now=NOW)
    take_in(store, pools("a=1"), now=NOW)
    assert "one name" in take_in(store, [*pools("a=1"), *pools("a=2")], now=NOW)
    assert slots(store) == {"a": 1}


class Hurried(MemoryStore):
    """A store in which an operator changes the pools between the read and the write."""

    def __init__(self) -> None:
        super().__init__()
        self.configuration = HurriedConfiguration(self._state, self.counters, self.usage)


class HurriedConfiguration(MemoryConfiguration):
    hurry = True

    def change(self, wanted=None, **kwargs):  # type: ignore[override]
        if self.hurry and kwargs["who"] == WHO and self.pools():
            self.hurry = False
            super().change(pools("a=7"), who="grace", now=NOW)
        super().change(wanted, **kwargs)


def test_an_operators_concurrent_change_is_not_overwritten():
    store = Hurried()
    take_in(store, pools("a=1"), now=NOW)
    assert take_in(store, pools("a=2"), now=NOW) == ""
    assert slots(store) == {"a": 7}


@pytest.mark.parametrize(
    ("setting", "said"),
    [("a=2", "project 'x' names pool b in its quota"), ("a=2,b=1", "quota of 2 slots in pool b")],
)
def test_a_setting_that_projects_contradict_is_refused(store, setting, said):
    take_in(store, pools("a=2,b=2"), now=NOW)
    project = Project(name="x", quota={"b": Demand(slots=2)})
    store.configuration.change(sharing=Sharing(projects=(project,)), who="grace", now=NOW)
    assert said in take_in(store, pools(setting), now=NOW)
    assert slots(store) == {"a": 2, "b": 2}
    assert take_in(store, pools("a=1,b=3"), now=NOW) == ""


def test_a_setting_without_a_pool_that_a_users_limits_name_is_refused(store):
    take_in(store, pools("a=2,b=2"), now=NOW)
    user = User(name="ada", limits={"b": {"HIGH": 1}})
    store.configuration.change(sharing=Sharing(users=(user,)), who="grace", now=NOW)
    assert "user 'ada' names pool b in its limits" in take_in(store, pools("a=2"), now=NOW)
    assert slots(store) == {"a": 2, "b": 2}


def test_a_setting_without_a_pool_for_which_alone_a_job_waits_is_refused(store):
    take_in(store, pools("a=2,b=2"), now=NOW)
    waits(store, "job1", pools=("b",))
    assert "1 job waits for it alone (job1)" in take_in(store, pools("a=2"), now=NOW)
    assert slots(store) == {"a": 2, "b": 2}
    assert take_in(store, pools("b=2"), now=NOW) == ""
