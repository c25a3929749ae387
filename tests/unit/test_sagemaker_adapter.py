"""The SageMaker adapter: its tables, and itself over the plane in one process."""

# ruff: noqa: E501, PLR0917 - a row of a table stays one line

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from slotq.local.services.plane_client import PlaneClient
from slotq.local.training.knobs import Knobs
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq_core import names
from slotq_core.adapters.sagemaker.observations import observation_of, observation_of_event
from slotq_core.adapters.sagemaker.service import SageMakerTraining, create_request
from slotq_core.errors import NotUnderstood, RightMissing, Unavailable
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports import Phase, Sighting, Verdict
from tests import queue_world

TYPE = "ml.p4d.24xlarge"


def job(name: str = "job1") -> Job:
    return Job(
        name=name,
        state=JobState.STARTING,
        priority=1,
        entry_time=7,
        demand=Demand(slots=1),
        pools=("p",),
    )


def attempt(number: int = 1, name: str = "job1", entry_time: int = 7) -> Attempt:
    return Attempt(
        number=number,
        training_job=names.training_job_name(name, number),
        token=names.token(name, entry_time, number),
        pool="p",
        instance_type=TYPE,
        admitted_at=7,
    )


def request(name: str = "job1", **changes: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/training-role",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "Tags": [{"Key": "priority", "Value": "5"}],
        **changes,
    }


class World:
    def __init__(self, **knobs: Any) -> None:
        self.clock = VirtualClock()
        runner = VirtualRunner(clock=self.clock, work_of=lambda *_: Work(runtime=10_000, stop=1000))
        self.events: list[dict[str, Any]] = []
        self.plane = Plane(
            clock=self.clock, runner=runner, emit=self.events.append, knobs=Knobs(**knobs)
        )
        self.client = PlaneClient(self.plane)
        self.training = SageMakerTraining(
            queue="test", clock=self.clock, make_client=lambda: self.client
        )

    def until(self, seconds: int) -> None:
        while (due := self.plane.next_due()) is not None and due <= seconds * 1000:
            self.clock.set(due)
            self.plane.advance()
        self.clock.set(seconds * 1000)


def test_the_request_is_the_users_own_but_for_name_type_and_ownership() -> None:
    asked = request(Environment={"A": "b"})
    made = create_request(asked, job(), attempt(2), queue="mine")
    assert made["TrainingJobName"] == attempt(2).training_job
    assert made["ResourceConfig"] == {
        "InstanceType": TYPE,
        "InstanceCount": 1,
        "VolumeSizeInGB": 1,
    }
    assert made["Tags"] == [
        {"Key": "priority", "Value": "5"},
        {"Key": "slotq:job", "Value": "job1"},
        {"Key": "slotq:attempt", "Value": "2"},
        {"Key": "slotq:token", "Value": attempt(2).token},
        {"Key": "slotq:queue", "Value": "mine"},
    ]
    changed = {"TrainingJobName", "ResourceConfig", "Tags"}
    assert {k: v for k, v in made.items() if k not in changed} == {
        k: v for k, v in asked.items() if k not in changed
    }
    assert asked == request(Environment={"A": "b"})


@pytest.mark.parametrize(
    ("asked", "tag", "ran", "left"),
    [
        (1000, None, 0, 1000),
        (1000, None, 300_500, 700),
        (None, "job", 400_000, 86_000),
        (1000, "attempt", 300_500, 1000),
        (1000, None, 5_000_000, 1),
    ],
)
def test_later_attempts_get_what_is_left_of_the_maximum_runtime(asked, tag, ran, left) -> None:
    condition = {"MaxRuntimeInSeconds": asked} if asked else {"MaxPendingTimeInSeconds": 7200}
    tags = [{"Key": "slotq:runtime-limit", "Value": tag}] if tag else []
    body = request(StoppingCondition=condition, Tags=tags)
    made = create_request(body, replace(job(), ran=ran), attempt(2), queue="mine")
    assert made["StoppingCondition"] == {**condition, "MaxRuntimeInSeconds": left}


