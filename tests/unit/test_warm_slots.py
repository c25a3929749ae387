"""Warm slots: instances that stay when a job ends, through the manager and our training plane."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from slotq.output.job_tables import attempts_table, explanation
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.errors import InvalidRequest
from slotq_core.manager import QueueManager
from slotq_core.model.pools import CapacityKind, NodeRules, Pool, PoolState, WarmSlot
from slotq_core.model.reasons import SlotsComing
from slotq_core.operations.doctor import Doctor
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.views.jobs import JobView, job_view
from tests.queue_world import INSTANCE_TYPE, ROLE, QueueWorld, pool, request

MINUTE = 60_000
OTHER_ROLE = ROLE + "2"
QUOTA = f"{INSTANCE_TYPE} for training warm pool usage"


def warm(name: str = "p", slots: int = 1, **fields: Any) -> Pool:
    return pool(name, slots, keep_warm=10 * MINUTE, **fields)


def world_of(*pools: Pool, limit: int = 1, **knobs: Any) -> QueueWorld:
    """`limit`: the account's instances. A start on new instances takes 100 s."""
    world = QueueWorld(*pools, runtime=30_000)
    world.plane.knobs.turn({"limits": {INSTANCE_TYPE: limit}, "start_seconds": 100, **knobs})
    return world


def submit(world: QueueWorld, name: str, *, keep: int | None = None, **fields: Any) -> None:
    body = request(name, **fields)
    if keep is not None:
        body["ResourceConfig"]["KeepAlivePeriodInSeconds"] = keep
    submission, body = parse_submission(body)
    world.manager.submissions.submit(submission, body, submitter="ann")


def tick(world: QueueWorld, seconds: float = 60) -> None:
    """Let time pass, and the tick look."""
    world.later(seconds)
    assert world.manager.tick().troubles == ()
    world.deliver()


def done(world: QueueWorld) -> None:
    """Let the jobs that start now come to their ends."""
    world.later(100)
    world.later(30)


def slots(world: QueueWorld) -> tuple[WarmSlot, ...]:
    return world.store.worlds.load(world.clock.now()).snapshot.warm


def kept(world: QueueWorld, name: str) -> Any:
    found = world.plane.job(name)
    assert found is not None
    return found.request["ResourceConfig"].get("KeepAlivePeriodInSeconds")


# --- reuse ---


def test_ten_like_jobs_in_a_row_provision_once():
    world = world_of(warm())
    for number in range(10):
        submit(world, f"j{number}")
    world.deliver()
    world.later(100)
    for _ in range(9):
        world.later(30)
    found = [world.plane.job(f"j{n}") for n in range(10)]
    started = [job.started_at for job in found if job is not None and job.started_at is not None]
    assert [b - a for a, b in pairwise(started)] == [30_000] * 9
    assert sum(not world.plane.job(f"j{n}").is_warm for n in range(10)) == 1
    assert world.plane.calls["UpdateTrainingJob"] == 0


def test_a_higher_job_with_another_role_takes_the_instances():
    world = world_of(warm(), release_seconds=30)
    submit(world, "first")
    world.deliver()
    world.later(100)
    submit(world, "like", priority=1)
    submit(world, "other", priority=5, role=OTHER_ROLE)
    world.later(30)
    (slot,) = slots(world)
    assert (slot.training_job, slot.released_for, slot.sent) == ("first", "other", True)
    assert world.states() == {"first": "completed", "like": "pending", "other": "pending"}
    assert world.plane.calls["UpdateTrainingJob"] == 1
    world.deliver()
    assert world.states()["other"] == "pending"
    tick(world)  # The first look that finds them gone.
    assert world.states() == {"first": "completed", "like": "pending", "other": "starting"}
    assert world.plane.calls["UpdateTrainingJob"] == 1


def test_nothing_starts_on_what_is_being_released():
    world = world_of(warm(), release_seconds=300)
    submit(world, "first")
    world.deliver()
    world.later(100)
    submit(world, "other", role=OTHER_ROLE)
    world.later(30)
    for _ in range(3):
        tick(world)
    submit(world, "like")
    world.deliver()
    assert world.plane.calls["CreateTrainingJob"] == 1
    assert world.store.health.pool("p").health.errors == 0


