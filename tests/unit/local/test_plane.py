"""The training plane on a fake clock: a script of calls and the outcome."""

# ruff: noqa: E501, PLR0917 - a row of a table stays one line

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotq.local.training.knobs import Knobs
from slotq.local.training.plane import Plane
from slotq.local.training.request_check import NoAnswer, PlaneError
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work

SECOND = 1000


def request(name: str = "job1", **changes: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/training-role",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 1000},
        **changes,
    }


class World:
    """A plane, its clock, and its events."""

    def __init__(self, work: dict[str, Work] | None = None, **knobs: Any) -> None:
        self.clock = VirtualClock()
        self.events: list[dict[str, Any]] = []
        self.work = work or {}
        self.runner = VirtualRunner(
            clock=self.clock, work_of=lambda job, _: self.work.get(job, Work())
        )
        self.plane = Plane(
            clock=self.clock,
            runner=self.runner,
            emit=self.events.append,
            knobs=Knobs(**knobs),
        )

    def create(self, name: str = "job1", **changes: Any) -> dict[str, Any]:
        answer = self.plane.handle("CreateTrainingJob", request(name, **changes))
        self.plane.advance()
        return answer

    def stop(self, name: str = "job1") -> None:
        self.plane.handle("StopTrainingJob", {"TrainingJobName": name})
        self.plane.advance()

    def until(self, seconds: float) -> None:
        """Advance from one due time to the next, as a clock's owner does."""
        end = int(seconds * SECOND)
        while (due := self.plane.next_due()) is not None and due <= end:
            self.clock.set(due)
            self.plane.advance()
        self.clock.set(end)

    def describe(self, name: str = "job1") -> dict[str, Any]:
        return self.plane.handle("DescribeTrainingJob", {"TrainingJobName": name})

    def status(self, name: str = "job1") -> str:
        shown = self.describe(name)
        return f"{shown['TrainingJobStatus']}/{shown['SecondaryStatus']}"

    def path(self, name: str = "job1") -> list[str]:
        return [
            event["detail"]["SecondaryStatus"]
            for event in self.events
            if event["detail"]["TrainingJobName"] == name
        ]


def work(seconds: int | None = None, **more: Any) -> dict[str, Work]:
    runtime = None if seconds is None else seconds * SECOND
    return {"job1": Work(runtime=runtime, **more)}


def stopped_at(second: float) -> Callable[[World], None]:
    def script(world: World) -> None:
        world.create()
        world.until(second)
        world.stop()

    return script


def created(world: World) -> None:
    world.create()


BEGINS = ["Starting", "Downloading", "Training"]
LIVES = [
    ("work runs to its end", work(100), {}, created, 100, "Completed/Completed", 100),
    ("nothing is due before", work(100), {}, created, 99, "InProgress/Training", None),
    ("a failing script", work(5, exit_code=3), {}, created, 9, "Failed/Failed", 5),
    ("a slow start", work(5), {"start_seconds": 30.0}, created, 29, "InProgress/Starting", None),
    ("... and then the work", work(5), {"start_seconds": 30.0}, created, 35, "Completed/Completed", 35),
    ("a stop that takes its time", work(stop=7000), {}, stopped_at(10), 16, "Stopping/Stopping", None),
    ("... and is over", work(stop=7000), {}, stopped_at(10), 17, "Stopped/Stopped", 17),
    ("work that ends while stopping", work(12, stop=7000), {}, stopped_at(10), 20, "Completed/Completed", 12),
    ("done at the moment it stops", work(17, stop=7000), {}, stopped_at(10), 20, "Completed/Completed", 17),
    ("it fails while stopping", work(12, stop=7000, exit_code=1), {}, stopped_at(10), 20, "Failed/Failed", 12),
    ("a stop before it has instances", work(5), {"start_seconds": 30.0}, stopped_at(10), 10, "Stopped/Stopped", 10),
    ("no capacity later", work(5), {"fail_provisioning": 1}, created, 0, "Failed/Failed", 0),
    ("an internal fault", work(5), {"fail_internally": 1}, created, 0, "Failed/Failed", 0),
    ("no room in the training plan", work(5), {"fail_insufficient": 1}, created, 0, "Failed/Failed", 0),
    ("stuck in Pending", work(5), {"stick_pending": 1}, created, 999, "InProgress/Pending", None),
    ("... until it is stopped", work(5), {"stick_pending": 1}, stopped_at(50), 50, "Stopped/Stopped", 50),
    ("the maximum runtime", work(5000), {}, created, 1000, "Stopped/MaxRuntimeExceeded", 1000),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "jobs", "knobs", "script", "at", "status", "ended"),
    LIVES,
    ids=[life[0] for life in LIVES],
)
def test_a_training_job_goes_through_its_statuses(
    sentence: str,
    jobs: dict[str, Work],
    knobs: dict[str, Any],
    script: Callable[[World], None],
    at: int,
    status: str,
    ended: int | None,
) -> None:
    world = World(jobs, **knobs)
    script(world)
    world.until(at)
    assert world.status() == status
    end = world.describe().get("TrainingEndTime")
    assert (end and end.timestamp()) == ended
    assert len(world.plane.live()) == (0 if ended is not None else 1)


