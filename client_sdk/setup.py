"""Packs the Lambda's handler into the package: `slotq local` runs the very file that is deployed.

It stands outside of this folder (functions/queue_manager/app.py), where pyproject.toml alone cannot
reach. A source distribution carries a copy of it at the place where the package looks for it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
HANDLER = HERE.parent / "functions" / "queue_manager" / "app.py"
PLACE = Path("slotq/local/queue_manager/app.py")


class BuildWithHandler(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # An editable install finds it in the checkout.
            _copy(Path(self.build_lib) / PLACE)


class SdistWithHandler(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        _copy(Path(base_dir) / "src" / PLACE)


def _copy(target: Path) -> None:
    """From the checkout, else from where a source distribution has it."""
    source = next(path for path in (HANDLER, HERE / "src" / PLACE) if path.is_file())
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithHandler, "sdist": SdistWithHandler})
