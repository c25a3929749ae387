"""What a pool does with a preemptible job that saves no checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.admission.checkpoints import assured, loses_its_work, provided
from slotq_core.errors import CheckpointsRequired
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState, Workload
from slotq_core.model.pools import CheckpointRule, Pool
from slotq_core.names import without_provided_checkpoints
from slotq_core.timestamps import from_iso

WARN, PROVIDE, REQUIRE = CheckpointRule

JOB = Job(
    name="train",
    state=JobState.PENDING,
    priority=0,
    entry_time=from_iso("2026-11-22T10:30:00Z"),
    demand=Demand(slots=1),
    pools=("a", "b"),
    checkpoints=False,
)
OUTPUT = {"TrainingJobName": "train", "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"}}


def pools(*rules: CheckpointRule) -> list[Pool]:
    return [
        Pool(name=name, instance_type="ml.p5", capacity=Demand(slots=1), checkpoints=rule)
        for name, rule in zip("abc", rules, strict=False)
    ]


@pytest.mark.parametrize(
    ("rules", "outcome"),
    [
        ((WARN, WARN), False),
        ((WARN, PROVIDE), True),
        ((PROVIDE, WARN), True),
        ((REQUIRE, PROVIDE), None),
        ((WARN, REQUIRE), None),
        ((WARN, WARN, REQUIRE), False),  # The job does not accept the third.
    ],
)
def test_of_a_jobs_pools_the_strictest_counts(rules, outcome: bool | None):
    """None: refused; else whether the job has checkpoints."""
    if outcome is None:
        with pytest.raises(CheckpointsRequired):
            assured(JOB, pools(*rules))
    else:
        assert assured(JOB, pools(*rules)).checkpoints is outcome


@pytest.mark.parametrize(
    "safe",
    [
        {"checkpoints": True},
        {"preemptible": False},
        {"workload": Workload.INTERACTIVE},
        {"workload": Workload.INFERENCE},
    ],
    ids=str,
)
def test_jobs_that_lose_nothing_are_not_asked(safe):
    job = replace(JOB, **safe)
    assert not loses_its_work(job)
    assert assured(job, pools(REQUIRE, REQUIRE)) == job


def test_the_refusal_says_what_to_do():
    with pytest.raises(CheckpointsRequired) as refused:
        assured(JOB, pools(REQUIRE, WARN))
    assert refused.value.field == "CheckpointConfig"
    for part in ("pool a takes", "checkpoint_s3_uri", "slotq:preemptible=false", "slotq:pools=b"):
        assert part in refused.value.message
    with pytest.raises(CheckpointsRequired, match="pools a, b take") as refused:
        assured(JOB, pools(REQUIRE, REQUIRE))
    assert "slotq:pools" not in refused.value.message


def test_a_place_lies_below_the_output_and_is_the_jobs_alone():
    place = provided(OUTPUT, JOB)["CheckpointConfig"]["S3Uri"]
    assert place == "s3://bucket/out/slotq-checkpoints/train/20261122T103000"
    others = replace(JOB, name="other"), replace(JOB, entry_time=JOB.entry_time + 1000)
    assert place not in [provided(OUTPUT, job)["CheckpointConfig"]["S3Uri"] for job in others]


def test_a_local_path_without_a_place_stays():
    request = {**OUTPUT, "CheckpointConfig": {"LocalPath": "/opt/ml/mine"}}
    assert provided(request, JOB)["CheckpointConfig"]["LocalPath"] == "/opt/ml/mine"


@pytest.mark.parametrize(
    "output",
    [
        {},
        {"S3OutputPath": ""},
        {"S3OutputPath": "file:///x"},
        {"S3OutputPath": "s3://b/" + "x" * 1000},
    ],
    ids=["none", "empty", "no bucket", "too long"],
)
def test_where_nothing_can_lie_the_job_is_refused(output):
    with pytest.raises(CheckpointsRequired, match="S3OutputPath"):
        provided({"TrainingJobName": "train", "OutputDataConfig": output}, JOB)


def test_a_clone_leaves_a_provided_place_to_its_job():
    assert without_provided_checkpoints(provided(OUTPUT, JOB)) == OUTPUT
    own = {**OUTPUT, "CheckpointConfig": {"S3Uri": "s3://bucket/mine"}}
    assert without_provided_checkpoints(own) is own