def test_every_instance_group_gets_the_type() -> None:
    groups = [
        {"InstanceType": "ml.m5.large", "InstanceCount": n, "InstanceGroupName": f"g{n}"}
        for n in (1, 2)
    ]
    asked = request(ResourceConfig={"InstanceGroups": groups})
    made = create_request(asked, job(), attempt(), queue="mine")
    assert [one["InstanceType"] for one in made["ResourceConfig"]["InstanceGroups"]] == [TYPE, TYPE]
    assert "InstanceType" not in made["ResourceConfig"]


def test_a_life_seen_by_describe_and_by_events() -> None:
    world = World()
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.OK
    assert world.training.describe("job1").phase is Phase.STARTING
    world.until(1)
    seen = world.training.describe("job1")
    assert (seen.phase, seen.at) == (Phase.RUNNING, 0)
    assert seen.artifact == "s3://bucket/out/job1/output/model.tar.gz"
    assert seen.checkpoints == "s3://bucket/checkpoints"
    assert world.training.stop("job1").verdict is Verdict.OK
    assert world.training.describe("job1").phase is Phase.STOPPING
    world.until(5)
    seen = world.training.describe("job1")
    assert (seen.phase, seen.at, seen.verdict) == (Phase.STOPPED, 2000, Verdict.OK)
    told = [observation_of(event["detail"], at=99) for event in world.events]
    assert [(one.phase, one.at) for one in told] == [
        (Phase.STARTING, 0),
        (Phase.RUNNING, 0),
        (Phase.RUNNING, 0),
        (Phase.STOPPING, 1000),
        (Phase.STOPPED, 2000),
    ]
    # Only an event carries the tags, and with them the token.
    assert told[-1] == replace(seen, token=attempt().token)


def test_a_repeated_create_is_known_by_its_token() -> None:
    world = World(lose_answers=1)
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.RETRY
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.ALREADY_DONE


@pytest.mark.parametrize(("queue", "verdict"), [(None, "already_done"), ("another", "fail")])
def test_a_create_of_the_version_that_named_no_queue_is_known_too(
    queue: str | None, verdict: str
) -> None:
    """An update may come between the create and its answer."""
    world = World()
    asked = create_request(request(), job(), attempt(), queue=queue or "")
    tags = [tag for tag in asked["Tags"] if queue or tag["Key"] != "slotq:queue"]
    world.client.create_training_job(**{**asked, "Tags": tags})
    assert world.training.create(request(), job(), attempt()).verdict == verdict


@pytest.mark.parametrize("stranger", ["without tags", "another entry of the same name"])
def test_a_strangers_name_is_taken(stranger: str) -> None:
    world = World()
    if stranger == "without tags":
        world.client.create_training_job(**request())
    else:
        world.training.create(request(), job(), attempt(entry_time=6))
    answer = world.training.create(request(), job(), attempt())
    assert answer.verdict is Verdict.FAIL
    assert answer.message == (
        "SageMaker already has a training job named job1, which is not from this queue"
    )


def test_whose_the_name_is_cannot_be_asked_now() -> None:
    world = World()
    world.training.create(request(), job(), attempt())
    taken = world.client.create_training_job

    def create_then_throttle(**asked: Any) -> Any:
        world.plane.knobs.throttle = 0
        try:
            return taken(**asked)
        finally:
            world.plane.knobs.throttle = 1

    world.client.create_training_job = create_then_throttle  # type: ignore[method-assign]
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.RETRY
    world.plane.knobs.throttle = 0


KNOBS = [
    ({"refuse_creates": 1}, Verdict.BACK_OFF, "The account-level service limit"),
    ({"refuse_region": 1}, Verdict.FAIL, "not available in this region"),
    ({"throttle": 1}, Verdict.RETRY, "Rate exceeded"),
]


@pytest.mark.parametrize(("knobs", "verdict", "text"), KNOBS)
def test_refused_creates(knobs: dict[str, Any], verdict: Verdict, text: str) -> None:
    world = World(**knobs)
    answer = world.training.create(request(), job(), attempt())
    assert answer.verdict is verdict
    assert text in answer.message


