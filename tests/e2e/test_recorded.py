"""The calls that real packages have made, played again: `make ecosystem` records them.

Each operation with just these members is answered for a job of the queue.
"""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest
from botocore import xform_name

import slotq
from slotq_core.names import LOG_GROUP
from tests.e2e.test_boto3 import request
from tests.e2e.waiting import until

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_what_a_package_calls_is_answered(aws, file):
    session = boto3.Session()
    queue = slotq.install(session)
    clients = {name: session.client(name) for name in ("sagemaker", "logs")}
    name = f"played-{file.stem}"
    wanted = request(aws, name, 29)
    clients["sagemaker"].create_training_job(**wanted)
    until(lambda: queue.jobs.view(name).state == "completed", f"{name} has not completed")
    (stream,) = clients["logs"].describe_log_streams(
        logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/"
    )["logStreams"]
    place = {"logGroupName": LOG_GROUP, "logStreamName": stream["logStreamName"]}
    whole = clients["logs"].get_log_events(**place, startFromHead=True)
    filled = {
        "NAME": name,
        "NAME/": f"{name}/",
        "STREAM": stream["logStreamName"],
        "TOKEN": whole["nextForwardToken"],
        "TIME": whole["events"][0]["timestamp"],
    }
    answered = {}
    for call in json.loads(file.read_text()):
        service = "logs" if "Log" in call["operation"] else "sagemaker"
        sent = {key: filled.get(str(value), value) for key, value in call["sent"].items()}
        if call["operation"] == "CreateTrainingJob":
            assert call["sent"].keys() <= {*wanted, "Tags", "Environment"}
            sent = {**wanted, "TrainingJobName": f"{name}-2"}
        answer = getattr(clients[service], xform_name(call["operation"]))(**sent)
        answered[call["operation"]] = answer
    assert answered["DescribeTrainingJob"]["TrainingJobName"] == name
    assert len([event for event in whole["events"] if event["message"].startswith("step")]) == 29
    assert "CreateTrainingJob" in answered


def test_packages_are_recorded():
    assert "airflow" in [file.stem for file in RECORDED]
