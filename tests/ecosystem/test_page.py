"""The DAG of docs/airflow.md, its sensor and its connection, in Airflow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from slotq import QueueClient
from tests.e2e.test_boto3 import request

PAGE = (Path(__file__).parents[2] / "docs" / "airflow.md").read_text()
OF_AIRFLOW_2 = ("from airflow.sdk import DAG", "from airflow import DAG")
DAY = "2026-01-05"

pytestmark = pytest.mark.ecosystem


def block(language, text):
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (one,) = (each for each in found if text in each)
    return one


def test_the_dag_and_the_sensor_run_with_the_pages_connection(aws, airflow, tmp_path):
    aws.client("s3").create_bucket(Bucket="my-bucket")
    queue = QueueClient()
    queue.submit(request(aws, "pretrain-20260105", 1))
    queue.projects.set("vision", {"weight": 1, "members": [queue.service.me().person]})
    extra = json.loads(block("json", "service_config"))
    extra["region_name"] = aws.region
    extra["service_config"]["slotq"]["endpoint_url"] = aws.queue
    dag = block("python", "SlotqTrainingOperator")
    where, sensor = block("python", "SlotqJobSensor").split("\n\n")
    dag = dag.replace('"TrainingInputMode"', '"ContainerEntrypoint": ["true"], "TrainingInputMode"')
    if airflow.name == "airflow2":
        dag = dag.replace(*OF_AIRFLOW_2)
    dag = f"{where}\n{dag}\n    {sensor}"
    (tmp_path / "train.py").write_text(dag)
    key = {"aws_access_key_id": aws.keys.access_key, "aws_secret_access_key": aws.keys.secret_key}
    connection = json.dumps({"conn_type": "aws", "extra": {**extra, **key}})
    variables = {"AIRFLOW_CONN_AWS_DEFAULT": connection}
    variables["AIRFLOW__CORE__DAGS_FOLDER"] = str(tmp_path)
    printed = airflow.run("dags", "test", "nightly", DAY, **variables)
    (job,) = (job for job in queue.jobs() if job.name.startswith("nightly-fit-"))
    assert (job.state, job.priority, job.project) == ("completed", 10, "vision"), printed
    uri = queue.jobs.request(job.name)["CheckpointConfig"]["S3Uri"]
    assert uri == f"s3://my-bucket/checkpoints/{DAY}"
    assert queue.jobs.view("pretrain-20260105").state == "completed"
    assert "successful" in printed
