"""The template agrees with the code that runs in it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slotq_core.adapters.dynamodb_table import table_definition, time_to_live
from slotq_core.adapters.settings import history_from_environment, parse_pools
from slotq_core.effects import HANDLER_LIFETIME
from slotq_core.errors import Misconfigured
from tests import cloudformation

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return cloudformation.template()


def test_the_table_is_the_one_that_the_store_knows(template):
    declared = template["Resources"]["Queue"]["Properties"]
    wanted = table_definition("anything")
    assert {**{key: declared[key] for key in wanted}, "TableName": "anything"} == wanted


def test_what_expires_does_so_by_the_attribute_that_the_store_sets(template):
    declared = template["Resources"]["Queue"]["Properties"]["TimeToLiveSpecification"]
    assert declared == time_to_live("anything")["TimeToLiveSpecification"]


def test_the_history_s_days_are_those_that_the_queue_takes(template):
    days = template["Parameters"]["HistoryDays"]
    for value in (days["MinValue"], days["Default"], days["MaxValue"]):
        kept = history_from_environment({"SLOTQ_HISTORY_DAYS": str(value)})
        assert kept == value * 86_400_000
    assert days["Default"] * 86_400_000 == history_from_environment({})
    for value in (days["MinValue"] - 1, days["MaxValue"] + 1):
        with pytest.raises(Misconfigured):
            history_from_environment({"SLOTQ_HISTORY_DAYS": str(value)})


def test_the_default_is_one_pool_of_two_slots(template):
    (pool,) = parse_pools(template["Parameters"]["Pools"]["Default"])
    assert pool.capacity.slots == 2


def test_the_function_ends_before_its_intents_are_taken_for_a_dead_one_s(template):
    timeout = template["Resources"]["QueueManager"]["Properties"]["Timeout"]
    assert timeout * 1000 <= HANDLER_LIFETIME


def test_function_and_layer_follow_one_architecture(template):
    one = {"Ref": "Architecture"}
    resources = template["Resources"]
    assert template["Parameters"]["Architecture"]["Default"] == "arm64"
    assert resources["QueueManager"]["Properties"]["Architectures"] == [one]
    assert resources["CoreLayer"]["Properties"]["CompatibleArchitectures"] == [one]
    assert resources["CoreLayer"]["Metadata"]["BuildArchitecture"] == one


def test_the_layer_has_the_versions_that_the_tests_run_with():
    pins = set(_pins("constraints.txt"))
    layer = _pins("layers/core/python/requirements.txt")
    assert layer
    assert [pin for pin in layer if pin not in pins] == []


def test_the_samconfig_sets_only_parameters_that_there_are(template):
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    for environment in ("dev", "prod"):
        for override in config[environment]["deploy"]["parameters"]["parameter_overrides"]:
            name, _, value = override.partition("=")
            assert name in template["Parameters"]
            allowed = template["Parameters"][name].get("AllowedValues")
            assert allowed is None or value in map(str, allowed)


def _pins(path: str) -> list[str]:
    return re.findall(r"^[a-z0-9-]+==[^ ;\n]+", (ROOT / path).read_text(), re.MULTILINE)
