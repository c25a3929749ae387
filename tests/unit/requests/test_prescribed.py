"""Filling in and checking, as pure functions: nothing is changed in place."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slotq_core.admission.prescribed import broken_rules, prescribed
from slotq_core.model.jobs import Workload
from slotq_core.model.projects import Prescription, Project
from tests.least_request import least_request


@pytest.mark.parametrize(
    ("rules", "changes", "expected"),
    [
        ({"defaults": {"EnableNetworkIsolation": True}}, {}, {"EnableNetworkIsolation": True}),
        (
            {"defaults": {"EnableNetworkIsolation": True}},
            {"EnableNetworkIsolation": False},
            {"EnableNetworkIsolation": False},
        ),
        (
            {"defaults": {"OutputDataConfig": {"S3OutputPath": "s3://a", "KmsKeyId": "k"}}},
            {},
            {"OutputDataConfig": {"S3OutputPath": "s3://bucket/out"}},
        ),
        (
            {"defaults": {"OutputDataConfig.KmsKeyId": "k"}},
            {},
            {"OutputDataConfig": {"S3OutputPath": "s3://bucket/out", "KmsKeyId": "k"}},
        ),
        (
            {"fixed": {"StoppingCondition.MaxRuntimeInSeconds": 60}},
            {"StoppingCondition": {"MaxWaitTimeInSeconds": 90}},
            {"StoppingCondition": {"MaxWaitTimeInSeconds": 90, "MaxRuntimeInSeconds": 60}},
        ),
        (
            {
                "fixed": {"Tags": [{"Key": "b", "Value": "2"}]},
                "defaults": {"Tags": [{"Key": "a", "Value": "1"}]},
            },
            {"Tags": [{"Key": "a", "Value": "0"}, {"Key": "b", "Value": "2"}]},
            {"Tags": [{"Key": "a", "Value": "0"}, {"Key": "b", "Value": "2"}]},
        ),
        ({}, {}, {}),
    ],
)
def test_filling_in(rules: dict[str, Any], changes: dict[str, Any], expected: dict[str, Any]):
    request = least_request("j", **changes)
    before = copy.deepcopy(request)
    filled = prescribed(request, Prescription(**rules))
    assert filled == {**request, **expected}
    assert request == before


def test_at_a_start_only_fixed_values_are_filled_in():
    rules = Prescription(defaults={"RoleArn": "x", "Environment": {}}, fixed={"VpcConfig": {}})
    assert prescribed({}, rules, at_start=True) == {"VpcConfig": {}}


@pytest.mark.parametrize(
    ("fixed", "given", "breaks"),
    [
        (True, True, False),
        (True, False, True),
        (True, 1, True),
        ({"a": 1, "b": [1]}, {"b": [1], "a": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        (["x", "y"], ["y", "x"], True),
    ],
)
def test_equal_means_the_same_json(fixed: Any, given: Any, *, breaks: bool):
    project = Project(name="a", requests=Prescription(fixed={"X": fixed}))
    found = [*broken_rules({"X": given}, project, Workload.TRAINING)]
    assert bool(found) == breaks
