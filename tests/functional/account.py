"""The real handler with a DynamoDB and the emulator's training plane, in one process."""

import io
import json
import pickle
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

import app
from slotq.local.services.invocations import check_size
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq_core.adapters.dynamodb.layout.table import table_definition
from slotq_core.timestamps import from_iso, to_datetime
from tests.functional.checked_dynamodb import CheckedDynamo

EVENTS = Path(__file__).parents[2] / "events"
TABLE = "sagemaker-queue"
LETTERS = "https://sqs.us-east-1.amazonaws.com/123456789012/dead-letters"
WAKES = "https://sqs.us-east-1.amazonaws.com/123456789012/wakes"
NODES_BUCKET = "slotq-nodes"
NOW = from_iso("2026-11-20T10:30:00.000Z")
HOUR = 3_600_000


def sample(name: str) -> dict[str, Any]:
    """One of the files in events/."""
    return json.loads((EVENTS / f"{name}.json").read_text())


def add_job(**changes: Any) -> dict[str, Any]:
    """events/add-job.json with these fields changed, or removed if None."""
    event = sample("add-job")
    body = {**json.loads(event["body"]), **changes}
    event["body"] = json.dumps({key: value for key, value in body.items() if value is not None})
    return event


def copied(event: dict[str, Any]) -> dict[str, Any]:
    """The event as another call gets it: what a handler changes in it is lost. (Pickling is several
    times as quick as a deep copy.)"""
    return pickle.loads(pickle.dumps(event))


def context(milliseconds: int = 60_000) -> SimpleNamespace:
    """The invocation's context: its id and the time left."""
    return SimpleNamespace(
        aws_request_id="request-1", get_remaining_time_in_millis=lambda: milliseconds
    )


class FakeLambda:
    """Accepts asynchronous invocations and keeps their events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.calls.append(request)
        self.events.append(json.loads(request["Payload"]))
        return {"StatusCode": 202}


class FakeSqs:
    """Keeps dead letters."""

    def __init__(self) -> None:
        self.read: list[dict[str, Any]] = []
        self.wakes: list[dict[str, Any]] = []
        """The requests for passes later."""

    def send_message(self, **request: Any) -> dict[str, Any]:
        if request["QueueUrl"] == WAKES:
            self.wakes.append(request)
            return {"MessageId": "1"}
        assert request["QueueUrl"] == LETTERS
        self.read.append(json.loads(request["MessageBody"]))
        return {"MessageId": "1"}


class FakeEvents:
    """Keeps announced events; `refuses` makes it refuse or fail."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.refuses: Exception | None = None

    def put_events(self, **request: Any) -> dict[str, Any]:
        assert 1 <= len(request["Entries"]) <= 10
        if self.refuses:
            raise self.refuses
        self.entries += request["Entries"]
        return {"FailedEntryCount": 0}