REASONS = [
    ({"fail_provisioning": 1}, 0, "CapacityError: Unable to provision requested ML compute capacity"),
    ({"fail_insufficient": 1}, 0, "InsufficientCapacityError: "),
    ({"fail_internally": 1}, 0, "InternalServerError: We encountered an internal error"),
    ({}, 3, "AlgorithmError: , exit code: 3"),
]  # fmt: skip


@pytest.mark.parametrize(("knobs", "code", "text"), REASONS)
def test_a_failed_job_has_a_failure_reason(knobs: dict[str, Any], code: int, text: str) -> None:
    world = World(work(5, exit_code=code), **knobs)
    world.create()
    world.until(10)
    assert world.describe()["FailureReason"].startswith(text)
    assert world.events[-1]["detail"]["FailureReason"].startswith(text)


def test_every_change_gives_an_event_in_order() -> None:
    world = World(work(5))
    world.create()
    world.until(5)
    assert world.path() == [*BEGINS, "Uploading", "Completed"]
    event = world.events[-1]
    assert (event["source"], event["detail-type"]) == (
        "aws.sagemaker",
        "SageMaker Training Job State Change",
    )
    assert event["resources"] == [event["detail"]["TrainingJobArn"]]
    assert event["detail"]["TrainingEndTime"] == 5000
    assert event["detail"]["Tags"] == {}


def test_events_can_be_lost_and_doubled() -> None:
    world = World(work(5), lose_events=2, double_events=1)
    world.create()
    world.until(5)
    assert world.path() == ["Training", "Training", "Uploading", "Completed"]
    assert world.events[0] == world.events[1]


def test_an_evicted_job_keeps_its_checkpoint() -> None:
    world = World(
        {"job1": Work(runtime=100 * SECOND), "lossy": Work(runtime=50 * SECOND, checkpoint=False)}
    )
    own = [{"Key": "slotq:job", "Value": "job1"}]
    world.create(Tags=own)
    world.create("lossy")
    world.until(40)
    world.stop()
    world.stop("lossy")
    world.until(60)
    world.create("job1-qstamp-2-abcdef", Tags=own)
    world.create("lossy2", Tags=[{"Key": "slotq:job", "Value": "lossy"}])
    world.until(200)
    assert world.describe("job1-qstamp-2-abcdef")["TrainingEndTime"].timestamp() == 120
    assert world.describe("lossy2")["TrainingEndTime"].timestamp() == 110


