"""The environment variables of a training job's processes, with script mode's SM_*.

Ports are the job's own: every host of every job is this machine, where SageMaker's hosts have
addresses of their own.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from slotq.local.container.image import PASSES_SIGTERM, Image
from slotq.local.container.script import (
    DIRECTORY,
    PROGRAM,
    hyperparameters,
    is_script_mode,
    user_arguments,
    user_parameters,
)
from slotq.local.container.workdir import (
    NETWORK_INTERFACE,
    Host,
    input_data_config,
    resource_config,
)

_KEPT = (
    *("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "USER", "TZ"),
    *("PIP_CONFIG_FILE", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_NO_INDEX"),
)
"""Variables of the emulator's own that jobs have too: the user's surroundings, and pip's index."""
_FRAMEWORK = "SAGEMAKER_TRAINING_MODULE"


def environment_of(
    request: Mapping[str, Any],
    host: Host,
    *,
    image: Image,
    arn: str,
    aws: Mapping[str, str],
    ports: Mapping[str, str],
) -> dict[str, str]:
    """The complete environment of the process. Only `_KEPT` and PATH come from the emulator's own
    environment. `aws` has the AWS credentials: the emulator's, no others."""
    own = {key: os.environ[key] for key in _KEPT if key in os.environ}
    requested = {key: host.text(value) for key, value in (request.get("Environment") or {}).items()}
    passes = image.passes_sigterm_to(request)
    return {
        **own,
        "PATH": os.pathsep.join([*image.folders, os.environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "VIRTUAL_ENV": host.seen_environment,
        "PIP_REQUIRE_VIRTUALENV": "1",  # No other Python of this machine is the job's.
        **({PASSES_SIGTERM: "1"} if passes else {}),
        # The agent of a node has these for each of its jobs.
        **({} if host.contained else _of_one_job(request, host, image, ports)),
        **requested,
        **aws,
        "TRAINING_JOB_NAME": request["TrainingJobName"],
        "TRAINING_JOB_ARN": arn,
    }


def _of_one_job(
    request: Mapping[str, Any], host: Host, image: Image, ports: Mapping[str, str]
) -> dict[str, str]:
    return {"PYTHONUSERBASE": str(host.home), **ports, **_script_mode(request, host, image)}


def _script_mode(request: Mapping[str, Any], host: Host, image: Image) -> dict[str, str]:
    if image.toolkit is None or not is_script_mode(request):
        return {**_sm_variables(request, host), "PYTHONPATH": f"{host.seen}/code"}
    elsewhere = {"SAGEMAKER_BASE_DIR": host.seen, "SM_STUDIO_LOCAL_MODE": "true"}
    # The toolkit makes the others. Without its own /etc/hosts it must not look up the hosts.
    return {} if host.isolated else elsewhere


def _sm_variables(request: Mapping[str, Any], host: Host) -> dict[str, str]:
    """The toolkit's variables. Its names keep a hyphen: `SM_HP_BATCH-SIZE`."""
    base = host.seen
    mine, channels = user_parameters(request), input_data_config(request)
    values: dict[str, Any] = {
        **_folders(base),
        **_code(request, base),
        **_hosts(host, request),
        "hps": mine,
        **{f"hp_{name}": value for name, value in mine.items()},
        "channels": sorted(channels),
        "input_data_config": channels,
        **{f"channel_{name}": f"{base}/input/data/{name}" for name in channels},
        "framework_module": (request.get("Environment") or {}).get(_FRAMEWORK),
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": 0,
        "num_neurons": 0,
        "log_level": hyperparameters(request).get("sagemaker_container_log_level", 20),
    }
    return {f"SM_{name.upper()}": _text(value) for name, value in values.items()}


def _folders(base: str) -> dict[str, str]:
    return {
        "model_dir": f"{base}/model",
        "input_dir": f"{base}/input",
        "input_config_dir": f"{base}/input/config",
        "output_dir": f"{base}/output",
        "output_data_dir": f"{base}/output/data",
        "output_intermediate_dir": f"{base}/output/intermediate",
    }


def _code(request: Mapping[str, Any], base: str) -> dict[str, Any]:
    values = hyperparameters(request)
    program = str(values.get(PROGRAM, ""))
    rest = {
        name: value
        for name, value in values.items()
        if name.startswith("sagemaker_") and name not in _TOOLKITS_OWN
    }
    return {
        "module_dir": str(values.get(DIRECTORY, f"{base}/code")),
        "module_name": program.removesuffix(".py"),
        "user_entry_point": program,
        "user_args": user_arguments(request),
        "framework_params": rest,
    }


_TOOLKITS_OWN = frozenset(
    {
        *(PROGRAM, DIRECTORY, "sagemaker_enable_cloudwatch_metrics", "sagemaker_region"),
        *("sagemaker_container_log_level", "sagemaker_job_name", "sagemaker_s3_output"),
    }
)
"""Hyperparameters that the toolkit reads itself and hands to no framework."""


def _hosts(host: Host, request: Mapping[str, Any]) -> dict[str, Any]:
    config = resource_config(host, request)
    groups = config["instance_groups"]
    own = config["current_group_name"]
    named = {group["instance_group_name"]: group for group in groups}
    return {
        "hosts": config["hosts"],
        "current_host": host.name,
        "current_instance_type": config["current_instance_type"],
        "current_instance_group": own,
        "current_instance_group_hosts": named[own]["hosts"],
        "instance_groups": list(named),
        "instance_groups_dict": named,
        "is_hetero": len(named) > 1,
        "resource_config": config,
        "network_interface_name": NETWORK_INTERFACE,
    }


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


_NAMES = ("MASTER_PORT", "SLOTQ_PORT")


def own_ports() -> dict[str, str]:
    """A free port for each environment variable that names one."""
    with ExitStack() as open_:
        sockets = {name: open_.enter_context(socket.socket()) for name in _NAMES}
        for listener in sockets.values():
            listener.bind(("127.0.0.1", 0))
        return {name: str(listener.getsockname()[1]) for name, listener in sockets.items()}
