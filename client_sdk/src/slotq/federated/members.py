"""The group that a federated job becomes: a gang of the server and the clients.

The group starts with the server, the mandatory clients and `min_clients` clients at least, and ends
with the server.

Each submission of the folder is a run under a name of its own. The first run has the job's name,
the next ones `NAME-r2`, `NAME-r3` …, as other jobs that are submitted again. The queue takes a
group with a known name and body for a repeated request; so each submission carries an id in its
members' environment, which a repeated request has, too. A retry after a lost answer makes no second
run, and two submissions at the same moment are two runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import ceil
from typing import Any

from slotq.configuration.settings import Config
from slotq.errors import InvalidRequest, NotConfigured
from slotq.federated.app_folder import TEMPLATE, FederatedApp, code_of, with_code
from slotq.federated.job_folder import JobFolder
from slotq.federated.meta import Meta
from slotq.federated.sites import GPUS, SERVER, Wanted
from slotq.jobs.submission import settings_tags, with_tags
from slotq.packaging.command_job import CHANNEL, needed
from slotq_core import names
from slotq_core.wire.resubmission import MOST_NAMES, next_names
from slotq_core.wire.views.pools import PoolView

_NAME = "TrainingJobName"
_DISK, _LONGEST = 30, 86_400
"""The disk in GB and the maximum runtime in seconds of a template that names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FederatedGroup:
    name: str
    members: tuple[dict[str, Any], ...]
    """CreateTrainingJob requests, the server's first."""
    gang: Mapping[str, Any]
    """The rules of the gang, as POST /groups takes them."""
    uploads: Mapping[str, bytes]
    """The code by S3 URI."""
    warnings: tuple[str, ...] = ()
    """What of the templates has no effect, as sentences."""


def group_of(
    job: JobFolder,
    config: Config,
    pools: Sequence[PoolView],
    *,
    tags: Mapping[str, str] | None = None,
) -> FederatedGroup:
    """The group. `tags`: settings of every member, before those of the templates. Raises
    InvalidRequest, and NotConfigured where neither template nor config has a needed value."""
    meta = job.meta
    known = {pool.name: pool for pool in pools}
    types = {pool.name: pool.instance_type for pool in pools}
    members: list[dict[str, Any]] = []
    uploads: dict[str, bytes] = {}
    for site, app_name in meta.apps.items():
        app = job.apps[app_name]
        request = _completed(app, config, meta.members[site])
        request = _placed(request, site, meta, known, config)
        request = with_tags(request, tags or {}, override=True)
        output = request["OutputDataConfig"]["S3OutputPath"]
        members.append(with_code(app, request, output))
        uploads.update(code_of(app, output))
    return FederatedGroup(
        name=meta.name,
        members=tuple(members),
        gang=rules_of(meta),
        uploads=uploads,
        warnings=tuple(
            line for app in job.apps.values() for line in _without_effect(app, meta, types)
        ),
    )


def _without_effect(app: FederatedApp, meta: Meta, types: Mapping[str, str]) -> Iterator[str]:
    """The fields of a template that the sites and meta.json override, as sentences."""
    if _NAME in app.template:
        yield f"{_NAME} of {app.where} has no effect: a member is named {meta.name}-SITE"
    sites = [site for site, name in meta.apps.items() if name == app.name]
    pools = {site: meta.pools[site] for site in sites if site in meta.pools}
    asked = (app.template.get("ResourceConfig") or {}).get("InstanceType")
    others = [f"{site} has {types[pool]}" for site, pool in pools.items() if types[pool] != asked]
    if asked and others:
        yield f"InstanceType {asked} of {app.where} has no effect where the pool has another: " + (
            ", ".join(others)
        )
    tags = {tag.get("Key") for tag in app.template.get("Tags") or ()}
    overruled = {names.POOLS_TAG: pools, names.DEMAND_TAG: {*sites} & meta.needs.keys()}
    for tag, where in overruled.items():
        if tag in tags and where:
            yield f"the tag {tag} of {app.where} has no effect at {', '.join(sorted(where))}"


def rules_of(meta: Meta) -> dict[str, Any]:
    """The rules of the gang, as POST /groups takes them."""
    members = meta.members
    rules: dict[str, Any] = {
        "min_members": 1 + meta.min_clients,
        "mandatory": [members[SERVER], *(members[site] for site in meta.mandatory)],
        "ends_with": members[SERVER],
        "sites": {name: site for site, name in members.items() if site != SERVER},
    }
    return rules if meta.heartbeat is None else {**rules, "heartbeat_seconds": meta.heartbeat}


