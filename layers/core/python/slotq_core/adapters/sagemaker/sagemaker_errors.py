"""THE table: every documented error and outcome of SageMaker training, and what follows from each.

Four tables. Each is read from the top, and the first matching row decides:

`CREATE` answers of CreateTrainingJob (`CREATE_IN_PLAN`: in a pool with a training plan;
`CREATE_PROCESSING`: of CreateProcessingJob) `STOP` answers of StopTrainingJob `LOOK` answers of
DescribeTrainingJob, ListTrainingJobs and ListTags `OUTCOMES` how a training job may end. The last
three hold for processing jobs, too.

A row's `source` is SageMaker's own text for the row, or the rule if there is no fixed text. `code`
and `text` are regular expressions: the code must match whole, the text anywhere. `sagemaker_rights`
decides whose right is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slotq_core.adapters.sagemaker.sagemaker_rights import (
    ACCOUNT,
    CREDENTIALS,
    DENIED,
    EVERY_JOBS,
    NOT_ASSUMED,
    OF_PROCESSING,
    OF_TRAINING,
    quota_in,
    refusal,
)
from slotq_core.model.capacity.work import WorkKind
from slotq_core.ports.training import RIGHTS, CallResult, Phase, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRow:
    """An error answer: code and text, and the verdict that follows."""

    code: str
    text: str = ""
    verdict: Verdict
    source: str


_THROTTLED = (
    r"\w*Throttl(ed|ing)(Exception)?|TooManyRequestsException|RequestLimitExceeded|SlowDown"
    r"|LimitExceededException|BandwidthLimitExceeded|PriorRequestNotComplete|429"
)
"""botocore's codes for throttling, and other services' codes that SageMaker may pass through."""
_FAULT = (
    r"InternalFailure|InternalError|InternalServerError|InternalServerException|ServiceUnavailable"
    r"|ServiceUnavailableException|ServiceException|RequestTimeout|RequestTimeoutException"
    r"|RequestAbortedException|408|5\d\d"
)
_ANY_CALL: tuple[ErrorRow, ...] = (
    ErrorRow(code=_THROTTLED, verdict=Verdict.RETRY, source="ThrottlingException: Rate exceeded"),
    ErrorRow(
        code=_FAULT,
        verdict=Verdict.RETRY,
        source="any answer of HTTP status 500 or more: whether it took effect is unknown",
    ),
    ErrorRow(
        code=CREDENTIALS,
        verdict=Verdict.NO_RIGHTS,
        source="UnrecognizedClientException: The security token included in the request is "
        "invalid. (The queue's own credentials are wrong, or the region is not opted in)",
    ),
    ErrorRow(
        code=ACCOUNT,
        verdict=Verdict.NO_RIGHTS,
        source="SubscriptionRequiredException: The AWS Access Key Id needs a subscription for the "
        "service. (The account is suspended, or is not ready yet)",
    ),
)

CREATE: tuple[ErrorRow, ...] = (
    *_ANY_CALL,
    ErrorRow(
        code="ResourceLimitExceeded",
        text=r"not (available|supported) in this region",
        verdict=Verdict.FAIL,
        source="ResourceLimitExceeded: … not available in this region (no retry cures it)",
    ),
    ErrorRow(
        code="ResourceLimitExceeded",
        text=OF_TRAINING,
        verdict=Verdict.BACK_OFF,
        source="ResourceLimitExceeded: The account-level service limit '<type> for training job "
        "usage' is N Instances, with current utilization of U Instances and a request delta of D "
        "Instances; the same of '<type> for spot training job usage' and 'Number of instances "
        "across all training jobs'. (A quota of what the attempt does not take is another quota)",
    ),
    ErrorRow(
        code="ResourceLimitExceeded",
        verdict=Verdict.OTHER_QUOTA,
        source="ResourceLimitExceeded: The account-level service limit 'Number of instances across "
        "all processing jobs' is N Instances, … (or '<type> for training warm pool usage', and any "
        "sentence that cannot be read)",
    ),
    ErrorRow(
        code=r"\w*CapacityError|InsufficientCapacity\w*",
        verdict=Verdict.BACK_OFF,
        source="CapacityError: Unable to provision requested ML compute capacity",
    ),
    ErrorRow(
        code=r"InsufficientFreeAddresses\w*",
        verdict=Verdict.REQUEUE,
        source="InsufficientFreeAddressesInSubnet: the subnets that this request names are full; "
        "other jobs may have others",
    ),
    ErrorRow(
        code=DENIED,
        text=EVERY_JOBS,
        verdict=Verdict.NO_RIGHTS,
        source="AccessDeniedException: User: <the queue's role> is not authorized to perform: "
        "sagemaker:CreateTrainingJob on resource: <arn> because no identity-based policy allows "
        "the sagemaker:CreateTrainingJob action (or AddTags, iam:CreateServiceLinkedRole)",
    ),
    ErrorRow(
        code=DENIED,
        verdict=Verdict.ROLE_LACKS_RIGHTS,
        source="AccessDeniedException: … is not authorized to perform: iam:PassRole on resource: "
        "<role>; … kms:CreateGrant on resource: <key>; … sagemaker:CreateTrainingJob … with an "
        "explicit deny in a service control policy; and what does not say what is not allowed",
    ),
    ErrorRow(
        code="ValidationException",
        text=rf"^({NOT_ASSUMED})",
        verdict=Verdict.ROLE_LACKS_RIGHTS,
        source="ValidationException: Could not assume role <role>. Please ensure that the role "
        "exists and allows principal 'sagemaker.amazonaws.com' to assume the role.",
    ),
    ErrorRow(
        code=".*",
        verdict=Verdict.FAIL,
        source="anything else (ValidationException, ResourceNotFound …): the request will never be "
        "accepted; among it what the job's own role may not read (No S3 objects found …, Error "
        "message from S3: Access Denied). ResourceInUse is looked into first (service.py)",
    ),
)

CREATE_PROCESSING: tuple[ErrorRow, ...] = tuple(
    replace(
        row,
        text=OF_PROCESSING,
        source="ResourceLimitExceeded: The account-level service limit '<type> for processing job "
        "usage' is N Instances, …; the same of 'Number of instances across all processing jobs'",
    )
    if row.text == OF_TRAINING
    else row
    for row in CREATE
)

CREATE_IN_PLAN: tuple[ErrorRow, ...] = (
    ErrorRow(
        code="ValidationException|ResourceNotFound",
        text=r"(?i:training[ -]?plan)",
        verdict=Verdict.OTHER_QUOTA,
        source="ValidationException: the training plan of the job's pool is expired, not there any "
        "more, or not for this job: the job goes on to its next pool, or waits; the next look at "
        "the plan shows the pool (the sentence is not documented)",
    ),
    *CREATE,
)

_NO_SUCH_JOB: tuple[ErrorRow, ...] = (
    ErrorRow(
        code="ValidationException",
        text=r"resource not found",
        verdict=Verdict.FAIL,
        source="ValidationException: Requested resource not found",
    ),
    ErrorRow(
        code="ResourceNotFound",
        verdict=Verdict.FAIL,
        source="ResourceNotFound: documented for StopTrainingJob and UpdateTrainingJob",
    ),
)

STOP: tuple[ErrorRow, ...] = (
    *_ANY_CALL,
    ErrorRow(
        code="ValidationException",
        text=r"job is in status (Stopped|Stopping|Completed|Failed|Deleting)",
        verdict=Verdict.ALREADY_DONE,
        source="ValidationException: The request was rejected because the training job is in "
        "status Stopped.",
    ),
    *_NO_SUCH_JOB,
    ErrorRow(
        code=DENIED,
        verdict=Verdict.NO_RIGHTS,
        source="AccessDeniedException: … is not authorized to perform: sagemaker:StopTrainingJob: "
        "the training job may well be running, so the intent stays",
    ),
    ErrorRow(
        code=".*",
        verdict=Verdict.RETRY,
        source="anything else: the training job may well be running, so the intent stays",
    ),
)

RELEASE: tuple[ErrorRow, ...] = (
    *_ANY_CALL,
    *_NO_SUCH_JOB,
    ErrorRow(
        code="ValidationException",
        verdict=Verdict.ALREADY_DONE,
        source="ValidationException: the warm pool is not Available (reused, terminated, or never "
        "there). The next look shows which",
    ),
    ErrorRow(
        code=DENIED,
        verdict=Verdict.NO_RIGHTS,
        source="AccessDeniedException: … is not authorized to perform: "
        "sagemaker:UpdateTrainingJob: the intent stays",
    ),
    ErrorRow(code=".*", verdict=Verdict.RETRY, source="anything else: the intent stays"),
)

LOOK: tuple[ErrorRow, ...] = (
    *_ANY_CALL,
    ErrorRow(
        code=DENIED,
        verdict=Verdict.NO_RIGHTS,
        source="AccessDeniedException: … is not authorized to perform: "
        "sagemaker:DescribeTrainingJob (or ListTrainingJobs, ListTags)",
    ),
    ErrorRow(
        code=".*", verdict=Verdict.RETRY, source="anything else: SageMaker cannot say for now"
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRow:
    """An ending: SageMaker's words, and the meaning for the queue."""

    status: str
    secondary: str = ".*"
    reason: str = ""
    phase: Phase
    verdict: Verdict
    message: str = ""
    """Message if SageMaker gives no FailureReason."""
    max_runtime: bool = False
    """Whether the ending ends the job, whatever retries remain."""
    max_wait: bool = False
    """Whether spot instances did not come, or did not come back, in time."""
    source: str


