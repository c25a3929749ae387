"""The machinery of the campaign: `make faults` runs it, `make faults ARGS=--short` a part of it."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
from botocore.exceptions import ClientError

from slotq_core.adapters.dynamodb.layout.table import table_definition
from slotq_core.model.attempts import AttemptOutcome
from tests.faults import campaign, chaos, crashes, interleavings, node_mutants, nodes, warm_mutants
from tests.faults.branches import tried
from tests.faults.interleavings import CASES
from tests.faults.lines.cases import CASES as CASES_OF_LINES
from tests.faults.mutants import MUTANTS, caught
from tests.faults.real_dynamodb import real_engine
from tests.faults.scenarios import attempts_of, graces_end_in_time, no_create_is_refused
from tests.faults.stories import (
    A_PLAN_ENDS,
    ANOTHER_ROLE,
    SAGEMAKER_TAKES_A_PLAN,
    SCENARIOS,
    STORIES,
)


def test_the_short_form_leaves_no_scenario_case_or_mutant_out():
    found = {task[:2] for task in campaign.tasks(campaign.SHORT, seed=7)}
    assert {("crash", scenario.name) for scenario in SCENARIOS} <= found
    assert {(kind, case.name) for case in CASES for kind in ("race", "chance")} <= found
    assert {("model", case.name) for case in CASES_OF_LINES} <= found
    assert {("mutant", mutant.name) for mutant in campaign.MUTANTS} <= found
    assert {("real", part) for part in ("crash", "race", "chaos")} <= found


def test_a_drawn_order_of_schedules_repeats_none_and_follows_its_seed():
    case = CASES[0]
    drawn = [
        [schedule.taken for schedule, _ in interleavings.exhaustively(case, 6, random.Random(seed))]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({tuple(taken) for taken in drawn[0]}) == 6


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


@pytest.mark.parametrize("name", nodes.CASES)
def test_two_handlers_at_one_node_keep_the_promises(name):
    assert nodes.played(name).broken == []


def test_each_condition_of_a_node_is_needed():
    assert [mutant.name for mutant in nodes.MUTANTS if caught(mutant) is None] == []


def test_what_guards_a_start_after_a_release_is_needed():
    assert [mutant.name for mutant in warm_mutants.MUTANTS if caught(mutant) is None] == []


def test_warm_instances_are_released_once_and_a_like_start_takes_none():
    scenario = next(each for each in SCENARIOS if each.name == ANOTHER_ROLE)
    _, world = crashes.count_calls(scenario)
    assert (world.watch.broken, no_create_is_refused(world)) == ([], "")


GOES_ON = (("p", AttemptOutcome.EVICTED), ("q", AttemptOutcome.COMPLETED))
STAYS = (("p", AttemptOutcome.COMPLETED),)


@pytest.mark.parametrize(
    ("name", "attempts"),
    [
        (A_PLAN_ENDS, {"a": GOES_ON, "b": STAYS, "fixed": GOES_ON[1:]}),
        (SAGEMAKER_TAKES_A_PLAN, {"a": GOES_ON, "b": STAYS}),
    ],
)
def test_a_job_goes_on_elsewhere_when_its_plan_ends(name, attempts):
    scenario = next(each for each in SCENARIOS if each.name == name)
    _, world = crashes.count_calls(scenario)
    wrong = [attempts_of(job, *expected)(world) for job, expected in attempts.items()]
    assert (world.watch.broken, [*filter(None, wrong)]) == ([], [])


def test_what_guards_the_life_of_a_node_is_needed():
    assert [mutant.name for mutant in node_mutants.MUTANTS if caught(mutant) is None] == []


def test_chaos_keeps_the_promises():
    world = chaos.run(seed=1, count=15)
    assert world.watch.broken == []
    assert world.weather.count["killed"] > 0
    assert world.weather.count["events_lost"] > 0


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
