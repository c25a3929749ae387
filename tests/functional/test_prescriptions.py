"""What a project prescribes, through the real handler: values, rules, approval, limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import app
from slotq_core.model.callers import Access
from slotq_core.model.pools import CheckpointRule, Pool
from slotq_core.model.projects import Prescription, Project
from slotq_core.model.sharing import Sharing
from tests.functional.account import NOW, Account, sample

MEMBER = "arn:aws:iam::123456789012:user/mia"
ADMIN = "arn:aws:iam::123456789012:user/anna"
ACCESS = Access(members=(MEMBER,), admins=(ADMIN,))
TRAINER = "arn:aws:iam::123456789012:role/SageMakerTraining"
TYPE = "ml.p4d.24xlarge"
VPC = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1", "subnet-2"]}


def share(*more: Project, queue_pools: list[Pool] | None = None, **rules: Any) -> None:
    """Configure a project `vision` with these rules."""
    vision = Project(name="vision", access=ACCESS, requests=Prescription(**rules))
    store = app.manager()._store
    store.configuration.change(
        queue_pools, sharing=Sharing(projects=(vision, *more)), who="test", now=NOW
    )


def event(method: str, path: str, *, by: str = MEMBER, body: Any = None) -> dict[str, Any]:
    made = sample("list-pools")
    made |= {
        "httpMethod": method,
        "path": path,
        "resource": "/{proxy+}",
        "body": None if body is None else json.dumps(body),
    }
    made["requestContext"]["identity"]["userArn"] = by
    return made


def body(name: str = "job1", tags: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A request; a field of None is left out."""
    made = {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "train:1", "TrainingInputMode": "File"},
        "RoleArn": TRAINER,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/team-a"},
        "ResourceConfig": {"InstanceType": TYPE, "InstanceCount": 1},
        "Tags": [{"Key": key, "Value": value} for key, value in (tags or {}).items()],
        **fields,
    }
    return {key: value for key, value in made.items() if value is not None}


def submit(
    account: Account, name: str = "job1", *, by: str = MEMBER, **fields: Any
) -> tuple[int, dict[str, Any]]:
    return account.call(event("POST", "/add-job", by=by, body=body(name, **fields)))


def stored(account: Account, name: str = "job1") -> dict[str, Any]:
    status, view = account.call(event("GET", f"/jobs/{name}/request"))
    assert status == 200, view
    found: dict[str, Any] = view["request"]
    return found


def shown(account: Account, name: str = "job1") -> dict[str, Any]:
    return account.call(event("GET", f"/jobs/{name}"))[1]


def sent(account: Account) -> dict[str, Any]:
    """The request of the latest training job, as SageMaker got it."""
    *_, last = account.plane.jobs()
    found: dict[str, Any] = last.request
    return found


def fields(error: dict[str, Any]) -> list[str]:
    return [fault["path"] for fault in error["faults"]]


def test_defaults_and_fixed_values_are_filled_in_and_stored(account: Account):
    share(
        defaults={
            "RoleArn": TRAINER,
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/vision"},
            "StoppingCondition.MaxRuntimeInSeconds": 3600,
            "Tags": [{"Key": "stage", "Value": "dev"}, {"Key": "owner", "Value": "vision"}],
        },
        fixed={
            "VpcConfig": VPC,
            "EnableNetworkIsolation": True,
            "ResourceConfig.VolumeKmsKeyId": "key-1",
            "Tags": [{"Key": "cost-center", "Value": "42"}],
        },
    )
    status, _ = submit(
        account, RoleArn=None, OutputDataConfig=None, tags={"stage": "prod"}, by=MEMBER
    )
    assert status == 202
    request = stored(account)
    assert request["RoleArn"] == TRAINER
    assert request["OutputDataConfig"] == {"S3OutputPath": "s3://bucket/vision"}
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 3600}
    assert request["VpcConfig"] == VPC
    assert request["EnableNetworkIsolation"] is True
    assert request["ResourceConfig"]["VolumeKmsKeyId"] == "key-1"
    tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
    assert tags.pop("slotq:project") == "vision"
    assert tags == {"stage": "prod", "owner": "vision", "cost-center": "42"}
    account.settle()
    assert sent(account)["VpcConfig"] == VPC


