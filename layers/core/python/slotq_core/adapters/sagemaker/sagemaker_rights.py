"""What SageMaker's refusals say: which right is missing and whose, and which quota is used up.

Three questions decide a row: who lacks the right, who has to wait, and whether the right can come
back by itself. None of these refusals ends a job. Each has been seen to go away: when the edit of a
policy was complete, or when a role had been created.

- Every job needs the right: the queue may not create at all, the queue's credentials are wrong,
  or the account or region is closed. The pool backs off.
- Only jobs of one execution role need the right (PassRole, a role that SageMaker may not
  assume), or the right depends on what a request names, such as a key, a subnet or a tag that a
  guardrail requires. The role backs off in that pool, and no other role's jobs wait.

`no identity-based policy allows` means that the whole right is missing. `with an explicit deny`
means a guardrail (a service control policy, a boundary, an endpoint policy), which usually examines
the request.

"The account-level service limit '<name>' is N Instances, with current utilization of U Instances
and a request delta of D Instances." Known names:

`<type> for training job usage`                    training jobs on demand, of one instance type
`<type> for spot training job usage`               training jobs on spot instances of that type
`Number of instances across all training jobs`     all training jobs
`<type> for processing job usage`                  processing jobs of one instance type
`<type> for training warm pool usage`              other quotas, as is every other name
`Number of instances across all processing jobs`   processing jobs, among them the debugger's and
                                                   the profiler's rules
"""

from __future__ import annotations

import re

from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.pools import CapacityKind, ServiceQuota
from slotq_core.policy.lifecycle.missing_rights import ASSUME_ROLE, LACKS
from slotq_core.ports.training import CallResult, Verdict

CREDENTIALS = (
    r"ExpiredToken|ExpiredTokenException|RequestExpired|UnrecognizedClientException"
    r"|InvalidClientTokenId|InvalidSignatureException|IncompleteSignature"
    r"|MissingAuthenticationToken(Exception)?|SignatureDoesNotMatch"
)
ACCOUNT = (
    r"OptInRequired|SubscriptionRequired(Exception)?|NotSignedUp|PendingVerification"
    r"|AccountProblem|AccountSuspended|Blocked"
)
DENIED = (
    r"AccessDenied(Exception)?|AccessDeniedFault|NotAuthorized(Exception)?|UnauthorizedOperation"
    r"|AuthorizationError|KMSAccessDenied\w*|Forbidden|403"
)

EVERY_JOBS = (
    r"not authorized to perform:? "
    r"(sagemaker:(CreateTrainingJob|CreateProcessingJob|AddTags)|iam:CreateServiceLinkedRole)\b"
    r"(?!.*(explicit deny|:training-plan/))"
)
"""Rights that every start needs. On a training plan, the right depends on the job that asks for the
plan."""

NOT_ASSUMED = (
    r"could not assume role|unable to assume the role|unable to perform:? sts:AssumeRole"
    r"|not authorized to perform:? sts:AssumeRole"
)

_ACTION = re.compile(r"perform:? ([a-z][a-z0-9-]*:[A-Za-z*]+)")


def action_in(text: str, *, code: str) -> str:
    """Return the missing right, as IAM names it, or the error's code if the text names no right."""
    if re.search(NOT_ASSUMED, text, re.IGNORECASE):
        return ASSUME_ROLE
    named = _ACTION.search(text)
    return named.group(1) if named else code


def refusal(verdict: Verdict, *, code: str, text: str, head: str) -> CallResult:
    """Return an answer that names the missing right. `head`: the beginning of the error text."""
    action = action_in(head, code=code)
    said = f"{code}: {text}" if text else code
    return CallResult(verdict=verdict, action=action, message=f"{LACKS}, {action}: {said}")


WARM_QUOTA = "for training warm pool usage"
"""The name of the quota of warm instances, behind their type."""

_OF_ONE_TYPE = r"(?P<type>\S+) for (?P<spot>spot )?training job usage"
_OF_ALL_TRAINING = r"(?P<all>(Total )?Number of instances across (all )?training jobs)"
_SENTENCE = r"service limit '(?:{name})' is (?P<limit>\d{{1,9}}) Instances"

OF_TRAINING = _SENTENCE.format(name=f"{_OF_ONE_TYPE}|{_OF_ALL_TRAINING}")
"""The sentence about a quota that pools have to do with."""

_TYPE_PROCESSING = r"(?P<type>\S+) for processing job usage"
_ALL_PROCESSING = r"(?P<all>(Total )?Number of instances across (all )?processing jobs)"

OF_PROCESSING = _SENTENCE.format(name=f"{_TYPE_PROCESSING}|{_ALL_PROCESSING}")
"""The sentence about a quota that pools of processing jobs have to do with."""

_ANY = {
    WorkKind.TRAINING: rf"{_OF_ONE_TYPE}|{_OF_ALL_TRAINING}|[^']{{1,200}}",
    WorkKind.PROCESSING: rf"{_TYPE_PROCESSING}|{_ALL_PROCESSING}|[^']{{1,200}}",
}


def quota_in(text: str, work: WorkKind = WorkKind.TRAINING) -> ServiceQuota | None:
    """Return the quota that a refusal of this kind of work names; None if the text has no such
    sentence."""
    found = re.search(_SENTENCE.format(name=_ANY[work]), text, re.IGNORECASE)
    if found is None:
        return None
    named = found.groupdict()
    return ServiceQuota(
        limit=int(named["limit"]),
        instance_type=named["type"] or "",
        capacity_kind=CapacityKind.SPOT if named.get("spot") else CapacityKind.ON_DEMAND,
        all_training=named["all"] is not None,
    )
