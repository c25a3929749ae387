"""The clients that a handler gets in a world of faults."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.local.services.training_service import PlaneClient
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.dynamodb.wake import DynamoScheduler
from slotq_core.timestamps import to_datetime
from slotq_core.wire.training.processing_request import job_name
from tests.faults.agents import BUCKET
from tests.faults.gate import Call, Invocation, Killed
from tests.faults.promises import CONVERGENT

if TYPE_CHECKING:
    from tests.faults.world import World

SOON = 50
"""How long an event or a requested pass takes to arrive (ms)."""

MOST_CALLS = 5_000
"""The most calls of one invocation. More is an endless loop."""


HOSTILE = "hostile"
"""The first part of names of jobs whose requests SageMaker refuses at length."""


def refuse_hostile(body: Mapping[str, Any]) -> None:
    """SageMaker's answer to such a request quotes it whole, among words of other refusals."""
    if not body["TrainingJobName"].startswith(HOSTILE):
        return
    quoted = ", ".join(f"{key}={value}" for key, value in body["HyperParameters"].items())
    text = f"{len(quoted)} validation errors detected: Value '{{{quoted}}}' at 'hyperParameters'"
    said = {
        "Error": {"Code": "ValidationException", "Message": text[:20_000]},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    raise ClientError(said, "CreateTrainingJob")


class WatchedPlane(PlaneClient):
    """The training plane with watched creates."""

    def __init__(self, world: World) -> None:
        super().__init__(world.plane)
        self._world = world

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        refuse_hostile(request)
        return self._watched(request, super().create_training_job)

    def create_processing_job(self, **request: Any) -> dict[str, Any]:
        return self._watched(request, super().create_processing_job)

    def _watched(
        self, request: Mapping[str, Any], create: Callable[..., dict[str, Any]]
    ) -> dict[str, Any]:
        name = job_name(request)
        before = self._world.plane.job(name)
        try:
            return create(**request)
        finally:
            there = self._world.plane.job(name)
            if there is not None and there is not before:
                self._world.ours.add(name)
                self._world.watch.created(there)
                self._world.look()

    def stop_training_job(self, **request: Any) -> dict[str, Any]:
        name = request["TrainingJobName"]
        self._world.watch.stops(name)
        self._world.stopped.setdefault(name, self._world.clock.now())
        return super().stop_training_job(**request)

    def stop_processing_job(self, **request: Any) -> dict[str, Any]:
        name = job_name(request)
        self._world.watch.stops(name)
        self._world.stopped.setdefault(name, self._world.clock.now())
        return super().stop_processing_job(**request)


def no_time_passes(_: float) -> None:
    """The schedule decides what happens meanwhile."""


class LeaselessStore(DynamoStore):
    """Every lease is over at once, and no pass is skipped."""

    def __init__(self, client: Any, table_name: str, **more: Any) -> None:
        super().__init__(client, table_name, **more)
        self.scheduler = Leaseless(self._calls)


class Leaseless(DynamoScheduler):
    def take_lease(
        self, holder: str, *, now: int, until: int, only_news: bool = False, bump: bool = False
    ) -> int | None:
        return super().take_lease(holder, now=now, until=now, bump=bump)


class LambdaClient:
    def __init__(self, world: World) -> None:
        self._world = world

    def invoke(self, **_: Any) -> dict[str, Any]:
        self._world.after(SOON, "pass", self._world.run_pass)
        return {}


class S3Client:
    """The users' buckets: scripts find the queue's markers there. And the bucket of nodes."""

    def __init__(self, world: World) -> None:
        self._world = world

    def put_object(self, *, Bucket: str, Key: str, **more: Any) -> dict[str, Any]:  # noqa: N803
        if Bucket == BUCKET:
            return self._world.bucket.put_object(Key=Key, **more)
        folder, training_job, name = Key.split("/")[-3:]
        assert (folder, name) == ("_slotq", "suspend.json"), Key
        self._world.marked.add(training_job)
        self._world.runner.ask(training_job)
        self._world.look()
        return {}

    def get_object(self, *, Bucket: str, Key: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        """Of a user: what the script of the job in the key's first part has reported, in any
        attempt."""
        if Bucket == BUCKET:
            return self._world.bucket.get_object(Key=Key)
        job, _folder, training_job, _name = Key.split("/")
        at = self._world.reported.get(job)
        if at is None:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")
        report = {"version": 1, "training_job": training_job, "step": 1, "reported_at": at}
        written = to_datetime(self._world.clock.now())
        return {"Body": io.BytesIO(json.dumps(report).encode()), "LastModified": written}


class SqsClient:
    """The queue of the moments at which a pass is wanted."""

    def __init__(self, world: World) -> None:
        self._world = world

    def send_message(self, *, DelaySeconds: int, **_: Any) -> dict[str, Any]:  # noqa: N803
        self._world.after(DelaySeconds * 1000 + SOON, "wake", self._world.wake)
        return {}


class Container:
    """A warm Lambda: one manager, for one invocation after the other."""

    def __init__(self, world: World) -> None:
        self.invocation: Invocation | None = None
        """The invocation that it serves."""
        self.manager = world.new_manager(lambda service: _Served(world, self, service))


class _Served:
    """A client whose calls belong to the invocation that the container serves."""

    def __init__(self, world: World, container: Container, service: str) -> None:
        self._world, self._container, self._service = world, container, service

    def __getattr__(self, method: str) -> Any:
        def ask(**request: Any) -> Any:
            invocation = self._container.invocation
            assert invocation is not None
            return getattr(self._world.wire(invocation, self._service), method)(**request)

        return ask


class GatedClient:
    """A client whose calls go through the world's gate."""

    def __init__(self, world: World, invocation: Invocation, service: str, target: Any) -> None:
        self._world, self._invocation = world, invocation
        self._service, self._target = service, target

    def __getattr__(self, method: str) -> Callable[..., Any]:
        target = getattr(self._target, method)

        def ask(**request: Any) -> Any:
            invocation = self._invocation
            if invocation.dead:
                raise Killed
            invocation.calls += 1
            self._world.calls += 1
            if invocation.calls > MOST_CALLS:
                self._world.watch.note(CONVERGENT, f"{invocation.label} makes no end of calls")
                invocation.dead = True
                raise Killed
            call = Call(
                invocation, self._service, method, request, lambda **more: target(**request, **more)
            )
            try:
                return self._world.gate.through(call)
            except Killed:
                invocation.dead = True
                raise
            except (ClientError, BotoCoreError):
                if method == "put_object":  # The handler cannot know that it has asked.
                    self._world.marked.discard(request["Key"].split("/")[-2])
                raise

        return ask
