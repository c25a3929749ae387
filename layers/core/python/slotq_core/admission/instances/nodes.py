"""Jobs that ask for GPUs of a node: which may run there, whose node it is, and what they take from
their pool.

All of it is decided from the request, once, when the job is admitted. A job that a node cannot run
takes a whole instance, as without the tag, and keeps the causes (`reasons.WholeInstance`).

Jobs of one node have a tenant in common: project (unless the pool's nodes are shared), role, image,
network, keys, volume, traffic encryption, remote debugging and training plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slotq_core.admission.prescribed import prescribed
from slotq_core.errors import NeverFits
from slotq_core.gpu_amounts import WHOLE, Gpus, in_gpus
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.nodes import OF_PROJECT
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.projects import Project
from slotq_core.model.reasons.whole_instance import WholeCause
from slotq_core.wire.pool_definition import gpus_in
from slotq_core.wire.training.field_paths import MISSING, value_at, with_value
from slotq_core.wire.training.instance_types import CONTENTS

Request = Mapping[str, Any]

IMAGE = "AlgorithmSpecification.TrainingImage"
ALGORITHM = "AlgorithmSpecification.AlgorithmName"
ROLE = "RoleArn"
NETWORK = "VpcConfig"

_SHARED_BY_JOBS = (
    ROLE,
    IMAGE,
    "AlgorithmSpecification.TrainingImageConfig",
    NETWORK,
    "ResourceConfig.VolumeSizeInGB",
    "ResourceConfig.VolumeKmsKeyId",
    "ResourceConfig.TrainingPlanArn",
    "OutputDataConfig.KmsKeyId",
    "EnableInterContainerTrafficEncryption",
    "RemoteDebugConfig.EnableRemoteDebug",
)
"""The fields that all jobs of a node have in common."""

_CARRIED_OUT = frozenset(
    {
        "TrainingJobName", "HyperParameters", "AlgorithmSpecification", ROLE, "InputDataConfig",
        "OutputDataConfig", "ResourceConfig", NETWORK, "StoppingCondition", "Tags",
        "EnableInterContainerTrafficEncryption", "CheckpointConfig", "Environment",
        "RemoteDebugConfig", "InfraCheckConfig",
        "DebugHookConfig", "ProfilerConfig",  # The SDKs set them unasked: they collect, no more.
    }
)  # fmt: skip
"""The fields of a request that a node carries out, or that decide nothing there."""
_OF_RESOURCES = frozenset(
    {
        "InstanceType", "InstanceCount", "InstanceGroups", "VolumeSizeInGB", "VolumeKmsKeyId",
        "KeepAlivePeriodInSeconds", "TrainingPlanArn",
    }
)  # fmt: skip
_OF_CHANNELS = frozenset(
    {
        "ChannelName",
        "DataSource",
        "ContentType",
        "CompressionType",
        "RecordWrapperType",
        "InputMode",
    }
)
_OF_S3 = frozenset({"S3DataType", "S3Uri", "S3DataDistributionType"})
_LISTED = 12
"""The most pools in a message."""
_SCRIPT = ("sagemaker_program", "sagemaker_submit_directory")
"""The hyperparameters by which the SDK names a script and its code."""


def with_gpus(job: Job, submission: Submission, request: Request, pools: Sequence[Pool]) -> Job:
    """Return the job as it runs on nodes: with the GPUs that it asked for and its tenant, or with
    the causes why it takes whole instances. `pools`: at least the job's."""
    if not submission.gpus:
        return job
    kept = [pool.nodes for pool in pools if pool.name in job.pools and pool.nodes]
    shared = bool(kept) and all(rules.shared for rules in kept)
    causes = (*whole_causes(submission, request, shared=shared),) if kept else (_cause("no_nodes"),)
    if causes:
        return replace(job, whole_because=causes)
    tenant = tenant_of(request, job.project, shared=shared)
    asked = request.get("StoppingCondition") or {}
    longest = _longest(int(asked.get("MaxRuntimeInSeconds") or 0))
    return replace(job, gpus=submission.gpus, tenant=tenant, longest_attempt=longest)


def _longest(seconds: int) -> int:
    """Return a maximum runtime as milliseconds, rounded up to an hour times a power of two: jobs of
    different ones wait in different lines, and so in few. 0: not known."""
    if not seconds:
        return 0
    longest = 3_600
    while longest < seconds:
        longest *= 2
    return 1000 * longest


def able(pools: Sequence[Pool], gpus: Gpus, every: Sequence[Pool]) -> list[Pool]:
    """Return the pools of a job whose instances have so many GPUs, or whose GPUs are not known.

    Raises NeverFits if there is none, with those pools among `every` that have enough.
    """
    found = [pool for pool in pools if _may_have(pool, gpus)]
    if found:
        return found
    sizes = ", ".join(f"{pool.name} has {_gpus_on(pool)}" for pool in pools)
    larger = [pool for pool in every if WHOLE * _gpus_on(pool) >= gpus][:_LISTED]
    fitting = "; enough has " + ", ".join(f"{p.name} ({p.instance_type})" for p in larger)
    raise NeverFits(
        f"the job needs {in_gpus(gpus)} of one instance, more than those of its pools have: "
        f"{sizes}{fitting if larger else '; no pool has more'}",
        field="Tags",
    )


