"""The queue by an Airflow connection to AWS."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

from slotq.client import QueueClient
from slotq.configuration.settings import load
from slotq.transport import discovery
from slotq.transport.signed_http import Transport

SERVICE = "slotq"
"""The key of the connection's `service_config` with the queue's `endpoint_url` and `api_id`."""


class SlotqHook(AwsBaseHook):
    """The queue, with calls signed by the credentials of an AWS connection.

    The endpoint is the argument, else that of the connection's extra
    (`{"service_config": {"slotq": {"endpoint_url": "https://…", "api_id": "…"}}}`), else that of
    the worker's environment: SLOTQ_ENDPOINT, or SLOTQ_QUEUE.
    """

    hook_name = "SlotQ"

    def __init__(self, *args: Any, endpoint: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._endpoint = endpoint

    @cached_property
    def queue(self) -> QueueClient:
        """The queue's client. Raises NotConfigured."""
        aws = self.get_session(region_name=self.region_name)
        extra = self.conn_config.get_service_config(SERVICE)
        settings = {
            "endpoint": self._endpoint or extra.get("endpoint_url"),
            "api_id": extra.get("api_id"),
            "region": self.region_name,
        }
        config = discovery.complete(load(settings), aws=aws)
        queue = QueueClient(config=config, transport=Transport(config, aws=aws))
        queue.say = self.log.info
        return queue

    def logs(self) -> Any:
        """boto3's client for the logs of training jobs, in the queue's region."""
        return AwsBaseHook(
            self.aws_conn_id,
            client_type="logs",
            region_name=self.queue.config.signing_region() or self.region_name,
            verify=self.verify,
            config=self.config,
        ).conn
