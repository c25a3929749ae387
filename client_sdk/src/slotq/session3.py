"""QueueTrainingJobSession for SageMaker SDK v3: `ModelTrainer.train()` unchanged.

    session = QueueTrainingJobSession(priority=10)
    ModelTrainer(..., sagemaker_session=session).train()

`train(wait=False)` returns when the queue has taken the job. `train()` shows the place in the line
and why, then the logs, across evictions, and returns when the job has ended.

This SDK makes its clients itself and keeps them: one for each boto session and one for whoever
names none; older versions a single one for the whole process. So the hooks are put into the boto
session, and into those clients that may be there already. Waiting is the SDK's own; where it is
interrupted, what to do next is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import boto3
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.resources import TrainingJob
from sagemaker.core.utils.logs import CloudWatchLogsClient
from sagemaker.core.utils.utils import SageMakerClient

from slotq.client import QueueClient
from slotq.hooks import honour_sts_endpoint
from slotq.installation import Installation, connect
from slotq.screen import print_line
from slotq.training_calls import last_to_answer

_TELLS = "slotq_tells"


class QueueTrainingJobSession(Session):  # type: ignore[misc]
    """A SageMaker session whose training jobs go through the queue. All else is the parent's.

    The settings below become tags of each job; a tag that a trainer carries itself wins.
    `priority`: high first, default from the config, else the queue's. `pools`: in order of
    preference. `min_runtime`: seconds. Other arguments are those of the SDK's `Session`.

    `boto_session`: a new one where None. Every SageMaker client that it makes from now on
    sends its training jobs through the queue.
    """

    def __init__(
        self,
        boto_session: Any = None,
        *args: Any,
        endpoint: str | None = None,
        api_id: str | None = None,
        priority: int | None = None,
        pools: str | Iterable[str] | None = None,
        preemptible: bool | None = None,
        min_runtime: int | None = None,
        retries: int | None = None,
        queue: QueueClient | None = None,
        say: Callable[[str], None] = print_line,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        **kwargs: Any,
    ) -> None:
        """Raises NotConfigured at once when no endpoint is set, before anything is uploaded."""
        boto_session = boto_session or boto3.Session()
        self.queue, training = connect(
            boto_session,
            queue=queue,
            say=say,
            clock=clock,
            sleep=sleep,
            endpoint=endpoint,
            api_id=api_id,
            priority=priority,
            pools=pools,
            preemptible=preemptible,
            min_runtime=min_runtime,
            retries=retries,
        )
        honour_sts_endpoint(boto_session.events)
        hooks = Installation(boto_session, self.queue, training)
        hooks.on(boto_session.events)
        super().__init__(boto_session, *args, **kwargs)
        for client in (
            self.sagemaker_client,  # It may have been handed in.
            SageMakerClient(session=boto_session).sagemaker_client,  # TrainingJob.create's.
            SageMakerClient().sagemaker_client,  # Of jobs that are asked for without a session.
            CloudWatchLogsClient().client,  # TrainingJob.wait's, of no session.
        ):
            hooks.on(client.meta.events)
        _tell_when_interrupted()


def _tell_when_interrupted() -> None:
    """From now on Ctrl-C in TrainingJob.wait, and so in ModelTrainer.train, leaves a word."""
    original = TrainingJob.wait
    if hasattr(original, _TELLS):
        return

    @wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except KeyboardInterrupt:
            if queue := last_to_answer.get(self.training_job_name):
                queue.say_left(self.training_job_name)
            raise

    setattr(wait, _TELLS, True)
    TrainingJob.wait = wait
