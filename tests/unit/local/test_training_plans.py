"""Training plans on the training plane, on a fake clock."""

# ruff: noqa: E501 - a row of a table stays one line

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from slotq.local.training.plan_documents import read_plans
from slotq.local.training.request_check import PlaneError
from slotq.local.training.training_plans import EXPIRATION
from slotq.local.training.virtual_runner import Work
from tests.unit.local.test_plane import SECOND, World, request

TYPE = "ml.p5.48xlarge"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"
HOUR = 3600
LAST_PART = HOUR // 2


def in_plan(instances: int = 1, **changes: Any) -> dict[str, Any]:
    resources = {
        "InstanceType": TYPE,
        "InstanceCount": instances,
        "VolumeSizeInGB": 1,
        "TrainingPlanArn": ARN,
    }
    condition = {"MaxRuntimeInSeconds": 28 * 24 * HOUR}
    return {"ResourceConfig": resources, "StoppingCondition": condition, **changes}


def windows(*parts: tuple[int, int, int]) -> list[dict[str, int]]:
    return [{"from": begins, "to": ends, "instances": count} for begins, ends, count in parts]


DAY = windows((0, 24 * HOUR, 2))


def plan(*, windows: Any = DAY, **fields: Any) -> dict[str, Any]:
    return {"name": "june", "instance_type": TYPE, "windows": windows, **fields}


class PlanWorld(World):
    """A plane with one plan of the name june."""

    def __init__(
        self, *, windows: Any = DAY, work: dict[str, Work] | None = None, **fields: Any
    ) -> None:
        super().__init__(work, grace_seconds=1)
        self.set_plan(windows=windows, **fields)

    def set_plan(self, **fields: Any) -> None:
        document = {"plans": [plan(**fields)]}
        self.plane.set_plans(read_plans(document, now=0))

    def described(self) -> dict[str, Any]:
        return self.plane.handle("DescribeTrainingPlan", {"TrainingPlanName": ARN})

    def counts(self) -> tuple[int, int, int]:
        """The plan's total, available and used instances."""
        shown = self.described()
        names = ("TotalInstanceCount", "AvailableInstanceCount", "InUseInstanceCount")
        return tuple(shown[name] for name in names)  # type: ignore[return-value]


def test_a_plan_is_described_in_sagemakers_form() -> None:
    world = PlanWorld(windows=windows((0, HOUR, 2), (3 * HOUR, 5 * HOUR, 3)))
    shown = world.described()
    model = botocore.session.Session().get_service_model("sagemaker")
    shape = model.operation_model("DescribeTrainingPlan").output_shape
    assert set(shape.required_members) <= set(shown) <= set(shape.members)
    parts = shown["ReservedCapacitySummaries"]
    part = shape.members["ReservedCapacitySummaries"].member
    for one in parts:
        assert set(part.required_members) <= set(one) <= set(part.members)
    assert [(one["TotalInstanceCount"], one["Status"]) for one in parts] == [
        (2, "Active"),
        (3, "Scheduled"),
    ]
    assert (shown["DurationHours"], shown["DurationMinutes"]) == (3, 0)
    assert (shown["StartTime"].timestamp(), shown["EndTime"].timestamp()) == (0, 5 * HOUR)
    assert shown == world.plane.handle("DescribeTrainingPlan", {"TrainingPlanName": "june"})
    assert world.plane.plans() == [shown]


STATUSES = [
    # fields, seconds, status, instances that it offers
    ({}, 0, "Scheduled", 0),
    ({}, HOUR, "Active", 2),
    ({}, 2 * HOUR, "Scheduled", 0),
    ({}, 3 * HOUR, "Active", 3),
    ({}, 5 * HOUR, "Expired", 0),
    ({"status": "Failed"}, HOUR, "Failed", 0),
    ({"status": "Pending"}, HOUR, "Pending", 0),
    ({"unhealthy": 1, "used_elsewhere": 1}, 3 * HOUR, "Active", 1),
    ({"unhealthy": 4}, 3 * HOUR, "Active", 0),
]


