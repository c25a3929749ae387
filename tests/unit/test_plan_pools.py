"""Pools of training plans: their size by the plan's windows, which requests mean them, the request
that starts there, and what a plan that goes away does."""

# ruff: noqa: E501 - a row of a table stays one line

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq.cost.instance_prices import InstancePrices
from slotq.cost.used import Used, usage_lines
from slotq.local.training.plan_documents import read_plans
from slotq.output import pool_tables
from slotq_core.errors import InvalidRequest, RightMissing, Unavailable
from slotq_core.model.attempts import AttemptOutcome, StopCause
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.capacity.schedule import SizeCause, slots_at
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import CapacityKind, Pool
from slotq_core.operations.amend import Amendment
from slotq_core.operations.training_plans.looks import others_use
from slotq_core.policy.lifecycle import pool_health
from slotq_core.usage.amounts import Amounts, UsageGroup
from slotq_core.wire.capacity.plan_windows import NOT_READ, schedule_of
from slotq_core.wire.scenario.pages import health_of
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.views.pools import PoolView, pool_view
from tests.queue_world import INSTANCE_TYPE, START, QueueWorld, pool, request
from tests.unit.test_amend import revising

PLACE = "arn:aws:sagemaker:us-east-1:123456789012:training-plan"
ARN = f"{PLACE}/june"
OTHER = f"{PLACE}/july"
MINUTE, HOUR = 60, 3600
LAST_PART = 30 * MINUTE
SAVED = "s3://bucket/saved"


LONG = ((0, 9 * 24 * HOUR, 2),)


def planned(name: str = "plan", slots: int = 2, **fields: Any) -> Pool:
    return pool(name, slots, capacity_kind=CapacityKind.PLAN, **{"plan_arn": ARN, **fields})


class PlanWorld(QueueWorld):
    """With a training plan `june`: windows are (begin, end, instances) in seconds from the start."""

    def __init__(self, *pools: Pool, windows: Any = LONG, **fields: Any) -> None:
        runtime = fields.pop("runtime", 100_000)
        super().__init__(*(pools or (planned(),)), runtime=runtime)
        self.plan(windows=windows, **fields)

    def plan(self, *, windows: Any = LONG, **fields: Any) -> None:
        """Declare the account's only plan."""
        parts = [{"from": start, "to": end, "instances": n} for start, end, n in windows]
        plan = {"name": "june", "instance_type": INSTANCE_TYPE, "windows": parts, **fields}
        self.plane.set_plans(read_plans({"plans": [plan]}, now=START))

    def no_plan(self) -> None:
        self.plane.set_plans([])

    def tick(self, seconds: float = 0) -> tuple[str, ...]:
        """Let time go by, then run a tick. Returns its troubles."""
        self.clock.set(self.clock.now() + round(1000 * seconds))
        self.plane.advance()
        troubles = self.manager.tick().troubles
        self.deliver()
        return troubles

    def send(self, name: str = "job", by: str = "ann", **more: Any) -> Any:
        """Submit a job; keys in capitals are fields of the request."""
        fields = {key: value for key, value in more.items() if key[0].isupper()}
        tags = {key: value for key, value in more.items() if key not in fields}
        submission, parsed = parse_submission({**request(name, **tags), **fields})
        return self.manager.submissions.submit(submission, parsed, submitter=by)

    def sent(self, training_job: str) -> dict[str, Any]:
        found = self.plane.job(training_job)
        assert found is not None
        return found.request

    def facts(self, name: str = "plan") -> PlanFacts:
        found = self.store.health.get(name).plan
        assert found is not None
        return found

    def why(self, name: str = "job") -> str:
        status = self.manager.jobs.status(name)
        assert status.reason is not None
        return status.reason.sentence()

    def described(self) -> int:
        return self.plane.calls["DescribeTrainingPlan"]


def resources(arn: str = "", **more: Any) -> dict[str, Any]:
    named = {"TrainingPlanArn": arn} if arn else {}
    return {"ResourceConfig": {**request("job")["ResourceConfig"], **named, **more}}


# --- the size of the pool ---


def facts(*windows: tuple[int, int, int], **fields: Any) -> PlanFacts:
    shown = [PlanWindow(begins=a, ends=b, slots=n) for a, b, n in windows]
    known = {"arn": ARN, "status": PlanStatus.ACTIVE, "instance_type": INSTANCE_TYPE}
    return PlanFacts(windows=tuple(shown), **{**known, **fields})


