"""The AWS services around the queue: by moto S3, STS, IAM and logs, and DynamoDB's protocol for the
queue's table. All run in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape  # writes XML, reads none # nosec B406

from botocore.exceptions import ClientError
from moto.core.utils import utcnow
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.sts.models import sts_backends

from slotq.local.endpoint import Endpoint
from slotq.local.entry.signatures import Caller
from slotq.local.keys import USER
from slotq.local.services.dynamodb import InMemoryDynamo
from slotq.local.services.error_answers import Said

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
    return DomainDispatcherApplication(_backend)


def _backend(service: Any) -> Any:
    """moto's backend for a service. Raises NotImplementedError for a service unknown to moto
    (None)."""
    if service is None:
        raise NotImplementedError
    if service == "s3":
        _leave_to_readers()
    return create_backend_app(service)


def _leave_to_readers() -> None:
    """Let an S3 object that is written over live until nobody reads it: moto closes it at once, and
    a request that has just found it fails."""
    from moto.s3.models import FakeKey

    def dispose(key: Any, **_: Any) -> None:
        key.disposed = True

    FakeKey.dispose = dispose


def furnish(endpoint: Endpoint) -> None:
    """Create what an account has before the first job: SageMaker's bucket, that of the queue's
    nodes, roles."""
    made = endpoint.client("s3")
    where = {"LocationConstraint": endpoint.region}
    more = {} if endpoint.region == "us-east-1" else {"CreateBucketConfiguration": where}
    for bucket in (endpoint.bucket, endpoint.nodes_bucket):
        made.create_bucket(Bucket=bucket, **more)
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


_TARGET, _TYPE = "DynamoDB_20120810.", "com.amazonaws.dynamodb.v20120810#"
_JSON = [("Content-Type", "application/x-amz-json-1.0")]
_METHODS = {
    "BatchGetItem": "batch_get_item",
    "BatchWriteItem": "batch_write_item",
    "DeleteItem": "delete_item",
    "DescribeTable": "describe_table",
    "GetItem": "get_item",
    "PutItem": "put_item",
    "Query": "query",
    "Scan": "scan",
    "TransactWriteItems": "transact_write_items",
    "UpdateItem": "update_item",
}
_MAPS = {"ExclusiveStartKey", "ExpressionAttributeValues", "Item", "Key"}
"""The parameters that hold attributes' values."""
_PLAIN = {"S": str, "N": str, "B": str, "BOOL": bool, "NULL": bool}
_UNREADABLE = (AttributeError, InvalidOperation, KeyError, RecursionError, TypeError, ValueError)


def table_answer(dynamo: InMemoryDynamo, environ: dict[str, Any], body: bytes) -> Said | None:
    """DynamoDB's answer to a request about the queue's table. None for other requests: moto keeps
    tables that the user makes."""
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if not target.startswith(_TARGET):
        return None
    operation = target.removeprefix(_TARGET)
    if operation == "ListTables":
        return _said({"TableNames": sorted({*dynamo.tables, *_tables_of_moto()})})
    try:
        asked = json.loads(body)
        if dynamo.tables.keys().isdisjoint(_tables_in(asked)):
            return None
        if operation not in _METHODS:
            message = f"the emulator has no {operation} for the queue's table"
            return _refused("UnknownOperationException", message)
        return _said(getattr(dynamo, _METHODS[operation])(**_decoded(asked)))
    except ClientError as error:
        said = error.response
        more = {key: said[key] for key in ("CancellationReasons", "Item") if key in said}
        return _refused(said["Error"]["Code"], said["Error"]["Message"], more)
    except _UNREADABLE:
        return _refused("SerializationException", "the request cannot be read")


def _tables_of_moto() -> set[str]:
    from moto.dynamodb.models import dynamodb_backends

    return {
        name
        for account in dynamodb_backends.values()
        for backend in account.values()
        for name in backend.tables
    }


def _tables_in(asked: Mapping[str, Any]) -> Iterator[str]:
    """The tables that a request names."""
    if "TableName" in asked:
        yield asked["TableName"]
    yield from asked.get("RequestItems", ())
    for action in asked.get("TransactItems", ()):
        yield from (parameters["TableName"] for parameters in action.values())


def _decoded(asked: Any) -> Any:
    """The request as boto3 has it, with checked values: bytes are text in base64 on the way."""
    if isinstance(asked, list):
        return [_decoded(part) for part in asked]
    if not isinstance(asked, dict):
        return asked
    return {key: _map(part) if key in _MAPS else _decoded(part) for key, part in asked.items()}


def _map(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in values.items()}


def _value(value: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, content),) = value.items()
    if kind == "M":
        return {"M": _map(content)}
    if kind == "L":
        return {"L": [_value(member) for member in content]}
    if kind in {"SS", "NS", "BS"}:
        return {kind: [_value({kind[0]: member})[kind[0]] for member in content]}
    if type(content) is not _PLAIN[kind]:
        raise TypeError(kind)
    if kind == "B":
        return {"B": base64.b64decode(str(content), validate=True)}
    if kind == "N":
        _check_number(Decimal(str(content)))
    return {kind: content}


def _check_number(number: Decimal) -> None:
    if not (
        number.is_finite()
        and -130 <= number.adjusted() <= 125
        and len(number.as_tuple().digits) <= 38
    ):
        raise ValueError("not one of DynamoDB's numbers")


def _said(answer: object) -> Said:
    return "200 OK", _JSON, json.dumps(answer, default=_encoded).encode()


def _refused(code: str, message: str, more: Mapping[str, Any] | None = None) -> Said:
    said = {"__type": _TYPE + code, "message": message, "Message": message, **(more or {})}
    return "400 Bad Request", _JSON, json.dumps(said, default=_encoded).encode()


def _encoded(value: object) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} cannot be part of an answer")
