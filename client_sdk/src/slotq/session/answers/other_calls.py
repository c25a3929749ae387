"""Every operation of SageMaker that starts work, and what becomes of it here: some are refused.

SageMaker has a quota of instances for training jobs, and others for processing jobs, transform
jobs, endpoints, notebooks and so on. A pool of the queue is the first. So a call competes with the
queue's jobs only if training jobs come of it; all others go to SageMaker unchanged.

Training jobs that SageMaker itself creates take the instances that the queue counts on, and the
queue neither orders nor sees them. So their calls are refused. Who wants them says so:
`with slotq.direct(): ...`.

docs/client.md shows this table. A test compares it with the calls of the installed SDK and
botocore: a further one must be judged here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq.errors import Refused
from slotq.session.hooks import Answer, Context, Params, TakenCall, untouched

QUEUED = "CreateTrainingJob"
PROCESSING = "CreateProcessingJob"
"""Queued for a session that says `processing=True` (`processing_calls`)."""

_QUEUE_STEP = "make each training step a slotq.pipelines.QueueStep, which waits for a job here"

INSTEAD: Mapping[str, str] = {
    "CreateHyperParameterTuningJob": (
        "put the trials into the queue as a sweep: session.sweep(tuner), "
        "session.sweep(estimator, space), queue.sweeps.submit, or slotq sweep; for the strategy "
        "Hyperband with halving"
    ),
    "CreateAutoMLJob": (
        "train the candidates that you want to compare as a sweep: session.sweep, or slotq sweep"
    ),
    "CreateAutoMLJobV2": (
        "train the candidates that you want to compare as a sweep: session.sweep, or slotq sweep"
    ),
    "StartPipelineExecution": _QUEUE_STEP,
    "RetryPipelineExecution": _QUEUE_STEP,
}
"""The operations of which training jobs come that SageMaker itself creates, so that the queue never
sees them; those of pipelines only where a step trains. Each with what to do instead."""

PIPELINES = frozenset({"StartPipelineExecution", "RetryPipelineExecution"})

PASSED: Mapping[str, str] = {
    PROCESSING: "uses SageMaker's quota of processing instances",
    "CreateTransformJob": "uses the quota of transform instances",
    "CreateLabelingJob": "people do the work; automated labelling trains within its own quota",
    "CreateCompilationJob": "has instances of its own",
    "CreateEdgePackagingJob": "has instances of its own",
    "CreateOptimizationJob": "has a quota of its own",
    "CreateInferenceRecommendationsJob": "starts endpoints for a while",
    "CreateAIBenchmarkJob": "measures endpoints",
    "CreateAIRecommendationJob": "measures endpoints",
    "CreateModelCardExportJob": "writes a document",
    "CreateDataQualityJobDefinition": "starts nothing: it describes processing jobs",
    "CreateModelBiasJobDefinition": "starts nothing: it describes processing jobs",
    "CreateModelExplainabilityJobDefinition": "starts nothing: it describes processing jobs",
    "CreateModelQualityJobDefinition": "starts nothing: it describes processing jobs",
    "CreateMonitoringSchedule": "starts processing jobs",
    "StartMonitoringSchedule": "starts processing jobs",
    "CreateJob": "customizes a model without instances of yours, as serverless training jobs do",
    "CreateTrainingSession": "customizes a model without instances of yours",
    "CreatePipeline": "starts nothing; the start of an execution is judged",
    "CreateTrainingPlan": "reserves capacity; the queue's jobs may name the plan",
    "CreateCluster": "HyperPod has instances of its own",
    "CreateClusterExtension": "HyperPod has instances of its own",
    "CreateClusterSchedulerConfig": "HyperPod has instances of its own",
    "StartClusterHealthCheck": "HyperPod has instances of its own",
    "CreateNotebookInstance": "uses the quota of notebook instances",
    "StartNotebookInstance": "uses the quota of notebook instances",
    "StartSession": "connects to a Studio space",
    "CreateEdgeDeploymentPlan": "deploys to devices",
    "StartEdgeDeploymentStage": "deploys to devices",
    "StartInferenceExperiment": "uses endpoints",
    "StartMlflowTrackingServer": "has instances of its own",
}
"""The operations that go to SageMaker unchanged, and why they take nothing from the queue."""


_direct: ContextVar[bool] = ContextVar("slotq_direct", default=False)


class PastTheQueue(Refused):
    """The call would start training jobs that the queue does not see."""

    code = "past_the_queue"


@contextmanager
def direct() -> Iterator[None]:
    """Let the calls inside start training jobs past the queue, in this thread: tuning jobs, AutoML
    jobs and pipelines. They compete with the queue's jobs for the same instances. CreateTrainingJob
    still goes to the queue."""
    token = _direct.set(True)
    try:
        yield
    finally:
        _direct.reset(token)


class Refusing:
    """`client` returns the boto3 client for `sagemaker` in a region. It reads the definitions of
    pipelines."""

    def __init__(self, *, client: Callable[[str], Any]) -> None:
        self._client = client

    def calls(self) -> tuple[TakenCall, ...]:
        return tuple(
            TakenCall(operation=f"sagemaker.{name}", before=partial(self._look, name))
            for name in INSTEAD
        )

    def _look(
        self, operation: str, params: Params, context: Context
    ) -> Callable[[], Answer] | None:
        if _direct.get():
            return None
        what = "starts training jobs past the queue"
        if operation in PIPELINES:
            what = self._trouble(params, str(context.get("client_region") or ""))
        if not what:
            return None
        return partial(_refuse, f"{operation} {what}: {INSTEAD[operation]}")

    def _trouble(self, params: Params, region: str) -> str:
        """Why the pipeline is not started; empty: no step of it trains."""
        try:
            steps = training_steps(self._definition(params, region))
        except (ClientError, BotoCoreError, ValueError) as error:
            return f"may start training jobs past the queue (its steps cannot be read: {error})"
        if not steps:
            return ""
        named = f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(steps)}"
        return f"starts training jobs past the queue ({named})"

    def _definition(self, params: Params, region: str) -> str:
        client = self._client(region)
        with untouched():
            if execution := params.get("PipelineExecutionArn"):
                found = client.describe_pipeline_definition_for_execution(
                    PipelineExecutionArn=execution
                )
            else:
                version = {key: params[key] for key in ("PipelineVersionId",) if params.get(key)}
                found = client.describe_pipeline(PipelineName=params.get("PipelineName"), **version)
        return str(found["PipelineDefinition"])


def _refuse(message: str) -> Answer:
    raise PastTheQueue(f"{message}. To go past the queue on purpose: with slotq.direct(): ...")


_TRAINING = frozenset({"Training", "Tuning", "AutoML"})
"""The types of such steps. Notebook jobs and functions with `@step` are of type Training, too."""


def training_steps(definition: str) -> list[str]:
    """The names of these steps, those in branches included. `definition`: as DescribePipeline gives
    it. Raises ValueError if it cannot be read."""
    try:
        return [*_steps(json.loads(definition)["Steps"])]
    except (KeyError, TypeError, AttributeError):
        raise ValueError("this is no definition of a pipeline") from None


def _steps(steps: list[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        if step["Type"] in _TRAINING:
            yield step["Name"]
        arguments = step.get("Arguments") or {}
        for branch in ("IfSteps", "ElseSteps"):
            yield from _steps(arguments.get(branch) or [])