RELEASED = "slotq-released"
"""What a script writes to /opt/ml/output/failure to give its slots back."""

WAITED_TOO_LONG = "it reached its maximum wait time (StoppingCondition.MaxWaitTimeInSeconds)"

PENDED_OUT = "MaxPendingTimeExceeded"
"""The queue's own word for a training job that SageMaker stopped because it was pending too
long."""

OUTCOMES: tuple[OutcomeRow, ...] = (
    OutcomeRow(
        status="Completed",
        phase=Phase.COMPLETED,
        verdict=Verdict.OK,
        source="TrainingJobStatus Completed",
    ),
    OutcomeRow(
        status="Stopped",
        secondary="MaxRuntimeExceeded",
        phase=Phase.FAILED,
        verdict=Verdict.FAIL,
        max_runtime=True,
        message="it reached its maximum runtime (StoppingCondition.MaxRuntimeInSeconds)",
        source="SecondaryStatus MaxRuntimeExceeded: the job's own end",
    ),
    OutcomeRow(
        status="Stopped",
        secondary="MaxWaitTimeExceeded",
        phase=Phase.FAILED,
        verdict=Verdict.FAIL,
        max_runtime=True,
        max_wait=True,
        message=WAITED_TOO_LONG,
        source="SecondaryStatus MaxWaitTimeExceeded (managed spot training): the job's own end; in "
        "a spot pool the job waits again",
    ),
    OutcomeRow(
        status="Stopped",
        secondary=PENDED_OUT,
        phase=Phase.FAILED,
        verdict=Verdict.BACK_OFF,
        message="it got no instances within its maximum pending time "
        "(StoppingCondition.MaxPendingTimeInSeconds)",
        source="MaxPendingTimeInSeconds: The maximum length of time that a training job can be "
        "pending before it is stopped. No secondary status is documented: its times show it",
    ),
    OutcomeRow(
        status="Stopped|Deleting",
        phase=Phase.STOPPED,
        verdict=Verdict.OK,
        source="TrainingJobStatus Stopped; only an ended training job can be Deleting",
    ),
    OutcomeRow(
        status="Failed",
        reason=r"^CapacityError\b",
        phase=Phase.FAILED,
        verdict=Verdict.BACK_OFF,
        source="FailureReason: CapacityError: Unable to provision requested ML compute capacity",
    ),
    OutcomeRow(
        status="Failed",
        reason=r"^(ClientError: )?(?i:insufficient ?capacity) ?(?i:error|exception)\b",
        phase=Phase.FAILED,
        verdict=Verdict.BACK_OFF,
        source="FailureReason: InsufficientCapacityError: …: a job that pended in its training "
        "plan until its stopping condition, or for two days",
    ),
    OutcomeRow(
        status="Failed",
        reason=r"^Internal ?Server ?Error\b|^InternalFailure\b",
        phase=Phase.FAILED,
        verdict=Verdict.REQUEUE,
        source="FailureReason: InternalServerError: We encountered an internal error",
    ),
    OutcomeRow(
        status="Failed",
        reason=r"^ClientError:(?i:.*(insufficient|not enough) (free |available )?(ip )?addresses)",
        phase=Phase.FAILED,
        verdict=Verdict.REQUEUE,
        source="FailureReason: ClientError: … not enough free addresses in the subnets: it may "
        "start when others have ended",
    ),
    OutcomeRow(
        status="Failed",
        reason=rf"^ClientError:(?i:.*({NOT_ASSUMED}))",
        phase=Phase.FAILED,
        verdict=Verdict.ROLE_LACKS_RIGHTS,
        source="FailureReason: ClientError: SageMaker was unable to assume the role '<role>'; "
        "ClientError: … SageMaker is unable to perform: sts:AssumeRole on the role. (What a role "
        "that was assumed may not read or write is the job's own failure)",
    ),
    OutcomeRow(
        status="Failed",
        reason=rf"\b{RELEASED}\b",
        phase=Phase.FAILED,
        verdict=Verdict.RELEASED,
        source="FailureReason: AlgorithmError: slotq-released, exit code: 75: the script has saved "
        "its work and gives its slots back (docs/suspendable.md)",
    ),
    OutcomeRow(
        status="Failed",
        phase=Phase.FAILED,
        verdict=Verdict.FAIL,
        message="SageMaker gave no FailureReason",
        source="FailureReason: AlgorithmError: …, exit code: N; ClientError: …; anything else",
    ),
)


