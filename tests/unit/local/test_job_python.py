"""A job's Python: which commands of the image it runs, and what its environment is made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotq.local.container.image import Image, JobPythons
from slotq.local.container.transfer import JobInputError
from slotq.local.container.workdir import Host

SAYS = "import sys, word; print(word.WORD, sys.prefix)\n"


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's environment, with a module and three commands."""
    tmp = tmp_path_factory.mktemp("image")
    folder = tmp / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (tmp / "link").symlink_to(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "word.py").write_text("WORD = 'image'")
    for name, begin in (
        ("plain", f"#!{folder}/bin/python\n"),
        ("linked", f"#!{tmp}/link/bin/python3\n"),
        ("long", f"#!/bin/sh\n'''exec' \"{folder}/bin/python\" \"$0\" \"$@\"\n' '''\n"),
        ("foreign", f"#!{sys.executable}\n"),
        ("shell", "#!/bin/sh\n"),
    ):
        (folder / "bin" / name).write_text(begin + SAYS)
        (folder / "bin" / name).chmod(0o755)
    return folder


def host(tmp: Path, name: str = "algo-1") -> Host:
    return Host(name=name, root=tmp / name / "ml", isolated=True)


def said(*command: str | Path) -> list[str]:
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.split()


@pytest.mark.parametrize("command", ["plain", "linked", "long"])
def test_a_command_of_the_image_runs_on_the_jobs_python(
    venv: Path, tmp_path: Path, command: str
) -> None:
    pythons = JobPythons(Image(python=str(venv / "bin/python")), tmp_path)
    first, second = host(tmp_path), host(tmp_path, "algo-2")
    image, other = pythons.made_for(first), pythons.made_for(second)
    own = Path(image.folder) / command
    assert said(own) == ["image", str(first.environment)]
    (packages,) = first.environment.glob("lib/python*/site-packages")
    (packages / "word.py").write_text("WORD = 'job'")
    assert said(own) == ["job", str(first.environment)]
    assert said(Path(other.folder) / command) == ["image", str(second.environment)]
    assert said(venv / "bin" / command)[0] == "image"


@pytest.mark.parametrize("command", ["foreign", "shell"])
def test_another_command_stays_the_images(venv: Path, tmp_path: Path, command: str) -> None:
    image = JobPythons(Image(python=str(venv / "bin/python")), tmp_path).made_for(host(tmp_path))
    assert not (Path(image.folder) / command).exists()
    assert image.folders == [image.folder, str(venv / "bin")]


def test_a_command_that_comes_later_is_found_by_the_next_job(venv: Path, tmp_path: Path) -> None:
    pythons = JobPythons(Image(python=str(venv / "bin/python")), tmp_path)
    pythons.made_for(host(tmp_path))
    later = venv / "bin" / "later"
    later.write_text(f"#!{venv}/bin/python\n{SAYS}")
    later.chmod(0o755)
    os.utime(venv / "bin", ns=(1, 1))  # The clock of a folder may be coarse.
    image = pythons.made_for(host(tmp_path, "algo-2"))
    assert (Path(image.folder) / "later").exists()
    later.unlink()


def test_nothing_in_it_leads_to_the_environment_that_it_is_a_copy_of(
    venv: Path, tmp_path: Path
) -> None:
    """`source activate` would: what is installed there, every later job would have."""
    image = JobPythons(Image(python=str(venv / "bin/python")), tmp_path).made_for(host(tmp_path))
    pattern = str(tmp_path / ".python").encode()
    assert [
        file.name for file in Path(image.folder).iterdir() if pattern in file.read_bytes()
    ] == []


def test_a_path_of_the_image_means_the_job(venv: Path, tmp_path: Path) -> None:
    image = JobPythons(Image(python=str(venv / "bin/python")), tmp_path).made_for(host(tmp_path))
    own = image.folder
    for text, expected in (
        (f"{venv}/bin/python", f"{own}/python"),
        (f"exec {venv}/bin/plain --to /x", f"exec {own}/plain --to /x"),
        (f"{venv}/bin/foreign", f"{venv}/bin/foreign"),
        (f"{venv}/bin/python/x", f"{venv}/bin/python/x"),
        (f"/y{venv}/bin/python", f"/y{venv}/bin/python"),
        (str(venv), str(venv)),
    ):
        assert image.text(text) == expected


def test_a_python_that_can_make_none_fails_the_job(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no module named venv >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(JobInputError, match="no module named venv"):
        JobPythons(Image(python=str(broken)), tmp_path / "jobs").made_for(host(tmp_path))