def test_an_evicted_job_leaves_nothing_warm_that_its_successor_cannot_use():
    world = world_of(warm())
    submit(world, "low", checkpoints="s3://bucket/low")
    world.deliver()
    world.later(100)
    submit(world, "high", priority=5, role=OTHER_ROLE)
    world.deliver()
    world.later(120)
    (slot,) = slots(world)
    assert (slot.training_job, slot.released_for) == ("low", "high")
    tick(world)
    assert world.states() == {"low": "preempted", "high": "starting"}
    assert slots(world) == ()


def test_an_evicted_job_leaves_its_instances_to_a_like_successor():
    world = world_of(warm())
    submit(world, "low", checkpoints="s3://bucket/low")
    world.deliver()
    world.later(100)
    submit(world, "high", priority=5)
    world.deliver()
    world.later(0)
    world.later(0)
    assert world.states() == {"low": "preempted", "high": "running"}
    assert world.plane.calls["UpdateTrainingJob"] == 0


def test_only_as_many_instances_are_released_as_a_start_lacks():
    world = world_of(warm(slots=3), limit=3)
    for name in ("a", "b"):
        submit(world, name)
    world.deliver()
    done(world)
    assert len(slots(world)) == 2
    submit(world, "other", slots=2, role=OTHER_ROLE)
    world.deliver()
    assert [slot.released_for for slot in slots(world)].count("other") == 1
    submit(world, "like")
    world.deliver()
    assert world.plane.job("like").is_warm
    tick(world)
    assert world.states()["other"] == "starting"
    assert world.plane.calls["UpdateTrainingJob"] == 1


def test_of_a_jobs_pools_the_warm_one_comes_first():
    world = world_of(warm("p"), warm("q"), limit=5)
    submit(world, "first", pools="q")
    world.deliver()
    done(world)
    submit(world, "second", pools="p,q")
    submit(world, "third", pools="p,q", role=OTHER_ROLE)
    world.deliver()
    assert world.job("second").attempt.pool == "q"
    assert world.job("third").attempt.pool == "p"


# --- the period ---


@pytest.mark.parametrize(
    ("settings", "asked", "period"),
    [
        ({"keep_warm": 600_000}, None, 600),
        ({"keep_warm": 600_000}, 60, 60),
        ({"keep_warm": 600_000}, 3600, 600),
        ({"keep_warm": 0}, 60, None),
        ({}, 60, 60),
        ({}, None, None),
        ({"capacity_kind": CapacityKind.SPOT, "keep_warm": 0}, None, None),
        ({"nodes": NodeRules(gpus=1)}, 60, None),
    ],
)
def test_the_period_of_a_request_is_at_most_the_pools(settings, asked, period):
    world = world_of(pool(**settings))
    submit(world, "job", keep=asked, checkpoints="s3://bucket/job", pools="p")
    world.deliver()
    assert kept(world, "job") == period


def test_a_users_own_period_is_followed_and_released():
    world = world_of(pool())
    submit(world, "mine", keep=60)
    world.deliver()
    done(world)
    assert [slot.training_job for slot in slots(world)] == ["mine"]
    submit(world, "other")
    world.deliver()
    assert [slot.released_for for slot in slots(world)] == ["other"]
    tick(world)
    assert (slots(world), world.states()["other"]) == ((), "starting")


def test_a_slot_is_over_when_its_time_is():
    world = world_of(warm())
    submit(world, "job")
    world.deliver()
    done(world)
    tick(world, 9 * 60)
    assert len(slots(world)) == 1
    tick(world, 61)
    assert slots(world) == ()
    (use,) = (it for it in used(world) if it.outcome == "warm")
    assert (use.job, use.slots, use.ended_at - use.admitted_at) == ("job", 1, 10 * MINUTE)


def test_use_counts_warm_time_as_a_kind_of_its_own():
    world = world_of(warm())
    submit(world, "job")
    world.deliver()
    done(world)
    tick(world, 601)
    totals = world.manager.usage.page(end=world.clock.now(), by=("kind",)).totals
    ran, kept = (amounts for _, amounts in sorted(totals.items(), key=lambda cell: cell[0]))
    assert [group.kind for group in sorted(totals)] == ["on_demand", "warm"]
    assert (kept.slot_ms, kept.instance_ms) == (10 * MINUTE, 10 * MINUTE)
    assert (kept.jobs, kept.attempts, kept.waits.count) == (0, 0, 0)
    assert (ran.jobs, ran.attempts) == (1, 1)


def used(world: QueueWorld) -> list[Any]:
    from slotq_core.usage.calendar_days import day_of

    return [*world.store.usage.ended(day_of(world.clock.now()), after="", limit=100).uses]


