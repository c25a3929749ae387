"""The command of a training job and the SM_* environment of SageMaker's script mode."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slotq.local.container.transfer import Fault
from slotq.local.container.workdir import NETWORK_INTERFACE, Host, resource_config

_PROGRAM, _DIRECTORY = "sagemaker_program", "sagemaker_submit_directory"
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "USER", "TZ", "VIRTUAL_ENV")


def hyperparameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters, decoded: the SDK writes each value as JSON."""
    return {name: _decoded(text) for name, text in (request.get("HyperParameters") or {}).items()}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def source_of(request: Mapping[str, Any]) -> str | None:
    """The location of the user's code (an S3 URI of a tar file, or a folder); None without script
    mode."""
    values = hyperparameters(request)
    return str(values[_DIRECTORY]) if _PROGRAM in values and values.get(_DIRECTORY) else None


def user_arguments(request: Mapping[str, Any]) -> list[str]:
    """`--name value` (`-n value` for one letter) for each hyperparameter of the user, by name."""
    arguments = []
    for name, value in sorted(hyperparameters(request).items()):
        if not name.startswith("sagemaker_"):
            arguments += [f"--{name}" if len(name) > 1 else f"-{name}", str(value)]
    return arguments


def command_of(request: Mapping[str, Any], host: Host) -> tuple[list[str], str]:
    """The command of a host's process, and the folder to start in. Raises Fault."""
    if source_of(request) is not None:
        return _script_command(request, host), f"{host.seen}/code"
    algorithm = request.get("AlgorithmSpecification") or {}
    entry = algorithm.get("ContainerEntrypoint")
    if not entry:
        raise Fault(
            "the emulator cannot run images: give the estimator an entry_point and a "
            "source_dir, or give AlgorithmSpecification.ContainerEntrypoint a command of this "
            "machine"
        )
    words = [*entry, *(algorithm.get("ContainerArguments") or ())]
    return [host.text(word) for word in words], host.seen


def _script_command(request: Mapping[str, Any], host: Host) -> list[str]:
    program = str(hyperparameters(request)[_PROGRAM])
    arguments = [host.text(word) for word in user_arguments(request)]
    if not (host.root / "code" / program).is_file():
        raise Fault(f"the script '{program}' is not in {source_of(request)}")
    if program.endswith(".sh"):
        return ["/bin/sh", "-c", shlex.join(["sh", f"./{program}", *arguments])]
    return [sys.executable, program, *arguments]


def environment_of(
    request: Mapping[str, Any], host: Host, *, arn: str, aws: Mapping[str, str]
) -> dict[str, str]:
    """The complete environment of the process. Only `_KEPT` and PATH come from the emulator's own
    environment. `aws` has the AWS credentials: the emulator's, no others."""
    name = request["TrainingJobName"]
    own = {key: os.environ[key] for key in _KEPT if key in os.environ}
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    given = {key: host.text(value) for key, value in (request.get("Environment") or {}).items()}
    return {
        **own,
        "PATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        **_script_mode(request, host),
        **given,
        **aws,
        "TRAINING_JOB_NAME": name,
        "TRAINING_JOB_ARN": arn,
    }


def _script_mode(request: Mapping[str, Any], host: Host) -> dict[str, str]:
    base, values = host.seen, hyperparameters(request)
    channels = [one["ChannelName"] for one in request.get("InputDataConfig") or ()]
    resources = resource_config(host, request)
    mine = {name: value for name, value in values.items() if not name.startswith("sagemaker_")}
    program = str(values.get(_PROGRAM, ""))
    return {
        "SM_MODEL_DIR": f"{base}/model",
        "SM_INPUT_DIR": f"{base}/input",
        "SM_INPUT_CONFIG_DIR": f"{base}/input/config",
        "SM_OUTPUT_DIR": f"{base}/output",
        "SM_OUTPUT_DATA_DIR": f"{base}/output/data",
        "SM_MODULE_DIR": str(values.get(_DIRECTORY, f"{base}/code")),
        "SM_MODULE_NAME": program.removesuffix(".py"),
        "SM_USER_ENTRY_POINT": program,
        "SM_USER_ARGS": json.dumps(user_arguments(request)),
        "SM_HPS": json.dumps(mine),
        **{f"SM_HP_{_upper(name)}": str(value) for name, value in mine.items()},
        "SM_CHANNELS": json.dumps(channels),
        **{f"SM_CHANNEL_{_upper(name)}": f"{base}/input/data/{name}" for name in channels},
        "SM_HOSTS": json.dumps(resources["hosts"]),
        "SM_CURRENT_HOST": host.name,
        "SM_CURRENT_INSTANCE_TYPE": resources["current_instance_type"],
        "SM_CURRENT_INSTANCE_GROUP": resources["current_group_name"],
        "SM_RESOURCE_CONFIG": json.dumps(resources),
        "SM_NETWORK_INTERFACE_NAME": NETWORK_INTERFACE,
        "SM_NUM_GPUS": "0",
        "SM_NUM_CPUS": str(os.cpu_count() or 1),
        "SM_LOG_LEVEL": str(values.get("sagemaker_container_log_level", 20)),
        "PYTHONPATH": f"{base}/code",
    }


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