class FakeS3:
    """Keeps objects by bucket and key. Like S3 it denies what is not there, because the queue may
    not list; but for the stack's bucket for nodes."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.objects: dict[tuple[str, str], bytes] = {}
        self.calls: list[str] = []
        """The keys, each time."""

    def put_object(self, **request: Any) -> dict[str, Any]:
        self.calls.append(request["Key"])
        there = self.objects.get((request["Bucket"], request["Key"]))
        missing = there is None or request.get("IfMatch") != _etag(there)
        if ("IfMatch" in request and missing) or ("IfNoneMatch" in request and there is not None):
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "PutObject")
        self.objects[request["Bucket"], request["Key"]] = request["Body"]
        return {}

    def get_object(self, **request: Any) -> dict[str, Any]:
        self.calls.append(request["Key"])
        content = self.objects.get((request["Bucket"], request["Key"]))
        if content is None:
            code = "NoSuchKey" if request["Bucket"] == NODES_BUCKET else "AccessDenied"
            raise ClientError({"Error": {"Code": code}}, "GetObject")
        at = to_datetime(self._clock.now())
        return {"Body": io.BytesIO(content), "ETag": _etag(content), "LastModified": at}


class FakeWaits:
    """Step Functions and SageMaker Pipelines, as far as a callback goes: each token takes one
    answer, and is over then."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.over: set[str] = set()
        """The tokens that nobody waits with any more."""
        self.refuses = ""
        """The code of the error that every call gets; empty: none."""

    def __getattr__(self, operation: str) -> Any:
        if not operation.startswith("send_"):
            raise AttributeError(operation)

        def call(**request: Any) -> dict[str, Any]:
            self.calls.append((operation, request))
            token = request.get("taskToken") or request["CallbackToken"]
            if self.refuses:
                raise ClientError({"Error": {"Code": self.refuses, "Message": token}}, operation)
            if token in self.over:
                code = "TaskTimedOut" if "taskToken" in request else "ResourceNotFound"
                raise ClientError({"Error": {"Code": code, "Message": token}}, operation)
            if operation != "send_task_heartbeat":
                self.over.add(token)
            return {}

        return call

    def answers(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that were no heartbeats."""
        return [each for each in self.calls if each[0] != "send_task_heartbeat"]


def _etag(content: bytes) -> str:
    return f'"{md5(content, usedforsecurity=False).hexdigest()}"'


class Account:
    """An AWS account with a queue: what tests do to it and see of it."""

    def __init__(self, dynamodb: Any = None) -> None:
        """`dynamodb`: a client of another engine than the emulator's."""
        self.clock = VirtualClock(NOW)
        self.emitted: list[dict[str, Any]] = []
        self.plane = Plane(
            clock=self.clock,
            runner=VirtualRunner(clock=self.clock, work_of=lambda *_: Work(runtime=HOUR)),
            emit=self.emitted.append,
        )
        self.lambda_ = FakeLambda()
        self.letters = FakeSqs()
        self.announced = FakeEvents()
        self.s3 = FakeS3(self.clock)
        self.waits = FakeWaits()
        self.dynamodb: Any = dynamodb or CheckedDynamo()
        self.dynamodb.create_table(**table_definition(TABLE))

    def client(self, service: str) -> Any:
        clients = {
            "dynamodb": self.dynamodb,
            "lambda": self.lambda_,
            "sqs": self.letters,
            "events": self.announced,
            "s3": self.s3,
            "stepfunctions": self.waits,
            "sagemaker": self.waits,
        }
        return clients[service]

    def send(self, event: Any) -> dict[str, Any]:
        """Invoke the handler with an event or the name of a sample."""
        event = sample(event) if isinstance(event, str) else copied(event)
        return app.handler(event, context())

    def call(self, event: dict[str, Any] | str) -> tuple[int, dict[str, Any]]:
        """Send an API request. Returns status and body."""
        answer = self.send(event)
        check_size(answer)
        assert answer["isBase64Encoded"] is False
        assert answer["multiValueHeaders"]["Content-Type"] == ["application/json"]
        return answer["statusCode"], json.loads(answer["body"])

    def asked(self, name: str, **query: str | list[str]) -> tuple[int, dict[str, Any]]:
        """Send the sample of that name with this query. Returns status and body."""
        multiple = {key: [text] if isinstance(text, str) else text for key, text in query.items()}
        return self.call(
            {
                **sample(name),
                "queryStringParameters": {key: it[-1] for key, it in multiple.items()} or None,
                "multiValueQueryStringParameters": multiple or None,
            }
        )

    def pass_time(self, duration: int) -> None:
        """Let so much time (ms) go by."""
        self.clock.set(self.clock.now() + duration)

    def completes(self, training_job: str) -> None:
        """The training job ends, and SageMaker tells."""
        self.plane.job(training_job).status = "Completed"
        event = sample("training-completed")
        event["detail"]["TrainingJobName"] = training_job
        event["detail"].pop("Tags", None)
        self.send(event)
        self.settle()

    def settle(self) -> None:
        """Deliver requested passes and training events until none are left."""
        self.plane.advance()
        while self.lambda_.events or self.emitted:
            while self.lambda_.events:
                self.send(self.lambda_.events.pop(0))
            while self.emitted:
                self.send(self.emitted.pop(0))
            self.plane.advance()

    def items(self) -> list[dict[str, Any]]:
        return self.dynamodb.scan(TableName=TABLE)["Items"]

    def submit(self, *names: str, **changes: Any) -> None:
        """Submit the sample's job under each name, with these changes of the request."""
        for name in names:
            status, said = self.call(add_job(TrainingJobName=name, **changes))
            assert status == 202, (name, said)

    def job(self, name: str) -> dict[str, Any]:
        """The job as the API shows it."""
        status, said = self.call({**sample("get-job"), "path": f"/jobs/{name}"})
        assert status == 200, (name, said)
        return said

    def state(self, name: str) -> str:
        return str(self.job(name)["state"])


def forget() -> None:
    """Forget cached state, as a cold start does."""
    for part in (app.manager, app.routes, app.client, app.announced):
        getattr(part, "cache_clear", lambda: None)()
