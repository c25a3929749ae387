"""The metrics that the emulator finds in a training job's output."""

from __future__ import annotations

import pytest

from slotq.local.container.job_output import MetricsInOutput


@pytest.mark.parametrize(
    ("regex", "lines", "found"),
    [
        ("loss=([0-9.]+)", ["loss=0.5 loss=0.4", "begin", "loss=0.25"], {"loss": 0.25}),
        ("loss=(.*)", ["loss=0.5", "loss=nan", "loss=inf", "loss=none"], {"loss": 0.5}),
        ("loss=([0-9.]+)", ["nothing"], {}),
        ("loss=[0-9]", ["loss=1"], {}),
        ("loss=(", ["loss=("], {}),
        ("loss=(1)?", ["loss="], {}),
    ],
)
def test_the_last_number_counts(regex, lines, found):
    definitions = [{"Name": "loss", "Regex": regex}]
    metrics = MetricsInOutput({"AlgorithmSpecification": {"MetricDefinitions": definitions}})
    for line in lines:
        metrics.line(line)
    assert metrics.found == found


def test_without_definitions_nothing_is_found():
    metrics = MetricsInOutput({})
    metrics.line("loss=1")
    assert metrics.found == {}
