"""What stands for a training job's image: a Python of this machine, and what is installed there."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """The image that this Python stands for (None: our own). Uses the toolkit if that Python has
    it. Raises NoPython."""
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
