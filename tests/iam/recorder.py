"""What IAM is asked for each call that the queue makes: actions, resources, context.

From the Service Authorization Reference: a transaction is judged by its parts, a Query of an index
by the index; CreateTrainingJob with tags also asks for AddTags, hands over its role (PassRole), and
is judged by the training plan as well, where it names one. A key for volumes or outputs adds
nothing: SageMaker asks the execution role for the grant first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slotq.local.training.plane import Plane
from slotq_core.model.capacity.work import WorkKind, marked
from tests.cloudformation import ACCOUNT, REGION
from tests.functional.account import TABLE
from tests.iam.evaluator import Call, call

OWN = f"{REGION}:{ACCOUNT}"
FUNCTION = "slotq-queue-manager"
NOTIFIER = "slotq-notifier"
STEPS = "slotq-pipelines"
KEY = f"arn:aws:kms:{OWN}:key/0a1b2c3d-0000-4000-8000-000000000000"
"""The customer's key of the table."""
PLAN = f"arn:aws:sagemaker:{OWN}:training-plan/june"
VOLUMES = f"arn:aws:kms:{OWN}:key/0a1b2c3d-0000-4000-8000-000000000001"
"""A user's key for the output of training jobs."""
PIPELINE = f"arn:aws:sagemaker:{OWN}:pipeline/train/execution/*"
"""The executions of a pipeline that waits for jobs."""
THROUGH_DYNAMODB = {"kms:ViaService": f"dynamodb.{REGION}.amazonaws.com"}


def platform(function: str) -> set[Call]:
    """What the Lambda service does in the function's name, which no test can see."""
    stream = f"arn:aws:logs:{OWN}:log-group:/aws/lambda/{function}:log-stream:2026/11/20/[$LATEST]a"
    logs = {call(f"logs:{action}", stream) for action in ("CreateLogStream", "PutLogEvents")}
    traces = ("PutTelemetryRecords", "PutTraceSegments")
    others = {call(f"xray:{action}", "*") for action in traces}
    if function == FUNCTION:  # It takes the messages that ask for a pass later.
        taken = ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
        others |= {call(f"sqs:{action}", f"arn:aws:sqs:{OWN}:wakes") for action in taken}
    if function == STEPS:  # Each role's pipelines have a queue of messages.
        taken = ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
        for queue in ("slotq-pipelines-vision", "slotq-pipelines-speech"):
            others |= {call(f"sqs:{action}", f"arn:aws:sqs:{OWN}:{queue}") for action in taken}
    if function == NOTIFIER:  # It reads the table's stream, whichever that is.
        read = ("DescribeStream", "GetRecords", "GetShardIterator")
        for label in ("2026-11-20T10:30:00.000", "2026-11-21T10:30:00.000"):
            there = f"arn:aws:dynamodb:{OWN}:table/{TABLE}/stream/{label}"
            others |= {call(f"dynamodb:{action}", there) for action in read}
        others.add(call("dynamodb:ListStreams", "*"))
    return logs | others


class Recorder:
    """Collects the calls that IAM would judge."""

    def __init__(self) -> None:
        self.calls: set[Call] = set()
        self.operations: set[tuple[str, str]] = set()
        """The called services and operations, as AWS names them."""

    def note(self, service: str, operation: str, request: Mapping[str, Any], plane: Plane) -> None:
        self.operations.add((service, _camel(operation)))
        self.calls.update(_ASKED[service](_camel(operation), request, plane))