def filled(
    submission: Submission, request: Request, pools: Iterable[Pool], project: Project | None
) -> tuple[Submission, Request]:
    """Return the submission and its request with the image, the role and the network that its first
    pool with nodes has for jobs that name none. What the project fills in comes first."""
    rules = _first_rules(submission, pools, project.pools if project else ())
    if rules is None:
        return submission, request
    seen = prescribed(request, project.requests) if project else request
    if rules.image and not (_has(seen, IMAGE) or _has(seen, ALGORITHM)):
        request = with_value(request, IMAGE, rules.image)
    if rules.role and not _has(seen, ROLE):
        request = with_value(request, ROLE, rules.role)
        submission = replace(submission, role=rules.role)
    if rules.subnets and not _has(seen, NETWORK):
        network = {"SecurityGroupIds": [*rules.security_groups], "Subnets": [*rules.subnets]}
        request = with_value(request, NETWORK, network)
    return submission, request


def tenant_of(request: Request, project: str, *, shared: bool) -> str:
    """Return the key of what all jobs on a node have in common, at most 25 characters."""
    common = {path: _plain(value_at(request, path)) for path in _SHARED_BY_JOBS}
    own = _digest(json.dumps(common, sort_keys=True, default=str))[:16]
    return own if shared else tenant_in(own + OF_PROJECT, project)


def tenant_in(tenant: str, project: str) -> str:
    """Return the tenant of a job that moves to this project. A shared one stays."""
    own, of_project, _ = tenant.partition(OF_PROJECT)
    return own + OF_PROJECT + _digest(project)[:8] if of_project else tenant


def whole_causes(submission: Submission, request: Request, *, shared: bool) -> Iterator[str]:
    """Yield why no node can run the job, in the form of `Job.whole_because`."""
    if submission.demand.slots > 1 or submission.parts or submission.by_type:
        yield _cause("instances")
    yield from (_cause("field", name) for name in _others(request, _CARRIED_OUT))
    resources = request.get("ResourceConfig")
    yield from (
        _cause("field", f"ResourceConfig.{name}") for name in _others(resources, _OF_RESOURCES)
    )
    yield from _of_algorithm(request)
    if shared and value_at(request, "RemoteDebugConfig.EnableRemoteDebug") is True:
        yield _cause("shell")
    channels = request.get("InputDataConfig")
    mode = value_at(request, "AlgorithmSpecification.TrainingInputMode")
    for channel in channels if isinstance(channels, list) else ():
        if isinstance(channel, Mapping):
            yield from _of_channel(channel, mode)


def _of_algorithm(request: Request) -> Iterator[str]:
    algorithm = request.get("AlgorithmSpecification")
    algorithm = algorithm if isinstance(algorithm, Mapping) else {}
    if algorithm.get("AlgorithmName"):
        yield _cause("field", ALGORITHM)
    if algorithm.get("TrainingInputMode", "File") != "File":
        yield _cause("input_mode", str(algorithm["TrainingInputMode"]))
    parameters = request.get("HyperParameters")
    has_script = isinstance(parameters, Mapping) and all(name in parameters for name in _SCRIPT)
    if not algorithm.get("ContainerEntrypoint") and not has_script:
        yield _cause("entry_point")


def _of_channel(channel: Mapping[str, Any], default_mode: object) -> Iterator[str]:
    name = str(channel.get("ChannelName", ""))
    source = channel.get("DataSource")
    source = source if isinstance(source, Mapping) else {}
    s3 = source.get("S3DataSource")
    if not isinstance(s3, Mapping):
        system = value_at(source, "FileSystemDataSource.FileSystemType")
        yield _cause("no_s3", name, "" if system is MISSING else str(system))
        s3 = {}
    elif s3.get("S3DataType", "S3Prefix") != "S3Prefix":
        yield _cause("manifest", name, str(s3["S3DataType"]))
    if s3.get("S3DataDistributionType", "FullyReplicated") != "FullyReplicated":
        yield _cause("sharding", name)
    mode = channel.get("InputMode", "File")
    if mode not in ("File", default_mode):  # The algorithm's own mode is a cause already.
        yield _cause("channel_mode", name, str(mode))
    yield from (_cause("channel_field", name, key) for key in _others(channel, _OF_CHANNELS))
    yield from (_cause("channel_field", name, key) for key in _others(s3, _OF_S3))
    if channel.get("RecordWrapperType", "None") != "None":
        yield _cause("channel_field", name, "RecordWrapperType")


def _others(found: object, known: frozenset[str]) -> Iterator[str]:
    """The other fields that say something: SageMaker takes false and empty as absent."""
    if isinstance(found, Mapping):
        yield from (str(name) for name in sorted(found) if name not in known and found[name])


def _cause(code: str, *names: str) -> str:
    return WholeCause.written(code, *names)


def _first_rules(
    submission: Submission, pools: Iterable[Pool], by_default: Sequence[str]
) -> NodeRules | None:
    """The rules of the first of the job's pools with nodes; None: it has none, or asks for none."""
    if not submission.gpus:
        return None
    keeping = {pool.name: pool for pool in pools if pool.nodes}
    for name in submission.pools or by_default or keeping:
        pool = keeping.get(name)
        if pool is not None and (
            submission.pools or pool.instance_type in submission.instance_types
        ):
            return pool.nodes
    return None


def _gpus_on(pool: Pool) -> int:
    """The GPUs of one instance, as far as is known."""
    return (pool.nodes.gpus if pool.nodes else 0) or gpus_in(pool)


def _may_have(pool: Pool, gpus: Gpus) -> bool:
    known = WHOLE * _gpus_on(pool)
    return known >= gpus or (not known and pool.instance_type not in CONTENTS)


def _has(request: Request, path: str) -> bool:
    return value_at(request, path) not in (MISSING, None, "")


def _plain(value: Any) -> Any:
    """A value as the tenant's key has it: absent and false alike, lists of ids in any order."""
    if value is MISSING or value is False:
        return None
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted(map(str, value))
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
