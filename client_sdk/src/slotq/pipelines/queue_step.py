"""QueueStep: a step of a pipeline that waits for a job of the queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Unpack

from slotq.configuration.keywords import takes
from slotq.errors import InvalidRequest
from slotq.jobs.submission import JobSettings, settings_tags, with_tags
from slotq.pipelines.arguments import step_arguments
from slotq.pipelines.local_step import LocalQueueStep
from slotq.pipelines.sdk import (
    VERSION,
    CallbackOutput,
    CallbackOutputTypeEnum,
    CallbackStep,
    LocalSession,
    PipelineSession,
    PipelineVariable,
    TrainingStep,
    utilities,
)
from slotq.pipelines.step_rules import MODEL, metric_names, refuse_retries


class StepOutputs(list[Any]):
    """The outputs of a step, as CallbackStep has them; by name, what later steps refer to."""

    def __init__(self, outputs: Iterable[Any]) -> None:
        super().__init__(outputs)
        self.properties: Any = {}

    def __getitem__(self, key: Any) -> Any:
        return self.properties[key] if isinstance(key, str) else super().__getitem__(key)


class QueueStep(CallbackStep):  # type: ignore[misc]
    """A step whose training job goes through the queue. The step waits until the job has completed,
    across evictions, and fails with the job's reason.

    `step.outputs["model"]` is the S3 URI of the model, and `step.outputs[NAME]` each of the
    `metrics`, for later steps.
    """

    def __new__(cls, name: str = "", estimator: Any = None, *inputs: Any, **more: Any) -> Any:
        """In a local pipeline session a training step (`LocalQueueStep`)."""
        if isinstance(getattr(estimator, "sagemaker_session", None), LocalSession):
            return LocalQueueStep(name, estimator, *inputs, **more)
        return super().__new__(cls)

    @takes(JobSettings)
    def __init__(
        self,
        name: str,
        estimator: Any,
        inputs: Any = None,
        *,
        sqs_queue_url: str = "",
        metrics: Iterable[str] = (),
        when_abandoned: Literal["cancel", "continue"] = "cancel",
        display_name: str | None = None,
        description: str | None = None,
        cache_config: Any = None,
        depends_on: Any = None,
        retry_policies: Any = None,
        **settings: Unpack[JobSettings],
    ) -> None:
        """`estimator`: an estimator, or a `ModelTrainer`, with a `PipelineSession`. `inputs`: the
        argument of `fit` (or `train`). Their values may be pipeline variables.

        `sqs_queue_url`: the queue of messages that an operator has set up for the pipeline's role.
        `metrics`: the names of final metrics that become outputs. `when_abandoned`: whether the job
        is cancelled when the execution is stopped. `cache_config`, `depends_on` and the names are
        those of `CallbackStep`.

        Raises InvalidRequest with the name of the argument.
        """
        refuse_retries(retry_policies)
        if not sqs_queue_url:
            raise InvalidRequest(
                "give sqs_queue_url: the queue of messages that an operator has set up for the "
                "pipeline's role",
                field="sqs_queue_url",
            )
        if when_abandoned not in {"cancel", "continue"}:
            raise InvalidRequest(
                f"when_abandoned is 'cancel' or 'continue', not {when_abandoned!r:.40}",
                field="when_abandoned",
            )
        if not isinstance(getattr(estimator, "sagemaker_session", None), PipelineSession):
            raise InvalidRequest(
                "give the estimator sagemaker_session=PipelineSession(), so that it submits "
                "nothing while the pipeline is built",
                field="estimator",
            )
        self._tags = settings_tags(**settings)
        self._when_abandoned = when_abandoned
        call = estimator.fit if VERSION == 2 else estimator.train
        self._training = TrainingStep(name, step_args=call(inputs))
        self._estimator = estimator
        outputs = StepOutputs(_outputs(metrics))
        super().__init__(
            name=name,
            sqs_queue_url=sqs_queue_url,
            inputs={},
            outputs=outputs,
            display_name=display_name,
            description=description,
            cache_config=cache_config,
            depends_on=depends_on,
        )
        outputs.properties = self.properties.Outputs

    @property
    def arguments(self) -> dict[str, Any]:
        """The request of the training job, and the pipeline variables in it."""
        config = utilities._pipeline_config  # noqa: SLF001 - the SDK computes it for its own steps alone
        if config is not None:
            config.code_hash = utilities.get_code_hash(self._training)
        request = with_tags(self._training.arguments, self._tags)
        request.pop("TrainingJobName", None)
        return step_arguments(request, PipelineVariable, when_abandoned=self._when_abandoned)


def _outputs(metrics: Iterable[str]) -> list[Any]:
    kinds, names = CallbackOutputTypeEnum, metric_names(metrics)
    return [
        CallbackOutput(output_name=MODEL, output_type=kinds.String),
        *(CallbackOutput(output_name=name, output_type=kinds.Float) for name in names),
    ]
