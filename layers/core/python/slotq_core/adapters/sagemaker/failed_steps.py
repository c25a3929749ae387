"""The failure of a pipeline's callback step, as SageMaker hears of it."""

from __future__ import annotations

import hashlib
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.errors import Unavailable

_NOBODY_WAITS = frozenset({"ConflictException", "ResourceNotFound", "ValidationException"})


def fail_step(client: Any, token: str, reason: str) -> None:
    """Fail the step that waits with this token; once it no longer waits, nothing happens. Raises
    Unavailable, without the token."""
    once = hashlib.sha256(f"failure {token}".encode()).hexdigest()
    try:
        client.send_pipeline_execution_step_failure(
            CallbackToken=token, FailureReason=reason, ClientRequestToken=once
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in _NOBODY_WAITS:
            raise Unavailable(f"Pipelines does not take the failure of a step ({code})") from None
    except BotoCoreError as error:
        kind = type(error).__name__
        raise Unavailable(f"Pipelines does not take the failure of a step ({kind})") from None