H, PART = 3_600_000, 1_800_000
SIZES = [
    # slots, grace (minutes), windows in hours, and the slots from each moment (hours) on
    (2, 0, [(1, 5, 2)], {0: 0, 1: 2, 4.5: 0}),
    (2, 10, [(1, 5, 2)], {0: 0, 1: 2, 4.5 - 1 / 6: 0}),
    (2, 0, [(1, 5, 4)], {0: 0, 1: 2, 4.5: 0}),  # never more than the pool's own
    (4, 0, [(1, 5, 2)], {0: 0, 1: 2, 4.5: 0}),
    (2, 0, [(1, 5, 2), (8, 9, 1)], {0: 0, 1: 2, 4.5: 0, 8: 1, 8.5: 0}),
    (2, 0, [(1, 5, 2), (5, 9, 2)], {0: 0, 1: 2, 8.5: 0}),  # extended
    (4, 0, [(1, 5, 2), (2, 9, 2)], {0: 0, 1: 2, 2: 4, 4.5: 2, 8.5: 0}),
    (4, 0, [(1, 5, 2), (5, 9, 1)], {0: 0, 1: 2, 4.5: 0, 5: 1, 8.5: 0}),
    (2, 0, [(1, 1.5, 2), (2, 5, 2)], {0: 0, 2: 2, 4.5: 0}),  # too short to open
    (2, 31, [(1, 2, 2), (3, 5, 2)], {0: 0, 3: 2, 4.5 - 31 / 60: 0}),
]


@pytest.mark.parametrize(("slots", "grace", "windows", "sizes"), SIZES)
def test_the_size_follows_from_the_windows(slots, grace, windows, sizes):
    spans = [(round(a * H), round(b * H), n) for a, b, n in windows]
    health = replace(planned().health, plan=facts(*spans))
    schedule = schedule_of(planned(slots=slots, suspend_grace=grace * 60_000, health=health))
    assert [change.at for change in schedule] == [round(hour * H) for hour in sizes]
    for hour, offered in sizes.items():
        assert slots_at(schedule, round(hour * H), of=slots) == offered
    shrinks = [change for change in schedule[1:] if change.grace or change.slots == 0]
    assert all(change.grace == grace * 60_000 for change in shrinks)
    assert not any(change.keeps for change in schedule)


def test_moments_are_told_in_utc_and_an_end_is_when_the_slots_are_gone():
    windows = facts((START, START + 8 * H, 1))
    pool_ = planned(slots=2, suspend_grace=600_000, health=replace(planned().health, plan=windows))
    _, opens, closes = schedule_of(pool_)
    assert (opens.at, opens.said, opens.cause) == (START, "14:13 UTC, 21 Sep", SizeCause.PLAN)
    assert closes.at == START + 8 * H - PART - 600_000
    assert closes.said == "21:43 UTC, 21 Sep"


UNUSABLE = [
    # what is known, and why nothing may start
    (None, NOT_READ),
    (facts((0, H, 1), arn=OTHER), NOT_READ),
    (
        facts(status=PlanStatus.UNREAD, message="no right"),
        "SageMaker does not say what its training plan june has: no right",
    ),
    (
        facts(status=PlanStatus.NOT_FOUND),
        "SageMaker knows no training plan june in this account and region",
    ),
    (
        facts((0, H, 1), status=PlanStatus.EXPIRED),
        "its training plan june expired at 01:00 UTC, 1 Jan",
    ),
    (
        facts(status=PlanStatus.FAILED, message="no {payment}"),
        "its training plan june has failed: no {payment}",
    ),
    (
        facts(status=PlanStatus.PENDING),
        "its training plan june is still pending, so it is not paid yet",
    ),
    (
        facts((0, H, 1), for_training=False),
        "its training plan june is not for training jobs: its TargetResources do not name training-job",
    ),
    (
        facts((0, H, 1), instance_type="ml.p5.48xlarge"),
        "its training plan june has ml.p5.48xlarge, and the pool ml.m5.large",
    ),
    (facts(), "its training plan june has no reserved capacity"),
]


@pytest.mark.parametrize(("known", "why"), UNUSABLE)
def test_a_plan_that_cannot_be_used_gives_nothing_and_takes_nothing(known, why):
    (change,) = schedule_of(planned(health=replace(planned().health, plan=known)))
    assert (change.at, change.slots, change.keeps, change.why) == (0, 0, True, why)