def test_a_reused_slot_counts_until_it_is_reused():
    world = world_of(warm())
    submit(world, "first")
    world.deliver()
    done(world)
    world.later(200)
    submit(world, "second")
    world.deliver()
    tick(world)
    (use,) = (it for it in used(world) if it.outcome == "warm" and it.job == "first")
    assert use.ended_at - use.admitted_at == 200_000


def test_history_and_why_say_that_a_job_is_on_warm_instances():
    world = world_of(warm())
    for name in ("first", "second"):
        submit(world, name)
        world.deliver()
        if name == "first":
            done(world)

    def shown(name: str) -> JobView:
        status = world.manager.jobs.status(name)
        return job_view(status.job, attempts=status.attempts)

    assert [attempt.warm for attempt in shown("first").attempts] == [False]
    assert [attempt.warm for attempt in shown("second").attempts] == [True]
    assert "  instances    on warm instances" in explanation(shown("second"))
    (column,) = (
        c for c in attempts_table(shown("second").attempts).columns if c.header == "MESSAGE"
    )
    assert column._cells == ["on warm instances"]
    done(world)
    assert shown("second").state == "completed"
    assert "instances" not in explanation(shown("second"))


def test_why_names_the_warm_instances_that_a_job_waits_for():
    world = world_of(warm(slots=2), limit=2, release_seconds=300)
    submit(world, "first")
    world.deliver()
    done(world)
    submit(world, "other", role=OTHER_ROLE, slots=2)
    world.deliver()
    reason = world.manager.jobs.status("other").reason
    assert reason == SlotsComing(pool="p", needed=2, free=1, coming=1, releasing=1)
    assert reason.sentence().startswith(
        "starts in pool p when warm instances that do not match it are gone; needs 2 slots"
    )


def test_a_tick_says_how_long_instances_were_warm_for_nobody():
    world = world_of(warm(slots=3), limit=3)
    submit(world, "first", slots=2)
    submit(world, "like")
    world.deliver()
    done(world)
    world.later(200)
    submit(world, "again")
    world.deliver()
    found = []
    for _ in range(12):
        world.later(60)
        found.append(world.manager.tick().warm_unused)
    assert sum(found) == 2 * 10 * MINUTE + 10 * MINUTE, "of the first and of the last, not of like"
    assert [each for each in found if each] == [2 * 10 * MINUTE, 10 * MINUTE]


# --- what releases ---


def test_shrinking_the_pool_releases_what_is_beyond_it():
    world = world_of(warm(slots=2), limit=2)
    for name in ("a", "b"):
        submit(world, name)
    world.deliver()
    done(world)
    world.manager.configuration.set_pool("p", {"slots": 1}, by="op")
    world.deliver()
    assert [slot.releasing for slot in slots(world)].count(True) == 1


def test_a_pool_that_closes_releases_its_instances():
    """`QueueWorld` begins on Monday 21 September 2026 at 14:13:20 UTC."""
    world = world_of(warm(windows=("mon 14:00-14:20 UTC",)))
    submit(world, "job", checkpoints="s3://bucket/job")
    world.deliver()
    done(world)
    assert [slot.idle for slot in slots(world)] == [True]
    tick(world, 300)
    assert slots(world) == ()
    assert world.plane.calls["UpdateTrainingJob"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"state": "drained"},
        {"keep_warm": 0},
        {"keep_warm": None, "nodes": {"keep": 600, "gpus": 1}},
    ],
)
def test_a_pool_that_keeps_none_any_more_releases_all(change):
    world = world_of(warm())
    submit(world, "job")
    world.deliver()
    done(world)
    world.manager.configuration.set_pool("p", change, by="op")
    world.deliver()
    assert [slot.releasing for slot in slots(world)] == [True]


def test_a_shorter_time_counts_for_those_that_stay():
    world = world_of(warm())
    submit(world, "job")
    world.deliver()
    done(world)
    world.manager.configuration.set_pool("p", {"keep_warm": 120}, by="op")
    world.deliver()
    assert [slot.releasing for slot in slots(world)] == [False]
    assert world.manager.passes.run().wake_at == world.clock.now() + 120_000
    world.later(120)
    assert [slot.releasing for slot in slots(world)] == [True]


def test_a_paused_pool_keeps_its_instances():
    world = world_of(warm())
    submit(world, "job")
    world.deliver()
    done(world)
    world.manager.configuration.set_pool("p", {"state": PoolState.PAUSED.value}, by="op")
    world.deliver()
    assert [slot.releasing for slot in slots(world)] == [False]


