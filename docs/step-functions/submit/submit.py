"""Submits to a private SlotQ what a state machine hands over, signed with this function's role.

The event is the body of POST /add-job. Its token is a secret: nothing of the event is logged.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import Session

SESSION = Session()
TIMEOUT = 30
"""Seconds. API Gateway answers within 29."""


class QueueRefused(Exception):
    """The queue does not take this job. The same submission again would not help."""


class QueueUnavailable(Exception):
    """No answer, or too many requests. The same submission may be sent again."""


def handler(event: dict[str, Any], _context: object) -> Any:
    """The queue's answer to the submission."""
    request = AWSRequest(
        method="POST",
        url=f"{os.environ['SLOTQ_ENDPOINT']}/add-job",
        data=json.dumps(event).encode(),
        headers={"Content-Type": "application/json"},
    )
    region = os.environ["AWS_REGION"]
    SigV4Auth(SESSION.get_credentials(), "execute-api", region).add_auth(request)
    signed = urllib.request.Request(  # noqa: S310 - the address is the queue's
        request.url, request.data, dict(request.headers)
    )
    try:
        with urllib.request.urlopen(signed, timeout=TIMEOUT) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        said = f"{refused.code} {refused.read().decode(errors='replace')}"
        passing = refused.code == 429 or refused.code >= 500
        raise (QueueUnavailable if passing else QueueRefused)(said) from None
    except OSError as error:
        raise QueueUnavailable(str(error)) from None