def test_a_request_that_sagemaker_rejects_fails_with_its_message() -> None:
    world = World()
    answer = world.training.create(request(RoleArn="me"), job(), attempt())
    assert answer.verdict is Verdict.FAIL
    assert "RoleArn" in answer.message


class OneTagAPage(PlaneClient):
    """SageMaker ends a page of tags where it likes."""

    def list_tags(self, **request: Any) -> dict[str, Any]:
        tags = super().list_tags(ResourceArn=request["ResourceArn"])["Tags"]
        at = int(request.get("NextToken", 0))
        more = {"NextToken": str(at + 1)} if at + 1 < len(tags) else {}
        return {"Tags": tags[at : at + 1], **more}


@pytest.mark.parametrize("foreign", [0, 46])
def test_a_training_job_is_known_as_ours_by_the_last_of_its_tags(foreign: int) -> None:
    world = World()
    world.client = OneTagAPage(world.plane)
    tags = [{"Key": f"tag{n}", "Value": "x"} for n in range(foreign)]
    assert world.training.create(request(Tags=tags), job(), attempt()).verdict is Verdict.OK
    again = world.training.create(request(Tags=tags), job(), attempt())
    assert again.verdict is Verdict.ALREADY_DONE
    assert world.training.look_into("job1", now=7).ours
    assert world.plane.calls["ListTags"] == 2 * (foreign + 4)


def test_another_queues_tags_on_the_last_page_count_too() -> None:
    world = World()
    world.client = OneTagAPage(world.plane)
    other = SageMakerTraining(queue="other", clock=world.clock, make_client=lambda: world.client)
    other.create(request(), job(), attempt())
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.FAIL
    assert not world.training.look_into("job1", now=7).ours


def test_stops() -> None:
    world = World()
    assert world.training.stop("nobody").verdict is Verdict.FAIL
    world.training.create(request(), job(), attempt())
    world.until(10)
    answer = world.training.stop("job1")
    assert answer.verdict is Verdict.ALREADY_DONE
    world.plane.knobs.throttle = 1
    assert world.training.stop("job1").verdict is Verdict.RETRY


def test_describe_of_nobody_and_without_an_answer() -> None:
    world = World(throttle=1)
    with pytest.raises(Unavailable, match="Rate exceeded"):
        world.training.describe("job1")
    assert world.training.describe("job1") is None


def test_live_is_what_has_not_ended_each_once_whatever_the_pages() -> None:
    world = World(grace_seconds=1000)
    for n in range(205):
        world.client.create_training_job(**request(f"job-{n:03}"))
    world.until(10)  # All but the last ones, which come now, have ended.
    for name in ("running", "stopping"):
        world.client.create_training_job(**request(name))
    world.plane.advance()
    world.client.stop_training_job(TrainingJobName="stopping")
    assert sorted(world.training.live()) == ["running", "stopping"]
    assert world.plane.calls["ListTrainingJobs"] == 3
    world.plane.knobs.throttle = 1
    with pytest.raises(Unavailable, match="ListTrainingJobs: Rate exceeded"):
        list(world.training.live())


def test_what_is_too_old_to_run_is_not_paged_through() -> None:
    world = World(start_seconds=10**9)
    world.client.create_training_job(**request("old"))
    world.until(91 * 86_400)
    world.client.create_training_job(**request("new"))
    assert list(world.training.live()) == ["new"]


def test_a_listing_that_takes_too_long_is_given_up() -> None:
    world = World()
    for n in range(101):
        world.client.create_training_job(**request(f"job-{n:03}"))
    listing = iter(world.training.live())
    next(listing)
    world.clock.set(20_001)
    with pytest.raises(Unavailable, match="no time to read every page"):
        list(listing)


def test_one_that_begins_to_stop_while_listing_is_neither_missed_nor_there_twice() -> None:
    world = World()
    for n in range(101):
        world.client.create_training_job(**request(f"job-{n:03}"))
    world.plane.advance()
    listing = iter(world.training.live())
    first = next(listing)
    for name in (first, "job-100"):
        world.client.stop_training_job(TrainingJobName=name)
    assert sorted([first, *listing]) == sorted(f"job-{n:03}" for n in range(101))