def test_a_missing_field_that_no_project_fills_in_is_refused_with_all_others(account: Account):
    status, error = submit(account, RoleArn=None, OutputDataConfig=None)
    assert (status, error["code"]) == (400, "invalid_request")
    assert fields(error) == ["RoleArn", "OutputDataConfig"]
    share(defaults={"RoleArn": TRAINER})
    status, error = submit(account, RoleArn=None, OutputDataConfig=None)
    assert (status, error["field"]) == (400, "OutputDataConfig")


def test_another_value_than_the_fixed_one_is_refused_with_both(account: Account):
    share(fixed={"VpcConfig": VPC, "Tags": [{"Key": "cost-center", "Value": "42"}]})
    other = {**VPC, "Subnets": ["subnet-9"]}
    status, error = submit(account, VpcConfig=other, tags={"cost-center": "43"})
    assert (status, error["code"]) == (403, "forbidden_by_project")
    assert sorted(fields(error)) == ["Tags", "VpcConfig"]
    for part in ("subnet-9", "subnet-1", "'42'", "'43'", "vision"):
        assert part in error["message"]
    assert submit(account, VpcConfig=VPC, tags={"cost-center": "42"})[0] == 202


def test_a_changed_default_makes_the_same_submission_no_other(account: Account):
    share(defaults={"EnableNetworkIsolation": True})
    assert submit(account)[0] == 202
    share(defaults={"EnableNetworkIsolation": False})
    assert submit(account)[0] == 202
    assert stored(account)["EnableNetworkIsolation"] is True
    status, error = submit(account, EnableNetworkIsolation=True)
    assert (status, error["code"]) == (409, "name_taken"), "that is another submission"


ROLES = {"roles": (f"{TRAINER}-*", TRAINER)}
IMAGES = {"images": ("train", "registry.lab:5000/team-a:1.*")}
OUTPUTS = {"outputs": ("s3://bucket/team-a",)}
TYPES = {"instance_types": {"training": ("ml.p4d.*",), "interactive": ("ml.g5.*",)}}
GROUP = {"InstanceGroupName": "a", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 1}
RULE = {"RuleConfigurationName": "r", "RuleEvaluatorImage": "train:1"}
EVIL_RULE = {"RuleConfigurationName": "e", "RuleEvaluatorImage": "evil"}


def algorithm(image: str | None = "train:1", **fields: Any) -> dict[str, Any]:
    given = {"TrainingInputMode": "File", "TrainingImage": image, **fields}
    return {"AlgorithmSpecification": {k: v for k, v in given.items() if v is not None}}


def output(place: str) -> dict[str, Any]:
    return {"OutputDataConfig": {"S3OutputPath": place}}


def mounted(mode: str) -> dict[str, Any]:
    source = {
        "FileSystemId": "fs-1",
        "FileSystemAccessMode": mode,
        "FileSystemType": "EFS",
        "DirectoryPath": "/",
    }
    channel = {"ChannelName": "c", "DataSource": {"FileSystemDataSource": source}}
    return {"InputDataConfig": [channel]}


def resources(**fields: Any) -> dict[str, Any]:
    return {"ResourceConfig": {"InstanceType": TYPE, "InstanceCount": 1, **fields}}


