"""Pools that are bought as spot: which requests mean them, the request that starts there, and what
a refusal by a quota teaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq.output.pool_tables import instances
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.errors import CheckpointsRequired, InvalidRequest, PoolInUse
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import HEALTHY, CapacityKind, CheckpointRule, Pool
from slotq_core.operations.amend import Amendment
from slotq_core.operations.reconcile import foreign_use
from slotq_core.ports.training import Sighting
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.views.pools import pool_view
from tests.queue_world import INSTANCE_TYPE, QueueWorld, pool, request
from tests.unit.test_amend import revising

OTHER_TYPE = "ml.c5.xlarge"
HOUR = 3_600_000
ASKED = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 1_000, "MaxWaitTimeInSeconds": 1_500},
}
SAVED = "s3://bucket/saved"
SPOT_QUOTA = f"{INSTANCE_TYPE} for spot training job usage"
ON_DEMAND_QUOTA = f"{INSTANCE_TYPE} for training job usage"
WARM_QUOTA = f"{INSTANCE_TYPE} for training warm pool usage"


def spot(name: str = "s", slots: int = 2, **fields: Any) -> Pool:
    return pool(name, slots, capacity_kind=CapacityKind.SPOT, **fields)


def submit(world: QueueWorld, name: str = "job", by: str = "ann", **more: Any) -> Any:
    """Submit a job with checkpoints; keys in capitals are fields of the request."""
    fields = {key: value for key, value in more.items() if key[0].isupper()}
    tags = {key: value for key, value in more.items() if key not in fields}
    body = {**request(name, **{"checkpoints": SAVED, **tags}), **fields}
    submission, parsed = parse_submission(body)
    return world.manager.submissions.submit(submission, parsed, submitter=by)


def sent(world: QueueWorld, training_job: str) -> dict[str, Any]:
    """The request that SageMaker got."""
    found = world.plane.job(training_job)
    assert found is not None
    return found.request


# --- which pools a request means ---

CHOSEN = [
    # the fields and tags, and the pools of the job
    ({}, ("p",)),
    ({"EnableManagedSpotTraining": False}, ("p",)),
    (ASKED, ("s", "t")),
    ({"pools": "t"}, ("t",)),
    ({"pools": "p,s"}, ("p", "s")),
    ({**ASKED, "pools": "t,s"}, ("t", "s")),
]


@pytest.mark.parametrize(("wanted", "pools"), CHOSEN)
def test_a_request_means_the_pools_that_are_bought_as_it_says(wanted, pools):
    world = QueueWorld(pool("p"), spot("s"), spot("t"))
    submit(world, **wanted)
    assert world.job("job").pools == pools


OF_OTHER_TYPE = {"InstanceType": OTHER_TYPE, "InstanceCount": 1, "VolumeSizeInGB": 1}
TAG_AGAINST_TRUE = (
    "the request asks for spot instances (EnableManagedSpotTraining), and the tag 'slotq:pools' "
    "names p (ml.m5.large, on demand): leave EnableManagedSpotTraining out, and each pool decides, "
    "or name pools that are spot: s (ml.m5.large, spot)"
)
TAG_AGAINST_FALSE = (
    "the request asks for no spot instances (EnableManagedSpotTraining is false), and the tag "
    "'slotq:pools' names s (ml.m5.large, spot)"
)
NONE_ON_DEMAND = (
    f"no pool on demand has instance type '{OTHER_TYPE}', and the request does not ask for spot "
    "instances: set EnableManagedSpotTraining to true, or leave it out and name the pool in the "
    f"tag 'slotq:pools': c ({OTHER_TYPE}, spot)"
)
REFUSED = [
    # the fields and tags, and what the refusal says
    ({**ASKED, "pools": "s,p"}, TAG_AGAINST_TRUE),
    ({"EnableManagedSpotTraining": False, "pools": "s"}, TAG_AGAINST_FALSE),
    ({"ResourceConfig": OF_OTHER_TYPE}, NONE_ON_DEMAND),
    ({"EnableManagedSpotTraining": False, "ResourceConfig": OF_OTHER_TYPE}, NONE_ON_DEMAND),
]


@pytest.mark.parametrize(("wanted", "said"), REFUSED)
def test_a_contradiction_is_refused_with_both_sides(wanted, said):
    world = QueueWorld(pool("p"), spot("s"), replace(spot("c"), instance_type=OTHER_TYPE))
    with pytest.raises(InvalidRequest) as refused:
        submit(world, **wanted)
    assert said in refused.value.message
    assert world.states() == {}


def test_a_request_for_spot_that_fits_no_spot_pool_is_refused_with_those_that_there_are():
    world = QueueWorld(pool("p"), replace(spot("c"), instance_type=OTHER_TYPE))
    with pytest.raises(InvalidRequest) as refused:
        submit(world, **ASKED)
    assert refused.value.message == (
        "the request asks for spot instances (EnableManagedSpotTraining), and no spot pool has "
        f"instance type 'ml.m5.large'; the spot pools are c ({OTHER_TYPE}, spot)"
    )
    assert refused.value.field == "EnableManagedSpotTraining"


def test_a_job_with_a_training_plan_is_refused_in_a_spot_pool():
    world = QueueWorld(pool("p"), spot("s"))
    plan = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/one"
    submission, body = parse_submission(request("job", pools="s", checkpoints=SAVED))
    with pytest.raises(InvalidRequest, match="a plan's capacity is no spot capacity"):
        world.manager.submissions.submit(replace(submission, plan=plan), body, submitter="ann")


def test_without_spot_pools_a_request_for_spot_runs_as_it_is_with_a_warning():
    world = QueueWorld(pool("p"))
    answer = submit(world, checkpoints="", **ASKED)
    (warning,) = [text for text in answer.notices if text.startswith("EnableManagedSpotTraining")]
    assert "no pool here is spot" in warning and "0.4" in warning
    world.deliver()
    asked = sent(world, "job")
    assert asked["EnableManagedSpotTraining"] is True
    assert asked["StoppingCondition"] == ASKED["StoppingCondition"]


def test_such_a_job_can_be_changed_after_the_queue_has_got_a_spot_pool():
    world = QueueWorld(pool("p"))
    submit(world, "holds", by="ben")
    submit(world, "named", pools="p", **ASKED)
    submit(world, "unnamed", **ASKED)
    world.deliver()
    world.store.configuration.change((pool("p"), spot("s")), who="t", now=0)
    for name in ("named", "unnamed"):
        change = Amendment(revise=revising({"priority": "3"}))
        world.manager.changes.amend(name, change, by="ann")
        assert (world.job(name).priority, world.job(name).pools) == (3, ("p",))
    change = Amendment(revise=revising({"slotq:pools": "s,p"}))
    with pytest.raises(InvalidRequest, match="names p"):
        world.manager.changes.amend("named", change, by="ann")


# --- the request that starts there ---


def test_the_request_is_rewritten_for_the_pool_of_each_attempt():
    """The job names both kinds: on demand nothing is changed, as spot the pool decides."""
    world = QueueWorld(pool("p"), spot("s", 1, spot_wait=HOUR), runtime=10_000_000)
    condition = {"MaxRuntimeInSeconds": 7_200}
    submit(world, "job", pools="p,s", StoppingCondition=condition, preemptible="true")
    world.deliver()
    first = sent(world, "job")
    assert "EnableManagedSpotTraining" not in first
    assert first["StoppingCondition"] == condition
    world.later(600)
    submit(world, "higher", by="ben", priority=5, pools="p")
    world.deliver()
    world.deliver()
    job = world.job("job")
    assert (job.state, job.attempt.pool) == (JobState.RUNNING, "s")
    second = sent(world, job.attempt.training_job)
    assert second["EnableManagedSpotTraining"] is True
    left = 7_200 - job.ran // 1000
    assert second["StoppingCondition"] == {
        "MaxRuntimeInSeconds": left,
        "MaxWaitTimeInSeconds": left + 3_600,
    }


WAITS = [
    # the pool's spot_wait (s), the job's condition, and the maximum wait
    (0, {"MaxRuntimeInSeconds": 1_000}, 1_000),
    (60, {"MaxRuntimeInSeconds": 1_000}, 1_060),
    (60, {}, 86_460),
    (600, {"MaxRuntimeInSeconds": 1_000, "MaxWaitTimeInSeconds": 1_500}, 1_500),
    (60, {"MaxRuntimeInSeconds": 1_000, "MaxWaitTimeInSeconds": 1_500}, 1_060),
]


@pytest.mark.parametrize(("wait", "condition", "longest"), WAITS)
def test_the_maximum_wait_is_the_pools_and_at_most_the_jobs_own(wait, condition, longest):
    world = QueueWorld(spot(spot_wait=1000 * wait))
    own = "MaxWaitTimeInSeconds" in condition
    asked = {"EnableManagedSpotTraining": True} if own else {"pools": "s"}
    submit(world, **asked, StoppingCondition=condition)
    world.deliver()
    assert sent(world, "job")["StoppingCondition"]["MaxWaitTimeInSeconds"] == longest


def test_spot_instances_are_not_kept_warm():
    world = QueueWorld(spot())
    resources = {**request("job")["ResourceConfig"], "KeepAlivePeriodInSeconds": 60}
    submit(world, pools="s", ResourceConfig=resources)
    world.deliver()
    assert "KeepAlivePeriodInSeconds" not in sent(world, "job")["ResourceConfig"]


# --- no checkpoint, no spot ---


@pytest.mark.parametrize("rule", [CheckpointRule.WARN, CheckpointRule.REQUIRE])
@pytest.mark.parametrize("preemptible", ["true", "false"])
def test_a_job_without_checkpoints_is_refused(rule, preemptible):
    world = QueueWorld(pool("p"), spot(checkpoints=rule))
    with pytest.raises(CheckpointsRequired) as refused:
        submit(world, checkpoints="", pools="p,s", preemptible=preemptible)
    assert "pool s takes only jobs with checkpoints, because s is spot" in refused.value.message
    assert refused.value.message.endswith("or only other pools: slotq:pools=p")


def test_or_it_is_given_a_place():
    world = QueueWorld(spot(checkpoints=CheckpointRule.PROVIDE))
    submit(world, checkpoints="", pools="s", preemptible="false")
    world.deliver()
    assert "slotq-checkpoints/job" in sent(world, "job")["CheckpointConfig"]["S3Uri"]


def test_where_no_place_can_be_given_the_advice_is_one_that_helps():
    """Whether the job is preemptible does not matter in a spot pool."""
    world = QueueWorld(spot(checkpoints=CheckpointRule.PROVIDE))
    output = {"S3OutputPath": "s3://bucket/" + "x" * 1_000}
    with pytest.raises(CheckpointsRequired) as refused:
        submit(world, checkpoints="", pools="s", OutputDataConfig=output)
    assert "give the request a CheckpointConfig" in refused.value.message
    assert "preemptible" not in refused.value.message


# --- what a refusal teaches ---


def limited(quota: str, limit: int, pools: str) -> QueueWorld:
    """A pool of each kind; a job in one of them is refused by the quota."""
    world = QueueWorld(pool("p", 3), spot("s", 3), runtime=10_000_000)
    world.plane.knobs.turn({"quotas": {quota: limit}})
    submit(world, "first", pools=pools)
    world.deliver()
    submit(world, "second", pools=pools)
    world.deliver()
    return world


def test_a_spot_pool_learns_its_size_from_the_spot_quota_of_its_type_alone():
    world = limited(SPOT_QUOTA, 1, "s")
    learned = world.store.health.pool("s").health
    assert (learned.errors, learned.learned) == (1, 1)
    assert world.store.health.pool("p").health == HEALTHY
    assert world.job("second").state is JobState.PENDING
    submit(world, "other", by="ben", pools="p")
    world.deliver()
    assert world.job("other").state is JobState.RUNNING


def test_a_pool_on_demand_learns_its_size_from_its_own_quota_alone():
    world = limited(ON_DEMAND_QUOTA, 1, "p")
    assert world.store.health.pool("p").health.learned == 1
    assert world.store.health.pool("s").health == HEALTHY


@pytest.mark.parametrize(
    ("quota", "pools"),
    [(WARM_QUOTA, "s"), (WARM_QUOTA, "p"), (SPOT_QUOTA, "p"), (ON_DEMAND_QUOTA, "s"), ("?", "s")],
)
def test_any_other_quota_concerns_the_job_alone(quota, pools):
    world = QueueWorld(pool("p"), spot("s"))
    world.plane.knobs.turn({"refused_quota": quota, "refuse_for_quota": 1})
    submit(world, pools=pools)
    world.deliver()
    assert (world.job("job").state, world.job("job").cause) == (JobState.BACKOFF, "other_quota")
    (attempt,) = world.manager.jobs.status("job").attempts
    assert attempt.outcome is AttemptOutcome.OTHER_QUOTA
    for name in ("p", "s"):
        assert world.store.health.pool(name).health == HEALTHY


def test_foreign_training_jobs_count_in_the_pool_that_is_bought_like_them():
    pools = [pool("p", count_foreign=True), spot("s", count_foreign=True)]
    seen = [
        Sighting(
            training_job="a", ours=False, instance_type=INSTANCE_TYPE, instances=2, first_seen=0
        ),
        Sighting(
            training_job="b",
            ours=False,
            instance_type=INSTANCE_TYPE,
            instances=3,
            capacity_kind=CapacityKind.SPOT,
            first_seen=0,
        ),
    ]
    assert {p.name: used.slots for p, used in foreign_use(pools, seen)} == {"p": 2, "s": 3}


# --- the setting ---


def test_a_pool_that_jobs_accept_does_not_change_its_kind():
    world = QueueWorld(pool("p"), pool("q"))
    operator = world.manager.configuration
    submit(world, "job", pools="p")
    with pytest.raises(PoolInUse, match="pool p cannot become spot: 1 job accepts it as it is"):
        operator.set_pool("p", {"capacity_kind": "spot"}, by="op")
    operator.set_pool("q", {"capacity_kind": "spot", "spot_wait": 60}, by="op")
    kept = world.store.configuration.pools()[1]
    assert (kept.capacity_kind, kept.spot_wait) == (CapacityKind.SPOT, 60_000)


WRONG = [
    ({"capacity_kind": "spot", "spot_wait": -1}, "spot_wait"),
    ({"capacity_kind": "cheap"}, "capacity_kind"),
    ({"capacity_kind": "spot", "nodes": {"gpus": 8}}, "nodes"),
]


@pytest.mark.parametrize(("settings", "field"), WRONG)
def test_wrong_settings_are_refused_by_name(settings, field):
    world = QueueWorld(pool("p"))
    with pytest.raises(InvalidRequest) as refused:
        world.manager.configuration.set_pool("p", settings, by="op")
    assert refused.value.field == field


# --- spot's life ---


def play(world: QueueWorld, *seconds: float) -> None:
    for step in seconds:
        world.later(step)


def test_spot_that_never_comes_sends_the_job_to_its_next_pool():
    world = QueueWorld(spot("s", 1, spot_wait=60_000), pool("p"), runtime=30_000)
    world.plane.knobs.turn({"stick_spot": 1})
    submit(world, pools="s,p", retries="1", StoppingCondition={"MaxRuntimeInSeconds": 100})
    world.deliver()
    world.later(159)
    assert world.job("job").state is JobState.STARTING
    play(world, 1, 0)
    job = world.job("job")
    assert (job.state, job.attempt.pool, job.retries) == (JobState.RUNNING, "p", 1)
    first, _ = world.manager.jobs.status("job").attempts
    assert (first.outcome, first.running_since) == (AttemptOutcome.NO_CAPACITY, None)
    assert "maximum wait time" in first.message
    assert world.store.health.pool("s").health.errors == 1


def test_with_no_other_pool_it_goes_back_to_its_place():
    world = QueueWorld(spot("s", 1), runtime=30_000)
    world.plane.knobs.turn({"stick_spot": 1})
    submit(world, pools="s", StoppingCondition={"MaxRuntimeInSeconds": 100})
    submit(world, "later", by="ben", pools="s")
    world.deliver()
    play(world, 100, 0)
    assert world.states() == {"job": "pending", "later": "pending"}
    play(world, 30)
    assert world.states() == {"job": "running", "later": "pending"}


def test_spot_that_comes_late_is_no_fault():
    world = QueueWorld(spot("s", 1, spot_wait=600_000), runtime=30_000)
    world.plane.knobs.turn({"spot_seconds": 500})
    submit(world, pools="s", StoppingCondition={"MaxRuntimeInSeconds": 100})
    world.deliver()
    play(world, 499)
    assert world.states() == {"job": "starting"}
    play(world, 1, 30)
    assert world.states() == {"job": "completed"}


def test_an_interruption_is_told_and_costs_no_retry_and_no_running_time():
    world = QueueWorld(spot("s", 1, spot_wait=HOUR), runtime=100_000)
    world.plane.knobs.turn({"interrupt_spot": 1, "interrupt_after": 40, "spot_seconds": 200})
    submit(world, pools="s", retries="1", StoppingCondition={"MaxRuntimeInSeconds": 120})
    world.deliver()
    play(world, 200)
    began = world.clock.now()
    assert world.job("job").attempt.running_since == began
    play(world, 40)
    job = world.job("job")
    assert (job.state, job.attempt.running_since) == (JobState.RUNNING, None)
    assert (job.attempt.interrupted_since, job.attempt.ran_before) == (began + 40_000, 40_000)
    assert "interrupted" in job.message
    play(world, 200)
    job = world.job("job")
    assert (job.message, job.attempt.interruptions) == ("", 1)
    assert job.attempt.running_since == began + 200_000
    play(world, 60)
    job = world.job("job")
    assert (job.state, job.retries, job.ran) == (JobState.COMPLETED, 1, 100_000)
    (attempt,) = world.manager.jobs.status("job").attempts
    assert attempt.interruptions == 1
    assert attempt.ended_at == (attempt.running_since or 0) + 100_000


def test_what_never_comes_back_waits_again_with_what_it_ran():
    world = QueueWorld(spot("s", 1), pool("p"), runtime=100_000)
    world.plane.knobs.turn({"interrupt_spot": 1, "interrupt_after": 40})
    submit(world, pools="s,p", StoppingCondition={"MaxRuntimeInSeconds": 300})
    world.deliver()
    world.plane.knobs.turn({"stick_spot": 1})
    play(world, 40, 260, 0)
    job = world.job("job")
    assert (job.state, job.attempt.pool, job.ran) == (JobState.RUNNING, "p", 40_000)
    second = sent(world, job.attempt.training_job)
    assert second["StoppingCondition"]["MaxRuntimeInSeconds"] == 260
    play(world, 60)
    assert world.states() == {"job": "completed"}


def test_an_interrupted_job_can_be_cancelled():
    world = QueueWorld(spot("s", 1, spot_wait=HOUR), runtime=100_000)
    world.plane.knobs.turn({"interrupt_spot": 1, "interrupt_after": 40})
    submit(world, pools="s")
    world.deliver()
    world.plane.knobs.turn({"stick_spot": 1})
    play(world, 40, 100)
    world.manager.changes.cancel("job", by="ann")
    world.deliver()
    world.later(0)
    assert (world.states(), world.job("job").ran) == ({"job": "cancelled"}, 40_000)


def test_news_that_come_late_or_twice_change_nothing():
    world = QueueWorld(spot("s", 1, spot_wait=HOUR), runtime=100_000)
    world.plane.knobs.turn({"interrupt_spot": 1, "interrupt_after": 40})
    submit(world, pools="s")
    world.deliver()
    before = observation_of(world.plane.job("job").description(), at=world.clock.now())
    world.plane.knobs.turn({"stick_spot": 1})
    play(world, 40)
    lost = observation_of(world.plane.job("job").description(), at=world.clock.now())
    assert (before.interrupted, lost.interrupted) == (False, True)
    waits = world.job("job")
    for seen in (before, lost, before):
        world.manager.observe(seen)
        assert world.job("job") == waits


def test_the_table_of_pools_says_which_are_spot():
    def shown(of: Pool) -> str:
        return instances(pool_view(of, now=0, size=of.capacity, used=of.capacity))

    assert shown(spot()) == "ml.m5.large (spot)"
    assert shown(pool()) == "ml.m5.large"
