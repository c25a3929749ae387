"""What projects have spent this month: counted by each tick, read by each pass with what it reads
anyway, and warned of once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotq.simulate import load, simulate
from slotq.simulate.report import differences, unequal
from slotq.simulate.run.live import live_record
from slotq_core.adapters.dynamodb.layout.table import revision_key
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.errors import Conflict
from slotq_core.manager import QueueManager
from slotq_core.model.demand import Demand
from slotq_core.model.projects import EVERYWHERE, Beyond, Budget, Project
from slotq_core.model.sharing import Sharing
from slotq_core.operations.passes import PassResult
from slotq_core.operations.usage import month_sums
from slotq_core.operations.usage.month_sums import SETTLED, MonthSums
from slotq_core.ports.store import Store
from slotq_core.ports.usage import MonthSum
from slotq_core.storage import snapshots
from slotq_core.usage.calendar_days import DAY, month_of, next_month
from tests.contract.by_hand import Table
from tests.contract.evented_dynamodb import EventedDynamo
from tests.contract.test_dynamodb_cost import measured
from tests.contract.test_pass_cost import Training
from tests.contract.test_usage import HOUR, StandingClock, add_up, ends, lives
from tests.contract.worlds import NOW, REQUEST, a_job, a_pool, a_queue, commit

MONTH = month_of(NOW)
SCENARIOS = Path(__file__).parents[1] / "scenarios" / "budgets"


def shared(store: Store, slot_hours: float = 10, beyond: Beyond = Beyond.SOFT) -> Store:
    """A queue with projects vision, which has a budget, and speech, which has none."""
    if not store.configuration.pools():
        a_queue(store, a_pool("p5", 50))
    budget = Budget(slot_ms=int(slot_hours * HOUR), beyond=beyond)
    quota = {EVERYWHERE: Demand(slots=1)}
    projects = (Project(name="vision", quota=quota, budget=budget), Project(name="speech"))
    store.configuration.change(sharing=Sharing(projects=projects), who="test", now=NOW)
    return store


def count(store: Store, now: int = NOW, *, ticks: int = 0) -> None:
    clock = StandingClock(now)
    clock.ticks = ticks
    MonthSums(store.usage, clock).count(store.configuration.read(), now)


def spent(store: Store, now: int = NOW) -> float:
    """The slot-hours that a pass is told of."""
    told = store.worlds.load(now).snapshot.spent
    assert told.slot_ms.keys() <= {"vision"}
    return told.slot_ms.get("vision", 0) / HOUR


def lived(store: Store, name: str, hours: float, until: int = NOW, **fields: Any) -> None:
    fields = {"project": "vision", **fields}
    job = lives(store, name, admitted=until - int(hours * HOUR), ended=None, **fields)
    commit(store, ends(job, until, learned=fields.get("learned", until)))


def manager_of(store: Store, now: int = NOW) -> QueueManager:
    class Still:
        def now(self) -> int:
            return now

        def wake(self) -> None:
            pass

    return QueueManager(store=store, training=Training(), clock=Still(), notifier=Still())


# --- counting


def test_a_new_budget_is_known_with_the_first_count(store: Store) -> None:
    shared(store)
    lived(store, "job1", 2, slots=3)
    lived(store, "job2", 5, project="speech")
    assert spent(store) == 0
    count(store)
    assert spent(store) == 6


def test_what_has_ended_since_is_known_at_once(store: Store) -> None:
    """Else the pass that the end of a job brings would start another one beyond the budget."""
    shared(store)
    count(store)
    for number in range(1, 4):
        lived(store, f"job{number}", 1, NOW + number)
        assert spent(store, NOW + number) == number
    count(store, NOW + 4)
    assert spent(store, NOW + 4) == 3
    turned = next_month(NOW)
    lived(store, "job4", 2, turned + HOUR)
    assert spent(store, turned + HOUR) == 1
    count(store, turned + HOUR)
    assert spent(store, turned + HOUR) == 1
    lived(store, "job5", 2, turned + DAY)
    assert spent(store, turned + DAY) == 3


def test_a_load_reads_few_of_many_and_a_count_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_ENDED", 2)
    shared(store)
    count(store)
    for number in range(5):
        lived(store, f"job{number}", 1, NOW + number)
    assert spent(store, NOW + 5) == 2
    count(store, NOW + 5)
    assert spent(store, NOW + 5) == 5


def test_nothing_is_counted_twice_or_lost_while_it_settles(store: Store) -> None:
    """A record may come late: behind one that has been counted already."""
    shared(store)
    total = 0.0
    for step in range(8):
        now = NOW + step * SETTLED // 3
        lived(store, f"late{step}", 1, now - SETTLED // 2)
        lived(store, f"new{step}", 1, now)
        total += 2
        count(store, now)
        assert spent(store, now) == total
    count(store, NOW + DAY)
    count(store, NOW + 2 * DAY)
    assert spent(store) == total


def test_only_the_part_within_the_month_counts(store: Store) -> None:
    shared(store)
    lived(store, "job1", 10, MONTH + 4 * HOUR)
    count(store, MONTH + 5 * HOUR)
    assert spent(store, MONTH + 5 * HOUR) == 4
    turned = next_month(NOW)
    lived(store, "job2", 3, turned + HOUR)
    count(store, turned + HOUR)
    assert spent(store, turned + HOUR) == 1


def test_midnight_loses_nothing(store: Store) -> None:
    shared(store)
    midnight = MONTH + 5 * DAY
    lived(store, "job1", 1, midnight - 1000)
    count(store, midnight - 500)
    lived(store, "job2", 1, midnight + 1000)
    lived(store, "late", 1, midnight - 400)
    for later in (2000, SETTLED // 2, 2 * SETTLED, DAY, 3 * DAY):
        count(store, midnight + later)
        assert spent(store) == 3


def test_a_new_budget_counts_from_the_months_first_day(store: Store) -> None:
    """Days that are added up already are taken from there, also when their records are gone."""
    a_queue(store, a_pool("p5", 50))
    for day in range(5):
        lived(store, f"job{day}", 2, MONTH + day * DAY + 3 * HOUR)
    add_up(store, MONTH + 3 * DAY + 5 * HOUR)
    shared(store)
    now = MONTH + 4 * DAY + 5 * HOUR
    count(store, now)
    assert spent(store, now) == 10
    lived(store, "more", 1, now)
    count(store, now + 1)
    assert spent(store, now) == 11


def test_a_count_that_takes_long_goes_on_with_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared(store)
    for number in range(6):
        lived(store, f"job{number}", 1, MONTH + HOUR + number)
    monkeypatch.setattr(month_sums, "RECORDS_A_READ", 1)
    count(store, ticks=2000)
    assert 0 < sum(store.configuration.read().month_sum.slot_ms().values()) < 6 * HOUR
    for _ in range(10):
        count(store, ticks=1500)
    count(store)
    assert spent(store) == 6


def test_two_counts_at_once_count_once(store: Store) -> None:
    shared(store)
    lived(store, "job1", 2)
    before = store.configuration.read()
    count(store)
    MonthSums(store.usage, StandingClock(NOW)).count(before, NOW)
    assert spent(store) == 2
    with pytest.raises(Conflict):
        store.usage.keep_month(MonthSum(), MonthSum(month=MONTH))


def test_counting_leaves_the_configuration_alone(store: Store) -> None:
    shared(store)
    revision = store.configuration.read().revision
    lived(store, "job1", 9)
    count(store)
    manager_of(store).passes.run()
    stand = store.configuration.read()
    assert stand.revision == revision
    store.configuration.change(sharing=stand.sharing, who="test", now=NOW, seen=revision)
    assert store.configuration.read().revision == revision


# --- the warning


def warned(store: Store, now: int = NOW) -> list[str]:
    return [each.project for each in manager_of(store, now).passes.run().budget_warnings]


def test_a_project_is_warned_of_once_a_month(store: Store) -> None:
    shared(store)
    lived(store, "job1", 7.9)
    count(store)
    assert warned(store) == []
    lived(store, "job2", 0.1)
    count(store)
    assert warned(store) == ["vision"]
    assert warned(store) == []
    turned = next_month(NOW) + 9 * HOUR
    count(store, turned)
    assert warned(store, turned) == []
    lived(store, "job3", 8, turned)
    count(store, turned)
    assert warned(store, turned) == ["vision"]


def test_of_two_passes_at_once_one_warns(store: Store) -> None:
    shared(store)
    lived(store, "job1", 8)
    count(store)
    assert [store.usage.warn("vision", MONTH) for _ in range(3)] == [True, False, False]
    assert warned(store) == []


def test_a_raised_budget_is_warned_of_only_if_it_is_neared_anew(store: Store) -> None:
    shared(store)
    lived(store, "job1", 9)
    count(store)
    assert warned(store) == ["vision"]
    shared(store, 11)
    assert warned(store) == []  # 9 is more than 80 % of 11, too.
    shared(store, 20)
    assert warned(store) == []
    lived(store, "job2", 7)
    count(store)
    assert warned(store) == ["vision"]


def test_what_runs_counts_without_a_tick(store: Store) -> None:
    shared(store, beyond=Beyond.HARD)
    lives(store, "job1", admitted=NOW - 8 * HOUR, ended=None, project="vision")
    count(store)
    assert warned(store) == ["vision"]
    lives(store, "job2", admitted=NOW - 2 * HOUR, ended=None, project="vision")
    assert [each.spent / HOUR for each in standing(store)] == [10]


def standing(store: Store) -> Any:
    return manager_of(store).overview.sharers().budgets.values()


def test_beyond_a_hard_budget_the_pass_starts_nothing_and_why_tells(store: Store) -> None:
    shared(store, beyond=Beyond.HARD)
    lived(store, "job1", 10)
    count(store)
    for name in ("job2", "job3"):
        store.jobs.submit(a_job(name, project="vision"), REQUEST)
    result = manager_of(store).passes.run()
    assert isinstance(result, PassResult)
    assert result.decisions == ()
    for name in ("job2", "job3"):
        reason = manager_of(store).jobs.status(name).reason
        assert reason is not None
        assert reason.sentence() == (
            "project vision has spent 10 of the 10 slot-hours of its budget this month; none of "
            "its jobs starts until 2023-12-01T00:00:00.000Z"
        )


# --- on DynamoDB


def test_budgets_cost_a_pass_one_small_read_however_many(evented_client: EventedDynamo) -> None:
    costs = []
    for budgets in (0, 1, 50):
        table = f"queue-{budgets}"
        evented_client.create_table(**table_definition(table))
        store = a_queue(DynamoStore(evented_client, table, clock=lambda: NOW), a_pool("p5", 50))
        own = [Budget(slot_ms=10 * HOUR)] * budgets + [None] * (50 - budgets)
        projects = tuple(Project(name=f"p{n}", budget=each) for n, each in enumerate(own))
        store.configuration.change(sharing=Sharing(projects=projects), who="test", now=NOW)
        lived(store, "job1", 2, project="p0")
        count(store)
        manager = manager_of(store)
        manager.passes.run()
        with measured(evented_client) as meter:
            manager.passes.run()
        costs.append((len(meter.calls), meter.read_units))
    without, *others = costs
    assert others == [(without[0] + 1, without[1] + 1)] * 2


def test_without_budgets_a_tick_makes_the_same_calls(evented_client: EventedDynamo) -> None:
    evented_client.create_table(**table_definition("queue"))
    store = DynamoStore(evented_client, "queue", clock=lambda: NOW)
    a_queue(store, a_pool("p5", 2))
    stand = store.configuration.read()
    with measured(evented_client) as meter:
        MonthSums(store.usage, StandingClock(NOW)).count(stand, NOW)
    assert meter.calls == []


def test_a_sum_that_cannot_be_read_is_made_anew(dynamo: DynamoStore, items: Table) -> None:
    shared(dynamo)
    lived(dynamo, "job1", 2)
    count(dynamo)
    for spoiled in (
        {"spent": {"B": b"nonsense"}},
        {"spentVersion": {"S": "x"}},
        {"spent": {"N": "1"}},
    ):
        items.change(revision_key(), **spoiled)
        count(dynamo)
        assert spent(dynamo) == 2


def test_warnings_of_earlier_months_are_removed(dynamo: DynamoStore, items: Table) -> None:
    shared(dynamo)
    count(dynamo)
    dynamo.usage.warn("vision", MONTH)
    turned = next_month(NOW) + HOUR
    dynamo.usage.warn("vision", next_month(NOW))
    count(dynamo, turned)
    marks = [name for name in items.get(revision_key()) if name.startswith("warned/")]
    assert marks == ["warned/2023-12/vision"]


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_scenarios_hold_on_dynamodb(path: Path, dynamo: DynamoStore) -> None:
    scenario = load(path)
    live = live_record(scenario, dynamo)
    assert unequal(simulate(scenario), live) == []
    assert differences(scenario, live) == []
