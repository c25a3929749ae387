"""Find a queue's endpoint by its name: the queue's stack writes it to the SSM parameter store.

    SLOTQ_QUEUE=slotq    the parameter /slotq/slotq: {"endpoint": "https://…/prod", "api_id": "…"}

Used only if no endpoint is configured. The caller needs ssm:GetParameter on that parameter.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.config import Config as ClientConfig
from botocore.exceptions import BotoCoreError, ClientError

from slotq.configuration.settings import Config, checked
from slotq.errors import NotConfigured
from slotq.transport import aws_session

if TYPE_CHECKING:
    import boto3

_TIMEOUTS = ClientConfig(connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 1})
"""Timeouts in seconds: in a private network without an endpoint for SSM, the call fails quickly."""


def parameter_of(queue: str) -> str:
    return f"/slotq/{queue}"


def complete(config: Config, *, aws: boto3.Session | None = None) -> Config:
    """The settings, with the endpoint looked up if they name a queue but no endpoint.

    Raises NotConfigured with the cause if the look-up fails.
    """
    if config.endpoint is not None or config.queue is None:
        return config
    name = parameter_of(config.queue)
    session = aws or aws_session.signing(config)
    try:
        ssm = session.client("ssm", region_name=config.region, config=_TIMEOUTS)
        answer = ssm.get_parameter(Name=name)
        found = read_where(answer["Parameter"]["Value"])
    except (BotoCoreError, ClientError, ValueError) as error:
        raise NotConfigured(
            f"the queue '{config.queue}' (from {config.source('queue')}) cannot be found in the "
            f"SSM parameter {name}: {error}. Check the name of the stack, the region "
            f"({config.region or 'from your AWS settings'}), the route to SSM, and that you "
            "have ssm:GetParameter. Or set SLOTQ_ENDPOINT, which needs no look-up."
        ) from None
    endpoint = checked("endpoint", found["endpoint"], name)
    return replace(
        config,
        endpoint=str(endpoint),
        api_id=config.api_id or str(found["api_id"]),
        sources={**config.sources, "endpoint": f"SSM parameter {name}"},
    )


def read_where(value: str) -> dict[str, Any]:
    """Parse the parameter's value. Raises ValueError if it lacks the endpoint or the API's id."""
    found = json.loads(value)
    if not isinstance(found, dict) or not {"endpoint", "api_id"} <= set(found):
        raise ValueError("it has no endpoint and api_id")
    return found
