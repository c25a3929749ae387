"""What Pipelines sends for callback steps, and a double of SSM.

The double of the Pipelines API that takes the answers is `account.FakeWaits`.
"""

import json
from typing import Any

from botocore.exceptions import ClientError

QUEUE_NAME = "slotq-pipelines-vision"
QUEUE_ARN = f"arn:aws:sqs:us-east-1:123456789012:{QUEUE_NAME}"
ROLE_ARN = "arn:aws:iam::123456789012:role/teams/VisionPipelines"
SUBMITTER = "arn:aws:sts::123456789012:assumed-role/VisionPipelines/pipelines"
EXECUTION = "arn:aws:sagemaker:us-east-1:123456789012:pipeline/weekly/execution/abcdefghijkl"
TOKEN = "aB3dE5gH7j"


class SubmittersDouble:
    """SSM with the parameters that the stacks of roles make (docs/pipelines/queue.yaml)."""

    def __init__(self) -> None:
        self.parameters = {f"/slotq/slotq/pipelines/{QUEUE_NAME}": ROLE_ARN}
        self.reads: list[str] = []
        self.refuses = ""

    def get_parameter(self, **request: Any) -> dict[str, Any]:
        self.reads.append(request["Name"])
        code = self.refuses or ("" if request["Name"] in self.parameters else "ParameterNotFound")
        if code:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "GetParameter")
        return {"Parameter": {"Value": self.parameters[request["Name"]]}}


class ExecutionsDouble:
    """SageMaker Pipelines: the double that takes answers, and the executions."""

    def __init__(self, waits: Any) -> None:
        self._waits = waits
        self.status = "Executing"
        """Of every execution; or the code of an error."""

    def describe_pipeline_execution(self, **request: Any) -> dict[str, Any]:
        if self.status in {"ResourceNotFound", "ThrottlingException"}:
            error = {"Error": {"Code": self.status, "Message": "no"}}
            raise ClientError(error, "DescribePipelineExecution")
        return {**request, "PipelineExecutionStatus": self.status}

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._waits, operation)


def message(request: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """What Pipelines sends for a step. `changes` replace its members; None removes one."""
    arguments = {} if request is None else {"request": json.dumps(request)}
    body = {
        "token": TOKEN,
        "pipelineExecutionArn": EXECUTION,
        "arguments": arguments,
        "status": "Executing",
        **changes,
    }
    return {key: value for key, value in body.items() if value is not None}


def delivered(*bodies: Any, queue: str = QUEUE_ARN, tries: int = 1) -> dict[str, Any]:
    """The event of Lambda with these messages of SQS; texts as they are."""
    return {
        "Records": [
            {
                "messageId": f"message-{number}",
                "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
                "body": body if isinstance(body, str) else json.dumps(body),
                "attributes": {
                    "ApproximateReceiveCount": str(tries),
                    "SentTimestamp": "1795775395000",
                    "SenderId": "AROAEXAMPLE:SageMaker",
                    "ApproximateFirstReceiveTimestamp": "1795775401000",
                },
                "messageAttributes": {},
                "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
                "eventSource": "aws:sqs",
                "eventSourceARN": queue,
                "awsRegion": "us-east-1",
            }
            for number, body in enumerate(bodies)
        ]
    }
