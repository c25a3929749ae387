"""What comes in costs work that grows with its size: the worst that we know, at a quarter of the
size that is let in and at all of it.

Four times as much costs four times the work where it is linear, and sixteen times where it is
quadratic. Work is counted (tests/work.py), never timed. What C does within one call, as a regular
expression or the decoder of JSON, is not seen by that: `make bench` prints its time.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

import app
from slotq_core.adapters.sagemaker.observations import observation_of_event
from slotq_core.adapters.sagemaker.sagemaker_errors import CREATE, STOP, verdict_on
from slotq_core.errors import InvalidRequest, NotUnderstood, SlotQError
from slotq_core.privacy.redaction import LONGEST_TEXT, without_secrets
from slotq_core.storage.stored_request import MAX_UNPACKED, pack, unpack
from slotq_core.wire.body import MAX_BODY
from slotq_core.wire.configuration import parse_pool
from slotq_core.wire.document.views import parse_configuration
from slotq_core.wire.groups.members import LARGEST_BODY, MOST_JOBS, parse_batch
from slotq_core.wire.job_changes import parse_amendment
from slotq_core.wire.submission import parse_submission
from tests.attack.sagemaker import QuotingClient
from tests.functional.account import Account, add_job, forget, sample
from tests.work import Watched, counted_calls, watched

Shape = Callable[[int], Any]
"""Input to be read, of about this many characters."""

LARGEST_EVENT = 256_000
LARGEST_QUERY = 10_000
"""The most bytes that EventBridge and API Gateway accept."""

MOST_GROWTH = 6
"""The most work for four times the input, relative to once."""
FEW = 5_000
"""Less work than this says nothing about growth."""


class Work(NamedTuple):
    calls: int
    characters: int


def cost(read: Callable[[Any], object], what: Any) -> Work:
    """The work, whatever the result."""

    def run() -> None:
        with suppress(SlotQError):
            read(text)

    text = watched(what)
    Watched.characters = 0
    calls = counted_calls(run)
    return Work(calls, Watched.characters)


def assert_linear(read: Callable[[Any], object], shape: Shape, largest: int) -> None:
    small, large = shape(largest // 4), shape(largest)
    with suppress(SlotQError):
        read(watched(small))  # What is done once and kept is no part of it.
    for quarter, whole in zip(cost(read, small), cost(read, large), strict=True):
        assert whole < MOST_GROWTH * max(quarter, FEW)


def repeated(part: Callable[[int], str], size: int) -> str:
    """As many parts as fit, separated by commas."""
    return ",".join(part(n) for n in range(size // (len(part(size)) + 1)))


# --- bodies


BASE = json.loads(sample("add-job")["body"])


def body(**fields: Any) -> str:
    return json.dumps({**BASE, **fields}, separators=(",", ":"))


TEXT = '"v"'


def member(value: str) -> Callable[[int], str]:
    """A member of an object, with a different key each."""
    return lambda n: f'"{n}":{value}'


def with_members(part: Callable[[int], str], after: str = "") -> Shape:
    """The sample's body with this many more members, then `after`."""
    return lambda size: (
        f"{body()[:-1]},{repeated(part, size - len(body()) - len(after) - 2)}{after}}}"
    )


