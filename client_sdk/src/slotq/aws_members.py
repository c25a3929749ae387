"""The members of each AWS call that is answered here, and what becomes of them: one row a member.

Two sides answer: the client's hooks, for jobs of the queue, and the emulator, in AWS's place. What
the hooks pass on to AWS is honoured, too. A member is honoured, refused by name, or without meaning
there, and then the row says why. A test compares the table with botocore's model, so that a member
which botocore adds fails it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class Use(StrEnum):
    HONOURED = "honoured"
    REFUSED = "refused"
    """A call with it is refused, with its name and the reason."""
    MEANINGLESS = "without meaning"


class Member(NamedTuple):
    """What becomes of one member."""

    hook: Use
    emulator: Use
    why: str = ""
    """Why it is not honoured on both sides."""


_H, _R, _M = Use.HONOURED, Use.REFUSED, Use.MEANINGLESS
_BOTH = Member(_H, _H)
_SHOWN = "the emulator only shows it: it has "
_ONE_PAGE = "a job has at most 50 tags, and no page has room for fewer"

MEMBERS: Mapping[str, Mapping[str, Member]] = {
    "sagemaker.CreateTrainingJob": {
        "TrainingJobName": _BOTH,
        "HyperParameters": _BOTH,
        "AlgorithmSpecification": _BOTH,
        "RoleArn": _BOTH,
        "InputDataConfig": _BOTH,
        "OutputDataConfig": _BOTH,
        "ResourceConfig": _BOTH,
        "VpcConfig": Member(_H, _M, f"{_SHOWN}no networks"),
        "StoppingCondition": _BOTH,
        "Tags": _BOTH,
        "EnableNetworkIsolation": Member(_H, _M, f"{_SHOWN}no networks"),
        "EnableInterContainerTrafficEncryption": Member(_H, _M, f"{_SHOWN}no networks"),
        "EnableManagedSpotTraining": _BOTH,
        "CheckpointConfig": _BOTH,
        "DebugHookConfig": Member(_H, _M, f"{_SHOWN}no Debugger"),
        "DebugRuleConfigurations": _BOTH,
        "TensorBoardOutputConfig": Member(_H, _M, f"{_SHOWN}no TensorBoard"),
        "ExperimentConfig": Member(_H, _M, f"{_SHOWN}no experiments"),
        "ProfilerConfig": Member(_H, _M, f"{_SHOWN}no profiler"),
        "ProfilerRuleConfigurations": _BOTH,
        "Environment": _BOTH,
        "RetryStrategy": Member(_H, _M, f"{_SHOWN}no faults but those of its knobs"),
        "RemoteDebugConfig": _BOTH,
        "InfraCheckConfig": Member(_H, _M, f"{_SHOWN}no hardware to check"),
        "SessionChainingConfig": Member(_H, _M, "the emulator's jobs have no session tags"),
        "ServerlessJobConfig": Member(_H, _R, "the emulator has no serverless jobs"),
        "MlflowConfig": Member(_H, _M, f"{_SHOWN}no MLflow server"),
        "ModelPackageConfig": Member(_H, _M, f"{_SHOWN}no model registry"),
    },
    "sagemaker.DescribeTrainingJob": {"TrainingJobName": _BOTH},
    "sagemaker.StopTrainingJob": {"TrainingJobName": _BOTH},
    "sagemaker.DeleteTrainingJob": {"TrainingJobName": _BOTH},
    "sagemaker.UpdateTrainingJob": {
        "TrainingJobName": _BOTH,
        "ProfilerConfig": Member(_H, _M, f"{_SHOWN}no profiler"),
        "ProfilerRuleConfigurations": Member(_H, _M, f"{_SHOWN}no profiler"),
        "ResourceConfig": _BOTH,
        "RemoteDebugConfig": Member(_H, _M, f"{_SHOWN}no way to switch it while a job runs"),
    },
    "sagemaker.ListTrainingJobs": {
        "NextToken": _BOTH,
        "MaxResults": _BOTH,
        "CreationTimeAfter": _BOTH,
        "CreationTimeBefore": _BOTH,
        "LastModifiedTimeAfter": _BOTH,
        "LastModifiedTimeBefore": _BOTH,
        "NameContains": _BOTH,
        "StatusEquals": _BOTH,
        "SortBy": _BOTH,
        "SortOrder": _BOTH,
        "WarmPoolStatusEquals": _BOTH,
        "TrainingPlanArnEquals": _BOTH,
    },
    "sagemaker.CreateProcessingJob": {
        "ProcessingInputs": _BOTH,
        "ProcessingOutputConfig": _BOTH,
        "ProcessingJobName": _BOTH,
        "ProcessingResources": _BOTH,
        "StoppingCondition": _BOTH,
        "AppSpecification": _BOTH,
        "Environment": _BOTH,
        "NetworkConfig": Member(_H, _M, f"{_SHOWN}no networks"),
        "RoleArn": _BOTH,
        "Tags": _BOTH,
        "ExperimentConfig": Member(_H, _M, f"{_SHOWN}no experiments"),
    },
    "sagemaker.DescribeProcessingJob": {"ProcessingJobName": _BOTH},
    "sagemaker.StopProcessingJob": {"ProcessingJobName": _BOTH},
    "sagemaker.ListProcessingJobs": {
        "CreationTimeAfter": _BOTH,
        "CreationTimeBefore": _BOTH,
        "LastModifiedTimeAfter": _BOTH,
        "LastModifiedTimeBefore": _BOTH,
        "NameContains": _BOTH,
        "StatusEquals": _BOTH,
        "SortBy": _BOTH,
        "SortOrder": _BOTH,
        "NextToken": _BOTH,
        "MaxResults": _BOTH,
    },
    "sagemaker.DescribeTrainingPlan": {"TrainingPlanName": _BOTH},
    "sagemaker.ListTags": {
        "ResourceArn": _BOTH,
        "NextToken": Member(_R, _R, _ONE_PAGE),
        "MaxResults": Member(_M, _M, _ONE_PAGE),
    },
    "sagemaker.AddTags": {"ResourceArn": _BOTH, "Tags": _BOTH},
    "sagemaker.Search": {
        "Resource": _BOTH,
        "SearchExpression": _BOTH,
        "SortBy": _BOTH,
        "SortOrder": _BOTH,
        "NextToken": _BOTH,
        "MaxResults": _BOTH,
        "CrossAccountFilterOption": Member(_H, _R, "the emulator has one account"),
        "VisibilityConditions": Member(_H, _R, "the emulator has one account"),
    },
    "logs.DescribeLogStreams": {
        "logGroupName": _BOTH,
        "logGroupIdentifier": _BOTH,
        "logStreamNamePrefix": _BOTH,
        "orderBy": _BOTH,
        "descending": _BOTH,
        "nextToken": _BOTH,
        "limit": _BOTH,
    },
    "logs.GetLogEvents": {
        "logGroupName": _BOTH,
        "logGroupIdentifier": _BOTH,
        "logStreamName": _BOTH,
        "startTime": _BOTH,
        "endTime": _BOTH,
        "nextToken": _BOTH,
        "limit": _BOTH,
        "startFromHead": _BOTH,
        "unmask": Member(_H, _M, "the emulator masks nothing"),
    },
    "logs.FilterLogEvents": {
        "logGroupName": _BOTH,
        "logGroupIdentifier": Member(_H, _R, "name the group by logGroupName"),
        "logStreamNames": _BOTH,
        "logStreamNamePrefix": Member(_H, _R, "name the streams by logStreamNames"),
        "startTime": _BOTH,
        "endTime": _BOTH,
        "filterPattern": _BOTH,
        "nextToken": _BOTH,
        "limit": _BOTH,
        "startFromHead": Member(_H, _R, "the emulator filters from the head only"),
        "interleaved": _BOTH,
        "unmask": Member(_H, _M, "the emulator masks nothing"),
    },
}


def refused_by_hooks(operation: str, params: Mapping[str, Any]) -> str:
    """Why the hooks do not answer a call with these parameters; empty: they do. `operation`: with
    its service, as in the table."""
    rows = MEMBERS.get(operation, {})
    return _refusal(params, ((name, row.hook, row.why) for name, row in rows.items()))


def refused_by_emulator(operation: str, params: Mapping[str, Any]) -> str:
    """The same of the emulator."""
    rows = MEMBERS.get(operation, {})
    return _refusal(params, ((name, row.emulator, row.why) for name, row in rows.items()))


def _refusal(params: Mapping[str, Any], rows: Iterator[tuple[str, Use, str]]) -> str:
    for name, use, why in rows:
        if use is Use.REFUSED and params.get(name) not in (None, False, ""):
            return f"{name} is not supported here: {why}"
    return ""
