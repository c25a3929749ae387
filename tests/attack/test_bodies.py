"""Bodies that a JSON library accepts and a queue must refuse: a short 400, and nothing is
stored."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from slotq_core.wire import strict_json
from tests.functional.account import Account, add_job, sample

BODY = sample("add-job")["body"]
P4D = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 100}
LONGEST_ANSWER = 600
"""The most characters of a message: what a caller sends does not come back."""


def with_member(text: str) -> str:
    """The sample's body with one more member."""
    return f"{BODY.rstrip()[:-1]}, {text}}}"


def nested(depth: int) -> str:
    return with_member('"Odd": ' + "[" * depth + "]" * depth)


GROUP = {"InstanceGroupName": "g", "InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1}
NOT_TAKEN: dict[str, tuple[str, str, str]] = {
    # the fault: (the body, the field that the answer names, words of its message)
    "a key twice": (
        with_member('"TrainingJobName": "other"'),
        "",
        "'TrainingJobName' occurs twice",
    ),
    "a key twice, deep inside": (with_member('"a": [{"b": 1, "b": 2}]'), "", "'b' occurs twice"),
    "a very long key twice": (with_member(f'"{"k" * 9000}": 1, "{"k" * 9000}": 2'), "", "twice"),
    "NaN": (with_member('"Odd": NaN'), "", "NaN is not a number"),
    "Infinity": (with_member('"Odd": -Infinity'), "", "-Infinity is not a number"),
    "more than any float": (with_member('"Odd": 1e999'), "", "too large"),
    "an integer of 100 digits": (with_member('"Odd": ' + "9" * 100), "", "too large"),
    "an integer of 5,000 digits": (with_member('"Odd": ' + "9" * 5000), "", "too large"),
    "half a surrogate pair": (with_member('"Odd": "\\ud800"'), "", "Unicode"),
    "half a surrogate pair as a key": (with_member('"\\udc00": 1'), "", "Unicode"),
    "levels that Python's parser takes": (nested(300), "", "32 levels"),
    "levels that it takes and its writer does not": (nested(985), "", "32 levels"),
    "levels beyond everything": (nested(100_000), "", "32 levels"),
    "one level too many": (nested(strict_json.DEEPEST), "", "32 levels"),
    "a byte order mark": ("\ufeff" + BODY, "", "not JSON"),
    "two documents": (BODY + BODY, "", "not JSON"),
    "a comment": ("/* */" + BODY, "", "not JSON"),
    "a trailing comma": (BODY.rstrip()[:-1] + ",}", "", "not JSON"),
    "single quotes": (BODY.replace('"', "'"), "", "not JSON"),
    "a control character in a string": (with_member('"Odd": "\n"'), "", "not JSON"),
    "form fields": ("TrainingJobName=job1&Tags=", "", "not JSON"),
    "XML": ("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "", "not JSON"),
    "null bytes": ("\0" * 100, "", "not JSON"),
}


@pytest.mark.parametrize(
    ("body", "field", "words"), NOT_TAKEN.values(), ids=[f"{key:.60}" for key in NOT_TAKEN]
)
def test_malformed_json_is_refused(account: Account, body: str, field: str, words: str):
    assert_refused(account, {**sample("add-job"), "body": body}, field, words)
    for change in ("amend-job", "change-jobs"):
        assert account.call({**sample(change), "body": body})[0] == 400


def test_a_body_just_within_the_bounds_is_accepted(account: Account):
    """32 levels, with the body itself."""
    body = nested(strict_json.DEEPEST - 1)
    status, _ = account.call({**sample("add-job"), "body": body})
    assert status == 202
    status, kept = account.call("get-request")
    assert (status, kept["request"]) == (200, json.loads(body))


def instances(**changes: Any) -> dict[str, Any]:
    return {"ResourceConfig": {**P4D, **changes}}


TOO_LARGE: dict[str, tuple[dict[str, Any], str, str]] = {
    "a name of hyphens longer than a key": (
        {"TrainingJobName": "a" + "-" * 3000 + "b"},
        "TrainingJobName",
        "1 to 63",
    ),
    "a name of 64 characters, hyphens among them": (
        {"TrainingJobName": "a" + "-" * 62 + "b"},
        "TrainingJobName",
        "1 to 63",
    ),
    "a name that looks like Latin letters": (
        {"TrainingJobName": "j\u043eb1"},
        "TrainingJobName",
        "letters, digits",
    ),
    "a name with a null byte": ({"TrainingJobName": "job\0"}, "TrainingJobName", "letters"),
    "an instance type of 900 KB": (
        instances(InstanceType="ml." + "x" * 900_000),
        "ResourceConfig.InstanceType",
        "64 characters",
    ),
    "more instances than any pool may have": (
        instances(InstanceCount=10**18),
        "ResourceConfig.InstanceCount",
        "10000",
    ),
    "groups whose sum nobody can write": (
        {"ResourceConfig": {"InstanceGroups": [GROUP] * 6}},
        "ResourceConfig.InstanceGroups",
        "5",
    ),
    "groups of many types": (
        {
            "ResourceConfig": {
                "InstanceGroups": [{**GROUP, "InstanceType": f"{n}" * 64} for n in range(5)]
            }
        },
        "ResourceConfig",
        "none of its pools has that type",
    ),
    "a role of 900 KB": ({"RoleArn": "r" * 900_000}, "RoleArn", "2048 characters"),
    "a tag with an unknown part of 100 KB": (
        {"Tags": [{"Key": "a", "Value": "b", "c" * 100_000: 1}]},
        "Tags.0.ccc",
        "not permitted",
    ),
}


@pytest.mark.parametrize(("changes", "field", "words"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_a_value_beyond_sagemakers_bounds_is_refused(
    account: Account, changes, field: str, words: str
):
    assert_refused(account, add_job(**changes), field, words)


def test_a_change_with_a_very_long_key_is_refused(account: Account):
    account.call("add-job")
    body = json.dumps({"tags": {"k" * 500_000: 7}})
    status, error = account.call({**sample("amend-job"), "body": body})
    assert status == 400
    assert len(json.dumps(error)) < 2 * LONGEST_ANSWER


def test_changes_with_very_long_names_and_keys_get_a_short_refusal(account: Account):
    account.call("add-job")
    before = account.items()
    for change in ({"name": "n" * 900_000, "cancel": True}, {"name": "job1", "k" * 900_000: 7}):
        event = {**sample("change-jobs"), "body": json.dumps({"changes": [change]})}
        _, answer = account.call(event)
        assert len(json.dumps(answer)) < 2 * LONGEST_ANSWER
    assert account.items() == before


def test_a_body_in_base64_is_the_same_body(account: Account):
    """API Gateway sends it so if the type is declared as binary."""
    encoded = base64.b64encode(BODY.encode()).decode()
    status, job = account.call({**sample("add-job"), "body": encoded, "isBase64Encoded": True})
    assert (status, job["name"]) == (202, "job1")


@pytest.mark.parametrize(
    "body",
    ["%%%%", "e30", "A", base64.b64encode(b"\xff\xfe{}").decode(), base64.b64encode(b"").decode()],
)
def test_bytes_that_are_not_text_are_refused(account: Account, body: str):
    event = {**sample("add-job"), "body": body, "isBase64Encoded": True}
    assert_refused(account, event, "", "")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/xml", "multipart/form-data; boundary=x", "", "application/json\0"],
)
def test_the_content_type_is_ignored(account: Account, content_type: str):
    """Only the body counts, because there is no other type it could be."""
    event = sample("add-job")
    event["headers"] = {**event["headers"], "Content-Type": content_type}
    event["multiValueHeaders"] = {**event["multiValueHeaders"], "Content-Type": [content_type]}
    assert account.call(event)[0] == 202


def assert_refused(account: Account, event: dict[str, Any], field: str, words: str) -> None:
    account.send("tick")
    before = account.items()
    status, error = account.call(event)
    assert status == 400
    assert error["code"] in {"invalid_request", "never_fits"}
    assert error["field"].startswith(field) if field else error["field"] == ""
    assert len(error["field"]) <= 200
    assert words.lower() in error["message"].lower()
    assert 0 < len(error["message"]) < LONGEST_ANSWER
    assert account.items() == before
    assert account.lambda_.calls == []
