"""The clients that a handler gets in a world of faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from slotq.local.services.plane_client import PlaneClient
from slotq_core.adapters.dynamodb.store import DynamoStore
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
        name = request["TrainingJobName"]
        refuse_hostile(request)
        before = self._world.plane.job(name)
        try:
            return super().create_training_job(**request)
        finally:
            there = self._world.plane.job(name)
            if there is not None and there is not before:
                self._world.ours.add(name)
                self._world.watch.created(there)
                self._world.look()


def no_time_passes(_: float) -> None:
    """The schedule decides what happens meanwhile."""


class LeaselessStore(DynamoStore):
    """Every lease is over at once, and no pass is skipped."""

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

        return ask
