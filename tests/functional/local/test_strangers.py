"""A web page, a rebound name and another user of this machine get nothing from a running
emulator."""

from __future__ import annotations

import http.client
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from slotq.local import keys
from slotq.local.keys import TOKEN_HEADER
from tests.functional.local.account import Account
from tests.malformed_requests import MALFORMED, first_line

PAGE = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
CREATE = {"X-Amz-Target": "SageMaker.CreateTrainingJob"}
JSON = {"Content-Type": "application/x-amz-json-1.1"}
OLD_KEY = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/sagemaker/"
    "aws4_request, SignedHeaders=host;x-amz-date, Signature=" + "0" * 64
}


def ask(
    account: Account,
    method: str,
    path: str,
    headers: Mapping[str, str] = {},
    body: bytes | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Send exactly these bytes, as no SDK would."""
    address = urlsplit(account.running.url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port or 80, timeout=120)
    try:
        connection.request(method, path, body, dict(headers))
        said = connection.getresponse()
        return said.status, {k.lower(): v for k, v in said.getheaders()}, said.read()
    finally:
        connection.close()


PAGES: list[tuple[str, str, str, dict[str, str]]] = [
    ("fetch with a preflight it skipped", "POST", "/", {**PAGE, **CREATE, **JSON}),
    ("no browser at all", "POST", "/", {**CREATE, **JSON}),
    ("a rebound name", "POST", "/", {**CREATE, **JSON, "Host": "evil.example"}),
    ("a key that everybody knows", "POST", "/", {**CREATE, **JSON, **OLD_KEY}),
    ("a simple POST", "POST", "/", {**PAGE, "Content-Type": "text/plain"}),
    ("a simple POST of an old browser", "POST", "/", {"Content-Type": "text/plain"}),
    ("a form", "POST", "/", {"Content-Type": "application/x-www-form-urlencoded"}),
    ("the queue's API", "POST", "/prod/add-job", {**JSON}),
    ("Lambda's Invoke", "POST", "/2015-03-31/functions/training-job-queue/invocations", {}),
    ("a bucket", "GET", "/sagemaker-us-east-1-123456789012", {}),
    ("a new bucket", "PUT", "/mine", {}),
    ("the machine's credentials", "GET", "/latest/meta-data/iam/security-credentials/x", {}),
    ("a web identity", "POST", "/?Action=AssumeRoleWithWebIdentity", {}),
    ("the knobs", "GET", "/_slotq/knobs", {}),
    ("the knobs, turned", "POST", "/_slotq/knobs", {"Content-Type": "text/plain"}),
    ("the knobs, a wrong token", "GET", "/_slotq/knobs", {TOKEN_HEADER: "guess"}),
    ("a tick", "POST", "/_slotq/tick", {}),
    ("its health", "GET", "/_slotq/health", {}),
    ("moto's reset", "GET", "/moto-api/reset", {}),
    ("moto's reset, posted", "POST", "/moto-api/reset", {"Content-Type": "text/plain"}),
    ("moto's data", "GET", "/moto-api/data.json", PAGE),
    ("moto's page, spelled otherwise", "GET", "/%6doto-api/", {}),
    ("its icon", "GET", "/favicon.ico", {}),
]


@pytest.mark.parametrize(("who", "method", "path", "headers"), PAGES, ids=[row[0] for row in PAGES])
def test_a_stranger_is_refused(
    account: Account, who: str, method: str, path: str, headers: dict[str, str]
) -> None:
    request = account.request("stranger")
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["touch", "/tmp/slotq-stranger"]
    body = json.dumps(request).encode() if method == "POST" else None
    status, said, _ = ask(account, method, path, headers, body)
    assert status == 403
    assert not [name for name in said if name.startswith("access-control-")]
    with pytest.raises(ClientError, match="not found"):
        account.describe("stranger")


@pytest.mark.parametrize("path", ["/", "/_slotq/knobs", "/sagemaker-us-east-1-123456789012/x"])
def test_a_preflight_grants_nothing(account: Account, path: str) -> None:
    asked = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": f"x-amz-target, authorization, {TOKEN_HEADER}",
        "Access-Control-Request-Private-Network": "true",
    }
    status, said, _ = ask(account, "OPTIONS", path, asked)
    assert status == 403
    assert not [name for name in said if name.startswith("access-control-")]


def test_a_bucket_cannot_grant_either(account: Account) -> None:
    rule = {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "AllowedHeaders": ["*"]}
    account.s3.put_bucket_cors(Bucket=account.bucket, CORSConfiguration={"CORSRules": [rule]})
    try:
        url = account.s3.generate_presigned_url(
            "list_objects_v2", Params={"Bucket": account.bucket}
        )
        parts = urlsplit(url)
        status, said, _ = ask(account, "GET", f"{parts.path}?{parts.query}")
        assert (status, [name for name in said if name.startswith("access-control-")]) == (200, [])
        status, _, _ = ask(account, "GET", f"{parts.path}?{parts.query}", PAGE)
        assert status == 403
    finally:
        account.s3.delete_bucket_cors(Bucket=account.bucket)


def test_the_controls_need_the_token(account: Account) -> None:
    own = {TOKEN_HEADER: account.running.keys.token}
    assert ask(account, "GET", "/_slotq/health", own)[0] == 200
    assert ask(account, "GET", "/_slotq/health", {**own, **PAGE})[0] == 403
    assert ask(account, "GET", "/_slotq/health", {**own, "Host": "evil.example"})[0] == 403
    assert ask(account, "GET", "/moto-api/", own)[0] == 200


@pytest.mark.parametrize("service", ["sagemaker", "s3", "dynamodb", "sts", "iam", "lambda", "logs"])
def test_every_service_checks_the_signature(account: Account, service: str) -> None:
    calls = {
        "sagemaker": ("list_training_jobs", {}),
        "s3": ("list_buckets", {}),
        "dynamodb": ("list_tables", {}),
        "sts": ("get_caller_identity", {}),
        "iam": ("list_roles", {}),
        "lambda": ("list_functions", {}),
        "logs": ("describe_log_groups", {}),
    }
    name, arguments = calls[service]
    getattr(account.endpoint.client(service), name)(**arguments)
    own = account.running.keys.access_key
    wrong = {"SignatureDoesNotMatch", "InvalidSignatureException"}
    unknown = {"InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException"}
    for key, codes in ((own, wrong), ("testing", unknown)):
        client = boto3.client(
            service,
            endpoint_url=account.running.url,
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key="testing",
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )
        with pytest.raises(ClientError) as refused:
            getattr(client, name)(**arguments)
        assert refused.value.response["Error"]["Code"] in codes
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_other_users_of_this_machine_cannot_read_the_keys(account: Account) -> None:
    assert stat.S_IMODE(account.folder.stat().st_mode) == 0o700
    for name in ("keys.json", "emulator.json"):
        assert stat.S_IMODE((account.folder / name).stat().st_mode) == 0o600
    secrets = (account.running.keys.secret_key, account.running.keys.token)
    said = [Path("/proc", str(account.running.pid), "cmdline").read_bytes().decode()]
    said += [path.read_text() for path in account.folder.glob("*.log")]
    assert not [secret for secret in secrets for text in said if secret in text]


def test_keys_readable_by_others_are_replaced(tmp_path: Path) -> None:
    first = keys.kept(tmp_path)
    assert keys.kept(tmp_path) == first
    (tmp_path / "keys.json").chmod(0o644)
    assert keys.kept(tmp_path) != first


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_every_malformed_request_gets_an_answer(account: Account, text: str) -> None:
    """No bug of the emulator's either: those are 500."""
    address = urlsplit(account.running.url)
    assert address.port is not None
    for api in ("/prod", "/bucket"):
        head = f"Host: 127.0.0.1:{address.port}\r\n"
        said = first_line(address.port, text, api=api, head=head)
        assert said.startswith("HTTP/1."), api
        assert said.split()[1] != "500", said
