"""The wheels of the packages, in an environment that has nothing else of this repository."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from slotq.cli.exits import ExitCode

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "typing" / "public_api.py"

pytestmark = pytest.mark.built

PINS = ROOT / "constraints/main.txt"
INSTALL = ("install", "--quiet", "--disable-pip-version-check", "-c", PINS)


def run(
    *command: str | Path, folder: Path, expected: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """In a folder from which nothing of the repository can be seen. `expected`: the exit code."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    kept["PIP_NO_COMPILE"] = "1"  # A test imports little of what it installs.
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == expected, ran.stdout + ran.stderr
    return ran


def copy_sources(copy: Path) -> None:
    """What is built from the copy leaves no trace here."""
    made = shutil.ignore_patterns("build", "built", "node_modules", "*.egg-info", "__pycache__")
    for part in ("layers/core", "client_sdk", "functions"):
        shutil.copytree(ROOT / part, copy / part, ignore=made)
    (copy / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "openapi.json", copy / "docs")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By distribution."""
    folder, copy = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("copy")
    copy_sources(copy)
    sources = (copy / "layers" / "core", copy / "client_sdk", copy / "client_sdk" / "training")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    run(sys.executable, "-m", "pip", *build, *sources, folder=folder)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def clean(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheels and what they ask for."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    core, client = wheels["slotq_core"], wheels["slotq"]
    wanted = (f"slotq-core[aws] @ {core.as_uri()}", f"slotq[local] @ {client.as_uri()}")
    run(python, "-m", "pip", *INSTALL, *wanted, folder=folder)
    return python


@pytest.fixture(scope="module")
def alone(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the two wheels, as docs/give-it-to-your-team.md installs
    them, without an extra."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", *INSTALL, wheels["slotq_core"], wheels["slotq"], folder=folder)
    return python


def test_the_client_alone_says_what_is_missing_and_how_to_install_it(alone, tmp_path):
    """The whole hint at once, before anything else; its command makes the next try work."""
    ran = run(alone, "-m", "slotq", "demo", folder=tmp_path, expected=ExitCode.USAGE)
    assert ran.stdout == ""
    missing = ran.stderr.partition("missing here: ")[2].partition(". ")[0].split("; ")
    assert {"moto", "sagemaker", "aws-lambda-powertools"} <= set(missing)
    emulator = (alone, "-m", "slotq", "local")
    environment = {"SLOTQ_LOCAL_DIR": str(tmp_path)}
    start = (*emulator, "start", "--detach", "--port", "0")
    ran = run(*start, folder=tmp_path, expected=ExitCode.USAGE, **environment)
    command = shlex.split(ran.stderr.partition("To install what it needs: ")[2])
    assert not [word for word in command[4:] if word.startswith("slotq")]
    run(*command, "--quiet", "-c", PINS, folder=tmp_path)
    run(*start, folder=tmp_path, **environment)
    run(*emulator, "stop", folder=tmp_path, **environment)


def test_the_wheels_have_types_and_the_handler(wheels):
    names = {name: set(zipfile.ZipFile(path).namelist()) for name, path in wheels.items()}
    assert "slotq_core/py.typed" in names["slotq_core"]
    assert "slotq/py.typed" in names["slotq"]
    assert "slotq_training.py" in names["slotq_training"]
    handler = zipfile.ZipFile(wheels["slotq"]).read("slotq/local/queue_manager/app.py")
    assert handler == (ROOT / "functions" / "queue_manager" / "app.py").read_bytes()
    shipped = zipfile.ZipFile(wheels["slotq"]).read("slotq/packaging/slotq_training.py")
    assert shipped == (ROOT / "client_sdk" / "training" / "slotq_training.py").read_bytes()
    assert "slotq/cli/summaries.json" in names["slotq"]
    there = {name for each in names.values() for name in each}
    for package in (ROOT / "client_sdk" / "src", ROOT / "layers" / "core" / "python"):
        for path in package.rglob("*.py"):
            assert path.relative_to(package).as_posix() in there


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_wheel_has_the_page_where_npm_is(clean, tmp_path):
    page = "from slotq.ui.built_page import BuiltPage; print(BuiltPage().at('/jobs/a').kind)"
    assert run(clean, "-c", page, folder=tmp_path).stdout == "text/html; charset=utf-8\n"


def test_without_npm_the_package_is_built_without_the_page_and_says_so(tmp_path):
    copy_sources(tmp_path)
    make = (
        "from setuptools import build_meta;"
        "build_meta.build_wheel('..'); build_meta.build_sdist('..')"
    )
    client = tmp_path / "client_sdk"
    built = run(sys.executable, "-c", make, folder=client, PATH=str(tmp_path))
    assert "npm is missing: the package gets no page" in built.stdout + built.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("slotq-*.whl"))).namelist()
    assert "slotq/ui/page_server.py" in names
    assert not [name for name in names if "ui/built/" in name]
    assert list(tmp_path.glob("slotq-*.tar.gz"))


def test_the_program_runs_as_a_script_and_as_a_module(clean, tmp_path):
    script = run(clean.parent / "slotq", "version", folder=tmp_path)
    module = run(clean, "-m", "slotq", "version", folder=tmp_path)
    assert script.stdout == module.stdout
    assert module.stdout.startswith("slotq 0.")


def test_the_program_needs_no_sdk_until_one_is_used(clean, tmp_path):
    code = (
        "import sys, slotq, slotq.client, slotq.session.install;"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in {'sagemaker', 'moto'}))"
    )
    assert run(clean, "-c", code, folder=tmp_path).stdout == "[]\n"


def test_the_emulator_runs_a_job_without_a_checkout(clean, tmp_path):
    environment = {"SLOTQ_LOCAL_DIR": str(tmp_path)}
    slotq = (clean, "-m", "slotq")
    run(*slotq, "local", "start", "--detach", "--port", "0", folder=tmp_path, **environment)
    try:
        shown = run(*slotq, "local", "env", "--json", folder=tmp_path, **environment).stdout
        settings = {**environment, **json.loads(shown)}
        listed = run(*slotq, "pools", folder=tmp_path, **settings).stdout
        assert "main" in listed
    finally:
        run(*slotq, "local", "stop", folder=tmp_path, **environment)


def test_a_users_code_is_type_checked_with_the_wheels(clean, tmp_path):
    sample = tmp_path / "sample.py"
    sample.write_text(SAMPLE.read_text())
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nenable_error_code = deprecated\n")
    settings = ("--config-file", config, "--cache-dir", tmp_path / "cache")
    check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", clean, *settings)
    run(*check, sample, folder=tmp_path)
    wrong = sample.read_text().replace(
        'queue.jobs.view("job1"), JobView', "queue.jobs.view(1), JobView"
    )
    sample.write_text(wrong)
    with pytest.raises(AssertionError, match="arg-type"):
        run(*check, sample, folder=tmp_path)
