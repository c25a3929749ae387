"""The Lambda: API requests, training events, passes that were asked for, the tick. Wiring only.

What comes in is routed by its shape; everything else is in `slotq_core`. Clients are made when they
are first used and the API is imported with its first request, so that the event path starts fast.
No request, hyperparameter or environment is ever logged: errors are by type and place.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from botocore.config import Config

from slotq_core.adapters import settings
from slotq_core.adapters.dynamodb import DynamoStore
from slotq_core.adapters.lambda_invoke import AsynchronousPass, InlinePass
from slotq_core.adapters.sagemaker import SageMaker, observation_of
from slotq_core.manager import QueueManager

if TYPE_CHECKING:
    from slotq_core.api import Routes

Event = Mapping[str, Any]

logger = Logger(service="slotq")
metrics = Metrics(namespace="SlotQ", service="slotq")
tracer = Tracer(service="slotq", auto_patch=False)


class UnknownEvent(Exception):
    """No trigger of the queue looks like this. Lambda retries it, then gives it to the queue of
    dead letters."""


class Failed(Exception):
    """Handling an event has failed: Lambda retries it. Says the kind of error, never its contents."""


@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@metrics.log_metrics(raise_on_empty_metrics=False)
def handler(event: Event, context: Any) -> dict[str, Any]:
    """One invocation: an API request is answered, any other event is taken in and followed by a pass."""
    kind, handle = route(event)
    request_id = getattr(context, "aws_request_id", None)
    logger.append_keys(trigger=kind, request_id=request_id)
    metrics.add_metric(name=kind, unit=MetricUnit.Count, value=1)
    try:
        return handle(event, context)
    except Exception as error:
        report(error)
        raise Failed(f"{type(error).__name__} in {kind}; see the log") from None


def route(event: Event) -> tuple[str, Callable[[Event, Any], dict[str, Any]]]:
    """The kind of event, and what handles it. Raises UnknownEvent."""
    if "httpMethod" in event and "requestContext" in event:
        return "ApiRequest", on_request
    match (event.get("source"), event.get("detail-type")):
        case ("aws.sagemaker", "SageMaker Training Job State Change"):
            return "TrainingEvent", on_training_event
        case ("slotq", "pass"):
            return "Pass", on_pass
        case ("aws.events", "Scheduled Event"):
            return "Tick", on_pass
    logger.error("unknown event", keys=sorted(map(str, event)))
    raise UnknownEvent(f"no trigger of the queue has the keys {', '.join(sorted(map(str, event)))}")


def on_request(event: Event, context: Any) -> dict[str, Any]:
    return routes().answer(event, context)


def on_training_event(event: Event, context: Any) -> dict[str, Any]:
    observation = observation_of(event)
    if observation is not None:
        manager().observe(observation)
    return on_pass(event, context)


def on_pass(event: Event, context: Any) -> dict[str, Any]:
    result = manager().run_pass()
    metrics.add_metric(name="Decisions", unit=MetricUnit.Count, value=len(result.decisions))
    return {"decisions": len(result.decisions)}


def report(error: Exception) -> None:
    """What went wrong and where, without the contents of anything."""
    steps = traceback.extract_tb(error.__traceback__)
    metrics.add_metric(name="Failure", unit=MetricUnit.Count, value=1)
    logger.error(
        "failed",
        error=type(error).__name__,
        steps=[f"{step.filename}:{step.lineno} {step.name}" for step in steps],
    )


@cache
def routes() -> Routes:
    from slotq_core.api import Routes

    return Routes(manager(), unexpected=report)


@cache
def manager() -> QueueManager:
    """The queue over DynamoDB and SageMaker. Takes in the pools of the settings, once per cold start."""
    clock = settings.SystemClock()
    store = DynamoStore(client("dynamodb"), settings.table())
    configured = settings.pools_from_environment()
    if store.pools() != configured:
        store.configure(configured, who="template", now=clock.now())
    inline = os.environ.get("SLOTQ_INLINE_PASS") == "1"
    notifier = InlinePass(lambda: manager().run_pass()) if inline else AsynchronousPass(
        lambda: client("lambda"), os.environ["AWS_LAMBDA_FUNCTION_NAME"]
    )
    return QueueManager(
        store=store, training=SageMaker(lambda: client("sagemaker")), clock=clock, notifier=notifier
    )


@cache
def client(service: str) -> Any:
    """A client that gives up well before API Gateway does."""
    timeouts = Config(connect_timeout=2, read_timeout=8, retries={"mode": "standard"})
    return boto3.client(service, config=timeouts)
