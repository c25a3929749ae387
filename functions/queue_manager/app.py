"""The Lambda function: API requests, training events, requested passes, the tick. Wiring only.

The shape of an event decides its route; everything else is in `slotq_core`. Clients are created on
first use, and the API is imported with its first request, so that training events start fast.

The template deploys this file as up to four functions. SLOTQ_SERVES names the function: `views`
answers GET requests, `door` answers the API's other requests, `pipelines` takes the messages of
callback steps, and `queue` handles everything else. Without SLOTQ_SERVES, one function serves
everything but callback steps (emulator). Each function has its own minimal role and its own
concurrency.

No request, hyperparameter or environment is ever logged: errors are logged by kind and place.
"""

from __future__ import annotations

import gc

gc.disable()  # Imported objects stay for good: scanning them for garbage would cost 5 ms.

import os
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import botocore
import botocore.session
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from botocore.config import Config

from slotq_core import __version__
from slotq_core.adapters import eventbridge
from slotq_core.adapters.deployment_settings import (
    SystemClock,
    callback_kinds_from_environment,
    history_from_environment,
    limits_from_environment,
    notification_mode_from_environment,
    operators_from_environment,
    plans_from_environment,
    pools_from_environment,
    project_metrics_from_environment,
    roles_from_environment,
)
from slotq_core.adapters.dynamodb.reading.in_parallel import (
    IN_FLIGHT,
    InParallel,
    Threads,
    one_by_one,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.eventbridge import Announcements
from slotq_core.adapters.initial_settings import take_in
from slotq_core.adapters.notifiers import (
    WAKE_EVENT,
    WAKES_VARIABLE,
    Alarm,
    AsynchronousPass,
    InlinePass,
    MessageAlarm,
    TimerAlarm,
    invoke,
)
from slotq_core.adapters.sagemaker.observations import observation_of_event
from slotq_core.adapters.sagemaker.service import LONGEST_CALL, SageMakerTraining, sagemaker_client
from slotq_core.adapters.scripts import S3Scripts
from slotq_core.adapters.sqs import QUEUE_VARIABLE, SqsDeadLetters
from slotq_core.errors import NotUnderstood, SlotQError
from slotq_core.manager import QueueManager
from slotq_core.operations.attempts.rights_report import is_missing_right
from slotq_core.operations.configuring.jobs_in_need import check_removal
from slotq_core.operations.passes import PassResult
from slotq_core.ports.surroundings import Notifier

if TYPE_CHECKING:
    from slotq_core.adapters.submitters import QueueSubmitters
    from slotq_core.api.pipeline_steps import PipelineSteps
    from slotq_core.api.routes import Routes
    from slotq_core.ports.callbacks import Answers
    from slotq_core.ports.nodes import NodeDocuments

gc.freeze()
gc.enable()

Event = Mapping[str, Any]
Handle = Callable[[Event, Any], dict[str, Any]]

QUEUE = os.environ.get("POWERTOOLS_SERVICE_NAME", "slotq-queue-manager")
"""Name that separates the logs, metrics and traces of one queue from another queue in the account.
Not plain `slotq`: the client's logger has that name, and the emulator runs both in one process."""

logger = Logger(service=QUEUE)
metrics = Metrics(namespace="SlotQ", service=QUEUE)
tracer = Tracer(service=QUEUE, auto_patch=False)
clock = SystemClock()

SERVES, STEPS = "SLOTQ_SERVES", "pipelines"
NODES, ROUTE, LEASE = "SLOTQ_NODES", "SLOTQ_ROUTE", "SLOTQ_NODE_LEASE"
"""The bucket for nodes; none: this deployment keeps no nodes. The address of the API for their
agents; none: they have no route to it, or this function launches no nodes. Seconds that a node may
run jobs without another report."""
INLINE = "SLOTQ_INLINE_PASS"
LOCAL_CALLER = "SLOTQ_LOCAL_CALLER"
"""The ARN of the caller of unsigned requests under `sam local`, which checks no signature. It is
used only with SLOTQ_INLINE_PASS=1. The template sets neither variable, so a deployed queue has no
such caller."""

TIME_TO_END = LONGEST_CALL
"""Time (ms) that a pass leaves at the end of the function's time: the last call to SageMaker may
take that long."""


class Failed(Exception):
    """Raised when an event could not be handled, so that Lambda retries. Names only the kind of
    error."""


@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@metrics.log_metrics
def handler(event: Event, context: Any) -> dict[str, Any]:
    """Answer an API request; record any other event and run a pass.

    Events that cannot be understood go to the dead letters: a retry would not help. Any other error
    is raised, so that Lambda retries.
    """
    request_id = getattr(context, "aws_request_id", None)
    trigger, handle = route(event)
    logger.append_keys(trigger=trigger, function_request_id=request_id)
    count(trigger)
    try:
        return handle(event, context)
    except Exception as error:  # noqa: BLE001 - whatever it was, it must not carry contents out
        report(error)
        raise Failed(f"{type(error).__name__}; see the log of request {request_id}") from None
    finally:
        announce()
        announce_version()


def route(event: Any) -> tuple[str, Handle]:
    """Return the trigger of the event, and its handler."""
    trigger, handle = _route(event)
    return (trigger, handle) if is_served(trigger, event) else (trigger, not_here)


def is_served(trigger: str, event: Any) -> bool:
    """Whether this function handles such events."""
    is_request = trigger == "ApiRequest"
    match os.environ.get(SERVES):
        case "views":
            return is_request and event["httpMethod"] == "GET"
        case "door":
            return is_request
        case "pipelines":
            return trigger == "PipelineSteps"
        case "queue":
            return not is_request
    return True


def _route(event: Any) -> tuple[str, Handle]:
    if not isinstance(event, Mapping):
        return "Unknown", on_unknown
    if "httpMethod" in event and "requestContext" in event:
        return "ApiRequest", on_request
    if is_message(event.get("Records")):
        steps = os.environ.get(SERVES) == STEPS
        return ("PipelineSteps", on_steps) if steps else ("Pass", on_wake)
    match event.get("source"), event.get("detail-type"):
        case "aws.sagemaker", (
            "SageMaker Training Job State Change" | "SageMaker Processing Job State Change"
        ):
            return "TrainingEvent", on_training_event
        case "slotq", "pass":
            return "Pass", on_pass
        case "slotq", "wake":
            return "Pass", on_wake
        case "aws.events", "Scheduled Event":
            return "Tick", on_tick
    return "Unknown", on_unknown


def is_message(records: object) -> bool:
    """Whether these are messages of a queue: callback steps, or that it is time for a pass."""
    return (
        isinstance(records, list)
        and bool(records)
        and all(
            isinstance(record, Mapping) and record.get("eventSource") == "aws:sqs"
            for record in records
        )
    )


def on_request(event: Event, context: Any) -> dict[str, Any]:
    return routes().answer(with_local_caller(event), context)


def with_local_caller(event: Event) -> Event:
    """Return the request as made by the local caller, if the request is unsigned and a local caller
    is configured."""
    caller = os.environ.get(LOCAL_CALLER)
    if os.environ.get(INLINE) != "1" or not caller:
        return event
    context = event["requestContext"] or {}
    identity = context.get("identity") or {}
    if identity.get("userArn"):
        return event
    signed = {**identity, "userArn": caller}
    return {**event, "requestContext": {**context, "identity": signed}}


def on_training_event(event: Event, context: Any) -> dict[str, Any]:
    """Record what happened to a training or processing job; run a pass if it may now decide
    differently."""
    try:
        seen = observation_of_event(event, at=clock.now())
    except NotUnderstood as error:
        return put_away(event, str(error))
    if seen.odd:
        logger.warning(
            ("part of this event has an unknown form"), job=seen.training_job, odd=seen.odd
        )
        count("Odd")
    observed = manager().observe(seen)
    if observed.ignored:
        logger.info("this event changes nothing", job=seen.training_job, why=observed.ignored)
        count("Ignored")
    if not observed.calls_for_pass:
        return reported(PassResult())
    holder, budget = context.aws_request_id, budget_of(context)
    return reported(manager().passes.run(holder=holder, budget=budget, bump=True))


def on_pass(_event: Event, context: Any) -> dict[str, Any]:
    """Run a requested pass. Nothing happens if another pass has handled the request."""
    holder, budget = context.aws_request_id, budget_of(context)
    return reported(manager().passes.run(holder=holder, budget=budget, only_news=True))


def on_wake(_event: Event, context: Any) -> dict[str, Any]:
    """Run a pass because a time has come that an earlier pass named: the end of a grace."""
    holder, budget = context.aws_request_id, budget_of(context)
    return reported(manager().passes.run(holder=holder, budget=budget, bump=True))


def on_steps(event: Event, context: Any) -> dict[str, Any]:
    """Take the messages of callback steps; name those that SQS shall deliver again."""
    taken = [(record, is_taken(record, context)) for record in event["Records"]]
    again = [{"itemIdentifier": record["messageId"]} for record, done in taken if not done]
    return {"batchItemFailures": again}


def is_taken(record: Event, context: Any) -> bool:
    """Handle one message of a callback step. Returns whether nothing is left to do."""
    try:
        outcome = steps(context).take(record)
    except NotUnderstood as error:
        put_away({"id": record.get("messageId")}, str(error))
        return True
    except Exception as error:  # noqa: BLE001 - the other messages of the batch are others' steps
        report(error)
        return False
    logger.info("a callback step", outcome=str(outcome))
    return outcome != "again"


def on_tick(_event: Event, context: Any) -> dict[str, Any]:
    done = reported(manager().tick(holder=context.aws_request_id, budget=budget_of(context)))
    try:
        waited = manager().overview.longest_wait()
    except SlotQError as error:
        logger.warning("the longest wait is not known", error=type(error).__name__)
    else:
        metrics.add_metric(name="OldestWaiting", unit=MetricUnit.Seconds, value=waited // 1000)
    try:
        measure_projects()
    except SlotQError as error:
        logger.warning("the projects were not measured", error=type(error).__name__)
    return done


def measure_projects() -> None:
    """Write the metrics of projects, if the stack asks for any. Each project and resource has its
    own line: a line has one value for each dimension."""
    found = manager().overview.project_metrics(most=project_metrics_from_environment())
    for (project, resource), amounts in found.items():
        line = EphemeralMetrics(namespace="SlotQ", service=QUEUE)
        line.add_dimension("project", project)
        line.add_dimension("resource", resource)
        for name, amount in (
            ("ProjectHeld", amounts.held),
            ("ProjectWaiting", amounts.waiting),
            ("ProjectOverQuota", amounts.over_quota),
            ("ProjectShare", amounts.share),
        ):
            line.add_metric(name=name, unit=MetricUnit.Count, value=amount)
        line.flush_metrics()


def on_unknown(event: Event, _context: Any) -> dict[str, Any]:
    return put_away(event, "this event is not a trigger of the queue")


def not_here(_event: Event, _context: Any) -> dict[str, Any]:
    raise NotUnderstood("another function of the queue serves such events")


def budget_of(context: Any) -> int:
    return int(context.get_remaining_time_in_millis()) - TIME_TO_END


def reported(result: PassResult) -> dict[str, Any]:
    """Count and log the outcome of a pass; return the answer."""
    count("Decision", len(result.decisions))
    for finding in result.findings:
        logger.warning("drift", kind=finding.kind, subject=finding.subject, drift=finding.text)
        count("Drift")
    for trouble in result.troubles:
        logger.warning("left to the next pass", trouble=trouble)
        count("Trouble")
    for status in result.budget_warnings:
        logger.warning("a project comes near its budget", budget=status.sentence())
        count("BudgetWarning")
        if os.environ.get(eventbridge.VARIABLE) == "1":
            announced().note_budget(status)
    if result.warm_unused:
        metrics.add_metric(
            name="WarmUnused", unit=MetricUnit.Seconds, value=result.warm_unused // 1000
        )
    for right in result.missing_rights:
        logger.warning("a right is missing", right=right)
    refused = [*result.troubles, *(finding.text for finding in result.findings)]
    if missing := len(result.missing_rights) + sum(map(is_missing_right, refused)):
        count("RightsMissing", missing)
    return {"decisions": len(result.decisions), "busy": result.busy}


def announce() -> None:
    """Announce the changes that this invocation has committed."""
    if lost := announced().send():
        logger.warning("state changes that were not announced", number=lost)
        count("NotAnnounced", lost)


def announce_version() -> None:
    """Move the queue's version if this invocation has changed something. If that fails, those who
    ask what has changed learn of it a minute later at most (`api.tags`)."""
    if not manager.cache_info().currsize:
        return
    try:
        manager().passes.announce()
    except SlotQError as error:
        logger.warning("the queue's version was not moved", error=type(error).__name__)


def put_away(event: object, reason: str) -> dict[str, Any]:
    """Send an unreadable event to the dead letters, and log the event without its contents."""
    subject = subject_of(event)
    logger.error("this event cannot be understood", subject=subject, reason=reason)
    count("DeadLetter")
    dead_letters().put("event", subject, reason)
    return {"dead_letter": reason}


def subject_of(event: object) -> str:
    """Return the event's training job, or else its id, so that the event can be found again."""
    known = event if isinstance(event, Mapping) else {}
    detail = known.get("detail")
    named = detail if isinstance(detail, Mapping) else {}
    name = named.get("TrainingJobName") or named.get("ProcessingJobName")
    return str(name or known.get("id") or "an event without an id")[:100]


def report(error: Exception) -> None:
    """Log the kind and place of an error. Leave out the error's text, which may quote a request."""
    steps = traceback.extract_tb(error.__traceback__)
    where = [f"{step.filename}:{step.lineno} {step.name}" for step in steps]
    logger.error("failed", error=type(error).__name__, where=where)
    count("Failure")


def count(name: str, number: int = 1) -> None:
    metrics.add_metric(name=name, unit=MetricUnit.Count, value=number)


@cache
def routes() -> Routes:
    """Return the API, imported with its first request. Imported objects stay for good, so the
    garbage collector need not scan them, then or later."""
    gc.disable()
    try:
        from slotq_core.api.routes import Routes
    finally:
        gc.freeze()
        gc.enable()
    return Routes(manager, unexpected=report)


def steps(context: Any) -> PipelineSteps:
    """Return what takes callback steps, in this invocation."""
    from slotq_core.adapters.sagemaker.executions import executes
    from slotq_core.api.pipeline_steps import PipelineSteps

    return PipelineSteps(
        lambda request: routes().answer(request, context),
        submitter_of=submitters().of,
        executes=lambda execution: executes(client("sagemaker"), execution),
        answers=answers,
    )


@cache
def submitters() -> QueueSubmitters:
    from slotq_core.adapters.submitters import SUBMITTERS_VARIABLE, QueueSubmitters

    return QueueSubmitters(lambda: client("ssm"), os.environ[SUBMITTERS_VARIABLE])


@cache
def manager() -> QueueManager:
    """Return the queue over DynamoDB and SageMaker, created once per cold start."""
    return new_manager()


def new_manager() -> QueueManager:
    table = os.environ["SLOTQ_TABLE"]
    settings: dict[str, Any] = {
        "history": history_from_environment(),
        "in_parallel": in_parallel(),
        "clock": clock.now,
    }
    if os.environ.get(eventbridge.VARIABLE) == "1":
        settings["witness"] = announced()
    store = DynamoStore(client("dynamodb"), table, **settings)
    if os.environ.get(SERVES) not in {"views", STEPS}:
        take_in_settings(store)
    training = SageMakerTraining(queue=table, clock=clock, make_client=sagemaker_client)
    return QueueManager(
        store=store,
        training=training,
        clock=clock,
        notifier=notifier(),
        dead_letters=dead_letters(),
        roles=roles_from_environment(),
        plans=plans_from_environment(),
        operators=operators_from_environment(),
        notification_mode=notification_mode_from_environment(),
        scripts=S3Scripts(clock=clock, make_client=lambda: client("s3"), at_once=in_parallel()),
        at_once=in_parallel(),
        documents=node_documents(),
        callback_kinds=callback_kinds_from_environment(),
        answers=answers,
    )


def answers() -> Answers:
    """Return what tells of jobs' ends. Its clients exist before several threads need them."""
    from slotq_core.adapters.receivers.callbacks import SERVICES, AwsAnswers

    kinds = callback_kinds_from_environment()
    return AwsAnswers({kind: client(SERVICES[kind]) for kind in kinds})


def node_documents() -> NodeDocuments | None:
    """Return what the queue and its nodes write for each other; None: this deployment keeps no
    nodes."""
    bucket = os.environ.get(NODES)
    if not bucket:
        return None
    from slotq_core.adapters.nodes.documents import S3NodeDocuments, lease_of

    route = os.environ.get(ROUTE, "")
    return S3NodeDocuments(
        bucket=bucket,
        route=route,
        lease=int(os.environ.get(LEASE) or lease_of(route)),
        make_client=lambda: client("s3"),
    )


def take_in_settings(store: DynamoStore) -> None:
    pools, limits = pools_from_environment(), limits_from_environment()
    if refused := take_in(store, pools, limits, now=clock.now(), check_jobs=check_removal):
        logger.error("a setting was not taken in", reason=refused)
        count("PoolsRefused")


def in_parallel() -> InParallel:
    """Return how independent reads run: in threads. In the emulator, where a read takes no time,
    one by one, so that its runs repeat exactly."""
    return one_by_one if os.environ.get(INLINE) == "1" else Threads()


@cache
def announced() -> Announcements:
    table = os.environ.get("SLOTQ_TABLE", "")
    return Announcements(lambda: client("events"), queue=table, report=report)


def dead_letters() -> SqsDeadLetters:
    url = os.environ.get(QUEUE_VARIABLE, "")
    return SqsDeadLetters(lambda: client("sqs"), url, clock=clock, report=report)


def notifier() -> Notifier:
    """Return how to request a pass. With SLOTQ_INLINE_PASS=1 (SAM local), the pass runs on the
    spot. Otherwise the pass is an invocation of the function SLOTQ_MANAGER, or of this function."""
    if os.environ.get(INLINE) == "1":
        return InlinePass(lambda: reported(manager().passes.run()), TimerAlarm(late_pass, clock))
    name = os.environ.get("SLOTQ_MANAGER") or os.environ["AWS_LAMBDA_FUNCTION_NAME"]
    return AsynchronousPass(lambda: client("lambda"), name, alarm(name))


def alarm(function_name: str) -> Alarm:
    """Return how to request a later pass: by a message, or without a queue for messages (emulator)
    by a timer of this process."""
    if url := os.environ.get(WAKES_VARIABLE):
        return MessageAlarm(lambda: client("sqs"), url, clock)
    return TimerAlarm(lambda: invoke(lambda: client("lambda"), function_name, WAKE_EVENT), clock)


def late_pass() -> None:
    """Run a pass beside the function's current work, so with a manager of its own."""
    try:
        new_manager().passes.run(bump=True)
    except SlotQError as error:
        report(error)


@cache
def client(service: str) -> Any:
    """Return a client, created once per cold start."""
    return session().create_client(service, config=client_config(service))


def client_config(service: str) -> Config:
    """Return short timeouts and a connection for each read in flight. The clients for `events`,
    whose calls may be lost, and for `s3` and callbacks, where the next try is soon, try once.

    The user agent is passed as a whole: botocore would compose its own twice for each call, which
    is a sixth of a small call's CPU time.
    """
    once = service in {"events", "s3", "sagemaker", "stepfunctions"}
    tries = {"total_max_attempts": 1} if once else {}
    connect, read = (1, 2) if service == "s3" else (2, 5)
    return Config(
        connect_timeout=connect,
        read_timeout=read,
        retries={"mode": "standard", **tries},
        max_pool_connections=IN_FLIGHT,
        user_agent=f"slotq/{__version__} Botocore/{botocore.__version__}",
    )


@cache
def session() -> Any:
    """Return a botocore session. boto3 would only add time to each cold start."""
    return botocore.session.get_session()
