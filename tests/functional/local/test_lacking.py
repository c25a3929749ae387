"""An unsupported operation of the emulator is an error in the SDK's form, logged once."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.functional.local.account import Account

LACKS: list[tuple[str, str, dict[str, Any], str]] = [
    ("sagemaker", "list_algorithms", {}, "ListAlgorithms of sagemaker"),
    (
        "sagemaker",
        "list_training_jobs_for_hyper_parameter_tuning_job",
        {"HyperParameterTuningJobName": "tuning"},
        "ListTrainingJobsForHyperParameterTuningJob of sagemaker",
    ),
    ("sagemaker", "list_hubs", {}, "ListHubs of sagemaker"),
    ("logs", "list_anomalies", {}, "ListAnomalies of logs"),
    ("dynamodb", "list_global_tables", {}, "ListGlobalTables of dynamodb"),
    ("sts", "decode_authorization_message", {"EncodedMessage": "x"}, "DecodeAuthorizationMessage"),
    ("iam", "list_service_specific_credentials", {}, "ListServiceSpecificCredentials of iam"),
    ("lambda", "get_account_settings", {}, "GET /2016-08-19/account-settings of lambda"),
    ("gamelift", "list_builds", {}, "ListBuilds of gamelift"),
]


@pytest.mark.parametrize(("service", "operation", "arguments", "named"), LACKS)
def test_an_unsupported_operation_is_an_error(
    account: Account, service: str, operation: str, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(account.endpoint.client(service), operation)(**arguments)
    said = refused.value.response
    assert said["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert said["ResponseMetadata"]["RetryAttempts"] == 0
    assert said["Error"]["Code"] == "UnknownOperationException"
    assert f"the emulator has no {named}" in said["Error"]["Message"]


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "named"),
    [
        (
            "logs",
            "filter_log_events",
            {"logGroupName": "/aws/sagemaker/TrainingJobs", "logStreamNamePrefix": "job1/"},
            "logStreamNamePrefix",
        ),
        (
            "sagemaker",
            "search",
            {"Resource": "TrainingJob", "CrossAccountFilterOption": "CrossAccount"},
            "CrossAccountFilterOption",
        ),
    ],
)
def test_a_member_that_the_emulator_would_ignore_is_refused_by_name(
    account: Account, service: str, operation: str, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(ClientError, match=f"{named} is not supported here"):
        getattr(account.endpoint.client(service), operation)(**arguments)