def test_unhealthy_instances_do_not_count():
    for unhealthy, left in ((1, 1), (5, 0)):
        known = facts((START, START + H, 2), unhealthy=unhealthy)
        shown = planned(health=replace(planned().health, plan=known))
        timed = replace(shown, schedule=schedule_of(shown))
        assert timed.offers(START).slots == 2
        assert timed.size(START).slots == left


# --- the tick's look ---


def test_each_tick_asks_once_and_a_queue_without_plans_never():
    world = PlanWorld(pool("p"), planned())
    for _ in range(3):
        world.tick(MINUTE)
    assert world.described() == 3
    world.later(MINUTE)
    assert world.described() == 3
    without = PlanWorld(pool("p"))
    without.tick(MINUTE)
    assert without.described() == 0


def test_facts_are_stored_only_when_they_have_changed():
    world = PlanWorld()
    world.tick()
    first = world.facts()
    assert (first.status, first.total, first.windows[0].slots) == (PlanStatus.ACTIVE, 2, 2)
    world.tick(MINUTE)
    assert world.facts() == first
    world.plan(unhealthy=1)
    world.tick(MINUTE)
    assert (world.facts().unhealthy, world.facts().read_at) == (1, world.clock.now())


def test_before_the_first_look_nothing_starts_and_why_says_so():
    world = PlanWorld()
    world.send()
    world.deliver()
    assert world.states() == {"job": "pending"}
    assert world.why() == f"pool plan has no slots: {NOT_READ}"
    world.tick()
    assert world.states() == {"job": "running"}


def test_a_look_that_fails_is_told_and_what_was_read_still_counts(monkeypatch):
    world = PlanWorld(planned(slots=3), windows=((0, 9 * 24 * HOUR, 3),))

    def denied(arn: str) -> PlanFacts:
        raise RightMissing(f"DescribeTrainingPlan {arn}: not allowed")

    world.send("early")
    monkeypatch.setattr(world.manager._training, "describe_plan", denied)
    (trouble,) = world.tick()
    assert trouble.startswith("training plan of pool plan: DescribeTrainingPlan")
    assert "does not say what its training plan june has" in world.why("early")
    assert world.facts().status is PlanStatus.UNREAD
    monkeypatch.undo()
    world.tick(MINUTE)
    monkeypatch.setattr(world.manager._training, "describe_plan", denied)
    world.send("late")
    assert world.tick(MINUTE)
    assert world.states() == {"early": "running", "late": "running"}


USES = [
    # in use by the plan's count, counted before, running and starting slots, others' use
    (0, 0, 0, 0, 0),
    (2, 0, 0, 0, 2),
    (2, 0, 2, 0, 0),
    (3, 0, 2, 0, 1),
    (2, 2, 0, 1, 2),  # ours does not show there yet
    (1, 0, 0, 1, 0),  # it does
    (3, 1, 1, 1, 1),
    (1, 2, 0, 0, 1),
    (0, 1, 0, 1, 0),
]


@pytest.mark.parametrize(("in_use", "before", "running", "starting", "others"), USES)
def test_others_use_is_the_plans_count_less_the_queues_own(
    in_use, before, running, starting, others
):
    world = PlanWorld(planned(slots=9), windows=((0, 9 * 24 * HOUR, 9),))
    world.tick()
    for number in range(running + starting):
        world.send(f"job{number}")
    world.deliver()
    active = [world.job(f"job{number}") for number in range(running + starting)]
    assert all(job.attempt.running_since for job in active)
    for number in range(starting):
        bare = replace(active[number].attempt, running_since=None)
        active[number] = replace(active[number], attempt=bare)
    counted = replace(planned(), foreign=Demand(slots=before))
    assert others_use(facts(in_use=in_use), counted, active) == others


def test_what_others_use_of_the_plan_is_not_for_the_queue():
    world = PlanWorld(used_elsewhere=1, runtime=H)
    world.tick()
    world.send("one")
    world.send("two", by="ben")
    world.deliver()
    assert sorted(world.states().values()) == ["pending", "running"]
    world.tick(MINUTE)
    assert world.store.health.pool("plan").foreign.slots == 1
    world.plan()
    world.tick(MINUTE)
    assert sorted(world.states().values()) == ["running", "running"]


def test_a_reconciliation_leaves_what_the_plan_says_of_others():
    world = PlanWorld(planned(count_foreign=True), used_elsewhere=1)
    world.tick()
    world.clock.set(world.clock.now() + 600_000)
    world.another_reconciler().reconcile()
    assert world.store.health.pool("plan").foreign.slots == 1