@pytest.mark.parametrize(
    ("rules", "changes", "field"),
    [
        (ROLES, {"RoleArn": "arn:aws:iam::123456789012:role/Admin"}, "RoleArn"),
        (ROLES, {"RoleArn": TRAINER.replace("iam", "IAM")}, "RoleArn"),
        (ROLES, {"RoleArn": TRAINER + " "}, "RoleArn"),
        (ROLES, {"RoleArn": TRAINER.lower()}, "RoleArn"),
        # A second spelling beside the right one.
        (ROLES, {"roleArn": "arn:aws:iam::123456789012:role/Admin"}, "roleArn"),
        (ROLES, {"Role_Arn": "arn:aws:iam::123456789012:role/Admin"}, "Role_Arn"),
        (ROLES, {"SecondRoleArn": "arn:aws:iam::123456789012:role/Admin"}, "SecondRoleArn"),
        (
            {"fixed": {"EnableNetworkIsolation": True}},
            {"EnableNetworkIsolation": False},
            "EnableNetworkIsolation",
        ),
        ({"fixed": {"RoleArn": TRAINER}}, {"rolearn": "x"}, "rolearn"),
        (
            {"fixed": {"ResourceConfig.VolumeKmsKeyId": "k"}},
            resources(VolumeKmsKeyId="j"),
            "ResourceConfig.VolumeKmsKeyId",
        ),
        (
            {"fixed": {"StoppingCondition.MaxRuntimeInSeconds": 60}},
            {"StoppingCondition": {"MaxRuntimeInSeconds": 61}},
            "StoppingCondition.MaxRuntimeInSeconds",
        ),
        (
            IMAGES,
            algorithm("registry.lab:5000/team-ab:1.0"),
            "AlgorithmSpecification.TrainingImage",
        ),
        (IMAGES, algorithm("registry.lab/team-a:1.0"), "AlgorithmSpecification.TrainingImage"),
        (
            IMAGES,
            algorithm(f"registry.lab:5000/team-a:1.0@sha256:{'a' * 64}"),
            "AlgorithmSpecification.TrainingImage",
        ),
        (IMAGES, algorithm(trainingimage="x"), "AlgorithmSpecification.trainingimage"),
        (IMAGES, algorithm(None, AlgorithmName="mine"), "AlgorithmSpecification.AlgorithmName"),
        (
            IMAGES,
            {"DebugRuleConfigurations": [RULE, EVIL_RULE]},
            "DebugRuleConfigurations.1.RuleEvaluatorImage",
        ),
        (
            IMAGES,
            {"ProfilerRuleConfigurations": [{**RULE, "RuleEvaluatorImage": "evil"}]},
            "ProfilerRuleConfigurations.0.RuleEvaluatorImage",
        ),
        (
            IMAGES,
            {
                "ServerlessJobConfig": {
                    "BaseModelArn": "arn:aws:sagemaker:x",
                    "JobType": "FineTuning",
                }
            },
            "ServerlessJobConfig",
        ),
        (OUTPUTS, output("s3://bucket/team-ab"), "OutputDataConfig.S3OutputPath"),
        (OUTPUTS, output("s3://bucket/team-a/../team-b"), "OutputDataConfig.S3OutputPath"),
        (OUTPUTS, output("https://bucket/team-a"), "OutputDataConfig.S3OutputPath"),
        (OUTPUTS, {"CheckpointConfig": {"S3Uri": "s3://bucket"}}, "CheckpointConfig.S3Uri"),
        (
            OUTPUTS,
            {"DebugHookConfig": {"S3OutputPath": "s3://other"}},
            "DebugHookConfig.S3OutputPath",
        ),
        (
            OUTPUTS,
            {"DebugRuleConfigurations": [{**RULE, "S3OutputPath": "s3://other"}]},
            "DebugRuleConfigurations.0.S3OutputPath",
        ),
        (
            OUTPUTS,
            {"TensorBoardOutputConfig": {"S3OutputPath": "s3://other"}},
            "TensorBoardOutputConfig.S3OutputPath",
        ),
        (
            OUTPUTS,
            {"ProfilerConfig": {"S3OutputPath": "s3://other"}},
            "ProfilerConfig.S3OutputPath",
        ),
        (
            OUTPUTS,
            {"ModelPackageConfig": {"ModelPackageGroupArn": "arn:aws:sagemaker:x"}},
            "ModelPackageConfig.ModelPackageGroupArn",
        ),
        (
            OUTPUTS,
            {"MlflowConfig": {"MlflowResourceArn": "arn:aws:sagemaker:x"}},
            "MlflowConfig.MlflowResourceArn",
        ),
        (OUTPUTS, mounted("rw"), "InputDataConfig.0.DataSource.FileSystemDataSource.DirectoryPath"),
        (TYPES, resources(InstanceType="ml.p5.48xlarge"), "ResourceConfig.InstanceType"),
        (
            TYPES,
            {"ResourceConfig": {"InstanceGroups": [GROUP]}},
            "ResourceConfig.InstanceGroups.0.InstanceType",
        ),
        (TYPES, {"tags": {"slotq:class": "interactive"}}, "ResourceConfig.InstanceType"),
        (TYPES, {"tags": {"slotq:pools": "small"}}, "ResourceConfig.InstanceType"),
        (
            TYPES,
            {"DebugRuleConfigurations": [{**RULE, "InstanceType": "ml.p5.48xlarge"}]},
            "DebugRuleConfigurations.0.InstanceType",
        ),
        ({"pools": ("small",)}, {"tags": {"slotq:pools": "main"}}, "Tags"),
        ({"pools": ("small",)}, {"tags": {"slotq:pools": "small,main"}}, "Tags"),
        ({"pools": ("small",)}, {}, "Tags"),
    ],
)
def test_the_attack_to_get_around_a_rule(
    account: Account, rules: dict[str, Any], changes: dict[str, Any], field: str
):
    capacity = app.manager().overview.pools()[0].pool.capacity
    pools = [Pool(name=name, instance_type=kind, capacity=capacity)
             for name, kind in (("main", TYPE), ("small", "ml.m5.large"))]  # fmt: skip
    share(queue_pools=pools, **rules)
    status, error = submit(account, **changes)
    assert (status, error["code"]) == (403, "forbidden_by_project"), error
    assert field in fields(error)
    assert not [item for item in account.items() if item["pk"]["S"].startswith("JOB#")]


