"""Who submits by a queue of messages: the role that an operator has set up the queue for.

The role is kept beside the queue, as a parameter of SSM with the queue's name (docs/pipelines.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.errors import NotUnderstood, Unavailable

SUBMITTERS_VARIABLE = "SLOTQ_SUBMITTERS"
"""The path of the parameters, with a slash at its end."""
SESSION = "pipelines"
"""The session name of such callers. SageMaker's own is not known here; the role alone counts."""

_QUEUE = re.compile(r"arn:[^:]+:sqs:[^:]+:(?P<account>[0-9]{12}):(?P<name>[\w-]{1,80})", re.ASCII)
_ROLE = re.compile(
    r"arn:(?P<partition>[^:]+):iam::(?P<account>[0-9]{12}):role/(?:[^/]+/)*(?P<name>[\w+=,.@-]+)",
    re.ASCII,
)


class QueueSubmitters:
    """Reads each queue's parameter once."""

    def __init__(self, client: Callable[[], Any], path: str) -> None:
        """`client` creates botocore's SSM client on first use."""
        self._client, self._path = client, path
        self._known: dict[str, str] = {}

    def of(self, queue_arn: str) -> str:
        """The ARN of the caller behind the queue: a session of its role.

        Raises NotUnderstood if no role of the queue's account is named, and Unavailable.
        """
        if queue_arn not in self._known:
            self._known[queue_arn] = self._read(queue_arn)
        return self._known[queue_arn]

    def _read(self, queue_arn: str) -> str:
        queue = _QUEUE.fullmatch(queue_arn)
        if queue is None:
            raise NotUnderstood("the message comes from no queue of SQS")
        try:
            found = self._client().get_parameter(Name=f"{self._path}{queue['name']}")
        except ClientError as error:
            if error.response["Error"]["Code"] == "ParameterNotFound":
                raise NotUnderstood(f"queue {queue['name']} was set up for no role") from None
            raise Unavailable(f"SSM does not name the role of queue {queue['name']}") from error
        except BotoCoreError as error:
            raise Unavailable(f"SSM does not name the role of queue {queue['name']}") from error
        role = _ROLE.fullmatch(str(found["Parameter"]["Value"]).strip())
        if role is None or role["account"] != queue["account"]:
            raise NotUnderstood(f"queue {queue['name']} was set up for no role of this account")
        return (
            f"arn:{role['partition']}:sts::{role['account']}:assumed-role/{role['name']}/{SESSION}"
        )
