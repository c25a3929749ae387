"""Packs what stands outside of the package, where pyproject.toml cannot reach.

`slotq local` runs the very handler that is deployed (functions/queue_manager/app.py). `slotq
submit` ships slotq_training.py, a distribution of its own (training/). A source distribution has
copies of them where the package looks for them. `slotq ui` serves the page that npm builds from
ui/; without npm the package is built without the page, and says so.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
UI = HERE / "ui"
PAGE = HERE / "src/slotq/ui/built"
"""Where vite.config.ts puts the page, and the package looks for it."""
FILES = {
    Path("slotq/local/queue_manager/app.py"): HERE.parent / "functions/queue_manager/app.py",
    Path("slotq/packaging/slotq_training.py"): HERE / "training/slotq_training.py",
}


class BuildWithFiles(build_py):
    def run(self) -> None:
        if not self.editable_mode:  # A checkout builds it with `make ui`.
            _build_page()
        super().run()
        if not self.editable_mode:  # An editable install finds it in the checkout.
            _copy(Path(self.build_lib))


class SdistWithFiles(sdist):
    def run(self) -> None:
        _build_page()
        super().run()

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        _copy(Path(base_dir) / "src")


def _build_page() -> None:
    if not (UI / "package.json").is_file():  # A source distribution has it built, or has none.
        return
    npm = shutil.which("npm")
    if npm is None:
        logging.getLogger(__name__).warning("npm is missing: the package gets no page (`slotq ui`)")
        return
    for command in ("ci", "run build"):
        ran = subprocess.run([npm, *command.split()], cwd=UI, check=False)  # noqa: S603 - as found
        if ran.returncode:  # An old node, or no way to a registry: all other commands work.
            logging.getLogger(__name__).warning("npm failed: the package gets no page (`slotq ui`)")
            return


def _copy(folder: Path) -> None:
    """From the checkout, else from where a source distribution has them."""
    for place, file in FILES.items():
        source = next(path for path in (file, HERE / "src" / place) if path.is_file())
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithFiles, "sdist": SdistWithFiles})
