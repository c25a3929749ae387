"""The calls of the queue's functions: in a queue's life, by its readers, and in the fault
campaign."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import app
import notifier
from slotq.local.services.training_service import PlaneClient
from slotq.local.training.plan_documents import read_plans
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.dynamodb.layout.items import job_of
from slotq_core.adapters.dynamodb.layout.records import write
from slotq_core.adapters.dynamodb.layout.table import table_definition
from slotq_core.adapters.dynamodb.outbox.notices import SOURCE
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import Digest, Notification, Receiver
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import Sharing
from slotq_core.notices.places import KEPT_UNDER
from tests.built.replies import function_of
from tests.contract.by_hand import Table, as_another_version
from tests.faults import crashes
from tests.faults.gate import Invocation
from tests.faults.stories import STORIES
from tests.faults.world import World
from tests.functional.account import HOUR, NOW, TABLE, Account, add_job, context, forget, sample
from tests.functional.checked_dynamodb import CheckedDynamo
from tests.functional.conftest import account, engine, in_use  # noqa: F401 - pytest finds fixtures by their name
from tests.functional.notified import TOPIC as NOTIFIED_TOPIC
from tests.functional.pipelines_double import (
    QUEUE_ARN,
    ROLE_ARN,
    ExecutionsDouble,
    SubmittersDouble,
    delivered,
    message,
)
from tests.functional.test_processing import processing_body
from tests.iam.recorder import FUNCTION, OWN, PLAN, VOLUMES, Client, Recorder
from tests.unit.notices.jobs import job

NO_PLANE: Any = None
"""The notifier knows no SageMaker."""
CRASHES = 2
"""The samples of each scenario of the campaign."""
SERVES = {"QueueManager": "queue", "Door": "door", "Views": "views"}
REQUESTS = {"amend", "cancel", "doctor", "requeue", "retry", "submit"}
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
    monkeypatch.setenv("SLOTQ_CALLBACKS", "task,pipeline")
    monkeypatch.setenv("SLOTQ_LIMITS", "waiting=4,submissions=60,waiting_in_all=10,lines=9")
    resources = json.loads(sample("add-job")["body"])["ResourceConfig"]
    _release(account, resources)
    account.call("add-job")
    account.settle()
    account.call("add-job-urgent")
    account.settle()
    for name, lost in (("first", True), ("second", True), ("third", False)):
        _evict(account, name, {**resources, "InstanceCount": 2}, lost=lost)
    account.call(add_job(TrainingJobName="cancelled"))
    reserved = {**resources, "TrainingPlanArn": PLAN, "VolumeKmsKeyId": VOLUMES}
    account.call(add_job(TrainingJobName="reserved", ResourceConfig=reserved))
    account.call("amend-job")
    account.call("change-jobs")
    account.call("cancel-job")
    account.call("submit-jobs")
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
    _buy_plan(account)
    _wait_for_ends(account)
    _process(account)
    removed = {**sample("remove-pool"), "path": "/pools/more"}
    assert account.call(removed)[0] == 200
    assert account.call("set-project")[0] == 200
    assert account.call("remove-project")[0] == 200
    assert account.call("apply-configuration")[0] == 200
    account.send("poison-no-detail")
    app.handler(sample("tick"), context(milliseconds=app.TIME_TO_END))  # no time for a pass
    return recorders


def _buy_plan(account: Account) -> None:  # noqa: F811
    """Give the queue a pool of a training plan, which a tick and the doctor look at."""
    window = {"from": 0, "to": 9 * 86_400, "instances": 1}
    plan = {"name": PLAN.rpartition("/")[2], "instance_type": "ml.p5.48xlarge", "windows": [window]}
    account.plane.set_plans(read_plans({"plans": [plan]}, now=account.clock.now()))
    bought = {
        "slots": 1,
        "instance_type": "ml.p5.48xlarge",
        "capacity_kind": "plan",
        "plan_arn": PLAN,
    }
    set_pool = {**sample("set-pool"), "path": "/pools/winter", "body": json.dumps(bought)}
    assert account.call(set_pool)[0] == 200
    account.clock.set(account.clock.now() + HOUR)
    account.send("tick")
    account.call("examine")
    assert account.call({**sample("remove-pool"), "path": "/pools/winter"})[0] == 200


def _process(account: Account) -> None:  # noqa: F811
    """Run processing jobs in a pool of their own: one is evicted, two cancelled, one ends unseen,
    and the doctor looks."""
    settings = {"slots": 2, "instance_type": "ml.m5.xlarge", "work": "processing"}
    data = {**sample("set-pool"), "path": "/pools/data", "body": json.dumps(settings)}
    assert account.call(data)[0] == 200
    role = json.loads(sample("add-job")["body"])["RoleArn"]
    evicted = [{"Key": "slotq:preemptible", "Value": "true"}]
    urgent = [{"Key": "priority", "Value": "9"}]
    for name, tags in (("evicted", evicted), ("clean", []), ("unseen", urgent)):
        body = processing_body(name, RoleArn=role, Tags=tags)
        assert account.call({**sample("add-job"), "body": json.dumps(body)})[0] == 202
        account.settle()
    for name in ("clean", "evicted"):
        account.call({**sample("cancel-job"), "path": f"/jobs/processing:{name}"})
        account.settle()
    for again in ("examine", "tick", "mend"):
        account.clock.set(account.clock.now() + HOUR)
        account.plane.advance()
        account.emitted.clear()
        account.plane.handle("CreateProcessingJob", {**processing_body(f"{again}s"), "Tags": []})
        if again == "tick":
            account.send(again)
        else:
            account.call(again)
    account.settle()
    removed = {**sample("remove-pool"), "path": "/pools/data"}
    assert account.call(removed)[0] == 200


def _wait_for_ends(account: Account) -> None:  # noqa: F811
    """Let two state machines and two pipelines wait for jobs that complete and that do not."""
    kinds = {"task": "task_token", "step": "pipeline_token"}
    for kind, token in kinds.items():
        for end in ("done", "gone"):
            name, callback = f"{kind}-{end}", {token: f"token{end}1"[:10].ljust(10, "0")}
            body = {"TrainingJobName": name, "slotq:callback": callback}
            assert account.call(add_job(**body))[0] == 202
            account.settle()
            account.send("tick")
            if end == "done":
                account.completes(name)
            else:
                account.call({**sample("cancel-job"), "path": f"/jobs/{name}"})
                account.settle()
    account.clock.set(account.clock.now() + HOUR)
    account.settle()
    account.send("tick")


def _release(account: Account, resources: Any) -> None:  # noqa: F811
    """Release the instances that a job has left warm, for one that they do not suit."""
    kept = {**resources, "KeepAlivePeriodInSeconds": 600}
    account.call(add_job(TrainingJobName="warm", ResourceConfig=kept))
    account.settle()
    account.completes("warm")
    both = {**resources, "InstanceCount": 2}
    account.call(add_job(TrainingJobName="needs-both", ResourceConfig=both))
    account.settle()
    account.call({**sample("cancel-job"), "path": "/jobs/needs-both"})
    account.clock.set(account.clock.now() + HOUR)
    account.send("tick")
    account.settle()


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
        "list-attempts",
        "get-configuration",
        "list-projects",
        "list-quotas",
        "get-scenario",
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


@pytest.fixture
def step_calls(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What the function for callback steps does: it submits as two roles, cancels what waits and
    what runs, fails steps, and puts away what it does not understand."""
    with monkeypatch.context() as patch:
        patch.delenv(app.SERVES, raising=False)
        patch.setenv("SLOTQ_ANNOUNCE", "1")
        patch.setenv("SLOTQ_CALLBACKS", "pipeline")
        patch.delenv(app.SERVES, raising=False)  # What another life has served last.
        patch.setenv("SLOTQ_LIMITS", "waiting=2,submissions=60")
        patch.setenv("SLOTQ_SUBMITTERS", "/slotq/slotq/pipelines/")
        patch.setenv("SLOTQ_MANAGER", FUNCTION)
        return Steps(next(in_use(Account(CheckedDynamo()), patch)), patch).play()