REFUSALS = [
    ("a duplicate name", "CreateTrainingJob", request("job1"), "ResourceInUse", "must be unique"),
    ("an illegal name", "CreateTrainingJob", request("-no"), "ValidationException", "regular expression"),
    ("no such instance type", "CreateTrainingJob", request("a", ResourceConfig={"InstanceType": "ml.x.y", "InstanceCount": 1, "VolumeSizeInGB": 1}), "ValidationException", "enum value set"),
    ("no instances", "CreateTrainingJob", request("a", ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": -1}), "ValidationException", "InstanceCount"),
    ("an unknown member", "CreateTrainingJob", request("a", Colour="red"), "ValidationException", "Colour"),
    ("a missing role", "CreateTrainingJob", {"TrainingJobName": "a"}, "ValidationException", "RoleArn"),
    ("stop of a stopped job", "StopTrainingJob", {"TrainingJobName": "over"}, "ValidationException", "The request was rejected because the training job is in status Stopped."),
    ("stop of a missing job", "StopTrainingJob", {"TrainingJobName": "nobody"}, "ValidationException", "Requested resource not found"),
    ("a missing job", "DescribeTrainingJob", {"TrainingJobName": "nobody"}, "ValidationException", "Requested resource not found"),
    ("tags of a missing job", "ListTags", {"ResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/nobody"}, "ValidationException", "Requested resource not found"),
    ("deletion of a live job", "DeleteTrainingJob", {"TrainingJobName": "job1"}, "ResourceInUse", "stop it first"),
    ("a page too large", "ListTrainingJobs", {"MaxResults": 101}, "ValidationException", "less than or equal to 100"),
    ("an operation it lacks", "CreateModel", {"ModelName": "m"}, "UnknownOperationException", "CreateModel"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "operation", "asked", "code", "text"), REFUSALS, ids=[row[0] for row in REFUSALS]
)
def test_a_wrong_call_is_refused_as_by_sagemaker(
    sentence: str, operation: str, asked: dict[str, Any], code: str, text: str
) -> None:
    world = World()
    world.create("job1")
    world.create("over")
    world.stop("over")
    with pytest.raises(PlaneError) as refused:
        world.plane.handle(operation, asked)
    assert refused.value.code == code
    assert text in refused.value.message


def test_the_service_limit_counts_live_training_jobs() -> None:
    world = World(limits={"ml.m5.large": 3})
    world.create("a")
    two = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    world.create("b", ResourceConfig=two)
    with pytest.raises(PlaneError) as refused:
        world.create("c")
    assert refused.value.code == "ResourceLimitExceeded"
    assert (
        "The account-level service limit 'ml.m5.large for training job usage' is 3 Instances, with "
        "current utilization of 3 Instances and a request delta of 1 Instances"
    ) in refused.value.message
    world.stop("b")
    world.create("c")


SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60},
}
RULE = {"RuleConfigurationName": "rule", "RuleEvaluatorImage": "image"}
OTHER_RULE = {**RULE, "RuleConfigurationName": "other"}
QUOTAS = [
    # the quota, its limit, fields of a first and of a second job, the delta of the refused second
    ("ml.m5.large for spot training job usage", 0, {}, SPOT, 1),
    ("ml.m5.large for spot training job usage", 1, SPOT, SPOT, 1),
    ("Number of instances across all training jobs", 1, SPOT, {}, 1),
    ("Number of instances across all processing jobs", 2, {"ProfilerRuleConfigurations": [RULE]}, {"DebugRuleConfigurations": [RULE, OTHER_RULE]}, 2),
]  # fmt: skip


@pytest.mark.parametrize(("quota", "limit", "first", "second", "delta"), QUOTAS)
def test_each_quota_counts_what_its_name_says(
    quota: str, limit: int, first: dict[str, Any], second: dict[str, Any], delta: int
) -> None:
    world = World(quotas={quota: limit})
    world.create("a", **first)
    with pytest.raises(PlaneError) as refused:
        world.create("b", **second)
    assert refused.value.code == "ResourceLimitExceeded"
    assert f"service limit '{quota}' is {limit} Instances" in refused.value.message
    assert f"a request delta of {delta} Instances" in refused.value.message
    world.plane.knobs.quotas = {}
    world.create("b", **second)


def test_spot_instances_do_not_count_in_the_limit_of_a_type() -> None:
    world = World(limits={"ml.m5.large": 1})
    world.create("a")
    world.create("b", **SPOT)
    with pytest.raises(PlaneError, match="for training job usage' is 1 Instances"):
        world.create("c")