# --- windows open and close ---


def test_a_plan_that_is_not_open_yet_shows_when_it_will_be():
    world = PlanWorld(windows=((2 * HOUR, 48 * HOUR, 2),))
    world.tick()
    world.send()
    world.deliver()
    assert world.why() == "pool plan opens at 16:13 UTC, 21 Sep"
    assert START + 2 * H in world.wakes_at or world.manager.passes.run().wake_at == START + 2 * H
    world.later(2 * HOUR)
    assert world.states() == {"job": "running"}


def test_a_job_that_saves_is_asked_in_time_and_goes_on_elsewhere():
    """It resumes on demand when the window ends, and is not stopped by SageMaker."""
    world = PlanWorld(
        planned(suspend_grace=600_000), pool("p"), windows=((0, 3 * HOUR, 2),), runtime=50 * H
    )
    world.tick()
    world.send(pools="plan,p", checkpoints=SAVED)
    world.deliver()
    assert world.job("job").attempt.pool == "plan"
    world.later(3 * HOUR - LAST_PART - 11 * MINUTE)
    assert world.job("job").state is JobState.RUNNING
    world.later(MINUTE)
    stop = world.job("job").attempt.stop
    assert (stop.cause, stop.grace_until) == (StopCause.CLOSED, START + 3 * H - PART)
    world.later(11 * MINUTE)
    job = world.job("job")
    assert (job.state, job.attempt.pool, job.attempts) == (JobState.RUNNING, "p", 2)
    assert "TrainingPlanArn" not in world.sent(job.attempt.training_job)["ResourceConfig"]


def test_a_job_that_sagemaker_stops_with_its_plan_waits_again():
    """The queue's own stop may come too late: SageMaker does not wait for a tick."""
    world = PlanWorld(planned(), pool("p"), windows=((0, 3 * HOUR, 2),), runtime=50 * H)
    world.tick()
    world.send(pools="plan,p", checkpoints=SAVED)
    world.deliver()
    assert world.job("job").attempt.pool == "plan"
    world.clock.set(START + 3 * H - PART)
    world.plane.advance()
    assert world.plane.job("job").status == "Stopped"
    world.deliver()
    job, (first, *_) = world.job("job"), world.manager.jobs.status("job").attempts
    assert (job.state, job.evictions) == (JobState.RUNNING, 1)
    assert job.attempt.pool == "p"
    assert first.outcome is AttemptOutcome.EVICTED


def test_a_job_that_somebody_stops_while_its_plan_is_open_has_ended():
    world = PlanWorld(windows=((0, 3 * HOUR, 2),), runtime=50 * H)
    world.tick()
    world.send(checkpoints=SAVED)
    world.deliver()
    world.later(3 * HOUR - LAST_PART - 1)
    world.client.stop_training_job(TrainingJobName="job")
    world.later(0)
    assert world.job("job").state is JobState.STOPPED


def test_what_would_be_cut_off_and_does_not_save_does_not_start():
    world = PlanWorld(windows=((0, 3 * HOUR, 2),))
    world.tick()
    world.send("short", StoppingCondition={"MaxRuntimeInSeconds": 2 * HOUR})
    world.send("long", by="ben", StoppingCondition={"MaxRuntimeInSeconds": 3 * HOUR})
    world.deliver()
    assert world.states() == {"short": "running", "long": "pending"}
    assert "pool plan closes at 16:43 UTC, 21 Sep" in world.why("long")


GONE = [
    # what becomes of the plan, and what is said
    (lambda world: world.no_plan(), "SageMaker knows no training plan june"),
    (lambda world: world.plan(status="Failed"), "has failed"),
    (lambda world: world.plan(instance_type="ml.p5.48xlarge"), "has ml.p5.48xlarge"),
    (lambda world: world.plan(target_resources=["hyperpod-cluster"]), "is not for training jobs"),
]


@pytest.mark.parametrize(("change", "said"), GONE)
def test_a_plan_that_goes_away_ends_and_stops_nothing(change, said):
    world = PlanWorld(planned(), pool("p"), runtime=10 * H)
    world.tick()
    world.send("runs", pools="plan", checkpoints=SAVED)
    world.deliver()
    health = world.store.health.get("plan")
    change(world)
    facts_ = replace(health.plan, **FACTS_OF[said])
    world.store.health.set("plan", replace(health, plan=facts_))
    world.send("waits", by="ben", pools="plan")
    world.send("goes-on", by="cho", pools="plan,p")
    world.deliver()
    assert world.states() == {"runs": "running", "waits": "pending", "goes-on": "running"}
    assert world.job("runs").attempt.stop is None
    assert world.job("goes-on").attempt.pool == "p"
    assert said in world.why("waits")


