"""A job's installs stay with the job, and leave the developer's environment as it is."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional.local.account import Account
from tests.functional.local.conftest import slotq, start
from tests.functional.local.wheels import wheel

MODULE = "def main():\n    print('command', VERSION)\nVERSION = '{}'\n"
BACKEND = """
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name, info = "slotq_probe-3.0-py3-none-any.whl", "slotq_probe-3.0.dist-info"
    here = pathlib.Path(__file__).parent
    finder = f'''
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "slotq_probe":
            return importlib.util.spec_from_file_location(name, {str(here / "edited.py")!r})
sys.meta_path.append(Finder)
'''
    files = {
        "slotq_probe_finder.py": finder,
        "slotq_probe.pth": "import slotq_probe_finder\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: slotq_probe\\nVersion: 3.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\\n" for path in files))
    return name
"""
"""Builds an editable install as setuptools does: a finder at the end of `sys.meta_path`."""
PROJECT = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
    'backend-path = ["."]\n',
    "backend.py": BACKEND,
    "edited.py": MODULE.format("3.0"),
}


@dataclass(frozen=True, kw_only=True)
class Developer:
    """An environment of a developer, with the package at version 1.0."""

    folder: Path
    account: Account
    """Of an emulator that runs jobs on that environment."""
    wheel: Path
    """The package at version 2.0."""
    project: Path
    """Its source at version 3.0."""

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def files(self) -> dict[str, str]:
        """Each file's digest. Python itself adds compiled files."""
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }


@pytest.fixture(scope="module")
def developer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Developer]:
    tmp = tmp_path_factory.mktemp("developer")
    folder, project = tmp / "venv", tmp / "project"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    wheels = []
    for version in ("1.0", "2.0"):
        made = tmp / f"slotq_probe-{version}-py3-none-any.whl"
        source = MODULE.format(version)
        made.write_bytes(wheel("slotq_probe", source, version=version, command="slotq-probe"))
        wheels.append(made)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-index"]
    subprocess.run([*pip, str(wheels[0])], check=True)
    project.mkdir()
    for name, text in PROJECT.items():
        (project / name).write_text(text)
    python = str(folder / "bin" / "python")
    account = start(tmp / "emulator", "--pool", "main=2", "--tick", "1", "--python", python)
    yield Developer(folder=folder, account=account, wheel=wheels[1], project=project)
    log = (tmp / "emulator" / "emulator.log").read_text()
    slotq("local", "stop", folder=tmp / "emulator")
    assert "Traceback" not in log, log


SEES = "python -c 'import slotq_probe; print(\"sees\", slotq_probe.VERSION)'"


def sh(developer: Developer, name: str, *commands: str, instances: int = 1) -> list[str]:
    """Run commands as a training job, with the path of the developer's Python in `$1`. Returns the
    lines of the first host."""
    account, script = developer.account, developer.project / f"{name}.sh"
    script.write_text("\n".join(["set -e", *commands]))
    algorithm = {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/sh", str(script), str(developer.python)],
    }
    account.create(name, instances=instances, AlgorithmSpecification=algorithm)
    shown = account.ended(name)
    assert shown["TrainingJobStatus"] == "Completed", (shown, account.said(name))
    return account.said(name)


@pytest.fixture
def unchanged(developer: Developer) -> Iterator[None]:
    """The developer's environment before and after. Each test begins as a next job."""
    before = developer.files()
    yield
    assert developer.files() == before
    said = subprocess.run(
        [developer.folder / "bin" / "slotq-probe"], capture_output=True, text=True, check=True
    ).stdout
    assert said == "command 1.0\n"


WAYS = [
    ("module", "python -m pip install -U --no-index {wheel}", "2.0"),
    ("command", "pip3 install -U --force-reinstall --no-index {wheel}", "2.0"),
    ("by-path", "$1 -m pip install -U --no-index {wheel}", "2.0"),
    ("command-by-path", "$(dirname $1)/pip install -U --no-index {wheel}", "2.0"),
    ("editable", "pip install --no-index --no-build-isolation -e {project}", "3.0"),
]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("name", "command", "version"), WAYS, ids=[way[0] for way in WAYS])
def test_an_upgrade_stays_with_the_job(
    developer: Developer, name: str, command: str, version: str
) -> None:
    filled = command.format(wheel=developer.wheel, project=developer.project)
    before, *_, after, command_says = sh(developer, name, SEES, filled, SEES, "slotq-probe")
    assert (before, after, command_says) == (
        "sees 1.0", f"sees {version}", f"command {version}",
    )  # fmt: skip


@pytest.mark.usefixtures("unchanged")
def test_a_package_of_the_image_is_not_removed_from_the_developer(developer: Developer) -> None:
    remove = "python -m pip uninstall -y slotq_probe"
    install = f"pip install -U --no-index {developer.wheel}"
    said = sh(developer, "removes", remove, SEES, install, SEES, remove, SEES)
    assert [line for line in said if line.startswith("sees")] == [
        "sees 1.0", "sees 2.0", "sees 1.0",
    ]  # fmt: skip


@pytest.mark.usefixtures("unchanged")
def test_the_requirements_of_a_script_stay_with_it(developer: Developer) -> None:
    account = developer.account
    script = textwrap.dedent("""
        import subprocess, sys, slotq_probe
        print("sees", slotq_probe.VERSION, flush=True)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index"]
        subprocess.run([*pip, "--no-build-isolation", "-e", sys.argv[2]], check=True)
        sees = "import slotq_probe; print('sees', slotq_probe.VERSION)"
        subprocess.run([sys.executable, "-c", sees], check=True)
    """)
    files: dict[str, str | bytes] = {
        "train.py": script,
        "requirements.txt": f"--no-index\n./{developer.wheel.name}\n",
        developer.wheel.name: developer.wheel.read_bytes(),
    }
    parameters = {
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": account.upload_source("script-files", files),
        "project": str(developer.project),
    }
    account.create("script", parameters=parameters)
    shown = account.ended("script")
    said = account.said("script")
    assert shown["TrainingJobStatus"] == "Completed", (shown, said)
    assert [line for line in said if line.startswith("sees")] == ["sees 2.0", "sees 3.0"]


@pytest.mark.usefixtures("unchanged")
def test_each_host_has_an_environment_of_its_own(developer: Developer) -> None:
    """As each has a container of its own."""
    install = f"pip install -q -U --no-index {developer.wheel}"
    first = 'grep -q \'"current_host": "algo-1"\' /opt/ml/input/config/resourceconfig.json'
    said = sh(developer, "hosts", f"if {first}; then {install}; fi", SEES, instances=2)
    assert said[-1] == "sees 2.0"
    assert developer.account.said("hosts", "algo-2") == ["sees 1.0"]


@pytest.mark.usefixtures("unchanged")
def test_no_other_python_is_installed_into(developer: Developer) -> None:
    """Also the one below the developer's environment."""
    base = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    install = f"{base} -m pip install -U --no-index {developer.wheel}"
    said = sh(developer, "other", f"{install} || echo refused", SEES)
    assert said[-2:] == ["refused", "sees 1.0"]