class Client:
    """A client whose calls are recorded."""

    def __init__(self, client: Any, note: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._client, self._note = client, note

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        target = getattr(self._client, operation)

        def ask(**request: Any) -> Any:
            self._note(operation, request)
            return target(**request)

        return ask


def _dynamodb(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    for action, part in _parts(operation, request):
        table = f"arn:aws:dynamodb:{OWN}:table/{part['TableName']}"
        index = f"/index/{part['IndexName']}" if "IndexName" in part else ""
        yield call(f"dynamodb:{action}", table + index, _leading(part))
        yield call("kms:Decrypt", KEY, THROUGH_DYNAMODB)


def _leading(part: Mapping[str, Any]) -> dict[str, str]:
    """The partition key of the item that a call is about."""
    key = part.get("Key", part.get("Item", {})).get("pk")
    return {"dynamodb:LeadingKeys": key["S"]} if key else {}


def _parts(operation: str, request: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if operation == "TransactWriteItems":
        kinds = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}
        for action in request["TransactItems"]:
            ((kind, part),) = action.items()
            yield kinds.get(kind, f"{kind}Item"), part
    elif operation == "BatchGetItem":
        for table, wanted in request["RequestItems"].items():
            yield from ((operation, {"TableName": table, "Key": key}) for key in wanted["Keys"])
    else:
        yield operation, request


def _states(operation: str, _: Mapping[str, Any], __: Plane) -> Iterator[Call]:
    assert operation in {"SendTaskFailure", "SendTaskHeartbeat", "SendTaskSuccess"}
    yield call(f"states:{operation}", "*")


def _sagemaker(operation: str, request: Mapping[str, Any], plane: Plane) -> Iterator[Call]:
    action = f"sagemaker:{operation}"
    if operation.startswith("SendPipelineExecutionStep"):
        yield call(action, PIPELINE.replace("*", request["CallbackToken"].lower()))
    elif operation == "DescribePipelineExecution":
        execution = request["PipelineExecutionArn"].rpartition("/")[2]
        yield call(action, PIPELINE.replace("*", execution))
    elif operation in {"ListTrainingJobs", "ListProcessingJobs"}:
        yield call(action, "*")
    elif operation == "ListTags":
        yield call(action, request["ResourceArn"])
    elif operation == "DescribeTrainingPlan":
        yield call(action, request["TrainingPlanName"])
    else:
        name = request.get("TrainingJobName") or request["ProcessingJobName"]
        work = WorkKind.PROCESSING if "ProcessingJobName" in request else WorkKind.TRAINING
        arn = f"arn:aws:sagemaker:{OWN}:{work}-job/{name.lower()}"
        if operation.startswith("Create"):
            yield from _create(operation, arn, request)
        else:
            there = plane.job(marked(name, work))
            tags = there.tags if there else {}
            yield call(action, arn, {f"aws:ResourceTag/{key}": tags[key] for key in tags})


def _create(operation: str, arn: str, request: Mapping[str, Any]) -> Iterator[Call]:
    tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
    context = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
    with_keys = {**context, "aws:TagKeys": sorted(tags)}
    yield call(f"sagemaker:{operation}", arn, with_keys)
    if plan := request.get("ResourceConfig", {}).get("TrainingPlanArn"):
        yield call("sagemaker:CreateTrainingJob", plan, with_keys)
    yield call("sagemaker:AddTags", arn, {**with_keys, "sagemaker:TaggingAction": operation})
    to = {"iam:PassedToService": "sagemaker.amazonaws.com", "iam:AssociatedResourceArn": arn}
    yield call("iam:PassRole", request["RoleArn"], to)


def _sqs(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    queue = request["QueueUrl"].rpartition("/")[2]
    yield call(f"sqs:{operation}", f"arn:aws:sqs:{OWN}:{queue}")


def _lambda(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    assert operation == "Invoke"
    # The fault campaign calls its function `slotq`.
    name = {"slotq": FUNCTION}.get(request["FunctionName"], request["FunctionName"])
    yield call("lambda:InvokeFunction", f"arn:aws:lambda:{OWN}:function:{name}")


def _events(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    for entry in request["Entries"]:
        bus = entry.get("EventBusName", "default")
        said = {"events:source": entry["Source"], "events:detail-type": entry["DetailType"]}
        yield call(f"events:{operation}", f"arn:aws:events:{OWN}:event-bus/{bus}", said)


def _s3(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    place = f"arn:aws:s3:::{request['Bucket']}/{request['Key']}"
    yield call(f"s3:{operation}", place, {"aws:ResourceAccount": ACCOUNT})


def _sns(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    yield call(f"sns:{operation}", request["TopicArn"])


def _ssm(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    yield call(f"ssm:{operation}", f"arn:aws:ssm:{OWN}:parameter{request['Name']}")


def _secretsmanager(operation: str, request: Mapping[str, Any], _: Plane) -> Iterator[Call]:
    yield call(f"secretsmanager:{operation}", request["SecretId"])


_ASKED: Mapping[str, Callable[[str, Mapping[str, Any], Plane], Iterator[Call]]] = {
    "dynamodb": _dynamodb,
    "sagemaker": _sagemaker,
    "sqs": _sqs,
    "lambda": _lambda,
    "events": _events,
    "stepfunctions": _states,
    "s3": _s3,
    "sns": _sns,
    "ssm": _ssm,
    "secretsmanager": _secretsmanager,
}


def _camel(operation: str) -> str:
    return "".join(word.capitalize() for word in operation.split("_"))
