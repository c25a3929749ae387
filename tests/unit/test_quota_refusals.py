"""What a refusal by a quota of the account concerns: a pool, every pool, or the job alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.model.attempts import Attempt, AttemptOutcome
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import HEALTHY, PoolHealth, ServiceQuota
from slotq_core.model.reasons import QuotaRefused
from slotq_core.policy.lifecycle.missing_rights import (
    NO_EVICTION_FOR,
    is_of_the_job,
    limit_of,
    pools_concerned,
)
from slotq_core.wire.submission import parse_submission
from tests.queue_world import INSTANCE_TYPE, QueueWorld, pool, request

SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 86_400, "MaxWaitTimeInSeconds": 86_400},
}
SPOT_QUOTA = f"{INSTANCE_TYPE} for spot training job usage"
PROCESSING = "Number of instances across all processing jobs"
ALL_TRAINING = "Number of instances across all training jobs"
RULE = {"RuleConfigurationName": "rule", "RuleEvaluatorImage": "image"}
RULES = {"DebugRuleConfigurations": [RULE]}


def submit(world: QueueWorld, name: str, by: str = "ann", **more: Any) -> None:
    """Submit a job; keys in capitals are fields of the request."""
    fields = {key: value for key, value in more.items() if key[0].isupper()}
    tags = {key: value for key, value in more.items() if key not in fields}
    submission, body = parse_submission({**request(name, **tags), **fields})
    world.manager.submissions.submit(submission, body, submitter=by)


def health(world: QueueWorld, name: str = "p") -> PoolHealth:
    found = world.store.health.pool(name)
    assert found is not None
    return found.health


def creates(world: QueueWorld) -> int:
    return world.plane.calls["CreateTrainingJob"]


def filled(*, slots: int = 2, **knobs: Any) -> QueueWorld:
    """A pool in which an ordinary job runs."""
    world = QueueWorld(pool(slots=slots), runtime=10_000_000)
    world.plane.knobs.turn(knobs)
    submit(world, "ordinary", by="ben")
    world.deliver()
    return world


OTHERS = [
    # the quota, its limit while it refuses, the fields that count in it
    (SPOT_QUOTA, 1, SPOT),
    (PROCESSING, 1, RULES),
]


@pytest.mark.parametrize(("quota", "limit", "fields"), OTHERS)
def test_another_quota_concerns_the_job_alone(quota: str, limit: int, fields: dict[str, Any]):
    world = filled(slots=4, quotas={quota: limit})
    submit(world, "first", **fields)
    submit(world, "second", retries="2", **fields)
    world.deliver()
    assert health(world) == HEALTHY
    job = world.job("second")
    assert (job.state, job.cause) == (JobState.BACKOFF, "other_quota")
    assert job.not_before == world.clock.now() + 30_000
    assert f"service limit '{quota}' is {limit} Instances" in job.message
    assert (job.retries, job.schedule_attempts) == (2, 0)
    submit(world, "later", by="ben")
    world.deliver()
    assert world.job("later").state is JobState.RUNNING, "the others go on"
    world.plane.knobs.quotas = {}
    world.later(30)
    job = world.job("second")
    assert (job.state, job.refused_in, job.faults) == (JobState.RUNNING, (), 0)
    refused, _ = world.manager.jobs.status("second").attempts
    assert refused.outcome is AttemptOutcome.OTHER_QUOTA


def test_the_back_off_doubles_while_the_quota_refuses():
    world = filled(quotas={SPOT_QUOTA: 1}, limits={})
    submit(world, "held", **SPOT)
    world.deliver()
    submit(world, "job", **SPOT)
    world.client.stop_training_job(TrainingJobName="ordinary")
    world.deliver()
    began = creates(world)
    for seconds in (30, 60, 120):
        world.later(seconds - 1)
        assert world.job("job").state is JobState.BACKOFF
        world.later(1)
    assert creates(world) == began + 3


@pytest.mark.parametrize(("quota", "fields"), [(SPOT_QUOTA, SPOT), (PROCESSING, RULES)])
def test_a_quota_of_0_fails_the_job_with_the_sentence(quota: str, fields: dict[str, Any]):
    world = filled(quotas={quota: 0})
    submit(world, "job", retries="3", **fields)
    world.deliver()
    job = world.job("job")
    assert (job.state, job.cause, job.retries) == (JobState.FAILED, "other_quota", 3)
    assert f"'{quota}' is 0 Instances" in job.message
    assert health(world) == HEALTHY


def test_the_job_tries_its_other_pools_at_once():
    other = replace(pool("q"), instance_type="ml.c5.xlarge")
    world = QueueWorld(pool("p"), other)
    world.plane.knobs.quotas = {SPOT_QUOTA: 0}
    submit(world, "job", pools="p,q", **SPOT)
    world.deliver()
    job = world.job("job")
    assert (job.state, job.attempt and job.attempt.pool) == (JobState.RUNNING, "q")
    assert health(world, "p") == health(world, "q") == HEALTHY


def test_a_job_fails_only_if_every_pool_refuses_it_with_a_quota_of_0():
    other = replace(pool("q"), instance_type="ml.c5.xlarge")
    world = QueueWorld(pool("p"), other, runtime=10_000_000)
    quotas = {SPOT_QUOTA: 0, "ml.c5.xlarge for spot training job usage": 1}
    world.plane.knobs.quotas = quotas
    submit(world, "holds", pools="q", **SPOT)
    world.deliver()
    world.store.configuration.change(
        (pool("p"), replace(other, capacity=Demand(slots=2))), who="t", now=0
    )
    submit(world, "job", pools="p,q", **SPOT)
    world.deliver()
    job = world.job("job")
    assert (job.state, job.refused_in, job.denied_in) == (JobState.BACKOFF, ("q", "p"), ("p",))
    world.plane.knobs.quotas = dict.fromkeys(quotas, 0)
    world.later(30)
    assert world.job("job").state is JobState.FAILED


def beside_a_full_pool(priority: int) -> QueueWorld:
    """Pool p is empty, but its spot quota is 0; in q runs a job of priority 3."""
    other = replace(pool("q"), instance_type="ml.c5.xlarge")
    world = QueueWorld(pool("p"), other, runtime=10_000_000)
    world.plane.knobs.quotas = {SPOT_QUOTA: 0}
    submit(world, "ordinary", by="ben", priority=3, pools="q")
    world.deliver()
    submit(world, "job", priority=priority, pools="p,q", **SPOT)
    world.deliver()
    return world


def test_the_job_may_evict_in_its_other_pools_though_one_that_refused_it_is_free():
    world = beside_a_full_pool(priority=5)
    assert world.job("job").attempt.pool == "q"
    assert world.job("ordinary").evictions == 1


def test_the_job_keeps_its_place_in_the_line_of_its_other_pools():
    """It tries the pool that refused it again after a while, not again and again."""
    world = beside_a_full_pool(priority=3)
    assert world.job("job").state is JobState.PENDING
    assert "is 0 Instances" in world.job("job").message
    began = creates(world)
    world.later(NO_EVICTION_FOR / 1000 - 1)
    assert creates(world) == began
    assert world.manager.passes.run().wake_at == world.clock.now() + 1_000
    world.later(1)
    assert (creates(world), world.job("job").state) == (began + 1, JobState.BACKOFF)
    world.client.stop_training_job(TrainingJobName="ordinary")
    world.deliver()
    world.later(30)
    assert world.job("job").attempt.pool == "q"


def test_a_sentence_that_cannot_be_read_counts_as_another_quota():
    world = filled(slots=3)
    world.plane.knobs.turn({"refused_quota": "it's all", "refuse_for_quota": 1})
    submit(world, "job")
    world.deliver()
    assert (world.job("job").state, health(world)) == (JobState.BACKOFF, HEALTHY)


def test_a_quota_of_another_type_concerns_the_job_alone():
    """SageMaker also asks the quotas of other types that a request names."""
    world, other = filled(), "ml.p5.48xlarge for training job usage"
    world.plane.knobs.turn({"refused_quota": other, "refuse_for_quota": 1})
    submit(world, "job")
    world.deliver()
    assert (world.job("job").state, health(world)) == (JobState.BACKOFF, HEALTHY)


def test_every_pool_backs_off_after_a_quota_of_all_training_jobs():
    other = replace(pool("q", slots=3), instance_type="ml.c5.xlarge")
    world = QueueWorld(pool("p", slots=3), other, runtime=10_000_000)
    world.plane.knobs.quotas = {ALL_TRAINING: 1}
    submit(world, "first", pools="p")
    world.deliver()
    submit(world, "second", pools="p")
    world.deliver()
    assert world.job("second").state is JobState.PENDING
    for name in ("p", "q"):
        assert health(world, name).errors == 1
        assert health(world, name).not_before == world.clock.now() + 30_000
        assert health(world, name).learned is None
    world.plane.knobs.quotas = {}
    world.later(30)
    assert world.job("second").state is JobState.RUNNING


def refused_before_a_full_pool() -> QueueWorld:
    """A job with a high priority waits after a refusal, and its pool is full again."""
    world = filled(slots=1, quotas={PROCESSING: 0})
    world.plane.knobs.turn({"quotas": {}, "refuse_for_quota": 1})
    submit(world, "high", priority=9)
    world.deliver()
    world.later(0)
    assert world.job("high").state is JobState.BACKOFF
    assert world.job("ordinary").state is JobState.RUNNING, "it was evicted, and is back"
    world.later(30)
    return world


def test_nobody_is_evicted_again_for_a_refused_job():
    world = refused_before_a_full_pool()
    why = world.manager.jobs.status("high").reason
    assert isinstance(why, QuotaRefused)
    assert (why.pool, why.needed, why.free) == ("p", 1, 0)
    assert PROCESSING in why.cause
    assert world.job("ordinary").evictions == 1
    world.later(NO_EVICTION_FOR / 1000 - 1)
    assert world.job("ordinary").evictions == 1
    world.later(1)
    assert world.job("high").state is JobState.RUNNING


def test_a_refused_job_takes_the_first_free_slots():
    world = refused_before_a_full_pool()
    submit(world, "middle", priority=5)
    world.client.stop_training_job(TrainingJobName=world.job("ordinary").attempt.training_job)
    world.deliver()
    assert world.job("high").state is JobState.RUNNING
    assert world.job("middle").state is JobState.PENDING


def test_no_pool_drains_for_a_refused_job():
    world = QueueWorld(pool(slots=2, reserve_after=0), runtime=100_000)
    world.plane.knobs.refuse_for_quota = 1
    submit(world, "large", slots=2)
    world.deliver()
    submit(world, "small")
    world.deliver()
    world.later(30)
    assert world.job("large").state is JobState.PENDING
    submit(world, "another", by="ben")
    world.deliver()
    assert world.job("another").state is JobState.RUNNING


def test_an_operator_makes_the_queue_forget_a_learned_limit():
    world = QueueWorld(pool(slots=4), runtime=10_000_000)
    world.plane.knobs.limits = {INSTANCE_TYPE: 2}
    for n in range(4):
        submit(world, f"job{n}")
    world.deliver()
    assert health(world).learned == 2
    world.plane.knobs.limits = {}
    world.later(60)
    assert sorted(world.states().values()) == ["pending", "pending", "running", "running"]
    world.manager.configuration.set_pool("p", {"forget_limit": True}, by="ann")
    assert health(world) == HEALTHY
    world.deliver()
    assert sorted(world.states().values()) == ["running"] * 4


@pytest.mark.parametrize("slots", [4, 5])
def test_setting_the_slots_forgets_a_learned_limit(slots: int):
    world = QueueWorld(pool(slots=4))
    world.store.health.set("p", PoolHealth(learned=1, learned_until=world.clock.now() + 1))
    woken = world.woken
    world.manager.configuration.set_pool("p", {"slots": slots}, by="ann")
    assert health(world) == HEALTHY
    assert world.woken > woken


def test_other_settings_forget_nothing():
    world = QueueWorld(pool(slots=4))
    learned = PoolHealth(learned=1, learned_until=world.clock.now() + 1)
    world.store.health.set("p", learned)
    world.manager.configuration.set_pool("p", {"min_runtime": 5}, by="ann")
    assert health(world) == learned


def test_of_a_job_over_several_pools_the_one_of_the_named_type_learns():
    other = replace(pool("q", slots=4), instance_type="ml.c5.xlarge")
    world = QueueWorld(pool("p", slots=2), other, runtime=10_000_000)
    world.plane.knobs.limits = {"ml.c5.xlarge": 2}
    groups = [
        {"InstanceGroupName": "heads", "InstanceType": INSTANCE_TYPE, "InstanceCount": 1},
        {"InstanceGroupName": "workers", "InstanceType": "ml.c5.xlarge", "InstanceCount": 3},
    ]
    submit(world, "wide", ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 1})
    world.deliver()
    assert world.job("wide").state is JobState.PENDING
    assert health(world, "p") == HEALTHY
    assert (health(world, "q").errors, health(world, "q").learned) == (1, 2)
    world.manager.configuration.set_pool("q", {"forget_limit": True}, by="ann")
    world.plane.knobs.turn({"limits": {}, "quotas": {PROCESSING: 0}})
    world.deliver()
    assert world.job("wide").state is JobState.RUNNING


def test_a_job_over_several_pools_backs_off_and_fails_as_a_whole():
    other = replace(pool("q", slots=4), instance_type="ml.c5.xlarge")
    world = QueueWorld(pool("p", slots=2), other)
    world.plane.knobs.refuse_for_quota = 1
    groups = [
        {"InstanceGroupName": "heads", "InstanceType": INSTANCE_TYPE, "InstanceCount": 1},
        {"InstanceGroupName": "workers", "InstanceType": "ml.c5.xlarge", "InstanceCount": 3},
    ]
    resources = {"InstanceGroups": groups, "VolumeSizeInGB": 1}
    submit(world, "wide", ResourceConfig=resources, **RULES)
    world.deliver()
    job = world.job("wide")
    assert (job.state, set(job.refused_in)) == (JobState.BACKOFF, {"p", "q"})
    world.plane.knobs.quotas = {PROCESSING: 0}
    world.later(30)
    assert world.job("wide").state is JobState.FAILED
    assert health(world, "p") == health(world, "q") == HEALTHY


def test_a_gang_waits_with_its_refused_member():
    world = QueueWorld(pool(slots=2), runtime=10_000_000)
    world.plane.knobs.turn({"refuse_for_quota": 1, "match": "a"})
    world.submit_group("gang", request("a"), request("b"))
    submit(world, "other")
    world.deliver()
    assert world.job("a").state is JobState.BACKOFF
    assert world.job("b").state in {JobState.PENDING, JobState.PREEMPTED}
    assert (world.job("other").state, health(world)) == (JobState.RUNNING, HEALTHY)
    world.client.stop_training_job(TrainingJobName="other")
    world.deliver()
    world.later(30)
    assert {name: world.job(name).state for name in "ab"} == dict.fromkeys("ab", JobState.RUNNING)


ATTEMPT = Attempt(
    number=1, training_job="job", token="t", pool="a", instance_type="ml.a", admitted_at=0
)
IN_PARTS = replace(ATTEMPT, instance_types=("ml.a", "ml.b"))
JOB = Job(
    name="job",
    state=JobState.STARTING,
    priority=0,
    entry_time=0,
    demand=Demand(slots=1),
    pools=("a",),
)
TWO_PARTS = replace(JOB, pools=("a", "b"), parts=(("a", Demand(slots=1)), ("b", Demand(slots=1))))


@pytest.mark.parametrize(
    ("quota", "attempt", "job", "own", "pools"),
    [
        (None, ATTEMPT, JOB, False, ("a",)),
        (ServiceQuota(limit=2, instance_type="ml.a"), ATTEMPT, JOB, False, ("a",)),
        (ServiceQuota(limit=2, instance_type="ml.b"), IN_PARTS, TWO_PARTS, False, ("b",)),
        (ServiceQuota(limit=2, instance_type="ml.a"), IN_PARTS, TWO_PARTS, False, ("a",)),
        (ServiceQuota(limit=2, all_training=True), ATTEMPT, JOB, False, None),
        (ServiceQuota(limit=2, instance_type="ml.c"), IN_PARTS, TWO_PARTS, True, None),
        (ServiceQuota(limit=2), ATTEMPT, JOB, True, None),
    ],
)
def test_a_quota_concerns_what_it_names(
    quota: ServiceQuota | None,
    attempt: Attempt,
    job: Job,
    own: bool,
    pools: tuple[str, ...] | None,
):
    assert is_of_the_job(quota, attempt) is own
    if not own:
        assert pools_concerned(quota, attempt, job) == pools


def test_a_pool_learns_only_from_the_quota_of_its_own_type():
    mine = ServiceQuota(limit=2, instance_type=INSTANCE_TYPE)
    assert limit_of(pool(), mine) == 2
    assert limit_of(replace(pool(), instance_type="ml.p5.48xlarge"), mine) is None
    assert limit_of(pool(), ServiceQuota(limit=2, all_training=True)) is None
    assert limit_of(pool(), None) is None


def test_a_job_that_runs_is_not_moved_to_a_pool_that_refused_it():
    """There it would be refused again, evict the job that it made room for, and be moved again."""
    other = replace(pool("q", slots=1), instance_type="ml.c5.xlarge")
    world = QueueWorld(replace(pool("p", slots=1), consolidate=True), other, runtime=10_000_000)
    world.plane.knobs.quotas = {"ml.c5.xlarge for spot training job usage": 0}
    submit(world, "job", pools="q,p", priority="5", **SPOT)
    world.deliver()
    job = world.job("job")
    assert (job.state, job.refused_in, job.denied_in) == (JobState.RUNNING, ("q",), ("q",))
    submit(world, "small", by="ben", pools="p")
    world.deliver()
    assert world.states() == {"job": "running", "small": "pending"}
    submit(world, "first", by="ben", pools="p", priority="9")
    world.deliver()
    assert world.states() == {"job": "preempted", "small": "pending", "first": "running"}