def test_a_counting_knob_counts_down_for_matching_names() -> None:
    world = World(refuse_creates=1, match="b*")
    world.create("a")
    with pytest.raises(PlaneError):
        world.create("b")
    world.create("b")


def test_a_call_with_a_lost_answer_took_effect() -> None:
    world = World(lose_answers=1)
    with pytest.raises(NoAnswer):
        world.create()
    assert world.status() == "InProgress/Starting"


def test_calls_can_be_throttled() -> None:
    world = World(throttle=1)
    with pytest.raises(PlaneError, match="ThrottlingException: Rate exceeded"):
        world.create()
    world.create()


def test_a_deleted_name_can_be_used_again() -> None:
    world = World(work(1))
    world.create()
    world.until(1)
    world.plane.handle("DeleteTrainingJob", {"TrainingJobName": "job1"})
    world.create()


def test_pages_are_cut_before_the_status_filter() -> None:
    world = World({f"job{n}": Work(runtime=SECOND if n < 12 else None) for n in range(13)})
    for n in range(13):
        world.create(f"job{n}")
    world.until(2)
    running = {"StatusEquals": "InProgress", "SortOrder": "Ascending"}
    first = world.plane.handle("ListTrainingJobs", running)
    assert first["TrainingJobSummaries"] == []
    second = world.plane.handle("ListTrainingJobs", {**running, "NextToken": first["NextToken"]})
    assert [one["TrainingJobName"] for one in second["TrainingJobSummaries"]] == ["job12"]
    assert "NextToken" not in second


def test_a_request_is_copied_when_stored() -> None:
    world = World()
    mine = request(HyperParameters={"a": "1"})
    world.plane.handle("CreateTrainingJob", mine)
    mine["HyperParameters"]["a"] = "2"
    world.describe()["ResourceConfig"]["InstanceCount"] = 9
    assert world.describe()["HyperParameters"] == {"a": "1"}
    assert world.describe()["ResourceConfig"]["InstanceCount"] == 1


def test_describe_has_the_fields_that_the_sdks_read() -> None:
    world = World()
    arn = world.create()["TrainingJobArn"]
    shown = world.describe()
    assert shown["TrainingJobArn"] == arn
    assert shown["OutputDataConfig"]["KmsKeyId"] == ""
    assert shown["ModelArtifacts"]["S3ModelArtifacts"] == "s3://bucket/out/job1/output/model.tar.gz"
    assert shown["HyperParameters"] == {}
    assert shown["EnableNetworkIsolation"] is False
    assert shown["CreationTime"].timestamp() == 0


BAD_KNOBS = [
    ({"colour": 1}, "there is no knob 'colour'"),
    ({"refuse_creates": "many"}, "a whole number, at least 0"),
    ({"refuse_creates": 1.5}, "a whole number, at least 0"),
    ({"grace_seconds": -1}, "a number of seconds, at least 0"),
    ({"limits": "ml.m5.large"}, "instance types with counts"),
    ({"quotas": {"ml.m5.large for spot training job usage": -1}}, "names of quotas with counts"),
]


@pytest.mark.parametrize(("values", "text"), BAD_KNOBS)
def test_a_wrong_knob_changes_nothing(values: dict[str, Any], text: str) -> None:
    knobs = Knobs()
    with pytest.raises(ValueError, match=text):
        knobs.turn({"throttle": 1, **values})
    assert knobs == Knobs()


def test_every_knob_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/local.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(documented) == sorted(Knobs().view())


def test_knobs_are_read_from_text() -> None:
    knobs = Knobs()
    knobs.turn({"grace_seconds": "2.5", "lose_events": "3", "limits": "ml.m5.large=2"})
    assert (knobs.grace_seconds, knobs.lose_events) == (2.5, 3)
    assert knobs.limits == {"ml.m5.large": 2}
    knobs.turn({"quotas": "ml.m5.large for spot training job usage=0"})
    assert knobs.quotas == {"ml.m5.large for spot training job usage": 0}
