"""Refusals and errors of SageMaker: which are retried, and which right is missing."""

# ruff: noqa: E501 - a row of a table stays one line

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ParamValidationError

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.errors import RightMissing
from slotq_core.ports.training import Verdict
from tests.unit.sagemaker.adapter_world import (
    Failing,
    World,
    attempt,
    client_error,
    job,
    request,
)
from tests.work import counted_calls

KNOBS = [
    ({"refuse_creates": 1}, Verdict.BACK_OFF, "The account-level service limit"),
    ({"refuse_region": 1}, Verdict.FAIL, "not available in this region"),
    ({"throttle": 1}, Verdict.RETRY, "Rate exceeded"),
]


@pytest.mark.parametrize(("knobs", "verdict", "text"), KNOBS)
def test_a_refused_create_has_its_verdict_and_message(
    knobs: dict[str, Any], verdict: Verdict, text: str
) -> None:
    world = World(**knobs)
    answer = world.training.create(request(), job(), attempt())
    assert answer.verdict is verdict
    assert text in answer.message


def test_a_rejected_request_fails_with_sagemakers_message() -> None:
    world = World()
    answer = world.training.create(request(RoleArn="me"), job(), attempt())
    assert answer.verdict is Verdict.FAIL
    assert "RoleArn" in answer.message


LIMIT = (
    "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 2 Instances, with "
    "current utilization of 2 Instances and a request delta of 1 Instances."
)


RETRY, BACK_OFF, FAIL = Verdict.RETRY, Verdict.BACK_OFF, Verdict.FAIL


DONE, NO_RIGHTS, ROLE = Verdict.ALREADY_DONE, Verdict.NO_RIGHTS, Verdict.ROLE_LACKS_RIGHTS


ERRORS = [
    # the error, the verdict of a create, the verdict of a stop
    (client_error("ThrottlingException", "Rate exceeded"), RETRY, RETRY),
    *((client_error(code), RETRY, RETRY) for code in ("EC2ThrottledException", "LimitExceededException", "PriorRequestNotComplete", "RequestAbortedException")),
    (client_error("429", status=429), RETRY, RETRY),  # botocore: an empty answer's code is its status
    (client_error("TooEager", "come back later", status=429), RETRY, RETRY),
    (client_error("408", status=408), RETRY, RETRY),
    (client_error("InternalFailure", status=500), RETRY, RETRY),
    (client_error("Anything", "it broke", status=503), RETRY, RETRY),
    (client_error("ServiceUnavailable", status=503), RETRY, RETRY),
    (client_error("ExpiredTokenException", "The security token is expired"), RETRY, NO_RIGHTS),
    (client_error("ResourceLimitExceeded", LIMIT), BACK_OFF, RETRY),
    (client_error("ResourceLimitExceeded", "ml.x is not available in this region"), FAIL, RETRY),
    (client_error("ValidationException", "1 validation error detected"), FAIL, RETRY),
    (client_error("AccessDeniedException", "not authorized to perform: iam:PassRole"), RETRY, NO_RIGHTS),
    (client_error("ResourceNotFound", "no such thing"), FAIL, FAIL),
    (client_error("ValidationException", "Requested resource not found"), FAIL, FAIL),
    (client_error("ValidationException", "The request was rejected because the training job is in status Stopped."), FAIL, DONE),
    (client_error("ValidationException", "The request was rejected because the training job is in status Completed."), FAIL, DONE),
    (EndpointConnectionError(endpoint_url="https://x"), RETRY, RETRY),
    (ParamValidationError(report="Unknown parameter in input"), FAIL, RETRY),
    (RuntimeError("nobody foresaw this"), RETRY, RETRY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "create", "stop"), ERRORS, ids=[str(row[0])[:60] for row in ERRORS]
)
def test_each_error_has_its_verdicts_for_create_and_stop(
    error: Exception, create: Verdict, stop: Verdict
) -> None:
    training = SageMakerTraining(
        queue="test", clock=VirtualClock(), make_client=lambda: Failing(error)
    )
    assert training.create(request(), job(), attempt()).verdict is create
    assert training.stop("job1").verdict is stop


USER = "User: arn:aws:sts::1:assumed-role/slotq/slotq is not authorized to perform: "


JOB = "on resource: arn:aws:sagemaker:us-east-1:1:training-job/job1"


NOBODY = "because no identity-based policy allows the action"