def test_a_start_that_the_project_now_forbids_is_held_and_nothing_is_lost(account: Account):
    share()
    assert submit(account)[0] == 202
    share(images=("other",), outputs=("s3://bucket/team-b",))
    account.settle()
    job = shown(account)
    assert (job["state"], job["cause"]) == ("held", "forbidden_by_project")
    assert job["reason"]["code"] == "start_forbidden"
    for part in ("TrainingImage", "train:1", "S3OutputPath", "s3://bucket/team-b", "vision"):
        assert part in job["reason"]["text"]
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["forbidden_by_project"]
    assert account.plane.jobs() == []
    assert account.call(event("GET", "/pools"))[1]["pools"][0]["used"]["slots"] == 0
    share()
    assert account.call(event("PATCH", "/jobs/job1", body={"held": False}))[0] == 200
    account.settle()
    assert shown(account)["state"] == "running"


def test_a_start_fills_in_new_fixed_values_but_no_new_defaults(account: Account):
    share()
    assert submit(account)[0] == 202
    share(
        fixed={"EnableNetworkIsolation": True},
        defaults={"EnableInterContainerTrafficEncryption": True},
    )
    account.settle()
    assert sent(account)["EnableNetworkIsolation"] is True
    assert "EnableInterContainerTrafficEncryption" not in sent(account)


def test_a_start_in_a_pool_that_the_project_may_no_longer_use_is_held(account: Account):
    share()
    assert submit(account)[0] == 202
    share(instance_types={"training": ("ml.g5.*",)})
    account.settle()
    assert "ml.p4d.24xlarge of pool 'main'" in shown(account)["reason"]["text"]


def test_the_text_of_a_held_start_contains_no_secret(account: Account):
    share()
    assert submit(account, Environment={"TOKEN": "hunter2-secret"})[0] == 202
    share(fixed={"Environment": {"TOKEN": "another"}})
    account.settle()
    job = shown(account)
    assert job["reason"]["code"] == "start_forbidden"
    assert "hunter2-secret" not in json.dumps(job)


@pytest.mark.parametrize("state", ["running", "completed"])
def test_a_training_job_that_a_dead_handler_started_under_earlier_rules_goes_on(
    account: Account, monkeypatch: pytest.MonkeyPatch, state: str
):
    """The handler dies between SageMaker's answer and its confirmation, and the event is lost."""
    share()
    assert submit(account)[0] == 202
    observing = type(app.manager()._effects.observing)
    with monkeypatch.context() as dying:
        dying.setattr(observing, "created", _dies)
        with pytest.raises(_Death):
            app.manager().passes.run()
    assert len(account.plane.jobs()) == 1
    share(images=("other",))
    account.clock.set(account.clock.now() + 1000)
    account.plane.advance()
    account.emitted.clear()
    if state == "completed":
        account.plane.job("job1").status = "Completed"
    for _ in range(2):
        account.clock.set(account.clock.now() + 400_000)
        account.send("tick")
        account.settle()
    assert shown(account)["state"] == state
    assert len(account.plane.jobs()) == 1


class _Death(BaseException):
    """The end of a process."""


def _dies(*_: object, **__: object) -> None:
    raise _Death