FACTS_OF: dict[str, dict[str, Any]] = {
    "SageMaker knows no training plan june": {"status": PlanStatus.NOT_FOUND},
    "has failed": {"status": PlanStatus.FAILED},
    "has ml.p5.48xlarge": {"instance_type": "ml.p5.48xlarge"},
    "is not for training jobs": {"for_training": False},
}


def test_a_plan_that_is_gone_is_found_by_the_tick():
    world = PlanWorld()
    world.tick()
    world.no_plan()
    world.tick(MINUTE)
    assert world.facts().status is PlanStatus.NOT_FOUND
    world.plan()
    world.tick(MINUTE)
    assert world.facts().status is PlanStatus.ACTIVE


def test_a_start_that_the_plan_refuses_goes_on_to_the_next_pool():
    """The plan went away between the last look and the start."""
    world = PlanWorld(planned(), pool("p"))
    world.tick()
    world.no_plan()
    world.send("job", pools="plan,p")
    world.deliver()
    job = world.job("job")
    assert job.state is JobState.RUNNING
    assert job.attempt.pool == "p"
    (first, _) = world.manager.jobs.status("job").attempts
    assert first.outcome is AttemptOutcome.OTHER_QUOTA
    assert world.store.health.get("p").errors == 0


def test_a_job_that_waits_for_room_for_two_days_waits_again_and_does_not_end():
    world = PlanWorld(windows=((0, 9 * 24 * HOUR, 2),), used_elsewhere=2)
    known = facts((START, START + 9 * 24 * H, 2))
    world.store.health.set("plan", replace(world.store.health.get("plan"), plan=known))
    world.send("job")
    world.deliver()
    assert world.job("job").state is JobState.STARTING
    world.later(49 * HOUR)
    job = world.job("job")
    assert (job.state, job.cause) == (JobState.PENDING, "no_capacity")
    health = world.store.health.get("plan")
    assert (health.errors, health.plan.arn) == (1, ARN)
    assert health.not_before is not None and health.not_before > world.clock.now()


@pytest.mark.parametrize("kind", ["training job usage", "spot training job usage"])
def test_a_quota_of_another_kind_teaches_the_pool_nothing(kind):
    world = PlanWorld()
    world.tick()
    world.plane.knobs.turn({"refused_quota": f"{INSTANCE_TYPE} for {kind}", "refuse_for_quota": 1})
    known = world.store.health.get("plan")
    world.send()
    world.deliver()
    job = world.job("job")
    assert (job.state, job.cause) == (JobState.BACKOFF, "other_quota")
    assert world.store.health.get("plan") == known


def test_the_outlook_knows_when_the_plan_opens():
    world = PlanWorld(windows=((2 * HOUR, 48 * HOUR, 2),))
    world.tick()
    world.send()
    world.deliver()
    outlook = world.manager.jobs.status("job").outlook
    assert outlook is not None
    assert outlook.earliest == START + 2 * H


def test_what_an_operator_forgets_is_not_the_plan():
    world = PlanWorld()
    world.tick()
    broken = replace(world.store.health.get("plan"), errors=1, not_before=world.clock.now() + H)
    world.store.health.set("plan", broken)
    world.manager.configuration.set_pool("plan", {"forget_limit": True}, by="op")
    assert world.store.health.get("plan") == replace(broken, errors=0, not_before=None)
    after_a_start = pool_health.after_a_start(broken)
    assert (after_a_start.errors, after_a_start.plan) == (0, broken.plan)


# --- the request that starts there ---


def test_the_request_is_rewritten_for_the_pool_of_each_attempt():
    world = PlanWorld(planned(), pool("p"))
    world.tick()
    world.send("here", pools="plan", **resources(KeepAlivePeriodInSeconds=60))
    world.send("there", pools="p")
    world.deliver()
    asked = world.sent("here")["ResourceConfig"]
    assert asked["TrainingPlanArn"] == ARN
    assert "KeepAlivePeriodInSeconds" not in asked
    assert "TrainingPlanArn" not in world.sent("there")["ResourceConfig"]


