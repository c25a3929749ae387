"""Callbacks: the form in a submission, and what a job's end says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Submission
from slotq_core.model.notices import Callback, CallbackKind, WhenAbandoned
from slotq_core.wire.groups.group_submission import parse_group
from slotq_core.wire.groups.members import parse_batch
from slotq_core.wire.submission import parse_submission
from tests.least_request import least_request

TOKEN = "AQCEAAAAKgAAAAMAAAAAAAAAAV" + "x" * 700 + "=="
TASK = {"task_token": TOKEN}
STEP = {"pipeline_token": "a1B2c3D4e5"}


def read(callback: object, **more: Any) -> tuple[Submission, dict[str, Any]]:
    body = {**least_request("train"), "slotq:callback": callback, **more}
    return parse_submission(json.dumps(body))


@pytest.mark.parametrize(
    ("written", "callback"),
    [
        (TASK, Callback(kind=CallbackKind.TASK, token=TOKEN)),
        (STEP, Callback(kind=CallbackKind.PIPELINE, token="a1B2c3D4e5")),
        (
            {**TASK, "when_abandoned": "continue"},
            Callback(kind=CallbackKind.TASK, token=TOKEN, when_abandoned=WhenAbandoned.CONTINUE),
        ),
        ({"task_token": "x"}, Callback(kind=CallbackKind.TASK, token="x")),
        ({"task_token": "x" * 2048}, Callback(kind=CallbackKind.TASK, token="x" * 2048)),
    ],
)
def test_a_callback_is_read_and_kept_out_of_the_request(written, callback):
    submission, request = read(written)
    assert submission.callback == callback
    alone, without = parse_submission(json.dumps(least_request("train")))
    assert request == without
    assert replace(submission, callback=None) == alone


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (None, "slotq:callback: must be an object, not null"),
        ("token", "slotq:callback"),
        ([], "slotq:callback"),
        ({}, "give one token"),
        ({**TASK, **STEP}, "give one token"),
        ({"task_token": ""}, "slotq:callback.task_token"),
        ({"task_token": 7}, "slotq:callback.task_token"),
        ({"task_token": "x" * 2049}, "slotq:callback.task_token"),
        ({"task_token": "x" * 900_000}, "slotq:callback.task_token"),
        ({"task_token": "two words"}, "slotq:callback.task_token"),
        ({"task_token": "line\n"}, "slotq:callback.task_token"),
        ({"task_token": "nul\0"}, "slotq:callback.task_token"),
        ({"task_token": "é"}, "slotq:callback.task_token"),
        ({"pipeline_token": "short"}, "slotq:callback.pipeline_token"),
        ({"pipeline_token": "elevenchars"}, "slotq:callback.pipeline_token"),
        ({"pipeline_token": "has space!"}, "slotq:callback.pipeline_token"),
        ({"pipeline_token": "ninechars\n"}, "slotq:callback.pipeline_token"),
        ({**TASK, "when_abandoned": "wait"}, "slotq:callback.when_abandoned"),
        ({**TASK, "url": "https://example.com"}, "slotq:callback.url"),
    ],
)
def test_a_wrong_callback_is_refused_by_its_field_and_never_quoted(written, says):
    with pytest.raises(InvalidRequest, match=says) as raised:
        read(written)
    said = str(raised.value)
    assert len(said) < 500
    for value in written.values() if isinstance(written, dict) else ():
        assert len(str(value)) < 6 or str(value).strip() not in said


@pytest.mark.parametrize("name", ["slotq:callbacks", "SlotQ:callback", "slotq_callback", "slotq:"])
def test_a_misspelt_callback_is_refused_where_it_would_be_ignored(name):
    body = {**least_request("train"), name: TASK}
    with pytest.raises(InvalidRequest, match="the queue's own member is slotq:callback") as raised:
        parse_submission(json.dumps(body))
    assert TOKEN not in str(raised.value)


def test_a_member_of_a_group_or_a_batch_takes_none():
    member = {**least_request("train"), "slotq:callback": TASK}
    sweep = {"name": "grid", "max_parallel": 1, "members": [member]}
    with pytest.raises(InvalidRequest, match=r"members\.0: slotq:callback: belongs to a job"):
        parse_group(json.dumps(sweep))
    of_all = {"template": {"slotq:callback": TASK}, "members": [least_request("train")]}
    with pytest.raises(InvalidRequest, match=r"members\.0: slotq:callback: belongs to a job"):
        parse_group(json.dumps({"name": "grid", "max_parallel": 1, **of_all}))
    with pytest.raises(InvalidRequest, match="slotq:callback"):
        parse_group(json.dumps({**sweep, "slotq:callback": TASK}))
    ((_, refused),) = parse_batch(json.dumps({"jobs": [member]}))
    assert isinstance(refused, InvalidRequest)
    assert "belongs to a job that is submitted alone" in str(refused)


def test_nothing_shows_a_token():
    submission, request = read(TASK)
    for shown in (repr(submission), repr(submission.callback), str(request)):
        assert TOKEN not in shown
