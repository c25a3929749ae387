"""The settings that `slotq.install` and QueueTrainingJobSession take as keyword arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, cast

from slotq.client import QueueClient
from slotq.jobs.submission import JobSettings


class QueueSettings(JobSettings, total=False):
    """Which queue, and the settings of the jobs. None: not given."""

    endpoint: Annotated[str | None, "the URL of the queue's API; default from the config"]
    api_id: Annotated[str | None, "the API's id, with a VPC endpoint; default from the config"]
    queue: Annotated[QueueClient | None, "an existing client, instead of a new one"]
    ship_training: Annotated[
        bool | None, "put slotq_training.py beside the code, for scripts that can be suspended"
    ]
    say: Annotated[
        Callable[[str], None] | None,
        "takes each line that tells of a job; the logger `slotq` gets the lines too",
    ]


class SessionSettings(QueueSettings, total=False):
    """The same, and the keyword arguments of the SDK's own Session, which get through to it."""

    sagemaker_client: Any
    sagemaker_runtime_client: Any
    sagemaker_featurestore_runtime_client: Any
    sagemaker_metrics_client: Any
    sagemaker_config: Any
    default_bucket: Any
    default_bucket_prefix: Any
    settings: Any


def parted(given: SessionSettings) -> tuple[QueueSettings, dict[str, Any]]:
    """What is for the queue, and what is for the SDK's Session."""
    own = {key: value for key, value in given.items() if key in QueueSettings.__annotations__}
    rest = {key: value for key, value in given.items() if key not in own}
    return cast(QueueSettings, own), rest


def job_settings(given: QueueSettings) -> JobSettings:
    """What is for the jobs alone."""
    own = {key: value for key, value in given.items() if key in JobSettings.__annotations__}
    return cast(JobSettings, own)