def test_a_repeated_create_names_the_plan_of_the_start():
    world = PlanWorld()
    world.tick()
    world.send("job")
    world.deliver()
    attempt = world.job("job").attempt
    assert (attempt.plan_arn, attempt.capacity_kind) == (ARN, CapacityKind.PLAN)
    changed = replace(planned(), plan_arn=OTHER)
    world.store.configuration.change((changed,), who="t", now=world.clock.now())
    assert world.job("job").attempt.plan_arn == ARN


# --- which pools a request means ---

SPOT = pool("s", capacity_kind=CapacityKind.SPOT)
ASKED = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60},
}
CHOSEN = [
    # the fields and tags, and the pools of the job
    ({}, ("p",)),
    (resources(ARN), ("plan",)),
    ({"pools": "plan"}, ("plan",)),
    ({"pools": "plan,p"}, ("plan", "p")),
    ({"pools": "plan,p,s"}, ("plan", "p", "s")),
    ({**resources(ARN), "pools": "plan"}, ("plan",)),
    ({"EnableManagedSpotTraining": False, "pools": "plan,p"}, ("plan", "p")),
    ({"EnableManagedSpotTraining": False}, ("p",)),
    (ASKED, ("s",)),
]


@pytest.mark.parametrize(("wanted", "pools"), CHOSEN)
def test_a_request_means_the_pools_that_are_bought_as_it_says(wanted, pools):
    world = PlanWorld(pool("p"), planned(), planned("later", plan_arn=OTHER), SPOT)
    world.send(**{"checkpoints": SAVED, **wanted})
    assert world.job("job").pools == pools


def test_where_its_type_has_only_a_plan_a_request_means_that():
    world = PlanWorld(planned(), replace(pool("p"), instance_type="ml.c5.xlarge"))
    world.send()
    assert world.job("job").pools == ("plan",)


LISTED = "plan (ml.m5.large, a training plan)"
REFUSED = [
    # the fields and tags, and what the refusal says
    (
        {**resources(ARN), "pools": "plan,p"},
        f"the request names the training plan {ARN} (ResourceConfig.TrainingPlanArn), and the tag 'slotq:pools' names p (ml.m5.large, on demand): leave the plan out, and each pool decides, or name the plan's pool: {LISTED}",
    ),
    (
        {**resources(ARN), "pools": "later"},
        f"names later (ml.m5.large, a training plan): leave the plan out, and each pool decides, or name the plan's pool: {LISTED}",
    ),
    (
        resources(f"{PLACE}/none"),
        f"no pool of instance type 'ml.m5.large' that it may use has that plan; the pools of plans are {LISTED}",
    ),
    (
        resources(ARN, InstanceType="ml.c5.xlarge"),
        f"no pool of instance type 'ml.c5.xlarge' that it may use has that plan: {LISTED}",
    ),
    (
        {**ASKED, "pools": "plan"},
        "the request asks for spot instances (EnableManagedSpotTraining), and the tag 'slotq:pools' names plan (ml.m5.large, a training plan)",
    ),
]


@pytest.mark.parametrize(("wanted", "said"), REFUSED)
def test_a_contradiction_is_refused_with_both_sides(wanted, said):
    other = replace(pool("c"), instance_type="ml.c5.xlarge")
    world = PlanWorld(pool("p"), planned(), planned("later", plan_arn=OTHER), SPOT, other)
    with pytest.raises(InvalidRequest) as refused:
        world.send(**{"checkpoints": SAVED, **wanted})
    assert said in refused.value.message
    assert world.states() == {}


def test_a_request_for_spot_does_not_take_the_place_of_plans():
    world = PlanWorld(planned())
    with pytest.raises(
        InvalidRequest, match="are training plans: leave EnableManagedSpotTraining out"
    ):
        world.send(checkpoints=SAVED, **ASKED)


def test_without_pools_of_plans_a_request_for_one_runs_as_it_is_with_a_warning():
    world = PlanWorld(pool("p"))
    answer = world.send(**resources(ARN))
    (warning,) = [
        text for text in answer.notices if text.startswith("ResourceConfig.TrainingPlanArn")
    ]
    assert "no pool here is a training plan" in warning and "0.4" in warning
    world.deliver()
    assert world.sent("job")["ResourceConfig"]["TrainingPlanArn"] == ARN