def test_approval(account: Account):
    share(approval=True)
    status, job = submit(account)
    assert (status, job["state"], job["cause"]) == (202, "held", "approval")
    account.settle()
    job = shown(account)
    assert (job["state"], job["reason"]["code"]) == ("held", "waits_for_approval")
    assert "an admin of project vision" in job["reason"]["text"]
    listed = account.call(event("GET", "/jobs"))[1]["jobs"]
    assert listed[0]["reason"]["code"] == "waits_for_approval"
    for attack in (
        {"held": True},
        {"held": False},
        {"held": True},
        {"held": False, "tags": {"priority": "1"}},
    ):
        account.call(event("PATCH", "/jobs/job1", body=attack))
        account.settle()
        assert (shown(account)["state"], shown(account)["cause"]) == ("held", "approval")
    status, error = account.call(event("PATCH", "/jobs/job1", body={"held": False}))
    assert (status, error["code"], error["field"]) == (403, "forbidden_by_project", "held")
    change = {"changes": [{"name": "job1", "held": False}]}
    outcome = account.call(event("PATCH", "/jobs", body=change))[1]["outcomes"][0]
    assert outcome["error"]["code"] == "forbidden_by_project"
    assert submit(account)[1]["state"] == "held", "the same submission again releases nothing"
    assert account.call(event("PATCH", "/jobs/job1", by=ADMIN, body={"held": False}))[0] == 200
    account.settle()
    assert shown(account)["state"] == "running"


def test_an_admins_own_job_needs_no_approval(account: Account):
    share(approval=True)
    assert submit(account, by=ADMIN)[1]["state"] == "pending"


def test_a_job_that_moves_into_a_project_with_approval_is_held(account: Account):
    lax = Project(name="lax", access=ACCESS)
    share(lax, approval=True, fixed={"EnableNetworkIsolation": True})
    assert (
        submit(account, tags={"slotq:project": "lax", "slotq:pools": "main"})[1]["state"]
        == "pending"
    )
    moved = {"tags": {"slotq:project": "vision"}}
    status, job = account.call(event("PATCH", "/jobs/job1", body=moved))
    assert (status, job["state"], job["cause"]) == (200, "held", "approval")
    assert stored(account)["EnableNetworkIsolation"] is True


@pytest.mark.parametrize(
    ("rule", "place", "kept"),
    [
        ("provide", None, "s3://bucket/team-a/slotq-checkpoints/job1/"),
        ("provide", "s3://bucket/team-a/own", "s3://bucket/team-a/own"),
        ("require", "s3://bucket/team-a/own", "s3://bucket/team-a/own"),
    ],
)
def test_a_job_that_moves_gets_the_defaults_whatever_its_new_pool_asks_of_it(
    account: Account, rule: str, place: str | None, kept: str
):
    (main,) = app.manager()._store.configuration.pools()
    pools = [main, replace(main, name="strict", checkpoints=CheckpointRule(rule))]
    defaults = {"VpcConfig": VPC} | ({"CheckpointConfig": {"S3Uri": place}} if place else {})
    share(Project(name="lax", access=ACCESS), queue_pools=pools, defaults=defaults)
    submit(account, tags={"slotq:project": "lax", "slotq:pools": "main"})
    moved = {"tags": {"slotq:project": "vision", "slotq:pools": "strict"}}
    status, job = account.call(event("PATCH", "/jobs/job1", body=moved))
    assert (status, bool(job.get("warnings"))) == (200, place is None), job
    assert stored(account)["VpcConfig"] == VPC
    assert stored(account)["CheckpointConfig"]["S3Uri"].startswith(kept)


def test_a_job_cannot_move_into_a_project_that_forbids_its_request(account: Account):
    share(Project(name="lax", access=ACCESS), images=("other",))
    assert submit(account, tags={"slotq:project": "lax"})[0] == 202
    moved = {"tags": {"slotq:project": "vision"}}
    status, error = account.call(event("PATCH", "/jobs/job1", body=moved))
    assert (status, error["code"]) == (403, "forbidden_by_project")


