"""Amounts of resources and properties, as texts."""

from __future__ import annotations

import pytest

from slotq.simulate import load, simulate
from slotq.simulate.report import differences
from slotq_core.errors import InvalidRequest
from slotq_core.wire.document.contents import read
from slotq_core.wire.pool_definition import defined, read_amount
from slotq_core.wire.submission import parse_submission
from tests.least_request import least_request


@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [
        ("gpus", "8", 8),
        ("mem_per_gpu_in_GiB", "16", 16),
        ("mem_per_gpu_in_GiB", "16G", 16),
        ("mem_per_gpu_in_GiB", "16Gi", 16),
        ("mem_per_gpu_in_GiB", "16GiB", 16),
        ("mem_per_gpu_in_GiB", "1T", 1024),
        ("mem_per_gpu_in_GiB", "1025M", 2),
        ("disk_in_MiB", "1G", 1024),
        ("gpus", "8G", None),
        ("mem_per_gpu_in_GB", "16G", None),
        ("mem_per_gpu_in_GiB", "16GB", None),
        ("mem_per_gpu_in_GiB", "16g", None),
        ("mem_per_gpu_in_GiB", "1.5G", None),
        ("mem_per_gpu_in_GiB", "-16G", None),
        ("mem_per_gpu_in_GiB", "", None),
        ("gpus", "1234567890", None),
    ],
)
def test_an_amount_is_a_number_or_a_size(name, text, amount):
    assert read_amount(name, text) == amount


def with_demand(text: str):
    return {**least_request("job1"), "Tags": [{"Key": "slotq:demand", "Value": text}]}


def test_a_submission_may_say_sizes():
    submission, _ = parse_submission(with_demand("gpus=8,mem_per_gpu_in_GiB=16G"))
    assert dict(submission.demand) == {"gpus": 8, "mem_per_gpu_in_GiB": 16, "slots": 1}


@pytest.mark.parametrize(
    "text", ["gpus=8G", "mem_per_gpu_in_GiB=0G", "mem_per_gpu_in_GiB=1000000T"]
)
def test_a_size_that_cannot_be_is_refused(text):
    with pytest.raises(InvalidRequest, match="takes different names with whole numbers"):
        parse_submission(with_demand(text))


def test_a_pool_may_say_sizes_of_names_with_a_unit():
    settings = {"slots": 2, "instance_type": "ml.p5.48xlarge", "resources": {"disk_in_gib": 5}}
    made = defined("p", {**settings, "properties": {"mem_per_gpu_in_GiB": "16G"}})
    assert dict(made.properties) == {"mem_per_gpu_in_GiB": 16}
    for odd in ({"mem_per_gpu_in_GiB": "16X"}, {"nvlink": "1G"}, {"mem_per_gpu_in_GiB": "0G"}):
        with pytest.raises(InvalidRequest, match="must be a whole number from 1"):
            defined("p", {**settings, "properties": odd})


def test_a_configuration_and_a_scenario_may_say_sizes(tmp_path):
    (tmp_path / "sizes.yaml").write_text("""
        pools: [{name: p, capacity: 2, properties: {mem_per_gpu_in_GiB: 16G}}]
        jobs:
          - {name: small, submit_at: 0, runtime: 5, demand: {slots: 1, mem_per_gpu_in_GiB: 16G}}
          - {name: large, submit_at: 0, runtime: 5, demand: {slots: 1, mem_per_gpu_in_GiB: 17G}}
        expect: [{at: end, states: {small: completed, large: refused}}]
    """)
    scenario = load(tmp_path / "sizes.yaml")
    assert differences(scenario, simulate(scenario)) == []
    pools = [{"name": "p", "capacity": 2, "instance_type": "ml.p5.48xlarge"}]
    with pytest.raises(InvalidRequest, match="a whole number from 1"):
        read({"pools": [{**pools[0], "properties": {"nvlink": "1G"}}]})
    (pool,) = read({"pools": [{**pools[0], "properties": {"mem_per_gpu_in_GiB": "2T"}}]}).pools
    assert dict(pool.properties) == {"mem_per_gpu_in_GiB": 2048}
