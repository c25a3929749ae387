"""The stories that are interrupted at each call."""

from __future__ import annotations

from typing import Any

from slotq.local.services.expressions import Item
from slotq.local.training.virtual_runner import Work
from slotq_core.adapters.dynamodb.layout.items import write_in_parts
from slotq_core.adapters.dynamodb.layout.table import ledger_key, parts_key
from slotq_core.model.callers import CallerLimits, Limits
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.groups import Sweep
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.model.sharing import SchedulerSettings, Sharing
from slotq_core.ports.stored import InParts, PartsKind
from tests.contract.worlds import a_job
from tests.faults.agents import AgentRules
from tests.faults.scenarios import (
    NODES,
    RELEASE,
    Scenario,
    all_are_asked,
    all_have_heard,
    amend,
    began_at_most,
    began_before,
    beside_a_hostile_job,
    both_have_ended,
    by_hand,
    cancel,
    configure,
    configure_in_parts,
    copy_table,
    counters_converge,
    doctor,
    done,
    ends_with_its_goal,
    ghost,
    given_up_after,
    is_now,
    knobs,
    lines_are_paid_for,
    lose_events,
    minutes,
    nothing_left_of,
    one_started_before,
    one_training_job_of,
    plane,
    planned,
    plans,
    projects,
    reports,
    requeue,
    restore_table,
    retry,
    share,
    stop_execution,
    submit,
    submit_as,
    submit_batch,
    submit_for_node,
    submit_for_task,
    submit_group,
    submit_hostile,
    submit_processing,
    submit_wide,
    until,
    yields_agree_with_attempts,
)
from tests.faults.world import TYPES, pool
from tests.queue_world import request

S = JobState

GONE = a_job("gone", group="old")
NOT_MARKED = write_in_parts(InParts(number=99, kind=PartsKind.FINISH, steps=((GONE, GONE),)))
"""A decision in parts of which the configuration's revision says nothing."""


def without_version(ledger: Item) -> Item:
    return {name: value for name, value in ledger.items() if name != "version"}


EVERY_RIGHT = ",".join(
    f"sagemaker:{action}"
    for action in (
        "CreateTrainingJob",
        "StopTrainingJob",
        "DescribeTrainingJob",
        "ListTrainingJobs",
        "ListTags",
    )
)


WRONG_ROLE = "arn:aws:iam::123456789012:role/wrong"
"""SageMaker cannot assume it for a while."""


SAVED = "s3://bucket/saved"


HOURS = ("mon 14:00-14:17 UTC", "mon 14:18-20:00 UTC")
"""Worlds begin on a Monday at 14:13:20 UTC."""


def spot(name: str = "p", **fields: Any) -> Pool:
    return pool(name, capacity_kind=CapacityKind.SPOT, **fields)


FOR_EVER = {name: Work(runtime=None, stop=5_000) for name in "abc"}
FAILS = Work(runtime=60_000, fails_after=30_000)

ANOTHER_ROLE = "warm_instances_are_released_for_another_role"
A_PLAN_ENDS = "a_plan_ends_and_its_jobs_go_on"
SAGEMAKER_TAKES_A_PLAN = "sagemaker_takes_a_plan_before_the_queue_stops_its_job"