@pytest.mark.parametrize(
    "tags", [{"cost-center": "43"}, {"slotq:pools": "small"}, {"slotq:class": "interactive"}]
)
def test_a_change_of_tags_cannot_break_a_rule(account: Account, tags: dict[str, str]):
    capacity = app.manager().overview.pools()[0].pool.capacity
    small = Pool(name="small", instance_type="ml.m5.large", capacity=capacity)
    share(
        queue_pools=[app.manager().overview.pools()[0].pool, small],
        fixed={"Tags": [{"Key": "cost-center", "Value": "42"}]},
        pools=("main",),
        instance_types={"interactive": ("ml.g5.*",)},
    )
    assert submit(account)[0] == 202
    status, error = account.call(event("PATCH", "/jobs/job1", body={"tags": tags}))
    assert (status, error["code"]) == (403, "forbidden_by_project"), error


def test_a_retry_is_checked_as_a_submission(account: Account):
    share()
    assert submit(account)[0] == 202
    account.call(event("DELETE", "/jobs/job1"))
    share(images=("other",))
    retry = {"changes": [{"name": "job1", "retry": True}]}
    outcome = account.call(event("PATCH", "/jobs", body=retry))[1]["outcomes"][0]
    assert outcome["error"]["code"] == "forbidden_by_project"


def test_a_projects_waiting_jobs_are_limited_whoever_submits(account: Account):
    share(waiting=2)
    assert [submit(account, f"job{n}")[0] for n in range(2)] == [202, 202]
    status, error = submit(account, "job2", by=ADMIN)
    assert (status, error["code"]) == (429, "too_many_waiting")
    assert "project 'vision' has 2 jobs waiting" in error["message"]
    account.call(event("DELETE", "/jobs/job0"))
    account.clock.set(account.clock.now() + 11_000)
    assert submit(account, "job2")[0] == 202, "the queue counts again before it refuses"


LAX = Project(name="lax", access=ACCESS)
TO_VISION = {"tags": {"slotq:project": "vision"}}


def refused_of(account: Account, *names: str, **change: Any) -> list[str]:
    """The code of each error, or the project of the job."""
    changes = [{"name": name, **(change or TO_VISION)} for name in names]
    body = {"changes": changes}
    outcomes = account.call(event("PATCH", "/jobs", body=body, by=ADMIN))[1]["outcomes"]
    return [it["error"]["code"] if it["error"] else it["job"]["project"] for it in outcomes]


def test_a_job_that_moves_counts_in_its_new_project_at_once(account: Account):
    share(LAX, waiting=2)
    for name in ("a", "b", "c"):
        assert submit(account, name, tags={"slotq:project": "lax"})[0] == 202
    assert submit(account, "first", tags={"slotq:project": "vision"})[0] == 202
    assert account.call(event("PATCH", "/jobs/a", body=TO_VISION))[1]["project"] == "vision"
    status, error = submit(account, "more", tags={"slotq:project": "vision"})
    assert (status, error["code"]) == (429, "too_many_waiting")
    status, error = account.call(event("PATCH", "/jobs/b", body=TO_VISION))
    assert (status, error["code"]) == (429, "too_many_waiting")
    assert "project 'vision' has 2 jobs waiting" in error["message"]
    assert shown(account, "b")["project"] == "lax"


def test_many_that_move_in_one_request_count_one_by_one(account: Account):
    share(LAX, waiting=2)
    names = ["a", "b", "c"]
    for name in names:
        assert submit(account, name, tags={"slotq:project": "lax"})[0] == 202
    assert refused_of(account, *names) == ["vision", "vision", "too_many_waiting"]


def test_a_job_that_leaves_makes_room_at_once(account: Account):
    share(LAX, waiting=1)
    assert submit(account, "a", tags={"slotq:project": "vision"})[0] == 202
    assert refused_of(account, "a", tags={"slotq:project": "lax"}) == ["lax"]
    assert submit(account, "b", tags={"slotq:project": "vision"})[0] == 202
    assert refused_of(account, "a") == ["too_many_waiting"]


def test_a_move_counts_among_the_submissions_of_its_minute(account: Account):
    """Or the way through another project would have no limit."""
    share(LAX, submissions=1)
    for name in ("a", "b"):
        assert submit(account, name, tags={"slotq:project": "lax"})[0] == 202
    assert refused_of(account, "a", "b") == ["vision", "too_many_submissions"]


