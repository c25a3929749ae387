"""Nobody gains rights through the queue, as docs/security.md promises."""

import json

import pytest

from slotq_core.names import QUEUE_TAG
from tests.functional.account import Account, add_job, forget, sample

ALLOWED = json.loads(sample("add-job")["body"])["RoleArn"]
ADMIN = "arn:aws:iam::123456789012:role/Admin"
RESEARCH = "arn:aws:iam::123456789012:role/Research"
CALLER = "arn:aws:sts::123456789012:assumed-role/DataScientist/ada"


@pytest.fixture
def guarded(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """The queue as the template sets it up, with the roles that the parameters name."""
    monkeypatch.setenv("SLOTQ_EXECUTION_ROLES", f"{ALLOWED},{RESEARCH}")
    callers = "arn:aws:sts::123456789012:assumed-role/Researcher/*"
    monkeypatch.setenv("SLOTQ_ROLE_USERS", f"{RESEARCH}={callers}")
    forget()
    return account


def signed_by(event: dict, caller: str) -> dict:
    event["requestContext"]["identity"]["userArn"] = caller
    return event


@pytest.mark.parametrize(
    "role", [ADMIN, ADMIN.replace("Admin", "*"), ALLOWED.upper(), f"{ALLOWED} "]
)
def test_a_role_that_the_queue_may_not_pass_is_refused_with_the_list(guarded: Account, role):
    status, told = guarded.call(add_job(RoleArn=role))
    assert (status, told["code"], told["field"]) == (400, "role_not_allowed", "RoleArn")
    assert ALLOWED in told["message"]
    assert RESEARCH not in told["message"], "is not for this caller"
    guarded.settle()
    assert guarded.plane.calls["CreateTrainingJob"] == 0
    assert guarded.call("list-jobs")[1]["jobs"] == []


@pytest.mark.parametrize("role", ["", None])
def test_a_request_without_a_role_is_malformed(guarded: Account, role):
    status, told = guarded.call(add_job(RoleArn=role))
    assert (status, told["code"], told["field"]) == (400, "invalid_request", "RoleArn")
    assert guarded.call("list-jobs")[1]["jobs"] == []


def test_a_job_runs_with_an_allowed_role(guarded: Account):
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
def test_a_role_for_some_callers_is_refused_to_others(guarded: Account, caller, status):
    assert guarded.call(signed_by(add_job(RoleArn=RESEARCH), caller))[0] == status


def test_claims_in_the_request_about_its_caller_are_ignored(guarded: Account):
    event = add_job(
        RoleArn=RESEARCH, submitter="arn:aws:sts::123456789012:assumed-role/Researcher/x"
    )
    event["headers"]["X-Amzn-Caller"] = "arn:aws:sts::123456789012:assumed-role/Researcher/x"
    assert guarded.call(event)[0] == 400


def test_a_waiting_jobs_role_and_code_cannot_change(guarded: Account):
    guarded.call("add-job")
    before = guarded.call("get-request")[1]["request"]
    for change in ({"RoleArn": ADMIN}, {"tags": {"a": "b"}, "RoleArn": ADMIN}, {"request": {}}):
        event = {**sample("amend-job"), "body": json.dumps(change)}
        assert guarded.call(event)[0] == 400
    assert guarded.call("get-request")[1]["request"] == before
    status, told = guarded.call("amend-job")
    assert status == 200, told
    after = guarded.call("get-request")[1]["request"]
    assert {**after, "Tags": before["Tags"]} == before


PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"
VOLUMES = "arn:aws:kms:us-east-1:123456789012:key/0a1b"


def resources(**more) -> dict:
    return {**json.loads(sample("add-job")["body"])["ResourceConfig"], **more}


@pytest.mark.parametrize(
    ("allowed", "plan", "status"),
    [(PLAN, PLAN, 202), (PLAN, f"{PLAN}-2", 400), ("", PLAN, 400), ("", "", 202)],
)
def test_a_training_plan_that_the_queue_may_not_use_is_refused_with_the_list(
    guarded: Account, monkeypatch, allowed, plan, status
):
    monkeypatch.setenv("SLOTQ_TRAINING_PLANS", allowed)
    forget()
    asked = resources(TrainingPlanArn=plan) if plan else resources()
    answered, told = guarded.call(add_job(ResourceConfig=asked))
    assert answered == status, told
    if status == 400:
        assert (told["code"], told["field"]) == (
            "plan_not_allowed",
            "ResourceConfig.TrainingPlanArn",
        )
        assert (allowed or "none at all") in told["message"]


def test_preferences_give_no_other_instances_or_plans(guarded: Account):
    preferred = [{"InstanceType": "ml.p5.48xlarge", "TrainingPlanArns": [PLAN]}]
    asked = {"VolumeSizeInGB": 1, "InstanceCount": 1, "InstancePreferences": preferred}
    status, told = guarded.call(add_job(ResourceConfig=asked))
    assert (status, told["field"]) == (400, "ResourceConfig")
    assert "slotq:pools" in told["message"]


def test_keys_for_volumes_and_outputs_reach_sagemaker_unchanged(guarded: Account):
    output = {"S3OutputPath": "s3://bucket/out", "KmsKeyId": VOLUMES}
    encrypted = resources(VolumeKmsKeyId=VOLUMES)
    guarded.call(add_job(ResourceConfig=encrypted, OutputDataConfig=output))
    guarded.settle()
    found = guarded.plane.handle("DescribeTrainingJob", {"TrainingJobName": "job1"})
    assert found["ResourceConfig"]["VolumeKmsKeyId"] == VOLUMES
    assert found["OutputDataConfig"]["KmsKeyId"] == VOLUMES


SECRETS = {
    "Environment": {"TOKEN": "s3cr3t"},
    "HyperParameters": {"password": "s3cr3t"},
    "AlgorithmSpecification": {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["train"],
        "ContainerArguments": ["--key", "s3cr3t"],
    },
    "FieldOfTomorrow": "s3cr3t",
}


@pytest.mark.parametrize(
    ("caller", "whole"),
    [
        (CALLER, True),
        (CALLER.replace("/ada", "/another-session"), True),
        (CALLER.replace("DataScientist", "Researcher"), False),
        (CALLER.replace("DataScientist/ada", "DataScientist2/ada"), False),
        (CALLER.replace("123456789012", "210987654321"), False),
        ("arn:aws:iam::123456789012:user/DataScientist", False),
    ],
)
def test_fields_with_secrets_are_shown_only_to_the_submitter(guarded: Account, caller, whole):
    guarded.call(add_job(**SECRETS))
    status, answer = guarded.call(signed_by(sample("get-request"), caller))
    assert status == 200
    assert ("s3cr3t" in json.dumps(answer)) is whole
    assert answer["request"]["ResourceConfig"] == resources()
    assert answer["request"]["AlgorithmSpecification"]["TrainingImage"] == "image"
    assert bool(answer["withheld"]) is not whole
    if not whole:
        assert set(answer["withheld"]) >= {
            "Environment",
            "HyperParameters",
            "AlgorithmSpecification.ContainerArguments",
            "FieldOfTomorrow",
        }


def test_people_who_share_a_role_of_identity_center_see_their_own_requests(guarded: Account):
    """The session name is the identity provider's, so it tells them apart."""
    role = CALLER.replace("DataScientist/ada", "AWSReservedSSO_Research_0a1b")
    guarded.call(signed_by(add_job(**SECRETS), f"{role}/ada"))
    for name, whole in (("ada", True), ("bob", False)):
        _, answer = guarded.call(signed_by(sample("get-request"), f"{role}/{name}"))
        assert ("s3cr3t" in json.dumps(answer)) is whole


def test_an_unsigned_request_is_shown_nothing(guarded: Account):
    guarded.call("add-job")
    status, answer = guarded.call(signed_by(sample("get-request"), ""))
    assert (status, answer["code"]) == (403, "not_signed")


def test_a_request_cannot_set_the_queues_tags(guarded: Account):
    """The queue's right to stop training jobs depends on these tags."""
    status, told = guarded.call(add_job(Tags=[{"Key": QUEUE_TAG, "Value": "another"}]))
    assert (status, told["field"]) == (400, "Tags")


def test_a_training_job_runs_on_its_pools_instances(guarded: Account):
    """A pool is chosen by name, and its instance type replaces the request's."""
    resources = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    pools = [{"Key": "slotq:pools", "Value": "main"}]
    assert guarded.call(add_job(ResourceConfig=resources, Tags=pools))[0] == 202
    guarded.settle()
    found = guarded.plane.handle("DescribeTrainingJob", {"TrainingJobName": "job1"})
    assert found["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"


def test_a_malformed_roles_setting_admits_nobody(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_EXECUTION_ROLES", "arn:aws:iam::123456789012:role/*")
    forget()
    assert account.call("add-job")[0] == 500
    assert not [item for item in account.items() if item["pk"]["S"].startswith("JOB#")]
