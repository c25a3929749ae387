"""`slotq.install`: plain boto3, and whatever is built on it, through the queue.

    aws = boto3.Session()
    slotq.install(aws, priority=5)
    aws.client("sagemaker").create_training_job(TrainingJobName="job1", ...)

Clients that the session has created before stay unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, Unpack, cast

import boto3

from slotq.client import QueueClient
from slotq.configuration.keywords import takes
from slotq.configuration.settings import load
from slotq.jobs.foreign_names import QUICK, ForeignNames
from slotq.jobs.notices import log, logged
from slotq.jobs.submission import JobSettings
from slotq.packaging import training_file
from slotq.session.answers.deletion import Deletion
from slotq.session.answers.log_calls import LogCalls
from slotq.session.answers.other_calls import Refusing
from slotq.session.answers.processing_calls import ProcessingCalls
from slotq.session.hooks import TakenCall, honour_sts_endpoint, take_over
from slotq.session.other_sessions import copy_of, hook_later_defaults, report_spawned_processes
from slotq.session.training_calls import TrainingCalls
from slotq.transport import aws_session, discovery
from slotq.transport.signed_http import Transport
from slotq_core.names import PROJECT_TAG


class QueueSettings(JobSettings, total=False):
    """The queue, and the settings of the jobs. None: not set."""

    endpoint: Annotated[str | None, "the URL of the queue's API; default from the config"]
    api_id: Annotated[str | None, "the API's id, with a VPC endpoint; default from the config"]
    queue: Annotated[QueueClient | None, "an existing client, instead of a new one"]
    processing: Annotated[
        bool | None, "queue processing jobs too, in pools for them (docs/processing.md)"
    ]
    ship_training: Annotated[
        bool | None, "put slotq_training.py beside the code, for scripts that can be suspended"
    ]
    say: Annotated[
        Callable[[str], None] | None,
        "takes each line about a job; the logger `slotq` gets the lines too",
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


def parted(settings: SessionSettings) -> tuple[QueueSettings, dict[str, Any]]:
    """The settings for the queue, and those for the SDK's Session."""
    own = {key: value for key, value in settings.items() if key in QueueSettings.__annotations__}
    rest = {key: value for key, value in settings.items() if key not in own}
    return cast(QueueSettings, own), rest


def job_settings(settings: QueueSettings) -> JobSettings:
    """The settings for the jobs."""
    own = {key: value for key, value in settings.items() if key in JobSettings.__annotations__}
    return cast(JobSettings, own)


@takes(QueueSettings)
def install(session: boto3.Session | None = None, **settings: Unpack[QueueSettings]) -> QueueClient:
    """Send the training jobs of a boto3 session through the queue; returns the queue's client.

    The client's submissions have the same settings.

    `session`: boto3's default session where None, with all later ones
    (`boto3.setup_default_session`). The settings of jobs become tags of each job; a
    tag that a request carries itself wins. Installing again for the same queue replaces the
    settings.

    A refusal of the queue is a ClientError of CreateTrainingJob, as SageMaker's own would be. Where
    the queue cannot be reached, `slotq.errors` are raised: the job then is not submitted.
    Raises NotConfigured when no endpoint is set.
    """
    say = settings.get("say")
    queue, training = connect(session, settings, say=log if say is None else logged(say))

    def hook(aws: boto3.Session) -> None:
        honour_sts_endpoint(aws.events)
        Installation(aws, queue, training).on(aws.events)

    hook(session or _default_session())
    if session is None:
        hook_later_defaults(queue.config.required_endpoint(), hook)
    report_spawned_processes(training.say)
    return queue


def connect(
    aws: boto3.Session | None,
    settings: QueueSettings,
    *,
    say: Callable[[str], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[QueueClient, TrainingCalls]:
    """The queue that is configured, with these settings, and SageMaker's calls over it.

    `aws`: the session that signs; the configured one where None. `say` takes the place of that of
    the settings. A missing priority or project comes from the queue's own settings, else from the
    configuration. Raises NotConfigured.
    """
    config = load({key: settings.get(key) for key in ("endpoint", "api_id", "priority", "project")})
    queue, own = settings.get("queue"), job_settings(settings)
    if queue is None:
        config = discovery.complete(config, aws=aws)
        queue = QueueClient(config=config, transport=Transport(config, aws=aws, sleep=sleep))
    else:
        if own.get("priority") is None and "priority" not in queue.tags:
            own["priority"] = config.priority
        if own.get("project") is None and PROJECT_TAG not in queue.tags:
            own["project"] = config.project
    queue = queue.with_settings(**own)
    training = TrainingCalls(queue, say=say, clock=clock, sleep=sleep)
    training.processing = bool(settings.get("processing"))
    if settings.get("ship_training"):
        training.ship = partial(
            _shipped, cache(lambda: (aws or aws_session.made()).client("s3")), say
        )
    return queue, training


def _shipped(
    s3: Callable[[], Any],
    say: Callable[[str], object],
    request: Mapping[str, Any],
    ask: Callable[[], object],
) -> dict[str, Any]:
    made = training_file.shipped(s3(), request, ask=ask)
    if made is None:
        say(f"{training_file.NAME} is not shipped: the request names no code in S3")
        return dict(request)
    return made


class Installation:
    """What is hooked for one queue: into a session's events, or into those of single clients."""

    def __init__(
        self,
        session: boto3.Session,
        queue: QueueClient,
        training: TrainingCalls,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._owner = queue.config.required_endpoint()
        logs = LogCalls(training, cache(lambda: session.client("logs")), clock=clock)
        deletion = Deletion(
            training,
            client=cache(lambda region: session.client("sagemaker", region_name=region or None)),
        )
        refusing = Refusing(
            client=cache(lambda region: session.client("sagemaker", region_name=region or None))
        )
        training.names = ForeignNames(
            queue.jobs,
            cache(
                lambda region: session.client("sagemaker", region_name=region or None, config=QUICK)
            ),
        )
        self.training = training
        processing = (ProcessingCalls(training),) if training.processing else ()
        self.calls: Mapping[str, TakenCall] = {
            call.operation: call
            for part in (training, *processing, logs, deletion, refusing)
            for call in part.calls()
        }

    def on(self, events: Any) -> None:
        take_over(events, tuple(self.calls.values()), owner=self._owner)

    def copy_of(self, boto_session: Any) -> Any:
        """A copy of the boto session whose clients for SageMaker, logs and STS are hooked."""
        hooks = {"sagemaker": self.on, "logs": self.on, "sts": honour_sts_endpoint}
        return copy_of(boto_session, hooks)


def _default_session() -> boto3.Session:
    if boto3.DEFAULT_SESSION is None:
        boto3.DEFAULT_SESSION = aws_session.made()
    assert boto3.DEFAULT_SESSION is not None
    return boto3.DEFAULT_SESSION
