"""The replacement for a training job's image: a Python of this machine, with its packages.

Each job has an environment of its own over it. What a job installs, upgrades or removes is in that
environment alone, as in a container: pip and uv install where they run, and remove nothing
elsewhere. The image's packages come after the job's own on `sys.path`. Its commands, such as `pip`
and `torchrun`, run on the job's Python, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slotq.local.container.transfer import JobInputError
from slotq.local.container.workdir import Host
from slotq_core.errors import SlotQError

PASSES_SIGTERM = "SLOTQ_PASSES_SIGTERM"
"""Environment variable of a job. `1`: SIGTERM reaches the script."""


class NoPython(SlotQError):
    """There is no such Python. The message names the path."""


@dataclass(frozen=True, kw_only=True)
class Image:
    python: str = sys.executable
    """Runs the scripts."""
    toolkit: str | None = None
    """The `train` command of SageMaker's training toolkit. None: script mode of our own."""
    passes_sigterm: bool = False
    """Whether scripts get SIGTERM, unless a job says otherwise."""
    original_folder: str | None = None
    """The folder of the image's own Python, where `python` is a job's environment over it."""

    @property
    def folder(self) -> str:
        """The folder of the Python and of the commands installed with it."""
        return str(Path(self.python).parent)

    @property
    def folders(self) -> list[str]:
        """Where commands are looked for first."""
        return [self.folder, *([self.original_folder] if self.original_folder else [])]

    def text(self, text: str) -> str:
        """The text, with the job's own Python and commands in place of the image's."""
        if self.original_folder is None:
            return text
        named = re.compile(rf"(?<![\w./-]){re.escape(self.original_folder)}/([\w.-]+)(?![\w./-])")
        return named.sub(self._own, text)

    def _own(self, named: re.Match[str]) -> str:
        own = Path(self.folder) / named[1]
        return str(own) if own.exists() else named[0]

    def passes_sigterm_to(self, request: Mapping[str, Any]) -> bool:
        """Whether the job's script gets SIGTERM. Its environment variable overrides the image."""
        said = (request.get("Environment") or {}).get(PASSES_SIGTERM)
        return self.passes_sigterm if said is None else said == "1"


def read(python: str | None, *, passes_sigterm: bool) -> Image:
    """The image with this Python (None: our own). Uses the toolkit if that Python has it. Raises
    NoPython."""
    path = python or sys.executable
    if not os.access(path, os.X_OK) or Path(path).is_dir():
        raise NoPython(f"{path} is not a Python that can be run")
    path = str(Path(path).absolute())  # Not resolved: a link leads into a virtual environment.
    toolkit = Path(path).parent / "train"
    has_toolkit = _is_of_toolkit(toolkit)
    return Image(
        python=path, toolkit=str(toolkit) if has_toolkit else None, passes_sigterm=passes_sigterm
    )


def _is_of_toolkit(command: Path) -> bool:
    try:
        return bool(shutil.which(command)) and "sagemaker_training" in command.read_text()
    except (OSError, UnicodeDecodeError):
        return False


_PATIENCE = 60.0
_MAKE = r"""
import json, os, site, sys, sysconfig, venv

def sees_the_systems():
    if sys.prefix == sys.base_prefix:
        return True
    with open(os.path.join(sys.prefix, "pyvenv.cfg")) as file:
        words = [line.lower().split() for line in file]
    return ["include-system-site-packages", "=", "true"] in words

made = sys.argv[1]
venv.EnvBuilder(symlinks=True, system_site_packages=sees_the_systems()).create(made)
folders = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
if sys.prefix != sys.base_prefix:
    folders += site.getsitepackages([sys.prefix])
version = os.path.basename(sysconfig.get_path("stdlib"))
# Last in the alphabet: what editable installs of the job add comes before the image's packages.
with open(os.path.join(made, "lib", version, "site-packages", "zzz_slotq_image.pth"), "w") as file:
    file.write("import sys; "
               "sys.meta_path.sort(key=lambda f: getattr(f, '__name__', '') == 'PathFinder')\n")
    for folder in folders:
        file.write("import site; site.addsitedir({!r})\n".format(folder))
"""
_INTERPRETER = re.compile(rb"\A#!(?:/bin/sh\n'''exec' )?[ \"]*([^\s\"]+)")
"""The Python of a command: in its first line, or in the second where the path is long."""
_ON_THE_PYTHON_BESIDE = b"""#!/bin/sh
'''exec' "${0%/*}/python" "$0" "$@"
' '''
"""
"""How a command begins that runs on the Python of its own folder, wherever that is."""


