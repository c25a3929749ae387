"""Submits to a private SlotQ what a state machine hands over, signed with this function's role.

The event is the body of POST /add-job. Its token is a secret: nothing of the event is logged.
"""

from __future__ import annotations

import json
import os
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.httpsession import URLLib3Session
from botocore.session import Session

SESSION = Session()
HTTP = URLLib3Session(timeout=30)  # API Gateway answers within 29 seconds


class QueueRefused(Exception):
    """The queue does not take this job. The same submission again would not help."""


class QueueUnavailable(Exception):
    """No answer, or too many requests. The same submission may be sent again."""


def handler(event: dict[str, Any], _context: object) -> Any:
    """Return the queue's answer. Raises QueueRefused and QueueUnavailable."""
    request = AWSRequest(
        method="POST",
        url=f"{os.environ['SLOTQ_ENDPOINT']}/add-job",
        data=json.dumps(event).encode(),
        headers={"Content-Type": "application/json"},
    )
    region = os.environ["AWS_REGION"]
    SigV4Auth(SESSION.get_credentials(), "execute-api", region).add_auth(request)
    try:
        answer = HTTP.send(request.prepare())
    except BotoCoreError as error:
        raise QueueUnavailable(str(error)) from None
    said = f"{answer.status_code} {answer.text}"
    if answer.status_code == 429 or answer.status_code >= 500:
        raise QueueUnavailable(said)
    if answer.status_code >= 400:
        raise QueueRefused(said)
    return json.loads(answer.text)
