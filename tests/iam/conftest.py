"""The calls that the queue makes: of a queue's life, of its views, and of the fault campaign."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import app
from slotq.local.plane_client import PlaneClient
from slotq_core.adapters.dynamodb_items import job_of
from tests.contract.by_hand import Table, as_another_version
from tests.faults import crashes
from tests.faults.scenarios import SCENARIOS
from tests.faults.world import Invocation, World
from tests.functional.account import HOUR, TABLE, Account, add_job, forget, sample
from tests.functional.conftest import account  # noqa: F401 - pytest finds fixtures by their name
from tests.iam.recorder import PLAN, VOLUMES, Recorder

CRASHES = 2
"""Of each scenario of the campaign."""


@pytest.fixture
def recording(account: Account, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Recorder]:  # noqa: F811
    """Makes the function's clients anew, with what they ask for noted."""
    monkeypatch.setenv("SLOTQ_ANNOUNCE", "1")

    def begin() -> Recorder:
        made, plane = Recorder(), account.plane
        sagemaker = made.client("sagemaker", PlaneClient(plane), plane)
        monkeypatch.setattr(
            app, "client", lambda service: made.client(service, account.client(service), plane)
        )
        monkeypatch.setattr(app, "sagemaker_client", lambda: sagemaker)
        forget()
        return made

    return begin


@pytest.fixture
def life(account: Account, recording, monkeypatch: pytest.MonkeyPatch) -> Recorder:  # noqa: F811
    """A queue's life: submissions, an eviction, cancels, capacity errors, drift, an update."""
    monkeypatch.setenv("SLOTQ_LIMITS", "waiting=4,submissions=60,waiting_in_all=10,lines=9")
    made = recording()
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.settle()
    account.call(add_job(TrainingJobName="cancelled"))
    resources = json.loads(sample("add-job")["body"])["ResourceConfig"]
    reserved = {**resources, "TrainingPlanArn": PLAN, "VolumeKmsKeyId": VOLUMES}
    account.call(add_job(TrainingJobName="reserved", ResourceConfig=reserved))
    account.call("amend-job")
    account.call("cancel-job")
    account.plane.knobs.refuse_creates = 1
    waits = next(it for it in account.items() if it["pk"]["S"].startswith("WAITING#"))
    as_another_version(Table(account.dynamodb, TABLE), job_of(waits))
    for _ in range(3):
        account.clock.set(account.clock.now() + HOUR)
        account.settle()
        account.send("tick")
    account.plane.handle("CreateTrainingJob", _foreign())
    account.clock.set(account.clock.now() + HOUR)
    account.send("tick")
    monkeypatch.setenv("SLOTQ_POOLS", "main=2@ml.p4d.24xlarge,more=1@ml.g5.xlarge")
    forget()
    account.call("examine")
    account.call("mend")
    assert account.call("set-limits")[0] == 200
    more = {**sample("set-pool"), "path": "/pools/more"}
    assert account.call(more)[0] == 200
    removed = {**sample("remove-pool"), "path": "/pools/more"}
    assert account.call(removed)[0] == 200
    account.send("poison-no-detail")
    return made


@pytest.fixture
def views(account: Account, recording, monkeypatch: pytest.MonkeyPatch) -> Recorder:  # noqa: F811
    """What people look at, in the views' function."""
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.call(add_job(TrainingJobName="waiting"))
    monkeypatch.setenv("SLOTQ_READ_ONLY", "1")
    made = recording()
    looks = ("list-jobs", "list-jobs-filtered", "get-job", "get-request", "list-pools")
    for event in (*looks, "list-changes", "get-limits"):
        assert account.call(event)[0] == 200
    assert account.call("get-version")[1]["caller"]
    waiting = sample("get-job")
    waiting["path"] = "/jobs/waiting"
    assert account.call(waiting)[1]["reason"]
    return made


@pytest.fixture(scope="session")
def campaign() -> Recorder:
    """Each scenario of the campaign without a fault, and broken off at some of its calls."""
    made = Recorder()
    wire = World.wire

    def noted(world: World, invocation: Invocation, service: str) -> Any:
        return made.client(service, wire(world, invocation, service), world.plane)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "wire", noted)
        for scenario in SCENARIOS:
            calls, _ = crashes.count_calls(scenario)
            points = list(crashes.crash_points(calls))
            for point in points[:: len(points) // CRASHES + 1]:
                crashes.run(scenario, point)
    return made


def _foreign() -> dict[str, Any]:
    """Somebody else's training job, which the queue looks at and leaves alone."""
    return {**json.loads(sample("add-job")["body"]), "TrainingJobName": "foreign", "Tags": []}