def _completed(app: FederatedApp, config: Config, name: str) -> dict[str, Any]:
    """The template as a request, completed from the config."""
    where = app.where
    made = dict(app.template)

    def option(key: str, flag: str) -> str:
        return f"{key} in {where}" if where else flag

    algorithm = _section(made, "AlgorithmSpecification", where)
    if "AlgorithmName" not in algorithm:
        image = algorithm.get("TrainingImage") or config.image
        algorithm["TrainingImage"] = needed(
            "image", image, option("TrainingImage", "--image URI of an image that has nvflare")
        )
    algorithm.setdefault("TrainingInputMode", "File")
    role = made.get("RoleArn") or config.role
    output = _section(made, "OutputDataConfig", where)
    path = output.get("S3OutputPath") or config.output
    output["S3OutputPath"] = path = needed(
        "output", path, option("OutputDataConfig.S3OutputPath", "--output s3://bucket/folder")
    )
    resources = _section(made, "ResourceConfig", where)
    if "InstanceGroups" not in resources:
        resources.setdefault("InstanceCount", 1)
    resources.setdefault("VolumeSizeInGB", _DISK)
    if any(channel.get("ChannelName") == CHANNEL for channel in made.get("InputDataConfig") or ()):
        raise InvalidRequest(
            f"the channel '{CHANNEL}' carries the code; choose another name in {where}",
            field="InputDataConfig",
        )
    return {
        **made,
        "TrainingJobName": name,
        "AlgorithmSpecification": algorithm,
        "RoleArn": needed("role", role, option("RoleArn", "--role ARN")),
        "OutputDataConfig": output,
        "ResourceConfig": resources,
        "StoppingCondition": made.get("StoppingCondition") or {"MaxRuntimeInSeconds": _LONGEST},
        "CheckpointConfig": made.get("CheckpointConfig")
        or {"S3Uri": f"{path.rstrip('/')}/{name}/checkpoints"},
    }


def _section(template: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    value = template.get(key) or {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{key} in {where} must be an object", field=key)
    return dict(value)


def _placed(
    request: dict[str, Any], site: str, meta: Meta, pools: Mapping[str, PoolView], config: Config
) -> dict[str, Any]:
    """The request in the site's pool, with the job's demand there. In a pool that keeps nodes, the
    GPUs are those of a node."""
    pool = meta.pools.get(site)
    types = {name: view.instance_type for name, view in pools.items()}
    resources = request["ResourceConfig"]
    demand: dict[str, Wanted] = dict(meta.needs.get(site) or {})
    gpus: float | None = None
    nodes = pools[pool].settings.nodes if pool else None
    asked = [name for name in GPUS if name in demand]
    if nodes and len(asked) == 1 and resources.get("InstanceCount") == 1:
        wanted = demand[asked[0]]
        if isinstance(wanted, int | float) and wanted <= nodes.gpus:
            gpus = wanted
            del demand[asked[0]]
    # Without a node a part of a GPU takes a GPU.
    whole = {
        name: ceil(amount) if isinstance(amount, float) else amount
        for name, amount in demand.items()
    }
    tags = settings_tags(pools=pool, demand=whole or None, gpus=gpus)
    request = with_tags(request, tags, override=True)
    if "InstanceGroups" in resources:
        return request
    kind = types[pool] if pool else resources.get("InstanceType") or config.instance_type
    if kind is None:
        kinds = list(dict.fromkeys(types.values()))
        if len(kinds) != 1:
            raise NotConfigured(
                f"nothing says where the server runs: name its pool with --site {SERVER}=POOL "
                f"({', '.join(types) or 'there is no pool'}), or give its {TEMPLATE} an "
                "InstanceType"
            )
        kind = kinds[0]
    return {**request, "ResourceConfig": {**resources, "InstanceType": kind}}


RUN = "SLOTQ_RUN"
"""Environment variable of each member: the id of the submission."""


def runs_of(meta: Meta, taken: Collection[str]) -> list[str]:
    """The names to try for a new run, in order. `taken`: names of groups that exist."""
    room = names.LONGEST - max(len(name) - len(meta.name) for name in meta.members.values())
    every = chain([meta.name], next_names(meta.name, longest=room))
    return [*islice((name for name in every if name not in taken), MOST_NAMES)]


def marked(members: Iterable[Mapping[str, Any]], run: str | None) -> list[dict[str, Any]]:
    """The members with the id of this submission; None: without one."""
    if run is None:
        return [dict(member) for member in members]
    return [
        {**member, "Environment": {**(member.get("Environment") or {}), RUN: run}}
        for member in members
    ]
