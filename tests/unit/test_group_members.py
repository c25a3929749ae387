"""Members that share a template, and what a sweep may say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotq_core.errors import InvalidRequest
from slotq_core.wire.groups.members import compacted, expanded, merged
from slotq_core.wire.groups.submission import parse_group
from slotq_core.wire.groups.sweep import LARGEST_SWEEP, SweepBody, sweep_in
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
    assert len(body) < 100_000
    assert parse_group(body)[1][7][1] == requests[7]


def test_the_digest_is_the_same_with_and_without_a_template():
    requests = [least_request(name) for name in ("a", "b")]
    template, members = compacted(requests)
    rest = {"name": "g", "max_parallel": 1}
    plain = parse_group(json.dumps({**rest, "members": requests}))
    short = parse_group(json.dumps({**rest, "members": members, "template": template}))
    assert plain[1:] == short[1:]


def test_a_template_that_is_too_large_for_so_many_members_is_refused():
    with pytest.raises(InvalidRequest, match="too much for 1,000 members"):
        expanded({"a": "x" * 200_000}, [{}] * 1000)


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
