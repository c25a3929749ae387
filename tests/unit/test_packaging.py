"""What is installed and how: pinned versions, wheels, and none of our names for an index."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from slotq.version import __version__
from tests.texts import texts

ROOT = Path(__file__).parents[2]
OURS = {"slotq", "slotq-core", "slotq-training"}
NOT_PINNED = {"pip"}  # part of Python


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.skipif(Path(sys.prefix).name != ".venv", reason="not in what `make install` made")
def test_every_installed_version_is_pinned():
    text = (ROOT / "constraints/main.txt").read_text()
    pins = re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;\n]+)", text, re.MULTILINE)
    pinned = {(normal(name), version) for name, version in pins}
    installed = {(normal(dist.name), dist.version) for dist in distributions()}
    loose = {(name, version) for name, version in installed - pinned if name not in OURS}
    assert {name for name, _ in loose} <= NOT_PINNED, f"not pinned: {sorted(loose)}"


@pytest.mark.parametrize(
    "path",
    [
        "constraints/main.txt",
        "constraints/sagemaker3.txt",
        "constraints/audit.txt",
        "constraints/awscli.txt",
        "constraints/sam.txt",
        "constraints/toolkit.txt",
        "constraints/torch.txt",
        "layers/core/python/requirements.txt",
    ],
)
def test_pins_have_no_addresses(path):
    text = (ROOT / path).read_text()
    assert "://" not in text
    assert "--" not in text
    assert "@" not in text


LEFT_OUT = {"CHANGELOG.md", "pyproject.toml"}
OUR_NAME = r"slotq(?:-core|-training)?"
INSTALL = re.compile(r"\b(?:pip3?|pipx|uv)\b[\w .-]*? (?:install|add|download|inject)\b([^`\n]*)")
BARE = re.compile(rf"(?<![\w./@:=-]){OUR_NAME}(?![\w./-])(?:\[[\w,]*\])?+(?! @ )")
EXTRA = re.compile(rf"[\"'`]{OUR_NAME}\[[\w,]+\](?! @ )")
SAFE = re.compile(r"--no-index|--index-url")
"""With these pip asks no public index."""


def names_for_an_index(text: str) -> list[str]:
    """Commands that would ask an index for one of our packages, and extras by its bare name."""
    text = "\n".join(line for line in text.splitlines() if not SAFE.search(line))
    commands = [found[0] for found in INSTALL.finditer(text) if BARE.search(found[1])]
    return [*commands, *(found[0] for found in EXTRA.finditer(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install -U slotq; sam deploy", True),
        ("run python -m pip install slotq-core==0.2.0", True),
        ("uv pip install 'slotq[local]'", True),
        ("it needs " + "`slotq" + "[plot]`", True),
        ("pip install ./layers/core './client_sdk[local]'", False),
        (
            "pip install ./slotq_core-1.whl './slotq-1-py3-none-any.whl[local]'",
            False,
        ),
        ("pip install 'slotq[local] @ git+https://git.example/slotq.git'", False),
        ("pip install --no-index --find-links slotq-wheels 'slotq[plot]'", False),
        ("`pip install` that folder, and slotq finds it", False),
    ],
)
def test_a_name_for_an_index_is_found(text, found):
    assert bool(names_for_an_index(text)) is found


def test_no_hint_and_no_page_asks_an_index_for_our_packages():
    """A stranger who registers the name there would run code on our users' machines."""
    here = Path(__file__).resolve()
    found = {
        f"{path.relative_to(ROOT)}: {hint}"
        for path, text in texts()
        if path != here and path.name not in LEFT_OUT
        for hint in names_for_an_index(text)
    }
    assert found == set()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_no_wheels_are_made_without_the_page(tmp_path):
    make = [shutil.which("make"), "--assume-old", ".venv/installed", "wheels"]
    ran = subprocess.run(
        make, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode != 0
    assert "npm is missing: the wheel would have no page" in ran.stderr
    assert "pip wheel" not in ran.stdout


def test_the_page_for_teams_names_the_wheels_of_this_version():
    text = (ROOT / "docs" / "give-it-to-your-team.md").read_text()
    assert set(re.findall(r"\b\d+\.\d+\.\d+\b", text)) == {__version__}