def test_what_is_refused_for_another_reason_does_not_count(account: Account):
    share(LAX, waiting=1)
    assert submit(account, "a", tags={"slotq:project": "lax"})[0] == 202
    change = {**TO_VISION, "states": ["held"]}
    assert refused_of(account, "a", **change) == ["too_late"]
    assert submit(account, "b", tags={"slotq:project": "vision"})[0] == 202


def test_an_operators_move_of_a_whole_project_counts_and_is_never_refused(account: Account):
    share(LAX, waiting=2)
    for name in ("a", "b", "c"):
        assert submit(account, name, tags={"slotq:project": "lax"})[0] == 202
    removal = event("DELETE", "/projects/lax")
    removal["multiValueQueryStringParameters"] = {"move_to": ["vision"]}
    assert account.call(removal)[1]["moved"] == 3
    status, error = submit(account, "more", tags={"slotq:project": "vision"})
    assert (status, error["code"]) == (429, "too_many_waiting")
    assert "has 3 jobs waiting" in error["message"]


def test_a_projects_submissions_in_a_minute_are_limited(account: Account):
    share(submissions=1)
    assert submit(account, "job0")[0] == 202
    status, error = submit(account, "job1")
    assert (status, error["code"]) == (429, "too_many_submissions")
    account.clock.set(account.clock.now() + 60_000)
    assert submit(account, "job1")[0] == 202


def test_an_audit_keeps_the_counters_of_projects(account: Account):
    share(waiting=1)
    assert submit(account, "job0")[0] == 202
    account.call(event("PATCH", "/jobs/job0", body={"held": True}))
    account.send("tick")
    assert submit(account, "job1")[0] == 429


def test_training_jobs_carry_tags_for_cost_allocation(account: Account):
    share()
    assert submit(account, tags={"slotq:project": "vision"})[0] == 202
    account.settle()
    tags = {tag["Key"]: tag["Value"] for tag in sent(account)["Tags"]}
    assert tags["slotq:project"] == "vision"
    assert tags["slotq:submitter"] == MEMBER
    assert len(sent(account)["Tags"]) == len(tags)


def test_a_submission_cannot_choose_the_submitters_tag(account: Account):
    share()
    status, error = submit(account, tags={"slotq:submitter": ADMIN})
    assert (status, error["code"]) == (400, "invalid_request")


def test_the_class_of_a_job(account: Account):
    share()
    assert submit(account, tags={"slotq:class": "interactive"})[1]["workload"] == "interactive"
    status, error = submit(account, "job2", tags={"slotq:class": "Interactive"})
    assert status == 400
    assert "training, interactive, inference" in error["message"]
    change = event("PATCH", "/jobs/job1", body={"tags": {"slotq:class": "training"}})
    assert account.call(change)[1]["workload"] == "training"
    account.settle()
    assert shown(account)["state"] == "running"
    change = event("PATCH", "/jobs/job1", body={"tags": {"slotq:class": "inference"}})
    status, error = account.call(change)
    assert (status, error["code"]) == (409, "too_late")


SPOT_TIMES = {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200}
PIPED = {"S3DataSource": {"S3DataType": "AugmentedManifestFile", "S3Uri": "s3://bucket/list"}}


@pytest.mark.parametrize(
    ("rules", "fields"),
    [
        ({"fixed": {"EnableManagedSpotTraining": True}}, {"StoppingCondition": SPOT_TIMES}),
        ({"defaults": {"EnableManagedSpotTraining": True}}, {"StoppingCondition": SPOT_TIMES}),
        (
            {"defaults": {"StoppingCondition.MaxRuntimeInSeconds": 3600}},
            {
                "EnableManagedSpotTraining": True,
                "StoppingCondition": {"MaxWaitTimeInSeconds": 7200},
            },
        ),
        (
            {"defaults": {"AlgorithmSpecification.TrainingInputMode": "Pipe"}},
            {
                "AlgorithmSpecification": {"TrainingImage": "train:1"},
                "InputDataConfig": [{"ChannelName": "a", "DataSource": PIPED}],
            },
        ),
    ],
    ids=["fixed spot", "default spot", "default runtime", "default input mode"],
)
def test_a_rule_between_fields_sees_what_the_project_fills_in(account: Account, rules, fields):
    share()
    assert submit(account, "without", **fields)[0] == 400
    share(**rules)
    assert submit(account, "filled", **fields)[0] == 202
