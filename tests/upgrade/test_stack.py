"""A stack that an earlier version's template has made becomes this one's in place: nothing that
holds something is replaced, and what its deployer said still counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import cloudformation
from tests.upgrade import earlier
from tests.upgrade.conftest import EARLIER
from tests.upgrade.dump import deployed

ROOT = Path(__file__).parents[2]
TOLD = {
    "ExecutionRoleArns": "arn:aws:iam::123456789012:role/service-role/Training_1",
    "VpcEndpointIds": "vpce-0a1b,vpce-2c3d",
}
"""A value that no default provides."""


@pytest.fixture(params=EARLIER)
def stack(request: pytest.FixtureRequest) -> dict[str, Any]:
    recorded: dict[str, Any] = earlier.read(EARLIER[request.param])["stack"]
    return recorded


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return deployed(ROOT)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return cloudformation.template()


def test_stateful_and_shared_resources_are_not_replaced(stack, now, template):
    """Same logical id, type, and properties that CloudFormation replaces a resource for, when the
    deployer changes nothing."""
    resolve = cloudformation.Resolver(template, {})
    for name, resource in stack["resources"].items():
        before, present = (
            {key: value for key, value in found.items() if not _is_left_out(value, resolve)}
            for found in (resource, now["resources"].get(name) or {})
        )
        assert _without_indexes(present) == _without_indexes(before), name


def _is_left_out(value: Any, resolve: cloudformation.Resolver) -> bool:
    return isinstance(value, dict) and "If" in value and resolve(value) is cloudformation.NOTHING


def _without_indexes(resource: dict[str, Any] | None) -> dict[str, Any]:
    """An index can be added or removed in place, with its attributes."""
    indexes = {"GlobalSecondaryIndexes", "AttributeDefinitions"}
    return {key: value for key, value in (resource or {}).items() if key not in indexes}


def test_at_most_one_index_changes_in_an_update(stack, now):
    """DynamoDB adds or removes one index in an update and changes none; an update that needs more
    is rolled back."""
    before, after = (
        {
            each["IndexName"]: each
            for each in version["resources"]["Queue"]["GlobalSecondaryIndexes"]
        }
        for version in (stack, now)
    )
    assert len(before.keys() ^ after.keys()) <= 1
    assert all(after[name] == before[name] for name in before.keys() & after.keys())
    types = [
        {each["AttributeName"]: each["AttributeType"] for each in version["AttributeDefinitions"]}
        for version in (stack["resources"]["Queue"], now["resources"]["Queue"])
    ]
    assert all(types[1][name] == types[0][name] for name in types[0].keys() & types[1].keys())


def test_the_table_outlives_the_stack(template):
    table = template["Resources"]["Queue"]
    assert table["Type"] == "AWS::DynamoDB::Table"
    assert table["DeletionPolicy"] == "RetainExceptOnCreate"  # a failed creation is removed
    assert table["UpdateReplacePolicy"] == "Retain"
    assert table["Properties"]["DeletionProtectionEnabled"] is True
    assert "Condition" not in table


def test_the_deployers_parameters_are_still_accepted(stack, now, template):
    """The version's own samconfig.toml and defaults, and a value for each parameter without one."""
    for name, parameter in stack["parameters"].items():
        assert now["parameters"][name]["Type"] == parameter["Type"]
        assert "Default" in now["parameters"][name] or "Default" not in parameter
        value = str(parameter["Default"]) if "Default" in parameter else TOLD[name]
        assert allowed(template["Parameters"][name], value), name
    for overrides in stack["samconfig"].values():
        for name, _, value in (each.partition("=") for each in overrides):
            assert allowed(template["Parameters"][name], value), name


def allowed(parameter: dict[str, Any], value: str) -> bool:
    if "AllowedValues" in parameter and value not in map(str, parameter["AllowedValues"]):
        return False
    least, most = parameter.get("MinValue", 0), parameter.get("MaxValue")
    if most is not None and not least <= int(value) <= most:
        return False
    listed = parameter["Type"] == "CommaDelimitedList"
    pattern = parameter.get("AllowedPattern", ".*")
    return all(re.fullmatch(pattern, each) for each in (value.split(",") if listed else [value]))


def test_an_update_needs_no_new_parameter(stack, now):
    for name in now["parameters"].keys() - stack["parameters"].keys():
        assert "Default" in now["parameters"][name], name


def test_the_stacks_outputs_are_kept(stack, now):
    assert set(stack["outputs"]) <= set(now["outputs"])


def test_every_earlier_version_is_tried():
    """A version's dump is never removed, because somebody has such a table."""
    assert {"2026-11-20-656aad1", "2026-11-20-2e90652"} <= set(EARLIER)
    assert {"2026-11-20-d4e5f3e", "2026-11-20-ee519d4"} <= set(EARLIER)
    assert "0.2.0" in EARLIER
