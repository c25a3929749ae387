"""S3's ways to sign, by real boto3: URLs, paths, unsigned and changed bodies, sessions."""

from __future__ import annotations

import hashlib
import http.client
import io
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from slotq.local.entry.chunk_signatures import SIGNED
from tests.functional.local.account import Account

KEYS = [
    "plain",
    "a b+c~d!e'(f)*g",
    "ü/\u2603/%41%2F",
    "double//slash",
    "dots/./and/../more",
    "equals=and&amp;?query#hash",
]


def client(account: Account, **settings: Any) -> Any:
    keys = account.running.keys
    return boto3.client(
        "s3",
        endpoint_url=settings.pop("url", account.running.url),
        region_name="us-east-1",
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        aws_session_token=settings.pop("token", None),
        config=Config(retries={"total_max_attempts": 1}, proxies={}, **settings),
    )


def fetch(
    url: str, body: bytes | None = None, method: str = "GET", host: str = ""
) -> tuple[int, bytes]:
    """A request with only the necessary headers, because older signatures cover some."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=120)
    try:
        headers = {"Host": host} if host else {}
        connection.request(method, f"{parts.path}?{parts.query}", body, headers)
        said = connection.getresponse()
        return said.status, said.read()
    finally:
        connection.close()


@pytest.mark.parametrize("key", KEYS)
def test_objects_of_every_kind_of_key_can_be_read(account: Account, key: str) -> None:
    s3 = client(account)
    s3.put_object(Bucket=account.bucket, Key=key, Body=b"x", Metadata={"a_b": "1  2", "c": "d"})
    found = s3.get_object(Bucket=account.bucket, Key=key)
    assert found["Body"].read() == b"x"
    assert key in account.keys(key)
    s3.delete_object(Bucket=account.bucket, Key=key)


@pytest.mark.parametrize("version", [None, "s3", "s3v4"])
def test_presigned_urls_work(account: Account, version: str | None) -> None:
    s3 = client(account, **({"signature_version": version} if version else {}))
    where = {"Bucket": account.bucket, "Key": "signed/a b+c"}
    put = s3.generate_presigned_url("put_object", Params=where)
    assert fetch(put, b"content", "PUT")[0] == 200
    get = s3.generate_presigned_url("get_object", Params=where)
    assert fetch(get) == (200, b"content")
    assert fetch(get.replace("signed/", "signee/"))[0] == 403
    assert fetch(get, b"other", "PUT")[0] == 403
    assert fetch(get.replace("Expires=", "Expires=9"))[0] == 403
    listing = s3.generate_presigned_url("list_objects_v2", Params={"Bucket": account.bucket})
    assert fetch(listing)[0] == 200
    old = s3.generate_presigned_url("get_object", Params=where, ExpiresIn=-10)
    assert fetch(old)[0] == 403


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_the_bucket_can_be_in_the_host_name(account: Account, version: str) -> None:
    """As SDKs do if the endpoint has a name; the name is not resolved here."""
    named = f"http://localhost:{urlsplit(account.running.url).port}"
    virtual = {"addressing_style": "virtual"}
    s3 = client(account, url=named, s3=virtual, signature_version=version)
    account.s3.create_bucket(Bucket="virtual")
    account.s3.put_object(Bucket="virtual", Key="k", Body=b"v")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "virtual", "Key": "k"})
    there = urlsplit(url).netloc
    assert there.startswith("virtual.localhost:")
    assert fetch(url.replace(f"http://{there}", account.running.url), host=there) == (200, b"v")


def test_bodies_of_every_signing_are_accepted(account: Account) -> None:
    large = bytes(range(256)) * 80_000
    unsigned = client(account, s3={"payload_signing_enabled": False})
    unsigned.upload_fileobj(io.BytesIO(large), account.bucket, "large")
    assert account.read("large") == large
    parts = client(account)
    made = parts.create_multipart_upload(Bucket=account.bucket, Key="parts")
    asked = {"Bucket": account.bucket, "Key": "parts", "UploadId": made["UploadId"]}
    tag = parts.upload_part(**asked, PartNumber=1, Body=large)["ETag"]
    parts.complete_multipart_upload(
        **asked, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]}
    )
    assert account.read("parts") == large


def test_a_changed_body_is_refused(account: Account) -> None:
    s3 = client(account, request_checksum_calculation="when_required")

    def change(request: Any, **_: Any) -> None:
        request.body = b"y"

    s3.meta.events.register("before-send.s3.PutObject", change)
    with pytest.raises(ClientError, match="XAmzContentSHA256Mismatch"):
        s3.put_object(Bucket=account.bucket, Key="changed", Body=b"x")
    assert not account.keys("changed")


class InChunks(S3SigV4Auth):
    """Signs a body in chunks, as SDKs for other languages do."""

    def payload(self, request: AWSRequest) -> str:
        return SIGNED

    def chunks(self, request: AWSRequest, *parts: bytes) -> bytes:
        """The body, of a request that was signed."""
        last = request.headers["Authorization"].rpartition("=")[2]
        body = b""
        for part in (*parts, b""):
            covered = [hashlib.sha256(each).hexdigest() for each in (b"", part)]
            head = (f"{SIGNED.removeprefix('STREAMING-')}", request.context["timestamp"])
            text = "\n".join((*head, self.credential_scope(request), last, *covered))
            last = self.signature(text, request)
            body += f"{len(part):x};chunk-signature={last}\r\n".encode() + part + b"\r\n"
        return body


def put_in_chunks(
    account: Account, key: str, *parts: bytes, change: bytes = b""
) -> tuple[int, bytes]:
    keys = account.running.keys
    url = f"{account.running.url}/{account.bucket}/{key}"
    size = sum(map(len, parts))
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "aws-chunked",
        "X-Amz-Decoded-Content-Length": str(size),
        "X-Amz-Content-SHA256": SIGNED,
    }
    request = AWSRequest(method="PUT", url=url, headers=headers)
    auth = InChunks(Credentials(keys.access_key, keys.secret_key), "s3", "us-east-1")
    auth.add_auth(request)
    body = auth.chunks(request, *parts)
    if change:
        body = body.replace(parts[0], change)
    sent = urllib.request.Request(url, body, dict(request.headers), method="PUT")
    try:
        with urllib.request.urlopen(sent, timeout=120) as said:
            return int(said.status), said.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_a_body_in_signed_chunks(account: Account) -> None:
    """It was taken unchecked: only the header's signature counted."""
    assert put_in_chunks(account, "chunks", b"first", b"second")[0] == 200
    assert account.read("chunks") == b"firstsecond"
    status, said = put_in_chunks(account, "forged", b"first", b"second", change=b"forge")
    assert (status, b"SignatureDoesNotMatch" in said) == (403, True)
    assert not account.keys("forged")


def test_a_session_needs_its_token_in_every_call(account: Account) -> None:
    role = account.endpoint.client("sts").assume_role(
        RoleArn="arn:aws:iam::123456789012:role/trainer", RoleSessionName="me"
    )["Credentials"]

    def made(token: str | None) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=account.running.url,
            region_name="us-east-1",
            aws_access_key_id=role["AccessKeyId"],
            aws_secret_access_key=role["SecretAccessKey"],
            aws_session_token=token,
        )

    s3 = made(role["SessionToken"])
    s3.list_buckets()
    assert fetch(s3.generate_presigned_url("list_buckets"))[0] == 200
    for token in (None, "another"):
        with pytest.raises(ClientError, match="InvalidAccessKeyId"):
            made(token).list_buckets()