class Steps:
    """The function for callback steps in an account of its own, and what it calls."""

    def __init__(self, world: Account, patch: pytest.MonkeyPatch) -> None:
        self._account, self._patch = world, patch
        self._recorder, self._ssm = Recorder(), SubmittersDouble()
        self._other = QUEUE_ARN.replace("vision", "speech")
        self._ssm.parameters["/slotq/slotq/pipelines/slotq-pipelines-speech"] = ROLE_ARN

    def play(self) -> Recorder:
        world = self._account
        world.send("tick")
        request = json.loads(sample("add-job")["body"])
        for token in ("a", "b"):
            self._take(message(request, token=token * 10))
        world.settle()
        running = [job["name"] for job in world.call("list-jobs")[1]["jobs"]]
        after = [{"Key": "slotq:after", "Value": running[0]}]
        waits = (
            message(request, token="c" * 10),
            message({**request, "Tags": after}, token="d" * 10),
        )
        self._take(*waits, queue=self._other)
        world.pass_time(HOUR // 2)
        self._take(message(request, token="e" * 10), again=1)
        self._take(message(request, token="e" * 10), again=1, tries=2)
        self._take("not JSON", message({}, token="f" * 10), message({}, token="g" * 10))
        for name in running:  # Their ends are not heard of.
            world.plane.job(name).status = "Completed"
        for token in ("a", "b", "c", "d"):
            self._take(message(token=token * 10, status="Stopping"))
        assert len(world.waits.answers()) == 2
        return self._recorder

    def _take(self, *bodies: Any, queue: str = QUEUE_ARN, again: int = 0, tries: int = 1) -> None:
        with self._patch.context() as patch:
            patch.setenv(app.SERVES, app.STEPS)
            patch.setattr(app, "client", self._client)
            recorded = self._recorded("sagemaker", PlaneClient(self._account.plane))
            patch.setattr(app, "sagemaker_client", lambda: recorded)
            forget()
            app.submitters.cache_clear()
            answer = app.handler(delivered(*bodies, queue=queue, tries=tries), context())
            assert len(answer["batchItemFailures"]) == again
        forget()

    def _client(self, service: str) -> Any:
        own = {"ssm": self._ssm, "sagemaker": ExecutionsDouble(self._account.waits)}
        return self._recorded(service, own.get(service) or self._account.client(service))

    def _recorded(self, service: str, client: Any) -> Any:
        plane = self._account.plane
        return Client(client, lambda name, body: self._recorder.note(service, name, body, plane))


@pytest.fixture
def notifier_calls(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What the notifier does: it tells of a job's life, to each kind of receiver, and a day later
    of the day."""
    recorder, clock, table = Recorder(), VirtualClock(NOW), CheckedDynamo()
    table.create_table(**table_definition(TABLE))
    secret = f"arn:aws:secretsmanager:{OWN}:secret:{KEPT_UNDER}"
    to = [Receiver(channel="sns", place=NOTIFIED_TOPIC)]
    to += [
        Receiver(channel="slack", place=f"ssm:/{KEPT_UNDER}{key}") for key in ("vision", "speech")
    ]
    to += [Receiver(channel="slack", place=f"{secret}{key}-AbCdEf") for key in ("vision", "speech")]
    rules = [Notification(name=f"r{n}", receiver=it) for n, it in enumerate(to)]
    rules[0] = replace(rules[0], digest=Digest.DAILY, stuck_after=60_000)
    pool = Pool(name="p5", instance_type="ml.p5.48xlarge", capacity=Demand(slots=1))
    DynamoStore(table, TABLE).configuration.change(
        [pool], sharing=Sharing(notifications=tuple(rules)), who="operator", now=NOW
    )

    class Service:
        """Answers as if everything were there."""

        def publish(self, **_: Any) -> dict[str, Any]:
            return {}

        def get_parameter(self, **_: Any) -> dict[str, Any]:
            return {"Parameter": {"Value": "https://hooks.slack.com/x"}}

        def get_secret_value(self, **_: Any) -> dict[str, Any]:
            return {"SecretString": "https://hooks.slack.com/x"}

    def client(service: str) -> Any:
        real = table if service == "dynamodb" else Service()
        return Client(real, lambda name, body: recorder.note(service, name, body, NO_PLANE))

    monkeypatch.setenv("SLOTQ_TABLE", TABLE)
    monkeypatch.setattr(notifier, "clock", clock)
    monkeypatch.setattr(notifier, "client", client)
    monkeypatch.setattr(notifier, "Sender", partial(Sender, post=lambda *_, **__: None))
    notifier.notices.cache_clear()
    states = (JobState.STARTING, JobState.RUNNING, JobState.COMPLETED)
    records = [_record(job(one), job(other)) for one, other in pairwise(states)]
    assert notifier.handler({"Records": records}, context()) == {"batchItemFailures": []}
    for minutes in (0, 24 * 60, 1):
        clock.set(clock.now() + minutes * 60_000)
        notifier.handler(sample("tick"), context())
    notifier.notices.cache_clear()
    return recorder


def _record(before: Job, after: Job) -> dict[str, Any]:
    """A change of a job, as the table's stream tells it."""
    key = {"pk": {"S": f"JOB#{after.name}"}, "sk": {"S": "JOB"}}
    images = {"OldImage": {**key, **write(before)}, "NewImage": {**key, **write(after)}}
    said = {"Keys": key, "SequenceNumber": "1", **images}
    return {"eventSource": SOURCE, "eventName": "MODIFY", "dynamodb": said}


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
