"""Requests as plain JSON, and settings as tags."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from slotq.errors import InvalidRequest
from slotq.jobs.submission import jsonable, settings_tags, with_tags


def test_settings_become_tags():
    assert settings_tags(
        priority=0, pools=("p5", "p4"), preemptible=False, min_runtime=600, retries=2
    ) == {
        "priority": "0",
        "slotq:pools": "p5,p4",
        "slotq:preemptible": "false",
        "slotq:min-runtime": "600",
        "slotq:retries": "2",
    }
    demand = {"gpus": 8, "mem_per_gpu_in_GiB": 16}
    assert settings_tags(demand=demand) == {"slotq:demand": "gpus=8,mem_per_gpu_in_GiB=16"}
    sizes = {"mem_per_gpu_in_GiB": "16G"}
    assert settings_tags(demand=sizes) == {"slotq:demand": "mem_per_gpu_in_GiB=16"}
    assert settings_tags(demand={}) == {}
    assert settings_tags(pools="p5,p4") == {"slotq:pools": "p5,p4"}
    assert settings_tags() == {}


def test_a_list_of_jobs_becomes_as_many_tags_as_it_needs():
    assert settings_tags(after="a, b", after_any=["c"]) == {
        "slotq:after": "a,b",
        "slotq:after-any": "c",
    }
    names = [f"{'x' * 60}{number:02}" for number in range(9)]
    tags = settings_tags(after=names)
    assert [*tags] == ["slotq:after", "slotq:after-2", "slotq:after-3"]
    assert ",".join(tags.values()).split(",") == names
    assert max(map(len, tags.values())) <= 256
    with pytest.raises(InvalidRequest, match="after names too many jobs for 15 tags"):
        settings_tags(after=[f"{'x' * 60}{number:02}" for number in range(61)])


def test_the_tags_of_one_list_are_replaced_together():
    request = {"Tags": [{"Key": key, "Value": "a"} for key in ("slotq:after", "slotq:after-2")]}
    tags = {"slotq:after": "b"}
    assert with_tags(request, tags) == request
    assert with_tags(request, tags, override=True)["Tags"] == [{"Key": "slotq:after", "Value": "b"}]


def test_an_explicit_tag_overrides_a_setting_unless_forced():
    request = {"Tags": [{"Key": "priority", "Value": "9"}, {"Key": "team", "Value": "a"}]}
    tags = {"priority": "1", "slotq:retries": "2"}
    added = {"Key": "slotq:retries", "Value": "2"}
    assert with_tags(request, tags)["Tags"] == [*request["Tags"], added]
    assert with_tags(request, tags, override=True)["Tags"] == [
        {"Key": "team", "Value": "a"},
        {"Key": "priority", "Value": "1"},
        added,
    ]


def test_both_spellings_of_the_priority_are_one_setting():
    request = {"Tags": [{"Key": "slotq:priority", "Value": "HIGH"}]}
    assert with_tags(request, {"priority": "1"}) == request
    assert with_tags(request, {"priority": "1"}, override=True)["Tags"] == [
        {"Key": "priority", "Value": "1"}
    ]


@pytest.mark.parametrize("tags", [5, "priority", {"priority": "1"}])
def test_what_is_no_list_of_tags_is_left_to_the_check(tags):
    assert with_tags({"Tags": tags}, {"priority": "1"}) == {"Tags": tags}


@pytest.mark.parametrize("tag", ["priority", {"Key": ["priority"], "Value": "1"}, {"Value": "1"}])
def test_what_is_no_tag_stays_beside_the_settings(tag):
    added = {"Key": "priority", "Value": "1"}
    assert with_tags({"Tags": [tag]}, {"priority": "1"}, override=True)["Tags"] == [tag, added]


def test_no_settings_add_no_tags():
    assert with_tags({"a": 1}, {}) == {"a": 1}
    assert with_tags({"Tags": None}, {"priority": "1"})["Tags"] == [
        {"Key": "priority", "Value": "1"}
    ]


def test_none_and_datetimes_become_plain_json():
    summer = timezone(timedelta(hours=2))
    assert jsonable(
        {
            "a": None,
            "b": [datetime(2026, 7, 1, 12, tzinfo=summer), date(2026, 7, 1)],
            "c": ({"d": None, "e": True, "f": 1.5},),
            "g": datetime(2026, 7, 1, 12, tzinfo=UTC),
        }
    ) == {
        "b": ["2026-07-01T10:00:00+00:00", "2026-07-01"],
        "c": [{"e": True, "f": 1.5}],
        "g": "2026-07-01T12:00:00+00:00",
    }


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), float("inf")])
def test_a_value_that_json_cannot_hold_is_named(value):
    with pytest.raises(InvalidRequest, match=r"ResourceConfig\.InstanceCount") as raised:
        jsonable({"ResourceConfig": {"InstanceCount": value}})
    assert raised.value.field == "ResourceConfig.InstanceCount"


def test_a_project_becomes_a_tag():
    assert settings_tags(project="vision") == {"slotq:project": "vision"}
    assert settings_tags(project=None) == {}


def test_the_class_of_a_job_is_a_tag():
    assert settings_tags(workload="interactive") == {"slotq:class": "interactive"}
    assert settings_tags(workload=None) == {}
    with pytest.raises(InvalidRequest, match="training, interactive, inference, not 'batch'"):
        settings_tags(workload="batch")
