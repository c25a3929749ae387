"""How SageMaker reports a missing right, and whose right is missing.

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
"""

from __future__ import annotations

import re

from slotq_core.policy.lifecycle.missing_rights import ASSUME_ROLE, LACKS
from slotq_core.ports.training import Answer, Verdict

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
    r"(sagemaker:(CreateTrainingJob|AddTags)|iam:CreateServiceLinkedRole)\b"
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


def refusal(verdict: Verdict, *, code: str, text: str, telling: str) -> Answer:
    """Return an answer that names the missing right. `telling`: the beginning of the error text."""
    action = action_in(telling, code=code)
    said = f"{code}: {text}" if text else code
    return Answer(verdict=verdict, action=action, message=f"{LACKS}, {action}: {said}")