def test_what_no_waiting_job_can_start_on_is_released():
    """Two slots, one of them warm; a job of two slots waits for the other one."""
    world = world_of(warm(slots=2), limit=2)
    submit(world, "a")
    submit(world, "b", preemptible="false")
    world.plane.knobs.turn({"start_seconds": 0})
    world.deliver()
    world.runtime = 1_000_000
    world.later(30)
    assert len(slots(world)) == 2
    submit(world, "long", preemptible="false")
    world.deliver()
    assert [slot.idle for slot in slots(world)].count(True) == 1
    submit(world, "wide", slots=2)
    world.deliver()
    assert [slot.releasing for slot in slots(world)].count(True) == 1


# --- races and repairs ---


def test_a_release_whose_call_failed_is_sent_again():
    world = world_of(warm(), denied="sagemaker:UpdateTrainingJob")
    submit(world, "first")
    world.deliver()
    world.later(100)
    submit(world, "other", role=OTHER_ROLE)
    world.later(30)
    (slot,) = slots(world)
    assert (slot.releasing, slot.sent) == (True, False)
    assert any("UpdateTrainingJob" in it for it in world.manager.tick().troubles)
    world.plane.knobs.turn({"denied": ""})
    tick(world)
    tick(world)
    assert world.states()["other"] == "starting"


def test_a_lost_answer_to_a_release_changes_nothing():
    world = world_of(warm(), release_seconds=90)
    submit(world, "first")
    world.deliver()
    world.later(100)
    submit(world, "other", role=OTHER_ROLE)
    world.later(29)
    world.plane.knobs.turn({"lose_answers": 1})
    world.later(1)
    assert [slot.sent for slot in slots(world)] == [False]
    for _ in range(3):
        tick(world)
    assert (slots(world), world.states()["other"]) == ((), "starting")


def outsider(world: QueueWorld, name: str, role: str = ROLE) -> None:
    world.client.create_training_job(**{**request(name, role=role), "Tags": []})


def test_somebody_elses_reuse_is_foreign_use_until_it_ends():
    world = world_of(warm())
    submit(world, "first")
    world.deliver()
    done(world)
    world.runtime = 1_000_000
    outsider(world, "theirs")
    tick(world)
    (slot,) = slots(world)
    assert (slot.reused_by, slot.holds, slot.idle) == ("theirs", True, False)
    submit(world, "other", role=OTHER_ROLE, priority=1)
    submit(world, "like")
    world.deliver()
    assert world.states() == {"first": "completed", "other": "pending", "like": "pending"}
    assert world.store.health.pool("p").health.errors == 0
    world.client.stop_training_job(TrainingJobName="theirs")
    tick(world, 180)
    assert slots(world) == ()
    assert world.states()["other"] == "starting"


def test_a_release_that_comes_too_late_for_somebody_elses_reuse():
    world = world_of(warm())
    submit(world, "first")
    world.deliver()
    done(world)
    world.runtime = 1_000_000
    outsider(world, "theirs")
    submit(world, "other", role=OTHER_ROLE)
    world.deliver()
    assert [slot.released_for for slot in slots(world)] == ["other"]
    tick(world)
    assert [slot.reused_by for slot in slots(world)] == ["theirs"]
    assert world.states()["other"] == "pending"


def test_a_quota_refusal_beside_warm_instances_teaches_the_pool_nothing():
    world = world_of(warm(slots=2), limit=2)
    submit(world, "first")
    world.deliver()
    done(world)
    world.plane.knobs.turn({"limits": {INSTANCE_TYPE: 1}})
    submit(world, "other", role=OTHER_ROLE)
    world.deliver()
    health = world.store.health.pool("p").health
    assert (health.errors, health.learned) == (0, None)
    assert world.states()["other"] == "backoff"


def test_a_start_that_did_not_take_its_instances_leaves_them_to_others():
    """SageMaker gave the job others: what was kept for it stays warm, and counts again."""
    world = world_of(warm(slots=2), limit=2)
    submit(world, "first")
    world.deliver()
    done(world)
    kept_by_plane = world.plane.job("first")
    kept_by_plane.request["RoleArn"] = OTHER_ROLE  # It never matches.
    world.runtime = 1_000_000
    submit(world, "second")
    world.deliver()
    assert [slot.taken_by for slot in slots(world)] == ["second"]
    tick(world)
    tick(world)
    tick(world)
    (slot,) = slots(world)
    assert (slot.taken_by, slot.idle) == ("", True)


