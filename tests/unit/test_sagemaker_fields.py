"""Fields of SageMaker newer than this botocore are sent unchanged."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from slotq_core.adapters.sagemaker.service import sagemaker_client
from tests.least_request import least_request


@pytest.fixture
def sent(monkeypatch) -> list[dict[str, Any]]:
    for name, value in (
        ("ACCESS_KEY_ID", "a"),
        ("SECRET_ACCESS_KEY", "b"),
        ("REGION", "eu-west-1"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    return []


@pytest.fixture
def client(sent):
    made = sagemaker_client()

    def answer(request, **_):
        body = request.body
        sent.append(json.loads(body))
        assert int(request.headers["Content-Length"]) == len(body)
        content = b'{"TrainingJobArn": "arn"}'
        return SimpleNamespace(
            status_code=200, headers={}, content=content, text=content.decode(), raw=None
        )

    made.meta.events.register("before-send.sagemaker", answer)
    return made


def test_unknown_fields_are_sent_at_every_depth(client, sent):
    request = least_request("job1", FieldOfTomorrow={"a": [1, "ü"]})
    request["ResourceConfig"]["NodeTopology"] = "ring"
    request["InputDataConfig"] = [
        {"ChannelName": "a", "DataSource": {"LakeSource": {"Name": "x"}}},
    ]
    assert client.create_training_job(**request)["TrainingJobArn"] == "arn"
    assert sent == [request]


def test_known_fields_are_sent_as_usual(client, sent):
    client.create_training_job(**least_request("job1"))
    assert sent == [least_request("job1")]


def test_a_wrong_type_is_still_refused(client, sent):
    request = least_request("job1", FieldOfTomorrow=1, HyperParameters=["lr"])
    with pytest.raises(ParamValidationError, match="HyperParameters"):
        client.create_training_job(**request)
    assert sent == []
