"""The Lambda: API requests, training events, passes that were asked for, the tick. Wiring only.

What comes in is routed by its shape; everything else is in `slotq_core`. Clients are made when they
are first used and the API is imported with its first request, so that the event path starts fast.
No request, hyperparameter or environment is ever logged: errors are logged by kind and place.
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

from slotq_core.adapters.dynamodb import DynamoStore
from slotq_core.adapters.lambda_invoke import AsynchronousPass, InlinePass
from slotq_core.adapters.pool_settings import take_in
from slotq_core.adapters.sagemaker import SageMakerTraining, sagemaker_client
from slotq_core.adapters.sagemaker_news import observation_of
from slotq_core.adapters.settings import SystemClock, pools_from_environment
from slotq_core.manager import QueueManager

if TYPE_CHECKING:
    from slotq_core.api import Routes

Event = Mapping[str, Any]
Handle = Callable[[Event, Any], dict[str, Any]]

logger = Logger(service="slotq")
metrics = Metrics(namespace="SlotQ", service="slotq")
tracer = Tracer(service="slotq", auto_patch=False)
clock = SystemClock()

TIME_TO_END = 10_000
"""What a pass leaves of the function's time (ms): its last call to SageMaker may take as long."""


class UnknownEvent(Exception):
    """No trigger of the queue looks like this."""


class Failed(Exception):
    """An event could not be handled: Lambda tries it again. Tells the kind of error only."""


@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@metrics.log_metrics
def handler(event: Event, context: Any) -> dict[str, Any]:
    """An API request is answered; any other event is taken in, and a pass follows."""
    request_id = getattr(context, "aws_request_id", None)
    trigger, handle = route(event)
    logger.append_keys(trigger=trigger, function_request_id=request_id)
    count(trigger)
    try:
        return handle(event, context)
    except Exception as error:  # noqa: BLE001 - whatever it was, it must not carry contents out
        report(error)
        raise Failed(f"{type(error).__name__}; see the log of request {request_id}") from None


def route(event: Event) -> tuple[str, Handle]:
    """The trigger that the event comes from, and what handles it."""
    if "httpMethod" in event and "requestContext" in event:
        return "ApiRequest", on_request
    match event.get("source"), event.get("detail-type"):
        case "aws.sagemaker", "SageMaker Training Job State Change":
            return "TrainingEvent", on_training_event
        case "slotq", "pass":
            return "Pass", on_pass
        case "aws.events", "Scheduled Event":
            return "Tick", on_pass
    return "Unknown", on_unknown


def on_request(event: Event, context: Any) -> dict[str, Any]:
    return routes().answer(event, context)


def on_training_event(event: Event, context: Any) -> dict[str, Any]:
    manager().observe(observation_of(event["detail"], at=clock.now()))
    return on_pass(event, context)


def on_pass(_event: Event, context: Any) -> dict[str, Any]:
    budget = context.get_remaining_time_in_millis() - TIME_TO_END
    result = manager().run_pass(holder=context.aws_request_id, budget=budget)
    count("Decision", len(result.decisions))
    for trouble in result.troubles:
        logger.warning("left to the next pass", trouble=trouble)
        count("Trouble")
    return {"decisions": len(result.decisions), "busy": result.busy}


def on_unknown(event: Event, _context: Any) -> dict[str, Any]:
    """Fails, so that Lambda keeps the event among its dead letters."""
    logger.error("this event is of no trigger that the queue has", keys=sorted(map(str, event)))
    raise UnknownEvent


def report(error: Exception) -> None:
    """Log what went wrong and where; not the error's own text, which may quote a request."""
    steps = traceback.extract_tb(error.__traceback__)
    where = [f"{step.filename}:{step.lineno} {step.name}" for step in steps]
    logger.error("failed", error=type(error).__name__, where=where)
    count("Failure")


def count(name: str, number: int = 1) -> None:
    metrics.add_metric(name=name, unit=MetricUnit.Count, value=number)


@cache
def routes() -> Routes:
    """The API, imported with its first request."""
    from slotq_core.api import Routes

    return Routes(manager, unexpected=report)


@cache
def manager() -> QueueManager:
    """The queue over DynamoDB and SageMaker, made once per cold start."""
    store = DynamoStore(client("dynamodb"), os.environ["SLOTQ_TABLE"])
    if refused := take_in(store, pools_from_environment(), now=clock.now()):
        logger.error("the pools were not changed", reason=refused)
        count("PoolsRefused")
    training = SageMakerTraining(
        queue=os.environ["SLOTQ_TABLE"], clock=clock, make_client=sagemaker_client
    )
    return QueueManager(store=store, training=training, clock=clock, notifier=notifier())


def notifier() -> AsynchronousPass | InlinePass:
    """How a pass is asked for: on the spot where SLOTQ_INLINE_PASS=1 (emulator, SAM local)."""
    if os.environ.get("SLOTQ_INLINE_PASS") == "1":
        return InlinePass(lambda: manager().run_pass())
    return AsynchronousPass(lambda: client("lambda"), os.environ["AWS_LAMBDA_FUNCTION_NAME"])


@cache
def client(service: str) -> Any:
    """A client that gives up before API Gateway does."""
    timeouts = {"connect_timeout": 2, "read_timeout": 5, "retries": {"mode": "standard"}}
    return boto3.client(service, config=Config(**timeouts))
