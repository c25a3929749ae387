"""The SageMaker adapter with the plane behind real boto3 gives the same answers as in one
process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from werkzeug.serving import make_server

from slotq.local.entry.guard import Guard
from slotq.local.entry.signatures import Caller
from slotq.local.front import Front
from slotq.local.training.plan_documents import read_plans
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.errors import Unavailable
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.ports.training import Phase, Verdict
from tests.unit.sagemaker.adapter_world import TYPE, World, attempt, job, request

PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"


@pytest.fixture(scope="module")
def session() -> boto3.Session:
    return boto3.Session("testing", "testing", region_name="us-east-1")


@pytest.fixture
def world(session: boto3.Session) -> Iterator[World]:
    """The world of the unit tests, with a real client over HTTP on loopback."""
    world = World()
    unused: Any = None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    me = Caller(arn="me", access_key="testing", secret_key="testing")
    front = Front(
        guard=Guard(host="127.0.0.1", port=port),
        find_caller=lambda _: me,
        token="",
        plane=world.plane,
        dynamo=unused,
        gateway=unused,
        invocations=unused,
        others=unused,
        poke=lambda: None,
        health=dict,
        tick=lambda: None,
    )
    server = make_server("127.0.0.1", port, front, threaded=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    once = Config(retries={"total_max_attempts": 1}, read_timeout=5, proxies={})
    client = session.client(
        "sagemaker", endpoint_url=f"http://127.0.0.1:{server.server_port}", config=once
    )
    world.training = SageMakerTraining(queue="test", clock=world.clock, make_client=lambda: client)
    yield world
    server.shutdown()
    server.server_close()


def test_a_training_job_goes_through_its_phases(world: World) -> None:
    world.until(0)
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.OK
    world.until(1)
    seen = world.training.describe("job1")
    assert seen is not None
    assert (seen.phase, seen.at) == (Phase.RUNNING, 0)
    assert world.training.stop("job1").verdict is Verdict.OK
    world.until(3)
    seen = world.training.describe("job1")
    assert seen is not None
    assert (seen.phase, seen.at, seen.verdict) == (Phase.STOPPED, 2000, Verdict.OK)
    assert world.training.stop("job1").verdict is Verdict.ALREADY_DONE
    assert world.training.stop("nobody").verdict is Verdict.FAIL
    assert world.training.describe("nobody") is None


def test_milliseconds_survive_the_wire(world: World) -> None:
    world.clock.set(1_795_000_000_123)
    world.training.create(request(), job(), attempt())
    world.plane.advance()
    seen = world.training.describe("job1")
    assert seen is not None
    assert seen.at == 1_795_000_000_123


def test_a_repeated_create_after_a_lost_answer_is_recognised(world: World) -> None:
    world.plane.knobs.lose_answers = 1
    answer = world.training.create(request(), job(), attempt())
    assert answer.verdict is Verdict.RETRY, answer
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.ALREADY_DONE
    stranger = attempt(entry_time=6)
    assert world.training.create(request(), job(), stranger).verdict is Verdict.NAME_TAKEN


@pytest.mark.parametrize(
    ("knob", "verdict", "text"),
    [
        ("refuse_creates", Verdict.BACK_OFF, "The account-level service limit"),
        ("refuse_region", Verdict.FAIL, "not available in this region"),
        ("throttle", Verdict.RETRY, "Rate exceeded"),
    ],
)
def test_a_refused_create_has_its_verdict_and_message(
    world: World, knob: str, verdict: Verdict, text: str
) -> None:
    setattr(world.plane.knobs, knob, 1)
    answer = world.training.create(request(), job(), attempt())
    assert answer.verdict is verdict
    assert text in answer.message


def test_a_request_that_botocore_refuses_fails_the_job(world: World) -> None:
    answer = world.training.create(request(Colour="red"), job(), attempt())
    assert answer.verdict is Verdict.FAIL
    assert "Colour" in answer.message


def test_listing_reads_every_page(world: World) -> None:
    for n in range(101):
        world.plane.handle("CreateTrainingJob", request(f"job-{n}"))
    assert len(world.training.live().names) == 101
    assert world.plane.calls["ListTrainingJobs"] == 2
    world.plane.knobs.throttle = 1
    with pytest.raises(Unavailable):
        world.training.live()


def test_a_running_training_job_is_described(world: World) -> None:
    world.training.create(request(), job(), attempt())
    seen = world.training.look_into("job1", now=7)
    assert seen is not None
    assert (seen.ours, seen.instances) == (True, 1)
    assert world.training.look_into("nobody", now=7) is None


def test_a_training_plan_is_described(world: World) -> None:
    windows = ({"from": 0, "to": 60, "instances": 3}, {"from": 90, "to": 99.5, "instances": 4})
    plan = {"name": "june", "instance_type": TYPE, "windows": [*windows], "unhealthy": 1}
    world.plane.set_plans(read_plans({"plans": [{**plan, "used_elsewhere": 2}]}, now=1))
    world.clock.set(7)
    assert world.training.describe_plan(PLAN) == PlanFacts(
        arn=PLAN,
        status=PlanStatus.ACTIVE,
        instance_type=TYPE,
        windows=(
            PlanWindow(begins=1, ends=60_001, slots=3),
            PlanWindow(begins=90_001, ends=99_501, slots=4),
        ),
        total=3,
        in_use=2,
        unhealthy=1,
        read_at=7,
    )
    world.plane.set_plans([])
    assert world.training.describe_plan(PLAN) is None
    assert world.plane.calls["DescribeTrainingPlan"] == 2


def test_no_connection_is_a_retry_or_unavailable() -> None:
    client = boto3.client(
        "sagemaker",
        endpoint_url="http://127.0.0.1:9",
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=1, proxies={}),
    )
    training = SageMakerTraining(queue="test", clock=World().clock, make_client=lambda: client)
    assert training.create(request(), job(), attempt()).verdict is Verdict.RETRY
    assert training.stop("job1").verdict is Verdict.RETRY
    with pytest.raises(Unavailable):
        training.describe("job1")
