"""A command line as a CreateTrainingJob request: the folder goes to S3, the container runs it.

The code arrives through an input channel. Script mode uses hyperparameters instead, which need the
image's own toolkit. With a channel, any image with `sh` and `tar` works, even without a network,
and the command receives SageMaker's SIGTERM, which the toolkit would not pass on. As in script
mode, SM_MODEL_DIR, SM_OUTPUT_DATA_DIR and SM_CHANNEL_… are set. So are MASTER_IP, MASTER_ADDR,
MASTER_PORT, WORLD_SIZE (nodes) and RANK (this node), unless the job's environment has them.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from slotq.configuration.settings import Config
from slotq.errors import NotConfigured
from slotq.packaging.archive import Pack
from slotq_core.wire.views.pools import PoolView

CHANNEL = "slotq"
"""The input channel for the code; no other input may use this name."""
ARCHIVE, DRIVER = "sourcedir.tar.gz", "run.sh"
_LONGEST_STEM = 40
_PYTHON = re.compile(r"python[0-9.]*")
_RUNNERS = re.compile(r"(python|sh|bash|zsh|torchrun|accelerate|deepspeed)[0-9.]*")

_DRIVER = """#!/bin/sh
# Made by `slotq submit`: unpacks the folder and becomes the command.
set -e
here=$(cd "$(dirname "$0")" && pwd)
ml=$(cd "$here/../../.." && pwd)
export PYTHONUNBUFFERED="${{PYTHONUNBUFFERED:-1}}"
export SM_MODEL_DIR="${{SM_MODEL_DIR:-$ml/model}}"
export SM_OUTPUT_DATA_DIR="${{SM_OUTPUT_DATA_DIR:-$ml/output/data}}"
for channel in "$ml"/input/data/*/; do
  name=$(basename "$channel" | tr 'a-z.-' 'A-Z__')
  export "SM_CHANNEL_$name=${{channel%/}}"
done
config="$ml/input/config/resourceconfig.json"
nodes=$(grep -o '"algo-[0-9]*"' "$config" 2>/dev/null | sort -u | wc -l)
node=$(grep -o '"current_host" *: *"algo-[0-9]*"' "$config" 2>/dev/null | tr -dc 0-9)
master=127.0.0.1 address=127.0.0.1
if [ "$nodes" -gt 1 ] && ! grep -q '"network_interface_name" *: *"lo"' "$config"; then
  master=algo-1 tries=0
  until address=$(getent hosts "$master") || [ $tries -ge 60 ]; do
    tries=$((tries + 1))
    sleep 1
  done
  address=${{address%% *}}
fi
export MASTER_ADDR="${{MASTER_ADDR:-$master}}" MASTER_IP="${{MASTER_IP:-${{address:-$master}}}}"
export MASTER_PORT="${{MASTER_PORT:-2222}}"
export WORLD_SIZE="${{WORLD_SIZE:-$((nodes > 1 ? nodes : 1))}}"
export RANK="${{RANK:-$((${{node:-1}} - 1))}}"
{passes}mkdir -p "$ml/code"
cd "$ml/code"
tar -xzf "$here/{archive}"
{enters}exec {command}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandJob:
    """What the user wants to run. Values that are None come from the config."""

    command: Sequence[str]
    name: str | None = None
    instance_type: str | None = None
    image: str | None = None
    role: str | None = None
    output: str | None = None
    instance_count: int = 1
    volume: int = 30
    """In GB."""
    max_runtime: int = 86400
    """In seconds."""
    gpus: float = 0
    """GPUs of a node, or a part of one GPU; 0: whole instances. A pool with nodes may have image
    and role for the job."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """S3 URIs by channel."""
    environment: Mapping[str, str] = field(default_factory=dict)


def driver(command: Sequence[str], *, start: str = "") -> bytes:
    """The script that the container runs. `start`: where in the packed folder the command starts;
    empty: at its top."""
    # A shell between the two would keep the signal to itself.
    passes = "export SLOTQ_PASSES_SIGTERM=1\n" if _PYTHON.fullmatch(Path(command[0]).name) else ""
    enters = f"cd {shlex.quote(start)}\n" if start else ""
    return _DRIVER.format(
        archive=ARCHIVE, command=shlex.join(command), passes=passes, enters=enters
    ).encode(errors="surrogateescape")  # A word of the command line is bytes.


def code_uri(job: CommandJob, pack: Pack, config: Config) -> str:
    """The S3 folder for the code and the driver."""
    output = needed("output", job.output or config.output, "--output s3://bucket/folder")
    return code_folder(output, pack, driver(job.command))


def code_folder(output: str, pack: Pack, script: bytes | None) -> str:
    """The S3 folder below `output`. Its name is a digest of the content, so a waiting job keeps the
    code it was submitted with, whatever is submitted later. `script`: the driver; None: script
    mode."""
    drivers = f"-{_digest_of(script)}" if script is not None else ""
    return f"{output.rstrip('/')}/code/{pack.digest}{drivers}"


def request_of(
    job: CommandJob, config: Config, *, code: str, pools: Sequence[PoolView], now: datetime
) -> dict[str, Any]:
    """The request. `pools`: the pools that the job may run in; they determine the instance type if
    none is set.

    Raises NotConfigured with the name of a missing setting and the ways to set it.
    """
    name = job.name or job_name(job.command, now)
    output = needed("output", job.output or config.output, "--output s3://bucket/folder")
    if CHANNEL in job.inputs:
        raise NotConfigured(
            f"the channel '{CHANNEL}' carries the code; choose another name for the input"
        )
    kind = _instance_type(job, config, pools)
    given = _given_by_nodes(kind, pools) if job.gpus else frozenset()
    image, role = job.image or config.image, job.role or config.role
    request: dict[str, Any] = {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            **(
                {}
                if image is None and "image" in given
                else {"TrainingImage": needed("image", image, "--image URI")}
            ),
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["/bin/sh", f"/opt/ml/input/data/{CHANNEL}/{DRIVER}"],
        },
        **(
            {}
            if role is None and "role" in given
            else {"RoleArn": needed("role", role, "--role ARN")}
        ),
        "InputDataConfig": [_channel(name, uri) for name, uri in job.inputs.items()],
        "OutputDataConfig": {"S3OutputPath": output},
        **_checkpoints(output, name),
        "ResourceConfig": {
            "InstanceType": kind,
            "InstanceCount": job.instance_count,
            "VolumeSizeInGB": job.volume,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": job.max_runtime},
    }
    if job.environment:
        request["Environment"] = dict(job.environment)
    return with_code_channel(request, f"{code}/")


def under(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The request of a command under another name, and with checkpoints of its own: the job of the
    first name may still run."""
    output = request["OutputDataConfig"]["S3OutputPath"]
    return {**request, "TrainingJobName": name, **_checkpoints(output, name)}


def _checkpoints(output: str, name: str) -> dict[str, Any]:
    return {"CheckpointConfig": {"S3Uri": f"{output.rstrip('/')}/{name}/checkpoints"}}


def upload(s3: Any, uri: str, pack: Pack, command: Sequence[str]) -> None:
    """Upload code and driver to the S3 folder `uri`. Raises boto3's errors."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    for name, content in ((ARCHIVE, pack.content), (DRIVER, driver(command))):
        s3.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=content)


def job_name(command: Sequence[str], now: datetime) -> str:
    """Name of the script and the time in milliseconds, such as `train-1120-103000-123`."""
    stem = _legal(PurePosixPath(_script(command)).stem) or "job"
    moment = now.astimezone(UTC)
    return (
        f"{stem[:_LONGEST_STEM].rstrip('-')}-{moment:%m%d-%H%M%S}-{moment.microsecond // 1000:03d}"
    )


def _script(command: Sequence[str]) -> str:
    """The first word that is neither an option nor an interpreter or launcher."""
    for word in command:
        if not word.startswith("-") and not _RUNNERS.fullmatch(Path(word).name):
            return word
    return command[0]


def _legal(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")


def with_code_channel(request: Mapping[str, Any], uri: str) -> dict[str, Any]:
    """The request with the code below the URI in a channel of its own, the first.

    SageMaker requires that all channels of a job name instance groups, or none does. Where another
    channel names some, the code goes to every group.
    """
    others = [*(request.get("InputDataConfig") or ())]
    groups = (request.get("ResourceConfig") or {}).get("InstanceGroups") or ()
    names = [group["InstanceGroupName"] for group in groups if group.get("InstanceGroupName")]
    chosen = names if any(map(_names_groups, others)) else []
    return {**request, "InputDataConfig": [_channel(CHANNEL, uri, groups=chosen), *others]}


def _names_groups(channel: Mapping[str, Any]) -> bool:
    source = (channel.get("DataSource") or {}).get("S3DataSource") or {}
    return bool(source.get("InstanceGroupNames"))


def _channel(name: str, uri: str, *, groups: Sequence[str] = ()) -> dict[str, Any]:
    """An input channel with everything below the URI, for these instance groups (empty: all)."""
    source: dict[str, Any] = {
        "S3DataType": "S3Prefix",
        "S3Uri": uri,
        "S3DataDistributionType": "FullyReplicated",
    }
    if groups:
        source["InstanceGroupNames"] = list(groups)
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def _given_by_nodes(instance_type: str, pools: Sequence[PoolView]) -> frozenset[str]:
    """What the first of the pools that keeps nodes gives jobs that name none: image and role."""
    every = (pool.settings.nodes for pool in pools if pool.instance_type == instance_type)
    rules = next((nodes for nodes in every if nodes), None)
    given = {"image": rules.image, "role": rules.role} if rules else {}
    return frozenset(name for name, value in given.items() if value)


def _instance_type(job: CommandJob, config: Config, pools: Sequence[PoolView]) -> str:
    """The type that was set, else the one type shared by all `pools`. Raises NotConfigured."""
    asked = job.instance_type or config.instance_type
    if asked:
        return asked
    kinds = list(dict.fromkeys(pool.instance_type for pool in pools))
    if len(kinds) == 1:
        return kinds[0]
    return needed("instance_type", None, f"--instance-type, of {', '.join(kinds) or 'no pool'}")


def needed(setting: str, value: str | None, option: str) -> str:
    """The setting's value. Raises NotConfigured with the ways to set it."""
    if value is None:
        raise NotConfigured(
            f"{setting} is not set: give {option}, or SLOTQ_{setting.upper()}, or save it with "
            f"`slotq configure --{setting.replace('_', '-')} …`"
        )
    return value


def _digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]
