"""Nobody gains rights through the queue that they lack: what docs/security.md says, tried out."""

import json

import pytest

from slotq_core.adapters.sagemaker import QUEUE_TAG
from tests.functional.account import Account, add_job, forget, sample

ALLOWED = json.loads(sample("add-job")["body"])["RoleArn"]
ADMIN = "arn:aws:iam::123456789012:role/Admin"
RESEARCH = "arn:aws:iam::123456789012:role/Research"
CALLER = "arn:aws:sts::123456789012:assumed-role/DataScientist/ada"


@pytest.fixture
def guarded(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """As the template sets it up: with the roles that the parameters name."""
    monkeypatch.setenv("SLOTQ_EXECUTION_ROLES", f"{ALLOWED},{RESEARCH}")
    callers = "arn:aws:sts::123456789012:assumed-role/Researcher/*"
    monkeypatch.setenv("SLOTQ_ROLE_USERS", f"{RESEARCH}={callers}")
    forget()
    return account


def signed_by(event: dict, caller: str) -> dict:
    event["requestContext"]["identity"]["userArn"] = caller
    return event


@pytest.mark.parametrize(
    "role", [ADMIN, ADMIN.replace("Admin", "*"), ALLOWED.upper(), f"{ALLOWED} ", "", None]
)
def test_a_role_that_the_queue_does_not_pass_is_refused_with_the_list(guarded: Account, role):
    status, told = guarded.call(add_job(RoleArn=role))
    assert (status, told["code"], told["field"]) == (400, "role_not_allowed", "RoleArn")
    assert ALLOWED in told["message"]
    assert RESEARCH not in told["message"], "is not for this caller"
    guarded.settle()
    assert guarded.plane.calls["CreateTrainingJob"] == 0
    assert guarded.call("list-jobs")[1]["jobs"] == []


def test_a_role_that_is_named_runs(guarded: Account):
    assert guarded.call("add-job")[0] == 202
    guarded.settle()
    assert guarded.state("job1") == "running"


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        (CALLER, 400),
        (CALLER.replace("DataScientist/ada", "Researcher/ada"), 202),
        (CALLER.replace("DataScientist/ada", "NoResearcher/ada"), 400),
        (CALLER.replace("ada", "assumed-role/Researcher/ada"), 400),
    ],
)
def test_a_role_of_some_callers_is_refused_to_others(guarded: Account, caller, status):
    assert guarded.call(signed_by(add_job(RoleArn=RESEARCH), caller))[0] == status


def test_what_the_request_says_of_its_caller_counts_for_nothing(guarded: Account):
    event = add_job(
        RoleArn=RESEARCH, submitter="arn:aws:sts::123456789012:assumed-role/Researcher/x"
    )
    event["headers"]["X-Amzn-Caller"] = "arn:aws:sts::123456789012:assumed-role/Researcher/x"
    assert guarded.call(event)[0] == 400


def test_nobody_marks_a_training_job_as_another_queue_s(guarded: Account):
    """The queue's tags are what its right to stop training jobs hangs on."""
    status, told = guarded.call(add_job(Tags=[{"Key": QUEUE_TAG, "Value": "another"}]))
    assert (status, told["field"]) == (400, "Tags")


def test_the_training_job_runs_on_the_pool_s_instances_whatever_is_asked(guarded: Account):
    """A pool is chosen by name; the type in the request is not what runs."""
    resources = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    pools = [{"Key": "slotq:pools", "Value": "main"}]
    assert guarded.call(add_job(ResourceConfig=resources, Tags=pools))[0] == 202
    guarded.settle()
    found = guarded.plane.handle("DescribeTrainingJob", {"TrainingJobName": "job1"})
    assert found["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"


def test_a_bad_setting_of_roles_lets_nobody_in(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_EXECUTION_ROLES", "arn:aws:iam::123456789012:role/*")
    forget()
    assert account.call("add-job")[0] == 500
    assert not [item for item in account.items() if item["pk"]["S"].startswith("JOB#")]
