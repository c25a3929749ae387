"""The command of a training job: a script by SageMaker's toolkit or as the toolkit runs it, or the
request's own command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotq.local.container.arguments import (
    PROGRAM,
    hyperparameters,
    is_script_mode,
    source_of,
    user_arguments,
)
from slotq.local.container.image import Image
from slotq.local.container.storage.transfer import Fault
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
        raise Fault(
            "the emulator cannot run images: give the estimator an entry_point and a "
            "source_dir, or give AlgorithmSpecification.ContainerEntrypoint a command of this "
            "machine"
        )
    words = [*entry, *(algorithm.get("ContainerArguments") or ())]
    return [image.text(host.text(word)) for word in words], host.seen


def _script_command(request: Mapping[str, Any], host: Host, image: Image) -> tuple[list[str], str]:
    program, code = str(hyperparameters(request)[PROGRAM]), host.root / "code"
    if not (code / program).is_file() and not _is_package(code, program):
        raise Fault(f"the script '{program}' is not in {source_of(request)}")
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
