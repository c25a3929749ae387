"""The emulator's address, and boto3 clients that call only this address."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from slotq.local.keys import EmulatorKeys

ACCOUNT = "123456789012"
REGION = "us-east-1"
API_ID = "slotqlocal"
STAGE = "prod"

_building = threading.Lock()


def session_of(**settings: str) -> Any:
    """A boto3 session with these settings, which reads no AWS profile of the user: none need exist
    for the emulator."""
    import boto3
    from botocore.session import Session

    no_profile = Session({"profile": (None, None, None, None)})
    return boto3.Session(botocore_session=no_profile, **settings)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    url: str
    """`http://127.0.0.1:PORT`, without a final slash."""
    keys: EmulatorKeys
    region: str = REGION
    account: str = ACCOUNT

    @property
    def queue(self) -> str:
        """The URL of the queue's API, with its stage."""
        return f"{self.url}/{STAGE}"

    @property
    def bucket(self) -> str:
        """The name of SageMaker's default bucket."""
        return f"sagemaker-{self.region}-{self.account}"

    @property
    def nodes_bucket(self) -> str:
        """The name of the bucket in which the queue and its nodes keep their documents."""
        return f"slotq-nodes-{self.region}-{self.account}"

    def variables(self) -> dict[str, str]:
        """Environment variables that send AWS SDKs to the emulator, with the emulator's credentials
        only."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.keys.access_key,
            "AWS_SECRET_ACCESS_KEY": self.keys.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        """A boto3 client. Threads may share one."""
        from botocore.config import Config

        with _building:
            return session_of(
                aws_access_key_id=self.keys.access_key,
                aws_secret_access_key=self.keys.secret_key,
                region_name=self.region,
            ).client(
                service,
                endpoint_url=self.url,
                config=Config(
                    retries={"total_max_attempts": 2},
                    s3={"addressing_style": "path"},
                    proxies={},
                    max_pool_connections=20,
                ),
            )
