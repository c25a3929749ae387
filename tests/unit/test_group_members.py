"""Members that share a template, and what a sweep may say."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slotq_core.errors import InvalidRequest
from slotq_core.spelling import near_names
from slotq_core.wire.groups.group_submission import parse_group, read_group
from slotq_core.wire.groups.members import (
    compacted,
    expanded,
    json_size,
    merged,
    most_expanded,
)
from slotq_core.wire.groups.sweep import LARGEST_SWEEP, SweepBody, sweep_in
from slotq_core.wire.training import training_request
from slotq_core.wire.training.training_request import MOST_UNKNOWN
from tests.least_request import least_request

KEYS = st.sampled_from("abc")
JSON = st.recursive(
    st.booleans() | st.integers(0, 2) | st.floats(0, 1) | st.sampled_from(["", "x"]),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=3)


def written(value: object) -> str:
    return json.dumps(value, sort_keys=True)


@given(st.lists(OBJECTS, min_size=1, max_size=4))
@example([{"a": [1]}, {"a": [True]}])
@example([{"a": [1]}, {"a": [1.0]}])
@example([{"a": 0.0}, {"a": -0.0}])
@example([{"a": [{"b": 1}]}, {"a": [{"b": True}]}])
def test_a_template_and_its_members_expand_to_the_same_requests(requests):
    template, members = compacted(requests)
    assert written(expanded(template, members)) == written(requests)


@pytest.mark.parametrize(
    ("whole", "patch", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": {"b": 1}}, {"a": None}, {}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ],
)
def test_members_are_merge_patches(whole, patch, result):
    before = written(whole)
    assert merged(whole, patch) == result
    assert written(whole) == before


def test_a_thousand_members_of_one_template_are_a_small_body():
    requests = [
        least_request(f"grid-{n:04d}", HyperParameters={"lr": str(n), "data": "x" * 2000})
        for n in range(1000)
    ]
    template, members = compacted(requests)
    body = json.dumps({"name": "g", "max_parallel": 1, "template": template, "members": members})
    assert len(body) < 150_000, "with the members that are written whole"
    assert parse_group(body)[1][7][1] == requests[7]


def test_the_digest_is_the_same_with_and_without_a_template():
    requests = [least_request(name) for name in ("a", "b")]
    template, members = compacted(requests)
    rest = {"name": "g", "max_parallel": 1}
    plain = parse_group(json.dumps({**rest, "members": requests}))
    short = parse_group(json.dumps({**rest, "members": members, "template": template}))
    assert plain[1:] == short[1:]


def group_of(template: dict[str, Any], number: int, **rest: Any) -> str:
    named = [{"TrainingJobName": f"m{n}"} for n in range(number)]
    body = {"name": "g", "max_parallel": 1, "template": template, "members": named} | rest
    return json.dumps(body, separators=(",", ":"))


def with_subnets(number: int) -> dict[str, Any]:
    request = least_request("m")
    del request["TrainingJobName"]
    return {**request, "VpcConfig": {"Subnets": ["s"] * number, "SecurityGroupIds": ["g"]}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (group_of({"a": "x" * 200_000}, 1000), "template"),
        (group_of({"a": "x" * 200_000}, 51), "template"),
        (group_of({"a": "x" * 20_000}, 100), "template"),
        (group_of({"a": "é" * 10_000}, 100), "template"),
        (group_of({}, 1000, after=[f"{'x' * 60}{n:03}" for n in range(45)]), "after"),
        (group_of({}, 1000, after_any=[f"{'x' * 60}{n:03}" for n in range(45)]), "after_any"),
    ],
    ids=["both bounds", "the whole", "times", "times, in bytes", "after", "after_any"],
)
def test_a_body_beyond_1_mb_becomes_at_most_20_times_its_size_and_10_mb(body, field):
    with pytest.raises(InvalidRequest, match="the group would become") as refused:
        read_group(body)
    assert refused.value.field == field


def test_a_body_that_becomes_as_much_as_it_may_is_read():
    members = 1_000
    template = with_subnets(400)
    body = group_of(template, members)
    while json_size(template) * members + len(body) > most_expanded(len(body)):
        template["VpcConfig"]["Subnets"].pop()
        body = group_of(template, members)
    requests = [request for _, request in parse_group(body)[1]]
    assert len(requests) == members
    assert sum(map(json_size, requests)) > 15 * len(body)
    template["VpcConfig"]["Subnets"].extend(["s"] * 4)
    with pytest.raises(InvalidRequest, match="the group would become"):
        read_group(group_of(template, members))


def test_a_sweep_of_ordinary_size_is_read_whoever_has_written_it():
    """A request as the SDK makes it has some three thousand bytes."""
    template = {**least_request("m"), "HyperParameters": {"code": "x" * 3_000}}
    del template["TrainingJobName"]
    assert len(parse_group(group_of(template, 200))[1]) == 200


@given(st.integers(2, 300), st.integers(0, 5_000))
def test_what_the_client_sends_is_within_the_bounds(members, size):
    requests = [least_request(f"m{n}", HyperParameters={"a": "x" * size}) for n in range(members)]
    template, differences = compacted(requests)
    body = {"name": "g", "max_parallel": 1, "template": template, "members": differences}
    text = read_group(json.dumps(body, separators=(",", ":")))
    assert expanded(template, text.body.members) == requests


def calls_of(function: Callable[[], object]) -> int:
    """The Python calls that the function makes."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def test_what_members_share_is_checked_once():
    def cost(subnets: int, members: int) -> int:
        own = [
            {"TrainingJobName": f"m{n}", "Environment": {"OWN": "x" * 2_000}}
            for n in range(members)
        ]
        text = read_group(group_of(with_subnets(subnets), members, members=own))
        return calls_of(text.members)

    base = cost(10, 100)
    assert cost(460, 100) - base < 12 * 450, "450 values in the body are 45,000 in the members"
    assert cost(460, 200) - cost(460, 100) <= 1.1 * (cost(10, 200) - base)


