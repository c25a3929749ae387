"""The calls of the queue's functions: in a queue's life, by its readers, and in the fault
campaign."""

from __future__ import annotations

import json
from typing import Any

import pytest

import app
from slotq.local.services.plane_client import PlaneClient
from slotq.local.training.plane import Plane
from slotq_core.adapters.dynamodb.layout.items import job_of
from tests.built.replies import function_of
from tests.contract.by_hand import Table, as_another_version
from tests.faults import crashes
from tests.faults.gate import Invocation
from tests.faults.stories import STORIES
from tests.faults.world import World
from tests.functional.account import HOUR, TABLE, Account, add_job, context, forget, sample
from tests.functional.conftest import account, engine  # noqa: F401 - pytest finds fixtures by their name
from tests.iam.recorder import FUNCTION, PLAN, VOLUMES, Client, Recorder

CRASHES = 2
"""The samples of each scenario of the campaign."""
SERVES = {"QueueManager": "queue", "Door": "door", "Views": "views"}
REQUESTS = {"submit", "cancel", "requeue"}
"""The campaign's name for requests of its users."""


class Recorders(dict[str, Recorder]):
    """A recorder for each function, and the function at work."""

    def __init__(self) -> None:
        super().__init__({name: Recorder() for name in SERVES})
        self.at_work = "QueueManager"

    def client(self, service: str, client: Any, plane: Plane) -> Any:
        """A client whose calls are recorded for the function that makes them."""
        return Client(
            client, lambda name, body: self[self.at_work].note(service, name, body, plane)
        )

    @property
    def operations(self) -> set[tuple[str, str]]:
        return set().union(*(each.operations for each in self.values()))


@pytest.fixture
def recorders(account: Account, monkeypatch: pytest.MonkeyPatch) -> Recorders:  # noqa: F811
    """Serve each event by its function in the template, and record the calls."""
    monkeypatch.setenv("SLOTQ_ANNOUNCE", "1")
    monkeypatch.setenv("SLOTQ_MANAGER", FUNCTION)
    made, plane, send = Recorders(), account.plane, account.send
    sagemaker = made.client("sagemaker", PlaneClient(plane), plane)
    monkeypatch.setattr(
        app, "client", lambda service: made.client(service, account.client(service), plane)
    )
    monkeypatch.setattr(app, "sagemaker_client", lambda: sagemaker)

    def serve(event: Any) -> dict[str, Any]:
        event = sample(event) if isinstance(event, str) else event
        made.at_work = function_of(event)
        monkeypatch.setenv(app.SERVES, SERVES[made.at_work])
        return send(event)

    monkeypatch.setattr(account, "send", serve)
    forget()
    return made


@pytest.fixture
def life(
    account: Account,  # noqa: F811
    recorders: Recorders,
    monkeypatch: pytest.MonkeyPatch,
) -> Recorders:
    """A queue's life: submissions, an eviction, cancels, capacity errors, drift, an update."""
    monkeypatch.setenv("SLOTQ_LIMITS", "waiting=4,submissions=60,waiting_in_all=10,lines=9")
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.settle()
    resources = json.loads(sample("add-job")["body"])["ResourceConfig"]
    for name, lost in (("first", True), ("second", True), ("third", False)):
        _evict(account, name, {**resources, "InstanceCount": 2}, lost=lost)
    account.call(add_job(TrainingJobName="cancelled"))
    reserved = {**resources, "TrainingPlanArn": PLAN, "VolumeKmsKeyId": VOLUMES}
    account.call(add_job(TrainingJobName="reserved", ResourceConfig=reserved))
    account.call("amend-job")
    account.call("change-jobs")
    account.call("cancel-job")
    account.call("submit-group")
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
    for name in ("another-s", "a-third-s"):
        account.plane.handle("CreateTrainingJob", {**_foreign(), "TrainingJobName": name})
    account.call("examine")
    account.call(add_job(TrainingJobName="lost-copy"))
    table = Table(account.dynamodb, TABLE)
    for key in [key for key in table.all() if key[0].startswith("WAITING#")]:
        table.remove(key)
    account.call("mend")
    assert account.call("set-limits")[0] == 200
    more = {**sample("set-pool"), "path": "/pools/more"}
    assert account.call(more)[0] == 200
    removed = {**sample("remove-pool"), "path": "/pools/more"}
    assert account.call(removed)[0] == 200
    assert account.call("set-project")[0] == 200
    assert account.call("remove-project")[0] == 200
    assert account.call("apply-configuration")[0] == 200
    account.send("poison-no-detail")
    app.handler(sample("tick"), context(milliseconds=app.TIME_TO_END))  # no time for a pass
    return recorders


def _evict(account: Account, name: str, resources: Any, *, lost: bool) -> None:  # noqa: F811
    """Evict the job that runs, and let it run again. Where its events are lost, the door finds its
    end."""
    urgent = [{"Key": "priority", "Value": "9"}]
    account.call(add_job(TrainingJobName=name, ResourceConfig=resources, Tags=urgent))
    if lost:
        while account.lambda_.events:
            account.send(account.lambda_.events.pop(0))
        account.plane.advance()
        account.emitted.clear()
        account.clock.set(account.clock.now() + HOUR)
        account.call("mend")
    account.settle()
    account.call({**sample("cancel-job"), "path": f"/jobs/{name}"})
    account.settle()


@pytest.fixture
def views(account: Account, recorders: Recorders) -> Recorders:  # noqa: F811
    """What people read."""
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.call(add_job(TrainingJobName="waiting"))
    assert account.call("submit-group")[0] == 202
    looks = ("list-jobs", "list-jobs-filtered", "get-job", "get-group", "get-request", "list-pools")
    for event in (
        *looks,
        "list-changes",
        "get-limits",
        "get-usage",
        "get-configuration",
        "list-projects",
        "list-quotas",
    ):
        assert account.call(event)[0] == 200
    urgent = [{"Key": "priority", "Value": "9"}]
    account.call(add_job(TrainingJobName="at-once", Tags=urgent))
    account.settle()
    assert account.call("list-jobs")[0] == 200
    assert account.call("get-version")[1]["caller"]
    waiting = sample("get-job")
    waiting["path"] = "/jobs/waiting"
    assert account.call(waiting)[1]["reason"]
    return recorders


@pytest.fixture(scope="session")
def campaign() -> Recorders:
    """Each scenario of the campaign without a fault, and cut at some of its calls."""
    made = Recorders()
    wire = World.wire

    def noted(world: World, invocation: Invocation, service: str) -> Any:
        made.at_work = "Door" if invocation.label.split()[0] in REQUESTS else "QueueManager"
        return made.client(service, wire(world, invocation, service), world.plane)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "wire", noted)
        for scenario in STORIES:
            calls, _ = crashes.count_calls(scenario)
            points = list(crashes.crash_points(calls))
            for point in points[:: len(points) // CRASHES + 1]:
                crashes.run(scenario, point)
    return made


def _foreign() -> dict[str, Any]:
    """A foreign training job, which the queue describes and leaves alone."""
    return {**json.loads(sample("add-job")["body"]), "TrainingJobName": "foreign", "Tags": []}
