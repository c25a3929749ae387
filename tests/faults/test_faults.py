"""A short form of the campaign (`make faults` is the whole): every scenario, every case, a little
chaos. The stride decides what is left out, so that each kind of fault is still tried."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext

import pytest
from botocore.exceptions import ClientError

from slotq_core.adapters.dynamodb.layout.table import table_definition
from tests.faults import campaign, chaos, crashes, interleavings
from tests.faults.branches import tried
from tests.faults.interleavings import CASES
from tests.faults.lines import mutants as mutants_of_lines
from tests.faults.lines.cases import CASES as CASES_OF_LINES
from tests.faults.lines.model import explore
from tests.faults.mutants import MUTANTS, caught
from tests.faults.real_dynamodb import real_engine
from tests.faults.scenarios import graces_end_in_time
from tests.faults.stories import SCENARIOS, STORIES

STRIDE = 61
"""One of this many crash points is tried."""
QUICK = (
    "no condition on the ledger",
    "effects before the last part",
    "a start in parts is not undone",
    "a start in parts goes on without a member",
    "a name may be given twice",
    "a line is removed though somebody has come",
    "names by chance",
    "slots come free at the stop",
    "a pool learns from another quota",
    "a create is never confirmed",
    "an evicted job enters anew",
    "nothing is reconciled",
    "an end is not handed on",
    "any pass tries a job again",
    "a failed attempt is counted, and a crash counts it again",
    "an end is not recorded",
    "a job has one record",
    "a restore is not remembered",
    "what is refused for ever is not put away",
    "no transaction",
    "the stop follows the marker",
    "a grace never ends",
    "only a tick ends a grace",
    "a cancel waits for the grace",
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_survives_its_crashes(scenario):
    calls, world = crashes.count_calls(scenario)
    assert world.watch.broken == []
    points = list(crashes.crash_points(calls))[len(scenario.name) :: STRIDE]
    for branch in tried(scenario, points):
        assert not branch.watch.broken, f"{branch.crash}: {branch.watch.broken}"


@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("submissions_meet_the_limit_of_what_waits", "submit crowd"),
        ("submissions_meet_the_limit_of_a_minute", "submit c"),
    ],
)
def test_the_scenarios_of_the_limits_meet_them(name, over):
    scenario = next(each for each in SCENARIOS if each.name == name)
    _, world = crashes.count_calls(scenario)
    assert (world.watch.broken, world.limited) == ([], {over})


@pytest.mark.parametrize("name", ["asked_to_release", "asked_in_a_long_grace"])
def test_a_grace_is_whole_and_ends_in_time(name):
    _, world = crashes.count_calls(next(each for each in STORIES if each.name == name))
    assert (world.watch.broken, graces_end_in_time(world)) == ([], "")
    assert world.marked


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_concurrent_handlers_keep_the_promises(case):
    for schedule, world in interleavings.exhaustively(case, 8):
        assert not world.watch.broken, f"{schedule.taken}: {world.watch.broken}"


@pytest.mark.parametrize("case", CASES_OF_LINES, ids=lambda case: case.name)
def test_no_order_of_steps_hides_a_waiting_job(case):
    """A part of what `make faults` explores whole."""
    found = explore(case, 2_000)
    assert not found.broken, "\n".join([str(found.broken), *found.steps])


@pytest.mark.parametrize("mutant", mutants_of_lines.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_model_catches_each_mutant(mutant):
    assert caught(mutant) is not None


def test_chaos_keeps_the_promises():
    world = chaos.run(seed=1, count=15)
    assert world.watch.broken == []
    assert world.weather.count["killed"] > 0
    assert world.weather.count["events_lost"] > 0


@pytest.mark.parametrize("name", QUICK)
def test_the_campaign_catches_each_mutant(name):
    """Each safeguard, broken on purpose. `make faults` hunts all of them."""
    assert caught(next(mutant for mutant in MUTANTS if mutant.name == name)) is not None


def test_the_campaign_passes_on_the_real_engine(dynamodb_local_endpoint):
    """A few crashes and a little chaos on DynamoDB Local; `make faults` runs more of both, and
    concurrent handlers."""
    found = Counter()
    for part in ("crash", "chaos"):
        outcome = campaign.perform(("real", part, "1", "1"))
        assert outcome.violations == []
        found += outcome.counts
    assert found["local_crash_runs"] >= len(campaign.ON_THE_REAL_ENGINE)
    assert found["local_chaos_jobs"] == 1


def test_overlapping_transactions_collide_on_the_real_engine_too(dynamodb_local_endpoint):
    with real_engine() as engine:
        dynamo = engine.make()
        dynamo.create_table(**table_definition("queue"))
        item = {"pk": {"S": "p"}, "sk": {"S": "s"}}
        put = {"TableName": "queue", "Item": item}
        met: list[str] = []

        def meanwhile() -> None:
            for write in (
                lambda: dynamo.put_item(**put),
                lambda: dynamo.transact_write_items(TransactItems=[{"Put": put}]),
            ):
                with pytest.raises(ClientError) as refused:
                    write()
                met.append(str(refused.value))

        dynamo.transact_write_items(TransactItems=[{"Put": put}], during=meanwhile)
        assert len(met) == 4, "before it took effect, and before it was answered"
        assert all("TransactionConflict" in text for text in met)
        assert dynamo.tables["queue"].items == {("p", "s"): item}
    assert engine.conflicts == 2
    assert engine.unlike == []


def test_a_mutant_is_caught_on_the_real_engine_too(dynamodb_local_endpoint):
    mutant = next(each for each in MUTANTS if each.name == "no transaction")
    with real_engine() as engine:
        assert caught(mutant) is not None
    assert engine.unlike == []


def test_the_same_seed_gives_the_same_run():
    first, again = chaos.run(seed=3, count=8), chaos.run(seed=3, count=8)
    assert first.history == again.history


def test_a_branch_becomes_what_its_crash_becomes_alone():
    """In every mode, twice, at the last call and at none; with nothing broken and with much."""
    scenario = next(each for each in SCENARIOS if each.name == "cancel_while_stopping")
    calls, _ = crashes.count_calls(scenario)
    points = [*crashes.crash_points(calls)][::7]
    points += crashes.double_crashes(calls, 6, random.Random(1))
    points += [crashes.Crash(len(calls) - 1), crashes.Crash(len(calls) + 1_000)]
    mutant = next(each for each in MUTANTS if each.name == "slots come free at the stop")
    for change in (nullcontext, mutant.change):
        with change():
            branches = list(tried(scenario, points))
            assert sorted(branch.crash.call for branch in branches) == sorted(
                p.call for p in points
            )
            for branch in branches:
                alone = crashes.run(scenario, branch.crash)
                assert (branch.watch.broken, branch.calls) == (alone.watch.broken, alone.calls)
