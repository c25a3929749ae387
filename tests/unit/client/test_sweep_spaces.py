"""What a sweep tries: grids, lists, samplers; the ranges of arrays; and the members' requests."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slotq
from slotq.errors import InvalidRequest
from slotq.sweeps.members import of_array, of_sweep, read_range
from slotq.sweeps.space import Distribution, read_space, trials_of
from tests.least_request import least_request


def test_a_grid_has_every_point_the_last_parameter_changing_fastest():
    assert trials_of({"lr": [0.1, 0.2], "opt": "adam", "batch": [8, 16]}) == [
        {"lr": 0.1, "opt": "adam", "batch": 8},
        {"lr": 0.1, "opt": "adam", "batch": 16},
        {"lr": 0.2, "opt": "adam", "batch": 8},
        {"lr": 0.2, "opt": "adam", "batch": 16},
    ]


def test_a_list_is_taken_as_it_is():
    assert trials_of([{"lr": 1}, {"lr": 2, "x": True}]) == [{"lr": 1}, {"lr": 2, "x": True}]


SAMPLED = {
    "lr": slotq.log_uniform(1e-5, 0.1),
    "dropout": slotq.uniform(0, 0.5),
    "layers": slotq.integer(2, 4),
    "opt": slotq.choice("adam", "sgd"),
    "fixed": 7,
}


def test_a_sampler_gives_the_same_trials_everywhere():
    assert trials_of(SAMPLED, trials=2, seed=1) == [
        {
            "lr": 1.15296127679e-05,
            "dropout": 0.0191832104529,
            "layers": 2,
            "opt": "adam",
            "fixed": 7,
        },
        {"lr": 0.0041215331866, "dropout": 0.299488115587, "layers": 2, "opt": "sgd", "fixed": 7},
    ]


def test_a_sampler_goes_on_from_a_number():
    whole = trials_of(SAMPLED, trials=10, seed=3)
    assert trials_of(SAMPLED, trials=4, seed=3, first=7) == whole[6:]
    assert trials_of(SAMPLED, trials=10, seed=4) != whole


def test_samples_fill_their_range():
    drawn: list[dict[str, Any]] = trials_of(SAMPLED, trials=1000)
    rates = [math.log10(trial["lr"]) for trial in drawn]
    assert -5 <= min(rates) < -4.9
    assert -1.1 < max(rates) <= -1
    assert 0.23 < sum(trial["dropout"] for trial in drawn) / 1000 < 0.27
    for name, values in (("layers", {2, 3, 4}), ("opt", {"adam", "sgd"})):
        count = {value: sum(trial[name] == value for trial in drawn) for value in values}
        assert sum(count.values()) == 1000
        assert min(count.values()) > 0.8 * 1000 / len(values)


@given(st.integers(1, 50), st.integers(0, 500), st.floats(0, 1, exclude_max=True))
def test_a_whole_number_by_its_logarithm_is_within_its_bounds(low: int, more: int, quantile: float):
    drawn = slotq.log_integer(low, low + more).at(quantile)
    assert isinstance(drawn, int)
    assert low <= drawn <= low + more


@given(st.floats(0, 0.999), st.floats(0, 1, exclude_max=True))
def test_a_reverse_logarithm_is_within_its_bounds(low: float, quantile: float):
    drawn: Any = slotq.reverse_log_uniform(low, 0.999).at(quantile)
    assert low - 1e-9 <= drawn <= 0.999 + 1e-9


def test_logarithms_draw_each_power_of_ten_as_often():
    sampler = {
        "width": slotq.log_integer(1, 999),
        "momentum": slotq.reverse_log_uniform(0.9, 0.9999),
    }
    drawn: list[dict[str, Any]] = trials_of(sampler, trials=999)
    for low in (1, 10, 100):
        assert 250 < sum(low <= trial["width"] < 10 * low for trial in drawn) < 420
    for least, most in ((0.9, 0.99), (0.99, 0.999), (0.999, 0.9999)):
        assert 250 < sum(least <= trial["momentum"] < most for trial in drawn) < 420


@given(st.integers(-5, 5), st.integers(0, 5), st.floats(0, 1, exclude_max=True))
def test_a_whole_number_is_within_its_bounds(low: int, more: int, quantile: float):
    drawn = slotq.integer(low, low + more).at(quantile)
    assert isinstance(drawn, int)
    assert low <= drawn <= low + more


@pytest.mark.parametrize(
    ("space", "more", "words"),
    [
        ({}, {}, "space has no parameters"),
        ([], {}, "0 trials"),
        ([1], {}, "one object for each trial"),
        ({"lr": [{"a": 1}]}, {}, "a parameter is a number, a text"),
        ({"lr": [math.nan]}, {}, "a parameter is a number"),
        ({"a": [*range(40)], "b": [*range(40)]}, {}, "1,600 points"),
        ({"lr": [1, 2]}, {"trials": 3}, "trials counts what a sampler draws"),
        ({"lr": [1, 2]}, {"first": 1001}, "first counts what a sampler draws"),
        ({"lr": [10**400]}, {}, "a parameter is a number"),
        ({"lr": slotq.uniform(0, 1)}, {}, "trials takes a whole number from 1"),
        ({"lr": slotq.uniform(0, 1), "x": [1]}, {"trials": 2}, "write choice: "),
        ({"lr": slotq.uniform(0, 1)}, {"trials": 1001}, "another sweep with first: 1,001"),
        ({"lr": slotq.uniform(0, 1)}, {"trials": 2, "seed": "a"}, "seed takes a whole number"),
    ],
)
def test_a_space_that_is_none(space, more, words):
    with pytest.raises(InvalidRequest, match=words):
        trials_of(space, **more)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("lr", "space takes values by parameter"),
        ({"lr": {"normal": [0, 1]}}, "space.lr takes a list of values, or one of uniform"),
        ({"lr": {"uniform": 1}}, "with a list"),
        ({"lr": {"uniform": [1]}}, "uniform takes two numbers"),
        ({"lr": {"uniform": [2, 1]}}, "the smaller first"),
        ({"lr": {"log_uniform": [0, 1]}}, "above 0"),
        ({"lr": {"integer": [1, 2.5]}}, "two whole numbers"),
        ({"lr": {"log_integer": [0, 2]}}, "two whole numbers above 0"),
        ({"lr": {"reverse_log_uniform": [0.5, 1]}}, "two numbers from 0 to below 1"),
        ({"lr": {"choice": []}}, "at least one value"),
        ({"lr": {}}, "space.lr takes a list of values, or one of uniform"),
        ({"lr": {"integer": [0, 10**400]}}, "two whole numbers"),
    ],
)
def test_a_file_that_says_no_space(told, words):
    with pytest.raises(InvalidRequest, match=words):
        read_space(told)


def test_a_file_says_samplers_by_their_names():
    read = read_space({"lr": {"uniform": [0, 1]}, "batch": [8, 16]})
    assert read == {"lr": Distribution(kind="uniform", values=(0, 1)), "batch": [8, 16]}


@pytest.mark.parametrize(
    ("text", "indices", "at_once"),
    [
        ("1-4", (1, 2, 3, 4), 4),
        ("1,3,7", (1, 3, 7), 3),
        ("7,1-3,2", (1, 2, 3, 7), 4),
        ("0-15:4", (0, 4, 8, 12), 4),
        ("1-500%20", tuple(range(1, 501)), 20),
        ("5", (5,), 1),
        (" 1-2%9 ", (1, 2), 9),
    ],
)
def test_ranges_are_slurms(text, indices, at_once):
    read = read_range(text)
    assert (read.indices, read.at_once) == (indices, at_once)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is no index"),
        ("a", "'a' is no index"),
        ("1-", "'1-' is no index"),
        ("-3", "'-3' is no index"),
        ("3-1", "3-1 ends before it begins"),
        ("1-9:0", "the step of 1-9:0 is 0"),
        ("1,,2", "'' is no index"),
        ("1-10%", "after % comes how many run at once"),
        ("1-10%0", "after % comes"),
        ("1-10%x", "not 'x'"),
        (f"1-10%{'9' * 5000}", "after % comes"),
        ("1-1001", "1,001 indices"),
        ("1-900,2000-2900", "1,801 indices"),
        ("1-99999999", "is no index"),
    ],
)
def test_ranges_that_are_none_are_refused_in_a_sentence(text, words):
    with pytest.raises(InvalidRequest, match=words) as refused:
        read_range(text)
    assert "Write 1-10, 1,3,7 or 0-15:4" in refused.value.message


def test_an_array_has_slurms_variables_and_places_of_its_own():
    template = least_request(
        "x",
        HyperParameters={"fold": "{index}"},
        Environment={"WHO": "{name}", "KEPT": "1"},
        CheckpointConfig={"S3Uri": "s3://bucket/checkpoints/"},
    )
    first, last = of_array("cv", template, (3, 12))
    assert (first["TrainingJobName"], last["TrainingJobName"]) == ("cv-3", "cv-12")
    assert last["HyperParameters"] == {"fold": "12"}
    assert last["Environment"] == {
        "WHO": "cv-12",
        "KEPT": "1",
        "SLOTQ_ARRAY_JOB_ID": "cv",
        "SLOTQ_ARRAY_TASK_COUNT": "2",
        "SLOTQ_ARRAY_TASK_MIN": "3",
        "SLOTQ_ARRAY_TASK_MAX": "12",
        "SLOTQ_ARRAY_TASK_ID": "12",
    }
    assert first["CheckpointConfig"] == {"S3Uri": "s3://bucket/checkpoints/cv-3"}
    assert template["HyperParameters"] == {"fold": "{index}"}


def test_a_place_that_names_the_member_stays():
    template = {"CheckpointConfig": {"S3Uri": "s3://bucket/{name}/c"}, "A": ["{index}"]}
    (made,) = of_array("cv", template, (1,))
    assert (made["CheckpointConfig"]["S3Uri"], made["A"]) == ("s3://bucket/cv-1/c", ["1"])


def test_parameters_go_where_their_names_say():
    template = least_request("x", HyperParameters={"epochs": "3"}, Environment={"A": "1"})
    trial: dict[str, Any] = {"lr": 0.1, "opt": "adam", "fast": True, "Environment.SEED": 7}
    trial["ResourceConfig.InstanceCount"] = 2
    (made,) = of_sweep("s", template, {5: trial}, digits=2)
    assert made["TrainingJobName"] == "s-05"
    assert made["HyperParameters"] == {"epochs": "3", "lr": "0.1", "opt": "adam", "fast": "true"}
    assert made["Environment"] == {"A": "1", "SEED": "7"}
    assert made["ResourceConfig"]["InstanceCount"] == 2
    assert template["ResourceConfig"]["InstanceCount"] == 1


def test_a_parameter_replaces_no_list_of_the_template():
    template = {"Tags": [{"Key": "slotq:project", "Value": "vision"}]}
    with pytest.raises(InvalidRequest, match="Tags of the template is no object"):
        of_sweep("s", template, {1: {"Tags.stage": "x"}}, digits=1)
    with pytest.raises(InvalidRequest, match="HyperParameters of the template is no object"):
        of_sweep("s", {"HyperParameters": ["epochs"]}, {1: {"lr": 1}}, digits=1)


def test_the_hyperparameters_of_script_mode_are_json():
    template = {
        "HyperParameters": {
            "sagemaker_submit_directory": '"s3://b/code.tar.gz"',
            "sagemaker_job_name": '"first"',
        }
    }
    (made,) = of_sweep("s", template, {1: {"opt": "adam", "lr": 0.1}}, digits=1)
    assert made["HyperParameters"] == {
        "sagemaker_submit_directory": '"s3://b/code.tar.gz"',
        "sagemaker_job_name": '"s-1"',
        "opt": '"adam"',
        "lr": "0.1",
    }


def test_patterns_of_metrics_keep_their_braces():
    definitions = [{"Name": "loss", "Regex": "{index}=(.*)"}]
    template = {"AlgorithmSpecification": {"MetricDefinitions": definitions}}
    (made,) = of_array("cv", template, (1,))
    assert made["AlgorithmSpecification"] == {"MetricDefinitions": definitions}


def test_a_name_that_gets_too_long_is_refused():
    with pytest.raises(InvalidRequest, match="choose a shorter name"):
        of_array("x" * 60, {}, (1000,))
