"""The step in a local pipeline session: a training step whose job goes through the queue.

The SDK's local executor gives the arguments of a training step to the session's client. Those of
this step are understood by the client below alone: with another one the step fails, so that no job
runs past the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Unpack

from slotq.configuration.keywords import takes
from slotq.errors import InvalidRequest
from slotq.jobs.submission import JobSettings
from slotq.pipelines.sdk import VERSION, TrainingStep, local_pipeline_session
from slotq.pipelines.step_rules import MODEL, metric_names, refuse_retries
from slotq_core.model.jobs import JobState

_REQUEST, _STEP = "slotq_request", "slotq_step"


class NotCompleted(Exception):
    """The job of a local step has ended in another way."""


class LocalQueueStep(TrainingStep):  # type: ignore[misc]
    """A training step, with the outputs of a `QueueStep`."""

    @takes(JobSettings)
    def __init__(
        self,
        name: str,
        estimator: Any,
        inputs: Any = None,
        *,
        sqs_queue_url: str = "",
        metrics: Iterable[str] = (),
        when_abandoned: str = "cancel",
        display_name: str | None = None,
        description: str | None = None,
        cache_config: Any = None,
        depends_on: Any = None,
        retry_policies: Any = None,
        **settings: Unpack[JobSettings],
    ) -> None:
        """As for `QueueStep`. What only the service does (messages, caching) has no meaning here.
        Raises InvalidRequest for a session that runs no pipelines."""
        session, runs_pipelines = estimator.sagemaker_session, local_pipeline_session()
        if not isinstance(session, runs_pipelines):
            raise InvalidRequest(
                "give the estimator sagemaker_session=LocalPipelineSession() of "
                f"{runs_pipelines.__module__}",
                field="estimator",
            )
        refuse_retries(retry_policies)
        names = metric_names(metrics)
        self._estimator, self._fit_inputs = estimator, inputs
        arguments = {"step_args": estimator.fit(inputs)} if VERSION == 2 else {}
        super().__init__(
            name=name,
            display_name=display_name,
            description=description,
            depends_on=depends_on,
            **arguments,
        )
        self.outputs = {
            MODEL: self.properties.ModelArtifacts.S3ModelArtifacts,
            **{each: self.properties.FinalMetricDataList[each].Value for each in names},
        }
        self.through_queue = ThroughQueue(session.boto_session, settings)
        if not isinstance(session.sagemaker_client, LocalClient):
            session.sagemaker_client = LocalClient(session.sagemaker_client)

    @property
    def arguments(self) -> dict[str, Any]:
        """The request, and who submits it: for `LocalClient` alone."""
        if VERSION == 2:
            with _no_local_mode(self._estimator.sagemaker_session):
                request = super().arguments
        else:
            request = self._estimator._create_training_job_args(  # noqa: SLF001 - it has no public name
                input_data_config=self._fit_inputs, boto3=True
            )
            request.pop("TrainingJobName", None)
        return {_REQUEST: request, _STEP: self.through_queue}


@contextmanager
def _no_local_mode(session: Any) -> Iterator[None]:
    """The job runs in the queue, so what local mode refuses (checkpoints, spot) stays possible."""
    session.local_mode = False
    try:
        yield
    finally:
        session.local_mode = True


class ThroughQueue:
    """Submits the jobs of a local step, by a session of the queue."""

    def __init__(self, boto_session: Any, settings: JobSettings) -> None:
        self._boto_session, self._settings = boto_session, settings

    @cached_property
    def _session(self) -> Any:
        from slotq.session.installed_sdk import QueueTrainingJobSession

        return QueueTrainingJobSession(self._boto_session, **self._settings)

    def run(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Submit the job and wait for its end. Returns the training job's description, with the
        metrics by name. Raises NotCompleted."""
        client = self._session.sagemaker_client
        client.create_training_job(TrainingJobName=name, **request)
        job = self._session.queue.get(name).wait()
        if job.view.state != JobState.COMPLETED:
            raise NotCompleted(
                f"job {name} is {job.state}: {job.view.message or 'no reason given'}"
            )
        found: dict[str, Any] = client.describe_training_job(TrainingJobName=name)
        metrics = found.get("FinalMetricDataList") or []
        return {**found, "FinalMetricDataList": {each["MetricName"]: each for each in metrics}}


class LocalClient:
    """The client of a local session, with the jobs of queue steps."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._done: dict[str, dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_training_job(self, TrainingJobName: str, **request: Any) -> Any:  # noqa: N803 - the SDK's names
        step = request.pop(_STEP, None)
        if step is None:
            return self._client.create_training_job(TrainingJobName, **request)
        self._done[TrainingJobName] = step.run(TrainingJobName, request[_REQUEST])
        return None

    def describe_training_job(self, TrainingJobName: str) -> Any:  # noqa: N803
        if TrainingJobName in self._done:
            return self._done[TrainingJobName]
        return self._client.describe_training_job(TrainingJobName)
