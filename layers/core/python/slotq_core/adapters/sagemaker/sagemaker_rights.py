"""What SageMaker says where a right is missing, and whose right it is.

Three questions decide a row: who lacks it, who has to wait for it, and whether it can come back by
itself. None of these refusals ends a job: each of them has been seen to go away again, when a
policy that was being edited was whole, or a role had been made.

- every job needs it (the queue may not create at all, its credentials are wrong, the account or the
  region is closed): the pool backs off
- jobs of one execution role need it (PassRole, a role that SageMaker may not assume), or it depends
  on what a request names, such as a key, a subnet or a tag that a guardrail asks for: the role
  backs off in that pool, and no other role's jobs wait for it

`no identity-based policy allows` is the whole right; `with an explicit deny` is a guardrail (a
service control policy, a boundary, an endpoint policy), which mostly looks into the request.
"""

from __future__ import annotations

import re

from slotq_core.policy.lifecycle.missing_rights import ASSUME_ROLE, LACKS
from slotq_core.ports import Answer, Verdict

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
"""Rights that each start needs. On a training plan they are a matter of who asks for the plan."""

NOT_ASSUMED = (
    r"could not assume role|unable to assume the role|unable to perform:? sts:AssumeRole"
    r"|not authorized to perform:? sts:AssumeRole"
)

_ACTION = re.compile(r"perform:? ([a-z][a-z0-9-]*:[A-Za-z*]+)")


def action_in(text: str, *, code: str) -> str:
    """The right that is missing, as IAM calls it; the error's code where the text names none."""
    if re.search(NOT_ASSUMED, text, re.IGNORECASE):
        return ASSUME_ROLE
    named = _ACTION.search(text)
    return named.group(1) if named else code


def refusal(verdict: Verdict, *, code: str, text: str, telling: str) -> Answer:
    """An answer that says which right is missing. `telling`: the head of its text."""
    action = action_in(telling, code=code)
    said = f"{code}: {text}" if text else code
    return Answer(verdict=verdict, action=action, message=f"{LACKS}, {action}: {said}")