@pytest.mark.parametrize("pools", [("p", "p"), ("p", "q")])
def test_instances_that_sagemaker_chose_instead_take_the_others_place(pools):
    """The job starts in one pool, on instances of another pool of its type."""
    world = world_of(warm("p", 2), warm("q", 2), limit=4)
    for name, where in zip(("a", "b"), pools, strict=True):
        submit(world, name, pools=where)
        world.deliver()
    done(world)
    world.runtime = 1_000_000
    world.plane.job("b").lets_go = True  # Whatever is asked for, SageMaker gives those of a.
    submit(world, "like", pools=pools[1])
    world.deliver()
    assert world.plane.job("a").reused_by == "like"
    tick(world)
    found = [(slot.training_job, slot.pool, slot.idle) for slot in slots(world)]
    assert found == [("b", "p", True)]


def test_without_a_quota_a_start_is_repeated_without_the_period():
    world = world_of(warm(), quotas={QUOTA: 0})
    submit(world, "first")
    world.deliver()
    assert (world.states(), kept(world, "first")) == ({"first": "starting"}, None)
    assert world.plane.calls["CreateTrainingJob"] == 2
    done(world)
    assert slots(world) == ()
    submit(world, "second", role=OTHER_ROLE)
    world.deliver()
    assert world.plane.calls["CreateTrainingJob"] == 3, "the queue knows it by now"
    (found,) = (it for it in doctor(world.manager).examine() if it.kind == "warm_quota")
    assert found.subject == "p" and QUOTA in found.text
    doctor(world.manager).examine(fix=True)
    assert world.store.health.pool("p").health.warm_refused_at is None


def doctor(manager: QueueManager) -> Doctor:
    return manager.doctor


def test_what_sagemaker_does_not_keep_is_forgotten():
    world = world_of(warm())
    submit(world, "first")
    world.deliver()
    world.later(100)
    world.later(29)
    world.plane.knobs.turn({"quotas": {QUOTA: 0}})
    world.later(1)
    assert len(slots(world)) == 1
    tick(world)
    assert len(slots(world)) == 1, "SageMaker may not show it yet"
    tick(world)
    assert slots(world) == ()
    assert world.store.health.pool("p").health.warm_refused_at is not None


# --- bad input ---


@pytest.mark.parametrize(
    ("settings", "field", "said"),
    [
        ({"keep_warm": 21_601}, "keep_warm", "21600"),
        ({"keep_warm": -1}, "keep_warm", "keep_warm"),
        ({"capacity_kind": "spot", "keep_warm": 60}, "keep_warm", "spot"),
        ({"nodes": {"keep": 600, "gpus": 1}, "keep_warm": 60}, "keep_warm", "nodes"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings, field, said):
    world = QueueWorld(pool())
    with pytest.raises(InvalidRequest) as refused:
        world.manager.configuration.set_pool("p", settings, by="op")
    assert refused.value.field == field
    assert said in refused.value.message


def test_a_warm_pool_cannot_become_spot():
    world = QueueWorld(warm())
    with pytest.raises(InvalidRequest) as refused:
        world.manager.configuration.set_pool("p", {"capacity_kind": "spot"}, by="op")
    assert refused.value.field == "capacity_kind"


# --- costs ---


def test_a_queue_without_warm_pools_makes_no_more_calls():
    world = QueueWorld(pool(slots=2), runtime=30_000)
    for name in ("a", "b", "c"):
        submit(world, name)
    world.deliver()
    world.later(30)
    world.manager.tick()
    world.deliver()
    job = world.job("a")
    assert (job.warm_key, job.keep_alive) == ("", None)
    assert world.plane.calls["UpdateTrainingJob"] == 0
    assert world.plane.calls["DescribeTrainingJob"] == 0


def test_a_look_is_one_call_for_each_slot_and_tick():
    world = world_of(warm(slots=2), limit=2)
    for name in ("a", "b"):
        submit(world, name)
    world.deliver()
    done(world)
    before = world.plane.calls["DescribeTrainingJob"]
    tick(world)
    world.deliver()
    assert world.plane.calls["DescribeTrainingJob"] - before == 2


def test_news_with_an_unknown_warm_status_are_taken():
    world = world_of(warm())
    submit(world, "a")
    world.deliver()
    found = {**world.plane.job("a").description(), "WarmPoolStatus": {"Status": "Lukewarm"}}
    seen = observation_of(found, at=world.clock.now())
    assert replace(seen, odd="").reused_by == ""
