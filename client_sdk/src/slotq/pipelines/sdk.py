"""The names of the installed SageMaker SDK that steps are built of. The two versions keep them in
different places."""

from __future__ import annotations

from typing import Any

from slotq.session.installed_sdk import sdk_version

VERSION = sdk_version()

if VERSION == 2:
    from sagemaker.local import LocalSession
    from sagemaker.workflow import utilities
    from sagemaker.workflow.callback_step import (
        CallbackOutput,
        CallbackOutputTypeEnum,
        CallbackStep,
    )
    from sagemaker.workflow.entities import PipelineVariable
    from sagemaker.workflow.pipeline_context import PipelineSession
    from sagemaker.workflow.steps import TrainingStep
else:
    from sagemaker.core.helper.pipeline_variable import PipelineVariable
    from sagemaker.core.local import LocalSession
    from sagemaker.core.workflow import utilities
    from sagemaker.core.workflow.pipeline_context import PipelineSession
    from sagemaker.mlops.workflow.callback_step import (
        CallbackOutput,
        CallbackOutputTypeEnum,
        CallbackStep,
    )
    from sagemaker.mlops.workflow.steps import TrainingStep

__all__ = [
    "VERSION",
    "CallbackOutput",
    "CallbackOutputTypeEnum",
    "CallbackStep",
    "LocalSession",
    "PipelineSession",
    "PipelineVariable",
    "TrainingStep",
    "local_pipeline_session",
    "utilities",
]


def local_pipeline_session() -> Any:
    """The class of sessions that run pipelines on this machine."""
    if VERSION == 2:
        from sagemaker.workflow.pipeline_context import LocalPipelineSession
    else:
        from sagemaker.mlops.local import LocalPipelineSession
    return LocalPipelineSession
