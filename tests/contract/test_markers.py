"""The queue reaches training scripts through S3, and nothing in a user's bucket stops it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.scripts import S3Scripts
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_training import marker_name
from tests.contract.worlds import NOW

BUCKET = "checkpoints"


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client(
            "s3",
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_bucket(Bucket=BUCKET)
        yield client


def an_attempt(checkpoints: str, *, grace: int | None = 30_000) -> Attempt:
    until = None if grace is None else NOW + grace
    return Attempt(
        number=2,
        training_job="low-2",
        token="token",
        pool="p",
        instance_type="ml.m5.large",
        admitted_at=NOW,
        checkpoints=checkpoints,
        stop=StopOrder(cause=StopCause.EVICTED, by="high", at=NOW, grace_until=until),
    )


def scripts(client: Any) -> S3Scripts:
    return S3Scripts(clock=VirtualClock(NOW + 500), make_client=lambda: client)


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        (f"s3://{BUCKET}/low/checkpoints", "low/checkpoints/"),
        (f"s3://{BUCKET}/low/checkpoints/", "low/checkpoints/"),
        (f"s3://{BUCKET}", ""),
        (f"s3://{BUCKET}/", ""),
    ],
)
def test_the_marker_lies_where_the_script_looks(s3, uri, folder):
    assert scripts(s3).ask(an_attempt(uri))
    found = s3.get_object(Bucket=BUCKET, Key=folder + marker_name("low-2"))["Body"].read()
    assert json.loads(found) == {"version": 1, "asked_at": NOW + 500, "grace": 29.5}


def test_it_may_be_asked_again(s3):
    assert scripts(s3).ask(an_attempt(f"s3://{BUCKET}/twice"))
    assert scripts(s3).ask(an_attempt(f"s3://{BUCKET}/twice"))


@pytest.mark.parametrize("uri", ["", "s3://", "s3:///x", "file:///x", "x", "s3://no-such-bucket/x"])
def test_where_there_is_no_place_nobody_is_asked(s3, uri):
    assert not scripts(s3).ask(an_attempt(uri))


def test_without_a_grace_nobody_is_asked(s3):
    assert not scripts(s3).ask(an_attempt(f"s3://{BUCKET}/x", grace=None))


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject"),
        ReadTimeoutError(endpoint_url="s3"),
        ValueError("odd"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_without_a_right_or_an_answer_nobody_counts_as_asked(error):
    class Refusing:
        def put_object(self, **_: Any) -> None:
            raise error

    assert not scripts(Refusing()).ask(an_attempt(f"s3://{BUCKET}/x"))
