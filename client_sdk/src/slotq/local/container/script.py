"""The command of a training job, and its hyperparameters.

The command is a script by SageMaker's toolkit or as the toolkit runs it, or the request's own.
Script mode makes command-line arguments of the hyperparameters.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotq.local.container.image import Image
from slotq.local.container.transfer import JobInputError
from slotq.local.container.workdir import Host

TOOLKITS_EXIT = 1
"""The toolkit's exit code when a script fails, whatever the script's own was."""
_INSTALL_FIRST = """
import os, subprocess, sys
if subprocess.run([sys.executable, "-m", "pip", "install", "-r", "requirements.txt"]).returncode:
    sys.exit("the packages of requirements.txt cannot be installed")
os.execv(sys.argv[1], sys.argv[1:])
"""


def command_of(request: Mapping[str, Any], host: Host, image: Image) -> tuple[list[str], str]:
    """The command of a host's process, and the folder to start in. Raises Fault."""
    if is_script_mode(request):
        return _script_command(request, host, image)
    algorithm = request.get("AlgorithmSpecification") or {}
    entry = algorithm.get("ContainerEntrypoint")
    if not entry:
        raise JobInputError(
            "the emulator cannot run images: give the estimator an entry_point and a "
            "source_dir, or give AlgorithmSpecification.ContainerEntrypoint a command of this "
            "machine"
        )
    words = [*entry, *(algorithm.get("ContainerArguments") or ())]
    return [image.text(host.text(word)) for word in words], host.seen


def _script_command(request: Mapping[str, Any], host: Host, image: Image) -> tuple[list[str], str]:
    program, code = str(hyperparameters(request)[PROGRAM]), host.root / "code"
    if not (code / program).is_file() and not _is_package(code, program):
        raise JobInputError(f"the script '{program}' is not in {source_of(request)}")
    if image.toolkit is not None:
        return [image.python, image.toolkit], host.seen
    command = shown_command(request, host, image)
    if program.endswith(".py") and (code / "requirements.txt").is_file():
        command = [image.python, "-c", _INSTALL_FIRST, *command]
    return command, f"{host.seen}/code"


def shown_command(request: Mapping[str, Any], host: Host, image: Image) -> list[str]:
    """The command of the user's script, as the toolkit makes it."""
    program, code = str(hyperparameters(request)[PROGRAM]), host.root / "code"
    arguments = [host.text(word) for word in user_arguments(request)]
    if _is_package(code, program):
        return [image.python, "-m", program.removesuffix(".py"), *arguments]
    if program.endswith(".py"):
        return [image.python, program, *arguments]
    (code / program).chmod(0o755)
    return ["/bin/sh", "-c", f"./{shlex.quote(program)} {shlex.join(arguments)}"]


def _is_package(code: Path, program: str) -> bool:
    return not program.endswith(".sh") and (code / "setup.py").is_file()


def ended_by(signal: int, failure: str) -> bool:
    """Whether the toolkit's text says that a signal has ended the script."""
    return f"\nExitCode -{signal}\n" in failure


def failure_of(command: Sequence[str], code: int, last_lines: Sequence[str]) -> str:
    """The text that the toolkit writes to /opt/ml/output/failure if the script wrote none."""
    said = "\n".join(last_lines)
    return (
        f'ExecuteUserScriptError:\nExitCode {code}\nErrorMessage "{said}"\n'
        f'Command "{" ".join(command)}"'
    )


PROGRAM, DIRECTORY = "sagemaker_program", "sagemaker_submit_directory"


def hyperparameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters, decoded: the SDK writes each value as JSON."""
    return {name: _decoded(text) for name, text in (request.get("HyperParameters") or {}).items()}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def user_parameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters without SageMaker's own."""
    values = hyperparameters(request).items()
    return {name: value for name, value in values if not name.startswith("sagemaker_")}


def source_of(request: Mapping[str, Any]) -> str | None:
    """The location of the user's code (an S3 URI of a tar file, or a folder); None without script
    mode."""
    values = hyperparameters(request)
    return str(values[DIRECTORY]) if PROGRAM in values and values.get(DIRECTORY) else None


def is_script_mode(request: Mapping[str, Any]) -> bool:
    return source_of(request) is not None


def user_arguments(request: Mapping[str, Any]) -> list[str]:
    """`--name value` (`-n value` for one letter) for each hyperparameter of the user, by name."""
    arguments = []
    for name, value in sorted(user_parameters(request).items()):
        arguments += [f"--{name}" if len(name) > 1 else f"-{name}", _argument(value)]
    return arguments


def _argument(value: Any) -> str:
    """A value as the toolkit writes it: a map as `key=value` pairs, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return str(value)