def test_such_a_job_can_be_changed_after_the_queue_has_got_a_plan():
    world = PlanWorld(pool("p"))
    world.send("holds", by="ben")
    world.send("named", pools="p", **resources(ARN))
    world.send("unnamed", **resources(ARN))
    world.deliver()
    world.store.configuration.change((pool("p"), planned()), who="t", now=0)
    for name in ("named", "unnamed"):
        change = Amendment(revise=revising({"priority": "3"}))
        world.manager.changes.amend(name, change, by="ann")
        assert (world.job(name).priority, world.job(name).pools) == (3, ("p",))
    change = Amendment(revise=revising({"slotq:pools": "plan,p"}))
    with pytest.raises(InvalidRequest, match="names p"):
        world.manager.changes.amend("named", change, by="ann")


def test_a_job_over_several_instance_types_takes_no_plan():
    other = replace(planned("c", plan_arn=OTHER), instance_type="ml.c5.xlarge")
    world = PlanWorld(planned(), other)
    groups = [
        {"InstanceGroupName": kind[-6:], "InstanceType": kind, "InstanceCount": 1}
        for kind in (INSTANCE_TYPE, "ml.c5.xlarge")
    ]
    config = {"ResourceConfig": {"InstanceGroups": groups, "VolumeSizeInGB": 1}}
    with pytest.raises(InvalidRequest, match="a training plan has one instance type"):
        world.send(pools="plan,c", **config)


# --- the setting ---


def test_a_pool_gets_its_plan_and_sagemaker_is_asked_once():
    world = PlanWorld(pool("p"))
    operator = world.manager.configuration
    settings = {
        "slots": 2,
        "instance_type": INSTANCE_TYPE,
        "capacity_kind": "plan",
        "plan_arn": ARN,
    }
    done = operator.set_pool("plan", settings, by="op")
    assert (done.warnings, world.described()) == ((), 1)
    kept = world.store.configuration.pools()[1]
    assert (kept.capacity_kind, kept.plan_arn) == (CapacityKind.PLAN, ARN)
    world.send("at-once", pools="plan")
    world.deliver()
    assert world.states() == {"at-once": "running"}
    operator.set_pool("plan", {"suspend_grace": 60}, by="op")
    operator.set_pool("p", {"slots": 3}, by="op")
    assert world.described() == 1
    more = operator.set_pool("plan", {"slots": 5}, by="op")
    assert more.warnings == (
        "pool plan has 5 slots, and its training plan at most 2: it offers what the plan has",
    )
    world.later(200)
    operator.set_pool("plan", {"capacity_kind": "on_demand"}, by="op")
    assert world.store.configuration.pools()[1].plan_arn == ""


WRONG = [
    # the settings, the plan, the field, and what is said
    ({"plan_arn": ""}, {}, "plan_arn", "capacity_kind plan needs the plan"),
    ({"plan_arn": "june"}, {}, "plan_arn", "must be the ARN of a training plan"),
    ({"plan_arn": 3}, {}, "plan_arn", "must be the ARN of a training plan"),
    ({"capacity_kind": "spot"}, {}, "plan_arn", "only capacity_kind plan has a plan_arn"),
    ({"windows": "daily 08:00-20:00 UTC"}, {}, "windows", "has the plan's windows"),
    ({"keep_warm": 60}, {}, "keep_warm", "paid for anyway"),
    ({"nodes": {"gpus": 8}}, {}, "nodes", "has no nodes"),
    (
        {"instance_type": "ml.c5.xlarge"},
        {},
        "plan_arn",
        "has ml.m5.large, and the pool ml.c5.xlarge",
    ),
    ({"plan_arn": OTHER}, {}, "plan_arn", "SageMaker knows no training plan july"),
    ({}, {"windows": ((-9 * HOUR, -HOUR, 2),)}, "plan_arn", "expired"),
    ({}, {"status": "Failed"}, "plan_arn", "has failed"),
    ({}, {"target_resources": ["endpoint"]}, "plan_arn", "is not for training jobs"),
]


@pytest.mark.parametrize(("settings", "plan", "field", "said"), WRONG)
def test_wrong_settings_are_refused_by_name(settings, plan, field, said):
    world = PlanWorld(pool("p"), **plan)
    wanted = {"slots": 2, "instance_type": INSTANCE_TYPE, "capacity_kind": "plan", "plan_arn": ARN}
    with pytest.raises(InvalidRequest) as refused:
        world.manager.configuration.set_pool("plan", {**wanted, **settings}, by="op")
    assert refused.value.field == field
    assert said in refused.value.message


def test_a_pool_whose_plan_is_over_may_still_be_resized():
    world = PlanWorld()
    world.tick()
    world.no_plan()
    world.manager.configuration.set_pool("plan", {"slots": 1}, by="op")
    (after,) = world.store.configuration.pools()
    assert after.capacity.slots == 1


