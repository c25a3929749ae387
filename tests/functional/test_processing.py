"""Processing jobs in a pool of their own, through the real handler: names, starts, stops, ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.account import Account, add_job, sample
from tests.functional.test_pools import set_pool

M5 = "ml.m5.xlarge"
POOL = {"slots": 2, "instance_type": M5, "work": "processing"}
SECOND = 1_000
JOB = "processing:clean"


@pytest.fixture
def account(account: Account) -> Account:
    """Two slots for training in `main`, and two for processing in `data`."""
    status, told = account.call(set_pool(POOL, "data"))
    assert status == 200, told
    return account


def processing_body(name: str = "clean", **changes: Any) -> dict[str, Any]:
    cluster = {"InstanceCount": 1, "InstanceType": M5, "VolumeSizeInGB": 30}
    return {
        "ProcessingJobName": name,
        "ProcessingResources": {"ClusterConfig": cluster | changes.pop("cluster", {})},
        "AppSpecification": {
            "ImageUri": "clean:1",
            "ContainerEntrypoint": ["python3", "/opt/ml/processing/input/code/clean.py"],
        },
        "RoleArn": json.loads(sample("add-job")["body"])["RoleArn"],
        "NetworkConfig": {"EnableNetworkIsolation": True},
        "StoppingCondition": {"MaxRuntimeInSeconds": 7_200},
        **changes,
    }


def submit(account: Account, name: str = "clean", **changes: Any) -> tuple[int, Any]:
    event = sample("add-job")
    event["body"] = json.dumps(processing_body(name, **changes))
    return account.call(event)


def call(account: Account, event: str, name: str, **body: Any) -> tuple[int, Any]:
    found = {**sample(event), "path": f"/jobs/{name}"}
    if body:
        found["body"] = json.dumps(body)
    return account.call(found)


def later(account: Account, seconds: float) -> None:
    account.pass_time(round(seconds * SECOND))
    account.settle()


def test_a_processing_job_starts_in_its_pool_and_ends(account: Account):
    status, told = submit(account)
    assert (status, told["name"], told["pools"]) == (202, JOB, ["data"])
    assert told["preemptible"] is False
    account.settle()
    assert account.state(JOB) == "running"
    assert account.plane.calls["CreateProcessingJob"] == 1
    assert account.plane.calls["CreateTrainingJob"] == 0
    made = account.plane.handle("DescribeProcessingJob", {"ProcessingJobName": "clean"})
    asked = processing_body()
    assert {key: made[key] for key in asked} == asked
    later(account, 3_600)
    ended = account.job(JOB)
    assert ended["state"] == "completed"


def test_the_queue_marks_what_it_starts(account: Account):
    submit(account)
    account.settle()
    arn = account.plane.job(JOB).arn  # type: ignore[union-attr]
    assert arn.endswith(":processing-job/clean")
    tags = account.plane.handle("ListTags", {"ResourceArn": arn})["Tags"]
    assert {"Key": "slotq:job", "Value": JOB} in tags


def test_a_training_job_may_have_the_same_name(account: Account):
    for sent in (submit(account), account.call(add_job(TrainingJobName="clean"))):
        assert sent[0] == 202
    account.settle()
    assert (account.state(JOB), account.state("clean")) == ("running", "running")
    _, told = account.call("list-pools")
    assert [pool["used"]["slots"] for pool in told["pools"]] == [1, 1]
    assert [pool["settings"]["work"] for pool in told["pools"]] == ["training", "processing"]


def test_the_pool_orders_its_jobs(account: Account):
    for name, priority in (("low", "1"), ("high", "5"), ("next", "3")):
        tags = [{"Key": "priority", "Value": priority}]
        assert submit(account, name, cluster={"InstanceCount": 2}, Tags=tags)[0] == 202
    account.settle()
    assert account.state("processing:high") == "running"
    waits = account.job("processing:next")
    assert (waits["place"], waits["reason"]["code"]) == (1, "no_free_slots")
    later(account, 3_600)
    assert account.state("processing:next") == "running"


def test_only_who_says_so_is_evicted_and_starts_again(account: Account):
    tags = [{"Key": "slotq:preemptible", "Value": "true"}]
    assert submit(account, "first", cluster={"InstanceCount": 2}, Tags=tags)[0] == 202
    account.settle()
    tags = [{"Key": "priority", "Value": "9"}]
    assert submit(account, "urgent", cluster={"InstanceCount": 2}, Tags=tags)[0] == 202
    account.settle()
    later(account, 130)
    assert account.state("processing:urgent") == "running"
    assert account.state("processing:first") == "preempted"
    assert account.plane.calls["StopProcessingJob"] == 1
    later(account, 3_600)
    again = account.job("processing:first")
    assert (again["state"], len(again["attempts"])) == ("running", 2)
    name = again["training_job"]
    assert name.startswith("processing:first-qstamp-2-")
    assert account.plane.job(name) is not None
    assert submit(account, "last", cluster={"InstanceCount": 2})[0] == 202


def test_a_cancel_stops_it(account: Account):
    submit(account)
    account.settle()
    status, _ = call(account, "cancel-job", JOB)
    assert status == 200
    later(account, 130)
    assert account.state(JOB) == "cancelled"
    assert account.plane.job(JOB).status == "Stopped"  # type: ignore[union-attr]


def test_its_maximum_runtime_is_its_own_end(account: Account):
    submit(account, StoppingCondition={"MaxRuntimeInSeconds": 60})
    account.settle()
    later(account, 61)
    later(account, 130)
    ended = account.job(JOB)
    assert (ended["state"], ended["cause"]) == ("failed", "max_runtime")


def test_the_quota_of_processing_jobs_backs_off_its_pool(account: Account):
    account.plane.knobs.turn({"quotas": {f"{M5} for processing job usage": 0}})
    submit(account)
    account.submit("train")
    account.settle()
    assert account.state(JOB) in {"pending", "backoff"}
    _, told = account.call("list-pools")
    main, data = told["pools"]
    assert (main["health"]["errors"], data["health"]["errors"]) == (0, 1)
    assert data["health"]["learned"] == 0
    assert account.state("train") == "running"


def test_a_lost_event_is_found_by_the_listing(account: Account):
    submit(account)
    account.settle()
    account.plane.job(JOB).status = "Completed"  # type: ignore[union-attr]
    later(account, 600)
    account.send("tick")
    account.settle()
    assert account.plane.calls["ListProcessingJobs"] >= 1
    assert account.state(JOB) == "completed"


def test_the_same_submission_again_is_the_same_job(account: Account):
    assert submit(account)[0] == 202
    assert submit(account)[0] == 202
    status, told = submit(account, StoppingCondition={"MaxRuntimeInSeconds": 60})
    assert (status, told["code"]) == (409, "name_taken")


def test_its_request_is_shown_in_its_own_words(account: Account):
    submit(account)
    _, told = call(account, "get-request", f"{JOB}/request")
    assert told["request"] == processing_body()


def test_a_retry_is_a_processing_job(account: Account):
    submit(account, StoppingCondition={"MaxRuntimeInSeconds": 60})
    account.settle()
    later(account, 61)
    later(account, 130)
    body = {"changes": [{"name": JOB, "retry": True}]}
    status, told = account.call({**sample("change-jobs"), "body": json.dumps(body)})
    assert status == 200, told
    account.settle()
    assert account.state(f"{JOB}-r2") == "running"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cluster": {"InstanceType": "ml.c5.large"}}, "no pool has instance type 'ml.c5.large'"),
        ({"Tags": [{"Key": "slotq:pools", "Value": "main"}]}, "of training jobs"),
        ({"Tags": [{"Key": "slotq:gpus", "Value": "2"}]}, "takes whole instances"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/c"}}, "is not a field of CreateProcessingJob"),
        ({"cluster": {"InstanceCount": 0}}, "ProcessingResources.ClusterConfig.InstanceCount"),
        ({"cluster": {"InstanceCount": 3}}, "the job needs 3 slots"),
    ],
)
def test_what_cannot_run_is_refused(account: Account, changes: dict[str, Any], said: str):
    status, told = submit(account, **changes)
    assert status == 400
    assert said in told["message"]


def test_training_jobs_keep_out_of_the_pool(account: Account):
    status, told = account.call(
        add_job(Tags=[{"Key": "slotq:pools", "Value": "data"}], TrainingJobName="t")
    )
    assert status == 400
    assert "of processing jobs" in told["message"]


def test_a_queue_without_such_pools_says_so(account: Account):
    account.call({**sample("remove-pool"), "path": "/pools/data"})
    status, told = submit(account)
    assert status == 400
    assert "no pool holds processing jobs" in told["message"]


@pytest.mark.parametrize(
    "settings",
    [{"capacity_kind": "spot"}, {"keep_warm": 60}, {"nodes": {"gpus": 1}}],
)
def test_such_a_pool_is_on_demand(account: Account, settings: dict[str, Any]):
    status, told = account.call(set_pool(settings, "data"))
    assert status == 400
    assert "a pool of processing jobs has none" in told["message"]


def test_a_pools_kind_of_work_stays(account: Account):
    status, told = account.call(set_pool({"work": "training"}, "data"))
    assert status == 400
    assert "its kind of work stays" in told["message"]


def test_a_queue_that_only_trains_makes_the_same_calls(account: Account):
    account.call({**sample("remove-pool"), "path": "/pools/data"})
    account.submit("train")
    account.settle()
    later(account, 600)
    account.send("tick")
    account.settle()
    assert not [name for name in account.plane.calls if "Processing" in name]
