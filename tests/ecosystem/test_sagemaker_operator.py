"""Airflow's own SageMakerTrainingOperator, unmodified, under `slotq exec`."""

from __future__ import annotations

import pytest

from slotq import QueueClient
from tests.e2e.test_boto3 import ENDLESS, STOPPED_ONCE, request
from tests.ecosystem.airflow_runs import SLOTQ_EXEC
from tests.ecosystem.recording import recorded_by
from tests.ecosystem.test_airflow import evicted_once, lines_of, running, script

OPERATOR = "airflow.providers.amazon.aws.operators.sagemaker.SageMakerTrainingOperator"
QUICKLY = {"aws_conn_id": "queue", "check_interval": 1, "with_credentials": True}

pytestmark = pytest.mark.ecosystem


@pytest.fixture
def queue():
    return QueueClient()


def test_it_survives_an_eviction_and_prints_each_line_once(aws, airflow, queue):
    name = f"plain-{airflow.name}"
    begun = airflow.begin(
        OPERATOR, under=SLOTQ_EXEC, config=request(aws, name, STOPPED_ONCE), **QUICKLY
    )
    evicted_once(aws, queue, name)
    ran = airflow.ended(begun)
    job = queue.jobs.view(name)
    assert (job.state, job.evictions) == ("completed", 1), ran.printed
    model = ran.result["Training"]["ModelArtifacts"]["S3ModelArtifacts"]
    assert model == job.attempts[-1].artifact
    assert ran.lines == lines_of(aws, queue, name)


def test_a_failure_has_the_jobs_reason(aws, airflow, queue):
    name = f"plain-fails-{airflow.name}"
    wanted = script(aws, name, 'echo "no luck" > /opt/ml/output/failure; exit 3')
    ran = airflow.test(OPERATOR, under=SLOTQ_EXEC, config=wanted, **QUICKLY)
    assert queue.jobs.view(name).state == "failed"
    assert "no luck" in ran.printed
    assert ran.result is None


def test_cancelling_the_job_ends_the_task(aws, airflow, queue):
    name = f"plain-gone-{airflow.name}"
    begun = airflow.begin(OPERATOR, under=SLOTQ_EXEC, config=request(aws, name, ENDLESS), **QUICKLY)
    running(queue, name)
    queue.jobs.cancel(name)
    ran = airflow.ended(begun)
    assert ran.result["Training"]["TrainingJobStatus"] == "Stopped", ran.printed


def test_thirty_lines_are_thirty_lines_and_the_calls_are_recorded(aws, airflow, queue):
    name = f"thirty-{airflow.name}"
    with recorded_by("airflow", aws) as variables:
        ran = airflow.test(OPERATOR, config=request(aws, name, 29), variables=variables, **QUICKLY)
    assert len(ran.lines) == 30, ran.printed
    assert ran.lines == lines_of(aws, queue, name)
