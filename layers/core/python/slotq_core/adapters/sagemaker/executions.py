"""Executions of pipelines."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.errors import Unavailable


def executes(client: Any, execution: str) -> bool:
    """Whether the execution with this ARN goes on. Raises Unavailable."""
    try:
        found = client.describe_pipeline_execution(PipelineExecutionArn=execution)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceNotFound":
            return False
        raise Unavailable(f"DescribePipelineExecution: {code}") from error
    except BotoCoreError as error:
        raise Unavailable(f"DescribePipelineExecution: {type(error).__name__}") from error
    return bool(found.get("PipelineExecutionStatus") == "Executing")