RIGHTS = [
    # error code and text of CreateTrainingJob, verdict, missing right
    ("AccessDeniedException", f"{USER}sagemaker:CreateTrainingJob {JOB} {NOBODY}", NO_RIGHTS, "sagemaker:CreateTrainingJob"),
    ("AccessDeniedException", f"{USER}sagemaker:AddTags {JOB}", NO_RIGHTS, "sagemaker:AddTags"),
    ("AccessDeniedException", f"{USER}iam:CreateServiceLinkedRole on resource: x", NO_RIGHTS, "iam:CreateServiceLinkedRole"),
    ("AccessDeniedException", f"{USER}sagemaker:CreateTrainingJob {JOB} with an explicit deny in a service control policy", ROLE, "sagemaker:CreateTrainingJob"),
    ("AccessDeniedException", f"{USER}sagemaker:CreateTrainingJob on resource: arn:aws:sagemaker:us-east-1:1:training-plan/p {NOBODY}", ROLE, "sagemaker:CreateTrainingJob"),
    ("AccessDeniedException", f"{USER}iam:PassRole on resource: arn:aws:iam::1:role/r {NOBODY}", ROLE, "iam:PassRole"),
    ("AccessDeniedException", f"{USER}kms:CreateGrant on resource: arn:aws:kms:us-east-1:1:key/k", ROLE, "kms:CreateGrant"),
    ("AccessDeniedException", "Access denied to hub content", ROLE, "AccessDeniedException"),
    ("ValidationException", "Could not assume role arn:aws:iam::1:role/r. Please ensure that the role exists and allows principal 'sagemaker.amazonaws.com' to assume the role.", ROLE, "sts:AssumeRole"),
    ("UnrecognizedClientException", "The security token included in the request is invalid.", NO_RIGHTS, "UnrecognizedClientException"),
    ("InvalidSignatureException", "Signature expired", NO_RIGHTS, "InvalidSignatureException"),
    ("SubscriptionRequiredException", "The AWS Access Key Id needs a subscription for the service", NO_RIGHTS, "SubscriptionRequiredException"),
    ("OptInRequired", "You are not subscribed to this service.", NO_RIGHTS, "OptInRequired"),
    ("InsufficientFreeAddressesInSubnet", "The specified subnet has too few", Verdict.REQUEUE, ""),
    # faults of the request, whatever text SageMaker quotes from it
    ("ValidationException", "1 validation error detected: Value 'Could not assume role' at 'hyperParameters'", FAIL, ""),
    ("ValidationException", "No S3 objects found … Error message from S3: Access Denied", FAIL, ""),
    ("ValidationException", f"Value '{USER}iam:PassRole' is too long", FAIL, ""),
]  # fmt: skip


class RefusingCreates(Failing):
    """A client that refuses each create and knows no training job."""

    def describe_training_job(self, **_: Any) -> Any:
        raise client_error("ValidationException", "Requested resource not found.")


@pytest.mark.parametrize(("code", "text", "verdict", "action"), RIGHTS)
def test_a_refused_create_names_the_missing_right(
    code: str, text: str, verdict: Verdict, action: str
) -> None:
    client = RefusingCreates(client_error(code, text))
    training = SageMakerTraining(queue="test", clock=VirtualClock(), make_client=lambda: client)
    answer = training.create(request(), job(), attempt())
    assert (answer.verdict, answer.action) == (verdict, action)
    assert text in answer.message


def test_a_long_refusal_is_read_quickly() -> None:
    """Text quoted from the request has no effect on the verdict or the work."""

    def calls(times: int) -> int:
        text = f"{USER}sagemaker:CreateTrainingJob with " * times
        client = RefusingCreates(client_error("AccessDeniedException", text))
        training = SageMakerTraining(queue="test", clock=VirtualClock(), make_client=lambda: client)
        answers = []
        calls = counted_calls(lambda: answers.append(training.create(request(), job(), attempt())))
        assert answers[0].verdict is NO_RIGHTS
        return calls

    calls(1)
    assert calls(20_000) <= calls(1) + 100


@pytest.mark.parametrize(
    ("operation", "asked"),
    [("describe", ("job1",)), ("live", ()), ("look_into", ("job1",))],
)
def test_a_denied_read_names_the_missing_right(operation: str, asked: tuple[str, ...]) -> None:
    error = client_error("AccessDeniedException", f"{USER}sagemaker:ListTrainingJobs {NOBODY}")
    training = SageMakerTraining(
        queue="test", clock=VirtualClock(), make_client=lambda: Failing(error)
    )
    more = {"now": 0} if operation == "look_into" else {}
    with pytest.raises(RightMissing, match="a right is missing, sagemaker:ListTrainingJobs"):
        getattr(training, operation)(*asked, **more)