@pytest.mark.parametrize(("fields", "at", "status", "available"), STATUSES)
def test_a_plan_has_the_status_of_its_windows(
    fields: dict[str, Any], at: int, status: str, available: int
) -> None:
    world = PlanWorld(windows=windows((HOUR, 2 * HOUR, 2), (3 * HOUR, 5 * HOUR, 3)), **fields)
    world.until(at)
    assert (world.described()["Status"], world.counts()[1]) == (status, available)


REFUSED = [
    ("no such plan", {"name": "july"}, "ResourceNotFound", "does not exist"),
    ("another type", {"instance_type": "ml.m5.large"}, "ValidationException", "instances of type ml.m5.large, and the training job asks for ml.p5"),
    ("it is over", {"windows": windows((-2 * HOUR, -HOUR, 2))}, "ValidationException", "is in status Expired"),
    ("it has failed", {"status": "Failed"}, "ValidationException", "is in status Failed"),
    ("it is not paid", {"status": "Pending"}, "ValidationException", "is in status Pending"),
    ("another resource", {"target_resources": ["hyperpod-cluster"]}, "ValidationException", "cannot be used by training jobs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "fields", "code", "text"), REFUSED, ids=[row[0] for row in REFUSED]
)
def test_a_plan_that_cannot_be_used_is_refused(
    sentence: str, fields: dict[str, Any], code: str, text: str
) -> None:
    world = PlanWorld(**fields)
    with pytest.raises(PlaneError) as refused:
        world.create(**in_plan())
    assert refused.value.code == code
    assert text in refused.value.message
    assert world.plane.jobs() == []


def test_an_unknown_plan_is_not_described() -> None:
    with pytest.raises(PlaneError, match="ResourceNotFound: Training plan 'july' does not exist"):
        World().plane.handle("DescribeTrainingPlan", {"TrainingPlanName": "july"})


def test_jobs_wait_for_room_and_get_it_in_their_order() -> None:
    world = PlanWorld(work={"a": Work(runtime=100 * SECOND)})
    for name in ("a", "b", "c", "d"):
        world.create(name, **in_plan())
    assert [world.status(name) for name in "abcd"] == [
        "InProgress/Training",
        "InProgress/Training",
        "InProgress/Pending",
        "InProgress/Pending",
    ]
    assert world.counts() == (2, 0, 2)
    world.until(100)
    assert world.status("c") == "InProgress/Training"
    assert world.status("d") == "InProgress/Pending"
    world.stop("d")
    assert world.status("d") == "Stopped/Stopped"
    world.stop("b")
    assert world.counts() == (2, 1, 1)


def test_a_larger_job_lets_smaller_ones_pass() -> None:
    world = PlanWorld(unhealthy=1)
    world.create("large", **in_plan(2))
    world.create("small", **in_plan(1))
    assert world.status("large") == "InProgress/Pending"
    assert world.status("small") == "InProgress/Training"


def test_a_job_waits_for_the_beginning_of_its_plan() -> None:
    world = PlanWorld(windows=windows((9 * 24 * HOUR, 10 * 24 * HOUR, 1)))
    world.create(**in_plan())
    world.until(9 * 24 * HOUR - 1)
    assert world.status() == "InProgress/Pending"
    world.until(9 * 24 * HOUR)
    assert world.status() == "InProgress/Training"


def test_a_job_does_not_wait_for_ever_for_a_plan_that_is_over() -> None:
    world = PlanWorld(windows=windows((0, HOUR, 1)))
    world.until(LAST_PART)
    world.create(**in_plan())
    over = LAST_PART + 2 * 24 * HOUR
    world.until(over - 1)
    assert world.status() == "InProgress/Pending"
    world.until(over)
    assert world.status() == "Failed/Failed"


ENDS = [
    # the longest that it may pend (s), when it ends (s), how
    (None, 2 * 24 * HOUR, "Failed/Failed"),
    (7200, 7200, "Stopped/Stopped"),
    (3 * 24 * HOUR, 2 * 24 * HOUR, "Failed/Failed"),
]


@pytest.mark.parametrize(("longest", "at", "ended"), ENDS)
def test_a_job_pends_for_its_own_time_or_for_two_days_of_an_active_plan(
    longest: int | None, at: int, ended: str
) -> None:
    begins, gap = 5 * HOUR, 3 * HOUR
    first = (begins, begins + HOUR, 1)
    second = (begins + HOUR + gap, 20 * 24 * HOUR, 1)
    world = PlanWorld(windows=windows(first, second), used_elsewhere=1)
    limit = {} if longest is None else {"MaxPendingTimeInSeconds": longest}
    changes = {"StoppingCondition": {"MaxRuntimeInSeconds": 60, **limit}}
    world.create(**in_plan() | changes)
    over = begins + gap + at
    world.until(over - 1)
    assert world.status() == "InProgress/Pending"
    world.until(over)
    assert world.status() == ended
    reason = world.describe().get("FailureReason", "")
    assert reason.startswith("InsufficientCapacityError") is (ended == "Failed/Failed")


def test_the_instances_are_taken_thirty_minutes_before_the_last_windows_end() -> None:
    world = PlanWorld(windows=windows((0, 2 * HOUR, 1)))
    world.create(**in_plan())
    world.until(2 * HOUR - LAST_PART - 1)
    assert world.status() == "InProgress/Training"
    world.until(2 * HOUR - LAST_PART)
    assert world.status() == "Stopped/Stopped"
    assert world.counts() == (1, 1, 0)
    world.create("late", **in_plan())
    world.until(2 * HOUR)
    assert world.status("late") == "InProgress/Pending"


def test_a_job_goes_on_in_the_next_window_of_its_plan() -> None:
    world = PlanWorld(
        windows=windows((0, HOUR, 1), (5 * HOUR, 8 * HOUR, 1)),
        work={"job1": Work(runtime=HOUR * SECOND)},
    )
    world.create(**in_plan())
    world.until(LAST_PART)
    assert world.status() == "InProgress/Pending"
    assert world.counts()[2] == 0
    world.until(5 * HOUR)
    assert world.status() == "InProgress/Training"
    world.until(5 * HOUR + LAST_PART)
    assert world.status() == "Completed/Completed"
    assert world.describe()["TrainingTimeInSeconds"] == HOUR
    assert world.path().count("Pending") == 1


def test_the_container_knows_the_end_of_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PlanWorld(windows=windows((0, HOUR, 1), (5 * HOUR, 8 * HOUR, 1)))
    seen: list[dict[str, str]] = []
    start = world.runner.start

    def watched(name: str, asked: Any) -> None:
        seen.append(dict(asked["Environment"]))
        start(name, asked)

    monkeypatch.setattr(world.runner, "start", watched)
    world.create(**in_plan(Environment={"MINE": "1", EXPIRATION: "2"}))
    world.until(5 * HOUR)
    assert seen == [
        {"MINE": "1", EXPIRATION: str(HOUR * SECOND)},
        {"MINE": "1", EXPIRATION: str(8 * HOUR * SECOND)},
    ]
    assert world.describe()["Environment"] == {"MINE": "1", EXPIRATION: "2"}


def test_an_extended_plan_takes_its_instances_later() -> None:
    world = PlanWorld(windows=windows((0, HOUR, 1)))
    world.create(**in_plan())
    world.set_plan(windows=windows((0, 3 * HOUR, 1)))
    world.until(HOUR)
    assert world.status() == "InProgress/Training"
    world.until(3 * HOUR - LAST_PART)
    assert world.status() == "Stopped/Stopped"


def test_a_window_that_follows_at_once_goes_on() -> None:
    world = PlanWorld(windows=windows((0, HOUR, 1), (HOUR, 2 * HOUR, 1), (2 * HOUR, 3 * HOUR, 2)))
    world.create(**in_plan())
    world.until(2 * HOUR - LAST_PART - 1)
    assert world.status() == "InProgress/Training"
    world.until(2 * HOUR - LAST_PART)
    assert world.status() == "InProgress/Pending"


def test_a_plan_that_grows_starts_what_waits() -> None:
    world = PlanWorld(used_elsewhere=2)
    world.create(**in_plan())
    assert world.status() == "InProgress/Pending"
    world.set_plan(used_elsewhere=1)
    assert world.status() == "InProgress/Training"


def test_a_plan_that_is_gone_ends_nothing() -> None:
    world = PlanWorld(windows=windows((0, 2 * HOUR, 1)))
    world.create(**in_plan())
    world.create("waits", **in_plan())
    world.plane.set_plans([])
    world.until(HOUR)
    assert world.status() == "InProgress/Training"
    assert world.status("waits") == "InProgress/Pending"


def test_a_plans_instances_count_in_no_quota_of_their_type() -> None:
    world = PlanWorld()
    world.plane.knobs.turn(
        {"limits": {TYPE: 0}, "quotas": {f"{TYPE} for training job usage": 0}},
    )
    world.create(**in_plan())
    with pytest.raises(PlaneError, match="ResourceLimitExceeded"):
        world.create(
            "other", ResourceConfig={"InstanceType": TYPE, "InstanceCount": 1, "VolumeSizeInGB": 1}
        )


def test_a_plans_instances_do_not_stay_warm() -> None:
    world = PlanWorld(work={"job1": Work(runtime=SECOND)})
    kept = in_plan()
    kept["ResourceConfig"]["KeepAlivePeriodInSeconds"] = 600
    world.create(**kept)
    world.until(1)
    assert world.status() == "Completed/Completed"
    assert "WarmPoolStatus" not in world.describe()


def test_training_jobs_are_listed_by_plan() -> None:
    world = PlanWorld()
    world.create("bought", **in_plan())
    world.create("other")
    (shown,) = world.plane.handle("ListTrainingJobs", {"TrainingPlanArnEquals": ARN})[
        "TrainingJobSummaries"
    ]
    assert (shown["TrainingJobName"], shown["TrainingPlanArn"]) == ("bought", ARN)
    rest = world.plane.handle("ListTrainingJobs", {})["TrainingJobSummaries"]
    assert ["TrainingPlanArn" in one for one in rest] == [True, False]


def test_moments_are_seconds_or_times_with_a_zone() -> None:
    parts = [{"from": 60, "to": "1970-01-01T03:00:00+01:00", "instances": 1}]
    (found,) = read_plans({"plans": [plan(windows=parts)]}, now=1000)
    (window,) = found.windows
    assert (window.begins, window.ends) == (61_000, 2 * HOUR * SECOND)


BAD = [
    ([], "a list at the key `plans`"),
    ({"plans": {}}, "a list at the key `plans`"),
    ({"plans": [], "pools": []}, "a list at the key `plans`"),
    ({"plans": [{"name": "june"}]}, "has a name, an instance_type and windows"),
    ({"plans": [plan(), plan()]}, "two training plans named 'june'"),
    ({"plans": [plan(colour=1)]}, "has no key 'colour'"),
    ({"plans": [plan(name="_")]}, "regular expression"),
    ({"plans": [plan(instance_type="p5")]}, "enum value set"),
    ({"plans": [plan(status="Active")]}, "its status follows from its windows"),
    ({"plans": [plan(unhealthy=-1)]}, "unhealthy is a whole number"),
    ({"plans": [plan(windows=[])]}, "at least one window"),
    ({"plans": [plan(windows=[{"from": 0, "to": 1}])]}, "a window has the keys"),
    ({"plans": [plan(windows=windows((5, 5, 1)))]}, "ends after it begins"),
    ({"plans": [plan(windows=windows((0, 9, 1), (8, 10, 1)))]}, "two of its windows overlap"),
    ({"plans": [plan(windows=windows((0, 9, -1)))]}, "instances is a whole number"),
    ({"plans": [plan(windows=[{"from": "2026-06-01", "to": 9, "instances": 1}])]}, "a time with its zone"),
    ({"plans": [plan(windows=[{"from": True, "to": 9, "instances": 1}])]}, "a time with its zone"),
    ({"plans": [plan(windows=[{"from": float("inf"), "to": 9, "instances": 1}])]}, "a time with its zone"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "text"), BAD)
def test_a_wrong_document_is_refused(document: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_plans(document, now=0)


def test_a_request_without_a_plan_is_as_before() -> None:
    world = PlanWorld()
    world.create()
    assert world.status() == "InProgress/Training"
    assert EXPIRATION not in world.describe().get("Environment", {})
    assert request() == world.plane.jobs()[0].request
