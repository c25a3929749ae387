"""The bucket of nodes lets each principal write what is its own, and nothing else.

The policy is judged together with what the principal's own policies allow: here, everything.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloudformation import Resolver, template
from tests.iam.evaluator import Verdict, call, judge

BUCKET = "arn:aws:s3:::slotq-nodes"
ROLES = "arn:aws:iam::123456789012:role/"
PARAMETERS = {"ExecutionRoleArns": f"{ROLES}vision,{ROLES}speech", "Nodes": "true"}
ORDERS, REPORT = f"{BUCKET}/nodes/p5/n1/7/orders.json", f"{BUCKET}/nodes/p5/n1/7/report.json"
AGENT = f"{BUCKET}/nodes/agents/{'0' * 64}.py"
ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def statements() -> list[dict[str, Any]]:
    properties = template()["Resources"]["NodesBucketPolicy"]["Properties"]
    found = Resolver(template(), PARAMETERS)(properties)["PolicyDocument"]["Statement"]
    assert {statement.pop("Principal") for statement in found} == {"*"}
    return list(found)


def verdict(role: str, action: str, resource: str, *own: dict[str, Any], tls: str = "true") -> str:
    context = {"aws:PrincipalArn": f"{ROLES}{role}", "aws:SecureTransport": tls}
    return judge([*statements(), *own], call(f"s3:{action}", resource, context))


ALLOWED, DENIED, FORBIDDEN = Verdict.ALLOWED, Verdict.DENIED, Verdict.FORBIDDEN


@pytest.mark.parametrize(
    ("role", "action", "resource", "by_itself", "with_all_rights"),
    [
        ("vision", "GetObject", ORDERS, ALLOWED, ALLOWED),
        ("vision", "GetObject", AGENT, ALLOWED, ALLOWED),
        ("vision", "PutObject", REPORT, ALLOWED, ALLOWED),
        ("vision", "ListBucket", BUCKET, ALLOWED, ALLOWED),
        ("vision", "PutObject", ORDERS, FORBIDDEN, FORBIDDEN),
        ("vision", "PutObject", AGENT, FORBIDDEN, FORBIDDEN),
        ("vision", "DeleteObject", ORDERS, FORBIDDEN, FORBIDDEN),
        ("vision", "DeleteObject", REPORT, FORBIDDEN, FORBIDDEN),
        ("vision", "GetObject", REPORT, DENIED, ALLOWED),
        ("vision", "PutObject", f"{BUCKET}/nodes/p5/n1/7/other", DENIED, ALLOWED),
        ("another", "GetObject", ORDERS, DENIED, ALLOWED),
        ("another", "PutObject", REPORT, DENIED, ALLOWED),
        ("another", "PutObject", ORDERS, FORBIDDEN, FORBIDDEN),
        ("admin", "PutObject", AGENT, FORBIDDEN, FORBIDDEN),
        ("admin", "DeleteObject", ORDERS, DENIED, ALLOWED),
        ("slotq-queue", "PutObject", ORDERS, DENIED, ALLOWED),
        ("slotq-queue", "PutObject", AGENT, DENIED, ALLOWED),
        ("slotq-door", "PutObject", ORDERS, DENIED, ALLOWED),
    ],
)
def test_who_may_do_what(
    role: str, action: str, resource: str, by_itself: str, with_all_rights: str
) -> None:
    assert verdict(role, action, resource) == by_itself
    assert verdict(role, action, resource, ANYTHING) == with_all_rights
    assert verdict(role, action, resource, ANYTHING, tls="false") == FORBIDDEN


def test_a_pool_called_agents_keeps_nodes_like_any_other() -> None:
    folder = f"{BUCKET}/nodes/agents/n1/7"
    assert verdict("vision", "PutObject", f"{folder}/report.json") == ALLOWED
    assert verdict("vision", "PutObject", f"{folder}/orders.json", ANYTHING) == FORBIDDEN


def test_without_nodes_no_role_names_the_bucket() -> None:
    resolve = Resolver(template(), {**PARAMETERS, "Nodes": "false"})
    for role in ("QueueManagerRole", "DoorRole", "ViewsRole"):
        assert BUCKET not in str(resolve(template()["Resources"][role]["Properties"]))
    for name in ("NodesBucket", "NodesBucketPolicy"):
        assert template()["Resources"][name]["Condition"] == "KeepsNodes"


def test_the_bucket_is_private_encrypted_and_kept() -> None:
    bucket = template()["Resources"]["NodesBucket"]
    properties = bucket["Properties"]
    assert bucket["DeletionPolicy"] == "RetainExceptOnCreate"
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = properties["LifecycleConfiguration"]["Rules"]
    assert rule["ExpirationInDays"] > 2 * 28, "no training job lives that long"