_LATER = (408, 429)
"""Statuses of HTTP below 500 after which the same request may be taken."""

_OF_QUOTAS = frozenset({Verdict.BACK_OFF, Verdict.OTHER_QUOTA})

_HEAD = 2048
"""Number of leading characters of an answer that decide. Quotations of a request may be long."""


def verdict_on(
    rows: Sequence[ErrorRow],
    *,
    code: str,
    text: str,
    http_status: int = 0,
    work: WorkKind = WorkKind.TRAINING,
) -> CallResult:
    """Return what the queue does about an error answer to a call for this kind of work.

    A status of HTTP by which the request itself is not at fault counts as a second code.
    """
    codes = (code, str(http_status)) if http_status >= 500 or http_status in _LATER else (code,)
    head = text[:_HEAD]
    row = next(row for row in rows if _matches(row, codes, head))
    if row.verdict in RIGHTS:
        return refusal(row.verdict, code=code, text=text, head=head)
    return CallResult(
        verdict=row.verdict,
        message=f"{code}: {text}" if text else code,
        quota=quota_in(head, work) if row.verdict in _OF_QUOTAS else None,
    )


def _matches(row: ErrorRow, codes: Sequence[str], text: str) -> bool:
    by_code = any(re.fullmatch(row.code, code) for code in codes)
    return by_code and re.search(row.text, text, re.IGNORECASE) is not None


def outcome_of(*, status: str, secondary: str, reason: str) -> OutcomeRow | None:
    """Return the outcome of an ended training job; None if the training job has not ended."""
    return next(
        (
            row
            for row in OUTCOMES
            if re.fullmatch(row.status, status)
            and re.fullmatch(row.secondary, secondary)
            and re.search(row.reason, reason)
        ),
        None,
    )
