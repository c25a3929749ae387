"""What was used: days, waits, records, sums as text, and the beneficiary of an eviction."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import Beneficiary
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Claim, Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.policy.lifecycle.apply import evicted, moved, requeued, started, steps
from slotq_core.policy.lifecycle.retry import Ending, after_end
from slotq_core.policy.plan import Evict, RollBack, Start
from slotq_core.usage.amounts import (
    Amounts,
    Totals,
    UsageGroup,
    Waits,
    Window,
    add_attempt,
    field_of,
    group_of,
    waits_of,
)
from slotq_core.usage.attempt_use import AttemptUse, PartUse, use_of
from slotq_core.usage.calendar_days import DAY, begin_of, day_of, days, is_day, next_day
from slotq_core.usage.day_rows import parts_of, read_part
from slotq_core.wire.views.usage import held_slots_view, totals_in, usage_view

NOW = begin_of("2026-11-20")
POOL = Pool(name="p5", instance_type="ml.p5.48xlarge", capacity=Demand(slots=2))


def a_job(name: str = "job1", **fields: object) -> Job:
    described = {
        "state": JobState.PENDING,
        "priority": 0,
        "entry_time": NOW - DAY,
        "demand": Demand(slots=1),
        "pools": ("p5",),
        "changed_at": NOW - 5000,
    }
    return Job(name=name, **(described | fields))  # type: ignore[arg-type]


def test_a_start_remembers_since_when_the_job_waited():
    job = started(a_job(), POOL, NOW)
    assert job.attempt
    assert job.attempt.waiting_since == NOW - 5000


def test_an_eviction_names_whom_it_is_for():
    victim = started(a_job(), POOL, NOW)
    other = a_job("other", project="speech", submitter="bob")
    claim = Claim(pool="p5", amount=Demand(slots=1), since=NOW)
    decision = Evict(beneficiary=other, victims=(victim,), claim=claim)
    (_, (_, after)) = steps(decision, {"p5": POOL}, NOW)
    gains = Beneficiary(project="speech", submitter="bob", workload="training")
    assert after.attempt and after.attempt.stop
    assert after.attempt.stop.beneficiary == gains
    going = moved(victim, claim, other, NOW)
    assert going.attempt and going.attempt.stop
    assert (going.attempt.stop.by, going.attempt.stop.beneficiary) == ("other", gains)


def test_an_end_by_a_clock_that_is_behind_leaves_a_record_that_counts():
    """Another handler has admitted the job, by a clock that is ahead."""
    job = started(a_job(), POOL, NOW)
    ended = after_end(job, Ending.NO_CAPACITY, at=NOW - 20, now=NOW - 20)
    use = use_of(job, ended.attempt).checked()
    assert use.ended_at == use.admitted_at == NOW


def test_nobody_gains_from_a_rollback_or_an_attempt_given_up():
    victim = started(a_job(), POOL, NOW)
    rolled_back = steps(RollBack(group="gang", jobs=(victim,)), {"p5": POOL}, NOW)[0][1]
    for after in (rolled_back, requeued(victim, "ada", NOW), evicted(victim, "x", NOW)):
        assert after.attempt and after.attempt.stop
        assert after.attempt.stop.beneficiary is None


@pytest.mark.parametrize(("saved_at", "at_most"), [(None, 2 * 5000), (NOW + 4000, 0)])
def test_what_an_eviction_lost_is_at_most_known_without_a_report(saved_at, at_most):
    use = AttemptUse(
        job="job1", number=1, workload="training", pool="p5", instance_type="ml.p5", slots=2,
        admitted_at=NOW, ended_at=NOW + 5000, lost_since=saved_at or NOW,
    )  # fmt: skip
    totals: Totals = {}
    add_attempt(totals, use, Window(start=NOW, end=NOW + DAY), until=NOW)
    (amounts,) = totals.values()
    assert amounts.lost_at_most_ms == at_most
    assert amounts.lost_ms == (at_most or 2 * 1000)
    shown = held_slots_view(use).evicted
    assert shown is not None
    assert shown.lost_at_most is (saved_at is None)
    day = day_of(NOW)
    cell = (day, UsageGroup(pool="p5"), amounts)
    (part,) = parts_of([cell])
    assert [*read_part(part)] == [cell]
    earlier = {key: it for key, it in json.loads(part).items() if key != "at_most"}
    ((_, _, read),) = read_part(json.dumps(earlier))
    assert read == replace(amounts, lost_at_most_ms=amounts.lost_ms), "it does not say which"
    page = usage_view((NOW, NOW), totals, by=(), as_of=NOW, unreadable=0, following=None)
    ((_, same),) = totals_in(page.rows)
    assert same == amounts


def test_an_eviction_of_a_job_over_several_pools_loses_work_in_each_and_counts_once():
    small = Pool(name="m5", instance_type="ml.m5.large", capacity=Demand(slots=4))
    pools = {"p5": POOL, "m5": small}
    parts = (("p5", Demand(slots=1)), ("m5", Demand(slots=3)))
    wide = a_job(pools=("p5", "m5"), parts=parts, demand=Demand(slots=4))
    ((_, victim),) = steps(Start(job=wide, pool="p5"), pools, NOW)
    claim = Claim(pool="p5", amount=Demand(slots=1), since=NOW)
    other = a_job("other", project="speech")
    victim = steps(Evict(beneficiary=other, victims=(victim,), claim=claim), pools, NOW)[1][1]
    ended = after_end(victim, Ending.STOPPED, at=NOW + 1000, now=NOW + 1000)
    totals: Totals = {}
    window = Window(start=NOW, end=NOW + DAY)
    add_attempt(totals, use_of(victim, ended.attempt).checked(), window, until=NOW + DAY)
    told = {
        (group.project, group.pool, group.instance_type): (
            amounts.slot_ms,
            amounts.lost_ms,
            (
                amounts.attempts,
                amounts.waits.count,
                amounts.evictions_given,
                amounts.evictions_taken,
            ),
        )
        for group, amounts in totals.items()
    }
    assert told == {
        ("", "p5", "ml.p5.48xlarge"): (1000, 1000, (1, 1, 1, 0)),
        ("", "m5", "ml.m5.large"): (3000, 3000, (0, 0, 0, 0)),
        ("speech", "p5", "ml.p5.48xlarge"): (0, 0, (0, 0, 0, 1)),
    }


def test_an_attempt_from_before_parts_were_recorded_counts_in_its_first_pool():
    parts = (("p5", Demand(slots=1)), ("m5", Demand(slots=3)))
    job = started(a_job(pools=("p5", "m5"), parts=parts, demand=Demand(slots=4)), POOL, NOW)
    assert use_of(job, job.attempt).held == (PartUse("p5", "ml.p5.48xlarge", 4),)


def started_on_a_node(pool: Pool, contents: Demand, *gpu_ids: int, part: int = 0) -> AttemptUse:
    """What a job uses that starts on these GPUs of a node, or on a part of one."""
    node = Node(
        name="n1",
        pool="p5",
        generation=1,
        state=NodeState.READY,
        tenant="t",
        contents=contents,
        training_job="n1",
        token="",
        started_at=NOW,
    )
    job = a_job(gpus=part or WHOLE * len(gpu_ids), tenant="t")
    start = Start(job=job, pool="p5", node=node, gpu_ids=gpu_ids)
    ((_, after),) = steps(start, {"p5": pool}, NOW)
    assert after.attempt
    return use_of(after, after.attempt)


def test_an_attempt_on_a_node_uses_its_part_of_the_slot():
    """Eight jobs of one GPU use what one whole job does, but for fractions of a ms."""
    totals: Totals = {}
    window = Window(start=NOW, end=NOW + DAY)
    for index in range(8):
        use = started_on_a_node(POOL, Demand(gpus=8), index)
        assert use.part_of_slot == (1, 8)
        assert held_slots_view(use).part_of_slot == [1, 8]
        add_attempt(totals, use, window, until=NOW + 1001)
    (amounts,) = totals.values()
    assert amounts.attempts == 8
    assert abs(amounts.slot_ms - 1001) < 8


def test_a_part_of_a_gpu_uses_that_part_of_the_slot():
    use = started_on_a_node(POOL, Demand(gpus=8), 3, part=25)
    assert use.part_of_slot == (25, 800)
    assert held_slots_view(use).part_of_slot == [0.25, 8]
    totals: Totals = {}
    add_attempt(totals, use, Window(start=NOW, end=NOW + DAY), until=NOW + 3_200_000)
    (amounts,) = totals.values()
    assert amounts.slot_ms == 100_000


def test_a_node_says_how_many_gpus_it_has_else_its_pool_does():
    pool = replace(POOL, capacity=Demand(slots=2, gpus=16), nodes=NodeRules())
    assert started_on_a_node(pool, Demand(), 0, 1).part_of_slot == (2, 8)
    assert started_on_a_node(pool, Demand(gpus=4), 0, 1).part_of_slot == (2, 4)
    assert started_on_a_node(POOL, Demand(), 0, 1).part_of_slot == ()


def test_days_are_utc_and_in_order():
    assert day_of(NOW - 1) == "2026-11-19"
    assert day_of(NOW) == "2026-11-20"
    assert next_day("2024-02-28") == "2024-02-29"
    assert [*days("2026-12-31", "2027-01-01")] == ["2026-12-31", "2027-01-01"]
    assert [*days("2026-12-31", "2026-12-30")] == []


@pytest.mark.parametrize(
    "text", ["", "today", "2026-13-01", "20261120", "2026-11-20T00", "1969-12-31", "２026-11-20"]
)
def test_anything_else_is_no_day(text: str):
    assert not is_day(text)


@pytest.mark.parametrize(
    ("start", "end", "whole"),
    [
        (NOW, NOW + DAY, True),
        (NOW - DAY, NOW + 9 * DAY, True),
        (NOW + 1, NOW + DAY, False),
        (NOW, NOW + DAY - 1, False),
        (NOW - 1, NOW + DAY + 1, True),
        (NOW + 3 * DAY + 1, NOW + 4 * DAY, True),
    ],
)
def test_a_window_knows_whether_it_cuts_a_day(start: int, end: int, whole: bool):
    assert Window(start=start, end=end).whole_days("2026-11-20", "2026-11-20") is whole


def test_nothing_has_no_mean_and_no_percentile():
    assert Waits().mean is None
    assert Waits().percentile(95) is None


@pytest.mark.parametrize(
    ("count", "total", "buckets"),
    [
        (1, 0, {}),
        (1, 0, {0: 2}),
        (1, 65, {65: 1}),
        (1, -1, {0: 1}),
        (0, 0, {0: 0}),
        (1, 0, {-1: 1}),
    ],
)
def test_what_is_no_histogram_is_refused(count: int, total: int, buckets: dict[int, int]):
    with pytest.raises(ValueError, match="wait"):
        waits_of(count, total, buckets)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ended_at": None},
        {"ended_at": NOW - 1},
        {"ended_at": NOW + 401 * DAY},
        {"ended_at": 10**30},
        {"admitted_at": -1},
        {"slots": -1},
        {"parts": (PartUse("p", "ml.x", 2), PartUse("q", "ml.y", -1))},
        {"part_of_slot": (2, 1)},
        {"part_of_slot": (0, 0)},
        {"interrupted_for": -1},
        {"interrupted_for": DAY + 1},
        {"billed": -1},
    ],
)
def test_a_record_that_cannot_be_is_refused(wrong: dict[str, int]):
    right = {"admitted_at": NOW, "ended_at": NOW + DAY, "slots": 1}
    use = {"job": "j", "number": 1, "workload": "training", "pool": "p", "instance_type": "ml.x"}
    assert AttemptUse(**use, **right).checked().slots == 1  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"attempt|slots"):
        AttemptUse(**use, **(right | wrong)).checked()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"texts": []},
        {"rows": [[0, 1, 2]]},
        {"rows": [["0", 0, 0, 0, 0, 0, *[1] * 9]]},
        {"rows": [[0, 1, 1, 1, 1, 1, *[1] * 10]]},
        {"rows": 1},
    ],
)
def test_a_part_that_cannot_be_read_is_refused(change: dict[str, object]):
    (text,) = parts_of([("2026-11-20", UsageGroup(project="a"), Amounts(slot_ms=1))])
    assert [*read_part(text)]
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        [*read_part(json.dumps({**json.loads(text), **change}))]


def test_a_group_is_named_as_users_name_it():
    group = group_of({"project": "a", "class": "training", "kind": "spot"}, "ml.x", "spot")
    assert group == UsageGroup(project="a", workload="training", instance_type="ml.x", kind="spot")
    assert field_of(group, "class") == "training"