class JobPythons:
    """Makes the environments, as copies of one. Thread-safe."""

    def __init__(self, image: Image, work: Path) -> None:
        self._image = image
        self._pattern = work / ".python"
        """The environment that all are copies of. No training job has such a name."""
        self._commands_of: int | None = None
        """When commands were last added to the image, or removed; None: nothing is made yet."""
        self._lock = threading.Lock()

    def made_for(self, host: Host) -> Image:
        """The image as the host's processes see it, with a new environment. Raises Fault."""
        with self._lock:
            changed = Path(self._image.folder).stat().st_mtime_ns
            if changed != self._commands_of:
                self._make_pattern()
                self._commands_of = changed
            shutil.copytree(self._pattern, host.environment, symlinks=True)
        if host.contained:
            _allow_user_packages(host.environment / "pyvenv.cfg")
        name = Path(self._image.python).name
        if not (host.environment / "bin" / name).exists():
            name = "python"
        python = f"{host.seen_environment}/bin/{name}"
        return replace(self._image, python=python, original_folder=self._image.folder)

    def _make_pattern(self) -> None:
        shutil.rmtree(self._pattern, ignore_errors=True)
        self._pattern.parent.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(  # the image's Python, with a program of ours # nosec B603
                [self._image.python, "-E", "-c", _MAKE, str(self._pattern)],
                cwd=self._pattern.parent,
                check=True,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = str(getattr(error, "stderr", "") or error).strip()
            raise JobInputError(
                f"{self._image.python} cannot make an environment for the job: {said[-500:]}"
            ) from None
        _add_commands(self._image, self._pattern / "bin")


def _allow_user_packages(settings: Path) -> None:
    """Let pip install into the home of a user who cannot write into the environment, as it does
    with an image's Python: the jobs of a node are such users."""
    key = "include-system-site-packages = "
    settings.write_text(settings.read_text().replace(f"{key}false", f"{key}true"))


def _add_commands(image: Image, folder: Path) -> None:
    """Add the image's commands in Python to the folder. Remove what names the folder itself."""
    for file in folder.iterdir():
        if file.name.lower().startswith("activate"):
            file.unlink()
    for command in Path(image.folder).iterdir():
        own = folder / command.name
        if not own.exists() and (text := _on_the_python_beside(command, image)):
            own.write_bytes(text)
            own.chmod(0o755)


def _on_the_python_beside(command: Path, image: Image) -> bytes | None:
    """The text of a command of the image, to run on another Python; None for other files."""
    try:
        with command.open("rb") as file:
            if file.read(2) != b"#!":
                return None
        text = command.read_bytes()
    except OSError:
        return None
    found = _INTERPRETER.match(text)
    if found is None or not _is_in_folder(os.fsdecode(found[1]), image.folder):
        return None
    lines = text.split(b"\n", 3 if text.startswith(b"#!/bin/sh\n") else 1)
    return _ON_THE_PYTHON_BESIDE + lines[-1]


def _is_in_folder(interpreter: str, folder: str) -> bool:
    """Whether it is a Python of that folder, by whatever path it is named."""
    python = Path(interpreter)
    try:
        return python.name.startswith("python") and python.parent.samefile(folder)
    except OSError:
        return False