def test_looking_into_a_training_job_tells_whose_it_is_and_what_it_occupies() -> None:
    world = World()
    world.training.create(request(), job(), attempt())
    groups = [
        {"InstanceType": kind, "InstanceCount": n, "InstanceGroupName": f"g{n}"}
        for n, kind in enumerate(("ml.m5.large", TYPE, "ml.m5.large"), start=2)
    ]
    other = [{"Key": "slotq:queue", "Value": "another"}, {"Key": "slotq:job", "Value": "job1"}]
    world.client.create_training_job(
        **request("foreign", ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 1})
    )
    world.client.create_training_job(**request("others", Tags=other))
    ours = Sighting(training_job="job1", ours=True, instance_type=TYPE, instances=1, first_seen=7)
    assert world.training.look_into("job1", now=7) == ours
    foreign = world.training.look_into("foreign", now=8)
    assert (foreign.ours, foreign.instance_type, foreign.instances) == (False, "ml.m5.large", 6)
    assert not world.training.look_into("others", now=8).ours
    assert world.plane.calls["DescribeTrainingJob"] == world.plane.calls["ListTags"] == 3


def test_looking_into_what_has_ended_or_is_not_there() -> None:
    world = World()
    world.training.create(request(), job(), attempt())
    world.until(10)
    assert world.training.look_into("job1", now=7) is None
    assert world.training.look_into("nobody", now=7) is None
    assert world.plane.calls["ListTags"] == 0
    world.plane.knobs.throttle = 1
    with pytest.raises(Unavailable, match="looking into job1: Rate exceeded"):
        world.training.look_into("job1", now=7)


ODD_EVENTS = [
    ({}, "has no detail"),
    ({"detail": None}, "has no detail"),
    ({"detail": "job1"}, "or its detail is not an object"),
    ({"detail": {}}, "names no training job"),
    ({"detail": {"TrainingJobName": 7}}, "names no training job"),
    ({"detail": {"TrainingJobName": "job1"}}, "unknown TrainingJobStatus ''"),
    ({"detail": {"TrainingJobName": "job1", "TrainingJobStatus": "Paused"}}, "unknown TrainingJobStatus 'Paused'"),
    ({"detail": {"TrainingJobName": "job1", "TrainingJobStatus": "Failed", "CheckpointConfig": "x"}}, "does not have SageMaker's form (AttributeError)"),
    ({"detail": {"TrainingJobName": "job1", "TrainingJobStatus": "Stopped", "CreationTime": 0, "StoppingCondition": {"MaxPendingTimeInSeconds": "x"}}}, "does not have SageMaker's form (ValueError)"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "reason"), ODD_EVENTS)
def test_events_that_cannot_be_understood(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotUnderstood) as raised:
        observation_of_event(event, at=0)
    assert reason in str(raised.value)


def test_a_status_that_nobody_knew_when_this_was_written_is_no_answer() -> None:
    world = World()
    world.client.describe_training_job = lambda **_: {"TrainingJobStatus": "Paused"}
    with pytest.raises(Unavailable, match="unknown TrainingJobStatus 'Paused'"):
        world.training.describe("job1")


def test_pending_for_too_long_is_no_capacity() -> None:
    world = World(stick_pending=2)
    patient = {"MaxRuntimeInSeconds": 100, "MaxPendingTimeInSeconds": 7200}
    for name in ("job1", "job2"):
        asked = request(name, StoppingCondition=patient)
        world.training.create(asked, job(name), attempt(name=name))
    world.until(3600)
    world.training.stop("job2")
    assert world.training.describe("job1").phase is Phase.STARTING
    world.until(7200)
    seen = world.training.describe("job1")
    assert (seen.phase, seen.verdict, seen.at) == (Phase.FAILED, Verdict.BACK_OFF, 7_200_000)
    assert "maximum pending time" in seen.message
    told = observation_of(world.events[-1]["detail"], at=7_200_000)
    assert replace(told, token=None) == seen
    assert world.training.describe("job2").phase is Phase.STOPPED