STORIES: tuple[Scenario, ...] = (
    Scenario("submit_and_complete", (submit(1, "a"),), done("a")),
    Scenario(
        "processing_and_training_of_one_name",
        (
            submit_processing(1, "a", preemptible="true"),
            submit(2, "a", pools="q", instance_type=TYPES["q"]),
            submit_processing(30, "b", priority=5),
            submit_processing(31, "c"),
        ),
        done("processing:a", "a", "processing:b", "processing:c"),
        pools=(pool(work=WorkKind.PROCESSING), pool("q")),
        work={"processing:a": Work(runtime=100_000, checkpoint=False)},
        runtime=60_000,
    ),
    Scenario(
        "third_of_two_waits",
        (submit(1, "a"), submit(2, "b"), submit(3, "c")),
        done("a", "b", "c"),
        pools=(pool(slots=2),),
    ),
    Scenario(
        ANOTHER_ROLE,
        (submit(1, "a"), submit(10, "b", role=WRONG_ROLE, priority=1, preemptible="false")),
        done("a", "b"),
        pools=(pool(keep_warm=21_600_000, min_runtime=600_000),),
        knobs={"limits": {TYPES["p"]: 1}, "release_seconds": 90.0},
    ),
    Scenario(
        A_PLAN_ENDS,
        (
            plans(0, (-3600, 2100, 2)),
            submit(70, "a", pools="p,q", checkpoints=SAVED),
            submit(71, "b", pools="p,q", checkpoints=f"{SAVED}/b"),
            submit(72, "fixed", pools="p,q", preemptible="false"),
        ),
        done("a", "b", "fixed"),
        pools=(planned(slots=2, suspend_grace=60_000), pool("q")),
        work={
            "a": Work(runtime=400_000, stop=5_000, release=10_000),
            "b": Work(runtime=200_000, stop=5_000),
            "fixed": minutes(1),
        },
    ),
    Scenario(
        SAGEMAKER_TAKES_A_PLAN,
        (
            plans(0, (-3600, 1950, 1)),
            submit(70, "a", pools="p,q", checkpoints=SAVED),
            submit(80, "b", pools="p", checkpoints=f"{SAVED}/b"),
            plans(200),
            plans(300, (250, 9000, 1)),
        ),
        done("a", "b"),
        pools=(planned(), pool("q")),
        work={name: Work(runtime=120_000, stop=5_000) for name in "ab"},
    ),
    Scenario(
        "a_node_is_refused_once_and_never_reports",
        (submit_for_node(1, "a"), submit_for_node(2, "b")),
        done("a", "b"),
        pools=(pool(slots=2, nodes=NODES),),
        work={"node:p/node-1": Work(stop=5_000)},
        knobs={"refuse_creates": 1},
    ),
    Scenario(
        "a_node_outlives_its_job",
        (submit_for_node(1, "a", 2), cancel(30, "a")),
        {"a": S.CANCELLED},
        pools=(pool(slots=1, nodes=NODES),),
        work={"node:p/node-1": Work(stop=5_000)},
        knobs={"start_seconds": 60.0},
    ),
    Scenario(
        "two_jobs_share_a_node_that_leaves",
        (
            submit_for_node(1, "a"),
            submit_for_node(2, "b", checkpoints="s3://bucket/b"),
            submit_for_node(200, "c", 2, priority=10),
        ),
        done("a", "b", "c"),
        pools=(pool(slots=1, nodes=NODES, suspend_grace=30_000),),
        work={
            "node:p/node-1": Work(stop=5_000),
            "a": minutes(1),
            "b": Work(runtime=300_000, release=5_000),
            "c": minutes(1),
        },
        agents=AgentRules(),
    ),
    Scenario(
        "a_gangs_node_fails_to_start",
        (submit_group(1, "gang", "a", "b", gpus=2), submit_for_node(300, "c")),
        done("a", "c"),
        pools=(pool(slots=2, nodes=NODES),),
        knobs={"fail_provisioning": 2, "start_seconds": 20.0},
        work={
            **{f"node:p/node-{n}": Work(stop=5_000) for n in (1, 2)},
            **{name: minutes(2) for name in "abc"},
        },
        agents=AgentRules(),
        or_else={"a": frozenset({S.CANCELLED})},
        then=both_have_ended,
    ),
    Scenario(
        "a_part_moves_to_another_node",
        (
            submit_for_node(1, "a", 0.5, checkpoints="s3://bucket/a"),
            submit_for_node(2, "short", 1),
            submit_for_node(3, "shorter", 0.5),
            submit_for_node(4, "b", 0.5, checkpoints="s3://bucket/b"),
            submit_for_node(300, "large", 2, priority=10),
        ),
        done("a", "b", "short", "shorter", "large"),
        pools=(pool(slots=2, nodes=NODES, consolidate=True),),
        work={
            **{f"node:p/node-{n}": Work(stop=5_000) for n in (1, 2)},
            **{name: Work(runtime=900_000, stop=2_000) for name in "ab"},
            **dict.fromkeys(("short", "shorter", "large"), minutes(1)),
        },
        agents=AgentRules(),
    ),
    *(
        Scenario(
            f"a_node_is_cut_off_{name}",
            (
                submit_for_node(1, "a", checkpoints="s3://bucket/a"),
                submit_for_node(2, "b"),
                cancel(200, "b"),
            ),
            {**done("a"), "b": S.CANCELLED},
            pools=(pool(slots=2, nodes=NODES),),
            knobs={"start_seconds": 90.0},
            work={
                **{f"node:p/node-{n}": Work(stop=5_000) for n in (1, 2)},
                "a": Work(runtime=400_000, stop=2_000),
                "b": Work(runtime=600_000, stop=2_000),
            },
            agents=AgentRules(rate=rate, cut_off=(150, until)),
        )
        for name, rate, until in (
            ("for_ever_with_a_slow_clock", 0.9, 1_000_000),
            ("for_ever_with_a_fast_clock", 1.1, 1_000_000),
            ("for_ever_with_a_clock_that_stands", 0.01, 1_000_000),
            ("and_is_back_in_time", 1.0, 310),
        )
    ),
    Scenario(
        "a_pool_shrinks_and_grows",
        (
            submit(1, "a"),
            submit(2, "b"),
            configure(480, pool(slots=1)),
            submit(485, "c"),
            configure(570, pool(slots=2)),
        ),
        done("a", "b", "c"),
        pools=(pool(slots=2),),
        work={"a": minutes(1), "b": minutes(12)},
    ),
    Scenario(
        "the_pools_change_in_parts",
        (
            submit(1, "a"),
            submit(2, "b", instance_type=TYPES["q"]),
            configure_in_parts(30, pool(slots=1), pool("q", 2), pool("r"), pool("h")),
            submit(45, "c"),
            submit(46, "d", instance_type=TYPES["q"]),
            configure_in_parts(600, pool(slots=2), pool("q")),
            submit(610, "e"),
            submit(611, "f"),
        ),
        done("a", "b", "c", "d", "e", "f"),
        pools=(pool(slots=2), pool("q")),
    ),
    Scenario(
        "preempt_chain",
        (
            submit(1, "low", priority=1),
            submit(20, "mid", priority=2),
            submit(90, "high", priority=3),
        ),
        done("low", "mid", "high"),
        work={name: minutes(2) for name in ("low", "mid", "high")},
    ),
    Scenario(
        "a_sweep_of_three_runs_two",
        (submit_group(1, "grid", "a", "b@q", "c", max_parallel=2), submit(2, "other")),
        done("a", "other"),
        pools=(pool(slots=3), pool("q")),
        work={name: minutes(2) for name in ("a", "b", "c")},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "a_sweep_is_stored_in_parts",
        (submit_group(1, "grid", "a", "b@q", "c", max_parallel=2), submit(2, "other")),
        done("a", "other"),
        pools=(pool(slots=3), pool("q")),
        work={name: minutes(2) for name in ("a", "b", "c")},
        or_else={"a": frozenset({S.CANCELLED})},
        most_actions=8,
    ),
    Scenario(
        "a_batch_is_stored_in_parts",
        (*submit_batch(1, "a", "b@q", "c", "d after a", "e"), submit(2, "other")),
        done("a", "b", "c", "d", "e", "other"),
        pools=(pool(slots=3), pool("q")),
        most_actions=8,
    ),
    Scenario(
        "a_batch_meets_the_limit_of_what_waits",
        (*submit_batch(1, "a", "b", "c"), *submit_batch(70, "a", "b", "c")),
        done("a", "b", "c"),
        runtime=100_000,
        limits=Limits(default=CallerLimits(waiting=2), waiting_in_all=10),
        then=counters_converge,
    ),
    Scenario(
        "a_sweep_meets_its_goal",
        (
            submit_group(
                1,
                "grid",
                *("a", "b@q", "c", "d@q"),
                max_parallel=2,
                sweep=Sweep(metric="loss", goal=0.2),
            ),
            submit(2, "other"),
        ),
        done("a", "other"),
        pools=(pool(slots=3), pool("q")),
        # Nothing but the goal ends the others.
        work={
            "a": Work(runtime=100_000, metrics={"loss": 0.1}),
            **dict.fromkeys("bcd", Work(runtime=None, stop=20_000)),
        },
        or_else={"a": frozenset({S.CANCELLED})},
        then=ends_with_its_goal("grid", "a"),
    ),
    Scenario(
        "a_gang_starts_whole",
        (
            submit(1, "x"),
            submit_group(2, "gang", "a", "b@q", "c"),
            submit(3, "y", instance_type=TYPES["q"]),
        ),
        done("x", "y", "a"),
        pools=(pool(slots=2), pool("q")),
        work={"x": minutes(1), "y": minutes(2)},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "a_gang_starts_in_parts",
        (submit(1, "x"), submit_group(2, "gang", "a", "b@q", "c", "d")),
        done("x", "a"),
        pools=(pool(slots=3), pool("q")),
        work={"x": minutes(1), "b": minutes(2)},
        or_else={"a": frozenset({S.CANCELLED})},
        most_actions=12,
    ),
    Scenario(
        "a_gang_starts_in_parts_at_a_tick",  # The next tick reconciles before it plans.
        (
            submit(1, "x"),
            submit_group(2, "gang", "a", "b@q", "c", "d"),
            configure(300, pool(slots=4), pool("q")),
        ),
        done("x", "a"),
        pools=(pool(slots=3), pool("q")),
        work={"x": minutes(7)},
        or_else={"a": frozenset({S.CANCELLED})},
        most_actions=12,
    ),
    Scenario(
        "a_gang_is_evicted_in_parts",
        (
            submit_group(1, "gang", "a", "b@q", "c", "d"),
            submit(60, "high", priority=5, slots=3),
        ),
        done("high", "a"),
        pools=(pool(slots=3), pool("q")),
        work={name: Work(runtime=100_000, stop=5_000) for name in "abcd"},
        or_else={"a": frozenset({S.CANCELLED})},
        most_actions=10,
    ),
    Scenario(
        "a_gang_rolls_back_and_starts_again",
        (submit_group(1, "gang", "a", "b@q", "c", min_members=3),),
        done("a"),
        pools=(pool(slots=2), pool("q")),
        knobs={"fail_provisioning": 1},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "a_gang_leaves_a_member_out",
        (
            submit(1, "x", instance_type=TYPES["q"]),
            submit_group(2, "gang", "a", "b@q", "c", min_members=2),
        ),
        {"x": S.COMPLETED, "a": S.COMPLETED},
        pools=(pool(slots=2), pool("q")),
        work={"x": minutes(6)},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "an_elastic_gang_breathes",
        (
            submit_group(1, "gang", "a", "b", "c", min_members=2, same_pool=True, elastic=True),
            submit(60, "high", priority=5),
            submit(300, "higher", priority=6, slots=2),
        ),
        done("high", "higher", "a"),
        pools=(pool(slots=3),),
        work={**dict.fromkeys("abc", Work(runtime=900_000, stop=5_000)), "high": minutes(1)},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "a_federated_job_ends_with_its_server",
        (
            submit_group(1, "fed", "s@q", "a", "b", "c", ends_with="s", min_members=3),
            submit(30, "next", slots=3),
        ),
        {**done("s", "next"), **dict.fromkeys("abc", S.CANCELLED)},
        pools=(pool(slots=3), pool("q")),
        work={"s": minutes(1), **FOR_EVER},
        or_else={"s": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "a_federated_job_ends_in_parts",
        (
            submit_group(1, "fed", "s@q", "a", "b", "c", ends_with="s", min_members=3),
            submit(30, "next", slots=3),
        ),
        {**done("s", "next"), **dict.fromkeys("abc", S.CANCELLED)},
        pools=(pool(slots=3), pool("q")),
        work={"s": minutes(1), **FOR_EVER},
        or_else={"s": frozenset({S.CANCELLED})},
        most_actions=10,
    ),
    Scenario(
        "a_federated_job_loses_too_many",
        (submit_group(1, "fed", "s@q", "a", "b", "c", ends_with="s", min_members=4),),
        {"a": S.FAILED, **dict.fromkeys("sbc", S.CANCELLED)},
        pools=(pool(slots=3), pool("q")),
        work={"s": Work(runtime=None, stop=5_000), **FOR_EVER, "a": FAILS},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "a_silent_member_ends_its_gang",
        (
            submit_group(
                1, "fed", "s@q", "a", "b", "c", ends_with="s", min_members=4, heartbeat=60_000
            ),
            reports(30, "a"),
            submit(40, "next", slots=3),
        ),
        {**done("next"), "a": S.FAILED, **dict.fromkeys("sbc", S.CANCELLED)},
        pools=(pool(slots=3), pool("q")),
        work={"s": Work(runtime=None, stop=5_000), **FOR_EVER},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "a_silent_member_is_done_without",
        (
            submit_group(1, "gang", "a", "b@q", "c", min_members=2, heartbeat=60_000),
            reports(30, "a"),
            submit(40, "next"),
        ),
        {**done("next"), "a": S.FAILED},
        pools=(pool(slots=2), pool("q")),
        work={"a": Work(runtime=None, stop=5_000), "b": minutes(10), "c": minutes(9)},
        or_else={"a": frozenset({S.CANCELLED})},
    ),
    Scenario(
        "users_take_turns",
        (submit_as(1, "a", "a"), submit_as(2, "b", "b"), submit_as(3, "c", "c")),
        done("a", "b", "c"),
        pools=(pool(time_slice=60_000),),
        work={name: minutes(2) for name in ("a", "b", "c")},
        then=yields_agree_with_attempts,
    ),
    Scenario(
        "two_slots_four_jobs",
        (
            submit(1, "job1", priority=1),
            submit(2, "job2", priority=2),
            submit(20, "job3", priority=1),
            submit(40, "job4", priority=3),
        ),
        done("job1", "job2", "job3", "job4"),
        pools=(pool(slots=2),),
        work={f"job{n}": minutes(1.5) for n in (1, 2, 3, 4)},
    ),
    Scenario(
        "cancel_waiting",
        (submit(1, "a"), submit(2, "b"), cancel(10, "b")),
        {"a": S.COMPLETED, "b": S.CANCELLED},
        runtime=500_000,
    ),
    Scenario(
        "cancel_at_once",
        (submit(1, "a"), cancel(1, "a")),
        {"a": S.CANCELLED},
        runtime=2_000_000,
    ),
    Scenario(
        "requeue_while_running",
        (submit(1, "a"), submit(2, "b"), requeue(40, "a")),
        done("a", "b"),
        work={"a": Work(runtime=100_000, stop=20_000)},
        pools=(pool(slots=2),),
    ),
    Scenario(
        "cancel_while_starting",
        (submit(1, "a"), submit(2, "b"), cancel(10, "a")),
        {"a": S.CANCELLED, "b": S.COMPLETED},
        knobs={"start_seconds": 30},
        work={"a": Work(runtime=9_000_000)},
    ),
    Scenario(
        "cancel_running",
        (submit(1, "a"), submit(2, "b"), cancel(30, "a")),
        {"a": S.CANCELLED, "b": S.COMPLETED},
        work={"a": Work(runtime=9_000_000, stop=20_000)},
    ),
    Scenario(
        "cancel_while_stopping",
        (submit(1, "low"), submit(20, "high", priority=1), cancel(35, "low")),
        {"low": S.CANCELLED, "high": S.COMPLETED},
        work={"low": Work(runtime=9_000_000, stop=60_000)},
    ),
    Scenario(
        "cancel_the_claimant",
        (submit(1, "low"), submit(20, "high", priority=1), cancel(35, "high")),
        {"low": S.COMPLETED, "high": S.CANCELLED},
        work={"low": Work(runtime=120_000, stop=60_000), "high": Work(runtime=9_000_000)},
    ),
    Scenario(
        "no_capacity_at_create",
        (submit(1, "a"), submit(2, "b", priority=1)),
        done("a", "b"),
        knobs={"refuse_creates": 2},
    ),
    Scenario(
        "no_capacity_later",
        (submit(1, "a"), submit(2, "b")),
        done("a", "b"),
        knobs={"fail_provisioning": 1, "start_seconds": 10},
    ),
    Scenario(
        "second_choice_pool",
        (
            submit(1, "a", pools="p,q"),
            submit(2, "b", pools="p,q"),
            submit(20, "c", pools="p,q", priority=5),
        ),
        done("a", "b", "c"),
        pools=(pool("p"), pool("q")),
        knobs={"refuse_creates": 1},
        work={name: minutes(2) for name in "abc"},
    ),
    Scenario(
        "one_evicts_three",
        (
            submit(1, "s1"),
            submit(2, "s2"),
            submit(3, "s3"),
            submit(4, "other", priority=9),
            submit(30, "big", slots=3, priority=5),
        ),
        done("s1", "s2", "s3", "big", "other"),
        pools=(pool(slots=4),),
        work={
            "s1": Work(runtime=100_000, stop=5_000),
            "s2": Work(runtime=100_000, stop=15_000),
            "s3": Work(runtime=100_000, stop=25_000),
            "big": Work(runtime=100_000),
        },
        runtime=150_000,
    ),
    Scenario(
        "fault_then_back_off",
        (submit(1, "a"), submit(5, "b")),
        done("a", "b"),
        knobs={"fail_internally": 1, "start_seconds": 5},
        runtime=100_000,
    ),
    Scenario(
        "completes_while_stopping",
        (submit(1, "low"), submit(30, "high", priority=1)),
        done("low", "high"),
        work={"low": Work(runtime=45_000, stop=60_000), "high": minutes(1)},
    ),
    Scenario(
        "max_runtime_over_attempts",
        (submit(1, "low", max_runtime=100), submit(61, "high", priority=1)),
        {"low": S.FAILED, "high": S.COMPLETED},
        work={"low": Work(runtime=9_000_000), "high": minutes(1)},
    ),
    Scenario(
        "fails_and_tries_again",
        (submit(1, "a", retries="1"),),
        {"a": S.FAILED},
        work={"a": Work(runtime=40_000, exit_code=1, checkpoint=False)},
    ),
    Scenario(
        "pending_too_long",
        (submit(1, "a", pools="p,q"), submit(2, "b", pools="p")),
        done("a", "b"),
        pools=(pool("p", pending_timeout=60_000), pool("q")),
        knobs={"stick_pending": 1, "start_seconds": 5},
        runtime=100_000,
    ),
    Scenario(
        "account_limit_is_smaller",
        (submit(1, "a"), submit(2, "b")),
        done("a", "b"),
        pools=(pool(slots=2),),
        knobs={"limits": {"ml.m5.large": 1}},
        runtime=100_000,
    ),
    Scenario(
        "spot_is_interrupted",
        tuple(submit(n, job, pools="p", checkpoints=SAVED) for n, job in enumerate("ab", 1)),
        done("a", "b"),
        pools=(spot(spot_wait=3_600_000),),
        knobs={"interrupt_spot": 2, "interrupt_after": 40, "spot_seconds": 20},
        runtime=100_000,
        then=one_training_job_of("a", "b"),
    ),
    Scenario(
        "spot_never_comes",
        (
            submit(1, "a", pools="p,q", checkpoints=SAVED, max_runtime=60),
            submit(2, "b", pools="q", instance_type=TYPES["q"]),
        ),
        done("a", "b"),
        pools=(spot(), pool("q")),
        knobs={"stick_spot": 1, "match": "a*"},
        runtime=30_000,
    ),
    Scenario(
        "spot_never_comes_back",
        (
            submit(1, "a", pools="p,q", checkpoints=SAVED, max_runtime=100),
            knobs(10, stick_spot=1),
        ),
        done("a"),
        pools=(spot(), pool("q")),
        knobs={"interrupt_spot": 1, "interrupt_after": 20},
        runtime=60_000,
    ),
    Scenario(
        "another_quota_refuses",
        (submit(1, "a"), submit_as(2, "ben", "b"), submit(3, "c", pools="p,q")),
        done("a", "b", "c"),
        pools=(pool(slots=2), pool("q")),
        knobs={"refuse_for_quota": 3, "match": "[ac]*"},
        runtime=100_000,
    ),
    Scenario(
        "a_quota_of_all_training_jobs_refuses",
        (submit(1, "a"), submit(2, "b", pools="q")),
        done("a", "b"),
        pools=(pool(), pool("q")),
        knobs={"quotas": {"Number of instances across all training jobs": 1}},
        runtime=100_000,
    ),
    Scenario(
        "name_is_taken",
        (
            submit(1, "first"),
            submit(2, "a"),
            plane(3, "CreateTrainingJob", **request("a")),
            submit(5, "b"),
        ),
        {"first": S.COMPLETED, "a": S.FAILED, "b": S.COMPLETED},
        runtime=70_000,
        or_else={"a": frozenset({S.COMPLETED, None})},
    ),
    Scenario(
        "stopped_by_others",
        (submit(1, "a"), submit(2, "b"), plane(30, "StopTrainingJob", TrainingJobName="a")),
        {"a": S.STOPPED, "b": S.COMPLETED},
        runtime=100_000,
        or_else={"a": frozenset({S.COMPLETED})},
    ),
    Scenario(
        "large_eviction_in_two_transactions",
        (
            *(submit(1 + n, f"s{n}") for n in range(5)),
            submit(30, "big", slots=5, priority=5),
        ),
        done("big", *(f"s{n}" for n in range(5))),
        pools=(pool(slots=5),),
        work={f"s{n}": Work(runtime=60_000, stop=5_000 * n) for n in range(5)},
        runtime=40_000,
        most_actions=10,
    ),
    Scenario(
        "an_orphan_is_stopped",
        (submit(1, "a"), plane(10, "CreateTrainingJob", **ghost("ghost")), until(1_700)),
        done("a"),
        work={"ghost": Work(runtime=None)},
        runtime=100_000,
        then=is_now("ghost", "Stopped"),
    ),
    Scenario(
        "foreign_training_jobs_count",
        (
            plane(0.5, "CreateTrainingJob", **request("theirs")),
            submit(61, "a"),
            submit(62, "b"),
            until(480),
        ),
        done("a", "b"),
        pools=(pool(slots=2, count_foreign=True),),
        work={"theirs": Work(runtime=400_000)},
        runtime=100_000,
        then=is_now("theirs", "Completed"),
    ),
    Scenario(
        "history_goes_and_the_name_comes_again",
        (
            submit(1, "a"),
            plane(320, "DeleteTrainingJob", TrainingJobName="a"),
            submit(330, "a"),
            until(2_100),
        ),
        done("a"),
        runtime=40_000,
        history=200_000,
        # Deleted in SageMaker before the queue has learned of its end.
        or_else={"a": frozenset({S.STOPPED})},
        then=nothing_left_of("a"),
    ),
    Scenario(
        "the_right_to_create_vanishes",
        (
            submit(1, "a"),
            knobs(1.5, denied="sagemaker:CreateTrainingJob"),
            submit(21, "b", priority=3),
            knobs(130, denied=""),
        ),
        done("a", "b"),
        pools=(pool(slots=2),),
        work={"a": Work(runtime=150_000), "b": Work(runtime=20_000)},
    ),
    Scenario(
        "every_right_vanishes",
        (
            submit(1, "low"),
            submit(20, "high", priority=1),
            knobs(20.5, denied=EVERY_RIGHT),
            submit(30, "later"),
            cancel(40, "low"),
            knobs(80, denied=""),
        ),
        {"low": S.CANCELLED, "high": S.COMPLETED, "later": S.COMPLETED},
        work={"low": Work(runtime=9_000_000, stop=5_000)},
        runtime=20_000,
    ),
    Scenario(
        "a_role_is_wrong_for_a_while",
        (
            knobs(0.5, lost_roles=WRONG_ROLE),
            submit(1, "a", role=WRONG_ROLE, priority=2),
            submit(2, "b", role=WRONG_ROLE, priority=2),
            submit(3, "c"),
            knobs(40, lost_roles=""),
        ),
        done("a", "b", "c"),
        runtime=20_000,
    ),
    Scenario(
        "a_failed_job_is_retried",
        (submit(1, "a"), retry(60, "a", "a-r2"), retry(200, "a-r2", "a-r3")),
        {"a": S.FAILED, "a-r2": S.FAILED, "a-r3": S.COMPLETED},
        work={name: Work(runtime=20_000, exit_code=1) for name in ("a", "a-r2")},
        # Where a fault has kept the first from failing before it is retried.
        or_else={"a-r2": frozenset({None}), "a-r3": frozenset({None})},
    ),
    Scenario(
        "jobs_over_two_pools",
        (
            submit_wide(1, "wide", p=2),
            submit(5, "small"),
            submit_wide(7, "other"),
            submit(40, "urgent", priority=5, instance_type=TYPES["q"]),
        ),
        done("wide", "small", "other", "urgent"),
        pools=(pool("p", slots=3), pool("q")),
        work={
            "wide": Work(runtime=120_000, stop=20_000),
            "other": Work(runtime=60_000, stop=10_000),
        },
        runtime=60_000,
    ),
    Scenario(
        "a_job_over_two_pools_is_cancelled",
        (submit_wide(1, "wide", p=2), submit_wide(2, "next", p=2), cancel(40, "wide")),
        {"wide": S.CANCELLED, "next": S.COMPLETED},
        pools=(pool("p", slots=2), pool("q")),
        work={"wide": Work(runtime=9_000_000, stop=20_000)},
        runtime=60_000,
    ),
    Scenario(
        "a_tick_finds_many_ends",
        (
            *(submit(n, job) for n, job in enumerate("abc", 1)),
            *(submit(n, job, pools="q") for n, job in enumerate("de", 4)),
            submit(10, "f"),
            submit(11, "g"),
            submit(12, "h", pools="q"),
            lose_events(60, until=400),
            plane(200, "DeleteTrainingJob", TrainingJobName="e"),
        ),
        {**done("a", "b", "d", "f", "g", "h"), "c": S.FAILED, "e": S.STOPPED},
        pools=(pool(slots=3), pool("q", slots=2)),
        work={
            **{job: minutes(2) for job in "abde"},
            "c": Work(runtime=120_000, fails_after=90_000),
        },
        most_actions=14,
        # Where a crash lets an earlier tick find the end, nothing is left to be deleted.
        or_else={"e": frozenset({S.COMPLETED})},
    ),
    Scenario(
        "a_quota_refuses_the_third_of_five_starts",
        (
            *(submit(n, job) for n, job in enumerate("abcdef", 1)),
            configure(30, pool(slots=6), pool("h")),
        ),
        done("a", "b", "c", "d", "e", "f"),
        knobs={"limits": {TYPES["p"]: 3}},
        runtime=100_000,
    ),
    Scenario(
        "three_evict_in_one_plan",
        (
            *(submit(n, job) for n, job in enumerate(("low1", "low2", "low3"), 1)),
            submit(4, "other", pools="q"),
            *(
                submit(30 + n, job, priority=5, after="other")
                for n, job in enumerate(("high1", "high2", "high3"))
            ),
        ),
        done("low1", "low2", "low3", "other", "high1", "high2", "high3"),
        pools=(pool(slots=3), pool("q")),
        work={
            **{f"low{n}": Work(runtime=150_000, stop=5_000 * n) for n in (1, 2, 3)},
            "other": minutes(1),
        },
        most_actions=16,
        runtime=100_000,
    ),
    Scenario(
        "jobs_come_after_others",
        (
            submit(1, "a"),
            submit(2, "x"),
            submit(25, "b", after="a"),
            submit(26, "c", after="b", after_any="a,x"),
            submit(27, "y", after="x,a"),
            submit(50, "z", after="y", after_any="c"),
            submit(51, "w", after_any="y"),
            cancel(80, "x"),
            submit(140, "late", after="a", after_any="y"),
        ),
        {
            **done("a", "b", "c", "w", "late"),
            **dict.fromkeys(("x", "y", "z"), S.CANCELLED),
        },
        pools=(pool(slots=2),),
        work={"x": Work(runtime=9_000_000, stop=20_000)},
        runtime=60_000,
        # Where no cancel comes through, all complete.
        or_else={name: frozenset({S.COMPLETED}) for name in ("y", "z")},
    ),
    Scenario(
        "jobs_come_after_a_group",
        (
            submit_group(1, "grid", "a", "b", "c", max_parallel=2),
            submit(25, "d", after="group:grid"),
            submit(26, "e", after="d", after_any="grid"),
            submit_group(30, "next", "f", "g", max_parallel=2, after="grid"),
            submit(31, "h", after="group:next"),
        ),
        {**done("a", "d", "e"), "f": S.FAILED, "h": S.CANCELLED},
        pools=(pool(slots=2),),
        work={"f": Work(runtime=60_000, fails_after=30_000)},
        runtime=60_000,
        # Without an answer a group may not be submitted, nor what comes after it.
        or_else={
            "a": frozenset({S.CANCELLED}),
            "f": frozenset({None, S.CANCELLED}),
            **dict.fromkeys("deh", frozenset({None, S.CANCELLED})),
        },
    ),
    Scenario(
        "submissions_meet_the_limit_of_what_waits",
        (
            submit(1, "a"),
            submit(5, "b"),
            submit(12, "c"),
            submit(25, "crowd"),
            submit(225, "later"),
        ),
        {**done("a", "b", "c", "later"), "crowd": S.COMPLETED},
        runtime=100_000,
        limits=Limits(default=CallerLimits(waiting=2), waiting_in_all=10),
        then=counters_converge,
    ),
    Scenario(
        "submissions_meet_the_limit_of_a_minute",
        (
            submit(1, "a"),
            submit(5, "b"),
            submit(12, "c"),
            submit(45, "c"),
            submit(65, "d"),
        ),
        done("a", "b", "c", "d"),
        pools=(pool(slots=2),),
        runtime=60_000,
        limits=Limits(default=CallerLimits(submissions=2)),
        then=counters_converge,
    ),
    Scenario(
        "amendments_open_lines",
        (
            submit(1, "a", pools="p"),
            submit(2, "b", pools="q"),
            submit(3, "waits", pools="p"),
            amend(10, "waits", pools="p,q"),
            amend(45, "waits", pools="q,p"),
            amend(80, "waits", preemptible="false"),
            amend(115, "waits", pools="q"),
            amend(150, "waits", pools="p"),
            submit_as(230, "bob", "other"),
        ),
        done("a", "b", "waits", "other"),
        pools=(pool(), pool("q")),
        work={"a": minutes(5), "b": minutes(5)},
        limits=Limits(lines=4),
        then=lines_are_paid_for(6),
    ),
    Scenario(
        "a_project_reclaims_its_quota",
        (
            submit(1, "a1", project="a"),
            submit(2, "a2", project="a"),
            submit(30, "b1", project="b"),
            submit(31, "b2", project="b"),
        ),
        done("a1", "a2", "b1", "b2"),
        pools=(pool(slots=2),),
        work={name: minutes(1.5) for name in ("a1", "a2", "b1", "b2")},
        sharing=projects(a=1, b=1),
    ),
    Scenario(
        "projects_come_to_a_busy_queue",
        (
            submit(1, "old1"),
            submit(2, "old2"),
            submit(3, "old3"),
            share(40, projects(a=1)),
            submit(45, "a1", project="a"),
        ),
        done("old1", "old2", "old3", "a1"),
        pools=(pool(slots=2),),
        work={name: minutes(2) for name in ("old1", "old2", "old3", "a1")},
    ),
    Scenario(
        "a_project_spends_its_budget",
        (
            submit(1, "a1", project="a"),
            submit(5, "a2", project="a"),
            share(400, projects(budget=3600, a=1)),
            until(470),
        ),
        done("a1", "a2"),
        work={"a1": minutes(4), "a2": minutes(1)},
        sharing=projects(budget=60, a=1),
        then=one_started_before(400, "a1", "a2"),
    ),
    Scenario(
        "asked_to_release",
        (
            submit(1, "heeds", checkpoints="s3://bucket/heeds"),
            submit(2, "ignores", checkpoints="s3://bucket/ignores"),
            submit(3, "bare"),
            submit(30, "big", slots=3, priority=5),
        ),
        done("heeds", "ignores", "bare", "big"),
        pools=(pool(slots=3, suspend_grace=20_000),),
        work={
            "heeds": Work(runtime=100_000, stop=5_000, release=10_000),
            "ignores": Work(runtime=300_000, stop=5_000),
            "bare": Work(runtime=100_000, stop=5_000),
        },
        runtime=30_000,
    ),
    Scenario(
        "a_pool_closes_and_opens_again",
        (
            submit(1, "heeds", checkpoints="s3://bucket/heeds"),
            submit(2, "ignores", checkpoints="s3://bucket/ignores"),
            submit(3, "late", checkpoints="s3://bucket/late"),
        ),
        done("heeds", "ignores", "late"),
        pools=(pool(slots=2, suspend_grace=20_000, windows=HOURS),),
        work={
            "heeds": Work(runtime=400_000, stop=5_000, release=10_000),
            "ignores": Work(runtime=400_000, stop=5_000),
            "late": minutes(1),
        },
        runtime=30_000,
    ),
    Scenario(
        "asked_in_a_long_grace",
        (
            submit(1, "low", checkpoints="s3://bucket/low"),
            submit(30, "high", priority=1),
        ),
        done("low", "high"),
        pools=(pool(suspend_grace=300_000),),
        work={"low": Work(runtime=1_000_000, release=10_000)},
        runtime=30_000,
        then=all_are_asked,
    ),
    Scenario(
        "cancelled_in_its_grace",
        (
            submit(1, "low", checkpoints="s3://bucket/low"),
            submit(30, "high", priority=1),
            cancel(40, "low"),
        ),
        {"low": S.CANCELLED, "high": S.COMPLETED},
        pools=(pool(suspend_grace=120_000),),
        work={"low": Work(runtime=9_000_000, stop=5_000)},
        runtime=30_000,
    ),
    Scenario(
        "completes_in_its_grace",
        (
            submit(1, "low", checkpoints="s3://bucket/low"),
            submit(30, "high", priority=1),
        ),
        done("low", "high"),
        pools=(pool(suspend_grace=20_000),),
        work={"low": Work(runtime=45_000, release=18_000), "high": minutes(1)},
    ),
    Scenario(
        "releases_by_itself",
        (submit(1, "a", checkpoints="s3://bucket/a"), submit(2, "b")),
        done("a", "b"),
        work={"a": Work(runtime=50_000, fails_after=20_000, failure=RELEASE)},
        runtime=30_000,
    ),
    Scenario(
        "releases_again_and_again",
        (submit(1, "a"), cancel(900, "a")),
        {"a": S.CANCELLED},
        work={"a": Work(runtime=2_000_000, fails_after=10_000, failure=RELEASE)},
        uncancelled=S.HELD,
        then=began_at_most("a", 4),
    ),
    Scenario(
        "attempts_to_start_are_counted",
        (submit(1, "a"), submit(5, "b"), submit(200, "c"), until(310)),
        {**done("a", "c"), "b": S.FAILED},
        work={"a": minutes(4)},
        runtime=30_000,
        sharing=Sharing(
            scheduler=SchedulerSettings(
                max_schedule_count=3,
                min_schedule_interval=20_000,
                max_schedule_interval=40_000,
            )
        ),
        # Where a fault has put one before another, or has kept a slot for longer.
        or_else={
            "a": frozenset({S.FAILED}),
            "b": frozenset({S.COMPLETED}),
            "c": frozenset({S.FAILED}),
        },
        then=given_up_after(3),
    ),
    Scenario(
        "a_row_that_never_matches",  # A gang cannot start for it, a pool cannot be decided about.
        (
            by_hand(0.5, "a record without its mark", parts_key(), lambda _: NOT_MARKED),
            submit_group(1, "gang", "a", "b@q", "c", "d"),
            submit(2, "x"),
            by_hand(200, "a ledger without its version", ledger_key("p"), without_version),
            submit(210, "y"),
            doctor(400),
            doctor(1_000),  # Nothing else mends the record: one that was killed is given again.
        ),
        done("x", "y", "a"),
        pools=(pool(slots=4), pool("q")),
        runtime=60_000,
        or_else={"a": frozenset({S.CANCELLED})},
        most_actions=12,
        then=began_before(390, "x", "y"),
    ),
    Scenario(
        "the_table_is_restored",  # Its copy knows nothing of a's second attempt.
        (
            submit(1, "a", checkpoints="s3://bucket/a"),
            submit(2, "b"),
            copy_table(30),
            requeue(40, "a"),
            restore_table(120),
        ),
        done("a", "b"),
        work={"a": Work(runtime=200_000, stop=5_000)},
        runtime=30_000,
    ),
    Scenario(
        "a_state_machine_waits_for_a_job",  # An eviction is no end; the newest token hears of it.
        (
            submit_for_task(1, "a"),
            submit(40, "b", priority=5),
            submit_for_task(70, "a", number=2),
        ),
        done("a", "b"),
        runtime=30_000,
        work={"a": Work(runtime=90_000, stop=5_000)},
        answers=True,
        then=all_have_heard("a"),
    ),
    Scenario(
        "a_state_machine_waits_for_what_has_ended",
        (submit_for_task(1, "a"), submit_for_task(200, "a", number=2)),
        done("a"),
        runtime=20_000,
        answers=True,
        then=all_have_heard("a"),
    ),
    Scenario(
        "an_execution_is_stopped",
        (
            submit_for_task(1, "a"),
            stop_execution(70, "a-1"),
            submit(80, "b"),
        ),
        {"a": JobState.CANCELLED, "b": JobState.COMPLETED},
        runtime=30_000,
        work={"a": Work(runtime=None, stop=5_000)},
        answers=True,
        then=all_have_heard("a"),
    ),
    Scenario(
        "a_hostile_submission",
        (
            submit_hostile(0.5),
            submit(1, "a"),
            submit(2, "b"),
        ),
        {**done("a", "b"), "hostile": S.FAILED},
        pools=(pool(slots=2),),
        runtime=60_000,
    ),
)


SCENARIOS = tuple(beside_a_hostile_job(story) for story in STORIES)