def test_an_unknown_field_that_members_share_is_compared_once(monkeypatch):
    compared = []

    def count(name: str, known: Iterable[str], alike: float) -> list[str]:
        compared.append(name)
        return near_names(name, known, alike)

    monkeypatch.setattr(training_request, "near_names", count)
    template = {**with_subnets(1), **{f"Zz{n:02}": n for n in range(30)}}
    assert len(parse_group(group_of(template, 40))[1]) == 40
    assert len(compared) == 30


def test_members_with_more_unknown_fields_than_a_release_adds_are_refused():
    members = [least_request(f"m{n}", **{f"Zz{n}": 1}) for n in range(MOST_UNKNOWN + 1)]
    body = {"name": "g", "max_parallel": 1, "members": members}
    with pytest.raises(InvalidRequest, match="fields are unknown"):
        parse_group(json.dumps(body))


@pytest.mark.parametrize(
    "much",
    [
        {"sweep": {"parameters": [1] * 200_000}},
        {"sweep": {"parameters": [{str(n): [] for n in range(50_000)}]}},
        {"gang": {str(n): 1 for n in range(50_000)}},
        {str(n): 1 for n in range(50_000)},
    ],
    ids=["trials", "parameters", "rules", "keys"],
)
def test_a_group_of_so_many_faults_that_naming_them_takes_all_memory_is_refused(much):
    body = {"name": "g", "max_parallel": 1, "members": [least_request("a")], **much}
    with pytest.raises(InvalidRequest, match="the limit is 300,000"):
        parse_group(json.dumps(body))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"parameters": [{"lr": 1}]}, "1 entries for 2 members"),
        ({"goal": 0.5}, "a goal needs a metric"),
        ({"parameters": [{"x": "y" * LARGEST_SWEEP}, {}]}, "the limit is 250,000"),
    ],
)
def test_what_a_sweep_may_not_say(body, words):
    with pytest.raises(InvalidRequest, match=words):
        sweep_in(SweepBody(**body), 2)


@pytest.mark.parametrize(
    ("maximize", "value", "reached"),
    [(False, 0.1, True), (False, 0.2, False), (True, 0.2, True), (True, 0.05, False)],
)
def test_a_goal_is_reached_from_its_side(maximize, value, reached):
    sweep = sweep_in(SweepBody(metric="loss", maximize=maximize, goal=0.1), 2)
    assert sweep.reached({"loss": value, "other": 0}) is reached
    assert not sweep.reached({"other": 0.1})