def test_two_pools_do_not_share_a_plan():
    world = PlanWorld(planned())
    wanted = {"slots": 2, "instance_type": INSTANCE_TYPE, "capacity_kind": "plan", "plan_arn": ARN}
    with pytest.raises(InvalidRequest, match="training plan june is that of pool 'plan'"):
        world.manager.configuration.set_pool("again", wanted, by="op")


def test_a_plan_that_sagemaker_does_not_describe_is_accepted_with_a_warning(monkeypatch):
    world = PlanWorld(pool("p"))

    def throttled(arn: str) -> PlanFacts:
        raise Unavailable("Rate exceeded")

    monkeypatch.setattr(world.manager._training, "describe_plan", throttled)
    wanted = {"slots": 2, "instance_type": INSTANCE_TYPE, "capacity_kind": "plan", "plan_arn": ARN}
    done = world.manager.configuration.set_pool("plan", wanted, by="op")
    assert done.warnings == ("pool plan: its training plan was not checked: Rate exceeded",)


# --- how it is shown ---


def found(world: PlanWorld) -> list[tuple[str, str]]:
    """What the doctor says of plans."""
    findings = world.manager.doctor.examine()
    return [(it.kind, it.text) for it in findings if it.kind.startswith("plan_")]


def test_the_doctor_looks_at_the_plan():
    world = PlanWorld()
    assert found(world) == []
    world.plan(windows=((0, 71 * HOUR, 2),))
    ((kind, text),) = found(world)
    assert kind == "plan_ends"
    assert "its training plan ends at 13:13 UTC, 24 Sep, in 2 days: extend it" in text
    world.no_plan()
    ((kind, text),) = found(world)
    assert kind == "plan_unusable"
    assert "nothing starts there: SageMaker knows no training plan june" in text
    assert PlanWorld(pool("p")).manager.doctor.examine() == []


@pytest.mark.parametrize(("error", "advice"), [(RightMissing, True), (Unavailable, False)])
def test_the_doctor_tells_a_missing_right(monkeypatch, error, advice):
    world = PlanWorld()

    def refused(arn: str) -> PlanFacts:
        raise error(f"DescribeTrainingPlan {arn}: no")

    monkeypatch.setattr(world.manager._training, "describe_plan", refused)
    ((kind, text),) = found(world)
    assert kind == "plan_unreadable"
    assert ("TrainingPlanArns" in text) is advice


def shown(world: PlanWorld) -> PoolView:
    (status,) = world.manager.overview.pools()
    now = world.clock.now()
    return pool_view(status.pool, now=now, size=status.size, used=status.used, hours=status.hours)


def test_pools_show_the_plan_and_its_next_window():
    world = PlanWorld(windows=((0, 9 * HOUR, 2), (20 * HOUR, 48 * HOUR, 2)), unhealthy=1)
    assert pool_tables.health(shown(world)) == NOT_READ
    world.tick()
    view = shown(world)
    assert (view.settings.capacity_kind, view.settings.plan_arn) == ("plan", ARN)
    assert view.health.plan is not None
    assert [window.slots for window in view.health.plan.windows] == [2, 2]
    assert pool_tables.instances(view) == "ml.m5.large (plan)"
    assert pool_tables.health(view) == (
        "open until 22:43 UTC, 21 Sep; 1 instance of its training plan is unhealthy"
    )
    assert pool_tables.plan(view.health.plan).startswith(
        "june is active, 0 of 2 instances in use; "
    )
    assert health_of(view.health) == world.store.health.get("plan")
    world.later(10 * HOUR)
    assert pool_tables.health(shown(world)).startswith("opens at 10:13 UTC, 22 Sep")
    world.no_plan()
    world.tick(MINUTE)
    assert pool_tables.health(shown(world)) == (
        "SageMaker knows no training plan june in this account and region"
    )


def test_a_plan_has_a_price_of_its_own():
    prices = InstancePrices(usd_per_hour={"ml.x": 10.0}, of_kinds={"plan": {"ml.x": 4.0}})
    group = UsageGroup(instance_type="ml.x", kind="plan")
    used = Used(
        start="", end="", as_of="", by=("kind",), totals={group: Amounts(instance_ms=2 * H)}
    )
    (line,) = usage_lines(used, prices)
    assert (line.group, line.usd, line.saved_usd) == ({"kind": "plan"}, 8.0, 12.0)
