"""Jobs that ask for GPUs of a node: who may run there, whose node it is, and what they take from
their pool."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.layout.records import read, write
from slotq_core.admission.access import Permissions
from slotq_core.admission.dependencies import Predecessors
from slotq_core.admission.instances.nodes import IMAGE, NETWORK, ROLE, tenant_in, tenant_of
from slotq_core.admission.roles_and_plans import ANY_PLAN, ExecutionRoles
from slotq_core.admission.submission import Admission
from slotq_core.errors import (
    ForbiddenByProject,
    InvalidRequest,
    NeverFits,
    RoleNotAllowed,
)
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.projects import Prescription, Project
from slotq_core.model.reasons.whole_instance import WholeCause, WholeInstance
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.privacy.identity import BY_DEFAULT
from slotq_core.wire.groups.member_environment import as_member
from slotq_core.wire.submission import parse_submission

A_ROLE = "arn:aws:iam::123456789012:role/Train"
P5 = "ml.p5.48xlarge"
ME = "arn:aws:iam::123456789012:user/me"


def request(**fields: Any) -> dict[str, Any]:
    """A request that a node can run; a field of None is left out."""
    made: dict[str, Any] = {
        "TrainingJobName": "a",
        "AlgorithmSpecification": {
            "TrainingImage": "train:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python", "train.py"],
        },
        "RoleArn": A_ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {"InstanceType": P5, "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "Tags": [{"Key": "slotq:gpus", "Value": "2"}],
        **fields,
    }
    return {key: value for key, value in made.items() if value is not None}


def channel(**fields: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/data"}
    return {
        "ChannelName": "train",
        "DataSource": {"S3DataSource": {**source, **fields.pop("s3", {})}},
        **fields,
    }


def algorithm(**fields: Any) -> dict[str, Any]:
    made = {
        "TrainingImage": "train:1",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python", "train.py"],
        **fields,
    }
    return {key: value for key, value in made.items() if value is not None}


def resources(**fields: Any) -> dict[str, Any]:
    return {"InstanceType": P5, "InstanceCount": 1, "VolumeSizeInGB": 30, **fields}


def pool(name: str, nodes: NodeRules | None = None, kind: str = P5) -> Pool:
    return Pool(name=name, instance_type=kind, capacity=Demand(slots=4), nodes=nodes)


EIGHT = NodeRules(gpus=8)
NODES = pool("nodes", EIGHT)


def submitted(
    body: dict[str, Any],
    *pools: Pool,
    project: Project | None = None,
    roles: tuple[str, ...] | None = None,
) -> tuple[Job, dict[str, Any]]:
    """The job that a submission makes, and the request that is stored."""
    sharing = Sharing(projects=(project,)) if project else NO_SHARING
    admission = Admission(
        submitter=ME,
        now=0,
        permissions=Permissions(sharing=sharing),
        people=BY_DEFAULT,
        pools=pools or (NODES,),
        line_by_user=False,
        roles=ExecutionRoles(allowed=roles),
        plans=ANY_PLAN,
    )
    submission, kept = parse_submission(body)
    prepared = admission.prepared(submission, kept)
    admitted = admission.admitted(prepared, Predecessors(jobs={}, groups={}))
    return admitted.job, dict(admitted.request)


def tagged(gpus: str, *more: tuple[str, str]) -> list[dict[str, str]]:
    pairs = (("slotq:gpus", gpus), *more)
    return [{"Key": key, "Value": value} for key, value in pairs]


def test_a_job_with_gpus_has_them_and_a_tenant() -> None:
    job, stored = submitted(request())
    assert (job.gpus, job.demand, job.whole_because) == (200, Demand(slots=1), ())
    assert job.tenant
    assert stored == request()


@pytest.mark.parametrize("tags", [None, tagged("0")])
def test_a_job_without_gpus_stays_as_it_is(tags: list[Any] | None) -> None:
    job, _ = submitted(request(Tags=tags))
    assert (job.gpus, job.tenant, job.whole_because) == (0, "", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.5", "a part of one GPU from 0.05 to 0.95 in hundredths, such as 0.25, or whole GPUs"),
        ("0.333", "not '0.333'"),
        ("0.04", "not '0.04'"),
        ("0.96", "not '0.96'"),
        ("1/2", "not '1/2'"),
        ("0,5", "not '0,5'"),
        ("65", "from 1 to 64 (0: whole instances), not '65'"),
        ("-1", "not '-1'"),
        ("half", "not 'half'"),
        ("NaN", "not 'NaN'"),
        (".", "not '.'"),
        ("", "not ''"),
    ],
)
def test_what_the_tag_does_not_take(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_submission(request(Tags=tagged(text)))
    assert "slotq:gpus" in refused.value.message
    assert said in refused.value.message


def test_gpus_are_asked_for_once() -> None:
    for name in ("gpus", "num_gpus"):
        tags = tagged("2", ("slotq:demand", f"{name}=2"))
        with pytest.raises(InvalidRequest, match="both ask for GPUs"):
            parse_submission(request(Tags=tags))
    tags = tagged("2", ("slotq:demand", "mem_per_gpu_in_GiB=16"))
    assert submitted(request(Tags=tags))[0].gpus == 200


WHOLE = [
    ({"AlgorithmSpecification": algorithm(TrainingInputMode="Pipe")}, ["input_mode Pipe"]),
    ({"AlgorithmSpecification": algorithm(TrainingInputMode="FastFile")}, ["input_mode FastFile"]),
    ({"AlgorithmSpecification": algorithm(ContainerEntrypoint=None)}, ["entry_point"]),
    ({"InputDataConfig": [channel(InputMode="Pipe")]}, ["channel_mode train Pipe"]),
    ({"InputDataConfig": [channel(InputMode="FastFile")]}, ["channel_mode train FastFile"]),
    (
        {"InputDataConfig": [channel(s3={"S3DataDistributionType": "ShardedByS3Key"})]},
        ["sharding train"],
    ),
    (
        {"InputDataConfig": [channel(s3={"S3DataType": "ManifestFile"})]},
        ["manifest train ManifestFile"],
    ),
    (
        {
            "InputDataConfig": [
                channel(
                    InputMode="Pipe",
                    s3={"S3DataType": "AugmentedManifestFile", "AttributeNames": ["a"]},
                )
            ]
        },
        [
            "manifest train AugmentedManifestFile",
            "channel_mode train Pipe",
            "channel_field train AttributeNames",
        ],
    ),
    (
        {"InputDataConfig": [channel(ShuffleConfig={"Seed": 1})]},
        ["channel_field train ShuffleConfig"],
    ),
    (
        {"InputDataConfig": [channel(RecordWrapperType="RecordIO")]},
        ["channel_field train RecordWrapperType"],
    ),
    (
        {
            "InputDataConfig": [
                {
                    "ChannelName": "fs",
                    "DataSource": {
                        "FileSystemDataSource": {
                            "FileSystemId": "fs-1234567890",
                            "FileSystemAccessMode": "ro",
                            "FileSystemType": "FSxLustre",
                            "DirectoryPath": "/data",
                        }
                    },
                }
            ],
            "VpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]},
        },
        ["no_s3 fs FSxLustre"],
    ),
    ({"RetryStrategy": {"MaximumRetryAttempts": 2}}, ["field RetryStrategy"]),
    ({"EnableNetworkIsolation": True}, ["field EnableNetworkIsolation"]),
    (
        {
            "EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60},
        },
        ["field EnableManagedSpotTraining"],
    ),
    (
        {
            "DebugRuleConfigurations": [
                {"RuleConfigurationName": "r", "RuleEvaluatorImage": "rules:1"}
            ],
        },
        ["field DebugRuleConfigurations"],
    ),
    ({"ExperimentConfig": {"TrialName": "t"}}, ["field ExperimentConfig"]),
    ({"ResourceConfig": resources(InstanceCount=2)}, ["instances"]),
    (
        {"ResourceConfig": resources(InstanceCount=2), "EnableNetworkIsolation": True},
        ["instances", "field EnableNetworkIsolation"],
    ),
]


@pytest.mark.parametrize(("fields", "causes"), WHOLE, ids=lambda it: str(it)[:60])
def test_what_takes_a_whole_instance(fields: dict[str, Any], causes: list[str]) -> None:
    job, stored = submitted(request(**fields))
    assert (job.gpus, job.tenant) == (0, "")
    assert [*job.whole_because] == causes
    assert stored == request(**fields)
    said = WholeInstance(causes=job.whole_because).sentence()
    assert said.startswith("takes a whole instance, not GPUs of a node: ")
    assert "{" not in said


NOT_WHOLE: list[dict[str, Any]] = [
    {"EnableNetworkIsolation": False, "EnableManagedSpotTraining": False},
    {
        "InputDataConfig": [
            channel(CompressionType="Gzip", InputMode="File", RecordWrapperType="None")
        ]
    },
    {"InputDataConfig": [channel(s3={"S3DataDistributionType": "FullyReplicated"})]},
    {"DebugHookConfig": {"S3OutputPath": "s3://bucket/debug"}},
    {"ProfilerConfig": {"S3OutputPath": "s3://bucket/profiles"}},
    {"RemoteDebugConfig": {"EnableRemoteDebug": True}},
    {"EnableInterContainerTrafficEncryption": True},
    {"CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"}},
    {"Environment": {"A": "b"}},
    {"ResourceConfig": resources(KeepAlivePeriodInSeconds=600)},
    {
        "AlgorithmSpecification": algorithm(ContainerEntrypoint=None),
        "HyperParameters": {
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"s3://bucket/code.tar.gz"',
        },
    },
]


@pytest.mark.parametrize("fields", NOT_WHOLE, ids=lambda it: str(it)[:60])
def test_what_a_node_runs(fields: dict[str, Any]) -> None:
    job, _ = submitted(request(**fields))
    assert (job.gpus, job.whole_because) == (200, ())


def test_a_pool_without_nodes_runs_it_whole_and_says_so() -> None:
    job, _ = submitted(request(), pool("plain"))
    assert (job.gpus, job.tenant, job.whole_because) == (0, "", ("no_nodes",))


def test_of_several_pools_one_with_nodes_is_enough() -> None:
    job, _ = submitted(request(), pool("plain"), NODES)
    assert (job.gpus, job.pools, job.whole_because) == (200, ("plain", "nodes"), ())


def test_a_shell_needs_nodes_of_one_project() -> None:
    body = request(RemoteDebugConfig={"EnableRemoteDebug": True})
    job, _ = submitted(body, pool("nodes", NodeRules(gpus=8, shared=True)))
    assert job.whole_because == ("shell",)


def test_more_gpus_than_an_instance_has() -> None:
    small = pool("small", NodeRules(gpus=4), "ml.g5.12xlarge")
    job, _ = submitted(request(Tags=tagged("8", ("slotq:pools", "small,nodes"))), small, NODES)
    assert job.pools == ("nodes",)
    body = request(
        Tags=tagged("8", ("slotq:pools", "small")),
        ResourceConfig=resources(InstanceType="ml.g5.12xlarge"),
    )
    with pytest.raises(NeverFits) as refused:
        submitted(body, small, NODES)
    assert refused.value.message == (
        "the job needs 8 GPUs of one instance, more than those of its pools have: small has 4; "
        f"enough has nodes ({P5})"
    )
    with pytest.raises(NeverFits, match="no pool has more"):
        submitted(request(Tags=tagged("16")))
    with pytest.raises(NeverFits, match="main has 0"):
        submitted(
            request(ResourceConfig=resources(InstanceType="ml.m5.large")),
            pool("main", kind="ml.m5.large"),
        )
    unknown = pool("new", kind="ml.new.large")
    assert submitted(request(ResourceConfig=resources(InstanceType="ml.new.large")), unknown)


SAME: list[dict[str, Any]] = [
    {"TrainingJobName": "b"},
    {"HyperParameters": {"lr": "1"}},
    {"Environment": {"A": "b"}},
    {"InputDataConfig": [channel()]},
    {"OutputDataConfig": {"S3OutputPath": "s3://bucket/elsewhere"}},
    {"CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"}},
    {"EnableInterContainerTrafficEncryption": False},
    {"Tags": tagged("4")},
    {"StoppingCondition": {"MaxRuntimeInSeconds": 60}},
]
OTHER: list[dict[str, Any]] = [
    {"RoleArn": f"{A_ROLE}2"},
    {"AlgorithmSpecification": algorithm(TrainingImage="train:2")},
    {
        "AlgorithmSpecification": algorithm(
            TrainingImageConfig={"TrainingRepositoryAccessMode": "Vpc"}
        )
    },
    {"VpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}},
    {"ResourceConfig": resources(VolumeSizeInGB=50)},
    {"ResourceConfig": resources(VolumeKmsKeyId="key")},
    {"OutputDataConfig": {"S3OutputPath": "s3://bucket/out", "KmsKeyId": "key"}},
    {"EnableInterContainerTrafficEncryption": True},
    {"RemoteDebugConfig": {"EnableRemoteDebug": True}},
]


@pytest.mark.parametrize("fields", SAME, ids=str)
def test_who_shares_a_node(fields: dict[str, Any]) -> None:
    assert submitted(request(**fields))[0].tenant == submitted(request())[0].tenant


@pytest.mark.parametrize("fields", OTHER, ids=str)
def test_who_has_another_node(fields: dict[str, Any]) -> None:
    assert submitted(request(**fields))[0].tenant != submitted(request())[0].tenant


def test_the_order_of_a_networks_ids_says_nothing() -> None:
    networks = ({"Subnets": ids, "SecurityGroupIds": ["sg"]} for ids in (["a", "b"], ["b", "a"]))
    one, other = (tenant_of(request(VpcConfig=it), "", shared=False) for it in networks)
    assert one == other


def test_projects_share_a_node_only_where_the_pool_says_so() -> None:
    body = request()
    own = {tenant_of(body, project, shared=False) for project in ("", "a", "b")}
    shared = {tenant_of(body, project, shared=True) for project in ("", "a", "b")}
    assert (len(own), len(shared)) == (3, 1)
    assert max(map(len, own)) == 25
    assert {tenant_in(tenant, "b") for tenant in own} == {tenant_of(body, "b", shared=False)}
    assert {tenant_in(tenant, "b") for tenant in shared} == shared
    both = (pool("one", NodeRules(gpus=8, shared=True)), pool("two", EIGHT))
    assert submitted(body, *both)[0].tenant == tenant_of(body, "", shared=False)
    assert submitted(body, both[0])[0].tenant == tenant_of(body, "", shared=True)


FULL = NodeRules(
    gpus=8, image="pool:1", role=f"{A_ROLE}2", subnets=("subnet-1",), security_groups=("sg-1",)
)


def test_what_a_job_does_not_name_comes_from_its_first_pool_with_nodes() -> None:
    body = request(AlgorithmSpecification=algorithm(TrainingImage=None), RoleArn=None)
    job, stored = submitted(body, pool("plain"), pool("full", FULL), NODES, roles=(FULL.role,))
    assert job.role == stored["RoleArn"] == FULL.role
    assert stored["AlgorithmSpecification"]["TrainingImage"] == "pool:1"
    assert stored["VpcConfig"] == {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
    assert body == request(AlgorithmSpecification=algorithm(TrainingImage=None), RoleArn=None)


def test_what_a_job_names_stays() -> None:
    body = request(VpcConfig={"Subnets": ["s"], "SecurityGroupIds": ["g"]})
    assert submitted(body, pool("full", FULL))[1] == body


def test_a_job_without_gpus_takes_nothing_from_the_pool() -> None:
    with pytest.raises(InvalidRequest, match="RoleArn"):
        submitted(request(Tags=None, RoleArn=None), pool("full", FULL))
    assert submitted(request(Tags=None), pool("full", FULL))[1] == request(Tags=None)


def test_a_role_of_the_pool_that_the_caller_may_not_use_is_refused() -> None:
    with pytest.raises(RoleNotAllowed):
        submitted(request(RoleArn=None), pool("full", FULL), roles=(A_ROLE,))


def of_project(**rules: Any) -> Project:
    access = Access(members=("*",), default_for=("*",))
    return Project(name="team", access=access, requests=Prescription(**rules))


def test_what_the_project_fills_in_comes_before_the_pool() -> None:
    network = {"Subnets": ["s"], "SecurityGroupIds": ["g"]}
    project = of_project(defaults={IMAGE: "team:1"}, fixed={ROLE: A_ROLE, NETWORK: network})
    body = request(AlgorithmSpecification=algorithm(TrainingImage=None), RoleArn=None)
    job, stored = submitted(body, pool("full", FULL), project=project)
    assert stored["AlgorithmSpecification"]["TrainingImage"] == "team:1"
    assert stored["VpcConfig"] == network
    assert job.role == A_ROLE
    assert job.tenant == tenant_of(stored, "team", shared=False)


def test_the_projects_rules_hold_for_what_the_pool_fills_in() -> None:
    body = request(AlgorithmSpecification=algorithm(TrainingImage=None))
    with pytest.raises(ForbiddenByProject, match="pool:1"):
        submitted(body, pool("full", FULL), project=of_project(images=("team:*",)))


def test_a_cause_of_a_later_version_is_said_as_it_is() -> None:
    assert WholeCause.sentence("weather sunny") == "weather sunny"
    assert WholeCause.sentence("sharding") == "sharding"
    many = WholeInstance(causes=tuple(f"sharding c{number}" for number in range(12)))
    assert many.sentence().endswith("; and 2 more")


def stored(job: Job) -> Job:
    return Job(**{"person": job.person, **read(Job, write(job))})


def test_what_an_earlier_version_stored_reads_as_before() -> None:
    """Its items lack the attributes, and a job or a pool that uses none of this is written so."""
    job, _ = submitted(request(Tags=None))
    plain = pool("plain")
    new = {"gpus", "literalPaths", "tenant", "wholeBecause", "nodes"}
    assert not new & {*write(job), *write(plain)}
    assert stored(job) == job
    assert Pool(**read(Pool, write(plain))) == plain
    for kept in (NODES, pool("full", FULL)):
        assert Pool(**read(Pool, write(kept))) == kept
    on_node, _ = submitted(request())
    whole, _ = submitted(request(), pool("plain"))
    for made in (on_node, whole, replace(on_node, literal_paths=True)):
        assert stored(made) == made


@pytest.mark.parametrize(("tags", "gpus"), [(tagged("2"), 2), (tagged("0.25"), 0.25), (None, None)])
def test_a_member_of_a_gang_is_told_the_gpus_that_it_asked_for(
    tags: list[Any] | None, gpus: float | None
) -> None:
    body = request(Tags=tags)
    job, _ = submitted(body)
    group = Group(name="g", members=("a",))
    variables = as_member(body, job, group, rendezvous="", started=["a"])["Environment"]
    assert json.loads(variables["SLOTQ_RESOURCES"]).get("gpus") == gpus