BODIES: dict[str, Shape] = {
    "members": with_members(lambda n: f'"k{n}":1'),
    "the last key twice": with_members(lambda n: f'"k{n}":1', ',"z":1,"z":2'),
    "the last two keys the same, deep inside": lambda size: (
        f'[[{{{repeated(member("0"), size - 20)},"z":1,"z":2}}]]'
    ),
    "every key twice": with_members(lambda n: f'"k{n // 2}":1'),
    "one key always": with_members(lambda _: '"a":1'),
    "lists in a list": lambda size: f"[{repeated(lambda _: '[]', size - 2)}]",
    "objects in a list": lambda size: f"[{repeated(lambda _: '{}', size - 2)}]",
    "levels": lambda size: "[" * size,
    "levels of objects": lambda size: '{"a":' * (size // 5),
    "one integer": lambda size: f"[{'1' * (size - 2)}]",
    "one float": lambda size: f"[1.{'1' * (size - 4)}]",
    "one float with an exponent": lambda size: f"[{'1' * (size - 9)}.5e-999]",
    "floats": lambda size: f"[{repeated(lambda _: '1e5', size - 2)}]",
    "escapes": lambda size: '["' + "\\u00e9" * ((size - 4) // 6) + '"]',
    "surrogate pairs": lambda size: '["' + "\\ud83d\\ude00" * ((size - 4) // 12) + '"]',
    "half pairs": lambda size: '["' + "\\ud83d" * ((size - 4) // 6) + '"]',
    "a string without an end": lambda size: '["' + "\\" * (size - 2),
    "spaces": lambda size: " " * size,
    "lines": lambda size: "\n" * (size - 1) + "x",
    "a fault at the end": lambda size: f"[{repeated(lambda _: '1', size - 2)}x",
    "tags that are none": lambda size: body(Tags=[1] * ((size - 1000) // 2)),
    "tags": lambda size: body(Tags=[{"Key": "a", "Value": "b"}] * ((size - 1000) // 24)),
    "a tag of many parts": lambda size: body(
        Tags=[{"Key": "a", "Value": "b", **dict.fromkeys(map(str, range(size // 11)), 1)}]
    ),
    "a long name": lambda size: body(TrainingJobName="a-" * (size // 2 - 500)),
    "a name of hyphens": lambda size: body(TrainingJobName="-" * (size - 1000)),
    "commas as pools": lambda size: body(
        Tags=[{"Key": "slotq:pools", "Value": "," * (size - 999)}]
    ),
    "a long priority": lambda size: body(Tags=[{"Key": "priority", "Value": "1" * (size - 999)}]),
    "a long role": lambda size: body(RoleArn="arn:" * (size // 4 - 300)),
    "instance groups": lambda size: body(
        ResourceConfig={"InstanceGroups": [{}] * ((size - 1000) // 3)}
    ),
    "instance groups of many fields": lambda size: body(
        ResourceConfig={"InstanceGroups": [dict.fromkeys(map(str, range(size // 11)), 1)] * 1}
    ),
    "hyperparameters": lambda size: body(
        HyperParameters=dict.fromkeys(map(str, range(size // 14)), "1")
    ),
}


@pytest.mark.parametrize("shape", BODIES.values(), ids=BODIES.keys())
def test_a_submission_is_read_by_linear_work(shape: Shape):
    assert len(shape(MAX_BODY)) <= MAX_BODY + 1000
    assert_linear(parse_submission, shape, MAX_BODY)


def batch(jobs: list[Any], **template: Any) -> str:
    return json.dumps({"template": template, "jobs": jobs}, separators=(",", ":"))


BATCHES: dict[str, Shape] = {
    "jobs without end": lambda size: batch([{}] * (size // 3)),
    "jobs that are none": lambda size: batch([[[]] * (size // MOST_JOBS // 3)] * MOST_JOBS),
    "jobs of unknown members": lambda size: batch(
        [dict.fromkeys(map(str, range(size // MOST_JOBS // 8)), 1)] * MOST_JOBS
    ),
    "tags of jobs": lambda size: batch(
        [{"Tags": [1] * (size // MOST_JOBS // 2)}] * MOST_JOBS, **BASE
    ),
    "a template of faults": lambda size: batch(
        [{"TrainingJobName": f"job-{n}"} for n in range(size // 2_000)],
        **dict.fromkeys(map(str, range(size // 100)), 1),
    ),
    "patches of a template": lambda size: batch(
        [{"HyperParameters": {f"k{n}": None}} for n in range(MOST_JOBS)],
        **{**BASE, "HyperParameters": {f"k{n}": "v" for n in range(size // 1_000)}},
    ),
}


@pytest.mark.parametrize("shape", BATCHES.values(), ids=BATCHES.keys())
def test_a_batch_is_read_by_linear_work(shape: Shape):
    assert_linear(parse_batch, shape, MAX_BODY)


CHANGES: dict[str, Shape] = {
    "tags": lambda size: f'{{"tags":{{{repeated(member(TEXT), size - 20)}}}}}',
    "tags of a wrong type": lambda size: f'{{"tags":{{{repeated(member("1"), size - 20)}}}}}',
    "resources": lambda size: f'{{"resources":{{{repeated(member("1"), size - 20)}}}}}',
    "unknown": lambda size: f"{{{repeated(member('1'), size - 2)}}}",
}


POOL = {"name": "main", "capacity": 2, "instance_type": "ml.p4d.24xlarge"}


def configuration(**sections: Any) -> str:
    return json.dumps({"configuration": {"pools": [POOL], **sections}})


def of_a_project(part: Callable[[int], Any], characters: int = 20) -> Shape:
    """A document with one project of so large a part."""
    return lambda size: configuration(projects=[{"name": "a", **part(size // characters)}])


DOCUMENTS: dict[str, Shape] = {
    "pools": lambda size: configuration(pools=[{"a": 1}] * (size // 11)),
    "projects": lambda size: configuration(projects=[{}] * (size // 5)),
    "departments that are not there": lambda size: configuration(
        projects=[{"name": f"p{n}", "department": f"x{n}"} for n in range(size // 500)],
        departments=[{"name": f"d{n}"} for n in range(size // 2500)],
    ),
    "sections": lambda size: configuration(**{f"projectz{n}": 1 for n in range(size // 22)}),
    "keys": of_a_project(lambda n: {f"quotz{i}": 1 for i in range(n)}),
    "pools of a quota": of_a_project(lambda n: {"quota": {f"p{i}": 1 for i in range(n)}}),
    "resources of a quota": of_a_project(
        lambda n: {"quota": {"main": {f"p{i}": 1 for i in range(n)}}}
    ),
    "one pool always": of_a_project(lambda n: {"pools": ["main"] * n}),
    "patterns of stars": of_a_project(lambda n: {"members": ["*" * 500] * n}, 505),
    "patterns": of_a_project(lambda n: {"members": ["a"] * n}, 5),
    "pools that are not there": lambda size: configuration(
        pools=[{**POOL, "name": f"m{n}"} for n in range(size // 3000)],
        projects=[{"name": "a", "pools": [f"p{n}" for n in range(size // 13)]}],
    ),
    "people that are not there": lambda size: configuration(
        users=[{"name": f"u{n}"} for n in range(size // 600)],
        classes=[
            {"name": f"C{i}", "value": i, "chosen_by": [f"z{n}" for n in range(size // 1200)]}
            for i in range(100)
        ],
    ),
    "fields that are not there": of_a_project(
        lambda n: {"requests": {"fixed": {f"z{i}": 1 for i in range(n)}}}
    ),
    "a long pattern": of_a_project(lambda n: {"members": ["*a" * n]}, 2),
    "a long key": of_a_project(lambda n: {"quota": {"p" * n: 1}}, 1),
}


@pytest.mark.parametrize("shape", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_configuration_is_read_by_linear_work(shape: Shape):
    assert_linear(parse_configuration, lambda size: shape(size - 500), MAX_BODY)
    with pytest.raises(InvalidRequest) as refused:
        parse_configuration(shape(MAX_BODY - 500))
    assert len(refused.value.message) < 20_000


@pytest.mark.parametrize("read", [parse_amendment, parse_pool])
@pytest.mark.parametrize("shape", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_read_by_linear_work(read: Callable[[Any], object], shape: Shape):
    assert len(shape(MAX_BODY)) <= MAX_BODY
    assert_linear(read, shape, MAX_BODY)


# --- paths and queries


def asked(**parts: Any) -> dict[str, Any]:
    return {**sample("list-jobs"), **parts}


REQUESTS: dict[str, Shape] = {
    "a path": lambda size: asked(path="/jobs/" + "a" * size, resource="/{proxy+}"),
    "slashes": lambda size: asked(path="/jobs/a" + "/" * size + "x", resource="/{proxy+}"),
    "hyphens": lambda size: asked(path="/jobs/" + "-" * size, resource="/{proxy+}"),
    "states": lambda size: query(state=",".join(["pending"] * (size // 8))),
    "empty states": lambda size: query(state="," * size),
    "a limit": lambda size: query(limit="0" * 9 + "1" * (size - 9)),
    "a moment": lambda size: query(since="2026-11-20T10:30:00." + "1" * size + "Z"),
    "a moment without end": lambda size: query(since="2026-11-20T10:30:00+" + ":00" * (size // 3)),
    "keys": lambda size: query(**dict.fromkeys(map(str, range(size // 8)), "1")),
}


def query(**parameters: str) -> dict[str, Any]:
    several = {key: [value] for key, value in parameters.items()}
    return asked(queryStringParameters=parameters, multiValueQueryStringParameters=several)


@pytest.mark.parametrize("shape", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_path_or_query_is_read_by_linear_work(account: Account, shape: Shape):
    assert_linear(account.call, shape, LARGEST_QUERY)
    assert account.call(shape(LARGEST_QUERY))[0] < 500


# --- events and answers of SageMaker


def event(**detail: Any) -> dict[str, Any]:
    told = {"TrainingJobName": "job1", "TrainingJobStatus": "Failed", **detail}
    return {"source": "aws.sagemaker", "detail": told}


EVENTS: dict[str, Shape] = {
    "a reason": lambda size: event(FailureReason="x" * size),
    "a reason that begins again": lambda size: event(FailureReason="CapacityError" * (size // 13)),
    "limits without end": lambda size: event(FailureReason="service limit '" * (size // 15)),
    "limits that end": lambda size: event(FailureReason="service limit 'a'" * (size // 17)),
    "a time of digits": lambda size: event(CreationTime="1" * size),
    "a time of digits and a point": lambda size: event(LastModifiedTime="1." + "1" * size),
    "a status": lambda size: event(TrainingJobStatus="Stopped" * (size // 7)),
    "a secondary status": lambda size: event(SecondaryStatus="MaxRuntime" * (size // 10)),
    "a name": lambda size: event(TrainingJobName="a-" * (size // 2)),
    "tags": lambda size: event(Tags=dict.fromkeys(map(str, range(size // 10)), "v")),
}


@pytest.mark.parametrize("shape", EVENTS.values(), ids=EVENTS.keys())
def test_an_event_is_read_by_linear_work(shape: Shape):
    assert_linear(lambda it: observation_of_event(it, at=0), shape, LARGEST_EVENT)


ERRORS: dict[str, Shape] = {
    "a code": lambda size: ("w" * size, ""),
    "a text": lambda size: ("ResourceLimitExceeded", "x" * size),
    "a limit": lambda size: ("ResourceLimitExceeded", "service limit '" * (size // 15)),
    "digits": lambda size: ("ResourceLimitExceeded", "service limit 'a' is " + "1" * size),
    "a status": lambda size: ("ValidationException", "job is in status " * (size // 17)),
}


@pytest.mark.parametrize("rows", [CREATE, STOP], ids=["create", "stop"])
@pytest.mark.parametrize("shape", ERRORS.values(), ids=ERRORS.keys())
def test_an_error_of_sagemaker_is_read_by_linear_work(rows: Any, shape: Shape):
    assert_linear(lambda it: verdict_on(rows, code=it[0], text=it[1]), shape, MAX_BODY)


# --- what is withheld


def quoted(values: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """SageMaker's refusal that quotes all of them, and their request."""
    parameters = {f"p{n}": value for n, value in enumerate(values)}
    told = ", ".join(f"{key}={value}" for key, value in parameters.items())
    text = f"Value '{{{told}}}' at 'hyperParameters' failed to satisfy constraint: …"
    return text, {"HyperParameters": parameters}


def staircase(size: int, last: str) -> dict[str, Any]:
    """Values, each beginning like the next."""
    steps = int((2 * size) ** 0.5)
    return {"HyperParameters": {str(n): "a" * n + last for n in range(4, steps)}}


TOLD: dict[str, Shape] = {
    "many values": lambda size: quoted(f"value-{n:06}" for n in range(size // 24)),
    "tiny values": lambda size: quoted(f"{n:05}" for n in range(size // 14)),
    "one value": lambda size: quoted(["a" * size + "b"]),
    "many forms": lambda size: quoted(f"\"é'\\{n}" for n in range(size // 15)),
    "one letter against a staircase": lambda size: ("a" * size, staircase(size, "b")),
    "steps against the staircase": lambda size: (
        ("a" * 40 + "b") * (size // 41),
        staircase(size, ""),
    ),
    "long steps against the staircase": lambda size: (
        ("a" * 100 + "b") * (size // 101),
        staircase(size, "A"),
    ),
    "quotes that begin": lambda size: ("Value '" * (size // 7), {}),
    "botocore's quotes that begin": lambda size: (", value: " * (size // 9), {}),
    "commands that begin": lambda size: ('Command "' * (size // 9), {}),
    "exit codes": lambda size: ('Command "' + ", exit code: 1" * (size // 14) + "x", {}),
    "one exit code": lambda size: ('Command "a", exit code: ' + "1" * size + "x", {}),
}


READS: dict[str, tuple[Callable[[Any], object], dict[str, Shape], int]] = {
    "submission": (parse_submission, BODIES, MAX_BODY),
    "batch": (parse_batch, BATCHES, LARGEST_BODY - 10_000),
    "configuration": (parse_configuration, DOCUMENTS, MAX_BODY - 500),
    "amendment": (parse_amendment, CHANGES, MAX_BODY),
    "pool": (parse_pool, CHANGES, MAX_BODY),
    "event": (lambda it: observation_of_event(it, at=0), EVENTS, LARGEST_EVENT),
    "refused create": (lambda it: verdict_on(CREATE, code=it[0], text=it[1]), ERRORS, MAX_BODY),
    "refused stop": (lambda it: verdict_on(STOP, code=it[0], text=it[1]), ERRORS, MAX_BODY),
    "secrets": (lambda it: without_secrets(*it), TOLD, LONGEST_TEXT),
}
"""What reads each kind of input, and its largest size, for `make bench`."""


@pytest.mark.parametrize("shape", TOLD.values(), ids=TOLD.keys())
def test_secrets_are_withheld_by_linear_work(shape: Shape):
    assert_linear(lambda it: without_secrets(*it), shape, LONGEST_TEXT)


def test_only_the_longest_text_is_searched():
    text, request = TOLD["many values"](LONGEST_TEXT)
    calls = [cost(lambda it: without_secrets(it, request), text * n).calls for n in (4, 4, 8)]
    assert calls[1] == calls[2]  # The first does what is done once and kept.


def test_the_refusal_that_once_took_25_seconds_costs_little():
    """Each of the 4,000 secrets was searched for in the whole text."""
    text, request = quoted(f"secret{n:05}" for n in range(4000))
    assert len(json.dumps(request)) > 67_000
    work = cost(lambda it: without_secrets(it, request), text)
    assert work.characters < 100 * len(text)
    assert work.calls < 10 * len(text)


def test_the_whole_course_of_that_submission_costs_little(account: Account, monkeypatch):
    monkeypatch.setattr(app, "sagemaker_client", lambda: QuotingClient(account.plane))
    forget()
    _, hostile = quoted(f"secret{n:05}" for n in range(4000))
    account.call(add_job(TrainingJobName="hostile", **hostile))
    account.call(add_job(TrainingJobName="neighbour", HyperParameters=None, Environment=None))
    work = cost(lambda _: account.settle(), None)
    assert work.calls < 10_000_000
    assert account.state("neighbour") == "running"
    assert account.state("hostile") == "failed"
    told = account.job("hostile")["message"]
    assert "at 'hyperParameters' failed to satisfy constraint" in told
    assert "secret0" not in told


# --- what is kept


def test_a_stored_request_is_read_by_few_calls():
    request = {**BASE, "Environment": dict.fromkeys(map(str, range(70_000)), "x")}
    assert unpack(pack(request)) == request
    work = cost(unpack, pack(request))
    assert work.calls < 1_000


@pytest.mark.parametrize("zeros", [MAX_UNPACKED + 1, 400_000_000], ids=["a byte", "400 MB"])
def test_a_request_that_decompresses_beyond_the_limit_is_refused(account: Account, zeros: int):
    account.call("add-job")
    (item,) = [it for it in account.items() if it["sk"]["S"] == "REQUEST"]
    bomb = zlib.compress(b" " * zeros)
    item["jobDetails"] = {"B": bomb}
    account.dynamodb.put_item(TableName="sagemaker-queue", Item=item)
    assert account.call("get-request")[0] == 500
    with pytest.raises(ValueError, match="larger than 4,000,000 bytes"):
        unpack(bomb)


def test_a_truncated_compressed_request_is_refused():
    with pytest.raises(ValueError, match="cut"):
        unpack(pack(BASE)[:-8])


def test_an_odd_event_raises_only_refusals():
    """`assert_linear` only lets refusals pass; other errors fail."""
    with pytest.raises(NotUnderstood):
        observation_of_event({}, at=0)
