"""The AWS services around the queue, by moto: S3, DynamoDB, STS, IAM, logs. All run in this
process."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape  # writes XML, reads none # nosec B406

from moto.core.utils import utcnow
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.sts.models import sts_backends

from slotq.local.endpoint import Endpoint
from slotq.local.entry.signatures import Caller
from slotq.local.keys import USER
from slotq.local.services import moto_dynamodb
from slotq_core.adapters.dynamodb.store import table_definition

TABLE = "sagemaker-queue"
ROLES = ("trainer", "slotq-local")
"""Roles for training jobs, the documentation's first. The emulator ignores roles, but SDK v3 checks
them."""
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
_IAM_XML = "https://iam.amazonaws.com/doc/2010-05-08/"
_PARTITION = "aws"


def application() -> Any:
    """moto's WSGI application."""
    moto_dynamodb.install()
    return DomainDispatcherApplication(_backend)


def _backend(service: Any) -> Any:
    """moto's backend for a service. Raises NotImplementedError for a service unknown to moto
    (None)."""
    if service is None:
        raise NotImplementedError
    return create_backend_app(service)


def furnish(endpoint: Endpoint) -> None:
    """Create what an account has before the first job: SageMaker's bucket, the queue's table,
    roles."""
    made = endpoint.client("s3")
    where = {"LocationConstraint": endpoint.region}
    more = {} if endpoint.region == "us-east-1" else {"CreateBucketConfiguration": where}
    made.create_bucket(Bucket=endpoint.bucket, **more)
    endpoint.client("dynamodb").create_table(**table_definition(TABLE))
    trust = json.dumps(_TRUST)
    for role in ROLES:
        endpoint.client("iam").create_role(RoleName=role, AssumeRolePolicyDocument=trust)


class Callers:
    """Finds the owner of an access key: the emulator's own, a user's from IAM, or an assumed
    role's."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._account, self._keys = endpoint.account, endpoint.keys

    def find(self, access_key: str) -> Caller | None:
        if access_key == self._keys.access_key:
            arn = f"arn:aws:iam::{self._account}:user/{USER}"
            return Caller(arn=arn, access_key=access_key, secret_key=self._keys.secret_key)
        return self._user(access_key) or self._role(access_key)

    def _user(self, access_key: str) -> Caller | None:
        for user in iam_backends[self._account][_PARTITION].users.values():
            for key in user.access_keys:
                if key.access_key_id == access_key and key.status == "Active":
                    return Caller(
                        arn=user.arn,
                        access_key=access_key,
                        secret_key=key.secret_access_key,
                        user_id=user.id,
                    )
        return None

    def _role(self, access_key: str) -> Caller | None:
        sts = sts_backends[self._account][_PARTITION]
        role = sts.get_assumed_role_from_access_key(access_key)
        if role is None or role.expiration < utcnow():
            return None
        return Caller(
            arn=role.arn,
            access_key=access_key,
            secret_key=role.secret_access_key,
            user_id=role.user_id,
            session_token=role.session_token,
        )


def simulated_policy(body: bytes) -> bytes | None:
    """The answer to iam:SimulatePrincipalPolicy, which moto lacks: everything is allowed. None for
    another request."""
    asked = parse_qs(body.decode(errors="replace"))
    if asked.get("Action") != ["SimulatePrincipalPolicy"]:
        return None
    actions = [value for key, (value, *_) in asked.items() if key.startswith("ActionNames.member.")]
    members = "".join(
        f"<member><EvalActionName>{escape(action)}</EvalActionName>"
        "<EvalDecision>allowed</EvalDecision><EvalResourceName>*</EvalResourceName>"
        "<MatchedStatements/><MissingContextValues/></member>"
        for action in actions
    )
    return (
        f'<SimulatePrincipalPolicyResponse xmlns="{_IAM_XML}"><SimulatePrincipalPolicyResult>'
        f"<IsTruncated>false</IsTruncated><EvaluationResults>{members}</EvaluationResults>"
        "</SimulatePrincipalPolicyResult><ResponseMetadata><RequestId>local</RequestId>"
        "</ResponseMetadata></SimulatePrincipalPolicyResponse>"
    ).encode()