class Failing:
    """A client whose every call fails so."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            raise self.error

        return call


def client_error(code: str, text: str = "", status: int = 400) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": text},
            "ResponseMetadata": {"HTTPStatusCode": status},
        },
        "Any",
    )


LIMIT = (
    "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 2 Instances, with "
    "current utilization of 2 Instances and a request delta of 1 Instances."
)
R, B, F, D = Verdict.RETRY, Verdict.BACK_OFF, Verdict.FAIL, Verdict.ALREADY_DONE
N, L = Verdict.NO_RIGHTS, Verdict.ROLE_LACKS_RIGHTS
ERRORS = [
    # what SageMaker answers, what follows for a create, for a stop
    (client_error("ThrottlingException", "Rate exceeded"), R, R),
    (client_error("InternalFailure", status=500), R, R),
    (client_error("Anything", "it broke", status=503), R, R),
    (client_error("ServiceUnavailable", status=503), R, R),
    (client_error("ExpiredTokenException", "The security token is expired"), R, N),
    (client_error("ResourceLimitExceeded", LIMIT), B, R),
    (client_error("ResourceLimitExceeded", "ml.x is not available in this region"), F, R),
    (client_error("ValidationException", "1 validation error detected"), F, R),
    (client_error("AccessDeniedException", "not authorized to perform: iam:PassRole"), R, N),
    (client_error("ResourceNotFound", "no such thing"), F, F),
    (client_error("ValidationException", "Requested resource not found"), F, F),
    (client_error("ValidationException", "The request was rejected because the training job is in status Stopped."), F, D),
    (client_error("ValidationException", "The request was rejected because the training job is in status Completed."), F, D),
    (EndpointConnectionError(endpoint_url="https://x"), R, R),
    (ParamValidationError(report="Unknown parameter in input"), F, R),
    (RuntimeError("nobody foresaw this"), R, R),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "create", "stop"), ERRORS, ids=[str(row[0])[:60] for row in ERRORS]
)
def test_error_table(error: Exception, create: Verdict, stop: Verdict) -> None:
    training = SageMakerTraining(
        queue="test", clock=VirtualClock(), make_client=lambda: Failing(error)
    )
    assert training.create(request(), job(), attempt()).verdict is create
    assert training.stop("job1").verdict is stop


USER = "User: arn:aws:sts::1:assumed-role/slotq/slotq is not authorized to perform: "
JOB = "on resource: arn:aws:sagemaker:us-east-1:1:training-job/job1"
NOBODY = "because no identity-based policy allows the action"
RIGHTS = [
    # what CreateTrainingJob answers where no training job is there, what follows, what is missing
    ("AccessDeniedException", f"{USER}sagemaker:CreateTrainingJob {JOB} {NOBODY}", N, "sagemaker:CreateTrainingJob"),
    ("AccessDeniedException", f"{USER}sagemaker:AddTags {JOB}", N, "sagemaker:AddTags"),
    ("AccessDeniedException", f"{USER}iam:CreateServiceLinkedRole on resource: x", N, "iam:CreateServiceLinkedRole"),
    ("AccessDeniedException", f"{USER}sagemaker:CreateTrainingJob {JOB} with an explicit deny in a service control policy", L, "sagemaker:CreateTrainingJob"),
    ("AccessDeniedException", f"{USER}sagemaker:CreateTrainingJob on resource: arn:aws:sagemaker:us-east-1:1:training-plan/p {NOBODY}", L, "sagemaker:CreateTrainingJob"),
    ("AccessDeniedException", f"{USER}iam:PassRole on resource: arn:aws:iam::1:role/r {NOBODY}", L, "iam:PassRole"),
    ("AccessDeniedException", f"{USER}kms:CreateGrant on resource: arn:aws:kms:us-east-1:1:key/k", L, "kms:CreateGrant"),
    ("AccessDeniedException", "Access denied to hub content", L, "AccessDeniedException"),
    ("ValidationException", "Could not assume role arn:aws:iam::1:role/r. Please ensure that the role exists and allows principal 'sagemaker.amazonaws.com' to assume the role.", L, "sts:AssumeRole"),
    ("UnrecognizedClientException", "The security token included in the request is invalid.", N, "UnrecognizedClientException"),
    ("InvalidSignatureException", "Signature expired", N, "InvalidSignatureException"),
    ("SubscriptionRequiredException", "The AWS Access Key Id needs a subscription for the service", N, "SubscriptionRequiredException"),
    ("OptInRequired", "You are not subscribed to this service.", N, "OptInRequired"),
    ("InsufficientFreeAddressesInSubnet", "The specified subnet has too few", Verdict.REQUEUE, ""),
    # the request's own fault, whatever it has SageMaker quote
    ("ValidationException", "1 validation error detected: Value 'Could not assume role' at 'hyperParameters'", F, ""),
    ("ValidationException", "No S3 objects found … Error message from S3: Access Denied", F, ""),
    ("ValidationException", f"Value '{USER}iam:PassRole' is too long", F, ""),
]  # fmt: skip


class RefusingCreates(Failing):
    """A client that refuses to create, and knows no training job."""

    def describe_training_job(self, **_: Any) -> Any:
        raise client_error("ValidationException", "Requested resource not found.")


@pytest.mark.parametrize(("code", "text", "verdict", "action"), RIGHTS)
def test_whose_fault_a_refused_create_is(
    code: str, text: str, verdict: Verdict, action: str
) -> None:
    client = RefusingCreates(client_error(code, text))
    training = SageMakerTraining(queue="test", clock=VirtualClock(), make_client=lambda: client)
    answer = training.create(request(), job(), attempt())
    assert (answer.verdict, answer.action) == (verdict, action)
    assert text in answer.message


def test_a_long_refusal_is_read_in_no_time() -> None:
    """What it quotes of a request decides nothing, and cannot make it slow."""
    text = f"{USER}sagemaker:CreateTrainingJob with " * 20_000
    client = RefusingCreates(client_error("AccessDeniedException", text))
    training = SageMakerTraining(queue="test", clock=VirtualClock(), make_client=lambda: client)
    began = time.process_time()
    assert training.create(request(), job(), attempt()).verdict is N
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("operation", ["describe", "live", "look_into"])
def test_a_question_that_is_refused_says_which_right_is_missing(operation: str) -> None:
    error = client_error("AccessDeniedException", f"{USER}sagemaker:ListTrainingJobs {NOBODY}")
    training = SageMakerTraining(
        queue="test", clock=VirtualClock(), make_client=lambda: Failing(error)
    )
    ask = {
        "describe": lambda: training.describe("job1"),
        "live": lambda: list(training.live()),
        "look_into": lambda: training.look_into("job1", now=0),
    }[operation]
    with pytest.raises(RightMissing, match="a right is missing, sagemaker:ListTrainingJobs"):
        ask()


ENDS = [
    # status, secondary, FailureReason, phase, verdict, message
    ("Completed", "Completed", None, Phase.COMPLETED, Verdict.OK, ""),
    ("Stopped", "Stopped", None, Phase.STOPPED, Verdict.OK, ""),
    ("Stopped", "MaxRuntimeExceeded", None, Phase.FAILED, F, "it reached its maximum runtime"),
    ("Stopped", "MaxWaitTimeExceeded", None, Phase.FAILED, F, "it reached its maximum wait time"),
    ("Deleting", "Stopped", None, Phase.STOPPED, Verdict.OK, ""),
    ("Failed", "Failed", "CapacityError: Unable to provision requested ML compute capacity.", Phase.FAILED, B, "CapacityError"),
    ("Failed", "Failed", "InternalServerError: We encountered an internal error.", Phase.FAILED, Verdict.REQUEUE, "InternalServerError"),
    ("Failed", "Failed", "ClientError: SageMaker was unable to assume the role 'arn:aws:iam::1:role/r'", Phase.FAILED, L, "unable"),
    ("Failed", "Failed", "ClientError: TrainingHostAgent Initialization failed:InvalidInputException: SageMaker is unable to perform: sts:AssumeRole on the role.", Phase.FAILED, L, "unable"),
    ("Failed", "Failed", "ClientError: Not enough free addresses in subnet subnet-1", Phase.FAILED, Verdict.REQUEUE, "subnet"),
    ("Failed", "Failed", "ClientError: Data download failed: Access denied (403) for s3://bucket/data", Phase.FAILED, F, "403"),
    ("Failed", "Failed", "AlgorithmError: Could not assume role arn:aws:iam::1:role/mine, exit code: 1", Phase.FAILED, F, "mine"),
    ("Failed", "Failed", "AlgorithmError: , exit code: 1", Phase.FAILED, F, "AlgorithmError"),
    ("Failed", "Failed", "AlgorithmError: CapacityError: mine, exit code: 1", Phase.FAILED, F, "AlgorithmError"),
    ("Failed", "Failed", "ClientError: Data download failed", Phase.FAILED, F, "ClientError"),
    ("Failed", "Failed", None, Phase.FAILED, F, "no FailureReason"),
    ("InProgress", "Starting", None, Phase.STARTING, Verdict.OK, ""),
    ("InProgress", "Pending", None, Phase.STARTING, Verdict.OK, ""),
    ("InProgress", None, None, Phase.STARTING, Verdict.OK, ""),
    ("InProgress", "Downloading", None, Phase.RUNNING, Verdict.OK, ""),
    ("InProgress", "Training", None, Phase.RUNNING, Verdict.OK, ""),
    ("InProgress", "Uploading", None, Phase.RUNNING, Verdict.OK, ""),
    ("Stopping", "Stopping", None, Phase.STOPPING, Verdict.OK, ""),
    ("Stopping", "MaxRuntimeExceeded", None, Phase.STOPPING, Verdict.OK, ""),
]  # fmt: skip


@pytest.mark.parametrize(("status", "secondary", "reason", "phase", "verdict", "message"), ENDS)
def test_outcome_table(
    status: str, secondary: str, reason: str, phase: Phase, verdict: Verdict, message: str
) -> None:
    seen = observation_of(
        {
            "TrainingJobName": "job1",
            "TrainingJobStatus": status,
            "SecondaryStatus": secondary,
            "FailureReason": reason,
        },
        at=5,
    )
    assert (seen.training_job, seen.phase, seen.verdict, seen.at) == ("job1", phase, verdict, 5)
    assert message in seen.message


TIMES = [
    (1583831889050, 1583831889050),
    (1583831889050.0, 1583831889050),
    ("1583831889050", 1583831889050),
    (datetime(2020, 3, 10, 9, 18, 9, 122999, tzinfo=UTC), 1583831889123),
    (None, 5),
    ("soon", 5),
]


@pytest.mark.parametrize(("value", "at"), TIMES)
def test_times_of_events_and_describe(value: Any, at: int) -> None:
    detail = {
        "TrainingJobName": "job1",
        "TrainingJobStatus": "Stopped",
        "SecondaryStatus": "Stopped",
        "TrainingEndTime": value,
        "ModelArtifacts": None,
        "CheckpointConfig": None,
        "Tags": {},
    }
    assert observation_of(detail, at=5).at == at


def test_the_client_is_built_on_first_use() -> None:
    built: list[int] = []

    def make() -> Any:
        built.append(1)
        return Failing(client_error("ThrottlingException"))

    training = SageMakerTraining(queue="test", clock=VirtualClock(), make_client=make)
    assert not built
    training.stop("a")
    training.stop("a")
    assert built == [1]


def test_the_pools_of_a_job_reach_sagemaker_without_a_comma():
    """Its rule for a tag's value has none, and it would refuse the whole request."""
    tags = [{"Key": "slotq:pools", "Value": "p5,p4"}, {"Key": "team", "Value": "vision"}]
    assert names.sagemaker_tags(tags) == [
        {"Key": "slotq:pools", "Value": "p5 p4"},
        {"Key": "team", "Value": "vision"},
    ]
    world = queue_world.QueueWorld(queue_world.pool("p5"), queue_world.pool("p4"))
    with pytest.raises(ClientError, match="regular expression"):
        world.client.create_training_job(**queue_world.request("other", pools="p5,p4"))
    world.submit("job1", pools="p5,p4")
    world.deliver()
    assert world.states() == {"job1": "running"}
